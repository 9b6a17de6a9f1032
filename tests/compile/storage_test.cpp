// Which values share memory: parts of a concatenation, slices, reshapes, transposes; and the copies that remain.
#include "compile/storage.h"

#include <gtest/gtest.h>

#include "guarded_run.h"
#include "ops/support/builder.h"
#include "ops/support/evaluate.h"
#include "sweep.h"

namespace kilter {
namespace {

class TaskGraph {
 public:
  explicit TaskGraph(std::string_view text, const std::set<std::string>& dense = {}) : graph(parse_graph(text)) {
    verify_types(graph);
    std::set<NodeId> nodes;
    for (NodeId id : graph.order()) {
      if (dense.contains(graph.node(id).name)) nodes.insert(id);
    }
    map = place(graph, nodes);
    verify(graph);
  }

  const Storage& of(std::string_view name) const { return map.of(graph.find_value(name)); }
  std::string root(std::string_view name) const { return graph.value(of(name).root).name; }
  bool viewed(std::string_view node) const {
    return std::any_of(map.views.begin(), map.views.end(), [&](NodeId id) { return graph.node(id).name == node; });
  }
  /// Names of the inserted copies, in order.
  std::vector<std::string> copies() const {
    std::vector<std::string> names;
    for (NodeId id : graph.order()) {
      if (graph.node(id).op->movement == Movement::relayout) names.push_back(graph.node(id).name);
    }
    return names;
  }

  Graph graph;
  StorageMap map;
};

using Names = std::vector<std::string>;

TEST(Storage, PartsOfAConcatenationAreWrittenInPlace) {
  const TaskGraph p(R"(graph "g" {
    input %x: f32[2,3,4]
    input %y: f32[2,5,4]
    %a: f32[2,3,4] = Relu@14 "a"(%x)
    %b: f32[2,5,4] = Exp@13 "b"(%y)
    %c: f32[2,8,4] = Concat@13 "c" {axis=1}(%a, %b)
    %d: f32[2,8,4] = Relu@14 "d"(%c)
    output "d" %d
  })");
  EXPECT_EQ(p.copies(), Names{});
  EXPECT_TRUE(p.viewed("c"));
  EXPECT_EQ(p.root("a"), "c");
  EXPECT_EQ(p.root("b"), "c");
  EXPECT_EQ(p.of("a").offset_elems, 0);
  EXPECT_EQ(p.of("b").offset_elems, 12);
  EXPECT_EQ(p.of("b").phys.strides, (Shape{32, 4, 1}));
  EXPECT_EQ(p.of("b").phys.dims, (Shape{2, 5, 4}));
}

TEST(Storage, PartsThatCannotBeWrittenInPlaceAreCopied) {
  const TaskGraph p(R"(graph "g" {
    input %x: f32[2,4]
    const %k: f32[2,1](1, 2)
    %a: f32[2,4] = Relu@14 "a"(%x)
    %b: f32[2,4] = Exp@13 "b"(%x)
    %c: f32[2,17] = Concat@13 "c" {axis=1}(%x, %a, %a, %b, %k)
    output "c" %c
    output "b" %b
  })");
  // An input of the network, a repeated value, an output of the network, a constant.
  EXPECT_EQ(p.copies(), (Names{"x.part", "a.part", "b.part", "k.part"}));
  EXPECT_EQ(p.root("a"), "c");
  EXPECT_EQ(p.of("a").offset_elems, 4);
}

TEST(Storage, APartInABlockedConcatenationStartsAtItsBlock) {
  const TaskGraph p(R"(graph "g" {
    input %x: f32[1,8,3,3]{c8 halo1,1,1,1}
    %a: f32[1,8,3,3]{c8 halo1,1,1,1} = Relu@14 "a"(%x)
    %b: f32[1,16,3,3]{c8 halo1,1,1,1} = Concat@13 "b" {axis=1}(%a, %a)
    %c: f32[1,16,3,3]{c8} = Relu@14 "c"(%b)
    %d: f32[1,16,3,3] = kilter::Relayout@1 "d"(%c)
    output "d" %d
  })");
  EXPECT_EQ(p.root("a"), "b");
  EXPECT_EQ(p.of("a.part").offset_elems, 5 * 5 * 8);
  EXPECT_EQ(p.of("a.part").phys.offset, 5 * 8 + 8);
  EXPECT_EQ(p.of("a.part").phys.strides, p.of("b").phys.strides);
}

