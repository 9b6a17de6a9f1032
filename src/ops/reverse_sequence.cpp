#include "ops/support/indexing.h"

namespace kilter {
namespace {

struct Axes {
  size_t batch;
  size_t time;
};

Axes axes_of(const Node& node) {
  const int64_t batch = node.int_attr("batch_axis", 1);
  const int64_t time = node.int_attr("time_axis", 0);
  if ((batch != 0 || time != 1) && (batch != 1 || time != 0)) {
    node_error(node, fmt::format("batch_axis is {} and time_axis is {}; one must be 0 and the other 1", batch, time));
  }
  return {static_cast<size_t>(batch), static_cast<size_t>(time)};
}

void infer(InferContext& ctx) {
  const Axes axes = axes_of(ctx.node);
  if (ctx.rank(0) < 2) ctx.error(fmt::format("input 0 has rank {}, expected 2 or more", ctx.rank(0)));
  check_types(Types<int64_t>{}, ctx, 1);
  if (ctx.shape(1) != Shape{ctx.shape(0)[axes.batch]}) {
    ctx.error(fmt::format("sequence_lens has shape {}, expected {}, one for every batch", text(ctx.shape(1)),
                          ctx.shape(0)[axes.batch]));
  }
  infer_same(ctx);
}

void reference(ReferenceContext& ctx) {
  const Axes axes = axes_of(ctx.node);
  const Shape& shape = ctx.in(0).shape();
  const Shape strides = dense_strides(shape);
  const int64_t inner = product(shape, 2, shape.size());
  for (int64_t b = 0; b < shape[axes.batch]; ++b) {
    const int64_t length = ctx.in(1).as_int(b);
    if (length < 0 || length > shape[axes.time]) {
      fail(ErrorKind::bad_input, "ReverseSequence '{}': sequence_lens[{}] is {}; legal values are 0 to {}",
           ctx.node.name, b, length, shape[axes.time]);
    }
    for (int64_t t = 0; t < shape[axes.time]; ++t) {
      const int64_t from = t < length ? length - 1 - t : t;
      const int64_t base = b * strides[axes.batch];
      copy_elements(ctx.in(0), base + from * strides[axes.time], ctx.out(), base + t * strides[axes.time], inner);
    }
  }
}

}  // namespace

KILTER_OP(ReverseSequence){
    .name = "ReverseSequence",
    .since = 10,
    .min_inputs = 2,
    .max_inputs = 2,
    .attrs = {{"batch_axis", "int", "1"}, {"time_axis", "int", "0"}},
    .summary = "y = x with the first sequence_lens[b] steps along time_axis of every batch b in reverse order.",
    .infer = infer,
    .reference = reference,
    .tolerance = {.rtol = 0, .atol = 0},
    .cases = {"f32[4,4] i64[4]:4,3,2,1", "f32[3,7,5] i64[3]:0,7,4 | batch_axis=0 time_axis=1", "i64[17,1,2] i64[1]:17"},
};

}  // namespace kilter
