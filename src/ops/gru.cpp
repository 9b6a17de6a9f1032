#include "ops/support/recurrent.h"

namespace kilter {
namespace {

/// The gates are ordered update, reset, hidden.
void reference(ReferenceContext& ctx) {
  const bool linear_before_reset = ctx.node.int_attr("linear_before_reset", 0) != 0;
  run_recurrent(ctx, [&](const Direction& at, const double* x, std::vector<double>& h, std::vector<double>&) {
    const auto hidden = static_cast<int64_t>(h.size());
    std::vector<double> update(h.size()), reset(h.size()), next(h.size());
    std::vector<double> kept = h;  // the part of the state that the hidden gate sees
    for (size_t i = 0; i < h.size(); ++i) {
      const auto row = static_cast<int64_t>(i);
      update[i] = at.f[0](at.clipped(at.from_input(row, x) + at.from_state(row, h.data())));
      reset[i] = at.f[0](at.clipped(at.from_input(hidden + row, x) + at.from_state(hidden + row, h.data())));
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

/// Sequences that end early, in both directions.
constexpr CaseText kLengths =
    "f32[4,2,3] f32[2,15,3] f32[2,15,5] f32[2,30] i32[2]=4,2 f32[2,2,5] "
    "| hidden_size=5 direction=bidirectional linear_before_reset=1 | 7 | 2";

}  // namespace

KILTER_OP(GRU){
    .name = "GRU",
    .since = 7,
    .family = Family::recurrent,
    .min_inputs = 3,
    .max_inputs = 6,
    .max_outputs = 2,
    .attrs = recurrent_attrs({{"linear_before_reset", "int", "0"}}),
    .summary =
        "Gated recurrent unit (gates in the order update, reset, hidden) over x [steps, batch, input], forward, "
        "reverse or both: y [steps, directions, batch, hidden] and the last h.",
    .infer = infer_recurrent,
    .reference = reference,
    .flops = recurrent_flops,
    // Errors propagate from step to step.
    .tolerance = {.rtol = 1e-4, .atol = 1e-5},
    .cases = {"f32[5,3,7] f32[1,27,7] f32[1,27,9] f32[1,54] | hidden_size=9 | | 2", kLengths,
              "f32[2,4,3] f32[1,15,3] f32[1,15,5] | layout=1 direction=reverse clip=0.5",
              "f32[2,13,24] f32[2,120,24] f32[2,120,40] f32[2,240] i32[13]=2 | direction=bidirectional | | 2",
              "f32[2,13,24] f32[2,120,24] f32[2,120,40] f32[2,240] | direction=bidirectional linear_before_reset=1",
              "f32[1,1,20] f32[1,225,20] f32[1,225,75] f32[1,450] ? f32[1,1,75] | linear_before_reset=1 | | 2",
              "f32[3,1,5] f32[1,9,5] f32[1,9,3] | activations=[Affine,Softsign] activation_alpha=[0.3]"},
};

KILTER_OP(GRUSteps){
    .name = "GRUSteps",
    .domain = "kilter",
    .family = Family::recurrent,
    .min_inputs = 2,
    .max_inputs = 5,
    .max_outputs = 2,
    .attrs = recurrent_attrs({{"linear_before_reset", "int", "0"}}),
    .summary =
        "GRU with an input that is already projected: x [steps, batch, directions * 3 * hidden] contains w x and all "
        "biases except hidden_bias; then r, initial_h, hidden_bias [directions, hidden] (the bias of r in the hidden "
        "gate, if linear_before_reset), sequence_lens. Created by the pass split_recurrent.",
    .infer = infer_recurrent,
    .reference = reference,
    .flops = recurrent_flops,
    .tolerance = {.rtol = 1e-4, .atol = 1e-5},
    .cases = {"f32[5,3,27] f32[1,27,9] | | | 2",
              "f32[3,4,234] f32[2,117,39] f32[2,4,39] f32[2,39] | direction=bidirectional linear_before_reset=1 | | 2",
              "f32[4,3,30] f32[2,15,5] f32[2,3,5] ? i32[3]:4,0,2 | direction=bidirectional | | 2",
              "f32[7,2,51] f32[1,51,17] f32[7,1,17] | layout=1 direction=reverse clip=0.5"},
};

}  // namespace kilter
