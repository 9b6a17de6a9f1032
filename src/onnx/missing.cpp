#include "onnx/missing.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.h"
#include "ops/op.h"

namespace kilter::onnx {
namespace {

std::string reason(std::string_view domain, std::string_view op) {
  if (domain == "kilter") return "only Kilter's own passes make operators of this domain";
  if (!domain.empty()) return "unknown operator";
  if (op == "Loop" || op == "Scan") return "runs only with the VM (control flow)";
  if (op.find("Sequence") != std::string_view::npos || op.starts_with("Optional")) {
    return "works on sequences or optional values, which Kilter does not run yet";
  }
  return "unknown operator";
}

std::string display_name(const pb::NodeProto& node) {
  if (!node.name().empty()) return node.name();
  const auto named = std::find_if(node.output().begin(), node.output().end(), [](const auto& o) { return !o.empty(); });
  return named == node.output().end() ? node.op_type() : *named;
}

}  // namespace

bool is_if(const pb::NodeProto& node, const ModelData& model) {
  return node.op_type() == "If" && normal_domain(node.domain()).empty() && model.functions.find(node) == nullptr;
}

void MissingOps::look(const google::protobuf::RepeatedPtrField<pb::NodeProto>& nodes, const Opsets& opsets,
                      bool branches) {
  for (const auto& node : nodes) look(node, opsets, branches);
}

void MissingOps::look(const pb::NodeProto& node, const Opsets& opsets, bool branches) {
  const bool conditional = is_if(node, model_);
  for (const auto& attribute : node.attribute()) {
    if (conditional && !branches) break;
    look(attribute.g().node(), opsets, branches);
    for (const auto& graph : attribute.graphs()) look(graph.node(), opsets, branches);
  }
  if (conditional) return;
  if (const Function* function = model_.functions.find(node)) {
    if (!seen_.emplace(function, true).second) return;
    const std::string outer = prefix_;
    prefix_ = function->proto->name() + "/";
    look(function->proto->node(), function->opsets, branches);
    prefix_ = outer;
    return;
  }
  const auto domain = normal_domain(node.domain());
  const int32_t opset = opset_of(opsets, node);
  if (domain.empty() && node.op_type() == "Constant") return;
  // Operators of the own domain rely on properties of their operands that the passes ensure and nothing else checks.
  if (domain != "kilter" && find_op(domain, node.op_type(), opset) != nullptr) return;
  const std::string op = fmt::format("{}:{}@{}", domain.empty() ? "ai.onnx" : domain, node.op_type(), opset);
  const auto [entry, fresh] = index_.emplace(op, found_.size());
  if (fresh) found_.push_back({op, reason(domain, node.op_type()), {}});
  found_[entry->second].nodes.push_back(prefix_ + display_name(node));
}

void MissingOps::fail_if_any() const {
  if (found_.empty()) return;
  constexpr size_t kShown = 3;
  std::vector<std::string> lines;
  for (const Missing& missing : found_) {
    std::vector<std::string> nodes;
    for (size_t i = 0; i < std::min(kShown, missing.nodes.size()); ++i) nodes.push_back(quote(missing.nodes[i]));
    if (missing.nodes.size() > kShown) nodes.push_back("...");
    const std::string op = quote(missing.op);
    lines.push_back(fmt::format("{} ({} node{}: {}): {}", op.substr(1, op.size() - 2), missing.nodes.size(),
                                missing.nodes.size() == 1 ? "" : "s", fmt::join(nodes, ", "), missing.reason));
  }
  fail(ErrorKind::unsupported,
       "{}: {} missing from Kilter: {}; export the model without {} (`kilter ops` lists the supported operators)",
       model_.file,
       lines.size() == 1 ? "one operator or type is" : fmt::format("{} operators or types are", lines.size()),
       fmt::join(lines, "; "), lines.size() == 1 ? "it" : "them");
}

}  // namespace kilter::onnx
