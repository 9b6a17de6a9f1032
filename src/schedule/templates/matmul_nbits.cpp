// Matrix product of f32 rows with packed weights of 4 or 8 bits (MatMulNBits), with register tiles of rows x vectors of
// columns. A first stage prepares the rows: it pads them to whole blocks, and rounds them to bytes if the node asks for
// it. The second stage reads the weights once for each tile of rows, unpacks them in registers, sums the products of a
// block, and adds the sums times the scales of the block.
//
// The weights are 32-bit words [n / width][block][word][width], each with 32 / bits integers of one column. A word of
// 4-bit integers has the first four in the low halves of its bytes and the others in the high halves, so that one mask
// extracts four bytes for dot().

#include <cmath>

#include "base/align.h"
#include "ops/support/bit_weights.h"
#include "schedule/emit.h"
#include "schedule/model/register_tile.h"
#include "schedule/templates/bit_panels.h"
#include "schedule/templates/templates.h"
#include "schedule/templates/weight_stream.h"

namespace kilter {
namespace {

constexpr int64_t kMaxVectors = 8;
constexpr int64_t kTilesPerItem = 4;
constexpr int64_t kRowGap = 64;  // bytes between prepared rows

struct Product {
  BitWeights w;
  int64_t rows = 0;
  bool rounded = false;      ///< the rows are rounded to 8 bits
  bool bytes = false;        ///< the rows stay bytes, and the products are dot()
  bool zero_points = false;  ///< there are zero points for each block; otherwise BitWeights::middle()

  int64_t group() const { return 32 / w.bits; }
  int64_t words() const { return w.block / group(); }
  /// Elements from row to row in the buffer of prepared rows. If rows were a multiple of CpuLimits::l1_way_bytes apart,
  /// they would evict each other from L1; a gap between rows prevents this.
  int64_t row_elems() const { return w.blocks * w.block + (rows > 1 ? kRowGap / (bytes ? 1 : 4) : 0); }
  /// Weights that one step of a register tile multiplies: the bytes of a dot(), or one.
  int64_t dot_group() const { return bytes ? 4 : 1; }
};

Result<Product> analyse(const Task& task, const CpuLimits& limits) {
  const Node& node = task.node();
  if (node.op->family != Family::matmul_bits) return not_for("operator", "MatMulNBits", node.op->name);
  const Operand& a = task.operand(node.inputs[kBitA]);
  Product p{.w = bit_weights(node)};
  const auto given = [&](size_t i) { return i < node.inputs.size() && node.inputs[i] != kNone; };
  if (a.type.dtype != DType::f32) return Rejected{"element type", "f32", std::string(name(a.type.dtype))};
  if (a.type.layout.block != 1) return Rejected{"layout of the rows", "plain", "blocked"};
  if (p.w.bits < 4) return Rejected{"bits of a weight", "4 or 8", std::to_string(p.w.bits)};
  if (given(kBitGroups)) return Rejected{"g_idx", "none", "given"};
  if (given(kBitBias)) return Rejected{"bias", "none", "given"};
  for (const size_t i : {kBitPacked, kBitScales, kBitZeros}) {
    if (given(i) && task.operand(node.inputs[i]).constant == nullptr)
      return Rejected{"weights", "constant", fmt::format("input {} is computed", static_cast<int>(i))};
  }
  const Shape& y = task.graph->type(node.outputs[0]).shape;
  if (elems(y) == 0) return Rejected{"elements", "1 or more", "0"};
  if (!task.prologue.empty()) return Rejected{"prologue", "none", std::to_string(task.prologue.size()) + " nodes"};
  if (auto rejected = check_elementwise(task)) return *rejected;
  p.rows = elems(y) / p.w.n;
  p.rounded = rounds_activations(node);
  p.bytes = p.rounded && limits.has_dot(DType::u8, DType::i8, lanes_of(limits));
  p.zero_points = given(kBitZeros);
  return p;
}

int64_t most_vectors(const Product& p, const CpuLimits& limits) {
  return std::min(kMaxVectors, ceil_div(p.w.n, lanes_of(limits)));
}

/// The largest number of rows whose sums over a block and over all blocks fit in registers, along with the weights, a
/// mask, and a broadcast element.
int64_t most_rows(int64_t vectors, const CpuLimits& limits) {
  return std::max<int64_t>((limits.vector_registers - vectors - 2) / (2 * vectors), 1);
}

/// The buffers between the two stages, by their index in Lowered::temp_bytes.
enum Temp : int32_t { kRows, kSums, kRowScales };

/// The first stage: writes the rows in the form in which the tiles read them. If they stay bytes, it also writes the
/// scale of each block and the sum of the block; if there are no zero points, the sum is multiplied by minus the common
/// zero point.
class RowsEmitter {
 public:
  RowsEmitter(const Task& task, const Product& p, const CpuLimits& limits)
      : e_(task, "matmul_nbits_rows"), b_(e_.b), p_(p), lanes_(lanes_of(limits)) {}

