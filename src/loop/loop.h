// The loop IR. One LoopFunc is one kernel. Statements form a tree; registers are mutable scalars or vectors that the
// code generator turns into SSA; buffers are flat arrays indexed by element.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "loop/expr.h"

namespace kilter {

enum class BufferKind : uint8_t {
  input,    ///< read only
  output,   ///< written (the kernel may also read it back)
  scratch,  ///< private to each worker; undefined contents at the start of each parallel iteration
};

/// The memory in which a buffer is placed. Devices without separate memories have only `global`.
enum class MemorySpace : uint8_t {
  global,    ///< the device's memory; scratch there belongs to one worker
  constant,  ///< inputs only: the device's cache for data that all threads read at the same address
  shared,    ///< scratch only: one copy for each block of threads; undefined contents when the block starts
  local,     ///< scratch only: one copy for each thread; undefined contents when the thread starts
};
std::string_view name(MemorySpace space);

/// A flat array of `elems` elements. A boolean occupies one byte. No two buffers of a kernel overlap: the code
/// generator relies on that.
struct Buffer {
  std::string name;
  DType type = DType::f32;
  int64_t elems = 0;
  BufferKind kind = BufferKind::input;
  MemorySpace space = MemorySpace::global;
  int32_t align_bytes = 64;  ///< guaranteed alignment of element 0
};

/// The way in which the iterations of a loop run. The kinds from block_x on bind a loop to the hardware of a device
/// that runs blocks of threads: all iterations may run at the same time, and only the threads of one block can wait for
/// each other (StmtKind::barrier). The rules are in doc/loop_ir.md.
enum class LoopKind : uint8_t {
  serial,
  unrolled,  ///< constant extent; the unroll pass replaces the loop by copies of its body
  vector,    ///< independent iterations; constant extent or step 1; the vectorise pass generates vectors and a masked
             ///< tail
  block_x,
  block_y,
  block_z,
  thread_x,
  thread_y,
  thread_z,
};
std::string_view name(LoopKind kind);
inline bool is_block(LoopKind kind) { return kind >= LoopKind::block_x && kind <= LoopKind::block_z; }
inline bool is_thread(LoopKind kind) { return kind >= LoopKind::thread_x; }
/// Returns whether the loop is bound to blocks or threads.
inline bool is_bound(LoopKind kind) { return kind >= LoopKind::block_x; }

enum class StmtKind : uint8_t {
  block,
  loop,
  let,
  store,
  scatter,
  reg_decl,
  reg_set,
  if_then,
  prefetch,
  check,
  barrier,  ///< every thread of the block waits here for all others, and then sees their earlier writes
  // Statements about tile registers, which only CPUs have. The rules are in doc/loop_ir.md.
  tiles,       ///< declares tile registers for its body; their elements are undefined at the start
  tile_zero,   ///< sets all elements to 0
  tile_load,   ///< reads all rows from memory
  tile_store,  ///< writes all rows to memory
  tile_dot,    ///< adds the products of two tile registers to a third
};
/// Returns whether the statement is about tile registers.
inline bool is_tile(StmtKind kind) { return kind >= StmtKind::tiles; }

struct StmtNode;
using Stmt = std::shared_ptr<const StmtNode>;

struct StmtNode {
  StmtKind kind;
  int32_t id = -1;  ///< loop/let: variable; store/prefetch/tile_load/tile_store: buffer; reg_*: register
  LoopKind loop = LoopKind::serial;
  int64_t step = 1;  ///< loop: > 0; tile_load/tile_store: elements from one row to the next, > 0
  /// loop: begin; let/reg_decl (initial)/reg_set: value; store/prefetch/tile_load/tile_store: index; if/check:
  /// condition
  Expr a = {};
  Expr b = {};                   ///< loop: end; store: value
  Expr mask = {};                ///< store: optional, boolean lanes
  std::vector<Stmt> body = {};   ///< block, loop, if (then), tiles
  std::vector<Stmt> other = {};  ///< if: else
  bool likely = false;           ///< if: the condition is nearly always true; the else side may be slower
  /// tiles: the tile registers that it declares; tile_*: the one that is written or stored, and for tile_dot then those
  /// of the factors.
  std::vector<int32_t> tiles = {};
};

struct VarInfo {
  std::string name;
  VType type;
};

/// A tile register: `rows` rows of `columns` elements.
struct TileInfo {
  std::string name;
  DType type = DType::f32;
  int32_t rows = 0;
  int32_t columns = 0;
  int64_t row_bytes() const { return columns * size_bytes(type); }
};
constexpr int32_t kTileRegisters = 8;
constexpr int32_t kTileRows = 16;      ///< most rows of a tile register
constexpr int32_t kTileRowBytes = 64;  ///< most bytes of a row

struct ParallelDim {
  int32_t var;
  int64_t extent;
};

/// One kernel. Its parallel iterations (the product of the extents, first dimension slowest) may run in any order and
/// on any thread. No two of them write the same element.
struct LoopFunc {
  std::string name;
  std::vector<Buffer> buffers;  ///< in the order of the kernel's arguments; scratch buffers are not arguments
  std::vector<VarInfo> vars;    ///< loop variables (i64) and lets, by id
  std::vector<VarInfo> regs;    ///< registers, by id
  std::vector<TileInfo> tiles;  ///< tile registers, by id
  std::vector<ParallelDim> parallel;
  std::vector<Stmt> body;

