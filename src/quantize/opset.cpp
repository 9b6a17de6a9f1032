#include "quantize/opset.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/text.h"
#include "onnx/forms.h"
#include "ops/op.h"

namespace kilter::quantize {
namespace {

/// An attribute that became the operand `input` of an operator in some version. Source: the operator change log of
/// ONNX.
struct Moved {
  std::string_view ops;
  std::string_view attribute;
  int32_t version;
  int input;
};
constexpr std::array kMoved = {
    Moved{"Squeeze Unsqueeze ReduceSum", "axes", 13, 1},
    Moved{"Split", "split", 13, 1},
    Moved{"ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSumSquare",
          "axes", 18, 1},
};

const Moved* moved(const pb::NodeProto& node, int64_t from, int64_t to) {
  for (const Moved& m : kMoved) {
    const auto ops = split_words(m.ops);
    if (m.version > from && m.version <= to && std::ranges::find(ops, node.op_type()) != ops.end()) return &m;
  }
  return nullptr;
}

/// Whether the node is a Softmax, LogSoftmax or Hardmax over the last axis, which means the same before and since opset
/// 13, where the default axis changed from 1 to -1.
bool over_last_axis(const pb::NodeProto& node, const Ranks& ranks) {
  static constexpr std::array<std::string_view, 3> kOps = {"Softmax", "LogSoftmax", "Hardmax"};
  if (std::ranges::find(kOps, node.op_type()) == kOps.end() || node.input_size() == 0) return false;
  const int64_t axis = int_attribute(node, "axis", 1);
  return axis == -1 || ranks(node.input(0)) == axis + 1;
}

/// An operator whose later versions accept every node of version `since` and on, or all without an
/// attribute whose value is `removed`. Source: the operator change log of ONNX.
struct Compatible {
  std::string_view op;
  int32_t since;
  std::string_view removed = {};
};
constexpr std::array kCompatible = {
    Compatible{"Constant", 1},
    Compatible{"BatchNormalization", 9},
    Compatible{"QuantizeLinear", 10},
    Compatible{"DequantizeLinear", 10},
    Compatible{"Pad", 11},
    Compatible{"Resize", 11, "tf_half_pixel_for_nn"},
};

bool still_legal(const pb::NodeProto& node, int64_t from) {
  const auto known = std::ranges::find(kCompatible, std::string_view(node.op_type()), &Compatible::op);
  if (known == kCompatible.end() || from < known->since) return false;
  return known->removed.empty() || std::none_of(node.attribute().begin(), node.attribute().end(),
                                                [&](const pb::AttributeProto& a) { return a.s() == known->removed; });
}

bool same_form(const pb::NodeProto& node, int64_t from, int64_t to) {
  Node probe;
  probe.op = find_op("", node.op_type(), static_cast<int32_t>(from));
  if (probe.op == nullptr) return false;
  probe.opset = static_cast<int32_t>(from);
  for (const auto& attribute : node.attribute()) probe.attrs[attribute.name()] = int64_t{0};
  return onnx::same_form(probe, to);
}

void move_attribute(Document& document, pb::NodeProto& node, const Moved& m) {
  auto& attributes = *node.mutable_attribute();
  const auto at = std::find_if(attributes.begin(), attributes.end(),
                               [&](const pb::AttributeProto& a) { return a.name() == m.attribute; });
  if (at == attributes.end()) return;
  const std::vector<int64_t> values(at->ints().begin(), at->ints().end());
  attributes.erase(at);
  while (node.input_size() < m.input) node.add_input("");
  node.add_input(document.add(fmt::format("{}_{}", node_name(node), m.attribute),
                              Tensor::of<int64_t>({static_cast<int64_t>(values.size())}, std::span(values))));
}

class Raiser {
 public:
  Raiser(Document& document, int64_t to, const Ranks& ranks) : document_(document), to_(to), ranks_(ranks) {}

  /// Returns the node that has no form in the new version; nullptr if all have one.
  const pb::NodeProto* run(Nodes& nodes) {
    for (auto& node : nodes) {
      for (auto& attribute : *node.mutable_attribute()) {
        const pb::NodeProto* bad = attribute.has_g() ? run(*attribute.mutable_g()->mutable_node()) : nullptr;
        if (bad != nullptr) return bad;
      }
      if (!onnx::normal_domain(node.domain()).empty() || still_legal(node, from_)) continue;
      if (counts_outputs(node)) set_attribute(node, "num_outputs", int64_t{node.output_size()});
      if (const Moved* m = moved(node, from_, to_)) {
        move_attribute(document_, node, *m);
      } else if (over_last_axis(node, ranks_)) {
        set_attribute(node, "axis", int64_t{-1});
      } else if (!same_form(node, from_, to_)) {
        return &node;
      }
    }
    return nullptr;
  }

 private:
  /// Whether the node is a Split into equal parts. Since opset 18, it must say how many.
  bool counts_outputs(const pb::NodeProto& node) const {
    return node.op_type() == "Split" && from_ < 18 && to_ >= 18 && node.input_size() < 2 &&
           find_attribute(node, "split") == nullptr;
  }

  Document& document_;
  int64_t from_ = document_.opset(), to_;
  const Ranks& ranks_;
};

}  // namespace

void raise_opset(Document& document, int64_t version, const Ranks& ranks, const std::string& why,
                 const std::string& instead) {
  const int64_t from = document.opset();
  if (from >= version) return;
  if (document.proto().functions_size() > 0) {
    fail(ErrorKind::unsupported,
         "{}: {} needs opset {}, the model has {}, and it contains functions, which Kilter does not convert; export "
         "the model for opset {}{}",
         document.file(), why, version, from, version, instead);
  }
  if (const pb::NodeProto* bad = Raiser(document, version, ranks).run(document.nodes())) {
    fail(
        ErrorKind::unsupported,
        "{}: {} needs opset {}, the model has {}, and {} '{}' has a different form in opset {}; convert the model with "
        "onnx.version_converter.convert_version(model, {}){}",
        document.file(), why, version, from, op_name(*bad), printable(node_name(*bad)), version, version, instead);
  }
  document.set_opset(version);
}

}  // namespace kilter::quantize
