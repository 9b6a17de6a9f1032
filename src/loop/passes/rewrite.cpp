#include "loop/passes/rewrite.h"

#include <algorithm>

namespace kilter::loop_passes {

Rewriter::Rewriter(const LoopFunc& func) : vars_(func.vars.size()), regs_(func.regs.size()) {}

void Rewriter::enter() { scopes_.push_back({next_stamp_++, {}}); }

void Rewriter::leave() {
  for (const Bound& b : scopes_.back().bound) (b.is_reg ? regs_ : vars_)[static_cast<size_t>(b.id)] = {};
  scopes_.pop_back();
}

void Rewriter::bind(std::vector<Binding>& table, bool is_reg, int32_t id, Expr value) {
  if (static_cast<size_t>(id) >= table.size()) table.resize(static_cast<size_t>(id) + 1);
  table[static_cast<size_t>(id)] = {std::move(value), scopes_.size()};
  scopes_.back().bound.push_back({is_reg, id});
}

void Rewriter::bind_var(int32_t var, Expr value) { bind(vars_, false, var, std::move(value)); }
void Rewriter::bind_reg(int32_t reg, Expr value) { bind(regs_, true, reg, std::move(value)); }

Expr Rewriter::operator()(const Expr& e) {
  if (!e.defined() || scopes_.empty()) return e;
  return rewrite(e).result;
}

const Rewriter::Entry& Rewriter::rewrite(const Expr& e) {
  Entry& known = memo_[e.get()];
  if (known.result.defined() && known.level <= scopes_.size() &&
      (known.level == 0 || scopes_[known.level - 1].stamp == known.stamp)) {
    return known;
  }
  Entry entry{e, 0, 0};
  if (e->kind == ExprKind::var || e->kind == ExprKind::reg) {
    const auto& table = e->kind == ExprKind::var ? vars_ : regs_;
    const auto id = static_cast<size_t>(e->id);
    if (id < table.size() && table[id].level > 0) entry = {table[id].value, table[id].level, 0};
  } else if (!e->args.empty()) {
    ExprArgs args;
    bool changed = false;
    for (const Expr& a : e->args) {
      const Entry& sub = rewrite(a);
      entry.level = std::max(entry.level, sub.level);
      changed = changed || sub.result.get() != a.get();
      args.push_back(sub.result);
    }
    if (changed) entry.result = with_args(e, std::move(args));
  }
  if (entry.level > 0) entry.stamp = scopes_[entry.level - 1].stamp;
  Entry& slot = memo_[e.get()];
  slot = std::move(entry);
  return slot;
}

int64_t constant_extent(const Expr& begin, const Expr& end, int64_t step) {
  int64_t distance = 0;
  if (!is_const(end - begin, &distance)) return -1;
  return distance <= 0 ? 0 : (distance + step - 1) / step;
}

int32_t fresh_var(LoopFunc& func, int32_t like) {
  func.vars.push_back(func.vars[static_cast<size_t>(like)]);
  return static_cast<int32_t>(func.vars.size()) - 1;
}

int32_t fresh_reg(LoopFunc& func, int32_t like) {
  func.regs.push_back(func.regs[static_cast<size_t>(like)]);
  return static_cast<int32_t>(func.regs.size()) - 1;
}

int32_t fresh_tile(LoopFunc& func, int32_t like) {
  func.tiles.push_back(func.tiles[static_cast<size_t>(like)]);
  return static_cast<int32_t>(func.tiles.size()) - 1;
}

StmtNode outline(const StmtNode& s) {
  return {.kind = s.kind, .id = s.id, .loop = s.loop, .step = s.step, .likely = s.likely, .tiles = s.tiles};
}

Stmt make_stmt(StmtNode node) { return make_node<StmtNode>(std::move(node)); }

}  // namespace kilter::loop_passes
