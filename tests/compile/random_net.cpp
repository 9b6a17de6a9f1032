#include "random_net.h"

#include <algorithm>

namespace kilter {
namespace {

using Ints = std::vector<int64_t>;

constexpr int64_t kMostElems = 6000;  ///< per value

class NodeDrawer {
 public:
  explicit NodeDrawer(SweepNet& net) : net_(net), draw_(net.draw) { net.b.fold_limit = -1; }

  void run(int64_t nodes) {
    for (int64_t i = draw_.between(1, 2); i > 0; --i) values_.push_back(net_.input(first_shape()));
    for (int64_t i = 0; i < nodes; ++i) {
      const ValueId made = node(any());
      if (made != kNone && elems(shape(made)) <= kMostElems) values_.push_back(made);
    }
    net_.output(values_.back());
    for (int64_t more = draw_.between(0, 2); more > 0; --more) net_.output(any());
  }

 private:
  const Shape& shape(ValueId v) const { return net_.shape(v); }
  int64_t rank(ValueId v) const { return static_cast<int64_t>(shape(v).size()); }
  /// A random value; prefers recent ones, so that chains grow.
  ValueId any() {
    const auto last = static_cast<int64_t>(values_.size()) - 1;
    return values_[static_cast<size_t>(std::max(draw_.between(0, last), draw_.between(0, last)))];
  }
  ValueId add(std::string_view op, const std::vector<ValueId>& inputs, const Attrs& attrs = {}) {
    return net_.b.add(op, inputs, attrs);
  }
  ValueId list(const Ints& v) { return net_.list(v); }
  ValueId scalar(float v) { return net_.b.constant(Tensor::scalar(v)); }

  Shape first_shape() {
    const int64_t n = draw_.between(1, 2), c = draw_.pick({1, 3, 4, 8, 16, 17});
    switch (draw_.between(0, 5)) {
      case 0:
        return {draw_.between(1, 5), draw_.pick({1, 4, 6, 17})};
      case 1:
        return {n, c, draw_.between(1, 9)};
      case 2:
        return {n, c, draw_.between(1, 4), draw_.between(1, 5), draw_.between(1, 5)};
      default:
        return {n, c, draw_.between(1, 7), draw_.between(1, 9)};
    }
  }

  ValueId node(ValueId v) {
    switch (draw_.between(0, 13)) {
      case 0:
      case 1:
        return add(draw_.pick<std::string_view>({"Relu", "Sigmoid", "Tanh", "Abs", "HardSwish", "LeakyRelu"}), {v});
      case 2:
        return with_constant(v);
      case 3:
        return with_value(v);
      case 4:
      case 5:
        return nothing(v);
      case 6:
        return reshape(v);
      case 7:
        return add("Transpose", {v}, {{"perm", permutation(rank(v))}});
      case 8:
        return movement(v);
      case 9:
        return concat(v);
      case 10:
        return reduction(v);
      case 11:
        return product(v);
      case 12:
        return rank(v) >= 3 ? image(v) : with_constant(v);
      default:
        return again(v);
    }
  }

  /// Applies a constant with one element, one per channel, one per element, or from constant arithmetic.
  ValueId with_constant(ValueId v) {
    Shape s;
    const int64_t kind = draw_.between(0, 4);
    if (kind == 1 && rank(v) > 1) {
      s.assign(shape(v).size() - 1, 1);
      s[0] = shape(v)[1];
    } else if (kind == 2) {
      s = shape(v);
    } else if (kind == 3) {
      s.assign(1, rank(v) == 0 ? 1 : shape(v).back());
    }
    ValueId c = net_.constant(s);
    if (kind == 4) c = add("Add", {c, add("Mul", {net_.constant({}), scalar(0.5F)})});
    const auto op = draw_.pick<std::string_view>({"Add", "Mul", "Sub", "Max", "Min"});
    return draw_.chance(30) ? add(op, {c, v}) : add(op, {v, c});
  }

  ValueId with_value(ValueId v) {
    std::vector<ValueId> alike;
    for (ValueId other : values_) {
      if (shape(other) == shape(v)) alike.push_back(other);
    }
    const ValueId other = alike[static_cast<size_t>(draw_.between(0, static_cast<int64_t>(alike.size()) - 1))];
    const auto op = draw_.pick<std::string_view>({"Add", "Mul", "Max"});
    if (draw_.chance(30) && rank(v) > 1) return add(op, {v, add("ReduceMean", {other, list({rank(v) - 1})})});
    return add(op, {v, other});
  }

  /// Adds nodes that change nothing, and chains that a single node can replace.
  ValueId nothing(ValueId v) {
    const Ints extents(shape(v).begin(), shape(v).end());
    switch (draw_.between(0, 11)) {
      case 0:
        return add("Identity", {v});
      case 1:
        return add("Mul", {v, scalar(1)});
      case 2:
        return add("Add", {scalar(0), v});
      case 3:
        return add("Sub", {v, scalar(0)});
      case 4:
        return add("Div", {v, scalar(1)});
      case 5:
        return add("Pow", {v, scalar(2)});
      case 6:
        return add("Cast", {v}, {{"to", int64_t{1}}});
      case 7:
        return add("Reshape", {v, list(extents)});
      case 8:
        return add("Expand", {v, list(extents)});
      case 9:
        return add("Tile", {v, list(Ints(extents.size(), 1))});
      case 10:
        return add("Concat", {v}, {{"axis", int64_t{0}}});
      default: {
        const ValueId turned = add("Transpose", {v}, {{"perm", permutation(rank(v))}});
        if (draw_.chance(30)) values_.push_back(turned);
        return add("Transpose", {turned}, {{"perm", permutation(rank(v))}});
      }
    }
  }

