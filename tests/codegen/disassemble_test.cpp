// Decodes machine code and checks the instruction counts of a loop whose work is known, for every x86-64 level.
#include "codegen/disassemble.h"

#include <gmock/gmock.h>

#include <tuple>

#include "run.h"

namespace kilter::testing {
namespace {

using ::testing::HasSubstr;

/// A register tile of `rows` x `vectors`: each of the 64 steps loads the vectors, broadcasts one element per row and
/// executes rows x vectors multiply-adds.
struct Tile {
  int64_t rows = 3, vectors = 2, unroll = 1;
};

void emit_step(LoopBuilder& b, const Tile& t, const Buf& x, const Buf& w, const std::vector<int32_t>& acc,
               const Expr& k, int32_t lanes) {
  std::vector<Expr> row;
  for (int64_t v = 0; v < t.vectors; ++v)
    row.push_back(b.let("w", b.load(w, (k * Expr(t.vectors) + Expr(v)) * Expr(lanes), lanes)));
  for (int64_t p = 0; p < t.rows; ++p) {
    const Expr pixel = b.let("p", b.load(x, k + Expr(p * 64), lanes, 0));
    for (int64_t v = 0; v < t.vectors; ++v) {
      const int32_t reg = acc[static_cast<size_t>(p * t.vectors + v)];
      b.set(reg, fma(pixel, row[static_cast<size_t>(v)], b.get(reg)));
    }
  }
}

LoopFunc tile(int32_t lanes, const Tile& t) {
  LoopBuilder b("tile");
  const Buf x = b.input("x", DType::f32, t.rows * 64);
  const Buf w = b.input("w", DType::f32, 64 * t.vectors * lanes);
  const Buf y = b.output("y", DType::f32, t.rows * t.vectors * lanes);
  b.parallel("n", 1);
  std::vector<int32_t> acc;
  for (int64_t i = 0; i < t.rows * t.vectors; ++i) acc.push_back(b.reg("acc", imm(DType::f32, 0, lanes)));
  b.loop("k", 0, 64, t.unroll, [&](const Expr& k) {
    for (int64_t u = 0; u < t.unroll; ++u) emit_step(b, t, x, w, acc, k + Expr(u), lanes);
  });
  for (size_t i = 0; i < acc.size(); ++i) b.store(y, Expr(static_cast<int64_t>(i) * lanes), b.get(acc[i]));
  return b.finish();
}

std::vector<Instruction> code_of(const Target& target, const Tile& t = {}) {
  const LoopFunc func = loop_passes::lower(tile(target.limits.lanes_f32(), t), target.limits);
  const MachineCode code = compile(std::span(&func, 1), target);
  return disassemble(code.bytes, code.entries.at(0), target);
}

const InnerLoop& contraction(const std::vector<InnerLoop>& loops) {
  const auto it = std::find_if(loops.begin(), loops.end(), [](const InnerLoop& l) { return l.fmas > 0; });
  require(it != loops.end(), "no loop multiplies");
  return *it;
}

TEST(Disassemble, CountsInstructionsOfTheInnerLoop) {
  for (const char* name : {"x86-64-v3", "x86-64-v4", "znver4"}) {
    const std::vector<Instruction> code = code_of(parse_target(name));
    const std::vector<InnerLoop> loops = inner_loops(code);
    const InnerLoop& loop = contraction(loops);
    EXPECT_EQ(loop.fmas, 6) << name << "\n" << listing(code);
    EXPECT_EQ(loop.broadcasts, 3) << name << "\n" << listing(code);
    EXPECT_EQ(loop.loads, 5) << name << "\n" << listing(code);
    EXPECT_EQ(loop.stores + loop.stack + loop.prefetches, 0) << name << "\n" << listing(code);
    EXPECT_GE(loop.registers, 9) << name << "\n" << listing(code);
    EXPECT_LE(loop.registers, 11) << name << "\n" << listing(code);
  }
}

TEST(RegisterTile, LargestTilesStayInRegisters) {
  const std::tuple<const char*, int64_t, int64_t> tiles[] = {{"x86-64-v3", 6, 2},  {"x86-64-v3", 4, 3},
                                                             {"x86-64-v4", 14, 2}, {"znver4", 14, 2},
                                                             {"znver4", 30, 1},    {"znver4", 6, 4}};
  for (const auto& [name, rows, vectors] : tiles) {
    const std::vector<Instruction> code = code_of(parse_target(name), {rows, vectors, 4});
    const std::vector<InnerLoop> loops = inner_loops(code);
    const InnerLoop& loop = contraction(loops);
    EXPECT_EQ(loop.fmas, 4 * rows * vectors) << name << " " << rows << "x" << vectors;
    EXPECT_EQ(loop.loads, 4 * (rows + vectors)) << name << " " << rows << "x" << vectors << "\n" << listing(code);
    EXPECT_EQ(loop.stack, 0) << name << " " << rows << "x" << vectors << "\n" << listing(code);
  }
}

TEST(Disassemble, StopsAtTheReturn) {
  const std::vector<Instruction> code = code_of(parse_target("x86-64-v4"));
  EXPECT_EQ(std::count_if(code.begin(), code.end(), [](const Instruction& i) { return i.text == "ret"; }), 1);
  for (size_t i = 1; i < code.size(); ++i) {
    EXPECT_EQ(code[i].offset, code[i - 1].offset + code[i - 1].bytes) << listing(code);
    EXPECT_EQ(code[i].text.find("int3"), std::string::npos);
  }
  EXPECT_THAT(listing(code), HasSubstr("vfmadd231ps zmm"));
  EXPECT_THAT(listing(code), HasSubstr(".L0:\n"));
}

TEST(Disassemble, InvalidCodeIsAnError) {
  const auto error = [](const std::vector<std::byte>& bytes) -> std::string {
    try {
      disassemble(bytes, 0, parse_target("x86-64-v3"));
    } catch (const Error& e) {
      EXPECT_EQ(e.kind(), ErrorKind::internal);
      return e.message();
    }
    return "no error";
  };
  EXPECT_EQ(error({std::byte{0x06}}), "the bytes at offset 0x0 are not an instruction of this target");
  EXPECT_EQ(error({std::byte{0x90}}), "code runs on to offset 0x1, beyond its end at 0x1");
  EXPECT_EQ(error({std::byte{0xff}, std::byte{0xe0}}), "the branch at offset 0x0 has no fixed target");
}

}  // namespace
}  // namespace kilter::testing
