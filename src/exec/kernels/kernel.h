// Runtime kernels: operators that the host computes without machine code from the compiler. Steps of plans whose
// operator has no loop form run them, and so do the host operators of programs (vm/host_op.h). A kernel computes what
// the reference kernel of its operator does, but fast, and it needs nothing of the compiler.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/tensor.h"

namespace kilter {

class ThreadPool;

/// The attributes of a node, in the form of graph/graph.h.
using KernelAttr = std::variant<int64_t, float, std::string, std::vector<int64_t>, std::vector<float>,
                                std::vector<std::string>, Tensor>;
using KernelAttrs = std::map<std::string, KernelAttr, std::less<>>;

/// The node that a kernel runs.
struct KernelCall {
  std::string_view op, name;  ///< for errors
  int32_t opset = 0;
  const KernelAttrs& attrs;

  bool has_attr(std::string_view key) const { return attrs.find(key) != attrs.end(); }
  /// Return the attribute, or `fallback` if it is absent. Throw bad_model if it is of a different type.
  int64_t int_attr(std::string_view key, int64_t fallback) const;
  float float_attr(std::string_view key, float fallback) const;
  std::string_view string_attr(std::string_view key, std::string_view fallback) const;
};

/// An input: a dense row-major tensor. Its data are null where only types and shapes are known.
struct KernelOperand {
  bool present = false;
  DType type = DType::f32;
  std::span<const int64_t> shape;
  int64_t elems = 0;
  const std::byte* data = nullptr;

  template <class T>
  const T* as() const {
    return reinterpret_cast<const T*>(data);
  }
  int64_t rank() const { return std::ssize(shape); }
};
using KernelOperands = std::span<const KernelOperand>;

/// Receives the outputs of a kernel.
class KernelResults {
 public:
  KernelResults() = default;
  KernelResults(const KernelResults&) = delete;
  KernelResults& operator=(const KernelResults&) = delete;
  virtual ~KernelResults() = default;
  virtual bool wants(size_t output) const = 0;
  /// Allocates an output for which wants() is true and returns its memory. Kernels call this once for each output.
  virtual std::byte* make(size_t output, DType type, std::span<const int64_t> shape) = 0;

  template <class T>
  T* make(size_t output, std::span<const int64_t> shape) {
    return reinterpret_cast<T*>(make(output, DTypeOf<T>::value, shape));
  }
};

struct RuntimeKernel {
  std::string_view op;
  int32_t since = 1;  ///< first opset of its domain whose form of the operator the kernel computes
  std::string_view domain = "";
  /// Returns whether the kernel computes the operator with these attributes for operands of these types and shapes.
  /// Returns false for illegal attributes and operands. Reads no data.
  bool (*takes)(const KernelCall&, KernelOperands) = nullptr;
  /// Computes the outputs. Returns false, before it allocates an output, if the kernel does not support the values of
  /// the operands because they are illegal or rare. Throws bad_input for an index or a region out of range. `pool` may
  /// be null.
  bool (*run)(const KernelCall&, KernelOperands, KernelResults&, ThreadPool* pool) = nullptr;
};

/// Returns the kernel of an operator, or nullptr. "ai.onnx" and "" are the same domain.
const RuntimeKernel* find_runtime_kernel(std::string_view domain, std::string_view op, int32_t opset);
/// Returns all kernels, sorted by operator.
std::span<const RuntimeKernel* const> all_runtime_kernels();

}  // namespace kilter
