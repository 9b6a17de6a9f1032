#include "base/index_fault.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace kilter {

std::string index_fault(const Shape& shape, int64_t element, int64_t value, const IndexRange& range) {
  Shape place(shape.size());
  int64_t rest = element;
  for (size_t d = shape.size(); d-- > 0; rest /= shape[d]) place[d] = rest % shape[d];
  const std::string_view name = range.lengths ? "sequence_lens" : "indices";
  const std::string where = place.empty() ? std::string(name) : fmt::format("{}[{}]", name, fmt::join(place, ","));
  const int64_t size = range.size(element);
  if (range.lengths) return fmt::format("{} is {}; legal values are 0 to {}", where, value, size - 1);
  const std::string legal = size > 0 ? fmt::format("legal values are {} to {}", -size, size - 1) : "none is legal";
  return fmt::format("{} is {}, out of range for axis {} of size {}; {}", where, value, range.axis_of(element), size,
                     legal);
}

}  // namespace kilter
