// Convolution of stride 1 by Winograd's minimal filtering (winograd_core.h), of 3x3 kernels (a quarter, m = 4, or 4/9,
// m = 2, of the multiplications) and of 1x3, 3x1 (a half or 2/3), 1x7 and 7x1 (4/7). Transforms are fused by block of
// tiles, so that what lies between them stays in cache:
//
//   v[xi][ic][tile]    B' d B of a block of tiles, all input channels
//   for each group of output channels:
//     q[xi][tile][oc]  products over the input channels, one for each place xi of a transformed tile, register-tiled
//     outputs          A' q A, bias, epilogue, clipped at the edges
//
// Where an image has few blocks, v goes through the arena instead of scratch memory, and channels run in parallel.

#include <algorithm>
#include <array>

#include "base/align.h"
#include "ops/window.h"
#include "schedule/conv_core.h"
#include "schedule/templates.h"
#include "schedule/winograd_core.h"

namespace kilter {
namespace {

constexpr int64_t kLeastTiles = 13;     // fewer do not hide the stream of the weights (measured)
constexpr int64_t kLeastChannels = 16;  // fewer gain little, and err most
constexpr int64_t kFewBlocks = 8;

struct Conv {
  int64_t n = 1, in_channels = 0, out_channels = 0;
  int64_t in_blocks = 0, out_blocks = 0;
  int64_t kernel_h = 3, kernel_w = 3;
  int64_t out_h = 0, out_w = 0, pad_h = 0, pad_w = 0;
  int64_t last_row = 0, last_column = 0;  ///< of the input with its padding

  bool known(int64_t m) const { return find_winograd(m, kernel_h) != nullptr && find_winograd(m, kernel_w) != nullptr; }
  /// Along the rows and along the columns; m has to be known.
  const WinogradTransform& down(int64_t m) const { return *find_winograd(m, kernel_h); }
  const WinogradTransform& across(int64_t m) const { return *find_winograd(m, kernel_w); }
  int64_t tiles_w(int64_t m) const { return ceil_div(out_w, across(m).outputs); }
  int64_t tiles(int64_t m) const { return ceil_div(out_h, down(m).outputs) * tiles_w(m); }
  int64_t places(int64_t m) const { return down(m).inputs() * across(m).inputs(); }
};

/// How the tiles of an image are taken.
struct Tiling {
  int64_t m = 4, vectors = 2, tile = 14, count = 1, split = 0;
  int64_t prefetch = 0;  ///< see prefetch_knob()