TEST(Storage, ConcatenationInsideALargerOneIsAView) {
  // As in a dense block: each layer reads all earlier ones.
  const TaskGraph p(R"(graph "g" {
    input %x: f32[1,8,3,3]{c8 halo1,1,1,1}
    %a: f32[1,8,3,3]{c8 halo1,1,1,1} = Relu@14 "a"(%x)
    %b: f32[1,8,3,3]{c8 halo1,1,1,1} = Exp@13 "b"(%a)
    %ab: f32[1,16,3,3]{c8 halo1,1,1,1} = Concat@13 "ab" {axis=1}(%a, %b)
    %c: f32[1,16,3,3]{c8 halo1,1,1,1} = Relu@14 "c"(%ab)
    %bc: f32[1,24,3,3]{c8 halo1,1,1,1} = Concat@13 "bc" {axis=1}(%b, %c)
    %d: f32[1,24,3,3]{c8 halo1,1,1,1} = Relu@14 "d"(%bc)
    %abcd: f32[1,56,3,3]{c8 halo1,1,1,1} = Concat@13 "abcd" {axis=1}(%a, %b, %c, %d)
    %e: f32[1,56,3,3]{c8} = Relu@14 "e"(%abcd)
    %f: f32[1,56,3,3] = kilter::Relayout@1 "f"(%e)
    output "f" %f
  })");
  EXPECT_EQ(p.copies(), Names{"f"}) << "the change of layout alone";
  EXPECT_TRUE(p.viewed("ab"));
  EXPECT_EQ(p.root("ab"), "abcd");
  EXPECT_EQ(p.of("ab").offset_elems, 0);
  EXPECT_EQ(p.of("bc").offset_elems, 5 * 5 * 8);
  EXPECT_EQ(p.of("bc").phys.dims, (Shape{1, 3, 3, 3, 8}));
  EXPECT_EQ(p.of("bc").phys.strides, p.of("abcd").phys.strides);
}

TEST(Storage, AConcatenationInAnotherOrderIsCopied) {
  const TaskGraph p(R"(graph "g" {
    input %x: f32[2,4]
    %a: f32[2,4] = Relu@14 "a"(%x)
    %b: f32[2,4] = Exp@13 "b"(%x)
    %ba: f32[2,8] = Concat@13 "ba" {axis=1}(%b, %a)
    %c: f32[2,8] = Relu@14 "c"(%ba)
    %abc: f32[2,16] = Concat@13 "abc" {axis=1}(%a, %b, %c)
    output "abc" %abc
  })");
  EXPECT_EQ(p.copies(), (Names{"b.part", "a.part"}));
  EXPECT_EQ(p.root("ba"), "ba");
}

TEST(Storage, SlicesAreViewsOfTheirSource) {
  const TaskGraph p(R"(graph "g" {
    input %x: f32[4,6]
    const %start: i64[1](2)
    const %end: i64[1](5)
    const %axis: i64[1](1)
    %a: f32[4,6] = Relu@14 "a"(%x)
    %s: f32[4,3] = Slice@13 "s"(%a, %start, %end, %axis)
    %b: f32[4,3] = Exp@13 "b"(%s)
    output "b" %b
  })");
  EXPECT_EQ(p.copies(), Names{});
  EXPECT_TRUE(p.viewed("s"));
  EXPECT_EQ(p.root("s"), "a");
  EXPECT_EQ(p.of("s").offset_elems, 2);
  EXPECT_EQ(p.of("s").phys.strides, (Shape{6, 1}));
}

TEST(Storage, SlicesAreCopiedIfReadersCannotUseViews) {
  const std::string_view text = R"(graph "g" {
    input %x: f32[4,6]
    const %start: i64[1](2)
    const %end: i64[1](5)
    const %axis: i64[1](1)
    %a: f32[4,6] = Relu@14 "a"(%x)
    %s: f32[4,3] = Slice@13 "s"(%a, %start, %end, %axis)
    %b: f32[4,3] = Exp@13 "b"(%s)
    output "b" %b
    output "s" %s
  })";
  EXPECT_FALSE(TaskGraph(text).viewed("s"));
  const std::string inner = std::string(text).replace(text.find("  output \"s\" %s"), 15, "");
  EXPECT_TRUE(TaskGraph(inner).viewed("s"));
  EXPECT_FALSE(TaskGraph(inner, {"b"}).viewed("s")) << "its reader takes dense operands only";
}

