#include "schedule/templates/attention_core.h"

#include <algorithm>
#include <limits>

#include "base/align.h"

namespace kilter {
namespace {

constexpr double kLowest = std::numeric_limits<float>::lowest();

/// Emits the kernel: the constructor emits the parallel dimensions, and block() emits the queries of one iteration.
class HeadEmitter {
 public:
  HeadEmitter(Emitter& e, const AttentionProblem& h, const Schedule& schedule, int32_t lanes)
      : e_(e),
        b_(e.b),
        h_(h),
        m_(h.multiplicands),
        lanes_(lanes),
        width_(schedule.knob("vectors") * lanes),
        score_rows_(schedule.knob("rows")),
        key_block_(std::min(schedule.knob("keys"), h.shape.keys)),
        out_vectors_(schedule.knob("out_vectors")),
        out_rows_(schedule.knob("out_rows")),
        last_keys_(keys_after_blocks()),
        head_(parallel_heads(e.b, h)) {
    blocks_ = ceil_div(h.shape.queries, width_);
    block_ = b_.parallel("block", TileSplit(h.shape.queries, width_, h.overlap).items(1));
    bind();
  }

  void run() {
    const int64_t rest = h_.shape.queries % width_;
    if (h_.overlap && h_.shape.queries >= width_) {
      const TileSplit split(h_.shape.queries, width_, true);
      return b_.loop("i", block_, split.end_of_item(block_, 1), [&](const Expr& i) {
        first_ = split.begin(b_, i);
        block(width_);
      });
    }
    first_ = b_.let("first", block_ * Expr(width_));
    if (rest == 0) return block(width_);
    if (blocks_ == 1) return block(rest);
    b_.if_then(binary(Op::eq, block_, Expr(blocks_ - 1)), [&] { block(rest); }, [&] { block(width_); });
  }

 private:
  bool online() const { return key_block_ < h_.shape.keys; }

  /// The keys after the whole blocks. In a kernel for many lengths, these are at least a tile of scores, so that one
  /// form of the kernel serves all of them.
  int64_t keys_after_blocks() const {
    const int64_t keys = h_.shape.keys;
    return h_.overlap ? keys - std::max<int64_t>(keys - score_rows_, 0) / key_block_ * key_block_ : keys % key_block_;
  }
  int64_t padded_size() const { return ceil_div(h_.shape.v_size, lanes_) * lanes_; }

  void bind() {
    q_ = e_.input(h_.q.value), k_ = e_.input(h_.k.value), v_ = e_.input(h_.v.value);
    if (h_.constant_mask != nullptr) {
      pack_mask();
    } else if (h_.mask.value != kNone) {
      mask_ = e_.input(h_.mask.value);
    }
    qt_ = b_.scratch("qt", m_.type, ceil_div(h_.shape.size, m_.group) * m_.group * width_);
    const int64_t most_keys = std::max(key_block_, last_keys_);
    p_ = b_.scratch("p", DType::f32, most_keys * width_);
    if (m_.group > 1) {
      const int64_t keys = ceil_div(most_keys, m_.group) * m_.group;
      weights_ = b_.scratch("weights", m_.type, keys * width_);
      vt_ = b_.scratch("vt", m_.type, keys * padded_size());
    }
    inverse_ = b_.scratch("inverse", DType::f32, width_);
    if (online()) {
      factor_ = b_.scratch("factor", DType::f32, width_);
      y_ = b_.scratch("y", DType::f32, width_ * padded_size());
    }
  }

  /// Packs a constant mask transposed, [batch...][keys][queries], with queries padded to whole blocks.
  void pack_mask() {
    const Shape& own = h_.constant_mask->shape();
    const int64_t rows = own[own.size() - 2], columns = own.back(), matrices = elems(own) / (rows * columns);
    const int64_t padded = blocks_ * width_;
    Tensor packed(DType::f32, {matrices * columns * padded});
    const float* from = h_.constant_mask->data<float>();
    for (int64_t i = 0; i < elems(own); ++i) {
      const int64_t matrix = i / (rows * columns), r = i / columns % rows, c = i % columns;
      packed.data<float>()[(matrix * columns + c) * padded + r] = from[i];
    }
    mask_ = e_.constant(std::move(packed), "mask");
    head_.mask = 0;
    for (size_t d = 0; d < head_.batch.size(); ++d) {
      head_.mask = head_.mask + head_.batch[d] * Expr(h_.mask.batch[d] / (rows * columns) * (columns * padded));
    }
    mask_column_ = columns == 1 ? 0 : padded, mask_row_ = 1;
  }

