#include <algorithm>

#include "loop/loop.h"
#include "loop/text.h"

namespace kilter {

namespace {

int64_t checked_product(int64_t a, int64_t b, const LoopFunc& func) {
  int64_t product = 0;
  require(!__builtin_mul_overflow(a, b, &product), "loop function '{}': the parallel extent overflows", func.name);
  return product;
}

}  // namespace

int64_t LoopFunc::parallel_extent() const {
  int64_t extent = 1;
  for (const ParallelDim& d : parallel) extent = checked_product(extent, d.extent, *this);
  return extent;
}

int64_t LoopFunc::scratch_bytes() const {
  int64_t bytes = 0;
  for (const Buffer& b : buffers) {
    if (b.kind == BufferKind::scratch && b.space == MemorySpace::global)
      bytes += (b.elems * size_bytes(b.type) + 63) / 64 * 64;
  }
  return bytes;
}

bool LoopFunc::has_bound_loops() const {
  return std::ranges::any_of(
      body, [](const Stmt& s) { return s != nullptr && s->kind == StmtKind::loop && is_bound(s->loop); });
}

std::string_view name(MemorySpace space) {
  static constexpr std::string_view kNames[] = {"global", "constant", "shared", "local"};
  return kNames[static_cast<size_t>(space)];
}

std::string_view name(LoopKind kind) {
  static constexpr std::string_view kNames[] = {"serial",  "unrolled", "vector",   "block_x", "block_y",
                                                "block_z", "thread_x", "thread_y", "thread_z"};
  return kNames[static_cast<size_t>(kind)];
}

LoopBuilder::LoopBuilder(std::string name) {
  func_.name = std::move(name);
  open_.emplace_back();
}

namespace {

int32_t add_var(LoopFunc& func, std::string name, VType type) {
  func.vars.push_back({std::move(name), type});
  return static_cast<int32_t>(func.vars.size()) - 1;
}

constexpr VType kIndex{DType::i64, 1};

}  // namespace

Buf LoopBuilder::add_buffer(std::string name, DType type, int64_t elems, BufferKind kind, MemorySpace space) {
  require(is_arithmetic(type) && elems >= 0,
          "loop function '{}': buffer '{}' has {} elements of {}; expected 0 or more, of numbers or bool", func_.name,
          name, elems, kilter::name(type));
  func_.buffers.push_back({.name = std::move(name), .type = type, .elems = elems, .kind = kind, .space = space});
  values_.push_back({type});
  return Buf{static_cast<int32_t>(func_.buffers.size()) - 1};
}

Buf LoopBuilder::input(std::string name, DType type, int64_t elems, MemorySpace space) {
  return add_buffer(std::move(name), type, elems, BufferKind::input, space);
}
Buf LoopBuilder::output(std::string name, DType type, int64_t elems) {
  return add_buffer(std::move(name), type, elems, BufferKind::output, MemorySpace::global);
}
Buf LoopBuilder::scratch(std::string name, DType type, int64_t elems, MemorySpace space) {
  return add_buffer(std::move(name), type, elems, BufferKind::scratch, space);
}

void LoopBuilder::convert(Buf buffer, DType type, uint8_t zero) {
  const DType own = this->buffer(buffer).type;
  const bool widens = is_float(own) && size_bytes(own) <= size_bytes(type) && zero == 0;
  require(is_float(type) && (widens || own == DType::u8),
          "loop function '{}': buffer '{}' of {} with zero {} cannot convert to {}", func_.name,
          this->buffer(buffer).name, name(own), zero, name(type));
  values_[static_cast<size_t>(buffer.id)] = {type, zero};
}

Expr LoopBuilder::to_buffer(Buf buffer, Expr value) const {
  const DType own = this->buffer(buffer).type;
  if (own == value_type(buffer) || value.elem() != value_type(buffer)) return value;
  if (own != DType::u8) return cast(own, std::move(value));
  const auto zero = values_[static_cast<size_t>(buffer.id)].zero;
  const bool integer = value->kind == ExprKind::cast && value->args[0].elem() == DType::i32;
  if (integer) return cast(own, value->args[0] + imm_int(DType::i32, zero));
  constexpr double kWhole = 0x1.8p23;  // the low bits of this number plus an integer hold the integer
  const Expr whole = cast(DType::f32, std::move(value)) + imm(DType::f32, kWhole + zero);
  return cast(own, bitcast(DType::i32, whole));
}

Expr LoopBuilder::from_buffer(Buf buffer, const Expr& loaded, const Expr& mask) const {
  const auto& [type, zero] = values_.at(static_cast<size_t>(buffer.id));
  if (zero == 0) return cast(type, loaded);
  const Expr value = cast(type, cast(DType::i32, loaded) - imm_int(DType::i32, zero));
  return mask.defined() ? select(mask, value, imm(type, 0, value.lanes())) : value;
}

Expr LoopBuilder::parallel(std::string name, int64_t extent) {
  require(open_.size() == 1 && open_.back().empty(), "loop function '{}': parallel dimension '{}' after a statement",
          func_.name, name);
  require(extent >= 0, "loop function '{}': parallel dimension '{}' has extent {}; expected 0 or more", func_.name,
          name, extent);
  const int32_t id = add_var(func_, std::move(name), kIndex);
  func_.parallel.push_back({id, extent});
  return var_expr(kIndex, id);
}

void LoopBuilder::add(StmtNode node) { open_.back().push_back(make_node<StmtNode>(std::move(node))); }

void LoopBuilder::loop(std::string name, Expr begin, Expr end, int64_t step, const std::function<void(Expr)>& body,
                       LoopKind kind) {
  require(begin.type() == kIndex && end.type() == kIndex && step > 0,
          "loop '{}' of '{}': expected i64 bounds and a positive step, got {}, {} and {}", name, func_.name,
          begin.type(), end.type(), step);
  const int32_t id = add_var(func_, std::move(name), kIndex);
  open_.emplace_back();
  body(var_expr(kIndex, id));
  StmtNode node{
      .kind = StmtKind::loop, .id = id, .loop = kind, .step = step, .a = std::move(begin), .b = std::move(end)};
  node.body = std::move(open_.back());
  open_.pop_back();
  add(std::move(node));
}

void LoopBuilder::vector_loop(std::string name, int64_t extent, const std::function<void(Expr)>& body) {
  loop(std::move(name), 0, extent, 1, body, LoopKind::vector);
}

void LoopBuilder::bound_loop(std::string name, int64_t extent, LoopKind binding,
                             const std::function<void(Expr)>& body) {
  loop(std::move(name), 0, extent, 1, body, binding);
}

void LoopBuilder::if_then(Expr condition, const std::function<void()>& then, const std::function<void()>& otherwise,
                          bool likely) {
  require(condition.type() == VType{DType::boolean, 1}, "if in '{}': the condition has type {}, expected bool",
          func_.name, condition.type());
  StmtNode node{.kind = StmtKind::if_then, .a = std::move(condition), .likely = likely};
  open_.emplace_back();
  then();
  node.body = std::move(open_.back());
  open_.back() = {};
  if (otherwise) otherwise();
  node.other = std::move(open_.back());
  open_.pop_back();
  add(std::move(node));
}

Expr LoopBuilder::let(std::string name, Expr value) {
  const VType type = value.type();
  const int32_t id = add_var(func_, std::move(name), type);
  add({.kind = StmtKind::let, .id = id, .a = std::move(value)});
  return var_expr(type, id);
}

int32_t LoopBuilder::reg(std::string name, Expr initial) {
  func_.regs.push_back({std::move(name), initial.type()});
  const auto id = static_cast<int32_t>(func_.regs.size()) - 1;
  add({.kind = StmtKind::reg_decl, .id = id, .a = std::move(initial)});
  return id;
}

Expr LoopBuilder::get(int32_t reg) const { return reg_expr(func_.regs.at(static_cast<size_t>(reg)).type, reg); }

void LoopBuilder::set(int32_t reg, Expr value) {
  const VarInfo& info = func_.regs.at(static_cast<size_t>(reg));
  if (value.lanes() == 1 && info.type.lanes > 1) value = broadcast(std::move(value), info.type.lanes);
  require(value.type() == info.type, "register '{}' of '{}': expected a value of type {}, got {}", info.name,
          func_.name, info.type, value.type());
  add({.kind = StmtKind::reg_set, .id = reg, .a = std::move(value)});
}

Expr LoopBuilder::load(Buf buffer, Expr index, int32_t lanes, int64_t stride, Expr mask) const {
  const Expr loaded = load_raw(buffer, std::move(index), lanes, stride, mask);
  return from_buffer(buffer, loaded, mask);
}

Expr LoopBuilder::load_raw(Buf buffer, Expr index, int32_t lanes, int64_t stride, Expr mask) const {
  return load_expr(this->buffer(buffer).type, buffer.id, std::move(index), lanes, stride, std::move(mask));
}

Expr LoopBuilder::gather(Buf buffer, Expr indices, Expr mask) const {
  const Expr loaded = gather_expr(this->buffer(buffer).type, buffer.id, std::move(indices), mask);
  return from_buffer(buffer, loaded, mask);
}

void LoopBuilder::store(Buf buffer, Expr index, Expr value, Expr mask) {
  const Buffer& b = this->buffer(buffer);
  value = to_buffer(buffer, std::move(value));
  if (!(b.kind != BufferKind::input && value.elem() == b.type && index.type() == kIndex))
    fail(ErrorKind::internal,
         "store to '{}' of '{}': expected an output or scratch buffer, an i64 index and a value of {}, got index {}, "
         "value {}",
         b.name, func_.name, name(b.type), text(index.type()), text(value.type()));
  if (mask.defined()) {
    if (value.lanes() == 1) value = broadcast(std::move(value), mask.lanes());
    require(mask.type() == VType{DType::boolean, value.lanes()},
            "store to '{}' of '{}': {} lanes with a mask of type {}", b.name, func_.name, value.lanes(), mask.type());
  }
  add({.kind = StmtKind::store,
       .id = buffer.id,
       .a = std::move(index),
       .b = std::move(value),
       .mask = std::move(mask)});
}

void LoopBuilder::scatter(Buf buffer, Expr indices, Expr value, Expr mask) {
  const Buffer& b = this->buffer(buffer);
  value = to_buffer(buffer, std::move(value));
  if (value.lanes() == 1) value = broadcast(std::move(value), indices.lanes());
  if (!(b.kind != BufferKind::input && value.elem() == b.type && indices.type() == VType{DType::i64, value.lanes()}))
    fail(ErrorKind::internal,
         "scatter to '{}' of '{}': expected an output or scratch buffer, i64 indices and a value of {}, got {} and {}",
         b.name, func_.name, name(b.type), text(indices.type()), text(value.type()));
  require(!mask.defined() || mask.type() == VType{DType::boolean, value.lanes()},
          "scatter to '{}' of '{}': {} lanes with a mask of the wrong type", b.name, func_.name, value.lanes());
  add({.kind = StmtKind::scatter,
       .id = buffer.id,
       .a = std::move(indices),
       .b = std::move(value),
       .mask = std::move(mask)});
}

void LoopBuilder::prefetch(Buf buffer, Expr index) {
  require(index.type() == kIndex, "prefetch in '{}': the index has type {}, expected i64", func_.name, index.type());
  add({.kind = StmtKind::prefetch, .id = buffer.id, .a = std::move(index)});
}

void LoopBuilder::check(Expr condition) {
  require(condition.type() == VType{DType::boolean, 1}, "check in '{}': the condition has type {}, expected bool",
          func_.name, condition.type());
  add({.kind = StmtKind::check, .a = std::move(condition)});
}

void LoopBuilder::barrier() { add({.kind = StmtKind::barrier}); }

void LoopBuilder::tiles(std::vector<TileInfo> infos, const std::function<void(std::span<const Tile>)>& body) {
  StmtNode node{.kind = StmtKind::tiles};
  std::vector<Tile> made;
  for (TileInfo& info : infos) {
    made.push_back({static_cast<int32_t>(func_.tiles.size())});
    node.tiles.push_back(made.back().id);
    func_.tiles.push_back(std::move(info));
  }
  open_.emplace_back();
  body(made);
  node.body = std::move(open_.back());
  open_.pop_back();
  add(std::move(node));
}

void LoopBuilder::zero(Tile tile) { add({.kind = StmtKind::tile_zero, .tiles = {tile.id}}); }

void LoopBuilder::load_tile(Tile tile, Buf from, Expr index, int64_t stride) {
  add({.kind = StmtKind::tile_load, .id = from.id, .step = stride, .a = std::move(index), .tiles = {tile.id}});
}

void LoopBuilder::store_tile(Buf to, Expr index, int64_t stride, Tile tile) {
  add({.kind = StmtKind::tile_store, .id = to.id, .step = stride, .a = std::move(index), .tiles = {tile.id}});
}

void LoopBuilder::dot_tiles(Tile sum, Tile a, Tile b) {
  add({.kind = StmtKind::tile_dot, .tiles = {sum.id, a.id, b.id}});
}

LoopFunc LoopBuilder::finish() {
  func_.body = std::move(open_.back());
  open_.assign(1, {});
  return std::move(func_);
}

Expr first_lanes(Expr count, int32_t lanes) {
  require(count.type() == kIndex, "first_lanes: the count has type {}, expected i64", count.type());
  if (is_const(count)) {
    if (count->ival >= lanes) return imm_int(DType::boolean, 1, lanes);
    if (count->ival <= 0) return imm_int(DType::boolean, 0, lanes);
  }
  const Expr count32 = cast(DType::i32, min(std::move(count), lanes));
  if (lanes == 1) return binary(Op::lt, imm_int(DType::i32, 0), count32);
  return binary(Op::lt, ramp(imm_int(DType::i32, 0), imm_int(DType::i32, 1), lanes), broadcast(count32, lanes));
}

Expr first_lanes_count(const Expr& mask) {
  if (!mask.defined() || mask.elem() != DType::boolean) return {};
  if (mask->kind == ExprKind::int_imm) return imm_int(DType::i32, mask->ival != 0 ? mask.lanes() : 0);
  if (mask->kind != ExprKind::binary || mask->op != Op::lt) return {};
  const Expr& left = mask->args[0];
  const Expr count = splat_of(mask->args[1]);
  if (!count.defined() || left->kind != ExprKind::ramp || left.elem() != DType::i32) return {};
  const bool counts_lanes =
      is_const(left->args[0]) && left->args[0]->ival == 0 && is_const(left->args[1]) && left->args[1]->ival == 1;
  return counts_lanes ? count : Expr();
}

}  // namespace kilter
