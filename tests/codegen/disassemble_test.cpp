// Machine code read back: what a loop of known work is made of, on every level of x86-64.
#include "codegen/llvm/disassemble.h"

#include <gmock/gmock.h>

#include "run.h"

namespace kilter::testing {
namespace {

using ::testing::HasSubstr;

/// Six accumulators; each step loads two vectors, broadcasts three elements and makes six multiply-adds.
LoopFunc tile(int32_t lanes) {
  LoopBuilder b("tile");
  const Buf x = b.input("x", DType::f32, 3 * 64);
  const Buf w = b.input("w", DType::f32, int64_t{64} * 2 * lanes);
  const Buf y = b.output("y", DType::f32, int64_t{6} * lanes);
  b.parallel("n", 1);
  std::vector<int32_t> acc;
  for (int i = 0; i < 6; ++i) acc.push_back(b.reg("acc", imm(DType::f32, 0, lanes)));
  b.loop("k", 0, 64, 1, [&](const Expr& k) {
    std::vector<Expr> row;
    for (int v = 0; v < 2; ++v) row.push_back(b.let("w", b.load(w, (k * 2 + v) * Expr(lanes), lanes)));
    for (int p = 0; p < 3; ++p) {
      const Expr pixel = b.let("p", b.load(x, k + Expr(p * 64), lanes, 0));
      for (size_t v = 0; v < 2; ++v) {
        const int32_t reg = acc[static_cast<size_t>(p) * 2 + v];
        b.set(reg, fma(pixel, row[v], b.get(reg)));
      }
    }
  });
  for (size_t i = 0; i < acc.size(); ++i) b.store(y, Expr(static_cast<int64_t>(i) * lanes), b.get(acc[i]));
  return b.finish();
}

std::vector<Instruction> code_of(const Target& target) {
  const LoopFunc func = loop_passes::lower(tile(target.limits.lanes_f32()), target.limits);
  const MachineCode code = compile(std::span(&func, 1), target);
  return disassemble(code.bytes, code.entries.at(0), target);
}

TEST(Disassemble, CountsWhatTheInnerLoopOfARegisterTileDoes) {
  for (const char* name : {"x86-64-v3", "x86-64-v4", "znver4"}) {
    const std::vector<Instruction> code = code_of(parse_target(name));
    const std::vector<InnerLoop> loops = inner_loops(code);
    const auto it = std::find_if(loops.begin(), loops.end(), [](const InnerLoop& l) { return l.fmas > 0; });
    ASSERT_NE(it, loops.end()) << name << "\n" << listing(code);
    EXPECT_EQ(it->fmas, 6) << name << "\n" << listing(code);
    EXPECT_EQ(it->broadcasts, 3) << name << "\n" << listing(code);
    EXPECT_EQ(it->loads, 5) << name << "\n" << listing(code);
    EXPECT_EQ(it->stores + it->stack + it->prefetches, 0) << name << "\n" << listing(code);
    EXPECT_GE(it->registers, 9) << name << "\n" << listing(code);
    EXPECT_LE(it->registers, 11) << name << "\n" << listing(code);
  }
}

TEST(Disassemble, ReachesTheReturnAndNothingBeyond) {
  const std::vector<Instruction> code = code_of(parse_target("x86-64-v4"));
  EXPECT_EQ(std::count_if(code.begin(), code.end(), [](const Instruction& i) { return i.text == "ret"; }), 1);
  for (size_t i = 1; i < code.size(); ++i) {
    EXPECT_EQ(code[i].offset, code[i - 1].offset + code[i - 1].bytes) << listing(code);
    EXPECT_EQ(code[i].text.find("int3"), std::string::npos);
  }
  EXPECT_THAT(listing(code), HasSubstr("vfmadd231ps zmm"));
  EXPECT_THAT(listing(code), HasSubstr(".L0:\n"));
}

TEST(Disassemble, BytesThatAreNoCodeAreAnError) {
  const auto error = [](const std::vector<std::byte>& bytes) -> std::string {
    try {
      disassemble(bytes, 0, parse_target("x86-64-v3"));
    } catch (const Error& e) {
      EXPECT_EQ(e.kind(), ErrorKind::internal);
      return e.message();
    }
    return "no error";
  };
  EXPECT_EQ(error({std::byte{0x06}}), "the bytes at offset 0x0 are no instruction of this target");
  EXPECT_EQ(error({std::byte{0x90}}), "code runs on to offset 0x1, beyond its end at 0x1");
  EXPECT_EQ(error({std::byte{0xff}, std::byte{0xe0}}), "the branch at offset 0x0 has no fixed target");
}

}  // namespace
}  // namespace kilter::testing
