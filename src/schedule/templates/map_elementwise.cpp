// Element-wise tasks. Dimensions that are contiguous in every operand are merged; the innermost one runs in vectors,
// and the outer ones run in parallel. Layout changes are also element-wise; see layout_change.h.

#include <algorithm>

#include "schedule/emit.h"
#include "schedule/model/loop_model.h"
#include "schedule/templates/layout_change.h"
#include "schedule/templates/rows.h"
#include "schedule/templates/templates.h"

namespace kilter {
namespace {

constexpr int64_t kItemElems = 4096;  ///< elements per parallel item, about 16 KiB of f32 per operand

/// The blocked side of a layout change, or the output.
const Operand& domain_operand(const Task& task) {
  for (const auto* list : {&task.outputs, &task.inputs}) {
    for (const Operand& o : *list) {
      if (o.type.layout.block > 1 && o.type.shape == task.outputs[0].type.shape) return o;
    }
  }
  return task.outputs[0];
}

/// Whether the task has both blocked operands and plain operands with several channels.
bool mixed_layouts(const Task& task, const Domain& domain) {
  if (domain.block == 1) return false;
  for (const auto* list : {&task.inputs, &task.outputs}) {
    for (const Operand& o : *list) {
      if (o.type.layout.block == 1 && strides_in(domain, o).back() != 0 && !is_immediate(o)) return true;
    }
  }
  return false;
}

std::optional<Rejected> check(const Task& task, const CpuLimits&) {
  const Node& node = task.node();
  if (node.op->family != Family::map) return not_for("operator family", "map", node.op->name);
  if (!has_loop_form(*task.graph, node))
    return Rejected{"loop form of the operator", "one for these element types", std::string(node.op->name)};
  for (const Operand& o : task.outputs) {
    if (o.type.dtype == DType::string) return Rejected{"element type", "numeric", "str"};
  }
  for (const Operand& o : task.inputs) {
    if (o.type.dtype == DType::string) return Rejected{"element type", "numeric", "str"};
  }
  return check_elementwise(task);
}

/// A merged dimension: `extent` steps of domain dimension `inner`.
struct Merged {
  size_t inner;
  int64_t extent;
};

std::vector<Merged> merge(const Task& task, const Domain& domain) {
  std::vector<Shape> all;
  for (const auto* list : {&task.inputs, &task.outputs}) {
    for (const Operand& o : *list) {
      if (!is_immediate(o)) all.push_back(strides_in(domain, o));
    }
  }
  const bool masked = domain.block > 1 && domain.shape[1] % domain.block != 0 && !keeps_zero(task);
  std::vector<Merged> dims;
  for (size_t d = domain.rank(); d-- > 0;) {
    if (domain.dims[d] == 1 && !(masked && (d == 1 || d + 1 == domain.rank()))) continue;
    bool joins =
        !dims.empty() && !(masked && (d == 1 || dims.back().inner == 1 || dims.back().inner + 1 == domain.rank()));
    if (joins) {
      const Merged& last = dims.back();
      for (const Shape& s : all) joins = joins && s[d] == s[last.inner] * last.extent;
    }
    if (joins) {
      dims.back().extent *= domain.dims[d];
    } else {
      dims.push_back({d, domain.dims[d]});
    }
  }
  if (dims.empty()) dims.push_back({domain.rank() == 0 ? 0 : domain.rank() - 1, 1});
  std::reverse(dims.begin(), dims.end());
  return dims;
}

void emit_vectors(Emitter& e, const Domain& domain, int64_t item_elems) {
  const std::vector<Merged> dims = merge(e.task(), domain);
  Site site;
  site.index.assign(domain.rank(), Expr(0));
  const int64_t inner = dims.back().extent;
  size_t serial = dims.size() - 1;  // dims [0, serial) are parallel
  int64_t work = inner;
  while (serial > 0 && work * dims[serial - 1].extent <= item_elems) work *= dims[--serial].extent;
  for (size_t i = 0; i < serial; ++i) site.index[dims[i].inner] = e.b.parallel("i" + std::to_string(i), dims[i].extent);
  const auto run = [&](const Expr& base, int64_t extent) {
    if (extent == 1) return e.map(domain, site);
    const auto body = [&](const Expr& v) {
      if (domain.rank() > 0) site.index[dims.back().inner] = base + v;
      e.map(domain, site);
    };
    e.b.vector_loop("v", extent, body);
  };
  if (inner > item_elems) {
    return parallel_parts(e.b, "chunk", inner, item_elems, run);
  }
  std::function<void(size_t)> nest = [&](size_t d) {
    if (d + 1 == dims.size()) return run(0, inner);
    e.b.loop("j", 0, dims[d].extent, [&](const Expr& j) {
      site.index[dims[d].inner] = j;
      nest(d + 1);
    });
  };
  nest(serial);
}

class MapElementwise final : public LoopModel {
 public:
  using LoopModel::LoopModel;
  std::vector<Knob> space() const override { return {{"item", {1024, 4096, 16384}}}; }

 private:
  Schedule usual() const override { return {"map", {{"item", kItemElems}}}; }
  std::optional<Rejected> conflict(const Schedule&) const override {
    const Shape& shape = task().outputs[0].type.shape;
    for (const Operand& o : task().outputs) {
      if (o.type.shape != shape) return Rejected{"shape of all outputs", text(shape), text(o.type.shape)};
    }
    return std::nullopt;
  }
  Lowered emit(const Schedule& schedule) const override {
    if (elems(task().outputs[0].type.shape) == 0) return {};
    const Domain domain = domain_of(domain_operand(task()).type);
    Emitter e(task(), "map");
    if (mixed_layouts(task(), domain)) {
      emit_layout_change(e, domain, lanes_of(limits()));
    } else {
      emit_vectors(e, domain, schedule.knob("item"));
    }
    return e.finish();
  }
};

}  // namespace

const Template map_elementwise{"map", "element-wise chains and layout changes", analyse_as<MapElementwise, check>};

}  // namespace kilter
