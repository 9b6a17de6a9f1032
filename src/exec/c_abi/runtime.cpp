// The C interface to programs and instances.
#include "kilter/runtime.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/float_environment.h"
#include "base/other_threads.h"
#include "exec/c_abi/support.h"
#include "exec/executor.h"
#include "exec/plan_check.h"
#include "vm/compiled_file.h"
#include "vm/file_runner.h"
#include "vm/reference_steps.h"

/// One of the two is set.
struct kilter_program {
  std::shared_ptr<const kilter::Program> plan;
  std::shared_ptr<const kilter::vm::FileProgram> program;
};

/// One of the first two is set.
struct kilter_instance {
  std::unique_ptr<kilter::Instance> plan;
  std::unique_ptr<kilter::vm::FileRunner> program;
  std::vector<kilter::OutputMemory> memory;  ///< of the plan's outputs
  std::string note;
  std::shared_ptr<const kilter::Program> of = nullptr;  ///< of the plan
  std::atomic<bool> busy = false;                       ///< for the program
};

namespace {

using kilter::DType;
using kilter::ErrorKind;

static_assert(static_cast<int>(DType::f32) == KILTER_F32 && static_cast<int>(DType::f64) == KILTER_F64 &&
              static_cast<int>(DType::f16) == KILTER_F16 && static_cast<int>(DType::bf16) == KILTER_BF16 &&
              static_cast<int>(DType::i8) == KILTER_I8 && static_cast<int>(DType::i16) == KILTER_I16 &&
              static_cast<int>(DType::i32) == KILTER_I32 && static_cast<int>(DType::i64) == KILTER_I64 &&
              static_cast<int>(DType::u8) == KILTER_U8 && static_cast<int>(DType::u16) == KILTER_U16 &&
              static_cast<int>(DType::u32) == KILTER_U32 && static_cast<int>(DType::u64) == KILTER_U64 &&
              static_cast<int>(DType::boolean) == KILTER_BOOL && static_cast<int>(DType::string) == KILTER_STRING &&
              static_cast<int>(DType::f8e4m3fn) == KILTER_F8E4M3FN &&
              static_cast<int>(DType::f4e2m1) == KILTER_F4E2M1 && static_cast<int>(DType::u2) == KILTER_U2);

/// A plain array, so that storing a text does not allocate and threads need not register a destructor.
thread_local char last_error[4096] = "";

}  // namespace

namespace kilter::c_abi {

kilter_status status_of(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::usage:
      return KILTER_ERROR_USAGE;
    case ErrorKind::bad_model:
    case ErrorKind::bad_input:
      return KILTER_ERROR_BAD_INPUT;
    case ErrorKind::unsupported:
      return KILTER_ERROR_UNSUPPORTED;
    case ErrorKind::io:
      return KILTER_ERROR_IO;
    case ErrorKind::internal:
      return KILTER_ERROR_INTERNAL;
    case ErrorKind::out_of_memory:
      return KILTER_ERROR_MEMORY;
  }
  return KILTER_ERROR_INTERNAL;
}

kilter_status failed(kilter_status status, const char* text) noexcept {
  const size_t length = std::strlen(text);
  const size_t kept = std::min(length, sizeof(last_error) - 1);
  std::memcpy(last_error, text, kept);
  last_error[kept] = '\0';
  if (kept < length) std::memcpy(last_error + kept - 3, "...", 3);
  return status;
}

void describe(const char* name, DType type, const Shape* shape, kilter_tensor_info* info) {
  static const int64_t no_dims = 0;
  info->name = name;
  info->dtype = static_cast<kilter_dtype>(type);
  info->rank = shape == nullptr ? KILTER_UNKNOWN_RANK : shape->size();
  info->dims = shape == nullptr || shape->empty() ? &no_dims : shape->data();
  const auto bytes = shape == nullptr ? std::nullopt : tensor_bytes(type, *shape);
  info->bytes = static_cast<size_t>(bytes.value_or(0));
}

}  // namespace kilter::c_abi