  /// Emits `count` queries from first_ on.
  void block(int64_t count) {
    const FusedAttentionShape& s = h_.shape;
    count_ = count;
    vectors_ = ceil_div(count, lanes_);
    most_.clear(), sum_.clear();
    pack_queries();
    for (int64_t v = 0; v < vectors_; ++v) {
      most_.push_back(b_.reg("most", imm(DType::f32, kLowest, lanes_)));
      sum_.push_back(b_.reg("sum", imm(DType::f32, 0, lanes_)));
    }
    if (!online()) {
      pack_values(0, s.keys);
      score_keys(0, s.keys);
      weigh(s.keys);
      invert_sums();
      return for_output_tiles([&](const Expr& row, int64_t rows, const Expr& column, int64_t vectors) {
        mix(0, s.keys, row, rows, column, vectors);
      });
    }
    for_output_tiles([&](const Expr& row, int64_t rows, const Expr& column, int64_t vectors) {
      each(rows, vectors,
           [&](int64_t r, int64_t v) { b_.store(y_, partial(row, r, column, v), imm(DType::f32, 0, lanes_)); });
    });
    b_.loop("keys", 0, s.keys - last_keys_, key_block_, [&](const Expr& key) { add_keys(key, key_block_); });
    if (last_keys_ > 0) add_keys(Expr(s.keys - last_keys_), last_keys_);
    invert_sums();
    for_output_tiles([&](const Expr& row, int64_t rows, const Expr& column, int64_t vectors) {
      each(rows, vectors, [&](int64_t r, int64_t v) {
        finish(row + Expr(r), column + Expr(v * lanes_), b_.load(y_, partial(row, r, column, v), lanes_));
      });
    });
  }

  /// Online softmax: adds `count` keys from `key` on to y_, sum_ and most_.
  void add_keys(const Expr& key, int64_t count) {
    pack_values(key, count);
    std::vector<Expr> before;
    for (int32_t reg : most_) before.push_back(b_.let("before", b_.get(reg)));
    score_keys(key, count);
    for (size_t v = 0; v < before.size(); ++v) {
      const Expr factor = b_.let("factor", unary(Op::exp, before[v] - b_.get(most_[v])));
      b_.store(factor_, Expr(static_cast<int64_t>(v) * lanes_), factor);
      b_.set(sum_[v], b_.get(sum_[v]) * factor);
    }
    weigh(count);
    for_output_tiles([&](const Expr& row, int64_t rows, const Expr& column, int64_t vectors) {
      mix(key, count, row, rows, column, vectors);
    });
  }

  /// Sets qt[c][r] = scale * q[first + r][c]; lanes without a query are 0. With groups, qt[c / group][r][c % group] are
  /// the stored elements of q, and the scores are scaled.
  void pack_queries() {
    const Expr base = b_.let("q0", head_.q + first_ * Expr(h_.q.row));
    if (m_.group > 1) return pack_query_groups(base);
    const Expr scale = imm(DType::f32, h_.rules.scale);
    const bool whole = count_ % lanes_ == 0;
    b_.loop("c", 0, h_.shape.size, [&](const Expr& c) {
      for (int64_t v = 0; v < vectors_; ++v) {
        const Expr from = base + c * Expr(h_.q.column) + Expr(v * lanes_ * h_.q.row);
        b_.store(qt_, c * Expr(width_) + Expr(v * lanes_),
                 whole ? b_.load(q_, from, lanes_, h_.q.row) * broadcast(scale, lanes_) : imm(DType::f32, 0, lanes_));
      }
    });
    if (whole) return;
    b_.loop("r", 0, count_, [&](const Expr& r) {
      b_.loop("c", 0, h_.shape.size, [&](const Expr& c) {
        b_.store(qt_, c * Expr(width_) + r, b_.load(q_, base + r * Expr(h_.q.row) + c * Expr(h_.q.column)) * scale);
      });
    });
  }

  void pack_query_groups(const Expr& base) {
    const auto zeros = [&](int64_t lanes) { return imm(m_.type, 0, static_cast<int32_t>(lanes)); };
    const int64_t groups = ceil_div(h_.shape.size, m_.group), rest = h_.shape.size % m_.group;
    if (rest > 0 || count_ % lanes_ != 0) {
      b_.loop("c", 0, groups, [&](const Expr& c) {
        for (int64_t v = 0; v < vectors_; ++v)
          b_.store(qt_, (c * Expr(width_) + Expr(v * lanes_)) * Expr(m_.group), zeros(lanes_ * m_.group));
      });
    }
    b_.loop("r", 0, count_, [&](const Expr& r) {
      const auto copy = [&](const Expr& c, int64_t count) {
        const Expr from = base + r * Expr(h_.q.row) + c * Expr(m_.group * h_.q.column);
        b_.store(qt_, (c * Expr(width_) + r) * Expr(m_.group),
                 b_.load_raw(q_, from, static_cast<int32_t>(count), h_.q.column));
      };
      b_.loop("c", 0, h_.shape.size / m_.group, [&](const Expr& c) { copy(c, m_.group); });
      if (rest > 0) copy(Expr(groups - 1), rest);
    });
  }

