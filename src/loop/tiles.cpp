#include "loop/tiles.h"

#include <algorithm>

namespace kilter {
namespace {

std::string shape(const TileInfo& t) { return fmt::format("{}[{}, {}]", name(t.type), t.rows, t.columns); }

class Tiles {
 public:
  explicit Tiles(const LoopFunc& func) : func_(func), open_(func.tiles.size(), false), made_(open_) {}

  void run() {
    if (func_.has_bound_loops() && uses_tiles(func_))
      error("tile registers in a function whose loops are bound to blocks or threads; only CPUs have them");
    block(func_.body);
  }

 private:
  template <class... Args>
  [[noreturn]] void error(fmt::format_string<Args...> format, Args&&... args) const {
    fail(ErrorKind::internal, "verify '{}': {}", func_.name, fmt::format(format, std::forward<Args>(args)...));
  }

  void block(const std::vector<Stmt>& stmts) {
    for (const Stmt& s : stmts) {
      if (s != nullptr) statement(*s);
    }
  }

  void statement(const StmtNode& s) {
    if (is_tile(s.kind) && vector_) error("a vector loop uses tile registers; expected serial or unrolled loops");
    switch (s.kind) {
      case StmtKind::tiles:
        return make(s);
      case StmtKind::tile_zero:
        return static_cast<void>(used(s, 1));
      case StmtKind::tile_load:
      case StmtKind::tile_store:
        return memory(s);
      case StmtKind::tile_dot:
        return dot(s);
      default:
        break;
    }
    const bool outside = !vector_;
    vector_ = vector_ || (s.kind == StmtKind::loop && s.loop == LoopKind::vector);
    block(s.body);
    block(s.other);
    vector_ = vector_ && !outside;
  }

  size_t index(int32_t tile) const {
    if (tile < 0 || static_cast<size_t>(tile) >= func_.tiles.size())
      error("tile register number {} does not exist", tile);
    return static_cast<size_t>(tile);
  }

  void make(const StmtNode& s) {
    if (inside_)
      error("'tiles' inside another 'tiles'; declare all tile registers that are used together in one 'tiles'");
    if (s.tiles.empty() || std::ssize(s.tiles) > kTileRegisters)
      error("'tiles' declares {} tile registers; expected 1 to {}", s.tiles.size(), kTileRegisters);
    for (const int32_t tile : s.tiles) {
      const size_t i = index(tile);
      if (made_[i]) error("tile register '{}' is declared twice", func_.tiles[i].name);
      check_shape(func_.tiles[i]);
      made_[i] = open_[i] = true;
    }
    inside_ = true;
    block(s.body);
    inside_ = false;
    for (const int32_t tile : s.tiles) open_[static_cast<size_t>(tile)] = false;
  }

  void check_shape(const TileInfo& t) const {
    constexpr DType kTypes[] = {DType::f32, DType::i32, DType::bf16, DType::i8, DType::u8};
    if (std::ranges::find(kTypes, t.type) == std::end(kTypes))
      error("tile register '{}' has elements of {}; expected f32, i32, bf16, i8 or u8", t.name, name(t.type));
    const bool rows = t.rows >= 1 && t.rows <= kTileRows;
    const bool bytes = t.columns >= 1 && t.row_bytes() <= kTileRowBytes && t.row_bytes() % 4 == 0;
    if (rows && bytes) return;
    error("tile register '{}' is {}: {} rows of {} bytes; expected 1 to {} rows of a multiple of 4, up to {} bytes",
          t.name, shape(t), t.rows, t.row_bytes(), kTileRows, kTileRowBytes);
  }

  /// Returns the first of the `count` tile registers of a statement, all of which are in scope.
  const TileInfo& used(const StmtNode& s, size_t count) const {
    if (s.tiles.size() != count) error("a statement about {} tile registers; expected {}", s.tiles.size(), count);
    for (const int32_t tile : s.tiles) {
      const size_t i = index(tile);
      if (!open_[i]) error("tile register '{}' is used outside of the 'tiles' that declares it", func_.tiles[i].name);
    }
    return func_.tiles[static_cast<size_t>(s.tiles[0])];
  }

  void memory(const StmtNode& s) const {
    const TileInfo& t = used(s, 1);
    const bool store = s.kind == StmtKind::tile_store;
    const std::string_view what = store ? "store" : "load";
    if (s.id < 0 || static_cast<size_t>(s.id) >= func_.buffers.size()) error("buffer number {} does not exist", s.id);
    const Buffer& b = func_.buffers[static_cast<size_t>(s.id)];
    if (b.type != t.type)
      error("tile {} between '{}' of {} and '{}' of {}", what, t.name, name(t.type), b.name, name(b.type));
    if (store && b.kind == BufferKind::input) error("tile store to input '{}'", b.name);
    if (!s.a.defined() || s.a.type() != VType{DType::i64, 1})
      error("tile {} of '{}': the index is not a scalar i64", what, t.name);
    const int64_t least = store ? t.columns : 1;
    if (s.step < least)
      error("tile {} of '{}': the rows are {} elements apart; expected {} or more", what, t.name, s.step, least);
  }

  void dot(const StmtNode& s) const {
    const TileInfo& sum = used(s, 3);
    const TileInfo &a = func_.tiles[static_cast<size_t>(s.tiles[1])], &b = func_.tiles[static_cast<size_t>(s.tiles[2])];
    if (s.tiles[0] == s.tiles[1] || s.tiles[0] == s.tiles[2] || s.tiles[1] == s.tiles[2])
      error("tile_dot of '{}', '{}' and '{}'; expected three registers", sum.name, a.name, b.name);
    const auto byte = [](DType type) { return type == DType::i8 || type == DType::u8; };
    const bool bfloats = a.type == DType::bf16 && b.type == DType::bf16 && sum.type == DType::f32;
    const bool bytes = byte(a.type) && byte(b.type) && sum.type == DType::i32;
    const bool fits = a.rows == sum.rows && a.row_bytes() == int64_t{4} * b.rows && b.row_bytes() == sum.row_bytes();
    if ((bfloats || bytes) && fits) return;
    error(
        "tile_dot of '{}' {}, '{}' {} and '{}' {}; expected sums of f32 with factors of bf16, or of i32 with factors "
        "of i8 and u8, where the first factor has as many rows as the sum, the second has a row for every 4 bytes of a "
        "row of the first, and its rows have as many bytes as those of the sum",
        sum.name, shape(sum), a.name, shape(a), b.name, shape(b));
  }

  const LoopFunc& func_;
  std::vector<bool> open_, made_;  ///< by tile register: whether it is in scope, and whether it has been declared
  bool inside_ = false;            ///< inside a `tiles`
  bool vector_ = false;            ///< inside a vector loop
};

}  // namespace

bool uses_tiles(const StmtNode& s) {
  const auto inner = [](const Stmt& b) { return b != nullptr && uses_tiles(*b); };
  return is_tile(s.kind) || std::ranges::any_of(s.body, inner) || std::ranges::any_of(s.other, inner);
}

bool uses_tiles(const LoopFunc& func) {
  return std::ranges::any_of(func.body, [](const Stmt& s) { return s != nullptr && uses_tiles(*s); });
}

void check_tiles(const LoopFunc& func) { Tiles(func).run(); }

}  // namespace kilter