  int64_t block() const { return tile * count; }  ///< tiles
  int64_t blocks(const Conv& c) const { return ceil_div(c.tiles(m), block()); }
  /// Elements from one place to the next: an odd number of vectors, so that places spread over the cache's sets.
  int64_t v_place(const Conv& c, int64_t lanes) const { return (c.in_blocks * block() | 1) * lanes; }
  int64_t q_place(int64_t lanes) const { return (block() * vectors | 1) * lanes; }
  int64_t v_elems(const Conv& c, int64_t lanes) const { return c.places(m) * v_place(c, lanes); }
};

Answer<Conv> analyse(const Task& task, const TargetLimits& limits) {
  const Node& node = task.node();
  if (node.op->family != Family::conv) return not_for("operator family", "conv", node.op->name);
  if (auto rejected = check_input_stored(task)) return *rejected;
  const Operand& x = task.operand(node.inputs[0]);
  const Operand& w = task.operand(node.inputs[1]);
  const TensorType& y = task.graph->type(node.outputs[0]);
  const int32_t lanes = lanes_of(limits);
  if (auto rejected = check_conv_operands(task)) return *rejected;
  const Window win = conv_window(node, x.type.shape, w.type.shape);
  const int64_t kernel_h = w.type.shape[2], kernel_w = w.type.shape[3];
  constexpr std::array<std::pair<int64_t, int64_t>, 5> kKernels{{{3, 3}, {1, 3}, {3, 1}, {1, 7}, {7, 1}}};
  if (std::ranges::count(kKernels, std::pair(kernel_h, kernel_w)) == 0)
    return Rejected{"kernel", "3x3, 1x3, 3x1, 1x7 or 7x1", fmt::format("{}x{}", kernel_h, kernel_w)};
  if (win.strides != std::vector<int64_t>{1, 1} || win.dilations != std::vector<int64_t>{1, 1})
    return Rejected{"strides and dilations", "1", "more"};
  if (node.int_attr("group", 1) != 1) return Rejected{"groups", "1", std::to_string(node.int_attr("group", 1))};
  if (x.type.layout.block != lanes || y.layout.block != lanes)
    return Rejected{"blocks of the layouts", std::to_string(lanes),
                    fmt::format("{} in, {} out", x.type.layout.block, y.layout.block)};
  if (auto rejected = check_elementwise(task)) return *rejected;
  if (auto rejected = check_halo(win, x.type)) return *rejected;
  Conv c;
  c.n = x.type.shape[0];
  c.in_channels = x.type.shape[1], c.out_channels = y.shape[1];
  c.in_blocks = ceil_div(c.in_channels, lanes), c.out_blocks = ceil_div(c.out_channels, lanes);
  c.kernel_h = kernel_h, c.kernel_w = kernel_w;
  c.out_h = y.shape[2], c.out_w = y.shape[3];
  c.pad_h = win.pads_begin[0], c.pad_w = win.pads_begin[1];
  c.last_row = x.type.shape[2] - 1 + win.pads_end[0], c.last_column = x.type.shape[3] - 1 + win.pads_end[1];
  return c;
}

int64_t weight_bytes(const Conv& c, const Tiling& p, int64_t lanes) {
  return c.places(p.m) * c.in_blocks * c.out_blocks * lanes * lanes * 4;
}

std::vector<Knob> knobs(const Conv& c, const TargetLimits& limits) {
  std::vector<Knob> space{{"m", {}}, {"vectors", {}}, {"tile", {}}, {"count", {}}, {"split", {0, 1}}, prefetch_knob()};
  for (const int64_t m : {2, 4}) {
    if (c.known(m)) space[0].values.push_back(m);
  }
  for (int64_t v = 1; v <= std::min<int64_t>(8, c.out_blocks); ++v) {
    if (c.out_blocks % v == 0) space[1].values.push_back(v);
  }
  for (int64_t t = 1; t <= std::min(c.tiles(2), register_rows(1, limits)); ++t) space[2].values.push_back(t);
  for (int64_t k = 1; k <= std::min<int64_t>(c.tiles(2), 16); ++k) space[3].values.push_back(k);
  return space;
}

Answer<std::vector<Knob>> space(const Task& task, const TargetLimits& limits) {
  auto conv = analyse(task, limits);
  if (auto* rejected = std::get_if<Rejected>(&conv)) return *rejected;
  return knobs(std::get<Conv>(conv), limits);
}

Schedule schedule_of(const Tiling& p) {
  return {"conv2d_winograd",
          {{"m", p.m},
           {"vectors", p.vectors},
           {"tile", p.tile},
           {"count", p.count},
           {"split", p.split},
           {"prefetch", p.prefetch}}};
}

Tiling tiling_of(const Schedule& schedule) {
  return {schedule.knob("m"),     schedule.knob("vectors"), schedule.knob("tile"),
          schedule.knob("count"), schedule.knob("split"),   schedule.knob("prefetch")};
}

/// Cycles of a kernel that streams `bytes` of weights `passes` times, the first time from memory, beside `cycles` of
/// arithmetic.
double streamed(double cycles, int64_t bytes, double passes, const TargetLimits& limits) {
  const double stream =
      static_cast<double>(bytes) * (1 / limits.memory_rate + (passes - 1) / reread_rate(bytes, limits));
  return beside(cycles, stream);
}

/// Cycles of one core: products at the rate of multiply-adds, no step below their latency, beside the stream of the
/// weights; transforms by their loads and stores.
Estimate model(const Conv& c, const Tiling& p, const TargetLimits& limits) {
  const int64_t lanes = lanes_of(limits);
  const auto blocks = static_cast<double>(c.n * p.blocks(c));
  const auto places = static_cast<double>(c.places(p.m));
  const auto half = static_cast<double>(c.down(p.m).inputs() * c.across(p.m).outputs);
  const auto panels = static_cast<double>(c.in_channels * (c.out_blocks / p.vectors));
  // The first tiles of a block take a panel of weights from far, the others again from L1, or from L2, whose rate grows
  // with the width of the units.
  const bool big = 4 * c.in_channels * p.vectors * limits.vector_bytes > 3 * limits.l1_bytes;
  const double step = step_cycles(p.tile, p.vectors, limits) * spilling(p.tile, p.vectors, limits);
  const double again =
      big ? static_cast<double>(p.vectors * limits.vector_bytes) / (kL2BytesPerCycle * limits.fmas_per_cycle) : 0;
  const double products = blocks * places * panels * (step + static_cast<double>(p.count - 1) * beside(step, again));
  const auto tiles = static_cast<double>(p.block()) * blocks;
  const double transforms =
      tiles * 2.5 * (places * static_cast<double>(c.in_blocks) + half * static_cast<double>(c.out_blocks));
  // Transformed inputs are written and read: by another stage all of them, with a write's read for ownership.
  const int64_t v_bytes = p.v_elems(c, lanes) * 4 * (p.split != 0 ? c.n * p.blocks(c) : 1);
  const double v_again = static_cast<double>(v_bytes) / reread_rate(v_bytes, limits) * (p.split != 0 ? 3 : blocks);
  return {streamed(products, weight_bytes(c, p, lanes), blocks, limits) + transforms + v_again,
          1 - static_cast<double>(c.n * c.tiles(p.m)) / tiles, weight_bytes(c, p, lanes)};
}

/// Cycles of direct convolution at the rate of its tiles.
double direct_cycles(const Conv& c, const TargetLimits& limits) {
  const int64_t lanes = lanes_of(limits);
  const int64_t taps = c.kernel_h * c.kernel_w;
  const auto products = static_cast<double>(c.n * c.out_h * c.out_w * c.out_blocks * c.in_channels * taps) /
                        (0.95 * limits.fmas_per_cycle);
  return streamed(products, c.in_blocks * c.out_blocks * lanes * lanes * taps * 4, 1, limits);
}

std::vector<Tiling> tilings(const Conv& c, const TargetLimits& limits) {
  std::vector<Tiling> all;
  for (const int64_t m : {4, 2}) {
    if (!c.known(m) || c.tiles(m) < kLeastTiles) continue;
    const int64_t tiles = c.tiles(m);
    for (const int64_t v : {2, 1, 4}) {
      const int64_t most = register_rows(v, limits);
      if (c.out_blocks % v != 0 || most < 1) continue;
      const int64_t tile = ceil_div(tiles, ceil_div(tiles, most));
      for (const int64_t count : {1, 2, 3, 4}) {
        if (tile * (count - 1) >= tiles) break;
        Tiling p{m, v, tile, count, 0};
        p.split = c.n * p.blocks(c) < kFewBlocks ? 1 : 0;
        p.prefetch = pick_prefetch(weight_bytes(c, p, lanes_of(limits)), limits);
        all.push_back(p);
      }
    }
  }
  return all;
}

std::vector<Schedule> candidates(const Task& task, const TargetLimits& limits) {
  std::vector<Schedule> all;
  const auto conv = analyse(task, limits);
  if (const auto* c = std::get_if<Conv>(&conv)) {
    for (const Tiling& p : tilings(*c, limits)) all.push_back(schedule_of(p));
  }
  return all;
}

Answer<Schedule> pick(const Task& task, const TargetLimits& limits) {
  auto conv = analyse(task, limits);
  if (auto* rejected = std::get_if<Rejected>(&conv)) return *rejected;
  const Conv& c = std::get<Conv>(conv);
  if (std::min(c.in_channels, c.out_channels) < kLeastChannels)
    return Rejected{"channels in and out", "16 or more", fmt::format("{}, {}", c.in_channels, c.out_channels)};
  std::optional<Tiling> best;
  double least = 0;
  for (const Tiling& p : tilings(c, limits)) {
    const double cycles = model(c, p, limits).cycles;
    // Two vectors and few tiles need least of the caches: others have to be clearly better.
    if (best && cycles >= least * 0.97) continue;
    best = p, least = cycles;
  }
  if (!best) return Rejected{"tiles of an image", "13 or more", std::to_string(c.tiles(2))};
  if (const double direct = direct_cycles(c, limits); least > 0.9 * direct)
    return Rejected{"cycles by the model", fmt::format("{:.0f}, 9/10 of direct convolution", 0.9 * direct),
                    fmt::format("{:.0f}", least)};
  return schedule_of(*best);
}

/// [group of output channels][place][input channel][output channel of the group].
Tensor packed_weights(const Tensor& w, const Conv& c, int64_t m, int64_t width, int64_t lanes) {
  FilterTransform transformed(c.down(m), c.across(m));
  const int64_t taps = c.kernel_h * c.kernel_w, places = c.places(m), panel = c.in_blocks * lanes * width;
  Tensor packed(DType::f32, {c.out_blocks * lanes / width * places * panel});
  std::fill_n(packed.data<float>(), packed.elems(), 0.0F);
  // Panels lie a multiple of the caches' strides apart, so each gets a whole row of output channels at once.
  std::vector<float> rows(static_cast<size_t>(places * width));
  for (int64_t group = 0; group < c.out_channels; group += width) {
    std::ranges::fill(rows, 0.0F);
    float* to = packed.data<float>() + group / width * places * panel;
    for (int64_t ch = 0; ch < c.in_channels; ++ch, to += width) {
      for (int64_t k = group; k < std::min(group + width, c.out_channels); ++k) {
        float* column = rows.data() + k - group;
        for (const double u : transformed(w.data<float>() + (k * c.in_channels + ch) * taps)) {
          *column = static_cast<float>(u);
          column += width;
        }
      }
      for (int64_t xi = 0; xi < places; ++xi) std::copy_n(rows.data() + xi * width, width, to + xi * panel);
    }
  }
  return packed;
}

Packing pack(const Task& task, const Conv& c, const Tiling& p, int64_t lanes) {
  const ValueId w = task.node().inputs[1];
  return {w, fmt::format("winograd m={} vectors={} lanes={}", p.m, p.vectors, lanes), DType::f32,
          weight_bytes(c, p, lanes) / 4, [from = *task.operand(w).constant, c, p, lanes] {
            return packed_weights(from, c, p.m, p.vectors * lanes, lanes);
          }};
}

/// Emits the two halves for one block of tiles.
class BlockEmitter {
 public:
  BlockEmitter(Emitter& e, const Conv& c, const Tiling& p, int32_t lanes, Expr n, Expr block)
      : e_(e), b_(e.b), c_(c), p_(p), down_(c.down(p.m)), across_(c.across(p.m)), lanes_(lanes), n_(std::move(n)) {
    first_ = b_.let("first", block * Expr(p.block()));
  }