namespace {

using kilter::AnyValue;
using kilter::Tensor;
using kilter::c_abi::failed;
using kilter::c_abi::guarded;
using kilter::c_abi::not_null;
using kilter::vm::FilePort;

/// Returns element `index` of a program's inputs or outputs.
template <class T>
const T& at(const std::vector<T>& ports, const char* what, size_t index) {
  if (index >= ports.size())
    kilter::fail(ErrorKind::usage, "{} {} was requested; the program has {}", what, index, ports.size());
  return ports[index];
}

void describe_plan(const std::vector<kilter::PlanTensor>& tensors, const char* what, size_t index,
                   kilter_tensor_info* info) {
  const kilter::PlanTensor& tensor = at(tensors, what, index);
  kilter::c_abi::describe(tensor.name.c_str(), tensor.type, &tensor.shape, info);
}

void describe_port(const std::vector<FilePort>& ports, const char* what, size_t index, kilter_tensor_info* info) {
  const FilePort& port = at(ports, what, index);
  kilter::c_abi::describe(port.name.c_str(), port.type, port.dims ? &*port.dims : nullptr, info);
  if (!port.is_fixed()) info->bytes = 0;
}

void kind_of(const FilePort& port, kilter_kind* kind, int* optional) {
  const bool sequence = port.kind == kilter::DeclaredType::Kind::sequence || port.of_sequence;
  *kind = sequence ? KILTER_SEQUENCE : KILTER_TENSOR;
  *optional = port.kind == kilter::DeclaredType::Kind::optional ? 1 : 0;
}

/// The instance while one thread runs its program.
class InUse {
 public:
  explicit InUse(kilter_instance& instance) : instance_(instance) {
    if (instance_.busy.exchange(true))
      kilter::fail(ErrorKind::usage,
                   "this instance is already running in another thread; make one instance for each thread");
  }
  ~InUse() { instance_.busy = false; }
  InUse(const InUse&) = delete;
  InUse& operator=(const InUse&) = delete;

 private:
  kilter_instance& instance_;
};

void check_count(const char* what, size_t got, size_t expected) {
  if (got != expected) kilter::fail(ErrorKind::bad_input, "{} {} are given; expected {}", got, what, expected);
}

std::vector<AnyValue> run_program(kilter_instance& instance, std::vector<AnyValue> inputs) {
  const kilter::FloatEnvironment standard;
  const InUse in_use(instance);
  return instance.program->run(std::move(inputs));
}

/// Runs a plan on values.
std::vector<AnyValue> run_plan(kilter_instance& instance, const std::vector<AnyValue>& inputs) {
  const kilter::Plan& plan = instance.of->plan();
  std::vector<const std::byte*> from;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const kilter::PlanTensor& port = plan.inputs[i];
    const AnyValue& value = inputs[i];
    if (!value.is_tensor() || value.tensor().dtype() != port.type || value.tensor().shape() != port.shape)
      kilter::fail(ErrorKind::bad_input, "{}: input '{}' must be {}[{}], got {}", plan.model, port.name,
                   kilter::name(port.type), kilter::text(port.shape), kilter::text(value));
    from.push_back(value.tensor().raw());
  }
  const InUse in_use(instance);
  std::vector<AnyValue> outputs;
  std::vector<std::byte*> to;
  for (size_t i = 0; i < plan.outputs.size(); ++i) {
    outputs.emplace_back(instance.memory[i].take(plan.outputs[i].type, plan.outputs[i].shape));
    to.push_back(outputs.back().tensor().raw());
  }
  instance.plan->run(from, to);
  return outputs;
}

/// Throws unsupported for inputs and outputs that kilter_value cannot have.
void refuse_maps(const kilter::vm::ProgramFile& file) {
  for (const auto* ports : {&file.inputs, &file.outputs}) {
    for (const FilePort& port : *ports) {
      if (!port.key) continue;
      kilter::fail(
          ErrorKind::unsupported,
          "{}: '{}' is {}; the C interface has tensors, sequences of tensors and optional values only: run the "
          "file with the Python package, or change the model to return tensors",
          file.model, port.name, kilter::vm::text(port));
    }
  }
}

