// Runs a plan. A Program is loaded once (code mapped executable, constants shared). Each Instance has its own arena and
// is used by one caller at a time. Several instances of one Program may run concurrently, on one or several pools.
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

/// A reference step that is ready to run. `buffers` are the present inputs, then the present outputs, 64-byte aligned
/// as the plan places them. Several threads may call one at the same time.
using ReferenceKernel = std::function<void(std::span<std::byte* const> buffers)>;
/// Prepares a reference step; `call` must outlive the result. Throws bad_input for an operator or attributes that it
/// does not know.
using ReferenceMaker = ReferenceKernel (*)(const ReferenceCall& call);
/// Sets the maker for the reference steps of all programs created from now on. The compiler library installs one. The
/// runtime library alone has none; running a reference step then throws unsupported.
void set_reference_maker(ReferenceMaker maker);

class Program {
 public:
  /// Throws internal when the plan breaks an invariant (plan_check.h). Throws unsupported when a device of the plan
  /// does not exist or lacks features that the code uses, naming them. Errors of ReferenceMaker propagate.
  explicit Program(Plan plan);
  ~Program();
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;
  const Plan& plan() const { return plan_; }
  /// Return the parts that belong to device `index` of Plan::devices.
  const DeviceRow& device(size_t index) const { return *devices_[index]; }
  const DeviceCode& code(size_t index) const { return *codes_[index]; }
  /// Returns the kernel of a reference step; empty if no maker was installed when the program was created.
  const ReferenceKernel& reference(size_t step) const { return references_[step]; }

 private:
  Plan plan_;
  std::vector<const DeviceRow*> devices_;
  std::vector<std::unique_ptr<DeviceCode>> codes_;
  std::vector<ReferenceKernel> references_;  ///< by step; empty for steps of another kind
};

/// Callbacks around every step, for --verify.
struct StepObserver {
  std::function<void(size_t step)> before, after;
  std::function<bool(size_t step)> leaves_out = {};  ///< returns true to skip the step; before and after are still
                                                     ///< called
};

/// Memory that the caller provides for an instance to work in. It must outlive the instance. Instances that never run
/// at the same time may share it. The instance allocates the parts that are null here, and all parts if the device
/// cannot use host memory.
struct Placement {
  std::byte* arena = nullptr;    ///< Plan::arena_bytes, 64-byte aligned
  std::byte* scratch = nullptr;  ///< scratch of worker 0; worker w has Plan::scratch_bytes at scratch + w *
                                 ///< scratch_stride
  int64_t scratch_stride = 0;    ///< bytes, a multiple of 64; at least least_scratch_stride()
  std::byte* staging = nullptr;  ///< staging_bytes(), 64-byte aligned
};
/// Returns the bytes of the copies of all inputs and outputs that an instance needs for unaligned ones.
int64_t staging_bytes(const Plan& plan);
/// Returns the distance in bytes between the scratch memories of two workers if the instance allocates them.
int64_t least_scratch_stride(const Plan& plan);

/// A copy of a part of the packed constants elsewhere in memory, for measurements that rotate weights.
struct ConstantWindow {
  int64_t begin = 0, end = 0;       ///< byte offsets in Plan::constants
  const std::byte* base = nullptr;  ///< base of the copy; 64-byte aligned relative to `begin`
};

class Instance {
 public:
  /// Allocates everything that a run needs: the arena, the scratch of every worker, and aligned copies for callers'
  /// unaligned tensors.
  Instance(std::shared_ptr<const Program> program, std::shared_ptr<ThreadPool> pool, const Placement& placement = {});
  ~Instance();
  Instance(const Instance&) = delete;
  Instance& operator=(const Instance&) = delete;

  /// Runs once, without allocating. The pointers are dense tensors as Plan::inputs and Plan::outputs describe them,
  /// with any alignment. Outputs must overlap neither each other nor inputs. Throws bad_input when a count is wrong or
  /// a pointer null, usage when the instance is already running, unsupported when a reference step has no kernel, and
  /// internal when a kernel fails (naming the step). `trace` must have been created for as many threads as the pool
  /// has.
  void run(std::span<const std::byte* const> inputs, std::span<std::byte* const> outputs,
           const StepObserver* observer = nullptr, RunTrace* trace = nullptr);
  /// Runs one step again on the buffers that the last run() left. Steps that work in place overwrite their inputs, so
  /// until the next run() only times are meaningful, not values. `window`: null for the plan's own constants; ignored
  /// if the device cannot use host memory.
  void replay(size_t step, const ConstantWindow* window, RunTrace* trace);
  /// Returns the bytes of a buffer of the last run (valid until the next one); if the host cannot address the device's
  /// memory, a copy of them.
  std::byte* address(const BufferRef& ref) const;
  /// Returns the mapped machine code of a step; empty for steps that have none.
  std::span<const std::byte> code(size_t step) const;
  /// Returns the attendance of the pool that it runs on.
  Attendance attendance() const;
  /// Returns the scratch memory of the thread that calls run(); empty if the host cannot address it.
  std::span<std::byte> scratch() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace kilter
