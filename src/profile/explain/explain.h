// Explains why a network takes as long as it does: compares every layer with its bound, finds causes with evidence,
// determines the gain of remedies (measured if an alternative can be compiled and run), and suggests what to do next.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "base/text_table.h"
#include "compile/chooser.h"
#include "compile/compile.h"
#include "profile/profile.h"

namespace kilter::profile {

/// The results of earlier tuning for a network that runs without them.
struct Tuned {
  std::function<std::shared_ptr<const Chooser>()> chooser;  ///< consults the records
  std::string action;                                       ///< command that compares runs with and without the records
};

/// The network to explain, with the settings it runs under.
struct Subject {
  std::string model;             ///< as commands name it: "zoo:resnet18", "net.onnx"
  std::string arguments;         ///< further arguments, kept in suggested commands: "--input x=8x3x224x224"
  std::string batch_input;       ///< argument for a batch of 8: "input=8x3x224x224"; empty if the batch size is fixed
  std::function<Graph()> graph;  ///< for the shapes of `inputs`; empty for compiled files
  CompileOptions compile;
  std::shared_ptr<const Chooser> chooser = nullptr;  ///< may be null
  std::shared_ptr<const Program> program;            ///< of a compiled file; null otherwise
  int threads = 1;
  int cpus = 1;  ///< that the process may use
  std::map<std::string, Tensor> inputs;
  std::string parts = {};  ///< what the graph is if the network is a program: "3 parts of a program"
  /// Returns the name of a layer in the model, if it differs from that in the graph; may be empty.
  std::function<std::string(const std::string& layer)> own_name = {};
  std::shared_ptr<const Subject> batch = {};  ///< the network with a batch of 8 as in batch_input; may be null
  std::optional<Tuned> tuned = {};            ///< set if records that are not in use offer a gain
  /// Returns the gains that tuning has brought and may still bring, given a profile; may be empty.
  std::function<std::optional<Tuning>(const Profile&)> look_ahead = {};
};

/// Settings of a run that an action changes.
struct Setting {
  CompileOptions compile;
  int threads = 1;
};
/// The command that times the network under this setting, quoted for a shell.
std::string bench_command(const Subject& subject, const Setting& setting);
/// The command that compares the present network (A) with a different setting of it (B) in interleaved runs.
std::string compare_command(const Subject& subject, const Setting& now, const Setting& then);
/// The command that compares the network with the same network on other inputs, e.g. "input=8x3x224x224".
std::string compare_inputs_command(const Subject& subject, const Setting& now, const std::string& input);

struct ExplainOptions {
  double seconds = 2;        ///< for profiling
  double trial_seconds = 8;  ///< for running all alternatives
  int most_trials = 6;       ///< maximum number of alternatives that remedy a cause, and also of those that try
                             ///< schedules and threads
  std::string node;          ///< try only this layer's schedules, and more of them; empty: those of the slowest layers
  uint64_t seed = 1;
  std::function<void(const std::string& doing)> progress;
  std::function<QuietReading()> read_quiet = kilter::read_quiet;  ///< for tests
};

/// The gain of a change, as a share of the network's time, with its 95 % interval.
struct Gain {
  double share = 0, low = 0, high = 0;
};

struct Finding {
  enum class Kind : uint8_t {
    first,   ///< comes before all others: the machine is busy
    action,  ///< something can be done about it
    trade,   ///< something can be done about it, and the results of the network change
    fact,    ///< nothing can be done in this version, or the remedy was run and showed no gain
  } kind = Kind::fact;
  std::vector<int64_t> steps;  ///< steps concerned, the main one first; empty: the whole network
  std::string name;            ///< of the layer; "(network)" for the whole
  std::string cause;           ///< one of all_causes()
  std::string evidence;        ///< with values and units
  double gain_ms = 0;          ///< of the end-to-end time; without an action, the most that could be saved
  double gain_percent = 0;
  bool measured = false;    ///< whether the network was run with the remedy; otherwise the gain is predicted
  Gain interval = {};       ///< if measured
  std::string advice = {};  ///< in words; empty if nothing available helps
  std::string action = {};  ///< command that shows the gain; empty if `advice` is
};

/// A schedule of a layer, chosen or not.
struct Contender {
  std::string schedule;
  double predicted_ms = 0;
  double measured_ms = 0;  ///< of the layer, in the network; 0: not measured
};

struct LayerView {
  size_t row = 0;                                           ///< index in Profile::rows
  std::vector<std::pair<std::string, std::string>> causes;  ///< name and evidence
  double predicted_ms = 0;        ///< by the template's model, for its schedule; 0 if there is no model
  std::string_view approximates;  ///< the error of its schedule, in words; empty if it does not approximate
  std::vector<Contender> runners_up;
  std::vector<std::pair<std::string, Rejected>> rejected;  ///< templates for tasks of this kind that were rejected
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
  std::string withheld;           ///< one line on findings withheld because the machine was disturbed; otherwise empty
  std::vector<LayerView> layers;  ///< for the rows that are steps, in their order
};

/// Compiles and profiles the network, looks for causes, runs remedies against the present network, and ranks the
/// findings. Throws usage if options.node names no layer.
Explanation explain(const Subject& subject, const ExplainOptions& options = {});

/// Splits the time of a profile into contractions, other operators, layout changes (with halos, copies, packing),
/// reference kernels, barriers and gaps.
std::vector<Part> split_of(const Profile& profile, const Plan& plan);

/// Returns the whole explanation as text, or that of one layer if `node` is not empty.
std::string explanation_text(const Explanation& explanation, const std::string& node, const TableStyle& style = {});
/// Returns to_json(profile) plus the object "explain".
nlohmann::json to_json(const Explanation& explanation);

}  // namespace kilter::profile
