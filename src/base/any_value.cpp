#include "base/any_value.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "base/map_value.h"
#include "base/text.h"

namespace kilter {

std::string text(const AnyValue& value) {
  if (value.absent()) return "absent";
  if (value.is_tensor())
    return fmt::format("{}[{}]", name(value.tensor().dtype()), fmt::join(value.tensor().shape(), ","));
  if (is_map(value))
    return fmt::format("map of {} from {} to {}", map_keys(value).elems(), name(map_keys(value).dtype()),
                       name(map_values(value).dtype()));
  constexpr size_t kShown = 4;
  std::vector<std::string> parts;
  for (size_t i = 0; i < std::min(kShown, value.elements().size()); ++i) parts.push_back(text(value.elements()[i]));
  if (value.elements().size() > kShown) parts.push_back("...");
  return fmt::format("sequence of {} ({})", value.elements().size(), fmt::join(parts, ", "));
}

}  // namespace kilter
