// A convolution and the depthwise convolution that reads its result, in one kernel: the values between them never leave
// the nearest caches. A work item walks down a band of output rows of a few channel blocks. For each row it computes
// the new rows of the first convolution, with their padding, into a ring of as many rows as the window is high, and
// then the row of the second convolution from the ring. Rows at the edge between two bands are computed twice.

#include "schedule/templates/conv2d_then_depthwise.h"

#include <algorithm>

#include "base/align.h"
#include "graph/values.h"
#include "ops/support/builder.h"
#include "schedule/templates/conv_core.h"
#include "schedule/templates/depthwise_core.h"
#include "schedule/templates/templates.h"

namespace kilter {
namespace {

constexpr int64_t kBands[] = {1, 2, 3, 4, 6, 8, 12, 16};  ///< bands per image
constexpr double kOneVector = 1.2;  ///< factor by which tiles of one vector are slower than the model says

struct Pair {
  ConvNest conv;
  DepthwiseNest depthwise;
  int64_t channels = 0;  ///< of the result
  int64_t element = 4;   ///< bytes of a value between the two convolutions in the ring

  int64_t left() const { return -depthwise.first_w; }
  int64_t right() const {
    const int64_t last = (depthwise.out_w - 1) * depthwise.step_w + (depthwise.kernel_w - 1) * depthwise.dilation_w;
    return std::max<int64_t>(last + depthwise.first_w - (conv.out_w - 1), 0);
  }
  /// Numbers of elements: one row of one block of the ring; all rows of the block; a ring of `vectors` blocks.
  int64_t ring_row(int64_t lanes) const { return (left() + conv.out_w + right()) * lanes; }
  int64_t ring_plane(int64_t lanes) const { return depthwise.reach() * ring_row(lanes); }
  int64_t ring_elems(int64_t vectors, int64_t lanes) const { return vectors * ring_plane(lanes); }
  int64_t bands(int64_t band) const { return ceil_div(depthwise.out_h, band); }
  int64_t ring_bytes(int64_t vectors, int64_t lanes) const { return ring_elems(vectors, lanes) * element; }
  /// Bytes of the values between the two convolutions.
  int64_t between_bytes(int64_t lanes) const {
    return conv.n * conv.out_blocks * lanes * element * conv.out_h * conv.out_w;
  }

