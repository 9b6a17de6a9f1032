#include "compile/compile.h"

#include <cstring>

#include "base/iterate.h"
#include "graph/values.h"

namespace kilter {

const std::vector<Ranked>& StepNotes::ranked() const {
  static const std::vector<Ranked> kNothing;
  const TemplateView* chosen = chosen_of(templates);
  return chosen == nullptr ? kNothing : chosen->ranked;
}

Tensor extract(const PlacedValue& value, const std::byte* buffer) {
  Tensor out(stored_type(value.type), value.type.shape);
  const int64_t size = stored_bytes(value.type);
  for_each_element(value.type.shape, value.type.layout.block, value.strides, value.offset, [&](int64_t i, int64_t at) {
    std::memcpy(out.raw() + i * size, buffer + at * size, static_cast<size_t>(size));
  });
  return elements_of(value.type, out);
}

}  // namespace kilter
