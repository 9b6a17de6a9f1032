// Tasks for the tests of spaces and searchers: problems for every template, placed as in a compiled network.
#pragma once

#include <algorithm>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "compile/placed_tasks.h"
#include "ops/support/builder.h"
#include "ops/support/cases.h"
#include "schedule/problem/problem.h"
#include "tune/space/space.h"
#include "zoo/zoo.h"

namespace kilter::tune {

/// Builds the graph of a recurrent operator's case, such as "GRUSteps f32[3,5,111] ...", with constant weights.
inline Graph recurrent_case(std::string_view name, const std::string& text) {
  const OpDef& def = *find_op("kilter", name, 22);
  ParsedCase parsed = parse_case(def, text);
  parsed.operands.at(1).kind = CaseOperand::Kind::constant;
  return make_case(def, parsed, text).graph;
}

/// Builds a graph that shuffles the channels of an image "f32[1,32,9,11]" between two convolutions: they come
/// alternately from the first and the second half.
inline Graph shuffled_channels(const std::string& image) {
  const Shape shape = parse_case(*find_op("", "Relu", 14), image).operands.at(0).tensor.shape();
  std::vector<int64_t> order;
  for (int64_t c = 0; c < shape[1]; ++c) order.push_back(c % 2 * (shape[1] / 2) + c / 2);
  Graph graph;
  GraphBuilder b(graph);
  const ValueId weights = b.constant(Tensor(DType::f32, {shape[1], shape[1], 1, 1}));
  const ValueId channels = b.constant(Tensor::of<int64_t>({shape[1]}, std::span<const int64_t>(order)));
  const ValueId made = b.add("Conv", {b.input("x", DType::f32, shape), weights});
  const ValueId taken = b.add("Gather", {made, channels}, {{"axis", int64_t{1}}});
  graph.add_output(b.add("Conv", {taken, weights}), "y");
  return graph;
}

/// Builds squeeze and excitation of an image "f32[1,32,20,20]": its channels are multiplied by factors computed from
/// their means and read by a 1x1 convolution.
inline Graph scaled_channels(const std::string& image) {
  const Shape shape = parse_case(*find_op("", "Relu", 14), image).operands.at(0).tensor.shape();
  Graph graph;
  GraphBuilder b(graph);
  const ValueId weights = b.constant(Tensor(DType::f32, {shape[1], shape[1], 1, 1}));
  const ValueId made = b.add("Conv", {b.input("x", DType::f32, shape), weights});
  const ValueId factors = b.add("Sigmoid", {b.add("Conv", {b.add("GlobalAveragePool", {made}), weights})});
  graph.add_output(b.add("Conv", {b.add("Mul", {made, factors}), weights}), "y");
  return graph;
}

/// A task with its graph, built from a problem line, "TASK in PROBLEM" (the first task with the line TASK in the graph
/// of PROBLEM), "GRUSteps CASE", "Upsample CASE", "TreeSums CASE", "TakeChannels IMAGE", "Mul+Conv IMAGE", or
/// "zoo:NETWORK OPERATOR" (the network's first task with this operator as its anchor).
struct TaskOf {
  TaskOf(const std::string& what, std::string_view target) : limits(parse_target(target).limits) {
    const size_t blank = what.find(' '), in = what.find(" in ");
    const std::string_view first = std::string_view(what).substr(0, blank);
    std::function<bool(const Task&)> wanted = [&](const Task& t) { return t.problem() == what.substr(0, in); };
    if (first.starts_with("zoo:")) {
      placed = place_tasks(zoo::build(first.substr(4), {.weights = false}), limits);
      wanted = [&](const Task& t) { return t.node().op->name == std::string_view(what).substr(blank + 1); };
    } else if (first.ends_with("Steps")) {
      placed = place_tasks(recurrent_case(first, what.substr(blank + 1)), limits);
      wanted = [&](const Task& t) { return t.node().op->name == first; };
    } else if (first == "Upsample") {
      placed = place_tasks(make_case(*find_op("", first, 7), what.substr(blank + 1)).graph, limits);
      wanted = [](const Task& t) { return t.node().op->family == Family::resize; };
    } else if (first == "TreeSums") {
      placed = place_tasks(make_case(*find_op("kilter", first, 1), what.substr(blank + 1)).graph, limits);
      wanted = [](const Task& t) { return t.node().op->family == Family::trees; };
    } else if (first == "TakeChannels") {
      placed = place_tasks(shuffled_channels(what.substr(blank + 1)), limits);
      wanted = [](const Task& t) { return t.node().op->family == Family::channels; };
    } else if (first == "Mul+Conv") {
      placed = place_tasks(scaled_channels(what.substr(blank + 1)), limits);
      wanted = [&](const Task& t) { return t.ops() == first; };
    } else {
      placed = place_tasks(parse_problem(in == std::string::npos ? what : what.substr(in + 4)), limits);
    }
    const auto it = std::find_if(placed.tasks.begin(), placed.tasks.end(), wanted);
    require(it != placed.tasks.end(), "no task of '{}' on {}", what, target);
    task = &*it;
  }

