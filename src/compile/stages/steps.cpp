#include "compile/stages/steps.h"

#include <algorithm>
#include <optional>
#include <unordered_set>

#include "base/hash.h"
#include "codegen/backend.h"
#include "compile/code_versions.h"
#include "compile/reference_call.h"
#include "ops/support/indexing.h"
#include "ops/support/recurrent.h"
#include "schedule/model/paying_threads.h"

namespace kilter {
namespace {

/// The operand of a stage that has indices or lengths in this range.
IndexOperand operand_in(const Task& task, const Stage& stage, ValueId value, IndexRange range) {
  for (size_t i = 0; i < stage.args.size(); ++i) {
    const StageArg& arg = stage.args[i];
    if (arg.kind != StageArg::value || arg.index != value) continue;
    const TensorType& type = task.operand(value).type;
    return {static_cast<int32_t>(i), type.dtype, type.shape, std::move(range)};
  }
  return {};
}

/// Throws bad_model for a constant index that is out of range. Constant folding may have made the index constant.
IndexOperand index_operand(const Task& task, const Stage& stage) {
  static_assert(kCheckFailed == kIndexOutOfRange);
  const Node& node = task.node();
  if (node.op->family == Family::recurrent) {
    const ValueId lens = node.input(recurrent_form(node).lens);
    if (lens == kNone) return {};
    return operand_in(task, stage, lens, length_range(recurrent_shape(view(*task.graph, node))));
  }
  if (node.op->family != Family::gather && node.op->family != Family::scatter) return {};
  const Operand& indices = task.operand(node.inputs[1]);
  const Shape& data = task.operand(node.inputs[0]).type.shape;
  if (indices.constant != nullptr) check_constant_indices(node, data, *indices.constant);
  return operand_in(task, stage, node.inputs[1], index_range(node, data, indices.type.shape).value());
}

StepRole role_of(const Task& task) {
  const OpDef& op = *task.node().op;
  if (op.movement == Movement::relayout)
    return task.prologue.empty() && task.epilogue.empty() ? StepRole::relayout : StepRole::fused_relayout;
  if (is_contraction(op.family)) return StepRole::contraction;
  switch (op.family) {
    case Family::movement:
    case Family::channels:
    case Family::gather:
    case Family::resize:
      return StepRole::movement;
    default:
      return StepRole::layer;
  }
}

/// Finds the element type of dot products in a function's statements.
class DotType {
 public:
  std::optional<DType> in(const std::vector<Stmt>& body) {
    for (const Stmt& stmt : body) {
      for (const Expr* e : {&stmt->a, &stmt->b, &stmt->mask}) {
        if (e->defined()) in(*e);
      }
      in(stmt->body);
      in(stmt->other);
      if (found_) break;
    }
    return found_;
  }

 private:
  void in(const Expr& e) {
    if (found_ || !seen_.insert(e.get()).second) return;
    if (e->kind == ExprKind::dot) found_ = e->args[0].elem();
    for (const Expr& arg : e->args) in(arg);
  }

