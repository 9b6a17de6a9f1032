// The reference interpreter. It compiles a function once into steps over a flat frame of 8-byte cells. Every variable,
// register, constant and intermediate value has a fixed place in the frame, and an expression is a run of instructions
// in post-order.
#include <algorithm>
#include <cstring>
#include <span>
#include <unordered_map>

#include "loop/eval.h"
#include "loop/loop.h"

namespace kilter {
namespace {

enum class Code : uint8_t {
  add_i64,
  mul_i64,
  unary,
  binary,
  fma,
  dot,
  select,
  cast,
  copy,
  broadcast,
  ramp,
  shuffle,
  reduce,
  load,
  gather
};

/// One instruction. Places are cell numbers in the frame, or -1 if there is none.
struct Inst {
  Code code = Code::copy;
  Op op = Op::add;
  DType type = DType::f32;  ///< type of the operands
  DType to = DType::f32;    ///< cast: type of the result; dot: type of operand b
  int32_t lanes = 1;
  int32_t out = -1, a = -1, b = -1, c = -1;
  int32_t buffer = -1;
  int64_t stride = 1;                           ///< dot: products for each sum
  const std::vector<int32_t>* picks = nullptr;  ///< shuffle: points into the function's own node
};

/// A tile register in the frame: its rows lie one after another.
struct TilePlace {
  TileInfo info;
  int32_t place = -1;
};

struct Step {
  StmtKind kind = StmtKind::block;
  size_t first = 0, last = 0;  ///< instructions that compute a, b and mask
  int32_t a = -1, b = -1, mask = -1;
  int32_t place = -1;  ///< the variable or register that is written
  std::vector<const TilePlace*> tiles = {};
  int32_t buffer = -1;
  int32_t lanes = 1;
  int64_t bytes = 0;  ///< size of the value, for let and registers
  int64_t step = 1;
  LoopKind loop = LoopKind::serial;
  bool barriers = false;  ///< is a barrier, or contains one
  std::vector<Step> body = {}, other = {};
};

int32_t cells(VType type) { return static_cast<int32_t>((size_bytes(type.elem) * type.lanes + 7) / 8); }

/// The whole function as steps, with its initial frame.
class Program {
 public:
  explicit Program(const LoopFunc& func) {
    for (const VarInfo& v : func.vars) vars_.push_back(place(v.type));
    for (const VarInfo& r : func.regs) regs_.push_back(place(r.type));
    for (const TileInfo& t : func.tiles) tiles_.push_back({t, place({t.type, t.rows * t.columns})});
    steps = block(func.body);
  }

  std::vector<Inst> insts;
  std::vector<Step> steps;
  std::vector<uint64_t> frame;

  int32_t var(int32_t id) const { return vars_.at(static_cast<size_t>(id)); }

 private:
  int32_t place(VType type) {
    const auto at = static_cast<int32_t>(frame.size());
    frame.resize(frame.size() + static_cast<size_t>(cells(type)));
    return at;
  }

  std::vector<Step> block(const std::vector<Stmt>& stmts) {
    std::vector<Step> result;
    result.reserve(stmts.size());
    for (const Stmt& s : stmts) result.push_back(step(*s));
    return result;
  }

  Step step(const StmtNode& s) {
    Step result{.kind = s.kind, .first = insts.size(), .step = s.step, .loop = s.loop};
    memo_.clear();
    if (s.a.defined()) result.a = value(s.a);
    if (s.b.defined()) result.b = value(s.b);
    if (s.mask.defined()) result.mask = value(s.mask);
    result.last = insts.size();
    switch (s.kind) {
      case StmtKind::loop:
        result.place = var(s.id);
        break;
      case StmtKind::let:
        result.place = var(s.id);
        result.bytes = size_bytes(s.a.elem()) * s.a.lanes();
        break;
      case StmtKind::reg_decl:
      case StmtKind::reg_set:
        result.place = regs_.at(static_cast<size_t>(s.id));
        result.bytes = size_bytes(s.a.elem()) * s.a.lanes();
        break;
      case StmtKind::store:
      case StmtKind::scatter:
        result.buffer = s.id;
        result.lanes = s.b.lanes();
        break;
      case StmtKind::tile_load:
      case StmtKind::tile_store:
        result.buffer = s.id;
        break;
      default:
        break;
    }
    for (const int32_t tile : s.tiles) result.tiles.push_back(&tiles_.at(static_cast<size_t>(tile)));
    result.body = block(s.body);
    result.other = block(s.other);
    const auto barriers = [](const Step& inner) { return inner.barriers; };
    result.barriers = s.kind == StmtKind::barrier || std::ranges::any_of(result.body, barriers) ||
                      std::ranges::any_of(result.other, barriers);
    return result;
  }