  /// v of input block `icb`, at `base` of `v`.
  void transform_inputs(const Buf& v, const Expr& base, const Expr& icb, const Buf& temp) {
    const ValueId x = e_.task().node().inputs[0];
    const Operand& in = e_.task().operand(x);
    const Buf buf = e_.input(x);
    b_.loop("t", 0, p_.block(), [&](const Expr& t) {
      const auto [row, column] = corner(min(first_ + t, Expr(c_.tiles(p_.m) - 1)));
      const Expr origin =
          b_.let("x0", Expr(in.phys.offset) + n_ * Expr(in.phys.strides[0]) + icb * Expr(in.phys.strides[1]));
      std::vector<Expr> rows, columns;
      for (int64_t i = 0; i < down_.inputs(); ++i) {
        rows.push_back(
            b_.let("r", origin + min(row + Expr(i - c_.pad_h), Expr(c_.last_row)) * Expr(in.phys.strides[2])));
      }
      for (int64_t j = 0; j < across_.inputs(); ++j) {
        columns.push_back(
            b_.let("c", min(column + Expr(j - c_.pad_w), Expr(c_.last_column)) * Expr(in.phys.strides[3])));
      }
      const auto input = [&](int64_t i, int64_t j) { return b_.load(buf, rows[at(i)] + columns[at(j)], lanes_); };
      const Expr to = b_.let("to", base + (icb * Expr(p_.block()) + t) * Expr(lanes_));
      in_two_steps(input, true, temp, [&](int64_t i, const std::vector<Expr>& out) {
        for (int64_t j = 0; j < across_.inputs(); ++j)
          b_.store(v, to + Expr((i * across_.inputs() + j) * p_.v_place(c_, lanes_)), out[at(j)]);
      });
    });
  }

