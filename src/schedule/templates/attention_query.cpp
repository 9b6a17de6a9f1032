// Attention of one query, as in a step of a decoder. The scores of all keys are kept, and vectors run along the head,
// so no lane is idle.
//
//   p[keys]      q k' scaled, for as many keys at a time as a vector has lanes; then their exponentials
//   y[v_size]    p v, divided by the sum of p
//
// attention_rows would use one lane of its vectors of queries.

#include <algorithm>
#include <limits>
#include <tuple>

#include "base/align.h"
#include "schedule/model/loop_model.h"
#include "schedule/templates/attention_problem.h"
#include "schedule/templates/lane_sums.h"
#include "schedule/templates/templates.h"
#include "schedule/templates/tile_split.h"

namespace kilter {
namespace {

Result<AttentionProblem> analyse(const Task& task, const CpuLimits& limits) {
  Result<AttentionProblem> heads = attention_problem(task, limits);
  if (!heads) return heads;
  if (heads->shape.queries != 1) return Rejected{"queries", "1", std::to_string(heads->shape.queries)};
  const FusedAttentionShape& s = heads->shape;
  for (const auto& [what, operand, size] :
       {std::tuple("keys", &heads->k, s.size), std::tuple("values", &heads->v, s.v_size)}) {
    if (operand->column != 1 && size > 1)
      return Rejected{fmt::format("distance of the elements of {}", what), "1", std::to_string(operand->column)};
  }
  return heads;
}

class QueryEmitter {
 public:
  QueryEmitter(Emitter& e, const AttentionProblem& h, int32_t lanes)
      : e_(e), b_(e.b), h_(h), lanes_(lanes), head_(parallel_heads(e.b, h)) {
    q_ = e.input(h.q.value), k_ = e.input(h.k.value), v_ = e.input(h.v.value);
    if (h.mask.value != kNone) mask_ = e.input(h.mask.value);
    p_ = b_.scratch("p", DType::f32, round_up(h.shape.keys, lanes));
  }

  void run() {
    const Expr most = score_keys();
    const Expr inverse = inverse_of_sum(h_.rules, weigh(most));
    const int64_t vectors = ceil_div(h_.shape.v_size, lanes_), wide = std::min(vectors, kMostVectors);
    const Expr factor = broadcast(b_.let("inverse", inverse), lanes_);
    b_.loop("g", 0, vectors / wide, [&](const Expr& g) { mix(g * Expr(wide * lanes_), wide, factor); });
    if (vectors % wide > 0) mix(Expr(vectors / wide * wide * lanes_), vectors % wide, factor);
  }

 private:
  static constexpr int64_t kMostVectors = 8;  ///< of sums

  /// Computes p and returns the largest score.
  Expr score_keys() {
    const int32_t most = b_.reg("most", imm(DType::f32, std::numeric_limits<float>::lowest(), lanes_));
    const TileSplit split(h_.shape.keys, lanes_, true);
    b_.loop("t", 0, split.whole(), [&](const Expr& t) {
      const Expr key = split.begin(b_, t);
      b_.set(most, max(b_.get(most), score(key, lanes_)));
    });
    const Expr whole = lane_reduce(Op::max, b_.get(most));
    if (split.rest() == 0) return b_.let("m", whole);
    const int32_t single = b_.reg("most", whole);
    b_.loop("key", h_.shape.keys - split.rest(), h_.shape.keys,
            [&](const Expr& key) { b_.set(single, max(b_.get(single), score(key, 1))); });
    return b_.let("m", b_.get(single));
  }

  /// Stores the scores of `count` keys, one or as many as lanes, and returns them.
  Expr score(const Expr& key, int32_t count) {
    std::vector<int32_t> sums;
    for (int32_t r = 0; r < count; ++r) sums.push_back(b_.reg("acc", imm(DType::f32, 0, lanes_)));
    const Expr from = b_.let("k0", head_.k + key * Expr(h_.k.row));
    const auto add = [&](const Expr& c, const Expr& mask) {
      const Expr q = b_.let("q", b_.load(q_, head_.q + c * Expr(h_.q.column), lanes_, h_.q.column, mask));
      for (int32_t r = 0; r < count; ++r) {
        const int32_t sum = sums[static_cast<size_t>(r)];
        b_.set(sum, fma(b_.load(k_, from + Expr(r * h_.k.row) + c, lanes_, 1, mask), q, b_.get(sum)));
      }
    };
    const int64_t rest = h_.shape.size % lanes_, whole = h_.shape.size - rest;
    b_.loop("c", 0, whole, lanes_, [&](const Expr& c) { add(c, {}); });
    if (rest > 0) add(Expr(whole), first_lanes(Expr(rest), lanes_));
    std::vector<Expr> vectors;
    for (const int32_t sum : sums) vectors.push_back(b_.get(sum));
    Expr scores = reduce_lanes(b_, Op::add, std::move(vectors)) * imm(DType::f32, h_.rules.scale, count);
    if (h_.mask.value != kNone)
      scores = scores + b_.load(mask_, head_.mask + key * Expr(h_.mask.column), count, h_.mask.column);
    scores = b_.let("score", scores);
    b_.store(p_, key, scores);
    return scores;
  }

