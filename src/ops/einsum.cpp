#include <algorithm>

#include "ops/support/einsum_equation.h"
#include "ops/support/elementwise.h"
#include "ops/support/onnx_dtype.h"

namespace kilter {
namespace {

using Labels = std::vector<int32_t>;

bool contains(const Labels& labels, int32_t label) {
  return std::find(labels.begin(), labels.end(), label) != labels.end();
}

void infer(InferContext& ctx) {
  check_types(Numbers{}, ctx, 0);
  check_same_dtype(ctx);
  std::vector<Shape> shapes;
  for (size_t i = 0; i < ctx.input_count(); ++i) shapes.push_back(ctx.shape(i));
  ctx.set(0, ctx.dtype(0), parse_einsum(ctx.node, ctx.node.string_attr("equation", ""), shapes).output_shape());
}

template <class T>
void sum_of_products(const ReferenceContext& ctx, const EinsumEquation& equation) {
  using Sum = std::conditional_t<std::is_integral_v<T>, uint64_t, double>;
  Labels order = equation.output;
  const auto labels = static_cast<int32_t>(equation.extents.size());
  for (int32_t label = 0; label < labels; ++label) {
    if (!contains(equation.output, label)) order.push_back(label);
  }
  Shape extents;
  for (int32_t label : order) extents.push_back(equation.extents[static_cast<size_t>(label)]);
  std::vector<Shape> strides;
  for (size_t k = 0; k < ctx.inputs.size(); ++k) {
    const Shape& shape = ctx.in(k).shape();
    const Shape dense = dense_strides(shape);
    Shape by_order(order.size(), 0);
    for (size_t d = 0; d < shape.size(); ++d) {
      const auto at = std::find(order.begin(), order.end(), equation.operands[k][d]) - order.begin();
      if (shape[d] != 1) by_order[static_cast<size_t>(at)] += dense[d];
    }
    strides.push_back(std::move(by_order));
  }
  const int64_t terms = product(extents, equation.output.size(), extents.size());
  if (terms == 0) return;
  Sum sum = 0;
  int64_t count = 0;
  for_each_index(extents, [&](std::span<const int64_t> index) {
    Sum term = 1;
    for (size_t k = 0; k < ctx.inputs.size(); ++k) {
      term *= static_cast<Sum>(widen(ctx.in(k).data<T>()[offset_of(index, strides[k])]));
    }
    sum += term;
    if (++count % terms != 0) return;
    ctx.out().data<T>()[count / terms - 1] = narrow<T>(sum);
    sum = 0;
  });
}

void reference(ReferenceContext& ctx) {
  std::vector<Shape> shapes;
  for (const Tensor& input : ctx.inputs) shapes.push_back(input.shape());
  const EinsumEquation equation = parse_einsum(ctx.node, ctx.node.string_attr("equation", ""), shapes);
  visit_types(Numbers{}, ctx.node, ctx.in(0).dtype(), [&]<class T>() { sum_of_products<T>(ctx, equation); });
}

/// A value whose dimensions carry labels. Each label occurs once and has an extent other than 1.
struct Term {
  ValueId value;
  Labels labels;
};

/// Rewrites an equation into reductions, matrix products and transpositions, from left to right.
class Expansion {
 public:
  Expansion(ExpandContext& ctx, EinsumEquation equation) : ctx_(ctx), equation_(std::move(equation)) {}

  ValueId run() {
    const DType type = ctx_.type(0).dtype;
    const bool narrow_integers = is_integer(type) && size_bytes(type) < 4;
    std::vector<Term> terms;
    for (size_t k = 0; k < equation_.operands.size(); ++k) terms.push_back(prepared(k, narrow_integers));
    Term result = summed(terms[0], needed_after(0));
    for (size_t k = 1; k < terms.size(); ++k) {
      const Labels keep = needed_after(k);
      Labels left = keep;
      left.insert(left.end(), terms[k].labels.begin(), terms[k].labels.end());
      Labels right = keep;
      right.insert(right.end(), result.labels.begin(), result.labels.end());
      result = product_of(summed(result, left), summed(terms[k], right), keep);
    }
    result = ordered(result, in_result(equation_.output, result.labels));
    const Shape shape = equation_.output_shape();
    if (ctx_.builder.type(result.value).shape != shape) result.value = reshaped(result.value, shape);
    return narrow_integers ? ctx_.add("Cast", {result.value}, {{"to", code_of_dtype(type)}}) : result.value;
  }

