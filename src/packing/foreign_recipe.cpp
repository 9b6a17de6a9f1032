#include "packing/foreign_recipe.h"

#include "base/error.h"

namespace kilter {

std::optional<std::string> fault_of(const Recipe& recipe, DType type, int64_t source_bytes, int64_t bytes) {
  if (type == DType::string || is_narrow(type)) return fmt::format("elements of type {}", name(type));
  const int64_t size = size_bytes(type);
  if (source_bytes < 0 || source_bytes % size != 0) return fmt::format("{} bytes of {}", source_bytes, name(type));
  if (auto fault = fault_of(recipe, type, source_bytes / size)) return fault;
  if (bytes % size != 0 || elems(recipe) != bytes / size)
    return fmt::format("{} elements of {} for {} bytes", elems(recipe), name(type), bytes);
  return std::nullopt;
}

}  // namespace kilter
