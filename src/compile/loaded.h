// One plan of a session, and repeated runs of it that do not need the model.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/tensor.h"
#include "compile/compile.h"
#include "compile/shared_constants.h"
#include "exec/executor.h"
#include "exec/memory.h"
#include "exec/output_memory.h"

namespace kilter {

/// The working memory of a plan in bytes, or the maximum over several plans.
struct WorkNeeds {
  int64_t arena = 0;
  int64_t scratch_stride = 0;  ///< per worker
  int64_t staging = 0;

  static WorkNeeds of(const Plan& plan);
  WorkNeeds with(const WorkNeeds& other) const;
  bool operator==(const WorkNeeds&) const = default;
};

/// Working memory of instances.
struct WorkBlocks {
  Block arena, scratch, staging;
  WorkNeeds has;
  int64_t bytes = 0;  ///< of all blocks
};

/// One plan. It is ready to run once it has been prepared.
struct Loaded {
  std::shared_ptr<const Program> program;
  std::unique_ptr<Instance> instance;
  Compiled compiled;                                 ///< for a compiled file, only the plan
  std::shared_ptr<const WorkBlocks> work = nullptr;  ///< what `instance` works in; null: it has its own memory
  const Plan& plan() const { return program != nullptr ? program->plan() : compiled.plan; }
  /// Bytes of the plan's packed constants, including those shared with other plans.
  int64_t constants_bytes() const {
    return compiled.home != nullptr ? kilter::constants_bytes(*compiled.home) : plan().constants_bytes;
  }
  /// The plan as it was compiled, for save_plan().
  Plan own_plan() const { return compiled.home != nullptr ? with_own_constants(plan(), *compiled.home) : plan(); }
};

/// Working memory that several plans, which never run at the same time, use in turn.
class WorkMemory {
 public:
  /// Makes a plan ready to run on the pool. If it needs more memory than the plans before it, the memory is replaced.
  /// Plans that used the old memory keep it until prepare() or release() is called for them.
  void prepare(Loaded& loaded, const std::shared_ptr<ThreadPool>& pool);
  /// Ensures that the memory is large enough for this plan too when it is next replaced, unless the machine lacks that
  /// much memory.
  void expect(const Plan& plan);
  /// If the plan uses memory that has been replaced, makes it not ready.
  void release(Loaded& loaded) const;
  int64_t bytes() const { return blocks_ != nullptr ? blocks_->bytes : 0; }

 private:
  void allocate(const WorkNeeds& needs, int threads, const std::string& model);

  std::shared_ptr<const WorkBlocks> blocks_;
  WorkNeeds expected_;  ///< the maximum over the plans passed to expect()
};

/// Bytes of a plan's machine code and, once it is ready to run on `threads` threads, of its own working memory.
int64_t held_bytes(const Loaded& loaded, int threads);
/// Bytes of one result of a plan.
int64_t output_bytes(const Plan& plan);

/// Throws bad_input unless these outputs exist and their memory has the types and shapes of the ports and overlaps
/// neither that of another output nor that of an input.
void check_outputs(const std::vector<PlanTensor>& ports, const std::map<std::string, Tensor>& inputs,
                   const std::map<std::string, Tensor>& given);

/// Runs a loaded plan on dense tensors in the plan's order.
std::vector<Tensor> run_plan(Loaded& loaded, const std::vector<Tensor>& inputs, const StepObserver* observer = nullptr);

/// Describes inputs on which a plan has run. The plan also runs on similar inputs, without looking at the model.
class KnownInputs {
 public:
  using Inputs = std::map<std::string, Tensor>;
  /// `needed`: the inputs whose values the plan was compiled for, with those values.
  KnownInputs(const Plan& plan, const Inputs& inputs, const std::map<std::string, Tensor>& needed);

  /// Returns whether these inputs have the same names, types and shapes, and the same values where the plan depends on
  /// them.
  bool like(const Inputs& inputs) const;
  /// Runs the plan on inputs that are like() these. Outputs that `given` names are written there; others reuse the
  /// memory of the previous run's outputs if nothing else refers to it any more.
  std::vector<Tensor> run(Loaded& loaded, const Inputs& inputs, const std::map<std::string, Tensor>& given = {});

 private:
  struct Input {
    std::string name;
    DType type = DType::f32;
    Shape shape;
    Tensor value;       ///< defined if the plan was compiled for it
    int64_t slot = -1;  ///< index among the plan's inputs; -1: not one of them
  };
  std::vector<Input> inputs_;  ///< by name
  std::vector<const std::byte*> from_;
  std::vector<std::byte*> to_;
  std::vector<OutputMemory> outputs_;
};

}  // namespace kilter