  Stage emit(Lowered& lowered) {
    const Operand& a = e_.task().operand(e_.task().node().inputs[kBitA]);
    const size_t last = a.type.shape.size() - 1;
    Expr from = a.phys.offset, row = 0;
    for (size_t d = 0; d < last; ++d) {
      const Expr i = b_.parallel("d" + std::to_string(d), a.type.shape[d]);
      from = from + i * Expr(a.phys.strides[d]);
      row = row * Expr(a.type.shape[d]) + i;
    }
    const Expr block = b_.parallel("block", p_.w.blocks);
    stride_ = a.phys.strides[last];
    a_ = e_.input(a.value);
    rows_ = e_.temp(kRows, p_.bytes ? DType::i8 : DType::f32, p_.rows * p_.row_elems(), true, "rows");
    if (p_.bytes) {
      sums_ = e_.temp(kSums, DType::i32, p_.rows * p_.w.blocks, true, "sums");
      scales_ = e_.temp(kRowScales, DType::f32, p_.rows * p_.w.blocks, true, "row_scales");
    } else {
      shifts_ = e_.constant(shifts_of_words(p_.w.bits), "shifts");
    }
    first_ = b_.let("first", block * Expr(p_.w.block));
    from_ = b_.let("from", from + first_ * Expr(stride_));
    to_ = b_.let("to", row * Expr(p_.row_elems()) + first_);
    at_ = b_.let("at", row * Expr(p_.w.blocks) + block);
    convert_block();
    return e_.finish(lowered);
  }

 private:
  /// A vector of elements of the block, 0 after the end of the row. If the offset is after the end of all rows, the
  /// result is 0 without a load.
  Expr elements(const Expr& from_block, int64_t offset = 0) const {
    if (offset >= p_.w.k) return imm(DType::f32, 0, lanes_);
    const Expr i = from_block + Expr(offset);
    const Expr left = max(Expr(0), Expr(p_.w.k) - first_ - i);
    const Expr mask = p_.w.k % p_.w.block == 0 ? Expr() : first_lanes(left, lanes_);
    return b_.load(a_, from_ + i * Expr(stride_), lanes_, stride_, mask);
  }

  void convert_block() {
    Expr inverse, scale;
    if (p_.rounded) {
      const int32_t largest = b_.reg("largest", imm(DType::f32, 0, lanes_));
      b_.loop("i", 0, p_.w.block, lanes_,
              [&](const Expr& i) { b_.set(largest, max(unary(Op::abs, elements(i)), b_.get(largest))); });
      const Expr top = b_.let("top", lane_reduce(Op::max, b_.get(largest)));
      const Expr none = binary(Op::eq, top, imm(DType::f32, 0));
      scale = b_.let("scale", top / imm(DType::f32, 127));
      inverse = b_.let("inverse", select(none, imm(DType::f32, 0), imm(DType::f32, 127) / top));
    }
    const int32_t sum = b_.reg("sum", imm(DType::i32, 0, lanes_));
    b_.loop("i", 0, p_.w.block, kWordPeriod, [&](const Expr& i) {
      for (int32_t lane = 0; lane < kWordPeriod; lane += lanes_) {
        Expr x = elements(i, lane);
        const Expr to = to_ + i + Expr(lane);
        if (p_.rounded) x = unary(Op::round_even, x * inverse);
        if (p_.bytes) {
          x = b_.let("x", cast(DType::i32, x));
          b_.store(rows_, to, cast(DType::i8, x));
          b_.set(sum, b_.get(sum) + x);
        } else {
          if (p_.rounded) x = x * scale;
          b_.store(rows_, to, x * b_.load(shifts_, lane, lanes_));
        }
      }
    });
    if (!p_.bytes) return;
    const Expr all = lane_reduce(Op::add, b_.get(sum));
    b_.store(sums_, at_, p_.zero_points ? all : all * imm_int(DType::i32, -p_.w.middle()));
    b_.store(scales_, at_, scale);
  }

