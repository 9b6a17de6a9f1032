// Finds attention as exporters write it, and reads its operands in place.
//
// The factor may follow the product (Mul or Div), or apply to q, to k, or in parts to several of them. Masks are added,
// or select scores: Where(c, scores, -inf) = scores + Where(c, 0, -inf). Where(IsNaN(shares), 0, shares) becomes
// nan_is_zero. Chains of Reshape, Transpose, Split, Slice and Gather of one index before q, k and v become one
// StridedView of the chain's source, which costs nothing if the source is dense in memory:
//
//   x = [b, n, 3 * heads * d]; Reshape, Transpose, Split, Squeeze   =>   StridedView(x; offset, shape, strides)
//
// Scores may be reshaped between masks, as in attention within windows, whose masks differ from window to window:
// [images * windows, heads, n, n] + bias, Reshape to [images, windows, heads, n, n], + mask, Reshape back. Attention
// then has the batch dimensions of the shape that splits the others, and its result is reshaped.

#include <cmath>
#include <limits>
#include <optional>

#include "ops/support/operands.h"
#include "ops/support/reduction.h"
#include "ops/support/regions.h"
#include "ops/support/views.h"
#include "passes/match.h"
#include "passes/rewrite.h"

namespace kilter {
namespace {

/// A score so low that its weight is 0 next to any other score. Adding it to another score gives kNever again.
constexpr double kNever = -1e30;

/// A value as a strided selection of another value's elements, times a factor.
struct Source {
  ValueId value = kNone;
  int64_t offset = 0;
  Shape shape, strides;
  double factor = 1;
};

/// Follows movement operators and factors back to their source.
class Tracer {
 public:
  explicit Tracer(const Graph& graph) : graph_(graph) {}

  Source trace(ValueId v, bool with_factors) const {
    const NodeId id = graph_.value(v).producer;
    if (id != kNone && graph_.node(id).op->domain.empty()) {
      const Node& node = graph_.node(id);
      if (with_factors) {
        if (const auto factor = factor_of(node)) {
          Source s = trace(factor->first, true);
          s.factor *= factor->second;
          return s;
        }
      }
      if (moves(node)) {
        Source s = trace(node.inputs[0], with_factors);
        if (apply(node, v, s)) return s;
      }
    }
    const Shape& shape = graph_.type(v).shape;
    return {v, 0, shape, dense_strides(shape), 1};
  }

  /// x and c if the node is x * c or x / c for a one-element constant c.
  std::optional<std::pair<ValueId, double>> factor_of(const Node& node) const {
    const bool product = is_op(node, "Mul");
    if (!product && !is_op(node, "Div")) return std::nullopt;
    for (size_t i = 0; i < (product ? 2U : 1U); ++i) {
      const ValueId x = node.inputs[i];
      const auto c = scalar_value(graph_, node.inputs[1 - i]);
      if (!c || !std::isfinite(*c) || *c == 0 || graph_.type(x) != graph_.type(node.outputs[0])) continue;
      return std::pair(x, product ? *c : 1 / *c);
    }
    return std::nullopt;
  }

 private:
  static bool moves(const Node& node) {
    return node.op->family == Family::reshape || node.op->family == Family::movement ||
           node.op->addressing == Addressing::axis;
  }

  /// Turns `s`, the node's input, into its output `v`. Returns false if the output is not a view of the input.
  bool apply(const Node& node, ValueId v, Source& s) const {
    const Shape& to = graph_.type(v).shape;
    if (node.op->family == Family::reshape) {
      const auto strides = view_strides(s.shape, s.strides, to);
      if (strides) s.shape = to, s.strides = *strides;
      return strides.has_value();
    }
    if (node.op->movement == Movement::transpose) {
      const std::vector<int64_t> perm = transpose_perm(node, static_cast<int64_t>(to.size()));
      s.shape = permuted(s.shape, perm), s.strides = permuted(s.strides, perm);
      return true;
    }
    return node.op->addressing == Addressing::axis ? pick(node, s) : cut(node, v, s);
  }

