#include "schedule/templates/pixel_tiles.h"

#include <algorithm>
#include <bit>
#include <map>

#include "base/align.h"
#include "schedule/model/register_tile.h"

namespace kilter {
namespace {

constexpr int64_t kTilesPerItem = 4;   // tiles per parallel item when the image is one long row
constexpr int64_t kMostProducts = 96;  // multiply-adds in the body of the innermost loop, as far as it can be divided
constexpr int64_t kMostStride = 4;     // code generation reads vectors with larger strides element by element
constexpr int64_t kMostRows = 8, kMostVectors = 8, kMostPixels = 16;

/// Cycles for each vector whose lanes are added. Adding those of as many vectors as they have lanes takes one addition
/// and two shuffles less than that for each.
constexpr double kLaneSum = 1.25;

/// A part of the kernel that one loop nest covers: `chunks` times `height` kernel rows from `first` on, of which it
/// takes the taps [begin, end). The rows of a chunk are unrolled.
struct KernelPart {
  int64_t first = 0, chunks = 1, height = 1, begin = 0, end = 0;
  int64_t taps() const { return end - begin; }
};

/// The kernel as the tile of the form `pixels` traverses it. A kernel of one row is folded if that lets neighbouring
/// vectors of pixels share what they read: its rows are then sections of `period` taps, because tap s + period of one
/// vector reads what tap s of the next vector reads.
struct KernelWalk {
  bool folded = false;
  int64_t period = 0;
  std::vector<KernelPart> parts;
};

KernelWalk walk_of(const PixelNest& nest, const PixelTile& tile, const CpuLimits& limits) {
  KernelWalk walk;
  const int64_t lanes = pixel_lanes(nest, limits);
  const int64_t most = std::max<int64_t>(kMostProducts / (tile.rows * tile.tile * tile.outputs), 1);
  const auto add = [&](const KernelPart& part) {
    if (part.chunks > 0 && part.height > 0 && part.taps() > 0) walk.parts.push_back(part);
  };
  walk.folded = nest.kernel_h == 1 && tile.tile > 1 && lanes * nest.step_w % nest.dilation_w == 0 &&
                nest.kernel_w > lanes * nest.step_w / nest.dilation_w;
  if (!walk.folded) {
    const int64_t height = ceil_div(nest.kernel_h, ceil_div(nest.kernel_h, most));
    const int64_t chunks = nest.kernel_h / height;
    add({0, chunks, height, 0, nest.kernel_w});
    add({chunks * height, 1, nest.kernel_h % height, 0, nest.kernel_w});
    return walk;
  }
  walk.period = lanes * nest.step_w / nest.dilation_w;
  const int64_t rows = nest.kernel_w / walk.period, rest = nest.kernel_w % walk.period;
  const int64_t height = ceil_div(rows, ceil_div(rows, most));
  const int64_t chunks = (rest > 0 ? rows - 1 : rows) / height;
  const int64_t first = chunks * height;
  add({0, chunks, height, 0, walk.period});
  add({first, 1, rows - first + 1, 0, rest});
  add({first, 1, rows - first, rest, walk.period});
  return walk;
}

/// Full tiles of a row, and the pixels where the vectors (for sums, the tile) of the rest begin. The last one ends at
/// the end of the row, so it computes some pixels again.
struct RowTiles {
  int64_t span = 0;  ///< pixels of a full tile
  int64_t full = 0;
  std::vector<int64_t> rest;
  int64_t count() const { return full + (rest.empty() ? 0 : 1); }
};

RowTiles row_tiles(const PixelNest& nest, const PixelTile& tile, const CpuLimits& limits) {
  const int64_t unit = tile.sums ? tile.tile : pixel_lanes(nest, limits);
  RowTiles out;
  out.span = tile.sums ? tile.tile : tile.tile * unit;
  out.full = nest.out_w / out.span;
  for (int64_t at = out.full * out.span; at < nest.out_w; at += unit)
    out.rest.push_back(std::min(at, nest.out_w - unit));
  return out;
}

/// Reads of registers that it takes to fetch one vector of pixels.
double vector_reads(const PixelNest& nest, const CpuLimits& limits) {
  const int64_t lanes = pixel_lanes(nest, limits);
  if (nest.step_w > kMostStride) return static_cast<double>(lanes);
  // An unaligned vector that crosses the end of a cache line is read twice.
  const bool aligned = nest.kernel_w == 1 && nest.step_w == 1;
  const double crossing = aligned ? 0 : static_cast<double>(lanes * 4) / static_cast<double>(limits.line_bytes);
  return static_cast<double>(nest.step_w) * (1 + crossing);
}

/// Distinct vectors that `rows` output rows (or vectors, if the kernel is folded) read for `height` kernel rows.
int64_t distinct_rows(int64_t rows, int64_t height, int64_t step, int64_t dilation) {
  std::vector<int64_t> read;
  for (int64_t o = 0; o < rows; ++o) {
    for (int64_t r = 0; r < height; ++r) read.push_back(o * step + r * dilation);
  }
  std::ranges::sort(read);
  return std::ranges::unique(read).begin() - read.begin();
}

/// Cycles of a tile of `rows` rows with `vectors` vectors each, in the form `pixels`.
double pixel_tile_cycles(const PixelNest& nest, const PixelTile& tile, int64_t rows, int64_t vectors,
                         const CpuLimits& limits) {
  const KernelWalk walk = walk_of(nest, tile, limits);
  const int64_t sums = rows * vectors * tile.outputs;
  const double reads = vector_reads(nest, limits);
  double cycles = 0;
  for (const KernelPart& part : walk.parts) {
    const int64_t images = walk.folded ? distinct_rows(vectors, part.height, 1, 1)
                                       : vectors * distinct_rows(rows, part.height, nest.step_h, nest.dilation_h);
    const double loads = static_cast<double>(images) * reads + static_cast<double>(part.height * tile.outputs);
    const double step = std::max({static_cast<double>(sums * part.height) / limits.fmas_per_cycle,
                                  loads / (limits.load_share * limits.loads_per_cycle),
                                  limits.latency * static_cast<double>(part.height)});
    cycles += static_cast<double>(part.chunks * part.taps()) * step;
  }
  return cycles * static_cast<double>(nest.in_channels) + 1.5 * static_cast<double>(sums);
}

/// Steps of the reduction of one pixel in the form `sums`.
int64_t sum_steps(const PixelNest& nest, const CpuLimits& limits) {
  if (nest.in_block > 1) return ceil_div(nest.in_channels, nest.in_block) * nest.kernel_h * nest.kernel_w;
  return nest.in_channels * nest.kernel_h * ceil_div(nest.kernel_w, limits.lanes_f32());
}

double sum_tile_cycles(const PixelNest& nest, const PixelTile& tile, const CpuLimits& limits) {
  const auto sums = static_cast<double>(tile.tile * tile.outputs);
  const bool crosses = nest.in_block == 1;
  const double reads = 1 + (crosses ? static_cast<double>(limits.vector_bytes) / limits.line_bytes : 0);
  const double loads = static_cast<double>(tile.tile) * reads + static_cast<double>(tile.outputs);
  const double step =
      std::max({sums / limits.fmas_per_cycle, loads / (limits.load_share * limits.loads_per_cycle), limits.latency});
  const auto steps = static_cast<double>(sum_steps(nest, limits));
  // All pixels read the same weights, which come from L2 if there are many.
  const auto vectors = static_cast<double>(tile.outputs * limits.vector_bytes);
  const double stream = steps * vectors > static_cast<double>(limits.l1_bytes) / 2 ? vectors / limits.l2_rate : 0;
  return steps * std::max(step, stream) + kLaneSum * sums;
}

/// Whether the form `sums` applies: vectors over the channels of a block, or over whole vectors of taps of a row.
bool can_sum(const PixelNest& nest, const CpuLimits& limits) {
  return nest.in_block > 1 || (nest.dilation_w == 1 && nest.kernel_w >= limits.lanes_f32());
}

}  // namespace

int64_t pixel_lanes(const PixelNest& nest, const CpuLimits& limits) {
  return std::min<int64_t>(limits.lanes_f32(), static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(nest.out_w))));
}

