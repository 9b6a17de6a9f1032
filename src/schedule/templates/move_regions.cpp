// Movement operators as strided copies: each region of the output is one loop nest that copies a box of an input or
// writes a constant. If different dimensions are contiguous in input and output, tiles are transposed in registers.

#include <algorithm>

#include "base/align.h"
#include "ops/support/builder.h"
#include "ops/support/regions.h"
#include "ops/support/scalar.h"
#include "schedule/emit.h"
#include "schedule/model/loop_model.h"
#include "schedule/templates/pick_lanes.h"
#include "schedule/templates/rows.h"
#include "schedule/templates/templates.h"
#include "schedule/templates/tile_split.h"
#include "schedule/templates/transpose_tile.h"

namespace kilter {
namespace {

constexpr size_t kMaxStages = 32;
constexpr int64_t kItemElems = 4096;

/// Regions, each with the output that it belongs to.
using Moves = std::vector<std::pair<size_t, CopyRegion>>;

Result<Moves> analyse(const Task& task, const CpuLimits&) {
  const Node& node = task.node();
  if (node.op->regions == nullptr) return not_for("operators with regions", "regions() defined", node.op->name);
  if (!task.prologue.empty() || !task.epilogue.empty()) return Rejected{"fused nodes", "none", "some"};
  for (const auto* list : {&task.inputs, &task.outputs}) {
    for (const Operand& o : *list) {
      if (o.type.dtype == DType::string) return Rejected{"element type", "numeric", "str"};
      if (!o.type.layout.row_major() || (o.constant == nullptr && !is_dense(o.type.shape, o.phys.strides)))
        return Rejected{"operands", "dense", text(o.type)};
    }
  }
  const OpView v = view(*task.graph, node);
  Moves all;
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    if (node.outputs[i] == kNone) continue;
    const auto regions = node.op->regions(v, static_cast<int32_t>(i));
    if (!regions) return Rejected{"movement as boxes", "regions()", "none for these operands"};
    for (const CopyRegion& region : *regions) {
      if (elems(region.extent) > 0) all.emplace_back(i, merged(region));
    }
  }
  if (all.empty() || all.size() > kMaxStages)
    return Rejected{"boxes", "1 to " + std::to_string(kMaxStages), std::to_string(all.size())};
  return all;
}

/// A region with at least one dimension. The last dimension is contiguous in the output if any is.
struct Box {
  Shape extent, in, out;

  explicit Box(const CopyRegion& region) : extent(region.extent), in(region.in_strides), out(region.out_strides) {
    if (extent.empty()) extent = {1}, in = {0}, out = {0};
    if (region.input == kNone) in.assign(extent.size(), 0);
    const auto contiguous = std::find(out.begin(), out.end(), 1) - out.begin();
    if (out.back() == 1 || contiguous == static_cast<int64_t>(out.size())) return;
    for (Shape* s : {&extent, &in, &out}) std::rotate(s->begin() + contiguous, s->begin() + contiguous + 1, s->end());
  }

  /// The dimension other than the last that is contiguous in the input and at least half a vector long. `apart`: its
  /// required stride in the output; 0 allows any.
  std::optional<size_t> contiguous_in_input(int32_t lanes, int64_t apart) const {
    for (size_t d = 0; d + 1 < extent.size(); ++d) {
      if (in[d] == 1 && 2 * extent[d] >= lanes && (apart == 0 || out[d] == apart)) return d;
    }
    return {};
  }
};

enum class Form : uint8_t {
  copied,       ///< vectors along the last dimension
  transposed,   ///< tiles of the last dimension and the one that is contiguous in the input
  interleaved,  ///< the last dimension has few elements, each from its own row
  separated     ///< the reverse: each of a few consecutive elements of the input goes to its own row
};

class CopyStage {
 public:
  CopyStage(const Task& task, size_t output, const CopyRegion& region, const CpuLimits& limits)
      : e_(task, "move"), b_(e_.b), box_(region), lanes_(lanes_of(limits)), limits_(limits) {
    value_ = task.node().outputs[output];
    const DType type = loop_type(task.graph->type(value_).dtype);
    source_ = region.in_offset;
    target_ = region.out_offset;
    fill_ = imm(type, region.fill);
    if (region.input != kNone) from_ = task.node().inputs[static_cast<size_t>(region.input)];
    choose_form(type);
  }

