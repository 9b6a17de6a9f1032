#include "tune/records/match.h"

#include <gmock/gmock.h>

#include <cmath>

#include "samples.h"

namespace kilter::tune {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr const char* kA = "conv2d_direct vectors=2 rows=1 tile=14 prefetch=0";
constexpr const char* kB = "conv2d_direct vectors=1 rows=1 tile=28 prefetch=0";
constexpr const char* kOther = "AMD Ryzen, 16 CPUs, avx512, L1 48K, L2 1M, L3 64M";
constexpr const char* kFar = "AMD EPYC, 2 CPUs, avx2, L1 32K, L2 512K, L3 16M";

Query here() {
  const Record r = measured(kA, 1);
  return {r.problem, r.layouts, "znver5", kEpyc, 1, versions()};
}

Record paired(const std::string& schedule, double ms, double ratio) {
  Record r = measured(schedule, ms);
  r.versus = {{ratio, ratio * 0.99, ratio * 1.01}, kB};
  r.conditions.codegen = code_version(r, versions());
  return r;
}

std::vector<std::string> schedules_of(const std::vector<Match>& matches) {
  std::vector<std::string> all;
  for (const Match& m : matches) all.push_back(m.record.schedule);
  return all;
}

TEST(Match, ExactMatchIsReported) {
  const auto m = Matcher({measured(kA, 1)}).best(here());
  ASSERT_TRUE(m);
  EXPECT_EQ(m->distance, Distance::exact);
  EXPECT_THAT(m->differences, IsEmpty());
  EXPECT_EQ(m->loss_percent, 0);
  EXPECT_EQ(m->words, "exact: tuned under the same conditions");
}

// The use of a schedule that was tuned with another number of threads is always stated.
TEST(Match, OtherThreadCountIsReported) {
  Query query = here();
  query.threads = 2;
  auto m = Matcher({measured(kA, 1)}).best(query);
  ASSERT_TRUE(m);
  EXPECT_EQ(m->distance, Distance::threads);
  EXPECT_DOUBLE_EQ(m->loss_percent, 4);
  EXPECT_EQ(m->words, "tuned at 1 thread, used at 2; expected loss about 4 % (an estimate)");
  Record two = measured(kA, 1);
  two.conditions.threads = 2;
  m = Matcher({two}).best(here());
  ASSERT_TRUE(m);
  EXPECT_EQ(m->words, "tuned at 2 threads, used at 1; expected loss about 4 % (an estimate)");
}

struct Case {
  Distance distance;
  void (*change)(Record&);
  const char* words;
};
void PrintTo(const Case& c, std::ostream* out) { *out << name(c.distance); }

class DistanceTest : public testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(
    All, DistanceTest,
    testing::Values(
        Case{Distance::codegen, [](Record& r) { r.conditions.codegen = "LLVM 19.1.0"; },
             "measured with LLVM 19.1.0, used with LLVM 22.1.8, conv2d_direct 1f3a0c2b; expected loss about 1 %"},
        Case{Distance::layouts, [](Record& r) { r.layouts = "plain plain plain -> c16"; },
             "tuned for layouts plain plain plain -> c16, used for c16halo1,1,1,1 plain plain -> c16; expected loss "
             "about 2 %"},
        Case{Distance::family, [](Record& r) { r.conditions.device = kOther; },
             "tuned on AMD Ryzen, 16 CPUs, avx512, L1 48K, L2 1M, L3 64M, used on AMD EPYC"},
        Case{Distance::epilogue, [](Record& r) { r.problem = "conv2d n1 c64 h56 w56 k64 r3 s3 pad1 f32"; },
             "tuned with the epilogue none, used with +bias +relu; expected loss about 6 %"},
        Case{Distance::shape, [](Record& r) { r.problem = "conv2d n1 c64 h56 w56 k128 r3 s3 pad1 f32 +bias +relu"; },
             "tuned for conv2d n1 c64 h56 w56 k128 r3 s3 pad1 f32; expected loss about 18 %"}),
    [](const auto& kind) { return std::string(name(kind.param.distance)); });

TEST_P(DistanceTest, HasNameLossAndWords) {
  Record r = measured(kA, 1);
  GetParam().change(r);
  const auto m = Matcher({r}).best(here());
  ASSERT_TRUE(m);
  EXPECT_EQ(m->distance, GetParam().distance);
  EXPECT_THAT(m->differences, ElementsAre(GetParam().distance));
  EXPECT_GE(m->loss_percent, all_distances()[static_cast<size_t>(GetParam().distance)].loss_percent);
  EXPECT_THAT(m->words, HasSubstr(GetParam().words));
  // A record with any difference loses to an exact one, however good its time.
  r.samples_ms = {0.001};
  EXPECT_EQ(Matcher({r, measured(kB, 5)}).best(here())->record.schedule, kB);
}

constexpr const char* kWinograd = "conv2d_winograd m=2 vectors=1 tile=16 count=1 split=1 prefetch=0";

/// Matches a record of `schedule`, measured against `fallback` with the kernel versions `made`, to a query of today.
Match found(const std::string& schedule, const std::string& fallback, const KernelVersions& made) {
  Record r = measured(schedule, 1);
  r.versus = {{0.8, 0.79, 0.81}, fallback};
  r.conditions.codegen = code_version(r, made);
  return Matcher({r}).best(here()).value();
}

TEST(Match, TemplateChangeKeepsOtherRecordsExact) {
  const KernelVersions before = versions(0x11111111);
  EXPECT_EQ(found(kA, kB, before).words, "exact: tuned under the same conditions");
  EXPECT_EQ(found(kWinograd, kB, versions()).words, "exact: tuned under the same conditions");
  EXPECT_EQ(found(kWinograd, kWinograd, before).words,
            "measured with LLVM 22.1.8, conv2d_winograd 11111111, used with LLVM 22.1.8, conv2d_winograd 83b1d47e; "
            "expected loss about 1 % (an estimate)");
  // A ratio over a default whose code has changed since is not exact.
  const Match versus_changed = found(kA, kWinograd, before);
  EXPECT_THAT(versus_changed.differences, ElementsAre(Distance::codegen));
  EXPECT_EQ(versus_changed.words,
            "measured with LLVM 22.1.8, conv2d_direct 1f3a0c2b, conv2d_winograd 11111111, used with LLVM 22.1.8, "
            "conv2d_direct 1f3a0c2b, conv2d_winograd 83b1d47e; expected loss about 1 % (an estimate)");
}

// Early versions of Kilter had one version number N for all kernels and wrote "kernels N".
TEST(Match, OldKernelNumbersAreAnotherVersion) {
  Record r = measured(kA, 1);
  r.conditions.codegen = "LLVM 22.1.8, kernels 6";
  const auto m = Matcher({r}).best(here());
  ASSERT_TRUE(m);
  EXPECT_EQ(m->distance, Distance::codegen);
  EXPECT_EQ(m->words,
            "measured with LLVM 22.1.8, kernels 6, used with LLVM 22.1.8, conv2d_direct 1f3a0c2b; expected loss about "
            "1 % (an estimate)");
}

TEST(Match, DistancesAddUp) {
  Record r = measured(kA, 1);
  r.conditions.threads = 4;
  r.conditions.device = kOther;
  r.problem = "conv2d n1 c64 h56 w56 k64 r3 s3 pad1 f32 +bias +add+relu";
  const auto m = Matcher({r}).best(here());
  ASSERT_TRUE(m);
  EXPECT_EQ(m->distance, Distance::epilogue);
  EXPECT_THAT(m->differences, ElementsAre(Distance::threads, Distance::family, Distance::epilogue));
  EXPECT_NEAR(m->loss_percent, 100 * (1 - 0.96 * 0.95 * 0.94), 1e-9);
  EXPECT_THAT(m->words, HasSubstr("tuned at 4 threads, used at 1; tuned on AMD Ryzen"));
}

TEST(Match, LossesGrowWithTheDistance) {
  const auto rows = all_distances();
  for (size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(static_cast<size_t>(rows[i].distance), i);
    if (i > 0) {
      EXPECT_GT(rows[i].loss_percent, rows[i - 1].loss_percent) << rows[i].name;
    }
  }
}

TEST(Match, TooDistantRecordsDoNotMatch) {
  const auto answers = [](auto change) {
    Record r = measured(kA, 1);
    change(r);
    return Matcher({r}).best(here()).has_value();
  };
  EXPECT_TRUE(answers([](Record&) {}));
  EXPECT_FALSE(answers([](Record& r) { r.conditions.target = "haswell"; }));
  EXPECT_FALSE(answers([](Record& r) { r.conditions.device = kFar; }));
  EXPECT_FALSE(answers([](Record& r) { r.conditions.device = ""; }));
  EXPECT_FALSE(answers([](Record& r) { r.problem = "conv2d n1 c64 h56 w56 k64 r1 s1 f32 +bias +relu"; }));
  EXPECT_FALSE(answers([](Record& r) { r.problem = "conv2d n1 c64 h56 w56 k64 r3 s3 stride2,2 pad1 f32"; }));
  EXPECT_FALSE(answers([](Record& r) { r.problem = "conv2d n1 c64 h56 w56 k512 r3 s3 pad1 f32 +bias +relu"; }));
  EXPECT_FALSE(answers([](Record& r) { r.problem = "conv2d n1 c64 h56 w56 k64 r3 s3 pad1 f16 +bias +relu"; }));
  EXPECT_FALSE(answers([](Record& r) { r.source = "tvm v0.1"; }));
  EXPECT_FALSE(answers([](Record& r) { r = failed(Status::timeout, kA); }));
}

TEST(Match, ImportedRecordsAreCounted) {
  Record mapped = measured(kA, 1, "conv2d n1 c64 h56 w56 k64 r3 s3 pad1 f32");
  mapped.source = "tvm v0.1", mapped.conditions.target = "llvm", mapped.conditions.device = "",
  mapped.conditions.threads = 0;
  Record foreign = mapped, crashed = failed(Status::crash, kA);
  foreign.schedule = "tvm: something", crashed.source = "tvm v0.1";
  const Matcher matcher({mapped, mapped, foreign, crashed, measured(kB, 2)});
  EXPECT_THAT(schedules_of(matcher.matches(here())), ElementsAre(kB));
  EXPECT_EQ(matcher.imported(kConv), 2) << "whatever the epilogue";
  EXPECT_EQ(matcher.imported("conv2d n1 c64 h56 w56 k32 r3 s3 pad1 f32"), 0);
  EXPECT_EQ(imported_text(0), "");
  EXPECT_EQ(
      imported_text(1),
      "1 imported record for these problems is not used: other systems did not measure it against Kilter's default");
}

TEST(Match, PairedRatiosBeatMilliseconds) {
  // kA took more milliseconds, as on a slower clock, but was measured to be faster than the default.
  EXPECT_EQ(Matcher({measured(kB, 1), paired(kA, 2, 0.9)}).best(here())->record.schedule, kA);
  EXPECT_EQ(Matcher({paired(kB, 1, 0.95), paired(kA, 2, 0.9)}).best(here())->record.schedule, kA);
  // A ratio above 1 is not a recommendation.
  EXPECT_EQ(Matcher({measured(kB, 1), paired(kA, 2, 1.1)}).best(here())->record.schedule, kB);
}

TEST(Match, RatiosAreConvertedToTheCurrentDefault) {
  Query query = here();
  query.fallback = kA;  // the ratios below are over kB, an earlier default
  const char* fast = "map item=1";
  const auto ratio = [&](const std::vector<Record>& records, const std::string& schedule) {
    const auto all = Matcher(records).matches(query);
    const auto it = std::ranges::find_if(all, [&](const Match& m) { return m.record.schedule == schedule; });
    return it == all.end() ? std::nullopt : it->ratio;
  };
  const auto converted = ratio({paired(fast, 1, 0.9), paired(kA, 1, 1.2)}, fast);
  ASSERT_TRUE(converted);
  EXPECT_DOUBLE_EQ(converted->value, 0.75);
  EXPECT_NEAR(converted->high, 0.75 * (1 + 0.01 * std::sqrt(2)), 1e-3) << "both intervals count";
  EXPECT_DOUBLE_EQ(ratio({paired(kA, 1, 1.2)}, kA)->value, 1) << "the default itself";
  EXPECT_FALSE(ratio({paired(fast, 1, 0.9)}, fast)) << "nothing relates the two defaults";
  // If a ratio cannot be related to today's default, it does not count, and the shorter time wins.
  EXPECT_EQ(Matcher({paired(fast, 2, 0.5), measured(kA, 1)}).best(query)->record.schedule, kA);
  // For another problem, the ratio is not converted: its default may differ.
  Record near = paired(fast, 1, 0.9);
  near.problem = "conv2d n1 c64 h56 w56 k128 r3 s3 pad1 f32 +bias +relu";
  EXPECT_DOUBLE_EQ(ratio({near}, fast)->value, 0.9);
  query.fallback = "";
  EXPECT_DOUBLE_EQ(ratio({paired(fast, 1, 0.9), paired(kA, 1, 1.2)}, fast)->value, 0.9) << "any default";
}

TEST(Match, OnlyAcceptedMatchesCount) {
  std::vector<Record> records{measured(kB, 9)};
  for (int i = 1; i < 10; ++i) records.push_back(measured("map item=" + std::to_string(i), i));
  const auto all = Matcher(records).matches(here(), 1, [](const Match& m) { return m.record.schedule == kB; });
  EXPECT_THAT(schedules_of(all), ElementsAre(kB));
}

TEST(Match, OneLuckyMeasurementDoesNotWin) {
  std::vector<Record> records{measured(kA, 0.5), measured(kA, 1.1), measured(kA, 1.2), measured(kB, 1.0)};
  EXPECT_EQ(Matcher(records).best(here())->record.schedule, kB);
  records = {measured(kA, 0.9), measured(kA, 0.95), measured(kA, 1.2), measured(kB, 1.0)};
  EXPECT_EQ(Matcher(records).best(here())->record.schedule, kA);
}

TEST(Match, SchedulesThatWereEverWrongAreNeverUsed) {
  for (const Status status : {Status::wrong, Status::crash}) {
    Record bad = failed(status, kA);
    EXPECT_EQ(Matcher({paired(kA, 1, 0.5), measured(kB, 2), bad}).best(here())->record.schedule, kB);
    // The schedule is ruled out even if it failed with other threads and layouts, and a record of another shape cannot
    // recommend it either.
    bad.conditions.threads = 8, bad.layouts = "plain -> plain";
    EXPECT_EQ(Matcher({measured(kA, 1), measured(kB, 2), bad}).best(here())->record.schedule, kB);
    const Record near = measured(kA, 1, "conv2d n1 c64 h56 w56 k128 r3 s3 pad1 f32 +bias +relu");
    EXPECT_FALSE(Matcher({near, bad}).best(here()));
    bad.problem = near.problem;
    EXPECT_FALSE(Matcher({near, bad}).best(here()));
    // It is not ruled out if the code for another target failed.
    bad = failed(status, kA);
    bad.conditions.target = "haswell";
    EXPECT_EQ(Matcher({measured(kA, 1), bad}).best(here())->record.schedule, kA);
  }
}

TEST(Match, BarringARecordBarsItsScheduleForItsProblem) {
  Record siblings = measured(kA, 2),
         elsewhere = measured(kA, 1, "conv2d n1 c64 h56 w56 k128 r3 s3 pad1 f32 +bias +relu");
  siblings.conditions.threads = 2;
  std::vector<Record> records{measured(kA, 1), siblings, measured(kB, 3), elsewhere, failed(Status::crash, kB)};
  const Record named = records[0];
  bar(records, named, "--forbid record:1a2b3c");
  const Matcher matcher(records);
  EXPECT_THAT(matcher.matches(here()), IsEmpty())
      << "neither siblings nor near shapes have it, and what failed stays so";
  EXPECT_TRUE(matcher.barred(named.problem, "znver5", kA) && matcher.barred(named.problem, "znver5", kB));
  EXPECT_FALSE(matcher.barred(elsewhere.problem, "znver5", kA));
  EXPECT_EQ(records[1].error, "--forbid record:1a2b3c");
  EXPECT_EQ(records[2].status, Status::ok);
  EXPECT_EQ(records[4].status, Status::crash);
}

TEST(Match, FurtherMatchesFollowInOrder) {
  Record threads = measured(kA, 1);
  threads.conditions.threads = 2;
  Record shape = measured("conv2d_direct vectors=4 rows=1 tile=6 prefetch=0", 0.1,
                          "conv2d n1 c64 h56 w56 k128 r3 s3 pad1 f32 +bias +relu");
  const auto all = Matcher({shape, threads, measured(kB, 3), measured("map item=1", 4)}).matches(here());
  EXPECT_THAT(schedules_of(all), ElementsAre(kB, "map item=1", kA, "conv2d_direct vectors=4 rows=1 tile=6 prefetch=0"));
  EXPECT_EQ(Matcher({shape, threads}).matches(here(), 1).size(), 1U);
}

TEST(Match, DoesNotDependOnTheOrder) {
  std::vector<Record> records{paired(kA, 1, 0.9), measured(kB, 1), measured(kA, 2), measured("map item=1", 1),
                              measured("map item=2", 1)};
  const auto first = schedules_of(Matcher(records).matches(here()));
  std::sort(records.begin(), records.end(), [](const Record& a, const Record& b) { return a.id() < b.id(); });
  EXPECT_EQ(schedules_of(Matcher(records).matches(here())), first);
  std::reverse(records.begin(), records.end());
  EXPECT_EQ(schedules_of(Matcher(records).matches(here())), first);
}

TEST(Family, DependsOnVectorsL1AndL2) {
  EXPECT_TRUE(same_family(kEpyc, kEpyc));
  EXPECT_TRUE(same_family(kEpyc, kOther));
  EXPECT_FALSE(same_family(kEpyc, kFar));
  EXPECT_FALSE(same_family(kEpyc, "Intel Xeon, 2 CPUs, avx512, L1 48K, L2 2M, L3 32M"));
  EXPECT_TRUE(same_family("Brand, with comma, 1 CPU, avx2, L1 32K, L2 1M", "B, 8 CPUs, avx2, L1 32K, L2 1M, L3 8M"));
  EXPECT_FALSE(same_family("", kEpyc));
  EXPECT_FALSE(same_family("cuda -model=unknown", "cuda"));
}

TEST(HistoryBest, HasOneRecordPerProblemAndMachine) {
  Record two = measured(kA, 0.4);
  two.conditions.threads = 2;
  const auto best = history_best(std::vector<Record>{measured(kA, 2), measured(kB, 1), two, failed(Status::wrong, kB),
                                                     measured(kA, 3, "matmul(f32[1,64] f32[64,64])")});
  ASSERT_EQ(best.size(), 3U);
  EXPECT_EQ(best[0].schedule, kA);  // kB was wrong once
  EXPECT_EQ(best[1].conditions.threads, 2);
  EXPECT_EQ(best[2].problem, "matmul(f32[1,64] f32[64,64])");
}

TEST(ProblemWords, SplitAnchorAndEpilogue) {
  EXPECT_EQ(anchor_of(kConv), "conv2d n1 c64 h56 w56 k64 r3 s3 pad1 f32");
  EXPECT_EQ(epilogue_of(kConv), "+bias +relu");
  EXPECT_EQ(epilogue_of("relu(f32[4])+ matmul(f32[1,4] f32[4,4]) +add(f32[4])+gelu"), "+add(f32[4])+gelu");
  EXPECT_EQ(anchor_of("relu(f32[4])+ matmul(f32[1,4] f32[4,4])"), "relu(f32[4])+ matmul(f32[1,4] f32[4,4])");
  EXPECT_EQ(epilogue_of("softmax(f32[1,8] axis=-1)"), "");
  constexpr const char* kFed = "conv2d n1 c8 h9 w9 k16 r1 s1 f32 +relu => conv2d n1 c16 h9 w9 k16 r3 s3 g16 f32";
  EXPECT_EQ(anchor_of(std::string(kFed) + " +bias +relu"), kFed);
  EXPECT_EQ(epilogue_of(std::string(kFed) + " +bias +relu"), "+bias +relu");
  EXPECT_FALSE(conv_words(kFed).has_value());
  EXPECT_FALSE(shape_distance(shape_of(kFed), shape_of("conv2d n1 c8 h9 w9 k16 r1 s1 f32")).has_value());
}

TEST(ProblemWords, DistanceComparesExtentsOfEqualForms) {
  const auto far = [](const char* a, const char* b) { return shape_distance(shape_of(a), shape_of(b)); };
  EXPECT_DOUBLE_EQ(
      far("conv2d n1 c64 h56 w56 k64 r3 s3 pad1 f32", "conv2d n1 c32 h28 w56 k64 r3 s3 pad1 f32 +relu").value_or(-1),
      2);
  EXPECT_FALSE(far("conv2d n1 c64 h56 w56 k64 r3 s3 pad1 f32", "conv2d n1 c64 h56 w56 k64 r5 s5 pad1 f32"));
  EXPECT_FALSE(far("conv2d n1 c64 h56 w56 k64 r3 s3 g2 f32", "conv2d n1 c64 h56 w56 k64 r3 s3 g4 f32"));
  EXPECT_DOUBLE_EQ(
      far("conv2d n1 c64 h8 w8 k64 r3 s3 g64 f32", "conv2d n1 c128 h8 w8 k128 r3 s3 g128 f32").value_or(-1), 2);
  EXPECT_DOUBLE_EQ(far("matmul(f32[1,128,768] f32[768,768])", "matmul(f32[1,64,768] f32[768,768])").value_or(-1), 1);
  EXPECT_FALSE(far("matmul(f32[1,128,768] f32[768,768])", "matmul(f32[128,768] f32[768,768])"));
  EXPECT_FALSE(far("reducesum(f32[4,4] axes=1)", "reducesum(f32[4,4] axes=0)"));
  EXPECT_FALSE(far("slice(f32[4,4] i64[1]=1)", "slice(f32[4,4] i64[1]=2)"));
  EXPECT_DOUBLE_EQ(far("matmul(f32[0,4] f32[4,4])", "matmul(f32[0,4] f32[4,4])").value_or(-1), 0);
  EXPECT_FALSE(far("matmul(f32[0,4] f32[4,4])", "matmul(f32[1,4] f32[4,4])"));
}

}  // namespace
}  // namespace kilter::tune
