#include "exec/executor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <functional>
#include <thread>

#include "../base/error_of.h"
#include "allocation_count.h"
#include "base/error.h"
#include "exec/cpu_device.h"
#include "exec/memory.h"
#include "test_plans.h"

namespace kilter {
namespace {

using testing::HasSubstr;

std::shared_ptr<const Program> program(Plan plan) { return std::make_shared<const Program>(std::move(plan)); }
std::shared_ptr<ThreadPool> pool(int threads) { return std::make_shared<ThreadPool>(threads); }

/// A second device, which logs its operations.
class Recorder : public CpuDevice {
 public:
  using CpuDevice::CpuDevice;
  static std::string log;

  void copy(const std::byte* from, std::byte* to, int64_t bytes, RunTrace* trace) override {
    log += " copy";
    CpuDevice::copy(from, to, bytes, trace);
  }
  int32_t launch(const Launch& launch, RunTrace* trace) override {
    log += " launch";
    return CpuDevice::launch(launch, trace);
  }
  void sync() override { log += " sync"; }
};
std::string Recorder::log;

/// Loads code and logs for which of the plan's devices it was loaded.
std::unique_ptr<DeviceCode> load_for_recorder(const Plan& plan, int32_t index) {
  Recorder::log += fmt::format(" load {}", index);
  return kCpuDevice.load(plan, index);
}

const bool kRecorderAdded = [] {
  add_device({.name = "recorder", .load = load_for_recorder, .open = [](std::shared_ptr<ThreadPool> pool) {
                return std::unique_ptr<Device>(std::make_unique<Recorder>(std::move(pool)));
              }});
  return true;
}();

/// Runs arithmetic_plan(count) on floats at `skew` bytes after a 64-byte boundary, and expects y = 4 x + i.
void check_arithmetic(Instance& instance, int64_t count, int64_t skew) {
  const Tensor in(DType::u8, {count * 4 + 64});
  const Tensor out(DType::u8, {count * 4 + 64});
  std::byte* x = in.raw() + skew;
  std::byte* y = out.raw() + skew;
  for (int64_t i = 0; i < count; ++i) {
    const auto value = static_cast<float>(i % 17);
    std::memcpy(x + 4 * i, &value, 4);
  }
  const std::byte* inputs[] = {x};
  std::byte* outputs[] = {y};
  instance.run(inputs, outputs);
  for (int64_t i = 0; i < count; ++i) {
    float value = 0;
    std::memcpy(&value, y + 4 * i, 4);
    ASSERT_EQ(value, static_cast<float>(4 * (i % 17) + i)) << i;
  }
}

TEST(Executor, RunsKernelsAndCopiesOnAlignedAndUnalignedTensors) {
  for (int threads : {1, 2, 5}) {
    for (int64_t count : {1, 3, 1000, 400000}) {
      Instance instance(program(arithmetic_plan(count)), pool(threads));
      for (int64_t skew : {0, 4, 1}) check_arithmetic(instance, count, skew);
    }
  }
}

TEST(Executor, LargeArenasAreAlignedForHugePagesAndZeroed) {
  const int64_t count = 2000000;
  Instance instance(program(arithmetic_plan(count)), pool(2));
  const std::byte* base = instance.address(arena(0, 0));
  EXPECT_EQ(reinterpret_cast<uintptr_t>(base) % (2U << 20), 0U);
  for (int64_t i = 0; i < 2 * count * 4; i += 997) ASSERT_EQ(base[i], std::byte{0});
  check_arithmetic(instance, count, 0);
}

TEST(Executor, AllocatesNothingWhileRunning) {
  Instance instance(program(arithmetic_plan(100000)), pool(3));
  const Tensor x(DType::f32, {100001});
  const Tensor y(DType::f32, {100001});
  const std::byte* inputs[] = {x.raw() + 4};
  std::byte* outputs[] = {y.raw() + 4};
  const int64_t before = allocation_count();
  for (int i = 0; i < 50; ++i) instance.run(inputs, outputs);
  EXPECT_EQ(allocation_count() - before, 0);
}

TEST(Executor, EveryWorkerHasItsOwnScratch) {
  Plan plan = test_plan();
  plan.outputs = {{"y", DType::i64, {1000}}};
  plan.scratch_bytes = 8;
  plan.steps = {kernel_step(kScratch, {output(0, 8000)}, 1000)};
  const Tensor y(DType::i64, {1000});
  std::byte* outputs[] = {y.raw()};
  for (int run = 0; run < 50; ++run) {
    Instance(program(plan), pool(4)).run({}, outputs);  // a new pool leaves out no worker
    // Each element is the beginning of its piece. A piece is at most half of a worker's 250 elements.
    for (int64_t i = 0; i < 1000; ++i) {
      const int64_t begin = y.data<int64_t>()[i];
      ASSERT_TRUE(begin <= i && i < begin + 125) << i << " has " << begin;
      ASSERT_EQ(y.data<int64_t>()[begin], begin) << i;
    }
  }
}

TEST(Executor, FailedReplayKeepsConstants) {
  Plan plan = test_plan(64);
  plan.outputs = {{"y", DType::f32, {16}}};
  Step step = kernel_step(kAnswer7, {constant(0, 64), output(0, 64)}, 16);
  step.kind = StepKind::reference;
  step.reference.op = "Touch";
  step.reference.opset = 13;
  step.reference.attrs = "{}";
  step.reference.inputs = step.reference.outputs = {{true, DType::f32, {16}}};
  plan.steps = {step};
  static std::vector<const std::byte*> seen;
  seen.clear();
  set_reference_maker([](const ReferenceCall&) -> ReferenceKernel {
    return [](std::span<std::byte* const> buffers) {
      seen.push_back(buffers[0]);
      if (seen.size() == 2) fail(ErrorKind::bad_input, "the second run fails");
    };
  });
  Instance instance(program(std::move(plan)), pool(1));
  const Tensor y(DType::f32, {16}), copy(DType::f32, {16});
  std::byte* outputs[] = {y.raw()};
  instance.run({}, outputs);
  const ConstantWindow window{0, 64, copy.raw()};
  EXPECT_EQ(error_of([&] { instance.replay(0, &window, nullptr); }), "the second run fails");
  instance.run({}, outputs);
  set_reference_maker(nullptr);
  ASSERT_EQ(seen.size(), 3U);
  EXPECT_EQ(seen[1], copy.raw());
  EXPECT_EQ(seen[2], seen[0]);
}

TEST(Executor, WorksInCallersMemory) {
  const auto loaded = program(arithmetic_plan(1000));
  const Block arena(loaded->plan().arena_bytes, "an arena");
  Instance first(loaded, pool(2), {.arena = arena.data()});
  Instance second(loaded, pool(2), {.arena = arena.data()});
  for (Instance* instance : {&first, &second, &first}) {
    check_arithmetic(*instance, 1000, 0);
    EXPECT_EQ(instance->address({Space::arena, 0, 0, 4}), arena.data());
  }
  const float twice_twice = 4 * (999 % 17);
  float left = 0;
  std::memcpy(&left, arena.data() + 4 * 999, 4);
  EXPECT_EQ(left, twice_twice);
}

TEST(Executor, CallersScratchMustFitAllWorkers) {
  Plan plan = test_plan();
  plan.scratch_bytes = 100;
  EXPECT_EQ(least_scratch_stride(plan), 192);
  const auto loaded = program(std::move(plan));
  const Block scratch(4096, "scratch memory");
  Instance fits(loaded, pool(2), {.scratch = scratch.data(), .scratch_stride = 2048});
  EXPECT_EQ(fits.scratch().data(), scratch.data());
  EXPECT_EQ(error_of([&] { Instance(loaded, pool(2), {.scratch = scratch.data(), .scratch_stride = 128}); },
                     ErrorKind::internal),
            "the scratch of a worker was given 128 bytes; expected a multiple of 64, at least 192");
}

TEST(Executor, ObserverCanSkipSteps) {
  Instance instance(program(arithmetic_plan(4)), pool(1));
  const Tensor x = Tensor::of<float>({1, 4}, {1, 2, 3, 4});
  const Tensor y(DType::f32, {4});
  const std::byte* inputs[] = {x.raw()};
  std::byte* outputs[] = {y.raw()};
  std::vector<size_t> seen;
  StepObserver observer;
  observer.after = [&](size_t step) { seen.push_back(step); };
  observer.leaves_out = [](size_t step) { return step == 2; };  // the second doubling
  instance.run(inputs, outputs, &observer);
  EXPECT_THAT(seen, testing::ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(std::vector<float>(y.data<float>(), y.data<float>() + 4), testing::ElementsAre(2, 5, 8, 11));
}

TEST(Executor, HaloZeroesEverythingButTheInterior) {
  set_reference_maker(touch_maker);
  Instance instance(program(steps_plan()), pool(2));
  const Tensor x(DType::f32, {16});
  const Tensor n = Tensor::scalar<int64_t>(0x0102);
  const Tensor y(DType::u8, {2, 6, 8});
  const Tensor t(DType::f16, {4});
  const std::byte* inputs[] = {x.raw(), n.raw()};
  std::byte* outputs[] = {y.raw(), t.raw()};
  instance.run(inputs, outputs);
  const std::byte* constants = instance.address(constant(0, 96));
  for (int64_t p = 0; p < 2; ++p) {
    for (int64_t r = 0; r < 6; ++r) {
      for (int64_t c = 0; c < 8; ++c) {
        const int64_t i = p * 48 + r * 8 + c;
        const bool interior = r >= 1 && r < 4 && c >= 1 && c < 5;
        EXPECT_EQ(y.raw()[i], interior ? constants[i] : std::byte{0}) << p << ' ' << r << ' ' << c;
      }
    }
  }
  for (int64_t i = 0; i < 8; ++i) EXPECT_EQ(t.raw()[i], std::byte{3}) << "1 + 2, the bytes of n";
  EXPECT_EQ(instance.address(output(1, 8)), t.raw());
  set_reference_maker(nullptr);
}

TEST(Executor, ReferenceStepsOfTwoInstancesRunAtTheSameTime) {
  static std::atomic<int> made, inside;
  made = inside = 0;
  set_reference_maker([](const ReferenceCall&) -> ReferenceKernel {
    ++made;
    return [](std::span<std::byte* const>) {
      ++inside;  // each waits for the other, so both must run at the same time
      const auto start = std::chrono::steady_clock::now();
      while (inside < 2 && std::chrono::steady_clock::now() - start < std::chrono::seconds(60))
        std::this_thread::yield();
    };
  });
  const auto loaded = program(steps_plan());
  set_reference_maker(nullptr);
  Instance first(loaded, pool(1)), second(loaded, pool(1));
  const auto run = [](Instance& instance) {
    const Tensor memory(DType::f32, {32}), y(DType::f32, {32}), t(DType::f32, {32});
    const std::byte* inputs[] = {memory.raw(), memory.raw()};
    std::byte* outputs[] = {y.raw(), t.raw()};
    instance.run(inputs, outputs);
  };
  std::thread other([&] { run(second); });
  run(first);
  other.join();
  EXPECT_EQ(inside, 2);
  EXPECT_EQ(made, 1) << "once a step of a program";
}

std::vector<int64_t> indices_of_best(Instance& instance, int64_t k) {
  const Tensor x = Tensor::of<float>({6}, {1, 5, -2, 5, 0, 4}), count = Tensor::of<int64_t>({1}, {k});
  const Tensor values(DType::f32, {2}), indices(DType::i64, {2});
  const std::byte* inputs[] = {x.raw(), count.raw()};
  std::byte* outputs[] = {values.raw(), indices.raw()};
  instance.run(inputs, outputs);
  return indices.ints();
}

TEST(Executor, ReferenceStepsRunTheirRuntimeKernels) {
  set_reference_maker(nullptr);
  Instance instance(program(top_k_plan(true)), pool(2));
  EXPECT_THAT(indices_of_best(instance, 2), testing::ElementsAre(1, 3));
  EXPECT_EQ(error_of([&] { indices_of_best(instance, 1); }, ErrorKind::bad_input),
            "TopK 'best': output 0 has shape 1 for these inputs; it was compiled for 2");
  EXPECT_EQ(error_of([&] { indices_of_best(instance, 7); }, ErrorKind::bad_input),
            "step 0 'best': the values of its operands are illegal for operator TopK, or need its reference kernel, "
            "which the runtime library does not include; run 'test' with the full Kilter library");
}

TEST(Executor, ForcedReferenceStepsRunTheReferenceKernel) {
  Plan plan = top_k_plan(true);
  plan.steps[0].record = "given with --schedule";
  static int runs;
  runs = 0;
  set_reference_maker(
      [](const ReferenceCall&) -> ReferenceKernel { return [](std::span<std::byte* const>) { ++runs; }; });
  Instance instance(program(std::move(plan)), pool(1));
  set_reference_maker(nullptr);
  indices_of_best(instance, 2);
  EXPECT_EQ(runs, 1);
}

TEST(Executor, ReferenceStepWithoutRunnerNamesStepAndOperator) {
  set_reference_maker(nullptr);
  Instance instance(program(steps_plan()), pool(1));
  const Tensor memory(DType::f32, {32});
  const std::byte* inputs[] = {memory.raw(), memory.raw()};
  std::byte* outputs[] = {memory.raw(), memory.raw()};
  EXPECT_THAT(error_of([&] { instance.run(inputs, outputs); }, ErrorKind::unsupported),
              testing::AllOf(HasSubstr("step 3 'touch'"), HasSubstr("operator Touch")));
}

TEST(Executor, FailingKernelNamesItsStep) {
  Plan plan = test_plan();
  plan.steps = {kernel_step(kAnswer7, {}, 10)};
  Instance instance(program(plan), pool(2));
  EXPECT_THAT(error_of([&] { instance.run({}, {}); }, ErrorKind::internal),
              testing::AllOf(HasSubstr("step 0 'kernel1'"), HasSubstr("its kernel returned 7")));
}

TEST(Executor, NamesTheFirstIndexThatIsOutOfRange) {
  Instance instance(program(lookup_plan()), pool(2));
  std::array<int32_t, 6> ids{0, -5, 4, 1, 5, -6};
  const std::byte* inputs[] = {reinterpret_cast<const std::byte*>(ids.data())};
  const auto refusal = [&] { return error_of([&] { instance.run(inputs, {}); }, ErrorKind::bad_input); };
  EXPECT_EQ(refusal(),
            "Gather 'embed': indices[1,1] is 5, out of range for axis 1 of size 5; legal values are -5 to 4");
  ids[4] = 0;
  EXPECT_EQ(refusal(),
            "Gather 'embed': indices[1,2] is -6, out of range for axis 1 of size 5; legal values are -5 to 4");
  ids[5] = 0;
  EXPECT_THAT(refusal(), HasSubstr("inputs must not change during a run"));
  instance.replay(0, nullptr, nullptr);  // a step that is replayed alone does not report indices
}

TEST(Executor, WrongTensorsAreRefused) {
  Instance instance(program(arithmetic_plan(8)), pool(1));
  const Tensor memory(DType::f32, {8});
  const std::byte* inputs[] = {memory.raw(), memory.raw()};
  std::byte* outputs[] = {memory.raw()};
  EXPECT_THAT(error_of([&] { instance.run(inputs, outputs); }, ErrorKind::bad_input),
              HasSubstr("2 inputs and 1 outputs; expected 1 and 1"));
  const std::byte* null_input[] = {nullptr};
  EXPECT_THAT(error_of([&] { instance.run(null_input, outputs); }, ErrorKind::bad_input),
              HasSubstr("input 'x' is a null pointer; expected 32 bytes"));
}

TEST(Executor, ObserverSeesEveryStepInOrder) {
  Instance instance(program(arithmetic_plan(8)), pool(2));
  const Tensor x(DType::f32, {8});
  const Tensor y(DType::f32, {8});
  const std::byte* inputs[] = {x.raw()};
  std::byte* outputs[] = {y.raw()};
  std::vector<std::string> seen;
  StepObserver observer;
  observer.before = [&](size_t step) { seen.push_back("before " + std::to_string(step)); };
  observer.after = [&](size_t step) { seen.push_back("after " + std::to_string(step)); };
  instance.run(inputs, outputs, &observer);
  EXPECT_THAT(seen, testing::ElementsAre("before 0", "after 0", "before 1", "after 1", "before 2", "after 2",
                                         "before 3", "after 3"));
}

TEST(Executor, AnInstanceInUseRefusesASecondCaller) {
  Instance instance(program(arithmetic_plan(8)), pool(1));
  const Tensor x(DType::f32, {8});
  const Tensor y(DType::f32, {8});
  const std::byte* inputs[] = {x.raw()};
  std::byte* outputs[] = {y.raw()};
  StepObserver observer;
  observer.before = [&](size_t) {
    EXPECT_THAT(error_of([&] { instance.run(inputs, outputs); }, ErrorKind::usage), HasSubstr("already running"));
  };
  instance.run(inputs, outputs, &observer);
  instance.run(inputs, outputs);
}

TEST(Executor, InstancesRunSideBySideOnOneOrSeveralPools) {
  constexpr int kCallers = 4;
  const auto shared_program = program(arithmetic_plan(5000));
  for (bool one_pool : {true, false}) {
    const auto shared_pool = pool(3);
    std::vector<std::thread> callers;
    for (int c = 0; c < kCallers; ++c) {
      callers.emplace_back([&, c] {
        Instance instance(shared_program, one_pool ? shared_pool : pool(2));
        for (int i = 0; i < 20; ++i) check_arithmetic(instance, 5000, c % 2 * 4);
      });
    }
    for (auto& caller : callers) caller.join();
  }
}

TEST(Executor, EmptyTensorsAndNoSteps) {
  Plan plan = test_plan();
  plan.inputs = {{"x", DType::f32, {0, 4}}};
  plan.outputs = {{"y", DType::f32, {0}}};
  plan.steps = {kernel_step(kDouble, {input(0, 0), output(0, 0)}, 0)};
  Instance instance(program(plan), pool(2));
  const std::byte* inputs[] = {nullptr};
  std::byte* outputs[] = {nullptr};
  instance.run(inputs, outputs);
  Instance nothing(program(Plan()), pool(1));
  nothing.run({}, {});
}

TEST(Executor, StepsRunOnTheirDevices) {
  Plan plan = arithmetic_plan(3000);  // kernel, copy, kernel, kernel
  plan.devices = {"cpu", "recorder"};
  plan.steps[1].device = plan.steps[2].device = 1;
  Recorder::log.clear();
  Instance instance(program(plan), pool(2));
  EXPECT_EQ(Recorder::log, " load 1");
  Recorder::log.clear();
  check_arithmetic(instance, 3000, 0);
  EXPECT_EQ(Recorder::log, " copy launch sync") << "finished before the other device goes on";
  plan.devices = {"recorder", "cpu"};
  Instance turned(program(plan), pool(2));
  Recorder::log.clear();
  check_arithmetic(turned, 3000, 4);
  EXPECT_EQ(Recorder::log, " copy launch sync launch copy sync") << "the first device copies inputs and outputs";
}

TEST(Executor, DevicesOfPlansAreChecked) {
  Plan plan = arithmetic_plan(8);
  plan.steps[2].device = 1;
  EXPECT_EQ(error_of([&] { program(plan); }, ErrorKind::internal),
            "plan 'test': step 2 'kernel0': runs on device 1; there are 1");
  plan.steps[2].device = -1;
  EXPECT_THAT(error_of([&] { program(plan); }, ErrorKind::internal), HasSubstr("runs on device -1; there are 1"));
  plan.steps[2].device = 0;
  plan.devices.clear();
  EXPECT_EQ(error_of([&] { program(plan); }, ErrorKind::internal), "plan 'test': 0 devices; expected 1 to 8");
  plan.devices.assign(9, "cpu");
  EXPECT_EQ(error_of([&] { program(plan); }, ErrorKind::internal), "plan 'test': 9 devices; expected 1 to 8");
}

TEST(Executor, BrokenPlansAndForeignCpusAreRefused) {
  Plan outside = arithmetic_plan(8);
  outside.steps[0].args[1].offset = 100;
  EXPECT_THAT(error_of([&] { program(outside); }, ErrorKind::internal),
              HasSubstr("step 0 'kernel0': buffer 1 occupies 32 bytes at byte 100 of arena, which has 96"));
  Plan foreign = arithmetic_plan(8);
  foreign.required_features = {"avx9000"};
  EXPECT_THAT(error_of([&] { program(foreign); }, ErrorKind::unsupported), HasSubstr("avx9000"));
  Plan elsewhere = arithmetic_plan(8);
  elsewhere.devices = {"cpu", "abacus"};
  EXPECT_THAT(error_of([&] { program(elsewhere); }, ErrorKind::unsupported),
              HasSubstr("the plan is for device 'abacus'; this program has cpu, "));
  Plan huge = arithmetic_plan(8);
  huge.arena_bytes = int64_t{1} << 46;
  EXPECT_THAT(error_of([&] { Instance(program(huge), pool(1)); }, ErrorKind::out_of_memory),
              HasSubstr("the arena of 'test'"));
}

}  // namespace
}  // namespace kilter