  Emitter e_;
  LoopBuilder& b_;
  const Product& p_;
  int32_t lanes_;
  int64_t stride_ = 1;
  Buf a_, rows_, sums_, scales_, shifts_;
  Expr first_, from_, to_, at_;
};

/// The second stage.
class TileEmitter {
 public:
  TileEmitter(Emitter& e, const Product& p, const BitPanels& panels, int64_t prefetch, const CpuLimits& limits)
      : e_(e), b_(e.b), p_(p), panels_(panels), lanes_(lanes_of(limits)), vectors_(panels.width / lanes_) {
    prefetch_ = prefetch, line_bytes_ = limits.line_bytes;
  }

  /// Declares the parallel dimension over panels, then the buffers.
  void declare() {
    panel_ = b_.parallel("panel", panels_.count());
    const Task& task = e_.task();
    const auto constant = [&](size_t i) { return task.node().inputs[i]; };
    const auto tensor = [&](size_t i) { return *task.operand(constant(i)).constant; };
    const BitPanels& by = panels_;
    weights_ = {e_.constant(pack_words(constant(kBitPacked), tensor(kBitPacked), by), "words"), prefetch_, 0, 1,
                line_bytes_};
    scales_ = e_.constant(pack_blocks(constant(kBitScales), tensor(kBitScales), by), "scales");
    if (p_.zero_points) zeros_ = e_.constant(pack_blocks(constant(kBitZeros), tensor(kBitZeros), by), "zeros");
    const int64_t elems = p_.rows * p_.row_elems();
    rows_ = e_.temp(kRows, p_.bytes ? DType::u32 : DType::f32, elems / p_.dot_group(), false, "rows");
    if (!p_.bytes) return;
    sums_ = e_.temp(kSums, DType::i32, p_.rows * p_.w.blocks, false, "sums");
    row_scales_ = e_.temp(kRowScales, DType::f32, p_.rows * p_.w.blocks, false, "row_scales");
  }

  void tile(const Expr& row, int64_t rows) {
    std::vector<int32_t> totals;
    for (int64_t i = 0; i < rows * vectors_; ++i) totals.push_back(b_.reg("total", imm(DType::f32, 0, lanes_)));
    const Expr panel = b_.let("w0", panel_ * Expr(p_.w.blocks));
    b_.loop("block", 0, p_.w.blocks, [&](const Expr& block) { this->block(panel + block, block, row, rows, totals); });
    finish(row, rows, totals);
  }

 private:
  /// Adds the products of a block to the totals. `number` counts the blocks of all panels.
  void block(const Expr& number, const Expr& block, const Expr& row, int64_t rows, const std::vector<int32_t>& totals) {
    const auto of_row = [&](int64_t r) { return (row + Expr(r)) * Expr(p_.w.blocks) + block; };
    const bool fold = p_.bytes && !p_.zero_points;
    std::vector<int32_t> sums;
    for (int64_t r = 0; r < rows; ++r) {
      const Expr start = fold ? b_.let("start", b_.load(sums_, of_row(r), lanes_, 0))
                              : imm(p_.bytes ? DType::i32 : DType::f32, 0, lanes_);
      for (int64_t v = 0; v < vectors_; ++v) sums.push_back(b_.reg("sum", start));
    }
    std::vector<Expr> minus_zeros(static_cast<size_t>(vectors_));
    for (int64_t v = 0; v < vectors_ && p_.zero_points; ++v) {
      const Expr zero = b_.load(zeros_, number * Expr(panels_.width) + Expr(v * lanes_), lanes_);
      minus_zeros[static_cast<size_t>(v)] = b_.let("minus_zero", unary(Op::neg, cast(DType::f32, zero)));
    }
    const Expr words = b_.let("words", number * Expr(p_.words() * panels_.width));
    const Expr xs = b_.let("xs", (row * Expr(p_.row_elems()) + block * Expr(p_.w.block)) / Expr(p_.dot_group()));
    const int64_t unroll = p_.bytes ? 2 : 1;
    b_.loop("word", 0, p_.words(), unroll, [&](const Expr& word) {
      emit_prefetch(b_, weights_, words, word * Expr(panels_.width), unroll * panels_.width);
      for (int64_t u = 0; u < unroll; ++u) this->word(words, word + Expr(u), xs, rows, minus_zeros, sums);
    });
    add_block(number, of_row, rows, minus_zeros, sums, totals);
  }

