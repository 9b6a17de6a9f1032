// Counts a kernel statement by statement. The statements between two loops form a run. Its instructions overlap, so it
// takes as long as its busiest unit. Registers that a run updates from their own values form dependency chains; the
// core waits for the chains if there are too few of them to hide their latency.
#include "schedule/model/loop_count.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <optional>

#include "base/align.h"
#include "loop/node_map.h"

namespace kilter {
namespace {

using Chains = std::map<int32_t, double>;  ///< register to cycles

/// The cost of one execution of a piece of a kernel.
struct Part {
  LoopCount count;
  double load_slots = 0, store_slots = 0;  ///< of a run: registers wider than the ports need two slots
  double folds = 0;                        ///< of a run: cycles of reductions over lanes
  Chains chains;                           ///< of registers declared outside it
};

void add(LoopCount& to, const LoopCount& from, double times = 1) {
  to.loads += times * from.loads, to.stores += times * from.stores;
  to.multiply_adds += times * from.multiply_adds, to.others += times * from.others;
  to.scalars += times * from.scalars, to.bytes += times * from.bytes, to.written += times * from.written;
  to.waits += times * from.waits, to.cycles += times * from.cycles;
}

void add(Part& to, const Part& from, double times = 1) {
  add(to.count, from.count, times);
  for (const auto& [reg, cycles] : from.chains) to.chains[reg] += times * cycles;
}

double element_bytes(const VType& type) { return static_cast<double>(size_bytes(type.elem)); }

bool is_index(const Expr& e) { return e.lanes() == 1 && !is_float(e.elem()) && e.elem() != DType::boolean; }

class Counter {
 public:
  Counter(const LoopFunc& func, const CpuLimits& limits)
      : func_(func), limits_(limits), values_(func.vars.size(), 0), extents_(func.vars.size(), 0) {
    definitions_.resize(func.vars.size());
    let_chains_.resize(func.vars.size());
  }

  LoopCount run() {
    for (const ParallelDim& d : func_.parallel) {
      bind(d.var, (d.extent - 1) / 2, d.extent);
      if (d.extent > 1) innermost_ = d.var;
    }
    constexpr double kItemScalars = 4;  // scalar instructions per item: the loop nest over the items
    const Part item = block(func_.body, kItemScalars);
    LoopCount all;
    all.items = func_.parallel_extent();
    add(all, item.count, static_cast<double>(all.items));
    return all;
  }

 private:
  // --- statements ---

  /// Counts one execution of a block of statements. `scalars`: scalar instructions that each execution also needs.
  Part block(const std::vector<Stmt>& body, double scalars) {
    Part all, run;
    run.count.scalars = scalars;
    double idle = 0;
    std::vector<int32_t> declared;
    const double live = live_;
    const auto take = [&](const Part& part) {
      double longest = part.folds;
      for (const int32_t reg : declared) {
        const auto it = part.chains.find(reg);
        if (it != part.chains.end()) longest = std::max(longest, it->second);
      }
      idle += std::max(0.0, longest - part.count.cycles);
      add(all, part);
    };
    const auto finish = [&] {
      run.count.cycles = cycles_of(run);
      take(run);
      run = Part();
    };
    for (const Stmt& s : body) {
      const bool nests = s->kind == StmtKind::loop || s->kind == StmtKind::if_then || s->kind == StmtKind::block ||
                         s->kind == StmtKind::tiles;
      if (nests) {
        finish();
        take(nested(*s));
      } else {
        if (s->kind == StmtKind::reg_decl) declared.push_back(s->id);
        statement(*s, run);
      }
    }
    finish();
    for (const int32_t reg : declared) all.chains.erase(reg);
    // The next execution starts while this one waits, as far as the core's reorder window allows.
    const double waits = idle * std::min(1.0, all.count.instructions() / limits_.window);
    all.count.waits += waits, all.count.cycles += waits;
    live_ = live;
    return all;
  }

  Part nested(const StmtNode& s) {
    if (s.kind == StmtKind::block || s.kind == StmtKind::tiles) return block(s.body, 0);
    return s.kind == StmtKind::loop ? loop(s) : branch(s);
  }