TEST(Storage, RunsOfBlocksOfABlockedImageAreViews) {
  const TaskGraph p(R"(graph "g" {
    input %x: f32[2,24,3,3]{c8 halo1,1,1,1}
    const %start: i64[1](-8)
    const %end: i64[1](24)
    const %axis: i64[1](1)
    const %sizes: i64[2](8, 16)
    %a: f32[2,24,3,3]{c8 halo1,1,1,1} = Relu@14 "a"(%x)
    %b: f32[2,8,3,3]{c8 halo1,1,1,1}, %c: f32[2,16,3,3]{c8 halo1,1,1,1} = Split@13 "s" {axis=1}(%a, %sizes)
    %d: f32[2,8,3,3]{c8 halo1,1,1,1} = Slice@13 "d"(%a, %start, %end, %axis)
    %e: f32[2,8,3,3]{c8} = Add@14 "e"(%b, %d)
    %f: f32[2,16,3,3]{c8} = Relu@14 "f"(%c)
    %g: f32[2,24,3,3]{c8} = Concat@13 "g" {axis=1}(%e, %f)
    %h: f32[2,24,3,3] = kilter::Relayout@1 "h"(%g)
    output "h" %h
  })");
  EXPECT_EQ(p.copies(), Names{"h"}) << "the change of layout alone";
  EXPECT_TRUE(p.viewed("s"));
  EXPECT_TRUE(p.viewed("d"));
  for (const char* name : {"b", "c", "d"}) {
    EXPECT_EQ(p.root(name), "a");
    EXPECT_EQ(p.of(name).phys.strides, p.of("a").phys.strides) << name;
    EXPECT_EQ(p.of(name).phys.offset, p.of("a").phys.offset) << name;
  }
  EXPECT_EQ(p.of("b").offset_elems, 0);
  EXPECT_EQ(p.of("c").offset_elems, 5 * 5 * 8);
  EXPECT_EQ(p.of("d").offset_elems, 2 * 5 * 5 * 8);
  EXPECT_EQ(p.of("c").phys.dims, (Shape{2, 2, 3, 3, 8}));
}

TEST(Storage, SplitImageMayBePartOfAConcatenation) {
  // As in a YOLO block: the whole image, and values computed from its last part.
  const TaskGraph p(R"(graph "g" {
    input %x: f32[1,16,3,3]{c8}
    %a: f32[1,16,3,3]{c8} = Relu@14 "a"(%x)
    %b: f32[1,8,3,3]{c8}, %c: f32[1,8,3,3]{c8} = Split@18 "s" {axis=1, num_outputs=2}(%a)
    %d: f32[1,8,3,3]{c8} = Exp@13 "d"(%c)
    %e: f32[1,24,3,3]{c8} = Concat@13 "e" {axis=1}(%a, %d)
    %f: f32[1,24,3,3]{c8} = Relu@14 "f"(%e)
    %g: f32[1,8,3,3]{c8} = Add@14 "g"(%b, %d)
    %h: f32[1,24,3,3] = kilter::Relayout@1 "h"(%f)
    %i: f32[1,8,3,3] = kilter::Relayout@1 "i"(%g)
    output "h" %h
    output "i" %i
  })");
  EXPECT_EQ(p.copies(), (Names{"h", "i"})) << "the changes of layout alone";
  EXPECT_EQ(p.root("a"), "e");
  EXPECT_EQ(p.root("c"), "e");
  EXPECT_EQ(p.of("c").offset_elems, 3 * 3 * 8);
  EXPECT_EQ(p.of("d").offset_elems, 2 * 3 * 3 * 8);
}

