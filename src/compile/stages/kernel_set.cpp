#include "compile/stages/kernel_set.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <set>
#include <type_traits>

#include "base/error.h"
#include "codegen/kernel_args.h"
#include "compile/driver.h"
#include "exec/plan.h"
#include "loop/passes/passes.h"

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

int32_t KernelSet::add(LoopFunc func, const std::string& layer) {
  LoopNumbers numbers = numbers_of(func);
  const Fingerprint code = numbers.code();
  const auto [known, fresh] = by_code_.emplace(code, static_cast<int32_t>(kernels_.size()));
  if (fresh) kernels_.push_back({std::move(func), layer, std::move(numbers), code});
  return known->second;
}

void KernelSet::share(KernelStore& store) {
  if (!store.shares()) return;
  for (Kernel& kernel : kernels_) {
    if (store.find(kernel.code) != nullptr) continue;
    KernelFamily& family = store.family(kernel.layer, kernel.numbers.structure);
    if (family.serves(kernel.numbers) || family.add(kernel.numbers)) kernel.family = &family;
  }
  for (Kernel& kernel : kernels_) {
    if (kernel.family == nullptr) continue;
    if (kernel.family->is_single()) {
      kernel.family = nullptr;
    } else {
      verify(kernel.func);  // the shared kernel's indices cannot be checked without its numbers
      kernel.dims = kernel.family->dims(kernel.numbers);
    }
  }
}

namespace {

/// The objects of a plan's kernels, from the store or compiled into it.
class Objects {
 public:
  Objects(const Target& target, KernelStore& store) : target_(target), store_(store) {}

  /// Marks a kernel for compilation unless the store has it.
  void want(const Fingerprint& code, KernelFamily* family, size_t number, const LoopFunc& func) {
    const bool known =
        family != nullptr ? family->kernel || !families_.insert(family).second : store_.find(code) != nullptr;
    if (known) return;
    lowered_.push_back(family != nullptr ? loop_passes::lower_shared(family->function(func), target_.limits)
                                         : loop_passes::lower(func, target_.limits));
    lowered_.back().name = fmt::format("k{}_{}", number, lowered_.back().name);
    wanted_.emplace_back(code, family);
  }

  void compile(int threads) {
    std::vector<KernelObject> objects = compile_objects(lowered_, target_, threads);
    for (size_t i = 0; i < objects.size(); ++i) {
      CompiledKernel made{std::move(objects[i]), lowered_[i].scratch_bytes()};
      const auto& [code, family] = wanted_[i];
      family != nullptr ? void(family->kernel = std::move(made)) : store_.add(code, std::move(made));
    }
  }

  const CompiledKernel& get(const Fingerprint& code, const KernelFamily* family) {
    return family != nullptr ? *family->kernel : *store_.find(code);
  }

 private:
  const Target& target_;
  KernelStore& store_;
  std::vector<LoopFunc> lowered_;
  std::vector<std::pair<Fingerprint, KernelFamily*>> wanted_;
  std::set<KernelFamily*> families_;
};

}  // namespace

KernelSet::Code KernelSet::generate(const Target& target, int threads, KernelStore* store) const {
  KernelStore own;
  KernelStore& known = store != nullptr ? *store : own;
  Objects objects(target, known);
  for (size_t i = 0; i < kernels_.size(); ++i) objects.want(kernels_[i].code, kernels_[i].family, i, kernels_[i].func);
  objects.compile(threads);
  Code out;
  std::vector<const KernelObject*> all;
  std::vector<size_t> places;  // by kernel: the index of its object in `all`
  for (const Kernel& kernel : kernels_) {
    const CompiledKernel& made = objects.get(kernel.code, kernel.family);
    const auto place = kernel.family != nullptr ? std::ranges::find(all, &made.object) : all.end();
    places.push_back(static_cast<size_t>(place - all.begin()));
    if (place == all.end()) all.push_back(&made.object);
    out.scratch_bytes = std::max(out.scratch_bytes, made.scratch_bytes);
  }
  if (!all.empty()) out.code = backend_of(target).link(all, target);
  std::vector<int64_t> entries;
  for (const size_t place : places) entries.push_back(out.code.entries[place]);
  out.code.entries = std::move(entries);
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
