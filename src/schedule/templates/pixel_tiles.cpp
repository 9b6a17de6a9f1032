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
constexpr int64_t kMostRows = 8, kMostVectors = 8;

/// Cycles for each vector whose lanes are added. If there are as many vectors as lanes, this takes one addition and two
/// shuffles for each vector except one.
constexpr double kLaneSum = 1.25;
/// Accumulators that hide the latency of multiply-adds, divided by the fewest that could (measured).
constexpr double kSlack = 1.3;
/// Cycles to start and to store a vector of pixels.
constexpr double kStore = 1.5;

/// A part of the kernel that one loop nest covers: `chunks` times `height` kernel rows from `first` on, of which it
/// takes the steps [begin, end). The rows of a chunk are unrolled.
struct KernelPart {
  int64_t first = 0, chunks = 1, height = 1, begin = 0, end = 0;
  int64_t again = 0;  ///< taps that its vectors of taps share with those of the previous step
  int64_t steps() const { return end - begin; }
};

/// The kernel in the order in which a tile traverses it. A step is a tap; in sums over taps, it is a vector of taps.
///
/// For vectors of pixels, a kernel of one row is folded if that lets neighbouring vectors share what they read: its
/// rows are then sections of `period` taps, because tap s + period of one vector reads what tap s of the next vector
/// reads.
struct KernelWalk {
  bool folded = false;
  int64_t period = 0;
  std::vector<KernelPart> parts;

  void add(const KernelPart& part) {
    if (part.chunks > 0 && part.height > 0 && part.steps() > 0) parts.push_back(part);
  }
  /// Adds steps of all kernel rows, of which at most `most` are unrolled.
  void add_rows(int64_t rows, int64_t most, int64_t begin, int64_t end, int64_t again) {
    const int64_t height = ceil_div(rows, ceil_div(rows, most)), chunks = rows / height;
    add({0, chunks, height, begin, end, again});
    add({chunks * height, 1, rows % height, begin, end, again});
  }
};

bool over_taps(const PixelNest& nest, const PixelTile& tile) { return tile.sums && nest.in_block == 1; }

KernelWalk walk_of(const PixelNest& nest, const PixelTile& tile, const CpuLimits& limits) {
  KernelWalk walk;
  const int64_t most = std::max<int64_t>(kMostProducts / (tile.rows * tile.tile * tile.outputs), 1);
  if (over_taps(nest, tile)) {
    const int64_t lanes = limits.lanes_f32(), whole = nest.kernel_w / lanes, rest = nest.kernel_w % lanes;
    walk.add_rows(nest.kernel_h, most, 0, whole, 0);
    if (rest > 0) walk.add_rows(nest.kernel_h, most, whole, whole + 1, lanes - rest);
    return walk;
  }
  const int64_t covered = pixel_lanes(nest, limits) * nest.step_w;  // input pixels of a vector
  walk.folded = !tile.sums && nest.kernel_h == 1 && tile.tile > 1 && covered % nest.dilation_w == 0 &&
                nest.kernel_w > covered / nest.dilation_w;
  if (!walk.folded) {
    walk.add_rows(nest.kernel_h, most, 0, nest.kernel_w, 0);
    return walk;
  }
  walk.period = covered / nest.dilation_w;
  const int64_t rows = nest.kernel_w / walk.period, rest = nest.kernel_w % walk.period;
  const int64_t height = ceil_div(rows, ceil_div(rows, most));
  const int64_t chunks = (rest > 0 ? rows - 1 : rows) / height;
  const int64_t first = chunks * height;
  walk.add({0, chunks, height, 0, walk.period});
  walk.add({first, 1, rows - first + 1, 0, rest});
  walk.add({first, 1, rows - first, rest, walk.period});
  return walk;
}

/// Full tiles of a row, and the pixels at which the remaining vectors begin (for sums, the remaining pixels). The last
/// vector, or the tile of sums, ends at the end of the row, so it computes some pixels twice.
struct RowTiles {
  int64_t span = 0;  ///< pixels of a full tile
  int64_t full = 0;
  std::vector<int64_t> rest;
  int64_t count() const { return full + (rest.empty() ? 0 : 1); }
};

RowTiles row_tiles(const PixelNest& nest, const PixelTile& tile, const CpuLimits& limits) {
  const int64_t unit = tile.sums ? 1 : pixel_lanes(nest, limits);
  RowTiles out;
  out.span = tile.tile * unit;
  out.full = nest.out_w / out.span;
  if (tile.sums && nest.out_w % out.span > 0) {
    for (int64_t p = 0; p < tile.tile; ++p) out.rest.push_back(nest.out_w - tile.tile + p);
  }
  for (int64_t at = out.full * out.span; !tile.sums && at < nest.out_w; at += unit)
    out.rest.push_back(std::min(at, nest.out_w - unit));
  return out;
}

