// Computes the layers of a quantised network on integers. A quantised tensor becomes an f32 value with integer
// elements, its codes minus the zero point, and real values between a DequantizeLinear and a QuantizeLinear become
// weighted sums of such values, rounded once.
//
//   %x = Dequantize(%qx, sx, zx)         %i = Dequantize(%qx, 1, zx)            integers
//   %y = Conv(%x, Dequantize(qw, sw))    %s = IntegerConv(%i, qw)               i32, exact
//   %r = Relu(%y)                   =>   %r = RoundedSum(%s, sx sw / sy, 0) {low=0, high=255 - zy}
//   %q = Quantize(%r, sy, zy)            %q = Quantize(%r, 1, zy)
//
// Layers after a Quantize read the integers, not their codes, so most codes are never computed.

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <utility>

#include "graph/values.h"
#include "ops/support/builder.h"
#include "ops/support/exact_quotient.h"
#include "ops/support/onnx_dtype.h"
#include "ops/support/pool_reference.h"
#include "ops/support/quantization.h"
#include "ops/support/reduction.h"
#include "passes/integer_values.h"
#include "passes/match.h"
#include "passes/pass.h"

namespace kilter {
namespace {

constexpr size_t kMostTerms = 8;
constexpr int64_t kExactInF32 = int64_t{1} << 24;  ///< whole numbers below it

class IntegerArithmetic {
 public:
  IntegerArithmetic(Graph& graph, PassContext& context) : graph_(graph), context_(context), b_(graph) {}

  void run() {
    for (NodeId id : std::vector<NodeId>(graph_.order())) {
      const Node& node = graph_.node(id);
      if (node.outputs[0] != kNone) visit(node);
    }
    graph_.sort();
    graph_.remove_dead();
  }

 private:
  void visit(const Node& node) {
    const Family family = node.op->family;
    if (is_op(node, "Dequantize", "kilter")) return dequantize(node);
    if (is_op(node, "Quantize", "kilter")) return quantize(node);
    if (is_op(node, "RoundedSum", "kilter")) return note_rounded(node);
    if (is_op(node, "Conv")) return convolve(node);
    if (is_op(node, "MatMul") || is_op(node, "Gemm")) return multiply(node);
    if (is_op(node, "Add") || is_op(node, "Sum")) return add(node);
    if (is_op(node, "Mul")) return scale(node);
    if (is_op(node, "Relu") || is_op(node, "Clip")) return clamp(node);
    if (is_op(node, "AveragePool")) return average_windows(node);
    if (is_op(node, "GlobalAveragePool") || is_op(node, "ReduceMean")) return average(node);
    if (node.op->movement == Movement::concat) return concat(node);
    const bool max_pool = family == Family::pool && node.op->combiner == Combiner::max;
    const bool selects = node.op->movement == Movement::split || node.op->movement == Movement::slice ||
                         node.op->movement == Movement::transpose;
    if (family == Family::reshape || selects || (max_pool && node.outputs.size() == 1)) move(node);
  }

  DType dtype(ValueId v) const { return graph_.type(v).dtype; }
  const Shape& shape(ValueId v) const { return graph_.type(v).shape; }
  const Tensor* constant(ValueId v) const { return constant_of(graph_, v); }
  const Real* real(ValueId v) const {
    const auto it = reals_.find(v);
    return it == reals_.end() ? nullptr : &it->second;
  }
  const Term* scaled(ValueId v) const {
    const Real* of = real(v);
    return of == nullptr ? nullptr : of->scaled();
  }
  ValueId constant_f64(const Tensor& t) { return b_.constant(t, "factor"); }

  /// The value of an optional constant with one element; nullopt if it is something else.
  std::optional<int64_t> zero_point(ValueId v) const {
    if (v == kNone) return 0;
    const Tensor* t = constant(v);
    if (t == nullptr || t->elems() == 0) return std::nullopt;
    for (int64_t i = 1; i < t->elems(); ++i) {
      if (t->as_int(i) != t->as_int(0)) return std::nullopt;
    }
    return t->as_int(0);
  }