  /// Sets vt[j / 2][column][j % 2] = v[key + j][column] for `count` keys, if products are of pairs. Past the last key
  /// and the last column it is 0.
  void pack_values(const Expr& key, int64_t count) {
    if (m_.group == 1) return;
    const auto pair = [&](const Expr& j, bool both) {
      b_.loop("g", 0, padded_size(), lanes_, [&](const Expr& column) {
        const auto row = [&](int64_t i) {
          const Expr at = head_.v + (key + j * Expr(2) + Expr(i)) * Expr(h_.v.row) + column * Expr(h_.v.column);
          return b_.load_raw(v_, at, lanes_, h_.v.column, column_mask(column));
        };
        const Expr second = both ? row(1) : imm(m_.type, 0, lanes_);
        b_.store(vt_, (j * Expr(padded_size()) + column) * Expr(2), interleaved(row(0), second));
      });
    };
    b_.loop("j", 0, count / 2, [&](const Expr& j) { pair(j, true); });
    if (count % 2 > 0) pair(Expr(count / 2), false);
  }

  /// Computes p, the scores of `count` keys from `key` on, and raises most_.
  void score_keys(const Expr& key, int64_t count) {
    for_tiles(count, score_rows_, true, [&](const Expr& row, int64_t rows) { score_tile(key, row, rows); });
  }

  void score_tile(const Expr& key, const Expr& row, int64_t rows) {
    std::vector<int32_t> acc = zeros(rows, vectors_);
    const Expr from = b_.let("k0", head_.k + (key + row) * Expr(h_.k.row));
    contract(h_.shape.size, [&](const Expr& c, int64_t pieces) {
      std::vector<Expr> w;
      for (int64_t v = 0; v < vectors_; ++v) {
        const Expr at = (c * Expr(width_) + Expr(v * lanes_)) * Expr(m_.group);
        w.push_back(b_.let("w", m_.columns(b_, qt_, at, lanes_)));
      }
      for (int64_t r = 0; r < rows; ++r) {
        const Expr at = from + Expr(r * h_.k.row) + c * Expr(m_.group * h_.k.column);
        const Expr x = b_.let("x", m_.spread(b_, k_, at, lanes_, pieces));
        for (int64_t v = 0; v < vectors_; ++v)
          add(acc[static_cast<size_t>(r * vectors_ + v)], x, w[static_cast<size_t>(v)]);
      }
    });
    for (int64_t v = 0; v < vectors_; ++v) {
      Expr most = b_.get(most_[static_cast<size_t>(v)]);
      for (int64_t r = 0; r < rows; ++r) {
        Expr score = b_.get(acc[static_cast<size_t>(r * vectors_ + v)]);
        if (m_.group > 1) score = score * imm(DType::f32, h_.rules.scale, lanes_);
        if (h_.mask.value != kNone) score = score + mask(key + row + Expr(r), v);
        score = b_.let("score", score);
        b_.store(p_, (row + Expr(r)) * Expr(width_) + Expr(v * lanes_), score);
        most = max(most, score);
      }
      b_.set(most_[static_cast<size_t>(v)], most);
    }
  }

  Expr mask(const Expr& key, int64_t v) {
    const int64_t row = h_.constant_mask != nullptr ? mask_row_ : h_.mask.row;
    const int64_t column = h_.constant_mask != nullptr ? mask_column_ : h_.mask.column;
    const Expr at = head_.mask + key * Expr(column) + (first_ + Expr(v * lanes_)) * Expr(row);
    const int64_t left = count_ - v * lanes_;
    const bool whole = row == 0 || h_.constant_mask != nullptr || left >= lanes_;
    return b_.load(mask_, at, lanes_, row, whole ? Expr() : first_lanes(Expr(left), lanes_));
  }

