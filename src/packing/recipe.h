// How a constant is packed from a tensor of the network, as data. A compiled file may contain the tensor and the recipe
// instead of the packed constant, so that targets that pack a tensor in different ways share it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/tensor.h"
#include "packing/gather.h"
#include "packing/winograd_filters.h"

namespace kilter {

using Recipe = std::variant<Gather, WinogradFilters>;

/// Elements of the packed constant. fault_of() must have returned nullopt.
int64_t elems(const Recipe& recipe);
/// Returns what is wrong with a recipe for a source of `source_elems` elements of a type; nullopt: nothing.
std::optional<std::string> fault_of(const Recipe& recipe, DType type, int64_t source_elems);
/// Writes the packed constant to memory that is zeroed. Elements have the same type as the source's, or the source is
/// f32 and they are bf16, f16 or i8.
void pack(const Recipe& recipe, DType from, const std::byte* source, DType to, std::byte* packed);

/// Returns an f32 tensor's elements as the type, as pack() converts them.
Tensor as_packed(const Tensor& source, DType type);

template <class Io, class R>
void gather_fields(Io& io, R& gather) {
  io.list(gather.axes, 24, "axes of a packed constant", [&](auto& axis) {
    io.number(axis.extent, "extent of an axis");
    io.number(axis.stride, "stride of an axis");
    io.number(axis.first, "first index of an axis");
  });
  io.list(gather.loops, 20, "loops of a packed constant", [&](auto& loop) {
    io.number(loop.count, "count of a loop");
    io.number(loop.axis, "axis of a loop");
    io.number(loop.step, "step of a loop");
  });
}

template <class Io, class R>
void winograd_fields(Io& io, R& f) {
  for (auto* field : {&f.out_channels, &f.in_channels, &f.kernel_h, &f.kernel_w, &f.outputs, &f.width, &f.padded_in})
    io.number(*field, "transformed filters");
}

/// Reads or writes a recipe as fields of a compiled file (exec/fields.h). fault_of() checks what was read.
template <class Io, class R>
void recipe_fields(Io& io, R& recipe) {
  auto kind = static_cast<uint8_t>(recipe.index());
  io.enumeration(kind, std::variant_size_v<Recipe> - 1, "kind of a recipe");
  if constexpr (Io::kReads) {
    if (kind == 1) recipe = WinogradFilters();
  }
  if (kind == 0) {
    gather_fields(io, std::get<Gather>(recipe));
  } else {
    winograd_fields(io, std::get<WinogradFilters>(recipe));
  }
}

}  // namespace kilter