  /// Rows of the first convolution that the bands of an image compute in total.
  int64_t rows(int64_t band) const {
    int64_t sum = 0;
    for (int64_t first = 0; first < depthwise.out_h; first += band) {
      const int64_t last = std::min(first + band, depthwise.out_h) - 1;
      const int64_t begin = first * depthwise.step_h + depthwise.first_h;
      const int64_t end = last * depthwise.step_h + depthwise.first_h + depthwise.reach();
      sum += std::max<int64_t>(std::min(end, conv.out_h) - std::max<int64_t>(begin, 0), 0);
    }
    return sum;
  }
};

bool constant_operands(const Graph& graph, const Node& conv) {
  return std::all_of(conv.inputs.begin() + 1, conv.inputs.end(),
                     [&](ValueId v) { return v == kNone || constant_of(graph, v) != nullptr; });
}

/// Chooses the operands that the two convolutions multiply. Sums of integers must be sums of products of bytes.
std::optional<Rejected> choose_operands(Pair& p, const Graph& graph, const Node& conv, const Node& depthwise,
                                        const CpuLimits& limits) {
  const TensorType &x = graph.type(conv.inputs[0]), &sums = graph.type(conv.outputs[0]);
  const TensorType &between = graph.type(depthwise.inputs[0]), &y = graph.type(depthwise.outputs[0]);
  const ValueId first = conv.inputs[1], second = depthwise.inputs[1];
  const bool bytes = Multiplicands::stores_bytes(x, sums.dtype);
  if (!bytes || fit_i8(*constant_of(graph, first)))
    p.conv.operands = conv_multiplicands(p.conv, x, graph.type(first), sums.dtype, limits);
  p.depthwise.operands = depthwise_operands(p.depthwise, between, *constant_of(graph, second), y, limits);
  if (between.layout.stored == DType::u8) p.element = 1;
  for (const auto& [type, operands] : {std::pair{sums.dtype, p.conv.operands}, {y.dtype, p.depthwise.operands}}) {
    if (type != operands.sum())
      return Rejected{"element type of the results", "f32, or sums of products of bytes", std::string(name(type))};
  }
  return std::nullopt;
}

Result<Pair> analyse_nodes(const Graph& graph, const Node& conv, const Node& depthwise, const CpuLimits& limits) {
  const int32_t lanes = lanes_of(limits);
  const TensorType &x = graph.type(conv.inputs[0]), &between = graph.type(conv.outputs[0]);
  const TensorType& y = graph.type(depthwise.outputs[0]);
  if (x.dtype != DType::f32) return Rejected{"element type", "f32", std::string(name(x.dtype))};
  if (x.shape.size() != 4) return Rejected{"rank of the input", "4", std::to_string(x.shape.size())};
  if (!constant_operands(graph, conv) || !constant_operands(graph, depthwise))
    return Rejected{"weights and biases", "constant", "computed at run time"};
  if (between.layout.block != lanes || y.layout.block != lanes) {
    return Rejected{"block of the layouts", std::to_string(lanes),
                    fmt::format("{} between, {} out", between.layout.block, y.layout.block)};
  }
  auto nest = direct_nest(conv, x, graph.type(conv.inputs[1]), between);
  if (!nest) return nest.rejected();
  if (const int64_t channels = between.shape[1]; depthwise.int_attr("group", 1) != channels) {
    return Rejected{"groups = input channels = output channels", std::to_string(depthwise.int_attr("group", 1)),
                    fmt::format("{} in, {} out", channels, y.shape[1])};
  }
  auto second = depthwise_nest(depthwise, graph.type(depthwise.inputs[0]), graph.type(depthwise.inputs[1]), y, lanes);
  if (!second) return second.rejected();
  Pair p{*nest, *second, y.shape[1]};
  if (auto rejected = choose_operands(p, graph, conv, depthwise, limits)) return *rejected;
  if (const int64_t groups = p.conv.groups * p.conv.merged; groups != 1)
    return Rejected{"groups of the feeder", "1", std::to_string(groups)};
  if (p.conv.out_h < 2) return Rejected{"rows of the feeder's result", "2 or more", std::to_string(p.conv.out_h)};
  if (const int64_t ring = p.ring_bytes(1, lanes); ring > limits.l2_bytes / 2)
    return Rejected{"bytes of the rows under a window", std::to_string(limits.l2_bytes / 2), std::to_string(ring)};
  return p;
}

Result<Pair> analyse(const Task& task, const CpuLimits& limits) {
  if (task.feeder.empty()) return not_for("feeder", "a convolution", "none");
  if (!task.prologue.empty()) return Rejected{"prologue", "none", std::to_string(task.prologue.size()) + " nodes"};
  if (auto rejected = check_elementwise(task, true)) return *rejected;
  auto pair = analyse_nodes(*task.graph, task.graph->node(task.feeder.front()), task.node(), limits);
  if (pair) pair->conv.overlap = pair->depthwise.overlap = task.open;
  return pair;
}

// --- space and model ---

std::vector<int64_t> bands_of(const Pair& p) {
  std::vector<int64_t> all;
  for (const int64_t count : kBands) all.push_back(ceil_div(p.depthwise.out_h, count));
  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
  return all;
}

struct PairTile {
  ConvTile tile;  ///< of one row
  int64_t band = 1;
};

std::optional<Rejected> check(const Pair& p, const PairTile& s, const CpuLimits& limits) {
  if (auto rejected = check_tile(p.conv, s.tile, limits)) return rejected;
  if (const int64_t ring = p.ring_bytes(s.tile.vectors, lanes_of(limits)); ring > limits.l2_bytes / 2)
    return Rejected{"bytes of the rows under a window", std::to_string(limits.l2_bytes / 2), std::to_string(ring)};
  return std::nullopt;
}

double depthwise_cycles(const Pair& p, const CpuLimits& limits) {
  const DepthwiseNest& d = p.depthwise;
  return static_cast<double>(d.n * d.blocks * d.out_h) * row_cycles(d, pick_row_tile(d, limits), limits);
}

Estimate predict(const Pair& p, const PairTile& s, const CpuLimits& limits) {
  const int64_t lanes = lanes_of(limits);
  ConvNest computed = p.conv;
  computed.out_h = p.rows(s.band);
  Estimate conv = estimate_tile(computed, s.tile, limits);
  if (s.tile.vectors == 1 && p.conv.in_block > 1) conv.cycles *= kOneVector;
  // A ring that does not fit in L1 is written to L2 and read from there.
  const bool spills = p.ring_bytes(s.tile.vectors, lanes) > limits.l1_bytes / 2;
  const double ring = spills ? 2 * static_cast<double>(p.between_bytes(lanes)) / limits.l2_rate : 0;
  const auto filled = static_cast<double>(p.channels) / static_cast<double>(p.depthwise.blocks * lanes);
  return {beside(conv.cycles + depthwise_cycles(p, limits), ring), 1 - (1 - conv.tail) * filled,
          packed_bytes(p.conv, s.tile.vectors, lanes_of(limits))};
}

int64_t items(const Pair& p, const PairTile& s) {
  return p.conv.n * (p.conv.out_blocks / s.tile.vectors) * p.bands(s.band);
}

/// The cost that selects the default: cycles times the mean imbalance for 1, 2 and 4 threads. The imbalance is the work
/// of the busiest thread divided by an equal share of all work. The default must not depend on the number of threads.
double cost(const Pair& p, const PairTile& s, const CpuLimits& limits) {
  const int64_t all = items(p, s);
  double sum = 0;
  for (const int64_t threads : {1, 2, 4})
    sum += static_cast<double>(ceil_div(all, threads) * threads) / static_cast<double>(all);
  return predict(p, s, limits).cycles * sum / 3;
}

/// The candidates for the default: for each tile, the bands of lowest cost. More bands balance the work better, but
/// rows at their edges are computed twice. Bands that result in enough work items for several threads are preferred.
std::vector<PairTile> shapes(const Pair& p, const CpuLimits& limits) {
  constexpr int64_t kEnough = 8;
  std::vector<PairTile> all;
  for (const ConvTile& tile : tile_candidates(p.conv, limits)) {
    if (tile.rows != 1 || check(p, {tile, 1}, limits)) continue;
    const std::vector<int64_t> bands = bands_of(p);
    PairTile least{tile, bands.front()};
    for (const int64_t band : bands) {
      if (items(p, {tile, band}) >= kEnough && cost(p, {tile, band}, limits) < cost(p, least, limits))
        least.band = band;
    }
    all.push_back(least);
  }
  return all;
}

/// The best shape. As in direct convolution, two vectors win among nearly equal costs.
std::optional<PairTile> best(const Pair& p, const CpuLimits& limits) {
  std::optional<PairTile> found;
  double least = 0;
  for (const PairTile& s : shapes(p, limits)) {
    const double now = cost(p, s, limits);
    const bool preferred = found && s.tile.vectors == 2 && found->tile.vectors != 2;
    if (found && now >= least * (preferred ? 1.01 : 0.99)) continue;
    found = s, least = now;
  }
  return found;
}

Schedule schedule_of(const Pair& p, const PairTile& s, const CpuLimits& limits) {
  return {"conv2d_then_depthwise",
          {{"vectors", s.tile.vectors},
           {"tile", s.tile.tile},
           {"band", s.band},
           {"prefetch", pick_prefetch(p.conv, s.tile, limits)}}};
}

// --- lowering ---

class PairEmitter {
 public:
  PairEmitter(Emitter& e, const Pair& p, const PairTile& s, const CpuLimits& limits)
      : e_(e),
        b_(e.b),
        p_(p),
        s_(s),
        limits_(limits),
        lanes_(lanes_of(limits)),
        row_tile_(pick_row_tile(p.depthwise, limits)),
        domain_(domain_of(e.task().graph->type(conv_node().outputs[0]))) {
    n_ = b_.parallel("n", p.conv.n);
    ocg_ = b_.parallel("ocg", p.conv.out_blocks / s.tile.vectors);
    item_ = b_.parallel("band", p.bands(s.band));
  }