  /// Replaces p by exp(p - most_) for `count` keys and adds it to sum_. With groups, weights_[j / 2][r][j % 2] gets the
  /// result instead, and 0 past the last key.
  void weigh(int64_t count) {
    std::vector<Expr> most;
    for (int32_t reg : most_) most.push_back(b_.let("m", b_.get(reg)));
    const auto power = [&](const Expr& j, int64_t v) {
      const auto i = static_cast<size_t>(v);
      const Expr shifted = b_.load(p_, j * Expr(width_) + Expr(v * lanes_), lanes_) - most[i];
      const Expr e = b_.let("e", unary(Op::exp, min(imm(DType::f32, 0, lanes_), shifted)));
      return e;
    };
    const auto add_to_sum = [&](int64_t v, const Expr& e) {
      const auto i = static_cast<size_t>(v);
      b_.set(sum_[i], b_.get(sum_[i]) + e);
    };
    if (m_.group > 1) return weigh_pairs(count, power, add_to_sum);
    b_.loop("j", 0, count, [&](const Expr& j) {
      for (int64_t v = 0; v < vectors_; ++v) {
        const Expr e = power(j, v);
        b_.store(p_, j * Expr(width_) + Expr(v * lanes_), e);
        add_to_sum(v, e);
      }
    });
  }

  template <class Power, class AddToSum>
  void weigh_pairs(int64_t count, const Power& power, const AddToSum& add_to_sum) {
    const auto pair = [&](const Expr& j, bool both) {
      for (int64_t v = 0; v < vectors_; ++v) {
        Expr word;
        for (int64_t i = 0; i < (both ? 2 : 1); ++i) {
          const Expr e = power(j * Expr(2) + Expr(i), v);
          add_to_sum(v, e);
          const Expr bits = cast(DType::i32, bitcast(DType::u16, cast(m_.type, e)));
          word = i == 0 ? bits : binary(Op::bit_or, word, binary(Op::shl, bits, imm_int(DType::i32, 16, lanes_)));
        }
        b_.store(weights_, (j * Expr(width_) + Expr(v * lanes_)) * Expr(2), bitcast(m_.type, word));
      }
    };
    b_.loop("j", 0, count / 2, [&](const Expr& j) { pair(j, true); });
    if (count % 2 > 0) pair(Expr(count / 2), false);
  }

  void invert_sums() {
    for (int64_t v = 0; v < vectors_; ++v) {
      b_.store(inverse_, Expr(v * lanes_), inverse_of_sum(h_.rules, b_.get(sum_[static_cast<size_t>(v)])));
    }
  }

  /// Calls body(row, rows, column, vectors) for tiles that cover count_ queries and v_size.
  template <class F>
  void for_output_tiles(const F& body) {
    const int64_t total = ceil_div(h_.shape.v_size, lanes_);
    const int64_t wide = std::min(out_vectors_, total), groups = total / wide;
    const auto columns = [&](const Expr& row, int64_t rows) {
      b_.loop("g", 0, groups, [&](const Expr& g) { body(row, rows, g * Expr(wide * lanes_), wide); });
      if (total % wide > 0) body(row, rows, Expr(groups * wide * lanes_), total % wide);
    };
    // The online softmax adds to the sums of a tile, so tiles cannot overlap.
    for_tiles(count_, h_.overlap ? out_rows_ : std::min(out_rows_, count_), !online(), columns);
  }

  /// Calls tile(first, rows) for tiles of `most` rows that cover `count` rows. The remaining rows form one tile or, in
  /// a kernel for many lengths, one tile each.
  template <class F>
  void for_tiles(int64_t count, int64_t most, bool may_overlap, const F& tile) {
    const TileSplit split(count, most, h_.overlap && may_overlap);
    if (split.whole() > 0) b_.loop("t", 0, split.whole(), [&](const Expr& t) { tile(split.begin(b_, t), most); });
    if (split.rest() == 0 && (may_overlap || !h_.overlap)) return;
    const int64_t first = count - split.rest();
    if (!h_.overlap) return tile(Expr(first), split.rest());
    b_.loop("t", first, count, [&](const Expr& row) { tile(row, 1); });
  }

  template <class F>
  static void each(int64_t rows, int64_t vectors, const F& body) {
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t v = 0; v < vectors; ++v) body(r, v);
    }
  }

