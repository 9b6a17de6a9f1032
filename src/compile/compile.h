// Compiles a model's graph into a plan: options, results, and the table of passes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "compile/choices.h"
#include "compile/task_graph.h"
#include "exec/plan.h"
#include "graph/graph.h"
#include "passes/pass.h"
#include "schedule/schedule.h"
#include "schedule/survey.h"
#include "target/target.h"

namespace kilter {

class BuildCache;
class Chooser;
class ConstantMemo;
struct ConstantsHome;
class KernelStore;
class SharedConstants;

/// The progress of a compilation.
struct CompileStage {
  std::string_view name;  ///< of a pass, or a description; empty once the compilation has ended or failed
  int64_t done = 0;       ///< nodes, tasks or kernels of the stage
  int64_t of = 0;
};

/// Limits on memory.
struct MemoryBudget {
  /// Limit in bytes on packed weights and arena together. Layers switch to kernels with smaller weights, those that
  /// lose the least speed first, until the network fits; if it cannot, compiling fails. Without a limit, packed weights
  /// may occupy 64 MiB or 2.5 times the network's parameters, whichever is more.
  std::optional<int64_t> memory;
  bool limit_weights = true;  ///< false: packed weights may have any size, whatever `memory` says
};

/// Options for finding faults of the compiler.
struct DebugOptions {
  std::filesystem::path dump_ir;  ///< folder for the graph after each pass, the tasks, and the loop IR of each kernel
  std::string stop_after;         ///< name of a pass: later ones do not run (a plan is still built)
  std::set<std::string> disable;  ///< names of passes that do not run
  int64_t max_rewrites = INT64_MAX;  ///< limit over all passes, in order; serves to bisect a miscompilation
  bool naive =
      false;  ///< no templates, and of the passes only integer_arithmetic: every node runs its reference kernel

  bool operator==(const DebugOptions&) const = default;
};

/// The contents of a compilation's result.
struct CompileContents {
  /// false: the plan has steps and an arena, but neither code nor constants: it can be inspected, but not run or saved.
  bool code = true;
  bool alternatives = false;  ///< fills StepNotes::templates, ::estimate and ::given_up
  bool tasks = false;         ///< fills Compiled::tasks
  bool recipes = false;       ///< fills Plan::recipes, which keep the tensors that constants are packed from in memory
};

/// Callbacks for what a compilation reports; each may be empty.
struct CompileReport {
  /// Receives a line for each option that has no effect.
  std::function<void(const std::string&)> notice;
  /// Called from time to time with the current stage, by the compiling thread.
  std::function<void(const CompileStage&)> progress;
};

/// What the compilations of one network for several shapes and the same target have in common. Each member may be null.
struct SharedParts {
  KernelStore* kernels = nullptr;
  SharedConstants* constants = nullptr;
  ConstantMemo* memo = nullptr;
};

struct CompileOptions {
  Target target;    ///< parse_target("native") unless the user gives another one
  Choices choices;  ///< for single layers
  Accuracy accuracy = Accuracy::normal;
  Precision precision = Precision::declared;
  std::map<std::string, Layout> stored_ports;  ///< PassContext::stored_ports
  std::set<std::string> keep_float;            ///< names of nodes and operators that `precision` leaves in f32
  std::vector<Forbidden> forbidden;            ///< schedules that tasks may not use by default; forced ones are exempt
  MemoryBudget budget;
  DebugOptions debug;
  CompileContents contents;
  CompileReport report;
  int threads = 1;  ///< for compiling
  /// Kernels and packed constants of earlier compilations of the same PassedGraph for the same target; may be null.
  BuildCache* cache = nullptr;
  SharedParts shared;  ///< `cache` takes precedence
};

struct PassTiming {
  std::string name;
  double ms = 0;
  int64_t rewrites = 0;
  std::map<std::string, int64_t> by_rewrite = {};  ///< for a table of rewrites: how often each row was applied
};

/// The place where a value of the final graph is stored after a run, for --verify.
struct PlacedValue {
  std::string name;
  TensorType type;
  BufferRef buffer;
  Shape strides;       ///< of the physical dimensions, in elements
  int64_t offset = 0;  ///< elements from the buffer's start to logical element 0
  size_t step = 0;     ///< the step that writes it
};

/// A schedule that a task gave up for one with smaller packed weights.
struct GivenUp {
  Schedule schedule;
  int64_t bytes = 0;      ///< of its packed weights
  int64_t now_bytes = 0;  ///< of the packed weights of the schedule that replaces it
};

/// Facts about a step that the compiler knows and the plan does not contain.
struct StepNotes {
  std::vector<std::string> nodes;       ///< names of the nodes that it runs
  std::vector<size_t> producers;        ///< steps that write the inputs of this one, ascending
  int64_t task_bytes = 0;               ///< Task::bytes()
  std::optional<Estimate> estimate;     ///< of the chosen schedule, if its template has a model
  std::vector<TemplateView> templates;  ///< every template's result for the task, in order of preference
  std::optional<GivenUp> given_up;      ///< set if packed weights were too large
  /// hash_text() of the loop IR of the step's kernel, as `--dump-ir` writes it; 0: no kernel, or one that other shapes
  /// may share. If code is generated, the buffer sizes in that text may be those of another task that runs the same
  /// kernel.
  uint64_t loops = 0;
  bool shared = false;  ///< the step's kernel serves several shapes and reads the numbers in which they differ