  int64_t parallel_extent() const;
  int64_t scratch_bytes() const;  ///< per worker: global scratch buffers, each rounded up to 64 bytes
  /// Returns whether a loop is bound to blocks or threads. Such loops enclose all other statements except lets.
  bool has_bound_loops() const;
};

/// Returns whether a statement or one nested in it is about tile registers.
bool uses_tiles(const StmtNode& s);
/// Returns whether a function uses tile registers.
bool uses_tiles(const LoopFunc& func);

/// The result of a kernel in which a check failed. The kernel still runs to its end.
constexpr int32_t kCheckFailed = 1;

/// A buffer of the function.
///
/// Every variable is bound once (by one loop, let or parallel dimension) and every register is declared once. Both are
/// visible from there to the end of the enclosing block. Loads read memory when their statement runs. All of an
/// expression is evaluated, including both sides of a select.
///
/// Loads: `index` is the element index of lane 0 (scalar i64). Lane k reads index + k * stride; stride 0 loads once and
/// broadcasts, stride 1 is a vector load. With a mask (boolean, same lanes), lanes that are off are not accessed and
/// are 0. A load of booleans gives boolean lanes.
struct Buf {
  int32_t id = -1;
};

/// A tile register of the function.
struct Tile {
  int32_t id = -1;
};

/// Builds one LoopFunc. The functions for control flow take callbacks, so the nesting in C++ is the nesting of the
/// loops.
class LoopBuilder {
 public:
  explicit LoopBuilder(std::string name);

  Buf input(std::string name, DType type, int64_t elems, MemorySpace space = MemorySpace::global);
  Buf output(std::string name, DType type, int64_t elems);
  Buf scratch(std::string name, DType type, int64_t elems, MemorySpace space = MemorySpace::global);
  const Buffer& buffer(Buf b) const { return func_.buffers.at(static_cast<size_t>(b.id)); }
  /// Makes loads from a buffer of f16 or bf16 convert to `type`, a wider float, and stores convert from it. A buffer of
  /// u8 holds integers; the stored integer `zero` stands for 0, and what is stored must be in the range.
  void convert(Buf buffer, DType type, uint8_t zero = 0);
  /// Returns the element type of the values that load() returns and store() takes.
  DType value_type(Buf buffer) const { return values_.at(static_cast<size_t>(buffer.id)).type; }

  /// Adds the next (inner) parallel dimension and returns its variable. Must precede any statement.
  Expr parallel(std::string name, int64_t extent);

  void loop(std::string name, Expr begin, Expr end, int64_t step, const std::function<void(Expr)>& body,
            LoopKind kind = LoopKind::serial);
  void loop(std::string name, Expr begin, Expr end, const std::function<void(Expr)>& body) {
    loop(std::move(name), std::move(begin), std::move(end), 1, body);
  }
  /// Adds a loop over [0, extent) for the vectorise pass. Write the body as if `var` were a scalar.
  void vector_loop(std::string name, int64_t extent, const std::function<void(Expr)>& body);
  /// Adds a loop over [0, extent) that is bound to blocks or threads.
  void bound_loop(std::string name, int64_t extent, LoopKind binding, const std::function<void(Expr)>& body);
  void if_then(Expr condition, const std::function<void()>& then, const std::function<void()>& otherwise = {},
               bool likely = false);

