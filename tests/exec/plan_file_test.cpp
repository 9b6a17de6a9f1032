#include "exec/plan_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <functional>

#include "../base/error_of.h"
#include "../base/scratch_folder.h"
#include "base/error.h"
#include "base/files.h"
#include "exec/executor.h"
#include "exec/file_hash.h"
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
  plan.devices = {"cpu", "null"};
  plan.steps[3].device = 1;
  Step kernel = kernel_step(kScratch, {arena(64, 8)}, 77);
  kernel.problem = "conv2d n1";
  kernel.schedule = "direct tile 14x2";
  kernel.layouts = "c16 OIHW c16";
  kernel.key = 0xfedcba9876543210ULL;
  kernel.max_threads = 3;
  kernel.flops = 123456789012;
  kernel.bytes = 42;
  kernel.args.push_back(arena(128, 48));
  kernel.indices = {1, DType::i64, {2, 3}, {4, {5, 6, 7}, true}};
  plan.steps.push_back(kernel);
  const std::string file = file_bytes(plan);
  const Plan back = parse(file);
  EXPECT_EQ(write_plan_meta(back), write_plan_meta(plan));
  EXPECT_EQ(back.compiled_for, 7);
  EXPECT_EQ(back.steps[4].key, kernel.key);
  EXPECT_EQ(back.steps[4].layouts, "c16 OIHW c16");
  EXPECT_EQ(back.steps[4].indices.shape, (Shape{2, 3}));
  EXPECT_EQ(back.steps[4].indices.range.axis, 4);
  EXPECT_EQ(back.steps[4].indices.range.sizes, (std::vector<int64_t>{5, 6, 7}));
  EXPECT_TRUE(back.steps[4].indices.range.lengths);
  EXPECT_EQ(back.steps[3].reference.attrs, "{\"axis\":1}");
  EXPECT_EQ(back.steps[3].reference.inputs[2].type, DType::i64);
  EXPECT_EQ(back.steps[1].halo.right_bytes, 3);
  EXPECT_EQ(back.devices, plan.devices);
  EXPECT_EQ(back.steps[3].device, 1);
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
  const auto program = std::make_shared<const Program>(load_plan(path));
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

TEST(PlanFile, EveryTruncationGivesOneClearError) {
  const std::string file = file_bytes(steps_plan());
  for (size_t size = 0; size < file.size(); size += size < 3000 || size + 300 > file.size() ? 1 : 53) {
    const std::string message = error_of([&] { parse(file.substr(0, size)); }, ErrorKind::bad_input);
    EXPECT_THAT(message, HasSubstr("compiled file 'p'")) << size;
  }
  EXPECT_THAT(error_of([&] { parse(file + '\0'); }, ErrorKind::bad_input), HasSubstr("too long"));
}

void flip(std::string& file, size_t bit) {
  file[bit / 8] = static_cast<char>(file[bit / 8] ^ static_cast<char>(1 << (bit % 8)));
}

TEST(PlanFile, EveryFlippedBitIsFound) {
  std::string file = file_bytes(arithmetic_plan(1000));
  const size_t front = 64 + 3 * 24 + 2000;  // header, table and most of the fields: all bits
  for (size_t bit = 0; bit < file.size() * 8; bit += bit < front * 8 ? 1 : 7) {
    flip(file, bit);
    ASSERT_NE(error_of([&] { parse(file); }, ErrorKind::bad_input), "no error") << "bit " << bit;
    flip(file, bit);
  }
  parse(file);
}