  /// Adds the products of one word of each column.
  void word(const Expr& words, const Expr& word, const Expr& xs, int64_t rows, const std::vector<Expr>& minus_zeros,
            const std::vector<int32_t>& sums) {
    std::vector<Expr> packed;
    for (int64_t v = 0; v < vectors_; ++v) {
      const Expr at = words + word * Expr(panels_.width) + Expr(v * lanes_);
      packed.push_back(b_.let("packed", b_.load(weights_.weights, at, lanes_)));
    }
    const int64_t steps = p_.group() / p_.dot_group();
    for (int64_t step = 0; step < steps; ++step) {
      std::vector<Expr> w;
      for (size_t v = 0; v < packed.size(); ++v)
        w.push_back(b_.let("w", p_.bytes ? bytes(packed[v], step) : floats(packed[v], step, minus_zeros[v])));
      const int64_t k = p_.bytes ? step : place_in_word(step, p_.w.bits);
      for (int64_t r = 0; r < rows; ++r) {
        const Expr at = xs + Expr(r * p_.row_elems() / p_.dot_group()) + word * Expr(steps) + Expr(k);
        const Expr x = b_.let("x", b_.load(rows_, at, lanes_, 0));
        for (int64_t v = 0; v < vectors_; ++v) {
          const int32_t sum = sums[static_cast<size_t>(r * vectors_ + v)];
          const Expr& by = w[static_cast<size_t>(v)];
          b_.set(sum, p_.bytes ? dot(by, bitcast(DType::i8, x), b_.get(sum)) : fma(x, by, b_.get(sum)));
        }
      }
    }
  }

  Expr mask(int64_t bits) const { return imm_int(DType::u32, bits, lanes_); }

  /// Integer `i` of the words minus the zero point as f32, times 2^(bits i) except for the last; the rows are divided
  /// by that factor. The difference is exact.
  Expr floats(const Expr& words, int64_t i, const Expr& minus_zero) const {
    const int64_t last = p_.group() - 1, ones = (int64_t{1} << p_.w.bits) - 1;
    const Expr bits = i == last ? binary(Op::shr, words, mask(p_.w.bits * last))
                                : binary(Op::bit_and, words, mask(ones << (p_.w.bits * i)));
    const double factor = i == last ? 1 : std::ldexp(1.0, static_cast<int>(p_.w.bits * i));
    const Expr w = cast(DType::f32, bitcast(DType::i32, bits));
    if (p_.zero_points) return fma(minus_zero, imm(DType::f32, factor, lanes_), w);
    return w - imm(DType::f32, factor * static_cast<double>(p_.w.middle()), lanes_);
  }

  /// Integers 4 i to 4 i + 3 of the words as bytes.
  Expr bytes(const Expr& words, int64_t i) const {
    if (p_.w.bits == 8) return bitcast(DType::u8, words);
    const Expr low = i == 0 ? words : binary(Op::shr, words, mask(4));
    return bitcast(DType::u8, binary(Op::bit_and, low, mask(0x0f0f0f0f)));
  }

  template <class OfRow>
  void add_block(const Expr& number, OfRow of_row, int64_t rows, const std::vector<Expr>& minus_zeros,
                 const std::vector<int32_t>& sums, const std::vector<int32_t>& totals) {
    for (int64_t v = 0; v < vectors_; ++v) {
      const Expr at = number * Expr(panels_.width) + Expr(v * lanes_);
      const Expr scale = b_.let("scale", b_.load(scales_, at, lanes_));
      for (int64_t r = 0; r < rows; ++r) {
        const auto i = static_cast<size_t>(r * vectors_ + v);
        Expr sum = b_.get(sums[i]), by = scale;
        if (p_.bytes) {
          sum = cast(DType::f32, sum);
          by = scale * b_.load(row_scales_, of_row(r), lanes_, 0);
        }
        if (p_.bytes && p_.zero_points) {
          const Expr all = cast(DType::f32, b_.load(sums_, of_row(r), lanes_, 0));
          sum = fma(minus_zeros[static_cast<size_t>(v)], all, sum);
        }
        b_.set(totals[i], fma(sum, by, b_.get(totals[i])));
      }
    }
  }

