// The precision of a compilation: the types in which values are stored and multiplied.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "base/dtype.h"

namespace kilter {

enum class Precision : uint8_t {
  declared,  ///< the types that the model declares
  /// Values between layers are stored as bf16, and convolutions and products multiply bf16 with sums in f32. All other
  /// arithmetic stays in f32, as do the inputs and outputs of the network.
  bf16,
  /// Values between layers and the weights of convolutions and products are stored as f16. All arithmetic is in f32,
  /// and the inputs and outputs of the network keep their types.
  fp16,
};
constexpr std::array<Precision, 3> kPrecisions = {Precision::declared, Precision::bf16, Precision::fp16};
constexpr std::array<std::string_view, 3> kPrecisionNames = {"declared", "bf16", "fp16"};
constexpr std::string_view name(Precision precision) { return kPrecisionNames[static_cast<size_t>(precision)]; }
/// The type in which a precision stores values between layers; nullopt: the types that the model declares.
constexpr std::optional<DType> stored_type(Precision precision) {
  if (precision == Precision::declared) return std::nullopt;
  return precision == Precision::bf16 ? DType::bf16 : DType::f16;
}
/// The precision that stores values as `type`, bf16 or f16.
constexpr Precision precision_of(DType type) { return type == DType::bf16 ? Precision::bf16 : Precision::fp16; }

}  // namespace kilter
