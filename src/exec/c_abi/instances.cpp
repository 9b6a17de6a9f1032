// The C interface to instances.
#include <algorithm>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/float_environment.h"
#include "base/other_threads.h"
#include "exec/c_abi/support.h"

void kilter_instance::check_cancelled() const {
  if (use.load(std::memory_order_relaxed) == kilter::c_abi::Use::cancelled)
    throw kilter::c_abi::Cancelled(kilter::ErrorKind::usage, "the run was ended by kilter_instance_cancel()");
}

void kilter_instance::begin(const kilter::vm::Instr& instr) {
  check_cancelled();
  if (watch != nullptr) watch->begin_instr(instr);
}

void kilter_instance::end() {
  if (watch != nullptr) watch->end();
}

void kilter_instance::begin_step(const kilter::Program& of_plan, size_t step) {
  check_cancelled();
  if (watch != nullptr) watch->begin_step(of_plan, step);
}

namespace kilter::c_abi {
namespace {

void check_count(const char* what, size_t got, size_t expected) {
  if (got != expected) fail(ErrorKind::bad_input, "{} {} are given; expected {}", got, what, expected);
}

void check_inputs(const kilter_instance& instance, const void* inputs, size_t count) {
  if (count > 0) not_null(inputs, "inputs");
  const auto& program = instance.program;
  check_count("inputs", count, program ? program->program().file().inputs.size() : instance.of->plan().inputs.size());
}

std::vector<AnyValue> run_program(kilter_instance& instance, std::vector<AnyValue> inputs) {
  const FloatEnvironment standard;
  return instance.program->run(std::move(inputs));
}

/// Runs a plan on values.
std::vector<AnyValue> run_plan(kilter_instance& instance, const std::vector<AnyValue>& inputs) {
  const Plan& plan = instance.of->plan();
  std::vector<const std::byte*> from;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const PlanTensor& port = plan.inputs[i];
    const AnyValue& value = inputs[i];
    if (!value.is_tensor() || value.tensor().dtype() != port.type || value.tensor().shape() != port.shape)
      fail(ErrorKind::bad_input, "{}: input '{}' must be {}[{}], got {}", plan.model, port.name, name(port.type),
           text(port.shape), text(value));
    from.push_back(value.tensor().raw());
  }
  std::vector<AnyValue> outputs;
  std::vector<std::byte*> to;
  for (size_t i = 0; i < plan.outputs.size(); ++i) {
    const PlanTensor& port = plan.outputs[i];
    outputs.emplace_back(instance.memory[i].take(port.type, port.shape, instance.from()));
    to.push_back(outputs.back().tensor().raw());
  }
  instance.plan->run(from, to, &instance.steps);
  return outputs;
}

/// Runs a program whose inputs and outputs are tensors of known sizes on the caller's memory.
void run_fixed(kilter_instance& instance, std::span<const void* const> inputs, std::span<void* const> outputs) {
  const vm::ProgramFile& file = instance.program->program().file();
  for (const auto* ports : {&file.inputs, &file.outputs}) {
    for (const vm::FilePort& port : *ports) {
      if (port.is_fixed()) continue;
      fail(ErrorKind::unsupported, "{}: '{}' is {}, so its size is not known in advance; use {}", file.model, port.name,
           vm::text(port), "kilter_instance_run_values()");
    }
  }
  check_count("inputs", inputs.size(), file.inputs.size());
  check_count("outputs", outputs.size(), file.outputs.size());
  std::vector<AnyValue> values;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const vm::FilePort& port = file.inputs[i];
    if (elems(*port.dims) > 0) not_null(inputs[i], "inputs[i]");
    auto* data = const_cast<std::byte*>(static_cast<const std::byte*>(inputs[i]));  // inputs are never written
    Tensor tensor(port.type, *port.dims, data, nullptr);
    const bool aligned = reinterpret_cast<uintptr_t>(data) % static_cast<uintptr_t>(size_bytes(port.type)) == 0;
    values.emplace_back(aligned ? std::move(tensor) : tensor.clone());
  }
  const std::vector<AnyValue> results = run_program(instance, std::move(values));
  for (size_t i = 0; i < outputs.size(); ++i) {
    const vm::FilePort& port = file.outputs[i];
    const AnyValue& result = results[i];
    if (!result.is_tensor() || result.tensor().dtype() != port.type || result.tensor().shape() != *port.dims)
      fail(ErrorKind::unsupported, "{}: output '{}' is {}, although the model declares {}; use {}", file.model,
           port.name, text(result), vm::text(port), "kilter_instance_run_values()");
    if (result.tensor().bytes() == 0) continue;
    not_null(outputs[i], "outputs[i]");
    std::memcpy(outputs[i], result.tensor().raw(), static_cast<size_t>(result.tensor().bytes()));
  }
}