  void finish(const Expr& row, int64_t rows, const std::vector<int32_t>& totals) {
    const ValueId anchor = e_.task().node().outputs[0];
    const Domain domain = domain_of(e_.task().graph->type(anchor));
    for (int64_t v = 0; v < vectors_; ++v) {
      const Expr column = b_.let("n", panel_ * Expr(panels_.width) + Expr(v * lanes_));
      const bool whole = p_.w.n % panels_.width == 0;
      const Expr mask = whole ? Expr() : first_lanes(max(Expr(0), Expr(p_.w.n) - column), lanes_);
      for (int64_t r = 0; r < rows; ++r) {
        Site site{leading(row + Expr(r), domain), static_cast<int32_t>(domain.rank()) - 1, lanes_, mask};
        site.index.push_back(column);
        e_.epilogue({{anchor, b_.get(totals[static_cast<size_t>(r * vectors_ + v)])}}, domain, site);
      }
    }
  }

  /// The indices of a row in all dimensions but the last.
  static std::vector<Expr> leading(const Expr& row, const Domain& domain) {
    std::vector<Expr> index(domain.rank() - 1, Expr(0));
    Expr left = row;
    int64_t outer = 1;  // product of the extents of the dimensions that are not yet set
    for (size_t d = 0; d < index.size(); ++d) outer *= domain.dims[d];
    for (size_t d = index.size(); d-- > 0;) {
      const int64_t extent = domain.dims[d];
      outer /= extent;
      if (extent == 1) continue;
      index[d] = outer == 1 ? left : left % Expr(extent);
      left = left / Expr(extent);
    }
    return index;
  }

  Emitter& e_;
  LoopBuilder& b_;
  const Product& p_;
  const BitPanels& panels_;
  int32_t lanes_;
  int64_t vectors_;
  int64_t prefetch_ = 0;
  int32_t line_bytes_ = 64;
  WeightStream weights_;
  Buf scales_, zeros_, rows_, sums_, row_scales_;
  Expr panel_;
};

class MatmulNBits final : public Analysed {
 public:
  MatmulNBits(const Task& task, const CpuLimits& limits, Product product) : Analysed(task, limits), p_(product) {}

  std::vector<Knob> space() const override {
    Knob vectors{"vectors", {}}, rows{"rows", {}};
    for (int64_t v = 1; v <= most_vectors(p_, limits()); ++v) vectors.values.push_back(v);
    for (int64_t r = 1; r <= std::min(p_.rows, most_rows(1, limits())); ++r) rows.values.push_back(r);
    return {vectors, rows, prefetch_knob()};
  }
  /// If the model predicts the same time for several schedules, takes the one with the most vectors: it has the most
  /// independent sums.
  Result<Schedule> pick() const override {
    std::optional<Schedule> best;
    double least = 0;
    for (Schedule& s : candidates()) {
      const double c = cycles(s);
      if (!best || c <= least * 1.01) least = best ? std::min(c, least) : c, best = std::move(s);
    }
    return *best;
  }
  std::vector<Schedule> candidates() const override {
    std::vector<Schedule> all;
    for (int64_t v = 1; v <= most_vectors(p_, limits()); ++v) {
      const int64_t most = std::min(p_.rows, most_rows(v, limits()));
      if (conflict(schedule_of(v, most))) continue;
      all.push_back(schedule_of(v, ceil_div(p_.rows, ceil_div(p_.rows, most))));
    }
    return all;
  }

 private:
  int64_t weight_bytes() const { return p_.w.n * p_.w.blocks * (p_.w.block_bytes() + 4); }

  Schedule schedule_of(int64_t vectors, int64_t rows) const {
    const int64_t prefetch = pick_prefetch(weight_bytes(), limits());
    return {"matmul_nbits", {{"vectors", vectors}, {"rows", rows}, {"prefetch", prefetch}}};
  }

  std::optional<Rejected> conflict(const Schedule& schedule) const override {
    const int64_t vectors = schedule.knob("vectors"), rows = schedule.knob("rows");
    if (2 * rows * vectors + vectors + 2 <= limits().vector_registers || (rows == 1 && vectors == 1)) return {};
    return Rejected{fmt::format("register tile (rows with {} vectors each)", vectors),
                    std::to_string(most_rows(vectors, limits())), std::to_string(rows)};
  }

  /// Tiles of rows that one work item multiplies by a panel. The rows stay in L2 while one panel after another is read.
  int64_t tiles_of_item(int64_t rows) const {
    const int64_t tile_bytes = rows * p_.row_elems() * (p_.bytes ? 1 : 4);
    return std::clamp<int64_t>(limits().l2_bytes / 2 / tile_bytes, 1, kTilesPerItem);
  }

