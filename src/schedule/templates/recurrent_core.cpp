#include "schedule/templates/recurrent_core.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/align.h"

namespace kilter {
namespace {

constexpr int64_t kBytes = 4;     ///< that dot() multiplies for each sum
constexpr int32_t kTopZero = 64;  ///< the highest digit for the number 0

/// Calls put(row of r, whether it exists) for the lanes of all gates of a product, in the order in which constants for
/// them are stored. Lanes after the last hidden unit have no row.
template <class Put>
void each_column(const Recurrence& q, const std::vector<int64_t>& gates, int64_t width, const Put& put) {
  for (int64_t d = 0; d < q.shape.directions; ++d) {
    for (int64_t first = 0; first < q.shape.hidden; first += width) {
      for (const int64_t gate : gates) {
        for (int64_t unit = first; unit < first + width; ++unit)
          put((d * q.shape.gates + gate) * q.shape.hidden + unit, unit < q.shape.hidden);
      }
    }
  }
}

/// Returns r as bytes, [directions][block of hidden units][k / 4][gate][lane of the block][4].
Tensor pack_bytes(const Tensor& r, const Recurrence& q, const std::vector<int64_t>& gates, int64_t width) {
  const int64_t hidden = q.shape.hidden, depth = round_up(hidden, kBytes), blocks = ceil_div(hidden, width);
  const int64_t step = static_cast<int64_t>(gates.size()) * width * kBytes;
  Tensor packed(DType::i8, {q.shape.directions * blocks * depth / kBytes * step});
  std::fill_n(packed.data<int8_t>(), packed.elems(), int8_t{0});
  int64_t column = 0;
  each_column(q, gates, width, [&](int64_t row, bool exists) {
    const int64_t per_block = static_cast<int64_t>(gates.size()) * width;
    int8_t* to = packed.data<int8_t>() + column / per_block * (depth / kBytes * step) + column % per_block * kBytes;
    for (int64_t k = 0; exists && k < hidden; ++k)
      to[k / kBytes * step + k % kBytes] = static_cast<int8_t>(r.data<float>()[row * hidden + k]);
    ++column;
  });
  return packed;
}

/// Returns `of(row)` for the rows of r in the order of each_column(); 0 in the lanes after the last unit.
template <class T, class Of>
Tensor pack_columns(const Recurrence& q, const std::vector<int64_t>& gates, int64_t width, DType type, const Of& of) {
  std::vector<T> all;
  each_column(q, gates, width, [&](int64_t row, bool exists) { all.push_back(exists ? of(row) : T{0}); });
  Tensor packed(type, {static_cast<int64_t>(all.size())});
  std::ranges::copy(all, packed.data<T>());
  return packed;
}

/// Packs the `count` gates of r from `first` on as [directions][block of hidden units][k][gate][lane of the block], the
/// order in which a product streams them. `from`: the operand that `r` is; kNone if it has other values.
Packing pack(const Tensor& r, ValueId from, const Recurrence& q, int64_t first, int64_t count, int64_t width) {
  const int64_t hidden = q.shape.hidden, gates = r.elems() / (q.shape.directions * hidden * hidden);
  enum : int32_t { kDirection, kGate, kUnit, kDepth };
  Gather gather{
      {{q.shape.directions, gates * hidden * hidden}, {gates, hidden * hidden, first}, {hidden, hidden}, {hidden, 1}},
      {{q.shape.directions, kDirection, 1},
       {ceil_div(hidden, width), kUnit, width},
       {hidden, kDepth, 1},
       {count, kGate, 1},
       {width, kUnit, 1}}};
  std::string form =
      from == kNone ? "" : fmt::format("gates {} to {} in panels of {}", first, first + count - 1, width);
  return packed_by(std::move(gather), from, std::move(form), DType::f32, r);
}

/// Returns the gates of r one after another, with their rows multiplied by `scale` unless that is null.
Tensor picked(const Tensor& r, const float* scale, const Recurrence& q, const std::vector<int64_t>& gates) {
  const int64_t hidden = q.shape.hidden;
  Tensor made(DType::f32, {q.shape.directions, std::ssize(gates), hidden, hidden});
  float* to = made.data<float>();
  for (int64_t d = 0; d < q.shape.directions; ++d) {
    for (const int64_t gate : gates) {
      for (int64_t unit = 0; unit < hidden; ++unit, to += hidden) {
        const int64_t row = (d * q.shape.gates + gate) * hidden + unit;
        std::transform(r.data<float>() + row * hidden, r.data<float>() + (row + 1) * hidden, to,
                       [&](float x) { return scale != nullptr ? x * scale[row] : x; });
      }
    }
  }
  return made;
}

/// The packed columns of r that a product multiplies. If they are bytes, also the starts of the sums of the highest
/// digit, which correct them for its zero, and the scales of the columns.
struct Product {
  Buf r, starts, factors;
};

/// Emits the kernel: the constructor emits the parallel dimensions, run() the rows of one iteration.
class StepEmitter {
 public:
  StepEmitter(Emitter& e, const Recurrence& q, const RecurrentTile& tile, const CpuLimits& limits)
      : e_(e),
        b_(e.b),
        q_(q),
        tile_(tile),
        node_(e.task().node()),
        form_(recurrent_form(node_)),
        lanes_(lanes_of(limits)),
        line_bytes_(limits.line_bytes),
        width_(tile.width(lanes_)),
        blocks_(tile.blocks(q, lanes_)),
        padded_(blocks_ * width_) {
    d_ = b_.parallel("d", q.shape.directions);
    item_ = b_.parallel("item", ceil_div(q.shape.batch, tile.rows));
    if (q.parallel_blocks()) block_ = b_.parallel("block", blocks_);
    size_t most = 0;
    for (const auto& gates : q.products()) {
      pack_product(gates);
      most = std::max(most, gates.size());
    }
    const int64_t rows = std::min(tile.rows, q.shape.batch);
    if (q.bytes) {
      digits_ = b_.scratch("digits", DType::u8, kStateDigits * rows * padded_);
      scales_ = b_.scratch("scales", DType::f32, rows);
    }
    h_ = b_.scratch("h", DType::f32, rows * padded_);
    sums_ = b_.scratch("sums", DType::f32, static_cast<int64_t>(most) * rows * width_);
    if (q.cell == RecurrentForm::lstm) c_ = b_.scratch("c", DType::f32, rows * padded_);
    if (two_products()) {
      update_ = b_.scratch("update", DType::f32, rows * padded_);
      kept_ = b_.scratch("kept", DType::f32, rows * padded_);
    } else if (q.shape.steps > 1 || q.lengths) {
      next_ = b_.scratch("next", DType::f32, rows * padded_);
    }
    if (q.lengths) lengths_ = b_.scratch("lengths", DType::i64, rows);
  }

