// Building blocks of all templates: operands as buffers, addressing by physical index, element-wise prologue and
// epilogue.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "loop/loop.h"
#include "schedule/problem/task.h"
#include "schedule/schedule.h"

namespace kilter {

/// The physical iteration space of a tensor type, without halo; its dimensions are those of Physical::dims.
struct Domain {
  Shape shape;  ///< logical
  int32_t block = 1;
  Shape dims;  ///< physical extents
  size_t rank() const { return dims.size(); }
};
Domain domain_of(const TensorType& type);

/// Strides of an operand along the physical dimensions of a domain; 0 along those in which it is broadcast. The
/// operand's shape must broadcast to the domain's, and its layout must match: the same block, or a channel extent of 1,
/// or no channels.
Shape strides_in(const Domain& domain, const Operand& operand);

/// Whether an operand is a one-element constant, which needs no buffer.
inline bool is_immediate(const Operand& o) { return o.constant != nullptr && o.constant->elems() == 1; }

/// One point of a domain, or `lanes` neighbours along dimension `vec_dim`.
struct Site {
  std::vector<Expr> index;  ///< per physical dimension
  int32_t vec_dim = -1;
  int32_t lanes = 1;
  Expr mask;  ///< optional: the lanes to access in every operand
};

/// Builds one stage of a task.
class Emitter {
 public:
  Emitter(const Task& task, std::string name);

  LoopBuilder b;
  const Task& task() const { return task_; }

  /// Returns the buffer of an operand; declares it on first use.
  Buf input(ValueId value);
  Buf output(ValueId value);
  /// Declares a constant that the template itself packs.
  Buf constant(Packing packing, std::string name);
  Buf constant(Tensor packed, std::string name);
  /// Declares arena memory that stages share. `index` is its index in Lowered::temp_bytes.
  Buf temp(int32_t index, DType type, int64_t elems, bool write, std::string name);

  /// The elements of an operand at a site of `domain`. One-element constants become immediates.
  Expr load(ValueId value, const Domain& domain, const Site& site);
  /// The element index (of lane 0) of an operand at a site.
  Expr index(const Operand& operand, const Domain& domain, const Site& site) const;

  /// Evaluates the prologue nodes that lead to `value` at a site. Loads `value` if no prologue node computes it.
  Expr prologue(ValueId value, const Domain& domain, const Site& site);
  /// The value that the anchor reads from the feeder at a site, computed from `result`, the feeder's convolution at
  /// that site. Unused lanes are 0.
  Expr feeder(const Expr& result, const Domain& domain, const Site& site);
  /// Evaluates an element-wise anchor at a site, then the epilogue.
  void map(const Domain& domain, const Site& site);
  /// Operands of the epilogue in registers, by value.
  using Held = std::map<ValueId, Expr>;
  /// Loads the operands of the epilogue that depend only on the channels of a site. Its other indices do not matter.
  Held hold(const Domain& domain, const Site& site);
  /// Evaluates the epilogue at a site from the anchor's results, which are converted to the types of their values.
  std::map<ValueId, Expr> results(const std::map<ValueId, Expr>& anchor, const Domain& domain, const Site& site,
                                  const Held& held = {});
  /// Stores every output of the task among these results. Unused lanes of blocked outputs are written as 0. Plain
  /// operands of a blocked domain have no such lanes, so these are not accessed.
  void epilogue(const std::map<ValueId, Expr>& anchor, const Domain& domain, const Site& site, const Held& held = {});
  /// begin_row() and end_row() enclose the calls of epilogue() for all pixels of an image row, with vectors of `lanes`
  /// channels. If the task computes means of rows (is_row_mean), these functions accumulate and store the means.
  /// `site`: any pixel of the row.
  void begin_row(int32_t lanes);
  /// Whether the task computes means of rows, so that each pixel must be passed to epilogue() once.
  bool sums_rows() const;
  void end_row(const Site& site);

  /// These two calls enclose the epilogues (or values of the feeder) of the `vectors` vectors of a register tile,
  /// `sums.lanes` wide, computed from results of type `sums`. Between the calls, vectors with doubtful lanes
  /// (OpDef::guarded) are only recorded. end_checks() then emits a loop over them, which passes the result and the site
  /// of each to `again` to be computed exactly. This way, the kernel contains the exact form once, not once for each
  /// vector of the tile.
  using Again = std::function<void(const Expr& result, const Site& site)>;
  void begin_checks(int64_t vectors, VType sums);
  void end_checks(const Again& again);

  /// Writes 0 to the lanes of a site that no channel uses, in every output that has such lanes.
  void unused_lanes(const Domain& domain, const Site& site);

  /// Prefetches the operands that epilogue() will read at a site, except constants.
  void prefetch_epilogue(const Domain& domain, const Site& site);

  Stage finish(Lowered& lowered);
  /// Finishes the only stage of its task.
  Lowered finish();

 private:
  Expr name_inside(const Expr& value);
  Expr checked(const Guarded& fast, const Expr& exact);
  Expr unchecked(const Guarded& fast);
  bool notes(const Site& site) const;
  void unless_doubtful(const Expr& result, const Site& site, const std::function<void()>& then);
  Expr evaluate(const Node& node, const Domain& domain, const Site& site, std::map<ValueId, Expr>& known);
  Expr access_mask(const Operand& operand, const Domain& domain, const Site& site) const;
  Expr lane_mask(const Domain& domain, const Site& site) const;
  void store(const Operand& out, Expr value, const Domain& domain, const Site& site);

  const Task& task_;
  std::map<ValueId, Buf> buffers_;
  std::vector<StageArg> args_;
  std::vector<Packing> constants_;
  std::vector<size_t> constant_args_;
  std::map<NodeId, int32_t> row_sums_;  ///< registers of the current row, by node
  std::map<DType, Buf> noted_;          ///< results of recorded vectors, by type
  Buf sites_;                           ///< their sites' indices
  int32_t notes_ = -1;                  ///< register with their number
  std::optional<VType> checking_;       ///< results, between begin_checks() and end_checks()
  size_t rank_ = 0;                     ///< dimensions of the recorded sites; 0: there are none
  int32_t vec_dim_ = -1;
  bool exactly_ = false;  ///< whether doubtful forms are not used
  Expr doubtful_;         ///< lanes of the current vector
};

/// Whether a node computes the mean of each row of an image stored in channel blocks, [n,c,h,w] to [n,c,h,1].
bool is_row_mean(const Graph& graph, const Node& node);

/// Limit on the operands of an element-wise node in a kernel, which keeps expressions shallow. passes/decompose.cpp
/// splits sums and extrema with more operands.
constexpr size_t kMostMapOperands = 32;

/// Whether an element-wise node has a scalar expression for its element types.
bool has_loop_form(const Graph& graph, const Node& node);
/// Checks that every element-wise node of the task has a loop form. Returns the reason if one lacks it. `row_means`:
/// the template supports means of rows in its epilogue.
std::optional<Rejected> check_elementwise(const Task& task, bool row_means = false);
/// Whether the unused lanes of a blocked result are 0 without a mask: they are 0 in the blocked operands, and the
/// anchor and the epilogue preserve zeros.
bool keeps_zero(const Task& task);

/// Lays out a constant as `type.layout`; unused lanes and halo are 0.
Tensor relay(const Tensor& dense, const TensorType& type);

/// Lanes of a register. All element types use as many lanes as f32.
inline int32_t lanes_of(const CpuLimits& limits) { return limits.lanes_f32(); }

}  // namespace kilter
