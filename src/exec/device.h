// Devices, which own a plan's memory and run its kernels. A device knows nothing about networks: the executor walks
// through the plan and calls the device.
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

/// The kernels of a plan that run on one device, loaded for it. Several instances and threads may use them at the same
/// time.
class DeviceCode {
 public:
  virtual ~DeviceCode() = default;
  /// Returns the handle of kernel `index` of Plan::entries for Device::launch(). A step of this device must run that
  /// kernel. Valid while this object lives.
  virtual const void* kernel(int32_t index) const = 0;
  /// Returns the machine code of kernel `index`; empty if the device has none that can be read.
  virtual std::span<const std::byte> bytes(int32_t index) const = 0;
  /// Returns the plan's constants in the device's memory.
  virtual const std::byte* constants() const = 0;
};

/// Memory that a device has allocated.
struct DeviceMemory {
  std::byte* address = nullptr;  ///< for the device; for the host only if Device::shares_memory()
  std::shared_ptr<void> owner;   ///< releases the memory
};

/// A launch of one kernel over its whole parallel range.
struct Launch {
  const void* kernel = nullptr;  ///< DeviceCode::kernel()
  KernelArgs args{};
  int64_t extent = 0;       ///< parallel iterations
  int32_t max_threads = 0;  ///< Step::max_threads
};

/// A device, used by one instance at a time. Operations run in the order of the calls; after sync() the host sees their
/// results. `trace` is null, or receives the stamps of each worker's part.
class Device {
 public:
  virtual ~Device() = default;
  /// Returns whether the device and the host can use each other's memory. If they cannot, all pointers that the other
  /// functions receive point to memory of the device, except `host`.
  virtual bool shares_memory() const = 0;
  /// Allocates zeroed memory, 64-byte aligned. Throws out_of_memory naming `what`.
  virtual DeviceMemory alloc(int64_t bytes, std::string_view what) = 0;
  /// Copy to and from the host. On return, the host may change `host` or read it.
  virtual void upload(const std::byte* host, std::byte* to, int64_t bytes) = 0;
  virtual void download(const std::byte* from, std::byte* host, int64_t bytes) = 0;
  virtual void copy(const std::byte* from, std::byte* to, int64_t bytes, RunTrace* trace) = 0;
  /// Fills the halo of the buffer at `base`.
  virtual void fill_halo(const HaloFill& halo, std::byte* base, RunTrace* trace) = 0;
  /// Returns the first non-zero result in the order of the iterations, or 0 if there is none.
  virtual int32_t launch(const Launch& launch, RunTrace* trace) = 0;
  virtual void sync() = 0;
  /// Returns the most workers that a launch may have. Each has its own scratch memory.
  virtual int workers() const = 0;
};

/// A kind of device.
struct DeviceRow {
  std::string_view name;  ///< Plan::devices
  /// Loads the code of the steps that run on device `index` of a plan. The plan must outlive the result. Throws
  /// unsupported if this machine cannot run the code.
  std::unique_ptr<DeviceCode> (*load)(const Plan& plan, int32_t index);
  std::unique_ptr<Device> (*open)(std::shared_ptr<ThreadPool> pool);
};
/// Adds a kind of device. A library that provides a device calls this function during its set-up. A second row with the
/// same name is ignored.
void add_device(const DeviceRow& row);
/// Returns the device of that name. Throws unsupported, with the names that exist, if no library has added it.
const DeviceRow& find_device(const std::string& name);

}  // namespace kilter
