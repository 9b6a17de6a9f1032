// Attention with tile registers (AMX), for q, k and v that are stored as bf16. A first stage packs the keys and the
// values of each head for tile registers. An item then computes a block of queries of one head, so that only the scores
// of one block are in memory:
//
//   kt[size / 32][keys / 16][16][key][2]      the keys, transposed in pairs of elements, each part a tile register
//   vt[keys / 32][v_size / 16][16][column][2] the values, in pairs of keys
//   s[queries][keys]                          scores, as f32
//   p[queries][keys]                          their exponentials, rounded to bf16; 0 past the last key
//   y[queries][v_size]                        p v, divided by the sums of p
#include <algorithm>
#include <limits>
#include <tuple>

#include "base/align.h"
#include "schedule/templates/amx_core.h"
#include "schedule/templates/attention_problem.h"
#include "schedule/templates/lane_sums.h"
#include "schedule/templates/templates.h"
#include "schedule/templates/transpose_tile.h"

namespace kilter {
namespace {

constexpr int64_t kUnit = kTileRowBytes / 2;      ///< elements of a row of a tile register
constexpr int64_t kRegister = kTileRows * kUnit;  ///< elements of a tile register
constexpr int64_t kColumns = kTileRowBytes / 4;   ///< sums of a row
constexpr int64_t kFewestQueries = 8;             ///< with fewer, most rows of a register would be empty
constexpr int64_t kRowsAtOnce = 4;                ///< rows whose exponentials are computed side by side

/// The sizes of an attention in tile registers.
struct Parts {
  int64_t size_units, key_units, key_tiles, v_tiles;

  explicit Parts(const FusedAttentionShape& s)
      : size_units(ceil_div(s.size, kUnit)),
        key_units(ceil_div(s.keys, kUnit)),
        key_tiles(key_units * (kUnit / kColumns)),
        v_tiles(ceil_div(s.v_size, kColumns)) {}
  int64_t keys() const { return key_units * kUnit; }  ///< padded
  int64_t key_elems() const { return size_units * key_tiles * kRegister; }
  int64_t value_elems() const { return key_units * v_tiles * kRegister; }
};

Result<AttentionProblem> analyse(const Task& task, const CpuLimits& limits) {
  if (!limits.bf16_tiles) return not_for("target", "with AMX", "without");
  Result<AttentionProblem> heads = attention_problem(task, limits);
  if (!heads) return heads;
  const FusedAttentionShape& s = heads->shape;
  const Node& node = task.node();
  for (size_t i = 0; i < 3; ++i) {
    const auto& stored = task.operand(node.inputs[i]).type.layout.stored;
    if (stored != DType::bf16)
      return not_for("stored elements of the operands", "bf16", stored ? std::string(name(*stored)) : "f32");
  }
  for (const auto& [what, operand, size] :
       {std::tuple("queries", &heads->q, s.size), std::tuple("keys", &heads->k, s.size),
        std::tuple("values", &heads->v, s.v_size)}) {
    if (operand->column != 1 && size > 1)
      return Rejected{fmt::format("distance of the elements of {}", what), "1", std::to_string(operand->column)};
  }
  if (s.queries < kFewestQueries)
    return Rejected{"queries", fmt::format("{} or more", kFewestQueries), std::to_string(s.queries)};
  if (task.open) return Rejected{"numbers of keys and queries", "fixed", "open"};
  return heads;
}

/// The number of a head, counted over all batch dimensions.
Expr number_of(const AttentionHead& head, const FusedAttentionShape& s) {
  Expr number = 0;
  for (size_t d = 0; d < s.batch.size(); ++d) number = number * Expr(s.batch[d]) + head.batch[d];
  return number;
}

/// The elements of unit `c` of a query or key that exist; undefined if all do.
Expr unit_lanes(const FusedAttentionShape& s, const Expr& c) {
  return s.size % kUnit == 0 ? Expr() : first_lanes(max(Expr(0), Expr(s.size) - c * Expr(kUnit)), kUnit);
}

Expr zeros(int64_t lanes) { return imm(DType::bf16, 0, static_cast<int32_t>(lanes)); }

/// Emits the stage that packs keys and values, one unit of keys of a head per item.
class Packer {
 public:
  Packer(Emitter& e, const AttentionProblem& h) : b_(e.b), h_(h), parts_(h.shape), head_(parallel_heads(e.b, h)) {
    unit_ = b_.parallel("unit", parts_.key_units);
    k_ = e.input(h.k.value), v_ = e.input(h.v.value);
    const int64_t heads = elems(h.shape.batch);
    kt_ = e.temp(0, DType::bf16, heads * parts_.key_elems(), true, "kt");
    vt_ = e.temp(1, DType::bf16, heads * parts_.value_elems(), true, "vt");
  }

