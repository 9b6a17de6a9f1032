// What a log says of a network: how long its layers would take, what the log does not cover, and what is suspicious.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <vector>

#include "tune/records/store.h"

namespace kilter::tune {

/// One task of the network; layers of equal problems are given one by one.
struct NetworkLayer {
  std::string name, problem;
  int64_t flops = 0;
};

struct LogRow {
  std::string problem;              ///< as the network has it, without what follows the anchor
  std::vector<std::string> layers;  ///< names
  int64_t flops = 0;                ///< of one layer
  std::optional<Record> best;       ///< history-best of the log; none: not covered
  size_t records = 0;               ///< of it in the log that are ok
  double ms() const { return best ? best->ms() * static_cast<double>(layers.size()) : 0; }  ///< all layers
  double gflops() const { return best ? static_cast<double>(flops) * 1e-6 / best->ms() : 0; }
};

struct LogExplanation {
  std::string device, target;              ///< whose records are taken: those of most records, unless asked for
  int threads = 0;                         ///< 0: the log does not say
  size_t others = 0;                       ///< records of other devices
  std::vector<LogRow> covered, uncovered;  ///< longest first; most FLOPs first
  double predicted_ms = 0;                 ///< all layers that are covered
  double measured_ms = 0;                  ///< of the network, as given; 0: not given
  size_t unused = 0;                       ///< problems of the log that the network does not have
  std::vector<std::string> suspects;       ///< in words, the weightiest first

  size_t covered_layers() const;
  size_t uncovered_layers() const;
};

struct ExplainLogOptions {
  std::string device = {};  ///< part of the device or target of the records; empty: those of most records
  double measured_ms = 0;   ///< what the network was seen to take
};
/// Records are matched by their anchor: logs of other systems have no epilogues. Changes of layout are left out. Throws
/// bad_input when no record is ok, or none is of the device.
LogExplanation explain_log(const std::vector<NetworkLayer>& layers, const std::vector<Record>& records,
                           const ExplainLogOptions& options = {});

std::string text(const LogExplanation& explanation, size_t rows);
nlohmann::json to_json(const LogExplanation& explanation);

}  // namespace kilter::tune
