// The text form of a LoopFunc; parse.cpp reads it back. Expressions that share a large subexpression within one
// statement print it once, as ($0 = ...), and refer to it as $0.
#include <cctype>
#include <cmath>
#include <set>
#include <unordered_map>

#include "loop/loop.h"
#include "loop/text.h"

namespace kilter {
namespace {

/// Printing shared expressions in full each time could make the text exponentially long. Expressions with fewer nodes
/// than this are nevertheless printed in full, for readability.
constexpr int64_t kShareNodes = 8;

std::string identifier(const std::string& name, std::string_view fallback) {
  std::string id;
  for (const char c : name) {
    const bool plain = (std::isalnum(static_cast<unsigned char>(c)) != 0) || c == '_' || c == '.';
    id += plain ? c : '_';
  }
  if (id.empty()) id = fallback;
  if ((std::isdigit(static_cast<unsigned char>(id[0])) != 0) || id[0] == '.') id.insert(0, 1, '_');
  if (loop_text::is_keyword(id)) id += '_';
  return id;
}

class Printer {
 public:
  explicit Printer(const LoopFunc& func) : func_(func) {
    for (const Buffer& b : func.buffers) buffers_.push_back(unique(b.name, "b", buffers_.size()));
    vars_.resize(func.vars.size());
    regs_.resize(func.regs.size());
    tiles_.resize(func.tiles.size());
    for (const ParallelDim& d : func.parallel) bind(func.vars, vars_, d.var, "v");
    name_bound(func.body);
  }

  std::string run() {
    out_ = fmt::format("func {} {{\n", loop_text::quoted(func_.name));
    for (size_t i = 0; i < func_.buffers.size(); ++i) {
      const Buffer& b = func_.buffers[i];
      static constexpr std::string_view kKinds[] = {"input", "output", "scratch"};
      const std::string space = b.space == MemorySpace::global ? "" : fmt::format("{} ", name(b.space));
      out_ += fmt::format("  {} {}: {}{}[{}]", kKinds[static_cast<size_t>(b.kind)], buffers_[i], space, name(b.type),
                          b.elems);
      out_ += b.align_bytes == 64 ? "\n" : fmt::format(" align {}\n", b.align_bytes);
    }
    for (const ParallelDim& d : func_.parallel) out_ += fmt::format("  parallel {}: {}\n", var(d.var), d.extent);
    block(func_.body, 1);
    return out_ + "}\n";
  }

  std::string expression(const Expr& e) {
    begin_statement({&e});
    return expr(e, 0);
  }

 private:
  std::string unique(const std::string& wanted, std::string_view fallback, size_t id) {
    std::string base = identifier(wanted, fallback);
    std::string result = base;
    while (!used_.insert(result).second) {
      result = fmt::format("{}.{}", base, id);
      base = result;
    }
    return result;
  }

  /// Names bound variables and registers in the order of the text. Those that passes left unbound get no name.
  void name_bound(const std::vector<Stmt>& stmts) {
    for (const Stmt& s : stmts) {
      if (s->kind == StmtKind::loop || s->kind == StmtKind::let) bind(func_.vars, vars_, s->id, "v");
      if (s->kind == StmtKind::reg_decl) bind(func_.regs, regs_, s->id, "r");
      if (s->kind == StmtKind::tiles) {
        for (const int32_t tile : s->tiles) bind(func_.tiles, tiles_, tile, "t");
      }
      name_bound(s->body);
      name_bound(s->other);
    }
  }
  template <class Info>
  void bind(const std::vector<Info>& infos, std::vector<std::string>& names, int32_t id, std::string_view fallback) {
    const auto i = static_cast<size_t>(id);
    if (id >= 0 && i < infos.size() && names[i].empty()) names[i] = unique(infos[i].name, fallback, i);
  }

  static std::string lookup(const std::vector<std::string>& names, int32_t id, char prefix) {
    const auto i = static_cast<size_t>(id);
    if (id >= 0 && i < names.size() && !names[i].empty()) return names[i];
    return fmt::format("{}?{}", prefix, id);
  }
  std::string var(int32_t id) const { return lookup(vars_, id, 'v'); }
  std::string reg(int32_t id) const { return lookup(regs_, id, 'r'); }
  std::string buffer(int32_t id) const { return lookup(buffers_, id, 'b'); }

  void line(int depth, const std::string& text) {
    out_.append(static_cast<size_t>(depth) * 2, ' ');
    out_ += text;
    out_ += '\n';
  }

  void block(const std::vector<Stmt>& stmts, int depth) {
    for (const Stmt& s : stmts) statement(*s, depth);
  }

