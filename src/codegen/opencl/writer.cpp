#include "codegen/opencl/writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <unordered_set>

#include "base/align.h"

namespace kilter::codegen {
namespace {

/// Returns the type of an element in memory.
std::string memory_type(DType type) { return type == DType::boolean ? "uchar" : opencl_type({type, 1}); }

std::string identifier(char kind, int32_t id, std::string_view name) {
  std::string out = fmt::format("{}{}_{}", kind, id, name);
  for (char& c : out) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  }
  return out;
}

/// Calls `visit` for a statement and those in it.
template <class F>
void each_statement(const StmtNode& s, const F& visit) {
  visit(s);
  for (const auto* body : {&s.body, &s.other}) {
    for (const Stmt& inner : *body) each_statement(*inner, visit);
  }
}
template <class F>
void each_statement(const LoopFunc& func, const F& visit) {
  for (const Stmt& s : func.body) each_statement(*s, visit);
}

/// Returns whether OpenCL C has vectors of so many elements.
bool is_vector_length(int32_t lanes) {
  return lanes == 1 || lanes == 2 || lanes == 3 || lanes == 4 || lanes == 8 || lanes == 16;
}

/// Returns the first node of an expression, if any, that OpenCL C cannot hold. Leaves out nodes in `seen`.
const ExprNode* foreign_node(const Expr& e, std::unordered_set<const ExprNode*>& seen) {
  if (!e.defined() || !seen.insert(e.get()).second) return nullptr;
  if (!is_vector_length(e.lanes()) || e->kind == ExprKind::dot) return e.get();
  for (const Expr& arg : e->args) {
    if (const ExprNode* found = foreign_node(arg, seen)) return found;
  }
  return nullptr;
}

std::string_view scalar_type(DType type) {
  switch (type) {
    case DType::f32:
      return "float";
    case DType::f64:
      return "double";
    case DType::i8:
      return "char";
    case DType::i16:
      return "short";
    case DType::i32:
      return "int";
    case DType::i64:
      return "long";
    case DType::u8:
      return "uchar";
    case DType::u16:
    case DType::f16:
    case DType::bf16:
      return "ushort";
    case DType::u32:
      return "uint";
    case DType::u64:
      return "ulong";
    case DType::boolean:
      return "bool";
    default:
      fail(ErrorKind::internal, "OpenCL C has no type for elements of type {}", name(type));
  }
}

std::string_view space_text(MemorySpace space) {
  switch (space) {
    case MemorySpace::constant:
      return "constant";
    case MemorySpace::shared:
      return "local";
    case MemorySpace::local:
      return "private";
    default:
      return "global";
  }
}

}  // namespace

std::string opencl_type(VType type) {
  if (type.lanes > 1)
    return fmt::format("{}{}", scalar_type(type.elem == DType::boolean ? DType::i32 : type.elem), type.lanes);
  return std::string(scalar_type(type.elem));
}

std::optional<Rejected> opencl_rejects(const LoopFunc& func) {
  std::optional<Rejected> why;
  std::unordered_set<const ExprNode*> seen;
  each_statement(func, [&](const StmtNode& s) {
    if (why) return;
    if (is_tile(s.kind)) why = Rejected{"tile registers", "none", "some"};
    for (const Expr* e : {&s.a, &s.b, &s.mask}) {
      if (const ExprNode* node = foreign_node(*e, seen); node != nullptr && !why) {
        why = node->kind == ExprKind::dot ? Rejected{"products of groups of lanes", "none", "dot"}
                                          : Rejected{"lanes of a vector", "1, 2, 3, 4, 8 or 16", text(node->type)};
      }
    }
  });
  return why;
}

OpenClKernel opencl_kernel(const LoopFunc& func) { return OpenClWriter(func).write(); }