  void emit(int64_t prefetch) {
    declare(prefetch);
    zero_columns();
    const DepthwiseNest& d = p_.depthwise;
    for (int64_t v = 0; v < s_.tile.vectors; ++v)
      prefetch_weights(b_, d, second_, ocg_ * Expr(s_.tile.vectors) + Expr(v), Expr(0), d.weight_vectors(), limits_);
    const Expr first = b_.let("first", item_ * Expr(s_.band));
    const int64_t kept = std::max<int64_t>(d.reach() - d.step_h, 0);  // rows of the previous window still in the ring
    b_.loop("h", first, min(first + Expr(s_.band), Expr(d.out_h)), [&](const Expr& h) {
      const Expr top = b_.let("top", h * Expr(d.step_h) + Expr(d.first_h));
      const Expr known = min(Expr(kept), (h - first) * Expr(kept));  // none for the first row
      b_.loop("p", top + known, top + Expr(d.reach()), [&](const Expr& p) { conv_row(p); });
      b_.loop("v", 0, s_.tile.vectors, [&](const Expr& v) { depthwise_row(h, v); });
    });
  }

 private:
  const Node& conv_node() const { return e_.task().graph->node(e_.task().feeder.front()); }
  int64_t row_elems() const { return p_.ring_row(lanes_); }

