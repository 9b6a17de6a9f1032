#include "loop/access.h"

#include <algorithm>
#include <cstdlib>

#include "loop/text.h"

namespace kilter {
namespace {

constexpr uint64_t kAll = ~uint64_t{0};

/// Searches for a solution of (sum of coef * d) = 0 with every |d| < extent, and d not 0 for some parallel dimension.
class Overlap {
 public:
  struct Term {
    int64_t coef;
    int64_t extent;
    bool parallel;
  };
  explicit Overlap(std::vector<Term> terms) : terms_(std::move(terms)) {
    std::sort(terms_.begin(), terms_.end(),
              [](const Term& a, const Term& b) { return std::abs(a.coef) > std::abs(b.coef); });
    reach_.assign(terms_.size() + 1, 0);
    for (size_t i = terms_.size(); i-- > 0;) {
      reach_[i] = reach_[i + 1] + std::abs(terms_[i].coef) * (terms_[i].extent - 1);
    }
  }
  bool found() { return search(0, 0, false); }

 private:
  bool search(size_t i, int64_t sum, bool differs) {
    if (--budget_ <= 0) return false;
    if (i == terms_.size()) return sum == 0 && differs;
    const Term& t = terms_[i];
    const int64_t limit = t.extent - 1;
    if (t.coef == 0) return search(i + 1, sum, differs || (t.parallel && limit > 0));
    const int64_t c = std::abs(t.coef);
    const int64_t rest = reach_[i + 1];
    // |sum + c * d| <= rest
    const int64_t low = std::max(-limit, -((sum + rest) / c) - 1);
    const int64_t high = std::min(limit, (rest - sum) / c + 1);
    for (int64_t d = low; d <= high; ++d) {
      const int64_t next = sum + c * d;
      if (std::abs(next) <= rest && search(i + 1, next, differs || (t.parallel && d != 0))) return true;
    }
    return false;
  }

