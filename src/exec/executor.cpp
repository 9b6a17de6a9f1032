#include "exec/executor.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "base/align.h"
#include "base/error.h"
#include "base/float_environment.h"
#include "exec/device.h"
#include "exec/kernels/step_kernel.h"
#include "exec/memory.h"
#include "exec/plan_check.h"

namespace kilter {
namespace {

std::atomic<ReferenceMaker> reference_maker{nullptr};

bool aligned(const void* pointer) { return reinterpret_cast<uintptr_t>(pointer) % kCacheLine == 0; }

/// An address among a step's arguments that must be set again for every run.
struct Patch {
  size_t slot;  ///< index in State::addresses
  bool output;
  size_t index;
  int64_t offset;
};

/// A caller's tensor: its address in this run, and an aligned copy for memory that is not aligned.
struct Border {
  int64_t bytes = 0;
  std::byte* staging = nullptr;
  std::byte* address = nullptr;
};

/// Marks an instance as running. Fails for a second caller.
class Turn {
 public:
  explicit Turn(std::atomic<bool>& running) : running_(running) {
    if (running_.exchange(true, std::memory_order_acquire)) {
      fail(ErrorKind::usage, "this instance is already running in another thread; create one instance for each thread");
    }
  }
  ~Turn() { running_.store(false, std::memory_order_release); }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

 private:
  std::atomic<bool>& running_;
};

}  // namespace

int64_t least_scratch_stride(const Plan& plan) {
  // An odd number of cache lines, so that equal offsets in the scratch of different workers fall into different cache
  // sets.
  return plan.scratch_bytes == 0 ? 0 : ((ceil_div(plan.scratch_bytes, kCacheLine)) | 1) * kCacheLine;
}

int64_t staging_bytes(const Plan& plan) {
  int64_t total = 0;
  for (const auto* tensors : {&plan.inputs, &plan.outputs}) {
    for (const PlanTensor& tensor : *tensors) total += round_up(*tensor_bytes(tensor.type, tensor.shape), kCacheLine);
  }
  return total;
}

Program::Program(Plan plan) : plan_(std::move(plan)) {
  check_plan(plan_, ErrorKind::internal);
  for (const std::string& name : plan_.devices) {
    devices_.push_back(&find_device(name));
    codes_.push_back(devices_.back()->load(plan_, static_cast<int32_t>(codes_.size())));
  }
  references_.resize(plan_.steps.size());
  const ReferenceMaker make = reference_maker.load(std::memory_order_acquire);
  for (size_t i = 0; make != nullptr && i < plan_.steps.size(); ++i) {
    if (plan_.steps[i].kind == StepKind::reference) references_[i] = make(plan_.steps[i].reference);
  }
}

Program::~Program() = default;

struct Instance::State {
  State(std::shared_ptr<const Program> of_program, std::shared_ptr<ThreadPool> on_pool, const Placement& placement)
      : program(std::move(of_program)), pool(std::move(on_pool)) {
    require(program != nullptr && pool != nullptr, "an instance needs a program and a thread pool");
    const Plan& plan = program->plan();
    for (size_t i = 0; i < plan.devices.size(); ++i) devices.push_back(program->device(i).open(pool));
    shares_memory = devices.front()->shares_memory();
    const Placement given = shares_memory ? placement : Placement{};
    arena = given.arena;
    if (arena == nullptr) {
      own_arena = devices.front()->alloc(plan.arena_bytes, "the arena of '" + plan.model + "'");
      arena = own_arena.address;
    }
    prepare_borders(plan, given.staging);
    prepare_steps(plan, prepare_scratch(plan, given));
    if (!shares_memory) prepare_host_operands(plan);
  }