  void declare(int64_t prefetch) {
    const Node &conv = conv_node(), &depthwise = e_.task().node();
    buffers_.input = conv.inputs[0], buffers_.output = conv.outputs[0];
    e_.input(buffers_.input);
    buffers_.weights = e_.constant(pack_direct(e_.task(), conv.inputs[1], p_.conv, s_.tile, lanes_), "w");
    const TensorType& between = e_.task().graph->type(depthwise.inputs[0]);
    buffers_.bias = start_of(e_, conv, p_.conv.operands, e_.task().operand(conv.inputs[0]).type, lanes_);
    buffers_.prefetch = prefetch;
    const Tensor& second = *e_.task().operand(depthwise.inputs[1]).constant;
    second_.weights = e_.constant(pack_depthwise(second, p_.depthwise, lanes_), "dw");
    second_.bias = start_of(e_, depthwise, p_.depthwise.operands, between, lanes_, "dw");
    ring_ = b_.scratch("ring", p_.element == 1 ? DType::u8 : DType::f32, p_.ring_elems(s_.tile.vectors, lanes_));
    if (p_.element == 1) b_.convert(ring_, DType::f32, between.layout.zero);
  }

  void store_zero(const Expr& at) { b_.store(ring_, at, imm(DType::f32, 0, lanes_)); }

  /// Zeroes the padding left and right of the rows, which no row overwrites.
  void zero_columns() {
    if (p_.left() + p_.right() == 0) return;
    b_.loop("z", 0, s_.tile.vectors * p_.depthwise.reach(), [&](const Expr& z) {
      const Expr row = b_.let("row", z * Expr(row_elems()));
      for (int64_t c = 0; c < p_.left(); ++c) store_zero(row + Expr(c * lanes_));
      for (int64_t c = 0; c < p_.right(); ++c) store_zero(row + Expr((p_.left() + p_.conv.out_w + c) * lanes_));
    });
  }

  /// The offset in the ring of row `q`, counted from the first row of padding.
  Expr ring_row(const Expr& q) { return b_.let("row", q % Expr(p_.depthwise.reach()) * Expr(row_elems())); }

  /// Computes row `p` of the first convolution into the ring; zeros if it is padding.
  void conv_row(const Expr& p) {
    const DepthwiseNest& d = p_.depthwise;
    const Expr to = ring_row(p - Expr(d.first_h)) + Expr(p_.left() * lanes_);
    buffers_.store = [&](const Expr& value, const Site& site) {
      const Expr v = site.index[1] - ocg_ * Expr(s_.tile.vectors);
      b_.store(ring_, to + v * Expr(p_.ring_plane(lanes_)) + site.index[3] * Expr(lanes_),
               e_.feeder(value, domain_, site));
    };
    const auto compute = [&] { emit_nest(e_, p_.conv, s_.tile, buffers_, n_, Expr(0), ocg_, p, limits_); };
    const int64_t last = (d.out_h - 1) * d.step_h + d.first_h + d.reach() - 1;
    if (d.first_h == 0 && last < p_.conv.out_h) return compute();
    const Expr inside = binary(Op::logical_and, binary(Op::ge, p, Expr(0)), binary(Op::lt, p, Expr(p_.conv.out_h)));
    b_.if_then(inside, compute, [&] {
      b_.loop("c", 0, p_.conv.out_w, [&](const Expr& c) {
        for (int64_t v = 0; v < s_.tile.vectors; ++v)
          store_zero(to + Expr(v * p_.ring_plane(lanes_)) + c * Expr(lanes_));
      });
    });
  }

  void depthwise_row(const Expr& h, const Expr& v) {
    const DepthwiseNest& d = p_.depthwise;
    const Expr block = b_.let("cb", ocg_ * Expr(s_.tile.vectors) + v);
    DepthwiseInput input{ring_, lanes_, {}};
    input.tile = [&](const Expr& w0) {
      const Expr x1 = b_.let("x1", v * Expr(p_.ring_plane(lanes_)) + w0 * Expr(d.step_w * lanes_));
      return [this, &d, h, x1](const Expr& r) {
        return b_.let("x2", x1 + ring_row(h * Expr(d.step_h) + r * Expr(d.dilation_h)));
      };
    };
    emit_depthwise_row(e_, d, row_tile_, input, second_, n_, block, h);
  }

