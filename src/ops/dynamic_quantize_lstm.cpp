#include "ops/support/elementwise.h"
#include "ops/support/onnx_dtype.h"
#include "ops/support/recurrent.h"

namespace kilter {
namespace {

/// Those of LSTM, then the parameters of its weights w and r.
enum Input : size_t { kX, kW, kR, kBias, kLens, kInitialH, kInitialC, kPeepholes, kWScale, kWZero, kRScale, kRZero };
constexpr size_t kInputs = 12;

/// Builds LSTMSteps from the product of the quantised x and w, and from r as integers with scales.
class Expansion {
 public:
  explicit Expansion(ExpandContext& ctx) : ctx_(ctx), b_(ctx.builder) {}

  std::vector<ValueId> run() {
    check();
    GraphBuilder::Options options;
    options.name = ctx_.node.name;
    options.domain = "kilter";
    options.opset = 1;
    options.output_count = 3;
    Attrs attrs = ctx_.node.attrs;
    attrs.erase("hidden_size");
    const ValueId scale = parameter(kR, kRScale, "the scale", "r");
    std::vector<ValueId> inputs = {project(), integers()};
    for (const size_t i : {kInitialH, kInitialC, kPeepholes, kLens}) inputs.push_back(ctx_.has(i) ? ctx_.in(i) : kNone);
    inputs.push_back(reshaped(ctx_.add("Expand", {scale, list({directions_, 1, columns_})}), {directions_, columns_}));
    return b_.add("LSTMSteps", std::move(inputs), std::move(attrs), options);
  }

 private:
  void check() {
    for (const size_t i : {kX, kW, kR, kWScale, kWZero, kRScale, kRZero}) {
      if (!ctx_.has(i)) node_error(ctx_.node, fmt::format("input {} is left out but required", i));
    }
    for (const auto& [i, what] : {std::pair(kW, "w"), std::pair(kR, "r")}) {
      if (const Shape& s = ctx_.type(i).shape; s.size() != 3) {
        node_error(ctx_.node, fmt::format("{} (input {}) has shape {}, expected [directions, inputs, 4 * hidden]", what,
                                          size_t{i}, text(s)));
      }
    }
    const Shape &x = ctx_.type(kX).shape, &w = ctx_.type(kW).shape, &r = ctx_.type(kR).shape;
    directions_ = r[0], hidden_ = r[1], columns_ = r[2];
    const bool fits = x.size() == 3 && w == Shape{directions_, x[2], columns_} && columns_ == 4 * hidden_;
    if (!fits || ctx_.node.int_attr("hidden_size", hidden_) != hidden_) {
      node_error(ctx_.node,
                 fmt::format("x, w and r have shapes {}, {} and {}, and hidden_size is {}; expected [steps, batch, "
                             "input], [directions, input, 4 * hidden] and [directions, hidden, 4 * hidden]",
                             text(x), text(w), text(r), ctx_.node.int_attr("hidden_size", hidden_)));
    }
    if (ctx_.has(kBias) && ctx_.type(kBias).shape != Shape{directions_, 2 * columns_}) {
      node_error(ctx_.node, fmt::format("bias (input {}) has shape {}, expected {}x{}", size_t{kBias},
                                        text(ctx_.type(kBias).shape), directions_, 2 * columns_));
    }
  }

  ValueId list(const Shape& values) { return b_.list(values); }
  ValueId reshaped(ValueId x, const Shape& shape) { return ctx_.add("Reshape", {x, list(shape)}); }

  /// Returns input p, a parameter of weights i, in a shape that broadcasts to theirs.
  ValueId parameter(size_t i, size_t p, const char* kind, const char* what) {
    const Shape &shape = ctx_.type(i).shape, &given = ctx_.type(p).shape;
    Shape to = {shape[0], 1, 1};
    if (given == Shape{shape[0], shape[2]}) {
      to[2] = shape[2];
    } else if (given != Shape{shape[0]} && given != Shape{shape[0], 1} && elems(given) * shape[0] != 1) {
      node_error(ctx_.node, fmt::format("{} of {} (input {}) has shape {}, expected {} or {}x{}: one element per "
                                        "direction or per column of the weights",
                                        kind, what, p, text(given), shape[0], shape[0], shape[2]));
    }
    return reshaped(ctx_.in(p), to);
  }