  /// Outputs of channel group `group` from v at `base`.
  void multiply(const Buf& v, const Expr& base, const Expr& group, const Buf& weights, const Buf& q) {
    const int64_t panel = c_.in_blocks * lanes_ * p_.vectors * lanes_;
    const Expr u0 = b_.let("u0", group * Expr(c_.places(p_.m) * panel));
    b_.loop("xi", 0, c_.places(p_.m), [&](const Expr& xi) {
      const Expr u = b_.let("u", u0 + xi * Expr(panel));
      const Expr from = b_.let("from", base + xi * Expr(p_.v_place(c_, lanes_)));
      b_.loop("rt", 0, p_.count, [&](const Expr& rt) {
        register_tile(v, from + rt * Expr(p_.tile * lanes_), weights, u, q,
                      xi * Expr(p_.q_place(lanes_)) + rt * Expr(p_.tile * p_.vectors * lanes_));
      });
    });
  }

  void finish_outputs(const Expr& group, const Buf& q, const Buf& bias, const Buf& temp) {
    const Expr count = min(Expr(p_.block()), Expr(c_.tiles(p_.m)) - first_);
    b_.loop("t", 0, count, [&](const Expr& t) {
      const auto [row, column] = corner(first_ + t);
      b_.loop("v", 0, p_.vectors, [&](const Expr& vec) {
        const Expr from = b_.let("from", (t * Expr(p_.vectors) + vec) * Expr(lanes_));
        const auto product = [&](int64_t i, int64_t j) {
          return b_.load(q, from + Expr((i * across_.inputs() + j) * p_.q_place(lanes_)), lanes_);
        };
        const Expr block = b_.let("oc", group * Expr(p_.vectors) + vec);
        in_two_steps(product, false, temp, [&](int64_t i, const std::vector<Expr>& y) {
          guard(row + Expr(i), c_.out_h, down_.outputs, i, [&] { output_row(row + Expr(i), column, y, block, bias); });
        });
      });
    });
  }

