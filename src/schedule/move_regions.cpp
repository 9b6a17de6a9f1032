// Movement operators as strided copies: each region of the output is one nest that reads one box of an input, or fills.
// Where what is contiguous in the input is not what is contiguous in the output, tiles are transposed in registers.

#include <algorithm>

#include "ops/builder.h"
#include "ops/regions.h"
#include "schedule/emit.h"
#include "schedule/loop_model.h"
#include "schedule/templates.h"
#include "schedule/transpose_tile.h"

namespace kilter {
namespace {

constexpr size_t kMaxStages = 32;
constexpr int64_t kItemElems = 4096;

Answer<std::vector<std::pair<size_t, CopyRegion>>> analyse(const Task& task) {
  const Node& node = task.node();
  if (node.op->regions == nullptr)
    return Rejected{"operators with regions", "regions() defined", std::string(node.op->name)};
  if (!task.prologue.empty() || !task.epilogue.empty()) return Rejected{"fused nodes", "none", "some"};
  for (const auto* list : {&task.inputs, &task.outputs}) {
    for (const Operand& o : *list) {
      if (o.type.dtype == DType::string) return Rejected{"element type", "numeric", "str"};
      if (!o.type.layout.plain() || (o.constant == nullptr && !is_dense(o.type.shape, o.phys.strides)))
        return Rejected{"operands", "dense", text(o.type)};
    }
  }
  const OpView v = view(*task.graph, node);
  std::vector<std::pair<size_t, CopyRegion>> all;
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    if (node.outputs[i] == kNone) continue;
    const auto regions = node.op->regions(v, static_cast<int32_t>(i));
    if (!regions) return Rejected{"movement as boxes", "regions()", "none for these operands"};
    for (const CopyRegion& region : *regions) {
      if (elems(region.extent) > 0) all.emplace_back(i, merged(region));
    }
  }
  if (all.empty() || all.size() > kMaxStages)
    return Rejected{"boxes", "1 to " + std::to_string(kMaxStages), std::to_string(all.size())};
  return all;
}

Answer<std::vector<Knob>> space(const Task& task, const TargetLimits&) {
  auto all = analyse(task);
  if (auto* rejected = std::get_if<Rejected>(&all)) return *rejected;
  return std::vector<Knob>{};
}

Answer<Schedule> usual(const Task& task, const TargetLimits&) {
  auto all = analyse(task);
  if (auto* rejected = std::get_if<Rejected>(&all)) return *rejected;
  return Schedule{"move_regions", {}};
}

/// A region of at least one dimension.
struct Box {
  Shape extent, in, out;

  explicit Box(const CopyRegion& region) : extent(region.extent), in(region.in_strides), out(region.out_strides) {
    if (extent.empty()) extent = {1}, in = {0}, out = {0};
    if (region.input == kNone) in.assign(extent.size(), 0);
  }

  /// The dimension in which the input is contiguous where tiles of it and the last one are worth transposing.
  std::optional<size_t> other_side(DType type, int32_t lanes) const {
    if (!has_transpose_tile(type, lanes) || out.back() != 1 || in.back() == 1) return {};
    for (size_t d = 0; d + 1 < extent.size(); ++d) {
      if (in[d] == 1 && 2 * extent[d] >= lanes && 2 * extent.back() >= lanes) return d;
    }
    return {};
  }
};

class CopyStage {
 public:
  CopyStage(const Task& task, size_t output, const CopyRegion& region, const TargetLimits& limits)
      : e_(task, "move"), b_(e_.b), box_(region), lanes_(lanes_of(limits)) {
    const ValueId value = task.node().outputs[output];
    const DType type = task.graph->type(value).dtype;
    source_ = region.in_offset;
    target_ = region.out_offset;
    fill_ = is_float(type) ? imm(type, region.fill) : imm_int(type, static_cast<int64_t>(region.fill));
    value_ = value;
    if (region.input != kNone) from_ = task.node().inputs[static_cast<size_t>(region.input)];
    if (from_ != kNone) other_ = box_.other_side(type, lanes_);
  }

  Stage emit(Lowered& lowered) {
    if (other_) {
      transposed();
    } else {
      copied();
    }
    return e_.finish(lowered);
  }

