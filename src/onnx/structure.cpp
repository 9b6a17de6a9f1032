#include "onnx/structure.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <map>
#include <queue>
#include <string_view>

#include "base/error.h"

namespace kilter::onnx {
namespace {

constexpr int kOutside = -1;  ///< producer of graph inputs and initializers
using Nodes = google::protobuf::RepeatedPtrField<pb::NodeProto>;

/// A name that a body reads but does not define, with its first reader.
using FreeNames = std::map<std::string_view, std::string>;

/// One graph or function body being checked.
class BodyCheck {
 public:
  BodyCheck(const Nodes& nodes, std::string where, const std::string& file, Orders& orders)
      : nodes_(nodes), where_(std::move(where)), file_(file), orders_(orders) {}

  void define_input(const std::string& name) {
    if (name.empty()) fail(ErrorKind::bad_model, "{}: an input of {} has no name", file_, where_);
    if (!producers_.emplace(name, kOutside).second) {
      fail(ErrorKind::bad_model, "{}: the name {} is used by two inputs of {}; every name must be unique", file_,
           quote(name), where_);
    }
  }

  /// An initializer may have the name of an input: it is then the input's default.
  void define_initializer(const std::string& name) {
    if (name.empty()) fail(ErrorKind::bad_model, "{}: an initializer of {} has no name", file_, where_);
    if (!initializers_.emplace(name, kOutside).second) {
      fail(ErrorKind::bad_model, "{}: the name {} is used by two initializers of {}; every name must be unique", file_,
           quote(name), where_);
    }
    producers_.emplace(name, kOutside);
  }

  void define_nodes() {
    for (int i = 0; i < nodes_.size(); ++i) {
      for (const auto& output : nodes_[i].output()) {
        if (output.empty()) continue;
        const auto [entry, fresh] = producers_.emplace(output, i);
        if (!fresh) fail_redefinition(output, entry->second, i);
      }
    }
  }

  /// Collects the edges and the free names, and returns the sorted order.
  std::vector<int> sort() {
    const auto count = static_cast<size_t>(nodes_.size());
    inputs_of_.assign(count, {});
    for (int i = 0; i < nodes_.size(); ++i) collect(i);
    std::vector<std::vector<int>> users(count);
    std::vector<int> waiting(count, 0);
    for (size_t i = 0; i < count; ++i) {
      for (const int from : inputs_of_[i]) {
        users[static_cast<size_t>(from)].push_back(static_cast<int>(i));
        ++waiting[i];
      }
    }
    std::priority_queue<int, std::vector<int>, std::greater<>> ready;
    for (size_t i = 0; i < count; ++i) {
      if (waiting[i] == 0) ready.push(static_cast<int>(i));
    }
    std::vector<int> order;
    while (!ready.empty()) {
      const int i = ready.top();
      ready.pop();
      order.push_back(i);
      for (const int user : users[static_cast<size_t>(i)]) {
        if (--waiting[static_cast<size_t>(user)] == 0) ready.push(user);
      }
    }
    if (order.size() != count) fail_cycle(waiting);
    return order;
  }

  void check_output(const std::string& name) {
    if (producers_.find(name) == producers_.end()) free_.emplace(name, "output " + quote(name) + " of " + where_);
  }

  const FreeNames& free() const { return free_; }

 private:
  void collect(int index) {
    const auto& node = nodes_[index];
    if (node.op_type().empty()) {
      fail(ErrorKind::bad_model, "{}: {}: node number {} ({}) has no operator", file_, where_, index, node_text(node));
    }
    if (node.output().empty()) {
      fail(ErrorKind::bad_model, "{}: {}: {} has no outputs", file_, where_, node_text(node));
    }
    for (const auto& input : node.input()) {
      if (!input.empty()) read(index, input);
    }
    for (const auto& attribute : node.attribute()) {
      if (attribute.has_g()) read_body(index, attribute.g());
      for (const auto& graph : attribute.graphs()) read_body(index, graph);
    }
    auto& edges = inputs_of_[static_cast<size_t>(index)];
    std::sort(edges.begin(), edges.end());
    edges.erase(std::unique(edges.begin(), edges.end()), edges.end());
  }

