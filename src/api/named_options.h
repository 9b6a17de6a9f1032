// Options of a compilation by name, for interfaces whose options are texts. Names and values are those of `kilter
// compile`.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "compile/session.h"
#include "tune/tuner/plans/use_tuned.h"

namespace kilter {

/// Parses "declared", "bf16" or "fp16". Throws usage for any other text.
Precision parse_precision(std::string_view text);
/// Parses "default" or "strict". Throws usage for any other text.
Accuracy parse_accuracy(std::string_view text);
/// Parses a number of bytes with or without a unit, such as "200MB" or "1.5GiB". Throws usage, naming `what`, for any
/// other text.
int64_t parse_size(std::string_view text, std::string_view what);

/// Where a compilation takes schedules from.
struct ScheduleSources {
  std::string records;  ///< a file of tuning records, or "default"; empty: none
  tune::Choose choose = tune::Choose::accepted;
  std::string layer_plan;  ///< empty: none
  int threads = 0;         ///< with which the network will run; 0: default_threads()
};
/// Sets the chooser of `options`, and what a layer plan sets. `notice` receives what the user must know about the
/// files. Throws usage if both sources are given, and like tune::use_records() and tune::use_layer_plan().
void add_sources(const ScheduleSources& sources, const std::function<void(const std::string&)>& notice,
                 Session::Options& options);

struct GivenOptions {
  Session::Options session;
  std::vector<Target> targets;  ///< one or more; Session::Options has the first
  ScheduleSources sources;
};
/// Opens a model once for each target.
std::vector<std::unique_ptr<Session>> open_for_targets(const std::string& model, const Session::Options& options,
                                                       std::span<const Target> targets);

struct NamedOption {
  const char* name;
  const char* fallback;  ///< the value that stands for the default
  const char* summary;   ///< what it does, and its legal values
  /// Sets the option. Throws usage for an illegal value, saying which are legal.
  void (*apply)(const std::string& value, GivenOptions& options);
};
std::span<const NamedOption> named_options();
/// Returns the option of this name. Throws usage, naming the nearest one and all legal ones, if there is none.
const NamedOption& named_option(std::string_view name);

}  // namespace kilter
