// Reads the text form that print.cpp writes. Errors name the line and column.
#include <charconv>
#include <cmath>
#include <limits>
#include <map>

#include "loop/lexer.h"
#include "loop/loop.h"
#include "loop/text.h"

namespace kilter {
namespace {

/// Returns the element type that a name means. Narrow types do not occur in loop IR, where i2 and i4 name variables.
std::optional<DType> loop_dtype(std::string_view name) {
  const std::optional<DType> type = parse_dtype(name);
  return type && is_arithmetic(*type) ? type : std::nullopt;
}

constexpr VType kIndex{DType::i64, 1};

class Parser {
 public:
  explicit Parser(std::string_view text) : lex_(text) {}

  LoopFunc run() {
    word("func");
    func_.name = string();
    symbol("{");
    buffers();
    while (lex_.kind == Token::name && lex_.token == "parallel") {
      lex_.next();
      const int32_t var = declare_var(kIndex);
      symbol(":");
      func_.parallel.push_back({var, integer()});
    }
    func_.body = block();
    if (lex_.kind != Token::end) lex_.error("the end of the text");
    return std::move(func_);
  }

 private:
  enum class NameKind : uint8_t { buffer, var, reg, tile };
  struct Named {
    NameKind kind;
    int32_t id;
  };

  bool at(std::string_view text) const {
    return (lex_.kind == Token::symbol || lex_.kind == Token::name) && lex_.token == text;
  }
  bool accept(std::string_view text) {
    if (!at(text)) return false;
    lex_.next();
    return true;
  }
  void symbol(std::string_view text) {
    if (!accept(text)) lex_.error(fmt::format("'{}'", text));
  }
  void word(std::string_view text) { symbol(text); }

  std::string identifier() {
    if (lex_.kind != Token::name) lex_.error("a name");
    std::string result(lex_.token);
    lex_.next();
    return result;
  }

  std::string string() {
    if (lex_.kind != Token::string || lex_.token.size() < 2 || lex_.token.back() != '"') lex_.error("a name in quotes");
    const std::string_view body = lex_.token.substr(1, lex_.token.size() - 2);
    std::string result;
    for (size_t i = 0; i < body.size(); ++i) {
      if (body[i] != '\\' || i + 1 == body.size()) {
        result += body[i];
        continue;
      }
      if (body[++i] != 'x') {
        result += body[i];
        continue;
      }
      unsigned value = 0;
      const std::string_view hex = body.substr(i + 1, 2);
      if (std::from_chars(hex.data(), hex.data() + hex.size(), value, 16).ptr != hex.data() + 2) lex_.error("\\xNN");
      result += static_cast<char>(value);
      i += 2;
    }
    lex_.next();
    return result;
  }

  int64_t integer() {
    const bool negative = accept("-");
    int64_t value = 0;
    const std::string digits = (negative ? "-" : "") + std::string(lex_.token);
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (lex_.kind != Token::number || error != std::errc() || end != digits.data() + digits.size())
      lex_.error("an integer");
    lex_.next();
    return value;
  }
  int32_t lanes() {
    const int64_t n = integer();
    if (n < 1 || n > (1 << 16)) lex_.fault(fmt::format("{} lanes, expected 1 to 65536", n));
    return static_cast<int32_t>(n);
  }

  DType dtype() {
    const std::optional<DType> type = lex_.kind == Token::name ? loop_dtype(lex_.token) : std::nullopt;
    if (!type) lex_.error("an element type");
    lex_.next();
    return *type;
  }

  /// Reads "f32", "f32x16".
  VType vtype() {
    const std::string name = identifier();
    if (const std::optional<DType> type = loop_dtype(name)) return {*type, 1};
    const size_t x = name.rfind('x');
    int32_t n = 0;
    if (x != std::string::npos && x + 1 < name.size()) {
      const std::optional<DType> type = loop_dtype(std::string_view(name).substr(0, x));
      const auto [end, error] = std::from_chars(name.data() + x + 1, name.data() + name.size(), n);
      if (type && error == std::errc() && end == name.data() + name.size() && n >= 1) return {*type, n};
    }
    lex_.fault(fmt::format("'{}' is not a type", name));
  }

  void declare(const std::string& name, Named what) {
    if (!names_.emplace(name, what).second) lex_.fault(fmt::format("'{}' is declared twice", name));
  }
  int32_t declare_var(VType type) { return declare_var(identifier(), type); }
  int32_t declare_var(const std::string& name, VType type) {
    const auto id = static_cast<int32_t>(func_.vars.size());
    declare(name, {NameKind::var, id});
    func_.vars.push_back({name, type});
    return id;
  }

