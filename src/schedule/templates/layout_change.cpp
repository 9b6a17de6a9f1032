#include "schedule/templates/layout_change.h"

#include <algorithm>

#include "schedule/templates/rows.h"
#include "schedule/templates/tile_split.h"
#include "schedule/templates/transpose_tile.h"

namespace kilter {
namespace {

constexpr int32_t kWordBytes = 4;

class LayoutChange {
 public:
  LayoutChange(Emitter& e, const Domain& domain, int32_t lanes) : e_(e), domain_(domain), last_(domain.rank() - 1) {
    site_.index.assign(domain.rank(), Expr(0));
    if (domain.rank() < 4) return;
    first_ = first_of_row();
    pixels_ = 1;
    for (size_t d = first_; d < last_; ++d) pixels_ *= domain.dims[d];
    to_plain_ = std::all_of(e.task().outputs.begin(), e.task().outputs.end(),
                            [](const Operand& o) { return o.type.layout.block == 1; });
    tiles_ = domain.block == lanes && pixels_ >= lanes && starts_with_copy();
    if (makes_words() && domain.dims[last_ - 1] >= lanes) words_of_ = lanes;
  }

  void emit() {
    if (words_of_ > 0) return words();
    if (tiles_ || (to_plain_ && pixels_ >= domain_.block)) return pixels();
    lanes();
  }

 private:
  /// The first of the trailing spatial dimensions that form one row of pixels in every operand.
  size_t first_of_row() const {
    size_t first = last_ - 1;
    int64_t pixels = domain_.dims[first];
    for (; first > 2; --first) {
      for (const auto* list : {&e_.task().inputs, &e_.task().outputs}) {
        for (const Operand& o : *list) {
          if (is_immediate(o)) continue;
          const Shape strides = strides_in(domain_, o);
          if (strides[first - 1] != strides[last_ - 1] * pixels) return first;
        }
      }
      pixels *= domain_.dims[first - 1];
    }
    return first;
  }

  /// Whether the task starts with a Relayout whose plain side has contiguous rows and whose blocked side has contiguous
  /// blocks.
  bool starts_with_copy() const {
    const Node& node = e_.task().node();
    if (node.op->movement != Movement::relayout ||
        !has_transpose_tile(e_.task().graph->type(node.outputs[0]).dtype, domain_.block))
      return false;
    const Operand& from = e_.task().operand(node.inputs[0]);
    const auto contiguous = [&](const Operand& o) {
      return strides_in(domain_, o)[o.type.layout.block == 1 ? last_ - 1 : last_] == 1;
    };
    return (from.type.layout.block == 1) != to_plain_ && contiguous(from) &&
           std::all_of(e_.task().outputs.begin(), e_.task().outputs.end(), contiguous);
  }

  /// Whether the task reads plain images with contiguous rows and writes one image with a word of bytes for each pixel.
  bool makes_words() const {
    const auto& outputs = e_.task().outputs;
    if (domain_.block != kWordBytes || domain_.dims[1] != 1 || outputs.size() != 1) return false;
    const TensorType& type = outputs[0].type;
    return e_.task().node().op->movement == Movement::relayout && type.layout.stored == DType::u8 &&
           type.layout.block == kWordBytes && strides_in(domain_, outputs[0])[last_] == 1 &&
           std::ranges::all_of(e_.task().inputs, [&](const Operand& o) {
             return is_immediate(o) || strides_in(domain_, o)[last_ - 1] == 1;
           });
  }

  void words() {
    site_.index[0] = e_.b.parallel("i0", domain_.dims[0]);
    site_.index[2] = e_.b.parallel("i2", domain_.dims[2]);
    const int64_t pixels = domain_.dims[3], full = pixels / words_of_;
    e_.b.loop("t", 0, full, [&](const Expr& t) { words(t * Expr(words_of_)); });
    if (pixels % words_of_ != 0) words(Expr(pixels - words_of_));  // overlaps the previous pixels
  }

  /// Joins the bytes of the channels of `words_of_` pixels from `pixel` on.
  void words(const Expr& pixel) {
    const Operand& out = e_.task().outputs[0];
    const auto integer = [&](int64_t v) { return imm_int(DType::i32, v, words_of_); };
    Site site = site_;
    site.index[3] = pixel;
    const Expr to = e_.index(out, domain_, site);
    site.vec_dim = 3, site.lanes = words_of_;
    site.mask = imm_int(DType::boolean, 1, words_of_);
    Expr word = integer(0);
    for (int64_t c = 0; c < kWordBytes; ++c) {
      Expr byte = integer(out.type.layout.zero);
      if (c < domain_.shape[1]) {
        site.index[last_] = Expr(c);
        const Node& copy = e_.task().node();
        const auto made = e_.results({{copy.outputs[0], e_.load(copy.inputs[0], domain_, site)}}, domain_, site);
        const Expr& value = made.at(out.value);
        const bool integers = value->kind == ExprKind::cast && value->args[0].elem() == DType::i32;
        const Expr whole = integers ? value->args[0] : cast(DType::i32, value);
        byte = cast(DType::i32, cast(DType::u8, whole + byte));
      }
      word = binary(Op::bit_or, word, binary(Op::shl, byte, integer(8 * c)));
    }
    e_.b.store(e_.output(out.value), to, bitcast(DType::u8, word));
  }