 private:
  static size_t at(int64_t i) { return static_cast<size_t>(i); }

  std::pair<Expr, Expr> corner(const Expr& tile) {
    const Expr p = b_.let("p", tile);
    const Expr h = b_.let("h", binary(Op::div, p, Expr(c_.tiles_w(p_.m))));
    return {b_.let("row", h * Expr(down_.outputs)),
            b_.let("column", (p - h * Expr(c_.tiles_w(p_.m))) * Expr(across_.outputs))};
  }

  /// Transforms a tile down its columns, then across its rows, and hands on row by row. Rows lie in `temp` between the
  /// two, unless there is only one of the two to do.
  void in_two_steps(const std::function<Expr(int64_t, int64_t)>& load, bool inputs, const Buf& temp,
                    const std::function<void(int64_t, const std::vector<Expr>&)>& row_done) {
    const auto transform = [&](const WinogradTransform& t, const std::vector<Expr>& x) {
      return inputs ? emit_input_transform(b_, t, x) : emit_output_transform(b_, t, x);
    };
    const int64_t rows = inputs ? down_.inputs() : down_.outputs, width = across_.inputs();
    if (across_.identity()) {
      const std::vector<Expr> column =
          transform(down_, column_of(down_.inputs(), [&](int64_t i) { return load(i, 0); }));
      for (int64_t i = 0; i < rows; ++i) row_done(i, {column[at(i)]});
      return;
    }
    for (int64_t j = 0; j < width && !down_.identity(); ++j) {
      const std::vector<Expr> column =
          transform(down_, column_of(down_.inputs(), [&](int64_t i) { return load(i, j); }));
      for (int64_t i = 0; i < rows; ++i) b_.store(temp, Expr((i * width + j) * lanes_), column[at(i)]);
    }
    for (int64_t i = 0; i < rows; ++i) {
      row_done(i, transform(across_, column_of(width, [&](int64_t j) {
                              return down_.identity() ? load(i, j)
                                                      : b_.load(temp, Expr((i * width + j) * lanes_), lanes_);
                            })));
    }
  }