  Part loop(const StmtNode& s) {
    constexpr double kStep = 2;  // scalar instructions per iteration: an addition, and a comparison with its jump
    const int64_t begin = value(s.a), extent = std::max<int64_t>(value(s.b) - begin, 0);
    const int64_t trips = ceil_div(extent, s.step);
    Part out;
    if (trips == 0) return out;
    if (s.loop == LoopKind::vector) {
      const int64_t lanes = limits_.lanes_f32(), rest = trips % lanes;
      const int64_t tail = rest == 0 ? 0 : limits_.masks ? 1 : std::popcount(static_cast<uint64_t>(rest));
      const int32_t outer = innermost_;
      if (trips > lanes) innermost_ = s.id;
      vector_ = s.id, bind(s.id, begin, extent);
      const Part vector = block(s.body, 1);  // the loop is unrolled
      vector_ = -1, innermost_ = outer;
      add(out, vector, static_cast<double>(trips / lanes + tail));
      if (!limits_.masks)
        out.count.written *=
            static_cast<double>(trips) / static_cast<double>(trips / lanes + tail) / static_cast<double>(lanes);
      return out;
    }
    const int32_t outer = innermost_;
    if (trips > 1) innermost_ = s.id;
    bind(s.id, begin + (trips - 1) / 2 * s.step, extent);
    add(out, block(s.body, s.loop == LoopKind::unrolled ? 0 : kStep), static_cast<double>(trips));
    innermost_ = outer;
    return out;
  }

  Part branch(const StmtNode& s) {
    const double taken = s.other.empty() || s.likely ? fraction(s.a).value_or(1) : fraction(s.a).value_or(0.5);
    Part out;
    add(out, block(s.body, 2), taken);
    add(out, block(s.other, 2), 1 - taken);
    return out;
  }

  /// The fraction of iterations in which `index < constant` is true; nullopt for other conditions.
  std::optional<double> fraction(const Expr& condition) {
    if (condition->kind != ExprKind::binary || condition->op != Op::lt) return std::nullopt;
    const Expr& index = condition->args[0];
    int64_t limit = 0;
    if (index->kind != ExprKind::var || !is_const(condition->args[1], &limit)) return std::nullopt;
    const int64_t extent = extents_[static_cast<size_t>(index->id)];
    if (extent <= 0) return std::nullopt;
    return std::clamp(static_cast<double>(limit) / static_cast<double>(extent), 0.0, 1.0);
  }

  void statement(const StmtNode& s, Part& run) {
    seen_.clear();
    switch (s.kind) {
      case StmtKind::let:
        define(s.id, s.a);
        return expression(s.a, run);
      case StmtKind::reg_decl:
        live_ += registers(s.a.type());
        return expression(s.a, run);
      case StmtKind::reg_set:
        expression(s.a, run);
        spill(s.a.type(), run);
        for (const auto& [reg, cycles] : chains_of(s.a)) {
          if (reg == s.id) run.chains[reg] += cycles;
        }
        return;
      case StmtKind::store:
        expression(s.b, run);
        if (s.mask.defined()) expression(s.mask, run);
        return store(s, run);
      case StmtKind::scatter:
        expression(s.b, run);
        return scattered(s.b.type(), s.id, run);
      case StmtKind::prefetch:
        run.count.loads += 1, run.load_slots += 1;
        return;
      case StmtKind::check:
        return expression(s.a, run);
      case StmtKind::tile_load:
      case StmtKind::tile_store:
      case StmtKind::tile_dot:
        return tile(s, run);
      default:
        return;
    }
  }

  /// Counts a tile register as one vector for each of its rows, and a product as the number of f32 multiply-adds that
  /// take equally long.
  void tile(const StmtNode& s, Part& run) {
    const TileInfo& t = func_.tiles[static_cast<size_t>(s.tiles[0])];
    const double rows = t.rows;
    if (s.kind == StmtKind::tile_dot) {
      run.count.multiply_adds += limits_.tile_cycles(t.rows) * limits_.fmas_per_cycle;
      return;
    }
    run.count.bytes += rows * static_cast<double>(t.row_bytes());
    if (s.kind == StmtKind::tile_load) {
      run.count.loads += rows, run.load_slots += rows;
      return;
    }
    run.count.stores += rows, run.store_slots += rows;
    const bool output = func_.buffers[static_cast<size_t>(s.id)].kind == BufferKind::output;
    if (output) run.count.written += rows * t.columns;
  }