  void statement(const StmtNode& s, int depth) {
    begin_statement({&s.a, &s.b, &s.mask});
    switch (s.kind) {
      case StmtKind::block:
        line(depth, "{");
        block(s.body, depth + 1);
        line(depth, "}");
        return;
      case StmtKind::loop:
        return loop(s, depth);
      case StmtKind::let:
        return line(depth, fmt::format("let {} = {}", var(s.id), expr(s.a, 0)));
      case StmtKind::reg_decl:
        return line(depth, fmt::format("reg {} = {}", reg(s.id), expr(s.a, 0)));
      case StmtKind::reg_set:
        return line(depth, fmt::format("set {} = {}", reg(s.id), expr(s.a, 0)));
      case StmtKind::prefetch:
        return line(depth, fmt::format("prefetch {}[{}]", buffer(s.id), expr(s.a, 0)));
      case StmtKind::check:
        return line(depth, fmt::format("check {}", expr(s.a, 0)));
      case StmtKind::barrier:
        return line(depth, "barrier");
      case StmtKind::store:
      case StmtKind::scatter: {
        const std::string index = expr(s.a, 0);
        const std::string mask = s.mask.defined() ? fmt::format(", mask {}", expr(s.mask, 0)) : "";
        return line(depth, fmt::format("{}{}[{}{}] = {}", s.kind == StmtKind::scatter ? "scatter " : "", buffer(s.id),
                                       index, mask, expr(s.b, 0)));
      }
      case StmtKind::if_then:
        line(depth, fmt::format("if {}{} {{", s.likely ? "likely " : "", expr(s.a, 0)));
        block(s.body, depth + 1);
        if (!s.other.empty()) {
          line(depth, "} else {");
          block(s.other, depth + 1);
        }
        line(depth, "}");
        return;
      case StmtKind::tiles:
        line(depth, fmt::format("tiles {} {{", tile_shapes(s)));
        block(s.body, depth + 1);
        return line(depth, "}");
      case StmtKind::tile_zero:
        return line(depth, fmt::format("tile_zero {}", tile_names(s)));
      case StmtKind::tile_load:
        return line(depth, fmt::format("tile_load {} = {}", tile_names(s), tile_memory(s)));
      case StmtKind::tile_store:
        return line(depth, fmt::format("tile_store {} = {}", tile_memory(s), tile_names(s)));
      case StmtKind::tile_dot:
        return line(depth, fmt::format("tile_dot {}", tile_names(s)));
    }
  }

  std::string tile_names(const StmtNode& s) const {
    std::string names;
    for (const int32_t tile : s.tiles) names += (names.empty() ? "" : ", ") + lookup(tiles_, tile, 't');
    return names;
  }
  std::string tile_shapes(const StmtNode& s) const {
    std::string shapes;
    for (const int32_t tile : s.tiles) {
      const TileInfo& t = func_.tiles.at(static_cast<size_t>(tile));
      shapes += fmt::format("{}{}: {}[{}, {}]", shapes.empty() ? "" : ", ", lookup(tiles_, tile, 't'), name(t.type),
                            t.rows, t.columns);
    }
    return shapes;
  }
  std::string tile_memory(const StmtNode& s) {
    return fmt::format("{}[{}, stride {}]", buffer(s.id), expr(s.a, 0), s.step);
  }

  void loop(const StmtNode& s, int depth) {
    const std::string kind = s.loop == LoopKind::serial ? "" : fmt::format(" {}", name(s.loop));
    const std::string begin = expr(s.a, 0);
    const std::string step = s.step == 1 ? "" : fmt::format(" step {}", s.step);
    line(depth, fmt::format("for {} in [{}, {}){}{} {{", var(s.id), begin, expr(s.b, 0), step, kind));
    block(s.body, depth + 1);
    line(depth, "}");
  }

  // For a node of the current statement: how often it is reached, and how many nodes its text contains (saturating).
  struct Use {
    int64_t count = 0;
    int64_t nodes = 0;
    int32_t number = -1;
  };

  void begin_statement(std::initializer_list<const Expr*> roots) {
    uses_.clear();
    next_number_ = 0;
    for (const Expr* root : roots) {
      if (root->defined()) count(*root);
    }
  }

  int64_t count(const Expr& e) {
    Use& use = uses_[e.get()];
    if (use.count++ > 0) return use.nodes;
    int64_t nodes = 1;
    for (const Expr& a : e->args) nodes += count(a);
    nodes = std::min<int64_t>(nodes, 1 << 20);
    uses_[e.get()].nodes = nodes;
    return nodes;
  }

  /// Prints an expression. `level` is the precedence that the context requires: 0 any, 1 comparison, 2 sum, 3 product,
  /// 4 primary.
  std::string expr(const Expr& e, int level) {
    if (!e.defined()) return "?";
    Use& use = uses_[e.get()];
    if (use.count > 1 && use.nodes > kShareNodes) {
      if (use.number >= 0) return fmt::format("${}", use.number);
      std::string body = node(*e, 0);
      use.number = next_number_++;
      return fmt::format("(${} = {})", use.number, body);
    }
    return node(*e, level);
  }

  std::string list(const ExprNode& e, size_t first = 0) {
    std::string text;
    for (size_t i = first; i < e.args.size(); ++i) text += (i > first ? ", " : "") + expr(e.args[i], 0);
    return text;
  }

