// A profile as text, JSON, CSV, and as a trace for timeline viewers.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "profile/profile.h"

namespace kilter::profile {

struct TableOptions {
  std::string by = "layer";    ///< layer, operator, task
  std::string sort = "order";  ///< order, time, name, share
  int64_t top = 0;             ///< rows to show; 0 is all
  bool wide = false;           ///< also problem, schedule, shapes, layouts, kernel key
};

/// Throws usage, listing the legal words, when a word of the options is unknown.
void check(const TableOptions& options);
/// The table with its sums, totals and configuration block. Throws usage for unknown words in the options.
std::string table(const Profile& profile, const TableOptions& options);
/// Arena over time, its largest buffers, packed weights.
std::string memory_table(const Profile& profile);
nlohmann::json to_json(const Profile& profile);
/// One line a row, RFC 4180.
std::string to_csv(const Profile& profile);
/// The typical pass in the Trace Event Format (Chrome, Perfetto): one track a thread.
nlohmann::json to_trace(const Profile& profile);

/// The rows in the order that `sort` asks for: order, time, name, share. Throws usage naming the legal words.
std::vector<Row> sorted(std::vector<Row> rows, std::string_view sort);

}  // namespace kilter::profile
