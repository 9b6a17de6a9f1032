#include "exec/plan_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <functional>

#include "../base/error_of.h"
#include "../base/scratch_folder.h"
#include "base/error.h"
#include "base/files.h"
#include "exec/executor.h"
#include "exec/plan_check.h"
#include "exec/plan_meta.h"
#include "run_checked.h"
#include "test_plans.h"

namespace kilter {
namespace {

using testing::HasSubstr;

std::string file_bytes(const Plan& plan) {
  const ScratchFolder folder;
  save_plan(plan, folder.path() / "p");
  return read_file(folder.path() / "p");
}

Plan parse(const std::string& file, LoadOptions options = {}) {
  return parse_plan(std::as_bytes(std::span(file.data(), file.size())), nullptr, "p", options);
}

TEST(PlanFile, RoundTripsEveryField) {
  Plan plan = steps_plan();
  plan.required_features = {"sse4.2", "avx2"};
  plan.compiled_for = 7;
  Step kernel = kernel_step(kScratch, {arena(64, 8)}, 77);
  kernel.problem = "conv2d n1";
  kernel.schedule = "direct tile 14x2";
  kernel.layouts = "c16 OIHW c16";
  kernel.key = 0xfedcba9876543210ULL;
  kernel.max_threads = 3;
  kernel.flops = 123456789012;
  kernel.bytes = 42;
  plan.steps.push_back(kernel);
  const std::string file = file_bytes(plan);
  const Plan back = parse(file, {.verify = true});
  EXPECT_EQ(write_plan_meta(back), write_plan_meta(plan));
  EXPECT_EQ(back.compiled_for, 7);
  EXPECT_EQ(back.steps[4].key, kernel.key);
  EXPECT_EQ(back.steps[4].layouts, "c16 OIHW c16");
  EXPECT_EQ(back.steps[3].reference.attrs, "{\"axis\":1}");
  EXPECT_EQ(back.steps[3].reference.inputs[2].type, DType::i64);
  EXPECT_EQ(back.steps[1].halo.right_bytes, 3);
  EXPECT_EQ(back.outputs[0].shape, (Shape{2, 6, 8}));
  EXPECT_EQ(std::memcmp(back.code, plan.code, static_cast<size_t>(plan.code_bytes)), 0);
  EXPECT_EQ(std::memcmp(back.constants, plan.constants, static_cast<size_t>(plan.constants_bytes)), 0);
  EXPECT_EQ(file_bytes(back), file) << "same plan, same bytes";
}

TEST(PlanFile, LoadMapsConstantsAndRuns) {
  const ScratchFolder folder;
  const auto path = folder.path() / "p.kilter";
  save_plan(arithmetic_plan(1000), path);
  EXPECT_TRUE(is_plan_file(path));
  EXPECT_FALSE(is_plan_file(folder.path() / "none"));
  const auto program = std::make_shared<const Program>(load_plan(path, {.verify = true}));
  EXPECT_EQ(reinterpret_cast<uintptr_t>(program->plan().constants) % 4096, 0U);
  std::filesystem::remove(path);
  Instance instance(program, std::make_shared<ThreadPool>(2));
  const Tensor x(DType::f32, {1000});
  const Tensor y(DType::f32, {1000});
  for (int64_t i = 0; i < 1000; ++i) x.data<float>()[i] = 0.5F;
  const std::byte* inputs[] = {x.raw()};
  std::byte* outputs[] = {y.raw()};
  instance.run(inputs, outputs);
  for (int64_t i = 0; i < 1000; ++i) ASSERT_EQ(y.data<float>()[i], static_cast<float>(i + 2));
}

TEST(PlanFile, ErrorsOfReadingAndWriting) {
  const ScratchFolder folder;
  const auto missing = folder.path() / "no" / "p";
  EXPECT_THAT(error_of([&] { load_plan(missing); }, ErrorKind::io), HasSubstr(missing.string()));
  EXPECT_THAT(error_of([&] { save_plan(steps_plan(), missing); }, ErrorKind::io), HasSubstr("No such file"));
  if (std::filesystem::exists("/dev/full")) {
    EXPECT_THAT(error_of([] { save_plan(steps_plan(), "/dev/full"); }, ErrorKind::io), HasSubstr("No space left"));
  }
  write_file_atomically(folder.path() / "onnx", "\x08\x07 not ours");
  EXPECT_THAT(error_of([&] { load_plan(folder.path() / "onnx"); }, ErrorKind::bad_input),
              HasSubstr("does not start with KILTERC1"));
  Plan broken = steps_plan();
  broken.arena_bytes = -1;
  EXPECT_THAT(error_of([&] { save_plan(broken, folder.path() / "p"); }, ErrorKind::internal), HasSubstr("arena of -1"));
}

TEST(PlanFile, EveryTruncationIsOneClearError) {
  const std::string file = file_bytes(steps_plan());
  for (size_t size = 0; size < file.size(); size += size < 3000 || size + 300 > file.size() ? 1 : 53) {
    const std::string message = error_of([&] { parse(file.substr(0, size)); }, ErrorKind::bad_input);
    EXPECT_THAT(message, HasSubstr("compiled file 'p'")) << size;
  }
  EXPECT_THAT(error_of([&] { parse(file + '\0'); }, ErrorKind::bad_input), HasSubstr("too long"));
}

TEST(PlanFile, EveryFlippedBitOfHeaderAndMetaIsFound) {
  std::string file = file_bytes(steps_plan());
  const size_t meta_end = 64 + 3 * 24 + write_plan_meta(steps_plan()).size();
  for (size_t bit = 0; bit < meta_end * 8; ++bit) {
    const auto mask = static_cast<char>(1 << (bit % 8));
    file[bit / 8] = static_cast<char>(file[bit / 8] ^ mask);
    EXPECT_NE(error_of([&] { parse(file, {.verify = true}); }, ErrorKind::bad_input), "no error") << "bit " << bit;
    file[bit / 8] = static_cast<char>(file[bit / 8] ^ mask);
  }
}

TEST(PlanFile, DamagedCodeAndConstantsAreFoundWhenAsked) {
  const Plan plan = arithmetic_plan(100);
  std::string file = file_bytes(plan);
  for (size_t at : {file.size() - 1, file.size() - 400, size_t{4096} + 3}) {
    file[at] = static_cast<char>(file[at] ^ 1);
    EXPECT_THAT(error_of([&] { parse(file, {.verify = true}); }, ErrorKind::bad_input),
                HasSubstr("damaged code or constants"));
    parse(file);
    file[at] = static_cast<char>(file[at] ^ 1);
  }
}

TEST(PlanFile, ForgedFieldsNeverCrashLoaderOrExecutor) {
  std::string file = file_bytes(steps_plan());
  const size_t meta_end = 64 + 3 * 24 + write_plan_meta(steps_plan()).size();
  int accepted = 0;
  for (size_t at = 8; at < meta_end; ++at) {
    const char before = file[at];
    for (int value : {0, 1, 2, 3, 4, 5, 14, 64, 127, 128, 254, 255}) {
      file[at] = static_cast<char>(value);
      accepted += run_checked(std::as_bytes(std::span(file.data(), file.size()))) ? 1 : 0;
    }
    for (int bit = 0; bit < 8; ++bit) {
      file[at] = static_cast<char>(before ^ (1 << bit));
      accepted += run_checked(std::as_bytes(std::span(file.data(), file.size()))) ? 1 : 0;
    }
    file[at] = before;
  }
  EXPECT_GT(accepted, 100) << "names and the like may change freely";
}

struct Forgery {
  const char* text;
  std::function<void(Plan&)> change;
};

TEST(PlanCheck, EveryInvariantHasItsError) {
  const int64_t big = INT64_MAX;
  const std::vector<Forgery> forgeries = {
      {"scratch of -1 bytes", [](Plan& p) { p.scratch_bytes = -1; }},
      {"arena of 9223372036854775807 bytes", [=](Plan& p) { p.arena_bytes = big; }},
      {"compiled for -1 threads; expected 0 to 1024", [](Plan& p) { p.compiled_for = -1; }},
      {"compiled for 1025 threads; expected 0 to 1024", [](Plan& p) { p.compiled_for = 1025; }},
      {"input 0 'x' is f32[-1]", [](Plan& p) { p.inputs[0].shape = {-1}; }},
      {"input 0 'x' is str[16]", [](Plan& p) { p.inputs[0].type = DType::string; }},
      {"output 0 'y' is u8[1048576x1048577]", [](Plan& p) { p.outputs[0].shape = {1 << 20, (1 << 20) + 1}; }},
      {"entry 1 lies at byte", [=](Plan& p) { p.entries[1] = p.code_bytes; }},
      {"entry 0 lies at byte -1", [](Plan& p) { p.entries[0] = -1; }},
      {"step 0 'fill': buffer 1 takes 96 bytes at byte 449 of arena, which has 512",
       [](Plan& p) { p.steps[0].args[1].offset = 449; }},
      {"step 0 'fill': buffer 0 takes 96 bytes at byte -8 of constants",
       [](Plan& p) { p.steps[0].args[0].offset = -8; }},
      {"buffer 1 takes 9223372036854775807 bytes", [=](Plan& p) { p.steps[0].args[1].bytes = big; }},
      {"copy to buffer 1 takes 1000 bytes",
       [](Plan& p) {
         p.steps[0].copy_bytes = 1000;
         p.steps[0].args[0] = arena(0, 0);
         p.arena_bytes = 1001;
       }},
      {"writes buffer 1 in constants", [](Plan& p) { p.steps[0].args[1] = constant(0, 96); }},
      {"writes buffer 0 in input", [](Plan& p) { p.steps[1].args[0] = input(0, 64); }},
      {"buffer 0 is input 2; there are 2", [](Plan& p) { p.steps[3].args[0].index = 2; }},
      {"buffer 0 is in no space", [](Plan& p) { p.steps[3].args[0].space = Space::none; }},
      {"has 3 buffers; expected 2", [](Plan& p) { p.steps[0].args.push_back(arena(0, 0)); }},
      {"extent -1", [](Plan& p) { p.steps[0].extent = -1; }},
      {"halo has a negative size", [](Plan& p) { p.steps[1].halo.left_bytes = -1; }},
      {"is larger than its plane", [](Plan& p) { p.steps[1].halo.top = 5; }},
      {"is larger than its plane", [=](Plan& p) { p.steps[1].halo.right_bytes = big; }},
      {"do not fit into a plane of 47", [](Plan& p) { p.steps[1].halo.plane_bytes = 47; }},
      {"do not fit into a plane", [=](Plan& p) { p.steps[1].halo.rows = big; }},
      {"halo of buffer 0 takes 496 bytes", [](Plan& p) { p.steps[1].halo.plane_bytes = 448; }},
      {"planes of 48 bytes are more than", [=](Plan& p) { p.steps[1].halo.planes = big; }},
      {"fewer than its operands", [](Plan& p) { p.steps[3].args.pop_back(); }},
      {"has 3 buffers; expected 2",
       [](Plan& p) {
         p.steps[3].reference.inputs.pop_back();
         p.steps[3].args[1] = output(1, 8);
       }},
      {"operand 1 takes 64 bytes", [](Plan& p) { p.steps[3].reference.inputs[2].shape = {8}; }},
      {"expected a multiple of 4", [](Plan& p) { p.steps[3].args[0] = arena(6, 64); }},
      {"calls kernel 4; there are 4",
       [](Plan& p) {
         p.steps.push_back(kernel_step(kDouble, {}, 1));
         p.steps[4].kernel = 4;
       }},
      {"code or constants have a size but no bytes", [](Plan& p) { p.constants = nullptr; }},
  };
  check_plan(steps_plan(), ErrorKind::bad_input);
  for (const Forgery& forgery : forgeries) {
    Plan plan = steps_plan();
    forgery.change(plan);
    EXPECT_THAT(error_of([&] { check_plan(plan, ErrorKind::bad_input); }, ErrorKind::bad_input),
                HasSubstr(forgery.text));
  }
}

}  // namespace
}  // namespace kilter
