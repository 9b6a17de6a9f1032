// Every option that a searcher uses changes its proposals, tested on one table of bench/searchers with a fixed seed.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "base/files.h"
#include "nearest.h"
#include "tasks.h"
#include "tune/search/cost_table.h"
#include "tune/search/options.h"
#include "tune/search/searcher.h"
#include "tune/space/prune.h"

namespace kilter::tune {
namespace {

const char* const kTable = "/conv2d_n1_c256_h14_w14_k256_r3_s3_pad1_f32_bias_relu.jsonl";

/// A task for which the costs of all points are known.
class Measured {
 public:
  explicit Measured(const CostTable& table) : task_(table.problem, table.target), space_(*task_.task, task_.limits) {
    for (const CostRow& row : table.rows) costs_[space_.ordinal(*space_.find(row.schedule))] = row.cost;
  }

  /// Runs a search to its end and returns all proposals as ordinals of points.
  std::vector<uint64_t> proposals(const SearchOptions& options) {
    Nearest model;
    SearchSpace search;
    search.space = &space_;
    search.points = prune(space_, {options.prune}).points;
    std::erase_if(search.points, [&](const Point& p) { return !costs_.contains(space_.ordinal(p)); });
    search.known = {{*space_.default_point(), 1}};
    search.trained = &model;
    const auto searcher = make_searcher(options, std::move(search));
    std::vector<uint64_t> out;
    for (;;) {
      std::vector<Trial> trials;
      for (const Point& p : searcher->propose(8)) trials.push_back({p, costs_.at(space_.ordinal(p))});
      if (trials.empty()) return out;
      searcher->learn(trials);
      for (const Trial& t : trials) out.push_back(space_.ordinal(t.point));
    }
  }

 private:
  TaskOf task_;
  Space space_;
  std::map<uint64_t, double> costs_;
};

/// Returns for each option a value other than its default.
const std::map<std::string_view, std::string>& others() {
  static const std::map<std::string_view, std::string> kOthers{
      {"seed", "2"},  {"batch", "3"},     {"early-stopping", "20"}, {"prune", "1.05"},      {"population", "8"},
      {"elite", "1"}, {"crossover", "0"}, {"mutation", "0.6"},      {"tournament", "1"},    {"walkers", "2"},
      {"steps", "3"}, {"cooling", "0.5"}, {"temperature", "0"},     {"first-random", "40"}, {"exploration", "0.6"},
      {"draft", "1"}, {"pool", "16"},     {"features", "knob"},
  };
  return kOthers;
}

TEST(SearchOptions, EachOptionChangesProposals) {
  Measured task(parse_cost_table(read_file(std::string(KILTER_SEARCHERS) + kTable), kTable));
  size_t looked_at = 0;
  for (const SearcherRow& searcher : all_searchers()) {
    const SearchOptions usual = parse_search_options(searcher.name);
    const std::vector<uint64_t> before = task.proposals(usual);
    EXPECT_EQ(task.proposals(usual), before) << searcher.name << " proposes otherwise under the same seed";
    for (const SearchOptionRow& row : all_search_options()) {
      if (!reads(searcher.name, row)) continue;
      ASSERT_TRUE(others().contains(row.name)) << row.name << " has no other value in this test";
      const std::string text = fmt::format("{}={}", row.name, others().at(row.name));
      EXPECT_NE(task.proposals(parse_search_options(searcher.name, {text})), before)
          << "--searcher " << searcher.name << " --searcher-option " << text << " is without effect";
      ++looked_at;
    }
  }
  EXPECT_GT(looked_at, 30U);
}

// An option that a searcher does not use is refused on the command line; set all the same, it must have no effect.
TEST(SearchOptions, UnusedOptionsChangeNothing) {
  Measured task(parse_cost_table(read_file(std::string(KILTER_SEARCHERS) + kTable), kTable));
  for (const SearcherRow& searcher : all_searchers()) {
    const SearchOptions usual = parse_search_options(searcher.name);
    const std::vector<uint64_t> before = task.proposals(usual);
    SearchOptions all = usual;
    for (const SearchOptionRow& row : all_search_options()) {
      if (reads(searcher.name, row)) continue;
      const std::string& value = others().at(row.name);
      if (row.word != nullptr)
        all.*row.word = value;
      else if (row.whole != nullptr)
        all.*row.whole = std::stoll(value);
      else
        all.*row.real = std::stod(value);
    }
    EXPECT_EQ(task.proposals(all), before) << searcher.name << " reads an option that it says it does not";
  }
}

}  // namespace
}  // namespace kilter::tune
