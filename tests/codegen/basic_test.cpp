#include <numeric>

#include "run.h"

namespace kilter::testing {
namespace {

LoopFunc add_rows(int32_t lanes) {
  LoopBuilder b("add_rows");
  const Buf x = b.input("x", DType::f32, 12 * 64);
  const Buf y = b.output("y", DType::f32, 12 * 64);
  const Expr i = b.parallel("i", 3);
  const Expr j = b.parallel("j", 4);
  b.loop("k", 0, 64, lanes, [&](Expr k) {
    const Expr at = (i * 4 + j) * 64 + k;
    b.store(y, at, b.load(x, at, lanes) + imm(DType::f32, 1.5, lanes));
  });
  return b.finish();
}

TEST(Compile, AddsOverTheWholeParallelRange) {
  for (const Target& target : targets_here()) {
    const LoopFunc func = add_rows(target.limits.lanes_f32());
    const MachineCode code = compile(std::span(&func, 1), target);
    const Mapped mapped(code);
    std::vector<float> x(768), y(768, -1.0F);
    std::iota(x.begin(), x.end(), 0.0F);
    const std::vector<std::byte*> args = {reinterpret_cast<std::byte*>(x.data()),
                                          reinterpret_cast<std::byte*>(y.data())};
    EXPECT_EQ(call(func, mapped.entry(0), args, 2, 12), 0);
    for (size_t i = 0; i < y.size(); ++i) {
      ASSERT_EQ(y[i], i < 128 ? -1.0F : static_cast<float>(i) + 1.5F) << target.name << " element " << i;
    }
    EXPECT_EQ(call(func, mapped.entry(0), args, 0, 2), 0);
    EXPECT_EQ(y[127], 128.5F);
  }
}

}  // namespace
}  // namespace kilter::testing