/// Makes the plan ready to run, in memory of the allocator if there is one.
void open_plan(kilter_instance& instance, const kilter_program& program, std::shared_ptr<ThreadPool> pool) {
  const Plan& plan = program.plan->plan();
  instance.of = program.plan;
  instance.memory.resize(plan.outputs.size());
  instance.steps.before = [&instance](size_t step) { instance.begin_step(*instance.of, step); };
  Placement placement;
  if (const Allocator* from = instance.from()) {
    placement.scratch_stride = least_scratch_stride(plan);
    instance.arena = Block(plan.arena_bytes, "the arena of '" + plan.model + "'", from);
    instance.scratch = Block(placement.scratch_stride * pool->threads(), "the scratch of '" + plan.model + "'", from);
    instance.staging = Block(staging_bytes(plan), "the copies of inputs and outputs of '" + plan.model + "'", from);
    placement.arena = instance.arena.data();
    placement.scratch = instance.scratch.data();
    placement.staging = instance.staging.data();
  }
  instance.plan = std::make_unique<Instance>(program.plan, std::move(pool), placement);
}

void open_program(kilter_instance& instance, const kilter_program& program, std::shared_ptr<ThreadPool> pool) {
  vm::RunnerHooks hooks;
  hooks.before = [&instance](const Program& plan, size_t step) { instance.begin_step(plan, step); };
  hooks.after = [&instance](const Program&, size_t) { instance.end(); };
  hooks.allocator = instance.allocator;
  instance.program =
      std::make_unique<vm::FileRunner>(program.program, std::move(pool), vm::CheckInterrupt(), std::move(hooks));
  instance.program->observe(&instance);
}

std::shared_ptr<ThreadPool> pool_of(const kilter_instance_options& options) {
  if (options.pool == nullptr) return std::make_shared<ThreadPool>(options.threads);
  if (options.threads != 0) {
    fail(
        ErrorKind::usage,
        "kilter_instance_options: threads {} and a pool of {}; a pool has its own number of threads, so `threads` must "
        "be 0",
        options.threads, options.pool->threads->threads());
  }
  return options.pool->threads;
}

std::unique_ptr<kilter_instance> make_instance(const kilter_program& program, const kilter_instance_options& options) {
  auto made = std::make_unique<kilter_instance>();
  if (options.allocator != nullptr) {
    not_null(reinterpret_cast<const void*>(options.allocator->allocate), "allocator->allocate");
    not_null(reinterpret_cast<const void*>(options.allocator->release), "allocator->release");
    made->allocator = Allocator{options.allocator->allocate, options.allocator->release, options.allocator->user};
  }
  std::shared_ptr<ThreadPool> pool = pool_of(options);
  const int compiled_for = program.plan ? program.plan->plan().compiled_for : program.program->file().compiled_for;
  const std::string& model = program.plan ? program.plan->plan().model : program.program->file().model;
  made->note = other_threads_text(compiled_for, pool->threads());
  log(KILTER_LOG_INFO, "{}: instance on {} threads{}", model, pool->threads(),
      options.pool != nullptr ? " of a pool" : "");
  if (!made->note.empty()) log(KILTER_LOG_WARNING, "{}: {}", model, made->note);
  if (program.plan) {
    open_plan(*made, program, std::move(pool));
  } else {
    open_program(*made, program, std::move(pool));
  }
  return made;
}

}  // namespace

InUse::InUse(kilter_instance& instance) : instance_(instance) {
  Use idle = Use::idle;
  if (!instance_.use.compare_exchange_strong(idle, Use::running, std::memory_order_acquire))
    fail(ErrorKind::usage, "this instance is already running in another thread; create one instance for each thread");
}

