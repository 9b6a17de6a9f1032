// Formats a profile as text, JSON, CSV, and as a trace for timeline viewers.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "base/text_table.h"
#include "profile/profile.h"

namespace kilter::profile {

struct TableOptions {
  std::string by = "layer";    ///< layer, operator, task
  std::string sort = "order";  ///< order, time, name, share
  int64_t top = 0;             ///< rows to show; 0: all
  bool wide = false;           ///< also show problem, schedule, shapes, layouts and kernel key, and all columns
  TableStyle style = {};       ///< of the table and the lines below it
};

/// Throws usage, listing the legal words, if a word of the options is unknown.
void check(const TableOptions& options);
/// Returns the table with its sums, totals and configuration block. Throws usage for unknown words in the options.
std::string table(const Profile& profile, const TableOptions& options);
/// Shows the arena over time, its largest buffers, and packed weights.
std::string memory_table(const Profile& profile);
nlohmann::json to_json(const Profile& profile);
/// Returns one line per row, following RFC 4180.
std::string to_csv(const Profile& profile);
/// Returns the typical pass in the Trace Event Format (Chrome, Perfetto), one track per thread.
nlohmann::json to_trace(const Profile& profile);

/// Returns the rows sorted by `sort`: order, time, name, share. Throws usage naming the legal words.
std::vector<Row> sorted(std::vector<Row> rows, std::string_view sort);

}  // namespace kilter::profile