TEST(PlanFile, DamageIsRefusedBeforeAnythingRuns) {
  const std::string file = file_bytes(arithmetic_plan(3000));
  const size_t constants = file.size() - 3000 * 4;
  const auto refused = [&](size_t at, size_t count, char value) {
    std::string damaged = file;
    damaged.replace(at, count, count, value);
    const std::string message = error_of([&] { parse(damaged); }, ErrorKind::bad_input);
    EXPECT_THAT(message, testing::AllOf(HasSubstr(fmt::format("compiled file 'p': damaged: its {} bytes are not those "
                                                              "that were written: expected hash ",
                                                              file.size())),
                                        HasSubstr("; nothing in it was run; copy the file again or compile the model "
                                                  "again")))
        << at;
    parse(damaged, {.verify = false});
  };
  refused(4096 + 3, 1, '\x01');         // code
  refused(constants, 4096, '\0');       // a page of constants
  refused(file.size() - 1, 1, '\x7f');  // the last byte
  refused(4095, 1, '\x01');             // before the code, in the padding
  refused(constants - 1, 1, '\x01');    // between code and constants
  std::string swapped = file;
  std::swap_ranges(swapped.begin() + static_cast<int64_t>(constants),
                   swapped.begin() + static_cast<int64_t>(constants) + 4096,
                   swapped.begin() + static_cast<int64_t>(constants) + 4096);
  EXPECT_THAT(error_of([&] { parse(swapped); }, ErrorKind::bad_input), HasSubstr("damaged: its"));
}

TEST(PlanFile, OldVersionErrorSaysWhatToDo) {
  std::string file = file_bytes(steps_plan());
  file[8] = kPlanFormatVersion - 1;
  EXPECT_EQ(error_of([&] { parse(file); }, ErrorKind::bad_input),
            "compiled file 'p': format version 11; this Kilter reads version 12; compile the model again");
}

