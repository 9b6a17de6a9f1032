#include "ops/support/elementwise.h"
#include "ops/support/onnx_dtype.h"
#include "ops/support/recurrent.h"

namespace kilter {
namespace {

/// Those of LSTM, then the parameters of its weights w and r.
enum Input : size_t { kX, kW, kR, kBias, kLens, kInitialH, kInitialC, kPeepholes, kWScale, kWZero, kRScale, kRZero };
constexpr size_t kInputs = 12;

/// Returns weights i, which are [directions, inputs, 4 * hidden], as the f32 [directions, 4 * hidden, inputs] of LSTM.
ValueId weights(ExpandContext& ctx, size_t i, size_t scale, size_t zero, const char* what) {
  const Shape shape = ctx.type(i).shape;
  if (shape.size() != 3) {
    node_error(ctx.node, fmt::format("{} (input {}) has shape {}, expected [directions, inputs, 4 * hidden]", what, i,
                                     text(shape)));
  }
  const auto parameter = [&](size_t p, const char* kind) {
    const Shape& given = ctx.type(p).shape;
    Shape to = {shape[0], 1, 1};
    if (given == Shape{shape[0], shape[2]}) {
      to[2] = shape[2];
    } else if (given != Shape{shape[0]} && given != Shape{shape[0], 1} && elems(given) * shape[0] != 1) {
      node_error(ctx.node, fmt::format("{} of {} (input {}) has shape {}, expected {} or {}x{}: one element per "
                                       "direction or per column of the weights",
                                       kind, what, p, text(given), shape[0], shape[0], shape[2]));
    }
    return ctx.add("Reshape", {ctx.in(p), ctx.builder.list(to)});
  };
  const ValueId real = ctx.builder.add_kilter(
      "Dequantize", {ctx.in(i), parameter(scale, "the scale"), parameter(zero, "the zero point")},
      {{"to", code_of_dtype(DType::f32)}}, ctx.node.name);
  return ctx.add("Transpose", {real}, {{"perm", std::vector<int64_t>{0, 2, 1}}});
}

std::vector<ValueId> expand(ExpandContext& ctx) {
  for (const size_t i : {kX, kW, kR, kWScale, kWZero, kRScale, kRZero}) {
    if (!ctx.has(i)) node_error(ctx.node, fmt::format("input {} is left out but required", i));
  }
  std::vector<ValueId> inputs = {ctx.in(kX), weights(ctx, kW, kWScale, kWZero, "w"),
                                 weights(ctx, kR, kRScale, kRZero, "r")};
  for (size_t i = kBias; i <= kPeepholes; ++i) inputs.push_back(ctx.has(i) ? ctx.in(i) : kNone);
  GraphBuilder::Options options;
  options.name = ctx.node.name;
  options.output_count = 3;
  return ctx.builder.add("LSTM", std::move(inputs), ctx.node.attrs, options);
}

std::vector<AttrSpec> attrs() {
  std::vector<AttrSpec> specs = recurrent_attrs({{"input_forget", "int", "0"}});
  std::erase_if(specs, [](const AttrSpec& spec) { return spec.name == "layout"; });
  return specs;
}

}  // namespace

KILTER_OP(DynamicQuantizeLSTM){
    .name = "DynamicQuantizeLSTM",
    .domain = "com.microsoft",
    .family = Family::recurrent,
    .min_inputs = 3,
    .max_inputs = kInputs,
    .max_outputs = 3,
    .attrs = attrs(),
    .summary =
        "LSTM whose weights w [directions, input, 4 * hidden] and r [directions, hidden, 4 * hidden] are i8 or u8; "
        "inputs 0 to 7 as those of LSTM, then w_scale, w_zero_point, r_scale, r_zero_point, each [directions] or "
        "[directions, 4 * hidden]. x and h are not quantised.",
    .expand = expand,
    .tolerance = {.rtol = 1e-4, .atol = 1e-5},
    .cases =
        {"f32[5,3,7] i8[1,7,36] i8[1,9,36] f32[1,72] ? ? ? ? f32[1]=0.01 i8[1]=50 f32[1]=0.02 i8[1]=49 | "
         "hidden_size=9 | | 3",
         "f32[4,2,3] u8[2,3,20] u8[2,5,20] f32[2,40] i32[2]=4,2 f32[2,2,5] f32[2,2,5] f32[2,15] f32[2,20] u8[2,20] "
         "f32[2,20] u8[2,20] | hidden_size=5 direction=bidirectional | | 3",
         "f32[2,4,3] i8[1,3,20] i8[1,5,20] ? ? ? ? ? f32[1,20]=0.01 i8[1,20]=50 f32[1]=0.01 i8[1]=50 | "
         "direction=reverse "
         "clip=0.5 input_forget=1 hidden_size=5"},
};

}  // namespace kilter