bool fits_registers(const PixelNest& nest, const PixelTile& tile, const CpuLimits& limits) {
  const int64_t k = tile.outputs, sums = tile.rows * tile.tile * k;
  const int64_t product = limits.fma ? 0 : 1;
  int64_t operands = std::min(k, tile.tile) + 1;
  if (!tile.sums) {
    // Weights stay in registers from the first row of the tile that uses them to the last.
    int64_t height = 0;
    const KernelWalk walk = walk_of(nest, tile, limits);
    for (const KernelPart& part : walk.parts) height = std::max(height, part.height);
    const int64_t shared = std::min(walk.folded ? tile.tile : tile.rows, height);
    if (shared > 1) operands = shared * k + 1;
  }
  return sums + operands + product <= limits.vector_registers;
}

std::vector<PixelTile> pixel_tiles(const PixelNest& nest, const CpuLimits& limits) {
  std::vector<PixelTile> all;
  const auto add = [&](PixelTile tile) {
    for (tile.outputs = nest.out_channels; tile.outputs > 0; --tile.outputs) {
      if (nest.out_channels % tile.outputs == 0 && fits_registers(nest, tile, limits)) all.push_back(tile);
    }
  };
  if (nest.in_block == 1) {
    const int64_t vectors = ceil_div(nest.out_w, pixel_lanes(nest, limits));
    const int64_t rows = nest.kernel_h == 1 ? 1 : std::min(nest.out_h, kMostRows);
    for (int64_t r = 1; r <= rows; ++r) {
      for (int64_t v = 1; v <= std::min(vectors, kMostVectors); ++v) add({false, 1, r, v});
    }
  }
  if (can_sum(nest, limits)) {
    for (int64_t pixels = 1; pixels <= std::min({nest.out_w, kMostPixels, int64_t{limits.lanes_f32()}}); pixels *= 2)
      add({true, 1, 1, pixels});
  }
  return all;
}

