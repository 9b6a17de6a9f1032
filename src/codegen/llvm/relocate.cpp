#include "codegen/llvm/relocate.h"

#include <elf.h>
#include <fmt/format.h>

#include <cstring>
#include <optional>

namespace kilter::codegen {
namespace {

constexpr int64_t kPage = 4096;

bool fits(int64_t value, int bits) {
  const int64_t limit = int64_t{1} << (bits - 1);
  return value >= -limit && value < limit;
}

std::string too_far(int64_t distance, int bits) {
  return fmt::format("{} bytes away, farther than {} bits reach", distance, bits);
}

/// The place that one relocation writes to.
struct Field {
  std::span<std::byte> blob;
  size_t place;

  bool holds(size_t bytes) const { return place <= blob.size() && bytes <= blob.size() - place; }
  /// Writes the low `bytes` bytes of a two's complement number.
  void write(int64_t value, size_t bytes) const { std::memcpy(blob.data() + place, &value, bytes); }
  /// Replaces the bits of `mask` in a 4-byte instruction.
  void insert(uint32_t mask, uint32_t bits) const {
    uint32_t instruction = 0;
    std::memcpy(&instruction, blob.data() + place, sizeof instruction);
    instruction = (instruction & ~mask) | bits;
    std::memcpy(blob.data() + place, &instruction, sizeof instruction);
  }
};

/// Writes a plain difference of `bytes` bytes.
std::string difference(const Field& field, int64_t distance, size_t bytes) {
  if (!field.holds(bytes)) return "the relocation is outside the code";
  if (bytes == 4 && !fits(distance, 32)) return too_far(distance, 32);
  field.write(distance, bytes);
  return "";
}

std::string apply_x86(uint64_t type, const Field& field, int64_t distance) {
  switch (type) {
    case R_X86_64_PC32:
    case R_X86_64_PLT32:
      return difference(field, distance, 4);
    case R_X86_64_PC64:
      return difference(field, distance, 8);
    default:
      return fmt::format("relocation type {}: expected one relative to its place (PC32, PLT32, PC64)", type);
  }
}

/// Returns log2 of the bytes that a load or store of the type moves, which is the unit of its 12-bit offset. ADD counts
/// in bytes.
std::optional<int> page_offset_scale(uint64_t type) {
  switch (type) {
    case R_AARCH64_ADD_ABS_LO12_NC:
    case R_AARCH64_LDST8_ABS_LO12_NC:
      return 0;
    case R_AARCH64_LDST16_ABS_LO12_NC:
      return 1;
    case R_AARCH64_LDST32_ABS_LO12_NC:
      return 2;
    case R_AARCH64_LDST64_ABS_LO12_NC:
      return 3;
    case R_AARCH64_LDST128_ABS_LO12_NC:
      return 4;
    default:
      return std::nullopt;
  }
}

/// Patches ADRP: the distance between two pages, counted in pages, as 21 bits. The low two go to bit 29, the others to
/// bit 5.
std::string adrp(const Field& field, int64_t to) {
  const int64_t pages = to / kPage - static_cast<int64_t>(field.place) / kPage;
  if (!fits(pages, 21)) return too_far(pages * kPage, 33);
  const auto bits = static_cast<uint32_t>(pages);
  field.insert(0x60ffffe0U, (bits & 3U) << 29 | (bits >> 2 & 0x7ffffU) << 5);
  return "";
}

std::string apply_arm(uint64_t type, const Field& field, int64_t to) {
  if (type == R_AARCH64_PREL32) return difference(field, to - static_cast<int64_t>(field.place), 4);
  if (type == R_AARCH64_PREL64) return difference(field, to - static_cast<int64_t>(field.place), 8);
  if (!field.holds(4)) return "the relocation is outside the code";
  if (type == R_AARCH64_ADR_PREL_PG_HI21) return adrp(field, to);
  if (const auto scale = page_offset_scale(type)) {
    const auto offset = static_cast<uint32_t>(to % kPage);
    if ((offset & ((1U << *scale) - 1)) != 0) {
      return fmt::format("at byte {}, expected a multiple of {}", to, 1U << *scale);
    }
    field.insert(0x3ffc00U, (offset >> *scale) << 10);
    return "";
  }
  return fmt::format(
      "relocation type {}: expected one relative to its place (PREL32, PREL64) or page (ADR_PREL_PG_HI21, "
      "ADD_ABS_LO12_NC, LDST*_ABS_LO12_NC)",
      type);
}

}  // namespace

std::string apply(Arch arch, uint64_t type, std::span<std::byte> blob, int64_t place, int64_t to) {
  if (place < 0 || (arch == Arch::aarch64 && to < 0)) return "the relocation is outside the code";
  const Field field{blob, static_cast<size_t>(place)};
  return arch == Arch::x86_64 ? apply_x86(type, field, to - place) : apply_arm(type, field, to);
}

}  // namespace kilter::codegen
