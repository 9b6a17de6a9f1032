#include "schedule/templates/row_kernel.h"

#include <algorithm>

#include "base/align.h"
#include "ops/support/builder.h"
#include "schedule/model/loop_model.h"
#include "schedule/templates/lane_sums.h"
#include "schedule/templates/rows.h"

namespace kilter {
namespace {

bool read_by_epilogue(const Task& task, ValueId value) {
  return std::any_of(task.epilogue.begin(), task.epilogue.end(), [&](NodeId id) {
    const std::vector<ValueId>& inputs = task.graph->node(id).inputs;
    return std::find(inputs.begin(), inputs.end(), value) != inputs.end();
  });
}

/// The innermost dimension outside of the rows that has several elements.
std::optional<size_t> neighbours_dim(const Shape& shape, size_t first_dim) {
  for (size_t d = first_dim; d-- > 0;) {
    if (shape[d] != 1) return d;
  }
  return {};
}

/// The numbers of rows in a group that are legal: powers of two, up to half of the registers.
std::vector<int64_t> legal_groups(const RowShape& rows, const CpuLimits& limits) {
  const int64_t most = std::min({limits.vector_registers / int64_t{2}, rows.neighbours, int64_t{lanes_of(limits)}});
  std::vector<int64_t> all{1};
  for (int64_t r = 2; r <= most; r *= 2) all.push_back(r);
  return all;
}

}  // namespace

RowShape row_shape(const Shape& shape, size_t first_dim) {
  RowShape rows{.first_dim = first_dim};
  for (size_t d = 0; d < shape.size(); ++d) (d < first_dim ? rows.rows : rows.extent) *= shape[d];
  if (const auto along = neighbours_dim(shape, first_dim)) rows.neighbours = shape[*along];
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

std::vector<Knob> row_knobs(const RowShape& rows, const CpuLimits& limits) {
  return {{"rows", legal_groups(rows, limits)}, {"unroll", {1, 2, 4}}};
}

Schedule usual_rows(const std::string& name, const RowShape& rows, const CpuLimits& limits, int64_t elems) {
  constexpr int64_t kAccumulators = 8;
  int64_t best = 1;
  for (const int64_t r : legal_groups(rows, limits)) {
    const int64_t groups = ceil_div(rows.neighbours, r) * (rows.rows / rows.neighbours);
    if (r * rows.extent <= elems && groups >= kFewItems) best = r;
  }
  return {name, {{"rows", best}, {"unroll", std::clamp<int64_t>(kAccumulators / best, 1, 4)}}};
}

RowGroup::RowGroup(Emitter& e, const RowShape& shape, const Size& size, const Site& site, std::optional<size_t> along)
    : e_(e),
      b_(e.b),
      shape_(shape),
      size_(size),
      x_(e.task().operand(e.task().node().inputs[0])),
      domain_(domain_of(x_.type)),
      site_(site),
      along_(along),
      from_(e.input(x_.value)) {
  for (int64_t row = 0; row < size_.rows; ++row) {
    Site of_row = site;
    if (along_) of_row.index[*along_] = index(row, *along_);
    bases_.push_back(b_.let("base", e.index(x_, domain_, of_row)));
  }
}

Expr RowGroup::index(int64_t row, size_t d) const { return along_ == d ? site_.index[d] + Expr(row) : site_.index[d]; }

Expr RowGroup::load(const Place& p) const {
  return b_.load(from_, bases_[static_cast<size_t>(p.row)] + p.at, size_.lanes, 1, p.mask);
}

void RowGroup::prefetch_next(const Place& p) {
  if (!along_) return;
  const Expr next = bases_[static_cast<size_t>(p.row)] + Expr(size_.rows * x_.phys.strides[*along_]);
  b_.prefetch(from_, next + p.at);
}

/// Calls body(place, which) for all vectors of all rows; `which` numbers the accumulators.
void RowGroup::each(const std::function<void(const Place&, int64_t)>& body) {
  for_vectors(b_, shape_.extent, size_.lanes, size_.unroll, [&](const Expr& at, const Expr& mask, int64_t which) {
    for (int64_t row = 0; row < size_.rows; ++row) body({row, at, mask}, which);
  });
}

Expr RowGroup::reduce(Op op, double start, const std::string& name, const Term& term, const Join& join) {
  const Expr neutral = imm(DType::f32, start, size_.lanes);
  std::vector<int32_t> sums;  // [row][unroll]
  for (int64_t i = 0; i < size_.rows * size_.unroll; ++i) sums.push_back(b_.reg(name, neutral));
  each([&](const Place& p, int64_t which) {
    Expr t = term(p);
    if (p.mask.defined()) t = select(p.mask, t, neutral);
    const int32_t sum = sums[static_cast<size_t>(p.row * size_.unroll + which)];
    b_.set(sum, join ? join(b_.get(sum), t) : binary(op, b_.get(sum), t));
  });
  std::vector<Expr> totals;
  for (int64_t row = 0; row < size_.rows; ++row) {
    const auto first = static_cast<size_t>(row * size_.unroll);
    Expr all = b_.get(sums[first]);
    for (size_t u = 1; u < static_cast<size_t>(size_.unroll); ++u) all = binary(op, all, b_.get(sums[first + u]));
    totals.push_back(all);
  }
  return b_.let(name, reduce_lanes(b_, op, std::move(totals)));
}

std::vector<Expr> RowGroup::in_all_lanes(const Expr& results) {
  std::vector<Expr> all;
  for (int32_t row = 0; row < size_.rows; ++row) {
    const std::vector<int32_t> picks(static_cast<size_t>(size_.lanes), row);
    all.push_back(b_.let("all", size_.rows == 1 ? broadcast(results, size_.lanes) : shuffle(results, results, picks)));
  }
  return all;
}

void RowGroup::write(const Term& term) {
  Site site = site_;
  const size_t inner = innermost(x_.type.shape, shape_.first_dim);
  site.vec_dim = static_cast<int32_t>(inner);
  site.lanes = size_.lanes;
  each([&](const Place& p, int64_t) {
    const Expr value = term(p);
    if (along_) site.index[*along_] = index(p.row, *along_);
    site.index[inner] = p.at;
    site.mask = p.mask;
    e_.epilogue({{e_.task().node().outputs[0], value}}, domain_, site);
  });
}

void emit_row_groups(Emitter& e, const RowShape& shape, const Schedule& schedule, int32_t lanes,
                     const std::function<void(RowGroup&)>& body) {
  const int64_t rows = schedule.knob("rows"), unroll = schedule.knob("unroll");
  const Shape& dims = e.task().operand(e.task().node().inputs[0]).type.shape;
  const std::optional<size_t> along = neighbours_dim(dims, shape.first_dim);
  Site site;
  site.index.assign(dims.size(), Expr(0));
  Expr group = 0;
  for (size_t d = 0; d < shape.first_dim; ++d) {
    if (dims[d] == 1) continue;
    const Expr i = e.b.parallel("i" + std::to_string(d), along == d ? ceil_div(dims[d], rows) : dims[d]);
    (along == d ? group : site.index[d]) = i;
  }
  const auto some = [&](const Expr& first, int64_t count) {
    if (along) site.index[*along] = first;
    RowGroup of_rows(e, shape, {count, unroll, lanes}, site, along);
    body(of_rows);
  };
  const int64_t whole = shape.neighbours / rows, rest = shape.neighbours % rows;
  const auto all = [&] { some(group * Expr(rows), rows); };
  if (rest == 0) return all();
  e.b.if_then(binary(Op::lt, group, Expr(whole)), all, [&] { some(Expr(whole * rows), rest); });
}

}  // namespace kilter