  int32_t named(NameKind kind, std::string_view what) {
    const auto known = lex_.kind == Token::name ? names_.find(std::string(lex_.token)) : names_.end();
    if (known == names_.end() || known->second.kind != kind) lex_.error(std::string(what));
    lex_.next();
    return known->second.id;
  }

  void buffers() {
    for (;;) {
      BufferKind kind = BufferKind::input;
      if (at("output")) {
        kind = BufferKind::output;
      } else if (at("scratch")) {
        kind = BufferKind::scratch;
      } else if (!at("input")) {
        return;
      }
      lex_.next();
      Buffer b{.name = identifier(), .kind = kind};
      symbol(":");
      for (const MemorySpace space : {MemorySpace::constant, MemorySpace::shared, MemorySpace::local}) {
        if (accept(name(space))) b.space = space;
      }
      b.type = dtype();
      symbol("[");
      b.elems = integer();
      symbol("]");
      if (accept("align")) b.align_bytes = lanes();
      declare(b.name, {NameKind::buffer, static_cast<int32_t>(func_.buffers.size())});
      func_.buffers.push_back(std::move(b));
    }
  }

  void enter() {
    if (++depth_ > kMaxDepth) lex_.fault(fmt::format("the text is nested more than {} deep", kMaxDepth));
  }

  /// Reads statements up to and including the closing brace.
  std::vector<Stmt> block() {
    enter();
    std::vector<Stmt> result;
    while (!accept("}")) result.push_back(make_node<StmtNode>(statement()));
    --depth_;
    return result;
  }

  StmtNode statement() {
    shared_.clear();
    if (accept("{")) return {.kind = StmtKind::block, .body = block()};
    if (accept("for")) return loop();
    if (accept("if")) return branch();
    if (accept("let")) {
      const std::string name = identifier();
      symbol("=");
      Expr value = expression();
      const int32_t id = declare_var(name, value.type());
      return {.kind = StmtKind::let, .id = id, .a = std::move(value)};
    }
    if (accept("reg")) {
      const std::string name = identifier();
      symbol("=");
      Expr value = expression();
      const auto id = static_cast<int32_t>(func_.regs.size());
      declare(name, {NameKind::reg, id});
      func_.regs.push_back({name, value.type()});
      return {.kind = StmtKind::reg_decl, .id = id, .a = std::move(value)};
    }
    if (accept("set")) {
      const int32_t id = named(NameKind::reg, "a register");
      symbol("=");
      return {.kind = StmtKind::reg_set, .id = id, .a = expression()};
    }
    if (accept("prefetch")) {
      const int32_t id = named(NameKind::buffer, "a buffer");
      symbol("[");
      Expr index = expression();
      symbol("]");
      return {.kind = StmtKind::prefetch, .id = id, .a = std::move(index)};
    }
    if (accept("check")) return {.kind = StmtKind::check, .a = expression()};
    if (accept("barrier")) return {.kind = StmtKind::barrier};
    if (accept("tiles")) return tiles();
    if (accept("tile_zero")) return {.kind = StmtKind::tile_zero, .tiles = {tile_name()}};
    if (accept("tile_load")) return tile_load();
    if (accept("tile_store")) return tile_store();
    if (accept("tile_dot")) return tile_dot();
    return store();
  }

  int32_t tile_name() { return named(NameKind::tile, "a tile register"); }

  StmtNode tiles() {
    StmtNode n{.kind = StmtKind::tiles};
    do {
      TileInfo info{.name = identifier()};
      symbol(":");
      info.type = dtype();
      symbol("[");
      info.rows = lanes();
      symbol(",");
      info.columns = lanes();
      symbol("]");
      n.tiles.push_back(static_cast<int32_t>(func_.tiles.size()));
      declare(info.name, {NameKind::tile, n.tiles.back()});
      func_.tiles.push_back(std::move(info));
    } while (accept(","));
    symbol("{");
    n.body = block();
    return n;
  }

  /// Reads "x[index, stride 32]".
  void tile_memory(StmtNode& n) {
    n.id = named(NameKind::buffer, "a buffer");
    symbol("[");
    n.a = expression();
    symbol(",");
    word("stride");
    n.step = integer();
    symbol("]");
  }

  StmtNode tile_load() {
    StmtNode n{.kind = StmtKind::tile_load, .tiles = {tile_name()}};
    symbol("=");
    tile_memory(n);
    return n;
  }

  StmtNode tile_store() {
    StmtNode n{.kind = StmtKind::tile_store};
    tile_memory(n);
    symbol("=");
    n.tiles = {tile_name()};
    return n;
  }

  StmtNode tile_dot() {
    StmtNode n{.kind = StmtKind::tile_dot, .tiles = {tile_name()}};
    for (int i = 0; i < 2; ++i) {
      symbol(",");
      n.tiles.push_back(tile_name());
    }
    return n;
  }

