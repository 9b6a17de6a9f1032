#include "ops/recurrent.h"

namespace kilter {
namespace {

void infer(InferContext& ctx) { infer_recurrent(ctx, 1); }

void reference(ReferenceContext& ctx) {
  run_recurrent(ctx, 1, {"Tanh"},
                [](const Direction& at, const double* x, std::vector<double>& h, std::vector<double>&) {
                  std::vector<double> next(h.size());
                  for (size_t i = 0; i < h.size(); ++i) {
                    const auto row = static_cast<int64_t>(i);
                    next[i] = at.f[0](at.clipped(at.from_input(row, x) + at.from_state(row, h.data())));
                  }
                  h.swap(next);
                });
}

int64_t flops(const OpView& view) { return recurrent_flops(view, 1); }

}  // namespace

KILTER_OP(RNN){
    .name = "RNN",
    .since = 7,
    .min_inputs = 3,
    .max_inputs = 6,
    .max_outputs = 2,
    .attrs = recurrent_attrs({}),
    .summary =
        "h = f(W x + R h + bias) over x [steps, batch, input], forward, reverse or both: y [steps, directions, batch, "
        "hidden] and the last h.",
    .infer = infer,
    .reference = reference,
    .flops = flops,
    // Errors pass from step to step.
    .tolerance = {.rtol = 1e-4, .atol = 1e-5},
    .cases =
        {"f32[5,3,7] f32[1,9,7] f32[1,9,9] f32[1,18] | hidden_size=9 | | 2",
         "f32[4,2,3] f32[2,5,3] f32[2,5,5] ? i32[2]=4,2 f32[2,2,5] | hidden_size=5 direction=bidirectional | 7 | 2",
         "f32[2,4,3] f32[1,5,3] f32[1,5,5] | layout=1 direction=reverse clip=0.5"},
};

}  // namespace kilter
