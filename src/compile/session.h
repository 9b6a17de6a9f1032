// A network ready to run: an ONNX file, a built-in network or a compiled file. Plans are compiled for the shapes of
// the inputs, and kept.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "aot/library.h"
#include "base/shape_ranges.h"
#include "compile/background.h"
#include "compile/build_cache.h"
#include "compile/chooser.h"
#include "compile/compile.h"
#include "compile/loaded.h"
#include "compile/program_runner.h"
#include "compile/shared_constants.h"
#include "compile/varying_shapes.h"
#include "exec/executor.h"
#include "exec/file_container.h"
#include "onnx/model.h"
#include "passes/constant_memo.h"
#include "vm/compiled_file.h"
#include "vm/file_runner.h"
#include "vm/type_flow.h"

namespace kilter {

/// Default of Session::Options::plan_cache_bytes.
constexpr int64_t kDefaultPlanCacheBytes = int64_t{1} << 30;
/// Default of Session::Options::max_shapes.
constexpr int64_t kDefaultMaxShapes = 64;

/// Used by one thread at a time.
class Session {
 public:
  struct Options {
    CompileOptions compile;
    std::shared_ptr<const Chooser> chooser = nullptr;  ///< consulted for every plan; may be null
    int threads = 0;                                   ///< 0: default_threads()
    onnx::Model::Shapes shapes;  ///< of inputs, by name; others come from the model or the tensors
    /// The sizes that inputs may have. One with a single shape is also one of `shapes`.
    ShapeRanges ranges = {};
    /// The largest number of shapes of `ranges` for which specialise() and save() compile plans.
    int64_t max_shapes = kDefaultMaxShapes;
    bool verify_file = true;     ///< LoadOptions::verify for a compiled file
    std::string signed_by = {};  ///< LoadOptions::signed_by; other models are refused with it
    /// Limit in bytes, counted as by held_bytes(), on the plans other than the one in use. Above the limit, the least
    /// recently used plans are dropped; a Loaded& to one of them then dangles.
    int64_t plan_cache_bytes = kDefaultPlanCacheBytes;
    vm::CheckInterrupt interrupt = {};  ///< called in the loops of a program, which end if it throws
  };

  /// `model`: path of an .onnx file, `zoo:NAME`, a file written by `kilter compile`, or MemoryModel::name().
  static std::unique_ptr<Session> open(const std::string& model, Options options);

  /// Returns a session for the same network that shares this one's plans, weights included, and runs them on its own
  /// threads and in its own working memory. Plans that either session compiles later are not shared.
  std::unique_ptr<Session> twin() const;

  const std::string& name() const { return name_; }
  bool compiled_file() const { return model_ == nullptr && !graph_; }
  /// The declared inputs; for a compiled file, those of its plan.
  std::vector<onnx::Port> inputs() const;
  /// Inputs for which the model has a default value. Only those that Options::shapes names need a tensor.
  std::vector<onnx::Port> default_inputs() const;
  std::vector<onnx::Port> outputs() const;
  /// The model's graph before its shapes are known; null for a built-in network and a compiled file.
  std::shared_ptr<const OpenGraph> open_graph() const { return model_ ? model_->open_graph() : nullptr; }
  const Options& options() const { return options_; }
  /// The declared sizes of the inputs, with the model's names of dimensions; a compiled file contains its own.
  const ShapeRanges& ranges() const { return options_.ranges; }
  /// The first shapes of the ranges; none if there are no ranges.
  onnx::Model::Shapes example_shapes() const;
  /// The targets of a compiled file for several targets; empty for others.
  const std::vector<vm::TargetPart>& file_targets() const { return file_targets_; }
  /// Index in file_targets() of the one that runs.
  size_t file_target() const { return file_target_; }
  /// The plan of a compiled file; null for a model, which has a plan for each set of shapes, and for a file of a
  /// program.
  const Plan* file_plan() const { return compiled_file() && !file_program_ ? &plans_.front().loaded.plan() : nullptr; }
  /// The program of a compiled file; null for a model and for a file of a plan.
  const vm::FileProgram* file_program() const { return file_program_.get(); }
  /// A remark on how a compiled file runs here (base/other_threads.h); empty if there is none.
  std::string note() const;