  Stage emit(Lowered& lowered) {
    if (form_ == Form::transposed) {
      transposed();
    } else if (form_ == Form::interleaved) {
      rows(other_, [&](const Expr& s, const Expr& t, int64_t count) { interleave(s, t, count); });
    } else if (form_ == Form::separated) {
      rows(box_.extent.size() - 1, [&](const Expr& s, const Expr& t, int64_t count) { separate(s, t, count); });
    } else {
      copied();
    }
    return e_.finish(lowered);
  }

 private:
  using Body = std::function<void(const Expr& source, const Expr& target)>;

  void choose_form(DType type) {
    constexpr int64_t kMostRows = 4;  // most rows that are interleaved or separated
    if (from_ == kNone || !has_transpose_tile(type, lanes_) || box_.out.back() != 1 || box_.in.back() == 1) return;
    const int64_t last = box_.extent.back();
    if (2 * last >= lanes_) {
      if (const auto other = box_.contiguous_in_input(lanes_, 0)) form_ = Form::transposed, other_ = *other;
      const int64_t apart = box_.in.back();
      for (size_t d = 0; form_ == Form::copied && apart <= kMostRows && d + 1 < box_.extent.size(); ++d) {
        if (box_.in[d] == 1 && box_.extent[d] == apart) form_ = Form::separated, other_ = d;
      }
    } else if (last > 1 && last <= kMostRows) {
      if (const auto other = box_.contiguous_in_input(lanes_, last)) form_ = Form::interleaved, other_ = *other;
    }
  }

  /// The outer dimensions: all that the form does not handle itself.
  std::vector<size_t> around() const {
    std::vector<size_t> dims;
    for (size_t d = 0; d + 1 < box_.extent.size(); ++d) {
      if (form_ == Form::copied || d != other_) dims.push_back(d);
    }
    return dims;
  }
  void parallel(size_t d) {
    const Expr by = b_.parallel("i" + std::to_string(d), box_.extent[d]);
    source_ = source_ + by * Expr(box_.in[d]);
    target_ = target_ + by * Expr(box_.out[d]);
  }
  void buffers() {
    to_ = e_.output(value_);
    if (from_ != kNone) input_ = e_.input(from_);
  }

  /// Emits `body`, which moves `work` elements, for all of around(), in items of about kItemElems.
  void over(int64_t work, const Body& body) {
    const std::vector<size_t> dims = around();
    size_t serial = dims.size();
    while (serial > 0 && work * box_.extent[dims[serial - 1]] <= kItemElems) work *= box_.extent[dims[--serial]];
    for (size_t i = 0; i < serial; ++i) parallel(dims[i]);
    buffers();
    std::function<void(size_t, const Expr&, const Expr&)> nest = [&](size_t i, const Expr& s, const Expr& t) {
      if (i == dims.size()) return body(s, t);
      const size_t d = dims[i];
      b_.loop("j", 0, box_.extent[d],
              [&](const Expr& j) { nest(i + 1, s + j * Expr(box_.in[d]), t + j * Expr(box_.out[d])); });
    };
    nest(serial, source_, target_);
  }

  void copied() {
    auto& [extent, in, out] = box_;
    // A long innermost run is split, so that several threads can share it.
    if (extent.size() == 1 && extent[0] > kItemElems && extent[0] % 64 == 0) {
      extent = {extent[0] / 64, 64};
      in = {in[0] * 64, in[0]}, out = {out[0] * 64, out[0]};
    }
    over(extent.back(), [&](const Expr& s, const Expr& t) {
      b_.vector_loop("v", box_.extent.back(), [&](const Expr& v) {
        const Expr value = from_ == kNone ? fill_ : b_.load(input_, s + v * Expr(box_.in.back()));
        b_.store(to_, t + v * Expr(box_.out.back()), value);
      });
    });
  }

