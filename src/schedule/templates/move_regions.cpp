// Movement operators as strided copies: each region of the output is one loop nest that copies a box of an input or
// writes a constant. If different dimensions are contiguous in input and output, tiles are transposed in registers.

#include <algorithm>

#include "ops/support/builder.h"
#include "ops/support/regions.h"
#include "schedule/emit.h"
#include "schedule/model/loop_model.h"
#include "schedule/templates/pick_lanes.h"
#include "schedule/templates/rows.h"
#include "schedule/templates/templates.h"
#include "schedule/templates/transpose_tile.h"

namespace kilter {
namespace {

constexpr size_t kMaxStages = 32;
constexpr int64_t kItemElems = 4096;

/// Regions, each with the output that it belongs to.
using Moves = std::vector<std::pair<size_t, CopyRegion>>;

Result<Moves> analyse(const Task& task, const CpuLimits&) {
  const Node& node = task.node();
  if (node.op->regions == nullptr) return not_for("operators with regions", "regions() defined", node.op->name);
  if (!task.prologue.empty() || !task.epilogue.empty()) return Rejected{"fused nodes", "none", "some"};
  for (const auto* list : {&task.inputs, &task.outputs}) {
    for (const Operand& o : *list) {
      if (o.type.dtype == DType::string) return Rejected{"element type", "numeric", "str"};
      if (!o.type.layout.row_major() || (o.constant == nullptr && !is_dense(o.type.shape, o.phys.strides)))
        return Rejected{"operands", "dense", text(o.type)};
    }
  }
  const OpView v = view(*task.graph, node);
  Moves all;
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

/// A region of at least one dimension. The last dimension is contiguous in the output if any is.
struct Box {
  Shape extent, in, out;

  explicit Box(const CopyRegion& region) : extent(region.extent), in(region.in_strides), out(region.out_strides) {
    if (extent.empty()) extent = {1}, in = {0}, out = {0};
    if (region.input == kNone) in.assign(extent.size(), 0);
    const auto contiguous = std::find(out.begin(), out.end(), 1) - out.begin();
    if (out.back() == 1 || contiguous == static_cast<int64_t>(out.size())) return;
    for (Shape* s : {&extent, &in, &out}) std::rotate(s->begin() + contiguous, s->begin() + contiguous + 1, s->end());
  }

  /// The dimension other than the last that is contiguous in the input and at least half a vector long. `apart`: its
  /// required stride in the output; 0 allows any.
  std::optional<size_t> contiguous_in_input(int32_t lanes, int64_t apart) const {
    for (size_t d = 0; d + 1 < extent.size(); ++d) {
      if (in[d] == 1 && 2 * extent[d] >= lanes && (apart == 0 || out[d] == apart)) return d;
    }
    return {};
  }
};

enum class Form : uint8_t {
  copied,      ///< vectors along the last dimension
  transposed,  ///< tiles of the last dimension and the one that is contiguous in the input
  interleaved  ///< the last dimension has few elements, each from its own row
};

class CopyStage {
 public:
  CopyStage(const Task& task, size_t output, const CopyRegion& region, const CpuLimits& limits)
      : e_(task, "move"), b_(e_.b), box_(region), lanes_(lanes_of(limits)) {
    value_ = task.node().outputs[output];
    const DType type = task.graph->type(value_).dtype;
    source_ = region.in_offset;
    target_ = region.out_offset;
    fill_ = imm(type, region.fill);
    if (region.input != kNone) from_ = task.node().inputs[static_cast<size_t>(region.input)];
    choose_form(type);
  }

  Stage emit(Lowered& lowered) {
    if (form_ == Form::transposed) {
      transposed();
    } else if (form_ == Form::interleaved) {
      over(box_.extent.back() * box_.extent[other_], [&](const Expr& s, const Expr& t) { interleaved(s, t); });
    } else {
      copied();
    }
    return e_.finish(lowered);
  }

 private:
  using Body = std::function<void(const Expr& source, const Expr& target)>;

  void choose_form(DType type) {
    constexpr int64_t kMostRows = 4;  // most rows that are interleaved
    if (from_ == kNone || !has_transpose_tile(type, lanes_) || box_.out.back() != 1 || box_.in.back() == 1) return;
    const int64_t last = box_.extent.back();
    if (2 * last >= lanes_) {
      if (const auto other = box_.contiguous_in_input(lanes_, 0)) form_ = Form::transposed, other_ = *other;
    } else if (last > 1 && last <= kMostRows) {
      if (const auto other = box_.contiguous_in_input(lanes_, last)) form_ = Form::interleaved, other_ = *other;
    }
  }

  /// The outer dimensions: all that the form does not handle itself.
  std::vector<size_t> around() const {
    std::vector<size_t> dims;
    for (size_t d = 0; d + 1 < box_.extent.size(); ++d) {
      if (form_ == Form::copied || d != other_) dims.push_back(d);
    }
    return dims;
  }
  void parallel(size_t d) {
    const Expr by = b_.parallel("i" + std::to_string(d), box_.extent[d]);
    source_ = source_ + by * Expr(box_.in[d]);
    target_ = target_ + by * Expr(box_.out[d]);
  }
  void buffers() {
    to_ = e_.output(value_);
    if (from_ != kNone) input_ = e_.input(from_);
  }

  /// Emits `body`, which moves `work` elements, for all of around(), in items of about kItemElems.
  void over(int64_t work, const Body& body) {
    const std::vector<size_t> dims = around();
    size_t serial = dims.size();
    while (serial > 0 && work * box_.extent[dims[serial - 1]] <= kItemElems) work *= box_.extent[dims[--serial]];
    for (size_t i = 0; i < serial; ++i) parallel(dims[i]);
    buffers();
    std::function<void(size_t, const Expr&, const Expr&)> nest = [&](size_t i, const Expr& s, const Expr& t) {
      if (i == dims.size()) return body(s, t);
      const size_t d = dims[i];
      b_.loop("j", 0, box_.extent[d],
              [&](const Expr& j) { nest(i + 1, s + j * Expr(box_.in[d]), t + j * Expr(box_.out[d])); });
    };
    nest(serial, source_, target_);
  }

  void copied() {
    auto& [extent, in, out] = box_;
    // A long innermost run is split, so that several threads can share it.
    if (extent.size() == 1 && extent[0] > kItemElems && extent[0] % 64 == 0) {
      extent = {extent[0] / 64, 64};
      in = {in[0] * 64, in[0]}, out = {out[0] * 64, out[0]};
    }
    over(extent.back(), [&](const Expr& s, const Expr& t) {
      b_.vector_loop("v", box_.extent.back(), [&](const Expr& v) {
        const Expr value = from_ == kNone ? fill_ : b_.load(input_, s + v * Expr(box_.in.back()));
        b_.store(to_, t + v * Expr(box_.out.back()), value);
      });
    });
  }

  /// Transposes large matrices in bands a few tiles wide, so that whole cache lines are read consecutively.
  void transposed() {
    constexpr int64_t kBandTiles = 4;
    const int64_t columns = box_.extent[other_], band = kBandTiles * lanes_;
    if (box_.extent.back() * columns <= kItemElems) {
      return over(box_.extent.back() * columns, [&](const Expr& s, const Expr& t) { matrix(s, t, columns); });
    }
    for (const size_t d : around()) parallel(d);
    buffers();
    parallel_parts(b_, "band", columns, band, [&](const Expr& first, int64_t count) {
      matrix(source_ + first, target_ + first * Expr(box_.out[other_]), count);
    });
  }
  /// Transposes `columns` columns of the input, which are rows of the output.
  void matrix(const Expr& s, const Expr& t, int64_t columns) {
    const auto tiles = [&](const Expr& row, int64_t rows) {
      const int64_t full = columns / lanes_, rest = columns % lanes_;
      b_.loop("c", 0, full, [&](const Expr& c) { tile(s, t, row, rows, c * Expr(lanes_), lanes_); });
      if (rest > 0) tile(s, t, row, rows, Expr(full * lanes_), rest);
    };
    const int64_t full = box_.extent.back() / lanes_, rest = box_.extent.back() % lanes_;
    b_.loop("r", 0, full, [&](const Expr& r) { tiles(r * Expr(lanes_), lanes_); });
    if (rest > 0) tiles(Expr(full * lanes_), rest);
  }
  void tile(const Expr& s, const Expr& t, const Expr& row, int64_t rows, const Expr& column, int64_t columns) {
    const int64_t from = box_.in.back(), to = box_.out[other_];
    const RowsAt at{input_, b_.let("s", s + row * Expr(from) + column), from};
    const Expr target = b_.let("d", t + row + column * Expr(to));
    const std::vector<Expr> all = load_columns(b_, at, rows, columns, lanes_);
    const Expr mask = rows < lanes_ ? first_lanes(Expr(rows), lanes_) : Expr();
    for (int64_t c = 0; c < columns; ++c) b_.store(to_, target + Expr(c * to), all[static_cast<size_t>(c)], mask);
  }

  void interleaved(const Expr& s, const Expr& t) {
    const int64_t full = box_.extent[other_] / lanes_, rest = box_.extent[other_] % lanes_;
    b_.loop("p", 0, full, [&](const Expr& p) { interleave(s, t, p * Expr(lanes_), lanes_); });
    if (rest > 0) interleave(s, t, Expr(full * lanes_), rest);
  }
  /// Interleaves elements [from, from + count) of each row.
  void interleave(const Expr& s, const Expr& t, const Expr& from, int64_t count) {
    const int64_t rows = box_.extent.back();
    const Expr mask = count < lanes_ ? first_lanes(Expr(count), lanes_) : Expr();
    std::vector<Expr> loaded;
    for (int64_t r = 0; r < rows; ++r)
      loaded.push_back(b_.let("r", b_.load(input_, s + from + Expr(r * box_.in.back()), lanes_, 1, mask)));
    for (int64_t first = 0; first < rows * count; first += lanes_) {
      std::vector<LaneOf> lanes;
      for (int64_t at = first; at < first + lanes_; ++at)
        lanes.push_back({static_cast<int32_t>(at % rows), static_cast<int32_t>(at / rows % lanes_)});
      const int64_t left = rows * count - first;
      b_.store(to_, t + from * Expr(rows) + Expr(first), pick_lanes(loaded, lanes),
               left < lanes_ ? first_lanes(Expr(left), lanes_) : Expr());
    }
  }

  Emitter e_;
  LoopBuilder& b_;
  Box box_;
  int32_t lanes_;
  Form form_ = Form::copied;
  size_t other_ = 0;  ///< the dimension that is contiguous in the input, for transposed and interleaved
  ValueId value_ = kNone, from_ = kNone;
  Expr source_, target_, fill_;
  Buf to_, input_;
};

class MoveRegions final : public LoopModel {
 public:
  MoveRegions(const Task& task, const CpuLimits& limits, Moves moves)
      : LoopModel(task, limits), moves_(std::move(moves)) {}

 private:
  Schedule usual() const override { return {"move_regions", {}}; }
  Lowered emit(const Schedule&) const override {
    Lowered lowered;
    for (const auto& [output, region] : moves_)
      lowered.stages.push_back(CopyStage(task(), output, region, limits()).emit(lowered));
    return lowered;
  }

  const Moves moves_;
};

}  // namespace

const Template move_regions{"move_regions", "transpose, slice, pad, tile and similar operators as strided copies",
                            analyse_as<MoveRegions, analyse>};

}  // namespace kilter