  /// Sets up the scratch memory and returns its stride.
  int64_t prepare_scratch(const Plan& plan, const Placement& placement) {
    const int64_t least = least_scratch_stride(plan);
    if (placement.scratch == nullptr) {
      own_scratch = devices.front()->alloc(least * workers(), "the scratch memory of '" + plan.model + "'");
      scratch = own_scratch.address;
      return least;
    }
    require(placement.scratch_stride >= least && placement.scratch_stride % kCacheLine == 0,
            "the scratch of a worker was given {} bytes; expected a multiple of {}, at least {}",
            placement.scratch_stride, kCacheLine, least);
    scratch = placement.scratch;
    return placement.scratch_stride;
  }

  void prepare_borders(const Plan& plan, std::byte* staging) {
    if (staging == nullptr) {
      own_staging =
          devices.front()->alloc(staging_bytes(plan), "the copies of inputs and outputs of '" + plan.model + "'");
      staging = own_staging.address;
    }
    const auto place = [&](const std::vector<PlanTensor>& tensors, std::vector<Border>& borders) {
      for (const PlanTensor& tensor : tensors) {
        borders.push_back({*tensor_bytes(tensor.type, tensor.shape), staging, nullptr});
        staging += round_up(borders.back().bytes, kCacheLine);
      }
    };
    place(plan.inputs, inputs);
    place(plan.outputs, outputs);
  }

  void prepare_steps(const Plan& plan, int64_t stride) {
    size_t total = 0;
    for (const Step& step : plan.steps) total += step.args.size();
    addresses.resize(total);
    first.reserve(plan.steps.size());
    kernels.resize(plan.steps.size());
    runtime_kernels.resize(plan.steps.size());
    size_t slot = 0;
    for (size_t i = 0; i < plan.steps.size(); ++i) {
      const Step& step = plan.steps[i];
      first.push_back(slot);
      if (step.kind == StepKind::kernel) {
        kernels[i] = {program->code(static_cast<size_t>(step.device)).kernel(step.kernel),
                      {addresses.data() + slot, nullptr, scratch, stride},
                      step.extent,
                      step.max_threads};
      }
      if (step.kind == StepKind::reference) {
        runtime_kernels[i] = StepKernel::make(step);
        if (runtime_kernels[i] == nullptr && without_kernel < 0 && !program->reference(i))
          without_kernel = static_cast<int64_t>(i);
      }
      for (const BufferRef& ref : step.args) {
        if (ref.space == Space::input || ref.space == Space::output) {
          patches.push_back({slot, ref.space == Space::output, static_cast<size_t>(ref.index), ref.offset});
        } else {
          addresses[slot] = fixed_address(ref);
        }
        ++slot;
      }
    }
  }

  /// Allocates host memory for the operands of any reference step.
  void prepare_host_operands(const Plan& plan) {
    int64_t most = 0;
    for (const Step& step : plan.steps) {
      if (step.kind != StepKind::reference) continue;
      int64_t bytes = 0;
      for (const BufferRef& ref : step.args) bytes += round_up(ref.bytes, kCacheLine);
      most = std::max(most, bytes);
    }
    host_addresses.reserve(addresses.size());
    host_operands = Block(most, "the operands of '" + plan.model + "' on the host");
  }

  std::byte* fixed_address(const BufferRef& ref) const {
    // The kernel interface has a single pointer type; check_plan() and the compiler ensure that constants are only
    // read.
    std::byte* base = ref.space == Space::arena ? arena : const_cast<std::byte*>(program->code(0).constants());
    return base == nullptr ? nullptr : base + ref.offset;
  }

  /// Returns a copy, in host memory, of a buffer in memory that the host cannot address.
  std::byte* host_view(const BufferRef& ref) {
    const Plan& plan = program->plan();
    if (ref.space == Space::constant) return const_cast<std::byte*>(plan.constants) + ref.offset;
    if (view.data() == nullptr)
      view = Block(plan.arena_bytes + staging_bytes(plan), "a copy of the memory of '" + plan.model + "'");
    const bool border = ref.space != Space::arena;
    const std::byte* from = arena + ref.offset;
    std::byte* to = view.data() + ref.offset;
    if (border) {
      const std::byte* base =
          (ref.space == Space::output ? outputs : inputs).at(static_cast<size_t>(ref.index)).staging;
      from = base + ref.offset;
      to = view.data() + plan.arena_bytes + (from - own_staging.address);
    }
    devices.front()->download(from, to, ref.bytes);
    return to;
  }