std::vector<AnyValue> run_held(kilter_instance& instance, const kilter_value* const* inputs, size_t input_count) {
  check_inputs(instance, inputs, input_count);
  const auto& program = instance.program;
  std::vector<AnyValue> values;
  for (size_t i = 0; i < input_count; ++i) values.push_back(inputs[i] == nullptr ? AnyValue() : inputs[i]->value);
  for (const BoundState& bound : instance.state) {
    if (inputs[bound.input] != nullptr) {
      fail(ErrorKind::usage, "a value is given for input {}, which is bound to the state; give NULL", bound.input);
    }
    values[bound.input] = bound.value;
  }
  std::vector<AnyValue> results = program ? run_program(instance, std::move(values)) : run_plan(instance, values);
  for (BoundState& bound : instance.state) bound.value = std::exchange(results[bound.output], AnyValue());
  return results;
}

}  // namespace kilter::c_abi

using kilter::c_abi::guarded;
using kilter::c_abi::not_null;

kilter_status kilter_instance_create(const kilter_program* program, int threads, kilter_instance** instance) {
  kilter_instance_options options = KILTER_INSTANCE_OPTIONS;
  options.threads = threads;
  return kilter_instance_create_with(program, &options, instance);
}

kilter_status kilter_instance_create_with(const kilter_program* program, const kilter_instance_options* options,
                                          kilter_instance** instance) {
  if (instance != nullptr) *instance = nullptr;
  return guarded([&] {
    not_null(program, "program");
    not_null(instance, "instance");
    kilter_instance_options given = KILTER_INSTANCE_OPTIONS;
    if (options != nullptr) {
      kilter::c_abi::take_options(options, options->struct_bytes, sizeof(given), &given, sizeof(given),
                                  "kilter_instance_options", "KILTER_INSTANCE_OPTIONS");
    }
    *instance = kilter::c_abi::make_instance(*program, given).release();
  });
}

void kilter_instance_free(kilter_instance* instance) { delete instance; }

const char* kilter_instance_note(const kilter_instance* instance) {
  return instance == nullptr ? "" : instance->note.c_str();
}

kilter_status kilter_instance_cancel(kilter_instance* instance) {
  return guarded([&] {
    not_null(instance, "instance");
    auto running = kilter::c_abi::Use::running;
    instance->use.compare_exchange_strong(running, kilter::c_abi::Use::cancelled, std::memory_order_relaxed);
  });
}

kilter_status kilter_instance_run(kilter_instance* instance, const void* const* inputs, size_t input_count,
                                  void* const* outputs, size_t output_count) {
  return guarded([&] {
    not_null(instance, "instance");
    if (input_count > 0) not_null(inputs, "inputs");
    if (output_count > 0) not_null(outputs, "outputs");
    const kilter::c_abi::InUse in_use(*instance);
    if (!instance->state.empty()) {
      kilter::fail(kilter::ErrorKind::usage, "the instance keeps state between runs; use {}",
                   "kilter_instance_run_values()");
    }
    if (instance->program) return kilter::c_abi::run_fixed(*instance, {inputs, input_count}, {outputs, output_count});
    instance->plan->run({reinterpret_cast<const std::byte* const*>(inputs), input_count},
                        {reinterpret_cast<std::byte* const*>(outputs), output_count}, &instance->steps);
  });
}

kilter_status kilter_instance_run_values(kilter_instance* instance, const kilter_value* const* inputs,
                                         size_t input_count, kilter_value** outputs, size_t output_count) {
  if (outputs != nullptr) std::fill_n(outputs, output_count, nullptr);
  return guarded([&] {
    not_null(instance, "instance");
    kilter::c_abi::check_inputs(*instance, inputs, input_count);
    if (output_count > 0) not_null(outputs, "outputs");
    const auto& program = instance->program;
    kilter::c_abi::check_count(
        "outputs", output_count,
        program ? program->program().file().outputs.size() : instance->of->plan().outputs.size());
    const kilter::c_abi::InUse in_use(*instance);
    std::vector<kilter::AnyValue> results = kilter::c_abi::run_held(*instance, inputs, input_count);
    std::vector<std::unique_ptr<kilter_value>> made;
    for (kilter::AnyValue& result : results) made.push_back(std::make_unique<kilter_value>(std::move(result)));
    for (const kilter::c_abi::BoundState& bound : instance->state) made[bound.output].reset();
    for (size_t i = 0; i < output_count; ++i) outputs[i] = made[i].release();
  });
}