  /// Returns a parameter of w with one element for each column of the product.
  ValueId of_columns(size_t p, const char* kind) {
    const ValueId given = parameter(kW, p, kind, "w");
    return reshaped(ctx_.add("Expand", {given, list({directions_, 1, columns_})}), {directions_ * columns_});
  }

  /// Returns x times w plus both biases, as LSTMSteps expects it.
  ValueId project() {
    const Shape x = ctx_.type(kX).shape;
    const int64_t all = directions_ * columns_;
    const ValueId w = ctx_.add("Transpose", {ctx_.in(kW)}, {{"perm", std::vector<int64_t>{1, 0, 2}}});
    std::vector<ValueId> operands = {reshaped(ctx_.in(kX), {x[0] * x[1], x[2]}), reshaped(w, {x[2], all}),
                                     of_columns(kWScale, "the scale"), of_columns(kWZero, "the zero point")};
    if (ctx_.has(kBias)) {
      const ValueId pair = reshaped(ctx_.in(kBias), {directions_, 2, columns_});
      operands.push_back(reshaped(ctx_.add("ReduceSum", {pair, list({1})}), {all}));
    }
    GraphBuilder::Options options;
    options.name = ctx_.node.name;
    options.domain = "com.microsoft";
    const ValueId y = b_.add("DynamicQuantizeMatMul", std::move(operands), {}, options).front();
    return reshaped(y, {x[0], x[1], all});
  }

  /// Returns r without its scale as f32 [directions, 4 * hidden, hidden].
  ValueId integers() {
    const auto real = [&](ValueId v) { return ctx_.add("Cast", {v}, {{"to", code_of_dtype(DType::f32)}}); };
    const ValueId moved = ctx_.add("Sub", {real(ctx_.in(kR)), real(parameter(kR, kRZero, "the zero point", "r"))});
    return ctx_.add("Transpose", {moved}, {{"perm", std::vector<int64_t>{0, 2, 1}}});
  }

  ExpandContext& ctx_;
  GraphBuilder& b_;
  int64_t directions_ = 0, hidden_ = 0, columns_ = 0;  ///< columns: of a direction's weights
};

std::vector<ValueId> expand(ExpandContext& ctx) { return Expansion(ctx).run(); }

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
        "[directions, 4 * hidden]. x is quantised as by DynamicQuantizeLinear, h is not.",
    .expand = expand,
    .tolerance = {.rtol = 1e-4, .atol = 1e-5},
    .cases =
        {("f32[5,3,7] i8[1,7,36] i8[1,9,36] f32[1,72] ? ? ? ? f32[1]=0.01 i8[1]=50 f32[1]=0.02 i8[1]=49 | "
          "hidden_size=9 | | 3"),
         ("f32[4,2,3] u8[2,3,20] u8[2,5,20] f32[2,40] i32[2]=4,2 f32[2,2,5] f32[2,2,5] f32[2,15] f32[2,20] u8[2,20] "
          "f32[2,20] u8[2,20] | hidden_size=5 direction=bidirectional | | 3"),
         ("f32[2,4,3] i8[1,3,20] i8[1,5,20] ? ? ? ? ? f32[1,20]=0.01 i8[1,20]=50 f32[1]=0.01 i8[1]=50 | "
          "direction=reverse "
          "clip=0.5 input_forget=1 hidden_size=5"),
         "f32[5,3,7] i8[1,7,156] i8[1,39,156] f32[1,312] ? ? ? ? f32[1]=0.01 i8[1]=0 f32[1]=0.01 i8[1]=0 | | | 3",
         ("f32[3,1,5] i8[2,5,64] u8[2,16,64] f32[2,128] ? f32[2,1,16] f32[2,1,16] f32[2,48] f32[2]=0.01 i8[2]=0 "
          "f32[2]=0.01 u8[2]=128 | direction=bidirectional | | 3"),
         ("f32[4,2,3] i8[1,3,260] i8[1,65,260] f32[1,520] i32[2]:4,2 ? ? ? f32[1,260] i8[1]=0 f32[1,260] i8[1]=0 | | | "
          "3")},
};

}  // namespace kilter
