// A network that is compiled here and runs on another machine, whose agent is in a fleet.
#pragma once

#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "agent_machine.h"
#include "base/error.h"
#include "compile/run_values.h"
#include "fleet.h"
#include "fleet/remote_runner.h"
#include "measure/evaluator.h"
#include "tool.h"

namespace kilter::tool {

/// An option that is about this machine and is therefore refused with --on.
struct LocalOption {
  std::string_view option;
  bool given = false;
  std::string_view why;  ///< "the caches of another machine are not flushed"
};

/// The option --on and those of the fleet.
struct OnOptions {
  FleetOptions fleet;  ///< its device class is the value of --on
  bool given = false;

  void add_to(Command app);
  /// Takes the fleet from KILTER_FLEET if --fleet is missing. Throws usage for options of a fleet without --on, for
  /// --on without a fleet, and for a local option with --on.
  void settle(std::initializer_list<LocalOption> local = {});
  /// Throws usage for options of the model that have no meaning with --on, and for a compiled file.
  void check(const ModelOptions& model) const;

 private:
  void refuse(std::initializer_list<LocalOption> local) const;
};

/// An error of the fleet rather than of the network.
class AgentError : public Error {
 public:
  using Error::Error;
};

/// A plan on the machine of an agent. Its functions throw AgentError if the fleet does not run the jobs, and internal
/// if the network fails there.
class AgentNetwork {
 public:
  using TensorsOf = std::function<std::map<std::string, Tensor>(const Session&)>;
  /// Compiles the network for an agent's machine, and lets the agent load it. `model`: its target "native" is that of
  /// the machine, and its number of threads by default that of the machine's CPUs. `tensors`: the network's inputs;
  /// empty: ModelOptions::all_inputs(). `tell`: called with what is being done; may be empty. Throws what
  /// OnOptions::check() and target_on() throw, and unsupported for a network that is not one plan.
  AgentNetwork(ModelOptions model, const OnOptions& on, const TensorsOf& tensors = {},
               const std::function<void(const std::string&)>& tell = {});
  ~AgentNetwork();
  AgentNetwork(const AgentNetwork&) = delete;
  AgentNetwork& operator=(const AgentNetwork&) = delete;

  /// The options with which the network was compiled.
  const ModelOptions& options() const { return model_; }
  Session& session() const { return *session_; }
  const Compiled& compiled() const { return *compiled_; }
  const Plan& plan() const { return compiled_->plan; }
  const std::map<std::string, Tensor>& inputs() const { return inputs_; }
  int threads() const { return model_.threads; }
  const AgentMachine& machine() const { return machine_; }

  /// Runs the network for `seconds`, or `runs` times if that is not 0. Returns the runs in their order, at least three.
  /// `progress` gets the share that is done.
  std::vector<tune::Lap> measure(double seconds, int64_t runs, const std::function<void(double)>& progress);
  /// Run the network once and return the outputs, in the order of the plan. values() also returns the values of steps
  /// that `only` names.
  std::vector<Tensor> outputs();
  RunValues values(const std::map<std::string, Tensor>& only);

  /// The peaks of the machine, measured now for threads().
  Peaks peaks();
  /// The conditions of a measurement there. The caller adds the samples and the program's version.
  Conditions conditions() const;
  /// Where the network ran, known after a run: the agents, their devices, and how long transfers and waiting took.
  struct Place {
    std::string text;     ///< "on agent bench1 of the device class bench (...); transfers and waiting: 0.2 s"
    nlohmann::json json;  ///< the field "on" of reports
  };
  Place place();

 private:
  [[noreturn]] void fail_run(const std::vector<tune::Fault>& faults) const;
  std::vector<std::vector<std::byte>> trace(const std::vector<tune::Tap>& taps);
  void add_output_taps(std::vector<tune::Tap>& taps) const;
  std::vector<Tensor> take_outputs(const std::vector<std::vector<std::byte>>& values, size_t first) const;

  ModelOptions model_;
  AgentMachine machine_;
  std::string url_, run_;
  double overhead_ms_ = 0;
  std::unique_ptr<Session> session_;
  const Compiled* compiled_ = nullptr;
  std::map<std::string, Tensor> inputs_;
  std::unique_ptr<kilter::fleet::RemoteRunner> runner_;
  tune::VariantId id_ = 0;
};

/// Returns the figures of runs on another machine, each of which is a measurement.
Evaluation evaluation_of(const std::vector<tune::Lap>& runs);

}  // namespace kilter::tool
