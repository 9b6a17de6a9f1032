#include "packing/recipe.h"

#include "base/error.h"

namespace kilter {

int64_t elems(const Recipe& recipe) {
  return std::visit([](const auto& one) { return one.elems(); }, recipe);
}

std::optional<std::string> fault_of(const Recipe& recipe, DType type, int64_t source_elems) {
  const auto* filters = std::get_if<WinogradFilters>(&recipe);
  if (filters == nullptr) return fault_of(std::get<Gather>(recipe), source_elems);
  if (type != DType::f32) return fmt::format("filters of type {}; expected f32", name(type));
  return fault_of(*filters, source_elems);
}

void pack(const Recipe& recipe, DType from, const std::byte* source, DType to, std::byte* packed) {
  const auto* filters = std::get_if<WinogradFilters>(&recipe);
  if (filters == nullptr) return pack(std::get<Gather>(recipe), from, source, to, packed);
  require(from == DType::f32 && to == DType::f32, "transformed filters of type {} from {}", name(to), name(from));
  pack(*filters, reinterpret_cast<const float*>(source), reinterpret_cast<float*>(packed));
}

Tensor as_packed(const Tensor& source, DType type) {
  if (source.dtype() == type) return source;
  const int64_t count = source.elems();
  Tensor made(type, source.shape());
  if (count > 0) pack(Gather{{{count, 1, 0}}, {{count, 0, 1}}}, source.dtype(), source.raw(), type, made.raw());
  return made;
}

}  // namespace kilter
