#include <algorithm>
#include <array>
#include <cmath>

#include "ops/support/old_form.h"
#include "ops/support/recurrent.h"

namespace kilter {
namespace {

constexpr int32_t kNextOpset = 7;

std::vector<ValueId> expand_batch_normalization(ExpandContext& ctx) {
  if (ctx.node.int_attr("is_test", 0) == 0) {
    fail(
        ErrorKind::unsupported,
        "BatchNormalization '{}': is_test is 0, which means the training mode of opsets before 7; convert the model to "
        "opset 14 or newer, or export it for inference",
        ctx.node.name);
  }
  Attrs attrs = attrs_without(ctx.node, "is_test");
  attrs.erase("consumed_inputs");
  std::vector<ValueId> results = in_form_of(ctx, kNextOpset, ctx.node.inputs, std::move(attrs));
  results.resize(5, kNone);
  return results;
}

std::vector<ValueId> expand_cast(ExpandContext& ctx) {
  constexpr std::array<std::string_view, 17> kNames = {
      "UNDEFINED", "FLOAT",   "UINT8",  "INT8",   "UINT16", "INT16",     "INT32",      "INT64",   "STRING",
      "BOOL",      "FLOAT16", "DOUBLE", "UINT32", "UINT64", "COMPLEX64", "COMPLEX128", "BFLOAT16"};
  const std::string to = ctx.node.string_attr("to", "");
  const auto at = std::find(kNames.begin() + 1, kNames.end(), to);
  if (at == kNames.end()) {
    node_error(ctx.node, fmt::format("attribute to is '{}'; legal values are names such as FLOAT, INT64 and BOOL", to));
  }
  return in_form_of(ctx, kNextOpset, {ctx.in(0)}, {{"to", int64_t{at - kNames.begin()}}});
}

std::vector<ValueId> expand_concat(ExpandContext& ctx) {
  return in_form_of(ctx, kNextOpset, ctx.node.inputs, {{"axis", ctx.node.int_attr("axis", 1)}});
}

std::vector<ValueId> expand_gemm(ExpandContext& ctx) {
  return in_form_of(ctx, kNextOpset, ctx.node.inputs, attrs_without(ctx.node, "broadcast"));
}

/// p was a number with a fraction. Only whole ones have a newer form.
std::vector<ValueId> expand_norm_pool(ExpandContext& ctx) {
  const float p = ctx.node.float_attr("p", 2);
  constexpr float kMost = 1 << 20;
  if (!(p >= 1 && p <= kMost) || p != std::floor(p)) {
    node_error(ctx.node, fmt::format("attribute p is {}; expected a whole number of 1 or more", p));
  }
  Attrs attrs = ctx.node.attrs;
  attrs["p"] = static_cast<int64_t>(p);
  return in_form_of(ctx, kNextOpset, {ctx.in(0)}, std::move(attrs));
}

std::vector<ValueId> expand_pad(ExpandContext& ctx) {
  Attrs attrs = attrs_without(ctx.node, "paddings");
  attrs["pads"] = ctx.node.ints_attr("paddings");
  return in_form_of(ctx, kNextOpset, {ctx.in(0)}, std::move(attrs));
}

/// A slope of more than one element is one for each channel.
std::vector<ValueId> expand_prelu(ExpandContext& ctx) {
  ValueId slope = ctx.in(1);
  const Shape& shape = ctx.type(1).shape;
  const size_t rank = ctx.type(0).shape.size();
  if (shape.size() == 1 && rank > 2) {
    Shape aligned(rank - 1, 1);
    aligned[0] = shape[0];
    slope = ctx.add("Reshape", {slope, ctx.builder.list(aligned)});
  }
  return in_form_of(ctx, kNextOpset, {ctx.in(0), slope}, {});
}

std::vector<ValueId> expand_reshape(ExpandContext& ctx) {
  return in_form_of(ctx, kNextOpset, {ctx.in(0), ctx.builder.list(ctx.node.ints_attr("shape"))}, {});
}

/// Returns the constant number in input i. Throws ShapeNeedsValue if it is not known at compile time.
int64_t constant_number(ExpandContext& ctx, size_t i) {
  const Value& value = ctx.builder.graph().value(ctx.in(i));
  if (!value.constant) throw ShapeNeedsValue{ctx.in(i), label(ctx.node)};
  if (value.constant->elems() != 1 || value.constant->dtype() == DType::string) {
    node_error(ctx.node, fmt::format("input {} is {}, expected a scalar", i, text(value.type)));
  }
  return value.constant->as_int(0);
}

std::vector<ValueId> expand_tile(ExpandContext& ctx) {
  const size_t rank = ctx.type(0).shape.size();
  const int64_t tiles = constant_number(ctx, 1);
  const int64_t axis = normal_axis(ctx.node, constant_number(ctx, 2), static_cast<int64_t>(rank));
  std::vector<int64_t> repeats(rank, 1);
  repeats[static_cast<size_t>(axis)] = tiles;
  return in_form_of(ctx, kNextOpset, {ctx.in(0), ctx.builder.list(repeats)}, {});
}

std::vector<ValueId> expand_upsample(ExpandContext& ctx) {
  const std::vector<float> scales = {1, 1, ctx.node.float_attr("height_scale", 1),
                                     ctx.node.float_attr("width_scale", 1)};
  return in_form_of(ctx, kNextOpset, {ctx.in(0)},
                    {{"scales", scales}, {"mode", ctx.node.string_attr("mode", "nearest")}});
}

/// Drops output_sequence: whether the first output is wanted also follows from its name.
template <size_t outputs>
std::vector<ValueId> expand_recurrent(ExpandContext& ctx) {
  return in_form_of(ctx, kNextOpset, ctx.node.inputs, attrs_without(ctx.node, "output_sequence"), outputs);
}

std::vector<AttrSpec> old_recurrent_attrs(std::vector<AttrSpec> own) {
  own.push_back({"output_sequence", "int", "0"});
  return recurrent_attrs(own);
}

}  // namespace

KILTER_OP(OldBatchNormalization){
    .name = "BatchNormalization",
    .until = kLastOldOpset,
    .min_inputs = 5,
    .max_inputs = 5,
    .max_outputs = 5,
    .attrs = {{"consumed_inputs", "ints", ""},
              {"epsilon", "float", "1e-5"},
              {"is_test", "int", "0"},
              {"momentum", "float", "0.9"},
              {"spatial", "int", "1"}},
    .summary = "The form of opset 7 with is_test=1.",
    .expand = expand_batch_normalization,
    .cases = {"f32[2,3,5] f32[3] f32[3] f32[3] f32[3]=0.5 | is_test=1 | 6"},
};

KILTER_OP(OldCast){
    .name = "Cast",
    .until = 5,
    .attrs = {{"to", "string", "required"}},
    .summary = "The form of opset 6, with the name of the element type.",
    .expand = expand_cast,
    .cases = {"f32[3]:1.5,-2,3 | to=INT32 | 1"},
};

KILTER_OP(OldConcat){
    .name = "Concat",
    .until = 3,
    .max_inputs = -1,
    .attrs = {{"axis", "int", "1"}},
    .summary = "The form of opset 4, with axis 1 as the default.",
    .expand = expand_concat,
    .cases = {"f32[2,3] f32[2,4] | | 1"},
};

KILTER_OP(OldGemm){
    .name = "Gemm",
    .until = kLastOldOpset,
    .min_inputs = 3,
    .max_inputs = 3,
    .attrs = {{"alpha", "float", "1.0"},
              {"beta", "float", "1.0"},
              {"broadcast", "int", "0"},
              {"transA", "int", "0"},
              {"transB", "int", "0"}},
    .summary = "The form of opset 7; whether c may broadcast does not matter.",
    .expand = expand_gemm,
    .tolerance = {.rtol = 1e-4, .atol = 1e-5},
    .cases = {"f32[3,4] f32[4,5] f32[5] | broadcast=1 beta=0.5 | 6"},
};

KILTER_OP(OldLpPool){
    .name = "LpPool",
    .until = 1,
    .attrs = {{"auto_pad", "string", "NOTSET"},
              {"kernel_shape", "ints", ""},
              {"p", "float", "2.0"},
              {"pads", "ints", ""},
              {"strides", "ints", ""}},
    .summary = "The form of opset 2, for whole p.",
    .expand = expand_norm_pool,
    .tolerance = {.rtol = 1e-4, .atol = 1e-6},
    .cases = {"f32[1,2,5,5] | kernel_shape=[2,2] p=3.0 | 1"},
};

KILTER_OP(OldGlobalLpPool){
    .name = "GlobalLpPool",
    .until = 1,
    .attrs = {{"p", "float", "2.0"}},
    .summary = "The form of opset 2, for whole p.",
    .expand = expand_norm_pool,
    .tolerance = {.rtol = 1e-4, .atol = 1e-6},
    .cases = {"f32[1,2,5,5] | | 1"},
};

KILTER_OP(OldPad){
    .name = "Pad",
    .until = 1,
    .attrs = {{"mode", "string", "constant"}, {"paddings", "ints", "required"}, {"value", "float", "0"}},
    .summary = "The form of opset 2, with another name for pads.",
    .expand = expand_pad,
    .cases = {"f32[2,3] | paddings=[0,1,1,0] value=2.0 | 1"},
};

KILTER_OP(OldPRelu){
    .name = "PRelu",
    .until = kLastOldOpset,
    .min_inputs = 2,
    .max_inputs = 2,
    .attrs = {{"consumed_inputs", "ints", ""}},
    .summary = "The form of opset 7, with one slope, or one for each channel of x [N, C, ...].",
    .expand = expand_prelu,
    .cases = {"f32[2,3,5,5] f32[3] | | 6", "f32[2,3] f32[1] | | 1"},
};

KILTER_OP(OldReshape){
    .name = "Reshape",
    .until = 4,
    .attrs = {{"consumed_inputs", "ints", ""}, {"shape", "ints", "required"}},
    .summary = "The form of opset 5, with the shape as an attribute.",
    .expand = expand_reshape,
    .cases = {"f32[2,3] | shape=[3,-1] | 1"},
};

KILTER_OP(OldTile){
    .name = "Tile",
    .until = 5,
    .min_inputs = 3,
    .max_inputs = 3,
    .summary = "x repeated `tiles` times (input 1) along an axis (input 2), both constant.",
    .expand = expand_tile,
    .shape_operands = {1, 2},
    .cases = {"f32[2,3] i64[]=2 i64[]=1 | | 1"},
};

KILTER_OP(OldUpsample){
    .name = "Upsample",
    .until = kLastOldOpset,
    .attrs = {{"height_scale", "float", "required"},
              {"mode", "string", "nearest"},
              {"width_scale", "float", "required"}},
    .summary = "The form of opset 7 for x [N, C, H, W].",
    .expand = expand_upsample,
    .tolerance = {.rtol = 1e-4, .atol = 1e-5},
    .cases = {"f32[1,2,3,3] | height_scale=2.0 width_scale=3.0 | 1"},
};

KILTER_OP(OldGRU){
    .name = "GRU",
    .until = kLastOldOpset,
    .min_inputs = 3,
    .max_inputs = 6,
    .max_outputs = 2,
    .attrs = old_recurrent_attrs({{"linear_before_reset", "int", "0"}}),
    .summary = "The form of opset 7; output_sequence has no effect.",
    .expand = expand_recurrent<2>,
    .tolerance = {.rtol = 1e-4, .atol = 1e-5},
    .cases = {"f32[3,2,4] f32[1,15,4] f32[1,15,5] | hidden_size=5 output_sequence=1 | 3 | 2",
              "f32[3,2,4] f32[1,15,4] f32[1,15,5] f32[1,30] i32[2]=3,2 f32[1,2,5] | hidden_size=5 | 3"},
};

KILTER_OP(OldLSTM){
    .name = "LSTM",
    .until = kLastOldOpset,
    .min_inputs = 3,
    .max_inputs = 8,
    .max_outputs = 3,
    .attrs = old_recurrent_attrs({{"input_forget", "int", "0"}}),
    .summary = "The form of opset 7; output_sequence has no effect.",
    .expand = expand_recurrent<3>,
    .tolerance = {.rtol = 1e-4, .atol = 1e-5},
    .cases =
        {"f32[3,2,4] f32[1,20,4] f32[1,20,5] | hidden_size=5 output_sequence=1 | 1 | 3",
         "f32[3,2,4] f32[1,20,4] f32[1,20,5] f32[1,40] i32[2]=3,2 f32[1,2,5] f32[1,2,5] f32[1,15] | hidden_size=5 | 1"},
};

KILTER_OP(OldRNN){
    .name = "RNN",
    .until = kLastOldOpset,
    .min_inputs = 3,
    .max_inputs = 6,
    .max_outputs = 2,
    .attrs = old_recurrent_attrs({}),
    .summary = "The form of opset 7; output_sequence has no effect.",
    .expand = expand_recurrent<2>,
    .tolerance = {.rtol = 1e-4, .atol = 1e-5},
    .cases = {"f32[3,2,4] f32[1,5,4] f32[1,5,5] | hidden_size=5 output_sequence=1 | 6 | 2",
              "f32[3,2,4] f32[1,5,4] f32[1,5,5] f32[1,10] i32[2]=3,2 f32[1,2,5] | hidden_size=5 | 6"},
};

}  // namespace kilter