OpenClKernel OpenClWriter::write() {
  kernel_.bound = func_.has_bound_loops();
  for (const Buffer& b : func_.buffers) {
    kernel_.doubles |= b.type == DType::f64;
    if (b.kind != BufferKind::scratch) ++kernel_.buffers;
    kernel_.scratch |= b.kind == BufferKind::scratch && b.space == MemorySpace::global && b.elems > 0;
  }
  each_statement(func_, [&](const StmtNode& s) {
    kernel_.checked |= s.kind == StmtKind::check;
    if (!is_bound(s.loop)) return;
    const bool block = is_block(s.loop);
    const auto axis = static_cast<size_t>(s.loop) - static_cast<size_t>(block ? LoopKind::block_x : LoopKind::thread_x);
    (block ? kernel_.groups : kernel_.threads).at(axis) = s.b->ival;
  });
  if (kernel_.bound) {
    const auto& t = kernel_.threads;
    line(fmt::format("__attribute__((reqd_work_group_size({}, {}, {})))", t[0], t[1], t[2]));
  }
  open(fmt::format("kernel void KILTER_KERNEL({})", arguments()));
  declare_scratch();
  kernel_.bound ? block(func_.body) : parallel_loop();
  close();
  kernel_.source = std::move(out_);
  return std::move(kernel_);
}

std::string OpenClWriter::arguments() {
  std::string out;
  for (size_t i = 0; i < func_.buffers.size(); ++i) {
    const Buffer& b = func_.buffers[i];
    if (b.kind == BufferKind::scratch) continue;
    const bool is_const = b.kind == BufferKind::input && b.space == MemorySpace::global;
    out += fmt::format("{}{}{} {}* restrict {}", out.empty() ? "" : ", ", is_const ? "const " : "", space_text(b.space),
                       memory_type(b.type), buffer(static_cast<int32_t>(i)));
  }
  if (kernel_.scratch) out += ", global uchar* scratch, long scratch_bytes";
  if (kernel_.checked) out += ", global int* status";
  return out;
}

void OpenClWriter::declare_scratch() {
  int64_t offset = 0;
  for (size_t i = 0; i < func_.buffers.size(); ++i) {
    const Buffer& b = func_.buffers[i];
    if (b.kind != BufferKind::scratch) continue;
    const std::string name = buffer(static_cast<int32_t>(i));
    const std::string type = memory_type(b.type);
    if (b.space != MemorySpace::global) {
      line(fmt::format("{} {} {}[{}];", space_text(b.space), type, name, std::max<int64_t>(b.elems, 1)));
      continue;
    }
    if (b.elems == 0) continue;
    line(fmt::format("global {}* restrict {} = (global {}*)(scratch + get_global_id(0) * scratch_bytes + {});", type,
                     name, type, offset));
    offset += round_up(b.elems * size_bytes(b.type), 64);
  }
}

void OpenClWriter::parallel_loop() {
  open(fmt::format("for (long iteration = get_global_id(0); iteration < {}; iteration += get_global_size(0))",
                   func_.parallel_extent()));
  std::string rest = "iteration";
  for (size_t i = func_.parallel.size(); i-- > 0;) {
    const auto& [var_id, extent] = func_.parallel[i];
    line(i == 0 ? fmt::format("const long {} = {};", var(var_id), rest)
                : fmt::format("const long {} = {} % {};", var(var_id), rest, extent));
    rest = fmt::format("({} / {})", rest, extent);
  }
  block(func_.body);
  close();
}

void OpenClWriter::block(const std::vector<Stmt>& body) {
  for (const Stmt& s : body) statement(*s);
}

void OpenClWriter::begin_statement(const StmtNode& s) {
  uses_.clear();
  named_.clear();
  for (const Expr* e : {&s.a, &s.b, &s.mask}) {
    if (e->defined()) count(*e);
  }
}

void OpenClWriter::statement(const StmtNode& s) {
  begin_statement(s);
  switch (s.kind) {
    case StmtKind::block:
      open("");
      block(s.body);
      return close();
    case StmtKind::loop:
      return is_bound(s.loop) ? bound_loop(s) : loop(s);
    case StmtKind::let: {
      const VarInfo& info = func_.vars.at(static_cast<size_t>(s.id));
      const std::string v = value(s.a);
      return line(fmt::format("const {} {} = {};", opencl_type(info.type), var(s.id), v));
    }
    case StmtKind::store:
    case StmtKind::scatter:
      return store(s);
    case StmtKind::reg_decl: {
      const std::string v = value(s.a);
      return line(fmt::format("{} {} = {};", opencl_type(s.a.type()), reg(s.id), v));
    }
    case StmtKind::reg_set: {
      const std::string v = value(s.a);
      return line(fmt::format("{} = {};", reg(s.id), v));
    }
    case StmtKind::if_then:
      return branch(s);
    case StmtKind::prefetch:
      return;
    case StmtKind::check: {
      const std::string condition = value(s.a);
      return line(fmt::format("if (!{}) *status = {};", condition, kCheckFailed));
    }
    case StmtKind::barrier:
      return line("barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);");
    default:
      fail(ErrorKind::internal, "OpenCL C for '{}': statement of kind {}", func_.name, static_cast<int>(s.kind));
  }
}

