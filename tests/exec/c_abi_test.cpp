#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <kilter/runtime.h>
#include <sys/wait.h>
#include <unistd.h>
#include <xmmintrin.h>

#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "../base/scratch_folder.h"
#include "allocation_count.h"
#include "base/files.h"
#include "exec/plan_file.h"
#include "test_plans.h"

extern "C" int c_header_input_count(const kilter_program* program);

namespace kilter {
namespace {

using testing::HasSubstr;

struct CAbi : testing::Test {
  std::string saved(const Plan& plan) {
    const auto path = folder.path() / "p.kilter";
    save_plan(plan, path);
    return path.string();
  }
  ScratchFolder folder;
};

TEST_F(CAbi, LoadsDescribesAndRuns) {
  kilter_program* program = nullptr;
  ASSERT_EQ(kilter_program_load(saved(arithmetic_plan(100)).c_str(), &program), KILTER_OK) << kilter_last_error();
  EXPECT_EQ(kilter_program_input_count(program), 1U);
  EXPECT_EQ(kilter_program_output_count(program), 1U);
  EXPECT_EQ(c_header_input_count(program), 1);
  kilter_tensor_info info;
  ASSERT_EQ(kilter_program_input(program, 0, &info), KILTER_OK);
  EXPECT_STREQ(info.name, "x");
  EXPECT_EQ(info.dtype, KILTER_F32);
  ASSERT_EQ(info.rank, 2U);
  EXPECT_EQ(info.dims[1], 100);
  EXPECT_EQ(info.bytes, 400U);
  ASSERT_EQ(kilter_program_output(program, 0, &info), KILTER_OK);
  EXPECT_STREQ(info.name, "y");

  kilter_instance* instance = nullptr;
  ASSERT_EQ(kilter_instance_create(program, 2, &instance), KILTER_OK) << kilter_last_error();
  kilter_program_free(program);
  std::vector<float> x(100, 0.25F);
  std::vector<float> y(100);
  const void* inputs[] = {x.data()};
  void* outputs[] = {y.data()};
  ASSERT_EQ(kilter_instance_run(instance, inputs, 1, outputs, 1), KILTER_OK) << kilter_last_error();
  for (size_t i = 0; i < y.size(); ++i) EXPECT_EQ(y[i], static_cast<float>(i + 1));
  EXPECT_EQ(kilter_instance_run(instance, inputs, 0, outputs, 1), KILTER_ERROR_BAD_INPUT);
  EXPECT_THAT(kilter_last_error(), HasSubstr("expected 1 and 1"));
  kilter_instance_free(instance);
}

TEST_F(CAbi, InstanceNotesTuningForOtherThreadCount) {
  Plan plan = arithmetic_plan(4);
  const auto note = [&](int compiled_for, int threads) {
    plan.compiled_for = compiled_for;
    kilter_program* program = nullptr;
    kilter_instance* instance = nullptr;
    EXPECT_EQ(kilter_program_load(saved(plan).c_str(), &program), KILTER_OK) << kilter_last_error();
    EXPECT_EQ(kilter_instance_create(program, threads, &instance), KILTER_OK) << kilter_last_error();
    kilter_program_free(program);
    std::string text = kilter_instance_note(instance);
    kilter_instance_free(instance);
    return text;
  };
  EXPECT_EQ(note(1, 2), "compiled for 1 thread, run on 2; expected loss about 4 % (an estimate)");
  EXPECT_EQ(note(3, 1), "compiled for 3 threads, run on 1; expected loss about 4 % (an estimate)");
  EXPECT_EQ(note(2, 2), "");
  EXPECT_EQ(note(0, 2), "") << "default schedules are for any number";
  EXPECT_STREQ(kilter_instance_note(nullptr), "");
}

struct Loaded {
  Loaded(const std::string& file, int threads) {
    kilter_program* program = nullptr;
    EXPECT_EQ(kilter_program_load(file.c_str(), &program), KILTER_OK) << kilter_last_error();
    EXPECT_EQ(kilter_instance_create(program, threads, &instance), KILTER_OK) << kilter_last_error();
    kilter_program_free(program);
  }
  ~Loaded() { kilter_instance_free(instance); }
  Loaded(const Loaded&) = delete;
  Loaded& operator=(const Loaded&) = delete;
  std::vector<float> run(const std::vector<float>& x) const {
    std::vector<float> y(x.size());
    const void* inputs[] = {x.data()};
    void* outputs[] = {y.data()};
    EXPECT_EQ(kilter_instance_run(instance, inputs, 1, outputs, 1), KILTER_OK) << kilter_last_error();
    return y;
  }
  kilter_instance* instance = nullptr;
};

TEST_F(CAbi, InstanceWorksAfterFork) {
  const std::vector<float> x(100000, 0.25F);
  auto loaded = std::make_unique<Loaded>(saved(arithmetic_plan(100000)), 3);
  const std::vector<float> y = loaded->run(x);
  const pid_t child = fork();
  if (child == 0) {
    alarm(60);
    const bool right = loaded->run(x) == y;
    loaded.reset();
    _exit(right ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(loaded->run(x), y);
}

TEST_F(CAbi, CallersFloatEnvironmentIsIgnoredAndKept) {
  const Loaded loaded(saved(arithmetic_plan(1000)), 2);
  std::vector<float> x(1000);
  for (size_t i = 0; i < x.size(); ++i) x[i] = 1.0F / static_cast<float>(i + 3);
  x[5] = std::numeric_limits<float>::denorm_min();
  x[6] = std::numeric_limits<float>::signaling_NaN();
  const std::vector<float> y = loaded.run(x);
  const unsigned before = _mm_getcsr();
  for (const unsigned rounding : {0x0000U, 0x2000U, 0x4000U, 0x6000U}) {
    for (const unsigned flush : {0x0000U, 0x8000U, 0x0040U}) {
      for (const unsigned masks : {0x1F80U, 0x0000U}) {
        const unsigned mine = rounding | flush | masks;
        _mm_setcsr(mine);
        std::vector<float> again(x.size());
        const void* inputs[] = {x.data()};
        void* outputs[] = {again.data()};
        const kilter_status status = kilter_instance_run(loaded.instance, inputs, 1, outputs, 1);
        const unsigned after = _mm_getcsr();
        _mm_setcsr(before);
        EXPECT_EQ(status, KILTER_OK);
        EXPECT_EQ(after, mine);
        EXPECT_EQ(std::memcmp(again.data(), y.data(), 4 * y.size()), 0) << std::hex << mine;
      }
    }
  }
}

TEST_F(CAbi, AnIndexOutOfRangeIsABadInput) {
  kilter_program* program = nullptr;
  kilter_instance* instance = nullptr;
  ASSERT_EQ(kilter_program_load(saved(lookup_plan()).c_str(), &program), KILTER_OK) << kilter_last_error();
  ASSERT_EQ(kilter_instance_create(program, 1, &instance), KILTER_OK) << kilter_last_error();
  const std::array<int32_t, 6> ids{0, 1, 2, 3, 4, 7};
  const void* inputs[] = {ids.data()};
  void* none[] = {nullptr};
  EXPECT_EQ(kilter_instance_run(instance, inputs, 1, none, 0), KILTER_ERROR_BAD_INPUT);
  EXPECT_STREQ(kilter_last_error(),
               "Gather 'embed': indices[1,2] is 7, out of range for axis 1 of size 5; legal values are -5 to 4");
  kilter_instance_free(instance);
  kilter_program_free(program);
}

TEST_F(CAbi, ErrorsBecomeStatusAndText) {
  kilter_program* program = nullptr;
  EXPECT_EQ(kilter_program_load((folder.path() / "none").c_str(), &program), KILTER_ERROR_IO);
  EXPECT_THAT(kilter_last_error(), HasSubstr("No such file"));
  EXPECT_EQ(program, nullptr);
  EXPECT_EQ(kilter_program_load(nullptr, &program), KILTER_ERROR_USAGE);
  EXPECT_EQ(kilter_program_load("x", nullptr), KILTER_ERROR_USAGE);
  write_file_atomically(folder.path() / "bad", "KILTERC1 and no more");
  EXPECT_EQ(kilter_program_load((folder.path() / "bad").c_str(), &program), KILTER_ERROR_BAD_INPUT);
  Plan foreign = arithmetic_plan(4);
  foreign.required_features = {"avx9000"};
  EXPECT_EQ(kilter_program_load(saved(foreign).c_str(), &program), KILTER_ERROR_UNSUPPORTED);
  EXPECT_THAT(kilter_last_error(), HasSubstr("avx9000"));
  foreign.arch = kThisArch == Arch::x86_64 ? Arch::aarch64 : Arch::x86_64;
  EXPECT_EQ(kilter_program_load(saved(foreign).c_str(), &program), KILTER_ERROR_UNSUPPORTED);
  EXPECT_THAT(kilter_last_error(),
              HasSubstr("so its code is for " + std::string(name(foreign.arch)) + "; this machine"));

  Plan plan = steps_plan();
  EXPECT_EQ(kilter_program_load(saved(plan).c_str(), &program), KILTER_ERROR_UNSUPPORTED);
  EXPECT_THAT(kilter_last_error(), HasSubstr("needs the reference kernel of operator Touch at opset 13, which this "
                                             "library does not have"));
  plan.steps.erase(plan.steps.begin() + 3);
  ASSERT_EQ(kilter_program_load(saved(plan).c_str(), &program), KILTER_OK) << kilter_last_error();
  kilter_tensor_info info;
  EXPECT_EQ(kilter_program_input(program, 2, &info), KILTER_ERROR_USAGE);
  EXPECT_EQ(kilter_program_input(program, 0, nullptr), KILTER_ERROR_USAGE);
  ASSERT_EQ(kilter_program_input(program, 1, &info), KILTER_OK);
  EXPECT_EQ(info.rank, 0U);
  EXPECT_NE(info.dims, nullptr);
  kilter_program_free(program);

  kilter_instance* instance = nullptr;
  ASSERT_EQ(kilter_program_load(saved(arithmetic_plan(4)).c_str(), &program), KILTER_OK);
  EXPECT_EQ(kilter_instance_create(program, 5000, &instance), KILTER_ERROR_USAGE);
  EXPECT_THAT(kilter_last_error(), HasSubstr("1 to 1024"));
  kilter_program_free(program);
}

/// Loads a program, makes an instance with 4 threads, runs it and frees everything. Returns the first status that is
/// not OK.
kilter_status use(const std::string& file) {
  kilter_program* program = nullptr;
  kilter_instance* instance = nullptr;
  float x[4] = {1, 2, 3, 4}, y[4] = {};
  const void* inputs[] = {x};
  void* outputs[] = {y};
  kilter_status status = kilter_program_load(file.c_str(), &program);
  if (status == KILTER_OK) status = kilter_instance_create(program, 4, &instance);
  if (status == KILTER_OK) status = kilter_instance_run(instance, inputs, 1, outputs, 1);
  kilter_instance_free(instance);
  kilter_program_free(program);
  return status;
}

TEST_F(CAbi, RuntimeKernelsNeedNoCompiler) {
  const Loaded loaded(saved(top_k_plan(false)), 2);
  const std::array<float, 6> x = {1, 5, -2, 5, 0, std::numeric_limits<float>::quiet_NaN()};
  std::array<float, 2> values{};
  std::array<int64_t, 2> indices{};
  const void* inputs[] = {x.data()};
  void* outputs[] = {values.data(), indices.data()};
  ASSERT_EQ(kilter_instance_run(loaded.instance, inputs, 1, outputs, 2), KILTER_OK) << kilter_last_error();
  EXPECT_TRUE(std::isnan(values[0]));
  EXPECT_EQ(values[1], 5);
  EXPECT_THAT(indices, testing::ElementsAre(5, 1));
}

TEST_F(CAbi, AReferenceStepRunsItsReferenceKernel) {
  Plan plan = top_k_plan(false);
  Step& step = plan.steps[0];
  step.reference.op = "CumSum", step.reference.opset = 14, step.reference.attrs = R"({"reverse":["int",1]})";
  plan.inputs = {{"x", DType::f64, {3}}, {"axis", DType::i32, {}}};
  plan.outputs = {{"y", DType::f64, {3}}};
  step.reference.inputs = {{true, DType::f64, {3}}, {true, DType::i32, {}}};
  step.reference.outputs = {{true, DType::f64, {3}}};
  step.args = {input(0, 24), input(1, 4), output(0, 24)};
  step.record = "given with --schedule";  // without a runtime kernel
  const Loaded loaded(saved(plan), 1);
  const std::array<double, 3> x = {1, 2, 4};
  const int32_t axis = 0;
  std::array<double, 3> y{};
  const void* inputs[] = {x.data(), &axis};
  void* outputs[] = {y.data()};
  ASSERT_EQ(kilter_instance_run(loaded.instance, inputs, 2, outputs, 1), KILTER_OK) << kilter_last_error();
  EXPECT_THAT(y, testing::ElementsAre(7, 6, 4));
}

TEST_F(CAbi, EveryFailedAllocationReturnsAStatus) {
  const std::string file = saved(arithmetic_plan(4));
  ASSERT_EQ(use(file), KILTER_OK) << kilter_last_error();
  int64_t failures = 0;
  for (int64_t at = 1;; ++at) {
    fail_allocation(at);
    const kilter_status status = use(file);
    if (allocation_to_fail() != 0) break;  // the run ended before the chosen allocation
    if (status == KILTER_OK) continue;     // the code recovered from the failed allocation
    ++failures;
    EXPECT_EQ(status, KILTER_ERROR_MEMORY) << "allocation " << at << ": " << kilter_last_error();
  }
  fail_allocation(0);
  EXPECT_GE(failures, 20);
  EXPECT_EQ(use(file), KILTER_OK) << kilter_last_error();
}

TEST_F(CAbi, DamagedFileIsRefusedByDefault) {
  const std::string path = saved(arithmetic_plan(100));
  std::string file = read_file(path);
  file.back() = static_cast<char>(file.back() ^ 4);
  write_file_atomically(path, file);
  kilter_program* program = nullptr;
  EXPECT_EQ(kilter_program_load(path.c_str(), &program), KILTER_ERROR_BAD_INPUT);
  EXPECT_THAT(kilter_last_error(), HasSubstr("damaged: its"));
  EXPECT_EQ(program, nullptr);
  EXPECT_EQ(kilter_program_load_with(path.c_str(), 0, &program), KILTER_ERROR_BAD_INPUT);
  EXPECT_EQ(kilter_program_load_with(path.c_str(), 6, &program), KILTER_ERROR_USAGE);
  EXPECT_STREQ(kilter_last_error(),
               "flags 0x6 of kilter_program_load_with(); legal values are 0 and KILTER_LOAD_UNVERIFIED (1)");
  ASSERT_EQ(kilter_program_load_with(path.c_str(), KILTER_LOAD_UNVERIFIED, &program), KILTER_OK);
  kilter_program_free(program);
}

TEST_F(CAbi, OutOfMemoryHasItsOwnStatus) {
  Plan plan = arithmetic_plan(4);
  plan.arena_bytes = int64_t{1} << 45;
  kilter_program* program = nullptr;
  kilter_instance* instance = nullptr;
  ASSERT_EQ(kilter_program_load(saved(plan).c_str(), &program), KILTER_OK) << kilter_last_error();
  EXPECT_EQ(kilter_instance_create(program, 1, &instance), KILTER_ERROR_MEMORY);
  EXPECT_THAT(kilter_last_error(), testing::MatchesRegex("cannot allocate 35 TB for the arena of '.*': out of memory "
                                                         "\\([0-9.]+ [kMGT]B available\\)"));
  EXPECT_EQ(instance, nullptr);
  kilter_program_free(program);
}

TEST_F(CAbi, NullIsHarmlessAndErrorsArePerThread) {
  kilter_program_free(nullptr);
  kilter_instance_free(nullptr);
  EXPECT_EQ(kilter_program_input_count(nullptr), 0U);
  EXPECT_EQ(kilter_instance_run(nullptr, nullptr, 0, nullptr, 0), KILTER_ERROR_USAGE);
  EXPECT_STRNE(kilter_last_error(), "");
  std::thread([] { EXPECT_STREQ(kilter_last_error(), ""); }).join();
  EXPECT_STREQ(kilter_runtime_version(), KILTER_VERSION_STRING);
}

}  // namespace
}  // namespace kilter
