// Properties of every kind of store, and of every database.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "base/text.h"
#include "places.h"
#include "postgres/schema.h"
#include "tune/records/store.h"

namespace kilter::tune {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

std::set<std::string> nodes_of(const std::vector<Record>& records) {
  std::set<std::string> nodes;
  for (const Record& r : records) nodes.insert(r.node);
  return nodes;
}

class StoreTest : public PlaceTest {};
INSTANTIATE_TEST_SUITE_P(Kinds, StoreTest, ::testing::Values("records.db", "records.jsonl", "postgres"), kind_name);

TEST_P(StoreTest, KeepsRecordsOnceAndInOrder) {
  {
    const auto store = write();
    EXPECT_EQ(store->append(numbered(0, 5)), 5);
    EXPECT_EQ(store->append(numbered(3, 4)), 2);
    EXPECT_EQ(store->append(numbered(0)), 0);
    std::vector<Record> twice{numbered(9), numbered(9)};
    EXPECT_EQ(store->append(twice), 1);
  }
  EXPECT_EQ(write()->append(numbered(2, 3)), 0);
  const Reading reading = read()->read();
  EXPECT_THAT(reading.damaged, IsEmpty());
  ASSERT_THAT(reading.records, SizeIs(8));
  for (int i = 0; i < 7; ++i) EXPECT_EQ(to_line(reading.records[i]), to_line(numbered(i)));
}

TEST_P(StoreTest, FiltersAndRemoves) {
  const auto store = write();
  Record other = numbered(7);
  other.conditions.threads = 2, other.network = "vgg16", other.conditions.device = "Other, 1 CPU";
  other.problem = "matmul(f32[1,64] f32[64,64])";
  Record foreign = numbered(8);
  foreign.source = "tvm v0.1", foreign.foreign = "{}";
  store->append(std::vector<Record>{numbered(1), failed(Status::wrong, "a b=1"), other, foreign});
  const auto count = [&](const Filter& f) { return store->read(f).records.size(); };
  EXPECT_EQ(count({}), 4U);
  EXPECT_EQ(count({.problem = kConv}), 3U);
  EXPECT_EQ(count({.contains = "matmul"}), 1U);
  EXPECT_EQ(count({.device = "EPYC"}), 3U);
  EXPECT_EQ(count({.device = "znver5"}), 4U);
  EXPECT_EQ(count({.network = "vgg16"}), 1U);
  EXPECT_EQ(count({.source = "tvm"}), 1U);
  EXPECT_EQ(count({.source = "tvm v0.2"}), 0U);
  EXPECT_EQ(count({.status = Status::wrong}), 1U);
  EXPECT_EQ(count({.threads = 2}), 1U);
  EXPECT_EQ(store->remove({other.id(), "unknown"}), 1);
  EXPECT_EQ(count({}), 3U);
  EXPECT_EQ(store->append(other), 1);
  EXPECT_EQ(count({}), 4U);
}

/// A record of a later version, with a condition that this version does not know.
Record later(int i) {
  nlohmann::json json = to_json(numbered(i));
  json["conditions"]["cooling"] = "water";
  json.erase("id");
  return record_from_json(json);
}

TEST_P(StoreTest, ConditionsOfLaterVersionsAreKept) {
  write()->append(std::vector<Record>{numbered(1), later(2), later(3)});
  const Reading reading = read()->read();
  EXPECT_THAT(reading.damaged, IsEmpty());
  ASSERT_THAT(reading.records, SizeIs(3));
  EXPECT_EQ(to_line(reading.records[1]), to_line(later(2)));
  EXPECT_THAT(to_line(reading.records[1]), HasSubstr(R"("cooling":"water")"));
  EXPECT_EQ(write()->append(reading.records), 0);
  EXPECT_EQ(write()->remove({later(2).id()}), 1);
  EXPECT_THAT(read()->read().records, SizeIs(2));
}

TEST_P(StoreTest, RefusesInvalidRecords) {
  const auto store = write();
  std::vector<Record> all{numbered(1), numbered(2)};
  all[1].problem.clear();
  EXPECT_EQ(error_of([&] { store->append(all); }), "record: no 'problem'");
  EXPECT_THAT(store->read().records, IsEmpty());
}

/// Texts that a database or its protocol could change.
std::vector<Record> odd_records() {
  std::vector<Record> all;
  for (const std::string& text :
       {std::string("quotes ' \" and \\ and {braces, NULL}"), std::string("NULL"), std::string("a\tb\r\nc"),
        std::string("\xe2\x82\xac \xf0\x9f\x98\x80"), std::string("nul\0in the middle", 17),
        std::string("bad \xff\xfe utf-8"), std::string(100000, 'x'), std::string("$1 %s ?")}) {
    Record r = failed(Status::crash, "a b=1");
    r.error = text, r.network = text, r.conditions.device = text, r.foreign = text;
    r.node = std::to_string(all.size());
    all.push_back(r);
    r.problem = text + text;
    all.push_back(r);
  }
  return all;
}

TEST_P(StoreTest, OddTextsAreKept) {
  const std::vector<Record> odd = odd_records();
  EXPECT_EQ(write()->append(odd), std::ssize(odd));
  EXPECT_EQ(write()->append(odd), 0);
  const Reading reading = read()->read();
  EXPECT_THAT(reading.damaged, IsEmpty());
  ASSERT_THAT(reading.records, SizeIs(odd.size()));
  for (size_t i = 0; i < odd.size(); ++i) EXPECT_EQ(to_line(reading.records[i]), to_line(odd[i]));
  EXPECT_THAT(read()->read({.network = std::string("nul\0in the middle", 17)}).records, SizeIs(2));
}

class DatabaseTest : public PlaceTest {
 protected:
  /// Runs statements that name the table "records".
  void change(std::string sql) const {
    const std::string table = on_server() ? "kilter.records" : "records";
    for (const char* word : {"UPDATE ", "TABLE ", "FROM "}) {
      const std::string from = std::string(word) + "records", to = word + table;
      for (size_t at = sql.find(from); at != std::string::npos; at = sql.find(from, at + to.size()))
        sql.replace(at, from.size(), to);
    }
    run_sql(place(), sql);
  }
};
INSTANTIATE_TEST_SUITE_P(Kinds, DatabaseTest, ::testing::Values("records.db", "postgres"), kind_name);

TEST_P(DatabaseTest, EveryTenthRowDamaged) {
  write()->append(numbered(1, 100));
  change(
      "UPDATE records SET samples = '[0.5, nonsense' WHERE seq % 40 = 10;"
      "UPDATE records SET schedule = schedule || ' tile=2' WHERE seq % 40 = 20;"
      "UPDATE records SET conditions = '[]' WHERE seq % 40 = 30;"
      "UPDATE records SET status = 'fine' WHERE seq % 40 = 0");
  const Reading reading = read()->read();
  EXPECT_THAT(reading.records, SizeIs(90));
  ASSERT_THAT(reading.damaged, SizeIs(10));
  EXPECT_THAT(reading.damaged[0], HasSubstr(": row 10: skipped: 'samples_ms' is not JSON"));
  EXPECT_THAT(reading.damaged[1], HasSubstr("row 20: skipped: record: its id is"));
  EXPECT_THAT(reading.damaged[2], HasSubstr("row 30: skipped"));
  EXPECT_THAT(reading.damaged[3], HasSubstr("row 40: skipped: status 'fine': unknown"));
  // Damaged records can be added again, and replace the damaged rows.
  const auto store = write();
  EXPECT_EQ(store->append(numbered(1, 100)), 10);
  EXPECT_EQ(store->append(numbered(1, 100)), 0);
  EXPECT_THAT(store->read().damaged, IsEmpty());
  EXPECT_EQ(nodes_of(store->read().records), nodes_of(numbered(1, 100)));
}

TEST_P(DatabaseTest, ANewerVersionIsReadButNotWritten) {
  write()->append(std::vector<Record>{numbered(0), numbered(1), later(2), later(3)});
  // Adds a column that this version does not know, and changes an id as if it covered the column.
  change(
      "ALTER TABLE records ADD COLUMN joules REAL;"
      "UPDATE records SET joules = 3, id = 'f' || substr(id, 2) WHERE seq = 2;"
      "UPDATE records SET samples = 'damaged' WHERE seq = 4");
  const int64_t known = on_server() ? postgres::known_schema() : kRecordVersion;
  run_sql(place(), on_server() ? fmt::format("INSERT INTO kilter.schema_version(version) VALUES({})", known + 1)
                               : "PRAGMA user_version = 3");
  EXPECT_THAT(error_of([&] { write(); }),
              HasSubstr(fmt::format("{}: written by a newer version of Kilter (schema {}, this program writes {}); "
                                    "nothing was changed: use that version, or another file of records",
                                    shown(place()), known + 1, known)));
  const auto store = read();
  EXPECT_EQ(nodes_of(store->read().records), (std::set<std::string>{"0", "1", "2"}));
  EXPECT_THAT(store->read().damaged, ElementsAre(HasSubstr("row 4: skipped: 'samples_ms' is not JSON")));
  EXPECT_THAT(store->notices(), ElementsAre(HasSubstr("it is read as far as possible, but not written")));
  change("ALTER TABLE records RENAME COLUMN samples TO times");
  EXPECT_THAT(error_of([&] { read(); }), HasSubstr("written by a newer version"));
}

TEST_P(DatabaseTest, TheColumnsForOtherProgramsRepeatTheRecord) {
  Record r = numbered(1);
  r.samples_ms = {0.25, 0.25, 0.25};
  write()->append(std::vector<Record>{r, failed(Status::crash, "a b=1")});
  change(
      "DELETE FROM records WHERE NOT (ms IS NULL AND status = 'crash') AND NOT (ms = 0.25 AND device "
      "LIKE 'AMD EPYC%' AND target = 'znver5' AND threads = 1)");
  EXPECT_THAT(read()->read().records, SizeIs(2));
}

}  // namespace
}  // namespace kilter::tune
