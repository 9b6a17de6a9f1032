// Constants that passes compute from constants of a network, kept for compiling the network for other shapes.
#pragma once

#include <atomic>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/tensor.h"
#include "graph/open_graph.h"

namespace kilter {

/// Used by one thread at a time.
class ConstantMemo {
 public:
  /// `network`: its constants live, unchanged, at least as long as the memo.
  explicit ConstantMemo(std::shared_ptr<const OpenGraph> network);

  using Make = std::function<std::vector<Tensor>()>;
  /// Returns the results of `make`. If all operands are kept, reuses the results of an earlier call with the same
  /// `computation` and operands, if there was one. Operands may be undefined.
  std::vector<Tensor> get(const std::string& computation, std::span<const Tensor> operands, const Make& make);
  /// Returns whether the tensor's bytes are those of a constant of the network or of a result of get() that is kept.
  bool is_kept(const Tensor& tensor) const { return kept_.contains(tensor.raw()); }
  /// Bytes of the results that are kept. Any thread may call it.
  int64_t bytes() const { return bytes_; }

 private:
  struct Operand {
    const std::byte* memory = nullptr;
    DType type = DType::f32;
    Shape shape;
    auto operator<=>(const Operand&) const = default;
  };
  using Key = std::pair<std::string, std::vector<Operand>>;
  void keep(const OpenGraph& graph);

  std::shared_ptr<const OpenGraph> network_;
  std::set<const std::byte*> kept_;
  std::map<Key, std::vector<Tensor>> results_;
  std::atomic<int64_t> bytes_ = 0;
};

}  // namespace kilter
