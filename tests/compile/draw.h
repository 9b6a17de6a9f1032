// Seeded random networks of a few nodes: random choices, tensors, and the network under construction.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "base/random.h"
#include "ops/support/builder.h"

namespace kilter {

/// Random choices. Equal seeds give equal choices on every machine.
class Draw {
 public:
  explicit Draw(uint64_t seed) : random_(seed) {}

  /// A number in [low, high], inclusive.
  int64_t between(int64_t low, int64_t high) { return random_.integer(next_++, low, high); }
  bool chance(int64_t percent) { return between(1, 100) <= percent; }
  template <class T>
  T pick(std::initializer_list<T> from) {
    return from.begin()[between(0, static_cast<int64_t>(from.size()) - 1)];
  }
  /// N(0, 1) times `scale`.
  Tensor tensor(const Shape& shape, float scale = 1);

 private:
  Random random_;
  uint64_t next_ = 0;
};

/// A network under construction, with the values of its inputs.
class SweepNet {
  Graph graph_;

 public:
  explicit SweepNet(uint64_t seed) : draw(seed), b(graph_) {}
  SweepNet(const SweepNet&) = delete;
  SweepNet& operator=(const SweepNet&) = delete;

  Draw draw;
  GraphBuilder b;

  /// A network input with random values.
  ValueId input(const Shape& shape);
  /// A network input with this value.
  ValueId input(Tensor value);
  ValueId constant(const Shape& shape, float scale = 1) { return b.constant(draw.tensor(shape, scale)); }
  /// A constant with these numbers.
  ValueId list(const std::vector<int64_t>& numbers);
  const Shape& shape(ValueId v) const { return graph_.type(v).shape; }
  void output(ValueId v) { graph_.add_output(v, "y" + std::to_string(graph_.outputs().size())); }
  /// Adds a chain of up to three element-wise nodes: sums with tensors and constants, activations, values with several
  /// readers.
  ValueId elementwise(ValueId v);

  const Graph& graph() const { return graph_; }
  Graph& graph() { return graph_; }
  const std::vector<Tensor>& inputs() const { return inputs_; }

 private:
  ValueId one_elementwise(ValueId v);

  std::vector<Tensor> inputs_;
};

}  // namespace kilter