  void run() {
    const int64_t full = q_.shape.batch / tile_.rows, rest = q_.shape.batch % tile_.rows;
    first_ = b_.let("first", item_ * Expr(tile_.rows));
    if (rest == 0) return all_steps(tile_.rows);
    if (full == 0) return all_steps(rest);
    b_.if_then(binary(Op::lt, item_, Expr(full)), [&] { all_steps(tile_.rows); }, [&] { all_steps(rest); });
  }

 private:
  bool two_products() const { return packed_.size() > 1; }

  /// Packs the columns of r that a product multiplies.
  void pack_product(const std::vector<int64_t>& gates) {
    const Tensor& r = *e_.task().operand(node_.inputs[form_.r]).constant;
    const float* scale =
        has(form_.r_scale) ? e_.task().operand(node_.inputs[form_.r_scale]).constant->data<float>() : nullptr;
    if (!q_.bytes) {
      const int64_t count = std::ssize(gates);
      const bool as_it_is = scale == nullptr && gates.back() - gates.front() == count - 1;
      Packing packing = as_it_is ? pack(r, node_.inputs[form_.r], q_, gates.front(), count, width_)
                                 : pack(picked(r, scale, q_, gates), kNone, q_, 0, count, width_);
      return packed_.push_back({e_.constant(std::move(packing), "r"), {}, {}});
    }
    const auto start = [&](int64_t row) {
      const float* from = r.data<float>() + row * q_.shape.hidden;
      return static_cast<int32_t>(-kTopZero * std::accumulate(from, from + q_.shape.hidden, 0.0));
    };
    packed_.push_back(
        {e_.constant(pack_bytes(r, q_, gates, width_), "r"),
         e_.constant(pack_columns<int32_t>(q_, gates, width_, DType::i32, start), "starts"),
         e_.constant(pack_columns<float>(q_, gates, width_, DType::f32, [&](int64_t row) { return scale[row]; }),
                     "factors")});
  }

