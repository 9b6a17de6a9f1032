#include "zoo/zoo.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "base/nearest.h"
#include "zoo/families.h"

namespace kilter::zoo {
namespace {

constexpr int64_t kMaxSize = 65536;
constexpr int64_t kMaxBatch = 65536;
constexpr int64_t kMaxClasses = int64_t{1} << 20;
constexpr double kMinWidth = 0.05;
constexpr double kMaxWidth = 8;

std::vector<Row> collect() {
  std::vector<Row> rows;
  for (auto* family : {resnet_rows, vgg_rows, mobilenet_rows, squeezenet_rows, inception_rows, densenet_rows,
                       centernet_rows, transformer_rows, volume_rows}) {
    for (Row& row : family()) rows.push_back(std::move(row));
  }
  return rows;
}

void check_range(const Row& row, std::string_view option, int64_t value, int64_t most) {
  if (value >= 1 && value <= most) return;
  fail(ErrorKind::usage, "zoo {}: expected {} from 1 to {}, got {}", row.name, option, most, value);
}

void check_size(const Row& row, int64_t size) {
  const std::string_view unit = row.name.starts_with("bert") ? "tokens" : "pixels";
  const std::string step = row.size_step == 1 ? "" : fmt::format(" and a multiple of {}", row.size_step);
  if (size < row.least_size || size > kMaxSize || size % row.size_step != 0) {
    fail(ErrorKind::bad_input, "zoo {}: expected a size of at least {} and at most {} {}{}, got {}; the default is {}",
         row.name, row.least_size, kMaxSize, unit, step, size, row.size);
  }
}

Options checked(const Row& row, Options options) {
  check_range(row, "a batch", options.batch, kMaxBatch);
  if (options.size == 0) options.size = row.size;
  check_size(row, options.size);
  if (options.classes != 0 && row.classes == 0) {
    fail(ErrorKind::usage, "zoo {}: the network has no classes, got {} classes; leave the option out", row.name,
         options.classes);
  }
  if (row.classes != 0) {
    if (options.classes == 0) options.classes = row.classes;
    check_range(row, "a number of classes", options.classes, kMaxClasses);
  }
  if (options.width != 1 && !row.has_width) {
    fail(ErrorKind::usage, "zoo {}: the network has no width multiplier, got {}; leave the option out", row.name,
         options.width);
  }
  if (!(options.width >= kMinWidth && options.width <= kMaxWidth)) {
    fail(ErrorKind::usage, "zoo {}: expected a width multiplier from {} to {}, got {}", row.name, kMinWidth, kMaxWidth,
         options.width);
  }
  return options;
}

}  // namespace

std::span<const Row> all() {
  static const std::vector<Row> rows = collect();
  return rows;
}

const Row* find(std::string_view name) {
  for (const Row& row : all()) {
    if (row.name == name || std::find(row.aliases.begin(), row.aliases.end(), name) != row.aliases.end()) return &row;
  }
  return nullptr;
}

Graph build(std::string_view name, const Options& options) {
  const Row* row = find(name);
  if (row == nullptr) {
    std::vector<std::string> names;
    for (const Row& known : all()) names.emplace_back(known.name);
    fail(ErrorKind::usage, "zoo: no network '{}'{} legal values are {}", name, did_you_mean(name, names),
         fmt::join(names, ", "));
  }
  Graph graph = row->build(checked(*row, options));
  graph.name = row->name;
  return graph;
}

}  // namespace kilter::zoo
