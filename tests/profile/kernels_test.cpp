// Problem lines: each line printed for a network parses to a task that prints the same line; errors in bad lines name
// the column.
#include "profile/kernels.h"

#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "../base/error_of.h"
#include "base/files.h"
#include "compile/compile.h"
#include "compile/placed_tasks.h"
#include "compile/tasks.h"
#include "schedule/problem/problem.h"

namespace kilter {
namespace {

/// Returns the problem lines of the tasks that the passes make from a line's graph.
std::vector<std::string> problems_of(const std::string& line) {
  Problem parsed = parse_problem(line);
  Graph& graph = parsed.graph;
  PassContext context;
  if (parsed.fed) context.fuse.emplace(parsed.anchor, "--fuse " + parsed.anchor);
  CompileOptions options;
  apply(parsed, options);
  context.precision = options.precision, context.stored_ports = options.stored_ports;
  context.limits = parse_target("x86-64-v3").limits;
  for (const PassRow& row : all_passes()) row.function(graph, context);
  std::vector<std::string> all;
  for (const Unit& unit : units(graph)) all.push_back(make_task(graph, unit, nullptr).problem());
  return all;
}

/// Returns the problem lines of the steps that a line's graph compiles to.
std::vector<std::string> problems_of_steps(const std::string& line) {
  CompileOptions options;
  options.target = parse_target("x86-64-v3");
  std::vector<std::string> all;
  for (const Step& step : compile_graph(parse_problem(line).graph, options).plan.steps) all.push_back(step.problem);
  return all;
}

void expect_round_trip(const std::string& line) {
  if (const profile::TimedTask timed = profile::timed_task(line); timed.task != line) {
    EXPECT_THAT(problems_of_steps(timed.graph), testing::Contains(timed.task)) << line;
    return;
  }
  const std::vector<std::string> problems = problems_of(line);
  EXPECT_EQ(std::count(problems.begin(), problems.end(), line), 1)
      << line << "\nbecame " << fmt::format("{}", fmt::join(problems, "\n       "));
}

TEST(Problem, NetworkLinesRoundTrip) {
  size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(KILTER_KERNELS)) {
    const std::string path = entry.path().string();
    const profile::KernelList list = profile::parse_kernel_list(read_file(path), path);
    EXPECT_GT(list.touched_bytes, 0) << path;
    EXPECT_GE(list.lines.size(), 5U) << path;
    for (const profile::KernelLine& line : list.lines) {
      EXPECT_EQ(static_cast<size_t>(line.count), line.layers.size()) << line.problem;
      expect_round_trip(line.problem);
    }
    ++files;
  }
  EXPECT_EQ(files, 13U);
}

TEST(Problem, HandWrittenLinesRoundTrip) {
  for (const std::string line : {
           "conv2d n1 c32 h9 w11 k32 r3 s3 g32 pad1 f32 +bias +swish+reducemean(i64[1]=3 keepdims=1)",
           "conv2d n2 c6 h9 w7 k4 r3 s2 g2 stride2,1 pad1,0,2,1 dil1,2 f32",
           "conv2d n1 c16 h8 w8 k16 r1 s1 f32 +sub(1 %)+abs",
           "conv2d n1 c16 h8 w8 k16 r1 s1 f32 +bias +tanh+sub(0.5)",
           "conv2d n1 c16 h8 w8 k16 r1 s1 f32 +tanh+mul(%0)",
           "conv2d n1 c16 h8 w8 k16 r1 s1 f32 +abs+mul(%)",
           "conv2d n1 c16 h8 w8 k16 r1 s1 f32 +add+sub(f32[1,16,8,8] %)+div",
           "matmul(f32[3,5,8] f32[3,8,4]) +mul(0.25)+max(f32[4])",
           "matmul(f32[5,8] f32[8,4]) +mul(0.5)+add(f32[4])",
           "conv2d n1 c8 h9 w9 k16 r1 s1 f32 +bias +relu => conv2d n1 c16 h9 w9 k16 r3 s3 g16 pad1 f32 +clip(0 6)",
           "conv2d n1 c3 h9 w9 k16 r3 s3 stride2,2 pad1 f32 => conv2d n1 c16 h5 w5 k16 r3 s3 g16 f32 +add",
           "convtranspose(f32[1,16,5,5] f32[16,8,4,4] kernel_shape=4,4 pads=1,1,1,1 strides=2,2) +add",
           "maxpool(f32[1,16,9,9] kernel_shape=3,3 pads=1,1,1,1 strides=2,2) +relu",
           "softmax(f32[4,33] axis=-1)",
           "reducemean(f32[2,3,5,7] i64[2]=2,3 keepdims=1)",
           "fusedattention(f32[1,2,9,8] f32[1,2,9,8] f32[1,2,9,8] scale=0.5)",
       }) {
    expect_round_trip(line);
  }
}

TEST(Problem, IntegerLinesRoundTrip) {
  const std::string sum = "+roundedsum(f64[] f64[1,64,1,1] high=127 low=-128)";
  const std::string residual = "+roundedsum(f64[] f32:u8[1,64,9,9] f64[] f64[]=0 high=255 low=0)";
  for (const std::string& line : {
           "conv2d n1 c32 h9 w9 k64 r1 s1 f32:u8->i32 " + sum + residual + " >u8",
           "conv2d n1 c32 h9 w9 k64 r3 s3 stride2,2 pad1 f32:u8+123->i32 " + sum + " >u8+128",
           "conv2d n1 c64 h9 w9 k64 r3 s3 g64 pad1 f32:u8->i32 " + sum + " >u8+128",
           std::string(
               "integermatmul(f32:u8+7[3,64] f32[64,32]) +roundedsum(f64[] f64[32] high=135 low=-120)+mul(0.25)"),
           std::string("integermatmul(f32:u8[3,64] f32[64,32]) +sub(i32[1,32])+cast(to=1)+mul(f32[])+add(f32[32])"),
           std::string("maxpool(f32:u8[1,32,9,9] kernel_shape=3,3 pads=1,1,1,1 strides=2,2) >u8"),
           std::string(
               "reducesum(f32:u8[1,32,7,7] i64[2]=2,3 keepdims=1) +roundedsum(f64[] f64[]=0 high=255 low=0) >u8"),
       }) {
    expect_round_trip(line);
  }
}

std::string problem_error(const std::string& line) {
  return error_of([&] { parse_problem(line); }, ErrorKind::bad_input);
}

TEST(Problem, PrologueIsParsed) {
  const Problem p = parse_problem("mul(f32[1,16,8,8] f32[1,16,1,1])+ conv2d n1 c16 h8 w8 k4 r1 s1 f32 +bias +relu");
  EXPECT_EQ(p.anchor, "conv");
  EXPECT_EQ(p.graph.inputs().size(), 2U);
  const std::string nodes = print(p.graph);
  EXPECT_THAT(nodes, testing::HasSubstr(" = Mul@"));
  EXPECT_THAT(nodes, testing::HasSubstr(" = Relu@"));
}

TEST(Problem, BadLinesNameTheColumn) {
  EXPECT_EQ(problem_error(" "),
            "problem: expected a line such as 'conv2d n1 c64 h56 w56 k64 r3 s3 pad1 f32 +relu', got nothing");
  EXPECT_EQ(problem_error("convv2d n1 c64"),
            "problem 'convv2d n1 c64', column 9: expected '+' or the end, got 'n1 c64'");
  EXPECT_EQ(problem_error("convv(f32[1])"),
            "problem 'convv(f32[1])', column 1: expected conv2d or an operator in lower case (`kilter ops` lists "
            "them), got 'convv'");
  EXPECT_EQ(problem_error("conv2d n1 c6 h9 w7 k4 r3 s3"),
            "problem 'conv2d n1 c6 h9 w7 k4 r3 s3', column 26: expected the element type at the end, such as f32, got "
            "'s3'");
  EXPECT_EQ(problem_error("conv2d n1 c6 h9 w7 k4 r3 f32"),
            "problem 'conv2d n1 c6 h9 w7 k4 r3 f32', column 1: expected 's' among the extents n, c, h, w, k, r, s, got "
            "'conv2d n1 c6 h9 w7 k4 r3 f32'");
  EXPECT_EQ(problem_error("conv2d n1 c6 x9 f32"),
            "problem 'conv2d n1 c6 x9 f32', column 14: expected one of n, c, h, w, k, r, s, g, stride, pad, dil with "
            "its number, got 'x9'");
  EXPECT_EQ(
      problem_error("conv2d n1 c6 h9 w7 k4 r3 s3 g4 f32"),
      "problem 'conv2d n1 c6 h9 w7 k4 r3 s3 g4 f32', column 1: expected 'c' as a multiple of 'g' (4), got 'conv2d "
      "n1 c6 h9 w7 k4 r3 s3 g4 f32'");
  EXPECT_EQ(problem_error("conv2d n1 c4 h1 w1 k4 r1 s1 f64->i32"),
            "problem 'conv2d n1 c4 h1 w1 k4 r1 s1 f64->i32', column 29: expected f32 before '->i32', got 'f64->i32'");
  EXPECT_EQ(problem_error("relu(f32:u8+300[8])"),
            "problem 'relu(f32:u8+300[8])', column 6: expected a numeric element type before '[', got "
            "'f32:u8+300[8]'");
  EXPECT_EQ(problem_error("relu(f32[8]) +mul(f64[]=x)"),
            "problem 'relu(f32[8]) +mul(f64[]=x)', column 25: expected a number, got 'x'");
  EXPECT_EQ(problem_error("conv2d n1 n2 f32"), "problem 'conv2d n1 n2 f32', column 11: expected 'n' once, got 'n2'");
  EXPECT_EQ(problem_error("matmul(f32[2,3] f32[3,4]"),
            "problem 'matmul(f32[2,3] f32[3,4]', column 25: expected ')', got the end");
  EXPECT_EQ(
      problem_error("matmul(f32[2,3] g32[3,4])"),
      "problem 'matmul(f32[2,3] g32[3,4])', column 17: expected a numeric element type before '[', got 'g32[3,4]'");
  EXPECT_EQ(problem_error("softmax(f32[2,3] axe=1)"),
            "problem 'softmax(f32[2,3] axe=1)', column 18: expected an attribute of Softmax, got 'axe'");
  EXPECT_EQ(problem_error("softmax(f32[2,3]) +"),
            "problem 'softmax(f32[2,3]) +', column 20: expected an operator, got the end");
  EXPECT_EQ(problem_error("softmax(f32[2,3]) +mul(%3)"),
            "problem 'softmax(f32[2,3]) +mul(%3)', column 24: expected %0 to %0, got '%3'");
  EXPECT_EQ(problem_error("conv2d n1 c8 h9 w9 k16 r1 s1 f32 => relu(f32[1,16,9,9])"),
            "problem 'conv2d n1 c8 h9 w9 k16 r1 s1 f32 => relu(f32[1,16,9,9])', column 37: expected conv2d after '=>', "
            "got 'relu(f32[1,16,9,9])'");
  EXPECT_EQ(
      problem_error("conv2d n1 c8 h9 w9 k16 r1 s1 f32 => conv2d n1 c16 h8 w9 k16 r1 s1 g16 f32"),
      "problem 'conv2d n1 c8 h9 w9 k16 r1 s1 f32 => conv2d n1 c16 h8 w9 k16 r1 s1 g16 f32', column 37: expected n, c, "
      "h and w equal to the output of the part before (1, 16, 9, 9), got 'conv2d n1 c16 h8 w9 k16 r1 s1 g16 f32'");
  EXPECT_EQ(problem_error("matmul(f32[2,3] f32[4,5])").substr(0, 51),
            "problem 'matmul(f32[2,3] f32[4,5])': MatMul 'MatMul");
}

TEST(KernelList, TextRoundTrips) {
  const profile::KernelList list{
      "net", 1234, {{2, "conv2d n1 c3 h8 w8 k4 r1 s1 f32", {"a", "b"}}, {1, "softmax(f32[2,3])", {}}}};
  const profile::KernelList back = profile::parse_kernel_list("# comment\n\n" + text(list), "net");
  EXPECT_EQ(text(back), text(list));
  EXPECT_EQ(back.touched_bytes, 1234);
  ASSERT_EQ(back.lines.size(), 2U);
  EXPECT_EQ(back.lines[0].layers, (std::vector<std::string>{"a", "b"}));
}

TEST(TimedTask, IsTheProblemOrAPartOfIt) {
  const profile::TimedTask alone = profile::timed_task("softmax(f32[2,3])");
  EXPECT_EQ(alone.task, "softmax(f32[2,3])");
  EXPECT_EQ(alone.graph, alone.task);
  const profile::TimedTask part = profile::timed_task("relayout(f32[1,2]) in softmax(f32[2,3]) +relu");
  EXPECT_EQ(part.task, "relayout(f32[1,2])");
  EXPECT_EQ(part.graph, "softmax(f32[2,3]) +relu");
}

profile::KernelTime time_of(const std::string& line) {
  Peaks peaks;
  peaks.gflops = {100}, peaks.l2_gbps = peaks.l3_gbps = peaks.dram_gbps = {50};
  peaks.l2_bytes = 1 << 20, peaks.l3_bytes = 1 << 25;
  return profile::measure_kernel(line, peaks, {parse_target("native"), 1, 0, 0.02}).chosen;
}

TEST(KernelTime, MovementIsDistinguishedFromOtherMemoryBoundWork) {
  const profile::KernelTime transpose = time_of("transpose(f32[1,12,128,64] perm=0,1,3,2)");
  EXPECT_TRUE(transpose.moves);
  EXPECT_EQ(transpose.bound.kind, profile::Bound::memory);
  EXPECT_EQ(transpose.bytes, 2 * 12 * 128 * 64 * 4);
  EXPECT_GT(transpose.read_ms, 0);
  EXPECT_TRUE(time_of("resize(f32[1,16,20,20] ? ? i64[4]=1,16,40,40 mode=nearest)").moves);
  EXPECT_TRUE(time_of("takechannels(f32[1,16,8,8] channels=0,2,4)").moves);
  EXPECT_FALSE(time_of("relu(f32[1,12,128,64])").moves);
  EXPECT_FALSE(time_of("conv2d n1 c16 h8 w8 k16 r1 s1 f32 +relu").moves);
}

TEST(KernelTime, SelectionCountsOnlyTheBytesTaken) {
  EXPECT_EQ(time_of("takechannels(f32[1,16,8,8] f32[1,16,8,8] channels=0,20,4)").bytes, 2 * 3 * 8 * 8 * 4);
  EXPECT_EQ(time_of("gather(f32[100,768] i64[1,10])").bytes, 2 * 10 * 768 * 4 + 10 * 8);
}

TEST(KernelTime, FewTableRowsHaveNoFullReadTime) {
  EXPECT_EQ(time_of("gather(f32[8000,768] i64[1,64])").read_ms, 0);
  EXPECT_GT(time_of("gather(f32[100,768] i64[1,128])").read_ms, 0);
}

TEST(KernelTime, OneTaskOfAGraphIsTimed) {
  const profile::KernelTime to_blocks = time_of("relayout(f32[1,64,28,28]) in conv2d n1 c64 h28 w28 k32 r1 s1 f32");
  EXPECT_TRUE(to_blocks.moves);
  EXPECT_EQ(to_blocks.flops, 0);
  const profile::KernelTime both = time_of("relayout(f32[1,8,28,28]) in concat(f32[1,8,28,28] f32[1,8,28,28] axis=1)");
  EXPECT_EQ(both.bytes, 2 * 2 * 8 * 28 * 28 * 4) << "two copies, read and written";
  const auto error = [](const std::string& line) { return error_of([&] { time_of(line); }, ErrorKind::bad_input); };
  EXPECT_EQ(
      error("relayout(f32[1,32,28,28]) in conv2d n1 c32 h28 w28 k32 r1 s1 f32"),
      "problem 'relayout(f32[1,32,28,28])': expected its tasks one after another, got 'conv2d n1 c32 h28 w28 k32 r1 "
      "s1 f32' between two of them");
  EXPECT_EQ(error("relu(f32[2]) in softmax(f32[2,3])"),
            "problem 'relu(f32[2])': expected one task with this text, got 'softmax(f32[2,3])'; write it as `kilter "
            "inspect` prints it");
}

std::string list_error(const std::string& text) {
  return error_of([&] { profile::parse_kernel_list(text, "net.txt"); }, ErrorKind::bad_input);
}

TEST(KernelList, BadLinesNameTheirNumber) {
  EXPECT_EQ(list_error("# a\ntouches many bytes"),
            "net.txt line 2: expected 'touches N bytes' or 'COUNT | PROBLEM | LAYERS', got 'touches many bytes'");
  EXPECT_EQ(list_error("x | softmax(f32[2,3])"),
            "net.txt line 1: expected a count of layers before the first '|', got 'x'");
  EXPECT_EQ(list_error("1 | | a"), "net.txt line 1: expected a problem after the first '|', got ''");
  EXPECT_EQ(list_error("1 | softmax(f32[2,3]) | a | b"), "net.txt line 1: expected COUNT | PROBLEM | LAYERS, got 'b'");
}

TEST(ExpectedGains, ReadsLinesAndNamesBadOnes) {
  const auto gains = profile::parse_expected_gains("# source\n3.35 | conv2d n1 c64  # est.\n", "gains.txt");
  ASSERT_EQ(gains.size(), 1U);
  EXPECT_EQ(gains[0].problem, "conv2d n1 c64");
  EXPECT_EQ(gains[0].gain, 3.35);
  EXPECT_EQ(error_of([] { profile::parse_expected_gains("fast | conv2d n1", "gains.txt"); }),
            "gains.txt line 1: expected 'GAIN | PROBLEM' with a positive gain, got 'fast | conv2d n1'");
}

/// Measures single problems as `kilter kernels` does.
TEST(Kernels, AProblemIsMeasuredInAllItsForms) {
  const Peaks peaks{{100}, {50}, {30}, {10}, {0}, 1 << 20, 32 << 20};
  profile::KernelOptions options;
  options.target = parse_target("x86-64-v2");
  options.seconds = 0.05;
  const auto winograd = profile::measure_kernel("conv2d n1 c32 h28 w28 k32 r3 s3 pad1 f32 +bias +relu", peaks, options);
  EXPECT_EQ(winograd.chosen.schedule.substr(0, 15), "conv2d_winograd");
  ASSERT_TRUE(winograd.direct.has_value());
  EXPECT_EQ(winograd.direct->schedule.substr(0, 13), "conv2d_direct");
  EXPECT_GT(winograd.chosen.effective_flops, winograd.chosen.flops);
  EXPECT_EQ(winograd.direct->effective_flops, winograd.direct->flops);
  EXPECT_EQ(winograd.direct->bound.kind, profile::Bound::compute);
  EXPECT_GT(winograd.gain.value, 0);
  EXPECT_GT(winograd.warm_ms, 0);
  options.touched_bytes = 64 << 20;
  const auto vector = profile::measure_kernel("matmul(f32[1,512] f32[512,1000]) +add(f32[1000])", peaks, options);
  EXPECT_FALSE(vector.direct.has_value());
  EXPECT_EQ(vector.chosen.bound.kind, profile::Bound::memory);
  EXPECT_GT(vector.chosen.read_ms, 0);
  EXPECT_EQ(vector.chosen.memory_share(), vector.chosen.read_ms / vector.chosen.cold_ms.value);
  EXPECT_EQ(winograd.chosen.read_ms, 0);
  EXPECT_EQ(vector.chosen.memory.level, "L3");  // half of the touched memory fits in L3
  EXPECT_EQ(vector.chosen.bytes, 4 * (512 + 512 * 1000 + 1000 + 1000));
  EXPECT_EQ(vector.weights.substr(0, 8), "cold: 33");
  EXPECT_THROW(profile::measure_kernel("softmax(f32[2,3]) +add(0)", peaks, options), Error);  // adding 0 is removed
}

}  // namespace
}  // namespace kilter
