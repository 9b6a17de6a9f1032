// Runs a plan. A Program is loaded once (code mapped executable, constants shared); each Instance has its own arena and
// is used by one caller at a time; several instances of one Program run side by side on one or several pools.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "exec/plan.h"
#include "exec/thread_pool.h"
#include "exec/trace.h"

namespace kilter {

class DeviceCode;
struct DeviceRow;

/// A reference step made ready. `buffers`: present inputs, then present outputs, 64-byte aligned as the plan places
/// them. Several threads may call one at the same time.
using ReferenceKernel = std::function<void(std::span<std::byte* const> buffers)>;
/// Makes a step ready; `call` outlives the answer. Throws bad_input for an operator or attributes that it does not
/// know.
using ReferenceMaker = ReferenceKernel (*)(const ReferenceCall& call);
/// What programs made from now on use for their reference steps. Installed by the compiler library; the runtime library
/// alone has none and says so.
void set_reference_maker(ReferenceMaker maker);

class Program {
 public:
  /// Throws internal when the plan breaks an invariant (plan_check.h), unsupported when the plan is for a device that
  /// is not there or that lacks features that its code uses (names them), and what ReferenceMaker throws.
  explicit Program(Plan plan);
  ~Program();
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;
  const Plan& plan() const { return plan_; }
  const DeviceRow& device() const { return *device_; }
  const DeviceCode& code() const { return *code_; }
  /// Of a reference step; empty where no maker was installed when the program was made.
  const ReferenceKernel& reference(size_t step) const { return references_[step]; }

 private:
  Plan plan_;
  const DeviceRow* device_ = nullptr;
  std::unique_ptr<DeviceCode> code_;
  std::vector<ReferenceKernel> references_;  ///< by step; empty where a step is of another kind
};

/// Called around every step when set; for --verify.
struct StepObserver {
  std::function<void(size_t step)> before, after;
  std::function<bool(size_t step)> leaves_out = {};  ///< true: the step does not run; before and after are called
};

/// Memory of the caller for an instance to work in. It outlives the instance; instances that never run at the same time
/// may share it. What is left 0 the instance allocates.
struct Placement {
  std::byte* arena = nullptr;    ///< Plan::arena_bytes, 64-byte aligned
  std::byte* scratch = nullptr;  ///< of worker 0; worker w has Plan::scratch_bytes at scratch + w * scratch_stride
  int64_t scratch_stride = 0;    ///< bytes, a multiple of 64; at least least_scratch_stride()
};
/// Bytes between the scratch of two workers where the instance allocates it.
int64_t least_scratch_stride(const Plan& plan);

/// A stretch of the packed constants that lies elsewhere in memory, for measurements that rotate weights.
struct ConstantWindow {
  int64_t begin = 0, end = 0;       ///< byte offsets in Plan::constants
  const std::byte* base = nullptr;  ///< of the copy; 64-byte aligned relative to `begin`
};

class Instance {
 public:
  /// Allocates everything that running needs: arena, scratch of every worker, aligned copies for callers' unaligned
  /// tensors.
  Instance(std::shared_ptr<const Program> program, std::shared_ptr<ThreadPool> pool, const Placement& placement = {});
  ~Instance();
  Instance(const Instance&) = delete;
  Instance& operator=(const Instance&) = delete;

  /// Runs once. Pointers are dense tensors as Plan::inputs / outputs say, any alignment; outputs overlap neither each
  /// other nor inputs. Nothing is allocated. Throws bad_input when a count is wrong or a pointer null, usage when the
  /// instance is already running, unsupported when a reference step has no kernel, internal when a kernel fails (names
  /// the step). `trace` must be made for as many threads as the pool has.
  void run(std::span<const std::byte* const> inputs, std::span<std::byte* const> outputs,
           const StepObserver* observer = nullptr, RunTrace* trace = nullptr);
  /// Runs one step again on the buffers that the last run() left; steps that work in place change what they read, so
  /// only times and not values are of use until the next run(). `window`: null for the plan's own constants.
  void replay(size_t step, const ConstantWindow* window, RunTrace* trace);
  /// The bytes behind a buffer of the last run (valid until the next one).
  std::byte* address(const BufferRef& ref) const;
  /// The machine code of a step as it is mapped; empty for steps that have none.
  std::span<const std::byte> code(size_t step) const;
  /// The scratch memory of the thread that calls run().
  std::span<std::byte> scratch() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace kilter
