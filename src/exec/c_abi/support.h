// Shared by the files of the C interface. No exception leaves a function; every error becomes a status and a text.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/any_value.h"
#include "base/error.h"
#include "exec/executor.h"
#include "exec/memory.h"
#include "exec/output_memory.h"
#include "exec/thread_pool.h"
#include "kilter/runtime.h"
#include "vm/file_runner.h"

struct kilter_value {
  kilter::AnyValue value;
};

/// One of `plan` and `program` is set.
struct kilter_program {
  std::shared_ptr<const kilter::Program> plan;
  std::shared_ptr<const kilter::vm::FileProgram> program;
  std::shared_ptr<const void> owner;  ///< of `bytes`
  std::span<const std::byte> bytes;   ///< the compiled file
};

struct kilter_pool {
  std::shared_ptr<kilter::ThreadPool> threads;
};

namespace kilter::c_abi {

/// Thrown by a run that kilter_instance_cancel() ends.
class Cancelled : public Error {
 public:
  using Error::Error;
};

/// An input whose value is that of an output of the previous run. Nothing writes to the values.
struct BoundState {
  size_t input = 0, output = 0;
  AnyValue initial, value;
};

/// Whether an instance is in use.
enum class Use : uint8_t { idle, running, cancelled };

/// Notified of each instruction and step of a run. The functions may throw to end the run.
class Watch {
 public:
  virtual ~Watch() = default;
  virtual void begin_step(const kilter::Program& plan, size_t step) = 0;
  virtual void begin_instr(const vm::Instr& instr) = 0;
  virtual void end() = 0;  ///< of the step or instruction that began last
};

}  // namespace kilter::c_abi

/// One of `plan` and `program` is set.
struct kilter_instance : kilter::vm::Observer {
  void begin(const kilter::vm::Instr& instr) override;
  void end() override;
  void iteration() override { check_cancelled(); }
  kilter::RunTrace* enter_code(const kilter::Plan& /*plan*/) override { return nullptr; }
  void leave_code() override {}
  void begin_step(const kilter::Program& of_plan, size_t step);
  /// Throws Cancelled if kilter_instance_cancel() has ended the run.
  void check_cancelled() const;
  const kilter::Allocator* from() const { return allocator ? &*allocator : nullptr; }

  // The instance's memory outlives what works in it.
  std::optional<kilter::Allocator> allocator;
  kilter::Block arena, scratch, staging;     ///< of the plan, if there is an allocator
  std::vector<kilter::OutputMemory> memory;  ///< of the plan's outputs
  std::unique_ptr<kilter::Instance> plan;
  std::unique_ptr<kilter::vm::FileRunner> program;
  kilter::StepObserver steps;                 ///< of the plan
  std::shared_ptr<const kilter::Program> of;  ///< of the plan
  std::vector<kilter::c_abi::BoundState> state;
  std::string note;
  kilter::c_abi::Watch* watch = nullptr;  ///< of a profile
  std::atomic<kilter::c_abi::Use> use{kilter::c_abi::Use::idle};
};

namespace kilter::c_abi {

/// Keeps the text for kilter_last_error(), logs it and returns `status`.
kilter_status failed(kilter_status status, const char* text) noexcept;
kilter_status status_of(ErrorKind kind);

template <class F>
kilter_status guarded(F&& f) noexcept {
  try {
    f();
    return KILTER_OK;
  } catch (const Cancelled& e) {
    return failed(KILTER_ERROR_CANCELLED, e.what());
  } catch (const Error& e) {
    return failed(status_of(e.kind()), e.what());
  } catch (const std::bad_alloc&) {
    return failed(KILTER_ERROR_MEMORY, "out of memory");
  } catch (const std::exception& e) {
    return failed(KILTER_ERROR_INTERNAL, e.what());
  } catch (...) {
    return failed(KILTER_ERROR_INTERNAL, "unknown error");
  }
}

inline void not_null(const void* pointer, const char* what) {
  if (pointer == nullptr) fail(ErrorKind::usage, "argument '{}' is a null pointer", what);
}

/// Returns whether there is a callback for messages of this level. Callers compose expensive texts only then.
bool logs(kilter_log_level level) noexcept;
/// Passes a message to the callback. `text` ends with a zero byte; it becomes one line.
void log_text(kilter_log_level level, const char* text) noexcept;
template <class... Args>
void log(kilter_log_level level, fmt::format_string<Args...> format, Args&&... args) {
  if (logs(level)) log_text(level, fmt::format(format, std::forward<Args>(args)...).c_str());
}

/// Copies options from a caller built for an older or newer version. `given` has `bytes` bytes; those that this version
/// does not know must be 0, so new fields must leave no padding. Throws usage for fewer than `least` bytes, naming the
/// struct `what` and the macro that has its `defaults`.
void take_options(const void* given, size_t bytes, size_t least, void* options, size_t size, const char* what,
                  const char* defaults);

/// Memory for the bytes of a compiled file, aligned so that its constants need no further copy.
std::shared_ptr<std::byte> file_memory(size_t bytes);
/// Creates a program from the bytes of a compiled file, which `owner` keeps alive. Errors refer to them as `where`.
std::unique_ptr<kilter_program> make_program(std::span<const std::byte> bytes, std::shared_ptr<void> owner,
                                             const std::string& where, bool verify);

/// Reserves an instance for one thread. Throws usage if another thread uses it.
class InUse {
 public:
  explicit InUse(kilter_instance& instance);
  ~InUse() { instance_.use.store(Use::idle, std::memory_order_release); }
  InUse(const InUse&) = delete;
  InUse& operator=(const InUse&) = delete;

 private:
  kilter_instance& instance_;
};

/// Runs the network once on values, as kilter_instance_run_values() does: bound inputs are null and get their state,
/// and bound outputs become the state and are absent. The caller holds InUse.
std::vector<AnyValue> run_held(kilter_instance& instance, const kilter_value* const* inputs, size_t input_count);

/// Fills in a description of a tensor, which must live as long as it is used. `shape`: null for an unknown rank.
void describe(const char* name, DType type, const Shape* shape, kilter_tensor_info* info);

}  // namespace kilter::c_abi
