#include "vm/reference_steps.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <exception>
#include <new>
#include <nlohmann/json.hpp>
#include <span>

#include "base/json_text.h"
#include "exec/executor.h"
#include "ops/op.h"
#include "ops/support/builder.h"

namespace kilter {
namespace {

using nlohmann::json;

// The inverse of make_reference_call() in compile/reference_call.h.

float float_from(const json& j) {
  if (j.is_number()) return j.get<float>();
  const auto hex = j.get<std::string>();
  uint32_t bits = 0;
  const auto [end, fault] = std::from_chars(hex.data(), hex.data() + hex.size(), bits, 16);
  require(fault == std::errc() && end == hex.data() + hex.size(),
          "float attribute is '{}', expected bits in hexadecimal", hex);
  return std::bit_cast<float>(bits);
}

std::string string_from(const json& j) {
  if (j.is_string()) return j.get<std::string>();
  const auto bytes = j.get<std::vector<uint8_t>>();
  return {bytes.begin(), bytes.end()};
}

template <class T, class F>
std::vector<T> list_from(const json& j, F each) {
  std::vector<T> out;
  for (const json& one : j) out.push_back(each(one));
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
    fail(ErrorKind::unsupported,
         "{} '{}': the plan needs the reference kernel of operator {} at opset {}, which this library does not have; "
         "run it with the full Kilter library of the version that compiled it",
         call.op, call.name, call.domain.empty() ? call.op : call.domain + ":" + call.op, call.opset);
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
  check_node(made.node);
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
  } catch (const Error&) {
    throw;
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& e) {
    fail(ErrorKind::bad_input, "the attributes that the plan has for operator {} cannot be read: {}", call.op,
         e.what());
  }
}

}  // namespace

void install_reference_kernels() { set_reference_maker(make_kernel); }

}  // namespace kilter
