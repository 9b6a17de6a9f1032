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
  records[27].samples_ms = {1};  // tile 10 of one thread
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

TEST(Verify, FindsWhatCannotBeRead) {
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
  EXPECT_THAT(v.file, ElementsAre(HasSubstr("the last line has no end: a writer was stopped in the middle of it")));
  EXPECT_THAT(v.damaged, ElementsAre(HasSubstr("line 8: skipped: not JSON")));
  EXPECT_THAT(v.unreadable, ElementsAre(HasSubstr("no template 'gone_template' in this version"),
                                        HasSubstr("expected knob=INTEGER, got 'tile'"),
                                        HasSubstr("problem 'conv2d n1 c64', column 1")));
}

}  // namespace
}  // namespace kilter::tune
