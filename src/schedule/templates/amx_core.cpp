#include "schedule/templates/amx_core.h"

#include <algorithm>
#include <array>

namespace kilter {
namespace {

/// Shares of the peak rates and costs that the model assumes. None of them has been measured on a processor with AMX.
constexpr double kL2Share = 0.75;   ///< of the peak rate of L2, while tile registers are loaded
constexpr double kCopyCycles = 2;   ///< of one vector of a row into scratch
constexpr double kSumCycles = 1;    ///< of a vector of sums that the epilogue reads back
constexpr double kMostItems = 16;   ///< parallel items that are worth more copies of rows
constexpr double kItemThreads = 4;  ///< work of such an item, in the work that justifies one more thread

int64_t registers(const AmxTile& t) { return t.vectors * t.tiles + t.vectors + t.tiles; }

/// Cycles of one step of a group of tile registers: products, loads of 64 bytes, latency, and lines from L2.
double step_cycles(const AmxProduct& p, const AmxTile& tile, int64_t tiles, int64_t vectors, const CpuLimits& limits) {
  const auto rows = static_cast<double>(tile.rows);
  const auto a_lines = static_cast<double>(tiles) * rows, b_lines = static_cast<double>(vectors * kTileRows);
  const double row_cycles = limits.tile_dot_cycles / kTileRows;
  const double products = static_cast<double>(tiles * vectors) * rows * row_cycles;
  const double loads = (a_lines + b_lines) / (limits.load_share * limits.loads_per_cycle);
  const double latency = limits.tile_latency - (kTileRows - rows) * row_cycles;
  // Panels that do not stay in L1 come from L2 for each group of tile registers, others for the first.
  const bool far_rows = p.copied_bytes > limits.l1_bytes / 2;
  const bool far_panels = vectors * p.panel_elems() * p.operands.bytes() > limits.l1_bytes / 2;
  const auto groups = static_cast<double>(ceil_div(p.rows, tile.rows * tile.tiles));
  const double lines = (far_rows ? p.fresh * a_lines : 0) + (far_panels ? b_lines : b_lines / groups);
  return std::max({products, loads, latency, lines * kTileRowBytes / (kL2Share * limits.l2_peak_rate)});
}

/// Cycles of `vectors` panels.
double panel_cycles(const AmxProduct& p, const AmxTile& tile, int64_t vectors, const CpuLimits& limits) {
  const int64_t all = p.padded_rows(tile) / tile.rows;
  const auto groups = [&](int64_t tiles) {
    if (tiles == 0) return 0.0;
    const auto stores = static_cast<double>(tiles * vectors * tile.rows);
    return static_cast<double>(p.steps) * step_cycles(p, tile, tiles, vectors, limits) + stores + limits.tile_latency;
  };
  const double sums = static_cast<double>(p.useful_rows * vectors) * kSumCycles;
  return static_cast<double>(all / tile.tiles) * groups(tile.tiles) + groups(all % tile.tiles) + sums;
}

/// Predicted cycles of the copy, and of the products with all panels.
struct Cycles {
  double copy = 0, panels = 0;
};

Cycles cycles_of(const AmxProduct& p, const AmxTile& tile, const CpuLimits& limits) {
  Cycles out;
  out.copy = static_cast<double>(p.copies) * kCopyCycles;
  out.panels = static_cast<double>(p.panels / tile.vectors) * panel_cycles(p, tile, tile.vectors, limits);
  if (p.panels % tile.vectors != 0) out.panels += panel_cycles(p, tile, p.panels % tile.vectors, limits);
  // Panels that do not fit in L2 are read again for each set of rows.
  const int64_t bytes = p.panels * p.panel_elems() * p.operands.bytes();
  if (bytes > limits.l2_bytes / 2)
    out.panels = beside(out.panels, static_cast<double>(bytes) / reread_rate(bytes, limits));
  return out;
}

}  // namespace

std::span<const AmxTile> amx_tiles() {
  // Two by two registers need the fewest loads for each product, and four sums hide the latency.
  static constexpr std::array<AmxTile, 6> kTiles = {{{2, 2}, {3, 1}, {1, 3}, {2, 1}, {1, 2}, {1, 1}}};
  return kTiles;
}

std::optional<Rejected> check_amx_tile(const AmxTile& tile) {
  if (registers(tile) <= kTileRegisters) return std::nullopt;
  return Rejected{fmt::format("tile registers ({} of rows, {} of columns, and their sums)", tile.tiles, tile.vectors),
                  std::to_string(kTileRegisters), std::to_string(registers(tile))};
}

bool amx_multiplies(const Multiplicands& operands, const CpuLimits& limits) {
  return operands.group > 1 && limits.has_tiles(operands.type, operands.weights());
}

int64_t amx_parts(const AmxProduct& product, const AmxTile& tile, int64_t sets, const CpuLimits& limits) {
  const double work = cycles_of(product, tile, limits).panels * static_cast<double>(sets);
  const double items = std::min(work / (kItemThreads * limits.thread_cycles), kMostItems);
  const int64_t full = product.panels / tile.vectors;
  const int64_t parts = std::clamp<int64_t>(static_cast<int64_t>(items) / sets, 1, full);
  return ceil_div(full, ceil_div(full, parts));
}

Estimate amx_estimate(const AmxProduct& product, const AmxTile& tile, int64_t sets, const CpuLimits& limits) {
  const Cycles cycles = cycles_of(product, tile, limits);
  const auto parts = static_cast<double>(amx_parts(product, tile, sets, limits));
  Estimate out;
  out.cycles = (cycles.copy * parts + cycles.panels) * static_cast<double>(sets);
  out.tail = 1 - static_cast<double>(product.useful_rows) / static_cast<double>(product.padded_rows(tile));
  out.constant_bytes = product.panels * product.panel_elems() * product.operands.bytes();
  return out;
}

Result<Schedule> pick_amx(const Task& task, const CpuLimits& limits, std::string_view other,
                          std::vector<Schedule> candidates, const std::function<double(const Schedule&)>& cycles) {
  std::optional<Schedule> best;
  double least = 0;
  for (Schedule& schedule : candidates) {
    const double predicted = cycles(schedule);
    if (best && predicted >= least * 0.99) continue;
    best = std::move(schedule), least = predicted;
  }
  if (!best) return Rejected{"copied rows", "half of L2", "more"};
  const std::vector<Ranked> others = rank(*find_template(other), task, limits, 1);
  const double most = others.empty() ? least : 0.9 * others.front().estimate.cycles;
  if (least <= most) return *std::move(best);
  return Rejected{"predicted cycles", fmt::format("{:.0f} (9/10 of {})", most, other), fmt::format("{:.0f}", least)};
}

std::vector<Knob> amx_knobs(int64_t panels) {
  std::vector<Knob> knobs{{"vectors", {}}, {"tiles", {1, 2, 3}}, {"rows", {}}, panel_prefetch_knob()};
  for (int64_t v = 1; v <= std::min<int64_t>(3, panels); ++v) knobs[0].values.push_back(v);
  for (int64_t r = 1; r <= kTileRows; ++r) knobs[2].values.push_back(r);
  return knobs;
}

std::vector<int64_t> amx_row_counts(int64_t rows) {
  const int64_t even = ceil_div(rows, ceil_div(rows, kTileRows));
  if (even == kTileRows) return {kTileRows};
  return {kTileRows, even};
}

int64_t pick_amx_prefetch(const AmxProduct& product, const AmxTile& tile, const CpuLimits& limits) {
  const int64_t panel = tile.vectors * product.panel_elems() * product.operands.bytes();
  const int64_t passes = ceil_div(product.rows, tile.rows * tile.tiles);
  return pick_prefetch(product.panels * product.panel_elems() * product.operands.bytes(), panel, passes, limits);
}

AmxEmitter::AmxEmitter(Emitter& e, const AmxProduct& product, const AmxTile& tile, Buf rows, Buf weights,
                       int64_t prefetch, const CpuLimits& limits)
    : b_(e.b), p_(product), tile_(tile), lanes_(lanes_of(limits)), rows_(rows) {
  sums_ = b_.scratch("sums", p_.operands.sum(), p_.padded_rows(tile) * tile.vectors * lanes_);
  stream_ = {
      weights,           prefetch,     tile.vectors * p_.panel_elems(), ceil_div(p_.rows, tile.rows * tile.tiles),
      limits.line_bytes, e.task().open};
}

Expr AmxEmitter::sums(const Expr& row, int64_t v) const {
  return b_.load(sums_, row * Expr(tile_.vectors * lanes_) + Expr(v * lanes_), lanes_);
}

void AmxEmitter::emit(const Expr& part, int64_t parts, const Expr& first_weight,
                      const std::function<void(const Step&)>& reduce, const Finish& finish) {
  const Multiplicands& by = p_.operands;
  const auto unit = static_cast<int32_t>(amx_unit(by)), rows = static_cast<int32_t>(tile_.rows);
  std::vector<TileInfo> infos;
  for (int64_t i = 0; i < tile_.tiles * tile_.vectors; ++i) infos.push_back({"c", by.sum(), rows, lanes_});
  for (int64_t i = 0; i < tile_.tiles; ++i) infos.push_back({"a", by.type, rows, unit});
  for (int64_t i = 0; i < tile_.vectors; ++i) infos.push_back({"b", by.weights(), kTileRows, unit});
  b_.tiles(std::move(infos), [&](std::span<const Tile> registers) {
    registers_ = registers;
    const int64_t full = p_.panels / tile_.vectors, rest = p_.panels % tile_.vectors, each = ceil_div(full, parts);
    const auto panels = [&](const Expr& first, int64_t count) {
      panel(first, count, first_weight, reduce);
      finish(first, count);
    };
    const Expr begin = part * Expr(each);
    b_.loop("panel", begin, min(begin + Expr(each), Expr(full)),
            [&](const Expr& i) { panels(i * Expr(tile_.vectors), tile_.vectors); });
    if (rest == 0) return;
    const auto last = [&] { panels(Expr(full * tile_.vectors), rest); };
    parts == 1 ? last() : b_.if_then(binary(Op::eq, part, Expr(parts - 1)), last);
  });
}

void AmxEmitter::panel(const Expr& first, int64_t count, const Expr& first_weight,
                       const std::function<void(const Step&)>& reduce) {
  const Expr weights = b_.let("w0", first_weight + first * Expr(p_.panel_elems()));
  const int64_t all = p_.padded_rows(tile_) / tile_.rows, groups = all / tile_.tiles, rest = all % tile_.tiles;
  const int64_t rows = tile_.tiles * tile_.rows;
  b_.loop("t", 0, groups, [&](const Expr& t) { group(t * Expr(rows), tile_.tiles, count, weights, t, reduce); });
  if (rest > 0) group(Expr(groups * rows), rest, count, weights, Expr(groups), reduce);
}

void AmxEmitter::group(const Expr& row, int64_t tiles, int64_t vectors, const Expr& weights, const Expr& pass,
                       const std::function<void(const Step&)>& reduce) {
  for (int64_t t = 0; t < tiles; ++t) {
    for (int64_t v = 0; v < vectors; ++v) b_.zero(sum(t, v));
  }
  const int64_t unit = amx_unit(p_.operands), register_elems = kTileRows * unit, read = vectors * register_elems;
  reduce([&](const Expr& place, const Expr& step) {
    emit_prefetch(b_, stream_, weights, step * Expr(read), read, pass);
    const Expr w = b_.let("w", weights + step * Expr(register_elems));
    const Expr a = b_.let("a", place + row * Expr(unit));
    for (int64_t v = 0; v < vectors; ++v)
      b_.load_tile(factor(tile_.tiles + v), stream_.weights, w + Expr(v * p_.panel_elems()), unit);
    for (int64_t t = 0; t < tiles; ++t) {
      b_.load_tile(factor(t), rows_, a + Expr(t * tile_.rows * unit), unit);
      for (int64_t v = 0; v < vectors; ++v) b_.dot_tiles(sum(t, v), factor(t), factor(tile_.tiles + v));
    }
  });
  const int64_t width = tile_.vectors * lanes_;
  for (int64_t t = 0; t < tiles; ++t) {
    for (int64_t v = 0; v < vectors; ++v)
      b_.store_tile(sums_, (row + Expr(t * tile_.rows)) * Expr(width) + Expr(v * lanes_), width, sum(t, v));
  }
}

}  // namespace kilter