  /// Large matrices are divided into blocks of tiles.
  struct Block {
    int64_t rows, columns;      ///< of the input, in elements; the last block may have up to twice as many (TileSplit)
    Expr down = 0, across = 0;  ///< the number of the block in each direction
    bool staged = false;        ///< the transposed block is assembled in scratch memory
  };

  void transposed() {
    constexpr int64_t kWide = 64, kTall = 256, kTallStaged = 128;  // elements
    const int64_t rows = box_.extent.back(), columns = box_.extent[other_];
    if (rows * columns <= kItemElems) {
      return over(rows * columns, [&](const Expr& s, const Expr& t) { block({rows, columns}, s, t); });
    }
    Block b{kTall, kWide};
    b.staged = conflicts();
    if (b.staged) b.rows = kTallStaged;
    while (b.staged && b.columns > lanes_ && most(b.columns) * line(b) * 4 > limits_.l1_bytes * 3 / 4) b.columns /= 2;
    for (const size_t d : around()) parallel(d);
    const int64_t down = blocks(rows, b.rows), across = blocks(columns, b.columns);
    if (down > 1) b.down = b_.parallel("down", down);
    if (across > 1) b.across = b_.parallel("across", across);
    buffers();
    block(b, source_, target_);
  }
  /// Whether the rows of a tile evict each other from L1, in the input or in the output. Accessing single lines of many
  /// rows is then slow, and longer pieces of a few rows are faster. If the data exceed L3, nothing is gained.
  bool conflicts() const {
    if (2 * 4 * box_.extent.back() * box_.extent[other_] > limits_.l3_bytes / 2) return false;
    return box_.in.back() * 4 % limits_.l1_way_bytes == 0 || box_.out[other_] * 4 % limits_.l1_way_bytes == 0;
  }
  TileSplit split(int64_t extent) const { return {extent, lanes_, e_.task().open}; }
  int64_t blocks(int64_t extent, int64_t block) const {
    return block >= extent ? 1 : split(extent).items(block / lanes_);
  }
  /// The most elements that a block of `size` may have.
  int64_t most(int64_t size) const { return e_.task().open ? 2 * size : size; }
  /// The distance of columns in scratch memory, which avoids such conflicts.
  int64_t line(const Block& b) const { return most(b.rows) + lanes_; }

  /// The tiles of a block in one direction: whole ones, and a narrower one at the end of the matrix.
  struct Sides {
    TileSplit split;
    Expr begin, end;  ///< whole tiles, counted from the start of the matrix
    Expr last;        ///< whether the block is the last one
  };

  /// Transposes a block of the matrix at `s` to `t`. Columns of the input are rows of the output.
  void block(const Block& block, const Expr& s, const Expr& t) {
    const Sides rows = sides(box_.extent.back(), block.rows, block.down);
    const Sides columns = sides(box_.extent[other_], block.columns, block.across);
    if (!block.staged) return along_output(rows, columns, s, t);
    const Buf memory = b_.scratch("block", b_.value_type(input_), most(block.columns) * line(block));
    const Expr top = b_.let("top", block.down * Expr(block.rows));
    const Expr left = b_.let("left", block.across * Expr(block.columns));
    over_tiles(rows, [&](const Expr& r, int64_t height) {
      over_tiles(columns, [&](const Expr& c, int64_t width) {
        tile({s, r, height, c, width}, {memory, r - top + (c - left) * Expr(line(block))}, line(block));
      });
    });
    const Expr whole(box_.extent[other_]);
    const Expr right = e_.task().open ? select(columns.last, whole, left + Expr(block.columns))
                                      : min(left + Expr(block.columns), whole);
    b_.loop("c", left, right, [&](const Expr& c) {
      const Expr from = b_.let("from", (c - left) * Expr(line(block)) - top);
      const Expr to = b_.let("to", t + c * Expr(box_.out[other_]));
      over_tiles(rows, [&](const Expr& r, int64_t height) {
        b_.store(to_, to + r, b_.load(memory, from + r, lanes_), mask_of(height));
      });
    });
  }