Estimate estimate_pixels(const PixelNest& nest, const PixelTile& tile, const CpuLimits& limits) {
  const RowTiles tiles = row_tiles(nest, tile, limits);
  double image = 0;
  if (tile.sums) {
    image = static_cast<double>(nest.out_h * tiles.count()) * sum_tile_cycles(nest, tile, limits);
  } else {
    const auto row = [&](int64_t rows) {
      if (rows == 0) return 0.0;
      const auto rest = static_cast<int64_t>(tiles.rest.size());
      const double last = rest > 0 ? pixel_tile_cycles(nest, tile, rows, rest, limits) : 0;
      return static_cast<double>(tiles.full) * pixel_tile_cycles(nest, tile, rows, tile.tile, limits) + last;
    };
    image = static_cast<double>(nest.out_h / tile.rows) * row(tile.rows) + row(nest.out_h % tile.rows);
  }
  const auto groups = static_cast<double>(nest.out_channels / tile.outputs);
  image *= groups;
  const double whole =
      tile.sums ? sum_tile_cycles(nest, tile, limits) : pixel_tile_cycles(nest, tile, tile.rows, tile.tile, limits);
  const double ideal =
      groups * whole * static_cast<double>(nest.out_h * nest.out_w) / static_cast<double>(tiles.span * tile.rows);
  const int64_t bytes = nest.n * ceil_div(nest.in_channels, nest.in_block) * nest.in_block * nest.out_h * nest.step_h *
                        nest.out_w * nest.step_w * 4;
  const double stream = static_cast<double>(bytes) / reread_rate(bytes, limits);
  return {beside(image * static_cast<double>(nest.n), stream), std::max(0.0, 1 - ideal / image)};
}

PixelTile pick_pixels(const PixelNest& nest, const CpuLimits& limits) {
  PixelTile best;
  double least = 0;
  for (const PixelTile& tile : pixel_tiles(nest, limits)) {
    const double cycles = estimate_pixels(nest, tile, limits).cycles;
    if (least == 0 || cycles < 0.99 * least) best = tile, least = cycles;
  }
  return best;
}

