// Keeps weights with a scale for each block packed: their products become MatMulNBits, which unpacks them in registers.
//
//   %w = DequantizeLinear(const q, const s, const z)        %y = MatMulNBits(%a, const q', const s', const z')
//   %y = MatMul(%a, %w)                                =>
//
// Likewise with Gemm, whose c is added afterwards; with trans_b, or with a Transpose of w, the blocks are along the
// other axis. Legal if q is i8 or u8, s is f32, w has two dimensions, the blocks run along the sum and have a power of
// two of elements, at least 16, and a Gemm has alpha = beta = 1 and does not transpose a. The weights get 4 bits if all
// integers and zero points fit in them, otherwise 8.

#include <algorithm>
#include <bit>
#include <optional>

#include "graph/values.h"
#include "ops/support/builder.h"
#include "ops/support/packed_bits.h"
#include "passes/match.h"
#include "passes/pass.h"

namespace kilter {
namespace {

constexpr int64_t kLeastBlock = 16;

/// The integers of weights [k, n] and their scales and zero points, in the form that the DequantizeLinear node uses.
struct Blocks {
  const Tensor* integers = nullptr;
  const Tensor* scales = nullptr;
  const Tensor* zeros = nullptr;  ///< null: all are 0
  bool across = false;            ///< the tensors are [n, k] and [n, blocks]; otherwise [k, n] and [blocks, n]
  int64_t k = 0, n = 0, block = 0, blocks = 0;
  int64_t bits = 8;

  /// Returns the offset of element i of column j in a tensor with `rows` elements for each column.
  int64_t at(int64_t i, int64_t j, int64_t rows) const { return across ? j * rows + i : i * n + j; }
  /// Returns what is added to an integer so that it is at least 0.
  int64_t shift() const { return integers->dtype() == DType::i8 ? int64_t{1} << (bits - 1) : 0; }
};

/// Returns whether all integers of a tensor fit in 4 bits, signed for i8.
bool fits_four_bits(const Tensor& t) {
  if (t.dtype() == DType::u8) return std::ranges::all_of(t.span<uint8_t>(), [](uint8_t q) { return q < 16; });
  return std::ranges::all_of(t.span<int8_t>(), [](int8_t q) { return q >= -8 && q < 8; });
}

/// Returns the weights of a product if `v` is computed by a DequantizeLinear in blocks along the sum. `turned`: `v` is
/// [n, k].
std::optional<Blocks> blocks_of(const Graph& graph, ValueId v, bool turned) {
  if (const Node* transpose = made_by(graph, v, "Transpose"); transpose != nullptr && graph.type(v).shape.size() == 2) {
    if (transpose->ints_attr("perm", {1, 0}) != std::vector<int64_t>{1, 0}) return {};
    return blocks_of(graph, transpose->inputs[0], !turned);
  }
  const Node* node = made_by(graph, v, "DequantizeLinear");
  if (node == nullptr || graph.type(v).dtype != DType::f32 || graph.type(v).shape.size() != 2) return {};
  Blocks b;
  b.integers = constant_of(graph, node->inputs[0]);
  b.scales = constant_of(graph, node->inputs[1]);
  const ValueId zeros = node->input(2);
  if (zeros != kNone) b.zeros = constant_of(graph, zeros);
  if (b.integers == nullptr || b.scales == nullptr || (zeros != kNone && b.zeros == nullptr)) return {};
  const bool bytes = b.integers->dtype() == DType::i8 || b.integers->dtype() == DType::u8;
  if (!bytes || b.scales->dtype() != DType::f32) return {};
  b.across = turned;
  b.block = node->int_attr("block_size", 0);
  const Shape& shape = b.integers->shape();
  b.k = shape[turned ? 1 : 0], b.n = shape[turned ? 0 : 1];
  const int64_t axis = normal_axis(*node, node->int_attr("axis", 1), 2);
  if (axis != (turned ? 1 : 0) || b.block < kLeastBlock || !std::has_single_bit(static_cast<uint64_t>(b.block)))
    return {};
  if (b.scales->rank() != 2 || b.k == 0 || b.n == 0) return {};
  b.blocks = b.scales->shape()[turned ? 1 : 0];
  const bool four = fits_four_bits(*b.integers) && (b.zeros == nullptr || fits_four_bits(*b.zeros));
  b.bits = four ? 4 : 8;
  return b;
}

/// Stores integer `value` at position i of the packed integers at `bytes`.
void pack(uint8_t* bytes, int64_t i, int64_t bits, int64_t value) {
  const int64_t per_byte = 8 / bits;
  bytes[i / per_byte] = static_cast<uint8_t>(bytes[i / per_byte] | value << (i % per_byte * bits));
}

Tensor packed_integers(const Blocks& b) {
  Tensor out(DType::u8, {b.n, b.blocks, packed_bytes(b.block, b.bits)});
  const int64_t bytes = b.blocks * packed_bytes(b.block, b.bits);
  for (int64_t j = 0; j < b.n; ++j) {
    for (int64_t i = 0; i < b.k; ++i)
      pack(out.data<uint8_t>() + j * bytes, i, b.bits, b.integers->as_int(b.at(i, j, b.k)) + b.shift());
  }
  return out;
}

Tensor scales_by_column(const Blocks& b) {
  Tensor out(DType::f32, {b.n, b.blocks});
  for (int64_t j = 0; j < b.n; ++j) {
    for (int64_t i = 0; i < b.blocks; ++i)
      out.data<float>()[j * b.blocks + i] = b.scales->data<float>()[b.at(i, j, b.blocks)];
  }
  return out;
}

Tensor packed_zeros(const Blocks& b) {
  const int64_t bytes = packed_bytes(b.blocks, b.bits);
  Tensor out(DType::u8, {b.n, bytes});
  for (int64_t j = 0; j < b.n; ++j) {
    for (int64_t i = 0; i < b.blocks; ++i) {
      const int64_t zero = b.zeros == nullptr ? 0 : b.zeros->as_int(b.at(i, j, b.blocks));
      pack(out.data<uint8_t>() + j * bytes, i, b.bits, zero + b.shift());
    }
  }
  return out;
}

class Keeper {
 public:
  Keeper(Graph& graph, PassContext& context) : graph_(graph), context_(context), b_(graph) {}

