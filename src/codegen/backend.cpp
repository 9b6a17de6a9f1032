#include "codegen/backend.h"

#include <algorithm>
#include <array>

#include "base/text.h"
#include "codegen/llvm/llvm_backend.h"
#include "codegen/null/null_backend.h"
#include "codegen/opencl/opencl_backend.h"

namespace kilter {
namespace {

constexpr std::array<const Backend*, 3> kBackends = {&codegen::kLlvmBackend, &codegen::kNullBackend,
                                                     &codegen::kOpenClBackend};

}  // namespace

std::span<const Backend* const> all_backends() { return kBackends; }

const Backend& backend_of(const Target& target) {
  const auto it = std::ranges::find(kBackends, std::string_view(target.backend), &Backend::name);
  if (it != kBackends.end()) return **it;
  std::vector<std::string> names;
  for (const Backend* backend : kBackends) names.emplace_back(backend->name);
  fail(ErrorKind::usage, "target '{}': unknown back end '{}'; legal values are {}", target.name, target.backend,
       join(names, ", "));
}

void add_backend_devices() {
  codegen::add_null_device();
  codegen::add_opencl_device();
}

std::string codegen_version() { return kBackends.front()->version(); }

std::vector<std::string> features_used(const Target& target) { return backend_of(target).features(target); }

std::vector<KernelObject> compile_objects(std::span<const LoopFunc> funcs, const Target& target, int threads) {
  const Backend& backend = backend_of(target);
  for (const LoopFunc& func : funcs) {
    if (const std::optional<Rejected> why = backend.accepts(func, target))
      fail(ErrorKind::unsupported, "kernel '{}': the back end '{}' does not accept it: {}", func.name, backend.name,
           why->text());
  }
  return backend.compile(funcs, target, threads);
}

MachineCode compile(std::span<const LoopFunc> funcs, const Target& target, int threads) {
  const std::vector<KernelObject> objects = compile_objects(funcs, target, threads);
  std::vector<const KernelObject*> all;
  for (const KernelObject& object : objects) all.push_back(&object);
  return backend_of(target).link(all, target);
}

}  // namespace kilter
