// Lines of TVM's tuning logs, versions 0.1 and 0.2, as records: the workload becomes a problem line, times become
// milliseconds, and the schedule becomes one of ours where there is a counterpart.
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

/// A log line as its fields, whatever the version.
struct TvmLine {
  std::string version;                                     ///< "0.1", "0.2"
  std::string tvm_version;                                 ///< of the program; empty in 0.1
  std::string target;                                      ///< "llvm -mcpu=...", "cuda -model=unknown"
  std::string task;                                        ///< "conv2d_nchw_winograd.cuda"
  std::string algorithm;                                   ///< "direct", "winograd", ...
  int64_t index = -1;                                      ///< of the configuration in its space
  std::vector<std::pair<std::string, std::string>> knobs;  ///< "tile_oc" and "-1,16", in order
  bool cpu() const { return target.starts_with("llvm"); }
  /// Last number of a split, or the number itself; 0 where there is no such knob.
  int64_t last_of(std::string_view knob) const;
};

struct TvmRecord {
  TvmLine line;
  Record record;
  /// What of the schedule has no counterpart here or was changed, and why, a line each.
  std::vector<std::string> notes;
};

/// Whether it is one: a version and a result.
bool is_tvm_line(const nlohmann::json& json);
/// `text`: the line, kept in the record. Schedules of CPUs are translated for `target`. Throws bad_input for a line of
/// another form, unsupported for a workload that has no problem line.
TvmRecord tvm_record(const nlohmann::json& json, const std::string& text, const Target& target);

/// The problem line of a workload. Throws unsupported, naming what has no counterpart.
std::string tvm_problem(const std::string& task, const nlohmann::json& args);

struct Translation {
  std::optional<Schedule> schedule;
  std::vector<std::string> notes;
};
/// One of our schedules for a conv2d_NCHWc of TVM: tile_oc gives `vectors`, tile_ow and tile_oh give `tile`. Values
/// that the registers or the channels do not take are brought to the nearest that they take.
Translation translate(const TvmLine& line, std::string_view problem, const Target& target);

}  // namespace kilter::tune
