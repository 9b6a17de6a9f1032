#include "codegen/null/null_backend.h"

#include <memory>
#include <utility>

#include "codegen/texts.h"
#include "exec/cpu_device.h"

namespace kilter::codegen {
namespace {

std::string version() { return "interpreter"; }

std::optional<Rejected> accepts(const LoopFunc& /*func*/, const Target& /*target*/) { return std::nullopt; }

std::string source(const LoopFunc& func, const Target& /*target*/) { return print(func); }

std::vector<std::string> features(const Target& /*target*/) { return {}; }

std::vector<KernelObject> compile_texts(std::span<const LoopFunc> funcs, const Target& /*target*/, int /*threads*/) {
  std::vector<KernelObject> objects;
  for (const LoopFunc& func : funcs) objects.push_back(text_object(func, print(func)));
  return objects;
}

class NullCode : public DeviceCode {
 public:
  NullCode(const Plan& plan, int32_t device) : functions_(plan.entries.size()), constants_(plan.constants) {
    const std::vector<bool> wanted = kernels_on(plan, device);
    for (size_t i = 0; i < wanted.size(); ++i) {
      if (wanted[i]) functions_[i] = parse_loop_func(linked_text(plan, i));
    }
  }
  const void* kernel(int32_t index) const override { return &functions_.at(static_cast<size_t>(index)); }
  std::span<const std::byte> bytes(int32_t /*index*/) const override { return {}; }
  const std::byte* constants() const override { return constants_; }

 private:
  std::vector<LoopFunc> functions_;
  const std::byte* constants_;
};

struct Call {
  const LoopFunc* func;
  std::vector<std::byte*> buffers;
};

int32_t run_interpreted(void* context, int64_t begin, int64_t end, int32_t /*worker*/) {
  const auto& call = *static_cast<const Call*>(context);
  return interpret(*call.func, call.buffers, begin, end);
}

class NullDevice : public CpuDevice {
 public:
  using CpuDevice::CpuDevice;

  int32_t launch(const Launch& launch, RunTrace* trace) override {
    const auto* func = static_cast<const LoopFunc*>(launch.kernel);
    Call call{func, {}};
    size_t next = 0;
    for (const Buffer& buffer : func->buffers) {
      if (buffer.kind != BufferKind::scratch) call.buffers.push_back(launch.args.buffers[next++]);
    }
    return dispatch(trace, launch.extent, launch.max_threads, run_interpreted, &call);
  }
};

std::unique_ptr<DeviceCode> load(const Plan& plan, int32_t index) { return std::make_unique<NullCode>(plan, index); }

std::unique_ptr<Device> open(std::shared_ptr<ThreadPool> pool) { return std::make_unique<NullDevice>(std::move(pool)); }

}  // namespace

const Backend kNullBackend = {.name = "null",
                              .device = "null",
                              .version = version,
                              .revision = 1,
                              .accepts = accepts,
                              .compile = compile_texts,
                              .link = link_texts,
                              .source = source,
                              .features = features};

void add_null_device() { add_device({.name = "null", .load = load, .open = open}); }

}  // namespace kilter::codegen
