// Runs generated code and compares it with the interpreter.
#pragma once

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "codegen/backend.h"
#include "exec/device.h"
#include "exec/plan.h"
#include "loop/loop.h"
#include "loop/passes/passes.h"

namespace kilter::testing {

/// Machine code in executable memory.
class Mapped {
 public:
  explicit Mapped(const MachineCode& code) : entries_(code.entries), bytes_((code.bytes.size() + 4095) / 4096 * 4096) {
    base_ = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base_ == MAP_FAILED) fail(ErrorKind::io, "mmap of {} bytes failed", bytes_);
    std::memcpy(base_, code.bytes.data(), code.bytes.size());
    mprotect(base_, bytes_, PROT_READ | PROT_EXEC);
  }
  ~Mapped() { munmap(base_, bytes_); }
  Mapped(const Mapped&) = delete;
  Mapped& operator=(const Mapped&) = delete;

  KernelEntry entry(size_t i) const {
    return reinterpret_cast<KernelEntry>(reinterpret_cast<uintptr_t>(base_) + static_cast<uintptr_t>(entries_.at(i)));
  }

 private:
  void* base_ = nullptr;
  std::vector<int64_t> entries_;
  size_t bytes_ = 0;
};

/// Calls one kernel for the parallel iterations [begin, end) as worker `worker`, with its own scratch memory.
inline int32_t call(const LoopFunc& func, KernelEntry entry, const std::vector<std::byte*>& buffers, int64_t begin,
                    int64_t end, int32_t worker = 0) {
  const int64_t stride = (func.scratch_bytes() + 63) / 64 * 64;
  std::vector<std::byte> scratch(static_cast<size_t>(stride * (worker + 1) + 64), std::byte{0xff});
  auto* aligned = reinterpret_cast<std::byte*>((reinterpret_cast<uintptr_t>(scratch.data()) + 63) / 64 * 64);
  const KernelArgs args{buffers.data(), nullptr, aligned, stride};
  return entry(&args, begin, end, worker);
}

/// Loads a compiled function on the device of its back end, and runs it on copies of `buffers`, which receive the
/// results.
inline int32_t run_on_device(const LoopFunc& lowered, const Target& target, const std::vector<std::byte*>& buffers) {
  const MachineCode code = compile(std::span(&lowered, 1), target);
  Plan plan;
  plan.model = lowered.name;
  plan.devices = {std::string(backend_of(target).device)};
  plan.code = code.bytes.data();
  plan.code_bytes = std::ssize(code.bytes);
  plan.entries = code.entries;
  plan.steps.emplace_back().kernel = 0;
  add_backend_devices();
  const DeviceRow& row = find_device(plan.devices.front());
  const std::unique_ptr<DeviceCode> loaded = row.load(plan, 0);
  const std::unique_ptr<Device> device = row.open(std::make_shared<ThreadPool>(1));
  std::vector<DeviceMemory> memory;
  std::vector<std::byte*> addresses;
  std::vector<int64_t> bytes;
  for (const Buffer& b : lowered.buffers) {
    if (b.kind == BufferKind::scratch) continue;
    bytes.push_back(b.elems * size_bytes(b.type));
    memory.push_back(device->alloc(bytes.back(), b.name));
    addresses.push_back(memory.back().address);
    device->upload(buffers.at(addresses.size() - 1), addresses.back(), bytes.back());
  }
  const int64_t stride = (lowered.scratch_bytes() + 63) / 64 * 64;
  const DeviceMemory scratch = device->alloc(stride * device->workers(), "scratch");
  const Launch launch{
      loaded->kernel(0), {addresses.data(), nullptr, scratch.address, stride}, lowered.parallel_extent(), 0};
  const int32_t result = device->launch(launch, nullptr);
  device->sync();
  for (size_t i = 0; i < buffers.size(); ++i) device->download(addresses[i], buffers[i], bytes[i]);
  return result;
}

/// Compiles a lowered function and runs it on `buffers`. Machine code runs as worker 1.
inline int32_t run_compiled(const LoopFunc& lowered, const Target& target, const std::vector<std::byte*>& buffers) {
  if (backend_of(target).device != "cpu") return run_on_device(lowered, target, buffers);
  const Mapped mapped(compile(std::span(&lowered, 1), target));
  return call(lowered, mapped.entry(0), buffers, 0, lowered.parallel_extent(), 1);
}

/// Returns targets that this machine can run: one for each vector width, and the target that Kilter would choose.
inline std::vector<Target> targets_here() {
  std::vector<Target> targets;
  for (const char* name : {"x86-64-v2", "x86-64-v3", "x86-64-v4"}) {
    if (const Target t = parse_target(name); runs_here(t)) targets.push_back(t);
  }
  targets.push_back(native_target());
  return targets;
}

/// Returns targets_here(), and the OpenCL device, whose compiler is slow, for short vectors.
inline std::vector<Target> targets_with(int32_t lanes) {
  std::vector<Target> targets = targets_here();
  if (lanes <= 4) targets.push_back(parse_target("opencl"));
  return targets;
}

/// A buffer of bytes between two guard areas that nothing may write.
class GuardedMemory {
 public:
  explicit GuardedMemory(int64_t bytes) : bytes_(bytes), store_(static_cast<size_t>(bytes + 2 * kGuard + 64), kMark) {
    const auto start = reinterpret_cast<uintptr_t>(store_.data()) + kGuard;
    data_ = reinterpret_cast<std::byte*>((start + 63) / 64 * 64);
  }
  std::byte* data() const { return data_; }
  int64_t bytes() const { return bytes_; }
  bool intact() const {
    for (const std::byte* p = store_.data(); p != store_.data() + store_.size(); ++p) {
      if ((p < data_ || p >= data_ + bytes_) && *p != kMark) return false;
    }
    return true;
  }

 private:
  static constexpr int64_t kGuard = 256;
  static constexpr std::byte kMark{0xa5};
  int64_t bytes_;
  std::vector<std::byte> store_;
  std::byte* data_ = nullptr;
};

}  // namespace kilter::testing
