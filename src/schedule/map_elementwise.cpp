// Element-wise tasks: dimensions that are contiguous in every operand are merged, the innermost runs in vectors, the
// outer ones in parallel. Layout changes are element-wise too: there vectors run over the pixels of a row, contiguous
// on the plain side; the strided accesses of the blocked side stay within a few KiB.

#include <algorithm>

#include "schedule/emit.h"
#include "schedule/loop_model.h"
#include "schedule/templates.h"

namespace kilter {
namespace {

constexpr int64_t kItemElems = 4096;  ///< elements of one parallel item, about 16 KiB of f32 per operand

/// The blocked side of a layout change, or the output.
const Operand& domain_operand(const Task& task) {
  for (const auto* list : {&task.outputs, &task.inputs}) {
    for (const Operand& o : *list) {
      if (o.type.layout.block > 1 && o.type.shape == task.outputs[0].type.shape) return o;
    }
  }
  return task.outputs[0];
}

bool is_immediate(const Operand& o) { return o.constant != nullptr && o.constant->elems() == 1; }

/// A plain operand with several channels beside blocked ones.
bool mixed_layouts(const Task& task, const Domain& domain) {
  if (domain.block == 1) return false;
  for (const auto* list : {&task.inputs, &task.outputs}) {
    for (const Operand& o : *list) {
      if (o.type.layout.block == 1 && strides_in(domain, o).back() != 0 && !is_immediate(o)) return true;
    }
  }
  return false;
}

std::optional<Rejected> check(const Task& task) {
  const Node& node = task.node();
  if (node.op->family != Family::map) return Rejected{"operator family", "map", std::string(node.op->name)};
  if (!has_loop_form(*task.graph, node))
    return Rejected{"element-wise operators with a loop form", "scalar() for these types", std::string(node.op->name)};
  for (const Operand& o : task.outputs) {
    if (o.type.dtype == DType::string) return Rejected{"element type", "numeric", "str"};
  }
  for (const Operand& o : task.inputs) {
    if (o.type.dtype == DType::string) return Rejected{"element type", "numeric", "str"};
  }
  return check_elementwise(task);
}

Answer<std::vector<Knob>> space(const Task& task, const TargetLimits&) {
  if (auto rejected = check(task)) return *rejected;
  return std::vector<Knob>{{"item", {1024, 4096, 16384}}};
}

Answer<Schedule> usual(const Task& task, const TargetLimits&) {
  if (auto rejected = check(task)) return *rejected;
  return Schedule{"map", {{"item", kItemElems}}};
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
    const int64_t full = inner / item_elems;
    const int64_t rest = inner % item_elems;
    const Expr chunk = e.b.parallel("chunk", full + (rest > 0 ? 1 : 0));
    const auto whole = [&] { run(chunk * Expr(item_elems), item_elems); };
    if (rest == 0) return whole();
    return e.b.if_then(binary(Op::lt, chunk, Expr(full)), whole, [&] { run(Expr(full * item_elems), rest); });
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

constexpr int64_t kRowPixels = 128;  ///< of a layout change: 8 KiB of blocked f32 at 16 lanes, well within L1

/// Vectors over the lanes of the blocked side.
void emit_lanes(Emitter& e, const Domain& domain) {
  Site site;
  site.index.assign(domain.rank(), Expr(0));
  const size_t last = domain.rank() - 1;
  site.vec_dim = static_cast<int32_t>(last);
  site.lanes = domain.block;
  for (size_t d = 0; d + 1 < last; ++d) site.index[d] = e.b.parallel("i" + std::to_string(d), domain.dims[d]);
  if (last < 3) {
    if (last == 2) site.index[1] = e.b.parallel("cb", domain.dims[1]);
    e.map(domain, site);
    return;
  }
  e.b.loop("w", 0, domain.dims[last - 1], [&](const Expr& w) {
    site.index[last - 1] = w;
    e.map(domain, site);
  });
}

/// The first of the last spatial dimensions that are one row of pixels in every operand.
size_t first_of_row(const Task& task, const Domain& domain) {
  size_t first = domain.rank() - 2;
  int64_t pixels = domain.dims[first];
  for (; first > 2; --first) {
    for (const auto* list : {&task.inputs, &task.outputs}) {
      for (const Operand& o : *list) {
        if (is_immediate(o)) continue;
        const Shape strides = strides_in(domain, o);
        if (strides[first - 1] != strides[domain.rank() - 2] * pixels) return first;
      }
    }
    pixels *= domain.dims[first - 1];
  }
  return first;
}

/// Pixels [base, base + extent) of a row, lane by lane of the blocked side, with vectors over pixels.
void emit_row(Emitter& e, const Domain& domain, const Site& at, const Expr& base, int64_t extent) {
  const size_t last = domain.rank() - 1;
  const auto lanes = [&](const Expr& block, int64_t count) {
    Site site = at;
    site.index[1] = block;
    e.b.loop("c", 0, count, [&](const Expr& c) {
      site.index[last] = c;
      e.b.vector_loop("v", extent, [&](const Expr& v) {
        site.index[last - 1] = base + v;
        e.map(domain, site);
      });
    });
  };
  const int64_t full = domain.shape[1] / domain.block, rest = domain.shape[1] % domain.block;
  const auto whole = [&] { lanes(at.index[1], domain.block); };
  if (rest == 0) return whole();
  const auto part = [&] { lanes(Expr(full), rest); };
  if (full == 0) return part();
  e.b.if_then(binary(Op::lt, at.index[1], Expr(full)), whole, part);
}

void emit_pixels(Emitter& e, const Domain& domain, size_t first, int64_t pixels) {
  Site site;
  site.index.assign(domain.rank(), Expr(0));
  for (size_t d = 0; d < first; ++d) site.index[d] = e.b.parallel("i" + std::to_string(d), domain.dims[d]);
  if (pixels <= kRowPixels) return emit_row(e, domain, site, 0, pixels);
  const int64_t full = pixels / kRowPixels, rest = pixels % kRowPixels;
  const Expr chunk = e.b.parallel("chunk", full + (rest > 0 ? 1 : 0));
  const auto whole = [&] { emit_row(e, domain, site, chunk * Expr(kRowPixels), kRowPixels); };
  if (rest == 0) return whole();
  e.b.if_then(binary(Op::lt, chunk, Expr(full)), whole,
              [&] { emit_row(e, domain, site, Expr(full * kRowPixels), rest); });
}

void emit_layout_change(Emitter& e, const Domain& domain) {
  if (domain.rank() < 4) return emit_lanes(e, domain);
  const size_t first = first_of_row(e.task(), domain);
  int64_t pixels = 1;
  for (size_t d = first; d + 1 < domain.rank(); ++d) pixels *= domain.dims[d];
  const bool to_plain = std::all_of(e.task().outputs.begin(), e.task().outputs.end(),
                                    [](const Operand& o) { return o.type.layout.block == 1; });
  if (!to_plain || pixels < domain.block) return emit_lanes(e, domain);
  emit_pixels(e, domain, first, pixels);
}

Answer<Lowered> lower(const Task& task, const Schedule& schedule, const TargetLimits& limits) {
  auto knobs = space(task, limits);
  if (auto* rejected = std::get_if<Rejected>(&knobs)) return *rejected;
  if (auto rejected = check_knobs(schedule, std::get<std::vector<Knob>>(knobs))) return *rejected;
  for (const Operand& o : task.outputs) {
    if (o.type.shape != task.outputs[0].type.shape) {
      return Rejected{"outputs of one shape", text(task.outputs[0].type.shape), text(o.type.shape)};
    }
  }
  if (elems(task.outputs[0].type.shape) == 0) return Lowered{};
  const Domain domain = domain_of(domain_operand(task).type);
  Emitter e(task, "map");
  if (mixed_layouts(task, domain)) {
    emit_layout_change(e, domain);
  } else {
    emit_vectors(e, domain, schedule.knob("item"));
  }
  Lowered lowered;
  lowered.stages.push_back(e.finish(lowered));
  return lowered;
}

using Model = LoopModel<space, usual, lower>;

}  // namespace

const Template map_elementwise{
    "map", "element-wise chains and layout changes", space, Model::pick, lower, Model::candidates, Model::estimate};

}  // namespace kilter