  std::vector<Term> terms_;
  std::vector<int64_t> reach_;
  int budget_ = 4000;
};

bool holds_barrier(const StmtNode& s) {
  const auto holds = [](const Stmt& inner) { return inner != nullptr && holds_barrier(*inner); };
  return s.kind == StmtKind::barrier || std::ranges::any_of(s.body, holds) || std::ranges::any_of(s.other, holds);
}

}  // namespace

AccessChecker::AccessChecker(const LoopFunc& func) : func_(func), space_(func), var_parallel_(func.vars.size(), 0) {
  for (const ParallelDim& d : func.parallel) {
    space_.bind_parallel(d.var, d.extent);
    add_dim(d.var, d.extent, false);
    if (d.extent == 0) ++unreachable_;
  }
}

void AccessChecker::add_dim(int32_t var, int64_t extent, bool thread) {
  const uint64_t bit = dims_.size() < 64 ? uint64_t{1} << dims_.size() : kAll;
  dims_.push_back({var, extent});
  var_parallel_[static_cast<size_t>(var)] = bit;
  if (thread) threads_ |= bit;
}

void AccessChecker::push(bool clear, bool reachable, uint64_t parallel) {
  scopes_.push_back({space_.facts(), control_, clear, reachable});
  control_ |= parallel;
  if (!clear) ++unclear_;
  if (!reachable) ++unreachable_;
}

void AccessChecker::leave_loop() { leave_branch(); }

void AccessChecker::leave_branch() {
  const Scope& s = scopes_.back();
  space_.forget(s.facts);
  control_ = s.parallel;
  if (!s.clear) --unclear_;
  if (!s.reachable) --unreachable_;
  scopes_.pop_back();
}

void AccessChecker::enter_loop(const StmtNode& s) {
  const uint64_t parallel = parallel_of(s.a) | parallel_of(s.b);
  var_parallel_[static_cast<size_t>(s.id)] = parallel;
  space_.bind_loop(s.id, s.a, s.b, s.step);
  const IndexSpace::Key& key = space_.key(space_.key_of(s.id));
  const bool empty = key.extent == 0 || (key.low > key.high);
  push(true, !empty, parallel);
  if (!empty && key.extent < 0) space_.assume_runs(s.a, s.b);
  if (is_bound(s.loop)) add_dim(s.id, key.extent, is_thread(s.loop));
  if (threads_ != 0 && !is_bound(s.loop) && holds_barrier(s)) phased_.push_back(s.id);
}

void AccessChecker::enter_branch(const Expr& condition, bool holds) {
  push(true, true, parallel_of(condition));
  bool possible = true;
  if (!space_.assume(condition, holds, &possible)) {
    scopes_.back().clear = false;
    ++unclear_;
  }
  if (is_const(condition)) possible = (condition->ival != 0) == holds;
  if (!possible) {
    scopes_.back().reachable = false;
    ++unreachable_;
  }
}

void AccessChecker::let(const StmtNode& s) {
  var_parallel_[static_cast<size_t>(s.id)] = parallel_of(s.a);
  space_.bind_let(s.id, s.a);
}

uint64_t AccessChecker::parallel_of(const Expr& e) {
  switch (e->kind) {
    case ExprKind::int_imm:
    case ExprKind::float_imm:
      return 0;
    case ExprKind::var:
      return var_parallel_[static_cast<size_t>(e->id)];
    case ExprKind::reg:
      return kAll;
    default:
      break;
  }
  if (const uint64_t* known = memo_.find(e.get())) return *known;
  uint64_t result = e->kind == ExprKind::load || e->kind == ExprKind::gather ? kAll : 0;
  for (const Expr& a : e->args) {
    if (result != kAll) result |= parallel_of(a);
  }
  memo_[e.get()] = result;
  return result;
}

/// Returns whether the key takes every value between its bounds independently of other keys. Adds the loops that the
/// key stands for to `base`.
bool AccessChecker::exact(int32_t k, uint64_t* base) const {
  const IndexSpace::Key& key = space_.key(k);
  if (!key.known) return false;
  if (key.kind == IndexSpace::KeyKind::loop) {
    *base |= uint64_t{1} << (k % 64);
    return true;
  }
  if (key.kind == IndexSpace::KeyKind::let) return false;
  for (const Affine* x : {&key.a, &key.b}) {
    for (const Affine::Term& t : *x) {
      if (!exact(t.key, base)) return false;
    }
  }
  return true;
}

/// Returns whether `index` attains its bounds, because its terms do not depend on one another.
bool AccessChecker::decidable(const Affine& index) const {
  uint64_t seen = 0;
  bool grid = true;  // quotients and remainders of one full range by constants that divide it
  bool overlap = false;
  for (const Affine::Term& t : index) {
    uint64_t base = 0;
    if (!exact(t.key, &base)) return false;
    overlap = overlap || (seen & base) != 0;
    seen |= base;
    const IndexSpace::Key& key = space_.key(t.key);
    if (key.kind != IndexSpace::KeyKind::opaque) {
      grid = grid && key.kind == IndexSpace::KeyKind::loop;
      continue;
    }
    const bool divides = (key.op == Op::div || key.op == Op::mod) && key.b.is_constant() && key.b.constant > 0;
    const std::optional<int64_t> low = divides ? space_.lower(key.a) : std::nullopt;
    const std::optional<int64_t> high = divides ? space_.upper(key.a) : std::nullopt;
    grid = grid && low && high && *low == 0 && (*high + 1) % key.b.constant == 0;
  }
  if (!overlap) return true;
  if (!grid) return false;
  for (const Affine::Term& t : index) {  // the sum of a loop variable and its own quotient is not a grid
    if (space_.key(t.key).kind == IndexSpace::KeyKind::loop) {
      for (const Affine::Term& o : index) {
        uint64_t base = 0;
        uint64_t own = 0;
        if (o.key != t.key && exact(o.key, &base) && exact(t.key, &own) && (base & own) != 0) return false;
      }
    }
  }
  return true;
}

/// Returns x for max(0, x). If any lane is on, the count is positive and the lower limit does not matter.
const Expr& AccessChecker::without_floor(const Expr& count) const {
  if (count->kind != ExprKind::binary || count->op != Op::max) return count;
  int64_t floor = 1;
  for (size_t i = 0; i < 2; ++i) {
    if (is_const(count->args[i], &floor) && floor <= 0) return count->args[1 - i];
  }
  return count;
}

/// Adds to `last` the upper limits that the mask sets for the index of the last active lane. Returns false when the
/// mask also restricts lanes in other ways.
bool AccessChecker::limit_by_mask(const Expr& mask, const Affine& base, const Lanes& lanes, std::vector<Affine>& last) {
  const Expr& m = space_.definition(mask);
  if (m->kind == ExprKind::binary && m->op == Op::logical_and) {
    const bool first = limit_by_mask(m->args[0], base, lanes, last);
    return limit_by_mask(m->args[1], base, lanes, last) && first;
  }
  Expr count = first_lanes_count(m);
  if (!count.defined()) return false;
  count = space_.definition(count);
  Affine n;
  if (count->kind == ExprKind::int_imm) {
    n = Affine(count->ival);
  } else if (count->kind == ExprKind::cast && count->args[0].elem() == DType::i64) {
    const Expr& wide = space_.definition(count->args[0]);
    space_.assume(binary(Op::ge, wide, 1), true);  // otherwise no lane is on
    for (const Expr& e : wide->kind == ExprKind::binary && wide->op == Op::min ? wide->args : ExprArgs{wide}) {
      n = space_.expanded(space_.affine(without_floor(space_.definition(e))));
      n.constant -= 1;
      if (const std::optional<Affine> end = add(base, n, lanes.stride)) last.push_back(*end);
    }
    return true;
  } else {
    return false;
  }
  n.constant -= 1;
  if (const std::optional<Affine> end = add(base, n, lanes.stride)) last.push_back(*end);
  return true;
}

void AccessChecker::access(std::string_view what, int32_t buffer, const Expr& index, const Lanes& lanes) {
  if (!reachable()) return;
  if (lanes.mask != nullptr && (*lanes.mask)->kind == ExprKind::int_imm && (*lanes.mask)->ival == 0) return;
  const Buffer& b = func_.buffers[static_cast<size_t>(buffer)];
  Affine first = space_.expanded(space_.affine(index));
  first.constant += lanes.offset;
  const int64_t spread = (lanes.count - 1) * lanes.stride;
  const std::optional<int64_t> box_low = space_.box(first, false);
  const std::optional<int64_t> box_high = space_.box(first, true);
  if (box_low && box_high && *box_low + std::min<int64_t>(spread, 0) >= 0 &&
      *box_high + std::max<int64_t>(spread, 0) < b.elems) {
    return;
  }
  const size_t facts = space_.facts();
  std::vector<Affine> last;
  Affine unmasked = first;
  unmasked.constant += spread;
  last.push_back(unmasked);
  bool clear = unclear_ == 0;
  if (lanes.mask != nullptr && !limit_by_mask(*lanes.mask, first, lanes, last)) clear = false;
  // The last lane is bounded by the tightest of the alternatives.
  std::optional<int64_t> low = space_.lower(first);
  std::optional<int64_t> high = space_.upper(first);
  std::optional<int64_t> end;
  for (const Affine& l : last) {
    const std::optional<int64_t> v = lanes.stride >= 0 ? space_.upper(l) : space_.lower(l);
    if (v && (!end || (lanes.stride >= 0 ? *v < *end : *v > *end))) end = v;
  }
  space_.forget(facts);
  if (end) {
    std::optional<int64_t>& side = lanes.stride >= 0 ? high : low;
    side = end;
  }
  const bool below = low && *low < 0;
  const bool above = high && *high >= b.elems;
  if ((!below && !above) || !clear || !decidable(first)) return;
  fail(ErrorKind::internal, "verify '{}': {} out of bounds: buffer '{}' has {} elements, index {} in [{}, {}]",
       func_.name, what, b.name, b.elems, loop_text::expression(func_, index), low ? fmt::format("{}", *low) : "?",
       high ? fmt::format("{}", *high) : "?");
}

void AccessChecker::load(const ExprNode& e) {
  if (e.kind == ExprKind::gather) return;
  access("load", e.id, e.args[0], {e.ival, e.type.lanes, e.args.size() > 1 ? &e.args[1] : nullptr});
}

void AccessChecker::store(const StmtNode& s) {
  const Expr* mask = s.mask.defined() ? &s.mask : nullptr;
  if (s.kind == StmtKind::scatter) {
    const Expr& at = space_.definition(s.a);
    int64_t stride = 0;
    if (at->kind == ExprKind::ramp && is_const(at->args[1], &stride)) {
      access("scatter", s.id, at->args[0], {stride, s.b.lanes(), mask});
    }
    return;
  }
  access("store", s.id, s.a, {1, s.b.lanes(), mask});
  race(s);
}

void AccessChecker::tile(const StmtNode& s) {
  const TileInfo& t = func_.tiles[static_cast<size_t>(s.tiles[0])];
  const bool store = s.kind == StmtKind::tile_store;
  const std::string_view what = store ? "tile store" : "tile load";
  access(what, s.id, s.a, {1, t.columns, nullptr});
  access(what, s.id, s.a, {1, t.columns, nullptr, (t.rows - 1) * s.step});
  if (store) race(s);
}

/// Splits the index into terms of constant extents, with the begin of each loop substituted. `apart`: the dimensions,
/// one bit each, in which two stores differ. Returns false if the index cannot be split.
bool AccessChecker::rectangular(Affine index, uint64_t apart, std::vector<Term>& terms) const {
  while (index.count > 0) {
    const Affine::Term t = index.terms[static_cast<size_t>(index.count) - 1];
    const IndexSpace::Key& key = space_.key(t.key);
    if (key.kind != IndexSpace::KeyKind::loop) return false;
    const auto dim = std::ranges::find(dims_, key.var, &Dim::var);
    std::optional<Affine> next = add(index, Affine::of(t.key), -t.coef);
    if (!next || std::abs(t.coef) > (int64_t{1} << 40)) return false;
    if (dim != dims_.end()) {
      const uint64_t bit = var_parallel_[static_cast<size_t>(key.var)];
      const bool inner = (bit & threads_) != 0;  // threads of different blocks may have any numbers
      terms.push_back({t.coef, dim->extent, (bit & apart) != 0 ? Value::differs : inner ? Value::any : Value::same});
    } else if (apart == threads_ && std::ranges::count(phased_, key.var) > 0) {
      terms.push_back({t.coef, 1, Value::same});
    } else {
      if (key.extent < 1 || key.extent > (int64_t{1} << 20)) return false;
      terms.push_back({t.coef * key.step, key.extent, Value::any});
      next = add(*next, key.first, t.coef);
      if (!next) return false;
    }
    index = *next;
  }
  return true;
}

void AccessChecker::race(const StmtNode& s) {
  const Buffer& buffer = func_.buffers[static_cast<size_t>(s.id)];
  if (!reachable() || dims_.empty()) return;
  if (buffer.kind != BufferKind::scratch) race(s, ~threads_);
  if (threads_ != 0 && (buffer.kind != BufferKind::scratch || buffer.space == MemorySpace::shared)) race(s, threads_);
}

/// Throws if the statement stores to one element twice, in iterations that differ in the dimensions `apart` (one bit
/// each) and may run at the same time.
void AccessChecker::race(const StmtNode& s, uint64_t apart) {
  const auto report = [&](const std::string& dims) {
    fail(ErrorKind::internal, "verify '{}': two {} store to the same element of '{}': index {}, {}", func_.name,
         apart == threads_        ? "threads"
         : func_.parallel.empty() ? "blocks"
                                  : "parallel iterations",
         buffer_name(s.id), loop_text::expression(func_, s.a), dims);
  };
  const uint64_t depends = control_ | parallel_of(s.a) | (s.mask.defined() ? parallel_of(s.mask) : 0);
  for (size_t i = 0; i < std::min<size_t>(dims_.size(), 64); ++i) {
    const Dim& d = dims_[i];
    if (d.extent > 1 && (depends >> i & 1) == 0 && (apart >> i & 1) != 0) {
      report(fmt::format("which does not depend on '{}' of extent {}", func_.vars[static_cast<size_t>(d.var)].name,
                         d.extent));
    }
  }
  if (control_ != 0 || (s.mask.defined() && s.mask->kind != ExprKind::int_imm && parallel_of(s.mask) != 0)) return;
  std::vector<Term> found;
  const TileInfo* tile = s.kind == StmtKind::tile_store ? &func_.tiles[static_cast<size_t>(s.tiles[0])] : nullptr;
  const int32_t lanes = tile != nullptr ? tile->columns : s.mask.defined() ? 1 : s.b.lanes();
  if (lanes > 1) found.push_back({1, lanes, Value::any});
  if (tile != nullptr && tile->rows > 1) found.push_back({s.step, tile->rows, Value::any});
  if (!rectangular(space_.expanded(space_.affine(s.a)), apart, found)) return;
  std::vector<Overlap::Term> terms;
  for (const Term& t : found) {
    if (t.value == Value::same) continue;
    if (t.extent > (int64_t{1} << 21)) return;
    terms.push_back({t.coef, t.extent, t.value == Value::differs});
  }
  if (Overlap(std::move(terms)).found()) {
    report(fmt::format("whose spans overlap ({} lanes a store)", lanes));
  }
}

}  // namespace kilter
