// Attention y = softmax(scale q k' + mask) v, one block of queries of one head at a time, so that only the scores of
// one block are in memory. Scores are computed transposed, [keys][queries]: vectors run over queries, so keys are read
// in place, and maxima and sums need no operation across lanes.
//
//   qt[size][queries]     the block's queries, scaled, transposed
//   p[keys][queries]      scores (register tiles of keys x vectors of queries), then their exponentials
//   y[queries][v_size]    p' v (register tiles of queries x vectors of v), divided by the sums of p
//
// If q, k and v are stored as bf16 and the target multiplies pairs of bf16, both products use such pairs: the
// exponentials are rounded to bf16, and the values are packed in pairs of keys for each block of queries.
//
// If the keys do not fit in the cache, they are processed in blocks. Maxima and sums carry over, and sums accumulated
// under an older maximum are rescaled to the new one (the online softmax of Milakov and Gimelshein, 2018).

#include <algorithm>
#include <bit>

#include "base/align.h"
#include "schedule/templates/attention_core.h"
#include "schedule/templates/templates.h"

namespace kilter {
namespace {

// --- the default ---

constexpr int64_t kMaxScoreVectors = 4, kMaxOutVectors = 8;

int64_t most_rows(int64_t vectors, const CpuLimits& limits) {
  return std::max<int64_t>(register_rows(vectors, limits), 1);
}

/// Cycles of one contraction step for all tiles that cover `rows`.
double cycles(int64_t rows, int64_t tile, int64_t vectors, const CpuLimits& limits) {
  const auto step = [&](int64_t r) { return r == 0 ? 0.0 : step_cycles(r, vectors, limits); };
  const int64_t full = rows / tile;
  return static_cast<double>(full) * step(tile) + step(rows % tile);
}

struct Tile {
  int64_t vectors = 1, rows = 1;
  double cost = 0;
};

/// The cheapest number of rows for a tile of `vectors` vectors: as many as fit, or fewer that divide more evenly.
Tile best_rows(int64_t rows, int64_t vectors, const CpuLimits& limits) {
  const int64_t most = std::min(rows, most_rows(vectors, limits));
  const int64_t balanced = ceil_div(rows, ceil_div(rows, most));
  const double full = cycles(rows, most, vectors, limits), even = cycles(rows, balanced, vectors, limits);
  return even < full * 0.99 ? Tile{vectors, balanced, even} : Tile{vectors, most, full};
}

/// The score tile: keys x vectors of queries. All queries of a block form one tile.
Tile score_tile(const FusedAttentionShape& s, const CpuLimits& limits) {
  const int64_t vectors = ceil_div(s.queries, lanes_of(limits));
  Tile best;
  for (int64_t v : {2, 1, 3, 4}) {
    if (v > vectors && v > 1) continue;
    Tile t = best_rows(s.keys, v, limits);
    const int64_t rest = vectors % v;
    const int64_t groups = vectors / v;
    t.cost *= static_cast<double>(groups);
    if (rest > 0) t.cost += cycles(s.keys, t.rows, rest, limits);
    if (best.cost == 0 || t.cost < best.cost * 0.97) best = t;
  }
  return best;
}

/// The output tile: queries of a block x vectors of v.
Tile output_tile(const FusedAttentionShape& s, int64_t queries, const CpuLimits& limits) {
  const int64_t vectors = ceil_div(s.v_size, lanes_of(limits));
  Tile best;
  for (int64_t v = 1; v <= std::min(vectors, kMaxOutVectors); ++v) {
    Tile t = best_rows(std::min(queries, s.queries), v, limits);
    const int64_t groups = vectors / v;
    t.cost *= static_cast<double>(groups);
    if (vectors % v > 0) t.cost += cycles(std::min(queries, s.queries), t.rows, vectors % v, limits);
    if (best.cost == 0 || t.cost < best.cost * 0.99) best = t;
  }
  return best;
}

/// Keys per block: all, unless the scores of a block of queries fill more than a quarter of L2.
int64_t keys_of(const FusedAttentionShape& s, int64_t queries, const CpuLimits& limits) {
  int64_t keys = s.keys;
  if (keys * queries * 4 > limits.l2_bytes / 4) {
    for (keys = 16; keys * 2 * queries * 4 <= limits.l2_bytes / 4;) keys *= 2;
  }
  return std::min(keys, s.keys);
}

/// keys_of() for a layer that will run with other numbers of keys: a power of two.
int64_t open_keys_of(const FusedAttentionShape& s, int64_t queries, const CpuLimits& limits) {
  return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(keys_of(s, queries, limits))));
}

Schedule schedule_of(const AttentionProblem& h, const Tile& scores, const Tile& out, const CpuLimits& limits) {
  const int64_t queries = scores.vectors * lanes_of(limits);
  return {"attention_rows",
          {{"vectors", scores.vectors},
           {"rows", scores.rows},
           {"keys", h.overlap ? open_keys_of(h.shape, queries, limits) : keys_of(h.shape, queries, limits)},
           {"out_vectors", out.vectors},
           {"out_rows", out.rows}}};
}

