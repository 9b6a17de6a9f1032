// Built-in networks, made by Kilter itself with seeded weights.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"

namespace kilter::zoo {

struct Options {
  int64_t batch = 1;
  int64_t size = 0;        ///< image height and width in pixels, or tokens; 0: the network's own
  double width = 1;        ///< width multiplier (mobilenet)
  int64_t classes = 0;     ///< 0: the network's own
  uint64_t seed = 0;
};

struct Row {
  std::string_view name;
  std::vector<std::string_view> aliases;
  std::string_view summary;
  int64_t size;            ///< default image size or tokens
  Graph (*build)(const Options&);
};

std::span<const Row> all();
/// By name or alias; nullptr when there is none.
const Row* find(std::string_view name);
/// Builds a network by name. Throws usage (listing the names) when there is none.
Graph build(std::string_view name, const Options& options = {});

}  // namespace kilter::zoo