  /// The static graph for these shapes. Throws unsupported for a compiled file, and NeedsProgram (as the following
  /// functions do) if the network is not one static graph.
  Graph graph(const onnx::Model::Shapes& shapes, const onnx::Model::Values& values = {}) const;
  /// The plan for `shapes`, which take precedence over Options::shapes; compiled on first use. `values`: the values of
  /// inputs that shapes depend on. Does not make the plan ready to run, so the target may be another machine. Plans
  /// share identical packed constants.
  Loaded& compile(const onnx::Model::Shapes& shapes = {}, const onnx::Model::Values& values = {});
  /// Like compile(), and makes the plan ready to run. Throws unsupported if this machine cannot run its code.
  Loaded& prepare(const onnx::Model::Shapes& shapes = {}, const onnx::Model::Values& values = {});
  /// The plan for the shapes of these inputs, and for the values of those that shapes depend on, ready to run.
  Loaded& prepare_for(const std::map<std::string, Tensor>& inputs);
  /// The static graph for the shapes of these inputs, and copies of the input values that shapes depend on.
  struct Bound {
    Graph graph;
    onnx::Model::Values values = {};
  };
  /// Throws like graph().
  Bound bind(const std::map<std::string, Tensor>& inputs) const;

  /// Runs the network once and returns the outputs in order. Every input of the model must be present with its declared
  /// element type; default inputs are optional. Looks at the model only if the inputs are unlike those of earlier runs
  /// whose plans are still kept. `outputs`: memory for outputs by name, which must have their element types and shapes
  /// and overlap neither each other nor inputs; otherwise throws bad_input.
  std::vector<Tensor> run(const std::map<std::string, Tensor>& inputs,
                          const std::map<std::string, Tensor>& outputs = {});

  /// Whether run() has found that the network is not one static graph, so that a program runs it.
  bool runs_program() const { return needs_program_; }
  /// As run(), for inputs and outputs of any kind. An optional input may be missing.
  std::vector<AnyValue> run_values(const std::map<std::string, AnyValue>& inputs,
                                   const std::map<std::string, Tensor>& outputs = {});

  /// The program that runs the network if it is not one static graph, created on first use. Throws unsupported for a
  /// compiled file and a built-in network.
  ProgramRunner& program();
  /// The functions of program(), or those of a compiled file.
  const vm::Program& functions() { return file_program_ ? file_program_->file().program : program().program(); }

  /// The largest number of shapes for which specialise() compiles plans if there are more than Options::max_shapes. For
  /// most networks, these include kernels of every structure.
  static constexpr int64_t kSpreadShapes = 16;
  struct Specialised {
    int64_t shapes = 0;  ///< that were compiled
    bool all = true;     ///< whether they are all shapes of the ranges
  };
  /// Compiles plans before the first run: for all shapes of the ranges, or for some that are spread over them if there
  /// are more than Options::max_shapes. Throws usage for a compiled file, bad_input if the sizes of an input are
  /// unknown, and unsupported if shapes depend on the values of inputs.
  Specialised specialise();
  /// As specialise(), but on a separate thread of the lowest priority while the session runs. A run with a shape that
  /// has no plan yet waits for the plan that is being compiled, and then compiles its own. Ends early when
  /// plan_cache_bytes is reached, and does nothing for a network that is not one static graph.
  void specialise_in_background();
  struct PlansAhead {
    int64_t made = 0, of = 0;
    bool ended = true;  ///< no more will be compiled
  };
  /// The progress of specialise_in_background().
  PlansAhead plans_ahead() const;
  /// Prevents plans from being compiled in the background while the result exists, so that times can be measured.
  std::optional<Background::Pause> pause_background();
  /// Ends specialise_in_background().
  void end_background() { background_.reset(); }

