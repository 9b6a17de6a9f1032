#include "ops/support/recurrent.h"

namespace kilter {
namespace {

/// The gates are ordered input, output, forget, cell; peepholes input, output, forget.
void reference(ReferenceContext& ctx) {
  const bool coupled = ctx.node.int_attr("input_forget", 0) != 0;
  run_recurrent(ctx, [&](const Direction& at, const double* x, std::vector<double>& h, std::vector<double>& c) {
    const size_t hidden = h.size();
    std::vector<double> next(hidden);
    for (size_t i = 0; i < hidden; ++i) {
      const auto gate = [&](size_t g) {
        const auto row = static_cast<int64_t>(g * hidden + i);
        return at.from_input(row, x) + at.from_state(row, h.data());
      };
      const double* p = at.peephole.data() + i;
      const double input = at.f[0](at.clipped(gate(0) + p[0] * c[i]));
      const double forget = coupled ? 1 - input : at.f[0](at.clipped(gate(2) + p[2 * hidden] * c[i]));
      const double candidate = at.f[1](at.clipped(gate(3)));
      c[i] = forget * c[i] + input * candidate;
      next[i] = at.f[0](at.clipped(gate(1) + p[hidden] * c[i])) * at.f[2](c[i]);
    }
    h.swap(next);
  });
}

/// Sequences that end early, in both directions.
constexpr CaseText kLengths =
    "f32[4,2,3] f32[2,20,3] f32[2,20,5] f32[2,40] i32[2]=4,2 f32[2,2,5] f32[2,2,5] f32[2,15] "
    "| hidden_size=5 direction=bidirectional | 7 | 3";

}  // namespace

KILTER_OP(LSTM){
    .name = "LSTM",
    .since = 7,
    .family = Family::recurrent,
    .min_inputs = 3,
    .max_inputs = 8,
    .max_outputs = 3,
    .attrs = recurrent_attrs({{"input_forget", "int", "0"}}),
    .summary =
        "Long short-term memory (gates in the order input, output, forget, cell) over x [steps, batch, input], "
        "forward, reverse or both: y [steps, directions, batch, hidden] and the last h and c.",
    .infer = infer_recurrent,
    .reference = reference,
    .flops = recurrent_flops,
    // Errors propagate from step to step.
    .tolerance = {.rtol = 1e-4, .atol = 1e-5},
    .cases =
        {"f32[5,3,7] f32[1,36,7] f32[1,36,9] f32[1,72] | hidden_size=9 | | 3", kLengths,
         "f32[2,4,3] f32[1,20,3] f32[1,20,5] | layout=1 direction=reverse clip=0.5 input_forget=1",
         "f32[6,13,24] f32[2,160,24] f32[2,160,40] f32[2,320] i32[13]=6 | direction=bidirectional",
         "f32[1,1,20] f32[1,300,20] f32[1,300,75] f32[1,600] ? f32[1,1,75] f32[1,1,75] | | | 3",
         "f32[3,1,5] f32[1,12,5] f32[1,12,3] | activations=[HardSigmoid,Relu,ScaledTanh] activation_alpha=[0.3,1.5]"},
};

KILTER_OP(LSTMSteps){
    .name = "LSTMSteps",
    .domain = "kilter",
    .family = Family::recurrent,
    .min_inputs = 2,
    .max_inputs = 7,
    .max_outputs = 3,
    .attrs = recurrent_attrs({{"input_forget", "int", "0"}}),
    .summary =
        "LSTM with an input that is already projected: x [steps, batch, directions * 4 * hidden] contains w x and all "
        "biases; then r, initial_h, initial_c, peepholes, sequence_lens, r_scale (factors of the rows of r, which "
        "then contains integers). Created by the pass split_recurrent and by DynamicQuantizeLSTM.",
    .infer = infer_recurrent,
    .reference = reference,
    .flops = recurrent_flops,
    .tolerance = {.rtol = 1e-4, .atol = 1e-5},
    .cases = {"f32[5,3,36] f32[1,36,9] | | | 3",
              "f32[3,4,312] f32[2,156,39] f32[2,4,39] f32[2,4,39] f32[2,117] | direction=bidirectional | | 3",
              "f32[4,3,40] f32[2,20,5] f32[2,3,5] ? ? i32[3]:4,0,2 | direction=bidirectional | | 3",
              "f32[7,2,68] f32[1,68,17] ? f32[7,1,17] | layout=1 direction=reverse clip=0.5 input_forget=1",
              "f32[3,2,40] f32[2,20,5] ? ? ? ? f32[2,20] | direction=bidirectional | | 3"},
};

}  // namespace kilter
