#include <algorithm>

#include "ops/support/maps.h"
#include "ops/support/ml.h"

namespace kilter {
namespace {

/// Copies the values of the keys in the vocabulary to their places in y [1, vocabulary].
template <class Key>
void fill_row(const std::vector<Key>& vocabulary, std::span<const Key> keys, const Tensor& values, const Tensor& y) {
  for (size_t i = 0; i < vocabulary.size(); ++i) {
    const auto at = std::ranges::lower_bound(keys, vocabulary[i]);
    if (at != keys.end() && *at == vocabulary[i]) copy_element(values, at - keys.begin(), y, static_cast<int64_t>(i));
  }
}

std::vector<AnyValue> run(RunContext& ctx) {
  const LabelList vocabulary = label_list(ctx.node, "int64_vocabulary", "string_vocabulary");
  if (vocabulary.size() == 0) node_error(ctx.node, "has no vocabulary, expected int64_vocabulary or string_vocabulary");
  const AnyValue& x = map_operand(ctx, vocabulary.dtype());
  const Tensor &keys = map_keys(x), &values = map_values(x);
  Tensor y(values.dtype(), {1, static_cast<int64_t>(vocabulary.size())});
  if (vocabulary.of_strings()) {
    fill_row<std::string>(vocabulary.strings, keys.strings(), values, y);
  } else {
    fill_row<int64_t>(vocabulary.ints, keys.span<const int64_t>(), values, y);
  }
  return {std::move(y)};
}

}  // namespace

KILTER_OP(DictVectorizer){
    .name = "DictVectorizer",
    .domain = kMlDomain,
    .attrs = {{"int64_vocabulary", "ints", ""}, {"string_vocabulary", "strings", ""}},
    .summary =
        "y [1, vocabulary] = the value of each key of the vocabulary in a map; 0, or an empty string, where the map "
        "lacks the key. Keys outside the vocabulary have no effect.",
    .run = run,
};

}  // namespace kilter