  void take_borders(std::span<const std::byte* const> from, std::span<std::byte* const> to) {
    const Plan& plan = program->plan();
    if (from.size() != inputs.size() || to.size() != outputs.size()) {
      fail(ErrorKind::bad_input, "'{}' was given {} inputs and {} outputs; expected {} and {}", plan.model, from.size(),
           to.size(), inputs.size(), outputs.size());
    }
    for (size_t i = 0; i < inputs.size(); ++i) check_pointer("input", plan.inputs[i], inputs[i], from[i]);
    for (size_t i = 0; i < outputs.size(); ++i) check_pointer("output", plan.outputs[i], outputs[i], to[i]);
    for (size_t i = 0; i < inputs.size(); ++i) {
      Border& border = inputs[i];
      const bool direct = shares_memory && aligned(from[i]);
      // Kernels only read inputs; the checks of the plan refuse other steps that would write them.
      border.address = direct ? const_cast<std::byte*>(from[i]) : border.staging;
      if (!direct) turn_to(0).upload(from[i], border.staging, border.bytes);
    }
    for (size_t i = 0; i < outputs.size(); ++i) {
      outputs[i].address = shares_memory && aligned(to[i]) ? to[i] : outputs[i].staging;
    }
    for (const Patch& patch : patches) {
      std::byte* base = (patch.output ? outputs : inputs)[patch.index].address;
      addresses[patch.slot] = base == nullptr ? nullptr : base + patch.offset;
    }
  }

  void check_pointer(std::string_view what, const PlanTensor& tensor, const Border& border, const void* pointer) const {
    if (pointer != nullptr || border.bytes == 0) return;
    fail(ErrorKind::bad_input, "'{}': {} '{}' is a null pointer; expected {} bytes", program->plan().model, what,
         tensor.name, border.bytes);
  }

  /// Returns a copy of the indices of a step.
  std::vector<std::byte> index_operand(const Step& step, const std::byte* data) const {
    std::vector<std::byte> copy(static_cast<size_t>(step.args[static_cast<size_t>(step.indices.arg)].bytes));
    devices[working]->download(data, copy.data(), std::ssize(copy));
    return copy;
  }

  /// Throws bad_input for the first index of a step that is out of range.
  [[noreturn]] void refuse_index(const Step& step, const std::byte* data) const {
    const IndexOperand& indices = step.indices;
    int64_t count = 1;
    for (const int64_t d : indices.shape) count *= d;
    const auto report = [&](const auto* values) {
      const int64_t at = first_out_of_range(values, count, indices.range);
      if (at < 0) return;
      fail(ErrorKind::bad_input, "{} '{}': {}", step.ops, step.name,
           index_fault(indices.shape, at, values[at], indices.range));
    };
    if (indices.type == DType::i32) {
      report(reinterpret_cast<const int32_t*>(data));
    } else {
      report(reinterpret_cast<const int64_t*>(data));
    }
    fail(ErrorKind::bad_input,
         "{} '{}': an index was out of range when the kernel read it but no longer is; inputs must not change "
         "during a run",
         step.ops, step.name);
  }

  /// Returns the most workers that a launch may have.
  int workers() const {
    int most = 0;
    for (const std::unique_ptr<Device>& device : devices) most = std::max(most, device->workers());
    return most;
  }

  /// Makes a device the working one and returns it. If another was working, waits for it first.
  Device& turn_to(size_t device) {
    if (device != working) devices[working]->sync();
    working = device;
    return *devices[device];
  }

