// What the commands that tune share: the network, its records, and what the graph tuner has to say.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tool.h"
#include "tune/records/store.h"
#include "tune/tuner/graph_best.h"
#include "tune/tuner/kept_plans.h"

namespace kilter::tool {

/// A network to be tuned, as its defaults and the command line make it, and the records that are to be known.
struct TuningSetup {
  /// Throws usage for a compiled file, and for --layer-plan and --forbid, which have no meaning for `command`.
  TuningSetup(const ModelOptions& model, const std::string& command);

  std::unique_ptr<Session> session;
  Graph graph;
  std::vector<Tensor> inputs;  ///< in the order of the graph's
  int threads = 1;
  std::string device;                  ///< fingerprint
  std::string file;                    ///< of the records; empty: none
  std::unique_ptr<tune::Store> store;  ///< null without a file
  std::vector<tune::Record> known;
  const CompileOptions& compile() const { return session->options().compile; }
  tune::PlanKey key() const;
};

/// Gives `compile` what the graph tuner chose for this network, machine and number of threads and left beside the
/// records; where it left nothing, its answer from the records alone.
void choose_graph_best(const ModelOptions& model, const Session& session, CompileOptions& compile);

/// Keeps what the graph tuner chose where it won, else history-best's plan, which then is the one to compile with.
void keep(const TuningSetup& setup, const tune::GraphBest& best, const tune::Choices& history);

/// "0.9599 (0.9517 to 0.9684)".
std::string ratio_text(const Ratio& ratio);
/// Lines on the problem, its answer and the race.
std::string graph_text(const tune::GraphBest& best);

}  // namespace kilter::tool
