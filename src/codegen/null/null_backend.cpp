#include "codegen/null/null_backend.h"

#include <cstring>
#include <memory>
#include <utility>

#include "exec/cpu_device.h"

namespace kilter::codegen {
namespace {

std::string version() { return "interpreter"; }

std::optional<Rejected> accepts(const LoopFunc& /*func*/, const Target& /*target*/) { return std::nullopt; }

std::string source(const LoopFunc& func, const Target& /*target*/) { return print(func); }

std::vector<std::string> features(const Target& /*target*/) { return {}; }

std::vector<KernelObject> compile_texts(std::span<const LoopFunc> funcs, const Target& /*target*/, int /*threads*/) {
  std::vector<KernelObject> objects;
  for (const LoopFunc& func : funcs) {
    const std::string text = print(func);
    objects.push_back({func.name, {text.begin(), text.end()}});
  }
  return objects;
}

/// Concatenates the texts, each terminated by a zero.
MachineCode link_texts(std::span<const KernelObject* const> objects, const Target& /*target*/) {
  MachineCode code;
  for (const KernelObject* object : objects) {
    code.entries.push_back(std::ssize(code.bytes));
    const std::span<const std::byte> text = std::as_bytes(std::span(object->bytes));
    code.bytes.insert(code.bytes.end(), text.begin(), text.end());
    code.bytes.push_back(std::byte{0});
  }
  return code;
}

class NullCode : public DeviceCode {
 public:
  NullCode(const Plan& plan, int32_t device) : functions_(plan.entries.size()) {
    const std::string_view code(reinterpret_cast<const char*>(plan.code), static_cast<size_t>(plan.code_bytes));
    std::vector<bool> parsed(functions_.size());
    for (const Step& step : plan.steps) {
      if (step.kind != StepKind::kernel || step.device != device) continue;
      const auto kernel = static_cast<size_t>(step.kernel);
      if (parsed[kernel]) continue;
      const std::string_view rest = code.substr(static_cast<size_t>(plan.entries[kernel]));
      functions_[kernel] = parse_loop_func(rest.substr(0, rest.find('\0')));
      parsed[kernel] = true;
    }
  }
  const void* kernel(int32_t index) const override { return &functions_.at(static_cast<size_t>(index)); }
  std::span<const std::byte> bytes(int32_t /*index*/) const override { return {}; }

 private:
  std::vector<LoopFunc> functions_;
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
