#include "compile/reference_call.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <span>

#include "compile/compile.h"
#include "exec/executor.h"
#include "ops/builder.h"

namespace kilter {
namespace {

using nlohmann::json;

json tensor_json(const Tensor& t) {
  json out{{"dtype", name(t.dtype())}, {"shape", t.shape()}};
  if (t.dtype() == DType::string) {
    out["strings"] = t.strings();
  } else {
    out["bytes"] = std::vector<uint8_t>(reinterpret_cast<const uint8_t*>(t.raw()),
                                        reinterpret_cast<const uint8_t*>(t.raw()) + t.bytes());
  }
  return out;
}

Tensor tensor_from(const json& j) {
  Tensor t(parse_dtype(j.at("dtype").get<std::string>()).value(), j.at("shape").get<Shape>());
  if (t.dtype() == DType::string) {
    t.strings() = j.at("strings").get<std::vector<std::string>>();
    return t;
  }
  const auto bytes = j.at("bytes").get<std::vector<uint8_t>>();
  require(static_cast<int64_t>(bytes.size()) == t.bytes(), "tensor attribute holds {} bytes, expected {}", bytes.size(),
          t.bytes());
  std::copy(bytes.begin(), bytes.end(), reinterpret_cast<uint8_t*>(t.raw()));
  return t;
}

struct ToJson {
  json operator()(const Tensor& t) const { return tensor_json(t); }
  json operator()(const SubgraphAttr&) const {
    fail(ErrorKind::unsupported, "a node with a subgraph has no reference kernel");
  }
  template <class T>
  json operator()(const T& v) const {
    return v;
  }
};

Attr attr_from(const std::string& type, const json& v) {
  if (type == "int") return v.get<int64_t>();
  if (type == "float") return v.get<float>();
  if (type == "string") return v.get<std::string>();
  if (type == "ints") return v.get<std::vector<int64_t>>();
  if (type == "floats") return v.get<std::vector<float>>();
  if (type == "strings") return v.get<std::vector<std::string>>();
  return tensor_from(v);
}

/// A call made ready: its attributes are read once.
struct Prepared {
  Node node;
  std::vector<TensorType> output_types;
};

Prepared prepare(const ReferenceCall& call) {
  Prepared made;
  made.node.op = find_op(call.domain, call.op, call.opset);
  if (made.node.op == nullptr)
    fail(ErrorKind::bad_input, "the plan needs operator {}:{}@{}, which this build of Kilter lacks", call.domain,
         call.op, call.opset);
  made.node.name = call.op;
  made.node.opset = call.opset;
  const json attrs = json::parse(call.attrs);
  for (const auto& [key, value] : attrs.items())
    made.node.attrs[key] = attr_from(value.at(0).get<std::string>(), value.at(1));
  ValueId id = 0;
  for (const auto& in : call.inputs) made.node.inputs.push_back(in.present ? id++ : kNone);
  for (const auto& out : call.outputs) {
    made.node.outputs.push_back(out.present ? id++ : kNone);
    made.output_types.push_back({out.type, out.shape, {}});
  }
  return made;
}

void run_call(const ReferenceCall& call, const Prepared& prepared, std::span<std::byte* const> buffers) {
  size_t next = 0;
  std::vector<Tensor> inputs;
  const auto tensor = [&](const ReferenceCall::Operand& o) {
    return Tensor(o.type, o.shape, buffers[next++], nullptr);
  };
  for (const auto& in : call.inputs) inputs.push_back(in.present ? tensor(in) : Tensor());
  const std::vector<Tensor> outputs = run_reference(prepared.node, inputs, prepared.output_types);
  for (size_t i = 0; i < call.outputs.size(); ++i) {
    if (!call.outputs[i].present) continue;
    std::copy_n(outputs[i].raw(), outputs[i].bytes(), buffers[next++]);
  }
}

ReferenceKernel make_kernel(const ReferenceCall& call) {
  try {
    return
        [&call, prepared = prepare(call)](std::span<std::byte* const> buffers) { run_call(call, prepared, buffers); };
  } catch (const json::exception& e) {
    fail(ErrorKind::bad_input, "the plan's attributes of operator {} cannot be read: {}", call.op, e.what());
  }
}

}  // namespace

ReferenceCall make_reference_call(const Graph& graph, const Node& node) {
  ReferenceCall call;
  call.op = node.op->name;
  call.domain = node.op->domain;
  call.opset = node.opset;
  json attrs = json::object();
  for (const auto& [key, attr] : node.attrs) attrs[key] = json::array({attr_type(attr), std::visit(ToJson{}, attr)});
  call.attrs = attrs.dump();
  const auto operand = [&](ValueId v) {
    ReferenceCall::Operand o;
    if (v == kNone) return o;
    o.present = true;
    o.type = graph.type(v).dtype;
    o.shape = graph.type(v).shape;
    if (o.type == DType::string)
      fail(ErrorKind::unsupported, "{}: string tensors exist at compile time only", label(node));
    return o;
  };
  for (ValueId v : node.inputs) call.inputs.push_back(operand(v));
  for (ValueId v : node.outputs) call.outputs.push_back(operand(v));
  return call;
}

void install_reference_runner() { set_reference_maker(make_kernel); }

}  // namespace kilter