  static bool is_code(DType type) {
    return type == DType::u8 || type == DType::i8 || type == DType::u16 || type == DType::i16;
  }

  // --- from and to codes ---

  /// A Quantize with one scale and one zero point.
  struct Rounding {
    float scale = 1;
    int64_t zero = 0;
    DType type = DType::u8;
    int64_t low = 0, high = 0;  ///< of the integers

    bool operator==(const Rounding&) const = default;
  };
  std::optional<Rounding> rounding(const Node& node) const {
    const Tensor* scale = constant(node.inputs[1]);
    const std::optional<int64_t> zero = zero_point(node.input(2));
    const DType type = dtype(node.outputs[0]);
    const bool one = scale != nullptr && scale->elems() == 1 && scale->dtype() == DType::f32;
    if (!one || !zero || !is_code(type) || dtype(node.inputs[0]) != DType::f32) return std::nullopt;
    if (node.int_attr("precision", 1) != 1 || !(scale->data<float>()[0] > 0)) return std::nullopt;
    if (shape(node.inputs[0]) != shape(node.outputs[0])) return std::nullopt;
    const IntegerRange range = integer_range(type);
    return Rounding{scale->data<float>()[0], *zero, type, static_cast<int64_t>(range.low) - *zero,
                    static_cast<int64_t>(range.high) - *zero};
  }

  void quantize(const Node& node) {
    const std::optional<Rounding> to = rounding(node);
    const Real* x = real(node.inputs[0]);
    if (!to || x == nullptr) return;
    if (const Term* kept = unrounded(*x, *to); kept != nullptr && to->scale == 1) {
      codes_[node.outputs[0]] = {kept->x, to->zero};
      return;
    }
    if (!context_.take()) return;
    set_codes(node, {rounded(*x, *to, node.name), to->zero});
  }

  /// Makes `codes` the result of a node.
  void set_codes(const Node& node, const Codes& codes) {
    const DType type = dtype(node.outputs[0]);
    const ValueId made = b_.add_kilter("Quantize", {codes.integers.value, one(), code(type, codes.zero)},
                                       {{"to", code_of_dtype(type)}, {"precision", int64_t{1}}}, node.name);
    graph_.replace_uses(node.outputs[0], made);
    codes_[made] = codes;
  }

  /// A zero point as a constant of a code's type.
  ValueId code(DType type, int64_t value) {
    const ValueId whole = b_.constant(Tensor::scalar(static_cast<int32_t>(value)), "zero");
    return b_.add("Cast", {whole}, {{"to", code_of_dtype(type)}});
  }

  ValueId one() {
    if (one_ == kNone) one_ = b_.constant(Tensor::scalar(1.0F), "one");
    return one_;
  }

  /// The only term of a value that a rounding does not change; null if it does.
  static const Term* unrounded(const Real& x, const Rounding& to) {
    const Term* only = x.scaled();
    const bool kept = only != nullptr && only->factor.data<double>()[0] == to.scale && only->x.low >= to.low &&
                      only->x.high <= to.high;
    return kept ? only : nullptr;
  }

  /// The integers nearest to a real value divided by a scale.
  Integers rounded(const Real& x, const Rounding& to, const std::string& name) {
    const double scale = to.scale;
    int64_t low = to.low, high = to.high;
    const auto bound = [&](double v) { return static_cast<int64_t>(rounded_quotient({v, 0}, scale)); };
    const auto within = [&](double v) { return std::abs(v) < scale * static_cast<double>(kExactInF32); };
    if (within(x.low)) low = std::clamp(bound(x.low), low, high);
    if (within(x.high)) high = std::clamp(bound(x.high), low, high);
    if (const Term* kept = unrounded(x, to)) return kept->x;
    std::vector<ValueId> inputs;
    for (const Term& term : x.terms) {
      inputs.push_back(term.x.value);
      inputs.push_back(constant_f64(mapped(term.factor, [&](double f) { return f / scale; })));
    }
    const Tensor none = Tensor::scalar(0.0);
    inputs.push_back(constant_f64(x.summand.defined() ? mapped(x.summand, [&](double c) { return c / scale; }) : none));
    return {b_.add_kilter("RoundedSum", inputs, {{"low", low}, {"high", high}}, name), low, high};
  }

