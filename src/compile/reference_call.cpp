#include "compile/reference_call.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <span>

#include "base/json_text.h"
#include "compile/compile.h"
#include "exec/executor.h"
#include "ops/support/builder.h"

namespace kilter {
namespace {

using nlohmann::json;

/// A finite float as a number, any other as its bits in hexadecimal, since JSON has no numbers for these.
json float_json(float value) {
  if (std::isfinite(value)) return value;
  return fmt::format("{:08x}", std::bit_cast<uint32_t>(value));
}

float float_from(const json& j) {
  if (j.is_number()) return j.get<float>();
  const auto hex = j.get<std::string>();
  uint32_t bits = 0;
  const auto [end, fault] = std::from_chars(hex.data(), hex.data() + hex.size(), bits, 16);
  require(fault == std::errc() && end == hex.data() + hex.size(),
          "float attribute is '{}', expected bits in hexadecimal", hex);
  return std::bit_cast<float>(bits);
}

/// A string as text, or as a list of bytes if it may not be UTF-8.
json string_json(const std::string& text) {
  if (std::ranges::all_of(text, [](char c) { return static_cast<unsigned char>(c) < 0x80; })) return text;
  return std::vector<uint8_t>(text.begin(), text.end());
}

std::string string_from(const json& j) {
  if (j.is_string()) return j.get<std::string>();
  const auto bytes = j.get<std::vector<uint8_t>>();
  return {bytes.begin(), bytes.end()};
}

template <class T, class F>
json list_json(const std::vector<T>& all, F each) {
  json out = json::array();
  for (const T& one : all) out.push_back(each(one));
  return out;
}

template <class T, class F>
std::vector<T> list_from(const json& j, F each) {
  std::vector<T> out;
  for (const json& one : j) out.push_back(each(one));
  return out;
}

json tensor_json(const Tensor& t) {
  json out{{"dtype", name(t.dtype())}, {"shape", t.shape()}};
  if (t.dtype() == DType::string) {
    out["strings"] = list_json(t.strings(), string_json);
  } else {
    out["bytes"] = std::vector<uint8_t>(reinterpret_cast<const uint8_t*>(t.raw()),
                                        reinterpret_cast<const uint8_t*>(t.raw()) + t.bytes());
  }
  return out;
}

Tensor tensor_from(const json& j) {
  Tensor t(parse_dtype(j.at("dtype").get<std::string>()).value(), j.at("shape").get<Shape>());
  if (t.dtype() == DType::string) {
    t.strings() = list_from<std::string>(j.at("strings"), string_from);
    return t;
  }
  const auto bytes = j.at("bytes").get<std::vector<uint8_t>>();
  require(static_cast<int64_t>(bytes.size()) == t.bytes(), "tensor attribute has {} bytes, expected {}", bytes.size(),
          t.bytes());
  std::copy(bytes.begin(), bytes.end(), reinterpret_cast<uint8_t*>(t.raw()));
  return t;
}

struct ToJson {
  json operator()(const Tensor& t) const { return tensor_json(t); }
  json operator()(float value) const { return float_json(value); }
  json operator()(const std::vector<float>& all) const { return list_json(all, float_json); }
  json operator()(const std::string& text) const { return string_json(text); }
  json operator()(const std::vector<std::string>& all) const { return list_json(all, string_json); }
  json operator()(int64_t value) const { return value; }
  json operator()(const std::vector<int64_t>& all) const { return all; }
};

Attr attr_from(const std::string& type, const json& v) {
  if (type == "int") return v.get<int64_t>();
  if (type == "float") return float_from(v);
  if (type == "string") return string_from(v);
  if (type == "ints") return v.get<std::vector<int64_t>>();
  if (type == "floats") return list_from<float>(v, float_from);
  if (type == "strings") return list_from<std::string>(v, string_from);
  return tensor_from(v);
}

/// A call whose attributes have been parsed.
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
  made.node.name = call.name;
  made.node.opset = call.opset;
  const json attrs = parse_json(call.attrs);
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
    fail(ErrorKind::bad_input, "the attributes that the plan has for operator {} cannot be read: {}", call.op,
         e.what());
  }
}

}  // namespace

ReferenceCall make_reference_call(const Graph& graph, const Node& node) {
  ReferenceCall call;
  call.op = node.op->name;
  call.domain = node.op->domain;
  call.name = node.name;
  call.opset = node.opset;
  json attrs = json::object();
  for (const auto& [key, attr] : node.attrs) attrs[key] = json::array({attr_type(attr), std::visit(ToJson{}, attr)});
  call.attrs = json_text(attrs);
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

void install_reference_kernels() { set_reference_maker(make_kernel); }

}  // namespace kilter
