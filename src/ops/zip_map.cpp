#include <map>

#include "ops/support/maps.h"
#include "ops/support/ml.h"
#include "ops/support/operands.h"

namespace kilter {
namespace {

/// Returns the labels in ascending order with the column of each; the last column of equal labels counts.
template <class Label>
std::vector<std::pair<Label, int64_t>> columns_of(const std::vector<Label>& labels) {
  std::map<Label, int64_t> columns;
  for (size_t i = 0; i < labels.size(); ++i) columns[labels[i]] = static_cast<int64_t>(i);
  return {columns.begin(), columns.end()};
}

/// Fills `keys` and returns the column of each.
std::vector<int64_t> ordered_columns(const LabelList& labels, Tensor& keys) {
  std::vector<int64_t> columns;
  if (labels.of_strings()) {
    std::vector<std::string> names;
    for (auto& [label, column] : columns_of(labels.strings)) names.push_back(label), columns.push_back(column);
    keys = Tensor(DType::string, {static_cast<int64_t>(names.size())});
    keys.strings() = std::move(names);
  } else {
    std::vector<int64_t> numbers;
    for (const auto& [label, column] : columns_of(labels.ints)) numbers.push_back(label), columns.push_back(column);
    keys = Tensor::of<int64_t>({static_cast<int64_t>(numbers.size())}, std::span<const int64_t>(numbers));
  }
  return columns;
}

std::vector<AnyValue> run(RunContext& ctx) {
  const Tensor& x = ctx.tensor(0);
  if (x.dtype() != DType::f32 && x.dtype() != DType::f64)
    node_error(ctx.node, fmt::format("input 0 is {}, expected f32 or f64", text(ctx.inputs[0])));
  const FeatureRows rows = feature_rows(ctx.node, x.shape());
  const LabelList labels = label_list(ctx.node, "classlabels_int64s", "classlabels_strings");
  check_count(ctx.node, "class labels, one for each column of the input", static_cast<size_t>(rows.columns),
              labels.size());
  Tensor keys;
  const std::vector<int64_t> columns = ordered_columns(labels, keys);
  std::vector<AnyValue> maps;
  for (int64_t row = 0; row < rows.count; ++row) {
    const Tensor values(x.dtype(), keys.shape());
    for (size_t i = 0; i < columns.size(); ++i)
      copy_element(x, row * rows.columns + columns[i], values, static_cast<int64_t>(i));
    maps.push_back(map_value(keys, values));
  }
  return {AnyValue::sequence(std::move(maps))};
}

}  // namespace

KILTER_OP(ZipMap){
    .name = "ZipMap",
    .domain = kMlDomain,
    .attrs = {{"classlabels_int64s", "ints", ""}, {"classlabels_strings", "strings", ""}},
    .summary =
        "y = sequence of maps, one for each row of x [rows, classes] or [classes], from class labels to the row's "
        "elements.",
    .run = run,
};

}  // namespace kilter
