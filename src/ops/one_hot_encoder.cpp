#include <cmath>
#include <map>
#include <set>

#include "ops/support/ml.h"
#include "ops/support/operands.h"

namespace kilter {
namespace {

LabelList categories(const Node& node, DType type) {
  LabelList list = label_list(node, "cats_int64s", "cats_strings");
  if (list.size() == 0) node_error(node, "has no categories, expected cats_int64s or cats_strings");
  if (list.of_strings() != (type == DType::string)) {
    node_error(node, fmt::format("input has element type {}, expected {} to match the categories", name(type),
                                 list.of_strings() ? "str" : "i64, i32, f32 or f64"));
  }
  return list;
}

void infer(InferContext& ctx) {
  if (ctx.dtype(0) != DType::string) check_types(FeatureTypes{}, ctx, 0);
  Shape shape = ctx.shape(0);
  shape.push_back(static_cast<int64_t>(categories(ctx.node, ctx.dtype(0)).size()));
  check_shape(ctx.node, shape);
  ctx.set(0, DType::f32, std::move(shape));
}

/// Sets element `at(x)` of each row, where `at` maps a category to its last position in the list.
template <class Key, class Element>
void encode(ReferenceContext& ctx, const std::vector<Key>& keys, Element element) {
  std::map<Key, size_t> found;
  for (size_t i = 0; i < keys.size(); ++i) found[keys[i]] = i;
  float* row = ctx.out().data<float>();
  for (int64_t i = 0; i < ctx.in(0).elems(); ++i, row += keys.size()) {
    const bool nan = is_float(ctx.in(0).dtype()) && std::isnan(ctx.in(0).as_double(i));
    const auto at = nan ? found.end() : found.find(element(i));
    if (at != found.end()) {
      row[at->second] = 1;
    } else if (ctx.node.int_attr("zeros", 1) == 0) {
      fail(ErrorKind::bad_input, "{}: element {} of the input is in no category, which attribute zeros = 0 forbids",
           label(ctx.node), i);
    }
  }
}

void reference(ReferenceContext& ctx) {
  const Tensor& x = ctx.in(0);
  const LabelList list = categories(ctx.node, x.dtype());
  fill(ctx.out(), 0);
  if (list.of_strings()) {
    encode(ctx, list.strings, [&](int64_t i) -> const std::string& { return x.strings()[static_cast<size_t>(i)]; });
  } else {
    encode(ctx, list.ints, [&](int64_t i) { return x.as_int(i); });
  }
}

// Numbers are compared with all categories if each is in the list once.
std::vector<ValueId> expand(ExpandContext& ctx) {
  const Node& node = ctx.node;
  const LabelList list = categories(node, ctx.type(0).dtype);
  const bool once = std::set<int64_t>(list.ints.begin(), list.ints.end()).size() == list.size();
  if (list.of_strings() || !once || node.int_attr("zeros", 1) == 0) return unexpanded(ctx, 1);
  const ValueId column = ctx.add("Unsqueeze", {ctx.in(0), ctx.builder.list(std::vector<int64_t>{-1})});
  const ValueId known = ctx.builder.constant(list.tensor(), "categories");
  ValueId found = ctx.add("Equal", {converted(ctx, column, DType::i64), known});
  if (is_float(ctx.type(0).dtype)) {
    found = ctx.add("And", {found, ctx.add("Not", {ctx.add("IsNaN", {column})})});
  }
  return {converted(ctx, found, DType::f32)};
}

}  // namespace

KILTER_OP(OneHotEncoder){
    .name = "OneHotEncoder",
    .domain = kMlDomain,
    .attrs = {{"cats_int64s", "ints", ""}, {"cats_strings", "strings", ""}, {"zeros", "int", "1"}},
    .summary =
        "y [..., categories] = 1 at the position of each element of x in the list of categories, else 0 (f32); floats "
        "are truncated, and NaN is in no category. An element in no category gives zeros, or an error if zeros is 0.",
    .infer = infer,
    .reference = reference,
    .expand = expand,
    .tolerance = {.rtol = 0, .atol = 0},
    .cases = {"i64[2,2]:1,2,5,1 | cats_int64s=[1,2,1]", "f32[4]:1.7,2,-0.5,nan | cats_int64s=[0,1,2]",
              "str[2]:\"b\",\"x\" | cats_strings=[a,b]", "i32[2]:1,0 | cats_int64s=[0,1] zeros=0",
              "f64[1,3]:3,4,5 | cats_int64s=[4]"},
};

}  // namespace kilter