  void run() {
    for (NodeId id : std::vector<NodeId>(graph_.order())) {
      const Node& node = graph_.node(id);
      if (!node.dead && node.outputs.size() == 1 && (is_op(node, "MatMul") || is_op(node, "Gemm"))) visit(id, node);
    }
    graph_.sort();
    graph_.remove_dead();
  }

 private:
  void visit(NodeId id, const Node& node) {
    const bool gemm = is_op(node, "Gemm");
    if (gemm &&
        (node.int_attr("transA", 0) != 0 || node.float_attr("alpha", 1) != 1 || node.float_attr("beta", 1) != 1))
      return;
    if (graph_.type(node.inputs[0]).dtype != DType::f32) return;
    const std::optional<Blocks> blocks = blocks_of(graph_, node.inputs[1], gemm && node.int_attr("transB", 0) != 0);
    if (!blocks || !context_.take()) return;
    const ValueId old = node.outputs[0];
    const std::string name = node.name, result = graph_.value(old).name;
    const ValueId added = gemm ? node.input(2) : kNone;
    ValueId y = product(*blocks, node.inputs[0], name);
    if (added != kNone) y = b_.add("Add", {y, added}, {}, name + ".bias");
    graph_.replace_uses(old, y);
    graph_.erase(id);
    graph_.rename(y, result);
  }

  ValueId product(const Blocks& blocks, ValueId a, const std::string& name) {
    std::vector<ValueId> inputs = {a, b_.constant(packed_integers(blocks), name + ".weights"),
                                   b_.constant(scales_by_column(blocks), name + ".scales")};
    // Signed integers without zero points have the zero point that MatMulNBits assumes.
    if (blocks.zeros != nullptr || blocks.shift() == 0)
      inputs.push_back(b_.constant(packed_zeros(blocks), name + ".zeros"));
    GraphBuilder::Options options;
    options.name = name;
    options.domain = "com.microsoft";
    const Attrs attrs = {{"K", blocks.k}, {"N", blocks.n}, {"bits", blocks.bits}, {"block_size", blocks.block}};
    return b_.add("MatMulNBits", std::move(inputs), attrs, options).front();
  }

  Graph& graph_;
  PassContext& context_;
  GraphBuilder b_;
};

}  // namespace

void block_weights(Graph& graph, PassContext& context) { Keeper(graph, context).run(); }

}  // namespace kilter
