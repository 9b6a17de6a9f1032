// A profile as text, CSV, JSON and trace: every row there, every sum right.
#include "profile/table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "network.h"

namespace kilter::profile {
namespace {

using testing::HasSubstr;

const Profile& sample_profile() {
  static const Profile profile = [] {
    TestNetwork net("zoo:squeezenet1_1", 2);
    Options o;
    o.seconds = 0.1;
    Profile p;
    const auto by_second = [](const auto& event) { return event.thread == 1; };
    for (int attempt = 0; attempt < 5; ++attempt) {  // another process may have the second CPU just then
      p = collect(net.instance(), net.plan(), 2, net.from, net.to, o);
      if (std::ranges::any_of(p.timeline, by_second)) break;
    }
    p.model = "squeezenet1_1";
    return p;
  }();
  return profile;
}

TEST(Table, NamesEveryLayerAndTheSums) {
  const std::string text = table(sample_profile(), {});
  for (const Row& r : sample_profile().rows) EXPECT_THAT(text, HasSubstr(r.name.substr(0, 38)));
  for (const char* word :
       {"Sum", "Total", "Residual", "End to end", "Configuration", "threads", "target", "peaks", "layout changes"}) {
    EXPECT_THAT(text, HasSubstr(word));
  }
}

TEST(Table, TopKeepsTheSlowestAndSaysWhatIsHidden) {
  TableOptions o;
  o.sort = "time";
  o.top = 3;
  const std::string text = table(sample_profile(), o);
  EXPECT_THAT(text, HasSubstr(fmt::format("({} more rows)", sample_profile().rows.size() - 3)));
}

TEST(Table, WideShowsProblemScheduleShapesLayoutsAndHash) {
  TableOptions o;
  o.wide = true;
  const std::string text = table(sample_profile(), o);
  const auto& rows = sample_profile().rows;
  const Row& conv = *std::find_if(rows.begin(), rows.end(), [](const Row& r) { return r.name == "conv1"; });
  for (const std::string* field : {&conv.problem, &conv.schedule, &conv.shapes, &conv.layouts, &conv.key}) {
    ASSERT_FALSE(field->empty());
    EXPECT_THAT(text, HasSubstr(*field));
  }
}

TEST(Table, UnknownWordsListTheLegalOnes) {
  try {
    check({.by = "layer", .sort = "colour"});
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.message(), "--sort colour: legal are order, time, name, share");
  }
}

TEST(Table, MemoryNeverExceedsTheArena) {
  const Profile& p = sample_profile();
  ASSERT_FALSE(p.arena.empty());
  for (const ArenaSpan& s : p.arena) EXPECT_LE(s.offset + s.bytes, p.arena_bytes) << s.name;
  EXPECT_THAT(memory_table(p), HasSubstr("packed weights"));
}

TEST(Export, JsonHasTheFieldsThatReadersRelyOn) {
  const nlohmann::json j = to_json(sample_profile());
  for (const char* field :
       {"total_ms", "sum_ms", "end_to_end_ms", "residual_ms", "overhead_percent", "conditions", "rows"}) {
    EXPECT_TRUE(j.contains(field)) << field;
  }
  double sum = 0;
  for (const auto& row : j.at("rows")) sum += row.at("duration_ms").get<double>();
  EXPECT_NEAR(sum, j.at("sum_ms").get<double>(), 1e-9);
  EXPECT_EQ(j.at("conditions").at("threads"), 2);
}

TEST(Export, CsvHasOneLineARowAndQuotesCommas) {
  Profile p = sample_profile();
  p.rows[0].name = "a,\"b\"";
  const std::string csv = to_csv(p);
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), static_cast<int64_t>(p.rows.size()) + 1);
  EXPECT_THAT(csv, HasSubstr(",\"a,\"\"b\"\"\","));
}

TEST(Export, TraceHasOneTrackAThread) {
  const nlohmann::json j = to_trace(sample_profile());
  std::set<int> tracks;
  size_t events = 0;
  for (const auto& e : j.at("traceEvents")) {
    if (e.at("ph") != "X") continue;
    tracks.insert(e.at("tid").get<int>());
    ++events;
    EXPECT_GE(e.at("dur").get<double>(), 0);
  }
  EXPECT_EQ(events, sample_profile().timeline.size());
  EXPECT_EQ(tracks, (std::set<int>{0, 1}));
}

}  // namespace
}  // namespace kilter::profile
