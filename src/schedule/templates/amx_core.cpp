#include "schedule/templates/amx_core.h"

#include <algorithm>
#include <array>

#include "schedule/templates/conv_core.h"

namespace kilter {
namespace {

/// Shares of the peak rates and costs that the model assumes, measured on Emerald Rapids.
constexpr double kL1Share = 0.92;    ///< of the peak rate of L1, while tile registers are loaded
constexpr double kL2Share = 0.72;    ///< of the peak rate of L2
constexpr double kCopyCycles = 2;    ///< of one vector of a row into scratch
constexpr double kSumCycles = 3;     ///< of the epilogue of a vector, which overlaps with the products
constexpr double kStoreCycles = 16;  ///< of a tile register, whatever its rows
constexpr double kMostItems = 16;    ///< parallel items that are worth more copies of rows
constexpr double kItemThreads = 4;   ///< work of such an item, relative to the work that justifies one more thread

int64_t registers(const AmxTile& t) { return t.vectors * t.tiles + t.vectors + t.tiles; }

/// How often the operands of a block come from L2 instead of L1: 1 is always; a smaller number means only for the first
/// of the blocks that share them.
struct Far {
  double rows = 1, panels = 1;
};

Far far_of(const AmxProduct& p, const AmxTile& tile, int64_t tiles, int64_t vectors, const CpuLimits& limits) {
  const auto sets = static_cast<double>(ceil_div(p.rows, tile.rows * tile.tiles));
  const auto groups = static_cast<double>(ceil_div(p.panels, tile.vectors));
  const int64_t near = limits.l1_bytes / 2, all_panels = p.panels * p.panel_elems() * p.operands.bytes();
  const int64_t panels = vectors * p.panel_elems() * p.operands.bytes();
  const int64_t rows = (tiles * tile.rows + p.reach) * p.units * kTileRowBytes;
  if (tile.rows_outside) return {rows > near ? 1 : 1 / groups, all_panels > near ? 1 : 1 / sets};
  return {p.row_bytes > near ? 1 : 1 / groups, panels > near ? 1 : 1 / sets};
}

/// Cycles of one step of a block: products, loads of lines from L1, and of those from L2.
double step_cycles(const AmxProduct& p, const AmxTile& tile, int64_t tiles, int64_t vectors, const CpuLimits& limits) {
  const auto a_lines = static_cast<double>(tiles * tile.rows), b_lines = static_cast<double>(vectors * kTileRows);
  const Far far = far_of(p, tile, tiles, vectors, limits);
  const double products = static_cast<double>(tiles * vectors) * limits.tile_cycles(tile.rows);
  const double loads = (a_lines + b_lines) / (kL1Share * limits.loads_per_cycle);
  const double lines = far.rows * p.fresh * a_lines + far.panels * b_lines;
  return std::max({products, loads, lines * kTileRowBytes / (kL2Share * limits.l2_peak_rate)});
}

/// Cycles of `vectors` panels.
double panel_cycles(const AmxProduct& p, const AmxTile& tile, int64_t vectors, const CpuLimits& limits) {
  const int64_t all = p.padded_rows(tile) / tile.rows;
  const auto block = [&](int64_t tiles) {
    if (tiles == 0) return 0.0;
    const auto registers = static_cast<double>(tiles * vectors);
    const double steps = static_cast<double>(p.steps) * step_cycles(p, tile, tiles, vectors, limits);
    const double sums = registers * static_cast<double>(tile.rows) * kSumCycles;
    return std::max(steps, sums) + registers * kStoreCycles;
  };
  return static_cast<double>(all / tile.tiles) * block(tile.tiles) + block(all % tile.tiles);
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
  const auto sets = static_cast<double>(tile.rows_outside ? ceil_div(p.rows, tile.rows * tile.tiles) : 1);
  if (bytes > limits.l2_bytes / 2)
    out.panels = beside(out.panels, sets * static_cast<double>(bytes) / reread_rate(bytes, limits));
  return out;
}

/// Cycles in which the weights arrive for the first time, which overlaps with all products, or with those of the first
/// set of rows.
double first_cycles(const AmxProduct& p, const AmxTile& tile, double panels, const CpuLimits& limits) {
  const double arrive = static_cast<double>(p.panels * p.panel_elems() * p.operands.bytes()) / limits.l3_rate;
  const auto sets = static_cast<double>(ceil_div(p.rows, tile.rows * tile.tiles));
  const double share = tile.rows_outside ? panels / sets : panels;
  return beside(share, arrive) - share;
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

Result<Multiplicands> amx_conv_operands(const Task& task, const CpuLimits& limits) {
  const Node& node = task.node();
  if (node.op->family != Family::conv) return not_for("operator family", "conv", node.op->name);
  if (!limits.bf16_tiles && !limits.byte_tiles) return not_for("target", "with AMX", "without");
  if (auto rejected = check_input_stored(task)) return *rejected;
  if (auto rejected = check_conv_operands(task, true)) return *rejected;
  const TensorType& x = task.operand(node.inputs[0]).type;
  const Multiplicands operands = Multiplicands::of_tiles(x, task.graph->type(node.outputs[0]).dtype, limits);
  if (!amx_multiplies(operands, limits))
    return not_for("stored elements of the image", "bf16, or u8 for integers",
                   std::string(name(x.layout.stored.value_or(x.dtype))));
  if (operands.type == DType::u8 && !fit_i8(*task.operand(node.inputs[1]).constant))
    return Rejected{"weights", "integers of i8", "others"};
  if (auto rejected = check_elementwise(task)) return *rejected;
  return operands;
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
  Estimate out;
  out.cycles = (cycles.copy + cycles.panels) * static_cast<double>(sets);
  out.cycles += first_cycles(product, tile, tile.rows_outside ? cycles.panels : out.cycles, limits);
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

Schedule amx_schedule(std::string_view name, const AmxTile& tile,
                      const std::vector<std::pair<std::string, int64_t>>& own, int64_t prefetch) {
  Schedule out{std::string(name),
               {{"vectors", tile.vectors},
                {"tiles", tile.tiles},
                {"rows", tile.rows},
                {"rows_outside", tile.rows_outside ? 1 : 0}}};
  for (const auto& [knob, value] : own) out.knobs.push_back({knob, value});
  out.knobs.push_back({"prefetch", prefetch});
  return out;
}

AmxTile amx_tile_of(const Schedule& s) {
  return {s.knob("vectors"), s.knob("tiles"), s.knob("rows"), s.knob("rows_outside") == 1};
}

std::vector<Knob> amx_knobs(int64_t panels) {
  std::vector<Knob> knobs{
      {"vectors", {}}, {"tiles", {1, 2, 3}}, {"rows", {}}, {"rows_outside", {0, 1}}, panel_prefetch_knob()};
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
  if (tile.rows_outside) return 0;  // only the first set of rows does not find the panels in L2
  const int64_t panel = tile.vectors * product.panel_elems() * product.operands.bytes();
  const int64_t passes = ceil_div(product.rows, tile.rows * tile.tiles);
  return pick_prefetch(product.panels * product.panel_elems() * product.operands.bytes(), panel, passes, limits);
}

AmxEmitter::AmxEmitter(Emitter& e, const AmxProduct& product, const AmxTile& tile, Rows rows, Buf weights,
                       int64_t prefetch, const CpuLimits& limits)
    : e_(e),
      b_(e.b),
      anchor_(e.task().node().outputs[0]),
      domain_(domain_of(e.task().graph->type(anchor_))),
      p_(product),
      tile_(tile),
      lanes_(lanes_of(limits)),
      rows_(rows) {
  sums_ = b_.scratch("sums", p_.operands.sum(), tile.tiles * tile.rows * tile.vectors * lanes_);
  stream_ = {
      weights,           prefetch,     tile.vectors * p_.panel_elems(), ceil_div(p_.rows, tile.rows * tile.tiles),
      limits.line_bytes, e.task().open};
}

std::vector<AmxEmitter::Shared> AmxEmitter::shared(const Buf& starts, const Expr& first, int64_t count,
                                                   const std::function<Site(int64_t panel)>& site) {
  std::vector<Shared> all;
  for (int64_t v = 0; v < count; ++v) {
    Shared& of = all.emplace_back();
    if (starts.id >= 0) of.start = b_.let("start", b_.load(starts, (first + Expr(v)) * Expr(lanes_), lanes_));
    of.held = e_.hold(domain_, site(v));
  }
  return all;
}

void AmxEmitter::epilogue(const Expr& row, int64_t panel, const std::vector<Shared>& shared, const Site& site) {
  const Expr inside = min(row, Expr(set_rows() - 1));  // for the verifier, which cannot infer that every row is inside
  const Expr sums = b_.load(sums_, inside * Expr(tile_.vectors * lanes_) + Expr(panel * lanes_), lanes_);
  const auto& [start, held] = shared[static_cast<size_t>(panel)];
  e_.epilogue({{anchor_, start.defined() ? sums + start : sums}}, domain_, site, held);
}

void AmxEmitter::finish(const Beside& beside, const Block& block, const Expr& begin, const Expr& end) {
  e_.begin_checks(set_rows() * tile_.vectors, {p_.operands.sum(), lanes_});
  beside.finish(block, begin, end);
  e_.end_checks([&](const Expr& sums, const Site& site) { e_.epilogue({{anchor_, sums}}, domain_, site); });
}

void AmxEmitter::emit(const Expr& part, int64_t parts, const Expr& first_weight,
                      const std::function<void(const Step&)>& reduce, const Finish& finish) {
  const Multiplicands& by = p_.operands;
  const auto unit = static_cast<int32_t>(amx_unit(by)), rows = static_cast<int32_t>(tile_.rows);
  std::vector<TileInfo> infos;
  for (int64_t i = 0; i < tile_.tiles * tile_.vectors; ++i) infos.push_back({"c", by.sum(), rows, lanes_});
  for (int64_t i = 0; i < tile_.tiles; ++i) infos.push_back({"a", by.type, rows, unit});
  for (int64_t i = 0; i < tile_.vectors; ++i) infos.push_back({"b", by.weights(), kTileRows, unit});
  const Beside beside{first_weight, reduce, finish};
  const auto all_rows = [&](const Columns& c) {
    tile_.rows_outside ? rows_outside(c, beside) : panels_outside(c, beside);
  };
  b_.tiles(std::move(infos), [&](std::span<const Tile> registers) {
    registers_ = registers;
    const int64_t full = p_.panels / tile_.vectors, rest = p_.panels % tile_.vectors, each = ceil_div(full, parts);
    const Expr begin = b_.let("begin", part * Expr(each));
    all_rows({0, tile_.vectors, begin, b_.let("end", min(begin + Expr(each), Expr(full)))});
    if (rest == 0) return;
    const auto last = [&] { all_rows({full * tile_.vectors, rest, Expr(0), Expr(1)}); };
    parts == 1 ? last() : b_.if_then(binary(Op::eq, part, Expr(parts - 1)), last);
  });
}

void AmxEmitter::panels_outside(const Columns& columns, const Beside& beside) {
  const int64_t sets = all_tiles() / tile_.tiles, rest = all_tiles() % tile_.tiles, count = columns.count;
  const Expr rows(set_rows()), last_rows(rest > 0 ? rest * tile_.rows : set_rows());
  const Expr last_row((rest > 0 ? sets : sets - 1) * set_rows());
  b_.loop("panel", columns.begin, columns.end, [&](const Expr& panel) {
    const Expr first = b_.let("first", columns.panel(panel));
    const Expr last_of_before = select(binary(Op::eq, panel, columns.begin), Expr(0), last_rows);
    const Block before{max(first - Expr(count), Expr(0)), count, last_row, last_of_before};
    b_.loop("t", 0, sets, [&](const Expr& t) {
      const Expr none = binary(Op::eq, t, Expr(0));
      const Block inside{select(none, before.first, first), count, select(none, before.row, (t - Expr(1)) * rows),
                         select(none, before.rows, rows)};
      multiply({t * rows, t, tile_.tiles}, first, inside, beside);
    });
    if (rest == 0) return;
    const Block whole{first, count, Expr((sets - 1) * set_rows()), rows};
    multiply({Expr(sets * set_rows()), Expr(sets), rest}, first, sets > 0 ? whole : before, beside);
  });
  const Expr any = select(binary(Op::lt, columns.begin, columns.end), last_rows, Expr(0));
  finish(beside, {columns.panel(columns.end - Expr(1)), count, last_row, any}, Expr(0), any);
}

void AmxEmitter::rows_outside(const Columns& columns, const Beside& beside) {
  const int64_t sets = all_tiles() / tile_.tiles, rest = all_tiles() % tile_.tiles, count = columns.count;
  const auto set = [&](const Set& s) {
    const Expr rows(s.tiles * tile_.rows);
    b_.loop("panel", columns.begin, columns.end, [&](const Expr& panel) {
      const Expr before = select(binary(Op::eq, panel, columns.begin), Expr(0), rows);
      const Expr first = b_.let("first", columns.panel(panel));
      multiply(s, first, {max(first - Expr(count), Expr(0)), count, s.first, before}, beside);
    });
    const Expr any = select(binary(Op::lt, columns.begin, columns.end), rows, Expr(0));
    finish(beside, {columns.panel(columns.end - Expr(1)), count, s.first, any}, Expr(0), any);
  };
  b_.loop("t", 0, sets, [&](const Expr& t) { set({t * Expr(set_rows()), t, tile_.tiles}); });
  if (rest > 0) set({Expr(sets * set_rows()), Expr(sets), rest});
}

void AmxEmitter::multiply(const Set& set, const Expr& panel, const Block& before, const Beside& beside) {
  const Expr weights = b_.let("w0", beside.first_weight + panel * Expr(p_.panel_elems()));
  const int64_t tiles = set.tiles, vectors = before.count;
  for (int64_t t = 0; t < tiles; ++t) {
    for (int64_t v = 0; v < vectors; ++v) b_.zero(register_of(t, v));
  }
  const int64_t unit = amx_unit(p_.operands), register_elems = kTileRows * unit, read = vectors * register_elems;
  const Expr piece(ceil_div(set_rows(), p_.steps));
  const Block whole{b_.let("before", before.first), vectors, b_.let("before_row", before.row),
                    b_.let("before_rows", before.rows)};
  beside.reduce([&](const Expr& place, const Expr& step) {
    emit_prefetch(b_, stream_, weights, step * Expr(read), read, set.number);
    const Expr w = b_.let("w", weights + step * Expr(register_elems));
    const Expr a = b_.let("a", place + set.first * Expr(rows_.step));
    for (int64_t v = 0; v < vectors; ++v)
      b_.load_tile(factor(tile_.tiles + v), stream_.weights, w + Expr(v * p_.panel_elems()), unit);
    for (int64_t t = 0; t < tiles; ++t) {
      b_.load_tile(factor(t), rows_.buffer, a + Expr(t * tile_.rows * rows_.step), rows_.step);
      for (int64_t v = 0; v < vectors; ++v) b_.dot_tiles(register_of(t, v), factor(t), factor(tile_.tiles + v));
    }
    const Expr begin = b_.let("piece", step * piece);
    finish(beside, whole, begin, min(min(begin + piece, whole.rows), Expr(set_rows())));
  });
  const int64_t width = tile_.vectors * lanes_;
  for (int64_t t = 0; t < tiles; ++t) {
    for (int64_t v = 0; v < vectors; ++v)
      b_.store_tile(sums_, Expr(t * tile_.rows * width + v * lanes_), width, register_of(t, v));
  }
}

}  // namespace kilter
