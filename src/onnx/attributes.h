// Conversion of AttributeProto to Attr.
#pragma once

#include "graph/graph.h"
#include "onnx/model_data.h"

namespace kilter::onnx {

/// Returns the attributes of a node. Inside a function body, `call` holds the attributes of the call and the function's
/// defaults, which replace references (ref_attr_name). A reference to an attribute that is not there leaves the
/// attribute out. Throws bad_model for a reference of another kind, and unsupported for kinds that Kilter lacks.
Attrs read_attrs(const pb::NodeProto& node, const ModelData& model, const Attrs* call);
/// Returns the attributes that references inside the body of `function` see when `node` calls it with `given`.
Attrs call_attrs(const pb::NodeProto& node, const Function& function, const ModelData& model, Attrs given);
/// Returns the tensor of a Constant node.
Tensor constant_value(const pb::NodeProto& node, const Attrs& attrs, const std::string& file);

}  // namespace kilter::onnx