  /// Cycles in which a tile of `rows` multiplies the weights of one block of a panel.
  double block_cycles(double rows, double vectors) const {
    const CpuLimits& l = limits();
    const double steps = static_cast<double>(p_.w.block) / static_cast<double>(p_.dot_group());
    const double products = steps * rows * vectors, broadcasts = steps * rows;
    const double words = static_cast<double>(p_.words()) * vectors;
    const double unpacking = p_.bytes ? (p_.w.bits == 8 ? 0 : 3 * words) : 3 * steps * vectors;
    const double adding = rows * vectors * (p_.bytes ? 3 : 1) + vectors;
    const double units = p_.bytes ? l.byte_dots_per_cycle : l.fmas_per_cycle;
    const double chain = steps * (p_.bytes ? l.dot_latency : l.latency) / kOverlap;
    return std::max({products / units + adding / l.fmas_per_cycle, chain,
                     (broadcasts + words + vectors) / (l.load_share * l.loads_per_cycle),
                     (products + broadcasts + words + unpacking + adding) / l.issue_width});
  }

  double cycles(const Schedule& schedule) const {
    const int64_t vectors = schedule.knob("vectors"), rows = schedule.knob("rows");
    const int64_t panels = ceil_div(p_.w.n, vectors * lanes_of(limits()));
    const auto blocks = static_cast<double>(p_.w.blocks), v = static_cast<double>(vectors);
    const double bytes = v * limits().vector_bytes * static_cast<double>(p_.words() + 1);
    // The first tile of a panel reads it from the memory that contains the weights, the others read it from L2.
    const auto tile = [&](int64_t r, double rate) {
      return r == 0 ? 0 : blocks * beside(block_cycles(static_cast<double>(r), v), bytes / rate);
    };
    const double first = tile(std::min(rows, p_.rows), reread_rate(weight_bytes(), limits()));
    const auto more = static_cast<double>(p_.rows / rows - 1);
    const double others = more * tile(rows, limits().l2_rate) + tile(p_.rows % rows, limits().l2_rate);
    return static_cast<double>(panels) * (first + others);
  }

  Estimate model(const Schedule& schedule) const override {
    const int64_t width = schedule.knob("vectors") * lanes_of(limits()), rows = schedule.knob("rows");
    const double padded = static_cast<double>(round_up(p_.w.n, width) * round_up(p_.rows, rows));
    const double tail = 1 - static_cast<double>(p_.w.n * p_.rows) / padded;
    return {cycles(schedule), tail};
  }

  Lowered emit(const Schedule& schedule) const override {
    const int64_t rows = schedule.knob("rows");
    Lowered lowered;
    const int64_t of_blocks = p_.rows * p_.w.blocks * 4;
    lowered.temp_bytes = {p_.rows * p_.row_elems() * (p_.bytes ? 1 : 4)};
    if (p_.bytes) lowered.temp_bytes.insert(lowered.temp_bytes.end(), {of_blocks, of_blocks});
    lowered.stages.push_back(RowsEmitter(task(), p_, limits()).emit(lowered));
    lowered.stages.back().packs = true;
    const BitPanels panels{p_.w, schedule.knob("vectors") * lanes_of(limits())};
    Emitter e(task(), "matmul_nbits");
    TileEmitter tiles(e, p_, panels, schedule.knob("prefetch"), limits());
    const int64_t full = p_.rows / rows, rest = p_.rows % rows;
    const int64_t together = tiles_of_item(rows), items = ceil_div(full + (rest > 0 ? 1 : 0), together);
    const Expr item = e.b.parallel("item", items);
    tiles.declare();
    const Expr first = item * Expr(together);
    if (full > 0) {
      e.b.loop("t", first, min(first + Expr(together), Expr(full)),
               [&](const Expr& t) { tiles.tile(t * Expr(rows), rows); });
    }
    if (rest > 0) e.b.if_then(binary(Op::eq, item, Expr(items - 1)), [&] { tiles.tile(Expr(full * rows), rest); });
    lowered.stages.push_back(e.finish(lowered));
    return lowered;
  }

  /// Blocks whose chains of multiply-adds overlap, since each block has its own sums.
  static constexpr double kOverlap = 2;

  const Product p_;
};

}  // namespace

const Template matmul_nbits{"matmul_nbits", "matrix products with packed weights of 4 or 8 bits",
                            analyse_as<MatmulNBits, analyse>};

}  // namespace kilter