  /// The loaded values 0 to count - 1, named.
  std::vector<Expr> column_of(int64_t count, const std::function<Expr(int64_t)>& load) {
    std::vector<Expr> values;
    for (int64_t i = 0; i < count; ++i) values.push_back(b_.let("d", load(i)));
    return values;
  }

  /// Runs `body` where `place` lies in [0, extent); unchecked where element i of a tile of `size` always does.
  void guard(const Expr& place, int64_t extent, int64_t size, int64_t i, const std::function<void()>& body) {
    if (extent % size == 0 || i < extent % size) return body();
    b_.if_then(binary(Op::lt, place, Expr(extent)), body);
  }

  void output_row(const Expr& row, const Expr& column, const std::vector<Expr>& y, const Expr& block, const Buf& bias) {
    const ValueId anchor = e_.task().node().outputs[0];
    const Domain domain = domain_of(e_.task().graph->type(anchor));
    for (int64_t j = 0; j < across_.outputs; ++j) {
      guard(column + Expr(j), c_.out_w, across_.outputs, j, [&] {
        Expr value = y[at(j)];
        if (bias.id >= 0) value = b_.let("b", value + b_.load(bias, block * Expr(lanes_), lanes_));
        e_.epilogue({{anchor, value}}, domain, Site{{n_, block, row, column + Expr(j), Expr(0)}, 4, lanes_, {}});
      });
    }
  }

  void register_tile(const Buf& v, const Expr& from, const Buf& weights, const Expr& u, const Buf& q, const Expr& to) {
    const int64_t width = p_.vectors * lanes_;
    std::vector<int32_t> acc;
    for (int64_t i = 0; i < p_.tile * p_.vectors; ++i) acc.push_back(b_.reg("acc", imm(DType::f32, 0, lanes_)));
    const Expr x0 = b_.let("x0", from);
    const int64_t unroll = std::min<int64_t>(kReductionUnroll, lanes_),
                  padded = ceil_div(c_.in_channels, unroll) * unroll;
    b_.loop("icb", 0, c_.in_blocks, [&](const Expr& icb) {
      const Expr x = b_.let("x", x0 + icb * Expr(p_.block() * lanes_));
      const Expr w = b_.let("w", u + icb * Expr(lanes_ * width));
      const Expr end = padded % lanes_ == 0 ? Expr(lanes_) : min(Expr(lanes_), Expr(padded) - icb * Expr(lanes_));
      b_.loop("i", 0, end, unroll, [&](const Expr& i) {
        emit_prefetch(b_, {weights, p_.prefetch}, u, w - u + i * Expr(width), unroll * width);
        for (int64_t k = 0; k < unroll; ++k) step(v, x + i + Expr(k), weights, w + (i + Expr(k)) * Expr(width), acc);
      });
    });
    const Expr out = b_.let("to", to);
    for (size_t i = 0; i < acc.size(); ++i) b_.store(q, out + Expr(static_cast<int64_t>(i) * lanes_), b_.get(acc[i]));
  }