  int32_t value(const Expr& e) {
    if (e->kind == ExprKind::var) return var(e->id);
    if (e->kind == ExprKind::reg) return regs_.at(static_cast<size_t>(e->id));
    const auto known = memo_.find(e.get());
    if (known != memo_.end()) return known->second;
    int32_t at = -1;
    if (e->kind == ExprKind::int_imm || e->kind == ExprKind::float_imm) {
      at = place(e.type());
      eval::write_imm(*e, e.lanes(), reinterpret_cast<std::byte*>(&frame[static_cast<size_t>(at)]));
    } else {
      at = instruction(*e);
    }
    memo_.emplace(e.get(), at);
    return at;
  }

  int32_t instruction(const ExprNode& e) {
    Inst inst{.op = e.op, .type = e.args[0].elem(), .lanes = e.type.lanes, .buffer = e.id, .stride = e.ival};
    inst.a = value(e.args[0]);
    if (e.args.size() > 1) inst.b = value(e.args[1]);
    if (e.args.size() > 2) inst.c = value(e.args[2]);
    inst.to = e.type.elem;
    inst.code = code(e, inst);
    if (e.kind == ExprKind::select) {
      inst.type = e.type.elem;
      inst.stride = e.args[0].lanes() == 1 ? 0 : 1;  // how the condition advances from lane to lane
    }
    if (e.kind == ExprKind::dot) inst.to = e.args[1].elem(), inst.stride = e.args[0].lanes() / e.type.lanes;
    if (e.kind == ExprKind::lane_reduce || e.kind == ExprKind::bitcast) inst.lanes = e.args[0].lanes();
    if (e.kind == ExprKind::shuffle) {
      inst.stride = e.args[0].lanes();
      inst.picks = &e.picks;
    }
    if (e.kind == ExprKind::load || e.kind == ExprKind::gather) inst.type = e.type.elem;
    inst.out = place(e.type);
    insts.push_back(inst);
    return inst.out;
  }

  static Code code(const ExprNode& e, const Inst& inst) {
    switch (e.kind) {
      case ExprKind::unary:
        return Code::unary;
      case ExprKind::binary:
        if (inst.type == DType::i64 && inst.lanes == 1 && e.op == Op::add) return Code::add_i64;
        if (inst.type == DType::i64 && inst.lanes == 1 && e.op == Op::mul) return Code::mul_i64;
        return Code::binary;
      case ExprKind::fma:
        return Code::fma;
      case ExprKind::dot:
        return Code::dot;
      case ExprKind::select:
        return Code::select;
      case ExprKind::cast:
        return Code::cast;
      case ExprKind::bitcast:
        return Code::copy;
      case ExprKind::broadcast:
        return Code::broadcast;
      case ExprKind::ramp:
        return Code::ramp;
      case ExprKind::shuffle:
        return Code::shuffle;
      case ExprKind::lane_reduce:
        return Code::reduce;
      case ExprKind::load:
        return Code::load;
      case ExprKind::gather:
        return Code::gather;
      default:
        fail(ErrorKind::internal, "interpret: an expression of kind {}", static_cast<int>(e.kind));
    }
  }

  std::vector<int32_t> vars_, regs_;
  std::vector<TilePlace> tiles_;
  std::unordered_map<const ExprNode*, int32_t> memo_;
};

/// A thread of a block: its variables, registers and intermediate values, and its local buffers.
struct Thread {
  std::vector<uint64_t> frame;
  std::vector<std::vector<uint64_t>> local;
};

class Machine {
 public:
  Machine(const LoopFunc& func, Program& program, const std::vector<std::byte*>& args)
      : func_(func), program_(program), frame_(program.frame) {
    size_t next = 0;
    for (const Buffer& b : func.buffers) {
      if (b.space == MemorySpace::local) {
        local_.push_back(bases_.size());
        bases_.push_back(nullptr);
      } else if (b.kind == BufferKind::scratch) {
        scratch_.emplace_back(cells_of(b));
        bases_.push_back(reinterpret_cast<std::byte*>(scratch_.back().data()));
      } else {
        require(next < args.size(), "interpret '{}': {} buffers given, more are needed", func.name, args.size());
        bases_.push_back(args[next++]);
      }
    }
  }