  /// Runs vectors over the lanes of the blocked side.
  void lanes() {
    site_.vec_dim = static_cast<int32_t>(last_);
    site_.lanes = domain_.block;
    for (size_t d = 0; d + 1 < last_; ++d) site_.index[d] = e_.b.parallel("i" + std::to_string(d), domain_.dims[d]);
    if (last_ < 3) {
      if (last_ == 2) site_.index[1] = e_.b.parallel("cb", domain_.dims[1]);
      e_.map(domain_, site_);
      return;
    }
    e_.b.loop("w", 0, domain_.dims[last_ - 1], [&](const Expr& w) {
      site_.index[last_ - 1] = w;
      e_.map(domain_, site_);
    });
  }

  /// Creates parallel items of kRowPixels pixels of a row in one block.
  void pixels() {
    for (size_t d = 0; d < first_; ++d) site_.index[d] = e_.b.parallel("i" + std::to_string(d), domain_.dims[d]);
    parallel_parts(e_.b, "chunk", pixels_, kRowPixels, [&](const Expr& first, int64_t count) { row(first, count); });
  }

  /// Emits pixels [base, base + extent) of a row; the last block may have fewer channels.
  void row(const Expr& base, int64_t extent) {
    const auto channels = [&](const Expr& block, int64_t count) {
      const Expr all = site_.index[1];
      site_.index[1] = block;
      if (tiles_) {
        tiles(base, extent, count);
      } else {
        vectors(base, extent, count);
      }
      site_.index[1] = all;
    };
    const int64_t full = domain_.shape[1] / domain_.block, rest = domain_.shape[1] % domain_.block;
    const auto whole = [&] { channels(site_.index[1], domain_.block); };
    if (rest == 0) return whole();
    const auto part = [&] { channels(Expr(full), rest); };
    if (full == 0) return part();
    e_.b.if_then(binary(Op::lt, site_.index[1], Expr(full)), whole, part);
  }

  /// Emits one channel after another, with vectors over pixels.
  void vectors(const Expr& base, int64_t extent, int64_t channels) {
    Site site = site_;
    e_.b.loop("c", 0, channels, [&](const Expr& c) {
      site.index[last_] = c;
      e_.b.vector_loop("v", extent, [&](const Expr& v) {
        site.index[last_ - 1] = base + v;
        e_.map(domain_, site);
      });
    });
  }

  void tiles(const Expr& base, int64_t extent, int64_t channels) {
    const TileSplit split(extent, domain_.block, e_.task().open);
    e_.b.loop("t", 0, split.whole(),
              [&](const Expr& t) { tile(base + split.begin(e_.b, t), domain_.block, channels); });
    if (split.rest() > 0) tile(base + Expr(split.whole() * domain_.block), split.rest(), channels);
  }

  /// Transposes `count` pixels from `pixel` on.
  void tile(const Expr& pixel, int64_t count, int64_t channels) {
    const ValueId from = e_.task().node().inputs[0], to = e_.task().node().outputs[0];
    const Operand& operand = e_.task().operand(from);
    const Shape strides = strides_in(domain_, operand);
    Site site = site_;
    site.lanes = domain_.block;
    site.index[last_ - 1] = pixel;
    const Expr at = e_.b.let("from", e_.index(operand, domain_, site));
    const Buf buffer = e_.input(from);
    if (to_plain_) {
      // Reading unused lanes of a block is allowed.
      const auto columns = load_columns(e_.b, {buffer, at, strides[last_ - 1]}, count, domain_.block, domain_.block);
      site.vec_dim = static_cast<int32_t>(last_ - 1);
      site.mask = first_lanes(Expr(count), domain_.block);
      for (int64_t c = 0; c < channels; ++c) {
        site.index[last_] = Expr(c);
        e_.epilogue({{to, columns[static_cast<size_t>(c)]}}, domain_, site);
      }
    } else {
      const auto columns = load_columns(e_.b, {buffer, at, strides[last_]}, channels, count, domain_.block);
      site.vec_dim = static_cast<int32_t>(last_);
      for (int64_t p = 0; p < count; ++p) {
        site.index[last_ - 1] = pixel + Expr(p);
        e_.epilogue({{to, columns[static_cast<size_t>(p)]}}, domain_, site);
      }
    }
  }

  Emitter& e_;
  const Domain& domain_;
  size_t last_;  ///< dimension of the lanes
  size_t first_ = 0;
  int64_t pixels_ = 0;
  bool to_plain_ = false, tiles_ = false;
  int32_t words_of_ = 0;  ///< number of pixels whose words are computed at a time; 0: none
  Site site_;
};

}  // namespace

void emit_layout_change(Emitter& e, const Domain& domain, int32_t lanes) { LayoutChange(e, domain, lanes).emit(); }

}  // namespace kilter
