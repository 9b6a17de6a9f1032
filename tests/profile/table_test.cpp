// A profile as text, CSV, JSON and trace: no row is missing and every sum is right.
#include "profile/table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/text.h"
#include "network.h"

namespace kilter::profile {
namespace {

using testing::HasSubstr;

const Profile& sample_profile() {
  static const Profile profile = [] {
    TestNetwork net("zoo:squeezenet1_1", 2);
    Options o;
    o.seconds = 0.1;
    Profile p = collect(net.instance(), net.plan(), 2, net.from, net.to, o);
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

TEST(Table, TopShowsTheSlowestAndCountsTheRest) {
  TableOptions o;
  o.sort = "time";
  o.top = 3;
  const std::string text = table(sample_profile(), o);
  EXPECT_THAT(text, HasSubstr(fmt::format("({} more rows: ", sample_profile().rows.size() - 3)));
}

TEST(Table, FitsTheTerminalAndSaysWhatIsLeftOut) {
  Profile p = sample_profile();
  for (Row& r : p.rows) {
    if (r.kind != RowKind::gap) r.name = "/backbone/a_stage_with_a_long_name/" + r.name;
  }
  for (const size_t width : {80, 100, 120}) {
    TableOptions o;
    o.style.width = width;
    const std::string text = table(p, o);
    for (const std::string_view line : split(text, '\n')) EXPECT_LE(line.size(), width) << line;
    EXPECT_THAT(text, HasSubstr("names begin with /backbone/a_stage_with_a_long_name/\n"));
    EXPECT_THAT(text, HasSubstr(fmt::format("left out at {} columns: ", width)));
    EXPECT_THAT(text, HasSubstr("\nconv1 "));
  }
  EXPECT_THAT(table(p, {}), testing::Not(HasSubstr("left out at")));
  EXPECT_THAT(table(p, {}), HasSubstr("operators          count"));
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
    EXPECT_EQ(e.message(), "--sort colour: legal values are order, time, name, share");
  }
}

TEST(Table, MemoryNeverExceedsTheArena) {
  const Profile& p = sample_profile();
  ASSERT_FALSE(p.arena.empty());
  for (const ArenaSpan& s : p.arena) EXPECT_LE(s.offset + s.bytes, p.arena_bytes) << s.name;
  EXPECT_THAT(memory_table(p), HasSubstr("packed weights"));
}

/// The line about disturbances is printed below the figure that it refers to, whether the machine was busy or quiet.
TEST(Table, QuietnessIsPrintedBelowTheFigure) {
  Profile p = sample_profile();
  p.conditions.taken = 428, p.conditions.disturbed = 428, p.conditions.disturbed_by = "waited for a CPU in 428";
  p.conditions.best_ms = 2.6;
  EXPECT_THAT(
      table(p, {}),
      HasSubstr("\n           busy: 428 of 428 passes disturbed (100 %: waited for a CPU in 428), because other "
                "programs use the machine; the time is an upper bound, best 2.600 ms\nSum over end to end"));
  p.conditions.disturbed = 4;
  EXPECT_THAT(table(p, {}), HasSubstr("\n           quiet: 4 of 428 passes disturbed (0.935 %), best 2.600 ms\n"));
}

TEST(Table, AgreementOfTheSumDependsOnItsInterval) {
  Profile p = sample_profile();
  const auto said = [&](const Ratio& ratio) {
    p.sum_over_end_to_end = ratio;
    const std::string text = table(p, {});
    const size_t at = text.find("Sum over end to end");
    return text.substr(at, text.find('\n', at) - at);
  };
  EXPECT_EQ(
      said({1.05, 1.025, 1.075}),
      "Sum over end to end  +5.00 % (+2.50 to +7.50, 95 %, in pairs): they agree, as the interval overlaps +-3 %");
  EXPECT_EQ(said({1.05, 1.04, 1.06}),
            "Sum over end to end  +5.00 % (+4.00 to +6.00, 95 %, in pairs): they differ by more than 3 %");
  EXPECT_EQ(said({1.0, 0.8, 1.2}),
            "Sum over end to end  +0.00 % (-20.00 to +20.00, 95 %, in pairs): not known, as the interval is wider than "
            "+-3 %; --seconds narrows it");
}

/// A layer slightly above 100 % of its bound is shown as 100 %; one far above it beats the bound, which must be wrong.
TEST(Table, BeatenBoundIsReportedAsWrong) {
  Profile p = sample_profile();
  for (Row& r : p.rows) r.bound = {Bound::compute, 0.5 * r.time.mean, "FMA"};
  Row& first = p.rows.front();
  first.bound = {Bound::memory, 1.04 * first.time.mean, "DRAM"};
  EXPECT_THAT(table(p, {}), HasSubstr(" 100% DRAM "));  // within the error of measured peaks
  EXPECT_EQ(beaten_text(p), "");
  first.bound.ms = 1.7 * first.time.mean;
  p.conditions.taken = 100, p.conditions.disturbed = 0;
  EXPECT_EQ(beaten_text(p), "1 layer beats its bound, '" + first.label() +
                                "' most of all (its DRAM bound is 1.70 times its time): operands come from a nearer "
                                "cache than the model assumes");
  p.conditions.disturbed = 90;
  const std::string text = table(p, {});
  EXPECT_THAT(text, HasSubstr(" beats DRAM "));
  EXPECT_THAT(text, HasSubstr("other programs disturbed the measurement of the peaks\n"));
  EXPECT_THAT(text, testing::Not(HasSubstr("170%")));
  EXPECT_EQ(bound_share_text(first), "beaten");
  EXPECT_EQ(to_json(p).at("rows").at(0).at("beats_bound"), true);
}

TEST(Export, JsonHasTheFieldsThatReadersRelyOn) {
  const nlohmann::json j = to_json(sample_profile());
  for (const char* field :
       {"total_ms", "sum_ms", "end_to_end_ms", "residual_ms", "overhead_percent", "conditions", "rows"}) {
    EXPECT_TRUE(j.contains(field)) << field;
  }
  double sum = 0;
  for (const auto& row : j.at("rows")) {
    sum += row.at("duration_ms").get<double>();
    for (const auto& from : row.at("reads")) EXPECT_LT(from.get<size_t>(), j.at("rows").size());
  }
  EXPECT_EQ(j.at("rows").at(0).at("reads_inputs"), nlohmann::json({"input"}));
  EXPECT_NEAR(sum, j.at("sum_ms").get<double>(), 1e-9);
  EXPECT_EQ(j.at("conditions").at("threads"), 2);
}

TEST(Export, CsvHasOneLinePerRowAndQuotesCommas) {
  Profile p = sample_profile();
  p.rows[0].name = "a,\"b\"";
  const std::string csv = to_csv(p);
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), static_cast<int64_t>(p.rows.size()) + 1);
  EXPECT_THAT(csv, HasSubstr(",\"a,\"\"b\"\"\","));
  const std::string head = csv.substr(0, csv.find('\n'));
  EXPECT_THAT(head, testing::EndsWith(",beats_bound,quiet,disturbed_percent,best_run_ms"));
}

TEST(Export, TraceHasOneTrackPerThread) {
  Profile p = sample_profile();
  // Spreads the events over three threads: on a busy machine, the profile may contain only the first thread's.
  for (size_t i = 0; i < p.timeline.size(); ++i) p.timeline[i].thread = static_cast<int>(i % 3);
  const nlohmann::json trace = to_trace(p);
  std::map<int, size_t> events_of_track;
  for (const nlohmann::json& event : trace.at("traceEvents")) {
    if (event.at("ph") != "X") continue;
    ++events_of_track[event.at("tid").get<int>()];
    EXPECT_GE(event.at("dur").get<double>(), 0);
  }
  const size_t third = p.timeline.size() / 3, rest = p.timeline.size() % 3;
  const std::map<int, size_t> expected = {{0, third + (rest > 0)}, {1, third + (rest > 1)}, {2, third}};
  EXPECT_EQ(events_of_track, expected);
}

}  // namespace
}  // namespace kilter::profile