TEST(Storage, ATransposeOfRowsIsWrittenByItsSource) {
  const TaskGraph p(R"(graph "g" {
    input %x: f32[2,3,5,4]
    %a: f32[2,3,5,4] = Relu@14 "a"(%x)
    %t: f32[2,5,3,4] = Transpose@13 "t" {perm=[0, 2, 1, 3]}(%a)
    %b: f32[2,5,3,4] = Softmax@13 "b"(%t)
    output "b" %b
  })");
  EXPECT_EQ(p.copies(), Names{});
  EXPECT_TRUE(p.viewed("t"));
  EXPECT_EQ(p.root("a"), "t");
  EXPECT_EQ(p.of("a").phys.strides, (Shape{60, 4, 12, 1}));
  EXPECT_EQ(p.of("t").phys.strides, (Shape{60, 12, 4, 1}));
}

TEST(Storage, ReshapesAreViewsWhereStridesAllowIt) {
  const TaskGraph p(R"(graph "g" {
    input %x: f32[2,6]
    const %four: i64[2](4, 3)
    const %flat: i64[1](12)
    const %end: i64[1](4)
    const %zero: i64[1](0)
    const %one: i64[1](1)
    const %eight: i64[1](8)
    %a: f32[2,6] = Relu@14 "a"(%x)
    %r: f32[4,3] = Reshape@14 "r"(%a, %four)
    %b: f32[4,3] = Exp@13 "b"(%r)
    %s: f32[2,4] = Slice@13 "s"(%a, %zero, %end, %one)
    %q: f32[8] = Reshape@14 "q"(%s, %eight)
    %c: f32[8] = Exp@13 "c"(%q)
    output "b" %b
    output "c" %c
  })");
  EXPECT_TRUE(p.viewed("r"));
  EXPECT_EQ(p.root("r"), "a");
  EXPECT_NE(p.root("q"), "a") << "rows of four of six are no vector";
}

TEST(Storage, NetworkOutputsHaveTheirOwnBuffers) {
  const TaskGraph p(R"(graph "g" {
    input %x: f32[2,3]
    const %k: f32[2](1, 2)
    const %six: i64[1](6)
    %a: f32[2,3] = Relu@14 "a"(%x)
    %r: f32[6] = Reshape@14 "r"(%a, %six)
    output "a" %a
    output "again" %a
    output "reshaped" %r
    output "input" %x
    output "constant" %k
  })");
  EXPECT_EQ(p.copies(), (Names{"a.output", "r.output", "x.output", "k.output"}));
  std::set<ValueId> roots;
  for (const Graph::Output& o : p.graph.outputs()) EXPECT_TRUE(roots.insert(p.map.of(o.value).root).second) << o.name;
}

TEST(Storage, StridedFramesAreViews) {
  const TaskGraph p(R"(graph "g" {
    input %x: f32[5,8,3,3]{c8 halo1,1,1,1}
    input %y: f32[1,8,3,3]{c8 halo1,1,1,1}
    %a: f32[5,8,3,3]{c8 halo1,1,1,1} = Relu@14 "a"(%x)
    %z: f32[1,8,3,3]{c8 halo1,1,1,1} = Exp@13 "z"(%y)
    %p: f32[6,8,3,3]{c8 halo1,1,1,1} = Concat@13 "p" {axis=0}(%z, %a)
    %f: f32[2,24,3,3]{c8 halo1,1,1,1} = kilter::Frames@1 "f" {first=1, count=2, stride=2, frames=3}(%p)
    %b: f32[2,24,3,3]{c8 halo1,1,1,1} = Relu@14 "b"(%f)
    output "b" %b
  })");
  EXPECT_EQ(p.copies(), Names{"b.output"});
  const int64_t frame = 5 * 5 * 8;
  EXPECT_EQ(p.root("a"), "p");
  EXPECT_EQ(p.root("f"), "p");
  EXPECT_EQ(p.of("f").offset_elems, frame);
  EXPECT_EQ(p.of("f").phys.strides, (Shape{2 * frame, frame, 40, 8, 1}));
  EXPECT_EQ(p.of("f").phys.elems, 5 * frame);
}