TEST(FileHash, FindsEveryChangeOfALargeFile) {
  std::string bytes(size_t{21} << 20, '\0');  // more chunks than one thread hashes alone
  for (size_t i = 0; i < bytes.size(); i += 97) bytes[i] = static_cast<char>(i);
  const auto hash = [&] {
    const auto all = std::as_bytes(std::span(bytes.data(), bytes.size()));
    const std::array pieces = {all.first(1000), all.subspan(1000)};
    return hash_pieces(pieces, 1);
  };
  const uint64_t whole = hash();
  EXPECT_EQ(hash(), whole);
  for (size_t bit :
       {size_t{0}, size_t{7999}, size_t{8000}, (size_t{1} << 23) + 5, (size_t{20} << 23) + 3, bytes.size() * 8 - 1}) {
    flip(bytes, bit);
    EXPECT_NE(hash(), whole) << bit;
    flip(bytes, bit);
  }
  EXPECT_EQ(hash(), whole);
  std::swap_ranges(bytes.begin() + 1000, bytes.begin() + 1000 + (1 << 20), bytes.begin() + 1000 + (1 << 20));
  EXPECT_NE(hash(), whole) << "chunks in another order";
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

TEST(PlanCheck, IndexBuffersAreChecked) {
  const auto refusal = [](const std::function<void(IndexOperand&)>& change) {
    Plan plan = lookup_plan();
    change(plan.steps[0].indices);
    return error_of([&] { check_plan(plan, ErrorKind::bad_input); }, ErrorKind::bad_input);
  };
  EXPECT_EQ(refusal([](IndexOperand&) {}), "no error");
  EXPECT_EQ(refusal([](IndexOperand& i) { i.arg = 1; }),
            "plan 'test': step 0 'embed': reads its indices from buffer 1; there are 1");
  EXPECT_EQ(refusal([](IndexOperand& i) { i.type = DType::f32; }),
            "plan 'test': step 0 'embed': has indices f32[2x3]; expected i32 or i64 and at most 2^40 elements");
  EXPECT_THAT(refusal([](IndexOperand& i) { i.type = DType::i64; }), HasSubstr("occupies 48 bytes at byte 0 of input"));
  EXPECT_THAT(refusal([](IndexOperand& i) { i.range.sizes.clear(); }), HasSubstr("expected one or more"));
  EXPECT_THAT(refusal([](IndexOperand& i) { i.range.sizes = {-1}; }), HasSubstr("each 0 to 2^40"));
  EXPECT_THAT(refusal([](IndexOperand& i) { i.range.axis = -1; }), HasSubstr("indices for axis -1"));
}

TEST(PlanCheck, EveryInvariantIsChecked) {
  const int64_t big = INT64_MAX;
  const std::vector<Forgery> forgeries = {
      {"scratch of -1 bytes", [](Plan& p) { p.scratch_bytes = -1; }},
      {"arena of 9223372036854775807 bytes", [=](Plan& p) { p.arena_bytes = big; }},
      {"compiled for -1 threads; expected 0 to 1024", [](Plan& p) { p.compiled_for = -1; }},
      {"compiled for 1025 threads; expected 0 to 1024", [](Plan& p) { p.compiled_for = 1025; }},
      {"input 0 'x' is f32[-1]", [](Plan& p) { p.inputs[0].shape = {-1}; }},
      {"input 0 'x' is str[16]", [](Plan& p) { p.inputs[0].type = DType::string; }},
      {"output 0 'y' is u8[1048576x1048577]", [](Plan& p) { p.outputs[0].shape = {1 << 20, (1 << 20) + 1}; }},
      {"entry 1 is at byte", [=](Plan& p) { p.entries[1] = p.code_bytes; }},
      {"entry 0 is at byte -1", [](Plan& p) { p.entries[0] = -1; }},
      {"step 0 'fill': buffer 1 occupies 96 bytes at byte 449 of arena, which has 512",
       [](Plan& p) { p.steps[0].args[1].offset = 449; }},
      {"step 0 'fill': buffer 0 occupies 96 bytes at byte -8 of constants",
       [](Plan& p) { p.steps[0].args[0].offset = -8; }},
      {"buffer 1 occupies 9223372036854775807 bytes", [=](Plan& p) { p.steps[0].args[1].bytes = big; }},
      {"copy to buffer 1 occupies 1000 bytes",
       [](Plan& p) {
         p.steps[0].copy_bytes = 1000;
         p.steps[0].args[0] = arena(0, 0);
         p.arena_bytes = 1001;
       }},
      {"writes buffer 1 in constants", [](Plan& p) { p.steps[0].args[1] = constant(0, 96); }},
      {"writes buffer 0 in input", [](Plan& p) { p.steps[1].args[0] = input(0, 64); }},
      {"buffer 0 is input 2; there are 2", [](Plan& p) { p.steps[3].args[0].index = 2; }},
      {"buffer 0 is in an unknown space", [](Plan& p) { p.steps[3].args[0].space = Space::none; }},
      {"has 3 buffers; expected 2", [](Plan& p) { p.steps[0].args.push_back(arena(0, 0)); }},
      {"extent -1", [](Plan& p) { p.steps[0].extent = -1; }},
      {"halo has a negative size", [](Plan& p) { p.steps[1].halo.left_bytes = -1; }},
      {"is larger than its plane", [](Plan& p) { p.steps[1].halo.top = 5; }},
      {"is larger than its plane", [=](Plan& p) { p.steps[1].halo.right_bytes = big; }},
      {"do not fit into a plane of 47", [](Plan& p) { p.steps[1].halo.plane_bytes = 47; }},
      {"do not fit into a plane", [=](Plan& p) { p.steps[1].halo.rows = big; }},
      {"halo of buffer 0 occupies 496 bytes", [](Plan& p) { p.steps[1].halo.plane_bytes = 448; }},
      {"planes of 48 bytes are more than", [=](Plan& p) { p.steps[1].halo.planes = big; }},
      {"fewer than its operands", [](Plan& p) { p.steps[3].args.pop_back(); }},
      {"has 3 buffers; expected 2",
       [](Plan& p) {
         p.steps[3].reference.inputs.pop_back();
         p.steps[3].args[1] = output(1, 8);
       }},
      {"operand 1 occupies 64 bytes", [](Plan& p) { p.steps[3].reference.inputs[2].shape = {8}; }},
      {"expected a multiple of 4", [](Plan& p) { p.steps[3].args[0] = arena(6, 64); }},
      {"calls kernel 5; there are 5",
       [](Plan& p) {
         p.steps.push_back(kernel_step(kDouble, {}, 1));
         p.steps[4].kernel = 5;
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
