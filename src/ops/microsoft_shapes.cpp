// Operators of com.microsoft that ONNX has under the same or another name.
#include "ops/support/expander.h"
#include "ops/support/operands.h"

namespace kilter {
namespace {

class Expansion : Expander {
 public:
  explicit Expansion(ExpandContext& ctx) : Expander(ctx) {}

  ValueId same(std::string_view op) {
    std::vector<ValueId> inputs = node().inputs;
    return add(op, std::move(inputs), node().attrs);
  }

  ValueId expand_dims() { return add("Unsqueeze", {in(0), list({needed_int(1, "axis")})}); }

  ValueId range() {
    const ValueId step = has(2) ? one_element(2, "delta") : scalar(dtype(in(0)), 1);
    return add("Range", {one_element(0, "start"), one_element(1, "limit"), step});
  }

  ValueId pad() {
    const Shape pads = shape(in(1));
    if (pads.size() == 2 && pads[0] == 1) return padded(reshaped(in(1), {pads[1]}));
    return padded(in(1));
  }

  /// The distinct elements in the order of their first occurrence, the place of every element among them, and counts.
  std::vector<ValueId> unique() {
    if (shape(in(0)).size() != 1)
      error(fmt::format("the input has shape {}, expected one dimension", text(shape(in(0)))));
    const std::vector<ValueId> y = add_many("Unique", {in(0)}, {{"sorted", int64_t{0}}}, 4);
    return {y[0], y[2], y[3]};
  }

  ValueId grid_sample() {
    Attrs attrs = node().attrs;
    const std::string mode = node().string_attr("mode", "bilinear");
    attrs["mode"] = mode == "bilinear" ? "linear" : mode == "bicubic" ? std::string("cubic") : mode;
    return add("GridSample", {in(0), in(1)}, std::move(attrs));
  }

  ValueId embedding() { return add("Gather", {in(0), in(1)}); }

  /// All slices of `size` elements along an axis, `step` apart, along a new last axis.
  ValueId unfold() {
    const Shape x = shape(in(0));
    const auto rank = static_cast<int64_t>(x.size());
    const int64_t axis = normal_axis(node(), node().int_attr("dim", -1), rank);
    const int64_t extent = x[static_cast<size_t>(axis)];
    const int64_t size = node().int_attr("size", 1), step = node().int_attr("step", 1);
    if (size < 1 || size > extent || step < 1) {
      error(fmt::format("has size={} and step={}; legal values are 1 to {}, and 1 or more", size, step, extent));
    }
    const int64_t count = (extent - size) / step + 1;
    check_shape(node(), {count, size});
    Tensor index(DType::i64, {count, size});
    for (int64_t i = 0; i < count * size; ++i) index.data<int64_t>()[i] = i / size * step + i % size;
    const ValueId slices =
        add("Gather", {in(0), ctx_.builder.constant(std::move(index), node().name)}, {{"axis", axis}});
    std::vector<int64_t> perm;
    for (int64_t d = 0; d <= rank; ++d) {
      if (d != axis + 1) perm.push_back(d);
    }
    perm.push_back(axis + 1);
    return transposed(slices, perm);
  }