  void run() {
    const int64_t whole = h_.shape.keys / kUnit, rest = h_.shape.keys % kUnit;
    if (rest == 0) return pack(kUnit);
    if (whole > 0) b_.if_then(binary(Op::lt, unit_, Expr(whole)), [&] { pack(kUnit); });
    b_.if_then(binary(Op::eq, unit_, Expr(whole)), [&] { pack(rest); });
  }

 private:
  void pack(int64_t keys) {
    const Expr number = b_.let("head", number_of(head_, h_.shape));
    for (int64_t tile = 0; tile < kUnit / kColumns; ++tile) {
      b_.loop("c", 0, parts_.size_units, [&](const Expr& c) {
        const int64_t rows = std::clamp<int64_t>(keys - tile * kColumns, 0, kColumns);
        const Expr place = (c * Expr(parts_.key_tiles) + unit_ * Expr(kUnit / kColumns) + Expr(tile)) * Expr(kRegister);
        transpose(number * Expr(parts_.key_elems()) + place, tile * kColumns, rows, c);
      });
    }
    b_.loop("j", 0, keys / 2, [&](const Expr& j) { pair(number, j, 2); });
    if (keys % 2 > 0) pair(number, Expr(keys / 2), 1);
    b_.loop("j", ceil_div(keys, 2), kUnit / 2, [&](const Expr& j) { pair(number, j, 0); });
  }

  void transpose(const Expr& to, int64_t first, int64_t rows, const Expr& c) {
    const Expr from = b_.let("k0", head_.k + (unit_ * Expr(kUnit) + Expr(first)) * Expr(h_.k.row) + c * Expr(kUnit));
    const Expr mask = unit_lanes(h_.shape, c);
    std::vector<Expr> keys;
    for (int64_t r = 0; r < kColumns; ++r) {
      const Expr row = r < rows ? b_.load_raw(k_, from + Expr(r * h_.k.row), kUnit, 1, mask) : zeros(kUnit);
      keys.push_back(b_.let("k", bitcast(DType::i32, row)));
    }
    const std::vector<Expr> pairs = transposed(b_, keys);
    for (int64_t p = 0; p < kTileRows; ++p)
      b_.store(kt_, to + Expr(p * kUnit), bitcast(DType::bf16, pairs[static_cast<size_t>(p)]));
  }

  /// Packs pair `j` of the unit, of which `count` values exist.
  void pair(const Expr& number, const Expr& j, int64_t count) {
    b_.loop("g", 0, parts_.v_tiles, [&](const Expr& g) {
      const Expr column = g * Expr(kColumns);
      const auto row = [&](int64_t i) {
        if (i >= count) return zeros(kColumns);
        const Expr key = unit_ * Expr(kUnit) + j * Expr(2) + Expr(i);
        return b_.load_raw(v_, head_.v + key * Expr(h_.v.row) + column, kColumns, 1,
                           value_lanes(h_.shape, column, kColumns));
      };
      const Expr place = (unit_ * Expr(parts_.v_tiles) + g) * Expr(kRegister) + j * Expr(kUnit);
      b_.store(vt_, number * Expr(parts_.value_elems()) + place, interleaved(row(0), row(1)));
    });
  }

  LoopBuilder& b_;
  const AttentionProblem& h_;
  const Parts parts_;
  AttentionHead head_;
  Expr unit_;
  Buf k_, v_, kt_, vt_;
};

/// Emits the stage that computes a block of queries of a head per item.
class BlockEmitter {
 public:
  /// `tiles`: tile registers of queries.
  BlockEmitter(Emitter& e, const AttentionProblem& h, int64_t tiles)
      : e_(e), b_(e.b), h_(h), parts_(h.shape), tiles_(tiles), head_(parallel_heads(e.b, h)) {
    const FusedAttentionShape& s = h.shape;
    const Expr block = b_.parallel("block", ceil_div(s.queries, rows()));
    first_ = block * Expr(rows());
    count_ = s.queries % rows() == 0 ? Expr(rows()) : min(Expr(rows()), Expr(s.queries) - first_);
    q_ = e.input(h.q.value);
    if (h.mask.value != kNone)
      mask_ = h.constant_mask != nullptr ? e.constant(Tensor(*h.constant_mask), "mask") : e.input(h.mask.value);
    const int64_t heads = elems(s.batch);
    kt_ = e.temp(0, DType::bf16, heads * parts_.key_elems(), false, "kt");
    vt_ = e.temp(1, DType::bf16, heads * parts_.value_elems(), false, "vt");
    queries_ = b_.scratch("q", DType::bf16, rows() * width());
    scores_ = b_.scratch("s", DType::f32, rows() * parts_.keys());
    weights_ = b_.scratch("p", DType::bf16, rows() * parts_.keys());
    values_ = b_.scratch("y", DType::f32, rows() * out_width());
    most_ = b_.scratch("most", DType::f32, rows());
    sums_ = b_.scratch("sums", DType::f32, rows() * kColumns);
    inverse_ = b_.scratch("inverse", DType::f32, rows());
  }

