// The functions that a model contains.
#pragma once

#include <map>
#include <string>
#include <tuple>

#include "onnx/schema.h"

namespace kilter::onnx {

/// Opsets by domain ("" for ai.onnx).
using Opsets = std::map<std::string, int64_t>;

struct Function {
  const pb::FunctionProto* proto = nullptr;
  Opsets opsets;
};

/// The functions of a model, by domain, name and overload.
class Functions {
 public:
  /// Throws bad_model when two functions have the same name, when one calls itself (also indirectly) or when expanding
  /// `graph` would create more than kMostNodes nodes. `file` names the model in errors.
  Functions(const pb::ModelProto& model, const std::string& file);
  Functions() = default;
  /// Returns the function that a node calls, or nullptr when it is an operator. Functions take precedence over
  /// operators of the same name.
  const Function* find(const pb::NodeProto& node) const;
  const auto& all() const { return functions_; }

  static constexpr int64_t kMostNodes = 1'000'000;

 private:
  std::map<std::tuple<std::string, std::string, std::string>, Function> functions_;
};

/// Returns the imports as a map. Throws bad_model for a domain imported with two versions or for opsets of ai.onnx that
/// Kilter does not know. `where` is "" or " of function 'f'".
Opsets read_opsets(const google::protobuf::RepeatedPtrField<pb::OperatorSetIdProto>& imports, const std::string& file,
                   const std::string& where);

}  // namespace kilter::onnx