  /// The integers of codes with the given zero point.
  Integers integers_of(ValueId codes, int64_t zero) {
    auto known = codes_.find(codes);
    if (known == codes_.end()) known = codes_.emplace(codes, decoded(codes, zero)).first;
    const Codes& found = known->second;
    if (found.zero == zero) return found.integers;
    const int64_t shift = found.zero - zero;
    const ValueId by = b_.constant(Tensor::scalar(static_cast<float>(shift)), "shift");
    const ValueId moved = b_.add("Add", {found.integers.value, by}, {}, graph_.value(codes).name);
    return {moved, found.integers.low + shift, found.integers.high + shift};
  }

  /// Codes that a Quantize of floats computes, or that come from elsewhere.
  Codes decoded(ValueId codes, int64_t zero) {
    const NodeId producer = graph_.value(codes).producer;
    if (producer != kNone && is_op(graph_.node(producer), "Quantize", "kilter")) {
      const Node& node = graph_.node(producer);
      if (const std::optional<Rounding> by = rounding(node)) {
        const ValueId scale = b_.constant(Tensor::scalar(by->scale), "scale");
        const ValueId quotient = b_.add("Div", {node.inputs[0], scale}, {}, node.name);
        const ValueId factor = constant_f64(Tensor::scalar(1.0)), summand = constant_f64(Tensor::scalar(0.0));
        const ValueId made =
            b_.add_kilter("RoundedSum", {quotient, factor, summand}, {{"low", by->low}, {"high", by->high}}, node.name);
        return {{made, by->low, by->high}, by->zero};
      }
    }
    const IntegerRange range = integer_range(dtype(codes));
    std::vector<ValueId> inputs{codes, one()};
    if (zero != 0) inputs.push_back(code(dtype(codes), zero));
    const ValueId made =
        b_.add_kilter("Dequantize", inputs, {{"to", code_of_dtype(DType::f32)}}, graph_.value(codes).name);
    return {{made, static_cast<int64_t>(range.low) - zero, static_cast<int64_t>(range.high) - zero}, zero};
  }

  void dequantize(const Node& node) {
    const Tensor* scale = constant(node.inputs[1]);
    const ValueId out = node.outputs[0], codes = node.inputs[0];
    if (scale == nullptr || scale->dtype() != DType::f32 || dtype(out) != DType::f32) return;
    if (shape(out) != shape(codes)) return;
    if (constant(codes) != nullptr) return dequantize_constant(node, *scale);
    const std::optional<int64_t> zero = zero_point(node.input(2));
    if (!zero || !is_code(dtype(codes))) return;
    const bool plain = scale->elems() == 1 && scale->data<float>()[0] == 1;
    const NodeId producer = graph_.value(codes).producer;
    const bool made =
        codes_.contains(codes) || (producer != kNone && is_op(graph_.node(producer), "Quantize", "kilter") &&
                                   rounding(graph_.node(producer)).has_value());
    if (plain && !made) {
      const IntegerRange range = integer_range(dtype(codes));
      const Integers own{out, static_cast<int64_t>(range.low) - *zero, static_cast<int64_t>(range.high) - *zero};
      codes_[codes] = {own, *zero};
      reals_[out] = {{{own, Tensor::scalar(1.0)}}, {}};
      return;
    }
    if (made && !context_.take()) return;
    const Integers integers = integers_of(codes, *zero);
    ValueId result = out;  // codes from elsewhere are read as they are, unless integers are needed
    if (made) {
      result = plain ? integers.value : b_.add("Mul", {integers.value, node.inputs[1]}, {}, node.name);
      graph_.replace_uses(out, result);
    }
    reals_[result] = {{{integers, widened(*scale)}}, {}};
  }

