// Movement operators as strided copies: each region of the output is one nest that reads one box of an input, or fills.

#include <algorithm>

#include "ops/builder.h"
#include "ops/regions.h"
#include "schedule/emit.h"
#include "schedule/loop_model.h"
#include "schedule/templates.h"

namespace kilter {
namespace {

constexpr size_t kMaxStages = 32;
constexpr int64_t kItemElems = 4096;

Answer<std::vector<std::pair<size_t, CopyRegion>>> analyse(const Task& task) {
  const Node& node = task.node();
  if (node.op->regions == nullptr)
    return Rejected{"operators with regions", "regions() defined", std::string(node.op->name)};
  if (!task.prologue.empty() || !task.epilogue.empty()) return Rejected{"fused nodes", "none", "some"};
  for (const auto* list : {&task.inputs, &task.outputs}) {
    for (const Operand& o : *list) {
      if (o.type.dtype == DType::string) return Rejected{"element type", "numeric", "str"};
      if (!o.type.layout.plain() || (o.constant == nullptr && !is_dense(o.type.shape, o.phys.strides)))
        return Rejected{"operands", "dense", text(o.type)};
    }
  }
  const OpView v = view(*task.graph, node);
  std::vector<std::pair<size_t, CopyRegion>> all;
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    if (node.outputs[i] == kNone) continue;
    const auto regions = node.op->regions(v, static_cast<int32_t>(i));
    if (!regions) return Rejected{"movement as boxes", "regions()", "none for these operands"};
    for (const CopyRegion& region : *regions) {
      if (elems(region.extent) > 0) all.emplace_back(i, merged(region));
    }
  }
  if (all.empty() || all.size() > kMaxStages)
    return Rejected{"boxes", "1 to " + std::to_string(kMaxStages), std::to_string(all.size())};
  return all;
}

Answer<std::vector<Knob>> space(const Task& task, const TargetLimits&) {
  auto all = analyse(task);
  if (auto* rejected = std::get_if<Rejected>(&all)) return *rejected;
  return std::vector<Knob>{};
}

Answer<Schedule> usual(const Task& task, const TargetLimits&) {
  auto all = analyse(task);
  if (auto* rejected = std::get_if<Rejected>(&all)) return *rejected;
  return Schedule{"move_regions", {}};
}

Stage copy_stage(const Task& task, size_t output, const CopyRegion& region, Lowered& lowered) {
  const Node& node = task.node();
  Emitter e(task, "move");
  LoopBuilder& b = e.b;
  Shape extent = region.extent, in = region.in_strides, out = region.out_strides;
  if (extent.empty()) extent = {1}, in = {0}, out = {0};
  if (region.input == kNone) in.assign(extent.size(), 0);
  // A long innermost run is cut, so that threads share it.
  if (extent.size() == 1 && extent[0] > kItemElems && extent[0] % 64 == 0) {
    extent = {extent[0] / 64, 64};
    in = {in[0] * 64, in[0]}, out = {out[0] * 64, out[0]};
  }
  size_t serial = extent.size() - 1;
  int64_t work = extent.back();
  while (serial > 0 && work * extent[serial - 1] <= kItemElems) work *= extent[--serial];
  Expr source = region.in_offset, target = region.out_offset;
  for (size_t d = 0; d < serial; ++d) {
    const Expr i = b.parallel("i" + std::to_string(d), extent[d]);
    source = source + i * Expr(in[d]);
    target = target + i * Expr(out[d]);
  }
  const TensorType& type = task.graph->type(node.outputs[output]);
  const Buf to = e.output(node.outputs[output]);
  const Buf from = region.input == kNone ? Buf{} : e.input(node.inputs[static_cast<size_t>(region.input)]);
  const Expr fill =
      is_float(type.dtype) ? imm(type.dtype, region.fill) : imm_int(type.dtype, static_cast<int64_t>(region.fill));
  std::function<void(size_t, Expr, Expr)> nest = [&](size_t d, const Expr& s, const Expr& t) {
    if (d + 1 == extent.size()) {
      return b.vector_loop("v", extent[d], [&](const Expr& v) {
        b.store(to, t + v * Expr(out[d]), region.input == kNone ? fill : b.load(from, s + v * Expr(in[d])));
      });
    }
    b.loop("j", 0, extent[d], [&](const Expr& j) { nest(d + 1, s + j * Expr(in[d]), t + j * Expr(out[d])); });
  };
  nest(serial, source, target);
  return e.finish(lowered);
}

Answer<Lowered> lower(const Task& task, const Schedule& schedule, const TargetLimits&) {
  auto all = analyse(task);
  if (auto* rejected = std::get_if<Rejected>(&all)) return *rejected;
  if (auto rejected = check_knobs(schedule, {})) return *rejected;
  Lowered lowered;
  for (const auto& [output, region] : std::get<0>(all))
    lowered.stages.push_back(copy_stage(task, output, region, lowered));
  return lowered;
}

using Model = LoopModel<space, usual, lower>;

}  // namespace

const Template move_regions{"move_regions", "transpose, slice, pad, tile and their like as strided copies",
                            space,          Model::pick,
                            lower,          Model::candidates,
                            Model::estimate};

}  // namespace kilter
