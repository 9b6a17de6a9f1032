#include "onnx/missing.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.h"
#include "onnx/schema.h"
#include "ops/op.h"

namespace kilter::onnx {
namespace {

bool is_own(std::string_view op) { return op.starts_with("kilter:"); }

}  // namespace

bool is_if(const OpenNode& node) { return node.op != nullptr && node.op->control == Control::branch; }

void MissingOps::look(const OpenGraph& graph, bool branches) {
  for (const OpenNode& node : graph.nodes) {
    if (branches || !is_if(node)) {
      for (const Region& region : node.regions) look(*region.graph, branches);
    }
    // Operators of the own domain rely on properties of their operands that the passes ensure and nothing else checks.
    if (node.op == nullptr || is_own(node.op_name)) add(node);
  }
}

void MissingOps::add(const OpenNode& node) {
  const auto [entry, fresh] = index_.emplace(node.op_name, found_.size());
  if (fresh) {
    found_.push_back(
        {node.op_name,
         is_own(node.op_name) ? "only Kilter's own passes create operators of this domain" : "unknown operator",
         {}});
  }
  found_[entry->second].nodes.push_back(node.name);
}

void MissingOps::fail_for(const OpenNode& node) {
  add(node);
  fail_if_any();
  fail(ErrorKind::internal, "{}: {} is not missing", file_, node.label);
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
       file_, lines.size() == 1 ? "one operator or type is" : fmt::format("{} operators or types are", lines.size()),
       fmt::join(lines, "; "), lines.size() == 1 ? "it" : "them");
}

}  // namespace kilter::onnx