  void all_steps(int64_t rows) {
    rows_ = rows;
    start(h_, form_.initial_h);
    if (c_.id >= 0) start(c_, form_.initial_c);
    if (q_.lengths && next_.id >= 0) start(next_, form_.initial_h);  // a sequence that has ended keeps its state
    b_.loop("s", 0, q_.lengths ? longest() : Expr(q_.shape.steps), [&](const Expr& s) {
      s_ = s;
      if (!q_.lengths) t_ = b_.let("t", time(Expr(q_.shape.steps - 1)));
      if (q_.bytes) split_into_digits(h_);
      if (q_.parallel_blocks()) return block(0, block_);
      for (size_t p = 0; p < packed_.size(); ++p)
        b_.loop("block", 0, blocks_, [&](const Expr& index) { block(p, index); });
      if (next_.id < 0) return;
      b_.loop("i", 0, rows_ * padded_, lanes_, [&](const Expr& i) { b_.store(h_, i, b_.load(next_, i, lanes_)); });
    });
    if (q_.lengths) end_sequences();
  }

  /// The place in time of step s_ in a sequence whose last place is `last`.
  Expr time(const Expr& last) const {
    const Expr back = last - s_, either = q_.reverse ? back : s_;
    return q_.shape.directions == 1 ? either : select(binary(Op::eq, d_, Expr(0)), s_, back);
  }

  // --- sequences of different lengths ---

  /// Stores the lengths of all rows and returns the largest. A length out of range fails the kernel's check and is
  /// bounded, so that no input makes the kernel access memory outside its buffers.
  Expr longest() {
    const ValueId lens = node_.inputs[form_.lens];
    const Domain domain = domain_of(e_.task().graph->type(lens));
    const int32_t most = b_.reg("most", Expr(0));
    b_.loop("r", 0, rows_, [&](const Expr& r) {
      const Expr given = b_.let("given", cast(DType::i64, e_.load(lens, domain, Site{{first_ + r}, -1, 1, {}})));
      const Expr length = b_.let("length", min(max(given, Expr(0)), Expr(q_.shape.steps)));
      b_.check(binary(Op::eq, given, length));
      b_.store(lengths_, r, length);
      b_.set(most, max(b_.get(most), length));
    });
    return b_.let("longest", b_.get(most));
  }

  /// Emits `body` for row `r` of the tile, in steps before the end of the row's sequence.
  void in_sequence(const Expr& r, const std::function<void()>& body) {
    if (!q_.lengths) return body();
    const Expr length = b_.let("length", b_.load(lengths_, r));
    b_.if_then(binary(Op::lt, s_, length), [&] {
      t_ = b_.let("t", time(length - Expr(1)));
      body();
    });
  }

  /// Stores the last states, and zeros as the states after the end of each sequence.
  void end_sequences() {
    const auto columns = [&](const std::function<void()>& body) {
      b_.loop("column", 0, round_up(q_.shape.hidden, lanes_), lanes_, [&](const Expr& column) {
        column_ = column;
        mask_ = units(column);
        body();
      });
    };
    b_.loop("r", 0, rows_, [&](const Expr& r) {
      row_ = b_.let("row", first_ + r);
      columns([&] {
        const Expr at = r * Expr(padded_) + column_;
        put_state(1, b_.load(h_, at, lanes_));
        if (c_.id >= 0) put_state(2, b_.load(c_, at, lanes_));
      });
      if (!wanted(0)) return;
      b_.loop("t", b_.let("length", b_.load(lengths_, r)), q_.shape.steps, [&](const Expr& t) {
        t_ = t;
        columns([&] { put_step(imm(DType::f32, 0, lanes_)); });
      });
    });
  }

  // --- operands ---

  /// The lanes that have hidden units in a vector that begins at unit `column`; undefined if all do.
  Expr units(const Expr& column) const {
    if (q_.shape.hidden % width_ == 0) return {};
    return first_lanes(max(Expr(0), Expr(q_.shape.hidden) - column), lanes_);
  }

  /// Loads one vector of an operand along its last dimension.
  Expr load(size_t input, std::vector<Expr> index, const Expr& mask) {
    const ValueId value = node_.inputs[input];
    const Domain domain = domain_of(e_.task().graph->type(value));
    const auto last = static_cast<int32_t>(domain.rank()) - 1;
    const Expr loaded = e_.load(value, domain, Site{std::move(index), last, lanes_, mask});
    return loaded.lanes() == lanes_ ? loaded : broadcast(loaded, lanes_);
  }
  bool has(size_t input) const { return input < node_.inputs.size() && node_.inputs[input] != kNone; }

