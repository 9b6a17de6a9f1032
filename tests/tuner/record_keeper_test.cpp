// RecordKeeper keeps the records of a run while their store cannot be written.
#include "../../tools/record_keeper.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"

namespace kilter::tool {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

/// A store whose first writes fail.
class FullStore : public tune::Store {
 public:
  explicit FullStore(int failures) : Store("full.db"), failures_(failures) {}
  int64_t append(std::span<const tune::Record> records) override {
    if (failures_-- > 0) fail(ErrorKind::io, "no space left");
    for (const tune::Record& r : records) {
      if (r.node == "bad") fail(ErrorKind::bad_input, "record bad: no record");
    }
    for (const tune::Record& r : records) nodes.push_back(r.node);
    return static_cast<int64_t>(records.size());
  }
  void wait_for_others(double seconds) override { waits = seconds; }
  tune::Reading read(const tune::Filter&) override { return {}; }
  int64_t remove(const std::set<std::string>&) override { return 0; }
  std::vector<std::string> check_file() override { return {}; }

  std::vector<std::string> nodes;
  double waits = 0;

 private:
  int failures_;
};

struct Keeping {
  explicit Keeping(int failures) : store(failures) {}
  void keep(const std::string& node) {
    tune::Record r;
    r.node = node;
    keeper.keep({&r, 1});
  }

  FullStore store;
  std::vector<std::string> told;
  RecordKeeper keeper{store, [this](const std::string& line) { told.push_back(line); }};
};

TEST(RecordKeeper, UnwrittenRecordsAreRetriedFirst) {
  Keeping run(2);
  run.keep("a"), run.keep("b");
  EXPECT_THAT(run.store.nodes, IsEmpty());
  EXPECT_THAT(run.told, ElementsAre("no space left; writing these records is retried until the run ends"));
  run.keep("c"), run.keep("d");
  EXPECT_THAT(run.store.nodes, ElementsAre("a", "b", "c", "d"));
  EXPECT_EQ(run.keeper.finish(), "");
  EXPECT_THAT(run.store.nodes, testing::SizeIs(4)) << "none twice";
}

TEST(RecordKeeper, FinishRetriesUnwrittenRecords) {
  Keeping run(1);
  run.keep("a");
  EXPECT_EQ(run.keeper.finish(), "");
  EXPECT_THAT(run.store.nodes, ElementsAre("a"));
}

TEST(RecordKeeper, LostRecordsAreReportedAtTheEnd) {
  Keeping run(2);
  run.keep("a");
  EXPECT_THAT(run.keeper.finish(), HasSubstr("no space left"));
  EXPECT_THAT(run.told, testing::SizeIs(1));
}

TEST(RecordKeeper, RefusedRecordIsSkipped) {
  Keeping run(1);
  run.keep("a"), run.keep("bad"), run.keep("c");
  EXPECT_THAT(run.store.nodes, ElementsAre("a", "c"));
  EXPECT_THAT(run.told, ElementsAre("no space left; writing these records is retried until the run ends",
                                    "record bad: no record; the record is skipped"));
  EXPECT_EQ(run.keeper.finish(), "record bad: no record; the record is skipped");
}

TEST(RecordKeeper, FinishWaitsForLocks) {
  Keeping run(0);
  EXPECT_EQ(run.store.waits, 2);
  run.keeper.finish();
  EXPECT_EQ(run.store.waits, 120);
}

TEST(RecordKeeper, SuccessfulWritesReportNothing) {
  Keeping run(0);
  run.keep("a");
  EXPECT_EQ(run.keeper.finish(), "");
  EXPECT_THAT(run.told, IsEmpty());
}

}  // namespace
}  // namespace kilter::tool
