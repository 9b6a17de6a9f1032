#include "exec/kernels/step_kernel.h"

#include <algorithm>

#include "base/error.h"
#include "exec/kernels/call_attributes.h"
#include "exec/schedule_source.h"

namespace kilter {
namespace {

KernelCall kernel_call(const ReferenceCall& call, const KernelAttrs& attrs) {
  return {call.op, call.name, call.opset, attrs};
}

/// Hands out the buffers of a step's outputs, whose shapes are fixed by the plan.
class StepResults : public KernelResults {
 public:
  StepResults(const ReferenceCall& call, std::span<std::byte* const> outputs) : call_(call), outputs_(outputs) {}

  bool wants(size_t output) const override { return output < call_.outputs.size() && call_.outputs[output].present; }
  std::byte* make(size_t output, DType type, std::span<const int64_t> shape) override {
    const ReferenceCall::Operand& planned = call_.outputs.at(output);
    if (type != planned.type || !std::ranges::equal(shape, planned.shape)) {
      fail(ErrorKind::bad_input, "{} '{}': output {} has shape {} for these inputs; it was compiled for {}", call_.op,
           call_.name, output, text(Shape(shape.begin(), shape.end())), text(planned.shape));
    }
    const auto before =
        std::count_if(call_.outputs.begin(), call_.outputs.begin() + static_cast<std::ptrdiff_t>(output),
                      [](const ReferenceCall::Operand& o) { return o.present; });
    return outputs_[static_cast<size_t>(before)];
  }

 private:
  const ReferenceCall& call_;
  std::span<std::byte* const> outputs_;
};

}  // namespace

StepKernel::StepKernel(const ReferenceCall& call, const RuntimeKernel& kernel, KernelAttrs attrs)
    : call_(call), kernel_(kernel), attrs_(std::move(attrs)) {
  for (const ReferenceCall::Operand& input : call.inputs) {
    const int64_t count = input.present ? elems(input.shape) : 0;
    operands_.push_back({input.present, input.type, input.shape, count, nullptr});
  }
}

std::unique_ptr<StepKernel> StepKernel::make(const Step& step) {
  if (schedule_source(step.record) == ScheduleSource::given) return nullptr;
  const ReferenceCall& call = step.reference;
  const RuntimeKernel* kernel = find_runtime_kernel(call.domain, call.op, call.opset);
  if (kernel == nullptr) return nullptr;
  std::optional<KernelAttrs> attrs = read_attributes(call.attrs);
  if (!attrs) return nullptr;
  std::unique_ptr<StepKernel> made(new StepKernel(call, *kernel, std::move(*attrs)));
  return kernel->takes(kernel_call(call, made->attrs_), made->operands_) ? std::move(made) : nullptr;
}

bool StepKernel::run(std::span<std::byte* const> buffers, ThreadPool* pool) {
  size_t next = 0;
  for (KernelOperand& operand : operands_) {
    if (operand.present) operand.data = buffers[next++];
  }
  StepResults results(call_, buffers.subspan(next));
  return kernel_.run(kernel_call(call_, attrs_), operands_, results, pool);
}

}  // namespace kilter
