// The CPU as a device: machine code in executable memory, kernels on the threads of a pool, host memory.
#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "exec/device.h"

namespace kilter {

extern const DeviceRow kCpuDevice;

class CpuDevice : public Device {
 public:
  explicit CpuDevice(std::shared_ptr<ThreadPool> pool) : pool_(std::move(pool)) {}

  bool shares_memory() const override { return true; }
  DeviceMemory alloc(int64_t bytes, std::string_view what) override;
  void upload(const std::byte* host, std::byte* to, int64_t bytes) override { copy(host, to, bytes, nullptr); }
  void download(const std::byte* from, std::byte* host, int64_t bytes) override { copy(from, host, bytes, nullptr); }
  void copy(const std::byte* from, std::byte* to, int64_t bytes, RunTrace* trace) override;
  void fill_halo(const HaloFill& halo, std::byte* base, RunTrace* trace) override;
  int32_t launch(const Launch& launch, RunTrace* trace) override;
  void sync() override {}
  int workers() const override { return pool_->threads(); }

 protected:
  /// Calls ThreadPool::run(), and stamps each worker's part if there is a trace.
  int32_t dispatch(RunTrace* trace, int64_t extent, int max_threads, ThreadPool::Body body, void* context);

 private:
  std::shared_ptr<ThreadPool> pool_;
};

}  // namespace kilter