  /// Replaces p by exp(p - most) and returns the sum.
  Expr weigh(const Expr& most) {
    const int32_t sum = b_.reg("sum", imm(DType::f32, 0, lanes_));
    const Expr zero = imm(DType::f32, 0, lanes_), all = broadcast(most, lanes_);
    b_.loop("key", 0, h_.shape.keys, lanes_, [&](const Expr& key) {
      const Expr used = first_lanes(Expr(h_.shape.keys) - key, lanes_);
      const Expr shifted = b_.load(p_, key, lanes_, 1, used) - all;
      const Expr power = b_.let("e", select(used, unary(Op::exp, min(zero, shifted)), zero));
      b_.store(p_, key, power);
      b_.set(sum, b_.get(sum) + power);
    });
    return b_.let("total", lane_reduce(Op::add, b_.get(sum)));
  }

  /// Computes `vectors` vectors of the result from `column` on. The sums of a vector go to several registers in turn,
  /// so that multiplications need not wait for each other.
  void mix(const Expr& column, int64_t vectors, const Expr& inverse) {
    const int64_t turns = std::max<int64_t>(1, kMostVectors / vectors);
    std::vector<int32_t> sums;
    for (int64_t i = 0; i < turns * vectors; ++i) sums.push_back(b_.reg("acc", imm(DType::f32, 0, lanes_)));
    const auto mask = [&](int64_t v) { return value_lanes(h_.shape, column + Expr(v * lanes_), lanes_); };
    const auto add = [&](const Expr& key, int64_t turn) {
      const Expr p = broadcast(b_.let("w", b_.load(p_, key)), lanes_);
      for (int64_t v = 0; v < vectors; ++v) {
        const int32_t sum = sums[static_cast<size_t>(turn * vectors + v)];
        const Expr at = head_.v + key * Expr(h_.v.row) + column + Expr(v * lanes_);
        b_.set(sum, fma(b_.load(v_, at, lanes_, 1, mask(v)), p, b_.get(sum)));
      }
    };
    const int64_t whole = h_.shape.keys / turns * turns;
    b_.loop("key", 0, whole, turns, [&](const Expr& key) {
      for (int64_t turn = 0; turn < turns; ++turn) add(key + Expr(turn), turn);
    });
    b_.loop("key", whole, h_.shape.keys, [&](const Expr& key) { add(key, 0); });
    for (int64_t v = 0; v < vectors; ++v) {
      Expr y = b_.get(sums[static_cast<size_t>(v)]);
      for (int64_t turn = 1; turn < turns; ++turn) y = y + b_.get(sums[static_cast<size_t>(turn * vectors + v)]);
      finish_attention(e_, h_.rules, head_.batch, Expr(0), column + Expr(v * lanes_), mask(v), y, inverse);
    }
  }

  Emitter& e_;
  LoopBuilder& b_;
  const AttentionProblem& h_;
  int32_t lanes_;
  const AttentionHead head_;
  Buf q_, k_, v_, mask_, p_;
};

class AttentionQuery final : public LoopModel {
 public:
  AttentionQuery(const Task& task, const CpuLimits& limits, AttentionProblem heads)
      : LoopModel(task, limits), h_(std::move(heads)) {}
  std::vector<Knob> space() const override { return {}; }

 private:
  Schedule usual() const override { return {"attention_query", {}}; }
  Lowered emit(const Schedule&) const override {
    Emitter e(task(), "attention_query");
    QueryEmitter(e, h_, lanes_of(limits())).run();
    return e.finish();
  }

  const AttentionProblem h_;
};

}  // namespace

const Template attention_query{"attention_query", "softmax(q k') v of one query, with vectors along the head",
                               analyse_as<AttentionQuery, analyse>};

}  // namespace kilter