  void iteration(int64_t linear) {
    forget_scratch();
    for (size_t i = func_.parallel.size(); i-- > 0;) {
      const ParallelDim& d = func_.parallel[i];
      set_i64(program_.var(d.var), linear % d.extent);
      linear /= d.extent;
    }
    run(program_.steps);
  }

  int32_t status() const { return status_; }

 private:
  static size_t cells_of(const Buffer& b) { return static_cast<size_t>((b.elems * size_bytes(b.type) + 7) / 8); }
  /// Makes scratch contents undefined: all bits are set, which every float type reads as NaN, so a read before a write
  /// is noticed.
  void forget_scratch() {
    for (auto& s : scratch_) std::memset(s.data(), 0xff, s.size() * sizeof(uint64_t));
  }
  std::byte* at(int32_t place) { return reinterpret_cast<std::byte*>(&frame_[static_cast<size_t>(place)]); }
  int64_t i64(int32_t place) const { return static_cast<int64_t>(frame_[static_cast<size_t>(place)]); }
  void set_i64(int32_t place, int64_t v) { frame_[static_cast<size_t>(place)] = static_cast<uint64_t>(v); }
  bool on(int32_t mask, int32_t lane) { return mask < 0 || at(mask)[lane] != std::byte{0}; }

  void run(const std::vector<Step>& steps) {
    for (const Step& s : steps) run(s);
  }

  void run(const Step& s) {
    for (size_t i = s.first; i < s.last; ++i) execute(program_.insts[i]);
    switch (s.kind) {
      case StmtKind::block:
        return run(s.body);
      case StmtKind::loop: {
        if (is_thread(s.loop)) return block_of_threads(s);
        const int64_t end = i64(s.b);
        for (int64_t i = i64(s.a); i < end; i += s.step) {
          set_i64(s.place, i);
          run(s.body);
        }
        return;
      }
      case StmtKind::let:
      case StmtKind::reg_decl:
      case StmtKind::reg_set:
        std::memmove(at(s.place), at(s.a), static_cast<size_t>(s.bytes));
        return;
      case StmtKind::store:
        return store(s, false);
      case StmtKind::scatter:
        return store(s, true);
      case StmtKind::if_then:
        return run(on(s.a, 0) ? s.body : s.other);
      case StmtKind::prefetch:
        return;
      case StmtKind::check:
        if (!on(s.a, 0)) status_ = kCheckFailed;
        return;
      case StmtKind::barrier:
        return;  // run_together() runs all threads up to the barrier
      case StmtKind::tiles:
        for (const TilePlace* t : s.tiles) fill(*t, 0xff);
        return run(s.body);
      case StmtKind::tile_zero:
        return fill(*s.tiles[0], 0);
      case StmtKind::tile_load:
      case StmtKind::tile_store:
        return move_tile(s);
      case StmtKind::tile_dot:
        return dot(*s.tiles[0], *s.tiles[1], *s.tiles[2]);
    }
  }

  // --- tile registers ---

  std::byte* row(const TilePlace& tile, int32_t r) { return at(tile.place) + r * tile.info.row_bytes(); }

  void fill(const TilePlace& tile, int byte) {
    std::memset(at(tile.place), byte, static_cast<size_t>(tile.info.rows * tile.info.row_bytes()));
  }

  void move_tile(const Step& s) {
    const TilePlace& tile = *s.tiles[0];
    const auto bytes = static_cast<size_t>(tile.info.row_bytes());
    for (int32_t r = 0; r < tile.info.rows; ++r) {
      const int64_t first = i64(s.a) + r * s.step;
      const std::string_view what = s.kind == StmtKind::tile_load ? "load" : "store";
      std::byte* memory = element(s.buffer, first, what);
      element(s.buffer, first + tile.info.columns - 1, what);
      s.kind == StmtKind::tile_load ? std::memcpy(row(tile, r), memory, bytes)
                                    : std::memcpy(memory, row(tile, r), bytes);
    }
  }

  void dot(const TilePlace& sum, const TilePlace& a, const TilePlace& b) {
    const auto group_bytes = static_cast<size_t>(size_bytes(sum.info.type));
    const auto group = static_cast<int32_t>(size_bytes(sum.info.type) / size_bytes(a.info.type));
    std::vector<std::byte> spread(static_cast<size_t>(b.info.row_bytes()));
    for (int32_t m = 0; m < sum.info.rows; ++m) {
      for (int32_t k = 0; k < b.info.rows; ++k) {
        for (size_t n = 0; n < spread.size(); n += group_bytes)
          std::memcpy(&spread[n], row(a, m) + static_cast<size_t>(k) * group_bytes, group_bytes);
        eval::dot(a.info.type, b.info.type, sum.info.columns, group, spread.data(), row(b, k), row(sum, m),
                  row(sum, m));
      }
    }
  }

