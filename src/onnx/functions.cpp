#include "onnx/functions.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <unordered_map>

#include "base/error.h"
#include "ops/support/builder.h"

namespace kilter::onnx {
namespace {

/// Counts the nodes that remain when every call is replaced by its body, and finds recursive calls.
class ExpansionCount {
 public:
  ExpansionCount(const Functions& functions, const std::string& file) : functions_(functions), file_(file) {}

  struct Size {
    int64_t nodes = 0;
    int64_t depth = 0;  ///< nesting depth of calls
    void add(const Size& inner) {
      nodes = std::min(nodes + inner.nodes, Functions::kMostNodes + 1);
      depth = std::max(depth, inner.depth);
    }
  };

  Size count(const google::protobuf::RepeatedPtrField<pb::NodeProto>& nodes) {
    Size total;
    for (const auto& node : nodes) {
      total.add({1, 0});
      for (const auto& attribute : node.attribute()) {
        if (attribute.has_g()) total.add(count(attribute.g().node()));
      }
      if (const Function* function = functions_.find(node)) total.add(count(*function->proto));
    }
    return total;
  }

 private:
  Size count(const pb::FunctionProto& function) {
    const auto known = counts_.find(&function);
    if (known != counts_.end()) return known->second;
    if (std::find(open_.begin(), open_.end(), &function) != open_.end()) fail_recursion(function);
    open_.push_back(&function);
    if (std::ssize(open_) > kMostDepth) fail_depth();
    Size total = count(function.node());
    if (++total.depth > kMostDepth) fail_depth();
    open_.pop_back();
    counts_.emplace(&function, total);
    return total;
  }

  [[noreturn]] void fail_depth() const {
    fail(ErrorKind::unsupported, "{}: function calls are nested more than {} deep, the limit", file_, kMostDepth);
  }

  [[noreturn]] void fail_recursion(const pb::FunctionProto& function) const {
    std::vector<std::string> names;
    for (auto at = std::find(open_.begin(), open_.end(), &function); at != open_.end(); ++at) {
      names.push_back(quote((*at)->name()));
    }
    fail(ErrorKind::bad_model,
         "{}: functions call each other in a cycle: {} -> back to the first; recursion is not legal", file_,
         fmt::join(names, " -> "));
  }

  static constexpr int64_t kMostDepth = 64;
  const Functions& functions_;
  const std::string& file_;
  std::vector<const pb::FunctionProto*> open_;
  std::unordered_map<const pb::FunctionProto*, Size> counts_;
};

}  // namespace

Opsets read_opsets(const google::protobuf::RepeatedPtrField<pb::OperatorSetIdProto>& imports, const std::string& file,
                   const std::string& where) {
  Opsets opsets;
  for (const auto& import : imports) {
    const std::string domain(normal_domain(import.domain()));
    const auto [entry, fresh] = opsets.emplace(domain, import.version());
    if (!fresh && entry->second != import.version()) {
      fail(ErrorKind::bad_model, "{}: the opset imports{} give two versions of domain {}: {} and {}", file, where,
           quote(domain.empty() ? "ai.onnx" : domain), entry->second, import.version());
    }
  }
  const auto standard = opsets.find("");
  if (standard != opsets.end() && (standard->second < kOldestReadOpset || standard->second > kNewestOpset)) {
    fail(ErrorKind::unsupported,
         "{}: opset {} of ai.onnx{}; Kilter reads {} to {}: convert the model with the ONNX version converter", file,
         standard->second, where, kOldestReadOpset, kNewestOpset);
  }
  return opsets;
}

Functions::Functions(const pb::ModelProto& model, const std::string& file) {
  for (const auto& proto : model.functions()) {
    const std::string where = " of function " + quote(proto.name());
    Function function{&proto, read_opsets(proto.opset_import(), file, where)};
    std::tuple key(std::string(normal_domain(proto.domain())), proto.name(), proto.overload());
    if (!functions_.emplace(std::move(key), std::move(function)).second) {
      fail(ErrorKind::bad_model, "{}: function {} of domain {} is defined twice", file, quote(proto.name()),
           quote(proto.domain()));
    }
  }
  ExpansionCount count(*this, file);
  for (const auto& [key, function] : functions_) count.count(function.proto->node());
  if (count.count(model.graph().node()).nodes > kMostNodes) {
    fail(ErrorKind::unsupported, "{}: expanding the functions exceeds the limit of {} nodes", file, kMostNodes);
  }
}

const Function* Functions::find(const pb::NodeProto& node) const {
  if (functions_.empty()) return nullptr;
  const auto found = functions_.find({std::string(normal_domain(node.domain())), node.op_type(), node.overload()});
  return found == functions_.end() ? nullptr : &found->second;
}

}  // namespace kilter::onnx