  /// `whole`: the step runs as part of its network, so its operands are values that the network computed.
  void run_step(size_t index, RunTrace* trace, bool whole) {
    const Step& step = program->plan().steps[index];
    std::byte** buffers = addresses.data() + first[index];
    const auto device = static_cast<size_t>(step.device);
    switch (step.kind) {
      case StepKind::kernel: {
        const int32_t result = turn_to(device).launch(kernels[index], trace);
        if (result == kIndexOutOfRange && step.indices.arg >= 0) {
          if (whole) refuse_index(step, index_operand(step, buffers[step.indices.arg]).data());
          return;
        }
        if (result != 0) {
          fail(ErrorKind::internal, "step {} '{}' ({}): its kernel returned {}; expected 0", index, step.name, step.ops,
               result);
        }
        return;
      }
      case StepKind::reference:
        devices[working]->sync();  // reference kernels run on the host
        return run_on_host(index, {buffers, step.args.size()});
      case StepKind::halo:
        turn_to(device).fill_halo(step.halo, buffers[0], trace);
        return;
      case StepKind::copy:
        turn_to(device).copy(buffers[0], buffers[1], step.copy_bytes, trace);
        return;
    }
  }

  /// Runs a reference step: its runtime kernel, or the reference kernel if there is none for the operands or their
  /// values.
  void run_on_host(size_t index, std::span<std::byte* const> buffers) {
    if (shares_memory) return call_reference(index, buffers);
    const Step& step = program->plan().steps[index];
    const auto& operands = step.reference.inputs;
    const auto read = static_cast<size_t>(std::ranges::count_if(operands, &ReferenceCall::Operand::present));
    std::vector<std::byte*>& host = host_addresses;
    host.clear();
    std::byte* at = host_operands.data();
    for (size_t i = 0; i < buffers.size(); ++i) {
      host.push_back(at);
      if (i < read) devices.front()->download(buffers[i], at, step.args[i].bytes);
      at += round_up(step.args[i].bytes, kCacheLine);
    }
    call_reference(index, host);
    for (size_t i = read; i < buffers.size(); ++i) devices.front()->upload(host[i], buffers[i], step.args[i].bytes);
  }

  void call_reference(size_t index, std::span<std::byte* const> buffers) const {
    if (runtime_kernels[index] != nullptr && runtime_kernels[index]->run(buffers, pool.get())) return;
    if (const ReferenceKernel& reference = program->reference(index)) return reference(buffers);
    const Step& step = program->plan().steps[index];
    fail(
        ErrorKind::bad_input,
        "step {} '{}': the values of its operands are illegal for operator {}, or need its reference kernel, which the "
        "runtime library does not include; run '{}' with the full Kilter library",
        index, step.name, step.reference.op, program->plan().model);
  }

  /// Points the step's constants at the window, or back at the plan's own constants.
  void place_constants(size_t index, const ConstantWindow* window) {
    const Step& step = program->plan().steps[index];
    for (size_t a = 0; a < step.args.size(); ++a) {
      const BufferRef& ref = step.args[a];
      if (ref.space != Space::constant) continue;
      const bool inside = window != nullptr && ref.offset >= window->begin && ref.offset + ref.bytes <= window->end;
      addresses[first[index] + a] =
          inside ? const_cast<std::byte*>(window->base) + (ref.offset - window->begin) : fixed_address(ref);
    }
  }

  void check_references() const {
    if (without_kernel < 0) return;
    const Step& step = program->plan().steps[static_cast<size_t>(without_kernel)];
    fail(ErrorKind::unsupported,
         "step {} '{}' runs operator {} through its reference kernel, which the runtime library does not include; run "
         "'{}' with the full Kilter library",
         without_kernel, step.name, step.reference.op, program->plan().model);
  }

