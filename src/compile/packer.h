// Packed constants and lowered tasks of a plan under construction, taken from a cache if there is one.
#pragma once

#include <memory>

#include "compile/build_cache.h"
#include "compile/compile.h"
#include "compile/constant_pool.h"
#include "schedule/problem/task.h"

namespace kilter {

class Packer {
 public:
  explicit Packer(const CompileOptions& options) : options_(&options) {}

  /// Bytes of all constants requested so far.
  int64_t bytes() const { return pool_.bytes(); }
  /// Packs a constant of the graph in its layout.
  BufferRef constant(const Graph& graph, ValueId value);
  /// Lowers the task and packs its constants. `wanted`: null for the default schedule.
  std::shared_ptr<const PackedTask> task(const Task& task, const Schedule* wanted);
  /// Whether the cache contains the task as lowered with this schedule.
  bool knows(const Task& task, const Schedule* wanted) const;
  /// Points the plan at its constants: in the cache's sink if there is a cache, otherwise in `own`.
  void place(Plan& plan, Block& own);

 private:
  BufferRef pack(const Tensor& tensor);
  BufferRef pack(const Packing& packing);

  const CompileOptions* options_;
  ConstantPool pool_;
};

}  // namespace kilter
