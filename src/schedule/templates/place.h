// Indices computed at run time, and the parts that gather_rows and scatter_rows share.
#pragma once

#include <optional>

#include "ops/support/builder.h"
#include "schedule/emit.h"

namespace kilter {

/// Element `i` of `indices` as a position in [0, extent). Negative indices count from the end. An index out of range
/// fails the kernel's check and counts as 0, so that no input makes a kernel access memory outside its buffers.
inline Expr place_of(LoopBuilder& b, const Buf& indices, const Expr& i, int64_t extent) {
  const Expr raw = b.let("raw", cast(DType::i64, b.load(indices, i)));
  const Expr wrapped = b.let("wrapped", select(binary(Op::lt, raw, Expr(0)), raw + Expr(extent), raw));
  // As unsigned numbers, negative indices exceed the extent.
  const Expr inside = b.let("inside", binary(Op::lt, bitcast(DType::u64, wrapped), imm_int(DType::u64, extent)));
  b.check(inside);
  return b.let("row", select(inside, wrapped, Expr(0)));
}

/// Checks that an operand is dense.
inline std::optional<Rejected> check_dense(const Operand& o) {
  if (o.type.layout.row_major() && is_dense(o.type.shape, o.phys.strides)) return std::nullopt;
  return Rejected{"operands", "dense", text(o.type)};
}

/// The common part of emitters for kernels over dense data (operand 0) and dense indices (operand 1).
class IndexedEmitter {
 public:
  explicit IndexedEmitter(Emitter& e)
      : e_(e),
        b_(e.b),
        node_(e.task().node()),
        data_(e.task().operand(node_.inputs[0]).type.shape),
        indices_(e.task().operand(node_.inputs[1]).type.shape),
        strides_(dense_strides(data_)) {}

 protected:
  size_t axis() const { return static_cast<size_t>(normal_axis(node_, node_.int_attr("axis", 0), std::ssize(data_))); }

  Emitter& e_;
  LoopBuilder& b_;
  const Node& node_;
  const Shape &data_, &indices_;
  const Shape strides_;  ///< of the data
};

}  // namespace kilter
