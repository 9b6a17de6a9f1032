// Conversion of AttributeProto to Attr.
#pragma once

#include "graph/graph.h"
#include "onnx/model_data.h"

namespace kilter::onnx {

/// Returns the attributes of a node, without graphs, which lower() turns into regions, and without types, which the
/// values themselves have when the network runs. Inside a function body, references (ref_attr_name) are replaced by
/// values from `call`, which contains the call's attributes and the function's defaults. An attribute whose reference
/// is not in `call` is left out. Throws bad_model if a reference and its value have different types, and unsupported
/// for attribute types that Kilter does not read.
Attrs read_attrs(const pb::NodeProto& node, const ModelData& model, const Attrs* call);
/// Returns the attributes that references inside the body of `function` resolve to when `node` calls it with the
/// attributes `given`.
Attrs call_attrs(const pb::NodeProto& node, const Function& function, const ModelData& model, Attrs given);
/// Returns the tensor of a Constant node.
Tensor constant_value(const pb::NodeProto& node, const Attrs& attrs, const std::string& file);

}  // namespace kilter::onnx