  std::vector<Expr> state_index(const Expr& row, const Expr& column) const {
    return q_.shape.batch_first ? std::vector<Expr>{row, d_, column} : std::vector<Expr>{d_, row, column};
  }

  void start(const Buf& state, size_t input) {
    b_.loop("r", 0, rows_, [&](const Expr& r) {
      b_.loop("v", 0, padded_, lanes_, [&](const Expr& v) {
        const Expr value = has(input) ? load(input, state_index(first_ + r, v), units(v)) : imm(DType::f32, 0, lanes_);
        b_.store(state, r * Expr(padded_) + v, value);
      });
    });
  }

  // --- one block of hidden units ---

  void block(size_t p, const Expr& index) {
    const auto gates = static_cast<int64_t>(q_.products()[p].size());
    q_.bytes ? multiply_digits(packed_[p], gates, index) : multiply(packed_[p].r, p == 0 ? h_ : kept_, gates, index);
    b_.loop("r", 0, rows_, [&](const Expr& r) {
      in_sequence(r, [&] {
        b_.loop("v", 0, vectors_of(index), [&](const Expr& v) {
          row_ = b_.let("row", first_ + r);
          column_ = b_.let("column", index * Expr(width_) + v * Expr(lanes_));
          mask_ = units(column_);
          at_ = b_.let("at", r * Expr(padded_) + column_);
          sum_ = b_.let("sum", (r * Expr(gates) * Expr(tile_.vectors) + v) * Expr(lanes_));
          finish(p);
        });
      });
    });
  }

  /// Vectors of a block that have hidden units; the last block may have fewer.
  Expr vectors_of(const Expr& index) const {
    const int64_t all = ceil_div(q_.shape.hidden, lanes_);
    if (all % tile_.vectors == 0) return tile_.vectors;
    return min(Expr(tile_.vectors), Expr(all) - index * Expr(tile_.vectors));
  }

  /// Computes sums[row][gate][lane], the rows of `state` times the block's columns of r.
  void multiply(const Buf& r, const Buf& state, int64_t gates, const Expr& index) {
    const int64_t vectors = gates * tile_.vectors, panel = q_.shape.hidden * vectors * lanes_;
    std::vector<int32_t> acc;
    for (int64_t i = 0; i < rows_ * vectors; ++i) acc.push_back(b_.reg("acc", imm(DType::f32, 0, lanes_)));
    const Expr w0 = b_.let("w0", (d_ * Expr(blocks_) + index) * Expr(panel));
    const auto step = [&](const Expr& k) {
      const Expr w = w0 + k * Expr(vectors * lanes_);
      std::vector<Expr> column;
      for (int64_t v = 0; v < vectors; ++v) {
        const Expr loaded = b_.load(r, w + Expr(v * lanes_), lanes_);
        column.push_back(rows_ == 1 ? loaded : b_.let("w", loaded));  // with one row, the product reads it from memory
      }
      for (int64_t row = 0; row < rows_; ++row) {
        const Expr x = b_.let("x", b_.load(state, k + Expr(row * padded_), lanes_, 0));
        for (int64_t v = 0; v < vectors; ++v) {
          const int32_t reg = acc[static_cast<size_t>(row * vectors + v)];
          b_.set(reg, fma(x, column[static_cast<size_t>(v)], b_.get(reg)));
        }
      }
    };
    const int64_t full = q_.shape.hidden / kReductionUnroll * kReductionUnroll;
    b_.loop("k", 0, full, kReductionUnroll, [&](const Expr& k) {
      emit_prefetch(b_, {.weights = r, .prefetch = tile_.prefetch, .line_bytes = line_bytes_}, w0,
                    k * Expr(vectors * lanes_), kReductionUnroll * vectors * lanes_);
      for (int64_t u = 0; u < kReductionUnroll; ++u) step(k + Expr(u));
    });
    for (int64_t k = full; k < q_.shape.hidden; ++k) step(Expr(k));
    for (size_t i = 0; i < acc.size(); ++i) b_.store(sums_, Expr(static_cast<int64_t>(i) * lanes_), b_.get(acc[i]));
  }

  // --- products of bytes ---