  /// Transposes tile after tile along the rows of the output, for the columns of one cache line of the input at a time.
  void along_output(const Sides& rows, const Sides& columns, const Expr& s, const Expr& t) {
    const int64_t to = box_.out[other_], together = std::max<int64_t>(limits_.line_bytes / 4 / lanes_, 1);
    const auto at = [&](const Expr& r, int64_t height, const Expr& c, int64_t width) {
      tile({s, r, height, c, width}, {to_, t + r + c * Expr(to)}, to);
    };
    if (columns.split.whole() > 0) {
      b_.loop("line", columns.begin, columns.end, together, [&](const Expr& line) {
        over_tiles(rows, [&](const Expr& r, int64_t height) {
          const auto whole = [&](const Expr& i) { at(r, height, columns.split.begin(b_, i), lanes_); };
          if (together == 1) return whole(line);
          b_.loop("column", line, min(line + Expr(together), columns.end), whole);
        });
      });
    }
    const int64_t rest = columns.split.rest();
    if (rest == 0) return;
    b_.if_then(columns.last, [&] {
      over_tiles(rows,
                 [&](const Expr& r, int64_t height) { at(r, height, Expr(columns.split.whole() * lanes_), rest); });
    });
  }

  Sides sides(int64_t extent, int64_t block, const Expr& number) {
    const TileSplit tiles = split(extent);
    const int64_t each = block / lanes_, count = blocks(extent, block);
    if (count == 1) return {tiles, Expr(0), Expr(tiles.whole()), imm_int(DType::boolean, 1)};
    return {tiles, number * Expr(each), tiles.end_of_item(number, each), binary(Op::eq, number, Expr(count - 1))};
  }
  /// Calls body(position, size) for each tile.
  void over_tiles(const Sides& sides, const std::function<void(const Expr&, int64_t)>& body) {
    const int64_t whole = sides.split.whole(), rest = sides.split.rest();
    if (whole > 0) {
      b_.loop("tile", sides.begin, sides.end, [&](const Expr& i) { body(sides.split.begin(b_, i), lanes_); });
    }
    if (rest == 0) return;
    b_.if_then(sides.last, [&] { body(Expr(whole * lanes_), rest); });
  }

  struct Tile {
    const Expr& matrix;
    const Expr& row;
    int64_t rows;
    const Expr& column;
    int64_t columns;
  };
  struct Target {
    Buf buffer;
    Expr at;
  };
  void tile(const Tile& of, const Target& target, int64_t apart) {
    const int64_t from = box_.in.back();
    const RowsAt at{input_, b_.let("s", of.matrix + of.row * Expr(from) + of.column), from};
    const Expr first = b_.let("d", target.at);
    const std::vector<Expr> all = load_columns(b_, at, of.rows, of.columns, lanes_);
    for (int64_t c = 0; c < of.columns; ++c)
      b_.store(target.buffer, first + Expr(c * apart), all[static_cast<size_t>(c)], mask_of(of.rows));
  }

