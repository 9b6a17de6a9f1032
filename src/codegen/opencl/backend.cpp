#include "codegen/opencl/opencl_backend.h"
#include "codegen/opencl/source.h"
#include "codegen/texts.h"

namespace kilter::codegen {
namespace {

std::string version() { return "OpenCL C 1.2"; }

std::optional<Rejected> accepts(const LoopFunc& func, const Target& /*target*/) { return opencl_rejects(func); }

std::string source(const LoopFunc& func, const Target& /*target*/) { return opencl_kernel(func).source; }

std::vector<std::string> features(const Target& /*target*/) { return {}; }

std::vector<KernelObject> compile_sources(std::span<const LoopFunc> funcs, const Target& /*target*/, int /*threads*/) {
  std::vector<KernelObject> objects;
  for (const LoopFunc& func : funcs) objects.push_back(text_object(func, to_text(opencl_kernel(func))));
  return objects;
}

}  // namespace

const Backend kOpenClBackend = {.name = "opencl",
                                .device = "opencl",
                                .version = version,
                                .revision = 1,
                                .accepts = accepts,
                                .compile = compile_sources,
                                .link = link_texts,
                                .source = source,
                                .features = features};

}  // namespace kilter::codegen
