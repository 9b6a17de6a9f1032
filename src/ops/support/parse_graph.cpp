// parse_graph(), which graph/graph.h declares. It is defined here because it looks operators up in the table.
#include <set>
#include <string>
#include <utility>

#include "graph/graph.h"
#include "graph/text.h"
#include "ops/op.h"

namespace kilter {
namespace {

class GraphParser {
 public:
  GraphParser(std::string_view text, const std::map<std::string, Tensor>& constants)
      : reader_(text, "graph text"), constants_(constants) {}

  Graph run() {
    reader_.expect("graph");
    graph_.name = reader_.quoted_text();
    reader_.expect("{");
    while (!reader_.accept("}")) statement();
    if (!reader_.at_end()) reader_.error("the end of the text");
    try {
      verify(graph_);
    } catch (const Error& error) {
      fail(ErrorKind::bad_input, "graph text: {}", error.message());
    }
    return std::move(graph_);
  }

 private:
  void statement() {
    if (reader_.accept("input")) {
      const std::string name = new_value();
      reader_.expect(":");
      graph_.add_input(name, reader_.type());
    } else if (reader_.accept("const")) {
      const std::string name = new_value();
      reader_.expect(":");
      const TensorType type = reader_.type();
      const ValueId id = graph_.add_constant(name, reader_.content(type.dtype, type.shape, name, constants_));
      graph_.change_value(id).type.layout = type.layout;
    } else if (reader_.accept("output")) {
      std::string name = reader_.quoted_text();
      if (!output_names_.insert(name).second)
        reader_.error_at_token(fmt::format("output {} is defined twice", in_quotes(name)));
      const ValueId value = reference();
      graph_.add_output(value, std::move(name));
    } else if (reader_.peek() == '%' || reader_.accept("_")) {
      node();
    } else {
      reader_.error("'input', 'const', 'output', a node or '}'");
    }
  }

  std::string value_name() {
    reader_.expect("%");
    return reader_.name("a value's name");
  }

  std::string new_value() {
    std::string name = value_name();
    if (name.empty()) reader_.error_at_token("a value's name is empty");
    if (graph_.find_value(name) != kNone || !pending_.insert(name).second) {
      reader_.error_at_token(fmt::format("value %{} is defined twice", name_text(name)));
    }
    return name;
  }

  ValueId reference() {
    const std::string name = value_name();
    const ValueId id = graph_.find_value(name);
    if (id == kNone) reader_.error_at_token(fmt::format("value %{} is not defined above", name_text(name)));
    return id;
  }

  /// Parses one output list, starting after a leading '_' if that was read.
  void outputs(std::vector<std::optional<TensorType>>& types, std::vector<std::string>& names) {
    bool first = true;
    do {
      if ((first && reader_.peek() != '%') || reader_.accept("_")) {
        types.emplace_back();
        names.emplace_back();
      } else {
        names.push_back(new_value());
        reader_.expect(":");
        types.emplace_back(reader_.type());
      }
      first = false;
    } while (reader_.accept(","));
  }

  const OpDef* op(int32_t& opset) {
    std::string domain;
    std::string name = reader_.name("an operator");
    if (reader_.accept("::")) domain = std::exchange(name, reader_.name("an operator"));
    reader_.expect("@");
    const int64_t version = reader_.integer("an opset");
    opset = version > 0 && version < 100000 ? static_cast<int32_t>(version) : 0;
    const OpDef* found = find_op(domain, name, opset);
    if (found == nullptr) {
      reader_.error_at_token(fmt::format("unknown operator {} of domain {} at opset {}", in_quotes(name),
                                         in_quotes(domain.empty() ? "ai.onnx" : domain), version));
    }
    return found;
  }

  void node() {
    std::vector<std::optional<TensorType>> types;
    std::vector<std::string> names;
    outputs(types, names);
    reader_.expect("=");
    int32_t opset = 0;
    const OpDef* def = op(opset);
    std::string node_name = reader_.quoted_text();
    if (!node_names_.insert(node_name).second) {
      reader_.error_at_token(fmt::format("node {} is defined twice", in_quotes(node_name)));
    }
    Attrs attrs;
    if (reader_.accept("{")) {
      do {
        std::string key = reader_.name("an attribute's name");
        if (attrs.count(key) != 0) reader_.error_at_token(fmt::format("attribute '{}' is given twice", key));
        reader_.expect("=");
        Attr value = reader_.attr(node_name + "." + key, constants_);
        attrs.emplace(std::move(key), std::move(value));
      } while (reader_.accept(","));
      reader_.expect("}");
    }
    std::vector<ValueId> inputs;
    reader_.expect("(");
    if (!reader_.accept(")")) {
      do inputs.push_back(reader_.accept("_") ? kNone : reference());
      while (reader_.accept(","));
      reader_.expect(")");
    }
    const NodeId id =
        graph_.add_node(def, std::move(node_name), opset, std::move(attrs), std::move(inputs), types, names);
    if (reader_.accept("group"))
      graph_.change_node(id).group = static_cast<int32_t>(reader_.integer("a group's number"));
    pending_.clear();
  }

  TextReader reader_;
  const std::map<std::string, Tensor>& constants_;
  Graph graph_;
  std::set<std::string> pending_;  ///< names of the statement being read
  std::set<std::string> node_names_;
  std::set<std::string> output_names_;
};

}  // namespace

Graph parse_graph(std::string_view text, const std::map<std::string, Tensor>& constants) {
  Graph graph = GraphParser(text, constants).run();
  graph.sort();
  return graph;
}

}  // namespace kilter