  // --- blocks of threads ---

  /// Runs the threads of a nest of bound loops, of which `s` is the outermost over threads.
  void block_of_threads(const Step& s) {
    forget_scratch();
    std::vector<Thread> threads;
    run_together(start_threads(s, threads), threads);
  }

  /// Adds the threads of a loop and of the loops over threads nested in it, each with the variables bound so far.
  /// Returns the statements that they run. The bounds of `s` have been computed.
  const std::vector<Step>& start_threads(const Step& s, std::vector<Thread>& threads) {
    const bool nested = !s.body.empty() && s.body.back().kind == StmtKind::loop && is_thread(s.body.back().loop);
    const std::vector<Step>* body = &s.body;
    const int64_t end = i64(s.b);
    for (int64_t i = 0; i < end; ++i) {
      set_i64(s.place, i);
      if (!nested) {
        threads.push_back({frame_, {}});
        for (const size_t b : local_) threads.back().local.emplace_back(cells_of(func_.buffers[b]), ~uint64_t{0});
        continue;
      }
      for (const Step& let : std::span(s.body).first(s.body.size() - 1)) run(let);
      const Step& inner = s.body.back();
      for (size_t k = inner.first; k < inner.last; ++k) execute(program_.insts[k]);
      body = &start_threads(inner, threads);
    }
    return *body;
  }

  template <class F>
  void in_each(std::vector<Thread>& threads, F work) {
    for (Thread& t : threads) {
      frame_.swap(t.frame);
      for (size_t i = 0; i < local_.size(); ++i) bases_[local_[i]] = reinterpret_cast<std::byte*>(t.local[i].data());
      work();
      frame_.swap(t.frame);
    }
  }

  /// Runs statements in all threads. Between two barriers, the threads run one after another: each runs up to the next
  /// barrier.
  void run_together(std::span<const Step> steps, std::vector<Thread>& threads) {
    while (!steps.empty()) {
      const auto barrier = std::ranges::find_if(steps, [](const Step& s) { return s.barriers; });
      const auto before = steps.first(static_cast<size_t>(barrier - steps.begin()));
      if (!before.empty()) {
        in_each(threads, [&] {
          for (const Step& s : before) run(s);
        });
      }
      if (barrier == steps.end()) return;
      together(*barrier, threads);
      steps = steps.subspan(before.size() + 1);
    }
  }

  /// Runs a statement that contains barriers. The verifier ensures that its bounds or condition are the same in all
  /// threads.
  void together(const Step& s, std::vector<Thread>& threads) {
    int64_t begin = 0, end = 0;
    bool holds = false;
    in_each(threads, [&] {
      for (size_t i = s.first; i < s.last; ++i) execute(program_.insts[i]);
      if (s.kind == StmtKind::loop) begin = i64(s.a), end = i64(s.b);
      if (s.kind == StmtKind::if_then) holds = on(s.a, 0);
    });
    if (s.kind == StmtKind::block) return run_together(s.body, threads);
    if (s.kind == StmtKind::if_then) return run_together(holds ? s.body : s.other, threads);
    for (int64_t i = begin; i < end; i += s.step) {
      in_each(threads, [&] { set_i64(s.place, i); });
      run_together(s.body, threads);
    }
  }

  // --- memory and expressions ---

  std::byte* element(int32_t buffer, int64_t index, std::string_view what) {
    const Buffer& b = func_.buffers[static_cast<size_t>(buffer)];
    if (index < 0 || index >= b.elems) {
      fail(ErrorKind::internal, "interpret '{}': {} of buffer '{}' at index {}: out of bounds, it has {} elements",
           func_.name, what, b.name, index, b.elems);
    }
    return bases_[static_cast<size_t>(buffer)] + index * size_bytes(b.type);
  }

  void store(const Step& s, bool indices) {
    const Buffer& b = func_.buffers[static_cast<size_t>(s.buffer)];
    const auto size = static_cast<size_t>(size_bytes(b.type));
    for (int32_t lane = 0; lane < s.lanes; ++lane) {
      if (!on(s.mask, lane)) continue;
      const int64_t index = indices ? i64(s.a + lane) : i64(s.a) + lane;
      std::memcpy(element(s.buffer, index, "store"), at(s.b) + lane * size, size);
    }
  }