  CpuLimits limits;
  PlacedTasks placed;
  const Task* task = nullptr;
};

inline const std::vector<std::string>& targets() {
  static const std::vector<std::string> kTargets{"x86-64-v2", "x86-64-v3", "x86-64-v4", "znver4", "aarch64"};
  return kTargets;
}

/// A target for the templates that need tile registers.
constexpr const char* kTileTarget = "sapphirerapids";
/// The targets for which a template accepts tasks.
inline std::vector<std::string> targets_of(std::string_view name) {
  return name.ends_with("_amx") ? std::vector<std::string>{kTileTarget} : targets();
}

/// Problems for kTileTarget that templates with tile registers accept.
inline const std::vector<std::string>& tile_problems() {
  static const std::vector<std::string> kProblems{
      "conv2d n1 c16 h3 w5 k16 r1 s1 f32:bf16 +bias",
      "conv2d n1 c3 h9 w11 k32 r3 s3 stride2,2 pad1 f32:bf16 +bias >bf16",
      "fusedattention(f32:bf16[1,2,20,32] f32:bf16[1,2,20,32] f32:bf16[1,2,20,32])",
      "matmul(f32:bf16[5,40] f32[40,20])"};
  return kProblems;
}

/// At least one problem for each other template, small enough to lower all points.
inline const std::vector<std::string>& problems() {
  static const std::vector<std::string> kProblems{
      "conv2d n1 c32 h9 w9 k32 r3 s3 pad1 f32 +bias +relu",
      "conv2d n1 c16 h14 w14 k48 r3 s3 stride2,2 pad1 f32",
      "conv2d n2 c32 h7 w7 k64 r1 s1 f32 +bias +add+relu",
      "conv2d n1 c3 h20 w20 k16 r5 s5 stride2,2 pad2 f32 +bias",
      "conv2d n1 c16 h11 w11 k16 r1 s7 pad0,3,0,3 f32 +bias +relu",
      "conv2d n1 c32 h10 w13 k32 r3 s3 g32 pad1 f32 +bias +clip(0 6)",
      "conv2d n1 c16 h9 w11 k32 r1 s1 f32 +bias +relu => conv2d n1 c32 h9 w11 k32 r3 s3 g32 stride2,2 pad1 f32 +relu",
      "conv2d n1 c32 h10 w10 k32 r3 s3 g2 pad1 f32",
      "conv2d n1 c3 h14 w33 k2 r3 s3 pad1 f32 +bias",
      "convtranspose(f32[1,16,5,5] f32[16,8,4,4] kernel_shape=4,4 pads=1,1,1,1 strides=2,2) +add",
      "matmulnbits(f32[5,96] u8[40,3,16] f32[40,3] K=96 N=40 accuracy_level=4 bits=4 block_size=32)",
      "matmul(f32[1,13,40] f32[40,50]) +add(f32[50])",
      "matmul(f32[3,5,8] f32[3,8,20])",
      "fusedattention(f32[1,2,9,8] f32[1,2,18,8] f32[1,2,18,24] scale=0.5)",
      "fusedattention(f32[1,2,1,8] f32[1,2,18,8] f32[1,2,18,24] scale=0.5)",
      "zoo:squeezenet1_1 MaxPool",
      "softmax(f32[4,33] axis=-1)",
      "argmax(f32[3,40,50] axis=1)",
      "gridsample(f32[1,3,9,9] f32[1,1,40,2])",
      "TreeSums f32[40,3] u32[64,2]=0 i32[9]=3 f32[1]=0.5 i32[9]=0 | depth=3",
      "scatterelements(f32[40,24] i64[1,24] f32[1,24])",
      "reducemean(f32[2,3,5,7] i64[2]=2,3 keepdims=1)",
      "layernormalization(f32[6,40] f32[40] f32[40] axis=-1)",
      "groupnormalization(f32[1,32,8,8] f32[32] f32[32] num_groups=4)",
      "relu(f32[3,50])",
      "transpose(f32[3,5,7] perm=2,0,1)",
      "GRUSteps f32[3,5,111] f32[1,111,37] | | | 2",
  };
  return kProblems;
}

}  // namespace kilter::tune