  StmtNode store() {
    StmtNode n{.kind = accept("scatter") ? StmtKind::scatter : StmtKind::store};
    n.id = named(NameKind::buffer, "a statement");
    symbol("[");
    n.a = expression();
    if (accept(",")) {
      word("mask");
      n.mask = expression();
    }
    symbol("]");
    symbol("=");
    n.b = expression();
    return n;
  }

  StmtNode loop() {
    StmtNode n{.kind = StmtKind::loop};
    const std::string name = identifier();
    word("in");
    symbol("[");
    n.a = expression();
    symbol(",");
    n.b = expression();
    symbol(")");
    if (accept("step")) n.step = integer();
    n.loop = loop_kind();
    n.id = declare_var(name, kIndex);
    symbol("{");
    n.body = block();
    return n;
  }

  LoopKind loop_kind() {
    for (auto kind = LoopKind::unrolled; kind <= LoopKind::thread_z; kind = LoopKind(static_cast<int>(kind) + 1)) {
      if (accept(kilter::name(kind))) return kind;
    }
    return LoopKind::serial;
  }

  StmtNode branch() {
    const bool likely = accept("likely");
    StmtNode n{.kind = StmtKind::if_then, .a = expression(), .likely = likely};
    symbol("{");
    n.body = block();
    if (accept("else")) {
      symbol("{");
      n.other = block();
    }
    return n;
  }

  /// Adds the position to the constructors' type errors.
  template <class F>
  Expr build(F f) {
    try {
      return f();
    } catch (const Error& e) {
      if (e.kind() == ErrorKind::bad_input) throw;
      lex_.fault(e.message());
    }
  }

  Expr expression() {
    enter();
    Expr left = infix(1);
    --depth_;
    return left;
  }

  Expr infix(int level) {
    if (level > 3) return primary();
    Expr left = infix(level + 1);
    for (int terms = 1;; ++terms) {
      const Op* op = operation(level);
      if (op == nullptr) return left;
      if (terms > kMaxDepth) lex_.fault(fmt::format("more than {} terms in a row", kMaxDepth));
      lex_.next();
      Expr right = infix(level + 1);
      left = build([&] { return binary(*op, left, right); });
      if (level == 1) return left;
    }
  }

  const Op* operation(int level) const {
    if (lex_.kind != Token::symbol) return nullptr;
    static const std::vector<Op> kInfix = [] {
      std::vector<Op> ops;
      for (int i = 0; i <= static_cast<int>(Op::logical_or); ++i) {
        if (loop_text::infix(static_cast<Op>(i)) != nullptr) ops.push_back(static_cast<Op>(i));
      }
      return ops;
    }();
    for (const Op& op : kInfix) {
      const loop_text::Infix* i = loop_text::infix(op);
      if (i->level == level && i->symbol == lex_.token) return &op;
    }
    return nullptr;
  }

  Expr primary() {
    if (accept("(")) {
      int64_t number = -1;
      if (accept("$")) {
        number = integer();
        if (!accept("=")) lex_.error("'='");
      }
      Expr e = expression();
      symbol(")");
      if (number >= 0) shared_[number] = e;
      return e;
    }
    if (accept("$")) {
      const auto known = shared_.find(integer());
      if (known == shared_.end()) lex_.fault("a shared expression is used before its definition");
      return known->second;
    }
    if (lex_.kind == Token::number || at("-") || at("inf") || at("nan")) return constant();
    if (lex_.kind != Token::name) lex_.error("an expression");
    const auto known = names_.find(std::string(lex_.token));
    if (known == names_.end()) return call();
    const Named n = known->second;
    const std::string name(lex_.token);
    if (n.kind == NameKind::tile) lex_.fault(fmt::format("tile register '{}' is used as a value", name));
    lex_.next();
    if (at("(")) return call(name);
    if (n.kind == NameKind::buffer) return load(n.id);
    if (n.kind == NameKind::reg) return reg_expr(func_.regs[static_cast<size_t>(n.id)].type, n.id);
    return var_expr(func_.vars[static_cast<size_t>(n.id)].type, n.id);
  }

  Expr constant() {
    const std::string sign = accept("-") ? "-" : "";
    const std::string digits = sign + std::string(lex_.token);
    if (lex_.kind != Token::number && !at("inf") && !at("nan")) lex_.error("a number");
    lex_.next();
    const VType type = accept(":") ? vtype() : kIndex;
    const char* first = digits.data();
    const char* last = first + digits.size();
    std::from_chars_result r{};
    Expr result;
    if (type.elem == DType::f32) {
      float value = 0;
      r = std::from_chars(first, last, value);
      result = imm(type.elem, static_cast<double>(value), type.lanes);
    } else if (is_float(type.elem)) {
      double value = 0;
      r = std::from_chars(first, last, value);
      result = imm(type.elem, value, type.lanes);
    } else if (type.elem == DType::u64) {
      uint64_t value = 0;
      r = std::from_chars(first, last, value);
      result = imm_int(type.elem, static_cast<int64_t>(value), type.lanes);
    } else {
      int64_t value = 0;
      r = std::from_chars(first, last, value);
      result = imm_int(type.elem, value, type.lanes);
    }
    if (r.ec != std::errc() || r.ptr != last)
      lex_.fault(fmt::format("'{}' is not a constant of type {}", digits, type));
    return result;
  }

