#include "compile/loaded.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <functional>

#include "exec/plan_check.h"

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

namespace {

bool overlap(const Tensor& a, const Tensor& b) {
  const std::less<const std::byte*> before;
  return a.bytes() > 0 && b.bytes() > 0 && before(a.raw(), b.raw() + b.bytes()) && before(b.raw(), a.raw() + a.bytes());
}

/// Throws bad_input if memory for an output is also that of an input or of another output.
void check_apart(const KnownInputs::Inputs& inputs, const std::map<std::string, Tensor>& given) {
  for (auto output = given.begin(); output != given.end(); ++output) {
    for (const auto& [name, tensor] : inputs) {
      if (tensor.dtype() != DType::string && overlap(output->second, tensor))
        fail(ErrorKind::bad_input, "memory for output '{}' overlaps input '{}'; give it memory of its own",
             output->first, name);
    }
    for (auto other = given.begin(); other != output; ++other) {
      if (overlap(output->second, other->second))
        fail(ErrorKind::bad_input, "memory for output '{}' overlaps that for output '{}'; give it memory of its own",
             output->first, other->first);
    }
  }
}

}  // namespace

void check_outputs(const std::vector<PlanTensor>& ports, const std::map<std::string, Tensor>& inputs,
                   const std::map<std::string, Tensor>& given) {
  for (const auto& [name, tensor] : given) {
    const auto port = std::ranges::find(ports, name, &PlanTensor::name);
    if (port == ports.end()) {
      std::vector<std::string> names;
      for (const PlanTensor& p : ports) names.push_back(p.name);
      fail(ErrorKind::bad_input, "memory for output '{}': there is no such output; legal values are {}", name,
           fmt::join(names, ", "));
    }
    if (port->type != tensor.dtype() || port->shape != tensor.shape()) {
      fail(ErrorKind::bad_input, "memory for output '{}' must be {}[{}], got {}[{}]", name, kilter::name(port->type),
           text(port->shape), kilter::name(tensor.dtype()), text(tensor.shape()));
    }
  }
  check_apart(inputs, given);
}

std::vector<Tensor> KnownInputs::run(Loaded& loaded, const Inputs& inputs, const std::map<std::string, Tensor>& given) {
  auto input = inputs_.begin();
  for (const auto& [name, tensor] : inputs) {
    if (input->slot >= 0) from_[static_cast<size_t>(input->slot)] = tensor.raw();
    ++input;
  }
  const std::vector<PlanTensor>& ports = loaded.plan().outputs;
  if (!given.empty()) check_outputs(ports, inputs, given);
  std::vector<Tensor> outputs;
  outputs.reserve(ports.size());
  for (size_t i = 0; i < ports.size(); ++i) {
    const auto own = given.empty() ? given.end() : given.find(ports[i].name);
    outputs.push_back(own != given.end() ? own->second : outputs_[i].take(ports[i].type, ports[i].shape));
    to_[i] = outputs.back().raw();
  }
  loaded.instance->run(from_, to_);
  return outputs;
}

int64_t held_bytes(const Loaded& loaded, int threads) {
  const Plan& plan = loaded.plan();
  int64_t bytes = plan.code_bytes;
  if (loaded.instance == nullptr) return bytes;
  bytes += plan.code_bytes;
  if (loaded.work == nullptr) bytes += plan.arena_bytes + least_scratch_stride(plan) * threads + staging_bytes(plan);
  return bytes;
}

int64_t output_bytes(const Plan& plan) {
  int64_t bytes = 0;
  for (const PlanTensor& t : plan.outputs) bytes += *tensor_bytes(t.type, t.shape);
  return bytes;
}

WorkNeeds WorkNeeds::of(const Plan& plan) {
  return {plan.arena_bytes, least_scratch_stride(plan), staging_bytes(plan)};
}

WorkNeeds WorkNeeds::with(const WorkNeeds& other) const {
  return {std::max(arena, other.arena), std::max(scratch_stride, other.scratch_stride),
          std::max(staging, other.staging)};
}

void WorkMemory::expect(const Plan& plan) { expected_ = expected_.with(WorkNeeds::of(plan)); }

void WorkMemory::allocate(const WorkNeeds& needs, int threads, const std::string& model) {
  auto blocks = std::make_shared<WorkBlocks>();
  blocks->has = needs;
  const int64_t scratch_bytes = needs.scratch_stride * threads;
  blocks->bytes = needs.arena + scratch_bytes + needs.staging;
  blocks->arena = Block(needs.arena, "the arena of '" + model + "'");
  blocks->scratch = Block(scratch_bytes, "the scratch memory of '" + model + "'");
  blocks->staging = Block(needs.staging, "the copies of inputs and outputs of '" + model + "'");
  blocks_ = std::move(blocks);
}

void WorkMemory::prepare(Loaded& loaded, const std::shared_ptr<ThreadPool>& pool) {
  const bool current = loaded.work == nullptr || loaded.work == blocks_;
  if (loaded.instance != nullptr && current) return;
  if (loaded.program == nullptr) loaded.program = std::make_shared<Program>(loaded.plan());
  const Plan& plan = loaded.plan();
  const WorkNeeds before = blocks_ != nullptr ? blocks_->has : WorkNeeds();
  const WorkNeeds least = before.with(WorkNeeds::of(plan));
  if (blocks_ == nullptr || least != before) {
    release(loaded);
    blocks_ = nullptr;  // frees the earlier memory first if no other plan uses it
    const WorkNeeds wanted = least.with(expected_);
    try {
      allocate(wanted, pool->threads(), plan.model);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::out_of_memory || wanted == least) throw;
      expected_ = {};
      allocate(least, pool->threads(), plan.model);
    }
  }
  const Placement placement{blocks_->arena.data(), blocks_->scratch.data(), blocks_->has.scratch_stride,
                            blocks_->staging.data()};
  loaded.instance = std::make_unique<Instance>(loaded.program, pool, placement);
  loaded.work = blocks_;
}

void WorkMemory::release(Loaded& loaded) const {
  if (loaded.work == nullptr || loaded.work == blocks_) return;
  loaded.instance.reset();
  loaded.work.reset();
}

}  // namespace kilter