  std::string binary(const ExprNode& e, int level) {
    const loop_text::Infix* infix = loop_text::infix(e.op);
    if (infix == nullptr) return fmt::format("{}({})", name(e.op), list(e));
    // The operators of a sum or product associate to the left; comparisons do not chain.
    const std::string left = expr(e.args[0], infix->level == 1 ? 2 : infix->level);
    std::string body = fmt::format("{} {} {}", left, infix->symbol, expr(e.args[1], infix->level + 1));
    return infix->level < level ? "(" + body + ")" : body;
  }

  std::string node(const ExprNode& e, int level) {
    switch (e.kind) {
      case ExprKind::int_imm:
      case ExprKind::float_imm:
        return loop_text::constant(e);
      case ExprKind::var:
        return var(e.id);
      case ExprKind::reg:
        return reg(e.id);
      case ExprKind::load:
        return load(e);
      case ExprKind::gather:
        return fmt::format("gather({}, {})", buffer(e.id), list(e));
      case ExprKind::unary:
        return fmt::format("{}({})", name(e.op), list(e));
      case ExprKind::binary:
        return binary(e, level);
      case ExprKind::fma:
        return fmt::format("fma({})", list(e));
      case ExprKind::dot:
        return fmt::format("dot({})", list(e));
      case ExprKind::select:
        return fmt::format("select({})", list(e));
      case ExprKind::cast:
        return fmt::format("{}({})", name(e.type.elem), list(e));
      case ExprKind::bitcast:
        return fmt::format("bitcast({}, {})", name(e.type.elem), list(e));
      case ExprKind::broadcast:
        return fmt::format("broadcast({}, {})", list(e), e.type.lanes);
      case ExprKind::ramp:
        return fmt::format("ramp({}, {})", list(e), e.type.lanes);
      case ExprKind::shuffle:
        return fmt::format("shuffle({}, {})", list(e), fmt::join(e.picks, ", "));
      case ExprKind::lane_reduce:
        return fmt::format("reduce_{}({})", name(e.op), list(e));
    }
    return "?";
  }

  std::string load(const ExprNode& e) {
    std::string text = fmt::format("{}[{}", buffer(e.id), expr(e.args[0], 0));
    if (e.type.lanes > 1) text += fmt::format(", lanes {}", e.type.lanes);
    if (e.ival != 1) text += fmt::format(", stride {}", e.ival);
    if (e.args.size() > 1) text += fmt::format(", mask {}", expr(e.args[1], 0));
    return text + "]";
  }

  const LoopFunc& func_;
  std::set<std::string> used_;
  std::vector<std::string> buffers_, vars_, regs_, tiles_;
  std::unordered_map<const ExprNode*, Use> uses_;
  int32_t next_number_ = 0;
  std::string out_;
};

}  // namespace

std::string print(const LoopFunc& func) { return Printer(func).run(); }

namespace loop_text {

std::string expression(const LoopFunc& func, const Expr& e) { return Printer(func).expression(e); }

std::string constant(const ExprNode& e) {
  std::string value;
  if (e.kind == ExprKind::float_imm) {
    if (std::isnan(e.fval)) {
      value = "nan";
    } else if (e.type.elem == DType::f32) {
      value = fmt::format("{}", static_cast<float>(e.fval));
    } else {
      value = fmt::format("{}", e.fval);
    }
  } else if (e.type.elem == DType::u64) {
    value = fmt::format("{}", static_cast<uint64_t>(e.ival));
  } else {
    value = fmt::format("{}", e.ival);
  }
  return e.type == VType{DType::i64, 1} ? value : fmt::format("{}:{}", value, text(e.type));
}

bool is_keyword(std::string_view word) {
  static const std::set<std::string_view> kWords = {
      "func",   "input", "output", "scratch", "parallel",  "for",       "in",        "step",       "unrolled", "vector",
      "let",    "reg",   "set",    "scatter", "prefetch",  "if",        "else",      "mask",       "lanes",    "stride",
      "gather", "fma",   "dot",    "select",  "broadcast", "ramp",      "shuffle",   "bitcast",    "align",    "nan",
      "inf",    "check", "likely", "barrier", "tiles",     "tile_zero", "tile_load", "tile_store", "tile_dot"};
  return kWords.contains(word);
}

std::string quoted(std::string_view text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      result += '\\';
      result += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      result += fmt::format("\\x{:02x}", static_cast<unsigned>(c));
    } else {
      result += c;
    }
  }
  return result + '"';
}

const Infix* infix(Op op) {
  static constexpr Infix kTable[] = {{Op::eq, "==", 1}, {Op::ne, "!=", 1}, {Op::lt, "<", 1},  {Op::le, "<=", 1},
                                     {Op::gt, ">", 1},  {Op::ge, ">=", 1}, {Op::add, "+", 2}, {Op::sub, "-", 2},
                                     {Op::mul, "*", 3}, {Op::div, "/", 3}, {Op::mod, "%", 3}};
  for (const Infix& row : kTable) {
    if (row.op == op) return &row;
  }
  return nullptr;
}

}  // namespace loop_text
}  // namespace kilter
