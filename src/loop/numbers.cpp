#include "loop/numbers.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <limits>
#include <map>
#include <optional>

#include "base/error.h"
#include "base/hash.h"
#include "loop/node_map.h"

namespace kilter {
namespace {

constexpr VType kIndex{DType::i64, 1};

bool is_integer(const ExprNode& e) {
  const DType type = e.type.elem;
  return e.kind == ExprKind::int_imm && e.type.lanes == 1 &&
         (type == DType::i64 || type == DType::u64 || type == DType::i32);
}
/// Returns whether the expression loads elements that are not adjacent. Their distance counts as a number.
bool is_strided(const ExprNode& e) {
  return e.kind == ExprKind::load && e.type.lanes > 1 && e.ival != 0 && e.ival != 1;
}
bool is_number(const ExprNode& e) {
  return is_integer(e) || is_strided(e) || (e.kind == ExprKind::float_imm && e.type.elem == DType::f32);
}

int64_t bits_of(const ExprNode& e) {
  return e.kind == ExprKind::float_imm ? std::bit_cast<int32_t>(static_cast<float>(e.fval)) : e.ival;
}

/// Returns whether the statement's expressions must stay constant.
bool is_fixed(const StmtNode& s) {
  return s.kind == StmtKind::loop && s.loop != LoopKind::serial && s.loop != LoopKind::vector;
}

/// Copies the statements of a function and offers each of its numbers for replacement, in a fixed order. A number in an
/// expression that several statements share is one number.
class NumberVisitor {
 public:
  /// Receives the position of a number and its node; an undefined result keeps the node.
  using Replace = std::function<Expr(size_t position, const ExprNode& node)>;
  NumberVisitor(size_t first, Replace replace) : next_(first), replace_(std::move(replace)) {}

  std::vector<Stmt> block(const std::vector<Stmt>& in) {
    std::vector<Stmt> out;
    out.reserve(in.size());
    for (const Stmt& s : in) out.push_back(statement(*s));
    return out;
  }

 private:
  Stmt statement(const StmtNode& s) {
    StmtNode copy = s;
    for (Expr* e : {&copy.a, &copy.b, &copy.mask}) {
      if (e->defined() && !is_fixed(s)) *e = expr(*e);
    }
    copy.body = block(s.body);
    copy.other = block(s.other);
    return make_node<StmtNode>(std::move(copy));
  }

  Expr expr(const Expr& e) {
    if (const Expr* known = memo_.find(e.get())) return *known;
    const Expr number = is_number(*e) ? replace_(next_++, *e) : Expr();
    Expr result = e->args.empty() && number.defined() ? number : with_rewritten_args(e);
    if (is_strided(*e) && number.defined()) {
      const ExprNode& load = *result;
      result = gather_expr(load.type.elem, load.id, ramp(load.args[0], number, load.type.lanes),
                           load.args.size() > 1 ? load.args[1] : Expr());
    }
    memo_[e.get()] = result;
    return result;
  }

  Expr with_rewritten_args(const Expr& e) {
    ExprArgs args;
    bool changed = false;
    for (const Expr& arg : e->args) {
      args.push_back(expr(arg));
      changed = changed || args.back().get() != arg.get();
    }
    if (!changed) return e;
    ExprNode node = *e;  // not with_args(): folding would hide where numbers were
    node.args = std::move(args);
    return Expr(make_node<ExprNode>(std::move(node)));
  }

  size_t next_;
  Replace replace_;
  NodeMap<Expr> memo_;
};

/// Finds the numbers of a function and the fingerprint of the rest, in the order of NumberVisitor.
class Survey {
 public:
  explicit Survey(const LoopFunc& func) : func_(func) {}

  LoopNumbers run() {
    header();
    block(func_.body);
    return std::move(out_);
  }

 private:
  template <class T>
  void put(T value) {
    out_.structure.add(static_cast<uint64_t>(value));
  }
  void put(VType type) { put(static_cast<uint64_t>(type.elem) << 32 | static_cast<uint32_t>(type.lanes)); }
  template <class T>
  void put_all(const std::vector<T>& values) {
    put(values.size());
    for (const T& value : values) put(value);
  }