  std::optional<DType> found_;
  std::unordered_set<const ExprNode*> seen_;
};

/// The type of the products that a stage sums: that of its packed operand or of its dot products. Products of bytes
/// count as i8.
DType multiplied_type(const Stage& stage) {
  size_t arg = 0;
  for (const Buffer& buffer : stage.func.buffers) {
    const bool packed = buffer.kind == BufferKind::scratch || stage.args.at(arg++).kind != StageArg::value;
    if (packed && (buffer.type == DType::bf16 || buffer.type == DType::i8)) return buffer.type;
  }
  if (const auto dots = DotType().in(stage.func.body)) return *dots == DType::bf16 ? DType::bf16 : DType::i8;
  return DType::f32;
}

}  // namespace

Step halo_step(const std::string& value, const TensorType& type) {
  const Physical phys = physical(type);
  const auto& halo = type.layout.halo;
  const int64_t size = stored_bytes(type);
  Step step;
  step.kind = StepKind::halo;
  step.name = "halo of " + value;
  step.ops = "halo";
  step.halo.planes = phys.dims[0] * phys.dims[1];
  step.halo.plane_bytes = phys.strides[1] * size;
  step.halo.rows = phys.dims[2] + halo[0] + halo[1];
  step.halo.row_bytes = phys.strides[2] * size;
  step.halo.top = halo[0], step.halo.bottom = halo[1];
  step.halo.left_bytes = halo[2] * phys.strides[3] * size;
  step.halo.value = type.layout.zero;
  step.halo.right_bytes = halo[3] * phys.strides[3] * size;
  step.bytes = step.halo.planes * (step.halo.plane_bytes - phys.dims[2] * phys.dims[3] * phys.strides[3] * size);
  return step;
}

Step stage_step(const Task& task, const Chosen& chosen, size_t s, const Target& target,
                const std::string& instructions) {
  const Stage& stage = chosen.lowered.stages[s];
  Step step;
  step.role = stage.packs ? StepRole::pack : role_of(task);
  step.ops = stage.packs ? "pack" : task.ops();
  step.problem = task.problem();
  step.schedule = chosen.schedule.text();
  step.shapes = task.shapes();
  step.layouts = task.layouts();
  const std::string processor = target.cpu + (instructions.empty() ? "" : "|" + instructions);
  step.key = hash_text(fmt::format("{}|{}|{}|{}|{}|{}", step.problem, step.schedule, step.layouts, processor,
                                   backend_of(target).version(), s));
  if (!stage.packs) {
    const auto computing =
        std::ranges::count_if(chosen.lowered.stages, [](const Stage& other) { return !other.packs; });
    const int64_t share = task.flops() / computing;
    const StageWork work = stage.work.value_or(StageWork{share, share, task.bytes() / computing});
    step.flops = work.flops, step.effective_flops = work.effective_flops, step.bytes = work.bytes;
  }
  if (!stage.packs) step.multiplies = multiplied_type(stage);
  step.extent = stage.func.parallel_extent();
  step.max_threads = paying_threads(stage.func, target.limits);
  step.indices = index_operand(task, stage);
  return step;
}

Step reference_step(const Graph& graph, const Task& task) {
  Step step;
  step.kind = StepKind::reference, step.role = role_of(task);
  step.name = task.node().name;
  step.ops = task.ops();
  step.problem = task.problem();
  step.schedule = "reference";
  step.shapes = task.shapes();
  step.layouts = task.layouts();
  step.flops = step.effective_flops = task.flops();
  step.bytes = task.bytes();
  step.reference = make_reference_call(graph, task.node());
  return step;
}

void describe(Plan& plan, const Graph& graph, const Target& target) {
  plan.model = graph.name;
  plan.target = target.name;
  plan.cpu = target.cpu;
  plan.arch = target.arch;
  plan.devices = {std::string(backend_of(target).device)};
  plan.codegen = code_versions(target).all();
  for (ValueId v : graph.inputs())
    plan.inputs.push_back({graph.value(v).name, graph.type(v).dtype, graph.type(v).shape});
  for (const auto& o : graph.outputs())
    plan.outputs.push_back({o.name, graph.type(o.value).dtype, graph.type(o.value).shape});
}

void place_arena(const std::vector<ArenaBuffer>& buffers, Plan& plan, std::vector<PlacedValue>& values) {
  std::vector<Lifetime> lives;
  for (const ArenaBuffer& b : buffers) lives.push_back(b.life);
  const ArenaPlan arena = plan_arena(lives);
  plan.arena_bytes = arena.bytes;
  for (size_t i = 0; i < buffers.size(); ++i) {
    const Lifetime& life = buffers[i].life;
    plan.arena.push_back({buffers[i].name, arena.offsets[i], life.bytes, life.first, life.last});
  }
  const auto resolve = [&](BufferRef& r) {
    if (r.space != Space::arena) return;
    r.offset += arena.offsets[static_cast<size_t>(r.index)];
    r.index = 0;
  };
  for (Step& s : plan.steps) std::for_each(s.args.begin(), s.args.end(), resolve);
  for (PlacedValue& v : values) resolve(v.buffer);
}

}  // namespace kilter