  /// Applies a Gather of one constant index.
  bool pick(const Node& node, Source& s) const {
    const auto index = scalar_value(graph_, node.inputs[1]);
    const auto axis =
        static_cast<size_t>(normal_axis(node, node.int_attr("axis", 0), static_cast<int64_t>(s.shape.size())));
    if (!index || *index < -static_cast<double>(s.shape[axis]) || *index >= static_cast<double>(s.shape[axis]))
      return false;
    const auto i = static_cast<int64_t>(*index);
    s.offset += (i < 0 ? i + s.shape[axis] : i) * s.strides[axis];
    s.shape.erase(s.shape.begin() + static_cast<int64_t>(axis));
    s.strides.erase(s.strides.begin() + static_cast<int64_t>(axis));
    const Shape& indices = graph_.type(node.inputs[1]).shape;
    s.shape.insert(s.shape.begin() + static_cast<int64_t>(axis), indices.size(), 1);
    s.strides.insert(s.strides.begin() + static_cast<int64_t>(axis), indices.size(), 1);
    return true;
  }

  /// Applies a Split or Slice that selects a box of the input with steps of 1.
  bool cut(const Node& node, ValueId v, Source& s) const {
    const Shape& to = graph_.type(v).shape;
    if (node.op->regions == nullptr || to.size() != s.shape.size()) return false;
    const auto regions = node.op->regions(view(graph_, node), graph_.value(v).output_index);
    if (!regions || regions->size() != 1 || regions->front().input != 0) return false;
    const CopyRegion& got = regions->front();
    const CopyRegion box = merged(whole_region(0, to, dense_strides(s.shape), got.in_offset));
    if (got.extent != box.extent || got.in_strides != box.in_strides || got.out_strides != box.out_strides ||
        got.out_offset != 0)
      return false;
    const Shape dense = dense_strides(s.shape);
    int64_t rest = got.in_offset;
    for (size_t d = 0; d < to.size(); ++d) {
      s.offset += rest / dense[d] * s.strides[d];
      rest %= dense[d];
    }
    s.shape = to;
    return true;
  }

  const Graph& graph_;
};

/// The dimensions before the rows and columns of matrices.
Shape batch_of(const Shape& shape) { return shape.size() < 2 ? Shape() : Shape(shape.begin(), shape.end() - 2); }

/// Splits the dimensions of `own`, which broadcast to `level`, as `fine` splits those of `level`. Returns nullopt if
/// some dimension of `level` is not the product of neighbouring dimensions of `fine`.
std::optional<Shape> split_like(const Shape& own, const Shape& level, const Shape& fine) {
  const size_t missing = level.size() - own.size();
  Shape split;
  size_t next = 0;
  for (size_t i = 0; i < level.size(); ++i) {
    const size_t begin = next;
    const bool last = i + 1 == level.size();
    int64_t product = 1;
    while (next < fine.size() && (next == begin || product < level[i] || last)) product *= fine[next++];
    if (product != level[i]) return std::nullopt;
    for (size_t d = begin; d < next && i >= missing; ++d) split.push_back(own[i - missing] == 1 ? 1 : fine[d]);
  }
  return split;
}

class AttentionRecogniser : public RewritePass<AttentionRecogniser> {
 public:
  AttentionRecogniser(Graph& graph, PassContext& context) : RewritePass(graph, context), tracer_(graph) {}

  static std::string_view pass() { return "recognise_attention"; }
  static std::span<const RewriteRow<AttentionRecogniser>> rows();
  static bool looks_at(const Node&) { return true; }

  void run() {
    sweep(false);
    finish();
  }

 private:
  struct Mask {
    ValueId value = kNone;
    Shape batch;                  ///< of the scores at this place
    std::optional<double> never;  ///< if the value is a condition: the score where it is false; otherwise it is added
  };
  struct Match {
    const Node* product = nullptr;  ///< q k'
    std::vector<Mask> masks;
    Shape batch;  ///< of the attention: that of the product, of a mask or of the result
    double scale = 1;
    bool empty_is_zero = false, nan_is_zero = false;
  };