  void header() {
    put(hash_text(func_.name));
    for (const Buffer& b : func_.buffers) {
      put(b.type);
      put(b.kind);
      put(b.space);
      put(b.align_bytes);
      if (b.kind == BufferKind::scratch) out_.scratch.push_back(b.elems);
    }
    put(func_.buffers.size());
    for (const auto* infos : {&func_.vars, &func_.regs}) {
      put(infos->size());
      for (const VarInfo& info : *infos) put(info.type);
    }
    put(func_.tiles.size());
    for (const TileInfo& tile : func_.tiles) {
      put(tile.type);
      put(tile.rows);
      put(tile.columns);
    }
    put(func_.parallel.size());
    for (const ParallelDim& dim : func_.parallel) {
      put(dim.var);
      out_.values.push_back(dim.extent);
    }
  }

  void block(const std::vector<Stmt>& stmts) {
    put(stmts.size());
    for (const Stmt& s : stmts) statement(*s);
  }

  void statement(const StmtNode& s) {
    const auto bit = [](bool on, int at) { return static_cast<uint64_t>(on) << at; };
    put(static_cast<uint64_t>(s.kind) | static_cast<uint64_t>(s.loop) << 8 | bit(s.likely, 16) |
        bit(s.a.defined(), 17) | bit(s.b.defined(), 18) | bit(s.mask.defined(), 19) |
        static_cast<uint64_t>(static_cast<uint32_t>(s.id)) << 32);
    put(s.step);
    put_all(s.tiles);
    for (const Expr* e : {&s.a, &s.b, &s.mask}) {
      if (e->defined()) is_fixed(s) ? fixed(*e) : expr(*e);
    }
    block(s.body);
    block(s.other);
  }

  /// Adds everything about a node except its arguments and, for numbers, its value.
  void node(const ExprNode& e) {
    put(static_cast<uint64_t>(e.kind) | static_cast<uint64_t>(e.op) << 8 | static_cast<uint64_t>(e.args.size()) << 16 |
        static_cast<uint64_t>(e.type.elem) << 24 | static_cast<uint64_t>(static_cast<uint32_t>(e.type.lanes)) << 32);
    if (e.id >= 0) put(e.id);
    if (e.kind == ExprKind::shuffle) put_all(e.picks);
  }
  void value(const ExprNode& e) {
    put(e.ival);
    put(std::bit_cast<uint64_t>(e.fval));
  }

  void expr(const Expr& e) {
    int64_t& known = memo_[e.get()];
    if (known > 0) return put(-known);
    known = ++visited_;
    node(*e);
    if (is_number(*e))
      out_.values.push_back(bits_of(*e));
    else
      value(*e);
    for (const Expr& arg : e->args) expr(arg);
  }

  /// An expression whose numbers belong to the structure.
  void fixed(const Expr& e) {
    node(*e);
    value(*e);
    for (const Expr& arg : e->args) fixed(arg);
  }

  const LoopFunc& func_;
  LoopNumbers out_;
  NodeMap<int64_t> memo_;  ///< by node: when it was first visited, from 1
  int64_t visited_ = 0;
};

/// Builds the function that reads numbers from memory.
class Reader {
 public:
  Reader(const LoopFunc& func, std::span<const NumberPlace> places) : func_(func), places_(places) {
    int32_t count = 0;
    for (const NumberPlace& place : places) count = std::max(count, place.slot + 1);
    dims_.resize(static_cast<size_t>(count));
  }

  LoopFunc run(std::span<const int64_t> scratch) {
    LoopFunc out = func_;
    buffers(out, scratch);
    func_.vars = out.vars;
    NumberVisitor visitor(func_.parallel.size(), [this](size_t position, const ExprNode& node) {
      const NumberPlace& place = places_[position];
      return place.slot < 0 ? Expr() : read(place, node);
    });
    std::vector<Stmt> body = visitor.block(out.body);
    const std::vector<Stmt> places = parallel(out);
    out.vars = std::move(func_.vars);
    out.body = std::move(lets_);
    out.body.insert(out.body.end(), places.begin(), places.end());
    out.body.insert(out.body.end(), body.begin(), body.end());
    return out;
  }