  void dequantize_constant(const Node& node, const Tensor& scale) {
    const ValueId out = node.outputs[0];
    const Tensor* zero = constant(node.input(2));
    if (node.input(2) != kNone && zero == nullptr) return;
    const Tensor integers =
        run_reference(node, {*constant(node.inputs[0]), Tensor::scalar(1.0F), zero != nullptr ? *zero : Tensor()},
                      {graph_.type(out)})[0];
    if (size_bytes(dtype(node.inputs[0])) == 1) {
      weights_[out] = {integers, widened(scale)};
      return;
    }
    // f32 holds only the upper digits of large i32, and integers of 16 bits are too large for IntegerConv.
    if (zero_point(node.input(2)) != 0) return;
    if (const auto product =
            combined(widened(*constant(node.inputs[0])), widened(scale), [](double q, double s) { return q * s; }))
      reals_[out] = {{}, *product};
  }

  void note_rounded(const Node& node) {
    const Integers integers{node.outputs[0], node.int_attr("low", 0), node.int_attr("high", 0)};
    reals_[node.outputs[0]] = {{{integers, Tensor::scalar(1.0)}}, {}};
  }

  // --- contractions ---

  /// A real value that is a constant: f32, or the result of a Dequantize.
  std::optional<Tensor> constant_real(ValueId v) const {
    if (const Tensor* t = constant(v); t != nullptr && t->dtype() == DType::f32) return widened(*t);
    const Real* of = real(v);
    if (of != nullptr && of->terms.empty() && !of->clamped() && of->summand.defined()) return of->summand;
    return std::nullopt;
  }

  void convolve(const Node& node) {
    const Term* x = scaled(node.inputs[0]);
    const auto w = weights_.find(node.inputs[1]);
    if (x == nullptr || w == weights_.end() || !x->x.multiplies()) return;
    if (context_.keep_float.contains(node.name)) return;
    const Tensor& filters = w->second.integers;
    const int64_t count = filters.shape()[0];
    Shape per_channel(filters.shape().size(), 1);
    per_channel[1] = count;
    const auto factor = contraction_factor(*x, w->second, filters.elems() / count, 0, per_channel);
    if (!factor) return;
    Tensor summand;
    if (node.input(2) != kNone) {
      const auto bias = constant_real(node.input(2));
      if (!bias) return;
      summand = bias->reshaped(per_channel);
    }
    if (!context_.take()) return;
    const ValueId weights = b_.constant(filters, graph_.value(node.inputs[1]).name);
    set_sums(node, b_.add_kilter("IntegerConv", {x->x.value, weights}, node.attrs, node.name), *factor, summand);
  }

  /// The factors of a contraction's integer sums, one or as many as the results have along one dimension; nullopt if
  /// the scales of the weights vary along a dimension other than `axis`, or if sums over `depth` may overflow.
  std::optional<Tensor> contraction_factor(const Term& x, const Weights& w, int64_t depth, size_t axis,
                                           const Shape& per_channel) const {
    if (depth > std::numeric_limits<int32_t>::max() / (kMostInteger * kMostInteger)) return std::nullopt;
    const double scale = x.factor.data<double>()[0];
    const Tensor factor = mapped(w.scale, [&](double s) { return s * scale; });  // exact
    if (factor.elems() == 1) return factor.reshaped({});
    const size_t missing = w.integers.shape().size() - w.scale.shape().size();
    const bool along = axis >= missing && w.scale.shape()[axis - missing] == factor.elems();
    if (!along || factor.elems() != elems(per_channel)) return std::nullopt;
    return factor.reshaped(per_channel);
  }

