#include "loop/bindings.h"

#include <array>

namespace kilter {
namespace {

class Bindings {
 public:
  explicit Bindings(const LoopFunc& func) : func_(func) {}

  void run() {
    const bool bound = func_.has_bound_loops();
    if (bound && !func_.parallel.empty()) {
      error(
          "loops are bound to blocks or threads in a function with parallel dimension '{}'; expected one or the other",
          func_.vars[static_cast<size_t>(func_.parallel.front().var)].name);
    }
    if (bound) {
      nest(func_.body);
    } else {
      no_bound_loops(func_.body);
    }
    for (const Buffer& b : func_.buffers) space(b, bound);
  }

 private:
  template <class... Args>
  [[noreturn]] void error(fmt::format_string<Args...> format, Args&&... args) const {
    fail(ErrorKind::internal, "verify '{}': {}", func_.name, fmt::format(format, std::forward<Args>(args)...));
  }
  std::string var_name(const StmtNode& loop) const {
    const auto id = static_cast<size_t>(loop.id);
    return loop.id >= 0 && id < func_.vars.size() ? func_.vars[id].name : "?";
  }
  static bool bound_loop(const Stmt& s) { return s != nullptr && s->kind == StmtKind::loop && is_bound(s->loop); }

  /// Checks statements that contain a bound loop: only lets may precede the loop, and no statement may follow it.
  void nest(const std::vector<Stmt>& body) {
    for (const Stmt& s : body) {
      if (s == body.back() && bound_loop(s)) return bound(*s);
      if (s == nullptr || s->kind != StmtKind::let)
        error("a statement is next to a loop that is bound to blocks or threads; only lets may precede the loop");
    }
  }

  void bound(const StmtNode& s) {
    int64_t begin = -1, end = 0;
    if (!s.a.defined() || !s.b.defined() || !is_const(s.a, &begin) || begin != 0 || !is_const(s.b, &end) || end < 1 ||
        s.step != 1) {
      error("loop '{}' is bound to {}; expected [0, N) with a constant N of at least 1 and step 1", var_name(s),
            name(s.loop));
    }
    const StmtNode*& known = loops_[static_cast<size_t>(s.loop) - static_cast<size_t>(LoopKind::block_x)];
    if (known != nullptr)
      error("loops '{}' and '{}' are both bound to {}", var_name(*known), var_name(s), name(s.loop));
    if (is_block(s.loop) && threads_)
      error("loop '{}' is bound to {} inside a loop over threads; expected blocks outside of threads", var_name(s),
            name(s.loop));
    known = &s;
    threads_ = threads_ || is_thread(s.loop);
    for (const Stmt& inner : s.body) {
      if (bound_loop(inner)) return nest(s.body);
    }
    no_bound_loops(s.body);
  }

  void no_bound_loops(const std::vector<Stmt>& body) const {
    for (const Stmt& s : body) {
      if (bound_loop(s)) {
        error("loop '{}' is bound to {} inside other statements; expected a nest of bound loops around all of them",
              var_name(*s), name(s->loop));
      }
      if (s == nullptr) continue;
      no_bound_loops(s->body);
      no_bound_loops(s->other);
    }
  }

  void space(const Buffer& b, bool bound) const {
    const bool scratch = b.kind == BufferKind::scratch;
    switch (b.space) {
      case MemorySpace::global:
        if (scratch && bound)
          error("scratch '{}' is in global memory; expected shared or local memory in a function with bound loops",
                b.name);
        return;
      case MemorySpace::constant:
        if (b.kind != BufferKind::input) error("buffer '{}' is in constant memory; expected an input there", b.name);
        return;
      case MemorySpace::shared:
      case MemorySpace::local:
        if (!scratch) error("buffer '{}' is in {} memory; expected scratch there", b.name, name(b.space));
        if (!threads_) error("scratch '{}' is in {} memory, but no loop is bound to threads", b.name, name(b.space));
        return;
    }
  }

  const LoopFunc& func_;
  std::array<const StmtNode*, 6> loops_{};  ///< by binding, from block_x on
  bool threads_ = false;                    ///< a loop is bound to threads
};

}  // namespace

void check_bindings(const LoopFunc& func) { Bindings(func).run(); }

}  // namespace kilter
