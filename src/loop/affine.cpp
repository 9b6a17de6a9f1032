#include "loop/affine.h"

#include <algorithm>

namespace kilter {
namespace {

constexpr int64_t kNoLow = std::numeric_limits<int64_t>::min();
constexpr int64_t kNoHigh = std::numeric_limits<int64_t>::max();
/// The most steps in one search for a bound; loop nests need a handful.
constexpr int kBudget = 200;

bool is_binary(const Expr& e, Op op) { return e->kind == ExprKind::binary && e->op == op; }

uint64_t hash(Op op, const Affine& a, const Affine& b) {
  uint64_t h = static_cast<uint64_t>(op) * 0x9e3779b97f4a7c15U;
  for (const Affine* x : {&a, &b}) {
    h = (h ^ static_cast<uint64_t>(x->constant)) * 0xff51afd7ed558ccdU;
    for (const Affine::Term& t : *x) {
      h = (h ^ static_cast<uint64_t>(t.key) ^ (static_cast<uint64_t>(t.coef) << 20)) * 0xff51afd7ed558ccdU;
    }
    h ^= h >> 29;
  }
  return h;
}

}  // namespace

int64_t Affine::coef(int32_t key) const {
  for (const Term& t : *this) {
    if (t.key == key) return t.coef;
  }
  return 0;
}

bool Affine::operator==(const Affine& other) const {
  return constant == other.constant && count == other.count && std::equal(begin(), end(), other.begin());
}

std::optional<Affine> add(const Affine& a, const Affine& b, int64_t factor) {
  Affine r;
  int64_t scaled = 0;
  if (__builtin_mul_overflow(b.constant, factor, &scaled)) return std::nullopt;
  if (__builtin_add_overflow(a.constant, scaled, &r.constant)) return std::nullopt;
  const Affine::Term* x = a.begin();
  const Affine::Term* y = b.begin();
  while (x != a.end() || y != b.end()) {
    Affine::Term t{};
    if (y == b.end() || (x != a.end() && x->key < y->key)) {
      t = *x++;
    } else {
      if (__builtin_mul_overflow(y->coef, factor, &t.coef)) return std::nullopt;
      t.key = y->key;
      if (x != a.end() && x->key == y->key) {
        if (__builtin_add_overflow(x->coef, t.coef, &t.coef)) return std::nullopt;
        ++x;
      }
      ++y;
    }
    if (t.coef == 0) continue;
    if (r.count == Affine::kMaxTerms) return std::nullopt;
    r.terms[static_cast<size_t>(r.count++)] = t;
  }
  return r;
}

IndexSpace::IndexSpace(const LoopFunc& func) : key_of_var_(func.vars.size(), -1), let_values_(func.vars.size()) {}

int32_t IndexSpace::add_key(Key key) {
  keys_.push_back(std::move(key));
  return static_cast<int32_t>(keys_.size()) - 1;
}

int32_t IndexSpace::key_of(int32_t var) const {
  return var >= 0 && static_cast<size_t>(var) < key_of_var_.size() ? key_of_var_[static_cast<size_t>(var)] : -1;
}

const Expr& IndexSpace::definition(const Expr& e) const {
  const Expr* at = &e;
  while ((*at)->kind == ExprKind::var && static_cast<size_t>((*at)->id) < let_values_.size() &&
         let_values_[static_cast<size_t>((*at)->id)].defined()) {
    at = &let_values_[static_cast<size_t>((*at)->id)];
  }
  return *at;
}

void IndexSpace::bind_parallel(int32_t var, int64_t extent) {
  const int32_t k = add_key({.kind = KeyKind::loop, .var = var, .expr = var_expr({DType::i64, 1}, var)});
  Key& key = keys_.back();
  key.rank = k;
  key.low = 0;
  key.high = extent - 1;
  key_of_var_[static_cast<size_t>(var)] = k;
}

void IndexSpace::bind_loop(int32_t var, const Expr& begin, const Expr& end, int64_t step) {
  // The keys of the bounds come first.
  const Affine first = expanded(affine(begin));
  const Affine last = expanded(affine(end));
  for (const Expr& e : alternatives(begin, Op::max)) affine(e);
  for (const Expr& e : alternatives(end, Op::min)) affine(e);
  const int32_t k = add_key({.kind = KeyKind::loop, .var = var, .expr = var_expr({DType::i64, 1}, var)});
  keys_.back().rank = k;
  key_of_var_[static_cast<size_t>(var)] = k;
  const Expr v = keys_.back().expr;
  add_facts_below(begin, v, 0, false);
  int64_t gap = 1;
  if (step > 1) {
    // The distance between the first and last value is a multiple of the step.
    const std::optional<Affine> distance = add(last, first, -1);
    const bool whole = distance && std::all_of(distance->begin(), distance->end(),
                                               [step](const Affine::Term& t) { return t.coef % step == 0; });
    if (whole) {
      gap = ((distance->constant - 1) % step + step) % step + 1;
    } else {
      keys_.back().known = false;
    }
  }
  add_facts_below(v, end, gap, false);
  set_box(k);
  keys_.back().first = first;
  const std::optional<Affine> distance = add(last, first, -1);
  if (distance && distance->is_constant()) {
    keys_.back().extent = distance->constant <= 0 ? 0 : (distance->constant + step - 1) / step;
  }
  keys_.back().step = step;
}

void IndexSpace::bind_let(int32_t var, const Expr& value) {
  let_values_[static_cast<size_t>(var)] = value;
  if (value.type() != VType{DType::i64, 1}) return;
  const Affine a = affine(value);
  Key key{.kind = KeyKind::let, .var = var, .expr = var_expr({DType::i64, 1}, var)};
  for (const Affine::Term& t : a) key.rank = std::max(key.rank, keys_[static_cast<size_t>(t.key)].rank);
  key.value = expanded(a);
  key_of_var_[static_cast<size_t>(var)] = add_key(std::move(key));
}

/// Returns expressions whose minimum (op = min) or maximum (op = max) is `e`.
std::vector<Expr> IndexSpace::alternatives(const Expr& e, Op op) const {
  const Expr& d = definition(e);
  if (!is_binary(d, op)) return {e};
  std::vector<Expr> result = alternatives(d->args[0], op);
  for (Expr& other : alternatives(d->args[1], op)) result.push_back(std::move(other));
  return result;
}

/// Adds low + gap <= high, where low may be a maximum and high a minimum of several expressions.
void IndexSpace::add_facts_below(const Expr& low, const Expr& high, int64_t gap, bool assumed) {
  for (const Expr& l : alternatives(low, Op::max)) {
    const Affine from = affine(l);
    for (const Expr& h : alternatives(high, Op::min)) {
      std::optional<Affine> fact = add(affine(h), from, -1);
      if (!fact) continue;
      fact->constant -= gap;
      add_fact(*fact, assumed);
    }
  }
}

void IndexSpace::add_fact(const Affine& at_least_zero, bool assumed) {
  const Affine fact = expanded(at_least_zero);
  if (assumed) {
    const std::optional<int64_t> high = upper(fact);
    impossible_ = impossible_ || (high && *high < 0);
  }
  if (fact.is_constant()) return;
  const Affine::Term& last_term = fact.terms[static_cast<size_t>(fact.count) - 1];
  const int32_t last = last_term.key;
  Key& key = keys_[static_cast<size_t>(last)];
  if (fact.count == 1 && !assumed && (last_term.coef == 1 || last_term.coef == -1)) {
    if (last_term.coef == 1) key.low = std::max(key.low, -fact.constant);
    if (last_term.coef == -1) key.high = std::min(key.high, fact.constant);
    return;
  }
  key.facts.push_back(fact);
  if (assumed) assumed_.push_back(last);
}

bool IndexSpace::assume(const Expr& condition, bool holds, bool* possible) {
  impossible_ = false;
  const bool complete = add_condition(condition, holds);
  if (possible != nullptr) *possible = !impossible_;
  return complete;
}

bool IndexSpace::add_condition(const Expr& condition, bool holds) {
  const Expr c = definition(condition);
  if (c->kind == ExprKind::unary && c->op == Op::logical_not) return add_condition(c->args[0], !holds);
  if (c->kind != ExprKind::binary) return false;
  if ((c->op == Op::logical_and && holds) || (c->op == Op::logical_or && !holds)) {
    const bool first = add_condition(c->args[0], holds);
    return add_condition(c->args[1], holds) && first;
  }
  if (!is_comparison(c->op) || c->args[0].type() != VType{DType::i64, 1}) return false;
  const Expr& a = c->args[0];
  const Expr& b = c->args[1];
  static constexpr Op kNegated[] = {Op::ne, Op::eq, Op::ge, Op::gt, Op::le, Op::lt};
  const Op op = holds ? c->op : kNegated[static_cast<size_t>(c->op) - static_cast<size_t>(Op::eq)];
  if (op == Op::lt) add_facts_below(a, b, 1, true);
  if (op == Op::le || op == Op::eq) add_facts_below(a, b, 0, true);
  if (op == Op::gt) add_facts_below(b, a, 1, true);
  if (op == Op::ge || op == Op::eq) add_facts_below(b, a, 0, true);
  return op != Op::ne;
}

void IndexSpace::assume_runs(const Expr& begin, const Expr& end) { add_facts_below(begin, end, 1, true); }

void IndexSpace::forget(size_t facts) {
  while (assumed_.size() > facts) {
    keys_[static_cast<size_t>(assumed_.back())].facts.pop_back();
    assumed_.pop_back();
  }
}

const Affine& IndexSpace::affine(const Expr& e) {
  if (const Known* known = memo_.find(e.get())) return known->value;
  const Affine a = compute(e);
  Known& known = memo_[e.get()];
  known.expr = e;
  known.value = a;
  return known.value;
}

Affine IndexSpace::compute(const Expr& e) {
  if (e->kind == ExprKind::int_imm) return Affine(e->ival);
  if (e->kind == ExprKind::var) {
    const int32_t k = key_of(e->id);
    return k >= 0 ? Affine::of(k) : opaque(e);
  }
  if (e->kind == ExprKind::unary && e->op == Op::neg) {
    const std::optional<Affine> r = add(Affine(0), affine(e->args[0]), -1);
    return r ? *r : opaque(e);
  }
  if (e->kind != ExprKind::binary) return opaque(e);
  const Affine a = affine(e->args[0]);
  const Affine b = affine(e->args[1]);
  std::optional<Affine> r;
  if (e->op == Op::add) r = add(a, b);
  if (e->op == Op::sub) r = add(a, b, -1);
  if (e->op == Op::mul && b.is_constant()) r = add(Affine(0), a, b.constant);
  if (e->op == Op::mul && a.is_constant()) r = add(Affine(0), b, a.constant);
  if (r) return has_mod_ ? recombined(*r) : *r;
  if ((e->op == Op::div || e->op == Op::mod) && b.is_constant() && b.constant > 0) return divided(e, a, b.constant);
  return opaque(e);
}

/// Uses (c * q + r) / c = q and (c * q + r) % c = r if 0 <= r < c and q >= 0; (x / c1) / c2 = x / (c1 * c2).
Affine IndexSpace::divided(const Expr& e, const Affine& dividend, int64_t c) {
  const Affine a = expanded(dividend);
  Affine rest(((a.constant % c) + c) % c);
  for (const Affine::Term& t : a) {
    if (t.coef % c != 0) rest.terms[static_cast<size_t>(rest.count++)] = t;
  }
  std::optional<Affine> quotient = add(a, rest, -1);
  if (quotient && !(rest.count == a.count && quotient->constant == 0)) {
    quotient->constant /= c;
    for (int32_t i = 0; i < quotient->count; ++i) quotient->terms[static_cast<size_t>(i)].coef /= c;
    const std::optional<int64_t> low = lower(rest);
    const std::optional<int64_t> high = upper(rest);
    const std::optional<int64_t> least = lower(*quotient);
    if (low && *low >= 0 && high && *high < c && least && *least >= 0) return e->op == Op::div ? *quotient : rest;
  }
  if (e->op == Op::div && a.count == 1 && a.constant == 0 && a.terms[0].coef == 1) {
    const Key& inner = keys_[static_cast<size_t>(a.terms[0].key)];
    int64_t product = 0;
    if (inner.kind == KeyKind::opaque && inner.op == Op::div && inner.b.is_constant() && inner.b.constant > 0 &&
        !__builtin_mul_overflow(inner.b.constant, c, &product)) {
      return affine(inner.expr->args[0] / product);
    }
  }
  return opaque(e);
}

/// Applies k * (x % c) + k * c * (x / c) = k * x.
Affine IndexSpace::recombined(Affine a) const {
  for (const Affine::Term& m : a) {
    const Key& mod = keys_[static_cast<size_t>(m.key)];
    if (mod.kind != KeyKind::opaque || mod.op != Op::mod) continue;
    for (const Affine::Term& d : a) {
      const Key& div = keys_[static_cast<size_t>(d.key)];
      if (div.kind != KeyKind::opaque || div.op != Op::div || div.a != mod.a || div.b != mod.b) continue;
      if (d.coef != m.coef * mod.b.constant) continue;
      std::optional<Affine> r = add(a, Affine::of(m.key), -m.coef);
      if (r) r = add(*r, Affine::of(d.key), -d.coef);
      if (r) r = add(*r, mod.a, m.coef);
      return r ? recombined(*r) : a;
    }
  }
  return a;
}

Affine IndexSpace::opaque(const Expr& e) {
  Key key{.expr = e};
  uint64_t h = reinterpret_cast<uintptr_t>(e.get());
  const bool binary = e->kind == ExprKind::binary && e->args[0].type() == VType{DType::i64, 1};
  if (binary) {
    key.op = e->op;
    key.a = affine(e->args[0]);
    key.b = affine(e->args[1]);
    h = hash(key.op, key.a, key.b);
    const auto [first, last] = opaque_.equal_range(h);
    for (auto at = first; at != last; ++at) {
      const Key& known = keys_[static_cast<size_t>(at->second)];
      if (known.op == key.op && known.a == key.a && known.b == key.b) return Affine::of(at->second);
    }
    for (const Affine* x : {&key.a, &key.b}) {
      for (const Affine::Term& t : *x) key.rank = std::max(key.rank, keys_[static_cast<size_t>(t.key)].rank);
    }
    has_mod_ = has_mod_ || key.op == Op::mod;
  } else {
    key.known = false;
    key.rank = std::numeric_limits<int32_t>::max();
  }
  const int32_t k = add_key(std::move(key));
  if (binary) {
    opaque_.emplace(h, k);
    limit_opaque(k);
  }
  return Affine::of(k);
}

/// Adds facts about min, max, div and mod.
void IndexSpace::limit_opaque(int32_t k) {
  const Op op = keys_[static_cast<size_t>(k)].op;
  const Affine a = keys_[static_cast<size_t>(k)].a;
  const Affine b = keys_[static_cast<size_t>(k)].b;
  const Affine self = Affine::of(k);
  const auto at_least_zero = [&](const std::optional<Affine>& fact) {
    if (fact) add_fact(*fact, false);
  };
  const bool divides = (op == Op::div || op == Op::mod) && b.is_constant() && b.constant > 0;
  if (op == Op::min || op == Op::max) {
    const int64_t sign = op == Op::min ? 1 : -1;  // min <= a, min <= b; a <= max, b <= max
    for (const Affine* x : {&a, &b}) {
      const std::optional<Affine> above = add(*x, self, -1);
      if (above) at_least_zero(add(Affine(0), *above, sign));
    }
    const std::optional<int64_t> x = bound(a, op == Op::max);
    const std::optional<int64_t> y = bound(b, op == Op::max);
    Key& key = keys_[static_cast<size_t>(k)];
    if (op == Op::min && x && y) key.low = std::min(*x, *y);
    if (op == Op::max && x && y) key.high = std::max(*x, *y);
  } else if (divides) {
    const std::optional<int64_t> low = lower(a);
    const std::optional<int64_t> high = upper(a);
    Key& key = keys_[static_cast<size_t>(k)];
    const int64_t c = b.constant;
    if (op == Op::div) {
      if (low) key.low = *low / c;
      if (high) key.high = *high / c;
      if (low && *low >= 0) {
        at_least_zero(add(a, self, -c));
        std::optional<Affine> least = add(Affine(c - 1), self, c);
        if (least) at_least_zero(add(*least, a, -1));
      }
    } else {
      key.low = low && *low >= 0 ? 0 : 1 - c;
      key.high = high && *high <= 0 ? 0 : c - 1;
      if (low && high && *low >= 0 && *high < key.high) key.high = *high;
    }
  } else {
    keys_[static_cast<size_t>(k)].known = false;
  }
  set_box(k);
}

/// Derives constant bounds of a key from its facts, if they are tighter than the present ones.
void IndexSpace::set_box(int32_t k) {
  int budget = kBudget;
  const std::optional<int64_t> low = eliminate(Affine::of(k), false, budget);
  budget = kBudget;
  const std::optional<int64_t> high = eliminate(Affine::of(k), true, budget);
  Key& key = keys_[static_cast<size_t>(k)];
  if (low) key.low = std::max(key.low, *low);
  if (high) key.high = std::min(key.high, *high);
}

Affine IndexSpace::expanded(const Affine& a) const {
  const bool has_let = std::any_of(a.begin(), a.end(), [this](const Affine::Term& t) {
    return keys_[static_cast<size_t>(t.key)].kind == KeyKind::let;
  });
  if (!has_let) return a;
  Affine r(a.constant);
  for (const Affine::Term& t : a) {
    const Key& key = keys_[static_cast<size_t>(t.key)];
    const std::optional<Affine> sum = add(r, key.kind == KeyKind::let ? key.value : Affine::of(t.key), t.coef);
    if (!sum) return a;
    r = *sum;
  }
  return has_mod_ ? recombined(r) : r;
}

std::optional<int64_t> IndexSpace::box(const Affine& a, bool up) const {
  int64_t sum = a.constant;
  for (const Affine::Term& t : a) {
    const Key& key = keys_[static_cast<size_t>(t.key)];
    const int64_t extreme = (t.coef > 0) == up ? key.high : key.low;
    int64_t product = 0;
    if (extreme == kNoLow || extreme == kNoHigh || __builtin_mul_overflow(extreme, t.coef, &product) ||
        __builtin_add_overflow(sum, product, &sum)) {
      return std::nullopt;
    }
  }
  return sum;
}

std::optional<int64_t> IndexSpace::bound(const Affine& a, bool up) const {
  const Affine e = expanded(a);
  int budget = kBudget;
  return eliminate(e, up, budget);
}

/// Replaces the last key by each of its limits in turn, recursively, and returns the tightest result.
std::optional<int64_t> IndexSpace::eliminate(const Affine& sum, bool up, int& budget) const {
  std::optional<int64_t> best = box(sum, up);
  Affine a = sum;
  while (!a.is_constant() && --budget > 0) {
    const Affine::Term last = a.terms[static_cast<size_t>(a.count) - 1];
    const Key& key = keys_[static_cast<size_t>(last.key)];
    for (const Affine& fact : key.facts) {
      const int64_t f = (up ? 1 : -1) * fact.coef(last.key);
      if (f == 0 || last.coef % f != 0 || -last.coef / f <= 0) continue;
      const std::optional<Affine> next = add(a, fact, (up ? 1 : -1) * (-last.coef / f));
      const std::optional<int64_t> value = next ? eliminate(*next, up, budget) : std::nullopt;
      if (value && (!best || (up ? *value < *best : *value > *best))) best = value;
    }
    // After that, substitute the constant limit of this key, and continue with the other keys.
    const int64_t extreme = (last.coef > 0) == up ? key.high : key.low;
    int64_t product = 0;
    if (extreme == kNoLow || extreme == kNoHigh || __builtin_mul_overflow(extreme, last.coef, &product) ||
        __builtin_add_overflow(a.constant, product, &a.constant)) {
      return best;
    }
    --a.count;
  }
  if (a.is_constant() && (!best || (up ? a.constant < *best : a.constant > *best))) best = a.constant;
  return best;
}

Expr IndexSpace::expr(const Affine& a) const {
  std::array<Affine::Term, Affine::kMaxTerms> order = a.terms;
  const auto rank = [this](const Affine::Term& t) { return std::pair(keys_[static_cast<size_t>(t.key)].rank, t.key); };
  std::sort(order.begin(), order.begin() + a.count, [&](const auto& x, const auto& y) { return rank(x) < rank(y); });
  Expr sum;
  for (int32_t i = 0; i < a.count; ++i) {
    const Affine::Term& t = order[static_cast<size_t>(i)];
    const Expr& e = keys_[static_cast<size_t>(t.key)].expr;
    if (!sum.defined()) {
      sum = e * t.coef;
    } else {
      sum = t.coef == -1 ? sum - e : sum + e * t.coef;
    }
  }
  return sum.defined() ? sum + a.constant : Expr(a.constant);
}

}  // namespace kilter