  /// Calls body(source, target, count) for the elements along dimension `d` together with those of the short dimension:
  /// for all of them, or for parts of long rows.
  void rows(size_t d, const std::function<void(const Expr&, const Expr&, int64_t)>& body) {
    const int64_t extent = box_.extent[d], work = box_.extent.back() * box_.extent[other_];
    if (work <= kItemElems) {
      return over(work, [&](const Expr& s, const Expr& t) { body(s, t, extent); });
    }
    for (const size_t outer : around()) parallel(outer);
    buffers();
    parallel_parts(b_, "part", extent, round_up(kItemElems * extent / work, lanes_),
                   [&](const Expr& first, int64_t count) {
                     body(source_ + first * Expr(box_.in[d]), target_ + first * Expr(box_.out[d]), count);
                   });
  }
  /// Calls body(position, size) for vectors of `count` elements.
  void over_vectors(int64_t count, const std::function<void(const Expr&, int64_t)>& body) {
    const TileSplit vectors = split(count);
    b_.loop("p", 0, vectors.whole(), [&](const Expr& p) { body(vectors.begin(b_, p), lanes_); });
    if (vectors.rest() > 0) body(Expr(vectors.whole() * lanes_), vectors.rest());
  }
  Expr mask_of(int64_t count) const { return count < lanes_ ? first_lanes(Expr(count), lanes_) : Expr(); }

  /// Interleaves `elements` elements of each row.
  void interleave(const Expr& s, const Expr& t, int64_t elements) {
    const int64_t rows = box_.extent.back();
    over_vectors(elements, [&](const Expr& from, int64_t count) {
      std::vector<Expr> loaded;
      for (int64_t r = 0; r < rows; ++r)
        loaded.push_back(b_.let("r", b_.load(input_, s + from + Expr(r * box_.in.back()), lanes_, 1, mask_of(count))));
      for (int64_t first = 0; first < rows * count; first += lanes_) {
        std::vector<LaneOf> lanes;
        for (int64_t at = first; at < first + lanes_; ++at)
          lanes.push_back({static_cast<int32_t>(at % rows), static_cast<int32_t>(at / rows % lanes_)});
        b_.store(to_, t + from * Expr(rows) + Expr(first), pick_lanes(loaded, lanes), mask_of(rows * count - first));
      }
    });
  }
  /// Separates `elements` elements of each row.
  void separate(const Expr& s, const Expr& t, int64_t elements) {
    const int64_t rows = box_.extent[other_];
    over_vectors(elements, [&](const Expr& from, int64_t count) {
      std::vector<Expr> loaded;
      for (int64_t first = 0; first < rows * count; first += lanes_) {
        const Expr at = s + from * Expr(rows) + Expr(first);
        loaded.push_back(b_.let("r", b_.load(input_, at, lanes_, 1, mask_of(rows * count - first))));
      }
      for (int64_t r = 0; r < rows; ++r) {
        std::vector<LaneOf> lanes;
        for (int64_t i = 0; i < lanes_; ++i) {
          const int64_t at = std::min(i, count - 1) * rows + r;
          lanes.push_back({static_cast<int32_t>(at / lanes_), static_cast<int32_t>(at % lanes_)});
        }
        b_.store(to_, t + from + Expr(r * box_.out[other_]), pick_lanes(loaded, lanes), mask_of(count));
      }
    });
  }

  Emitter e_;
  LoopBuilder& b_;
  Box box_;
  int32_t lanes_;
  const CpuLimits& limits_;
  Form form_ = Form::copied;
  size_t other_ = 0;  ///< the dimension that is contiguous in the input, for all forms but copied
  ValueId value_ = kNone, from_ = kNone;
  Expr source_, target_, fill_;
  Buf to_, input_;
};

class MoveRegions final : public LoopModel {
 public:
  MoveRegions(const Task& task, const CpuLimits& limits, Moves moves)
      : LoopModel(task, limits), moves_(std::move(moves)) {}

 private:
  Schedule usual() const override { return {"move_regions", {}}; }
  Lowered emit(const Schedule&) const override {
    Lowered lowered;
    for (const auto& [output, region] : moves_)
      lowered.stages.push_back(CopyStage(task(), output, region, limits()).emit(lowered));
    return lowered;
  }

  const Moves moves_;
};

}  // namespace

const Template move_regions{"move_regions", "transpose, slice, pad, tile and similar operators as strided copies",
                            analyse_as<MoveRegions, analyse>};

}  // namespace kilter