  void run() {
    copy_queries();
    std::vector<TileInfo> infos;
    const auto add = [&](const char* name, int64_t count, DType type, int64_t columns) {
      for (int64_t i = 0; i < count; ++i) infos.push_back({name, type, kTileRows, static_cast<int32_t>(columns)});
    };
    add("c", 2 * tiles_, DType::f32, kColumns), add("a", tiles_, DType::bf16, kUnit), add("b", 2, DType::bf16, kUnit);
    b_.tiles(std::move(infos), [&](std::span<const Tile> registers) {
      registers_ = registers;
      const Expr number = b_.let("head", number_of(head_, h_.shape));
      const Factor queries{queries_, Expr(0), width()}, weights{weights_, Expr(0), parts_.keys()};
      multiply(queries, {kt_, number * Expr(parts_.key_elems()), parts_.key_tiles}, parts_.size_units,
               {scores_, Expr(0), parts_.keys()});
      for (int64_t tile = 0; tile < tiles_; ++tile) weigh(tile * kTileRows);
      multiply(weights, {vt_, number * Expr(parts_.value_elems()), parts_.v_tiles}, parts_.key_units,
               {values_, Expr(0), out_width()});
    });
    b_.loop("r", 0, count_, [&](const Expr& r) {
      b_.loop("g", 0, parts_.v_tiles, [&](const Expr& g) {
        const Expr column = g * Expr(kColumns);
        finish_attention(e_, h_.rules, head_.batch, first_ + r, column, value_lanes(h_.shape, column, kColumns),
                         b_.load(values_, r * Expr(out_width()) + column, kColumns), b_.load(inverse_, r, kColumns, 0));
      });
    });
  }

 private:
  /// A matrix, or packed registers that represent one: where it begins, and the elements of a row or the registers of a
  /// unit.
  struct Factor {
    Buf buffer;
    Expr first;
    int64_t step = 0;
  };

  int64_t rows() const { return tiles_ * kTileRows; }
  int64_t width() const { return parts_.size_units * kUnit; }
  int64_t out_width() const { return parts_.v_tiles * kColumns; }
  Tile sum(int64_t t, int64_t v) const { return registers_[static_cast<size_t>(2 * t + v)]; }
  Tile left(int64_t t) const { return registers_[static_cast<size_t>(2 * tiles_ + t)]; }
  Tile right(int64_t v) const { return registers_[static_cast<size_t>(3 * tiles_ + v)]; }

  /// Copies the queries, and zeros in place of queries that do not exist.
  void copy_queries() {
    const Expr from = b_.let("q0", head_.q + first_ * Expr(h_.q.row));
    const auto each = [&](const Expr& begin, const Expr& end,
                          const std::function<Expr(const Expr&, const Expr&)>& value) {
      b_.loop("r", begin, end, [&](const Expr& r) {
        b_.loop("c", 0, parts_.size_units,
                [&](const Expr& c) { b_.store(queries_, r * Expr(width()) + c * Expr(kUnit), value(r, c)); });
      });
    };
    each(Expr(0), count_, [&](const Expr& r, const Expr& c) {
      return b_.load_raw(q_, from + r * Expr(h_.q.row) + c * Expr(kUnit), kUnit, 1, unit_lanes(h_.shape, c));
    });
    if (h_.shape.queries % rows() != 0)
      each(count_, Expr(rows()), [&](const Expr&, const Expr&) { return zeros(kUnit); });
  }