/// Runs a program whose inputs and outputs are tensors of known sizes on the caller's memory.
void run_fixed(kilter_instance& instance, std::span<const void* const> inputs, std::span<void* const> outputs) {
  const kilter::vm::ProgramFile& file = instance.program->program().file();
  for (const auto* ports : {&file.inputs, &file.outputs}) {
    for (const FilePort& port : *ports) {
      if (port.is_fixed()) continue;
      kilter::fail(ErrorKind::unsupported, "{}: '{}' is {}, so its size is not known in advance; use {}", file.model,
                   port.name, kilter::vm::text(port), "kilter_instance_run_values()");
    }
  }
  check_count("inputs", inputs.size(), file.inputs.size());
  check_count("outputs", outputs.size(), file.outputs.size());
  std::vector<AnyValue> values;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const FilePort& port = file.inputs[i];
    if (kilter::elems(*port.dims) > 0) not_null(inputs[i], "inputs[i]");
    auto* data = const_cast<std::byte*>(static_cast<const std::byte*>(inputs[i]));  // inputs are never written
    Tensor tensor(port.type, *port.dims, data, nullptr);
    const bool aligned = reinterpret_cast<uintptr_t>(data) % static_cast<uintptr_t>(size_bytes(port.type)) == 0;
    values.emplace_back(aligned ? std::move(tensor) : tensor.clone());
  }
  const std::vector<AnyValue> results = run_program(instance, std::move(values));
  for (size_t i = 0; i < outputs.size(); ++i) {
    const FilePort& port = file.outputs[i];
    const AnyValue& result = results[i];
    if (!result.is_tensor() || result.tensor().dtype() != port.type || result.tensor().shape() != *port.dims)
      kilter::fail(ErrorKind::unsupported, "{}: output '{}' is {}, although the model declares {}; use {}", file.model,
                   port.name, kilter::text(result), kilter::vm::text(port), "kilter_instance_run_values()");
    if (result.tensor().bytes() == 0) continue;
    not_null(outputs[i], "outputs[i]");
    std::memcpy(outputs[i], result.tensor().raw(), static_cast<size_t>(result.tensor().bytes()));
  }
}

}  // namespace

const char* kilter_last_error(void) { return last_error; }

const char* kilter_runtime_version(void) { return KILTER_VERSION_STRING; }

kilter_status kilter_program_load(const char* path, kilter_program** program) {
  return kilter_program_load_with(path, 0, program);
}

kilter_status kilter_program_load_with(const char* path, uint32_t flags, kilter_program** program) {
  if (program != nullptr) *program = nullptr;
  return guarded([&] {
    not_null(path, "path");
    not_null(program, "program");
    if ((flags & ~KILTER_LOAD_UNVERIFIED) != 0) {
      kilter::fail(ErrorKind::usage,
                   "flags {:#x} of kilter_program_load_with(); legal values are 0 and KILTER_LOAD_UNVERIFIED (1)",
                   flags);
    }
    const kilter::LoadOptions options{.verify = (flags & KILTER_LOAD_UNVERIFIED) == 0};
    kilter::install_reference_kernels();
    auto made = std::make_unique<kilter_program>();
    kilter::vm::Content content = kilter::vm::load_compiled(path, options).content;
    if (auto* plan = std::get_if<kilter::Plan>(&content)) {
      made->plan = std::make_shared<const kilter::Program>(std::move(*plan));
    } else {
      made->program =
          std::make_shared<const kilter::vm::FileProgram>(std::move(std::get<kilter::vm::ProgramFile>(content)));
      refuse_maps(made->program->file());
    }
    *program = made.release();
  });
}

void kilter_program_free(kilter_program* program) { delete program; }

size_t kilter_program_input_count(const kilter_program* program) {
  if (program == nullptr) return 0;
  return program->plan ? program->plan->plan().inputs.size() : program->program->file().inputs.size();
}

size_t kilter_program_output_count(const kilter_program* program) {
  if (program == nullptr) return 0;
  return program->plan ? program->plan->plan().outputs.size() : program->program->file().outputs.size();
}

kilter_status kilter_program_input(const kilter_program* program, size_t index, kilter_tensor_info* info) {
  return guarded([&] {
    not_null(program, "program");
    not_null(info, "info");
    if (program->plan) return describe_plan(program->plan->plan().inputs, "input", index, info);
    describe_port(program->program->file().inputs, "input", index, info);
  });
}