namespace {

/// Calls `put(k, c, r, s)` for the weights of a tile's outputs [first, first + outputs), in the order of the form
/// `pixels`.
template <class Put>
void each_pixel_weight(const PixelNest& nest, const PixelTile& tile, const KernelWalk& walk, int64_t first, Put put) {
  for (int64_t c = 0; c < nest.in_channels; ++c)
    for (const KernelPart& part : walk.parts)
      for (int64_t chunk = 0; chunk < part.chunks; ++chunk)
        for (int64_t t = part.begin; t < part.end; ++t)
          for (int64_t i = 0; i < part.height; ++i) {
            const int64_t row = part.first + chunk * part.height + i;
            for (int64_t k = first; k < first + tile.outputs; ++k)
              walk.folded ? put(k, c, 0, row * walk.period + t) : put(k, c, row, t);
          }
}

/// Calls `put(k, c, r, s)` for the lanes of a tile's weights in the order of the form `sums`; c is -1 for lanes that
/// add nothing. Of vectors over taps, the last one overlaps the one before it, and adds only the taps that are new.
template <class Put>
void each_sum_weight(const PixelNest& nest, const PixelTile& tile, int64_t lanes, int64_t first, Put put) {
  const bool blocked = nest.in_block > 1;
  for (int64_t cb = 0; cb < ceil_div(nest.in_channels, nest.in_block); ++cb)
    for (int64_t r = 0; r < nest.kernel_h; ++r)
      for (int64_t s = 0; s < (blocked ? nest.kernel_w : ceil_div(nest.kernel_w, lanes)); ++s)
        for (int64_t k = first; k < first + tile.outputs; ++k)
          for (int64_t lane = 0; lane < lanes; ++lane) {
            const int64_t c = blocked ? cb * nest.in_block + lane : cb;
            const int64_t tap = blocked ? s : std::min(s * lanes, nest.kernel_w - lanes) + lane;
            const bool used = c < nest.in_channels && (blocked || tap >= s * lanes);
            put(k, used ? c : -1, r, tap);
          }
}

/// Elements of the packed weights of `tile.outputs` channels.
int64_t weight_elems(const PixelNest& nest, const PixelTile& tile, const CpuLimits& limits) {
  if (tile.sums) return sum_steps(nest, limits) * tile.outputs * limits.lanes_f32();
  return tile.outputs * nest.in_channels * nest.kernel_h * nest.kernel_w;
}

}  // namespace

Packing pack_pixels(const Task& task, ValueId weights, const PixelNest& nest, const PixelTile& tile,
                    const CpuLimits& limits) {
  const int64_t lanes = lanes_of(limits);
  const KernelWalk walk = walk_of(nest, tile, limits);
  std::string form = fmt::format("pixels outputs={}", tile.outputs);
  if (tile.sums) form = fmt::format("sums block={} lanes={} outputs={}", nest.in_block, lanes, tile.outputs);
  for (const KernelPart& p : walk.parts) {
    if (!tile.sums) form += fmt::format(" {}x{}:{}-{}", p.chunks, p.height, p.begin, p.end);
  }
  const auto fill = [w = *task.operand(weights).constant, nest, tile, walk, lanes](std::byte* bytes) {
    auto* to = reinterpret_cast<float*>(bytes);
    const auto* from = w.data<float>();
    const auto put = [&](int64_t k, int64_t c, int64_t r, int64_t s) {
      *to++ = c < 0 ? 0.0F : from[((k * nest.in_channels + c) * nest.kernel_h + r) * nest.kernel_w + s];
    };
    for (int64_t first = 0; first < nest.out_channels; first += tile.outputs)
      tile.sums ? each_sum_weight(nest, tile, lanes, first, put) : each_pixel_weight(nest, tile, walk, first, put);
  };
  const int64_t groups = nest.out_channels / tile.outputs;
  return {weights, std::move(form), DType::f32, groups * weight_elems(nest, tile, limits), fill};
}

namespace {

/// Adds the lanes of each vector: lane i of the result is the sum of the lanes of vector i. The number of vectors is a
/// power of two, at most the number of their lanes.
///
/// Each level adds the two halves of every partial sum, and puts those of two vectors into one. Halves of at most 4
/// lanes stay in their part of 4 lanes, which x86 shuffles with one instruction. That permutes the sums, so the vectors
/// enter in the order that cancels the permutation.
class LaneSums {
 public:
  explicit LaneSums(LoopBuilder& b) : b_(b) {}

  Expr add(const std::vector<Expr>& vectors) {
    const auto lanes = static_cast<int32_t>(vectors.front().lanes());
    std::vector<Part> parts(vectors.size());
    for (size_t i = 0; i < parts.size(); ++i) parts[i].ids = {i};
    const Part order = joined(parts, lanes, false);
    for (size_t i = 0; i < parts.size(); ++i) parts[order.ids[i]].value = vectors[i];
    Part sum = joined(parts, lanes, true);
    for (int32_t width = sum.value.lanes() / static_cast<int32_t>(vectors.size()); width > 1; width /= 2)
      sum.value = halves(sum.value, sum.value, picks(width, sum.value.lanes(), sum.value.lanes(), 1), width / 2);
    return sum.value;
  }

