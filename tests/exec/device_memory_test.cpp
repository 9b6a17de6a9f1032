// Plans on a device whose memory the host cannot address.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstring>
#include <map>

#include "../base/error_of.h"
#include "base/error.h"
#include "exec/cpu_device.h"
#include "exec/executor.h"
#include "test_plans.h"

namespace kilter {
namespace {

/// Memory that can be used only during operations of the device. The host crashes if it reads or writes any.
class LockedMemory {
 public:
  std::byte* take(int64_t bytes) {
    const auto size = static_cast<size_t>((bytes + 4095) / 4096 * 4096 + 4096);
    void* memory = mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    sizes_[memory] = size;
    return static_cast<std::byte*>(memory);
  }
  void release(void* memory) {
    munmap(memory, sizes_.at(memory));
    sizes_.erase(memory);
  }
  void allow(int protection) {
    for (const auto& [memory, size] : sizes_) mprotect(memory, size, protection);
  }

 private:
  std::map<void*, size_t> sizes_;
};

class LockedDevice : public CpuDevice {
 public:
  using CpuDevice::CpuDevice;

  bool shares_memory() const override { return false; }
  DeviceMemory alloc(int64_t bytes, std::string_view /*what*/) override {
    std::byte* memory = memory_->take(bytes);
    return {memory, {memory, [all = memory_](std::byte* p) { all->release(p); }}};
  }
  void upload(const std::byte* host, std::byte* to, int64_t bytes) override {
    during([&] { CpuDevice::upload(host, to, bytes); });
  }
  void download(const std::byte* from, std::byte* host, int64_t bytes) override {
    during([&] { CpuDevice::download(from, host, bytes); });
  }
  void copy(const std::byte* from, std::byte* to, int64_t bytes, RunTrace* trace) override {
    during([&] { CpuDevice::copy(from, to, bytes, trace); });
  }
  void fill_halo(const HaloFill& halo, std::byte* base, RunTrace* trace) override {
    during([&] { CpuDevice::fill_halo(halo, base, trace); });
  }
  int32_t launch(const Launch& launch, RunTrace* trace) override {
    int32_t result = 0;
    during([&] { result = CpuDevice::launch(launch, trace); });
    return result;
  }

 private:
  template <class F>
  void during(F operation) {
    if (open_++ == 0) memory_->allow(PROT_READ | PROT_WRITE);
    operation();
    if (--open_ == 0) memory_->allow(PROT_NONE);
  }

  std::shared_ptr<LockedMemory> memory_ = std::make_shared<LockedMemory>();
  int open_ = 0;
};

const bool kAdded = [] {
  add_device({.name = "locked", .load = kCpuDevice.load, .open = [](std::shared_ptr<ThreadPool> pool) {
                return std::unique_ptr<Device>(std::make_unique<LockedDevice>(std::move(pool)));
              }});
  return true;
}();

/// Returns an instance of a plan whose steps all run on the device "locked".
Instance on_locked_device(Plan plan, const Placement& placement = {}) {
  plan.devices = {"locked"};
  return {std::make_shared<const Program>(std::move(plan)), std::make_shared<ThreadPool>(2), placement};
}

TEST(DeviceMemory, InputsAreUploadedAndOutputsDownloaded) {
  constexpr int64_t kCount = 5000;
  Instance instance = on_locked_device(arithmetic_plan(kCount));
  std::vector<float> x(kCount), y(kCount);
  for (int64_t i = 0; i < kCount; ++i) x[static_cast<size_t>(i)] = static_cast<float>(i % 17);
  const std::byte* inputs[] = {reinterpret_cast<const std::byte*>(x.data())};
  std::byte* outputs[] = {reinterpret_cast<std::byte*>(y.data())};
  for (int run = 0; run < 2; ++run) {
    instance.run(inputs, outputs);
    for (int64_t i = 0; i < kCount; ++i)
      ASSERT_EQ(y[static_cast<size_t>(i)], static_cast<float>(4 * (i % 17) + i)) << i;
  }
}

TEST(DeviceMemory, HalosCopiesAndReferenceStepsUseIt) {
  set_reference_maker(touch_maker);
  Instance instance = on_locked_device(steps_plan());
  Instance on_host(std::make_shared<const Program>(steps_plan()), std::make_shared<ThreadPool>(1));
  set_reference_maker(nullptr);
  const Tensor x(DType::f32, {16}), n = Tensor::scalar<int64_t>(0x0102);
  const Tensor y(DType::u8, {2, 6, 8}), t(DType::f16, {4}), want_y(DType::u8, {2, 6, 8}), want_t(DType::f16, {4});
  const std::byte* inputs[] = {x.raw(), n.raw()};
  std::byte* outputs[] = {y.raw(), t.raw()};
  std::byte* wanted[] = {want_y.raw(), want_t.raw()};
  instance.run(inputs, outputs);
  on_host.run(inputs, wanted);
  EXPECT_EQ(std::memcmp(y.raw(), want_y.raw(), 96), 0);
  EXPECT_EQ(std::memcmp(t.raw(), want_t.raw(), 8), 0);
  // The host gets copies of buffers.
  EXPECT_EQ(std::memcmp(instance.address(output(1, 8)), want_t.raw(), 8), 0);
  EXPECT_EQ(std::memcmp(instance.address(constant(0, 96)), on_host.address(constant(0, 96)), 96), 0);
}

TEST(DeviceMemory, CallersMemoryIsNotUsed) {
  std::vector<std::byte> small(64);
  const Placement placement{.arena = small.data(), .staging = small.data()};
  Instance instance = on_locked_device(arithmetic_plan(1000), placement);
  EXPECT_TRUE(instance.scratch().empty());
  std::vector<float> x(1000), y(1000);
  const std::byte* inputs[] = {reinterpret_cast<const std::byte*>(x.data())};
  std::byte* outputs[] = {reinterpret_cast<std::byte*>(y.data())};
  instance.run(inputs, outputs);
  EXPECT_EQ(y[999], 999);
  EXPECT_EQ(small, std::vector<std::byte>(64));
}

TEST(DeviceMemory, IndicesOutOfRangeAreNamed) {
  Instance instance = on_locked_device(lookup_plan());
  const Tensor ids = Tensor::of<int32_t>({2, 3}, {0, 1, 2, 3, 9, 4});
  const std::byte* inputs[] = {ids.raw()};
  EXPECT_THAT(error_of([&] { instance.run(inputs, {}); }, ErrorKind::bad_input), testing::HasSubstr("9"));
}

}  // namespace
}  // namespace kilter