  Ints permutation(int64_t count) {
    Ints perm;
    for (int64_t d = 0; d < count; ++d) perm.push_back(d);
    for (int64_t d = count - 1; d > 0; --d) {
      std::swap(perm[static_cast<size_t>(d)], perm[static_cast<size_t>(draw_.between(0, d))]);
    }
    return perm;
  }

  ValueId reshape(ValueId v) {
    Shape s = shape(v);
    switch (draw_.between(0, 3)) {
      case 0:
        return add("Flatten", {v}, {{"axis", draw_.between(0, rank(v))}});
      case 1: {
        const int64_t at = draw_.between(0, rank(v));
        return add("Unsqueeze", {v, list({at})});
      }
      case 2: {
        Ints ones;
        for (size_t d = 0; d < s.size(); ++d) {
          if (s[d] == 1) ones.push_back(static_cast<int64_t>(d));
        }
        return ones.empty() ? kNone : add("Squeeze", {v, list(ones)});
      }
      default: {
        if (s.empty()) return kNone;
        const auto d = static_cast<size_t>(draw_.between(0, rank(v) - 1));
        const int64_t factor = draw_.pick({1, 2, 3, 4});
        if (s[d] % factor != 0 || (draw_.chance(50) && d + 1 < s.size())) {
          s[d] *= s[std::min(d + 1, s.size() - 1)];
          if (d + 1 < s.size()) s.erase(s.begin() + static_cast<int64_t>(d) + 1);
          if (elems(s) != elems(shape(v))) return kNone;
        } else {
          s[d] /= factor;
          s.insert(s.begin() + static_cast<int64_t>(d), factor);
        }
        return add("Reshape", {v, list(s)});
      }
    }
  }

  ValueId movement(ValueId v) {
    if (rank(v) == 0) return kNone;
    const int64_t axis = draw_.between(0, rank(v) - 1);
    const int64_t extent = shape(v)[static_cast<size_t>(axis)];
    switch (draw_.between(0, 4)) {
      case 0:
      case 1: {
        const int64_t start = draw_.between(0, extent - 1), end = draw_.between(start + 1, extent);
        if (draw_.chance(25)) return add("Slice", {v, list({-1}), list({-1000}), list({axis}), list({-1})});
        return add("Slice", {v, list({start}), list({end}), list({axis}), list({draw_.between(1, 2)})});
      }
      case 2: {
        if (extent < 2) return kNone;
        const int64_t first = draw_.between(1, extent - 1);
        GraphBuilder::Options options;
        options.output_count = 2;
        const auto parts = net_.b.add("Split", {v, list({first, extent - first})}, {{"axis", axis}}, options);
        values_.push_back(parts[0]);
        return parts[1];
      }
      case 3: {
        Ints pads(2 * shape(v).size(), 0);
        pads[static_cast<size_t>(axis)] = draw_.between(0, 2);
        pads[static_cast<size_t>(axis) + shape(v).size()] = draw_.between(0, 2);
        return add("Pad", {v, list(pads)});
      }
      default: {
        Ints index;
        for (int64_t i = draw_.between(1, 4); i > 0; --i) index.push_back(draw_.between(0, extent - 1));
        return add("Gather", {v, list(index)}, {{"axis", axis}});
      }
    }
  }

  ValueId concat(ValueId v) {
    if (rank(v) == 0) return kNone;
    const int64_t axis = draw_.between(0, rank(v) - 1);
    std::vector<ValueId> parts{v};
    for (ValueId other : values_) {
      Shape a = shape(v), b = shape(other);
      if (a.size() != b.size()) continue;
      a[static_cast<size_t>(axis)] = b[static_cast<size_t>(axis)] = 1;
      if (a == b && draw_.chance(50) && parts.size() < 4) parts.push_back(other);
    }
    if (parts.size() == 1 || draw_.chance(20)) parts.push_back(net_.constant(shape(v)));
    return add("Concat", parts, {{"axis", axis}});
  }

  ValueId reduction(ValueId v) {
    if (rank(v) == 0) return kNone;
    if (draw_.chance(30)) return add("Softmax", {v}, {{"axis", draw_.between(0, rank(v) - 1)}});
    Ints axes;
    for (int64_t d = 0; d < rank(v); ++d) {
      if (draw_.chance(50)) axes.push_back(d);
    }
    if (axes.empty()) axes.push_back(rank(v) - 1);
    return add(draw_.pick<std::string_view>({"ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin"}), {v, list(axes)},
               {{"keepdims", draw_.between(0, 1)}});
  }

