// What the commands that tune share: the network, its records, and what the graph tuner has to say.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tool.h"
#include "tune/records/store.h"
#include "tune/tuner/plans/kept_plans.h"
#include "tune/tuner/tuner.h"

namespace kilter::tool {

/// The network as these inputs make it. Throws unsupported for compiled files.
Graph bound_graph(const Session& session, const std::map<std::string, Tensor>& inputs);

/// All records of a file; what is wrong with it goes to standard error.
std::vector<tune::Record> read_records(tune::Store& store);

/// A network to be tuned, as its defaults and the command line make it, and the records that are to be known. What is
/// damaged of them and of the kept plans goes to standard error.
struct TuningSetup {
  /// `writes`: records may be written; else a file that is missing is none. Throws usage for a compiled file.
  explicit TuningSetup(const ModelOptions& options, bool writes = true);

  std::unique_ptr<Session> session;
  Graph graph;
  std::vector<Tensor> inputs;  ///< in the order of the graph's
  int threads = 1;
  std::string device;                  ///< fingerprint
  std::string file;                    ///< of the records; empty: none
  std::unique_ptr<tune::Store> store;  ///< null without a file
  std::vector<tune::Record> known;
  const CompileOptions& compile() const { return compile_; }
  tune::PlanKey key() const;

 private:
  CompileOptions compile_;
};

/// The plan that was accepted last for exactly this.
std::optional<tune::KeptPlan> kept_plan(const TuningSetup& setup);
/// Keeps what a tuning run accepted, which is nothing where the default plan won, beside the records. A run that tried
/// nothing keeps nothing, and a better plan than its own that another run kept stays; `before`: the one that this run
/// raced, which becomes what is kept. Answers a line for the user, where there is something to say.
std::string keep(const TuningSetup& setup, const tune::TuneResult& result, std::optional<tune::KeptPlan>& before);
/// Keeps what the graph tuner chose where it won, also against `before`, the plan that was kept; where it lost, that
/// one stays, and without one history-best is kept, or nothing where that lost against the default plan. A better plan
/// that another run kept meanwhile stays. Answers a line for the user.
std::string keep(const TuningSetup& setup, const tune::GraphBest& best, const tune::Choices& history,
                 const std::optional<tune::KeptPlan>& before);

/// Keeps a record that bars the schedule which a check found wrong, where there is a file of records.
void bar_wrong(const TuningSetup& setup, const tune::ReferenceCheck& check);

/// "0.9599 (0.9517 to 0.9684)".
std::string ratio_text(const Ratio& ratio);
/// Lines on the problem, its answer and the race.
std::string graph_text(const tune::GraphBest& best);

}  // namespace kilter::tool
