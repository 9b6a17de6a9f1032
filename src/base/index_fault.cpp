#include "base/index_fault.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace kilter {

std::string index_fault(const Shape& shape, int64_t element, int64_t value, const IndexRange& range) {
  Shape place(shape.size());
  int64_t rest = element;
  for (size_t d = shape.size(); d-- > 0; rest /= shape[d]) place[d] = rest % shape[d];
  const std::string where = place.empty() ? "indices" : fmt::format("indices[{}]", fmt::join(place, ","));
  const int64_t size = range.size(element);
  const std::string legal = size > 0 ? fmt::format("legal values are {} to {}", -size, size - 1) : "none is legal";
  return fmt::format("{} is {}, out of range for axis {} of size {}; {}", where, value, range.axis_of(element), size,
                     legal);
}

}  // namespace kilter
