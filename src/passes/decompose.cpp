// Rewrites operators without a template into operators that have one.

#include <optional>

#include "ops/support/indexing.h"
#include "ops/support/window.h"
#include "passes/rewrite.h"
#include "schedule/emit.h"

namespace kilter {
namespace {

constexpr int64_t kMostMade = 16 << 20;  ///< elements of a constant that a rewrite may create

// Reasons of more than one rewrite.
constexpr std::string_view kNotF32 = "its input is not f32", kEmpty = "it has no elements",
                           kTooLarge = "it would need a constant of more than 16 Mi elements";

class Decomposer : public RewritePass<Decomposer> {
 public:
  using RewritePass::RewritePass;

  static std::string_view pass() { return "decompose"; }
  static std::span<const RewriteRow<Decomposer>> rows();
  bool looks_at(const Node& /*node*/) const { return true; }

  void run() {
    sweep(true);
    finish();
  }

 private:
  ValueId scaled(ValueId x, double factor, const std::string& name) {
    return factor == 1 ? x : b_.add("Mul", {x, b_.constant(Tensor::scalar(static_cast<float>(factor)))}, {}, name);
  }

  /// x^power for non-negative x, by square roots for powers that allow it.
  ValueId raised(ValueId x, double power, const std::string& name) {
    if (power == 1) return x;
    if (power == 2) return b_.add("Mul", {x, x}, {}, name);
    if (power == 0.5) return b_.add("Sqrt", {x}, {}, name);
    if (power == 0.75) {
      const ValueId root = b_.add("Sqrt", {x}, {}, name + ".root");
      return b_.add("Mul", {root, b_.add("Sqrt", {root}, {}, name + ".root")}, {}, name);
    }
    return b_.add("Pow", {x, b_.constant(Tensor::scalar(static_cast<float>(power)))}, {}, name);
  }

  /// Leaves pools with ceil_mode unchanged: windows that reach beyond the padding have fewer taps than others.
  Patch local_lp_pool(const Node& node) { return lp_pool(node, false); }
  Patch global_lp_pool(const Node& node) { return lp_pool(node, true); }
  Patch lp_pool(const Node& node, bool global) {
    const Shape& shape = type(node.inputs[0]).shape;
    if (!f32(node.inputs[0])) return no(kNotF32);
    if (shape.size() < 3) return no("its input has no spatial axes");
    if (node.int_attr("ceil_mode", 0) != 0) return no("ceil_mode is set");
    const auto p = static_cast<double>(node.int_attr("p", 2));
    ValueId x = node.inputs[0];
    if (p != 2) x = b_.add("Abs", {x}, {}, node.name + ".abs");
    x = raised(x, p, node.name + ".power");
    if (global) {
      std::vector<int64_t> axes;
      for (size_t d = 2; d < shape.size(); ++d) axes.push_back(static_cast<int64_t>(d));
      const ValueId total = b_.add("ReduceSum", {x, b_.list(axes, node.name + ".axes")}, {}, node.name);
      return raised(total, 1 / p, node.name + ".root");
    }
    Attrs attrs = node.attrs;
    attrs.erase("p");
    attrs["count_include_pad"] = int64_t{1};
    double taps = 1;
    for (const int64_t extent : node.ints_attr("kernel_shape")) taps *= static_cast<double>(extent);
    const ValueId mean = b_.add("AveragePool", {x}, attrs, node.name);
    return raised(scaled(mean, taps, node.name + ".sum"), 1 / p, node.name + ".root");
  }

  /// Rewrites LRN: the sum over neighbouring channels is a 1x1 convolution.
  Patch local_response(const Node& node) {
    const Shape& shape = type(node.inputs[0]).shape;
    const int64_t size = node.int_attr("size", 1);
    if (!f32(node.inputs[0]) || shape.size() != 4) return no("its input is not f32 images");
    if (shape[1] * shape[1] > kMostMade) return no(kTooLarge);
    const int64_t channels = shape[1];
    const float weight = node.float_attr("alpha", 1e-4F) / static_cast<float>(size);
    Tensor near(DType::f32, {channels, channels, 1, 1});
    for (int64_t c = 0; c < channels; ++c) {
      for (int64_t k = 0; k < channels; ++k)
        near.data<float>()[c * channels + k] = k >= c - (size - 1) / 2 && k <= c + size / 2 ? weight : 0;
    }
    const ValueId x = node.inputs[0], bias = b_.constant(Tensor::scalar(node.float_attr("bias", 1.0F)));
    const ValueId sum = b_.add("Conv", {b_.add("Mul", {x, x}, {}, node.name + ".square"), b_.constant(near)},
                               {{"kernel_shape", std::vector<int64_t>{1, 1}}}, node.name + ".sum");
    const ValueId base = b_.add("Add", {sum, bias}, {}, node.name + ".base");
    const double beta = node.float_attr("beta", 0.75F);
    return b_.add("Div", {x, raised(base, beta, node.name + ".power")}, {}, node.name);
  }

