#include "ops/support/tree_sums.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "ops/support/operands.h"

namespace kilter {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// A word of the records, which are u32 or u64.
uint64_t word_of(const Tensor& records, int64_t i) {
  return records.dtype() == DType::u64 ? records.data<uint64_t>()[i] : records.data<uint32_t>()[i];
}
/// The threshold of a record, or the value of a leaf: f32 in u32, f64 in u64.
double value_of(const Tensor& records, int64_t record) {
  const uint64_t word = word_of(records, 2 * record);
  return records.dtype() == DType::u64 ? std::bit_cast<double>(word)
                                       : static_cast<double>(std::bit_cast<float>(static_cast<uint32_t>(word)));
}

/// Throws bad_input unless all records, depths and targets are in range.
void check_values(const Node& node, const TreeSumsShape& s, const Tensor& records, const Tensor& depths,
                  const Tensor& targets) {
  const int64_t count = records.elems() / 2;
  const auto out_of_range = [&](std::string_view what, int64_t i) {
    fail(ErrorKind::bad_input, "{}: {} {} is out of range", label(node), what, i);
  };
  for (int64_t i = 0; i < count; ++i) {
    const uint64_t word = word_of(records, 2 * i + 1);
    const auto column = static_cast<int64_t>(word & ((uint64_t{1} << s.feature_bits) - 1));
    const auto left = static_cast<int64_t>(std::min<uint64_t>(word >> s.feature_bits, static_cast<uint64_t>(count)));
    const bool leaf = column == s.columns.width() - 1;
    const bool nan = std::isnan(value_of(records, i));
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
  const bool wide = ctx.dtype(kTreeX) == DType::f64;
  const DType words = wide ? DType::u64 : DType::u32;
  if (ctx.dtype(kTreeRecords) != words || ctx.dtype(kTreeInitial) != ctx.dtype(kTreeX)) {
    ctx.error(fmt::format("records and initial values have element types {} and {}, expected {} and {} for x of {}",
                          name(ctx.dtype(kTreeRecords)), name(ctx.dtype(kTreeInitial)), name(words),
                          name(ctx.dtype(kTreeX)), name(ctx.dtype(kTreeX))));
  }
  check_types(Types<int32_t>{}, ctx, kTreeDepths);
  const bool single = ctx.has(kTreeTargets);
  if (single == ctx.has(kTreeRows)) ctx.error("has targets and rows, or neither; expected one of them");
  const TreeSumsShape s = tree_sums_shape(ctx.node, ctx.shape(kTreeX), ctx.shape(kTreeDepths), ctx.shape(kTreeInitial));
  const Shape& records = ctx.shape(kTreeRecords);
  if (records.size() != 2 || records[1] != 2 || records[0] < s.trees) {
    ctx.error(fmt::format("records (input 1) have shape {}, expected [{} or more, 2]", text(records), s.trees));
  }
  if (single) {
    check_types(Types<int32_t>{}, ctx, kTreeTargets);
    if (elems(ctx.shape(kTreeTargets)) != s.trees) ctx.error("targets (input 4) do not have one number for each tree");
  } else {
    if (ctx.dtype(kTreeRows) != ctx.dtype(kTreeX)) ctx.error("rows (input 5) do not have the element type of x");
    const Shape& rows = ctx.shape(kTreeRows);
    if (rows.size() != 2 || rows[0] < 1 || rows[1] != s.targets) {
      ctx.error(fmt::format("rows (input 5) have shape {}, expected [1 or more, {}]", text(rows), s.targets));
    }
  }
  if (ctx.value(kTreeRecords) != nullptr && ctx.value(kTreeDepths) != nullptr) {
    const Tensor* targets = single ? ctx.value(kTreeTargets) : nullptr;
    check_values(ctx.node, s, *ctx.value(kTreeRecords), *ctx.value(kTreeDepths), targets ? *targets : Tensor());
  }
  ctx.set(0, ctx.dtype(kTreeX), {s.rows, s.targets});
}

/// Returns the columns of row `row` of x.
std::vector<double> columns_of(const TreeSumsShape& s, const Tensor& x, int64_t row) {
  std::vector<double> raw, cleaned;
  for (int64_t c = 0; c < s.columns.features; ++c) {
    const double value = x.as_double(row * s.columns.features + c);
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
  const Tensor& records = ctx.in(kTreeRecords);
  const uint64_t mask = (uint64_t{1} << s.feature_bits) - 1;
  std::vector<double> all;
  for (int64_t row = 0; row < s.rows; ++row) {
    const std::vector<double> x = columns_of(s, ctx.in(kTreeX), row);
    std::vector<double> scores = load_doubles(ctx.in(kTreeInitial));
    for (int64_t t = 0; t < s.trees; ++t) {
      int64_t at = t;
      for (int64_t d = ctx.in(kTreeDepths).as_int(t); d > 0; --d) {
        const uint64_t word = word_of(records, 2 * at + 1);
        at = static_cast<int64_t>(word >> s.feature_bits) + (x[word & mask] <= value_of(records, at) ? 0 : 1);
      }
      if (single) {
        combine(s.aggregate, scores[static_cast<size_t>(targets.as_int(t))], value_of(records, at));
        continue;
      }
      const Tensor& rows = ctx.in(kTreeRows);
      const auto leaf =
          static_cast<int64_t>(std::min(word_of(records, 2 * at), static_cast<uint64_t>(rows.shape()[0] - 1)));
      for (int64_t k = 0; k < s.targets; ++k) {
        combine(s.aggregate, scores[static_cast<size_t>(k)], rows.as_double(leaf * s.targets + k));
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

/// Adds a constant of numbers in element type `type`.
ValueId numbers(ExpandContext& ctx, DType type, std::span<const double> values, Shape shape, const char* name) {
  Tensor tensor(type, std::move(shape));
  store_doubles(tensor, values);
  return ctx.builder.constant(std::move(tensor), name);
}

ValueId list(ExpandContext& ctx, std::span<const int32_t> values, const char* name) {
  return ctx.builder.constant(Tensor::of<int32_t>({std::ssize(values)}, values), name);
}

ValueId records_of(ExpandContext& ctx, const PackedTrees& packed, bool wide) {
  const Shape shape = {std::ssize(packed.records) / 2, 2};
  if (wide) return ctx.builder.constant(Tensor::of<uint64_t>(shape, packed.records), "records");
  Tensor narrow(DType::u32, shape);
  std::ranges::transform(packed.records, narrow.data<uint32_t>(), [](uint64_t w) { return static_cast<uint32_t>(w); });
  return ctx.builder.constant(std::move(narrow), "records");
}

}  // namespace

TreeSumsShape tree_sums_shape(const Node& node, const Shape& x, const Shape& depths, const Shape& initial) {
  if (x.size() != 2 || elems(depths) < 1 || elems(initial) < 1) {
    node_error(node, fmt::format("inputs have shapes {}, {} and {}, expected [rows, features], one depth for "
                                 "each tree and one initial value for each target",
                                 text(x), text(depths), text(initial)));
  }
  TreeSumsShape s;
  s.columns = {x[1], node.int_attr("raw", 1) != 0, node.int_attr("cleaned", 0) != 0};
  s.feature_bits = std::bit_width(static_cast<uint64_t>(s.columns.width() - 1));
  if (s.feature_bits >= 32) node_error(node, fmt::format("has {} columns; the limit is 2^31", s.columns.width()));
  s.rows = x[0], s.trees = elems(depths), s.targets = elems(initial);
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
  const DType type = ctx.builder.type(x).dtype;
  const bool wide = type == DType::f64;
  const std::optional<PackedTrees> packed = pack_trees(trees, ctx.builder.type(x).shape[1], wide);
  if (!packed) return std::nullopt;
  const auto count = static_cast<int64_t>(trees.roots.size());
  const bool sum = trees.aggregate == TreeAggregate::sum;
  const TreeAggregate how = trees.aggregate == TreeAggregate::average ? TreeAggregate::sum : trees.aggregate;
  std::vector<double> base = trees.base_values;
  base.resize(static_cast<size_t>(trees.targets), 0);
  const double start = how == TreeAggregate::min ? kInfinity : how == TreeAggregate::max ? -kInfinity : 0;
  const std::vector<double> initial = sum ? base : std::vector<double>(base.size(), start);
  const Shape shape = {trees.targets};
  std::vector<ValueId> inputs = {x, records_of(ctx, *packed, wide), list(ctx, packed->depths, "depths"),
                                 numbers(ctx, type, initial, shape, "initial")};
  if (packed->rows.empty()) {
    inputs.push_back(list(ctx, packed->targets, "targets"));
  } else {
    inputs.push_back(kNone);
    inputs.push_back(
        numbers(ctx, type, packed->rows, {std::ssize(packed->rows) / trees.targets, trees.targets}, "rows"));
  }
  Attrs attrs = {{"aggregate", std::string(name_of(how))},
                 {"cleaned", int64_t{packed->columns.cleaned}},
                 {"depth", packed->depth},
                 {"raw", int64_t{packed->columns.raw}}};
  ValueId scores = ctx.builder.add_kilter("TreeSums", std::move(inputs), std::move(attrs), ctx.node.name);
  if (sum) return scores;
  if (trees.aggregate == TreeAggregate::average) {
    scores = ctx.add("Div", {scores, ctx.scalar(type, static_cast<double>(count))});
  }
  if (trees.base_values.empty()) return scores;
  return ctx.add("Add", {scores, numbers(ctx, type, base, shape, "base_values")});
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
        "features] reach in a forest, in the type of x (f32 or f64); inputs x, records [nodes, 2], depths [trees], "
        "initial values [targets], and the targets of the trees [trees] or the leaves' rows of values [leaves, "
        "targets]. Created by the expansions of the operators TreeEnsemble.",
    .infer = infer,
    .reference = reference,
    .flops = flops,
    .tolerance = {.rtol = 1e-5, .atol = 1e-6},
    // Two trees over 3 features, with 4 columns in 2 bits: x[1] <= 0.5 ? leaf : leaf, and a leaf. One tree over one
    // feature: x[0] <= 0.5 ? row 1 : row 0.
    .cases = {"f32[21,3] u32[4,2]=1056964608,9,1073741824,7,1065353216,11,3212836864,15 i32[2]=1,0 f32[1]=0.25 "
              "i32[2]=0 | depth=1",
              "f64[9,1] u64[3,2]=4602678819172646912,2,1,3,0,5 i32[1]=1 f64[2]=0.25,1 ? f64[2,2]=1,2,3,4 | depth=1"},
};

}  // namespace kilter
