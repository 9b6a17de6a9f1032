// A reference step of a plan that a runtime kernel runs.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "exec/kernels/kernel.h"
#include "exec/plan.h"

namespace kilter {

/// Used by one thread at a time.
class StepKernel {
 public:
  /// Returns null if no runtime kernel computes the operator for these attributes and operands, or if the step was
  /// given the reference kernel (schedule_source.h). `step` must outlive the result.
  static std::unique_ptr<StepKernel> make(const Step& step);

  /// Runs the step. `buffers`: the present inputs, then the present outputs. Returns false if the kernel does not take
  /// the values of the operands; the outputs are then unchanged. Throws bad_input for an index or a region out of
  /// range.
  bool run(std::span<std::byte* const> buffers, ThreadPool* pool);

 private:
  StepKernel(const ReferenceCall& call, const RuntimeKernel& kernel, KernelAttrs attrs);

  const ReferenceCall& call_;
  const RuntimeKernel& kernel_;
  KernelAttrs attrs_;
  std::vector<KernelOperand> operands_;
};

}  // namespace kilter