 private:
  struct Part {
    Expr value;
    std::vector<size_t> ids;  ///< of the vectors whose partial sums it holds, in order
  };

  /// Lanes of the first halves of all partial sums of `width` lanes, block by block, in each block from `sources`
  /// vectors.
  static std::vector<int32_t> picks(int32_t width, int32_t lanes, int32_t block, int32_t sources) {
    std::vector<int32_t> out;
    for (int32_t first = 0; first < lanes; first += block)
      for (int32_t source = 0; source < sources; ++source)
        for (int32_t sum = first; sum < first + block; sum += width)
          for (int32_t lane = 0; lane < width / 2; ++lane) out.push_back(source * lanes + sum + lane);
    return out;
  }

  Expr halves(const Expr& a, const Expr& b, std::vector<int32_t> first, int32_t to_second) {
    std::vector<int32_t> second = first;
    for (int32_t& lane : second) lane += to_second;
    return b_.let("sum", shuffle(a, b, std::move(first)) + shuffle(a, b, std::move(second)));
  }

  /// Joins the vectors in pairs until one is left. Without `emit`, it only finds the order of the sums.
  Part joined(std::vector<Part> parts, int32_t lanes, bool emit) {
    for (int32_t width = lanes; parts.size() > 1; width /= 2) {
      const int32_t block = width > 4 ? lanes : std::min(lanes, 4);
      const std::vector<int32_t> first = picks(width, lanes, block, 2);
      std::vector<Part> next(parts.size() / 2);
      for (size_t i = 0; i < next.size(); ++i) {
        const Part &a = parts[2 * i], &b = parts[2 * i + 1];
        const auto each = static_cast<size_t>(block / width);
        for (size_t at = 0; at < a.ids.size(); at += each) {
          for (const Part* from : {&a, &b}) {
            const auto begin = from->ids.begin() + static_cast<std::ptrdiff_t>(at);
            next[i].ids.insert(next[i].ids.end(), begin, begin + static_cast<std::ptrdiff_t>(each));
          }
        }
        if (emit) next[i].value = halves(a.value, b.value, first, width / 2);
      }
      parts = std::move(next);
    }
    return std::move(parts.front());
  }

  LoopBuilder& b_;
};

class PixelEmitter {
 public:
  PixelEmitter(Emitter& e, const PixelNest& nest, const PixelTile& tile, const PixelBuffers& buffers,
               const CpuLimits& limits)
      : e_(e),
        b_(e.b),
        nest_(nest),
        t_(tile),
        buffers_(buffers),
        lanes_(static_cast<int32_t>(tile.sums ? lanes_of(limits) : pixel_lanes(nest, limits))),
        walk_(walk_of(nest, tile, limits)),
        row_(row_tiles(nest, tile, limits)),
        in_(e.task().operand(buffers.input)),
        domain_(domain_of(e.task().graph->type(e.task().node().outputs[0]))),
        x_(e.input(buffers.input)),
        weight_elems_(weight_elems(nest, tile, limits)) {}

  void emit() {
    n_ = b_.parallel("n", nest_.n);
    if (nest_.out_h == 1) return emit_long_row();
    const Expr group = b_.parallel("rows", ceil_div(nest_.out_h, t_.rows));
    const int64_t full = nest_.out_h / t_.rows, rest = nest_.out_h % t_.rows;
    const Expr h0 = group * Expr(t_.rows);
    if (rest == 0) return emit_rows(h0, t_.rows);
    b_.if_then(binary(Op::lt, group, Expr(full)), [&] { emit_rows(h0, t_.rows); }, [&] { emit_rows(h0, rest); });
  }

 private:
  void emit_rows(const Expr& h0, int64_t rows) {
    each_group([&] {
      b_.loop("t", 0, row_.full, [&](const Expr& t) { emit_tile(h0, t * Expr(row_.span), rows, full_tile()); });
      if (!row_.rest.empty()) emit_tile(h0, 0, rows, row_.rest);
    });
  }

