// Files that are small: constants are stored as the tensors that they are packed from, and packed when the file is
// loaded. Used by this folder only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "exec/plan.h"
#include "packing/recipe.h"

namespace kilter::vm {

/// A constant in memory, and its source in the file. In memory, the constants of a network follow one another in the
/// order of their list, each at the next multiple of 64.
struct StoredConstant {
  int64_t bytes = 0;  ///< in memory
  bool packed = false;
  DType type = DType::f32;  ///< of the elements, if it is packed
  Recipe recipe;            ///< if it is packed; otherwise the bytes are those in the file
  int64_t stored_at = 0, stored_bytes = 0;
};

template <class Io, class C>
void stored_constant_fields(Io& io, C& constant) {
  io.number(constant.bytes, "size of a constant");
  io.flag(constant.packed, "whether a constant is packed");
  if (constant.packed) {
    io.enumeration(constant.type, static_cast<uint8_t>(kLastDType), "element type of a constant");
    recipe_fields(io, constant.recipe);
  }
  io.number(constant.stored_at, "place of a constant's source");
  io.number(constant.stored_bytes, "size of a constant's source");
}

/// Which constants of the plans of a file are stored as their sources: those whose sources are smaller than everything
/// that is packed from them.
class Sources {
 public:
  explicit Sources(std::span<const Plan* const> plans);

  struct Source {
    const Recipe* recipe = nullptr;
    Tensor tensor;  ///< of the packed constant's type
  };
  /// Returns the source of the constant at an offset; null: its bytes are stored.
  const Source* of(const Plan& plan, int64_t offset) const;

 private:
  std::map<std::pair<const Plan*, int64_t>, Source> sources_;
};

/// The places of the constants of one network in memory.
class MemoryLayout {
 public:
  /// Returns the place of a constant in memory, a multiple of 64. Equal constants have one place. `fresh`: whether the
  /// constant was not known.
  int64_t place(std::span<const std::byte> constant, bool& fresh);

 private:
  std::multimap<uint64_t, std::pair<int64_t, std::span<const std::byte>>> places_;  ///< by hash
  int64_t bytes_ = 0;
};

/// Packed constants in memory.
struct Unpacked {
  std::shared_ptr<void> owner;
  std::span<const std::byte> bytes;
};
/// Packs the constants of a network from those of the file. Throws bad_input, which names the file as `where`, for
/// constants outside the file or that do not fit their recipes, and out_of_memory.
Unpacked unpack(std::span<const StoredConstant> constants, std::span<const std::byte> section, std::string_view where);

}  // namespace kilter::vm
