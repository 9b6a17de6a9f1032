// Replaces vector loops by vector code. The copies of one group of the main loop are interleaved statement by
// statement, so that their latencies overlap. With 16 lanes and masks:
//
//   for i in [0, 1000) vector {    for i in [0, 960) step 64 {
//     y[i] = x[i] * s[0]       →     y[i] = x[i, lanes 16] * broadcast(s[0], 16)    ... and at i + 16, i + 32, i + 48
//   }                              }
//                                  y[960] = x[960, lanes 16] * broadcast(s[0], 16)  ... and at 976
//                                  y[992, mask M] = x[992, lanes 16, mask M] * broadcast(s[0], 16)   M: the first 8
//                                  lanes
#include <algorithm>
#include <bit>
#include <unordered_set>

#include "loop/passes/passes.h"
#include "loop/passes/rewrite.h"
#include "loop/passes/vector_body.h"

namespace kilter::loop_passes {
namespace {

class Vectorise {
 public:
  Vectorise(const LoopFunc& func, const CpuLimits& limits) : result_(func), limits_(limits) {}

  LoopFunc run() {
    std::vector<Stmt> body = std::move(result_.body);
    result_.body = stmts(body);
    return std::move(result_);
  }

 private:
  std::vector<Stmt> stmts(const std::vector<Stmt>& in) {
    std::vector<Stmt> out;
    out.reserve(in.size());
    for (const Stmt& s : in) {
      if (s->kind == StmtKind::loop && s->loop == LoopKind::vector) {
        loop(*s, out);
      } else if (s->body.empty() && s->other.empty()) {
        out.push_back(s);
      } else {
        StmtNode n = *s;
        n.body = stmts(s->body);
        n.other = stmts(s->other);
        out.push_back(make_stmt(std::move(n)));
      }
    }
    return out;
  }

  void loop(const StmtNode& s, std::vector<Stmt>& out) {
    const int64_t extent = constant_extent(s.a, s.b, s.step);
    const int32_t lanes = std::max(1, limits_.lanes_f32());
    if (extent < 0) return open_loop(s, lanes, out);
    const int64_t full = extent / lanes;
    const int64_t group = std::min<int64_t>(copies(s), std::max<int64_t>(full, 1));
    int64_t done = 0;  // iterations done
    if (full / group > 1) {
      const int64_t groups = full / group;
      main_loop(s, s.a, s.a + groups * group * lanes * s.step, group, lanes, out);
      done = groups * group * lanes;
    }
    while (extent - done >= lanes) {
      const int64_t vectors = std::min(group, (extent - done) / lanes);
      straight(s, s.a + done * s.step, vectors, lanes, {}, out);
      done += vectors * lanes;
    }
    if (done == extent) return;
    if (limits_.masks && lanes > 1) {
      straight(s, s.a + done * s.step, 1, lanes, first_lanes(extent - done, lanes), out);
      return;
    }
    while (done < extent) {
      const auto part = static_cast<int32_t>(std::bit_floor(static_cast<uint64_t>(extent - done)));
      straight(s, s.a + done * s.step, 1, part, {}, out);
      done += part;
    }
  }

  /// A loop whose extent is known only when it runs.
  void open_loop(const StmtNode& s, int32_t lanes, std::vector<Stmt>& out) {
    require(s.step == 1, "vectorise '{}': loop '{}' has step {} and no constant extent", result_.name,
            result_.vars[static_cast<size_t>(s.id)].name, s.step);
    const Expr count = let(s, s.b - s.a, out);
    Expr done = s.a;
    for (int64_t group = copies(s);; group = 1) {
      const int64_t width = group * lanes;
      const Expr end = let(s, s.a + count / width * width, out);
      main_loop(s, done, end, group, lanes, out);
      done = end;
      if (group == 1) break;
    }
    if (lanes == 1) return;
    if (!limits_.masks) return main_loop(s, done, s.b, 1, 1, out);
    StmtNode tail{.kind = StmtKind::if_then, .a = binary(Op::lt, done, s.b)};
    straight(s, done, 1, lanes, first_lanes(s.b - done, lanes), tail.body);
    out.push_back(make_stmt(std::move(tail)));
  }

  /// Names a number of iterations or a value of the loop's variable.
  Expr let(const StmtNode& s, Expr value, std::vector<Stmt>& out) {
    const int32_t var = fresh_var(result_, s.id);
    out.push_back(make_stmt({.kind = StmtKind::let, .id = var, .a = std::move(value)}));
    return var_expr({DType::i64, 1}, var);
  }

  void main_loop(const StmtNode& s, Expr begin, Expr end, int64_t group, int32_t lanes, std::vector<Stmt>& out) {
    const int32_t var = fresh_var(result_, s.id);
    const Expr v = var_expr({DType::i64, 1}, var);
    VectorBody body(result_, s, lanes);
    for (int64_t u = 0; u < group; ++u) body.add_copy(v + u * lanes * s.step, {});
    StmtNode n{.kind = StmtKind::loop, .id = var, .step = group * lanes * s.step};
    n.a = std::move(begin);
    n.b = std::move(end);
    n.body = body.build();
    out.push_back(make_stmt(std::move(n)));
  }

  void straight(const StmtNode& s, const Expr& begin, int64_t vectors, int32_t lanes, const Expr& mask,
                std::vector<Stmt>& out) {
    VectorBody body(result_, s, lanes);
    for (int64_t u = 0; u < vectors; ++u) body.add_copy(begin + u * lanes * s.step, mask);
    for (Stmt& b : body.build()) out.push_back(std::move(b));
  }

  /// Returns how many vectors are interleaved: enough to hide latency even if the body is small.
  static int64_t copies(const StmtNode& s) {
    std::unordered_set<const ExprNode*> seen;
    int64_t cost = 0;
    for (const Stmt& b : s.body) cost += nodes(*b, seen);
    // Checked indices have 64 bits, so a vector of them needs two registers or more.
    const bool checks = std::ranges::any_of(s.body, [](const Stmt& b) { return b->kind == StmtKind::check; });
    return cost <= 16 ? (checks ? 2 : 4) : cost <= 48 ? 2 : 1;
  }
  static int64_t nodes(const StmtNode& s, std::unordered_set<const ExprNode*>& seen) {
    int64_t count = 0;
    for (const Expr* e : {&s.a, &s.b, &s.mask}) {
      if (e->defined()) count += nodes(*e, seen);
    }
    for (const Stmt& b : s.body) count += nodes(*b, seen);
    for (const Stmt& b : s.other) count += nodes(*b, seen);
    return count;
  }
  static int64_t nodes(const Expr& e, std::unordered_set<const ExprNode*>& seen) {
    if (e->args.empty() || !seen.insert(e.get()).second) return 0;
    const bool is_index = e.type() == VType{DType::i64, 1};
    int64_t count = is_index ? 0 : 1;
    for (const Expr& a : e->args) count += nodes(a, seen);
    return count;
  }

  LoopFunc result_;
  const CpuLimits& limits_;
};

}  // namespace

LoopFunc vectorise(const LoopFunc& func, const CpuLimits& limits) { return Vectorise(func, limits).run(); }

}  // namespace kilter::loop_passes
