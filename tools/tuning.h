// Shared by the commands that tune: the network, its records, and the report of the graph tuner.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "network_parts.h"
#include "tool.h"
#include "tune/records/store.h"
#include "tune/tuner/plans/kept_plans.h"
#include "tune/tuner/tuner.h"

namespace kilter::tool {

/// Reads all records of a file and reports problems with it on standard error.
std::vector<tune::Record> read_records(tune::Store& store);

/// A network to tune, built from the defaults and the command line, with the known records. Damaged records and kept
/// plans are reported on standard error.
struct TuningSetup {
  /// `writes` means that records may be written; otherwise a missing file counts as no file. Throws usage for a
  /// compiled file.
  explicit TuningSetup(const ModelOptions& options, bool writes = true);

  std::unique_ptr<Session> session;
  NetworkParts network;
  int threads = 1;
  std::string device;                  ///< fingerprint
  std::string file;                    ///< place of the records (tune/records/place.h); empty: none
  std::unique_ptr<tune::Store> store;  ///< null without a file
  std::vector<tune::Record> known;
  const CompileOptions& compile() const { return compile_; }
  /// Identifies the plan of one part of the network.
  tune::PlanKey key(const NetworkParts::Part& part) const;

 private:
  CompileOptions compile_;
};

/// Throws usage if --write-plan gives a file and the network has several parts, since a plan names the layers of one.
void check_write_plan(const TuningSetup& setup, const std::string& file);
/// Returns the plan accepted last for exactly this network, target, device, threads and settings. If the network has
/// several parts, returns the choices for all parts that have a plan, with the ratios and the date of the first.
std::optional<tune::KeptPlan> kept_plan(const TuningSetup& setup);
/// Stores the plan that a tuning run accepted next to the records, or an empty plan if the default plan won. A run that
/// tried nothing keeps nothing, and a better plan that another run kept meanwhile stays. `before` is the plan that this
/// run raced against; it is set to the plan that is kept. Returns a line for the user, or an empty string.
std::string keep(const TuningSetup& setup, const tune::TuneResult& result, std::optional<tune::KeptPlan>& before);
/// Keeps the graph tuner's choice if it won, including against the kept plan `before`. If it lost, `before` stays;
/// without one, history-best is kept, or an empty plan if that lost to the default plan. A better plan that another run
/// kept meanwhile stays. Returns a line for the user.
std::string keep(const TuningSetup& setup, const tune::GraphBest& best, const Choices& history,
                 const std::optional<tune::KeptPlan>& before);

/// If there is a record file, keeps a record that bars the schedule that a check found to be wrong.
void bar_wrong(const TuningSetup& setup, const tune::ReferenceCheck& check);

/// Formats a ratio with its interval, e.g. "0.9599 (0.9517 to 0.9684)".
std::string ratio_text(const Ratio& ratio);
/// Describes the problem that the graph tuner solved, its answer and the race.
std::string graph_text(const tune::GraphBest& best);

}  // namespace kilter::tool
