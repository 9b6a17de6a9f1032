#include "ops/support/tree_sums.h"

#include <bit>
#include <cmath>
#include <limits>

#include "ops/support/operands.h"

namespace kilter {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// Throws bad_input unless all records, depths and targets are in range.
void check_values(const Node& node, const TreeSumsShape& s, const Tensor& records, const Tensor& depths,
                  const Tensor& targets) {
  const int64_t count = records.elems() / 2;
  const auto out_of_range = [&](std::string_view what, int64_t i) {
    fail(ErrorKind::bad_input, "{}: {} {} is out of range", label(node), what, i);
  };
  for (int64_t i = 0; i < count; ++i) {
    const uint32_t word = records.data<uint32_t>()[2 * i + 1];
    const int64_t column = word & ((uint64_t{1} << s.feature_bits) - 1), left = int64_t{word} >> s.feature_bits;
    const bool leaf = column == s.columns.width() - 1;
    const bool nan = std::isnan(std::bit_cast<float>(records.data<uint32_t>()[2 * i]));
    if (column >= s.columns.width() || left + (leaf && !nan ? 0 : 1) >= count) out_of_range("record", i);
  }
  for (int64_t t = 0; t < s.trees; ++t) {
    if (depths.as_int(t) < 0 || depths.as_int(t) > s.depth) out_of_range("depth of tree", t);
    if (targets.defined() && (targets.as_int(t) < 0 || targets.as_int(t) >= s.targets))
      out_of_range("target of tree", t);
  }
}

void infer(InferContext& ctx) {
  check_types(Types<float, double>{}, ctx, kTreeX);
  check_types(Types<uint32_t>{}, ctx, kTreeRecords);
  check_types(Types<int32_t>{}, ctx, kTreeDepths);
  check_types(Types<float>{}, ctx, kTreeInitial);
  const bool single = ctx.has(kTreeTargets);
  if (single == ctx.has(kTreeRows)) ctx.error("has targets and rows, or neither; expected one of them");
  const TreeSumsShape s = tree_sums_shape(ctx.node, ctx.shape(kTreeX), ctx.shape(kTreeDepths), ctx.shape(kTreeInitial));
  const Shape& records = ctx.shape(kTreeRecords);
  if (records.size() != 2 || records[1] != 2 || records[0] < s.trees) {
    ctx.error(fmt::format("records (input 1) have shape {}, expected [{} or more, 2]", text(records), s.trees));
  }
  if (single) {
    check_types(Types<int32_t>{}, ctx, kTreeTargets);
    if (ctx.shape(kTreeTargets) != Shape{s.trees}) ctx.error("targets (input 4) do not have one number for each tree");
  } else {
    check_types(Types<float>{}, ctx, kTreeRows);
    const Shape& rows = ctx.shape(kTreeRows);
    if (rows.size() != 2 || rows[0] < 1 || rows[1] != s.targets) {
      ctx.error(fmt::format("rows (input 5) have shape {}, expected [1 or more, {}]", text(rows), s.targets));
    }
  }
  if (ctx.value(kTreeRecords) != nullptr && ctx.value(kTreeDepths) != nullptr) {
    const Tensor* targets = single ? ctx.value(kTreeTargets) : nullptr;
    check_values(ctx.node, s, *ctx.value(kTreeRecords), *ctx.value(kTreeDepths), targets ? *targets : Tensor());
  }
  ctx.set(0, DType::f32, {s.rows, s.targets});
}

/// Returns the smallest f32 that is at least x; all thresholds are f32.
float rounded_up(double x) {
  const auto nearest = static_cast<float>(x);
  return static_cast<double>(nearest) < x ? std::nextafter(nearest, kInfinity) : nearest;
}

/// Returns the columns of row `row` of x.
std::vector<float> columns_of(const TreeSumsShape& s, const Tensor& x, int64_t row) {
  std::vector<float> raw, cleaned;
  for (int64_t c = 0; c < s.columns.features; ++c) {
    const float value = rounded_up(x.as_double(row * s.columns.features + c));
    if (s.columns.raw) raw.push_back(value);
    if (s.columns.cleaned) cleaned.push_back(std::isnan(value) ? -kInfinity : value);
  }
  raw.insert(raw.end(), cleaned.begin(), cleaned.end());
  raw.push_back(-kInfinity);
  return raw;
}

void combine(TreeAggregate how, double& score, double value) {
  score = how == TreeAggregate::sum   ? score + value
          : how == TreeAggregate::min ? std::min(score, value)
                                      : std::max(score, value);
}

void reference(ReferenceContext& ctx) {
  const TreeSumsShape s =
      tree_sums_shape(ctx.node, ctx.in(kTreeX).shape(), ctx.in(kTreeDepths).shape(), ctx.in(kTreeInitial).shape());
  const bool single = ctx.has(kTreeTargets);
  const Tensor targets = single ? ctx.in(kTreeTargets) : Tensor();
  check_values(ctx.node, s, ctx.in(kTreeRecords), ctx.in(kTreeDepths), targets);
  const uint32_t* records = ctx.in(kTreeRecords).data<uint32_t>();
  const uint32_t mask = static_cast<uint32_t>((uint64_t{1} << s.feature_bits) - 1);
  std::vector<double> all;
  for (int64_t row = 0; row < s.rows; ++row) {
    const std::vector<float> x = columns_of(s, ctx.in(kTreeX), row);
    std::vector<double> scores = load_doubles(ctx.in(kTreeInitial));
    for (int64_t t = 0; t < s.trees; ++t) {
      int64_t at = t;
      for (int64_t d = ctx.in(kTreeDepths).as_int(t); d > 0; --d) {
        const uint32_t word = records[2 * at + 1];
        at = (int64_t{word} >> s.feature_bits) + (x[word & mask] <= std::bit_cast<float>(records[2 * at]) ? 0 : 1);
      }
      const uint32_t leaf = records[2 * at];
      if (single) {
        combine(s.aggregate, scores[static_cast<size_t>(targets.as_int(t))],
                static_cast<double>(std::bit_cast<float>(leaf)));
        continue;
      }
      const Tensor& rows = ctx.in(kTreeRows);
      const int64_t last = rows.shape()[0] - 1;
      for (int64_t k = 0; k < s.targets; ++k) {
        combine(s.aggregate, scores[static_cast<size_t>(k)],
                rows.as_double(std::min(int64_t{leaf}, last) * s.targets + k));
      }
    }
    all.insert(all.end(), scores.begin(), scores.end());
  }
  store_doubles(ctx.out(), all);
}

int64_t flops(const OpView& view) {
  const TreeSumsShape s = tree_sums_shape(view.node, view.inputs[kTreeX].shape, view.inputs[kTreeDepths].shape,
                                          view.inputs[kTreeInitial].shape);
  return s.rows * s.trees * (s.depth + s.targets);
}

std::string_view name_of(TreeAggregate aggregate) {
  return aggregate == TreeAggregate::min ? "min" : aggregate == TreeAggregate::max ? "max" : "sum";
}

template <class T>
ValueId list(ExpandContext& ctx, std::span<const T> values, Shape shape, const char* name) {
  return ctx.builder.constant(Tensor::of<T>(std::move(shape), values), name);
}

}  // namespace

