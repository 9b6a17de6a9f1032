// Devices: what holds a plan's memory and runs its kernels. A device knows nothing of networks; the executor walks
// through the plan and calls it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "exec/memory.h"
#include "exec/plan.h"
#include "exec/thread_pool.h"
#include "exec/trace.h"

namespace kilter {

/// A plan's kernels, made ready for one device. Several instances and threads use one at the same time.
class DeviceCode {
 public:
  virtual ~DeviceCode() = default;
  /// The handle of kernel `index` of Plan::entries for Device::launch(); valid while this lives.
  virtual const void* kernel(int32_t index) const = 0;
  /// The machine code of that kernel; empty if the device has none that can be read.
  virtual std::span<const std::byte> bytes(int32_t index) const = 0;
};

/// One kernel over its whole parallel range.
struct Launch {
  const void* kernel = nullptr;  ///< DeviceCode::kernel()
  KernelArgs args{};
  int64_t extent = 0;       ///< parallel iterations
  int32_t max_threads = 0;  ///< Step::max_threads
};

/// Used by one instance at a time. Operations run in the order of the calls; after sync() the host sees their results.
/// `trace`: null, or where each worker's part is stamped.
class Device {
 public:
  virtual ~Device() = default;
  /// Zeroed memory, 64-byte aligned. Throws out_of_memory naming `what`.
  virtual Block alloc(int64_t bytes, std::string_view what) = 0;
  virtual void copy(const std::byte* from, std::byte* to, int64_t bytes, RunTrace* trace) = 0;
  /// Zeroes the halo of the buffer at `base`.
  virtual void fill_halo(const HaloFill& halo, std::byte* base, RunTrace* trace) = 0;
  /// Answers the first non-zero result in the order of the iterations, else 0.
  virtual int32_t launch(const Launch& launch, RunTrace* trace) = 0;
  virtual void sync() = 0;
  /// Workers that a launch may have, each with scratch memory of its own.
  virtual int workers() const = 0;
};

/// One kind of device.
struct DeviceRow {
  std::string_view name;  ///< Plan::device
  /// Makes a plan's code ready; the plan outlives it. Throws unsupported if this machine cannot run the code.
  std::unique_ptr<DeviceCode> (*load)(const Plan& plan);
  std::unique_ptr<Device> (*open)(std::shared_ptr<ThreadPool> pool);
};
/// Adds a kind of device; libraries that bring one call it when they are set up. A second row of one name is ignored.
void add_device(const DeviceRow& row);
/// Throws unsupported, with the names that there are, for a device that no library has brought.
const DeviceRow& find_device(const std::string& name);

}  // namespace kilter
