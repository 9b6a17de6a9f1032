#include "tune/records/maintain.h"

#include <gmock/gmock.h>

#include <fstream>

#include "../base/scratch_folder.h"
#include "samples.h"

namespace kilter::tune {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using testing::UnorderedElementsAre;

std::string schedule(int tile) { return "conv2d_direct vectors=2 rows=1 tile=" + std::to_string(tile) + " prefetch=0"; }

TEST(Prune, KeepsTheBestOfEachAndTheFailures) {
  std::vector<Record> records;
  for (int tile = 1; tile <= 10; ++tile) {
    records.push_back(measured(schedule(tile), 10 - tile));
    Record two = measured(schedule(tile), tile);
    two.conditions.threads = 2;
    records.push_back(two);
    records.push_back(measured(schedule(tile), tile, "matmul(f32[1,64] f32[64,64])"));
  }
  records[27].samples_ms = {1};  // tile 10 on one thread
  records.push_back(measured(schedule(9), 1.5));
  records.push_back(failed(Status::wrong, schedule(3)));
  const PrunePlan plan = plan_prune(records, PruneOptions{2, false, ""});
  EXPECT_EQ(plan.measured, 24U);
  EXPECT_EQ(plan.failed, 0U);
  EXPECT_EQ(plan.kept, records.size() - 24);
  const auto stays = [&](const Record& r) { return !plan.ids.contains(r.id()); };
  EXPECT_TRUE(stays(records[27]));
  EXPECT_TRUE(stays(records[24]) && stays(records[30]));  // both measurements of tile 9
  EXPECT_FALSE(stays(records[21]));
  EXPECT_TRUE(stays(records[1]) && stays(records[4]) && !stays(records[7]));
  EXPECT_TRUE(stays(records.back()));
  EXPECT_EQ(plan_prune(records, PruneOptions{2, true, ""}).failed, 1U);
  EXPECT_THAT(plan_prune(records, PruneOptions{2, false, "2026-01-01"}).ids, IsEmpty());
  EXPECT_THAT(plan_prune(records, PruneOptions{2, false, "2027-01-01"}).ids, SizeIs(24));
}

std::vector<Record> tiles(int count) {
  std::vector<Record> records;
  for (int tile = 1; tile <= count; ++tile) records.push_back(measured(schedule(tile), tile));
  return records;
}

// Records for different layouts or code generators do not compete with each other, and each template keeps its best.
TEST(Prune, KeepsTheBestOfEveryKind) {
  std::vector<Record> records = tiles(12);
  for (Record r : tiles(12)) r.layouts = "plain -> plain", records.push_back(r);
  for (Record r : tiles(12)) r.conditions.codegen = "LLVM 21", records.push_back(r);
  records.push_back(measured("conv2d_winograd m=2 vectors=1", 40));
  records.push_back(measured("conv2d_winograd m=4 vectors=1", 30));
  const PrunePlan plan = plan_prune(records, {});
  EXPECT_THAT(plan.ids, SizeIs(3U * 4 + 1));
  EXPECT_TRUE(plan.ids.contains(records[36].id()));
  EXPECT_FALSE(plan.ids.contains(records[37].id()));
}

// Records of today's kernels do not compete with those of older kernels. Those of all older kernels compete with each
// other.
TEST(Prune, KeepsTheBestOfCurrentAndOlderKernels) {
  std::vector<Record> records = tiles(3);
  for (Record& r : records) r.conditions.codegen = code_version(r, KernelVersions("LLVM 22.1.8"));
  for (Record r : tiles(3)) r.conditions.codegen = "LLVM 22.1.8, kernels 6", records.push_back(r);
  for (Record r : tiles(3)) r.conditions.codegen = "LLVM 22.1.8, kernels 5", records.push_back(r);
  PruneOptions options;
  options.keep = 1;
  const PrunePlan plan = plan_prune(records, options);
  std::vector<size_t> kept;
  for (size_t i = 0; i < records.size(); ++i)
    if (!plan.ids.contains(records[i].id())) kept.push_back(i);
  EXPECT_THAT(kept, ElementsAre(0U, 3U, 6U));  // the best of today's and the best older one, twice
}

// Records that a filter excludes from removal still rule out schedules as wrong and still count among the best.
TEST(Prune, FilterOnlyLimitsRemoval) {
  std::vector<Record> records = tiles(10);
  for (Record& r : records) r.network = "vgg16";
  records[8].network = records[9].network = "resnet18";
  records.push_back(failed(Status::wrong, schedule(1)));
  EXPECT_THAT(plan_prune(records, {}).ids, UnorderedElementsAre(records[0].id(), records[9].id()));
  EXPECT_THAT(plan_prune(records, {}, {.network = "resnet18"}).ids, UnorderedElementsAre(records[9].id()));
  EXPECT_THAT(plan_prune(records, {}, {.status = Status::ok}).ids,
              UnorderedElementsAre(records[0].id(), records[9].id()));
}

TEST(Prune, UndatedRecordsAreBeforeNoDate) {
  std::vector<Record> records = tiles(9);
  records[8].conditions.date.clear();
  EXPECT_THAT(plan_prune(records, {}).ids, SizeIs(1));
  EXPECT_THAT(plan_prune(records, {.before = "2030-01-01"}).ids, IsEmpty());
}

TEST(Prune, DatesMustBeValid) {
  for (const char* date :
       {"2026-03-01", "2024-02-29", "2026-03-01T23:59", "2026-03-01T12:00:00", "2026-03-01T12:00:00Z"})
    EXPECT_NO_THROW(check_date("--before", date)) << date;
  for (const char* date :
       {"yesterday", "", "2026", "2026-3-1", "2026-02-29", "2026-13-01", "2026-00-10", "01.03.2026", "2026-03-01 12:00",
        "2026-03-01T24:00", "2026-03-01T12:60", "2026-03-01T12:00:00+1", "2026-03-01T"}) {
    EXPECT_EQ(
        error_of([&] { check_date("--before", date); }),
        fmt::format("--before {}: expected a date such as 2026-03-01, or a date and time such as 2026-03-01T12:00:00Z",
                    date));
  }
}

TEST(Verify, NewerRecordsAreNotDamaged) {
  const ScratchFolder folder;
  const auto file = folder.path() / "records.jsonl";
  std::ofstream(file) << to_line(measured(schedule(1), 1)) << "\n"
                      << R"({"kilter_record": 3, "problem": "p", "schedule": "s"})" << "\n";
  const Verification v = verify(*Store::open(file, Store::Mode::read));
  EXPECT_EQ(v.sound, 1U);
  EXPECT_THAT(v.damaged, IsEmpty());
  EXPECT_THAT(v.unreadable,
              ElementsAre(HasSubstr("line 2: skipped: record of version 3; this program reads versions")));
}

TEST(Verify, FindsUnreadableRecords) {
  const ScratchFolder folder;
  const auto file = folder.path() / "records.jsonl";
  const auto store = Store::open(file, Store::Mode::write);
  Record foreign = measured("tvm:conv2d_nchw.cuda direct index=3", 1);
  foreign.source = "tvm v0.2", foreign.foreign = "{}";
  store->append(std::vector<Record>{measured(schedule(1), 1), foreign, failed(Status::timeout, schedule(2)),
                                    measured("reference", 3), measured("gone_template tile=3", 1),
                                    measured("conv2d_direct tile", 1), measured(schedule(4), 1, "conv2d n1 c64")});
  std::ofstream(file, std::ios::app) << "{\"cut\": ";
  size_t calls = 0;
  const Verification v = verify(*store, [&](size_t, size_t all) {
    EXPECT_EQ(all, 7U);
    ++calls;
  });
  EXPECT_EQ(calls, 7U);
  EXPECT_FALSE(v.passed());
  EXPECT_EQ(v.sound, 4U);
  EXPECT_THAT(v.file, ElementsAre(HasSubstr("the last line is incomplete: a writer was stopped while writing it")));
  EXPECT_THAT(v.damaged, ElementsAre(HasSubstr("line 8: skipped: not JSON")));
  EXPECT_THAT(v.unreadable, ElementsAre(HasSubstr("no template 'gone_template' in this version"),
                                        HasSubstr("expected knob=INTEGER, got 'tile'"),
                                        HasSubstr("problem 'conv2d n1 c64', column 1")));
}

}  // namespace
}  // namespace kilter::tune