  /// Writes the rows of `state` as integers of three digits, each an unsigned byte, and the factors for these integers.
  ///
  /// An element is h * kLargest / most, rounded. Adding 1.5 * 2^23 places it, plus 2^22, in the low 23 bits of the sum.
  /// The lowest digit comes first; the last is kTopZero for an element of 0. If a state is not finite, the factor of
  /// its row is NaN.
  void split_into_digits(const Buf& state) {
    constexpr double kLargest = (1 << 22) - 1, kRounder = 1.5 * (1 << 23);
    const int64_t end = round_up(q_.shape.hidden, lanes_);
    b_.loop("r", 0, rows_, [&](const Expr& r) {
      const int32_t most = b_.reg("most", imm(DType::f32, 0, lanes_)),
                    lost = b_.reg("lost", imm(DType::f32, 0, lanes_));
      const auto element = [&](const Expr& v) {
        const Expr mask = q_.shape.hidden % lanes_ == 0 ? Expr() : first_lanes(Expr(q_.shape.hidden) - v, lanes_);
        return b_.let("h", b_.load(state, r * Expr(padded_) + v, lanes_, 1, mask));
      };
      b_.loop("v", 0, end, lanes_, [&](const Expr& v) {
        const Expr h = element(v);
        b_.set(most, max(b_.get(most), unary(Op::abs, h)));
        b_.set(lost, b_.get(lost) + (h - h));
      });
      const Expr largest = b_.let("largest", lane_reduce(Op::max, b_.get(most)) + lane_reduce(Op::add, b_.get(lost)));
      b_.store(scales_, r, largest / imm(DType::f32, kLargest));
      const Expr factor = b_.let("factor", broadcast(imm(DType::f32, kLargest) / largest, lanes_));
      b_.loop("v", 0, end, lanes_, [&](const Expr& v) {
        const Expr rounded = fma(element(v), factor, imm(DType::f32, kRounder, lanes_));
        const Expr bits = b_.let("bits", bitcast(DType::i32, rounded));
        for (int64_t digit = 0; digit < kStateDigits; ++digit) {
          const Expr low = digit == 0 ? bits : binary(Op::shr, bits, imm_int(DType::i32, 8 * digit, lanes_));
          const Expr byte = digit + 1 < kStateDigits ? low : binary(Op::bit_and, low, imm_int(DType::i32, 127, lanes_));
          b_.store(digits_, digit_row(r, digit) + v, cast(DType::u8, byte));
        }
      });
    });
  }
  /// Where a digit of the elements of row `r` begins.
  Expr digit_row(const Expr& r, int64_t digit) const { return (r * Expr(kStateDigits) + Expr(digit)) * Expr(padded_); }

  /// Computes sums[row][gate][lane] as multiply() does, from the digits of the state.
  void multiply_digits(const Product& product, int64_t gates, const Expr& index) {
    const int64_t vectors = gates * tile_.vectors, steps = ceil_div(q_.shape.hidden, kBytes);
    const auto width = static_cast<int32_t>(lanes_ * kBytes);
    const Expr column = b_.let("c0", (d_ * Expr(blocks_) + index) * Expr(vectors * lanes_));
    const Expr w0 = b_.let("w0", (d_ * Expr(blocks_) + index) * Expr(steps * vectors * width));
    std::vector<int32_t> acc;  // [row][vector][digit]
    for (int64_t i = 0; i < rows_ * vectors * kStateDigits; ++i) {
      const bool top = i % kStateDigits == kStateDigits - 1;
      const Expr at = column + Expr(i / kStateDigits % vectors * lanes_);
      acc.push_back(b_.reg("acc", top ? b_.load(product.starts, at, lanes_) : imm(DType::i32, 0, lanes_)));
    }
    const auto step = [&](const Expr& k) {
      std::vector<Expr> x;
      for (int64_t i = 0; i < rows_ * kStateDigits; ++i) {
        const Expr at = digit_row(Expr(i / kStateDigits), i % kStateDigits) + k * Expr(kBytes);
        const Expr word = bitcast(DType::i32, b_.load(digits_, at, static_cast<int32_t>(kBytes)));
        x.push_back(b_.let("x", bitcast(DType::u8, broadcast(word, lanes_))));
      }
      for (int64_t v = 0; v < vectors; ++v) {
        const Expr w = b_.let("w", b_.load(product.r, w0 + k * Expr(vectors * width) + Expr(v * width), width));
        for (int64_t i = 0; i < rows_ * kStateDigits; ++i) {
          const int32_t reg =
              acc[static_cast<size_t>((i / kStateDigits * vectors + v) * kStateDigits + i % kStateDigits)];
          b_.set(reg, dot(x[static_cast<size_t>(i)], w, b_.get(reg)));
        }
      }
    };
    const int64_t full = steps / kReductionUnroll * kReductionUnroll;
    b_.loop("k", 0, full, kReductionUnroll, [&](const Expr& k) {
      emit_prefetch(b_, {.weights = product.r, .prefetch = tile_.prefetch, .line_bytes = line_bytes_}, w0,
                    k * Expr(vectors * width), kReductionUnroll * vectors * width);
      for (int64_t u = 0; u < kReductionUnroll; ++u) step(k + Expr(u));
    });
    for (int64_t k = full; k < steps; ++k) step(Expr(k));
    for (int64_t i = 0; i < rows_ * vectors; ++i) {
      const auto digit = [&](int64_t d) {
        return cast(DType::f32, b_.get(acc[static_cast<size_t>(i * kStateDigits + d)]));
      };
      const auto number = [&](double v) { return imm(DType::f32, v, lanes_); };
      const Expr sum = fma(digit(2), number(1 << 16), fma(digit(1), number(1 << 8), digit(0)));
      const Expr factor = b_.load(product.factors, column + Expr(i % vectors * lanes_), lanes_);
      const Expr scale = b_.load(scales_, Expr(i / vectors), lanes_, 0);
      b_.store(sums_, Expr(i * lanes_), sum * (factor * scale));
    }
  }

