// Checks the structure of a function: types, scopes, stores, and the places of barriers. bindings.cpp checks the nest
// of bound loops, tiles.cpp those of tile registers, and access.cpp bounds and races.
#include <algorithm>

#include "loop/access.h"
#include "loop/bindings.h"
#include "loop/loop.h"
#include "loop/node_map.h"
#include "loop/text.h"
#include "loop/tiles.h"

namespace kilter {
namespace {

constexpr VType kIndex{DType::i64, 1};

class Verifier {
 public:
  Verifier(const LoopFunc& func, bool accesses)
      : func_(func),
        accesses_(accesses),
        access_(check_tables(func)),
        vars_(func.vars.size()),
        regs_(func.regs.size()) {}

  void run() {
    for (const ParallelDim& d : func_.parallel) bind(vars_, d.var, "variable");
    check_bindings(func_);
    check_tiles(func_);
    block(func_.body);
  }

 private:
  /// A variable or register: when it was bound, and whether its scope is still open.
  struct Name {
    int64_t order = 0;  ///< 0: not bound yet
    bool open = false;
  };
  struct Bound {
    bool is_reg;
    int32_t id;
  };
  struct Known {
    int64_t statement = -1;        ///< the statement for which its loads were last checked
    const Name* newest = nullptr;  ///< the latest of all names that the node reads: all are in scope as long as this
                                   ///< one is
    int64_t order = 0;
    bool loads = false;
  };

  template <class... Args>
  [[noreturn]] void error(fmt::format_string<Args...> format, Args&&... args) const {
    fail(ErrorKind::internal, "verify '{}': {}", func_.name, fmt::format(format, std::forward<Args>(args)...));
  }
  void check(bool holds, std::string_view what) const {
    if (!holds) error("{}", what);
  }

  static const LoopFunc& check_tables(const LoopFunc& func) {
    for (const ParallelDim& d : func.parallel) {
      const bool known = d.var >= 0 && static_cast<size_t>(d.var) < func.vars.size();
      require(known && d.extent >= 0 && func.vars[static_cast<size_t>(d.var)].type == kIndex,
              "verify '{}': parallel dimension of variable {} and extent {}", func.name, d.var, d.extent);
    }
    for (const Buffer& b : func.buffers) {
      require(b.elems >= 0 && is_arithmetic(b.type),
              "verify '{}': buffer '{}' has {} elements of {}; expected 0 or more, of numbers or bool", func.name,
              b.name, b.elems, name(b.type));
    }
    return func;
  }

  std::string var_name(int32_t id) const { return func_.vars[static_cast<size_t>(id)].name; }
  std::string reg_name(int32_t id) const { return func_.regs[static_cast<size_t>(id)].name; }

  void bind(std::vector<Name>& names, int32_t id, std::string_view what) {
    if (id < 0 || static_cast<size_t>(id) >= names.size()) error("{} number {} does not exist", what, id);
    Name& n = names[static_cast<size_t>(id)];
    const bool is_reg = &names == &regs_;
    if (n.order != 0) error("{} '{}' is bound twice", what, is_reg ? reg_name(id) : var_name(id));
    n = {++order_, true};
    bound_.push_back({is_reg, id});
  }

  void block(const std::vector<Stmt>& stmts) {
    const size_t first = bound_.size();
    for (const Stmt& s : stmts) {
      if (s == nullptr) error("an undefined statement");
      statement(*s);
    }
    for (size_t i = first; i < bound_.size(); ++i) {
      (bound_[i].is_reg ? regs_ : vars_)[static_cast<size_t>(bound_[i].id)].open = false;
    }
    bound_.resize(first);
  }

  void statement(const StmtNode& s) {
    ++statement_;
    for (const Expr* e : {&s.a, &s.b, &s.mask}) {
      if (e->defined()) use(*e);
    }
    switch (s.kind) {
      case StmtKind::block:
        return block(s.body);
      case StmtKind::loop:
        return loop(s);
      case StmtKind::let:
        bind(vars_, s.id, "variable");
        value_type(s, func_.vars[static_cast<size_t>(s.id)], "variable");
        return access_.let(s);
      case StmtKind::reg_decl:
        bind(regs_, s.id, "register");
        return value_type(s, func_.regs[static_cast<size_t>(s.id)], "register");
      case StmtKind::reg_set:
        in_scope(regs_, s.id, "register");
        return value_type(s, func_.regs[static_cast<size_t>(s.id)], "register");
      case StmtKind::store:
      case StmtKind::scatter:
        return store(s);
      case StmtKind::if_then:
        return branch(s);
      case StmtKind::prefetch:
        buffer(s.id);
        return check(s.a.defined() && s.a.type() == kIndex, "the index of a prefetch is not a scalar i64");
      case StmtKind::check:
        return check(s.a.defined() && s.a.type() == VType{DType::boolean, 1},
                     "the condition of a check is not a scalar boolean");
      case StmtKind::barrier:
        return barrier();
      case StmtKind::tiles:
        return block(s.body);
      case StmtKind::tile_load:
      case StmtKind::tile_store:
        if (accesses_) access_.tile(s);
        return;
      case StmtKind::tile_zero:
      case StmtKind::tile_dot:
        return;
    }
  }