  Expr load(int32_t buffer) {
    symbol("[");
    Expr index = expression();
    int32_t n = 1;
    int64_t stride = 1;
    Expr mask;
    while (accept(",")) {
      if (accept("lanes")) {
        n = lanes();
      } else if (accept("stride")) {
        stride = integer();
      } else {
        word("mask");
        mask = expression();
      }
    }
    symbol("]");
    return build(
        [&] { return load_expr(func_.buffers[static_cast<size_t>(buffer)].type, buffer, index, n, stride, mask); });
  }

  std::vector<Expr> arguments(size_t least, size_t most) {
    std::vector<Expr> args;
    do {
      args.push_back(expression());
    } while (args.size() < most && accept(","));
    if (args.size() < least) lex_.error("','");
    return args;
  }

  Expr call() {
    const std::string name = identifier();
    if (!at("(")) lex_.fault(fmt::format("'{}' is not declared", name));
    return call(name);
  }

  Expr call(const std::string& name) {
    symbol("(");
    Expr result = called(name);
    symbol(")");
    return result;
  }

  Expr called(const std::string& name) {
    if (name == "gather") {
      const int32_t buffer = named(NameKind::buffer, "a buffer");
      symbol(",");
      const std::vector<Expr> a = arguments(1, 2);
      const DType type = func_.buffers[static_cast<size_t>(buffer)].type;
      return build([&] { return gather_expr(type, buffer, a[0], a.size() > 1 ? a[1] : Expr()); });
    }
    if (name == "bitcast") {
      const DType type = dtype();
      symbol(",");
      const Expr a = expression();
      return build([&] { return bitcast(type, a); });
    }
    if (name == "broadcast" || name == "ramp") {
      const std::vector<Expr> a = arguments(name == "ramp" ? 2 : 1, name == "ramp" ? 2 : 1);
      symbol(",");
      const int32_t n = lanes();
      return build([&] { return name == "ramp" ? ramp(a[0], a[1], n) : broadcast(a[0], n); });
    }
    if (name == "shuffle") {
      const std::vector<Expr> a = arguments(2, 2);
      std::vector<int32_t> picks;
      while (accept(",")) picks.push_back(static_cast<int32_t>(integer()));
      return build([&] { return shuffle(a[0], a[1], std::move(picks)); });
    }
    if (name == "fma" || name == "dot" || name == "select") {
      const std::vector<Expr> a = arguments(3, 3);
      return build([&] {
        return name == "fma" ? fma(a[0], a[1], a[2]) : name == "dot" ? dot(a[0], a[1], a[2]) : select(a[0], a[1], a[2]);
      });
    }
    if (const std::optional<DType> type = loop_dtype(name)) {
      const Expr a = expression();
      return build([&] { return cast(*type, a); });
    }
    const bool reduces = name.starts_with("reduce_");
    const std::optional<Op> op = operation(reduces ? name.substr(7) : name);
    if (!op) lex_.fault(fmt::format("there is no operation '{}'", name));
    const size_t count = *op <= Op::is_nan || reduces ? 1 : 2;
    const std::vector<Expr> a = arguments(count, count);
    return build([&] {
      return reduces ? lane_reduce(*op, a[0]) : count == 1 ? unary(*op, a[0]) : binary(*op, a[0], a[1]);
    });
  }

  static std::optional<Op> operation(const std::string& name) {
    static const std::map<std::string, Op> kOps = [] {
      std::map<std::string, Op> ops;
      for (int i = 0; i <= static_cast<int>(Op::logical_or); ++i) {
        ops.emplace(kilter::name(static_cast<Op>(i)), static_cast<Op>(i));
      }
      return ops;
    }();
    const auto known = kOps.find(name);
    return known == kOps.end() ? std::nullopt : std::optional(known->second);
  }

  /// Limit on the nesting of the text and on the terms of a sum or product, so that walks over the result need little
  /// stack.
  static constexpr int kMaxDepth = 500;

  Lexer lex_;
  LoopFunc func_;
  std::map<std::string, Named> names_;
  std::map<int64_t, Expr> shared_;
  int depth_ = 0;
};

}  // namespace

LoopFunc parse_loop_func(std::string_view text) { return Parser(text).run(); }

}  // namespace kilter