 private:
  void parallel(size_t d) { step(d, b_.parallel("i" + std::to_string(d), box_.extent[d])); }
  void step(size_t d, const Expr& by) {
    source_ = source_ + by * Expr(box_.in[d]);
    target_ = target_ + by * Expr(box_.out[d]);
  }
  void buffers() {
    to_ = e_.output(value_);
    if (from_ != kNone) input_ = e_.input(from_);
  }

  void copied() {
    auto& [extent, in, out] = box_;
    // A long innermost run is cut, so that threads share it.
    if (extent.size() == 1 && extent[0] > kItemElems && extent[0] % 64 == 0) {
      extent = {extent[0] / 64, 64};
      in = {in[0] * 64, in[0]}, out = {out[0] * 64, out[0]};
    }
    size_t serial = extent.size() - 1;
    int64_t work = extent.back();
    while (serial > 0 && work * extent[serial - 1] <= kItemElems) work *= extent[--serial];
    for (size_t d = 0; d < serial; ++d) parallel(d);
    buffers();
    nest(serial, source_, target_);
  }
  void nest(size_t d, const Expr& s, const Expr& t) {
    const auto& [extent, in, out] = box_;
    if (d + 1 == extent.size()) {
      return b_.vector_loop("v", extent[d], [&](const Expr& v) {
        b_.store(to_, t + v * Expr(out[d]), from_ == kNone ? fill_ : b_.load(input_, s + v * Expr(in[d])));
      });
    }
    b_.loop("j", 0, extent[d], [&](const Expr& j) { nest(d + 1, s + j * Expr(in[d]), t + j * Expr(out[d])); });
  }

  /// An item is a band of the input: as many columns as a vector has lanes, which are rows of the output.
  void transposed() {
    const auto& [extent, in, out] = box_;
    for (size_t d = 0; d + 1 < extent.size(); ++d) {
      if (d != *other_) parallel(d);
    }
    const int64_t columns = extent[*other_], full = columns / lanes_;
    const Expr tile = b_.parallel("c", (columns + lanes_ - 1) / lanes_);
    step(*other_, tile * Expr(lanes_));
    buffers();
    const int64_t rest = columns % lanes_;
    if (rest == 0) return band(lanes_);
    if (full == 0) return band(rest);
    b_.if_then(binary(Op::lt, tile, Expr(full)), [&] { band(lanes_); }, [&] { band(rest); });
  }
  /// `columns` rows of the output.
  void band(int64_t columns) {
    const int64_t full = box_.extent.back() / lanes_, rest = box_.extent.back() % lanes_;
    b_.loop("r", 0, full, [&](const Expr& r) { tile(r * Expr(lanes_), lanes_, columns); });
    if (rest > 0) tile(Expr(full * lanes_), rest, columns);
  }
  void tile(const Expr& row, int64_t rows, int64_t columns) {
    const int64_t stride = box_.in.back();
    const Expr s = b_.let("s", source_ + row * Expr(stride)), t = b_.let("d", target_ + row);
    const std::vector<Expr> all = load_columns(b_, {input_, s, stride}, rows, columns, lanes_);
    const Expr mask = rows < lanes_ ? first_lanes(Expr(rows), lanes_) : Expr();
    for (int64_t c = 0; c < columns; ++c)
      b_.store(to_, t + Expr(c * box_.out[*other_]), all[static_cast<size_t>(c)], mask);
  }

  Emitter e_;
  LoopBuilder& b_;
  Box box_;
  int32_t lanes_;
  std::optional<size_t> other_;  ///< dimension of the columns of tiles
  ValueId value_ = kNone, from_ = kNone;
  Expr source_, target_, fill_;
  Buf to_, input_;
};

Answer<Lowered> lower(const Task& task, const Schedule& schedule, const TargetLimits& limits) {
  auto all = analyse(task);
  if (auto* rejected = std::get_if<Rejected>(&all)) return *rejected;
  if (auto rejected = check_knobs(schedule, {})) return *rejected;
  Lowered lowered;
  for (const auto& [output, region] : std::get<0>(all))
    lowered.stages.push_back(CopyStage(task, output, region, limits).emit(lowered));
  return lowered;
}

using Model = LoopModel<space, usual, lower>;

}  // namespace

const Template move_regions{"move_regions", "transpose, slice, pad, tile and their like as strided copies",
                            space,          Model::pick,
                            lower,          Model::candidates,
                            Model::estimate};

}  // namespace kilter
