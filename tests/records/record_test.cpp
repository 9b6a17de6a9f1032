#include "tune/records/record.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <set>

#include "samples.h"

namespace kilter::tune {
namespace {

using testing::HasSubstr;

Record full() {
  Record r = measured("conv2d_direct vectors=2 rows=1 tile=14 prefetch=0", 0.25);
  r.samples_ms = {0.25, 0.2512345678901234, 1e-7};
  r.versus = {{0.93, 0.91, 0.95}, "conv2d_direct vectors=1 rows=1 tile=28 prefetch=0"};
  r.source = "tvm v0.2";
  r.foreign = R"({"version": 0.2})";
  return r;
}

TEST(Record, RoundTripsThroughALine) {
  const Record r = full();
  const std::string line = to_line(r);
  EXPECT_EQ(line.find('\n'), std::string::npos);
  const Record back = record_from_line(line);
  EXPECT_EQ(to_line(back), line);
  EXPECT_EQ(back.id(), r.id());
  EXPECT_EQ(back.samples_ms, r.samples_ms);
  EXPECT_EQ(back.versus->ratio.low, 0.91);
  EXPECT_EQ(back.versus->schedule, r.versus->schedule);
  EXPECT_EQ(back.conditions.device, kEpyc);
  EXPECT_EQ(back.foreign, r.foreign);
}

// Ids are stored in files: the id of a given content must never change.
TEST(Record, IdIsPinned) {
  Record r = measured("conv2d_direct vectors=2 rows=1 tile=14 prefetch=0", 0.25);
  r.conditions.codegen = "LLVM 22.1.8";
  EXPECT_EQ(r.id(), "ac9dfbd7129a40a3c06cc1d26fe75dfb");
}

TEST(Record, EveryFieldIsInTheId) {
  std::set<std::string> ids{full().id()};
  const auto changed = [&](auto change) {
    Record r = full();
    change(r);
    EXPECT_TRUE(ids.insert(r.id()).second) << to_line(r);
  };
  changed([](Record& r) { r.problem += "+add"; });
  changed([](Record& r) { r.layouts = "plain -> plain"; });
  changed([](Record& r) { r.schedule += " more=1"; });
  changed([](Record& r) { r.status = Status::wrong; });
  changed([](Record& r) { r.error = "x"; });
  changed([](Record& r) { r.samples_ms.push_back(1); });
  changed([](Record& r) { r.samples_ms[0] += 1e-16; });
  changed([](Record& r) { r.versus->ratio.high = 1; });
  changed([](Record& r) { r.versus.reset(); });
  changed([](Record& r) { r.conditions.threads = 2; });
  changed([](Record& r) { r.conditions.date = "2026-11-22T05:00:01Z"; });
  changed([](Record& r) { r.network = "other"; });
  changed([](Record& r) { r.node = "other"; });
  changed([](Record& r) { r.source = "kilter"; });
  changed([](Record& r) { r.foreign = "{}"; });
}

// When a field is added to Conditions, older records get its default, and their ids must stay the same.
TEST(Record, DefaultConditionsAreNotWritten) {
  const nlohmann::json json = to_json(measured("x", 1));
  EXPECT_FALSE(json.at("conditions").contains("activations"));
  EXPECT_FALSE(json.at("conditions").contains("threads"));
  EXPECT_EQ(record_from_json(json).conditions.threads, 1);
}

// A record with a condition that a later version added, and that its id covers, is sound here and is passed on
// unchanged.
TEST(Record, ConditionsOfLaterVersionsAreKept) {
  nlohmann::json json = to_json(measured("x", 1));
  json["conditions"]["cooling"] = "water";
  json.erase("id");
  const Record later = record_from_json(json);
  EXPECT_EQ(later.conditions.threads, 1);
  EXPECT_NE(later.id(), measured("x", 1).id());
  const std::string line = to_line(later);
  EXPECT_THAT(line, HasSubstr(R"("cooling":"water")"));
  EXPECT_EQ(to_line(record_from_line(line)), line);
  std::string changed = line;
  changed.replace(changed.find("water"), 5, "vodka");
  EXPECT_THAT(error_of([&] { record_from_line(changed); }), HasSubstr("it was changed or damaged"));
}

TEST(Record, ErrorsSayWhatIsWrong) {
  const auto refused = [](auto change) {
    nlohmann::json json = to_json(full());
    json.erase("id");
    change(json);
    return error_of([&] { record_from_json(json); });
  };
  EXPECT_EQ(refused([](auto& j) { j.erase("problem"); }), "record: no 'problem'");
  EXPECT_EQ(refused([](auto& j) { j.erase("schedule"); }), "record: no 'schedule'");
  EXPECT_EQ(refused([](auto& j) { j["samples_ms"] = {-1.0}; }), "record: a sample of -1 ms; expected times above 0");
  EXPECT_EQ(refused([](auto& j) { j["versus"]["ratio"] = 0; }), "record: a ratio of 0; expected ratios above 0");
  EXPECT_EQ(refused([](auto& j) { j["status"] = "fine"; }),
            "status 'fine': unknown; legal values are ok, wrong, crash, timeout, rejected");
  EXPECT_EQ(refused([](auto& j) { j["status"] = "crash"; }),
            "record: status crash, but no 'error' that says what happened");
  EXPECT_EQ(refused([](auto& j) { j.erase("samples_ms"), j.erase("versus"); }),
            "record: status ok, but neither samples nor a ratio");
  EXPECT_EQ(refused([](auto& j) { j["kilter_record"] = 3; }),
            "record of version 3; this program reads versions 1 to 2: use a newer one");
  EXPECT_THAT(refused([](auto& j) { j["problem"] = 3; }), HasSubstr("type must be string, but is number"));
  EXPECT_THAT(refused([](auto& j) { j["id"] = "0"; }), HasSubstr("it was changed or damaged"));
  EXPECT_EQ(error_of([] { record_from_line("{\"problem\": "); }), "not JSON");
  EXPECT_EQ(error_of([] { record_from_line("[1]"); }), "record: expected a JSON object, got array");
}

TEST(Record, TextThatIsNotUtf8IsKeptReadable) {
  Record r = failed(Status::crash, "conv2d_direct tile=3");
  r.error = "signal 11 in \xff\xfe";
  const Record back = record_from_line(to_line(r));
  EXPECT_EQ(back.id(), r.id());
  EXPECT_THAT(back.error, HasSubstr("signal 11 in "));
}

}  // namespace
}  // namespace kilter::tune
