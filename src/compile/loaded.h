// One plan of a session, and the runs of it that find their way without looking at the model again.
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

namespace kilter {

/// One plan; ready to run once prepared.
struct Loaded {
  std::shared_ptr<const Program> program;
  std::unique_ptr<Instance> instance;
  Compiled compiled;                                            ///< of compiled files only the plan
  std::shared_ptr<const SharedConstants::Home> home = nullptr;  ///< where the plan shares constants with others
  const Plan& plan() const { return program != nullptr ? program->plan() : compiled.plan; }
  /// Bytes of the plan's packed constants, those shared with other plans included.
  int64_t constants_bytes() const { return home != nullptr ? kilter::constants_bytes(*home) : plan().constants_bytes; }
  /// The plan as it was compiled, for save_plan().
  Plan own_plan() const { return home != nullptr ? with_own_constants(plan(), *home) : plan(); }
};

/// Runs a loaded plan on dense tensors in the plan's order.
std::vector<Tensor> run_plan(Loaded& loaded, const std::vector<Tensor>& inputs, const StepObserver* observer = nullptr);

/// Inputs that a plan has run on: others like them run on it too, which is told without looking at the model.
class KnownInputs {
 public:
  using Inputs = std::map<std::string, Tensor>;
  /// `needed`: inputs whose values the plan was made for.
  KnownInputs(const Plan& plan, const Inputs& inputs, const std::map<std::string, Tensor>& needed);

  /// Whether these have the same names, types and shapes, and the same values where the plan was made for values.
  bool like(const Inputs& inputs) const;
  /// Runs the plan on inputs like these. The outputs' memory is that of the run before where nobody has it any more.
  std::vector<Tensor> run(Loaded& loaded, const Inputs& inputs);

 private:
  struct Input {
    std::string name;
    DType type = DType::f32;
    Shape shape;
    Tensor value;       ///< defined where the plan was made for it
    int64_t slot = -1;  ///< among the plan's inputs; -1: it is none
  };
  std::vector<Input> inputs_;  ///< by name
  std::vector<const std::byte*> from_;
  std::vector<std::byte*> to_;
  std::vector<std::shared_ptr<std::byte>> outputs_;
};

}  // namespace kilter
