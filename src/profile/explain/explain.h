// Why a network takes the time it takes: every layer against its bound, the causes with their evidence, what mending
// them brings (measured where an alternative can be compiled and run), and what to do next.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "compile/compile.h"
#include "profile/profile.h"

namespace kilter::profile {

/// What tuning has found for a network that runs without it.
struct Tuned {
  std::function<CompileOptions()> compile;  ///< as the network is compiled now, with what records say
  std::string action;                       ///< command that compares both
};

/// What is explained: a network with the settings it runs under.
struct Subject {
  std::string model;             ///< as a command names it: "zoo:resnet18", "net.onnx"
  std::string arguments;         ///< further arguments of such a command that stay: "--input x=8x3x224x224"
  std::string batch_input;       ///< of a command for a batch of 8, "input=8x3x224x224"; empty where it is fixed
  std::function<Graph()> graph;  ///< for the shapes of `inputs`; empty for compiled files
  CompileOptions compile;
  std::shared_ptr<const Program> program;  ///< of a compiled file; null otherwise
  int threads = 1;
  int cpus = 1;  ///< that the process may use
  std::map<std::string, Tensor> inputs;
  std::shared_ptr<const Subject> batch = {};  ///< the network on a batch of 8, as batch_input has it; may be null
  std::optional<Tuned> tuned = {};            ///< where records that are not in use say something
  /// What tuning has brought and may bring, once there is a profile; may be empty.
  std::function<std::optional<Tuning>(const Profile&)> look_ahead = {};
};

/// Settings of a run that an action changes.
struct Setting {
  CompileOptions compile;
  int threads = 1;
};
/// The command that times the network under this setting, quoted for a shell.
std::string bench_command(const Subject& subject, const Setting& setting);
/// The command that runs the network as it is (A) in turns with another setting of it (B).
std::string compare_command(const Subject& subject, const Setting& now, const Setting& then);
/// The same with other inputs in B, "input=8x3x224x224".
std::string compare_inputs_command(const Subject& subject, const Setting& now, const std::string& input);

struct ExplainOptions {
  double seconds = 2;        ///< to profile
  double trial_seconds = 8;  ///< to run alternatives, all together
  int most_trials = 6;       ///< alternatives that mend a cause; as many more at most try schedules and threads
  std::string node;          ///< only this layer's schedules are tried, and more of them; empty: the slowest ones'
  uint64_t seed = 1;
  std::function<void(const std::string& doing)> progress;
  std::function<QuietReading()> read_quiet = kilter::read_quiet;  ///< for tests
};

/// What a change brings, as a share of the time of the network, with the 95 % interval of the network's time.
struct Gain {
  double share = 0, low = 0, high = 0;
};

struct Finding {
  enum class Kind : uint8_t {
    first,   ///< told before all others: the machine is busy
    action,  ///< something can be done about it
    fact,    ///< nothing can, in this version, or what could be done was run and brought nothing
  } kind = Kind::fact;
  std::vector<int64_t> steps;  ///< concerned, the main one first; empty: the whole network
  std::string name;            ///< of the layer, "(network)" for the whole
  std::string cause;           ///< one of all_causes()
  std::string evidence;        ///< with values and units
  double gain_ms = 0;          ///< of the end-to-end time; what it would save at most where there is no action
  double gain_percent = 0;
  bool measured = false;    ///< the mended network was run; else by the model of the cause
  Gain interval = {};       ///< where measured
  std::string advice = {};  ///< in words; empty where nothing that exists helps
  std::string action = {};  ///< command to paste that shows it; empty with `advice`
};

/// A schedule that was not chosen, or that was.
struct Contender {
  std::string schedule;
  double predicted_ms = 0;
  double measured_ms = 0;  ///< of the layer in the network; 0: not measured
};

struct LayerView {
  size_t row = 0;                                           ///< in Profile::rows
  std::vector<std::pair<std::string, std::string>> causes;  ///< name and evidence
  double predicted_ms = 0;        ///< of its schedule by the template's model; 0 where there is none
  std::string_view approximates;  ///< how much its schedule errs, in words; empty where it does not approximate
  std::vector<Contender> runners_up;
  std::vector<std::pair<std::string, Rejected>> rejected;  ///< templates for tasks of this kind
};

struct Part {
  std::string what;
  double ms = 0, percent = 0;
};

struct Explanation {
  Profile profile;
  std::vector<std::string> summary;
  std::vector<Part> split;        ///< adds up to profile.sum_ms
  std::vector<Finding> findings;  ///< by kind, each kind by gain
  std::string withheld;           ///< what is not told since the machine was disturbed, in one line; else empty
  std::vector<LayerView> layers;  ///< of the rows that are steps, in their order
};

/// Compiles, profiles, looks for causes, runs what mends them against the network as it is, and ranks. Throws usage
/// when options.node names no layer.
Explanation explain(const Subject& subject, const ExplainOptions& options = {});

/// Where the time of a profile goes: contractions, other operators, layout changes (with halos, copies, packing),
/// reference kernels, barriers, gaps.
std::vector<Part> split_of(const Profile& profile, const Plan& plan);

/// Everything for a reader; of one layer only when `node` is not empty.
std::string explanation_text(const Explanation& explanation, const std::string& node);
/// to_json(profile) and the object "explain".
nlohmann::json to_json(const Explanation& explanation);

}  // namespace kilter::profile