  void value_type(const StmtNode& s, const VarInfo& info, std::string_view what) const {
    if (!s.a.defined()) error("{} '{}' has no value", what, info.name);
    if (s.a.type() != info.type) {
      error("{} '{}' has type {}, its value {}", what, info.name, text(info.type), text(s.a.type()));
    }
  }

  void loop(const StmtNode& s) {
    check(s.a.defined() && s.b.defined() && s.a.type() == kIndex && s.b.type() == kIndex,
          "the bounds of a loop are not scalars of i64");
    if (s.step < 1) error("a loop has step {}", s.step);
    const size_t first = bound_.size();
    bind(vars_, s.id, "variable");
    if (func_.vars[static_cast<size_t>(s.id)].type != kIndex)
      error("loop '{}' has a variable of a type other than i64", var_name(s.id));
    int64_t extent = 0;
    const bool open = s.loop == LoopKind::serial || (s.loop == LoopKind::vector && s.step == 1);
    if (!open && !is_const(s.b - s.a, &extent)) {
      const std::string step = s.loop == LoopKind::vector ? fmt::format("step {} and ", s.step) : "";
      error("{} loop '{}' has {}no constant extent", name(s.loop), var_name(s.id), step);
    }
    access_.enter_loop(s);
    around_.push_back(&s);
    block(s.body);
    around_.pop_back();
    access_.leave_loop();
    vars_[static_cast<size_t>(s.id)].open = false;
    bound_.resize(first);
  }

  void branch(const StmtNode& s) {
    check(s.a.defined() && s.a.type() == VType{DType::boolean, 1}, "the condition of an if is not a scalar bool");
    around_.push_back(&s);
    access_.enter_branch(s.a, true);
    block(s.body);
    access_.leave_branch();
    if (!s.other.empty()) {
      access_.enter_branch(s.a, false);
      block(s.other);
      access_.leave_branch();
    }
    around_.pop_back();
  }

  /// Checks that all threads of a block reach the barrier equally often.
  void barrier() {
    const auto threads = std::ranges::find_if(
        around_, [](const StmtNode* s) { return s->kind == StmtKind::loop && is_thread(s->loop); });
    check(threads != around_.end(), "a barrier is outside of loops that are bound to threads");
    for (const StmtNode* s : around_) {
      if (s->kind == StmtKind::if_then) {
        if (!access_.uniform(s->a)) {
          error("a barrier is under an if whose condition may differ between threads: {}",
                loop_text::expression(func_, s->a));
        }
        continue;
      }
      if (s->loop == LoopKind::vector) {
        error("a barrier is in vector loop '{}'; expected serial or unrolled loops", var_name(s->id));
      }
      if (!access_.uniform(s->a) || !access_.uniform(s->b)) {
        error("a barrier is in loop '{}', whose bounds may differ between threads: [{}, {})", var_name(s->id),
              loop_text::expression(func_, s->a), loop_text::expression(func_, s->b));
      }
    }
  }

  const Buffer& buffer(int32_t id) const {
    if (id < 0 || static_cast<size_t>(id) >= func_.buffers.size()) error("buffer number {} does not exist", id);
    return func_.buffers[static_cast<size_t>(id)];
  }

  void store(const StmtNode& s) {
    const Buffer& b = buffer(s.id);
    if (b.kind == BufferKind::input) error("store to input '{}'", b.name);
    check(s.a.defined() && s.b.defined(), "a store without index or value");
    if (s.b.elem() != b.type) error("store of {} to '{}' of {}", text(s.b.type()), b.name, name(b.type));
    const VType index{DType::i64, s.kind == StmtKind::scatter ? s.b.lanes() : 1};
    if (s.a.type() != index)
      error("store to '{}': the index has type {}, expected {}", b.name, text(s.a.type()), text(index));
    if (s.mask.defined() && s.mask.type() != VType{DType::boolean, s.b.lanes()}) {
      error("store of {} to '{}' with a mask of {}", text(s.b.type()), b.name, text(s.mask.type()));
    }
    if (accesses_) access_.store(s);
  }

  const Name& in_scope(const std::vector<Name>& names, int32_t id, std::string_view what) const {
    if (id < 0 || static_cast<size_t>(id) >= names.size()) error("{} number {} does not exist", what, id);
    const Name& n = names[static_cast<size_t>(id)];
    if (!n.open) {
      error("{} '{}' is used {}", what, &names == &regs_ ? reg_name(id) : var_name(id),
            n.order == 0 ? "before it is bound" : "outside of its scope");
    }
    return n;
  }

