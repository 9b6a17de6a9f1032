#include "codegen/llvm/relocate.h"

#include <elf.h>
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

namespace kilter::codegen {
namespace {

/// Three pages of code with one instruction at `place`, to which a relocation was applied.
class Patched {
 public:
  Patched(Arch arch, uint64_t type, uint32_t instruction, int64_t place, int64_t to) : place_(place) {
    blob_.resize(3 * 4096);
    std::memcpy(blob_.data() + place, &instruction, sizeof instruction);
    wrong = apply(arch, type, blob_, place, to);
  }
  uint32_t instruction() const {
    uint32_t word = 0;
    std::memcpy(&word, blob_.data() + place_, sizeof word);
    return word;
  }
  std::string wrong;

 private:
  std::vector<std::byte> blob_;
  int64_t place_;
};

TEST(Relocate, PageAddressesAreEncodedPerInstruction) {
  // adrp x8 with a target two pages ahead, one page back, and in the same page.
  EXPECT_EQ(Patched(Arch::aarch64, R_AARCH64_ADR_PREL_PG_HI21, 0x90000008, 0xffc, 0x2010).instruction(), 0xd0000008);
  EXPECT_EQ(Patched(Arch::aarch64, R_AARCH64_ADR_PREL_PG_HI21, 0x90000008, 0x1000, 0xff0).instruction(), 0xf0ffffe8);
  EXPECT_EQ(Patched(Arch::aarch64, R_AARCH64_ADR_PREL_PG_HI21, 0x90000008, 0x1ffc, 0x1000).instruction(), 0x90000008);
  // add x8, x8, #0x123; ldr q0, [x8, #0x120]; ldr s0, [x8, #0x124]
  EXPECT_EQ(Patched(Arch::aarch64, R_AARCH64_ADD_ABS_LO12_NC, 0x91000108, 0, 0x2123).instruction(), 0x91048d08);
  EXPECT_EQ(Patched(Arch::aarch64, R_AARCH64_LDST128_ABS_LO12_NC, 0x3dc00100, 0, 0x2120).instruction(), 0x3dc04900);
  EXPECT_EQ(Patched(Arch::aarch64, R_AARCH64_LDST32_ABS_LO12_NC, 0xbd400100, 0, 0x2124).instruction(), 0xbd412500);
}

TEST(Relocate, DifferencesOfBytes) {
  EXPECT_EQ(Patched(Arch::x86_64, R_X86_64_PC32, 0, 0x100, 0x80).instruction(), 0xffffff80);
  EXPECT_EQ(Patched(Arch::aarch64, R_AARCH64_PREL32, 0, 0x100, 0x180).instruction(), 0x80U);
}

TEST(Relocate, RefusesAbsoluteAndTooFarRelocations) {
  EXPECT_EQ(Patched(Arch::x86_64, R_X86_64_64, 0, 0, 0).wrong,
            "relocation type 1: expected one relative to its place (PC32, PLT32, PC64)");
  EXPECT_EQ(Patched(Arch::aarch64, R_AARCH64_ABS64, 0, 0, 0).wrong,
            "relocation type 257: expected one relative to its place (PREL32, PREL64) or page (ADR_PREL_PG_HI21, "
            "ADD_ABS_LO12_NC, LDST*_ABS_LO12_NC)");
  EXPECT_EQ(Patched(Arch::x86_64, R_X86_64_PC32, 0, 0, int64_t{1} << 31).wrong,
            "2147483648 bytes away, farther than 32 bits reach");
  EXPECT_EQ(Patched(Arch::aarch64, R_AARCH64_ADR_PREL_PG_HI21, 0x90000008, 0, int64_t{1} << 32).wrong,
            "4294967296 bytes away, farther than 33 bits reach");
  EXPECT_EQ(Patched(Arch::aarch64, R_AARCH64_LDST128_ABS_LO12_NC, 0x3dc00100, 0, 0x2128).wrong,
            "at byte 8488, expected a multiple of 16");
  std::vector<std::byte> blob(8);
  EXPECT_EQ(apply(Arch::x86_64, R_X86_64_PC32, blob, 6, 0), "the relocation is outside the code");
  EXPECT_EQ(apply(Arch::aarch64, R_AARCH64_ADD_ABS_LO12_NC, blob, 6, 0), "the relocation is outside the code");
}

}  // namespace
}  // namespace kilter::codegen