  /// Emits a loop over the groups of output channels that the tiles compute.
  void each_group(const std::function<void()>& body) {
    b_.loop("g", 0, nest_.out_channels / t_.outputs, [&](const Expr& g) {
      group_ = g;
      body();
    });
  }

  /// One image row, whose tiles run in parallel.
  void emit_long_row() {
    const int64_t items = ceil_div(row_.count(), kTilesPerItem);
    const Expr first = b_.parallel("item", items) * Expr(kTilesPerItem);
    each_group([&] {
      b_.loop("t", first, min(first + Expr(kTilesPerItem), Expr(row_.full)),
              [&](const Expr& t) { emit_tile(0, t * Expr(row_.span), 1, full_tile()); });
      if (row_.rest.empty()) return;
      const Expr last = binary(Op::ge, first, Expr((items - 1) * kTilesPerItem));
      b_.if_then(last, [&] { emit_tile(0, 0, 1, row_.rest); });
    });
  }

  std::vector<int64_t> full_tile() const {
    std::vector<int64_t> columns;
    for (int64_t v = 0; v < (t_.sums ? 1 : t_.tile); ++v) columns.push_back(v * lanes_);
    return columns;
  }

  /// Emits a tile whose vectors (for sums, whose pixels) begin at `w0` plus each of `columns`.
  void emit_tile(const Expr& h0, const Expr& w0, int64_t rows, const std::vector<int64_t>& columns) {
    h0_ = h0, w0_ = w0;
    const Shape& s = in_.phys.strides;
    origin_ = b_.let("x0", Expr(in_.phys.offset) + n_ * Expr(s[0]) +
                               (h0 * Expr(nest_.step_h) + Expr(nest_.first_h)) * Expr(s[2]) +
                               (w0 * Expr(nest_.step_w) + Expr(nest_.first_w)) * Expr(s[3]));
    weights_ = b_.let("w0", group_ * Expr(weight_elems_));
    t_.sums ? emit_sums(columns.front()) : emit_pixels(rows, columns);
  }

  /// Starting value of a sum; `channel` counts within the tile.
  Expr bias(int64_t channel, int32_t lanes) const {
    if (buffers_.bias.id < 0) return imm(DType::f32, 0, lanes);
    return b_.load(buffers_.bias, group_ * Expr(t_.outputs) + Expr(channel), lanes, lanes == 1 ? 1 : 0);
  }

  Site site(int64_t channel, int64_t row, int64_t column, int32_t lanes) const {
    return {{n_, group_ * Expr(t_.outputs) + Expr(channel), h0_ + Expr(row), w0_ + Expr(column)}, 3, lanes, {}};
  }

  void store(const Expr& value, const Site& at) { e_.epilogue({{e_.task().node().outputs[0], value}}, domain_, at); }

  // The form `pixels`.

  size_t slot(int64_t row, size_t column, int64_t channel) const {
    return (static_cast<size_t>(row) * columns_ + column) * static_cast<size_t>(t_.outputs) +
           static_cast<size_t>(channel);
  }

  void emit_pixels(int64_t rows, const std::vector<int64_t>& columns) {
    columns_ = columns.size();
    acc_.clear();
    for (int64_t i = 0; i < rows * static_cast<int64_t>(columns_); ++i)
      for (int64_t k = 0; k < t_.outputs; ++k) acc_.push_back(b_.reg("acc", bias(k, lanes_)));
    const int64_t weights = t_.outputs * nest_.kernel_h * nest_.kernel_w;
    b_.loop("c", 0, nest_.in_channels, [&](const Expr& c) {
      const Expr x1 = b_.let("x1", origin_ + c * Expr(in_.phys.strides[1]));
      Expr w1 = b_.let("w1", weights_ + c * Expr(weights));
      for (const KernelPart& part : walk_.parts) {
        emit_part(part, x1, w1, rows, columns);
        w1 = w1 + Expr(part.chunks * part.taps() * part.height * t_.outputs);
      }
    });
    for (int64_t row = 0; row < rows; ++row)
      for (size_t v = 0; v < columns_; ++v)
        for (int64_t k = 0; k < t_.outputs; ++k) store(b_.get(acc_[slot(row, v, k)]), site(k, row, columns[v], lanes_));
  }

