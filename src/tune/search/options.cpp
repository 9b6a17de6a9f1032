#include "tune/search/options.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>

#include "base/error.h"
#include "base/text.h"

namespace kilter::tune {
namespace {

using O = SearchOptions;

constexpr SearcherRow kSearchers[] = {
    {"exhaustive",
     "every point, first those that the analytic model predicts to be cheapest: the ground truth of small spaces"},
    {"ga", "genetic: the fittest have children by crossover of knobs and by mutation"},
    {"grid", "every point, in strides over the space's order that cover it evenly"},
    {"model", "analytic draft, then expected improvement under a regression that learns from each batch (default)"},
    {"random", "points drawn uniformly at random"},
    {"xgb", "simulated annealing over a learned regression of costs"},
    {"xgb-rank", "simulated annealing over a learned order of costs"},
};

constexpr double kMany = 1e9;
constexpr std::string_view kFeatureSets[] = {"curve", "knob"};

constexpr SearchOptionRow kOptions[] = {
    {"seed", "seed of all random choices; the same seed gives the same proposals",
     "a whole number from 0 to 1000000000", "ga, model, random, xgb, xgb-rank", 0, kMany, &O::seed, nullptr},
    {"batch", "number of trials between two fits of the model", "a whole number from 1 to 4096", "model, xgb, xgb-rank",
     1, 4096, &O::batch, nullptr},
    {"early-stopping", "number of trials without a gain of 1 % after which the search of a task ends; 0: never",
     "a whole number from 0 to 1000000000", "all", 0, kMany, &O::early_stopping, nullptr},
    {"prune", "points beyond this many times the best analytic estimate are never tried", "a number from 1 to 1000000",
     "all", 1, 1e6, nullptr, &O::prune},
    {"population", "number of individuals in a generation", "a whole number from 2 to 4096", "ga", 2, 4096,
     &O::population, nullptr},
    {"elite", "share of a generation that has children", "a number from 0.01 to 1", "ga", 0.01, 1, nullptr, &O::elite},
    {"crossover", "probability that a child has two parents", "a number from 0 to 1", "ga", 0, 1, nullptr,
     &O::crossover},
    {"mutation", "probability that a knob of a child is redrawn", "a number from 0 to 1", "ga", 0, 1, nullptr,
     &O::mutation},
    {"tournament", "number of individuals drawn, the fittest of which becomes a parent", "a whole number from 1 to 64",
     "ga", 1, 64, &O::tournament, nullptr},
    {"walkers", "number of simulated-annealing walks that run side by side", "a whole number from 1 to 4096",
     "xgb, xgb-rank", 1, 4096, &O::walkers, nullptr},
    {"steps", "number of steps in a walk", "a whole number from 1 to 100000", "xgb, xgb-rank", 1, 100000, &O::steps,
     nullptr},
    {"temperature", "temperature at the first step, in units of the predicted log2 of cost", "a number from 0 to 1000",
     "xgb, xgb-rank", 0, 1000, nullptr, &O::temperature},
    {"cooling", "factor by which the temperature changes after each step", "a number from 0.01 to 1", "xgb, xgb-rank",
     0.01, 1, nullptr, &O::cooling},
    {"first-random", "number of points drawn uniformly before anything is learned", "a whole number from 1 to 4096",
     "xgb, xgb-rank", 1, 4096, &O::first_random, nullptr},
    {"features",
     "features of a point that the regression uses: knob (its knobs, the task and the machine) or curve (also values "
     "derived from them: reuse, latency and footprints of the loops, and the analytic model's cycles)",
     "curve or knob", "xgb, xgb-rank", 0, 0, nullptr, nullptr, &O::features, kFeatureSets},
    {"exploration", "share of trials that are drawn uniformly", "a number from 0 to 1", "model, xgb, xgb-rank", 0, 1,
     nullptr, &O::exploration},
    {"draft", "number of first trials: the analytic best of each template, and the default with one knob changed",
     "a whole number from 1 to 4096", "model", 1, 4096, &O::draft, nullptr},
    {"pool",
     "number of points that the regression rates at a time: three quarters are the best according to the analytic "
     "model, and the rest are drawn uniformly",
     "a whole number from 16 to 65536", "model", 16, 65536, &O::pool, nullptr},
};

std::string text_of(double value) { return format_float(value); }

const SearchOptionRow& find_option(std::string_view name, std::string_view text) {
  const auto it = std::ranges::find(kOptions, name, &SearchOptionRow::name);
  if (it != std::end(kOptions)) return *it;
  std::vector<std::string_view> names;
  for (const SearchOptionRow& row : kOptions) names.push_back(row.name);
  fail(ErrorKind::usage, "--searcher-option {}: no option '{}'; legal values are {}", text, name,
       fmt::join(names, ", "));
}

void set(SearchOptions& options, const SearchOptionRow& row, std::string_view value, std::string_view text) {
  const auto bad = [&] {
    fail(ErrorKind::usage, "--searcher-option {}: expected {}, got '{}'", text, row.legal, value);
  };
  if (row.word != nullptr) {
    if (std::ranges::find(row.words, value) == row.words.end()) bad();
    options.*row.word = value;
    return;
  }
  if (row.whole != nullptr) {
    const auto number = try_parse_int(value);
    if (!number || static_cast<double>(*number) < row.low || static_cast<double>(*number) > row.high) bad();
    options.*row.whole = *number;
    return;
  }
  const auto number = try_parse_float(value);
  if (!number || !(*number >= row.low && *number <= row.high)) bad();
  options.*row.real = *number;
}

}  // namespace

std::span<const SearcherRow> all_searchers() { return kSearchers; }
std::span<const SearchOptionRow> all_search_options() { return kOptions; }

bool reads(std::string_view searcher, const SearchOptionRow& row) {
  if (row.used_by == "all") return true;
  for (const std::string_view user : split(row.used_by, ',')) {
    if (trim(user) == searcher) return true;
  }
  return false;
}

std::string SearchOptionRow::text(const SearchOptions& options) const {
  if (word != nullptr) return options.*word;
  return whole != nullptr ? std::to_string(options.*whole) : text_of(options.*real);
}

void check_cost_model(std::string_view cost_model, const std::vector<std::string>& searchers) {
  if (cost_model == "none" || std::ranges::find(searchers, "model") != searchers.end()) return;
  fail(ErrorKind::usage, "--cost-model {}: it is used by --searcher model, not by --searcher {}; leave it out",
       cost_model, fmt::join(searchers, ", "));
}

SearchOptions parse_search_options(std::string_view searcher, const std::vector<std::string>& texts) {
  SearchOptions options;
  if (std::ranges::find(kSearchers, searcher, &SearcherRow::name) == std::end(kSearchers)) {
    std::vector<std::string_view> names;
    for (const SearcherRow& row : kSearchers) names.push_back(row.name);
    fail(ErrorKind::usage, "--searcher {}: legal values are {}", searcher, fmt::join(names, ", "));
  }
  options.searcher = searcher;
  std::set<std::string_view> given;
  for (const std::string& text : texts) {
    const size_t equals = text.find('=');
    if (equals == std::string::npos || equals == 0) {
      fail(ErrorKind::usage,
           "--searcher-option {}: expected NAME=VALUE, such as population=64; `kilter options` lists them", text);
    }
    const std::string_view name = std::string_view(text).substr(0, equals);
    const SearchOptionRow& row = find_option(name, text);
    set(options, row, std::string_view(text).substr(equals + 1), text);
    if (!given.insert(row.name).second)
      fail(ErrorKind::usage, "--searcher-option {}: '{}' is given twice; give it once", text, name);
    if (!reads(searcher, row)) {
      fail(ErrorKind::usage, "--searcher-option {}: '{}' is used by {}, not by --searcher {}; leave it out", text, name,
           row.used_by, searcher);
    }
  }
  return options;
}

}  // namespace kilter::tune
