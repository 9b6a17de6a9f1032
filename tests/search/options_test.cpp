// Options of searchers: legal values are accepted and used; illegal ones are refused with the legal values.
#include "tune/search/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "../base/error_of.h"
#include "base/error.h"

namespace kilter::tune {
namespace {

using testing::StartsWith;

std::string error_of(std::string_view searcher, const std::vector<std::string>& texts) {
  return kilter::error_of([&] { parse_search_options(searcher, texts); }, ErrorKind::usage);
}

TEST(SearchOptions, ValuesAreParsed) {
  const SearchOptions o = parse_search_options("ga", {"population=64", "mutation=0.5", "seed=9", "early-stopping=100"});
  EXPECT_EQ(o.searcher, "ga");
  EXPECT_EQ(o.population, 64);
  EXPECT_EQ(o.mutation, 0.5);
  EXPECT_EQ(o.seed, 9);
  EXPECT_EQ(o.early_stopping, 100);
  EXPECT_EQ(o.elite, SearchOptions{}.elite);
}

TEST(SearchOptions, EveryOptionAcceptsOnlyItsRange) {
  for (const SearchOptionRow& row : all_search_options()) {
    if (row.word != nullptr) continue;
    const std::string searcher =
        row.used_by == "all" ? "random" : std::string(row.used_by.substr(0, row.used_by.find(',')));
    const auto given = [&](double value) {
      return fmt::format("{}={}", row.name,
                         row.whole != nullptr ? fmt::format("{:.0f}", value) : fmt::format("{}", value));
    };
    for (const double end : {row.low, row.high}) {
      const SearchOptions o = parse_search_options(searcher, {given(end)});
      EXPECT_EQ(row.whole != nullptr ? static_cast<double>(o.*row.whole) : o.*row.real, end) << row.name;
    }
    for (const double beyond : {row.low - 1, row.high + 1})
      EXPECT_THAT(error_of(searcher, {given(beyond)}), testing::HasSubstr("expected " + std::string(row.legal)))
          << row.name;
    EXPECT_THAT(error_of(searcher, {fmt::format("{}=nan", row.name)}), StartsWith("--searcher-option ")) << row.name;
    // The default is legal, and parsing its text gives the same value.
    const SearchOptions o = parse_search_options(searcher, {fmt::format("{}={}", row.name, row.fallback())}), d;
    EXPECT_EQ(row.whole != nullptr ? static_cast<double>(o.*row.whole) : o.*row.real,
              row.whole != nullptr ? static_cast<double>(d.*row.whole) : d.*row.real)
        << row.name;
    EXPECT_THAT(std::string(row.legal), testing::HasSubstr(fmt::format("{:.10g}", row.high))) << row.name;
    EXPECT_THAT(std::string(row.legal), testing::HasSubstr(fmt::format("{:.10g}", row.low))) << row.name;
  }
}

TEST(SearchOptions, WordsMustBeListed) {
  EXPECT_EQ(parse_search_options("xgb").features, "curve");
  EXPECT_EQ(parse_search_options("xgb-rank", {"features=knob"}).features, "knob");
  EXPECT_EQ(error_of("xgb", {"features=itervar"}),
            "--searcher-option features=itervar: expected curve or knob, got 'itervar'");
}

TEST(SearchOptions, ErrorsSayWhatIsLegal) {
  EXPECT_EQ(error_of("gaa", {}), "--searcher gaa: legal values are exhaustive, ga, grid, model, random, xgb, xgb-rank");
  EXPECT_EQ(error_of("ga", {"population"}),
            "--searcher-option population: expected NAME=VALUE, such as population=64; `kilter options` lists them");
  EXPECT_EQ(error_of("ga", {"=3"}),
            "--searcher-option =3: expected NAME=VALUE, such as population=64; `kilter options` lists them");
  EXPECT_EQ(
      error_of("ga", {"popul=64"}),
      "--searcher-option popul=64: no option 'popul'; legal values are seed, batch, early-stopping, prune, population, "
      "elite, crossover, mutation, tournament, walkers, steps, temperature, cooling, first-random, features, "
      "exploration, draft, pool");
  EXPECT_EQ(error_of("ga", {"population=1"}),
            "--searcher-option population=1: expected a whole number from 2 to 4096, got '1'");
  EXPECT_EQ(error_of("ga", {"population=6.5"}),
            "--searcher-option population=6.5: expected a whole number from 2 to 4096, got '6.5'");
  EXPECT_EQ(error_of("ga", {"mutation=two"}),
            "--searcher-option mutation=two: expected a number from 0 to 1, got 'two'");
  EXPECT_EQ(error_of("ga", {"seed=1", "seed=2"}), "--searcher-option seed=2: 'seed' is given twice; give it once");
  EXPECT_EQ(error_of("model", {"population=64"}),
            "--searcher-option population=64: 'population' is used by ga, not by --searcher model; leave it out");
  EXPECT_EQ(error_of("random", {"temperature=2"}),
            "--searcher-option temperature=2: 'temperature' is used by xgb, xgb-rank, not by --searcher random; leave "
            "it out");
}

TEST(SearchOptions, UnusedCostModelIsRefused) {
  const auto error = [](std::string_view model, const std::vector<std::string>& searchers) {
    return kilter::error_of([&] { check_cost_model(model, searchers); }, ErrorKind::usage);
  };
  EXPECT_EQ(error("my.trees", {"ga"}),
            "--cost-model my.trees: it is used by --searcher model, not by --searcher ga; leave it out");
  EXPECT_EQ(error("shipped", {"xgb", "random"}),
            "--cost-model shipped: it is used by --searcher model, not by --searcher xgb, random; leave it out");
  check_cost_model("none", {"ga"});
  check_cost_model("my.trees", {"ga", "model"});
}

}  // namespace
}  // namespace kilter::tune