  /// Replaces a node by the real value of integer sums.
  void set_sums(const Node& node, ValueId sums, const Tensor& factor, const Tensor& summand) {
    constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
    const ValueId c = constant_f64(summand.defined() ? summand : Tensor::scalar(0.0));
    const ValueId made = b_.add_kilter("WeightedSum", {sums, constant_f64(factor), c}, {}, node.name);
    graph_.replace_uses(node.outputs[0], made);
    reals_[made] = {{{{sums, -kMost, kMost}, factor}}, summand};
  }

  void multiply(const Node& node) {
    const Term* a = scaled(node.inputs[0]);
    const auto found = weights_.find(node.inputs[1]);
    if (a == nullptr || found == weights_.end() || !a->x.multiplies()) return;
    if (context_.keep_float.contains(node.name)) return;
    const Weights& w = found->second;
    const bool gemm = is_op(node, "Gemm");
    const bool plain =
        node.float_attr("alpha", 1) == 1 && node.float_attr("beta", 1) == 1 && node.int_attr("transA", 0) == 0;
    if (w.integers.shape().size() != 2 || shape(node.inputs[0]).size() < 2 || (gemm && !plain)) return;
    const bool transposed = gemm && node.int_attr("transB", 0) != 0;
    const size_t columns = transposed ? 0 : 1;
    const int64_t n = w.integers.shape()[columns];
    const auto factor = contraction_factor(*a, w, w.integers.shape()[1 - columns], columns, {n});
    if (!factor) return;
    Tensor summand;
    if (gemm && node.input(2) != kNone) {
      const auto bias = constant_real(node.input(2));
      if (!bias || (bias->elems() != 1 && (bias->elems() != n || bias->shape().back() != n))) return;
      summand = bias->reshaped(bias->elems() == 1 ? Shape{} : Shape{n});
    }
    if (!context_.take()) return;
    const Tensor b = transposed ? transpose(w.integers) : w.integers;
    const ValueId weights = b_.constant(b, graph_.value(node.inputs[1]).name);
    set_sums(node, b_.add_kilter("IntegerMatMul", {a->x.value, weights}, {}, node.name), *factor, summand);
  }

  static Tensor transpose(const Tensor& t) {
    const int64_t rows = t.shape()[0], columns = t.shape()[1];
    Tensor out(DType::f32, {columns, rows});
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t c = 0; c < columns; ++c) out.data<float>()[c * rows + r] = t.data<float>()[r * columns + c];
    }
    return out;
  }

  // --- arithmetic on real values ---

  void add(const Node& node) {
    Real sum;
    for (ValueId in : node.inputs) {
      Real part;
      if (const auto known = constant_real(in))
        part.summand = *known;
      else if (const Real* of = real(in); of != nullptr && !of->clamped())
        part = *of;
      else
        return;
      sum.terms.insert(sum.terms.end(), part.terms.begin(), part.terms.end());
      if (!part.summand.defined()) continue;
      if (!sum.summand.defined()) {
        sum.summand = part.summand;
        continue;
      }
      const auto both = combined(sum.summand, part.summand, [](double a, double b) { return a + b; });
      if (!both) return;
      sum.summand = *both;
    }
    if (!sum.terms.empty() && sum.terms.size() <= kMostTerms) reals_[node.outputs[0]] = std::move(sum);
  }

  void scale(const Node& node) {
    for (const size_t i : {0U, 1U}) {
      const Real* x = real(node.inputs[i]);
      const Tensor* by = constant(node.inputs[1 - i]);
      if (x == nullptr || x->clamped() || by == nullptr || by->elems() != 1 || by->dtype() != DType::f32) continue;
      if (shape(node.outputs[0]) != shape(node.inputs[i])) continue;
      const double factor = by->as_double(0);
      Real out = *x;
      for (Term& term : out.terms) term.factor = mapped(term.factor, [&](double f) { return f * factor; });
      if (out.summand.defined()) out.summand = mapped(out.summand, [&](double c) { return c * factor; });
      reals_[node.outputs[0]] = std::move(out);
      return;
    }
  }