  Emitter& e_;
  LoopBuilder& b_;
  const Pair& p_;
  const PairTile& s_;
  const CpuLimits& limits_;
  int32_t lanes_;
  int64_t row_tile_;
  Domain domain_;  ///< of the values between the two convolutions
  Expr n_, ocg_, item_;
  ConvBuffers buffers_;
  DepthwiseBuffers second_;
  Buf ring_;
};

class ConvThenDepthwise final : public Analysed {
 public:
  ConvThenDepthwise(const Task& task, const CpuLimits& limits, const Pair& pair) : Analysed(task, limits), p_(pair) {}

  std::vector<Knob> space() const override {
    std::vector<Knob> space = tile_space(p_.conv, limits());
    std::erase_if(space, [](const Knob& knob) { return knob.name == "rows"; });
    space.push_back({"band", bands_of(p_)});
    space.push_back(prefetch_knob(p_.conv));
    return space;
  }
  Result<Schedule> pick() const override {
    return schedule_of(p_, best(p_, limits()).value_or(PairTile{{1, 1, 1}, 1}), limits());
  }
  std::vector<Schedule> candidates() const override {
    std::vector<Schedule> all;
    for (const PairTile& s : shapes(p_, limits())) all.push_back(schedule_of(p_, s, limits()));
    return all;
  }

 private:
  static PairTile shape_of(const Schedule& schedule) {
    return {{schedule.knob("vectors"), 1, schedule.knob("tile")}, schedule.knob("band")};
  }
  std::optional<Rejected> conflict(const Schedule& schedule) const override {
    return check(p_, shape_of(schedule), limits());
  }
  Estimate model(const Schedule& schedule) const override { return predict(p_, shape_of(schedule), limits()); }

  Lowered emit(const Schedule& schedule) const override {
    const PairTile s = shape_of(schedule);
    Emitter e(task(), "conv2d_then_depthwise");
    PairEmitter(e, p_, s, limits()).emit(schedule.knob("prefetch"));
    Lowered lowered = e.finish();
    const Node& conv = task().graph->node(task().feeder.front());
    const int64_t once = conv.op->flops(view(*task().graph, conv)) / p_.conv.out_h;
    const int64_t again = once * (p_.rows(s.band) - p_.conv.out_h);
    lowered.stages.back().work = StageWork{task().flops() + again, task().flops(), task().bytes()};
    return lowered;
  }

  const Pair p_;
};

}  // namespace

Result<PairCycles> weigh_pair(const Graph& graph, const Node& conv, const Node& depthwise, const CpuLimits& limits) {
  const auto pair = analyse_nodes(graph, conv, depthwise, limits);
  if (!pair) return pair.rejected();
  const Pair& p = *pair;
  const auto shape = best(p, limits);
  if (!shape) return Rejected{"register tile of one row", "1 or more", "none"};
  ConvNest alone = p.conv;
  if (alone.taps() == 1 && alone.step_h == 1 && alone.step_w == 1) alone.out_w *= alone.out_h, alone.out_h = 1;
  allow_half_tail(alone, limits);
  const int64_t lanes = lanes_of(limits), bytes = p.between_bytes(lanes);
  const double through = static_cast<double>(bytes) / reread_rate(bytes, limits);
  const int64_t padded =
      (p.conv.out_h - p.depthwise.first_h) * p.ring_row(lanes) * p.element * p.conv.n * p.conv.out_blocks;
  const double halo = static_cast<double>(padded - bytes) / limits.halo_rate;
  const TensorType& x = graph.type(conv.inputs[0]);
  const bool tiles = Multiplicands::of_tiles(x, graph.type(conv.outputs[0]).dtype, limits).group > 1;
  const bool vectors = p.conv.taps() == 1 || p.conv.in_block == 1 || p.conv.operands.sum() == DType::i32;
  return PairCycles{beside(estimate_tile(alone, pick_tile(alone, limits), limits).cycles, through) +
                        beside(depthwise_cycles(p, limits), through) + halo,
                    predict(p, *shape, limits).cycles, vectors && !tiles};
}

const Template conv2d_then_depthwise{"conv2d_then_depthwise",
                                     "convolution and depthwise convolution of its result, row by row",
                                     analyse_as<ConvThenDepthwise, analyse>};

}  // namespace kilter
