#include "schedule/templates/winograd_block.h"

#include <algorithm>

#include "schedule/templates/conv_core.h"

namespace kilter {
namespace {

// The values of a network that can run in f16 stay far below this limit: f16 ends at 65,504, and the values from which
// rows of results are computed are up to four times as large.
constexpr double kLargest = 1048576;
// A recovered weight below this fraction of its filter's sum of magnitudes is the rounding error of a zero.
constexpr double kNoWeight = 1.0 / (1 << 21);

}  // namespace

WinogradBlock::WinogradBlock(Emitter& e, const WinogradConv& c, const WinogradTiling& p, const CpuLimits& limits,
                             Expr n, Expr block)
    : e_(e),
      b_(e.b),
      c_(c),
      p_(p),
      down_(c.down(p.m)),
      across_(c.across(p.m)),
      lanes_(lanes_of(limits)),
      line_bytes_(limits.line_bytes),
      n_(std::move(n)) {
  first_ = b_.let("first", block * Expr(p.block()));
}

/// Computes the v of input block `icb`, at `base` of `v`.
void WinogradBlock::transform_inputs(const Buf& v, const Expr& base, const Expr& icb, const Buf& temp) {
  const ValueId x = e_.task().node().inputs[0];
  const Operand& in = e_.task().operand(x);
  const Buf buf = e_.input(x);
  b_.loop("t", 0, p_.block(), [&](const Expr& t) {
    const auto [row, column] = corner(min(first_ + t, Expr(c_.tiles(p_.m) - 1)));
    const Expr origin =
        b_.let("x0", Expr(in.phys.offset) + n_ * Expr(in.phys.strides[0]) + icb * Expr(in.phys.strides[1]));
    std::vector<Expr> rows, columns;
    for (int64_t i = 0; i < down_.inputs(); ++i) {
      rows.push_back(b_.let("r", origin + min(row + Expr(i - c_.pad_h), Expr(c_.last_row)) * Expr(in.phys.strides[2])));
    }
    for (int64_t j = 0; j < across_.inputs(); ++j) {
      columns.push_back(b_.let("c", min(column + Expr(j - c_.pad_w), Expr(c_.last_column)) * Expr(in.phys.strides[3])));
    }
    const auto input = [&](int64_t i, int64_t j) { return b_.load(buf, rows[at(i)] + columns[at(j)], lanes_); };
    const Expr to = b_.let("to", base + (icb * Expr(p_.block()) + t) * Expr(lanes_));
    input_rows(input, temp, [&](int64_t i, const std::vector<Expr>& out) {
      for (int64_t j = 0; j < across_.inputs(); ++j)
        b_.store(v, to + Expr((i * across_.inputs() + j) * p_.v_place(c_, lanes_)), out[at(j)]);
    });
  });
}

/// Computes the q of channel group `group` from v at `base`.
void WinogradBlock::multiply(const Buf& v, const Expr& base, const Expr& group, const Buf& weights, const Buf& q) {
  const Expr u0 = b_.let("u0", group * Expr(c_.places(p_.m) * panel()));
  b_.loop("xi", 0, c_.places(p_.m), [&](const Expr& xi) {
    const Expr u = b_.let("u", u0 + xi * Expr(panel()));
    const Expr from = b_.let("from", base + xi * Expr(p_.v_place(c_, lanes_)));
    b_.loop("rt", 0, p_.count, [&](const Expr& rt) {
      register_tile(v, from + rt * Expr(p_.tile * lanes_), weights, u, q,
                    xi * Expr(p_.q_place(lanes_)) + rt * Expr(p_.tile * p_.vectors * lanes_));
    });
  });
}

void WinogradBlock::finish_outputs(const Expr& group, const Buf& weights, const Buf& q, const Buf& bias,
                                   const Buf& temp) {
  const Expr count = min(Expr(p_.block()), Expr(c_.tiles(p_.m)) - first_);
  b_.loop("t", 0, count, [&](const Expr& t) {
    const auto [row, column] = corner(first_ + t);
    b_.loop("v", 0, p_.vectors, [&](const Expr& vec) {
      const Expr from = b_.let("from", (t * Expr(p_.vectors) + vec) * Expr(lanes_));
      const Expr block = b_.let("oc", group * Expr(p_.vectors) + vec);
      const Tile tile{row, column, from, block};
      const auto product = [&](int64_t i, int64_t j) { return b_.load(q, from + place(i, j), lanes_); };
      Expr squares;
      const auto rows = output_rows(product, temp, squares);
      b_.if_then(
          bounded(squares),
          [&] {
            for (int64_t i = 0; i < down_.outputs; ++i) {
              guard(row + Expr(i), c_.out_h, down_.outputs, i, [&] {
                const std::vector<Expr> y = rows(i);
                for (int64_t j = 0; j < across_.outputs; ++j)
                  guard(column + Expr(j), c_.out_w, across_.outputs, j,
                        [&] { finish_output(tile, row + Expr(i), column + Expr(j), y[at(j)], bias); });
              });
            }
          },
          [&] {
            const Expr u = b_.let("u", group * Expr(c_.places(p_.m) * panel()) + vec * Expr(lanes_));
            compute_directly(tile, weights, u, q, bias, temp);
          },
          /*likely=*/true);
    });
  });
}

std::pair<Expr, Expr> WinogradBlock::corner(const Expr& tile) {
  const Expr p = b_.let("p", tile);
  const Expr h = b_.let("h", binary(Op::div, p, Expr(c_.tiles_w(p_.m))));
  return {b_.let("row", h * Expr(down_.outputs)),
          b_.let("column", (p - h * Expr(c_.tiles_w(p_.m))) * Expr(across_.outputs))};
}

/// Computes B' d B of a tile: down its columns, then across its rows, which it passes to `row_done` one by one. Between
/// the two steps, the rows are in `temp`, unless one of the steps is the identity.
void WinogradBlock::input_rows(const Load& load, const Buf& temp,
                               const std::function<void(int64_t, const std::vector<Expr>&)>& row_done) {
  const int64_t rows = down_.inputs(), width = across_.inputs();
  if (across_.identity()) {
    const std::vector<Expr> column =
        emit_input_transform(b_, down_, column_of(rows, [&](int64_t i) { return load(i, 0); }));
    for (int64_t i = 0; i < rows; ++i) row_done(i, {column[at(i)]});
    return;
  }
  for (int64_t j = 0; j < width && !down_.identity(); ++j) {
    const std::vector<Expr> column =
        emit_input_transform(b_, down_, column_of(rows, [&](int64_t i) { return load(i, j); }));
    for (int64_t i = 0; i < rows; ++i) b_.store(temp, Expr((i * width + j) * lanes_), column[at(i)]);
  }
  for (int64_t i = 0; i < rows; ++i) {
    row_done(i, emit_input_transform(b_, across_, column_of(width, [&](int64_t j) {
                                       return down_.identity() ? load(i, j)
                                                               : b_.load(temp, Expr((i * width + j) * lanes_), lanes_);
                                     })));
  }
}

/// Computes A' q A of a tile in the same order; returns a function that computes a row of outputs. `squares` becomes a
/// sum of squares to which every input contributes: of the outputs if the tile is one row or column, otherwise of the
/// first and last row of A' q.
std::function<std::vector<Expr>(int64_t)> WinogradBlock::output_rows(const Load& load, const Buf& temp, Expr& squares) {
  const int64_t rows = down_.outputs, width = across_.inputs();
  squares = imm(DType::f32, 0, lanes_);
  const auto add = [&](const Expr& value) { squares = b_.let("squares", fma(value, value, squares)); };
  if (across_.identity() || down_.identity()) {
    const std::vector<Expr> y = emit_output_transform(
        b_, across_.identity() ? down_ : across_,
        column_of(c_.places(p_.m), [&](int64_t k) { return across_.identity() ? load(k, 0) : load(0, k); }));
    std::ranges::for_each(y, add);
    return [this, y](int64_t i) { return across_.identity() ? std::vector<Expr>{y[at(i)]} : y; };
  }
  for (int64_t j = 0; j < width; ++j) {
    const std::vector<Expr> column =
        emit_output_transform(b_, down_, column_of(down_.inputs(), [&](int64_t i) { return load(i, j); }));
    for (int64_t i = 0; i < rows; ++i) b_.store(temp, Expr((i * width + j) * lanes_), column[at(i)]);
    add(column.front());
    add(column.back());
  }
  return [this, temp, width](int64_t i) {
    return emit_output_transform(b_, across_, column_of(width, [&](int64_t j) {
                                   return b_.load(temp, Expr((i * width + j) * lanes_), lanes_);
                                 }));
  };
}

/// Whether the sum of squares is below kLargest^2 in every lane; false for a NaN.
Expr WinogradBlock::bounded(const Expr& squares) {
  return lane_reduce(Op::logical_and, binary(Op::lt, squares, imm(DType::f32, kLargest * kLargest, lanes_)));
}

/// Computes the outputs of a tile by definition. The sums replace the tile's products in q.
void WinogradBlock::compute_directly(const Tile& tile, const Buf& weights, const Expr& u, const Buf& q, const Buf& bias,
                                     const Buf& temp) {
  const ValueId x = e_.task().node().inputs[0];
  const Operand& in = e_.task().operand(x);
  const Buf image = e_.input(x);
  const auto each = [&](const std::function<void(const Expr&, const Expr&, const Expr&)>& body) {
    b_.loop("i", 0, min(Expr(down_.outputs), Expr(c_.out_h) - tile.row), [&](const Expr& i) {
      b_.loop("j", 0, min(Expr(across_.outputs), Expr(c_.out_w) - tile.column), [&](const Expr& j) {
        const Expr sum = (i * Expr(across_.inputs()) + j) * Expr(p_.q_place(lanes_)) + tile.from;
        body(i, j, b_.let("sum", sum));
      });
    });
  };
  each([&](const Expr&, const Expr&, const Expr& sum) { b_.store(q, sum, imm(DType::f32, 0, lanes_)); });
  const Expr first = b_.let("x0", Expr(in.phys.offset) + n_ * Expr(in.phys.strides[0]) +
                                      (tile.row - Expr(c_.pad_h)) * Expr(in.phys.strides[2]) +
                                      (tile.column - Expr(c_.pad_w)) * Expr(in.phys.strides[3]));
  b_.loop("icb", 0, c_.in_blocks, [&](const Expr& icb) {
    b_.loop("c", 0, lanes_, [&](const Expr& c) {
      recover_filter(weights, u + (icb * Expr(lanes_) + c) * Expr(p_.vectors * lanes_), temp);
      const Expr channel = b_.let("channel", first + icb * Expr(in.phys.strides[1]) + c);
      each([&](const Expr& i, const Expr& j, const Expr& sum) {
        const Expr corner = b_.let("corner", channel + i * Expr(in.phys.strides[2]) + j * Expr(in.phys.strides[3]));
        Expr total = b_.load(q, sum, lanes_);
        for (int64_t r = 0; r < c_.kernel_h; ++r) {
          for (int64_t s = 0; s < c_.kernel_w; ++s)
            total = fma(b_.load(image, corner + Expr(r * in.phys.strides[2] + s * in.phys.strides[3]), lanes_, 0),
                        b_.load(temp, tap(Expr(r), Expr(s)), lanes_), total);
        }
        b_.store(q, sum, total);
      });
    });
  });
  each([&](const Expr& i, const Expr& j, const Expr& sum) {
    finish_output(tile, tile.row + i, tile.column + j, b_.let("y", b_.load(q, sum, lanes_)), bias);
  });
}

/// Recovers the taps of one column or row of filters from their transformed values.
void WinogradBlock::recover(const WinogradTransform& t, const std::function<Expr(int64_t)>& load,
                            const std::function<void(int64_t, const Expr&)>& done) {
  const std::vector<Expr> values = column_of(t.inputs(), load);
  const std::vector<std::vector<double>> rows = filter_recovery(t);
  for (int64_t r = 0; r < t.taps; ++r) {
    Expr sum = imm(DType::f32, 0, lanes_);
    for (int64_t i = 0; i < t.inputs(); ++i) sum = fma(imm(DType::f32, rows[at(r)][at(i)], lanes_), values[at(i)], sum);
    done(r, b_.let("g", sum));
  }
}

/// Recovers the filters of one input channel from those transformed at `u` into `temp`: down the columns, then across.
void WinogradBlock::recover_filter(const Buf& weights, const Expr& u, const Buf& temp) {
  const Expr from = b_.let("u", u);
  b_.loop("s", 0, across_.inputs(), [&](const Expr& s) {
    recover(
        down_,
        [&](int64_t i) { return b_.load(weights, from + (Expr(i * across_.inputs()) + s) * Expr(panel()), lanes_); },
        [&](int64_t r, const Expr& g) { b_.store(temp, tap(Expr(r), s), g); });
  });
  const int32_t all = b_.reg("all", imm(DType::f32, 0, lanes_));
  b_.loop("r", 0, c_.kernel_h, [&](const Expr& r) {
    recover(
        across_, [&](int64_t s) { return b_.load(temp, tap(r, Expr(s)), lanes_); },
        [&](int64_t s, const Expr& g) {
          b_.store(temp, tap(r, Expr(s)), g);
          b_.set(all, b_.get(all) + unary(Op::abs, g));
        });
  });
  const Expr least = b_.let("least", b_.get(all) * imm(DType::f32, kNoWeight, lanes_));
  b_.loop("r", 0, c_.kernel_h, [&](const Expr& r) {
    b_.loop("s", 0, c_.kernel_w, [&](const Expr& s) {
      const Expr g = b_.let("g", b_.load(temp, tap(r, s), lanes_));
      b_.store(temp, tap(r, s), select(binary(Op::lt, unary(Op::abs, g), least), imm(DType::f32, 0, lanes_), g));
    });
  });
}

/// Loads values 0 to count - 1 and gives each a name.
std::vector<Expr> WinogradBlock::column_of(int64_t count, const std::function<Expr(int64_t)>& load) {
  std::vector<Expr> values;
  for (int64_t i = 0; i < count; ++i) values.push_back(b_.let("d", load(i)));
  return values;
}

/// Emits `body` for the case that `place`, element i of a tile of `size`, is in [0, extent); omits the check if element
/// i of every tile is inside.
void WinogradBlock::guard(const Expr& place, int64_t extent, int64_t size, int64_t i,
                          const std::function<void()>& body) {
  if (extent % size == 0 || i < extent % size) return body();
  b_.if_then(binary(Op::lt, place, Expr(extent)), body);
}

void WinogradBlock::finish_output(const Tile& tile, const Expr& row, const Expr& column, const Expr& y,
                                  const Buf& bias) {
  const ValueId anchor = e_.task().node().outputs[0];
  const Domain domain = domain_of(e_.task().graph->type(anchor));
  Expr value = y;
  if (bias.id >= 0) value = b_.let("b", value + b_.load(bias, tile.block * Expr(lanes_), lanes_));
  e_.epilogue({{anchor, value}}, domain, Site{{n_, tile.block, row, column, Expr(0)}, 4, lanes_, {}});
}

void WinogradBlock::register_tile(const Buf& v, const Expr& from, const Buf& weights, const Expr& u, const Buf& q,
                                  const Expr& to) {
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
      emit_prefetch(b_, {.weights = weights, .prefetch = p_.prefetch, .line_bytes = line_bytes_}, u,
                    w - u + i * Expr(width), unroll * width);
      for (int64_t k = 0; k < unroll; ++k) step(v, x + i + Expr(k), weights, w + (i + Expr(k)) * Expr(width), acc);
    });
  });
  const Expr out = b_.let("to", to);
  for (size_t i = 0; i < acc.size(); ++i) b_.store(q, out + Expr(static_cast<int64_t>(i) * lanes_), b_.get(acc[i]));
}

void WinogradBlock::step(const Buf& v, const Expr& x, const Buf& weights, const Expr& w,
                         const std::vector<int32_t>& acc) {
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

}  // namespace kilter
