// The C interface to programs.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "base/align.h"
#include "base/files.h"
#include "base/out_of_memory.h"
#include "exec/c_abi/support.h"
#include "exec/plan_check.h"
#include "exec/signature.h"
#include "vm/compiled_file.h"
#include "vm/reference_steps.h"

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

}  // namespace

namespace kilter::c_abi {
namespace {

void check_flags(uint32_t flags, uint32_t legal, const char* function, const char* names) {
  if ((flags & ~legal) == 0) return;
  fail(ErrorKind::usage, "flags {:#x} of {}(); legal values are {}", flags, function, names);
}

}  // namespace

std::shared_ptr<std::byte> file_memory(size_t bytes) {
  constexpr size_t kAlignment = 64;
  void* memory = std::aligned_alloc(kAlignment, round_up(std::max<size_t>(bytes, 1), kAlignment));
  if (memory == nullptr) fail_out_of_memory(static_cast<int64_t>(bytes), "the bytes of a compiled file");
  return {static_cast<std::byte*>(memory), std::free};
}

std::unique_ptr<kilter_program> make_program(std::span<const std::byte> bytes, std::shared_ptr<void> owner,
                                             const std::string& where, bool verify) {
  const LoadOptions options{.verify = verify};
  install_reference_kernels();
  auto made = std::make_unique<kilter_program>();
  made->bytes = bytes, made->owner = owner;
  vm::Content content = vm::parse_compiled(bytes, std::move(owner), where, options).content;
  if (auto* plan = std::get_if<Plan>(&content)) {
    made->plan = std::make_shared<const Program>(std::move(*plan));
  } else {
    made->program = std::make_shared<const vm::FileProgram>(std::move(std::get<vm::ProgramFile>(content)));
  }
  log(KILTER_LOG_INFO, "loaded {}: {} bytes, {}", where, bytes.size(), made->plan ? "a plan" : "a program");
  return made;
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
  *kind = sequence ? KILTER_SEQUENCE : port.key ? KILTER_MAP : KILTER_TENSOR;
  *optional = port.kind == kilter::DeclaredType::Kind::optional ? 1 : 0;
}

/// Writes the type of the keys of element `index` of the inputs or outputs. `ports`: null for a plan, which has no
/// maps.
void key_of(const std::vector<FilePort>* ports, const std::vector<kilter::PlanTensor>* tensors, const char* what,
            size_t index, kilter_dtype* key) {
  if (ports == nullptr) {
    kilter::fail(ErrorKind::usage, "{} {} '{}' has no keys: it is a tensor", what, index,
                 at(*tensors, what, index).name);
  }
  const FilePort& port = at(*ports, what, index);
  if (!port.key) {
    kilter::fail(ErrorKind::usage, "{} {} '{}' has no keys: it is {}", what, index, port.name, kilter::vm::text(port));
  }
  *key = static_cast<kilter_dtype>(*port.key);
}

/// Loads a file. `public_key`: the file of a key; null: it needs no signature.
std::unique_ptr<kilter_program> load_file(const char* path, const char* public_key, uint32_t flags,
                                          const char* function) {
  kilter::c_abi::check_flags(flags, KILTER_LOAD_UNVERIFIED, function, "0 and KILTER_LOAD_UNVERIFIED (1)");
  const auto file = kilter::MappedFile::open(path);
  if (public_key != nullptr) kilter::check_signature(path, file->bytes(), public_key);
  // The owner keeps the mapping alive; nothing writes through it.
  return kilter::c_abi::make_program(file->bytes(), std::const_pointer_cast<kilter::MappedFile>(file), path,
                                     (flags & KILTER_LOAD_UNVERIFIED) == 0);
}

}  // namespace

const char* kilter_runtime_version(void) { return KILTER_VERSION_STRING; }

kilter_status kilter_program_load(const char* path, kilter_program** program) {
  return kilter_program_load_with(path, 0, program);
}

kilter_status kilter_program_load_with(const char* path, uint32_t flags, kilter_program** program) {
  if (program != nullptr) *program = nullptr;
  return guarded([&] {
    not_null(path, "path");
    not_null(program, "program");
    *program = load_file(path, nullptr, flags, "kilter_program_load_with").release();
  });
}

kilter_status kilter_program_load_signed(const char* path, const char* public_key, uint32_t flags,
                                         kilter_program** program) {
  if (program != nullptr) *program = nullptr;
  return guarded([&] {
    not_null(path, "path");
    not_null(public_key, "public_key");
    not_null(program, "program");
    *program = load_file(path, public_key, flags, "kilter_program_load_signed").release();
  });
}

kilter_status kilter_program_load_bytes(const void* bytes, size_t size, uint32_t flags, kilter_program** program) {
  if (program != nullptr) *program = nullptr;
  return guarded([&] {
    not_null(bytes, "bytes");
    not_null(program, "program");
    kilter::c_abi::check_flags(flags, KILTER_LOAD_UNVERIFIED | KILTER_LOAD_BORROWED, "kilter_program_load_bytes",
                               "0, KILTER_LOAD_UNVERIFIED (1), KILTER_LOAD_BORROWED (2) and both");
    std::span<const std::byte> file(static_cast<const std::byte*>(bytes), size);
    std::shared_ptr<std::byte> copy;
    if ((flags & KILTER_LOAD_BORROWED) == 0) {
      copy = kilter::c_abi::file_memory(size);
      std::memcpy(copy.get(), bytes, size);
      file = {copy.get(), size};
    }
    *program = kilter::c_abi::make_program(file, copy, "in memory", (flags & KILTER_LOAD_UNVERIFIED) == 0).release();
  });
}

kilter_status kilter_program_save(const kilter_program* program, const char* path) {
  return guarded([&] {
    not_null(program, "program");
    not_null(path, "path");
    const std::span<const std::byte> parts[] = {program->bytes};
    kilter::write_file_atomically(path, parts);
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

kilter_status kilter_program_input_key(const kilter_program* program, size_t index, kilter_dtype* key) {
  return guarded([&] {
    not_null(program, "program");
    not_null(key, "key");
    key_of(program->program ? &program->program->file().inputs : nullptr,
           program->plan ? &program->plan->plan().inputs : nullptr, "input", index, key);
  });
}

kilter_status kilter_program_output_key(const kilter_program* program, size_t index, kilter_dtype* key) {
  return guarded([&] {
    not_null(program, "program");
    not_null(key, "key");
    key_of(program->program ? &program->program->file().outputs : nullptr,
           program->plan ? &program->plan->plan().outputs : nullptr, "output", index, key);
  });
}