/// The number of register reads needed to fetch one vector of the image.
double vector_reads(const PixelNest& nest, const PixelTile& tile, const CpuLimits& limits) {
  const int64_t lanes = tile.sums ? limits.lanes_f32() : pixel_lanes(nest, limits);
  if (!tile.sums && nest.step_w > kMostStride) return static_cast<double>(lanes);
  // An unaligned vector that crosses the end of a cache line is read twice. In sums, this costs half as much
  // (measured).
  const bool aligned = nest.in_block > 1 || (nest.kernel_w == 1 && nest.step_w == 1);
  const double crossing = aligned ? 0 : static_cast<double>(lanes * 4) / static_cast<double>(limits.line_bytes);
  return tile.sums ? 1 + crossing / 2 : static_cast<double>(nest.step_w) * (1 + crossing);
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

/// Elements of the packed weights of a tile's output channels.
int64_t weight_elems(const PixelNest& nest, const PixelTile& tile, const CpuLimits& limits) {
  int64_t steps = 0;
  const KernelWalk walk = walk_of(nest, tile, limits);
  for (const KernelPart& part : walk.parts) steps += part.chunks * part.height * part.steps();
  return ceil_div(nest.in_channels, nest.in_block) * steps * tile.outputs * (tile.sums ? limits.lanes_f32() : 1);
}

/// Cycles of a tile of `rows` rows with `columns` vectors (for sums, pixels) each.
double tile_cycles(const PixelNest& nest, const PixelTile& tile, int64_t rows, int64_t columns,
                   const CpuLimits& limits) {
  const KernelWalk walk = walk_of(nest, tile, limits);
  const int64_t sums = rows * columns * tile.outputs;
  const double reads = vector_reads(nest, tile, limits);
  // All tiles read the same weights. If these are many, they come from L2.
  const int64_t vectors = tile.sums ? tile.outputs * limits.vector_bytes : 0;
  const bool streams = tile.sums && weight_elems(nest, tile, limits) * 4 > limits.l1_bytes / 2;
  double cycles = 0;
  for (const KernelPart& part : walk.parts) {
    const int64_t images = walk.folded ? distinct_rows(columns, part.height, 1, 1)
                                       : columns * distinct_rows(rows, part.height, nest.step_h, nest.dilation_h);
    const double loads = static_cast<double>(images) * reads + static_cast<double>(part.height * tile.outputs);
    const double stream = streams ? static_cast<double>(part.height * vectors) / limits.l2_rate : 0;
    const double step = std::max({static_cast<double>(sums * part.height) / limits.fmas_per_cycle,
                                  loads / (limits.load_share * limits.loads_per_cycle),
                                  kSlack * limits.latency * static_cast<double>(part.height), stream});
    cycles += static_cast<double>(part.chunks * part.steps()) * step;
  }
  const int64_t stores = tile.sums ? rows * tile.outputs : sums;
  return cycles * static_cast<double>(ceil_div(nest.in_channels, nest.in_block)) +
         kStore * static_cast<double>(stores) + (tile.sums ? kLaneSum * static_cast<double>(sums) : 0);
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
  int64_t height = 0;
  const KernelWalk walk = walk_of(nest, tile, limits);
  for (const KernelPart& part : walk.parts) height = std::max(height, part.height);
  // Weights stay in registers from the first row of the tile that uses them to the last.
  const int64_t shared = std::min(walk.folded ? tile.tile : tile.rows, height);
  const int64_t operands = (shared > 1 ? shared * k : std::min(k, tile.tile)) + 1;
  const int64_t ahead = 1;  // for the loads that the code generator's scheduler moves ahead
  return sums + operands + product + ahead <= limits.vector_registers;
}

std::vector<PixelTile> pixel_tiles(const PixelNest& nest, const CpuLimits& limits) {
  std::vector<PixelTile> all;
  const auto add = [&](PixelTile tile) {
    for (tile.outputs = nest.out_channels; tile.outputs > 0; --tile.outputs) {
      if (nest.out_channels % tile.outputs == 0 && fits_registers(nest, tile, limits)) all.push_back(tile);
    }
  };
  const int64_t rows = nest.kernel_h == 1 ? 1 : std::min(nest.out_h, kMostRows);
  const int64_t vectors = std::min(ceil_div(nest.out_w, pixel_lanes(nest, limits)), kMostVectors);
  const int64_t pixels = std::min<int64_t>(nest.out_w, limits.lanes_f32());
  for (int64_t r = 1; r <= rows; ++r) {
    for (int64_t v = 1; nest.in_block == 1 && v <= vectors; ++v) add({false, 1, r, v});
    for (int64_t p = 1; can_sum(nest, limits) && p <= pixels; p *= 2) add({true, 1, r, p});
  }
  return all;
}

namespace {

double image_bytes(const PixelNest& nest) {
  const int64_t channels = round_up(nest.in_channels, nest.in_block);
  return static_cast<double>(nest.n * channels * nest.out_h * nest.step_h * nest.out_w * nest.step_w * 4);
}

}  // namespace

double image_cycles(const PixelNest& nest, const CpuLimits& limits) {
  return image_bytes(nest) / reread_rate(static_cast<int64_t>(image_bytes(nest)), limits);
}

Estimate estimate_pixels(const PixelNest& nest, const PixelTile& tile, const CpuLimits& limits) {
  const RowTiles tiles = row_tiles(nest, tile, limits);
  const auto row = [&](int64_t rows) {
    if (rows == 0) return 0.0;
    const auto rest = static_cast<int64_t>(tiles.rest.size());
    const double last = rest > 0 ? tile_cycles(nest, tile, rows, rest, limits) : 0;
    return static_cast<double>(tiles.full) * tile_cycles(nest, tile, rows, tile.tile, limits) + last;
  };
  const auto groups = static_cast<double>(nest.out_channels / tile.outputs);
  const double image =
      groups * (static_cast<double>(nest.out_h / tile.rows) * row(tile.rows) + row(nest.out_h % tile.rows));
  const double tiles_if_full =
      static_cast<double>(nest.out_h * nest.out_w) / static_cast<double>(tiles.span * tile.rows);
  const double ideal = groups * tiles_if_full * tile_cycles(nest, tile, tile.rows, tile.tile, limits);
  const double stream = image_cycles(nest, limits) + (groups - 1) * image_bytes(nest) / limits.l2_rate;
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

/// Calls `put(k, c, r, s)` for the weights of the output channels [first, first + tile.outputs) in the order in which
/// the tile reads them; c is -1 for lanes that add nothing.
template <class Put>
void each_weight(const PixelNest& nest, const PixelTile& tile, const KernelWalk& walk, int64_t lanes, int64_t first,
                 Put put) {
  const auto at = [&](const KernelPart& part, int64_t cb, int64_t row, int64_t step, int64_t k) {
    if (walk.folded) return put(k, cb, 0, row * walk.period + step);
    for (int64_t lane = 0; lane < (tile.sums ? lanes : 1); ++lane) {
      const int64_t tap = over_taps(nest, tile) ? step * lanes - part.again + lane : step;
      const int64_t c = nest.in_block > 1 ? cb * nest.in_block + lane : cb;
      const bool twice = over_taps(nest, tile) && lane < part.again;
      put(k, twice || c >= nest.in_channels ? -1 : c, row, tap);
    }
  };
  for (int64_t cb = 0; cb < ceil_div(nest.in_channels, nest.in_block); ++cb)
    for (const KernelPart& part : walk.parts)
      for (int64_t chunk = 0; chunk < part.chunks; ++chunk)
        for (int64_t step = part.begin; step < part.end; ++step)
          for (int64_t i = 0; i < part.height; ++i)
            for (int64_t k = first; k < first + tile.outputs; ++k)
              at(part, cb, part.first + chunk * part.height + i, step, k);
}

}  // namespace

Packing pack_pixels(const Task& task, ValueId weights, const PixelNest& nest, const PixelTile& tile,
                    const CpuLimits& limits) {
  const int64_t lanes = lanes_of(limits);
  const KernelWalk walk = walk_of(nest, tile, limits);
  std::string form = fmt::format("pixels outputs={}", tile.outputs);
  if (tile.sums) form = fmt::format("sums block={} lanes={} outputs={}", nest.in_block, lanes, tile.outputs);
  for (const KernelPart& p : walk.parts) form += fmt::format(" {}x{}:{}-{}", p.chunks, p.height, p.begin, p.end);
  const auto fill = [w = *task.operand(weights).constant, nest, tile, walk, lanes](std::byte* bytes) {
    auto* to = reinterpret_cast<float*>(bytes);
    const auto* from = w.data<float>();
    const auto put = [&](int64_t k, int64_t c, int64_t r, int64_t s) {
      *to++ = c < 0 ? 0.0F : from[((k * nest.in_channels + c) * nest.kernel_h + r) * nest.kernel_w + s];
    };
    for (int64_t first = 0; first < nest.out_channels; first += tile.outputs)
      each_weight(nest, tile, walk, lanes, first, put);
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
    for (int64_t v = 0; v < t_.tile; ++v) columns.push_back(v * (t_.sums ? 1 : lanes_));
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
    reduce(rows, columns);
    t_.sums ? finish_sums(rows, columns) : finish_pixels(rows, columns);
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

  size_t slot(int64_t row, size_t column, int64_t channel) const {
    return (static_cast<size_t>(row) * columns_ + column) * static_cast<size_t>(t_.outputs) +
           static_cast<size_t>(channel);
  }

  void reduce(int64_t rows, const std::vector<int64_t>& columns) {
    columns_ = columns.size();
    acc_.clear();
    for (int64_t i = 0; i < rows * static_cast<int64_t>(columns_); ++i) {
      for (int64_t k = 0; k < t_.outputs; ++k)
        acc_.push_back(b_.reg("acc", t_.sums ? imm(DType::f32, 0, lanes_) : bias(k, lanes_)));
    }
    const int64_t blocks = ceil_div(nest_.in_channels, nest_.in_block);
    b_.loop("cb", 0, blocks, [&](const Expr& cb) {
      const Expr x1 = b_.let("x1", origin_ + cb * Expr(in_.phys.strides[1]));
      Expr w1 = b_.let("w1", weights_ + cb * Expr(weight_elems_ / blocks));
      for (const KernelPart& part : walk_.parts) {
        emit_part(part, x1, w1, rows, columns);
        w1 = w1 + Expr(part.chunks * part.steps() * part.height * t_.outputs * weight_lanes());
      }
    });
  }

  int64_t weight_lanes() const { return t_.sums ? lanes_ : 1; }

  /// Elements from one kernel row to the next.
  int64_t kernel_stride() const {
    const Shape& s = in_.phys.strides;
    return walk_.folded ? walk_.period * nest_.dilation_w * s[3] : nest_.dilation_h * s[2];
  }

  void emit_part(const KernelPart& part, const Expr& x1, const Expr& w1, int64_t rows,
                 const std::vector<int64_t>& columns) {
    const int64_t each = part.height * t_.outputs * weight_lanes();
    const int64_t next = over_taps(nest_, t_) ? lanes_ : nest_.dilation_w * in_.phys.strides[3];
    b_.loop("chunk", 0, part.chunks, [&](const Expr& chunk) {
      b_.loop("s", part.begin, part.end, [&](const Expr& s) {
        const Expr x2 = b_.let("x2", x1 + (Expr(part.first) + chunk * Expr(part.height)) * Expr(kernel_stride()) +
                                         s * Expr(next) - Expr(part.again));
        const Expr w2 = b_.let("w2", w1 + (chunk * Expr(part.steps()) + s - Expr(part.begin)) * Expr(each));
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

  /// Emits one step of `height` kernel rows. Each vector of the image is read once, and used by all accumulators that
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
      const int64_t stride = t_.sums || lanes_ == 1 ? 1 : 0;
      if (!value.defined())
        value = b_.let("w", b_.load(buffers_.weights, w + Expr(index * weight_lanes()), lanes_, stride));
      return value;
    };
    for (const auto& [offset, list] : uses) {
      const auto pixels = [&, at = offset](size_t v) {
        const Expr from = x + Expr(at + (columns[v] - columns[0]) * (apart > 1 ? step_w : 0));
        return b_.let("p", b_.load(x_, from, lanes_, t_.sums || lanes_ == 1 ? 1 : step_w));
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

  void finish_pixels(int64_t rows, const std::vector<int64_t>& columns) {
    for (int64_t row = 0; row < rows; ++row)
      for (size_t v = 0; v < columns_; ++v)
        for (int64_t k = 0; k < t_.outputs; ++k) store(b_.get(acc_[slot(row, v, k)]), site(k, row, columns[v], lanes_));
  }

  /// Adds the lanes of as many output channels at a time as fill a vector.
  void finish_sums(int64_t rows, const std::vector<int64_t>& columns) {
    const auto pixels = static_cast<int32_t>(columns_);
    const int64_t group = lanes_ / pixels;
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t first = 0; first < t_.outputs; first += group) {
        const int64_t count = std::min(group, t_.outputs - first);
        std::vector<Expr> vectors;
        for (int64_t k = first; k < first + count; ++k)
          for (size_t p = 0; p < columns_; ++p) vectors.push_back(b_.get(acc_[slot(row, p, k)]));
        vectors.resize(std::bit_ceil(vectors.size()), imm(DType::f32, 0, lanes_));
        const Expr sums = LaneSums(b_).add(vectors);
        for (int64_t i = 0; i < count; ++i) {
          std::vector<int32_t> own;
          for (int32_t p = 0; p < pixels; ++p) own.push_back(static_cast<int32_t>(i) * pixels + p);
          const Expr value = sums.lanes() == pixels ? sums : shuffle(sums, sums, own);
          store(value + bias(first + i, pixels), site(first + i, row, columns.front(), pixels));
        }
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
