#include "compile/loaded.h"

#include <algorithm>
#include <atomic>

namespace kilter {

std::vector<Tensor> run_plan(Loaded& loaded, const std::vector<Tensor>& inputs, const StepObserver* observer) {
  std::vector<const std::byte*> from;
  std::vector<std::byte*> to;
  std::vector<Tensor> outputs;
  for (const Tensor& t : inputs) from.push_back(t.raw());
  for (const PlanTensor& t : loaded.plan().outputs) outputs.emplace_back(t.type, t.shape);
  for (const Tensor& t : outputs) to.push_back(t.raw());
  loaded.instance->run(from, to, observer);
  return outputs;
}

KnownInputs::KnownInputs(const Plan& plan, const Inputs& inputs, const std::map<std::string, Tensor>& needed)
    : from_(plan.inputs.size()), to_(plan.outputs.size()), outputs_(plan.outputs.size()) {
  for (const auto& [name, tensor] : inputs) {
    const auto value = needed.find(name);
    const auto place = std::find_if(plan.inputs.begin(), plan.inputs.end(),
                                    [&](const PlanTensor& input) { return input.name == name; });
    inputs_.push_back({name, tensor.dtype(), tensor.shape(), value == needed.end() ? Tensor() : value->second,
                       place == plan.inputs.end() ? -1 : place - plan.inputs.begin()});
  }
}

bool KnownInputs::like(const Inputs& inputs) const {
  return std::equal(inputs_.begin(), inputs_.end(), inputs.begin(), inputs.end(), [](const Input& a, const auto& b) {
    const Tensor& tensor = b.second;
    return a.name == b.first && a.type == tensor.dtype() && a.shape == tensor.shape() &&
           (!a.value.defined() || a.value.same(tensor));
  });
}

std::vector<Tensor> KnownInputs::run(Loaded& loaded, const Inputs& inputs) {
  auto input = inputs_.begin();
  for (const auto& [name, tensor] : inputs) {
    if (input->slot >= 0) from_[static_cast<size_t>(input->slot)] = tensor.raw();
    ++input;
  }
  const std::vector<PlanTensor>& ports = loaded.plan().outputs;
  std::vector<Tensor> outputs;
  outputs.reserve(ports.size());
  for (size_t i = 0; i < ports.size(); ++i) {
    std::shared_ptr<std::byte>& memory = outputs_[i];
    if (memory.use_count() == 1) {
      // The previous holder may have read the bytes in another thread before releasing them.
      std::atomic_thread_fence(std::memory_order_acquire);
    } else {
      const auto fresh = std::make_shared<Tensor>(ports[i].type, ports[i].shape);
      memory = std::shared_ptr<std::byte>(fresh, fresh->raw());
    }
    outputs.emplace_back(ports[i].type, ports[i].shape, memory.get(), memory);
    to_[i] = memory.get();
  }
  loaded.instance->run(from_, to_);
  return outputs;
}

}  // namespace kilter
