// Programs with reference steps leak no memory.
#include <gtest/gtest.h>
#include <malloc.h>

#include "compile/compile.h"
#include "exec/executor.h"
#include "models.h"

namespace kilter {
namespace {

TEST(ReferenceSteps, DestroyedProgramsTakeNoMemory) {
  const Graph graph = small_graph({1, 64}, [](GraphBuilder& b, ValueId x) {
    for (int i = 0; i < 20; ++i) x = b.add("Softmax", {b.add("Relu", {x})}, {{"axis", int64_t{-1}}});
    return x;
  });
  CompileOptions options;
  options.target = parse_target("native");
  options.debug.naive = true;
  const auto pool = std::make_shared<ThreadPool>(1);
  const Compiled compiled = compile_graph(graph, options);
  const auto in_use = [&] {
    for (int i = 0; i < 50; ++i) {
      Plan plan = compiled.plan;
      plan.steps.insert(plan.steps.begin(), static_cast<size_t>(i % 7), plan.steps.front());  // moves the steps
      Instance instance(std::make_shared<const Program>(std::move(plan)), pool);
      const Tensor x(DType::f32, {1, 64}), y(DType::f32, {1, 64});
      const std::byte* from[] = {x.raw()};
      std::byte* to[] = {y.raw()};
      instance.run(from, to);
    }
    return mallinfo2().uordblks;  // 0 under AddressSanitizer, where its leak checker is the test
  };
  const size_t before = in_use();
  for (int i = 0; i < 3; ++i) in_use();
  EXPECT_LE(in_use(), before + (16U << 10));
}

}  // namespace
}  // namespace kilter
