// The C interface to Program and Instance. No exception leaves a function; every error becomes a status and a text.
#include "kilter/runtime.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <string>

#include "base/error.h"
#include "base/other_threads.h"
#include "exec/executor.h"
#include "exec/kernels/step_kernel.h"
#include "exec/plan_check.h"
#include "exec/plan_file.h"

struct kilter_program {
  std::shared_ptr<const kilter::Program> program;
};

struct kilter_instance {
  kilter::Instance instance;
  std::string note;
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
              static_cast<int>(DType::boolean) == KILTER_BOOL && static_cast<int>(DType::f8e4m3fn) == KILTER_F8E4M3FN &&
              static_cast<int>(DType::f4e2m1) == KILTER_F4E2M1 && static_cast<int>(DType::u2) == KILTER_U2);

/// A plain array, so that storing a text does not allocate and threads need not register a destructor.
thread_local char last_error[4096] = "";

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

template <class F>
kilter_status guarded(F&& f) noexcept {
  try {
    f();
    return KILTER_OK;
  } catch (const kilter::Error& e) {
    return failed(status_of(e.kind()), e.what());
  } catch (const std::bad_alloc&) {
    return failed(KILTER_ERROR_MEMORY, "out of memory");
  } catch (const std::exception& e) {
    return failed(KILTER_ERROR_INTERNAL, e.what());
  } catch (...) {
    return failed(KILTER_ERROR_INTERNAL, "unknown error");
  }
}

void not_null(const void* pointer, const char* what) {
  if (pointer == nullptr) kilter::fail(ErrorKind::usage, "argument '{}' is a null pointer", what);
}

void describe(const std::vector<kilter::PlanTensor>& tensors, const char* what, size_t index,
              kilter_tensor_info* info) {
  not_null(info, "info");
  if (index >= tensors.size()) {
    kilter::fail(ErrorKind::usage, "{} {} was requested; the program has {}", what, index, tensors.size());
  }
  static const int64_t no_dims = 0;
  const kilter::PlanTensor& tensor = tensors[index];
  info->name = tensor.name.c_str();
  info->dtype = static_cast<kilter_dtype>(tensor.type);
  info->rank = tensor.shape.size();
  info->dims = tensor.shape.empty() ? &no_dims : tensor.shape.data();
  info->bytes = static_cast<size_t>(*kilter::tensor_bytes(tensor.type, tensor.shape));
}

/// Throws unsupported for a plan with steps that need a reference kernel, which the runtime library does not have.
/// Called when an instance is made.
void refuse_reference_steps(const kilter::Plan& plan) {
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    const kilter::Step& step = plan.steps[i];
    if (step.kind != kilter::StepKind::reference || kilter::StepKernel::make(step) != nullptr) continue;
    kilter::fail(ErrorKind::unsupported,
                 "'{}': step {} '{}' runs operator {} through its reference kernel, which the runtime library does not "
                 "include; run it with the full Kilter library",
                 plan.model, i, step.name, step.reference.op);
  }
}

}  // namespace

const char* kilter_last_error(void) { return last_error; }

const char* kilter_runtime_version(void) { return KILTER_VERSION; }

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
    *program = new kilter_program{std::make_shared<const kilter::Program>(kilter::load_plan(path, options))};
  });
}

void kilter_program_free(kilter_program* program) { delete program; }

size_t kilter_program_input_count(const kilter_program* program) {
  return program == nullptr ? 0 : program->program->plan().inputs.size();
}

size_t kilter_program_output_count(const kilter_program* program) {
  return program == nullptr ? 0 : program->program->plan().outputs.size();
}

kilter_status kilter_program_input(const kilter_program* program, size_t index, kilter_tensor_info* info) {
  return guarded([&] {
    not_null(program, "program");
    describe(program->program->plan().inputs, "input", index, info);
  });
}

kilter_status kilter_program_output(const kilter_program* program, size_t index, kilter_tensor_info* info) {
  return guarded([&] {
    not_null(program, "program");
    describe(program->program->plan().outputs, "output", index, info);
  });
}

kilter_status kilter_instance_create(const kilter_program* program, int threads, kilter_instance** instance) {
  if (instance != nullptr) *instance = nullptr;
  return guarded([&] {
    not_null(program, "program");
    not_null(instance, "instance");
    const kilter::Plan& plan = program->program->plan();
    refuse_reference_steps(plan);
    auto pool = std::make_shared<kilter::ThreadPool>(threads);
    const std::string note = kilter::other_threads_text(plan.compiled_for, pool->threads());
    *instance = new kilter_instance{{program->program, std::move(pool)}, note};
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
    instance->instance.run({reinterpret_cast<const std::byte* const*>(inputs), input_count},
                           {reinterpret_cast<std::byte* const*>(outputs), output_count});
  });
}