  /// The best schedules of the chosen template by its model, best first.
  const std::vector<Ranked>& ranked() const;
};

struct Compiled {
  Plan plan;
  std::vector<PassTiming> timings;
  std::vector<PlacedValue> values;  ///< outputs of steps, in the order of the steps
  /// By step: templates that were rejected before one was chosen, and why.
  std::vector<std::vector<std::pair<std::string, Rejected>>> rejected;
  std::vector<StepNotes> notes;  ///< by step
  std::vector<Unfused> unfused;  ///< nodes that a neighbouring task could have absorbed but did not, and why
  /// Set by compile_graph(): for each node of the model, the layers that run it, unless that is just the layer of the
  /// same name.
  std::map<std::string, std::vector<std::string>> layers_of_nodes;
  int records_tuned_at = 0;                   ///< Recorded::tuned_at
  std::vector<std::string> slimmed;           ///< anchors of tasks that gave up speed for smaller weights
  std::optional<int64_t> memory;              ///< MemoryBudget::memory
  int64_t weight_bytes = 0;                   ///< of packed weights
  int64_t wanted_bytes = 0;                   ///< of packed weights, before any task gave up speed for smaller ones
  int64_t weight_limit = 0;                   ///< limit on weight_bytes
  Choices choices;                            ///< the choices with which the plan was compiled
  std::shared_ptr<const TaskGraph> tasks;     ///< set if CompileContents::tasks is
  std::shared_ptr<const ConstantsHome> home;  ///< set if the plan uses constants of earlier plans
  double compile_ms = 0;
};

/// One row of the table of passes.
struct PassRow {
  std::string_view name;
  PassFunction function;
  std::string_view summary;
  std::string_view why_here;                     ///< why the pass runs at this point
  std::vector<Rewrite> (*rewrites)() = nullptr;  ///< its rows, if the pass is a table of rewrites
};
std::span<const PassRow> all_passes();

/// One row of the table of stages that follow the passes: from the graph to the plan.
struct StageRow {
  std::string_view name;
  std::string_view summary;
  std::string_view why_here;
};
std::span<const StageRow> all_stages();

/// Compiles a static graph. `chooser` may be null. Throws usage for unknown names in the options.
Compiled compile_graph(Graph graph, const CompileOptions& options, const Chooser* chooser = nullptr);

/// A graph after the passes.
struct PassedGraph {
  Graph graph;
  std::vector<PassTiming> timings;
  std::vector<Unfused> unfused;
  /// The inputs of the model's nodes before the passes. These nodes come first in the graph.
  std::vector<std::vector<ValueId>> model_inputs = {};
};
/// The two halves of compile_graph(), for building several plans from one graph. Options that passes read must be the
/// same for both halves.
PassedGraph run_passes(Graph graph, const CompileOptions& options);
Compiled compile_passed(const PassedGraph& passed, const CompileOptions& options);

/// Enables this process to run reference steps, and plans for every back end. Called when a graph is compiled and when
/// a session is opened.
void install_reference_runner();

/// Copies a tensor out of its place in a run into a dense one.
Tensor extract(const PlacedValue& value, const std::byte* buffer);

}  // namespace kilter