  Patch triangle(const Node& node) {
    const TensorType& x = type(node.inputs[0]);
    const Tensor* given = constant(node.input(1));
    const int64_t columns = x.shape.back(), rows = x.shape[x.shape.size() - 2];
    if (node.input(1) != kNone && given == nullptr) return no("k is not constant");
    if (!is_arithmetic(x.dtype)) return no("its elements are strings or of a narrow type");
    if (rows * columns > kMostMade) return no(kTooLarge);
    if (elems(x.shape) == 0) return no(kEmpty);
    const int64_t k = given != nullptr ? given->as_int(0) : 0;
    const bool upper = node.int_attr("upper", 1) != 0;
    Tensor mask(DType::boolean, {rows, columns});
    for (int64_t i = 0; i < rows * columns; ++i)
      mask.data<bool>()[i] = upper ? i % columns - i / columns >= k : i % columns - i / columns <= k;
    const ValueId zero = b_.constant(Tensor(x.dtype, {}));
    return b_.add("Where", {b_.constant(mask, node.name + ".mask"), node.inputs[0], zero}, {}, node.name);
  }

  Patch one_hot(const Node& node) {
    const TensorType &indices = type(node.inputs[0]), &y = type(node.outputs[0]);
    const Tensor* values = constant(node.inputs[2]);
    if (!is_integer(indices.dtype) || size_bytes(indices.dtype) < 4) return no("its indices are not i32 or i64");
    if (values == nullptr) return no("its values are not constant");
    if (elems(y.shape) == 0) return no(kEmpty);
    const auto axis = static_cast<size_t>(normal_axis(node, node.int_attr("axis", -1), std::ssize(y.shape)));
    if (y.shape[axis] > kMostMade) return no(kTooLarge);
    Shape one = indices.shape, along(y.shape.size(), 1);
    one.insert(one.begin() + static_cast<int64_t>(axis), 1);
    along[axis] = y.shape[axis];
    const ValueId at = b_.add("Reshape", {node.inputs[0], b_.list(one)}, {}, node.name + ".index");
    const auto equals = [&](int64_t first) {
      Tensor range(DType::i64, along);
      for (int64_t i = 0; i < range.elems(); ++i) range.data<int64_t>()[i] = first + i;
      ValueId places = b_.constant(range, node.name + ".places");
      if (indices.dtype != DType::i64) places = b_.add("CastLike", {places, node.inputs[0]});
      return b_.add("Equal", {at, places}, {}, node.name + ".equal");
    };
    const ValueId hot = b_.add("Or", {equals(0), equals(-along[axis])}, {}, node.name + ".hot");
    const auto value = [&](int64_t i) { return b_.constant(element(*values, i), node.name + ".value"); };
    return b_.add("Where", {hot, value(1), value(0)}, {}, node.name);
  }

  /// Splits an operator with any number of operands into groups, from left to right as it is defined, so that results
  /// are bit-identical. Sums that would be rounded to a narrower type between groups keep the reference kernel.
  Patch in_groups(const Node& node) {
    const Combiner combiner = node.op->combiner;
    const bool mean = combiner == Combiner::mean, extreme = combiner == Combiner::max || combiner == Combiner::min;
    const DType dtype = type(node.outputs[0]).dtype;
    if (node.inputs.size() <= kMostMapOperands) return no("one kernel can read all its operands");
    if (!extreme && dtype != DType::f32 && dtype != DType::f64) return no("each partial sum would be rounded");
    const std::string_view op = mean ? "Sum" : node.op->name;
    std::vector<ValueId> group;
    for (const ValueId x : node.inputs) {
      group.push_back(x);
      if (group.size() == kMostMapOperands) group = {b_.add(op, group, {}, node.name + ".group")};
    }
    const ValueId all = group.size() == 1 ? group[0] : b_.add(op, group, {}, node.name);
    if (!mean) return all;
    const auto count = static_cast<double>(node.inputs.size());
    const Tensor divisor = dtype == DType::f64 ? Tensor::scalar(count) : Tensor::scalar(static_cast<float>(count));
    return b_.add("Div", {all, b_.constant(divisor, node.name + ".count")}, {}, node.name);
  }

  ValueId reshape(ValueId x, const Shape& shape, const std::string& name) {
    return b_.add("Reshape", {x, b_.list(shape)}, {}, name);
  }