  const Node* made_by(ValueId v, std::string_view op) const { return kilter::made_by(graph_, v, op); }
  bool inner(ValueId v) const { return v != kNone && graph_.type(v).dtype == DType::f32 && read_once(graph_, v); }

  /// Turns the last product into the whole attention node, so that names are kept.
  Patch attention(const Node& node) {
    const ValueId out = node.outputs[0];
    Match found;
    if (const std::string_view why = match(node, found); !why.empty()) return no(why);
    return replace(graph_.value(out).producer, found);
  }

  /// Fills `match`. Returns why the node is not attention, or "".
  std::string_view match(const Node& node, Match& match) const {
    const TensorType& out = graph_.type(node.outputs[0]);
    if (out.dtype != DType::f32) return "its result is not f32";
    if (elems(out.shape) == 0) return "it has no elements";
    if (graph_.type(node.inputs[1]).shape.size() < 2) return "its second operand is a vector";
    ValueId shares = node.inputs[0];
    ValueId guard = kNone;
    if (const Node* where = made_by(shares, "Where"); where != nullptr && inner(shares)) {
      guard = where->inputs[0], shares = where->inputs[2];
      if (scalar_value(graph_, where->inputs[1]) != 0.0) return "a Where after the Softmax selects values other than 0";
      const Node* nan = made_by(guard, "IsNaN");
      match.nan_is_zero = nan != nullptr && nan->inputs[0] == shares && inner_guard(guard, shares);
      match.empty_is_zero = !match.nan_is_zero;
    }
    const Node* softmax = made_by(shares, "Softmax");
    if (softmax == nullptr) return "its first operand is not the result of a Softmax";
    if (!match.nan_is_zero && !inner(shares)) return "the result of the Softmax is read elsewhere";
    if (!over_last(*softmax)) return "the Softmax is not over the last axis";
    if (!scores(softmax->inputs[0], match))
      return "the input of the Softmax is not a scaled and masked product of matrices that nothing else reads";
    if (match.empty_is_zero && !says_empty(guard, match))
      return "the Where after the Softmax does not test whether the mask hides every key";
    const Shape& s = graph_.type(shares).shape;
    const bool whole = s.size() == out.shape.size() && std::equal(s.begin(), s.end() - 1, out.shape.begin());
    if (!whole) return "its second operand adds dimensions to the result";
    return choose_batch(batch_of(out.shape), match) ? "" : "its scores are reshaped to dimensions that do not nest";
  }

  /// Sets the batch dimensions of the attention. Returns false if no shape of the scores splits all others.
  bool choose_batch(const Shape& result, Match& match) const {
    std::vector<Shape> all{result, batch_of(graph_.type(match.product->outputs[0]).shape)};
    for (const Mask& mask : match.masks) all.push_back(mask.batch);
    match.batch = *std::ranges::max_element(all, {}, &Shape::size);
    return std::ranges::all_of(all,
                               [&](const Shape& level) { return split_like(level, level, match.batch).has_value(); });
  }

  bool over_last(const Node& softmax) const {
    const auto rank = static_cast<int64_t>(graph_.type(softmax.inputs[0]).shape.size());
    return rank >= 2 &&
           normal_axis(softmax, softmax.int_attr("axis", softmax.op->until < 13 ? 1 : -1), rank) == rank - 1;
  }

  /// Whether only `guard` and the node after it read the shares.
  bool inner_guard(ValueId guard, ValueId shares) const {
    return read_once(graph_, guard) && graph_.users(shares).size() == 2 && !graph_.is_output(shares);
  }