  // --- gates ---

  /// The part of x that belongs to a gate.
  Expr projected(int64_t gate) {
    const Expr column = d_ * Expr(q_.shape.gates * q_.shape.hidden) + Expr(gate * q_.shape.hidden) + column_;
    std::vector<Expr> index{t_, row_, column};
    if (q_.shape.batch_first) std::swap(index[0], index[1]);
    return load(0, std::move(index), mask_);
  }
  /// The result of the product for its gate number `place`.
  Expr summed(int64_t place) { return b_.load(sums_, sum_ + Expr(place * width_), lanes_); }
  Expr input_of(int64_t gate, int64_t place) { return projected(gate) + summed(place); }
  Expr named(const char* name, Expr value) { return b_.let(name, std::move(value)); }

  /// Applies `function` to a gate's input, bounded by clip.
  Expr activate(const char* name, size_t function, Expr x) {
    if (std::isfinite(q_.clip)) {
      const Expr limit = imm(DType::f32, q_.clip, lanes_), low = imm(DType::f32, -q_.clip, lanes_);
      x = min(limit, max(low, x));  // NaN stays NaN
    }
    return named(name, q_.functions[function](named("in", std::move(x))));
  }

  void finish(size_t p) {
    switch (q_.cell) {
      case RecurrentForm::rnn:
        return put(activate("h", 0, input_of(0, 0)));
      case RecurrentForm::gru:
        return p == 1 ? gru_hidden() : two_products() ? gru_reset() : gru();
      case RecurrentForm::lstm:
        return lstm();
    }
  }

  /// Gates in the order input, output, forget, cell (without forget if it is coupled to input).
  void lstm() {
    const Expr c = named("c", b_.load(c_, at_, lanes_));
    const auto peephole = [&](int64_t which, const Expr& state, Expr x) {
      if (!has(form_.peepholes)) return x;
      const Expr p = load(form_.peepholes, {d_, Expr(which * q_.shape.hidden) + column_}, mask_);
      return fma(p, state, std::move(x));
    };
    const Expr input = activate("input", 0, peephole(0, c, input_of(0, 0)));
    const Expr forget = q_.coupled ? named("forget", imm(DType::f32, 1, lanes_) - input)
                                   : activate("forget", 0, peephole(2, c, input_of(2, 2)));
    const Expr candidate = activate("candidate", 1, input_of(3, q_.coupled ? 2 : 3));
    const Expr next = named("next", fma(forget, c, input * candidate));
    const Expr output = activate("output", 0, peephole(1, next, input_of(1, 1)));
    b_.store(c_, at_, next);
    put_last(2, next);
    put(output * q_.functions[2](next));
  }