void OpenClWriter::loop(const StmtNode& s) {
  const std::string begin = index(s.a);
  std::string end = index(s.b);
  const std::string v = var(s.id);
  const bool constant_end = is_const(s.b);
  if (!constant_end) {
    open("");
    line(fmt::format("const long end_{} = {};", v, end));
    end = "end_" + v;
  }
  open(fmt::format("for (long {} = {}; {} < {}; {} += {})", v, begin, v, end, v, s.step));
  block(s.body);
  close();
  if (!constant_end) close();
}

void OpenClWriter::bound_loop(const StmtNode& s) {
  const bool of_group = is_block(s.loop);
  const auto axis = static_cast<int>(s.loop) - static_cast<int>(of_group ? LoopKind::block_x : LoopKind::thread_x);
  open("");
  line(fmt::format("const long {} = {}({});", var(s.id), of_group ? "get_group_id" : "get_local_id", axis));
  block(s.body);
  close();
}

void OpenClWriter::branch(const StmtNode& s) {
  const std::string condition = value(s.a);
  open(fmt::format("if ({})", condition));
  block(s.body);
  if (!s.other.empty()) {
    close(" else {");
    ++depth_;
    block(s.other);
  }
  close();
}

void OpenClWriter::store(const StmtNode& s) {
  const int32_t lanes = s.b.lanes();
  const bool is_bool = s.b.elem() == DType::boolean;
  const std::string to = buffer(s.id);
  if (lanes > 1 && s.kind == StmtKind::store && !s.mask.defined()) {
    const std::string v = is_bool ? fmt::format("convert_uchar{}({} & 1)", lanes, value(s.b)) : value(s.b);
    return line(fmt::format("vstore{}({}, 0, {} + {});", lanes, v, to, index(s.a)));
  }
  const bool scatters = s.kind == StmtKind::scatter;
  const std::string v = lanes == 1 ? value(s.b) : name_of(s.b);
  const std::string at = lanes == 1 ? index(s.a) : name_of(s.a);
  const std::string mask = s.mask.defined() ? name_of(s.mask) : "";
  for (int32_t k = 0; k < lanes; ++k) {
    const std::string place = scatters ? component(at, s.a.lanes(), k) : k == 0 ? at : fmt::format("{} + {}", at, k);
    const std::string lane = component(v, lanes, k);
    const std::string stored = is_bool && lanes > 1 ? fmt::format("({} & 1)", lane) : lane;
    const std::string when = mask.empty() ? "" : fmt::format("if ({}) ", component(mask, s.mask.lanes(), k));
    line(fmt::format("{}{}[{}] = {};", when, to, place, stored));
  }
}

void OpenClWriter::line(std::string_view text) {
  out_.append(2 * static_cast<size_t>(depth_), ' ');
  out_ += text;
  out_ += '\n';
}

void OpenClWriter::open(std::string_view head) {
  line(head.empty() ? "{" : fmt::format("{} {{", head));
  ++depth_;
}

void OpenClWriter::close(std::string_view tail) {
  --depth_;
  line(fmt::format("}}{}", tail));
}

std::string OpenClWriter::var(int32_t id) const {
  return identifier('v', id, func_.vars.at(static_cast<size_t>(id)).name);
}
std::string OpenClWriter::reg(int32_t id) const {
  return identifier('r', id, func_.regs.at(static_cast<size_t>(id)).name);
}
std::string OpenClWriter::buffer(int32_t id) const {
  return identifier('b', id, func_.buffers.at(static_cast<size_t>(id)).name);
}

}  // namespace kilter::codegen