  std::shared_ptr<const Program> program;
  std::shared_ptr<ThreadPool> pool;
  std::vector<std::unique_ptr<Device>> devices;  ///< of Plan::devices
  size_t working = 0;                            ///< the device that got the latest operation
  bool shares_memory = true;                     ///< Device::shares_memory() of the first device
  std::byte* arena = nullptr;
  std::byte* scratch = nullptr;
  DeviceMemory own_arena, own_scratch, own_staging;
  std::vector<std::byte*> host_addresses;  ///< of the operands in host_operands
  Block host_operands;                     ///< of reference steps, if the host cannot address the device's memory
  Block view;                              ///< host_view()
  std::vector<Border> inputs, outputs;
  std::vector<std::byte*> addresses;  ///< addresses of all steps, concatenated
  std::vector<size_t> first;          ///< per step: index of its first address in `addresses`
  std::vector<Patch> patches;
  std::vector<Launch> kernels;                               ///< per step; unused if the step is not a kernel
  std::vector<std::unique_ptr<StepKernel>> runtime_kernels;  ///< per step; null if there is none
  int64_t without_kernel = -1;                               ///< the first step that nothing here can run
  std::atomic<bool> running{false};
};

Instance::Instance(std::shared_ptr<const Program> program, std::shared_ptr<ThreadPool> pool, const Placement& placement)
    : state_(std::make_unique<State>(std::move(program), std::move(pool), placement)) {}

Instance::~Instance() = default;

void Instance::run(std::span<const std::byte* const> inputs, std::span<std::byte* const> outputs,
                   const StepObserver* observer, RunTrace* trace) {
  State& s = *state_;
  const Turn turn(s.running);
  const FloatEnvironment standard;
  if (trace != nullptr) {
    require(trace->threads() == s.workers(), "the trace is for {} threads, the pool has {}", trace->threads(),
            s.workers());
    trace->enter();
  }
  s.check_references();
  s.take_borders(inputs, outputs);
  const size_t count = s.program->plan().steps.size();
  const bool whole = observer == nullptr || !observer->leaves_out;
  for (size_t i = 0; i < count; ++i) {
    if (observer != nullptr && observer->before) observer->before(i);
    if (trace != nullptr) trace->fork(i);
    if (observer == nullptr || !observer->leaves_out || !observer->leaves_out(i)) s.run_step(i, trace, whole);
    if (trace != nullptr) trace->join();
    if (observer != nullptr && observer->after) observer->after(i);
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    const Border& border = s.outputs[i];
    if (border.address != outputs[i]) s.turn_to(0).download(border.staging, outputs[i], border.bytes);
  }
  s.devices[s.working]->sync();
  if (trace != nullptr) trace->leave();
}

void Instance::replay(size_t step, const ConstantWindow* window, RunTrace* trace) {
  State& s = *state_;
  const Turn turn(s.running);
  const FloatEnvironment standard;
  s.check_references();
  require(step < s.program->plan().steps.size(), "cannot replay step {} of {}", step, s.program->plan().steps.size());
  struct Placed {
    State& state;
    size_t step;
    ~Placed() {
      state.place_constants(step, nullptr);
    }  // also after a step that fails: the window belongs to the
       // caller
  };
  if (s.shares_memory) s.place_constants(step, window);
  const Placed placed{s, step};
  if (trace != nullptr) trace->fork(step);
  s.run_step(step, trace, false);
  if (trace != nullptr) trace->join();
}

std::byte* Instance::address(const BufferRef& ref) const {
  if (!state_->shares_memory) return state_->host_view(ref);
  const bool output = ref.space == Space::output;
  if (!output && ref.space != Space::input) return state_->fixed_address(ref);
  std::byte* base = (output ? state_->outputs : state_->inputs).at(static_cast<size_t>(ref.index)).address;
  return base == nullptr ? nullptr : base + ref.offset;
}

std::span<const std::byte> Instance::code(size_t step) const {
  const Step& of = state_->program->plan().steps.at(step);
  if (of.kind != StepKind::kernel) return {};
  return state_->program->code(static_cast<size_t>(of.device)).bytes(of.kernel);
}

Attendance Instance::attendance() const { return state_->pool->attendance(); }

std::span<std::byte> Instance::scratch() const {
  if (!state_->shares_memory) return {};
  return {state_->scratch, static_cast<size_t>(state_->program->plan().scratch_bytes)};
}

void set_reference_maker(ReferenceMaker maker) { reference_maker.store(maker, std::memory_order_release); }

}  // namespace kilter