  /// Checks the scopes and types of everything that `e` reads, and its loads at the current statement.
  const Known& use(const Expr& e) {
    Known& known = known_[e.get()];
    if (known.statement == statement_) return known;
    // All names of a node were once in scope together, so their scopes are nested: if the latest is open, all are.
    const bool checked = known.statement >= 0 && (known.newest == nullptr || known.newest->open);
    if (checked && !known.loads) {
      known.statement = statement_;
      return known;
    }
    Known now{.statement = statement_};
    for (const Expr& a : e->args) {
      check(a.defined(), "an expression with an undefined operand");
      const Known& sub = use(a);
      now.loads = now.loads || sub.loads;
      if (sub.order > now.order) {
        now.order = sub.order;
        now.newest = sub.newest;
      }
    }
    node(*e, now);
    return known_[e.get()] = now;
  }

  void node(const ExprNode& e, Known& now) {
    if (e.kind == ExprKind::var || e.kind == ExprKind::reg) {
      const bool is_var = e.kind == ExprKind::var;
      const Name& n = in_scope(is_var ? vars_ : regs_, e.id, is_var ? "variable" : "register");
      const VarInfo& info = (is_var ? func_.vars : func_.regs)[static_cast<size_t>(e.id)];
      if (e.type != info.type) error("'{}' has type {}, but is read as {}", info.name, text(info.type), text(e.type));
      now.newest = &n;
      now.order = n.order;
      return;
    }
    if (e.kind == ExprKind::load || e.kind == ExprKind::gather) {
      const Buffer& b = buffer(e.id);
      if (b.type != e.type.elem) error("load of {} from '{}' of {}", text(e.type), b.name, name(b.type));
      const int32_t lanes = e.kind == ExprKind::load ? 1 : e.type.lanes;
      check(!e.args.empty() && e.args[0].type() == VType{DType::i64, lanes}, "the index of a load has a wrong type");
      check(e.args.size() < 2 || e.args[1].type() == VType{DType::boolean, e.type.lanes},
            "the mask of a load has a wrong type");
      now.loads = true;
      if (accesses_) access_.load(e);
      return;
    }
    operands(e);
  }

  void operands(const ExprNode& e) const {
    const auto elem = [&](size_t i) { return e.args[i].elem(); };
    const auto lanes = [&](size_t i) { return e.args[i].lanes(); };
    bool fits = e.type.lanes >= 1;
    switch (e.kind) {
      case ExprKind::unary:
      case ExprKind::cast:
        fits = fits && e.args.size() == 1 && lanes(0) == e.type.lanes;
        break;
      case ExprKind::bitcast:
        fits = fits && e.args.size() == 1 && lanes(0) * size_bytes(elem(0)) == e.type.lanes * size_bytes(e.type.elem);
        break;
      case ExprKind::binary:
        fits = fits && e.args.size() == 2 && elem(0) == elem(1) && lanes(0) == e.type.lanes &&
               lanes(1) == e.type.lanes && e.type.elem == (is_comparison(e.op) ? DType::boolean : elem(0));
        break;
      case ExprKind::fma:
        fits = fits && e.args.size() == 3 && e.args[0].type() == e.type && e.args[1].type() == e.type &&
               e.args[2].type() == e.type;
        break;
      case ExprKind::dot:
        fits = fits && e.args.size() == 3 && e.args[2].type() == e.type &&
               dot_is_legal(e.args[0].type(), e.args[1].type(), e.type);
        break;
      case ExprKind::select:
        fits = fits && e.args.size() == 3 && elem(0) == DType::boolean && (lanes(0) == 1 || lanes(0) == e.type.lanes) &&
               e.args[1].type() == e.type && e.args[2].type() == e.type;
        break;
      case ExprKind::broadcast:
        fits = fits && e.args.size() == 1 && e.args[0].type() == VType{e.type.elem, 1};
        break;
      case ExprKind::ramp:
        fits = fits && e.args.size() == 2 && e.args[0].type() == VType{e.type.elem, 1} &&
               e.args[1].type() == e.args[0].type();
        break;
      case ExprKind::shuffle:
        fits = fits && e.args.size() == 2 && e.args[0].type() == e.args[1].type() && elem(0) == e.type.elem &&
               static_cast<int32_t>(e.picks.size()) == e.type.lanes &&
               std::ranges::all_of(e.picks, [&](int32_t k) { return k >= 0 && k < 2 * lanes(0); });
        break;
      case ExprKind::lane_reduce:
        fits = fits && e.args.size() == 1 && elem(0) == e.type.elem && e.type.lanes == 1;
        break;
      default:
        break;
    }
    if (!fits)
      error("an expression of type {} has operands that do not fit (kind {}, {})", text(e.type),
            static_cast<int>(e.kind), name(e.op));
  }

  const LoopFunc& func_;
  bool accesses_;
  AccessChecker access_;
  std::vector<Name> vars_, regs_;
  std::vector<Bound> bound_;
  std::vector<const StmtNode*> around_;  ///< the loops and ifs around the current statement
  int64_t order_ = 0;
  int64_t statement_ = 0;
  NodeMap<Known> known_;
};

}  // namespace

void verify(const LoopFunc& func) { Verifier(func, true).run(); }

void verify_structure(const LoopFunc& func) { Verifier(func, false).run(); }

}  // namespace kilter
