// Packed constants and lowered tasks of a plan while it is built, out of a cache where there is one.
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

  /// Of all constants that were asked for.
  int64_t bytes() const { return pool_.bytes(); }
  /// A constant of the graph as its layout wants it.
  BufferRef constant(const Graph& graph, ValueId value);
  /// The task lowered, with its constants packed. `wanted`: null for the default schedule.
  std::shared_ptr<const PackedTask> task(const Task& task, const Schedule* wanted);
  /// Whether the cache has the task lowered that way.
  bool knows(const Task& task, const Schedule* wanted) const;
  /// Where the plan finds the constants: in the cache's sink, else in `own`.
  void place(Plan& plan, Block& own);

 private:
  BufferRef pack(const Tensor& tensor);
  BufferRef pack(const Packing& packing);

  const CompileOptions* options_;
  ConstantPool pool_;
};

}  // namespace kilter