  /// Whether `v` is a product with factors, followed by any number of masks and changes of shape that keep the
  /// matrices. Fills product, scale and masks.
  bool scores(ValueId v, Match& match) const {
    if (!inner(v)) return false;
    const Shape batch = batch_of(graph_.type(v).shape);
    if (const Node* sum = made_by(v, "Add")) {
      for (size_t i = 0; i < 2; ++i) {
        if (graph_.type(sum->inputs[i]) != graph_.type(v) || !scores(sum->inputs[i], match)) continue;
        match.masks.push_back({sum->inputs[1 - i], batch, std::nullopt});
        return true;
      }
      return false;
    }
    if (const Node* where = made_by(v, "Where")) {
      const auto never = scalar_value(graph_, where->inputs[2]);
      if (!never || *never > kNever || graph_.type(where->inputs[1]) != graph_.type(v)) return false;
      if (!scores(where->inputs[1], match)) return false;
      match.masks.push_back({where->inputs[0], batch, never});
      return true;
    }
    if (const ValueId from = reshaped_matrices(v); from != kNone) return scores(from, match);
    return scaled(v, match);
  }

  /// The input of the Reshape that computes `v`, if both hold the same matrices; kNone otherwise.
  ValueId reshaped_matrices(ValueId v) const {
    const NodeId id = graph_.value(v).producer;
    if (id == kNone || graph_.node(id).op->family != Family::reshape) return kNone;
    const ValueId from = graph_.node(id).inputs[0];
    const Shape &a = graph_.type(from).shape, &b = graph_.type(v).shape;
    const bool same = a.size() >= 2 && b.size() >= 2 && std::equal(a.end() - 2, a.end(), b.end() - 2);
    return same ? from : kNone;
  }

  bool scaled(ValueId v, Match& match) const {
    double scale = 1;
    while (inner(v) && graph_.value(v).producer != kNone) {
      const Node& node = graph_.node(graph_.value(v).producer);
      if (made_by(v, "MatMul") != nullptr) {
        const bool matrices =
            graph_.type(node.inputs[0]).shape.size() >= 2 && graph_.type(node.inputs[1]).shape.size() >= 2;
        match.product = &node, match.scale = scale;
        return matrices && graph_.type(node.inputs[0]).shape.back() > 0;
      }
      const auto factor = node.op->domain.empty() ? tracer_.factor_of(node) : std::nullopt;
      if (!factor) return false;
      v = factor->first;
      scale *= factor->second;
    }
    return false;
  }

  /// Whether `v` is true exactly for the queries whose mask is -inf for every key.
  bool says_empty(ValueId v, const Match& match) const {
    const Node* equal = made_by(v, "Equal");
    if (equal == nullptr || match.masks.size() != 1 || match.masks.front().never) return false;
    const ValueId mask = match.masks.front().value;
    const Node* best = made_by(equal->inputs[0], "ReduceMax");
    if (best == nullptr || best->inputs[0] != mask || best->int_attr("keepdims", 1) == 0 ||
        scalar_value(graph_, equal->inputs[1]) != -std::numeric_limits<double>::infinity())
      return false;
    const auto rank = static_cast<int64_t>(graph_.type(mask).shape.size());
    return reduced_axes(view(graph_, *best)) == std::vector<int64_t>{rank - 1};
  }

  /// Puts attention in place of node `id` and returns the result. The node stays, with another operator, unless the
  /// result has to be reshaped.
  ValueId replace(NodeId id, const Match& match) {
    const std::string name = graph_.node(id).name;
    const Shape scores = graph_.type(match.product->outputs[0]).shape,
                out = graph_.type(graph_.node(id).outputs[0]).shape;
    Source q = tracer_.trace(match.product->inputs[0], true);
    Source k = tracer_.trace(match.product->inputs[1], true);
    std::swap(*(k.shape.end() - 1), *(k.shape.end() - 2));
    std::swap(*(k.strides.end() - 1), *(k.strides.end() - 2));
    Source v = tracer_.trace(graph_.node(id).inputs[1], false);
    split(q, batch_of(scores), match.batch), split(k, batch_of(scores), match.batch);
    split(v, batch_of(out), match.batch);
    std::vector<ValueId> inputs = {viewed(q, name + ".q"), viewed(k, name + ".k"), viewed(v, name + ".v")};
    if (const ValueId mask = mask_of(match, name); mask != kNone) inputs.push_back(mask);
    Attrs attrs = {{"scale", static_cast<float>(match.scale * q.factor * k.factor)}};
    if (match.empty_is_zero) attrs["empty_is_zero"] = int64_t{1};
    if (match.nan_is_zero) attrs["nan_is_zero"] = int64_t{1};
    if (match.batch != batch_of(out)) {
      const ValueId y = b_.add_kilter("FusedAttention", std::move(inputs), std::move(attrs), name);
      return b_.add("Reshape", {y, b_.list(out)}, {}, name + ".shape");
    }
    Node& node = graph_.change_node(id);
    node.op = find_op("kilter", "FusedAttention", 1);
    node.opset = 1;
    node.attrs = std::move(attrs);
    node.inputs = std::move(inputs);
    return node.outputs[0];
  }