TreeSumsShape tree_sums_shape(const Node& node, const Shape& x, const Shape& depths, const Shape& initial) {
  if (x.size() != 2 || depths.size() != 1 || depths[0] < 1 || elems(initial) < 1) {
    node_error(node, fmt::format("inputs have shapes {}, {} and {}, expected [rows, features], [trees] and one initial "
                                 "value for each target",
                                 text(x), text(depths), text(initial)));
  }
  TreeSumsShape s;
  s.columns = {x[1], node.int_attr("raw", 1) != 0, node.int_attr("cleaned", 0) != 0};
  s.feature_bits = std::bit_width(static_cast<uint64_t>(s.columns.width() - 1));
  if (s.feature_bits >= 32) node_error(node, fmt::format("has {} columns; the limit is 2^31", s.columns.width()));
  s.rows = x[0], s.trees = depths[0], s.targets = elems(initial);
  s.depth = node.int_attr("depth", 0);
  if (s.depth < 0 || s.depth >= int64_t{1} << 31) {
    node_error(node, fmt::format("attribute depth is {}; legal values are 0 to 2^31 - 1", s.depth));
  }
  const std::string aggregate = node.string_attr("aggregate", "sum");
  for (const TreeAggregate a : {TreeAggregate::sum, TreeAggregate::min, TreeAggregate::max}) {
    if (aggregate != name_of(a)) continue;
    s.aggregate = a;
    return s;
  }
  node_error(node, fmt::format("attribute aggregate is '{}'; legal values are sum, min and max", aggregate));
}

