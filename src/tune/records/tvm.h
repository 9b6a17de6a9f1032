// Converts lines of TVM's tuning logs, versions 0.1 and 0.2, to records: the workload becomes a problem line, times
// become milliseconds, and the schedule becomes a Kilter schedule if there is a counterpart.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "schedule/schedule.h"
#include "target/target.h"
#include "tune/records/problem_words.h"
#include "tune/records/record.h"

namespace kilter::tune {

/// The fields of a log line of either version.
struct TvmLine {
  std::string version;                                     ///< "0.1", "0.2"
  std::string tvm_version;                                 ///< version of the program; empty in 0.1
  std::string target;                                      ///< "llvm -mcpu=...", "cuda -model=unknown"
  std::string task;                                        ///< "conv2d_nchw_winograd.cuda"
  std::string algorithm;                                   ///< "direct", "winograd", ...
  int64_t index = -1;                                      ///< index of the configuration in its space
  std::vector<std::pair<std::string, std::string>> knobs;  ///< "tile_oc" and "-1,16", in order
  bool cpu() const { return target.starts_with("llvm"); }
  /// The last number of a split, or the number itself; 0 if there is no such knob.
  int64_t last_of(std::string_view knob) const;
};

struct TvmRecord {
  TvmLine line;
  Record record;
  /// Parts of the schedule that have no counterpart here or were changed, with the reason, one line each.
  std::vector<std::string> notes;
};

/// Whether the object is a line of a TVM log: it has a version, an input and a result.
bool is_tvm_line(const nlohmann::json& json);
/// Converts a line. `text`: the line itself, which the record keeps. Schedules for CPUs are translated for `target`.
/// Throws bad_input for a line of any other form, and unsupported for a workload that no problem line can describe.
TvmRecord tvm_record(const nlohmann::json& json, const std::string& text, const Target& target);

/// Returns the problem line of a workload. Throws unsupported, naming the part that has no counterpart.
std::string tvm_problem(const std::string& task, const nlohmann::json& args);

struct Translation {
  std::optional<Schedule> schedule;
  std::vector<std::string> notes;
};
/// Translates a schedule of TVM's conv2d_NCHWc: tile_oc gives `vectors`, tile_ow and tile_oh give `tile`. Values that
/// do not fit the registers or the channels are changed to the nearest ones that do.
Translation translate(const TvmLine& line, std::string_view problem, const Target& target);

}  // namespace kilter::tune
