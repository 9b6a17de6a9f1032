#include "onnx/attributes.h"

#include "base/error.h"

namespace kilter::onnx {
namespace {

Attr read_attr(const pb::AttributeProto& attribute, const ModelData& model, const std::string& what) {
  switch (attribute.type()) {
    case kIntAttr:
      return attribute.i();
    case kFloatAttr:
      return attribute.f();
    case kStringAttr:
      return attribute.s();
    case kIntsAttr:
      return std::vector<int64_t>(attribute.ints().begin(), attribute.ints().end());
    case kFloatsAttr:
      return std::vector<float>(attribute.floats().begin(), attribute.floats().end());
    case kStringsAttr:
      return std::vector<std::string>(attribute.strings().begin(), attribute.strings().end());
    case kTensorAttr:
      return model.tensors.at(&attribute.t());
    case kSparseTensorAttr:
      return model.tensors.at(&attribute.sparse_tensor().values());
    default:
      fail(ErrorKind::unsupported, "{}: {}: attribute {} is a {}; Kilter reads numbers, strings, tensors and graphs",
           model.file, what, quote(attribute.name()), attribute_kind_name(attribute.type()));
  }
}

int32_t kind_of(const Attr& attr) {
  struct Kind {
    int32_t operator()(int64_t) const { return kIntAttr; }
    int32_t operator()(float) const { return kFloatAttr; }
    int32_t operator()(const std::string&) const { return kStringAttr; }
    int32_t operator()(const std::vector<int64_t>&) const { return kIntsAttr; }
    int32_t operator()(const std::vector<float>&) const { return kFloatsAttr; }
    int32_t operator()(const std::vector<std::string>&) const { return kStringsAttr; }
    int32_t operator()(const Tensor&) const { return kTensorAttr; }
  };
  return std::visit(Kind{}, attr);
}

}  // namespace

Attrs read_attrs(const pb::NodeProto& node, const ModelData& model, const Attrs* call) {
  Attrs attrs;
  for (const auto& attribute : node.attribute()) {
    if (attribute.type() == kGraphAttr || attribute.type() == kTypeAttr) continue;
    if (attribute.ref_attr_name().empty()) {
      attrs.emplace(attribute.name(), read_attr(attribute, model, node_text(node)));
      continue;
    }
    require(call != nullptr, "{}: attribute {} refers to an attribute of a function, but is not inside a function",
            node_text(node), attribute.name());
    const auto given = call->find(attribute.ref_attr_name());
    if (given == call->end()) continue;
    const int32_t kind = kind_of(given->second);
    const int32_t declared = attribute.type() == kSparseTensorAttr ? kTensorAttr : attribute.type();
    if (declared != kUndefinedAttr && declared != kind) {
      fail(ErrorKind::bad_model, "{}: {}: attribute {} is {}, but the call gives {} as {}", model.file, node_text(node),
           quote(attribute.name()), attribute_kind_name(attribute.type()), quote(attribute.ref_attr_name()),
           attribute_kind_name(kind));
    }
    attrs.emplace(attribute.name(), given->second);
  }
  return attrs;
}

Attrs call_attrs(const pb::NodeProto& node, const Function& function, const ModelData& model, Attrs given) {
  for (const auto& fallback : function.proto->attribute_proto()) {
    if (given.find(fallback.name()) == given.end()) {
      given.emplace(fallback.name(), read_attr(fallback, model, node_text(node)));
    }
  }
  for (const auto& needed : function.proto->attribute()) {
    if (given.find(needed) == given.end()) {
      fail(ErrorKind::bad_model, "{}: {}: attribute {} is missing; the function has no default for it", model.file,
           node_text(node), quote(needed));
    }
  }
  return given;
}

Tensor constant_value(const pb::NodeProto& node, const Attrs& attrs, const std::string& file) {
  if (attrs.size() != 1) {
    fail(ErrorKind::bad_model, "{}: {}: expected exactly one attribute with the value, got {}", file, node_text(node),
         attrs.size());
  }
  const auto& [key, attr] = *attrs.begin();
  const auto length = [](const auto& values) { return Shape{static_cast<int64_t>(values.size())}; };
  if (const auto* tensor = std::get_if<Tensor>(&attr); tensor != nullptr && (key == "value" || key == "sparse_value"))
    return *tensor;
  if (const auto* number = std::get_if<float>(&attr); number != nullptr && key == "value_float") {
    return Tensor::scalar(*number);
  }
  if (const auto* number = std::get_if<int64_t>(&attr); number != nullptr && key == "value_int") {
    return Tensor::scalar(*number);
  }
  if (const auto* numbers = std::get_if<std::vector<float>>(&attr); numbers != nullptr && key == "value_floats") {
    return Tensor::of<float>(length(*numbers), *numbers);
  }
  if (const auto* numbers = std::get_if<std::vector<int64_t>>(&attr); numbers != nullptr && key == "value_ints") {
    return Tensor::of<int64_t>(length(*numbers), *numbers);
  }
  if (const auto* word = std::get_if<std::string>(&attr); word != nullptr && key == "value_string") {
    Tensor tensor(DType::string, {});
    tensor.strings()[0] = *word;
    return tensor;
  }
  if (const auto* words = std::get_if<std::vector<std::string>>(&attr); words != nullptr && key == "value_strings") {
    Tensor tensor(DType::string, length(*words));
    tensor.strings() = *words;
    return tensor;
  }
  fail(ErrorKind::bad_model,
       "{}: {}: attribute {} is {}; legal values are value (TENSOR), sparse_value (SPARSE_TENSOR), value_float, "
       "value_int, value_string, value_floats, value_ints and value_strings with the kind of their name",
       file, node_text(node), quote(key), attribute_kind_name(kind_of(attr)));
}

}  // namespace kilter::onnx