  /// Compiles for the shapes that are known and writes a compiled file, of a plan or of a program. It has plans for all
  /// shapes of the ranges; throws bad_input if there are more than Options::max_shapes.
  void save(const FileSink& file);
  /// The kind of file that save() writes: small if the options ask for recipes.
  vm::FileSize file_size() const;
  /// Whether save() writes a file with plans for several shapes.
  bool saves_shapes() const { return model_ != nullptr && options_.ranges.count() > 1; }
  /// Whether save() writes a program: for the known shapes, the network is not one static graph, or is one only for
  /// given values of its inputs. If not, the plan is compiled afterwards.
  bool saves_program();
  /// Compiles for the known shapes, or takes the plan of a compiled file, and writes a library that does not need
  /// Kilter. Throws unsupported for a network whose compiled file has a program or plans for several shapes.
  aot::Library save_library(aot::Form form, const std::filesystem::path& path, const aot::LibraryOptions& options);
  /// The network as a compiled file contains it.
  struct Saved {
    vm::Content content;
    std::vector<std::shared_ptr<const ConstantsHome>> homes;  ///< constants of its plans, which the session may drop
  };
  /// Compiles for the shapes that are known. The result is a plan; or a program with a plan for each shape of the
  /// ranges; or program(), with the plans of its segments for all shapes that follow from those of the inputs, and for
  /// those that earlier runs compiled. Valid until the session runs or is destroyed. Throws bad_input if there are too
  /// many shapes, or if a program has not run and shapes of inputs are open, and unsupported for a compiled file of a
  /// program.
  Saved saved();

  /// The program that runs shapes that differ from earlier ones only in dimensions on which little of the network
  /// depends; null if there is none yet.
  const ProgramRunner* varying_program() const { return varying_ ? varying_->last_runner() : nullptr; }

  /// Plans compiled in the background count once a run or compile() has taken them.
  size_t plans() const {
    return plans_.size() + (program_ ? program_->plans() : 0) + (varying_ ? varying_->plans() : 0);
  }
  /// Returns the attendance of the threads in all runs.
  Attendance attendance() const { return pool_->attendance(); }
  /// Bytes of machine code, packed constants (shared ones counted once), working memory and outputs of all plans.
  int64_t held_bytes() const;