  /// Elements from one kernel row to the next.
  int64_t kernel_stride() const {
    const Shape& s = in_.phys.strides;
    return walk_.folded ? walk_.period * nest_.dilation_w * s[3] : nest_.dilation_h * s[2];
  }

  void emit_part(const KernelPart& part, const Expr& x1, const Expr& w1, int64_t rows,
                 const std::vector<int64_t>& columns) {
    const int64_t each = part.height * t_.outputs;
    b_.loop("chunk", 0, part.chunks, [&](const Expr& chunk) {
      b_.loop("s", part.begin, part.end, [&](const Expr& s) {
        const Expr x2 = b_.let("x2", x1 + (Expr(part.first) + chunk * Expr(part.height)) * Expr(kernel_stride()) +
                                         s * Expr(nest_.dilation_w * in_.phys.strides[3]));
        const Expr w2 = b_.let("w2", w1 + (chunk * Expr(part.taps()) + s - Expr(part.begin)) * Expr(each));
        emit_step(part.height, x2, w2, rows, columns);
      });
    });
  }

  /// A row of accumulators, or one of them if the kernel is folded, and the kernel row that it multiplies.
  struct Use {
    int64_t row = 0;
    size_t column = 0;
    int64_t kernel_row = 0;
  };

  /// Emits one tap of `height` kernel rows. Each vector of the image is read once, and used by all accumulators that
  /// need it.
  void emit_step(int64_t height, const Expr& x, const Expr& w, int64_t rows, const std::vector<int64_t>& columns) {
    const Shape& strides = in_.phys.strides;
    const int64_t step_w = nest_.step_w * strides[3];
    const size_t apart = walk_.folded ? 1 : columns_;  // vectors that one use reads
    std::map<int64_t, std::vector<Use>> uses;          // by the offset of what they read
    for (int64_t row = 0; row < rows; ++row)
      for (size_t v = 0; v < columns_; v += apart)
        for (int64_t r = 0; r < height; ++r)
          uses[row * nest_.step_h * strides[2] + columns[v] * step_w + r * kernel_stride()].push_back({row, v, r});
    std::map<int64_t, Expr> named;  // weights in registers, by their index
    const auto weight = [&](int64_t index) {
      Expr& value = named[index];
      if (!value.defined())
        value = b_.let("w", b_.load(buffers_.weights, w + Expr(index), lanes_, lanes_ == 1 ? 1 : 0));
      return value;
    };
    for (const auto& [offset, list] : uses) {
      const auto pixels = [&, at = offset](size_t v) {
        const Expr from = x + Expr(at + (columns[v] - columns[0]) * (apart > 1 ? step_w : 0));
        return b_.let("p", b_.load(x_, from, lanes_, lanes_ == 1 ? 1 : step_w));
      };
      const auto add = [&](const Use& use, size_t v, int64_t k, const Expr& p) {
        const int32_t reg = acc_[slot(use.row, use.column + v, k)];
        b_.set(reg, fma(weight(use.kernel_row * t_.outputs + k), p, b_.get(reg)));
      };
      // The smaller side stays in registers: the weights, or the vectors of the row.
      if (t_.outputs <= static_cast<int64_t>(apart)) {
        for (size_t v = 0; v < apart; ++v) {
          const Expr p = pixels(v);
          for (const Use& use : list)
            for (int64_t k = 0; k < t_.outputs; ++k) add(use, v, k, p);
        }
      } else {
        std::vector<Expr> row;
        for (size_t v = 0; v < apart; ++v) row.push_back(pixels(v));
        for (const Use& use : list)
          for (int64_t k = 0; k < t_.outputs; ++k)
            for (size_t v = 0; v < apart; ++v) add(use, v, k, row[v]);
      }
    }
  }

  // The form `sums`.

