#include "ops/recurrent.h"

namespace kilter {
namespace {

void infer(InferContext& ctx) { infer_recurrent(ctx, 3); }

/// Gates in the order update, reset, hidden.
void reference(ReferenceContext& ctx) {
  const bool linear_before_reset = ctx.node.int_attr("linear_before_reset", 0) != 0;
  run_recurrent(ctx, 3, {"Sigmoid", "Tanh"},
                [&](const Direction& at, const double* x, std::vector<double>& h, std::vector<double>&) {
                  const auto hidden = static_cast<int64_t>(h.size());
                  std::vector<double> update(h.size()), reset(h.size()), next(h.size());
                  std::vector<double> kept = h;  // what the hidden gate sees of the state
                  for (size_t i = 0; i < h.size(); ++i) {
                    const auto row = static_cast<int64_t>(i);
                    update[i] = at.f[0](at.clipped(at.from_input(row, x) + at.from_state(row, h.data())));
                    reset[i] =
                        at.f[0](at.clipped(at.from_input(hidden + row, x) + at.from_state(hidden + row, h.data())));
                    if (!linear_before_reset) kept[i] *= reset[i];
                  }
                  for (size_t i = 0; i < h.size(); ++i) {
                    const int64_t row = 2 * hidden + static_cast<int64_t>(i);
                    const double state = at.from_state(row, kept.data()) * (linear_before_reset ? reset[i] : 1.0);
                    const double candidate = at.f[1](at.clipped(at.from_input(row, x) + state));
                    next[i] = (1 - update[i]) * candidate + update[i] * h[i];
                  }
                  h.swap(next);
                });
}

int64_t flops(const OpView& view) { return recurrent_flops(view, 3); }

}  // namespace

KILTER_OP(GRU){
    .name = "GRU",
    .since = 7,
    .min_inputs = 3,
    .max_inputs = 6,
    .max_outputs = 2,
    .attrs = recurrent_attrs({{"linear_before_reset", "int", "0"}}),
    .summary =
        "Gated recurrent unit over x [steps, batch, input], gates update, reset, hidden, forward, reverse or both: y "
        "[steps, directions, batch, hidden] and the last h.",
    .infer = infer,
    .reference = reference,
    .flops = flops,
    // Errors pass from step to step.
    .tolerance = {.rtol = 1e-4, .atol = 1e-5},
    .cases =
        {"f32[5,3,7] f32[1,27,7] f32[1,27,9] f32[1,54] | hidden_size=9 | | 2",
         "f32[4,2,3] f32[2,15,3] f32[2,15,5] f32[2,30] i32[2]=4,2 f32[2,2,5] | hidden_size=5 direction=bidirectional "
         "linear_before_reset=1 | 7 | 2",
         "f32[2,4,3] f32[1,15,3] f32[1,15,5] | layout=1 direction=reverse clip=0.5"},
};

}  // namespace kilter