  ValueId product(ValueId v) {
    if (rank(v) < 2) return kNone;
    if (rank(v) == 3 && draw_.chance(40)) return recurrent(v);
    const int64_t k = shape(v).back(), n = draw_.pick({1, 3, 8, 17});
    if (rank(v) == 2 && draw_.chance(60)) {
      const bool turned = draw_.chance(50);
      std::vector<ValueId> inputs{v, net_.constant(turned ? Shape{n, k} : Shape{k, n}, 0.3F)};
      if (draw_.chance(70)) inputs.push_back(net_.constant({n}));
      Attrs attrs;
      if (turned) attrs["transB"] = int64_t{1};
      if (draw_.chance(30)) attrs["alpha"] = 0.5F;
      if (draw_.chance(30)) attrs["beta"] = 1.5F;
      return add("Gemm", inputs, attrs);
    }
    if (draw_.chance(30)) return add("MatMul", {v, add("Transpose", {v}, {{"perm", last_two_swapped(rank(v))}})});
    return add("MatMul", {v, net_.constant({k, n}, 0.3F)});
  }

  ValueId recurrent(ValueId v) {
    const auto op = draw_.pick<std::string_view>({"LSTM", "GRU", "RNN"});
    const int64_t hidden = draw_.pick({1, 3, 8}), rows = (op == "LSTM" ? 4 : op == "GRU" ? 3 : 1) * hidden;
    std::vector<ValueId> inputs{v, net_.constant({1, rows, shape(v).back()}, 0.3F),
                                net_.constant({1, rows, hidden}, 0.3F)};
    if (draw_.chance(60)) inputs.push_back(net_.constant({1, 2 * rows}));
    Attrs attrs{{"hidden_size", hidden}};
    if (draw_.chance(40)) attrs["direction"] = std::string("reverse");
    if (op == "GRU" && draw_.chance(50)) attrs["linear_before_reset"] = int64_t{1};
    return add(op, inputs, attrs);
  }

  static Ints last_two_swapped(int64_t count) {
    Ints perm;
    for (int64_t d = 0; d + 2 < count; ++d) perm.push_back(d);
    perm.push_back(count - 1);
    perm.push_back(count - 2);
    return perm;
  }

  ValueId image(ValueId v) {
    const Shape& s = shape(v);
    const size_t spatial = s.size() - 2;
    const int64_t kind = draw_.between(0, 9);
    if (kind == 0) return add(draw_.chance(50) ? "GlobalAveragePool" : "GlobalMaxPool", {v});
    if (kind <= 3) return batch_norm(v);
    if (kind == 4) return add("MaxPool", {v}, {{"kernel_shape", Ints(spatial, 3)}, {"pads", Ints(2 * spatial, 1)}});
    const bool depthwise = draw_.chance(25);
    const int64_t k = draw_.pick({1, 3});
    Shape w{depthwise ? s[1] : draw_.pick({1, 4, 16, 17}), depthwise ? 1 : s[1]};
    w.resize(s.size(), k);
    Attrs attrs{{"pads", Ints(2 * spatial, k / 2)}};
    if (depthwise) attrs["group"] = s[1];
    std::vector<ValueId> inputs{v, net_.constant(w, 0.3F)};
    if (draw_.chance(50)) inputs.push_back(net_.constant({w[0]}));
    if (draw_.chance(20) && attrs.erase("pads") == 1) inputs[0] = padded(v);
    const ValueId out = add("Conv", inputs, attrs);
    if (draw_.chance(20)) values_.push_back(out);
    return draw_.chance(60) ? batch_norm(out) : out;
  }

  /// Adds zeros around an image.
  ValueId padded(ValueId v) {
    const size_t rank = shape(v).size();
    Ints pads(2 * rank, 0);
    for (size_t d = 2; d < rank; ++d) pads[d] = pads[rank + d] = draw_.between(1, 2);
    return add("Pad", {v, net_.list(pads)});
  }

  ValueId batch_norm(ValueId v) {
    const Shape channels{shape(v)[1]};
    Tensor variance = draw_.tensor(channels);
    for (float& x : variance.span<float>()) x = 0.5F + x * x;
    net_.b.fold_limit = 64;  // the scales and shifts of its expansion become constants, as in imported models
    const ValueId out = add("BatchNormalization", {v, net_.constant(channels), net_.constant(channels),
                                                   net_.constant(channels), net_.b.constant(variance)});
    net_.b.fold_limit = -1;
    return out;
  }

  /// Repeats an existing node.
  ValueId again(ValueId v) {
    const auto& order = net_.graph().order();
    if (order.empty()) return add("Relu", {v});
    const Graph& graph = net_.graph();
    const Node node = graph.node(order[static_cast<size_t>(draw_.between(0, static_cast<int64_t>(order.size()) - 1))]);
    if (node.outputs.size() != 1) return kNone;
    return add(node.op->name, node.inputs, node.attrs);
  }

  SweepNet& net_;
  Draw& draw_;
  std::vector<ValueId> values_;
};

}  // namespace

void draw_nodes(SweepNet& net, int64_t nodes) { NodeDrawer(net).run(nodes); }

}  // namespace kilter