/// Cycles of one head, with the limits of its multiplications: scores of all blocks of queries, their exponentials, and
/// outputs. The online softmax rescales the outputs for each block of keys.
double head_cycles(const AttentionProblem& h, const Schedule& schedule, const CpuLimits& limits) {
  constexpr double kExponential = 20;  // cycles per vector of scores: maximum, exponential, sum
  constexpr double kPair = 4;          // cycles to pack a vector of pairs of v
  const FusedAttentionShape& s = h.shape;
  const int64_t group = h.multiplicands.group;
  const int64_t lanes = lanes_of(limits), keys = schedule.knob("keys");
  const auto panels = [&](int64_t rows, int64_t columns, std::string_view tile, std::string_view vectors) {
    const int64_t v = schedule.knob(vectors), all = ceil_div(columns, lanes);
    const double rest = all % v > 0 ? cycles(rows, schedule.knob(tile), all % v, limits) : 0;
    return static_cast<double>(all / v) * cycles(rows, schedule.knob(tile), v, limits) + rest;
  };
  const int64_t width = schedule.knob("vectors") * lanes, blocks = ceil_div(s.keys, keys);
  const auto block = [&](int64_t queries) {
    if (queries == 0) return 0.0;
    const auto scores = static_cast<double>(s.keys * ceil_div(queries, lanes));
    const auto outputs = static_cast<double>(queries * ceil_div(s.v_size, lanes));
    const auto pairs = static_cast<double>(group > 1 ? ceil_div(s.keys, group) * ceil_div(s.v_size, lanes) : 0);
    return static_cast<double>(ceil_div(s.size, group)) * panels(s.keys, queries, "rows", "vectors") +
           scores * kExponential + pairs * kPair +
           static_cast<double>(ceil_div(s.keys, group)) * panels(queries, s.v_size, "out_rows", "out_vectors") +
           (blocks > 1 ? 2 * outputs * static_cast<double>(blocks) : 0);
  };
  return static_cast<double>(s.queries / width) * block(width) + block(s.queries % width);
}

class AttentionRows final : public Analysed {
 public:
  AttentionRows(const Task& task, const CpuLimits& limits, AttentionProblem heads)
      : Analysed(task, limits), h_(std::move(heads)) {}

  std::vector<Knob> space() const override {
    const FusedAttentionShape& s = h_.shape;
    Knob vectors{"vectors", {1, 2, 3, 4}}, rows{"rows", {}}, keys{"keys", {}};
    Knob out_vectors{"out_vectors", {1, 2, 3, 4, 5, 6, 7, 8}}, out_rows{"out_rows", {}};
    for (int64_t r = 1; r <= most_rows(1, limits()); ++r) rows.values.push_back(r), out_rows.values.push_back(r);
    constexpr int64_t kMostOpen = 1 << 20;
    for (int64_t k = h_.overlap ? 1 : 16; k < (h_.overlap ? kMostOpen : s.keys); k *= 2) keys.values.push_back(k);
    keys.values.push_back(s.keys);
    return {vectors, rows, keys, out_vectors, out_rows};
  }
  Result<Schedule> pick() const override {
    const FusedAttentionShape& s = h_.shape;
    const Tile scores = score_tile(s, products());
    return schedule_of(h_, scores, output_tile(s, scores.vectors * lanes_of(limits()), products()), limits());
  }
  /// The best rows for each combination of score vectors and output vectors.
  std::vector<Schedule> candidates() const override {
    std::vector<Schedule> all;
    const FusedAttentionShape& s = h_.shape;
    const int64_t lanes = lanes_of(limits());
    for (int64_t v = 1; v <= std::clamp<int64_t>(ceil_div(s.queries, lanes), 1, kMaxScoreVectors); ++v) {
      const int64_t queries = std::min(v * lanes, s.queries);
      for (int64_t o = 1; o <= std::min(ceil_div(s.v_size, lanes), kMaxOutVectors); ++o)
        all.push_back(schedule_of(h_, best_rows(s.keys, v, products()), best_rows(queries, o, products()), limits()));
    }
    return all;
  }

 private:
  CpuLimits products() const { return h_.multiplicands.limits(limits()); }

  std::optional<Rejected> conflict(const Schedule& schedule) const override {
    for (const auto& [vectors, rows] : {std::pair("vectors", "rows"), std::pair("out_vectors", "out_rows")}) {
      const int64_t most = most_rows(schedule.knob(vectors), limits());
      if (schedule.knob(rows) > most) {
        return Rejected{fmt::format("register tile ({} with {} {} each)", rows, schedule.knob(vectors), vectors),
                        std::to_string(most), std::to_string(schedule.knob(rows))};
      }
    }
    return std::nullopt;
  }

  Estimate model(const Schedule& schedule) const override {
    const FusedAttentionShape& s = h_.shape;
    const int64_t lanes = lanes_of(limits()), padded = ceil_div(s.queries, lanes) * lanes;
    const double filled = static_cast<double>(s.queries) / static_cast<double>(padded);
    return {static_cast<double>(elems(s.batch)) * head_cycles(h_, schedule, products()), 1 - filled};
  }

  Lowered emit(const Schedule& schedule) const override {
    Emitter e(task(), "attention_rows");
    emit_attention(e, h_, schedule, lanes_of(limits()));
    return e.finish();
  }

  const AttentionProblem h_;
};

}  // namespace

const Template attention_rows{"attention_rows", "softmax(q k') v by blocks of queries, scores in cache only",
                              analyse_as<AttentionRows, attention_problem>};

}  // namespace kilter