  void clamp(const Node& node) {
    const Real* x = real(node.inputs[0]);
    if (x == nullptr || x->terms.empty()) return;
    double low = 0, high = kUnbounded;
    if (is_op(node, "Clip")) {
      const auto bound = [&](size_t i, const char* attr, double none) -> std::optional<double> {
        if (node.opset < 11) return node.has_attr(attr) ? double{node.float_attr(attr, 0)} : none;
        return node.input(i) == kNone ? none : scalar_value(graph_, node.inputs[i]);
      };
      const auto least = bound(1, "min", -kUnbounded), most = bound(2, "max", kUnbounded);
      if (!least || !most || *least > *most) return;
      low = *least, high = *most;
    }
    Real out = *x;
    out.low = std::clamp(out.low, low, high), out.high = std::clamp(out.high, low, high);
    reals_[node.outputs[0]] = std::move(out);
  }

  void average(const Node& node) {
    const Term* x = scaled(node.inputs[0]);
    if (x == nullptr || shape(node.inputs[0]).size() < 3 || node.int_attr("keepdims", 1) == 0) return;
    const auto rank = static_cast<int64_t>(shape(node.inputs[0]).size());
    std::vector<int64_t> axes;
    if (node.op->family == Family::reduce) {
      axes = reduced_axes(view(graph_, node));
    } else {
      for (int64_t d = 2; d < rank; ++d) axes.push_back(d);
    }
    int64_t count = 1;
    for (const int64_t axis : axes) count *= shape(node.inputs[0])[static_cast<size_t>(axis)];
    if (count == 0 || !x->x.multiplies() || count * kMostInteger >= kExactInF32) return;
    const Term of = *x;
    const ValueId sum = b_.add("ReduceSum", {of.x.value, b_.list(axes)}, {{"keepdims", int64_t{1}}}, node.name);
    const auto each = [&](double f) { return f / static_cast<double>(count); };
    reals_[node.outputs[0]] = {{{{sum, of.x.low * count, of.x.high * count}, mapped(of.factor, each)}}, {}};
  }

  /// The means under windows: means of f32 over all taps, padding included, times the number of taps give the integer
  /// sums, which are divided by the number of pixels that count.
  void average_windows(const Node& node) {
    const Term* x = scaled(node.inputs[0]);
    if (x == nullptr || !x->x.multiplies()) return;
    const Window window = pool_window(node, shape(node.inputs[0]));
    const int64_t taps = window.kernel_elems();
    const WindowCounts counts = window_counts(window, node.int_attr("count_include_pad", 0) != 0);
    if (taps > kMostTapsOfBytes || std::ranges::count(counts.divisor.span<double>(), 0.0) > 0) return;
    const Term of = *x;
    Attrs attrs = node.attrs;
    attrs["count_include_pad"] = int64_t{1};
    const double scale = of.factor.data<double>()[0];
    const Tensor factor = mapped(counts.divisor, [&](double count) { return scale / count; });
    const ValueId mean = b_.add("AveragePool", {of.x.value}, attrs, node.name);
    const int64_t low = of.x.low * taps, high = of.x.high * taps;
    const ValueId inputs[] = {mean, constant_f64(counts.covered), constant_f64(Tensor::scalar(0.0))};
    const ValueId sum = b_.add_kilter("RoundedSum", {inputs, inputs + 3}, {{"low", low}, {"high", high}}, node.name);
    reals_[node.outputs[0]] = {{{{sum, low, high}, factor}}, {}};
  }

  // --- moves ---