 private:
  ValueId reshaped(ValueId value, const Shape& shape) { return ctx_.add("Reshape", {value, ctx_.builder.list(shape)}); }
  ValueId reduced(ValueId value, const Shape& axes) {
    return ctx_.add("ReduceSum", {value, ctx_.builder.list(axes)}, {{"keepdims", int64_t{0}}});
  }
  int64_t extent(int32_t label) const { return equation_.extents[static_cast<size_t>(label)]; }
  int64_t extent(const Labels& labels) const {
    int64_t total = 1;
    for (int32_t label : labels) total *= extent(label);
    return total;
  }
  Shape shape_of(const Labels& labels) const {
    Shape shape;
    for (int32_t label : labels) shape.push_back(extent(label));
    return shape;
  }
  static Labels in_result(const Labels& wanted, const Labels& present) {
    Labels result;
    for (int32_t label : wanted) {
      if (contains(present, label)) result.push_back(label);
    }
    return result;
  }

  /// Returns the labels of the output and of the operands after `k`.
  Labels needed_after(size_t k) const {
    Labels labels = equation_.output;
    for (size_t i = k + 1; i < equation_.operands.size(); ++i) {
      labels.insert(labels.end(), equation_.operands[i].begin(), equation_.operands[i].end());
    }
    return labels;
  }

  /// Returns operand k widened, with dimensions of 1 dropped and diagonals taken.
  Term prepared(size_t k, bool widen_to_i32) {
    Term term{ctx_.in(k), {}};
    if (widen_to_i32) term.value = ctx_.add("Cast", {term.value}, {{"to", code_of_dtype(DType::i32)}});
    const Shape shape = ctx_.type(k).shape;
    Shape kept;
    for (size_t d = 0; d < shape.size(); ++d) {
      if (shape[d] == 1) continue;
      kept.push_back(shape[d]);
      term.labels.push_back(equation_.operands[k][d]);
    }
    if (kept.size() != shape.size()) term.value = reshaped(term.value, kept);
    for (size_t d = 0; d < term.labels.size();) {
      const auto first = std::find(term.labels.begin(), term.labels.end(), term.labels[d]) - term.labels.begin();
      if (static_cast<size_t>(first) == d) {
        ++d;
      } else {
        take_diagonal(term, static_cast<size_t>(first), d);
      }
    }
    return term;
  }

  void take_diagonal(Term& term, size_t first, size_t second) {
    const int64_t n = extent(term.labels[first]);
    Shape shape(term.labels.size(), 1);
    shape[first] = n;
    shape[second] = n;
    Tensor mask(DType::boolean, shape);
    for (int64_t i = 0; i < n; ++i) mask.data<bool>()[i * n + i] = true;
    const ValueId zero = ctx_.scalar(ctx_.builder.type(term.value).dtype, 0);
    const ValueId masked = ctx_.add("Where", {ctx_.builder.constant(mask), term.value, zero});
    term.value = reduced(masked, {static_cast<int64_t>(second)});
    term.labels.erase(term.labels.begin() + static_cast<std::ptrdiff_t>(second));
  }

  /// Returns the term summed over the labels that are not in `keep`.
  Term summed(const Term& term, const Labels& keep) {
    Shape axes;
    Labels labels;
    for (size_t d = 0; d < term.labels.size(); ++d) {
      if (contains(keep, term.labels[d])) {
        labels.push_back(term.labels[d]);
      } else {
        axes.push_back(static_cast<int64_t>(d));
      }
    }
    return axes.empty() ? term : Term{reduced(term.value, axes), labels};
  }

