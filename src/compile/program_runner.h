// Runs a network as a program: compiles its segments for the shapes that occur, and keeps the plans.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "compile/build_cache.h"
#include "compile/chooser.h"
#include "compile/compile.h"
#include "compile/loaded.h"
#include "compile/output_pool.h"
#include "compile/shared_constants.h"
#include "exec/thread_pool.h"
#include "passes/constant_memo.h"
#include "vm/machine.h"
#include "vm/own_memory.h"

namespace kilter {

/// Used by one thread at a time.
class ProgramRunner {
 public:
  struct Options {
    CompileOptions compile;
    std::shared_ptr<const Chooser> chooser = nullptr;
    /// Limit on the plans that are kept. The plan of each segment that ran last does not count; see
    /// Session::Options::plan_cache_bytes.
    int64_t cache_bytes = 0;
    vm::CheckInterrupt interrupt = {};
    std::vector<bool> varying = {};  ///< see vm::make_program()
    /// Shared with other plans of the network for as long as the runner exists, both or neither; null: the runner has
    /// its own.
    SharedConstants* constants = nullptr;
    ConstantMemo* memo = nullptr;
  };
  /// `name` names the network in errors. Options for a node apply in the segments that contain a node of this name.
  /// Throws usage if there is none.
  ProgramRunner(std::string name, std::shared_ptr<const OpenGraph> graph, Options options,
                std::shared_ptr<ThreadPool> pool);

  /// Runs the network once; see vm::Machine::run(). Each tensor of the result has memory of its own.
  std::vector<AnyValue> run(std::vector<AnyValue> inputs);
  const vm::Program& program() const { return program_; }
  size_t plans() const { return forms_.size(); }
  bool has_run() const { return has_run_; }
  /// A segment that has run with inputs of these types.
  struct FormState {
    int32_t segment = 0;
    std::vector<TensorType> inputs;
    int64_t runs = 0;
    bool is_static = false;      ///< false: shapes inside it depend on data, so its nodes run one by one
    const Plan* plan = nullptr;  ///< null: not compiled, so its nodes run one by one
  };
  /// All segments that have run, ordered by segment and by when they first ran.
  std::vector<FormState> forms() const;
  /// Receives each segment that runs as a static graph, with its inputs, before it runs.
  using WatchSegment = std::function<void(int32_t segment, const std::vector<Tensor>& inputs)>;
  /// Sets the function that receives the segments of all further runs; empty: none.
  void watch_segments(WatchSegment watch) { watch_ = std::move(watch); }
  /// Returns the static graph of a segment for inputs of these types. Returns nullopt if shapes turn out to depend on
  /// data, or an output is absent.
  std::optional<Graph> graph_of(int32_t segment, const std::vector<TensorType>& inputs) const;
  /// After this number of runs with the same inputs, every segment that can be compiled is compiled.
  static constexpr int kRunsUntilCompiled = 4;
  /// Sets the observer of all further runs; null: none.
  void observe(vm::Observer* observer) {
    observer_ = observer;
    machine_.observe(observer);
  }
  /// Where the schedules of the plans come from, as in Plan::records; empty if all are the defaults.
  std::string records() const;
  /// Bytes of machine code, packed constants, working memory and results of all plans.
  int64_t held_bytes() const;
  /// Compiles a segment for inputs of these types, if it can be compiled, without running it. Returns the types of its
  /// outputs; nullopt if shapes inside it depend on data.
  std::optional<std::vector<TensorType>> prepare(int32_t segment, const std::vector<TensorType>& inputs);
  /// Returns the plans of a segment, in the order in which its inputs first occurred. They may refer to constants that
  /// the runner keeps in memory. `tuned`: set if one uses tuning records.
  std::vector<Plan> plans_of(size_t segment, bool& tuned) const;

 private:
  /// A segment for one set of input types.
  struct Form {
    int32_t segment = 0;
    std::vector<TensorType> inputs;
    int64_t runs = 0;
    bool is_static = false;             ///< whether the segment has a static graph for these inputs
    std::optional<Graph> graph = {};    ///< that graph, until it is compiled
    std::optional<Loaded> loaded = {};  ///< once it is compiled
    bool compiles = true;               ///< false: compiling it has failed
  };
  using Forms = std::list<Form>;

  std::vector<AnyValue> run_segment(int32_t segment, std::vector<AnyValue> inputs);
  Form& form_for(int32_t segment, const std::vector<Tensor>& inputs);
  Form& add_form(int32_t segment, std::vector<TensorType> inputs);
  void check_named_nodes() const;
  CompileOptions options_for(const Graph& graph) const;
  void compile(Form& form);
  void make_ready(Form& form);
  int64_t own_bytes(const Form& form) const;
  void drop_unused();
  std::vector<AnyValue> run_plan(Form& form, const std::vector<Tensor>& inputs);

  std::string name_;
  vm::Program program_;
  vm::UsedMemory fixed_;  ///< the constants of the program
  Options options_;
  std::shared_ptr<ThreadPool> pool_;
  vm::HostOptions host_;
  SharedConstants own_constants_;
  KernelStore kernels_;
  ConstantMemo own_memo_;
  WorkMemory work_;
  OutputPool outputs_;
  Forms forms_;                                      ///< most recently used first
  std::vector<std::vector<Forms::iterator>> index_;  ///< by segment: its forms
  vm::Machine machine_;
  vm::Observer* observer_ = nullptr;
  WatchSegment watch_;
  bool has_run_ = false;
  bool has_compiled_ = false;  ///< in this run
};

/// Returns "f32[1,64], i64[3]: compiled, 5 steps, 12 runs".
std::string text(const ProgramRunner::FormState& form);

}  // namespace kilter
