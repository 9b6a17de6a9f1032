#include "schedule/templates/row_kernel.h"

#include <algorithm>

#include "ops/support/builder.h"
#include "schedule/templates/rows.h"

namespace kilter {
namespace {

bool read_by_epilogue(const Task& task, ValueId value) {
  return std::any_of(task.epilogue.begin(), task.epilogue.end(), [&](NodeId id) {
    const std::vector<ValueId>& inputs = task.graph->node(id).inputs;
    return std::find(inputs.begin(), inputs.end(), value) != inputs.end();
  });
}

}  // namespace

RowShape row_shape(const Shape& shape, size_t first_dim) {
  RowShape rows{first_dim, 1};
  for (size_t d = first_dim; d < shape.size(); ++d) rows.extent *= shape[d];
  return rows;
}

std::optional<Rejected> check_rows(const Task& task, const RowShape& rows, bool spanning) {
  const Shape& shape = task.operand(task.node().inputs[0]).type.shape;
  const Shape dense = dense_strides(shape);
  for (const auto* list : {&task.inputs, &task.outputs}) {
    for (const Operand& o : *list) {
      if (o.type.shape != shape) {
        if (spanning && rows.first_dim + 1 < shape.size() && read_by_epilogue(task, o.value) &&
            elems(o.type.shape) != 1)
          return Rejected{"operands of the epilogue when a row spans dimensions", text(shape), text(o.type.shape)};
        continue;
      }
      for (size_t d = rows.first_dim; d < shape.size(); ++d) {
        if (shape[d] != 1 && o.phys.strides[d] != dense[d])
          return Rejected{"rows contiguous in memory", std::to_string(dense[d]), std::to_string(o.phys.strides[d])};
      }
    }
  }
  return std::nullopt;
}

RowKernel::RowKernel(Emitter& e, const RowShape& rows, int64_t unroll, int32_t lanes)
    : e_(e),
      rows_(rows),
      unroll_(unroll),
      lanes_(lanes),
      x_(e.task().operand(e.task().node().inputs[0])),
      domain_(domain_of(x_.type)) {
  const Shape& shape = x_.type.shape;
  site_.index.assign(shape.size(), Expr(0));
  for (size_t d = 0; d < rows.first_dim; ++d) {
    if (shape[d] != 1) site_.index[d] = e.b.parallel("i" + std::to_string(d), shape[d]);
  }
  from_ = e.input(x_.value);
  base_ = e.b.let("base", e.index(x_, domain_, site_));
}

Expr RowKernel::reduce(Op op, double start, const std::string& partial, const std::string& name, const Term& term) {
  LoopBuilder& b = e_.b;
  std::vector<int32_t> regs;
  for (int64_t u = 0; u < unroll_; ++u) regs.push_back(b.reg(partial, imm(DType::f32, start, lanes_)));
  for_vectors(b, rows_.extent, lanes_, unroll_, [&](const Expr& at, const Expr& mask, int64_t u) {
    Expr t = term(at, mask);
    if (mask.defined()) t = select(mask, t, imm(DType::f32, start, lanes_));
    const int32_t reg = regs[static_cast<size_t>(u)];
    b.set(reg, binary(op, b.get(reg), t));
  });
  Expr all = b.get(regs[0]);
  for (int64_t u = 1; u < unroll_; ++u) all = binary(op, all, b.get(regs[static_cast<size_t>(u)]));
  return b.let(name, lane_reduce(op, all));
}

void RowKernel::write(const Term& term) {
  Site site = site_;
  const size_t inner = innermost(x_.type.shape, rows_.first_dim);
  site.vec_dim = static_cast<int32_t>(inner);
  site.lanes = lanes_;
  for_vectors(e_.b, rows_.extent, lanes_, unroll_, [&](const Expr& at, const Expr& mask, int64_t) {
    const Expr value = term(at, mask);
    site.index[inner] = at;
    site.mask = mask;
    e_.epilogue({{e_.task().node().outputs[0], value}}, domain_, site);
  });
}

}  // namespace kilter
