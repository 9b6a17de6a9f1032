// The view of a tuning run on a terminal, as text.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "../../tools/tune_view.h"
#include "base/text.h"
#include "console.h"

namespace kilter::tool {
namespace {

using testing::ContainsRegex;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

constexpr TerminalSize k80{24, 80}, k160{50, 160};

tune::TaskProgress task(int64_t number, const std::string& node, double share, double best = 1, int64_t layers = 1) {
  tune::TaskProgress t;
  t.number = number, t.node = node, t.share = share, t.best = best, t.layers = layers;
  t.problem = "conv2d n1 c64 h28 w28 k192 r3 s3 p1 f32 +bias +relu";
  t.flops = 90'000'000, t.default_ms = 1, t.bound_ms = 0.5;  // 90 GFLOP/s under the default schedule
  t.tried = 12 + number, t.size = 300;
  return t;
}

/// A search in SqueezeNet after 16 of 40 seconds.
tune::TuneProgress run() {
  tune::TuneProgress p;
  p.phase = "searching", p.seconds = 16.2, p.budget_seconds = 40, p.trials = 680;
  p.default_ms = 2.64, p.predicted_ms = 2.38128, p.remaining = 0.0921;
  p.flops = 700'000'000, p.bound_ms = 1.0478;
  p.runs.taken = 100, p.runs.disturbed = 3;
  p.tasks = {task(1, "conv1", 0.18, 0.959),
             task(3, "fire2.squeeze", 0.012),
             task(4, "fire2.expand1x1", 0.031, 1, 2),
             task(5, "fire2.expand3x3", 0.095, 0.871, 2),
             task(9, "fire4.expand1x1", 0.028, 1, 2),
             task(10, "fire4.expand3x3", 0.071, 0.904, 2),
             task(15, "fire6.expand3x3", 0.066, 0.93, 2),
             task(18, "fire8.squeeze", 0.009),
             task(19, "fire8.expand3x3", 0.083, 1.0, 2),
             task(20, "pool5", 0.021),
             task(21, "conv10", 0.245, 0.241)};
  p.tasks[9].flops = 0, p.tasks[9].bound_ms = 0;
  p.tasks[10].size = 18'420, p.tasks[10].tried = 498, p.tasks[10].bound_ms = 0.41;  // below its bound
  return p;
}

std::string view(const tune::TuneProgress& p, const TerminalSize& size,
                 const std::string& what = "tune zoo:squeezenet1_1") {
  return "\n" + join(view_lines(what, p, size), "\n") + "\n";
}

void expect_fits(const std::vector<std::string>& lines, const TerminalSize& size) {
  EXPECT_LT(lines.size(), std::max<size_t>(size.rows, 2));
  for (const std::string& line : lines) EXPECT_LT(line.size(), size.columns) << line;
}

TEST(TuneLines, ASearchAt80Columns) {
  EXPECT_EQ(view(run(), k80), R"(
tune zoo:squeezenet1_1: searching [#######------------] 40 %, 24 s left
2.64 -> 2.38 ms (-9.8 %), 680 trials, 5 of 11 tasks changed, 44 % of its bound
layer                share     gain  of bound       tried  GFLOP/s  task
conv10              24.5 %  -75.9 %    beaten   498/18420    373.4    21
conv1               18.0 %   -4.1 %      52 %      13/300     93.8     1
fire2.expand3x3 +1   9.5 %  -12.9 %      57 %      17/300    103.3     5
fire8.expand3x3 +1   8.3 %        -      50 %      31/300     90.0    19
fire4.expand3x3 +1   7.1 %   -9.6 %      55 %      22/300     99.6    10
fire6.expand3x3 +1   6.6 %   -7.0 %      54 %      27/300     96.8    15
fire2.expand1x1 +1   3.1 %        -      50 %      16/300     90.0     4
fire4.expand1x1 +1   2.8 %        -      50 %      21/300     90.0     9
and 3 more tasks, 4.2 % of the time, 77/900 tried, 0 changed
)");
}

TEST(TuneLines, ASearchAt160Columns) {
  EXPECT_EQ(view(run(), k160), R"(
tune zoo:squeezenet1_1: searching [###############------------------------] 40 %, 24 s left
2.64 -> 2.38 ms (-9.8 %), 680 trials, 5 of 11 tasks changed, 44 % of its bound, 294.0 GFLOP/s, 9.2 % expected to be left, 3 % of the runs disturbed
layer                share     gain  of bound       tried  GFLOP/s  task  problem
conv10              24.5 %  -75.9 %    beaten   498/18420    373.4    21  conv2d n1 c64 h28 w28 k192 r3 s3 p1 f32 +bias +relu
conv1               18.0 %   -4.1 %      52 %      13/300     93.8     1  conv2d n1 c64 h28 w28 k192 r3 s3 p1 f32 +bias +relu
fire2.expand3x3 +1   9.5 %  -12.9 %      57 %      17/300    103.3     5  conv2d n1 c64 h28 w28 k192 r3 s3 p1 f32 +bias +relu
fire8.expand3x3 +1   8.3 %        -      50 %      31/300     90.0    19  conv2d n1 c64 h28 w28 k192 r3 s3 p1 f32 +bias +relu
fire4.expand3x3 +1   7.1 %   -9.6 %      55 %      22/300     99.6    10  conv2d n1 c64 h28 w28 k192 r3 s3 p1 f32 +bias +relu
fire6.expand3x3 +1   6.6 %   -7.0 %      54 %      27/300     96.8    15  conv2d n1 c64 h28 w28 k192 r3 s3 p1 f32 +bias +relu
fire2.expand1x1 +1   3.1 %        -      50 %      16/300     90.0     4  conv2d n1 c64 h28 w28 k192 r3 s3 p1 f32 +bias +relu
fire4.expand1x1 +1   2.8 %        -      50 %      21/300     90.0     9  conv2d n1 c64 h28 w28 k192 r3 s3 p1 f32 +bias +relu
and 3 more tasks, 4.2 % of the time, 77/900 tried, 0 changed
)");
}

TEST(TuneLines, ASearchThatHasJustBegun) {
  tune::TuneProgress p = run();
  p.phase = "preparing", p.seconds = 0.3, p.trials = 0, p.predicted_ms = p.default_ms, p.runs = {};
  p.tasks.resize(2);
  for (tune::TaskProgress& t : p.tasks) t.best = 1, t.tried = 0;
  EXPECT_EQ(view(p, k80), R"(
tune zoo:squeezenet1_1: preparing [-------------------] 1 %, 40 s left
2.64 -> 2.64 ms (0.0 %), 0 trials, 0 of 2 tasks changed, 40 % of its bound
layer           share     gain  of bound       tried  GFLOP/s  task
conv1          18.0 %        -      50 %       0/300     90.0     1
fire2.squeeze   1.2 %        -      50 %       0/300     90.0     3
)");
  p.tasks.clear(), p.default_ms = p.predicted_ms = 0;
  EXPECT_EQ(view(p, k80), R"(
tune zoo:squeezenet1_1: preparing [-------------------] 1 %, 40 s left
not yet measured
)");
}

TEST(TuneLines, ASearchThatIsFinished) {
  tune::TuneProgress p = run();
  p.phase = "racing", p.seconds = 39.9;
  EXPECT_THAT(view_lines("tune x", p, k80)[0], StartsWith("tune x: racing    [##################-] "));
  EXPECT_THAT(view_lines("tune x", p, k80)[0], EndsWith("] 100 %, 0 s left"));
  p.phase = "done", p.seconds = 41.3;
  EXPECT_EQ(view_lines("tune x", p, k80)[0], "tune x: done      [###################] in 41 s");
}

TEST(TuneLines, OneTask) {
  tune::TuneProgress p = run();
  p.tasks = {task(1, "features.0.conv", 1, 0.9)};
  EXPECT_EQ(view(p, k80), R"(
tune zoo:squeezenet1_1: searching [#######------------] 40 %, 24 s left
2.64 -> 2.38 ms (-9.8 %), 680 trials, 1 of 1 task changed, 44 % of its bound
layer             share     gain  of bound       tried  GFLOP/s  task
features.0.conv 100.0 %  -10.0 %      56 %      13/300    100.0     1
)");
}

TEST(TuneLines, UnknownValuesAreDashes) {
  tune::TuneProgress p = run();
  p.tasks.resize(1);
  p.tasks[0].flops = 0, p.tasks[0].bound_ms = 0;
  EXPECT_EQ(view_lines("tune x", p, k80)[3], "conv1       18.0 %   -4.1 %         -      13/300        -     1");
  p.bound_ms = 0;
  EXPECT_EQ(view_lines("tune x", p, k80)[1],
            "2.64 -> 2.38 ms (-9.8 %), 680 trials, 1 of 1 task changed, 294.0 GFLOP/s");
}

TEST(TuneLines, LongNamesAreShortened) {
  tune::TuneProgress p = run();
  p.tasks.clear();
  const std::string start = "/model/encoder/", end = "/attention/self/query/MatMul_with_a_long_name";
  for (int64_t i = 0; i < 3; ++i) {
    p.tasks.push_back(task(i, start + "layer." + std::to_string(i) + end, 0.3 - 0.1 * static_cast<double>(i), 1, 11));
  }
  const std::string what = "tune /home/me/models/exported/with/a/long/path/bert_base_uncased.onnx";
  EXPECT_EQ(view(p, k80, what), R"(
tune /home..cased.onnx: searching [#######------------] 40 %, 24 s left
2.64 -> 2.38 ms (-9.8 %), 680 trials, 0 of 3 tasks changed, 44 % of its bound
layer in /model/encoder/layer.             share     gain  of bound       tried
0/attention/self/.._with_a_long_name +10  30.0 %        -      50 %      12/300
1/attention/self/.._with_a_long_name +10  20.0 %        -      50 %      13/300
2/attention/self/.._with_a_long_name +10  10.0 %        -      50 %      14/300
)");
  EXPECT_EQ(view(p, k160, what), R"(
tune /home/me/models/exported/with/a/long/path/bert_base_uncased.onnx: searching [###############------------------------] 40 %, 24 s left
2.64 -> 2.38 ms (-9.8 %), 680 trials, 0 of 3 tasks changed, 44 % of its bound, 294.0 GFLOP/s, 9.2 % expected to be left, 3 % of the runs disturbed
layer in /model/encoder/layer.                     share     gain  of bound       tried  GFLOP/s  task  problem
0/attention/self/quer..tMul_with_a_long_name +10  30.0 %        -      50 %      12/300     90.0     0  conv2d n1 c64 h28 w28 k192 r3 s3 p1 f32 +bias +relu
1/attention/self/quer..tMul_with_a_long_name +10  20.0 %        -      50 %      13/300     90.0     1  conv2d n1 c64 h28 w28 k192 r3 s3 p1 f32 +bias +relu
2/attention/self/quer..tMul_with_a_long_name +10  10.0 %        -      50 %      14/300     90.0     2  conv2d n1 c64 h28 w28 k192 r3 s3 p1 f32 +bias +relu
)");
}

TEST(TuneLines, NamesAreEscapedAndKeepWholeCharacters) {
  tune::TuneProgress p = run();
  std::string name = "\033[2J";
  for (int i = 0; i < 40; ++i) name += "\u5C42";
  p.tasks = {task(1, name, 0.5), task(2, "conv", 0.3)};
  for (const TerminalSize& size : {k80, k160, TerminalSize{24, 41}, TerminalSize{24, 42}, TerminalSize{24, 43}}) {
    const std::string text = view(p, size);
    EXPECT_THAT(text, HasSubstr("\n\\x1b[2"));
    EXPECT_EQ(printable_lines(text), text);
  }
}

TEST(TuneLines, ManyTasksTakeEightLinesAndOneForTheRest) {
  tune::TuneProgress p = run();
  p.tasks.clear();
  for (int64_t i = 0; i < 2000; ++i)
    p.tasks.push_back(task(i, "node" + std::to_string(i), 0.0005, i == 1999 ? 0.5 : 1));
  for (const TerminalSize& size : {k80, k160}) {
    const auto lines = view_lines("tune x", p, size);
    ASSERT_EQ(lines.size(), 12U);
    EXPECT_THAT(lines[3], StartsWith("node0 "));
    EXPECT_EQ(lines.back(), "and 1992 more tasks, 99.6 % of the time, 2022876/597600 tried, 1 changed");
  }
}

/// Numbers are never truncated to different numbers.
TEST(TuneLines, EverySizeFitsWithWholeColumns) {
  const tune::TuneProgress p = run();
  for (size_t rows = 1; rows < 20; ++rows) {
    for (size_t columns = 2; columns < 170; ++columns) {
      const auto lines = view_lines("tune zoo:squeezenet1_1", p, {rows, columns});
      expect_fits(lines, {rows, columns});
      if (lines.size() < 4 || columns < 12) continue;
      EXPECT_THAT(lines[3],
                  ContainsRegex(
                      "^conv10 *( 24.5 %( +-75.9 %( +beaten( +498/18420( +373.4( +21(  conv2d .*relu)?)?)?)?)?)?)?$"));
    }
  }
  EXPECT_EQ(view(p, {8, 40}), R"(
searching 40 %, 24 s left
2.64 -> 2.38 ms (-9.8 %), 680 trials
layer          share     gain  of bound
conv10        24.5 %  -75.9 %    beaten
conv1         18.0 %   -4.1 %      52 %
fire..3x3 +1   9.5 %  -12.9 %      57 %
and 8 more tasks, 32.1 % of the time
)");
  EXPECT_EQ(view_lines("tune x", p, {1, 20}).size(), 1U);
}

TEST(TuneLines, BusyMachineMemoryAndTrialLimitAreShown) {
  tune::TuneProgress p = run();
  p.runs.disturbed = 92;
  EXPECT_THAT(view_lines("tune x", p, k80)[1],
              StartsWith("2.64 -> 2.38 ms (-9.8 %), busy machine, 680 trials, 5 of 11 "));
  p.default_bytes = 52'340'000, p.predicted_bytes = 33'020'000, p.most_trials = 5000;
  EXPECT_THAT(view_lines("tune x", p, k160)[1],
              StartsWith("2.64 -> 2.38 ms (-9.8 %), 52.3 -> 33.0 MB (-36.9 %), busy machine, 680 of 5000 trials, "));
  p.budget_seconds = std::numeric_limits<double>::infinity();
  EXPECT_EQ(view_lines("tune x", p, k80)[0], "tune x: searching [##-----------------] 14 %, 16 s so far");
  p.most_trials = 0;
  EXPECT_EQ(view_lines("tune x", p, k80)[0], "tune x: searching 16 s so far");
  p.budget_seconds = 7 * 3600;
  EXPECT_THAT(view_lines("tune x", p, k80)[0], EndsWith(" 0 %, 6 h 59 min left"));
  p.budget_seconds = 300;
  EXPECT_THAT(view_lines("tune x", p, k80)[0], EndsWith(" 5 %, 4 min 44 s left"));
}

TEST(TuneLines, ColoursMarkGainsAndABusyMachine) {
  tune::TuneProgress p = run();
  p.runs.disturbed = 92;
  const std::string plain = view(p, k80);
  EXPECT_THAT(plain, Not(HasSubstr("\033")));
  Console with = console();
  with.colour = Colour::always;
  const UseConsole use(with);
  const std::string text = view(p, k80);
  EXPECT_THAT(text, HasSubstr("\n\033[32m2.64 -> 2.38 ms (-9.8 %)\033[0m, \033[1;31mbusy machine\033[0m, "));
  EXPECT_THAT(text, HasSubstr("\033[32m  -75.9 %\033[0m"));
  std::string without;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\033')
      i = text.find('m', i);
    else
      without += text[i];
  }
  EXPECT_EQ(without, plain);
}

TEST(TuneLines, OnlyLinesThatChangedAreWrittenAgain) {
  EXPECT_EQ(rewritten({}, {"a", "b"}), "\ra\033[K\r\nb\033[K\r");
  EXPECT_EQ(rewritten({"a", "b", "c"}, {"a", "b", "c"}), "");
  EXPECT_EQ(rewritten({"a", "b", "c"}, {"a", "x", "c"}), "\r\033[2A\r\nx\033[K\r\n\r");
  EXPECT_EQ(rewritten({"a"}, {"a", "b"}), "\r\r\nb\033[K\r");
  EXPECT_EQ(rewritten({"a", "b", "c"}, {"a", "b"}), "\r\033[2A\r\nb\033[J\r");
}

}  // namespace
}  // namespace kilter::tool