  void step(const Buf& v, const Expr& x, const Buf& weights, const Expr& w, const std::vector<int32_t>& acc) {
    std::vector<Expr> row;
    for (int64_t k = 0; k < p_.vectors; ++k) row.push_back(b_.let("w", b_.load(weights, w + Expr(k * lanes_), lanes_)));
    for (int64_t t = 0; t < p_.tile; ++t) {
      const Expr value = b_.let("x", b_.load(v, x + Expr(t * lanes_), lanes_, 0));
      for (int64_t k = 0; k < p_.vectors; ++k) {
        const int32_t reg = acc[at(t * p_.vectors + k)];
        b_.set(reg, fma(value, row[at(k)], b_.get(reg)));
      }
    }
  }

  Emitter& e_;
  LoopBuilder& b_;
  const Conv& c_;
  const Tiling& p_;
  const WinogradTransform &down_, &across_;
  int32_t lanes_;
  Expr n_, first_;
};

struct Operations {
  int64_t inputs = 0, products = 0, outputs = 0;
};

Operations operations(const Conv& c, const Tiling& p) {
  const WinogradTransform &down = c.down(p.m), &across = c.across(p.m);
  const int64_t tiles = c.n * c.tiles(p.m);
  return {tiles * c.in_channels *
              (across.inputs() * input_transform_flops(down) + down.inputs() * input_transform_flops(across)),
          tiles * c.places(p.m) * c.in_channels * c.out_channels * 2,
          tiles * c.out_channels *
              (across.inputs() * output_transform_flops(down) + down.outputs * output_transform_flops(across))};
}

/// Bytes of the task with the transformed weights in place of the weights.
int64_t bytes_of(const Task& task, const Conv& c, const Tiling& p, int64_t lanes) {
  return task.bytes() - task.operand(task.node().inputs[1]).constant->bytes() + weight_bytes(c, p, lanes);
}

/// What both forms need beside v.
struct Operands {
  Buf weights, bias, q, temp;
};

Operands bind(Emitter& e, const Conv& c, const Tiling& p, const TargetLimits& limits) {
  const int32_t lanes = lanes_of(limits);
  const Node& node = e.task().node();
  Operands o;
  o.weights = e.constant(pack(e.task(), c, p, lanes), "u");
  o.bias = bias_of(e, node, lanes);
  o.q = e.b.scratch("q", DType::f32, c.places(p.m) * p.q_place(lanes));
  o.temp = e.b.scratch("temp", DType::f32, c.places(p.m) * lanes);
  return o;
}

void emit_group(BlockEmitter& block, const Buf& v, const Expr& base, const Expr& group, const Operands& o) {
  block.multiply(v, base, group, o.weights, o.q);
  block.finish_outputs(group, o.q, o.bias, o.temp);
}

void lower_fused(Lowered& out, const Task& task, const Conv& c, const Tiling& p, const TargetLimits& limits) {
  const int32_t lanes = lanes_of(limits);
  Emitter e(task, "conv2d_winograd");
  const Expr n = e.b.parallel("n", c.n);
  const Expr index = e.b.parallel("block", p.blocks(c));
  e.input(task.node().inputs[0]);
  const Operands o = bind(e, c, p, limits);
  const Buf v = e.b.scratch("v", DType::f32, p.v_elems(c, lanes));
  BlockEmitter block(e, c, p, lanes, n, index);
  e.b.loop("icb", 0, c.in_blocks, [&](const Expr& icb) { block.transform_inputs(v, 0, icb, o.temp); });
  e.b.loop("group", 0, c.out_blocks / p.vectors, [&](const Expr& group) { emit_group(block, v, 0, group, o); });
  out.stages.push_back(e.finish(out));
  const Operations all = operations(c, p);
  out.stages.back().work =
      StageWork{all.inputs + all.products + all.outputs, task.flops(), bytes_of(task, c, p, lanes)};
}

void lower_split(Lowered& out, const Task& task, const Conv& c, const Tiling& p, const TargetLimits& limits) {
  const int32_t lanes = lanes_of(limits);
  const int64_t each = p.v_elems(c, lanes), all = each * c.n * p.blocks(c);
  const Operations done = operations(c, p);
  const TensorType& x = task.operand(task.node().inputs[0]).type;
  const int64_t x_bytes = elems(x.shape) * size_bytes(x.dtype);
  out.temp_bytes.push_back(all * 4);
  {
    Emitter e(task, "conv2d_winograd_inputs");
    const Expr n = e.b.parallel("n", c.n);
    const Expr index = e.b.parallel("block", p.blocks(c));
    const Expr icb = e.b.parallel("icb", c.in_blocks);
    e.input(task.node().inputs[0]);
    const Buf v = e.temp(0, DType::f32, all, true, "v");
    const Buf temp = e.b.scratch("temp", DType::f32, c.places(p.m) * lanes);
    BlockEmitter block(e, c, p, lanes, n, index);
    block.transform_inputs(v, (n * Expr(p.blocks(c)) + index) * Expr(each), icb, temp);
    out.stages.push_back(e.finish(out));
    out.stages.back().work = StageWork{done.inputs, 0, x_bytes + all * 4};
  }
  Emitter e(task, "conv2d_winograd");
  const Expr n = e.b.parallel("n", c.n);
  const Expr index = e.b.parallel("block", p.blocks(c));
  const Expr group = e.b.parallel("group", c.out_blocks / p.vectors);
  const Buf v = e.temp(0, DType::f32, all, false, "v");
  const Operands o = bind(e, c, p, limits);
  BlockEmitter block(e, c, p, lanes, n, index);
  emit_group(block, v, (n * Expr(p.blocks(c)) + index) * Expr(each), group, o);
  out.stages.push_back(e.finish(out));
  out.stages.back().work =
      StageWork{done.products + done.outputs, task.flops(), bytes_of(task, c, p, lanes) - x_bytes + all * 4};
}

/// The figures of doc/accuracy.md.
std::string_view approximates(const Schedule& schedule) {
  return schedule.knob("m") == 4
             ? "largest error 5.5 u of the largest sum of magnitudes (u = 2^-24, 64 channels, measured), at most (64 + "
               "sqrt(channels)) u; rms 8.0e-7 of the result's"
             : "largest error 1.5 u of the largest sum of magnitudes (u = 2^-24, 64 channels, measured; 7 taps: "
               "5.9 u), at most (16 + sqrt(channels)) u; rms 2.7e-7 of the result's (7 taps: 8.3e-7)";
}

/// The conv and the tiling of a legal schedule.
Answer<std::pair<Conv, Tiling>> resolve(const Task& task, const Schedule& schedule, const TargetLimits& limits) {
  auto analysed = analyse(task, limits);
  if (auto* rejected = std::get_if<Rejected>(&analysed)) return *rejected;
  const Conv& c = std::get<Conv>(analysed);
  if (auto rejected = check_knobs(schedule, knobs(c, limits))) return *rejected;
  const Tiling p = tiling_of(schedule);
  if (const int64_t most = register_rows(p.vectors, limits); p.tile > most)
    return Rejected{fmt::format("register tile (tiles beside {} vectors)", p.vectors), std::to_string(most),
                    std::to_string(p.tile)};
  return std::pair{c, p};
}

Answer<Estimate> estimate(const Task& task, const Schedule& schedule, const TargetLimits& limits) {
  const auto resolved = resolve(task, schedule, limits);
  if (const auto* rejected = std::get_if<Rejected>(&resolved)) return *rejected;
  const auto& [c, p] = std::get<std::pair<Conv, Tiling>>(resolved);
  return model(c, p, limits);
}

Answer<Lowered> lower(const Task& task, const Schedule& schedule, const TargetLimits& limits) {
  const auto resolved = resolve(task, schedule, limits);
  if (const auto* rejected = std::get_if<Rejected>(&resolved)) return *rejected;
  const auto& [c, p] = std::get<std::pair<Conv, Tiling>>(resolved);
  Lowered lowered;
  (p.split != 0 ? lower_split : lower_fused)(lowered, task, c, p, limits);
  return lowered;
}

}  // namespace

const Template conv2d_winograd{"conv2d_winograd",
                               "convolution of stride 1 with fewer multiplications (Winograd)",
                               space,
                               pick,
                               lower,
                               candidates,
                               estimate,
                               approximates};

}  // namespace kilter