  /// Names a value so that it is computed once, here.
  Expr let(std::string name, Expr value);
  /// Declares a register with an initial value; read it with get().
  int32_t reg(std::string name, Expr initial);
  Expr get(int32_t reg) const;
  void set(int32_t reg, Expr value);

  Expr load(Buf buffer, Expr index, int32_t lanes = 1, int64_t stride = 1, Expr mask = {}) const;
  /// Loads elements in the buffer's own type, even if load() converts them.
  Expr load_raw(Buf buffer, Expr index, int32_t lanes = 1, int64_t stride = 1, Expr mask = {}) const;
  Expr gather(Buf buffer, Expr indices, Expr mask = {}) const;
  /// Stores a value; lane k writes index + k. With a mask, lanes that are off are left unchanged.
  void store(Buf buffer, Expr index, Expr value, Expr mask = {});
  /// Stores a value; lane k writes the element indices[k] (vector i64). The indices of the lanes must differ.
  void scatter(Buf buffer, Expr indices, Expr value, Expr mask = {});
  /// Hints that the cache line of this element will soon be read (locality: L1).
  void prefetch(Buf buffer, Expr index);
  /// Makes the kernel return kCheckFailed instead of 0 if the condition (scalar boolean) is false.
  void check(Expr condition);
  /// Makes the threads of a block wait for each other.
  void barrier();

  /// Declares tile registers for the statements of `body`, which receives them in the order of `infos`.
  void tiles(std::vector<TileInfo> infos, const std::function<void(std::span<const Tile>)>& body);
  void zero(Tile tile);
  /// Reads row r of the tile from the elements at index + r * stride, in the buffer's own type.
  void load_tile(Tile tile, Buf from, Expr index, int64_t stride);
  /// Writes row r of the tile to the elements at index + r * stride, in the buffer's own type.
  void store_tile(Buf to, Expr index, int64_t stride, Tile tile);
  /// Adds the matrix product of `a`, whose rows are groups of elements, and `b`, which has one row for each group of a
  /// row of `a`: column n of the sum receives group n of that row, element by element. A group is two of bf16, with
  /// sums of f32, or four of i8 or u8, with sums of i32.
  void dot_tiles(Tile sum, Tile a, Tile b);

  LoopFunc finish();

 private:
  void add(StmtNode node);
  Buf add_buffer(std::string name, DType type, int64_t elems, BufferKind kind, MemorySpace space);
  /// Converts a value for a buffer whose stores convert.
  Expr to_buffer(Buf buffer, Expr value) const;
  /// Converts loaded elements of a buffer whose loads convert. With a mask, lanes that are off are 0.
  Expr from_buffer(Buf buffer, const Expr& loaded, const Expr& mask) const;
  LoopFunc func_;
  struct ValueType {
    DType type;
    uint8_t zero = 0;  ///< the stored integer that stands for 0
  };
  std::vector<ValueType> values_;  ///< by buffer
  std::vector<std::vector<Stmt>> open_;
};

/// Returns the mask that turns on the first `count` (scalar i64, >= 0, may be >= lanes) of `lanes` lanes: ramp(0:i32,
/// 1:i32) < broadcast(cast(i32, min(count, lanes))).
Expr first_lanes(Expr count, int32_t lanes);
/// Returns the i32 count of a mask that first_lanes() returned (a constant for a constant mask); undefined for other
/// masks.
Expr first_lanes_count(const Expr& mask);

/// Throws internal with the first broken rule: types, scopes, indices out of bounds (by interval analysis, if the index
/// is affine), stores to inputs, parallel iterations, blocks or threads that store to overlapping intervals (if that
/// can be decided), and bound loops, memory spaces, barriers and tile registers that break the rules of doc/loop_ir.md.
void verify(const LoopFunc& func);
std::string print(const LoopFunc& func);
LoopFunc parse_loop_func(std::string_view text);

/// Runs the parallel iterations [begin, end) of the kernel without a target. `args` are the base addresses of the
/// non-scratch buffers, in order. Throws internal on an access outside a buffer. Vector loops run as scalars in order,
/// blocks one after another, and the threads of a block one after another from each barrier to the next. Returns 0 or
/// kCheckFailed, like the compiled kernel.
int32_t interpret(const LoopFunc& func, const std::vector<std::byte*>& args, int64_t begin, int64_t end);

}  // namespace kilter