ValueId tree_features(ExpandContext& ctx) {
  const TensorType& type = ctx.type(0);
  const FeatureRows rows = feature_rows(ctx.node, type.shape);
  const ValueId x = type.dtype == DType::f64 ? ctx.in(0) : converted(ctx, ctx.in(0), DType::f32);
  if (type.shape.size() == 2) return x;
  return ctx.add("Reshape", {x, ctx.builder.list(std::vector<int64_t>{rows.count, rows.columns})});
}

std::optional<ValueId> tree_scores(ExpandContext& ctx, const TreeEnsemble& trees, ValueId x) {
  const TensorType& type = ctx.builder.type(x);
  const std::optional<PackedTrees> packed = pack_trees(trees, type.shape[1], type.dtype == DType::f64);
  if (!packed) return std::nullopt;
  const auto count = static_cast<int64_t>(trees.roots.size());
  const bool sum = trees.aggregate == TreeAggregate::sum;
  const TreeAggregate how = trees.aggregate == TreeAggregate::average ? TreeAggregate::sum : trees.aggregate;
  std::vector<float> base(trees.base_values.begin(), trees.base_values.end());
  base.resize(static_cast<size_t>(trees.targets), 0);
  const float start = how == TreeAggregate::min ? kInfinity : how == TreeAggregate::max ? -kInfinity : 0.0F;
  const std::vector<float> initial = sum ? base : std::vector<float>(base.size(), start);
  const Shape shape = {trees.targets};
  std::vector<ValueId> inputs = {
      x,
      list<uint32_t>(ctx, packed->records, {static_cast<int64_t>(packed->records.size()) / 2, 2}, "records"),
      list<int32_t>(ctx, packed->depths, {count}, "depths"),
      list<float>(ctx, initial, shape, "initial"),
  };
  if (packed->rows.empty()) {
    inputs.push_back(list<int32_t>(ctx, packed->targets, {count}, "targets"));
  } else {
    inputs.push_back(kNone);
    const auto leaves = static_cast<int64_t>(packed->rows.size()) / trees.targets;
    inputs.push_back(list<float>(ctx, packed->rows, {leaves, trees.targets}, "rows"));
  }
  Attrs attrs = {{"aggregate", std::string(name_of(how))},
                 {"cleaned", int64_t{packed->columns.cleaned}},
                 {"depth", packed->depth},
                 {"raw", int64_t{packed->columns.raw}}};
  ValueId scores = ctx.builder.add_kilter("TreeSums", std::move(inputs), std::move(attrs), ctx.node.name);
  if (sum) return scores;
  if (trees.aggregate == TreeAggregate::average) {
    scores = ctx.add("Div", {scores, ctx.scalar(DType::f32, static_cast<double>(count))});
  }
  if (trees.base_values.empty()) return scores;
  return ctx.add("Add", {scores, list<float>(ctx, base, shape, "base_values")});
}

KILTER_OP(TreeSums){
    .name = "TreeSums",
    .domain = "kilter",
    .family = Family::trees,
    .min_inputs = 4,
    .max_inputs = 6,
    .attrs = {{"aggregate", "string", "sum"},
              {"cleaned", "int", "0"},
              {"depth", "int", "required"},
              {"raw", "int", "1"}},
    .summary =
        "y [n, targets] = the initial values combined (sum, min or max) with the leaves that the rows of x [n, "
        "features] "
        "reach in a forest; inputs x, records [nodes, 2], depths [trees], initial values [targets], and the targets "
        "of the trees [trees] or the leaves' rows of values [leaves, targets]. Made by the expansions of the operators "
        "TreeEnsemble.",
    .infer = infer,
    .reference = reference,
    .flops = flops,
    .tolerance = {.rtol = 1e-5, .atol = 1e-6},
    // Two trees over 3 features, with 4 columns in 2 bits: x[1] <= 0.5 (0x3F000000) ? leaf : leaf, and a leaf.
    .cases =
        {"f32[21,3] u32[4,2]=1056964608,9,1073741824,7,1065353216,11,3212836864,15 i32[2]=1,0 f32[1]=0.25 i32[2]=0 "
         "| depth=1"},
};

}  // namespace kilter
