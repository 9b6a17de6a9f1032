#include "compile/reference_call.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/json_text.h"
#include "compile/compile.h"
#include "ops/op.h"

namespace kilter {
namespace {

using nlohmann::json;

/// A finite float as a number, any other as its bits in hexadecimal, since JSON cannot represent these.
json float_json(float value) {
  if (std::isfinite(value)) return value;
  return fmt::format("{:08x}", std::bit_cast<uint32_t>(value));
}

/// A string as text, or as a list of bytes if it might not be valid UTF-8.
json string_json(const std::string& text) {
  if (std::ranges::all_of(text, [](char c) { return static_cast<unsigned char>(c) < 0x80; })) return text;
  return std::vector<uint8_t>(text.begin(), text.end());
}

template <class T, class F>
json list_json(const std::vector<T>& all, F each) {
  json out = json::array();
  for (const T& one : all) out.push_back(each(one));
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

struct ToJson {
  json operator()(const Tensor& t) const { return tensor_json(t); }
  json operator()(float value) const { return float_json(value); }
  json operator()(const std::vector<float>& all) const { return list_json(all, float_json); }
  json operator()(const std::string& text) const { return string_json(text); }
  json operator()(const std::vector<std::string>& all) const { return list_json(all, string_json); }
  json operator()(int64_t value) const { return value; }
  json operator()(const std::vector<int64_t>& all) const { return all; }
};

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

}  // namespace kilter
