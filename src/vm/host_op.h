// Single operators on values whose shapes are known only while the network runs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/any_value.h"
#include "graph/open_graph.h"

namespace kilter {
class ThreadPool;
}

namespace kilter::vm {

/// How operators run on the host.
struct HostOptions {
  ThreadPool* pool = nullptr;   ///< for runtime kernels (exec/kernels/kernel.h); null: they run in the caller
  bool reference_only = false;  ///< only reference kernels run
  /// Operations that reference kernels may still do (fold_work()); null: any number. Runtime kernels are not counted.
  int64_t* work_left = nullptr;
};
/// Thrown before a reference kernel that would do more operations than HostOptions::work_left.
struct TooMuchWork {
  std::string node;  ///< "MatMul 'name'"
};

/// Whether an operator returns its only input, a value of any kind, as Identity does.
bool passes_on(const OpDef& op);

/// Runs a node by its runtime kernel, as copies of regions, by its reference kernel, or by those of the operators that
/// it expands to. `inputs`: one value for each of node.inputs; absent where one is left out. Returns one value for each
/// of node.outputs; absent where it is not wanted. Outputs may share the bytes of inputs. Throws bad_model if the
/// values do not fit the operator, and unsupported if it has no kernel.
std::vector<AnyValue> run_op(const Node& node, std::vector<AnyValue> inputs, const HostOptions& options = {});
/// Runs a node whose output types are known on tensors; undefined where one is left out or not wanted.
std::vector<Tensor> run_node(const Node& node, std::vector<Tensor> inputs, const std::vector<TensorType>& types,
                             const HostOptions& options = {});

/// Runs the nodes of a segment one by one, by run_op(). `inputs`: one value for each of its inputs.
std::vector<AnyValue> interpret(const OpenGraph& segment, std::vector<AnyValue> inputs,
                                const HostOptions& options = {});

}  // namespace kilter::vm
