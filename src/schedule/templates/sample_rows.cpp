// GridSample of an image at positions in a row. The places and weights of the taps are computed once per block of
// positions and serve all channels in turn, so that each channel's plane is in the nearest cache while it is read.

#include <algorithm>
#include <limits>

#include "base/align.h"
#include "schedule/emit.h"
#include "schedule/model/loop_model.h"
#include "schedule/templates/rows.h"
#include "schedule/templates/templates.h"

namespace kilter {
namespace {

enum class Padding { zeros, border, reflection };

constexpr int64_t kBlock = 2048;  ///< positions whose taps are kept: a multiple of any lane count; fits in L2
constexpr int64_t kChannels = 8;  ///< fewest channels per item for which computing the taps pays off

struct Sampling {
  Padding padding = Padding::zeros;
  bool nearest = false, align_corners = false;

  int64_t taps() const { return nearest ? 1 : 4; }
  bool weighs() const { return !nearest || padding == Padding::zeros; }
};

Result<Sampling> analyse(const Task& task, const CpuLimits&) {
  const Node& node = task.node();
  if (node.op->family != Family::sample) return not_for("operator family", "sample", node.op->name);
  const Operand &x = task.operand(node.inputs[0]), &grid = task.operand(node.inputs[1]);
  for (const Operand* o : {&x, &grid}) {
    if (o->type.dtype != DType::f32) return Rejected{"element type", "f32", std::string(name(o->type.dtype))};
    if (o->type.shape.size() != 4) return Rejected{"rank", "4", std::to_string(o->type.shape.size())};
    if (!o->type.layout.row_major()) return Rejected{"layout", "plain", text(o->type)};
    if (elems(o->type.shape) == 0) return Rejected{"elements", "1 or more", "0"};
    if (o->phys.elems > std::numeric_limits<int32_t>::max())
      return Rejected{"elements", std::to_string(std::numeric_limits<int32_t>::max()), std::to_string(o->phys.elems)};
  }
  if (grid.type.shape[1] != 1) return Rejected{"rows of positions", "1", std::to_string(grid.type.shape[1])};
  const std::string mode = node.string_attr("mode", "linear"), padding = node.string_attr("padding_mode", "zeros");
  if (mode == "cubic" || mode == "bicubic") return Rejected{"mode", "nearest or linear", mode};
  if (!task.prologue.empty()) return Rejected{"prologue", "none", std::to_string(task.prologue.size()) + " nodes"};
  if (auto rejected = check_elementwise(task)) return *rejected;
  return Sampling{padding == "zeros"    ? Padding::zeros
                  : padding == "border" ? Padding::border
                                        : Padding::reflection,
                  mode == "nearest", node.int_attr("align_corners", 0) != 0};
}

class SampleEmitter {
 public:
  SampleEmitter(Emitter& e, const Sampling& s, int32_t lanes)
      : e_(e),
        b_(e.b),
        s_(s),
        x_(e.task().operand(e.task().node().inputs[0])),
        grid_(e.task().operand(e.task().node().inputs[1])),
        lanes_(lanes) {}

  void run() {
    const int64_t images = x_.type.shape[0], channels = x_.type.shape[1], positions = grid_.type.shape[2];
    const int64_t items = images * ceil_div(positions, kBlock);
    const int64_t parts = std::clamp<int64_t>(channels / kChannels, 1, ceil_div(kFewItems, items));
    const int64_t part = ceil_div(channels, parts);
    const Expr n = b_.parallel("n", images);
    const Expr first = b_.parallel("cp", ceil_div(channels, part)) * Expr(part);
    const Expr end = min(first + Expr(part), Expr(channels));
    parallel_parts(b_, "block", positions, kBlock,
                   [&](const Expr& at, int64_t count) { block(n, first, end, at, count); });
  }

 private:
  /// A row or column that a position reads, and its weight (undefined: 1).
  struct Tap {
    Expr place;  ///< i64, inside the image
    Expr weight;
  };
  using Taps = std::vector<Tap>;

  Expr real(double value) const { return imm(DType::f32, value, lanes_); }
  Expr within(const Expr& x, double low, double high) const {
    return binary(Op::logical_and, binary(Op::ge, x, real(low)), binary(Op::le, x, real(high)));
  }
  Expr place(const Expr& x) { return b_.let("place", cast(DType::i64, x)); }

  /// Reflects x at the ends of the axis until it lies between them.
  Expr reflected(const Expr& x, double extent) {
    const double low = s_.align_corners ? 0.0 : -0.5, range = s_.align_corners ? extent - 1 : extent;
    if (range <= 0) return real(low);
    const Expr far = b_.let("far", unary(Op::abs, x - real(low)));
    const Expr turns = unary(Op::floor, far / real(2 * range));
    const Expr left = b_.let("left", far - turns * real(2 * range));
    return select(binary(Op::gt, left, real(range)), real(2 * range) - left, left) + real(low);
  }

  /// The taps of grid coordinate `which` (the last axis comes first) along an axis of `extent` pixels.
  Taps taps(const Expr& grid, int64_t extent) {
    const auto length = static_cast<double>(extent);
    const double last = length - 1;
    Expr x = fma(grid, real((s_.align_corners ? last : length) / 2), real(last / 2));
    x = b_.let("at", s_.nearest ? unary(Op::round_even, x) : x);
    if (s_.padding == Padding::reflection) x = b_.let("at", reflected(x, length));
    if (s_.padding != Padding::zeros) {  // keeps all taps inside; a NaN reads the first pixel
      const Expr below = select(binary(Op::lt, x, real(last)), x, real(last));
      x = b_.let("at", select(binary(Op::gt, x, real(0)), below, real(0)));
    }
    return s_.nearest ? nearest(x, last) : linear(x, last);
  }