  /// Adds the spills and reloads of registers beyond those of the target.
  void spill(const VType& type, Part& run) {
    constexpr double kTemporaries = 2;
    const double beyond = live_ + kTemporaries - limits_.vector_registers;
    if (beyond <= 0 || live_ <= 0) return;
    const double moved = std::min(1.0, beyond / live_) * registers(type);
    const double slots = moved * slots_of(type);
    run.count.loads += moved, run.count.stores += moved, run.load_slots += slots, run.store_slots += slots;
  }

  // --- expressions ---

  void expression(const Expr& e, Part& run) {
    if (e->kind == ExprKind::load) return load(e, run);
    if (e->kind == ExprKind::gather) return scattered_load(e, run);
    if (e->args.empty() || seen_[e.get()]) return;
    seen_[e.get()] = true;
    operation(e, run);
    for (const Expr& a : e->args) expression(a, run);
  }

  void operation(const Expr& e, Part& run) {
    const double width = registers(e.type());
    switch (e->kind) {
      case ExprKind::fma:
        if (limits_.fma) {
          run.count.multiply_adds += width;
        } else {
          run.count.others += 2 * width;
        }
        return;
      case ExprKind::dot:
        run.count.multiply_adds += width;
        if (e->args[0].elem() == DType::i16) run.count.others += width;  // the addition to the sum
        return;
      case ExprKind::unary:
      case ExprKind::binary: {
        const Expr& of = e->args[0];
        if (vector_ < 0 && is_index(of)) return void(run.count.scalars += 1);
        run.count.others += operation_cost(e->op, of.elem(), limits_) * registers(of.type());
        return;
      }
      case ExprKind::select:
      case ExprKind::cast:
        (vector_ < 0 && is_index(e) ? run.count.scalars : run.count.others) += width;
        return;
      case ExprKind::shuffle:
        run.count.others += width;
        return;
      case ExprKind::broadcast:
        if (e->args[0]->kind != ExprKind::load) run.count.others += 1;
        return;
      case ExprKind::lane_reduce: {
        if (e->op == Op::logical_and || e->op == Op::logical_or) {
          run.count.others += 2;  // converting a mask to a scalar, and comparing it
          return;
        }
        const double steps = std::log2(std::max(1, e->args[0].lanes()));
        run.count.others += 2 * steps, run.folds += fold_latency() * steps;
        return;
      }
      default:
        return;
    }
  }

  void load(const Expr& e, Part& run) {
    if (seen_[e.get()]) return;
    seen_[e.get()] = true;
    const bool masked = e->args.size() > 1;
    if (masked) expression(e->args[1], run);
    if (moves_out(e)) return;
    const std::optional<int64_t> stride = e.lanes() > 1 ? std::optional(e->ival) : stride_of(e->args[0]);
    if (stride && (*stride == 0 || *stride == 1)) return moved(e.type(), masked, run.count.loads, run.load_slots, run);
    scattered_load(e, run);
  }

  /// Whether an input load is invariant in the innermost loop.
  bool moves_out(const Expr& e) {
    if (innermost_ < 0 || func_.buffers[static_cast<size_t>(e->id)].kind != BufferKind::input) return false;
    int64_t& at = values_[static_cast<size_t>(innermost_)];
    const int64_t here = value(e->args[0]);
    ++at;
    const int64_t next = value(e->args[0]);
    --at;
    return here == next;
  }

  void scattered_load(const Expr& e, Part& run) {
    const double elements = lanes(e.type());
    run.count.loads += elements, run.load_slots += elements;
    run.count.others += elements > 1 ? elements : 0;  // inserting them into their lanes
    run.count.bytes += elements * element_bytes(e.type());
  }