TEST(Storage, FramesOfSeveralVolumesOrOfPartsAreCopies) {
  const TaskGraph volumes(R"(graph "g" {
    input %x: f32[6,2,3,3]
    %a: f32[6,2,3,3] = Relu@14 "a"(%x)
    %f: f32[4,4,3,3] = kilter::Frames@1 "f" {volumes=2, count=2, frames=2}(%a)
    %b: f32[4,4,3,3] = Relu@14 "b"(%f)
    output "b" %b
  })");
  EXPECT_FALSE(volumes.viewed("f"));
  EXPECT_EQ(volumes.root("f"), "f");
  const TaskGraph part(R"(graph "g" {
    input %x: f32[3,8,3,3]{c8}
    %a: f32[3,8,3,3]{c8} = Relu@14 "a"(%x)
    %c: f32[3,8,3,3]{c8} = Exp@13 "c"(%x)
    %j: f32[3,16,3,3]{c8} = Concat@13 "j" {axis=1}(%a, %c)
    %f: f32[2,16,3,3]{c8} = kilter::Frames@1 "f" {count=2, frames=2}(%a)
    %b: f32[2,16,3,3]{c8} = Relu@14 "b"(%f)
    %d: f32[3,16,3,3]{c8} = Relu@14 "d"(%j)
    output "b" %b
    output "d" %d
  })");
  EXPECT_EQ(part.root("a"), "j");
  EXPECT_EQ(part.root("f"), "a.frames") << "frames of a part do not lie one after another";
  EXPECT_TRUE(part.viewed("f"));
}

/// Rows that are slices, transposes and parts of larger tensors. If a template cannot handle their strides, they are
/// copied.
void make_rows(SweepNet& net) {
  Draw& draw = net.draw;
  ValueId v = net.input({draw.between(1, 3), draw.between(2, 5), draw.between(2, 5), draw.pick({1, 3, 8, 17})});
  if (draw.chance(70)) v = net.b.add("Relu", {v});
  if (draw.chance(50)) v = net.b.add("Slice", {v, net.list({1}), net.list({net.shape(v)[2]}), net.list({2})});
  if (draw.chance(50)) v = net.b.add("Transpose", {v}, {{"perm", std::vector<int64_t>{0, 2, 1, 3}}});
  const Shape& s = net.shape(v);
  const int64_t axis = draw.between(1, 3);
  const Shape parameters(s.begin() + axis, s.end());
  switch (draw.between(0, 4)) {
    case 0: {
      GraphBuilder::Options options;
      options.opset = 11;
      v = net.b.add("Softmax", {v}, {{"axis", axis}}, options)[0];
      break;
    }
    case 1:
      v = net.b.add("LayerNormalization", {v, net.constant(parameters), net.constant(parameters)}, {{"axis", axis}});
      break;
    case 2:
      v = net.b.add("InstanceNormalization", {v, net.constant({s[1]}), net.constant({s[1]})});
      break;
    case 3:
      v = net.b.add("ReduceMax", {v, net.list({draw.between(0, 3)})}, {{"keepdims", int64_t{1}}});
      break;
    default:
      v = net.b.add("Softmax", {v}, {{"axis", int64_t{3}}});
      break;
  }
  v = net.elementwise(v);
  if (draw.chance(50)) v = net.b.add("Concat", {v, net.b.add("Relu", {v})}, {{"axis", draw.between(0, 3)}});
  net.output(v);
}

TEST(Storage, RowsOfAnyStridesAgreeWithTheReference) { sweep({"Rows", make_rows, 50}); }

TEST(Storage, TaskWithoutStrideSupportGetsDenseOperands) {
  const Graph graph = parse_graph(R"(graph "g" {
    input %x: f32[2,3,8]
    const %start: i64[1](2)
    const %end: i64[1](6)
    const %axis: i64[1](2)
    %a: f32[2,3,8] = Relu@14 "a"(%x)
    %s: f32[2,3,4] = Slice@11 "s"(%a, %start, %end, %axis)
    %b: f32[2,3,4] = Softmax@11 "b" {axis=1}(%s)
    output "b" %b
  })");
  SweepNet net(1);
  const std::vector<Tensor> inputs{net.draw.tensor({2, 3, 8})};
  const Compiled compiled = compile_for(graph, native_target());
  EXPECT_EQ(steps_text(compiled.plan),
            "\n  step a (Relu): map item=4096\n  step s (Slice): move_regions\n  step b (Softmax): softmax_rows rows=1 "
            "unroll=4");
  const auto program = std::make_shared<const Program>(compiled.plan);
  EXPECT_EQ(run_guarded(program, inputs, evaluate(graph, inputs), {.rtol = 1e-5, .atol = 1e-6}, 0), "");
}

}  // namespace
}  // namespace kilter