  Taps nearest(const Expr& x, double last) {
    if (s_.padding != Padding::zeros) return {{place(unary(Op::round_even, x)), {}}};
    const Expr inside = b_.let("inside", within(x, 0, last));
    return {{place(select(inside, x, real(0))), b_.let("weight", select(inside, real(1), real(0)))}};
  }

  Taps linear(const Expr& x, double last) {
    const Expr base = b_.let("base", unary(Op::floor, x)), part = b_.let("part", x - base);
    if (s_.padding != Padding::zeros) {
      return {{place(base), b_.let("weight", real(1) - part)}, {place(min(base + real(1), real(last))), part}};
    }
    const Expr first = b_.let("first", within(base, 0, last)), second = b_.let("second", within(base, -1, last - 1));
    return {{place(select(first, base, real(0))), b_.let("weight", select(first, real(1) - part, real(0)))},
            {place(select(second, base + real(1), real(0))), b_.let("weight", select(second, part, real(0)))}};
  }

  Expr coordinate(const Expr& n, const Expr& first, int64_t which, const Expr& mask) {
    const Shape& strides = grid_.phys.strides;
    const Expr at =
        Expr(grid_.phys.offset) + n * Expr(strides[0]) + first * Expr(strides[2]) + Expr(which * strides[3]);
    return b_.let("grid", b_.load(e_.input(grid_.value), at, lanes_, strides[2], mask));
  }

  /// Samples `count` positions from `first` on in channels [c0, c1).
  void block(const Expr& n, const Expr& c0, const Expr& c1, const Expr& first, int64_t count) {
    image_ = e_.input(x_.value);
    if (places_.id < 0) places_ = b_.scratch("places", DType::i32, s_.taps() * kBlock);
    if (weights_.id < 0 && s_.weighs()) weights_ = b_.scratch("weights", DType::f32, s_.taps() * kBlock);
    for_vectors(b_, count, lanes_, 1, [&](const Expr& v, const Expr& mask, int64_t) { find(n, first + v, v, mask); });
    const Shape& strides = x_.phys.strides;
    b_.loop("c", c0, c1, [&](const Expr& c) {
      const Expr plane = b_.let("plane", Expr(x_.phys.offset) + n * Expr(strides[0]) + c * Expr(strides[1]));
      for_vectors(b_, count, lanes_, 1, [&](const Expr& v, const Expr& mask, int64_t) {
        sample(plane, v, {{n, c, Expr(0), first + v}, 3, lanes_, mask});
      });
    });
  }

  /// Computes the taps of a vector of positions from `at` on, number `v` of the block. Lanes that are masked off read
  /// an arbitrary place in the image.
  void find(const Expr& n, const Expr& at, const Expr& v, const Expr& mask) {
    const Shape& strides = x_.phys.strides;
    const Taps columns = taps(coordinate(n, at, 0, mask), x_.type.shape[3]);
    const Taps rows = taps(coordinate(n, at, 1, mask), x_.type.shape[2]);
    int64_t tap = 0;
    for (const Tap& row : rows) {
      for (const Tap& column : columns) {
        const Expr place = row.place * wide(strides[2]) + column.place * wide(strides[3]);
        b_.store(places_, v + Expr(tap * kBlock), cast(DType::i32, place));
        if (s_.weighs()) b_.store(weights_, v + Expr(tap * kBlock), row.weight * column.weight);
        ++tap;
      }
    }
  }

  void sample(const Expr& plane, const Expr& v, const Site& site) {
    Expr sum;
    for (int64_t tap = 0; tap < s_.taps(); ++tap) {
      const Expr place = cast(DType::i64, b_.load(places_, v + Expr(tap * kBlock), lanes_));
      const Expr x = b_.let("x", b_.gather(image_, broadcast(plane, lanes_) + place));
      if (!s_.weighs()) {
        sum = x;
        continue;
      }
      const Expr weight = b_.load(weights_, v + Expr(tap * kBlock), lanes_);
      sum = b_.let("sum", sum.defined() ? fma(x, weight, sum) : x * weight);
    }
    const ValueId anchor = e_.task().node().outputs[0];
    e_.epilogue({{anchor, sum}}, domain_of(e_.task().graph->type(anchor)), site);
  }

  Expr wide(int64_t i) const { return imm_int(DType::i64, i, lanes_); }

  Emitter& e_;
  LoopBuilder& b_;
  const Sampling& s_;
  const Operand &x_, &grid_;
  int32_t lanes_;
  Buf image_, places_, weights_;
};

class SampleRows final : public LoopModel {
 public:
  SampleRows(const Task& task, const CpuLimits& limits, Sampling sampling)
      : LoopModel(task, limits), s_(std::move(sampling)) {}

 private:
  Schedule usual() const override { return {"sample_rows", {}}; }
  Lowered emit(const Schedule&) const override {
    Emitter e(task(), "sample_rows");
    SampleEmitter(e, s_, lanes_of(limits())).run();
    return e.finish();
  }

  const Sampling s_;
};

}  // namespace

const Template sample_rows{"sample_rows", "image sampling between pixels", analyse_as<SampleRows, analyse>};

}  // namespace kilter
