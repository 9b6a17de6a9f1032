// One network that runs beside others: in Kilter, in this process, or in another runtime, in its own.
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
  /// `what` is the model, or RUNTIME:MODEL with a runtime of Peer::Request; options.model is not read. Throws usage for
  /// a compiled file in another runtime, and what opening, compiling and Peer throw.
  Runner(const std::string& what, ModelOptions options);
  ~Runner() = default;
  Runner(const Runner&) = delete;
  Runner& operator=(const Runner&) = delete;

  Candidate candidate();
  /// Conditions and layers, by this runtime's own profiler; of Kilter in `seconds`.
  profile::Side describe(double seconds);
  bool peer() const { return peer_ != nullptr; }
  /// Items of the batch: the first dimension of the first input; 1 where it has none.
  int64_t items() const { return items_; }
  /// The network before any pass; of another runtime's side only.
  const Graph& original() const { return *original_; }

 private:
  void start_peer(const std::string& runtime, const ModelOptions& model);

  std::string label_;
  int threads_ = 1;
  int64_t items_ = 1;
  std::unique_ptr<Prepared> network_;
  std::unique_ptr<profile::Peer> peer_;
  std::optional<Graph> original_;
  std::optional<ScratchFolder> exported_;  ///< with a built-in network as a file
};

/// Two runners measured in turns, then profiled; layers of another runtime carry the names of Kilter's.
struct Duel {
  Comparison comparison;
  profile::Side a, b;
  bool other_runtime = false;
  int64_t items_a = 1, items_b = 1;  ///< of the batches

  bool batches_differ() const { return items_a != items_b; }
  /// A ratio of runs as one of single items.
  Ratio per_item(const Ratio& runs) const;
};
Duel duel(Runner& a, Runner& b, const kilter::CompareOptions& how, Progress& progress);

/// Whether the machine was busy, the conditions that differ, times and their ratios by the wall and by the processor,
/// and the `layers` that make most of the difference, where one shows that they explain.
std::string text(const Duel& duel, size_t layers);
nlohmann::json to_json(const Duel& duel);

}  // namespace kilter::tool
