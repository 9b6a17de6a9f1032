// Choices from outside the compiler, such as those of tuning records, for each graph that is compiled.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/error.h"
#include "compile/compile.h"

namespace kilter {

/// Schedules for the tasks of a plan.
struct Recorded {
  Choices choices;      ///< Origin::words becomes Step::record; only schedules count, since the passes have run
  std::string summary;  ///< for Plan::records
  int tuned_at = 0;     ///< threads for which most of the chosen schedules were tuned; 0: unknown, or nothing is chosen
};

/// One way to choose schedules for a graph.
struct Offer {
  Choices choices = {};  ///< added to those of the options before the passes run
  /// Returns the schedules to prefer over those of the plan, which has steps and tasks, but neither code nor constants.
  /// Schedules from records in `choices` that it does not return are dropped. If the function is empty, no schedules
  /// are preferred, and those in `choices` stay.
  std::function<Recorded(const Compiled& plan, const CompileOptions& options)> settle = {};
  /// Called with the reason if the graph cannot be laid out with `choices`; the next offer is then tried. If the
  /// function is empty, the error goes to the caller.
  std::function<void(const Error& why)> refused = {};
};

class Chooser {
 public:
  virtual ~Chooser() = default;
  /// Replaces choices that name several layers by choices for the layers of this graph. Throws usage for a name that
  /// the graph does not have.
  virtual void adapt(const Graph& /*graph*/, CompileOptions& /*options*/) const {}
  /// The ways to choose schedules for this graph, in order of preference; the last one has no `refused`. May be empty.
  virtual std::vector<Offer> offers(const Graph& /*graph*/, const CompileOptions& /*options*/) const { return {}; }
};

/// The options after the chooser, which may be null, has adapted them to this graph.
CompileOptions adapted(const CompileOptions& options, const Chooser* chooser, const Graph& graph);

}  // namespace kilter