  /// Splits the batch dimensions of a source, which broadcast to `level`, as `fine` splits those of `level`.
  static void split(Source& s, const Shape& level, const Shape& fine) {
    if (level == fine) return;
    Shape to = *split_like(batch_of(s.shape), level, fine);
    to.insert(to.begin(), fine.size() - to.size(), 1);
    to.insert(to.end(), s.shape.end() - 2, s.shape.end());
    s.strides = *view_strides(s.shape, s.strides, to);
    s.shape = to;
  }

  /// All masks combined into one that is added; kNone if there is none.
  ValueId mask_of(const Match& match, const std::string& name) {
    ValueId all = kNone;
    for (const Mask& mask : match.masks) {
      const ValueId added = added_of(mask, match.batch, name);
      all = all == kNone ? added : b_.add("Add", {all, added}, {}, name + ".masks");
    }
    return all;
  }

  /// One mask as a value that is added to scores with the dimensions of `batch`.
  ValueId added_of(const Mask& mask, const Shape& batch, const std::string& name) {
    ValueId added = mask.value;
    if (mask.never) {
      const auto number = [&](double value) {
        Tensor t(DType::f32, {});
        *t.data<float>() = static_cast<float>(value);
        return b_.constant(std::move(t));
      };
      added = b_.add("Where", {mask.value, number(0), number(*mask.never)}, {}, name + ".mask");
    }
    const Shape own = graph_.type(added).shape;
    Shape to = *split_like(batch_of(own), mask.batch, batch);
    if (to == batch_of(own)) return added;
    to.insert(to.end(), own.end() - 2, own.end());
    return b_.add("Reshape", {added, b_.list(to)}, {}, name + ".mask.shape");
  }

  ValueId viewed(const Source& s, const std::string& name) {
    const Shape& own = graph_.type(s.value).shape;
    if (s.offset == 0 && s.shape == own && same_places(s)) return s.value;
    return b_.add_kilter("StridedView", {s.value}, {{"offset", s.offset}, {"shape", s.shape}, {"strides", s.strides}},
                         name);
  }

  static bool same_places(const Source& s) {
    const Shape dense = dense_strides(s.shape);
    for (size_t d = 0; d < dense.size(); ++d) {
      if (s.shape[d] != 1 && s.strides[d] != dense[d]) return false;
    }
    return true;
  }

  Tracer tracer_;
};

std::span<const RewriteRow<AttentionRecogniser>> AttentionRecogniser::rows() {
  static const std::vector<RewriteRow<AttentionRecogniser>> kRows = {
      {{"attention",
        "MatMul(Softmax(MatMul(q, k') * s + mask), v) => FusedAttention(q, k, v, mask; scale = s)",
        {"MatMul"}},
       &AttentionRecogniser::attention},
  };
  return kRows;
}

}  // namespace

std::vector<Rewrite> attention_rewrites() { return AttentionRecogniser::rewrites(); }
void recognise_attention(Graph& graph, PassContext& context) { AttentionRecogniser(graph, context).run(); }

}  // namespace kilter
