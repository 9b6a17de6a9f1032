// Explains a log for a network: how long its layers would take, which layers the log does not cover, and what is
// suspicious.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <vector>

#include "tune/records/store.h"

namespace kilter::tune {

/// One task of the network. Layers with equal problems are listed separately.
struct NetworkLayer {
  std::string name, problem;
  int64_t flops = 0;
};

struct LogRow {
  std::string problem;              ///< the network's problem line without the epilogue
  std::vector<std::string> layers;  ///< names
  int64_t flops = 0;                ///< of one layer
  std::optional<Record> best;       ///< the log's history-best record; none: not covered
  size_t records = 0;               ///< number of the problem's records in the log that are ok
  double ms() const { return best ? best->ms() * static_cast<double>(layers.size()) : 0; }  ///< for all layers
  double gflops() const { return best ? static_cast<double>(flops) * 1e-6 / best->ms() : 0; }
};

struct LogExplanation {
  /// The machine whose records are used: the one with the most records, unless a different one is requested.
  std::string device, target;
  int threads = 0;                         ///< 0: not given in the log
  size_t others = 0;                       ///< records of other devices
  std::vector<LogRow> covered, uncovered;  ///< covered: longest first; uncovered: most FLOPs first
  double predicted_ms = 0;                 ///< for all covered layers
  double measured_ms = 0;                  ///< of the network, as given; 0: not given
  size_t unused = 0;                       ///< problems in the log that the network does not have
  std::vector<std::string> suspects;       ///< in words, most important first

  size_t covered_layers() const;
  size_t uncovered_layers() const;
};

struct ExplainLogOptions {
  std::string device = {};  ///< a substring of the records' device or target; empty: the machine with the most records
  double measured_ms = 0;   ///< measured time of the network
};
/// Explains a log. Records are matched by their anchor, since logs of other systems have no epilogues. Layout changes
/// are left out. Throws bad_input if no record is ok, or if none is from the requested device.
LogExplanation explain_log(const std::vector<NetworkLayer>& layers, const std::vector<Record>& records,
                           const ExplainLogOptions& options = {});

std::string text(const LogExplanation& explanation, size_t rows);
nlohmann::json to_json(const LogExplanation& explanation);

}  // namespace kilter::tune