 private:
  /// Loads a compiled file into the session.
  void take(vm::CompiledFile file);
  Saved saved_plan();
  Saved saved_shapes_program();
  Saved saved_program();
  struct Kept {
    onnx::Model::Shapes shapes;
    onnx::Model::Values values;
    Loaded loaded;
    std::optional<KnownInputs> known;  ///< the inputs of the last run() with this plan
  };
  /// Plans that are compiled in the background. Tasks use all members; while a task runs, the session uses only `done`,
  /// `made` and `notices`.
  struct Ahead {
    std::vector<onnx::Model::Shapes> shapes;
    CompileOptions compile;
    size_t next = 0;                        ///< index among the shapes
    std::set<onnx::Model::Shapes> planned;  ///< whole shapes that have a plan
    int64_t code_bytes = 0;                 ///< of the plans
    std::atomic<int64_t> done{0};           ///< shapes that have a plan or cannot have one
    mutable std::mutex mutex;               ///< of the next two
    std::list<Kept> made;                   ///< plans that the session has not taken yet
    std::vector<std::string> notices;
  };
  Session() = default;
  static std::unique_ptr<Session> open_unbound(const std::string& model, Options options);
  void bind_ranges();
  void fix_single_shapes();
  std::vector<onnx::Port> declared_inputs() const;
  void check_known(const std::vector<onnx::Port>& ports) const;
  std::vector<onnx::Model::Shapes> shapes_ahead() const;
  std::vector<onnx::Model::Shapes> saved_shapes() const;
  void for_each_shape(const std::vector<onnx::Model::Shapes>& all,
                      const std::function<void(const onnx::Model::Shapes&)>& each);
  std::vector<vm::KnownType> known_types(const onnx::Model::Shapes& shapes) const;
  void check_inputs(const std::map<std::string, AnyValue>& inputs) const;
  void check_shapes(const Plan& plan, const std::map<std::string, Tensor>& inputs) const;
  onnx::Model::Shapes merged(const onnx::Model::Shapes& shapes) const;
  /// As merged(), with the shapes that the model declares: the key of a plan.
  onnx::Model::Shapes whole(const onnx::Model::Shapes& shapes) const;
  int64_t own_bytes(const Kept& kept) const;
  SharedParts shared_parts();
  void share_kernels();
  bool plan_ahead(const Background::Check& check);
  void take_made();
  Kept& use(std::list<Kept>::iterator kept);
  int64_t ahead_bytes() const;
  Kept* find_kept(const onnx::Model::Shapes& whole, const onnx::Model::Values& values);
  void check_plain() const;
  bool has_plan(const std::map<std::string, Tensor>& inputs) const;
  Kept make_kept(const onnx::Model::Shapes& whole, const onnx::Model::Values& values, CompileOptions compile,
                 std::optional<Graph> bound = std::nullopt) const;
  Kept& kept_for(const onnx::Model::Shapes& shapes, const onnx::Model::Values& values,
                 std::optional<Graph> bound = std::nullopt);
  Loaded& prepare_bound(const std::map<std::string, Tensor>& inputs, Bound bound);
  std::vector<Tensor> run_program(const std::map<std::string, AnyValue>& inputs,
                                  const std::map<std::string, Tensor>& outputs);
  std::vector<AnyValue> program_values(const std::map<std::string, AnyValue>& inputs);
  std::vector<AnyValue> open_inputs(const std::map<std::string, AnyValue>& inputs) const;
  ProgramRunner* varying_runner(const std::map<std::string, Tensor>& inputs);
  std::vector<Tensor> tensors_of(std::vector<AnyValue> values, const std::map<std::string, AnyValue>& inputs,
                                 const std::map<std::string, Tensor>& outputs) const;
  void write_outputs(std::vector<AnyValue>& values, const std::map<std::string, AnyValue>& inputs,
                     const std::map<std::string, Tensor>& outputs) const;
  void make_ready(Loaded& loaded);
  void release_replaced();
  void drop_unused();

  std::string name_;
  Options options_;
  std::shared_ptr<const onnx::Model> model_;
  std::optional<Graph> graph_;  ///< of a built-in network, or in memory
  std::shared_ptr<ThreadPool> pool_;
  SharedConstants constants_;
  std::unique_ptr<KernelStore> kernels_;  ///< null if the network has only one plan
  std::unique_ptr<ConstantMemo> memo_;    ///< null until there is a second plan
  WorkMemory work_;
  std::list<Kept> plans_;                 ///< most recently used first
  bool needs_program_ = false;            ///< the network is not one static graph for some inputs
  std::set<std::string> program_inputs_;  ///< default inputs for which the program takes values
  std::unique_ptr<ProgramRunner> program_;
  std::optional<VaryingShapes> varying_;                 ///< absent until there is a second plan
  std::shared_ptr<const vm::FileProgram> file_program_;  ///< of a compiled file
  std::vector<vm::TargetPart> file_targets_;             ///< of a compiled file for several targets
  size_t file_target_ = 0;
  std::unique_ptr<vm::FileRunner> file_runner_;
  std::unique_ptr<Ahead> ahead_;
  std::unique_ptr<Background> background_;  ///< the last member, so that it ends before the others are destroyed
};

/// A seeded random tensor: floats from N(0,1), integers from 0 to `most`, random booleans. Each input's name has its
/// own random stream.
Tensor random_input(const std::string& name, DType type, const Shape& shape, uint64_t seed = 0, int64_t most = 99);

}  // namespace kilter