  void emit_sums(int64_t column) {
    const Shape& s = in_.phys.strides;
    acc_.clear();
    for (int64_t i = 0; i < t_.tile * t_.outputs; ++i) acc_.push_back(b_.reg("acc", imm(DType::f32, 0, lanes_)));
    const bool blocked = nest_.in_block > 1;
    const int64_t across = blocked ? nest_.kernel_w : ceil_div(nest_.kernel_w, lanes_);
    const int64_t whole = blocked ? across : nest_.kernel_w / lanes_;
    const int64_t next = blocked ? nest_.dilation_w * s[3] : lanes_;
    const int64_t each = t_.outputs * lanes_;
    const Expr first = b_.let("x1", origin_ + Expr(column * nest_.step_w * s[3]));
    b_.loop("cb", 0, ceil_div(nest_.in_channels, nest_.in_block), [&](const Expr& cb) {
      b_.loop("r", 0, nest_.kernel_h, [&](const Expr& r) {
        const Expr x2 = b_.let("x2", first + cb * Expr(s[1]) + r * Expr(nest_.dilation_h * s[2]));
        const Expr w2 = b_.let("w2", weights_ + (cb * Expr(nest_.kernel_h) + r) * Expr(across * each));
        b_.loop("s", 0, whole, [&](const Expr& i) { emit_sum_step(x2 + i * Expr(next), w2 + i * Expr(each)); });
        if (whole < across) emit_sum_step(x2 + Expr(nest_.kernel_w - lanes_), w2 + Expr(whole * each));
      });
    });
    finish_sums(column);
  }

  void emit_sum_step(const Expr& x, const Expr& w) {
    const int64_t k_count = t_.outputs;
    const auto pixel = [&](int64_t p) {
      return b_.let("p", b_.load(x_, x + Expr(p * nest_.step_w * in_.phys.strides[3]), lanes_));
    };
    const auto weight = [&](int64_t k) { return b_.let("w", b_.load(buffers_.weights, w + Expr(k * lanes_), lanes_)); };
    const auto add = [&](int64_t k, int64_t p, const Expr& a, const Expr& b) {
      const int32_t reg = acc_[static_cast<size_t>(k * t_.tile + p)];
      b_.set(reg, fma(a, b, b_.get(reg)));
    };
    // The smaller side stays in registers.
    std::vector<Expr> kept;
    const bool keep_weights = k_count <= t_.tile;
    for (int64_t i = 0; i < std::min(k_count, t_.tile); ++i) kept.push_back(keep_weights ? weight(i) : pixel(i));
    for (int64_t j = 0; j < std::max(k_count, t_.tile); ++j) {
      const Expr other = keep_weights ? pixel(j) : weight(j);
      for (size_t i = 0; i < kept.size(); ++i) {
        const auto small = static_cast<int64_t>(i);
        keep_weights ? add(small, j, other, kept[i]) : add(j, small, kept[i], other);
      }
    }
  }

  /// Adds the lanes of as many output channels at a time as fill a vector.
  void finish_sums(int64_t column) {
    const auto pixels = static_cast<int32_t>(t_.tile);
    const int64_t group = lanes_ / pixels;
    for (int64_t first = 0; first < t_.outputs; first += group) {
      const int64_t count = std::min(group, t_.outputs - first);
      std::vector<Expr> vectors;
      for (int64_t i = first * pixels; i < (first + count) * pixels; ++i)
        vectors.push_back(b_.get(acc_[static_cast<size_t>(i)]));
      vectors.resize(std::bit_ceil(vectors.size()), imm(DType::f32, 0, lanes_));
      const Expr sums = LaneSums(b_).add(vectors);
      for (int64_t i = 0; i < count; ++i) {
        std::vector<int32_t> own;
        for (int32_t p = 0; p < pixels; ++p) own.push_back(static_cast<int32_t>(i) * pixels + p);
        const Expr value = sums.lanes() == pixels ? sums : shuffle(sums, sums, own);
        store(value + bias(first + i, pixels), site(first + i, 0, column, pixels));
      }
    }
  }

  Emitter& e_;
  LoopBuilder& b_;
  const PixelNest& nest_;
  const PixelTile& t_;
  const PixelBuffers& buffers_;
  int32_t lanes_;
  KernelWalk walk_;
  RowTiles row_;
  const Operand& in_;
  Domain domain_;
  Buf x_;
  int64_t weight_elems_;  ///< of the channels of a tile
  Expr n_, group_;
  Expr h0_, w0_, origin_, weights_;  ///< of the tile
  size_t columns_ = 0;               ///< vectors of a row of the tile
  std::vector<int32_t> acc_;
};

}  // namespace

void emit_pixels(Emitter& e, const PixelNest& nest, const PixelTile& tile, const PixelBuffers& buffers,
                 const CpuLimits& limits) {
  PixelEmitter(e, nest, tile, buffers, limits).emit();
}

}  // namespace kilter
