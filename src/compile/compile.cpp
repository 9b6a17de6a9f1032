#include "compile/compile.h"

#include <cstring>

namespace kilter {

const std::vector<Ranked>& StepNotes::ranked() const {
  static const std::vector<Ranked> kNothing;
  const TemplateView* chosen = chosen_of(templates);
  return chosen == nullptr ? kNothing : chosen->ranked;
}

Tensor extract(const PlacedValue& value, const std::byte* buffer) {
  Tensor out(value.type.dtype, value.type.shape);
  const int64_t size = size_bytes(value.type.dtype);
  const int64_t block = value.type.layout.block;
  const size_t rank = value.type.shape.size();
  Shape index(rank, 0);
  for (int64_t i = 0; i < out.elems(); ++i) {
    int64_t at = value.offset;
    for (size_t d = 0; d < rank; ++d) {
      at += (d == 1 && block > 1) ? index[d] / block * value.strides[d] + index[d] % block * value.strides[rank]
                                  : index[d] * value.strides[d];
    }
    std::memcpy(out.raw() + i * size, buffer + at * size, static_cast<size_t>(size));
    for (size_t d = rank; d-- > 0;) {
      if (++index[d] < value.type.shape[d]) break;
      index[d] = 0;
    }
  }
  return out;
}

}  // namespace kilter