  /// `reader` describes what reads the name; empty: the node itself.
  void read(int index, std::string_view name, const std::string& reader = {}) {
    const auto found = producers_.find(name);
    if (found == producers_.end()) {
      free_.try_emplace(name, reader.empty() ? node_text(nodes_[index]) : reader);
    } else if (found->second != kOutside) {
      inputs_of_[static_cast<size_t>(index)].push_back(found->second);
    }
  }

  void read_body(int index, const pb::GraphProto& graph);

  [[noreturn]] void fail_redefinition(const std::string& name, int first, int second) const {
    const std::string by = first == kOutside ? "an input or initializer" : node_text(nodes_[first]);
    fail(ErrorKind::bad_model, "{}: the name {} is defined twice in {}: by {} and by {}; every name must be unique",
         file_, quote(name), where_, by, node_text(nodes_[second]));
  }

  /// Every node that still waits has a predecessor that waits, so following predecessors must revisit a node.
  [[noreturn]] void fail_cycle(const std::vector<int>& waiting) const {
    const auto stuck = [&](int i) { return waiting[static_cast<size_t>(i)] > 0; };
    int at = 0;
    while (!stuck(at)) ++at;
    std::vector<int> path;
    std::vector<bool> seen(waiting.size());
    while (!seen[static_cast<size_t>(at)]) {
      seen[static_cast<size_t>(at)] = true;
      path.push_back(at);
      const auto& edges = inputs_of_[static_cast<size_t>(at)];
      at = *std::find_if(edges.begin(), edges.end(), stuck);
    }
    path.erase(path.begin(), std::find(path.begin(), path.end(), at));
    std::reverse(path.begin(), path.end());
    constexpr size_t kShown = 8;
    std::vector<std::string> names;
    for (size_t i = 0; i < std::min(path.size(), kShown); ++i) names.push_back(node_text(nodes_[path[i]]));
    if (path.size() > kShown) names.push_back("...");
    fail(ErrorKind::bad_model, "{}: {} has a cycle of {} nodes: {} -> back to the first; a graph must be acyclic",
         file_, where_, path.size(), fmt::join(names, " -> "));
  }

  const Nodes& nodes_;
  std::string where_;
  const std::string& file_;
  Orders& orders_;
  std::unordered_map<std::string_view, int> producers_;
  std::unordered_map<std::string_view, int> initializers_;
  std::vector<std::vector<int>> inputs_of_;  ///< producing nodes by node
  FreeNames free_;
};

FreeNames check_body(const pb::GraphProto& graph, const std::string& where, const std::string& file, Orders& orders) {
  BodyCheck check(graph.node(), where, file, orders);
  for (const auto& input : graph.input()) check.define_input(input.name());
  for (const auto& initializer : graph.initializer()) check.define_initializer(initializer.name());
  for (const auto& sparse : graph.sparse_initializer()) check.define_initializer(sparse.values().name());
  check.define_nodes();
  auto order = check.sort();
  for (const auto& output : graph.output()) check.check_output(output.name());
  orders.emplace(&graph, std::move(order));
  return check.free();
}

void BodyCheck::read_body(int index, const pb::GraphProto& graph) {
  const std::string where = fmt::format("graph {} in {}", quote(graph.name()), node_text(nodes_[index]));
  for (const auto& [name, reader] : check_body(graph, where, file_, orders_)) read(index, name, reader);
}

void fail_if_free(const FreeNames& names, const std::string& file, const std::string& where) {
  if (names.empty()) return;
  const auto& [name, reader] = *names.begin();
  fail(ErrorKind::bad_model, "{}: {} reads {}, which nothing in {} produces{}", file, reader, quote(name), where,
       names.size() > 1 ? fmt::format(" ({} names in all)", names.size()) : "");
}

}  // namespace

void check_graph(const pb::GraphProto& graph, const std::string& file, Orders& orders) {
  fail_if_free(check_body(graph, "the graph", file, orders), file, "the graph");
}

void check_function(const pb::FunctionProto& function, const std::string& file, Orders& orders) {
  const std::string where = "function " + quote(function.name());
  BodyCheck check(function.node(), where, file, orders);
  for (const auto& input : function.input()) check.define_input(input);
  check.define_nodes();
  auto order = check.sort();
  for (const auto& output : function.output()) check.check_output(output);
  orders.emplace(&function, std::move(order));
  fail_if_free(check.free(), file, where);
}

}  // namespace kilter::onnx