 private:
  void buffers(LoopFunc& out, std::span<const int64_t> scratch) {
    constexpr int64_t kAnySize = std::numeric_limits<int64_t>::max();  // code does not depend on it
    size_t next = 0;
    for (Buffer& buffer : out.buffers) buffer.elems = buffer.kind == BufferKind::scratch ? scratch[next++] : kAnySize;
    buffer_ = static_cast<int32_t>(out.buffers.size());
    out.buffers.push_back({.name = "dims", .type = DType::i64, .elems = static_cast<int64_t>(dims_.size())});
  }

  Expr let(const std::string& name, Expr value, std::vector<Stmt>& to) {
    const auto id = static_cast<int32_t>(func_.vars.size());
    func_.vars.push_back({name, value.type()});
    Expr var = var_expr(value.type(), id);
    to.push_back(make_node<StmtNode>(StmtNode{.kind = StmtKind::let, .id = id, .a = std::move(value)}));
    return var;
  }

  /// The number at a place. Each slot is loaded once.
  Expr number(const NumberPlace& place) {
    Expr& known = dims_[static_cast<size_t>(place.slot)];
    if (!known.defined()) known = let("d", load_expr(DType::i64, buffer_, Expr(place.slot)), lets_);
    return known + Expr(place.plus);
  }

  Expr read(const NumberPlace& place, const ExprNode& like) {
    if (is_integer(like)) return cast(like.type.elem, number(place));
    if (is_strided(like)) return number(place);
    Expr& known = floats_[{place.slot, place.plus}];
    if (!known.defined()) known = let("f", bitcast(DType::f32, cast(DType::i32, number(place))), lets_);
    return like.type.lanes == 1 ? known : broadcast(known, like.type.lanes);
  }

  /// Merges several parallel dimensions whose extents are read into one. Returns the statements that bind their
  /// variables.
  std::vector<Stmt> parallel(LoopFunc& out) {
    std::vector<Stmt> places;
    const size_t count = out.parallel.size();
    const bool any = std::ranges::any_of(places_.first(count), [](const NumberPlace& p) { return p.slot >= 0; });
    if (!any) return places;
    const std::vector<ParallelDim> dims = std::exchange(out.parallel, {});
    constexpr int64_t kAnyExtent = int64_t{1} << 31;
    if (count == 1) {
      out.parallel = {{dims[0].var, kAnyExtent}};
      return places;
    }
    const auto all = static_cast<int32_t>(func_.vars.size());
    func_.vars.push_back({"all", kIndex});
    out.parallel = {{all, kAnyExtent}};
    Expr rest = var_expr(kIndex, all);
    for (size_t i = count; i-- > 0;) {
      const Expr extent = places_[i].slot >= 0 ? number(places_[i]) : Expr(dims[i].extent);
      Expr place = i == 0 ? rest : rest % extent;
      places.push_back(make_node<StmtNode>(StmtNode{.kind = StmtKind::let, .id = dims[i].var, .a = std::move(place)}));
      if (i > 0) rest = let("rest", rest / extent, places);
    }
    return places;
  }

  LoopFunc func_;
  std::span<const NumberPlace> places_;
  std::vector<Expr> dims_;                              ///< by slot; undefined until used
  std::map<std::pair<int32_t, int64_t>, Expr> floats_;  ///< by slot and `plus`
  std::vector<Stmt> lets_;
  int32_t buffer_ = -1;
};

}  // namespace

LoopNumbers numbers_of(const LoopFunc& func) { return Survey(func).run(); }

void Fingerprint::add(uint64_t word) {
  low = mix_bits(low ^ word);
  high = (std::rotl(high, 23) + word) * 0x9fb21c651e98df25ULL;
  high ^= high >> 32;
}

Fingerprint LoopNumbers::code() const {
  Fingerprint all = structure;
  for (const auto* numbers : {&values, &scratch}) {
    all.add(numbers->size());
    for (const int64_t number : *numbers) all.add(static_cast<uint64_t>(number));
  }
  return all;
}

LoopFunc reading_numbers(const LoopFunc& func, std::span<const NumberPlace> places, std::span<const int64_t> scratch) {
  return Reader(func, places).run(scratch);
}

}  // namespace kilter
