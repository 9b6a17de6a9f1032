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
  /// The network before any pass; of another runtime's side only.
  const Graph& original() const { return *original_; }

 private:
  void start_peer(const std::string& runtime, const ModelOptions& model);

  std::string label_;
  int threads_ = 1;
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
};
Duel duel(Runner& a, Runner& b, const kilter::CompareOptions& how, Progress& progress);

/// Conditions that differ, times, their ratio, and the `layers` that make most of the difference.
std::string text(const Duel& duel, size_t layers);
nlohmann::json to_json(const Duel& duel);

}  // namespace kilter::tool
