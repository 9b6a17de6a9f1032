// Reductions, softmaxes and normalisations over every choice of axes, and gathers and movements of regions.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "guarded_run.h"
#include "ops/support/evaluate.h"
#include "sweep.h"

namespace kilter {
namespace {

using Ints = std::vector<int64_t>;

int64_t draw_extent(Draw& draw) { return draw.pick({1, 2, 3, 4, 5, 7, 8, 15, 16, 17, 31, 33, 64}); }

Shape draw_shape(Draw& draw, int64_t rank) {
  constexpr int64_t kMostElems = 30'000;
  Shape shape;
  int64_t elems = 1;
  for (int64_t d = 0; d < rank; ++d) {
    const int64_t extent = draw_extent(draw);
    shape.push_back(elems * extent > kMostElems ? 1 : extent);
    elems *= shape.back();
  }
  return shape;
}

/// An input, or the result of an operator on one, so that some operands are in the arena.
ValueId source(SweepNet& net, const Shape& shape) {
  const ValueId x = net.input(shape);
  return net.draw.chance(50) ? x : net.b.add("Neg", {x});
}

void make_reduce(SweepNet& net) {
  Draw& draw = net.draw;
  const Shape shape = draw_shape(draw, draw.between(1, 4));
  Ints axes;
  for (size_t d = 0; d < shape.size(); ++d) {
    if (draw.chance(50)) axes.push_back(static_cast<int64_t>(d));
  }
  if (axes.empty()) axes.push_back(static_cast<int64_t>(shape.size()) - 1);
  const auto op = draw.pick<std::string_view>({"ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceSumSquare",
                                               "ReduceL1", "ReduceL2", "ReduceLogSumExp", "ReduceProd"});
  ValueId v = source(net, shape);
  if (op == "ReduceProd") v = net.b.add("Exp", {net.b.add("Mul", {v, net.b.constant(Tensor::scalar(0.05F))})});
  v = net.b.add(op, {v, net.list(axes)}, {{"keepdims", draw.between(0, 1)}});
  net.output(net.shape(v).empty() ? v : net.elementwise(v));
}

void make_softmax(SweepNet& net) {
  Draw& draw = net.draw;
  const Shape shape = draw_shape(draw, draw.between(1, 4));
  const auto op = draw.pick<std::string_view>({"Softmax", "Softmax", "LogSoftmax"});
  const int64_t rank = static_cast<int64_t>(shape.size());
  ValueId v = source(net, shape);
  if (draw.chance(30)) v = net.b.add("Mul", {v, net.b.constant(Tensor::scalar(8.0F))});
  net.output(net.elementwise(net.b.add(op, {v}, {{"axis", draw.between(-rank, rank - 1)}})));
}

void make_normalize(SweepNet& net) {
  Draw& draw = net.draw;
  const int64_t kind = draw.between(0, 3);
  Shape shape = draw_shape(draw, kind == 0 ? draw.between(1, 4) : draw.between(3, 4));
  const int64_t rank = static_cast<int64_t>(shape.size());
  ValueId v = kNone;
  if (kind <= 1) {
    const int64_t axis = draw.between(0, rank - 1);
    const Shape rest(shape.begin() + axis, shape.end());
    std::vector<ValueId> inputs{source(net, shape), net.constant(rest)};
    if (draw.chance(60)) inputs.push_back(net.constant(rest));
    v = net.b.add("LayerNormalization", inputs, {{"axis", axis}, {"epsilon", 1e-5F}});
  } else if (kind == 2) {
    v = net.b.add("InstanceNormalization", {source(net, shape), net.constant({shape[1]}), net.constant({shape[1]})},
                  {{"epsilon", 1e-3F}});
  } else {
    const int64_t axis = draw.between(0, rank - 1);
    const Shape rest(shape.begin() + axis, shape.end());
    v = net.b.add("RMSNormalization", {source(net, shape), net.constant(rest)}, {{"axis", axis}});
  }
  net.output(net.elementwise(v));
}

/// RMSNormalization as exporters write it, and near misses whose parts other nodes read.
void make_exported_rms(SweepNet& net) {
  Draw& draw = net.draw;
  const Shape shape = draw_shape(draw, draw.between(1, 4));
  const ValueId x = source(net, shape);
  const ValueId square =
      draw.chance(50) ? net.b.add("Mul", {x, x}) : net.b.add("Pow", {x, net.b.constant(Tensor::scalar(2.0F))});
  const Ints axes = draw.chance(80) ? Ints{-1} : Ints{0};
  const ValueId mean = net.b.add("ReduceMean", {square, net.list(axes)}, {{"keepdims", int64_t{1}}});
  const ValueId root = net.b.add("Sqrt", {net.b.add("Add", {mean, net.b.constant(Tensor::scalar(1e-3F))})});
  const ValueId weight = net.constant({shape.back()});
  const ValueId first = draw.chance(30) ? net.b.add("Mul", {x, weight}) : x;
  ValueId v =
      draw.chance(50) ? net.b.add("Div", {first, root}) : net.b.add("Mul", {first, net.b.add("Reciprocal", {root})});
  if (draw.chance(10)) net.output(v);
  if (first == x) v = draw.chance(50) ? net.b.add("Mul", {v, weight}) : net.b.add("Mul", {weight, v});
  net.output(net.elementwise(v));
}

/// Normalises groups of channels of plain tensors, by the operator and as exporters write it.
void make_group_norm(SweepNet& net) {
  Draw& draw = net.draw;
  Shape shape = draw_shape(draw, draw.between(3, 5));
  const int64_t groups = draw.pick({1, 1, 2, 3, 8}), each = draw.pick({1, 2, 3, 5, 10, 16});
  shape[1] = groups * each;
  ValueId v = source(net, shape);
  if (draw.chance(60)) {
    v = net.b.add("GroupNormalization", {v, net.constant({shape[1]}), net.constant({shape[1]})},
                  {{"num_groups", groups}, {"epsilon", 1e-3F}});
  } else {
    const ValueId rows = net.b.add("Reshape", {v, net.list({shape[0], groups, -1})});
    v = net.b.add("InstanceNormalization", {rows, net.constant({groups}), net.constant({groups})});
    v = net.b.add("Reshape", {v, net.list(shape)});
    Shape channels(shape.size() - 1, 1);
    channels[0] = shape[1];
    if (draw.chance(70)) v = net.b.add("Mul", {v, net.constant(channels)});
    if (draw.chance(70)) v = net.b.add("Add", {net.constant(channels), v});
  }
  net.output(net.elementwise(v));
}

void make_gather(SweepNet& net) {
  Draw& draw = net.draw;
  const Shape shape = draw_shape(draw, draw.between(1, 4));
  const int64_t axis = draw.between(0, static_cast<int64_t>(shape.size()) - 1);
  const int64_t extent = shape[static_cast<size_t>(axis)];
  Ints index;
  for (int64_t i = draw.between(1, 9); i > 0; --i) index.push_back(draw.between(-extent, extent - 1));
  const ValueId table = draw.chance(50) ? net.constant(shape) : source(net, shape);
  const ValueId v = net.b.add("Gather", {table, net.list(index)}, {{"axis", axis}});
  net.output(draw.chance(50) ? net.elementwise(v) : net.b.add("Relu", {v}));
}

/// Adds GatherND or GatherElements.
void make_lookup(SweepNet& net) {
  Draw& draw = net.draw;
  const Shape shape = draw_shape(draw, draw.between(1, 4));
  const int64_t rank = std::ssize(shape);
  const ValueId x = draw.chance(30) ? net.constant(shape) : source(net, shape);
  const auto indices = [&](const Shape& of, const std::function<int64_t(int64_t)>& extent) {
    std::vector<int64_t> all;
    for (int64_t i = 0; i < elems(of); ++i) all.push_back(draw.between(-extent(i), extent(i) - 1));
    return net.b.constant(Tensor::of<int64_t>(of, std::span<const int64_t>(all)));
  };
  ValueId v = kNone;
  if (draw.chance(50)) {
    Shape of = shape;
    const int64_t axis = draw.between(0, rank - 1);
    for (int64_t d = 0; d < rank; ++d)
      of[static_cast<size_t>(d)] = draw.between(1, d == axis ? 9 : shape[static_cast<size_t>(d)]);
    const int64_t extent = shape[static_cast<size_t>(axis)];
    v = net.b.add("GatherElements", {x, indices(of, [&](int64_t) { return extent; })}, {{"axis", axis}});
  } else {
    const int64_t batch = draw.between(0, rank - 1), width = draw.between(1, rank - batch);
    Shape of(shape.begin(), shape.begin() + batch);
    for (int64_t d = draw.between(0, 2); d > 0; --d) of.push_back(draw.between(1, 5));
    of.push_back(width);
    const auto extent = [&](int64_t i) { return shape[static_cast<size_t>(batch + i % width)]; };
    v = net.b.add("GatherND", {x, indices(of, extent)}, {{"batch_dims", batch}});
  }
  net.output(net.shape(v).empty() || draw.chance(50) ? net.b.add("Relu", {v}) : net.elementwise(v));
}

/// Indices of extrema, often among equal elements.
void make_arg(SweepNet& net) {
  Draw& draw = net.draw;
  const Shape shape = draw_shape(draw, draw.between(1, 4));
  const int64_t rank = std::ssize(shape);
  ValueId v = source(net, shape);
  if (draw.chance(60)) v = net.b.add("Round", {v});
  v = net.b.add(draw.chance(50) ? "ArgMax" : "ArgMin", {v},
                {{"axis", draw.between(-rank, rank - 1)},
                 {"keepdims", draw.between(0, 1)},
                 {"select_last_index", draw.chance(30) ? int64_t{1} : int64_t{0}}});
  if (draw.chance(40)) return net.output(v);
  net.output(net.b.add("Cast", {v}, {{"to", int64_t{1}}}));
}

/// Samples images between their pixels and beyond their edges.
void make_sample(SweepNet& net) {
  Draw& draw = net.draw;
  const Shape shape{draw.between(1, 2), draw.between(1, 5), draw.pick({1, 2, 7, 12}), draw.pick({1, 3, 8, 17})};
  const Shape grid{shape[0], draw.pick({1, 1, 3, 6}), draw.pick({1, 4, 8, 15, 16, 21, 33}), 2};
  const ValueId at = net.b.add("Mul", {source(net, grid), net.b.constant(Tensor::scalar(0.7F))});
  const ValueId v = net.b.add("GridSample", {source(net, shape), at},
                              {{"mode", draw.pick<std::string>({"linear", "linear", "linear", "nearest"})},
                               {"padding_mode", draw.pick<std::string>({"zeros", "border", "reflection"})},
                               {"align_corners", draw.between(0, 1)}});
  net.output(draw.chance(50) ? v : net.elementwise(v));
}

/// ScatterND and ScatterElements. Without a sum or product, each place is written only once.
void make_scatter(SweepNet& net) {
  Draw& draw = net.draw;
  const Shape shape = draw_shape(draw, draw.between(1, 4));
  const int64_t rank = std::ssize(shape);
  const auto reduction = draw.pick<std::string>({"none", "none", "add", "mul"});
  const bool again = reduction != "none";
  const int64_t axis = draw.chance(50) ? 0 : draw.between(0, rank - 1), extent = shape[static_cast<size_t>(axis)];
  const int64_t count = draw.between(1, std::min<int64_t>(extent, 9));
  const auto at = [&](int64_t k) {  // consecutive places from either end, or random ones
    const int64_t place = again ? draw.between(0, extent - 1) : k;
    return draw.chance(50) ? place : place - extent;
  };
  std::vector<int64_t> index;
  Shape of;
  ValueId v = source(net, shape);
  if (draw.chance(50)) {
    for (int64_t k = 0; k < count; ++k) index.push_back(axis == 0 ? at(k) : draw.between(0, shape[0] - 1));
    if (axis != 0 && !again) index.resize(1);
    of = shape;
    of[0] = std::ssize(index);
    const ValueId where = net.b.constant(Tensor::of<int64_t>({of[0], 1}, std::span<const int64_t>(index)));
    v = net.b.add("ScatterND", {v, where, source(net, of)}, {{"reduction", reduction}});
  } else {
    for (int64_t d = 0; d < rank; ++d) of.push_back(d == axis ? count : draw.between(1, shape[static_cast<size_t>(d)]));
    const int64_t inner = elems(Shape(of.begin() + axis + 1, of.end()));
    for (int64_t i = 0; i < elems(of); ++i) index.push_back(at(i / inner % count));
    const ValueId where = net.b.constant(Tensor::of<int64_t>(of, std::span<const int64_t>(index)));
    v = net.b.add("ScatterElements", {v, where, source(net, of)}, {{"axis", axis}, {"reduction", reduction}});
  }
  net.output(draw.chance(50) ? net.b.add("Relu", {v}) : net.elementwise(v));
}

/// Deformable convolutions.
void make_deformable(SweepNet& net) {
  Draw& draw = net.draw;
  const int64_t groups = draw.pick({1, 1, 2}), apart = draw.pick({1, 1, 2}), k = draw.pick({1, 2, 3});
  const Shape x{draw.between(1, 2), draw.pick({2, 4, 8}), draw.between(3, 9), draw.between(3, 9)};
  const Shape w{groups * draw.pick({1, 3, 8}), x[1] / groups, k, k};
  const Shape y{x[0], w[0], x[2] + 2 - k + 1, x[3] + 2 - k + 1};
  std::vector<ValueId> inputs{source(net, x), net.constant(w, 0.3F), source(net, {x[0], apart * k * k * 2, y[2], y[3]}),
                              draw.chance(50) ? net.constant({w[0]}) : kNone};
  if (draw.chance(50)) inputs.push_back(source(net, {x[0], apart * k * k, y[2], y[3]}));
  net.output(net.elementwise(
      net.b.add("DeformConv", inputs, {{"pads", Ints{1, 1, 1, 1}}, {"group", groups}, {"offset_group", apart}})));
}

/// Operators that are decomposed into others: triangles of matrices and one-hot rows.
void make_decomposed(SweepNet& net) {
  Draw& draw = net.draw;
  if (draw.chance(50)) {
    const Shape shape = draw_shape(draw, draw.between(2, 4));
    std::vector<ValueId> inputs{source(net, shape)};
    if (draw.chance(60)) inputs.push_back(net.b.constant(Tensor::scalar<int64_t>(draw.between(-5, 5))));
    return net.output(net.elementwise(net.b.add("Trilu", inputs, {{"upper", draw.between(0, 1)}})));
  }
  const int64_t depth = draw.between(1, 20);
  const Shape shape = draw_shape(draw, draw.between(1, 2));
  const ValueId spread = net.b.add("Mul", {net.input(shape), net.b.constant(Tensor::scalar(5.0F))});
  const ValueId index = net.b.add("Cast", {net.b.add("Round", {spread})}, {{"to", draw.pick<int64_t>({6, 7})}});
  const ValueId hot = net.b.add("OneHot", {index, net.b.constant(Tensor::scalar<int64_t>(depth)), net.constant({2})},
                                {{"axis", draw.between(-1, std::ssize(shape))}});
  net.output(net.b.add("Mul", {hot, source(net, net.shape(hot))}));
}

/// Copies of regions that cannot be views: to padded, reversed, repeated, permuted and joined tensors.
void make_move(SweepNet& net) {
  Draw& draw = net.draw;
  const Shape shape = draw_shape(draw, draw.between(2, 4));
  const auto rank = static_cast<int64_t>(shape.size());
  ValueId v = source(net, shape);
  for (int64_t i = draw.between(1, 3); i > 0; --i) {
    switch (draw.between(0, 5)) {
      case 0: {
        Ints pads;
        for (int64_t d = 0; d < 2 * rank; ++d) pads.push_back(draw.between(0, 2));
        v = net.b.add("Pad", {v, net.list(pads)});
        break;
      }
      case 1:
        v = net.b.add("Slice", {v, net.list({-1}), net.list({-1000}), net.list({draw.between(0, rank - 1)}),
                                net.list({draw.pick({-1, -2})})});
        break;
      case 2: {
        Ints repeats;
        for (int64_t d = 0; d < rank; ++d) repeats.push_back(draw.chance(70) ? 1 : 2);
        v = net.b.add("Tile", {v, net.list(repeats)});
        break;
      }
      case 3: {
        Ints perm;
        for (int64_t d = 0; d < rank; ++d) perm.insert(perm.begin() + draw.between(0, d), d);
        v = net.b.add("Transpose", {v}, {{"perm", perm}});
        if (draw.chance(40)) v = net.b.add("Abs", {v});
        break;
      }
      case 4:
        v = net.b.add("Concat", {v, net.input(net.shape(v)), v}, {{"axis", draw.between(0, rank - 1)}});
        break;
      default:
        v = net.elementwise(v);
        break;
    }
  }
  net.output(v);
}

void make_map(SweepNet& net) {
  Draw& draw = net.draw;
  ValueId v = source(net, draw_shape(draw, draw.between(1, 4)));
  for (int64_t i = draw.between(1, 3); i > 0; --i) {
    v = net.b.add(
        draw.pick<std::string_view>({"Tanh", "Erf", "Sigmoid", "HardSwish", "Softplus", "Gelu", "Elu", "Cos"}), {v});
    v = net.elementwise(v);
  }
  net.output(v);
}

class RowsSweep : public testing::TestWithParam<NetKind> {};

TEST_P(RowsSweep, AgreesWithTheReference) { sweep(GetParam()); }

INSTANTIATE_TEST_SUITE_P(Rows, RowsSweep,
                         testing::Values(NetKind{"Reduce", make_reduce, 40, {"reduce_rows"}},
                                         NetKind{"Softmax", make_softmax, 24, {"softmax_rows"}},
                                         NetKind{"Normalize", make_normalize, 24, {"normalize_rows"}},
                                         NetKind{"ExportedRms", make_exported_rms, 30, {"normalize_rows"}},
                                         NetKind{"GroupNorm", make_group_norm, 30, {"normalize_groups"}},
                                         NetKind{"Gather", make_gather, 24, {"gather_rows"}},
                                         NetKind{"Move", make_move, 30, {"move_regions"}},
                                         NetKind{"Map", make_map, 24, {"map"}},
                                         NetKind{"Lookup", make_lookup, 40, {"gather_rows"}, true},
                                         NetKind{"Scatter", make_scatter, 40, {"scatter_rows"}, true},
                                         NetKind{"Arg", make_arg, 40, {"arg_rows"}, true},
                                         NetKind{"Sample", make_sample, 40, {"sample_rows"}, true},
                                         NetKind{"Deformable", make_deformable, 24, {"sample_rows"}, true},
                                         NetKind{"Decomposed", make_decomposed, 24, {"map"}, true}),
                         [](const auto& kind) { return std::string(kind.param.name); });

TEST(Rows, DecomposedRmsNormIsOneKernel) {
  SweepNet net(1);
  const ValueId x = net.input({2, 5, 67});
  const ValueId mean = net.b.add("ReduceMean", {net.b.add("Mul", {x, x}), net.list({-1})});
  const ValueId root = net.b.add("Sqrt", {net.b.add("Add", {mean, net.b.constant(Tensor::scalar(1e-5F))})});
  const ValueId unit = net.b.add("Mul", {x, net.b.add("Reciprocal", {root})});
  net.output(net.b.add("Mul", {net.constant({67}), unit}));
  for (const Target& target : targets_here()) {
    const Compiled compiled = compile_for(net.graph(), target);
    ASSERT_EQ(compiled.plan.steps.size(), 1U) << steps_text(compiled.plan);
    EXPECT_EQ(compiled.plan.steps[0].ops, "RMSNormalization");
    EXPECT_EQ(compiled.plan.steps[0].kind, StepKind::kernel);
    const auto program = std::make_shared<const Program>(compiled.plan);
    EXPECT_EQ(run_guarded(program, net.inputs(), evaluate(net.graph(), net.inputs()), {.rtol = 1e-4, .atol = 1e-5}, 0),
              "");
  }
}

}  // namespace
}  // namespace kilter