  /// Computes one tile of p' v over `count` keys from `key` on.
  void mix(const Expr& key, int64_t count, const Expr& row, int64_t rows, const Expr& column, int64_t vectors) {
    std::vector<int32_t> acc;
    if (online()) {
      each(rows, vectors, [&](int64_t r, int64_t v) {
        const Expr scaled =
            b_.load(y_, partial(row, r, column, v), lanes_) * b_.load(factor_, row + Expr(r), lanes_, 0);
        acc.push_back(b_.reg("acc", scaled));
      });
    } else {
      acc = zeros(rows, vectors);
    }
    const Expr from = b_.let("v0", head_.v + key * Expr(h_.v.row) + column * Expr(h_.v.column));
    contract(count, [&](const Expr& j, int64_t /*pieces*/) {
      std::vector<Expr> w;
      for (int64_t v = 0; v < vectors; ++v) w.push_back(b_.let("w", value(from, j, column, v)));
      for (int64_t r = 0; r < rows; ++r) {
        const Expr at = (j * Expr(width_) + row + Expr(r)) * Expr(m_.group);
        const Expr x = b_.let("x", m_.spread(b_, m_.group > 1 ? weights_ : p_, at, lanes_, m_.group));
        for (int64_t v = 0; v < vectors; ++v)
          add(acc[static_cast<size_t>(r * vectors + v)], x, w[static_cast<size_t>(v)]);
      }
    });
    each(rows, vectors, [&](int64_t r, int64_t v) {
      const Expr value = b_.get(acc[static_cast<size_t>(r * vectors + v)]);
      if (online()) return b_.store(y_, partial(row, r, column, v), value);
      finish(row + Expr(r), column + Expr(v * lanes_), value);
    });
  }

  /// Vector `v` of v from `column` on, in row j, or in the rows of group j. `from`: where row 0 begins at `column`.
  Expr value(const Expr& from, const Expr& j, const Expr& column, int64_t v) {
    if (m_.group > 1)
      return m_.columns(b_, vt_, (j * Expr(padded_size()) + column + Expr(v * lanes_)) * Expr(m_.group), lanes_);
    const Expr at = from + j * Expr(h_.v.row) + Expr(v * lanes_ * h_.v.column);
    return b_.load(v_, at, lanes_, h_.v.column, column_mask(column + Expr(v * lanes_)));
  }

  /// The index in y_ of the sums of query `row` + r, at `column` plus v vectors.
  Expr partial(const Expr& row, int64_t r, const Expr& column, int64_t v) const {
    return (row + Expr(r)) * Expr(padded_size()) + column + Expr(v * lanes_);
  }

  Expr column_mask(const Expr& column) const { return value_lanes(h_.shape, column, lanes_); }

  /// Divides by the sum, applies the epilogue and stores.
  void finish(const Expr& row, const Expr& column, const Expr& value) {
    finish_attention(e_, h_.rules, head_.batch, first_ + row, column, column_mask(column), value,
                     b_.load(inverse_, row, lanes_, 0));
  }

  std::vector<int32_t> zeros(int64_t rows, int64_t vectors) {
    std::vector<int32_t> acc;
    for (int64_t i = 0; i < rows * vectors; ++i) acc.push_back(b_.reg("acc", imm(DType::f32, 0, lanes_)));
    return acc;
  }
  void add(int32_t reg, const Expr& x, const Expr& w) { b_.set(reg, m_.multiply(x, w, b_.get(reg))); }

  /// Calls step(k, pieces) for each group k of a reduction over `extent` elements; the last may have fewer pieces.
  template <class F>
  void contract(int64_t extent, const F& step) {
    const int64_t groups = extent / m_.group, rest = extent % m_.group;
    const int64_t full = groups / kReductionUnroll * kReductionUnroll;
    b_.loop("k", 0, full, kReductionUnroll, [&](const Expr& k) {
      for (int64_t u = 0; u < kReductionUnroll; ++u) step(k + Expr(u), m_.group);
    });
    if (h_.overlap)
      b_.loop("k", full, groups, [&](const Expr& k) { step(k, m_.group); });
    else
      for (int64_t k = full; k < groups; ++k) step(Expr(k), m_.group);
    if (rest > 0) step(Expr(groups), rest);
  }

  Emitter& e_;
  LoopBuilder& b_;
  const AttentionProblem& h_;
  const Multiplicands& m_;
  int32_t lanes_;
  int64_t width_;  ///< queries per block, including padding
  int64_t score_rows_, key_block_, out_vectors_, out_rows_, last_keys_;
  AttentionHead head_;
  int64_t blocks_ = 1;
  int64_t mask_row_ = 0, mask_column_ = 0;  ///< strides of the packed mask
  int64_t count_ = 0, vectors_ = 0;         ///< of the block being emitted
  std::vector<int32_t> most_, sum_;         ///< registers, one per vector of queries
  Expr block_, first_;
  Buf q_, k_, v_, mask_, qt_, p_, weights_, vt_, inverse_, factor_, y_;
};

}  // namespace

void emit_attention(Emitter& e, const AttentionProblem& heads, const Schedule& schedule, int32_t lanes) {
  HeadEmitter(e, heads, schedule, lanes).run();
}

}  // namespace kilter