kilter_status kilter_program_input_kind(const kilter_program* program, size_t index, kilter_kind* kind, int* optional) {
  return guarded([&] {
    not_null(program, "program");
    not_null(kind, "kind");
    not_null(optional, "optional");
    if (program->program) return kind_of(at(program->program->file().inputs, "input", index), kind, optional);
    at(program->plan->plan().inputs, "input", index);
    *kind = KILTER_TENSOR, *optional = 0;
  });
}

kilter_status kilter_program_output(const kilter_program* program, size_t index, kilter_tensor_info* info) {
  return guarded([&] {
    not_null(program, "program");
    not_null(info, "info");
    if (program->plan) return describe_plan(program->plan->plan().outputs, "output", index, info);
    describe_port(program->program->file().outputs, "output", index, info);
  });
}

kilter_status kilter_program_output_kind(const kilter_program* program, size_t index, kilter_kind* kind,
                                         int* optional) {
  return guarded([&] {
    not_null(program, "program");
    not_null(kind, "kind");
    not_null(optional, "optional");
    if (program->program) return kind_of(at(program->program->file().outputs, "output", index), kind, optional);
    at(program->plan->plan().outputs, "output", index);
    *kind = KILTER_TENSOR, *optional = 0;
  });
}

kilter_status kilter_instance_create(const kilter_program* program, int threads, kilter_instance** instance) {
  if (instance != nullptr) *instance = nullptr;
  return guarded([&] {
    not_null(program, "program");
    not_null(instance, "instance");
    auto pool = std::make_shared<kilter::ThreadPool>(threads);
    const int compiled_for = program->plan ? program->plan->plan().compiled_for : program->program->file().compiled_for;
    auto made = std::make_unique<kilter_instance>();
    made->note = kilter::other_threads_text(compiled_for, pool->threads());
    if (program->plan) {
      made->of = program->plan;
      made->memory.resize(program->plan->plan().outputs.size());
      made->plan = std::make_unique<kilter::Instance>(program->plan, std::move(pool));
    } else {
      made->program = std::make_unique<kilter::vm::FileRunner>(program->program, std::move(pool));
    }
    *instance = made.release();
  });
}

void kilter_instance_free(kilter_instance* instance) { delete instance; }

const char* kilter_instance_note(const kilter_instance* instance) {
  return instance == nullptr ? "" : instance->note.c_str();
}

kilter_status kilter_instance_run(kilter_instance* instance, const void* const* inputs, size_t input_count,
                                  void* const* outputs, size_t output_count) {
  return guarded([&] {
    not_null(instance, "instance");
    if (input_count > 0) not_null(inputs, "inputs");
    if (output_count > 0) not_null(outputs, "outputs");
    if (instance->program) return run_fixed(*instance, {inputs, input_count}, {outputs, output_count});
    instance->plan->run({reinterpret_cast<const std::byte* const*>(inputs), input_count},
                        {reinterpret_cast<std::byte* const*>(outputs), output_count});
  });
}

kilter_status kilter_instance_run_values(kilter_instance* instance, const kilter_value* const* inputs,
                                         size_t input_count, kilter_value** outputs, size_t output_count) {
  if (outputs != nullptr) std::fill_n(outputs, output_count, nullptr);
  return guarded([&] {
    not_null(instance, "instance");
    if (input_count > 0) not_null(inputs, "inputs");
    if (output_count > 0) not_null(outputs, "outputs");
    const auto& program = instance->program;
    const size_t ins = program ? program->program().file().inputs.size() : instance->of->plan().inputs.size();
    const size_t outs = program ? program->program().file().outputs.size() : instance->of->plan().outputs.size();
    check_count("inputs", input_count, ins);
    check_count("outputs", output_count, outs);
    std::vector<AnyValue> values;
    for (size_t i = 0; i < input_count; ++i) values.push_back(inputs[i] == nullptr ? AnyValue() : inputs[i]->value);
    std::vector<AnyValue> results = program ? run_program(*instance, std::move(values)) : run_plan(*instance, values);
    std::vector<std::unique_ptr<kilter_value>> made;
    for (AnyValue& result : results) made.push_back(std::make_unique<kilter_value>(std::move(result)));
    for (size_t i = 0; i < output_count; ++i) outputs[i] = made[i].release();
  });
}
