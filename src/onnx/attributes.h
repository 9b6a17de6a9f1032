// AttributeProto to Attr.
#pragma once

#include "graph/graph.h"
#include "onnx/model_data.h"

namespace kilter::onnx {

/// The attributes of a node. Inside a function body `call` holds those of the call with the function's defaults, which
/// references (ref_attr_name) stand for; a reference to one that is not there leaves the attribute out. Throws
/// bad_model for a reference of another kind, unsupported for kinds that Kilter lacks.
Attrs read_attrs(const pb::NodeProto& node, const ModelData& model, const Attrs* call);
/// What references inside the body of `function` see when `node` calls it with `given`.
Attrs call_attrs(const pb::NodeProto& node, const Function& function, const ModelData& model, Attrs given);
/// The tensor that a Constant node holds.
Tensor constant_value(const pb::NodeProto& node, const Attrs& attrs, const std::string& file);

}  // namespace kilter::onnx