  void store(const StmtNode& s, Part& run) {
    const VType& type = s.b.type();
    const std::optional<int64_t> stride = type.lanes > 1 ? std::optional<int64_t>(1) : stride_of(s.a);
    if (vector_ >= 0 && stride != 1) return scattered(type, s.id, run);
    moved(type, s.mask.defined(), run.count.stores, run.store_slots, run);
    wrote(type, s.id, run);
  }

  void scattered(const VType& type, int32_t buffer, Part& run) {
    const double elements = lanes(type);
    run.count.stores += elements, run.store_slots += elements;
    run.count.others += elements > 1 ? elements : 0;
    run.count.bytes += elements * element_bytes(type);
    wrote(type, buffer, run);
  }

  /// Counts the moves of whole registers between a buffer and the core. If the target lacks masked access, a masked
  /// move costs two moves and a select.
  void moved(const VType& type, bool masked, double& instructions, double& slots, Part& run) {
    const double times = masked && !limits_.masks ? 2 : 1, count = registers(type) * times;
    instructions += count, slots += count * slots_of(type);
    run.count.others += times - 1;
    run.count.bytes += lanes(type) * element_bytes(type);
  }

  void wrote(const VType& type, int32_t buffer, Part& run) const {
    const bool output = func_.buffers[static_cast<size_t>(buffer)].kind == BufferKind::output;
    run.count.written += output ? lanes(type) : 0;
  }

  double lanes(const VType& type) const { return type.lanes == 1 && vector_ >= 0 ? limits_.lanes_f32() : type.lanes; }
  double registers(const VType& type) const {
    return std::max(1.0, std::ceil(lanes(type) * element_bytes(type) / limits_.vector_bytes));
  }
  /// Port cycles per register: half-width units need two cycles if more than half of the register is used.
  double slots_of(const VType& type) const {
    return limits_.halves() && 2 * lanes(type) * element_bytes(type) > limits_.vector_bytes ? 2 : 1;
  }

  double cycles_of(const Part& run) const {
    const LoopCount& c = run.count;
    return std::max({run.load_slots / limits_.loads_per_cycle, run.store_slots,
                     (c.multiply_adds + c.others) / limits_.fmas_per_cycle, c.instructions() / limits_.issue_width});
  }

  // --- registers that depend on their own value ---

  /// Latency in cycles from each register that `e` reads to its result.
  Chains chains_of(const Expr& e) {
    if (e->kind == ExprKind::reg) return {{e->id, 0}};
    if (e->kind == ExprKind::var) return let_chains_[static_cast<size_t>(e->id)];
    Chains out;
    if (live_ == 0) return out;
    for (const Expr& a : e->args) {
      for (const auto& [reg, cycles] : chains_of(a)) out[reg] = std::max(out[reg], cycles);
    }
    if (!out.empty()) {
      const double own = latency(e);
      for (auto& [reg, cycles] : out) cycles += own;
    }
    return out;
  }

  /// Cycles of one step in reducing the lanes of a register.
  double fold_latency() const { return limits_.latency + limits_.short_latency; }

  double latency(const Expr& e) const {
    switch (e->kind) {
      case ExprKind::fma:
        return limits_.latency;
      case ExprKind::dot:
        return e->args[0].elem() == DType::i16 ? limits_.short_latency : limits_.dot_latency;
      case ExprKind::lane_reduce:
        return fold_latency() * std::log2(std::max(1, e->args[0].lanes()));
      case ExprKind::unary:
      case ExprKind::binary: {
        const bool sums = e->op == Op::add || e->op == Op::sub || e->op == Op::mul;
        return sums ? limits_.latency : limits_.short_latency * operation_cost(e->op, e->args[0].elem(), limits_);
      }
      case ExprKind::select:
      case ExprKind::cast:
        return limits_.short_latency;
      default:
        return 0;
    }
  }

  // --- indices ---

  void bind(int32_t var, int64_t at, int64_t extent) {
    values_[static_cast<size_t>(var)] = at;
    extents_[static_cast<size_t>(var)] = extent;
    definitions_[static_cast<size_t>(var)] = {};
  }

