// Schedules for a network from tuning records and from layer plans.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "compile/compile.h"
#include "tune/records/match.h"
#include "tune/tuner/network_bench.h"

namespace kilter::tune {

/// Records of a template that are not to be used: on one node, or everywhere.
struct Forbidden {
  std::string schedule;  ///< a template's name, or a whole schedule
  std::string node;      ///< empty: everywhere
};
/// Reads "TEMPLATE", "TEMPLATE@NODE" or "SCHEDULE@NODE". Throws usage for a text without a known template.
Forbidden parse_forbidden(const std::string& text);

struct ApplyOptions {
  std::string file;    ///< of the records, for the summary
  std::string device;  ///< fingerprint
  int threads = 1;
  std::vector<Forbidden> forbidden;
  std::string now = {};  ///< ISO 8601, for the age of records; empty: the current moment
};

/// For every task the best record that matches and that its template can lower. The summary says how many tasks have
/// one, at which distances and what loss is expected, and how many keep the default. The words of a layer say how its
/// record was matched, when and where it was measured, and its ratio over the default there.
Recorded apply_records(const PassedGraph& passed, const CompileOptions& compile, const Matcher& matcher,
                       const ApplyOptions& options);

/// The layers' schedules of a plan's text (choices_file.h). Throws bad_input as parse_choices() does.
Recorded apply_plan(std::string_view text, const std::string& file);

}  // namespace kilter::tune