  /// The coordinates along one axis at which GridSample must look, from offsets [n, taps, 2, positions]. The range -1
  /// to 1 spans the image.
  ValueId places(const Node& node, const Window& win, ValueId offsets, size_t axis) {
    const std::string name = node.name + (axis == 0 ? ".rows" : ".columns");
    const int64_t taps = win.kernel_elems(), positions = win.out_elems(), first = static_cast<int64_t>(axis);
    const double scale = 2.0 / static_cast<double>(win.in[axis]);
    Tensor at(DType::f32, {1, taps, 1, positions});
    for (int64_t i = 0; i < at.elems(); ++i) {
      const int64_t tap = i / positions, position = i % positions;
      const int64_t source = axis == 0 ? win.source(0, position / win.out[1], tap / win.kernel[1])
                                       : win.source(1, position % win.out[1], tap % win.kernel[1]);
      at.data<float>()[i] = static_cast<float>((static_cast<double>(source) + 0.5) * scale - 1);
    }
    const ValueId moved = b_.add(
        "Slice",
        {offsets, b_.list(std::vector{first}), b_.list(std::vector{first + 1}), b_.list(std::vector<int64_t>{2})}, {},
        name);
    const ValueId all = b_.add("Add", {scaled(moved, scale, name + ".scale"), b_.constant(at, name + ".at")}, {}, name);
    return reshape(all, {type(offsets).shape[0], 1, taps * positions, 1}, name + ".row");
  }

  /// Rewrites DeformConv: the elements that the taps read are columns of a product with the filters.
  Patch deformable(const Node& node) {
    const Shape &x = type(node.inputs[0]).shape, &w = type(node.inputs[1]).shape, &y = type(node.outputs[0]).shape;
    if (!f32(node.inputs[0])) return no(kNotF32);
    if (elems(x) == 0 || elems(y) == 0) return no(kEmpty);
    const Window win = conv_window(node, x, w);
    if (win.kernel_elems() * win.out_elems() > kMostMade) return no(kTooLarge);
    const int64_t apart = node.int_attr("offset_group", 1), groups = node.int_attr("group", 1);
    const int64_t taps = win.kernel_elems(), positions = win.out_elems(), images = x[0] * apart;
    const ValueId offsets = reshape(node.inputs[2], {images, taps, 2, positions}, node.name + ".offset");
    const ValueId grid = b_.add("Concat", {places(node, win, offsets, 1), places(node, win, offsets, 0)},
                                {{"axis", int64_t{3}}}, node.name + ".grid");
    const ValueId image = reshape(node.inputs[0], {images, x[1] / apart, x[2], x[3]}, node.name + ".image");
    ValueId columns = b_.add("GridSample", {image, grid}, {}, node.name + ".samples");
    if (const ValueId mask = node.input(4); mask != kNone) {
      columns = b_.add("Mul", {columns, reshape(mask, {images, 1, 1, taps * positions}, node.name + ".mask")}, {},
                       node.name + ".masked");
    }
    columns = reshape(columns, {x[0], groups, x[1] / groups * taps, positions}, node.name + ".taps");
    const ValueId filters = reshape(node.inputs[1], {groups, w[0] / groups, w[1] * taps}, node.name + ".filters");
    ValueId out = b_.add("MatMul", {filters, columns}, {}, node.name);
    out = reshape(out, y, node.name + ".out");
    if (const ValueId bias = node.input(3); bias != kNone)
      out = b_.add("Add", {out, reshape(bias, {1, w[0], 1, 1}, node.name + ".bias")}, {}, node.name + ".sum");
    return out;
  }

  static Tensor element(const Tensor& t, int64_t i) {
    Tensor one(t.dtype(), {});
    copy_element(t, i, one, 0);
    return one;
  }
};

std::span<const RewriteRow<Decomposer>> Decomposer::rows() {
  static const std::vector<RewriteRow<Decomposer>> kRows = {
      {{"lp_pool", "LpPool(x; p) => (taps * AveragePool(|x|^p))^(1/p)", {"LpPool"}}, &Decomposer::local_lp_pool},
      {{"global_lp_pool", "GlobalLpPool(x; p) => ReduceSum(|x|^p)^(1/p)", {"GlobalLpPool"}},
       &Decomposer::global_lp_pool},
      {{"lrn", "LRN(x) => x / (bias + alpha / size * Conv(x^2, ones near the diagonal))^beta", {"LRN"}},
       &Decomposer::local_response},
      {{"trilu", "Trilu(x, k) => Where(mask, x, 0)", {"Trilu"}}, &Decomposer::triangle},
      {{"one_hot", "OneHot(i, d, v) => Where(Or(i = 0 ... d - 1, i = -d ... -1), v[1], v[0])", {"OneHot"}},
       &Decomposer::one_hot},
      {{"deform_conv", "DeformConv(x, w, o) => MatMul(w, GridSample(x, places of the taps + o))", {"DeformConv"}},
       &Decomposer::deformable},
      {{"groups_of_operands",
        "Sum(x0, ..., x99) => Sum(Sum(x0, ..., x31), x32, ...), in the same order",
        {"Sum", "Max", "Min", "Mean"}},
       &Decomposer::in_groups},
  };
  return kRows;
}

}  // namespace

std::vector<Rewrite> decompose_rewrites() { return Decomposer::rewrites(); }
void decompose(Graph& graph, PassContext& context) { Decomposer(graph, context).run(); }

}  // namespace kilter