  /// Gates in the order update, reset, hidden.
  void gru() {
    const Expr update = activate("update", 0, input_of(0, 0));
    const Expr reset = activate("reset", 0, input_of(1, 1));
    Expr state = summed(2);
    if (has(form_.hidden_bias)) state = state + load(form_.hidden_bias, {d_, column_}, mask_);
    mix(update, activate("candidate", 1, fma(reset, state, projected(2))));
  }
  void gru_reset() {
    b_.store(update_, at_, activate("update", 0, input_of(0, 0)));
    const Expr reset = activate("reset", 0, input_of(1, 1));
    b_.store(kept_, at_, reset * b_.load(h_, at_, lanes_));
  }
  void gru_hidden() { mix(named("update", b_.load(update_, at_, lanes_)), activate("candidate", 1, input_of(2, 0))); }
  /// Sets h = candidate + update * (h - candidate).
  void mix(const Expr& update, const Expr& candidate) {
    put(fma(update, b_.load(h_, at_, lanes_) - candidate, candidate));
  }

  // --- results ---

  bool wanted(size_t output) const { return output < node_.outputs.size() && node_.outputs[output] != kNone; }

  /// Stores one of the last states, if it is requested.
  void put_state(size_t output, const Expr& value) {
    if (wanted(output)) store(node_.outputs[output], state_index(row_, column_), value);
  }
  /// Stores a state as the last one if this is the last step; end_sequences() stores those of sequences with lengths.
  void put_last(size_t output, const Expr& value) {
    if (!wanted(output) || q_.lengths) return;
    if (q_.shape.steps == 1) return put_state(output, value);
    b_.if_then(binary(Op::eq, s_, Expr(q_.shape.steps - 1)), [&] { put_state(output, value); });
  }
  /// Stores the state of one step, if it is requested.
  void put_step(const Expr& value) {
    if (!wanted(0)) return;
    const std::vector<Expr> index =
        q_.shape.batch_first ? std::vector<Expr>{row_, t_, d_, column_} : std::vector<Expr>{t_, d_, row_, column_};
    store(node_.outputs[0], index, value);
  }

  void put(Expr h) {
    const Expr value = named("h", std::move(h));
    const Buf to = two_products() ? h_ : next_;  // the second product does not read h
    if (to.id >= 0) b_.store(to, at_, value);
    put_last(1, value);
    put_step(value);
  }

  void store(ValueId output, std::vector<Expr> index, const Expr& value) {
    const Domain domain = domain_of(e_.task().graph->type(output));
    const auto last = static_cast<int32_t>(domain.rank()) - 1;
    e_.epilogue({{output, value}}, domain, Site{std::move(index), last, lanes_, mask_});
  }

  Emitter& e_;
  LoopBuilder& b_;
  const Recurrence& q_;
  const RecurrentTile& tile_;
  const Node& node_;
  const RecurrentForm& form_;
  int32_t lanes_, line_bytes_;
  int64_t width_, blocks_;
  int64_t padded_;  ///< hidden units, padded to whole blocks
  int64_t rows_ = 0;
  Expr d_, item_, block_, first_;        // of the parallel iteration
  Expr s_, t_;                           // of the step: number of steps before it, and its place in time
  Expr row_, column_, mask_, at_, sum_;  // of one vector of hidden units: its places in operands, state and sums_
  std::vector<Product> packed_;
  Buf h_, c_, next_, update_, kept_;  // [rows][padded]; id < 0: not needed
  Buf sums_;
  Buf digits_, scales_;  // [rows][digit][padded] and [rows], if h is multiplied as bytes
  Buf lengths_;          // [rows], if the sequences have lengths
};

}  // namespace

std::vector<std::vector<int64_t>> Recurrence::products() const {
  switch (cell) {
    case RecurrentForm::rnn:
      break;
    case RecurrentForm::gru:
      return linear_before_reset ? std::vector<std::vector<int64_t>>{{0, 1, 2}}
                                 : std::vector<std::vector<int64_t>>{{0, 1}, {2}};
    case RecurrentForm::lstm:
      return {coupled ? std::vector<int64_t>{0, 1, 3} : std::vector<int64_t>{0, 1, 2, 3}};
  }
  return {{0}};
}

void emit_recurrence(Emitter& e, const Recurrence& q, const RecurrentTile& tile, const CpuLimits& limits) {
  StepEmitter steps(e, q, tile, limits);
  steps.run();
}

}  // namespace kilter
