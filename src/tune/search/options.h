// Every setting of every searcher, with its meaning and legal values: one table for the command line, for `kilter
// options` and for the code that uses the settings.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kilter::tune {

struct SearchOptions {
  std::string searcher = "model";
  // Used by all searchers:
  int64_t seed = 1;
  int64_t batch = 8;
  int64_t early_stopping = 0;
  double prune = 3;
  // Used by `ga`:
  int64_t population = 32;
  double elite = 0.25;
  double crossover = 0.7;
  double mutation = 0.15;
  int64_t tournament = 3;
  // Used by `xgb` and `xgb-rank`:
  int64_t walkers = 64;
  int64_t steps = 60;
  double temperature = 1;
  double cooling = 0.95;
  int64_t first_random = 16;
  std::string features = "curve";
  // Used by `model`, `xgb` and `xgb-rank`:
  double exploration = 0.1;
  // Used by `model`:
  int64_t draft = 6;
  int64_t pool = 4096;
};

struct SearcherRow {
  std::string_view name, summary;
};
/// All searchers, in alphabetical order.
std::span<const SearcherRow> all_searchers();

/// One setting as it appears to users.
struct SearchOptionRow {
  std::string_view name;           ///< "early-stopping"
  std::string_view meaning;        ///< with the unit
  std::string_view legal;          ///< "a whole number from 2 to 4096"
  std::string_view used_by;        ///< searchers that use it, "ga" or "xgb, xgb-rank"; "all"
  double low, high;                ///< limits of a number
  int64_t SearchOptions::* whole;  ///< exactly one of the three is set
  double SearchOptions::* real;
  std::string SearchOptions::* word = nullptr;
  std::span<const std::string_view> words = {};  ///< legal words

  /// Returns this setting's value in `options` as text.
  std::string text(const SearchOptions& options) const;
  std::string fallback() const { return text({}); }
};
std::span<const SearchOptionRow> all_search_options();

/// Whether a searcher uses an option.
bool reads(std::string_view searcher, const SearchOptionRow& row);

/// Parses the user's options: `searcher` from `--searcher`, and each "name=value" from `--searcher-option`. Throws
/// usage for an unknown searcher, malformed text, an unknown option, an illegal value, an option given twice, and an
/// option that this searcher does not use.
SearchOptions parse_search_options(std::string_view searcher, const std::vector<std::string>& texts = {});

/// Throws usage if a cost model is given ("none": there is none) and none of the searchers uses it.
void check_cost_model(std::string_view cost_model, const std::vector<std::string>& searchers);

}  // namespace kilter::tune