  /// The node with other operands in place of its first `operands.size()`. Results are f32.
  std::vector<ValueId> with_operands(const Node& node, const std::vector<ValueId>& operands) {
    std::vector<ValueId> inputs = node.inputs;
    std::copy(operands.begin(), operands.end(), inputs.begin());
    std::vector<std::optional<TensorType>> types;
    for (ValueId out : node.outputs) {
      types.emplace_back();
      if (out != kNone) types.back() = TensorType{DType::f32, shape(out), {}};
    }
    const NodeId made = graph_.add_node(node.op, node.name, node.opset, node.attrs, inputs, types);
    return graph_.node(made).outputs;
  }

  void move(const Node& node) {
    const ValueId in = node.inputs[0];
    const auto codes = codes_.find(in);
    const Term* x = codes == codes_.end() ? scaled(in) : nullptr;
    if (x == nullptr && codes == codes_.end()) return;
    const Integers from = x != nullptr ? x->x : codes->second.integers;
    if (dtype(from.value) != DType::f32) return;  // sums of i32, which not all of these operators take
    const std::vector<ValueId> outputs = with_operands(node, {from.value});
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (outputs[i] == kNone) continue;
      const Integers to{outputs[i], from.low, from.high};
      if (x != nullptr)
        reals_[node.outputs[i]] = {{{to, x->factor}}, {}};
      else
        codes_[node.outputs[i]] = {to, codes->second.zero};
    }
  }

  /// The rounding that all readers of a value apply; nullopt if they differ.
  std::optional<Rounding> read_as(ValueId v) const {
    std::optional<Rounding> all;
    for (NodeId id : graph_.users(v)) {
      const Node& user = graph_.node(id);
      const auto by = is_op(user, "Quantize", "kilter") ? rounding(user) : std::nullopt;
      if (!by || (all && !(*all == *by))) return std::nullopt;
      all = by;
    }
    return graph_.is_output(v) ? std::nullopt : all;
  }

  void concat(const Node& node) {
    const ValueId out = node.outputs[0];
    const std::optional<Rounding> to = dtype(out) == DType::f32 ? read_as(out) : std::nullopt;
    std::vector<ValueId> parts;
    Codes codes;
    codes.integers.low = std::numeric_limits<int64_t>::max(), codes.integers.high = -codes.integers.low;
    double factor = 0;
    for (ValueId in : node.inputs) {
      const auto known = codes_.find(in);
      const Real* value = real(in);
      Integers part;
      if (known != codes_.end()) {
        part = known->second.integers;
        if (!parts.empty() && codes.zero != known->second.zero) return;
        codes.zero = known->second.zero;
      } else if (to && value != nullptr && !value->terms.empty()) {
        part = rounded(*value, *to, node.name);
        factor = to->scale;
      } else if (const Term* x = scaled(in); x != nullptr && !to && dtype(x->x.value) == DType::f32) {
        part = x->x;
        if (!parts.empty() && factor != x->factor.data<double>()[0]) return;
        factor = x->factor.data<double>()[0];
      } else {
        return;
      }
      parts.push_back(part.value);
      codes.integers.low = std::min(codes.integers.low, part.low);
      codes.integers.high = std::max(codes.integers.high, part.high);
    }
    codes.integers.value = with_operands(node, parts)[0];
    if (dtype(out) == DType::f32)
      reals_[out] = {{{codes.integers, Tensor::scalar(factor)}}, {}};
    else
      codes_[out] = codes;
  }

  Graph& graph_;
  PassContext& context_;
  GraphBuilder b_;
  ValueId one_ = kNone;
  std::map<ValueId, Codes> codes_;      ///< by value of an integer type
  std::map<ValueId, Weights> weights_;  ///< by f32 value that a Dequantize computes from constants
  std::map<ValueId, Real> reals_;       ///< by f32 value
};

}  // namespace

void integer_arithmetic(Graph& graph, PassContext& context) { IntegerArithmetic(graph, context).run(); }

}  // namespace kilter
