#include "ops/support/random_values.h"

namespace kilter {
namespace {

void infer(InferContext& ctx) { infer_random(ctx, DType::f32, ctx.node.ints_attr("shape")); }
void infer_like(InferContext& ctx) {
  infer_random(ctx, is_float(ctx.dtype(0)) ? ctx.dtype(0) : DType::f32, ctx.shape(0));
}

}  // namespace

KILTER_OP(RandomNormal){
    .name = "RandomNormal",
    .family = Family::reference,
    .min_inputs = 0,
    .max_inputs = 0,
    .attrs = {{"mean", "float", "0"},
              {"scale", "float", "1"},
              {"seed", "float", ""},
              {"shape", "ints", "required"},
              {"dtype", "int", "1"}},
    .summary =
        "Numbers drawn from N(mean, scale^2), of the shape that attribute `shape` gives; the same ones for the same "
        "seed.",
    .infer = infer,
    .reference = reference_random_normal,
    .deterministic = false,
    .cases = {"| shape=[2,3] seed=1.0", "| shape=[17] seed=2.5 mean=2.0 scale=0.5", "| shape=[] seed=0.0 dtype=11",
              "| shape=[7] seed=3.0 dtype=10"},
};

KILTER_OP(RandomNormalLike){
    .name = "RandomNormalLike",
    .family = Family::reference,
    .attrs = {{"mean", "float", "0"}, {"scale", "float", "1"}, {"seed", "float", ""}, {"dtype", "int", "0"}},
    .summary = "Numbers drawn from N(mean, scale^2), of the shape of input 0; the same ones for the same seed.",
    .infer = infer_like,
    .reference = reference_random_normal,
    .deterministic = false,
    .cases = {"f32[2,3] | seed=1.0", "f64[17] | seed=2.5 mean=2.0 scale=0.5", "i64[5] | seed=0.0",
              "f32[7] | seed=3.0 dtype=10"},
};

}  // namespace kilter
