// One side of a comparison: a network that runs in Kilter in this process, or in another runtime in its own process.
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "measure/compare.h"
#include "profile/peer.h"
#include "profile/versus.h"
#include "scratch_folder.h"
#include "terminal.h"
#include "tool.h"

namespace kilter::tool {

class Runner {
 public:
  /// `what` is a model, or RUNTIME:MODEL with a runtime of Peer::Request; options.model is ignored. Throws usage for a
  /// compiled file in another runtime, and the errors of opening, compiling and Peer.
  Runner(const std::string& what, ModelOptions options);
  ~Runner() = default;
  Runner(const Runner&) = delete;
  Runner& operator=(const Runner&) = delete;

  Candidate candidate();
  /// Returns the conditions and layers as this runtime's own profiler reports them. Kilter profiles for `seconds`.
  profile::Side describe(double seconds);
  bool peer() const { return peer_ != nullptr; }
  /// Returns the attendance of the threads in all runs so far; none for another runtime.
  Attendance attendance() const { return network_ ? network_->session->attendance() : Attendance(); }
  /// Returns the number of items in a batch: the first dimension of the first input, or 1 if it has none.
  int64_t items() const { return items_; }
  /// Returns the network before any pass, for another runtime; null for Kilter, or if it is not one static graph.
  const Graph* original() const { return original_ ? &*original_ : nullptr; }

 private:
  void start_peer(const std::string& runtime, const ModelOptions& model);

  std::string label_;
  int threads_ = 1;
  int64_t items_ = 1;
  std::unique_ptr<Prepared> network_;
  std::unique_ptr<profile::Peer> peer_;
  std::optional<Graph> original_;
  std::optional<ScratchFolder> exported_;  ///< contains a built-in network written as a file
};

/// Two runners measured alternately, then profiled. Layers of another runtime carry the names of Kilter's layers.
struct Duel {
  Comparison comparison;
  profile::Side a, b;
  int64_t items_a = 1, items_b = 1;  ///< per batch

  bool batches_differ() const { return items_a != items_b; }
  /// Converts a ratio of whole runs to a ratio of single items.
  Ratio per_item(const Ratio& runs) const;
};
Duel duel(Runner& a, Runner& b, const kilter::CompareOptions& how, Progress& progress);

/// Returns a report: whether the machine was busy, the conditions that differ, times and their ratios by wall time and
/// by CPU time, and the `layers` that account for most of the difference if a difference shows.
std::string text(const Duel& duel, size_t layers, const TableStyle& style);
nlohmann::json to_json(const Duel& duel);

}  // namespace kilter::tool