 private:
  ValueId padded(ValueId pads) {
    const ValueId value = has(2) ? one_element(2, "value") : kNone;
    return add("Pad", {in(0), pads, value}, node().attrs);
  }
};

std::vector<ValueId> expand_dims(ExpandContext& ctx) { return {Expansion(ctx).expand_dims()}; }
std::vector<ValueId> expand_range(ExpandContext& ctx) { return {Expansion(ctx).range()}; }
std::vector<ValueId> expand_pad(ExpandContext& ctx) { return {Expansion(ctx).pad()}; }
std::vector<ValueId> expand_unique(ExpandContext& ctx) { return Expansion(ctx).unique(); }
std::vector<ValueId> expand_trilu(ExpandContext& ctx) { return {Expansion(ctx).same("Trilu")}; }
std::vector<ValueId> expand_gather(ExpandContext& ctx) { return {Expansion(ctx).same("GatherND")}; }
std::vector<ValueId> expand_grid(ExpandContext& ctx) { return {Expansion(ctx).grid_sample()}; }
std::vector<ValueId> expand_embedding(ExpandContext& ctx) { return {Expansion(ctx).embedding()}; }
std::vector<ValueId> expand_unfold(ExpandContext& ctx) { return {Expansion(ctx).unfold()}; }

constexpr Tolerance kExact = {.rtol = 0, .atol = 0};

}  // namespace

KILTER_OP(ExpandDims){
    .name = "ExpandDims",
    .domain = "com.microsoft",
    .family = Family::reshape,
    .min_inputs = 2,
    .max_inputs = 2,
    .summary = "x with a dimension of 1 inserted at the axis that input 1 gives.",
    .expand = expand_dims,
    .shape_operands = {1},
    .tolerance = kExact,
    .cases = {"f32[2,3] i32[]=1", "f32[2,3] i32[]=-1"},
};

KILTER_OP(MicrosoftRange){
    .name = "Range",
    .domain = "com.microsoft",
    .min_inputs = 2,
    .max_inputs = 3,
    .summary = "The numbers from start (input 0) to before limit, in steps of delta, 1 if it is left out.",
    .expand = expand_range,
    .shape_operands = {0, 1, 2},
    .cases = {"i32[1]=2 i32[]=9", "f32[]=1 f32[1]=0 f32[1]=-0.25"},
};

KILTER_OP(MicrosoftPad){
    .name = "Pad",
    .domain = "com.microsoft",
    .family = Family::movement,
    .min_inputs = 2,
    .max_inputs = 3,
    .attrs = {{"mode", "string", "constant"}},
    .summary =
        "Pad of x by pads (input 1), one per axis and side, with value (input 2) or by reflection or repetition.",
    .expand = expand_pad,
    .shape_operands = {1},
    .tolerance = kExact,
    .cases = {"f32[2,3] i64[4]=0,2,1,-1 f32[1]=0.5", "f32[2,3] i64[1,4]=0,1,0,1 | mode=reflect"},
};

KILTER_OP(MicrosoftUnique){
    .name = "Unique",
    .domain = "com.microsoft",
    .min_outputs = 1,
    .max_outputs = 3,
    .summary =
        "The distinct elements of x in the order of their first occurrence, the place of every element among them, and "
        "their counts. The shape depends on the data.",
    .expand = expand_unique,
    .shape_operands = {0},
    .tolerance = kExact,
    .cases = {"f32[6]=2,1,1,3,4,3 | | | 3"},
};

KILTER_OP(MicrosoftTrilu){
    .name = "Trilu",
    .domain = "com.microsoft",
    .max_inputs = 2,
    .attrs = {{"upper", "int", "1"}},
    .summary = "The upper or lower triangle of each matrix of x, from diagonal k (input 1) on; other elements are 0.",
    .expand = expand_trilu,
    .tolerance = kExact,
    .cases = {"f32[2,3,4]", "f32[3,3] i64[1]=-1 | upper=0"},
};

KILTER_OP(MicrosoftGatherND){
    .name = "GatherND",
    .domain = "com.microsoft",
    .family = Family::gather,
    .min_inputs = 2,
    .max_inputs = 2,
    .summary = "The slices of x at the tuples of indices in the last dimension of input 1.",
    .expand = expand_gather,
    .tolerance = kExact,
    .cases = {"f32[2,3,4] i64[2,2]:0,1,1,2"},
};

KILTER_OP(MicrosoftGridSample){
    .name = "GridSample",
    .domain = "com.microsoft",
    .family = Family::sample,
    .min_inputs = 2,
    .max_inputs = 2,
    .attrs = {{"align_corners", "int", "0"}, {"mode", "string", "bilinear"}, {"padding_mode", "string", "zeros"}},
    .summary = "GridSample with the names bilinear and bicubic for the modes.",
    .expand = expand_grid,
    .tolerance = {.rtol = 1e-4, .atol = 1e-5},
    .cases = {"f32[1,2,4,5] f32[1,3,3,2]", "f32[1,2,4,5] f32[1,3,3,2] | mode=bicubic align_corners=1"},
};

KILTER_OP(TorchEmbedding){
    .name = "TorchEmbedding",
    .domain = "com.microsoft",
    .family = Family::gather,
    .min_inputs = 2,
    .max_inputs = 4,
    .summary = "The rows of a table at indices (input 1); the other inputs matter in training only.",
    .expand = expand_embedding,
    .tolerance = kExact,
    .cases = {"f32[5,3] i64[2,2]:0,4,1,2 i64[]=1"},
};

KILTER_OP(UnfoldTensor){
    .name = "UnfoldTensor",
    .domain = "com.microsoft",
    .family = Family::gather,
    .attrs = {{"dim", "int", "-1"}, {"size", "int", "required"}, {"step", "int", "1"}},
    .summary = "All slices of `size` elements along dimension dim, `step` apart, along a new last dimension.",
    .expand = expand_unfold,
    .tolerance = kExact,
    .cases = {"f32[2,7,3] | dim=1 size=3 step=2", "i64[8] | size=8"},
};

}  // namespace kilter
