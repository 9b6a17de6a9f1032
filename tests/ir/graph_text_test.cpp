// The graph's text form: parse_graph() reads the output of print() back to the same graph; malformed text gives one
// clear error.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <string>

#include "graph/graph.h"
#include "graph/text.h"
#include "ops/op.h"

namespace kilter {
namespace {

const OpDef* op(std::string_view name) { return find_op("", name, 17); }

TEST(GraphText, PrintsOneLinePerNode) {
  Graph g;
  g.name = "small";
  const ValueId x = g.add_input("x", {DType::f32, {1, 16, 4, 4}, {}});
  const ValueId k = g.add_constant("k", Tensor::of<float>({2}, {1, 2.5F}));
  const ValueId big = g.add_constant("big", Tensor(DType::f32, {17}));
  const TensorType blocked{DType::f32, {1, 16, 4, 4}, {.block = 16, .halo = {1, 1, 1, 1}}};
  const NodeId a = g.add_node(op("Relu"), "r 1", 17, {{"alpha", 0.5F}, {"n", int64_t{3}}}, {x}, {blocked}, {"a:0"});
  const NodeId b = g.add_node(op("Add"), "b", 17, {}, {g.node(a).outputs[0], k}, {blocked}, {"b"});
  g.change_node(b).group = 4;
  g.add_output(g.node(b).outputs[0], "y");
  g.add_output(big, "z");
  EXPECT_EQ(print(g),
            fmt::format("graph \"small\" {{\n"
                        "  input %x: f32[1,16,4,4]\n"
                        "  const %k: f32[2](1, 2.5)\n"
                        "  const %big: f32[17]#{:016x}\n"
                        "  %\"a:0\": f32[1,16,4,4]{{c16 halo1,1,1,1}} = Relu@17 \"r 1\" {{alpha=0.5, n=3}}(%x)\n"
                        "  %b: f32[1,16,4,4]{{c16 halo1,1,1,1}} = Add@17 \"b\"(%\"a:0\", %k) group 4\n"
                        "  output \"y\" %b\n"
                        "  output \"z\" %big\n"
                        "}}\n",
                        content_hash(Tensor(DType::f32, {17}))));
  EXPECT_EQ(print(parse_graph(print(g))), print(g));
}

/// Prints a graph, reads it and prints it again. Returns the graph that was read.
Graph round_trip(const Graph& g, const std::map<std::string, Tensor>& constants = {}) {
  const std::string text = print(g);
  Graph read = parse_graph(text, constants);
  EXPECT_EQ(print(read), text);
  return read;
}

TEST(GraphText, NamesWithAnyBytes) {
  for (const std::string& name :
       {std::string("with space"), std::string("quo\"te\\back"), std::string("line\nend\ttab"),
        std::string("a\0b\x01\x7f", 5), std::string("gr\xc3\xbc\xc3\x9f"), std::string("_"), std::string("%x"),
        std::string("{}()[],=#:@"), std::string("-1.5/e+3")}) {
    Graph g;
    g.name = name;
    const ValueId x = g.add_input(name, {DType::f32, {1}, {}});
    const NodeId a =
        g.add_node(op("Relu"), name, 17, {{name, int64_t{1}}, {"s", name}}, {x}, {g.type(x)}, {name + "2"});
    g.add_output(g.node(a).outputs[0], name);
    const Graph read = round_trip(g);
    EXPECT_EQ(read.name, name);
    EXPECT_EQ(read.value(0).name, name);
    EXPECT_EQ(read.node(0).name, name);
    EXPECT_EQ(read.node(0).string_attr("s", ""), name);
    EXPECT_EQ(read.outputs()[0].name, name);
  }
}

TEST(GraphText, AttributesOfEveryType) {
  Graph g;
  const ValueId x = g.add_input("x", {DType::f32, {1}, {}});
  Attrs attrs;
  attrs["int"] = std::numeric_limits<int64_t>::min();
  attrs["float"] = 1.0F;
  attrs["third"] = 1.0F / 3.0F;
  attrs["tiny"] = std::numeric_limits<float>::denorm_min();
  attrs["minus_zero"] = -0.0F;
  attrs["inf"] = -std::numeric_limits<float>::infinity();
  attrs["string"] = std::string("a, \"b\"}");
  attrs["ints"] = std::vector<int64_t>{1, -2, 3};
  attrs["floats"] = std::vector<float>{1.0F, 1e30F, -0.25F};
  attrs["strings"] = std::vector<std::string>{"", "]", "nan"};
  attrs["no_ints"] = std::vector<int64_t>{};
  attrs["no_floats"] = std::vector<float>{};
  attrs["no_strings"] = std::vector<std::string>{};
  attrs["tensor"] = Tensor::of<int64_t>({2, 2}, {1, 2, 3, std::numeric_limits<int64_t>::max()});
  attrs["empty"] = Tensor(DType::f16, {0, 3});
  attrs["large"] = Tensor(DType::f32, {100});
  g.add_node(op("Relu"), "r", 17, attrs, {x}, {g.type(x)});
  const Graph read = round_trip(g);
  const Attrs& got = read.node(0).attrs;
  ASSERT_EQ(got.size(), attrs.size());
  for (const auto& [key, attr] : attrs) {
    ASSERT_EQ(got.at(key).index(), attr.index()) << key;
    if (const auto* tensor = std::get_if<Tensor>(&attr)) {
      EXPECT_TRUE(std::get<Tensor>(got.at(key)).same(*tensor)) << key;
    } else if (const auto* real = std::get_if<float>(&attr)) {
      EXPECT_EQ(std::bit_cast<uint32_t>(std::get<float>(got.at(key))), std::bit_cast<uint32_t>(*real)) << key;
    } else {
      EXPECT_EQ(attr_text(got.at(key)), attr_text(attr)) << key;
    }
  }
}

TEST(GraphText, ConstantsOfEveryTypeKeepTheirBits) {
  std::mt19937_64 random(7);  // NOLINT(cert-msc51-cpp): the test must repeat
  Graph g;
  std::vector<Tensor> tensors;
  for (const DType type : {DType::f32, DType::f64, DType::f16, DType::bf16, DType::i8, DType::i16, DType::i32,
                           DType::i64, DType::u8, DType::u16, DType::u32, DType::u64}) {
    for (int repeat = 0; repeat < 20; ++repeat) {
      Tensor t(type, {4, 4});
      for (int64_t i = 0; i < t.bytes(); ++i) t.raw()[i] = static_cast<std::byte>(random());
      tensors.push_back(t);
    }
  }
  tensors.push_back(Tensor::of<bool>({3}, {true, false, true}));
  tensors.push_back(
      Tensor::of<float>({2}, {std::numeric_limits<float>::quiet_NaN(), std::bit_cast<float>(0xff812345U)}));
  Tensor words(DType::string, {2});
  words.strings() = {"a \"quoted\" word", ""};
  tensors.push_back(words);
  tensors.push_back(Tensor::scalar<float>(3));
  tensors.push_back(Tensor(DType::i64, {0}));
  for (const Tensor& t : tensors) g.add_constant("c", t);
  const Graph read = round_trip(g);
  for (size_t i = 0; i < tensors.size(); ++i) {
    EXPECT_TRUE(read.value(static_cast<ValueId>(i)).constant->same(tensors[i])) << tensor_text(tensors[i]);
  }
}

TEST(GraphText, ConstantsKeepTheirLayout) {
  Graph g;
  g.change_value(g.add_constant("small", Tensor::of<float>({1, 2}, {1, 2}))).type.layout.block = 8;
  g.change_value(g.add_constant("large", Tensor(DType::f32, {3, 40}))).type.layout.block = 16;
  const Graph read = round_trip(g);
  EXPECT_EQ(text(read.type(0)), "f32[1,2]{c8}");
  EXPECT_EQ(text(read.type(1)), "f32[3,40]{c16}");
  EXPECT_TRUE(read.value(0).constant->same(Tensor::of<float>({1, 2}, {1, 2})));
}

TEST(GraphText, LargeConstantsComeFromTheMapOrAreZeros) {
  Tensor big(DType::f32, {5, 5});
  for (int64_t i = 0; i < 25; ++i) big.data<float>()[i] = static_cast<float>(i);
  Graph g;
  g.add_constant("w", big);
  const Graph read = round_trip(g, {{"w", big}});
  EXPECT_TRUE(read.value(0).constant->same(big));
  const Graph zeros = parse_graph(print(g));
  EXPECT_TRUE(zeros.value(0).constant->same(Tensor(DType::f32, {5, 5})));
  EXPECT_NE(content_hash(big), content_hash(Tensor(DType::f32, {5, 5})));
}

TEST(GraphText, OperandsLeftOut) {
  Graph g;
  const ValueId x = g.add_input("x", {DType::f32, {1}, {}});
  g.add_node(op("Clip"), "c", 17, {}, {x, kNone, x}, {g.type(x)}, {"y"});
  const std::string text = print(g);
  EXPECT_NE(text.find("(%x, _, %x)"), std::string::npos) << text;
  const Graph read = round_trip(g);
  EXPECT_EQ(read.node(0).inputs, (std::vector<ValueId>{0, kNone, 0}));
}

std::string parse_error(const std::string& text) {
  try {
    parse_graph(text, {{"given", Tensor(DType::f32, {20})}});
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::bad_input);
    return error.message();
  }
  return "no error";
}

TEST(GraphText, MalformedText) {
  EXPECT_EQ(parse_error(""), "graph text, line 1, column 1: expected 'graph', got the end of the text");
  EXPECT_EQ(parse_error("grape \"g\" {}"), "graph text, line 1, column 1: expected 'graph', got \"grape\"");
  EXPECT_EQ(parse_error("graph g {}"), "graph text, line 1, column 7: expected a quoted text, got \"g\"");
  EXPECT_EQ(
      parse_error("graph \"g\" {"),
      "graph text, line 1, column 12: expected 'input', 'const', 'output', a node or '}', got the end of the text");
  EXPECT_EQ(parse_error("graph \"g {}"), "graph text, line 1, column 7: the quoted text that starts here has no end");
  EXPECT_EQ(parse_error("graph \"\\q\" {}"),
            "graph text, line 1, column 7: the quoted text has an escape other than \\n, \\t, \\\", \\\\ and \\xHH "
            "(lower-case hex)");
  EXPECT_EQ(parse_error("graph \"g\" {} x"), "graph text, line 1, column 14: expected the end of the text, got \"x\"");
  EXPECT_EQ(parse_error("graph \"g\" {\n  input x: f32[1]\n}"),
            "graph text, line 2, column 9: expected '%', got \"x\"");
  EXPECT_EQ(parse_error("graph \"g\" {\n  input %x: f31[1]\n}"),
            "graph text, line 2, column 13: expected an element type (f32, f64, f16, bf16, i8 to i64, u8 to u64, bool, "
            "str, or "
            "a narrow type such as i4), got \"f31\"");
  EXPECT_EQ(parse_error("graph \"g\" {\n  input %x: f32[1,a]\n}"),
            "graph text, line 2, column 19: expected a dimension, got \"a\"");
  EXPECT_EQ(parse_error("graph \"g\" {\n  input %x: f32[-1]\n}"),
            "graph text, line 2, column 17: expected a dimension of 0 or more, got -1");
  EXPECT_EQ(
      parse_error("graph \"g\" {\n  input %x: f32[1099511627776,2]\n}"),
      "graph text, line 2, column 16: shape 1099511627776x2 has more than 2^40 elements; the limit is 2^40 per tensor");
  EXPECT_EQ(
      parse_error("graph \"g\" {\n  input %x: f32[3]{c16}\n}"),
      "graph text, line 2, column 19: this layout does not fit the shape: a block needs rank 2 or more, a halo rank 4");
  EXPECT_EQ(parse_error("graph \"g\" {\n  input %x: f32[3]\n  input %x: f32[3]\n}"),
            "graph text, line 3, column 10: value %x is defined twice");
  EXPECT_EQ(parse_error("graph \"g\" {\n  const %k: f32[2](1, x)\n}"),
            "graph text, line 2, column 23: expected a value of type f32, got 'x'");
  EXPECT_EQ(parse_error("graph \"g\" {\n  const %k: u8[1](256)\n}"),
            "graph text, line 2, column 19: expected a value of type u8, got '256'");
  EXPECT_EQ(parse_error("graph \"g\" {\n  const %k: i32[2](1, 2, 3)\n}"),
            "graph text, line 2, column 24: expected ')' after 2 values, got \",\"");
  EXPECT_EQ(parse_error("graph \"g\" {\n  const %k: f32[17](1)\n}"),
            "graph text, line 2, column 20: expected '#' and a hash, got \"(\"");
  EXPECT_EQ(parse_error("graph \"g\" {\n  const %given: f32[17]#00\n}"),
            "graph text, line 2, column 25: tensor 'given' is f32[17], but the one given for it is f32[20]");
}

std::string node_error_text(const std::string& line) {
  const std::string message = parse_error("graph \"g\" {\n  input %x: f32[2]\n" + line + "\n}\n");
  const std::string prefix = "graph text, line 3, ";
  return message.starts_with(prefix) ? message.substr(prefix.size()) : message;
}

TEST(GraphText, MalformedNodes) {
  EXPECT_EQ(node_error_text("%y: f32[2] = Reluu@17 \"r\"(%x)"),
            "column 20: unknown operator \"Reluu\" of domain \"ai.onnx\" at opset 17");
  EXPECT_EQ(node_error_text("%y: f32[2] = far::Relu@17 \"r\"(%x)"),
            "column 24: unknown operator \"Relu\" of domain \"far\" at opset 17");
  EXPECT_EQ(node_error_text("%y: f32[2] = Relu \"r\"(%x)"), "column 19: expected '@', got \"\\\"\"");
  EXPECT_EQ(node_error_text("%y: f32[2] = Relu@x \"r\"(%x)"), "column 19: expected an opset, got \"x\"");
  EXPECT_EQ(node_error_text("%y: f32[2] = Relu@17 \"r\"(%z)"), "column 27: value %z is not defined above");
  EXPECT_EQ(node_error_text("%y: f32[2] = Relu@17 \"r\"(%y)"), "column 27: value %y is not defined above");
  EXPECT_EQ(node_error_text("%x: f32[2] = Relu@17 \"r\"(%x)"), "column 2: value %x is defined twice");
  EXPECT_EQ(node_error_text("%y = Relu@17 \"r\"(%x)"), "column 4: expected ':', got \"=\"");
  EXPECT_EQ(node_error_text("%y: f32[2] = Relu@17 \"r\" {a=}(%x)"),
            "column 29: expected an attribute value, got \"}\"");
  EXPECT_EQ(node_error_text("%y: f32[2] = Relu@17 \"r\" {a=1, a=2}(%x)"), "column 32: attribute 'a' is given twice");
  EXPECT_EQ(node_error_text("%y: f32[2] = Relu@17 \"r\" {a=[1, 2.5]}(%x)"),
            "column 33: expected a whole number like those before it in the list");
  EXPECT_EQ(node_error_text("%y: f32[2] = Relu@17 \"r\"(%x) group g"),
            "column 36: expected a group's number, got \"g\"");
  EXPECT_EQ(node_error_text("%y: f32[2] = Relu@17 \"r\"(%x)\n%z: f32[2] = Relu@17 \"r\"(%x)"),
            "graph text, line 4, column 22: node \"r\" is defined twice");
  EXPECT_EQ(node_error_text("%y: f32[2] = Relu@17 \"r\"()"),
            "graph text: graph 'g' is invalid: Relu 'r' has 0 inputs, expected 1 or more");
  EXPECT_EQ(node_error_text("output \"o\" %x\noutput \"o\" %x"),
            "graph text, line 4, column 8: output \"o\" is defined twice");
}

TEST(GraphText, EveryPrefixAndEveryChangedByteIsAnErrorOrAGraph) {
  Graph g;
  g.name = "g";
  const ValueId x = g.add_input("x", {DType::f32, {1, 16, 2, 2}, {.block = 8, .halo = {1, 0, 1, 0}}});
  const ValueId k = g.add_constant("k", Tensor::of<float>({2}, {1, std::nanf("")}));
  g.add_node(op("Add"), "n\"1", 17, {{"a", std::vector<float>{1, 2}}, {"t", Tensor::of<bool>({1}, {true})}}, {x, k},
             {g.type(x)}, {"y z"});
  const std::string text = print(g);
  int graphs = 0;
  const auto read = [&](const std::string& changed) {
    try {
      verify(parse_graph(changed));
      ++graphs;
    } catch (const Error& error) {
      EXPECT_NE(error.kind(), ErrorKind::internal) << changed << error.message();
    }
  };
  for (size_t n = 0; n + 2 < text.size(); ++n) read(text.substr(0, n));
  EXPECT_EQ(graphs, 0);
  for (size_t i = 0; i < text.size(); ++i) {
    for (const char c : {'0', '9', '"', '%', '-', ' ', '(', '}', 'n', '\\', '_'}) {
      std::string changed = text;
      changed[i] = c;
      read(changed);
    }
  }
  EXPECT_GT(graphs, 0);
}

}  // namespace
}  // namespace kilter
