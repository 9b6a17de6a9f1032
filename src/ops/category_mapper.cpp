#include <map>

#include "ops/support/ml.h"
#include "ops/support/operands.h"

namespace kilter {
namespace {

/// Returns the two columns of the table: element i of one is category i of the other.
LabelList table(const Node& node) {
  LabelList list{node.ints_attr("cats_int64s"), strings_attr(node, "cats_strings")};
  check_count(node, "strings in attribute cats_strings, as in cats_int64s", list.ints.size(), list.strings.size());
  return list;
}

void infer(InferContext& ctx) {
  table(ctx.node);
  if (ctx.dtype(0) != DType::string) check_types(Types<int64_t>{}, ctx, 0);
  ctx.set(0, ctx.dtype(0) == DType::string ? DType::i64 : DType::string, ctx.shape(0));
}

// The last entry of equal categories counts.
void reference(ReferenceContext& ctx) {
  const LabelList list = table(ctx.node);
  const Tensor &x = ctx.in(0), &y = ctx.out();
  if (x.dtype() == DType::string) {
    std::map<std::string_view, int64_t> found;
    for (size_t i = 0; i < list.size(); ++i) found[list.strings[i]] = list.ints[i];
    const int64_t fallback = ctx.node.int_attr("default_int64", -1);
    for (int64_t i = 0; i < x.elems(); ++i) {
      const auto at = found.find(x.strings()[static_cast<size_t>(i)]);
      y.data<int64_t>()[i] = at == found.end() ? fallback : at->second;
    }
    return;
  }
  std::map<int64_t, std::string_view> found;
  for (size_t i = 0; i < list.size(); ++i) found[list.ints[i]] = list.strings[i];
  const std::string fallback = ctx.node.string_attr("default_string", "_Unused");
  for (int64_t i = 0; i < x.elems(); ++i) {
    const auto at = found.find(x.data<int64_t>()[i]);
    y.strings()[static_cast<size_t>(i)] = at == found.end() ? fallback : at->second;
  }
}

}  // namespace

KILTER_OP(CategoryMapper){
    .name = "CategoryMapper",
    .domain = kMlDomain,
    .attrs = {{"cats_int64s", "ints", "required"},
              {"cats_strings", "strings", "required"},
              {"default_int64", "int", "-1"},
              {"default_string", "string", "_Unused"}},
    .summary =
        "y = the number in cats_int64s of each string of x in cats_strings, or the string of each i64; the default "
        "where there is none.",
    .infer = infer,
    .reference = reference,
    .tolerance = {.rtol = 0, .atol = 0},
    .cases = {"str[2,2]:\"a\",\"b\",\"c\",\"a\" | cats_strings=[a,b] cats_int64s=[7,9] default_int64=-5",
              "i64[3]:7,9,11 | cats_strings=[a,b] cats_int64s=[7,9]",
              "str[1]:\"a\" | cats_strings=[a,b,a] cats_int64s=[4,5,6]"},
};

}  // namespace kilter