  /// Returns the term with its dimensions in the order of `labels`, which must be all of its labels.
  Term ordered(const Term& term, const Labels& labels) {
    if (term.labels == labels) return term;
    std::vector<int64_t> perm;
    for (int32_t label : labels) {
      perm.push_back(std::find(term.labels.begin(), term.labels.end(), label) - term.labels.begin());
    }
    return {ctx_.add("Transpose", {term.value}, {{"perm", perm}}), labels};
  }

  ValueId matrix(const Term& term, const Labels& order, const Shape& shape) {
    const Term sorted = ordered(term, order);
    return ctx_.builder.type(sorted.value).shape == shape ? sorted.value : reshaped(sorted.value, shape);
  }

  /// Returns the product summed over the shared labels that are not in `keep`. All other labels stay.
  Term product_of(const Term& a, const Term& b, const Labels& keep) {
    Labels batch;
    Labels inner;
    Labels rows;
    Labels columns;
    for (int32_t label : a.labels) {
      Labels& group = !contains(b.labels, label) ? rows : contains(keep, label) ? batch : inner;
      group.push_back(label);
    }
    for (int32_t label : b.labels) {
      if (!contains(a.labels, label)) columns.push_back(label);
    }
    const auto joined = [](Labels x, const Labels& y, const Labels& z) {
      x.insert(x.end(), y.begin(), y.end());
      x.insert(x.end(), z.begin(), z.end());
      return x;
    };
    const Labels result = joined(batch, rows, columns);
    const auto shape = [&](const Labels& left, const Labels& right) {
      return batch.empty() ? Shape{extent(left), extent(right)} : Shape{extent(batch), extent(left), extent(right)};
    };
    const ValueId x = matrix(a, joined(batch, rows, inner), shape(rows, inner));
    const ValueId y = matrix(b, joined(batch, inner, columns), shape(inner, columns));
    // Without inner labels this is an outer product, for which Mul broadcasts.
    const ValueId z = ctx_.add(inner.empty() ? "Mul" : "MatMul", {x, y});
    return {reshaped(z, shape_of(result)), result};
  }

  ExpandContext& ctx_;
  EinsumEquation equation_;
};

std::vector<ValueId> expand(ExpandContext& ctx) {
  std::vector<Shape> shapes;
  for (size_t i = 0; i < ctx.node.inputs.size(); ++i) shapes.push_back(ctx.type(i).shape);
  return {Expansion(ctx, parse_einsum(ctx.node, ctx.node.string_attr("equation", ""), shapes)).run()};
}

}  // namespace

KILTER_OP(Einsum){
    .name = "Einsum",
    .since = 12,
    .family = Family::gemm,
    .max_inputs = -1,
    .attrs = {{"equation", "string", "required"}},
    .summary = "Sum of products over the labels that the equation `a,b->c` does not keep.",
    .infer = infer,
    .reference = reference,
    .expand = expand,
    .tolerance = {.rtol = 1e-4, .atol = 1e-5},
    .cases = {"f32[3,4] | equation=\"ij->ji\"", "f32[3,4] | equation=\"ij->i\"",
              "f32[3,5,5] | equation=\"...ii->...i\"", "f32[5] f32[5] | equation=\"i,i\"",
              "f32[5,2,3] f32[5,3,4] | equation=\"bij,bjk->bik\"",
              "f32[2,3,4,8] f32[2,3,5,8] | equation=\"bhid,bhjd->bhij\"",
              "f32[2,4] f32[3,4] f32[3,5] | equation=\"ab,cb,cd->ad\"", "f32[2,3] f32[4] | equation=\"ij,k->kij\"",
              "f32[1,2,4] f32[3,4,5] | equation=\"...ij,...jk->...ik\"", "i32[3,3] | equation=\"ii\"",
              "f16[2,7] f16[7,3] | equation=\"ab,bc\"", "u8[3,4] u8[4] | equation=\"ij,j->i\"",
              "f64[2,3,4] f64[4] | equation=\"abc,c->ba\"", "f32[2,0,3] f32[3,4] | equation=\"abc,cd->abd\"",
              "f32[2,0,3] f32[2,0,4] | equation=\"abc,abd->cd\"", "f32[2,0] f32[3,4] | equation=\"ab,cd->dbca\""},
};

}  // namespace kilter
