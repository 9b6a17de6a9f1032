#include "compile/stages/kernel_set.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <type_traits>

#include "base/error.h"
#include "base/hash.h"
#include "codegen/kernel_args.h"
#include "compile/driver.h"
#include "exec/plan.h"
#include "loop/passes/passes.h"
#include "loop/text.h"

namespace kilter {
namespace {

// Machine code reads this layout, which the executor fills in; compiled files from other machines also rely on it.
using Layout = codegen::KernelArgsLayout;
static_assert(offsetof(KernelArgs, buffers) == Layout::kBuffers && sizeof(KernelArgs::buffers) == 8);
static_assert(offsetof(KernelArgs, scratch) == Layout::kScratch && sizeof(KernelArgs::scratch) == 8);
static_assert(offsetof(KernelArgs, scratch_stride) == Layout::kScratchStride &&
              sizeof(KernelArgs::scratch_stride) == 8);
static_assert(sizeof(KernelArgs) == Layout::kBytes && std::is_standard_layout_v<KernelArgs>);

}  // namespace

KernelSet::Added KernelSet::add(LoopFunc func) {
  const std::string text = print(func);
  const auto [it, fresh] = by_text_.try_emplace(text);
  if (!fresh) return it->second;
  it->second.loops = hash_text(text);
  LoopFunc code = func;
  for (Buffer& buffer : code.buffers) {
    if (buffer.kind != BufferKind::scratch) buffer.elems = 0;
  }
  const auto [known, first] = by_code_.emplace(print(code), static_cast<int32_t>(functions_.size()));
  if (first) {
    functions_.push_back(std::move(func));
    texts_.push_back(text);
  }
  it->second.index = known->second;
  return it->second;
}

KernelSet::Code KernelSet::generate(const Target& target, int threads, KernelStore* store) const {
  KernelStore own;
  KernelStore& known = store != nullptr ? *store : own;
  std::vector<LoopFunc> lowered;
  std::vector<const std::string*> fresh;
  for (size_t i = 0; i < functions_.size(); ++i) {
    const std::string& text = texts_[i];
    if (known.find(text) != nullptr) continue;
    lowered.push_back(loop_passes::lower(functions_[i], target.limits));
    lowered.back().name = fmt::format("k{}_{}", i, lowered.back().name);
    fresh.push_back(&text);
  }
  std::vector<KernelObject> objects = compile_objects(lowered, target, threads);
  for (size_t i = 0; i < objects.size(); ++i) known.add(*fresh[i], {std::move(objects[i]), lowered[i].scratch_bytes()});
  Code out;
  std::vector<const KernelObject*> all;
  for (const std::string& text : texts_) {
    const CompiledKernel* k = known.find(text);
    all.push_back(&k->object);
    out.scratch_bytes = std::max(out.scratch_bytes, k->scratch_bytes);
  }
  if (!all.empty()) out.code = backend_of(target).link(all, target);
  known.build_ended();
  return out;
}

void dump_kernel(const LoopFunc& func, const Target& target, const std::filesystem::path& folder, int64_t step) {
  const auto write = [&](std::string_view extension, const std::string& text) {
    write_dump(folder / "loops" / fmt::format("{:04}_{}.{}", step, func.name, extension), text);
  };
  write("loop", print(func));
  write("s", backend_of(target).source(loop_passes::lower(func, target.limits), target));
}

}  // namespace kilter
