#include "ops/support/elementwise.h"
#include "ops/support/fourier.h"
#include "ops/support/operands.h"

namespace kilter {
namespace {

/// Transforms x [..., axis, ..., 1 or 2] to y [..., bins, ..., 1 or 2]. The last dimension contains the real and
/// imaginary parts.
struct Plan {
  int64_t axis = 0;
  int64_t length = 0;  ///< of the transform
  int64_t bins = 0;    ///< of the output
  bool inverse = false;
  bool half = false;  ///< spectra contain only the bins 0 to length / 2
  Shape out;
};

template <class Context>
Plan plan_of(const Context& ctx) {
  const Node& node = ctx.node;
  const Shape& x = shape_of(ctx, 0);
  const auto rank = static_cast<int64_t>(x.size());
  Plan plan;
  plan.inverse = node.int_attr("inverse", 0) != 0;
  plan.half = node.int_attr("onesided", 0) != 0;
  if (rank < 2 || (x.back() != 1 && x.back() != 2)) {
    node_error(node, fmt::format("input has shape {}, expected [..., 1] (real) or [..., 2] (complex)", text(x)));
  }
  if (plan.half && x.back() != (plan.inverse ? 2 : 1)) {
    node_error(node,
               fmt::format("onesided=1 needs {} input, got shape {}", plan.inverse ? "complex" : "real", text(x)));
  }
  // The axis is an operand since opset 20.
  int64_t axis = node.opset < 20 ? node.int_attr("axis", 1) : -2;
  if (const Tensor* given = operand(ctx, 2)) axis = operand_int(node, *given, "axis");
  plan.axis = normal_axis(node, axis, rank);
  if (plan.axis == rank - 1)
    node_error(node, "the last dimension contains real and imaginary parts and is not a legal axis");
  const int64_t extent = x[static_cast<size_t>(plan.axis)];
  plan.length = plan.half && plan.inverse ? 2 * (extent - 1) : extent;
  if (const Tensor* given = operand(ctx, 1)) plan.length = operand_int(node, *given, "dft_length");
  if (plan.length < 1) node_error(node, fmt::format("dft_length is {}, expected 1 or more", plan.length));
  plan.bins = plan.half && !plan.inverse ? plan.length / 2 + 1 : plan.length;
  plan.out = x;
  plan.out[static_cast<size_t>(plan.axis)] = plan.bins;
  plan.out.back() = plan.half && plan.inverse ? 1 : 2;
  check_shape(node, plan.out);
  return plan;
}

void infer(InferContext& ctx) {
  check_types(Floats{}, ctx, 0);
  ctx.set(0, ctx.dtype(0), plan_of(ctx).out);
}

/// Returns a signal of the plan's length: cut or padded with zeros. Half spectra are completed by conjugate symmetry.
std::vector<Complex> complete(const Plan& plan, std::vector<Complex> signal) {
  if (!(plan.half && plan.inverse)) {
    signal.resize(static_cast<size_t>(plan.length));
    return signal;
  }
  const auto length = static_cast<size_t>(plan.length);
  signal.resize(length / 2 + 1);
  signal[0].imag(0);
  if (length % 2 == 0) signal[length / 2].imag(0);
  for (size_t k = length / 2 + 1; k < length; ++k) signal.push_back(std::conj(signal[length - k]));
  return signal;
}

void reference(ReferenceContext& ctx) {
  const Plan plan = plan_of(ctx);
  const Shape& shape = ctx.in(0).shape();
  const std::vector<double> x = load_doubles(ctx.in(0));
  std::vector<double> y(static_cast<size_t>(ctx.out().elems()));
  const auto axis = static_cast<size_t>(plan.axis);
  const int64_t extent = shape[axis];
  const int64_t outer = product(shape, 0, axis);
  const int64_t inner = product(shape, axis + 1, shape.size() - 1);
  const int64_t parts = shape.back();
  const int64_t out_parts = plan.out.back();
  for (int64_t o = 0; o < outer; ++o) {
    for (int64_t i = 0; i < inner; ++i) {
      std::vector<Complex> signal;
      for (int64_t n = 0; n < extent; ++n) {
        const double* at = x.data() + ((o * extent + n) * inner + i) * parts;
        signal.emplace_back(at[0], parts == 2 ? at[1] : 0.0);
      }
      const std::vector<Complex> spectrum = fourier(complete(plan, std::move(signal)), plan.inverse);
      for (int64_t k = 0; k < plan.bins; ++k) {
        double* to = y.data() + ((o * plan.bins + k) * inner + i) * out_parts;
        to[0] = spectrum[static_cast<size_t>(k)].real();
        if (out_parts == 2) to[1] = spectrum[static_cast<size_t>(k)].imag();
      }
    }
  }
  store_doubles(ctx.out(), y);
}

}  // namespace

KILTER_OP(DFT){
    .name = "DFT",
    .since = 17,
    .max_inputs = 3,
    .attrs = {{"axis", "int", "1"}, {"inverse", "int", "0"}, {"onesided", "int", "0"}},
    .summary =
        "Discrete Fourier transform of x [..., 1] (real) or [..., 2] (complex) along an axis, cut or padded to "
        "dft_length; with onesided, only bins 0 to dft_length / 2, or a real result of the inverse.",
    .infer = infer,
    .reference = reference,
    .shape_operands = {1, 2},
    .tolerance = {.rtol = 1e-4, .atol = 1e-5},
    .cases = {"f32[2,10,1]", "f32[1,12,3,2] ? i64[]=1 | inverse=1", "f32[2,9,1] i64[]=16 | onesided=1",
              "f32[2,7,2] | onesided=1 inverse=1", "f32[1,5,17,1] | axis=2 | 17"},
};

}  // namespace kilter