  /// Stores the product of a matrix with packed registers.
  void multiply(const Factor& a, const Factor& b, int64_t units, const Factor& to) {
    const auto block = [&](const Expr& tile, int64_t count) {
      for (int64_t t = 0; t < tiles_; ++t) {
        for (int64_t v = 0; v < count; ++v) b_.zero(sum(t, v));
      }
      b_.loop("unit", 0, units, [&](const Expr& unit) {
        const Expr packed = b_.let("b", b.first + (unit * Expr(b.step) + tile) * Expr(kRegister));
        for (int64_t v = 0; v < count; ++v) b_.load_tile(right(v), b.buffer, packed + Expr(v * kRegister), kUnit);
        for (int64_t t = 0; t < tiles_; ++t) {
          b_.load_tile(left(t), a.buffer, a.first + Expr(t * kTileRows * a.step) + unit * Expr(kUnit), a.step);
          for (int64_t v = 0; v < count; ++v) b_.dot_tiles(sum(t, v), left(t), right(v));
        }
      });
      for (int64_t t = 0; t < tiles_; ++t) {
        for (int64_t v = 0; v < count; ++v)
          b_.store_tile(to.buffer, Expr(t * kTileRows * to.step) + (tile + Expr(v)) * Expr(kColumns), to.step,
                        sum(t, v));
      }
    };
    b_.loop("tile", 0, b.step / 2, [&](const Expr& pair) { block(pair * Expr(2), 2); });
    if (b.step % 2 > 0) block(Expr(b.step - 1), 1);
  }

  /// Calls body(key, lanes that exist) for each vector of keys.
  void each_vector(const std::function<void(const Expr& key, const Expr& mask)>& body) {
    const int64_t keys = h_.shape.keys, whole = keys / kColumns;
    b_.loop("j", 0, whole, [&](const Expr& j) { body(j * Expr(kColumns), {}); });
    if (keys % kColumns > 0) body(Expr(whole * kColumns), first_lanes(Expr(keys % kColumns), kColumns));
  }

  Expr score(const Expr& row, const Expr& key, const Expr& mask) {
    Expr value =
        b_.load(scores_, row * Expr(parts_.keys()) + key, kColumns) * imm(DType::f32, h_.rules.scale, kColumns);
    if (h_.mask.value == kNone) return value;
    const Expr query = min(first_ + row, Expr(h_.shape.queries - 1));
    const Expr at = head_.mask + query * Expr(h_.mask.row) + key * Expr(h_.mask.column);
    return value + b_.load(mask_, at, kColumns, h_.mask.column, mask);
  }

  /// Turns the scores of the rows of a tile register into weights, and sets the inverse of their sums.
  void weigh(int64_t first) {
    const Expr lowest = imm(DType::f32, std::numeric_limits<float>::lowest(), kColumns);
    std::vector<int32_t> most;
    for (int64_t r = 0; r < kTileRows; ++r) most.push_back(b_.reg("most", lowest));
    each_vector([&](const Expr& key, const Expr& mask) {
      for (int64_t r = 0; r < kTileRows; ++r) {
        const Expr value = score(Expr(first + r), key, mask);
        const int32_t reg = most[static_cast<size_t>(r)];
        b_.set(reg, max(b_.get(reg), mask.defined() ? select(mask, value, lowest) : value));
      }
    });
    std::vector<Expr> all;
    for (const int32_t reg : most) all.push_back(b_.get(reg));
    b_.store(most_, Expr(first), reduce_lanes(b_, Op::max, all));
    b_.loop("rows", first, first + kTileRows, kRowsAtOnce, [&](const Expr& row) { exponentials(row); });
    all.clear();
    for (int64_t r = 0; r < kTileRows; ++r) all.push_back(b_.load(sums_, Expr((first + r) * kColumns), kColumns));
    b_.store(inverse_, Expr(first), inverse_of_sum(h_.rules, b_.let("sum", reduce_lanes(b_, Op::add, all))));
  }