  void load(const Inst& in, bool indices) {
    const auto size = static_cast<size_t>(size_bytes(in.type));
    for (int32_t lane = 0; lane < in.lanes; ++lane) {
      std::byte* out = at(in.out) + lane * size;
      if (!on(in.b, lane)) {
        std::memset(out, 0, size);
        continue;
      }
      const int64_t index = indices ? i64(in.a + lane) : i64(in.a) + lane * in.stride;
      const std::byte* from = element(in.buffer, index, "load");
      if (in.type == DType::boolean) {
        *out = *from != std::byte{0} ? std::byte{1} : std::byte{0};
      } else {
        std::memcpy(out, from, size);
      }
    }
  }

  void select(const Inst& in) {
    const auto size = static_cast<size_t>(size_bytes(in.type));
    for (int32_t lane = 0; lane < in.lanes; ++lane) {
      const bool yes = on(in.a, static_cast<int32_t>(lane * in.stride));
      std::memcpy(at(in.out) + lane * size, at(yes ? in.b : in.c) + lane * size, size);
    }
  }

  void ramp(const Inst& in) {
    const auto size = static_cast<size_t>(size_bytes(in.type));
    std::memcpy(at(in.out), at(in.a), size);
    for (int32_t lane = 1; lane < in.lanes; ++lane) {
      std::byte* out = at(in.out) + lane * size;
      eval::binary(Op::add, in.type, 1, out - size, at(in.b), out);
    }
  }

  void shuffle(const Inst& in) {
    const auto size = static_cast<size_t>(size_bytes(in.type));
    std::byte* out = at(in.out);
    for (const int32_t pick : *in.picks) {
      const std::byte* from = pick < in.stride ? at(in.a) + pick * size : at(in.b) + (pick - in.stride) * size;
      std::memcpy(out, from, size);
      out += size;
    }
  }

  void execute(const Inst& in) {
    switch (in.code) {
      case Code::add_i64:
        frame_[static_cast<size_t>(in.out)] = frame_[static_cast<size_t>(in.a)] + frame_[static_cast<size_t>(in.b)];
        return;
      case Code::mul_i64:
        frame_[static_cast<size_t>(in.out)] = frame_[static_cast<size_t>(in.a)] * frame_[static_cast<size_t>(in.b)];
        return;
      case Code::unary:
        return eval::unary(in.op, in.type, in.lanes, at(in.a), at(in.out));
      case Code::binary:
        return eval::binary(in.op, in.type, in.lanes, at(in.a), at(in.b), at(in.out));
      case Code::dot:
        return eval::dot(in.type, in.to, in.lanes, static_cast<int32_t>(in.stride), at(in.a), at(in.b), at(in.c),
                         at(in.out));
      case Code::fma:
        return eval::fma(in.type, in.lanes, at(in.a), at(in.b), at(in.c), at(in.out));
      case Code::select:
        return select(in);
      case Code::cast:
        return eval::cast(in.type, in.to, in.lanes, at(in.a), at(in.out));
      case Code::copy:
        std::memcpy(at(in.out), at(in.a), static_cast<size_t>(size_bytes(in.type) * in.lanes));
        return;
      case Code::broadcast: {
        const auto size = static_cast<size_t>(size_bytes(in.type));
        for (int32_t lane = 0; lane < in.lanes; ++lane) std::memcpy(at(in.out) + lane * size, at(in.a), size);
        return;
      }
      case Code::ramp:
        return ramp(in);
      case Code::shuffle:
        return shuffle(in);
      case Code::reduce:
        return eval::lane_reduce(in.op, in.type, in.lanes, at(in.a), at(in.out));
      case Code::load:
        return load(in, false);
      case Code::gather:
        return load(in, true);
    }
  }

  const LoopFunc& func_;
  const Program& program_;
  std::vector<uint64_t> frame_;
  std::vector<std::vector<uint64_t>> scratch_;  ///< all scratch except local buffers, of which each thread has its own
  std::vector<size_t> local_;                   ///< numbers of the local buffers
  std::vector<std::byte*> bases_;
  int32_t status_ = 0;
};

}  // namespace

int32_t interpret(const LoopFunc& func, const std::vector<std::byte*>& args, int64_t begin, int64_t end) {
  require(begin >= 0 && end <= func.parallel_extent(), "interpret '{}': iterations [{}, {}) of {}", func.name, begin,
          end, func.parallel_extent());
  Program program(func);
  Machine machine(func, program, args);
  for (int64_t i = begin; i < end; ++i) machine.iteration(i);
  return machine.status();
}

}  // namespace kilter
