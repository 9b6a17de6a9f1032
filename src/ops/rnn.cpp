#include "ops/support/recurrent.h"

namespace kilter {
namespace {

void reference(ReferenceContext& ctx) {
  run_recurrent(ctx, [](const Direction& at, const double* x, std::vector<double>& h, std::vector<double>&) {
    std::vector<double> next(h.size());
    for (size_t i = 0; i < h.size(); ++i) {
      const auto row = static_cast<int64_t>(i);
      next[i] = at.f[0](at.clipped(at.from_input(row, x) + at.from_state(row, h.data())));
    }
    h.swap(next);
  });
}

/// Sequences that end early, in both directions.
constexpr CaseText kLengths =
    "f32[4,2,3] f32[2,5,3] f32[2,5,5] ? i32[2]=4,2 f32[2,2,5] "
    "| hidden_size=5 direction=bidirectional | 7 | 2";

}  // namespace

KILTER_OP(RNN){
    .name = "RNN",
    .since = 7,
    .family = Family::recurrent,
    .min_inputs = 3,
    .max_inputs = 6,
    .max_outputs = 2,
    .attrs = recurrent_attrs({}),
    .summary =
        "h = f(W x + R h + bias) over x [steps, batch, input], forward, reverse or both: y [steps, directions, batch, "
        "hidden] and the last h.",
    .infer = infer_recurrent,
    .reference = reference,
    .flops = recurrent_flops,
    // Errors propagate from step to step.
    .tolerance = {.rtol = 1e-4, .atol = 1e-5},
    .cases = {"f32[5,3,7] f32[1,9,7] f32[1,9,9] f32[1,18] | hidden_size=9 | | 2", kLengths,
              "f32[2,4,3] f32[1,5,3] f32[1,5,5] | layout=1 direction=reverse clip=0.5",
              "f32[2,13,24] f32[2,40,24] f32[2,40,40] f32[2,80] i32[13]=2 f32[2,13,40] | direction=bidirectional | | 2",
              "f32[1,1,20] f32[1,300,20] f32[1,300,300] f32[1,600] ? f32[1,1,300] | activations=[Relu] | | 2",
              "f32[3,1,5] f32[1,33,5] f32[1,33,33] | activations=[Elu] activation_alpha=[0.7]",
              "f32[3,2,5] f32[2,3,5] f32[2,3,3] | direction=bidirectional activations=[LeakyRelu,ThresholdedRelu]",
              "f32[3,2,5] f32[1,3,5] f32[1,3,3] | activations=[Softplus]"},
};

KILTER_OP(RNNSteps){
    .name = "RNNSteps",
    .domain = "kilter",
    .family = Family::recurrent,
    .min_inputs = 2,
    .max_inputs = 4,
    .max_outputs = 2,
    .attrs = recurrent_attrs({}),
    .summary =
        "RNN with an input that is already projected: x [steps, batch, directions * hidden] contains w x and all "
        "biases; then r, initial_h, sequence_lens. Created by the pass split_recurrent.",
    .infer = infer_recurrent,
    .reference = reference,
    .flops = recurrent_flops,
    .tolerance = {.rtol = 1e-4, .atol = 1e-5},
    .cases = {"f32[5,3,9] f32[1,9,9] | | | 2", "f32[3,4,78] f32[2,39,39] f32[2,4,39] | direction=bidirectional | | 2",
              "f32[4,3,10] f32[2,5,5]=1 f32[2,3,5] i32[3]:4,0,2 | direction=bidirectional | | 2",
              "f32[7,2,17] f32[1,17,17] f32[7,1,17] | layout=1 direction=reverse clip=0.5"},
};

}  // namespace kilter