  void exponentials(const Expr& row) {
    const Expr zero = imm(DType::f32, 0, kColumns);
    std::vector<int32_t> sums;
    std::vector<Expr> most;
    for (int64_t r = 0; r < kRowsAtOnce; ++r) {
      sums.push_back(b_.reg("sum", zero));
      most.push_back(b_.let("m", b_.load(most_, row + Expr(r), kColumns, 0)));
    }
    each_vector([&](const Expr& key, const Expr& mask) {
      for (int64_t r = 0; r < kRowsAtOnce; ++r) {
        const auto i = static_cast<size_t>(r);
        const Expr power = unary(Op::exp, min(zero, score(row + Expr(r), key, mask) - most[i]));
        const Expr weight = b_.let("e", mask.defined() ? select(mask, power, zero) : power);
        b_.set(sums[i], b_.get(sums[i]) + weight);
        b_.store(weights_, (row + Expr(r)) * Expr(parts_.keys()) + key, cast(DType::bf16, weight));
      }
    });
    for (int64_t r = 0; r < kRowsAtOnce; ++r) {
      const int64_t written = round_up(h_.shape.keys, kColumns);
      if (written < parts_.keys())
        b_.store(weights_, (row + Expr(r)) * Expr(parts_.keys()) + Expr(written), zeros(kColumns));
      b_.store(sums_, (row + Expr(r)) * Expr(kColumns), b_.get(sums[static_cast<size_t>(r)]));
    }
  }

  Emitter& e_;
  LoopBuilder& b_;
  const AttentionProblem& h_;
  const Parts parts_;
  int64_t tiles_;
  AttentionHead head_;
  Expr first_, count_;  ///< queries of the block
  Buf q_, mask_, kt_, vt_, queries_, scores_, weights_, values_, most_, sums_, inverse_;
  std::span<const Tile> registers_;
};

class AttentionAmx final : public Analysed {
 public:
  AttentionAmx(const Task& task, const CpuLimits& limits, AttentionProblem heads)
      : Analysed(task, limits), h_(std::move(heads)) {}

  std::vector<Knob> space() const override { return {{"tiles", {1, 2}}}; }
  std::vector<Schedule> candidates() const override {
    std::vector<Schedule> all;
    for (const int64_t tiles : {2, 1}) {
      if (!conflict(tiles)) all.push_back({"attention_amx", {{"tiles", tiles}}});
    }
    return all;
  }
  Result<Schedule> pick() const override {
    if (auto rejected = conflict(1)) return *rejected;
    return pick_amx(task(), limits(), "attention_rows", candidates(),
                    [&](const Schedule& s) { return model(s).cycles; });
  }

 private:
  std::optional<Rejected> conflict(const Schedule& schedule) const override { return conflict(schedule.knob("tiles")); }
  std::optional<Rejected> conflict(int64_t tiles) const {
    const int64_t bytes = tiles * kTileRows * Parts(h_.shape).keys() * 4, most = limits().l2_bytes / 4;
    if (bytes > most) return Rejected{"bytes of the scores of a block", std::to_string(most), std::to_string(bytes)};
    return std::nullopt;
  }

  Estimate model(const Schedule& schedule) const override {
    constexpr double kExponential = 20;  // cycles per vector of scores: maximum, exponential, sum
    constexpr double kPacking = 8;       // cycles per row of a packed tile register
    const FusedAttentionShape& s = h_.shape;
    const Parts parts(s);
    const int64_t rows = schedule.knob("tiles") * kTileRows, blocks = ceil_div(s.queries, rows);
    const int64_t packed = parts.size_units * parts.key_tiles + parts.key_units * parts.v_tiles;
    const double products = static_cast<double>(blocks * schedule.knob("tiles") * packed) * limits().tile_dot_cycles;
    const double scores = static_cast<double>(blocks * rows * parts.key_tiles) * kExponential;
    const double packing = static_cast<double>(packed * kTileRows) * kPacking;
    Estimate out;
    out.cycles = static_cast<double>(elems(s.batch)) * (products + scores + packing);
    out.tail = 1 - static_cast<double>(s.queries) / static_cast<double>(blocks * rows);
    return out;
  }

  Lowered emit(const Schedule& schedule) const override {
    const Parts parts(h_.shape);
    const int64_t heads = elems(h_.shape.batch), bytes = size_bytes(DType::bf16);
    Lowered lowered;
    lowered.temp_bytes = {heads * parts.key_elems() * bytes, heads * parts.value_elems() * bytes};
    Emitter packer(task(), "attention_amx_pack");
    Packer(packer, h_).run();
    lowered.stages.push_back(packer.finish(lowered));
    lowered.stages.back().packs = true;
    Emitter e(task(), "attention_amx");
    BlockEmitter(e, h_, schedule.knob("tiles")).run();
    lowered.stages.push_back(e.finish(lowered));
    return lowered;
  }

  const AttentionProblem h_;
};

}  // namespace

const Template attention_amx{"attention_amx", "softmax(q k') v by blocks of queries, with tile registers (AMX)",
                             analyse_as<AttentionAmx, analyse>};

}  // namespace kilter
