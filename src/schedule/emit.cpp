#include "schedule/emit.h"

#include <algorithm>
#include <cstring>
#include <span>

#include "base/iterate.h"
#include "ops/support/builder.h"
#include "ops/support/reduction.h"
#include "ops/support/scalar.h"

namespace kilter {

Domain domain_of(const TensorType& type) {
  Domain domain{type.shape, type.layout.block, {}};
  domain.dims = physical(type).dims;
  return domain;
}

Shape strides_in(const Domain& domain, const Operand& operand) {
  const size_t rank = domain.shape.size();
  const Shape& shape = operand.type.shape;
  if (shape.size() > rank)
    fail(ErrorKind::internal, "operand {} has more dimensions than its task's domain", text(operand.type));
  const size_t skip = rank - shape.size();
  const int32_t block = operand.type.layout.block;
  if (block != 1 && (block != domain.block || skip != 0))
    fail(ErrorKind::internal, "operand {} does not share the block {} of its domain", text(operand.type), domain.block);
  Shape strides(domain.rank(), 0);
  for (size_t d = skip; d < rank; ++d) {
    const bool lanes = domain.block > 1 && d == 1 && domain.shape[1] == 1;  // a single channel still occupies a block
    if (shape[d - skip] == 1 && !lanes) continue;
    const int64_t stride = operand.phys.strides[d - skip];
    strides[d] = stride;
    if (domain.block > 1 && d == 1) {
      strides[rank] = block > 1 ? operand.phys.strides.back() : stride;
      if (block == 1) strides[1] = stride * domain.block;
    }
  }
  return strides;
}

namespace {

/// Whether an operand has the same element in all lanes of the result's blocks, including the unused ones.
bool spreads_over_lanes(const TensorType& operand, const Shape& result) {
  if (elems(operand.shape) == 1) return true;
  const size_t missing = result.size() - operand.shape.size();
  return result.size() > 1 && (missing > 1 || (operand.shape[1 - missing] == 1 && result[1] != 1));
}

bool all_zero(const Tensor& t) {
  for (int64_t i = 0; i < t.elems(); ++i) {
    if (t.as_double(i) != 0) return false;
  }
  return true;
}

/// Whether a node's result is 0 in unused lanes if its blocked operands are.
bool keeps_zero(const Graph& graph, const Node& node) {
  if (is_row_mean(graph, node)) return true;
  if (!node.op->zero_preserving) return false;
  if (node.op->absorbs_zero) return true;
  const Shape& result = graph.type(node.outputs[0]).shape;
  return std::all_of(node.inputs.begin(), node.inputs.end(), [&](ValueId in) {
    if (in == kNone || !spreads_over_lanes(graph.type(in), result)) return true;
    const auto& constant = graph.value(in).constant;
    return constant && all_zero(*constant);
  });
}

/// `value` in lanes where `valid` is true, 0 in the others. An f32 converted from an i32 remains such a conversion.
Expr zero_beyond(const Expr& valid, Expr value) {
  if (value->kind == ExprKind::cast && value->args[0].elem() == DType::i32)
    return cast(value.elem(), zero_beyond(valid, value->args[0]));
  const Expr zero = imm(value.elem(), 0, value.lanes());
  return select(valid, std::move(value), zero);
}

}  // namespace

Emitter::Emitter(const Task& task, std::string name) : b(std::move(name)), task_(task) {}

Buf Emitter::input(ValueId value) {
  if (auto it = buffers_.find(value); it != buffers_.end()) return it->second;
  const Operand& operand = task_.operand(value);
  const Buf buf = b.input("x" + std::to_string(args_.size()), loop_type(stored_type(operand.type)), operand.phys.elems);
  if (operand.type.layout.stored) b.convert(buf, operand.type.dtype, operand.type.layout.zero);
  args_.push_back({StageArg::value, value});
  return buffers_[value] = buf;
}

Buf Emitter::output(ValueId value) {
  if (auto it = buffers_.find(value); it != buffers_.end()) return it->second;
  const Operand& operand = task_.operand(value);
  const Buf buf =
      b.output("y" + std::to_string(args_.size()), loop_type(stored_type(operand.type)), operand.phys.elems);
  if (operand.type.layout.stored) b.convert(buf, operand.type.dtype, operand.type.layout.zero);
  args_.push_back({StageArg::value, value});
  return buffers_[value] = buf;
}

Buf Emitter::constant(Packing packing, std::string name) {
  const Buf buf = b.input(std::move(name), packing.dtype, packing.elems);
  constant_args_.push_back(args_.size());
  args_.push_back({StageArg::constant, static_cast<int32_t>(constants_.size())});
  constants_.push_back(std::move(packing));
  return buf;
}

Buf Emitter::constant(Tensor packed, std::string name) {
  return constant({kNone,
                   {},
                   packed.dtype(),
                   packed.elems(),
                   [packed](std::byte* to) { std::copy_n(packed.raw(), packed.bytes(), to); }},
                  std::move(name));
}

Buf Emitter::temp(int32_t index, DType type, int64_t elems, bool write, std::string name) {
  const Buf buf = write ? b.output(std::move(name), type, elems) : b.input(std::move(name), type, elems);
  args_.push_back({StageArg::temp, index});
  return buf;
}

Expr Emitter::index(const Operand& operand, const Domain& domain, const Site& site) const {
  const Shape strides = strides_in(domain, operand);
  Expr sum = operand.phys.offset;
  for (size_t d = 0; d < strides.size(); ++d) {
    if (strides[d] != 0) sum = sum + site.index[d] * Expr(strides[d]);
  }
  return sum;
}

Expr Emitter::load(ValueId value, const Domain& domain, const Site& site) {
  const Operand& operand = task_.operand(value);
  if (is_immediate(operand)) {
    const DType type = operand.type.dtype;
    if (is_narrow(type)) return imm_int(DType::u8, operand.constant->data<uint8_t>()[0]);
    return is_float(type) ? imm(type, operand.constant->as_double(0)) : imm_int(type, operand.constant->as_int(0));
  }
  const Buf buf = input(value);
  const Expr at = index(operand, domain, site);
  if (site.lanes == 1) return b.load(buf, at, 1, 1, site.mask);
  const int64_t stride = strides_in(domain, operand)[static_cast<size_t>(site.vec_dim)];
  if (stride == 0) return b.load(buf, at, 1, 1);
  return b.load(buf, at, site.lanes, stride, access_mask(operand, domain, site));
}

Expr Emitter::access_mask(const Operand& operand, const Domain& domain, const Site& site) const {
  const bool beyond = domain.block > 1 && operand.type.layout.block == 1;
  return beyond && !site.mask.defined() ? lane_mask(domain, site) : site.mask;
}

void Emitter::map(const Domain& domain, const Site& site) {
  std::map<ValueId, Expr> known;
  evaluate(task_.node(), domain, site, known);
  epilogue(known, domain, site);
}

/// Names a value so that it is computed once. For an f32 converted from an i32, only the source of the conversion is
/// named, so that readers of the value see the integer.
Expr Emitter::name_inside(const Expr& value) {
  const auto made_from = [](const Expr& e, ExprKind kind, DType from, DType to) {
    return e->kind == kind && e.elem() == to && e->args[0].elem() == from;
  };
  if (!made_from(value, ExprKind::cast, DType::i32, DType::f32)) return b.let("v", value);
  const Expr& integer = value->args[0];
  const bool low_bits = made_from(integer, ExprKind::cast, DType::i64, DType::i32) &&
                        made_from(integer->args[0], ExprKind::bitcast, DType::f64, DType::i64);
  if (!low_bits) return cast(DType::f32, b.let("v", integer));
  return cast(DType::f32, cast(DType::i32, bitcast(DType::i64, b.let("v", integer->args[0]->args[0]))));
}

namespace {

bool made_from_i32(const Expr& e) { return e->kind == ExprKind::cast && e->args[0].elem() == DType::i32; }

/// Splits an i32 sum into the other summand and the constant; the constant is 0 if there is none.
std::pair<Expr, Expr> without_constant(const Expr& e) {
  const bool sum = e->kind == ExprKind::binary && e->op == Op::add && e->args[1]->kind == ExprKind::int_imm;
  return sum ? std::pair{e->args[0], e->args[1]} : std::pair{e, imm_int(DType::i32, 0)};
}

Expr no_lane(const Expr& mask) { return unary(Op::logical_not, lane_reduce(Op::logical_or, mask)); }

constexpr int64_t kMostChecked = 64;
constexpr size_t kMostRank = 8;

}  // namespace

/// The value of a guarded expression, or of `exact` if a lane is doubtful. If both are converted from integers, so is
/// the result; the register then holds the integer without its constant summand.
Expr Emitter::checked(const Guarded& fast, const Expr& exact) {
  const bool integers = made_from_i32(fast.value) && made_from_i32(exact);
  const auto [value, added] = without_constant(integers ? fast.value->args[0] : fast.value);
  const int32_t result = b.reg("q", value);
  b.if_then(no_lane(fast.doubtful), [] {}, [&] { b.set(result, integers ? exact->args[0] - added : exact); }, true);
  const Expr known = b.let("v", b.get(result));
  return integers ? cast(exact.elem(), known + added) : known;
}

/// The value of a guarded expression in a vector that is recorded if a lane is doubtful.
Expr Emitter::unchecked(const Guarded& fast) {
  doubtful_ = doubtful_.defined() ? binary(Op::logical_or, doubtful_, fast.doubtful) : fast.doubtful;
  if (!made_from_i32(fast.value)) return b.let("v", fast.value);
  const auto [value, added] = without_constant(fast.value->args[0]);
  return cast(fast.value.elem(), b.let("v", value) + added);
}

void Emitter::begin_checks(int64_t vectors, VType sums) {
  const auto guarded = [&](NodeId id) { return task_.graph->node(id).op->guarded != nullptr; };
  const bool any = std::ranges::any_of(task_.epilogue, guarded) || std::ranges::any_of(task_.feeder, guarded);
  if (!any || vectors > kMostChecked || !row_sums_.empty()) return;
  if (sites_.id < 0) sites_ = b.scratch("sites", DType::i64, kMostChecked * static_cast<int64_t>(kMostRank));
  if (!noted_.contains(sums.elem)) noted_[sums.elem] = b.scratch("noted", sums.elem, kMostChecked * sums.lanes);
  notes_ = b.reg("notes", Expr(0));
  checking_ = sums;
  rank_ = 0;
}

bool Emitter::notes(const Site& site) const {
  return checking_ && site.lanes == checking_->lanes && !site.mask.defined() && site.index.size() <= kMostRank;
}

/// Emits `then` for the vector that was computed last, or records its result if lanes are doubtful.
void Emitter::unless_doubtful(const Expr& result, const Site& site, const std::function<void()>& then) {
  if (!doubtful_.defined()) return then();
  const Expr sure = no_lane(doubtful_);
  doubtful_ = {};
  rank_ = site.index.size(), vec_dim_ = site.vec_dim;
  const auto note = [&] {
    const Expr n = b.let("n", b.get(notes_));
    b.store(noted_.at(checking_->elem), n * Expr(site.lanes), result);
    for (size_t d = 0; d < rank_; ++d)
      b.store(sites_, n * Expr(static_cast<int64_t>(kMostRank)) + Expr(static_cast<int64_t>(d)), site.index[d]);
    b.set(notes_, n + Expr(1));
  };
  b.if_then(sure, then, note, true);
}

void Emitter::end_checks(const Again& again) {
  if (!checking_) return;
  const VType sums = *checking_;
  checking_.reset();
  if (rank_ == 0) return;  // no vector can be doubtful
  const Expr count = b.let("count", b.get(notes_));
  const auto all = [&] {
    b.loop("again", 0, count, [&](const Expr& n) {
      Site site{{}, vec_dim_, sums.lanes, {}};
      for (size_t d = 0; d < rank_; ++d) {
        const Expr at = n * Expr(static_cast<int64_t>(kMostRank)) + Expr(static_cast<int64_t>(d));
        site.index.push_back(b.let("at", b.load(sites_, at)));
      }
      exactly_ = true;
      again(b.let("sum", b.load(noted_.at(sums.elem), n * Expr(sums.lanes), sums.lanes)), site);
      exactly_ = false;
    });
  };
  b.if_then(binary(Op::eq, count, Expr(0)), [] {}, all, true);
}

Expr Emitter::evaluate(const Node& node, const Domain& domain, const Site& site, std::map<ValueId, Expr>& known) {
  std::vector<Expr> operands;
  for (ValueId in : node.inputs) {
    if (in == kNone) continue;  // scalar() gets only the operands that are present
    auto it = known.find(in);
    operands.push_back(it != known.end() ? it->second : known.emplace(in, load(in, domain, site)).first->second);
  }
  const OpView of = view(*task_.graph, node);
  if (node.op->guarded != nullptr && site.lanes > 1 && !exactly_) {
    if (const auto fast = node.op->guarded(of, operands); fast && fast->doubtful.lanes() == site.lanes) {
      return known[node.outputs[0]] = notes(site) ? unchecked(*fast) : checked(*fast, *node.op->scalar(of, operands));
    }
  }
  std::optional<Expr> result = node.op->scalar(of, operands);
  require(result.has_value(), "{} '{}' has no loop form although it was fused", node.op->name, node.name);
  const Expr named = name_inside(*result);
  known[node.outputs[0]] = named;
  return named;
}

Expr Emitter::feeder(const Expr& result, const Domain& domain, const Site& site) {
  const Graph& graph = *task_.graph;
  std::map<ValueId, Expr> known{{graph.node(task_.feeder.front()).outputs[0], result}};
  bool zeros = true;
  for (NodeId id : std::span(task_.feeder).subspan(1)) {
    evaluate(graph.node(id), domain, site, known);
    zeros = zeros && keeps_zero(graph, graph.node(id));
  }
  unless_doubtful(result, site, [] {});
  const Expr value = known.at(task_.node().inputs[0]);
  const Expr valid = lane_mask(domain, site);
  return valid.defined() && !zeros ? zero_beyond(valid, value) : value;
}

Expr Emitter::prologue(ValueId value, const Domain& domain, const Site& site) {
  std::map<ValueId, Expr> known;
  for (NodeId id : task_.prologue) {
    const Node& node = task_.graph->node(id);
    const Expr result = evaluate(node, domain, site, known);
    if (node.outputs[0] == value) return result;
  }
  return load(value, domain, site);
}

Expr Emitter::lane_mask(const Domain& domain, const Site& site) const {
  if (domain.block == 1 || domain.shape[1] % domain.block == 0) return {};
  const Expr count = Expr(domain.shape[1]) - site.index[1] * Expr(domain.block);
  const size_t lane = domain.rank() - 1;
  if (site.vec_dim == static_cast<int32_t>(lane)) return first_lanes(count - site.index[lane], site.lanes);
  return binary(Op::lt, site.index[lane], count);
}

Emitter::Held Emitter::hold(const Domain& domain, const Site& site) {
  Held held;
  for (const NodeId id : task_.epilogue) {
    for (const ValueId in : task_.graph->node(id).inputs) {
      const auto operand = std::ranges::find(task_.inputs, in, &Operand::value);
      if (operand == task_.inputs.end() || is_immediate(*operand)) continue;
      const Shape strides = strides_in(domain, *operand);
      bool alike = strides[static_cast<size_t>(site.vec_dim)] != 0;
      for (size_t d = 0; d < strides.size(); ++d) {
        const bool channels = d == static_cast<size_t>(site.vec_dim) || (domain.block > 1 && d == 1);
        alike = alike && (channels || strides[d] == 0);
      }
      if (alike && !held.contains(in)) held.emplace(in, b.let("held", load(in, domain, site)));
    }
  }
  return held;
}

std::map<ValueId, Expr> Emitter::results(const std::map<ValueId, Expr>& anchor, const Domain& domain, const Site& site,
                                         const Held& held) {
  std::map<ValueId, Expr> known = anchor;
  for (auto& [value, result] : known) result = cast(loop_type(task_.graph->type(value).dtype), result);
  known.insert(held.begin(), held.end());
  for (NodeId id : task_.epilogue) {
    const Node& node = task_.graph->node(id);
    const auto sum = row_sums_.find(id);
    if (sum == row_sums_.end()) {
      evaluate(node, domain, site, known);
    } else {
      const Expr& x = known.at(node.inputs[0]);
      b.set(sum->second, b.get(sum->second) + (x.lanes() < site.lanes ? broadcast(x, site.lanes) : x));
    }
  }
  return known;
}

void Emitter::epilogue(const std::map<ValueId, Expr>& anchor, const Domain& domain, const Site& site,
                       const Held& held) {
  const std::map<ValueId, Expr> known = results(anchor, domain, site, held);
  // A doubtful vector is not stored, since that might overwrite something that its epilogue reads again.
  unless_doubtful(anchor.begin()->second, site, [&] {
    for (const Operand& out : task_.outputs) {
      const auto it = known.find(out.value);
      if (it != known.end()) store(out, it->second, domain, site);
    }
  });
}

void Emitter::begin_row(int32_t lanes) {
  for (const NodeId id : task_.epilogue) {
    if (is_row_mean(*task_.graph, task_.graph->node(id))) row_sums_[id] = b.reg("sum", imm(DType::f32, 0, lanes));
  }
}

bool Emitter::sums_rows() const {
  return std::ranges::any_of(task_.epilogue,
                             [&](NodeId id) { return is_row_mean(*task_.graph, task_.graph->node(id)); });
}

void Emitter::end_row(const Site& site) {
  for (const auto& [id, sum] : row_sums_) {
    const Node& node = task_.graph->node(id);
    const TensorType& mean = task_.graph->type(node.outputs[0]);
    const auto pixels = static_cast<double>(task_.graph->type(node.inputs[0]).shape[3]);
    Site at = site;
    at.index[3] = Expr(0);
    store(task_.operand(node.outputs[0]), b.get(sum) / imm(DType::f32, pixels, site.lanes), domain_of(mean), at);
  }
  row_sums_.clear();
}

void Emitter::store(const Operand& out, Expr value, const Domain& domain, const Site& site) {
  const Expr valid = lane_mask(domain, site);
  if (value.lanes() < site.lanes) value = broadcast(value, site.lanes);
  if (valid.defined() && out.type.layout.block > 1 && !keeps_zero(task_)) value = zero_beyond(valid, value);
  const Expr at = index(out, domain, site);
  const int64_t stride = site.lanes == 1 ? 1 : strides_in(domain, out)[static_cast<size_t>(site.vec_dim)];
  const Buf buf = output(out.value);
  if (site.lanes == 1) {
    b.store(buf, at, value, site.mask);
  } else if (stride == 1) {
    b.store(buf, at, value, access_mask(out, domain, site));
  } else {
    b.scatter(buf, ramp(at, Expr(stride), site.lanes), value, access_mask(out, domain, site));
  }
}

void Emitter::unused_lanes(const Domain& domain, const Site& site) {
  for (const Operand& out : task_.outputs) {
    if (out.type.layout.block > 1)
      b.store(output(out.value), index(out, domain, site), imm(loop_type(out.type.dtype), 0, site.lanes));
  }
}

void Emitter::prefetch_epilogue(const Domain& domain, const Site& site) {
  for (const NodeId id : task_.epilogue) {
    for (const ValueId in : task_.graph->node(id).inputs) {
      const auto operand = std::ranges::find(task_.inputs, in, &Operand::value);
      const bool read = in != kNone && operand != task_.inputs.end() && operand->constant == nullptr;
      if (read) b.prefetch(input(in), index(*operand, domain, site));
    }
  }
}

Stage Emitter::finish(Lowered& lowered) {
  const auto base = static_cast<int32_t>(lowered.constants.size());
  for (size_t arg : constant_args_) args_[arg].index += base;
  for (Packing& c : constants_) lowered.constants.push_back(std::move(c));
  return {b.finish(), args_, false};
}

Lowered Emitter::finish() {
  Lowered lowered;
  lowered.stages.push_back(finish(lowered));
  return lowered;
}

bool has_loop_form(const Graph& graph, const Node& node) {
  if (node.op->scalar == nullptr || node.inputs.size() > kMostMapOperands) return false;
  const bool takes_codes = node.op->passes_values || node.op->movement == Movement::relayout;
  const auto possible = [&](DType type) { return is_arithmetic(type) || (is_narrow(type) && takes_codes); };
  std::vector<Expr> operands;
  for (ValueId in : node.inputs) {
    if (in == kNone) continue;
    if (!possible(graph.type(in).dtype)) return false;
    operands.push_back(var_expr({loop_type(graph.type(in).dtype), 1}, 0));
  }
  return possible(graph.type(node.outputs[0]).dtype) && node.op->scalar(view(graph, node), operands).has_value();
}

bool is_row_mean(const Graph& graph, const Node& node) {
  if (node.op->family != Family::reduce || node.op->combiner != Combiner::mean || node.int_attr("keepdims", 1) == 0)
    return false;
  const TensorType& x = graph.type(node.inputs[0]);
  const bool image = x.dtype == DType::f32 && x.shape.size() == 4 && x.layout.block > 1;
  return image && reduced_axes(view(graph, node)) == std::vector<int64_t>{3};
}

std::optional<Rejected> check_elementwise(const Task& task, bool row_means) {
  const size_t conv = task.feeder.empty() ? 0 : 1;
  for (const std::span<const NodeId> list :
       {std::span(task.feeder).subspan(conv), std::span(task.prologue), std::span(task.epilogue)}) {
    for (NodeId id : list) {
      const Node& node = task.graph->node(id);
      const bool row_mean = row_means && list.data() == task.epilogue.data() && is_row_mean(*task.graph, node);
      if (!row_mean && !has_loop_form(*task.graph, node)) {
        return Rejected{"loop form of the operator", "one for these element types", std::string(node.op->name)};
      }
    }
  }
  return std::nullopt;
}

bool keeps_zero(const Task& task) {
  const auto keeps = [&](NodeId id) { return keeps_zero(*task.graph, task.graph->node(id)); };
  const bool anchor = task.node().op->family != Family::map || keeps(task.anchor);
  return anchor && std::all_of(task.epilogue.begin(), task.epilogue.end(), keeps);
}

namespace {

/// The elements of an f32 tensor as `type`, f16 or bf16.
Tensor narrowed(const Tensor& wide, DType type) {
  Tensor out(type, wide.shape());
  const auto narrow = [&]<class T>(T* to) {
    std::ranges::transform(wide.span<float>(), to, [](float x) { return T(x); });
  };
  type == DType::f16 ? narrow(out.data<Half>()) : narrow(out.data<BFloat16>());
  return out;
}

}  // namespace

Tensor relay(const Tensor& elements, const TensorType& type) {
  if (type.layout.plain()) return elements;
  const Tensor dense = type.layout.stored ? narrowed(elements, *type.layout.stored) : elements;
  const Physical phys = physical(type);
  Tensor out(stored_type(type), {phys.elems});
  const int64_t size = stored_bytes(type);
  for_each_element(type.shape, type.layout.block, phys.strides, phys.offset, [&](int64_t i, int64_t at) {
    std::memcpy(out.raw() + at * size, dense.raw() + i * size, static_cast<size_t>(size));
  });
  return out;
}

}  // namespace kilter