  void define(int32_t var, const Expr& e) {
    const auto at = static_cast<size_t>(var);
    if (live_ > 0) let_chains_[at] = chains_of(e);
    if (!is_index(e)) return;
    definitions_[at] = e;
  }

  /// Elements between neighbouring lanes of a vectorised loop; nullopt if they are not evenly spaced.
  std::optional<int64_t> stride_of(const Expr& index) {
    if (vector_ < 0) return 1;
    int64_t& at = values_[static_cast<size_t>(vector_)];
    const int64_t begin = at, last = limits_.lanes_f32() - 1;
    const auto index_at = [&](int64_t lane) {
      at = begin + lane;
      return value(index);
    };
    const int64_t first = index_at(0), step = index_at(1) - first;
    const bool even = index_at(2) == first + 2 * step && index_at(last) == first + last * step;
    at = begin;
    return even ? std::optional(step) : std::nullopt;
  }

  /// The value of an index with every loop variable in the middle of its range. Loaded values are unknown and are
  /// replaced by a non-linear function of their index.
  int64_t value(const Expr& e) {
    const auto arg = [&](size_t i) { return value(e->args[i]); };
    switch (e->kind) {
      case ExprKind::int_imm:
        return e->ival;
      case ExprKind::var: {
        const Expr& definition = definitions_[static_cast<size_t>(e->id)];
        return definition.defined() ? value(definition) : values_[static_cast<size_t>(e->id)];
      }
      case ExprKind::load: {
        const auto at = static_cast<uint64_t>(arg(0));
        return static_cast<int64_t>(at * at % 1021);
      }
      case ExprKind::cast:
        return is_index(e->args[0]) ? arg(0) : 0;
      case ExprKind::select:
        return value(e->args[static_cast<size_t>(truth(e->args[0]) ? 1 : 2)]);
      case ExprKind::binary:
        return is_index(e) ? binary_value(e->op, arg(0), arg(1)) : 0;
      default:
        return 0;
    }
  }

  bool truth(const Expr& e) {
    if (e->kind != ExprKind::binary || !is_index(e->args[0])) return true;
    const int64_t a = value(e->args[0]), b = value(e->args[1]);
    switch (e->op) {
      case Op::eq:
        return a == b;
      case Op::ne:
        return a != b;
      case Op::lt:
        return a < b;
      case Op::le:
        return a <= b;
      case Op::gt:
        return a > b;
      case Op::ge:
        return a >= b;
      default:
        return true;
    }
  }

  static int64_t binary_value(Op op, int64_t a, int64_t b) {
    const auto wrap = [](uint64_t v) { return static_cast<int64_t>(v); };
    const auto x = static_cast<uint64_t>(a), y = static_cast<uint64_t>(b);
    switch (op) {
      case Op::add:
        return wrap(x + y);
      case Op::sub:
        return wrap(x - y);
      case Op::mul:
        return wrap(x * y);
      case Op::div:
        return b == 0 || b == -1 ? wrap(0 - x) : a / b;
      case Op::mod:
        return b == 0 || b == -1 ? 0 : a % b;
      case Op::min:
        return std::min(a, b);
      case Op::max:
        return std::max(a, b);
      default:
        return 0;
    }
  }

  const LoopFunc& func_;
  const CpuLimits& limits_;
  std::vector<int64_t> values_;    ///< of variables, in the middle of their loops
  std::vector<int64_t> extents_;   ///< of loops; 0: unknown
  std::vector<Expr> definitions_;  ///< of lets
  std::vector<Chains> let_chains_;
  NodeMap<bool> seen_;      ///< in the current statement
  int32_t vector_ = -1;     ///< variable of the enclosing loop that will be vectorised
  int32_t innermost_ = -1;  ///< variable of the innermost enclosing loop with several iterations
  double live_ = 0;         ///< registers declared by the enclosing blocks
};

}  // namespace

LoopCount count_loops(const LoopFunc& func, const CpuLimits& limits) { return Counter(func, limits).run(); }

}  // namespace kilter
