#include "ops/support/elementwise.h"
#include "ops/support/fourier.h"
#include "ops/support/operands.h"

namespace kilter {
namespace {

struct Plan {
  int64_t step = 1;
  int64_t length = 0;
  int64_t frames = 0;
  int64_t bins = 0;
  int64_t parts = 1;  ///< 2 for complex signals
};

template <class Context>
Plan plan_of(const Context& ctx) {
  const Node& node = ctx.node;
  const Shape& x = shape_of(ctx, 0);
  Plan plan;
  if (x.size() == 3) plan.parts = x[2];
  if (x.size() < 2 || x.size() > 3 || (plan.parts != 1 && plan.parts != 2)) {
    node_error(node, fmt::format("signal has shape {}, expected [batch, length, 1 or 2] or [batch, length]", text(x)));
  }
  plan.step = operand_int(node, *operand(ctx, 1), "frame_step");
  plan.length = ctx.has(2) ? shape_of(ctx, 2).at(0) : x[1];
  if (const Tensor* given = operand(ctx, 3)) plan.length = operand_int(node, *given, "frame_length");
  if (ctx.has(2) && shape_of(ctx, 2) != Shape{plan.length}) {
    node_error(node, fmt::format("window has shape {}, expected {}", text(shape_of(ctx, 2)), plan.length));
  }
  if (plan.step < 1 || plan.length < 1 || plan.length > x[1]) {
    node_error(node, fmt::format("frame_step is {} and frame_length {}; legal values are 1 or more and 1 to {}",
                                 plan.step, plan.length, x[1]));
  }
  const bool half = node.int_attr("onesided", 1) != 0;
  if (half && plan.parts == 2) node_error(node, "onesided=1 needs a real signal, of shape [batch, length, 1]");
  plan.frames = (x[1] - plan.length) / plan.step + 1;
  plan.bins = half ? plan.length / 2 + 1 : plan.length;
  return plan;
}

void infer(InferContext& ctx) {
  check_types(Floats{}, ctx, 0);
  if (ctx.has(2) && (ctx.rank(2) != 1 || ctx.dtype(2) != ctx.dtype(0))) {
    ctx.error(fmt::format("window has type {}, expected one dimension of {}", text(ctx.type(2)), name(ctx.dtype(0))));
  }
  ctx.needed(1);
  const Plan plan = plan_of(ctx);
  ctx.set(0, ctx.dtype(0), {ctx.shape(0)[0], plan.frames, plan.bins, 2});
}

void reference(ReferenceContext& ctx) {
  const Plan plan = plan_of(ctx);
  const Shape& shape = ctx.in(0).shape();
  const std::vector<double> x = load_doubles(ctx.in(0));
  const std::vector<double> window =
      ctx.has(2) ? load_doubles(ctx.in(2)) : std::vector<double>(static_cast<size_t>(plan.length), 1.0);
  std::vector<double> y;
  for (int64_t b = 0; b < shape[0]; ++b) {
    for (int64_t f = 0; f < plan.frames; ++f) {
      std::vector<Complex> frame;
      for (int64_t n = 0; n < plan.length; ++n) {
        const double* at = x.data() + (b * shape[1] + f * plan.step + n) * plan.parts;
        frame.push_back(Complex(at[0], plan.parts == 2 ? at[1] : 0.0) * window[static_cast<size_t>(n)]);
      }
      const std::vector<Complex> spectrum = fourier(frame, false);
      for (int64_t k = 0; k < plan.bins; ++k) {
        y.push_back(spectrum[static_cast<size_t>(k)].real());
        y.push_back(spectrum[static_cast<size_t>(k)].imag());
      }
    }
  }
  store_doubles(ctx.out(), y);
}

}  // namespace

KILTER_OP(STFT){
    .name = "STFT",
    .since = 17,
    .min_inputs = 2,
    .max_inputs = 4,
    .attrs = {{"onesided", "int", "1"}},
    .summary =
        "Fourier transforms y [batch, frames, bins, 2] of the frames of a signal [batch, length, 1 or 2] or [batch, "
        "length], frame_step apart, each times window.",
    .infer = infer,
    .reference = reference,
    .shape_operands = {1, 3},
    .tolerance = {.rtol = 1e-4, .atol = 1e-5},
    .cases = {"f32[1,128,1] i64[]=8 f32[16]", "f32[2,50,1] i64[]=7 ? i64[]=15 | onesided=0",
              "f32[2,40] i64[]=8 f32[16]", "f32[2,900,1] i64[]=160 f32[400]=0.5",
              "f32[1,70] i64[]=9 ? i64[]=30 | onesided=0", "f32[1,40,2] i64[]=10 f32[12] i64[]=12 | onesided=0"},
};

}  // namespace kilter
