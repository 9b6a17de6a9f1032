// The precision of a compilation: the types in which values are stored and multiplied.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace kilter {

enum class Precision : uint8_t {
  declared,  ///< the types that the model declares
  /// Values between layers are stored as bf16, and convolutions and products multiply bf16 with sums in f32. All other
  /// arithmetic stays in f32, as do the inputs and outputs of the network.
  bf16,
};
constexpr std::array<std::string_view, 2> kPrecisionNames = {"declared", "bf16"};
constexpr std::string_view name(Precision precision) { return kPrecisionNames[static_cast<size_t>(precision)]; }

}  // namespace kilter
