#include "exec/cpu_device.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/align.h"
#include "base/cpu_info.h"
#include "base/error.h"
#include "base/text.h"

namespace kilter {
namespace {

constexpr int64_t kCopyChunk = int64_t{256} << 10;
constexpr int64_t kParallelFrom = int64_t{1} << 20;  ///< bytes; below this, a second thread costs more than it saves

class CpuCode : public DeviceCode {
 public:
  explicit CpuCode(const Plan& plan) : plan_(plan), code_(std::span(plan.code, static_cast<size_t>(plan.code_bytes))) {}

  const void* kernel(int32_t index) const override { return code_.data() + entry(index); }
  std::span<const std::byte> bytes(int32_t index) const override {
    const int64_t begin = entry(index);
    int64_t end = plan_.code_bytes;
    for (const int64_t other : plan_.entries) {
      if (other > begin) end = std::min(end, other);
    }
    return {code_.data() + begin, static_cast<size_t>(end - begin)};
  }
  const std::byte* constants() const override { return plan_.constants; }

 private:
  int64_t entry(int32_t index) const {
    require(index >= 0 && index < std::ssize(plan_.entries), "kernel {} was requested; the plan has {}", index,
            plan_.entries.size());
    return plan_.entries[static_cast<size_t>(index)];
  }

  const Plan& plan_;
  ExecutableCode code_;
};

/// Explains missing tile registers that the processor has.
std::string refusal(const std::vector<std::string>& missing) {
  const bool tiles = std::ranges::any_of(missing, [](const std::string& f) { return f.starts_with("amx-"); });
  return tiles && !tiles_refused().empty()
             ? fmt::format(" (the processor has AMX, but the system does not permit it: {})", tiles_refused())
             : "";
}

std::unique_ptr<DeviceCode> load(const Plan& plan, int32_t /*index*/) {
  if (plan.arch != kThisArch && plan.code_bytes > 0) {
    fail(ErrorKind::unsupported,
         "'{}' was compiled for target {}, so its code is for {}; this machine ({}) is {}: run it on an {} machine, or "
         "compile it for this one",
         plan.model, plan.target, name(plan.arch), cpu_brand(), name(kThisArch), name(plan.arch));
  }
  const auto missing = missing_cpu_features(plan.required_features);
  if (!missing.empty()) {
    fail(ErrorKind::unsupported,
         "'{}' was compiled for target {} and needs CPU features that this machine ({}) lacks: {}{}; compile it for "
         "this machine",
         plan.model, plan.target, cpu_brand(), join(missing, ", "), refusal(missing));
  }
  return std::make_unique<CpuCode>(plan);
}

std::unique_ptr<Device> open(std::shared_ptr<ThreadPool> pool) { return std::make_unique<CpuDevice>(std::move(pool)); }

struct KernelCall {
  KernelEntry entry;
  const KernelArgs* args;
};

int32_t run_kernel(void* context, int64_t begin, int64_t end, int32_t worker) {
  const auto& call = *static_cast<const KernelCall*>(context);
  return call.entry(call.args, begin, end, worker);
}

struct CopyCall {
  const std::byte* from;
  std::byte* to;
  int64_t bytes;
};

int32_t run_copy(void* context, int64_t begin, int64_t end, int32_t /*worker*/) {
  const auto& call = *static_cast<const CopyCall*>(context);
  const int64_t first = begin * kCopyChunk;
  const int64_t last = std::min(end * kCopyChunk, call.bytes);
  std::memcpy(call.to + first, call.from + first, static_cast<size_t>(last - first));
  return 0;
}

struct TracedCall {
  ThreadPool::Body body;
  void* context;
  RunTrace* trace;
};

int32_t run_traced(void* context, int64_t begin, int64_t end, int32_t worker) {
  const auto& call = *static_cast<const TracedCall*>(context);
  TickSpan* span = call.trace->stamp(worker);
  if (span == nullptr) return call.body(call.context, begin, end, worker);
  if (!call.trace->started(*span)) span->begin = ticks();
  const int32_t result = call.body(call.context, begin, end, worker);
  span->end = ticks();
  return result;
}

struct HaloCall {
  const HaloFill* halo;
  std::byte* base;
};

int32_t run_halo(void* context, int64_t begin, int64_t end, int32_t /*worker*/) {
  const auto& call = *static_cast<const HaloCall*>(context);
  const HaloFill& h = *call.halo;
  const auto fill = [&](std::byte* at, int64_t bytes) {
    if (bytes > 0) std::memset(at, static_cast<int>(h.value), static_cast<size_t>(bytes));
  };
  for (int64_t p = begin; p < end; ++p) {
    std::byte* plane = call.base + p * h.plane_bytes;
    fill(plane, h.top * h.row_bytes);
    for (int64_t r = h.top; r < h.rows - h.bottom; ++r) {
      fill(plane + r * h.row_bytes, h.left_bytes);
      fill(plane + (r + 1) * h.row_bytes - h.right_bytes, h.right_bytes);
    }
    fill(plane + (h.rows - h.bottom) * h.row_bytes, h.bottom * h.row_bytes);
  }
  return 0;
}

}  // namespace

const DeviceRow kCpuDevice = {.name = "cpu", .load = load, .open = open};

DeviceMemory CpuDevice::alloc(int64_t bytes, std::string_view what) {
  auto block = std::make_shared<Block>(bytes, what);
  return {block->data(), block};
}

int32_t CpuDevice::dispatch(RunTrace* trace, int64_t extent, int max_threads, ThreadPool::Body body, void* context) {
  if (trace == nullptr) return pool_->run(extent, max_threads, body, context);
  TracedCall call{body, context, trace};
  return pool_->run(extent, max_threads, run_traced, &call);
}

void CpuDevice::copy(const std::byte* from, std::byte* to, int64_t bytes, RunTrace* trace) {
  if (from == to || bytes == 0) return;
  CopyCall call{from, to, bytes};
  const bool apart = from + bytes <= to || to + bytes <= from;
  if (apart && bytes >= kParallelFrom) {
    dispatch(trace, ceil_div(bytes, kCopyChunk), 0, run_copy, &call);
  } else {
    std::memmove(to, from, static_cast<size_t>(bytes));
  }
}

void CpuDevice::fill_halo(const HaloFill& halo, std::byte* base, RunTrace* trace) {
  if (halo.rows == 0 || halo.row_bytes == 0) return;
  HaloCall call{&halo, base};
  const bool large = halo.plane_bytes * halo.planes >= 4 * kParallelFrom;
  dispatch(trace, halo.planes, large ? 0 : 1, run_halo, &call);
}

int32_t CpuDevice::launch(const Launch& launch, RunTrace* trace) {
  // A kernel's entry is code, but the interface passes it as the address of data.
  KernelCall call{reinterpret_cast<KernelEntry>(const_cast<void*>(launch.kernel)), &launch.args};
  return dispatch(trace, launch.extent, launch.max_threads, run_kernel, &call);
}

}  // namespace kilter
