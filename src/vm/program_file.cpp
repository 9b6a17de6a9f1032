#include "vm/program_file.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <set>

#include "base/error.h"
#include "base/files.h"
#include "base/narrow.h"
#include "base/text.h"
#include "exec/plan_check.h"
#include "ops/op.h"
#include "vm/file_fields.h"

namespace kilter::vm {
namespace {

constexpr FileFormat kFormat{"KILTERP1", kProgramFormatVersion};
/// The most levels of graphs inside nodes.
constexpr int kMaxDepth = 64;
constexpr uint8_t kLastType = static_cast<uint8_t>(kLastDType);
constexpr uint8_t kLastKind = static_cast<uint8_t>(DeclaredType::Kind::other);
constexpr uint8_t kLastInstr = static_cast<uint8_t>(Instr::Kind::control);
constexpr uint8_t kLastAttr = std::variant_size_v<Attr> - 1;

template <class Io, class S>
void shape_fields(Io& io, S& shape) {
  io.list(shape, 8, "shape", [&](auto& d) { io.number(d, "dimension"); });
}

template <class Io, class S>
void id_fields(Io& io, S& ids, const char* what) {
  io.list(ids, 4, what, [&](auto& id) { io.number(id, what); });
}

void data_fields(Writer& io, const Tensor& tensor) {
  if (tensor.dtype() == DType::string) {
    io.list(tensor.strings(), 8, "strings", [&](const std::string& s) { io.text(s, "string"); });
  } else {
    io.constants({tensor.raw(), static_cast<size_t>(tensor.bytes())}, "constant");
  }
}

/// Whether the bytes are elements of the type: bool has 0 and 1, and the unused bits of a narrow type are 0.
bool are_elements(DType type, std::span<const std::byte> bytes) {
  const int64_t bits = type == DType::boolean ? 1 : is_narrow(type) ? size_bits(type) : 8;
  return bits == 8 ||
         std::ranges::all_of(bytes, [&](std::byte b) { return std::to_integer<unsigned>(b) >> bits == 0; });
}

Tensor data_fields(Reader& io, DType type, const Shape& shape) {
  if (type == DType::string) {
    std::vector<std::string> strings;
    io.list(strings, 8, "strings", [&](std::string& s) { io.text(s, "string"); });
    if (std::ranges::any_of(shape, [](int64_t d) { return d < 0; }) || elems(shape) != std::ssize(strings))
      io.bad("strings", fmt::format("{} strings for shape {}", strings.size(), kilter::text(shape)));
    Tensor tensor(type, shape);
    tensor.strings() = std::move(strings);
    return tensor;
  }
  const std::optional<int64_t> expected = tensor_bytes(type, shape);
  if (!expected) io.bad("constant", fmt::format("illegal shape {}", kilter::text(shape)));
  const auto data = io.constants("constant");
  if (std::ssize(data) != *expected)
    io.bad("constant",
           fmt::format("{} bytes; expected {} for {}[{}]", data.size(), *expected, name(type), kilter::text(shape)));
  if (!are_elements(type, data)) io.bad("constant", fmt::format("its bytes are not elements of {}", name(type)));
  // Nothing writes to constants.
  return {type, shape, const_cast<std::byte*>(data.data()), io.owner};
}

void tensor_fields(Writer& io, const Tensor& tensor) {
  io.enumeration(tensor.dtype(), kLastType, "element type");
  shape_fields(io, tensor.shape());
  data_fields(io, tensor);
}

void tensor_fields(Reader& io, Tensor& tensor) {
  DType type = DType::f32;
  Shape shape;
  io.enumeration(type, kLastType, "element type");
  shape_fields(io, shape);
  tensor = data_fields(io, type, shape);
}

/// Reads or writes the value of an attribute.
template <class Io>
struct AttrFields {
  Io& io;

  void operator()(auto& value) const {
    using Value = std::remove_cvref_t<decltype(value)>;
    if constexpr (std::is_same_v<Value, int64_t>) {
      io.number(value, "attribute");
    } else if constexpr (std::is_same_v<Value, float>) {
      io.real(value, "attribute");
    } else if constexpr (std::is_same_v<Value, std::string>) {
      io.text(value, "attribute");
    } else if constexpr (std::is_same_v<Value, Tensor>) {
      tensor_fields(io, value);
    } else {
      io.list(value, 4, "attribute", [&](auto& one) { (*this)(one); });
    }
  }
};

void attr_fields(Writer& io, const Attr& attr) {
  io.number(static_cast<uint8_t>(attr.index()), "type of an attribute");
  std::visit(AttrFields<Writer>{io}, attr);
}

template <size_t kIndex = 0>
Attr attr_of(uint8_t index) {
  if constexpr (kIndex == kLastAttr) {
    return Attr(std::in_place_index<kIndex>);
  } else {
    return index == kIndex ? Attr(std::in_place_index<kIndex>) : attr_of<kIndex + 1>(index);
  }
}

void attr_fields(Reader& io, Attr& attr) {
  uint8_t index = 0;
  io.enumeration(index, kLastAttr, "type of an attribute");
  attr = attr_of(index);
  std::visit(AttrFields<Reader>{io}, attr);
}

void attrs_fields(Writer& io, const Attrs& attrs) {
  io.number(static_cast<uint32_t>(attrs.size()), "attributes");
  for (const auto& [key, attr] : attrs) {
    io.text(key, "name of an attribute");
    attr_fields(io, attr);
  }
}

void attrs_fields(Reader& io, Attrs& attrs) {
  uint32_t count = 0;
  io.number(count, "attributes");
  for (uint32_t i = 0; i < count; ++i) {
    std::string key;
    io.text(key, "name of an attribute");
    attr_fields(io, attrs[key]);
  }
}

/// The operator of a node. One that Kilter lacks has no definition; the node then fails when it runs.
void op_fields(Writer& io, const OpenNode& node) {
  io.flag(node.op != nullptr, "presence of an operator");
  if (node.op == nullptr) return;
  io.text(std::string(node.op->domain), "domain");
  io.text(std::string(node.op->name), "operator");
}

void op_fields(Reader& io, OpenNode& node) {
  bool known = false;
  io.flag(known, "presence of an operator");
  if (!known) return;
  std::string domain, op;
  io.text(domain, "domain");
  io.text(op, "operator");
  node.op = find_op(domain, op, node.opset);
  if (node.op != nullptr) return;
  fail(ErrorKind::unsupported,
       "compiled file '{}': {} needs operator {}, which this library does not have; run it with the full Kilter "
       "library of the version that wrote it",
       io.where, node.label, node.op_name);
}

template <class Io, class N>
void node_fields(Io& io, N& node) {
  io.text(node.name, "name of a node");
  io.text(node.label, "label of a node");
  io.text(node.op_name, "operator of a node");
  io.number(node.opset, "opset");
  op_fields(io, node);
  attrs_fields(io, node.attrs);
  id_fields(io, node.inputs, "inputs of a node");
  id_fields(io, node.outputs, "outputs of a node");
}

template <class Io, class D>
void declared_fields(Io& io, D& declared) {
  io.enumeration(declared.kind, kLastKind, "kind of a value");
  bool typed = declared.dtype.has_value(), ranked = declared.dims.has_value();
  io.flag(typed, "presence of an element type");
  io.flag(ranked, "presence of a shape");
  if constexpr (Io::kReads) {
    if (typed) declared.dtype.emplace();
    if (ranked) declared.dims.emplace();
  }
  if (typed) io.enumeration(*declared.dtype, kLastType, "element type");
  if (ranked) shape_fields(io, *declared.dims);
}

template <class Io, class G>
void interface_fields(Io& io, G& graph) {
  io.text(graph.name, "name of a graph");
  id_fields(io, graph.inputs, "inputs of a graph");
  uint64_t own = graph.own_inputs;
  io.number(own, "own inputs of a graph");
  if constexpr (Io::kReads) graph.own_inputs = static_cast<size_t>(own);
  io.list(graph.outputs, 15, "outputs of a graph", [&](auto& output) {
    io.text(output.name, "name of an output");
    io.number(output.value, "value of an output");
    declared_fields(io, output.declared);
  });
}

/// `kept`: whether the name and the constant of value `v` are in the file.
template <class Io, class V, class Kept>
void value_fields(Io& io, V& values, Kept kept) {
  size_t v = 0;
  io.list(values, 9, "values", [&](auto& value) {
    const bool keep = kept(v++);
    std::string own_name = keep ? value.name : std::string();
    bool constant = keep && value.constant.has_value();
    io.text(own_name, "name of a value");
    io.flag(constant, "whether a value is constant");
    if constexpr (Io::kReads) {
      value.name = std::move(own_name);
      if (constant) value.constant.emplace();
    }
    if (constant) tensor_fields(io, *value.constant);
  });
}

void check_depth(Reader& io, int depth) {
  if (depth > kMaxDepth) io.bad("graph", fmt::format("graphs inside nodes are nested deeper than {}", kMaxDepth));
}
void check_depth(Writer& /*io*/, int depth) {
  if (depth > kMaxDepth)
    fail(ErrorKind::unsupported, "graphs inside nodes are nested deeper than {}, which a compiled file cannot have",
         kMaxDepth);
}

/// The graph of a segment, with those inside its nodes.
template <class Io, class G>
void graph_fields(Io& io, G& graph, bool with_nodes, int depth = 0) {
  check_depth(io, depth);
  interface_fields(io, graph);
  value_fields(io, graph.values, [&](size_t) { return true; });
  if (!with_nodes) return;
  io.list(graph.nodes, 50, "nodes", [&](auto& node) {
    node_fields(io, node);
    io.list(node.regions, 20, "graphs in a node", [&](auto& region) {
      io.text(region.attribute, "attribute of a graph");
      id_fields(io, region.captures, "captures of a graph");
      if constexpr (Io::kReads) {
        auto inner = std::make_shared<OpenGraph>();
        graph_fields(io, *inner, true, depth + 1);
        region.graph = std::move(inner);
      } else {
        graph_fields(io, *region.graph, true, depth + 1);
      }
    });
  });
}

/// Without its nodes, a segment has only the values of its inputs and outputs.
OpenGraph interface_of(const OpenGraph& segment) {
  OpenGraph made;
  made.name = segment.name;
  made.own_inputs = segment.own_inputs;
  const auto add = [&](ValueId v) {
    made.values.push_back({segment.values[static_cast<size_t>(v)].name, {}});
    return static_cast<ValueId>(made.values.size() - 1);
  };
  for (const ValueId v : segment.inputs) made.inputs.push_back(add(v));
  for (const OpenGraph::Output& output : segment.outputs)
    made.outputs.push_back({output.name, output.value == kNone ? kNone : add(output.value), output.declared});
  return made;
}

/// Returns the values to which the instructions, the inputs and the outputs of a function refer.
std::set<ValueId> mentioned(const Function& function) {
  std::set<ValueId> all(function.graph->inputs.begin(), function.graph->inputs.end());
  const auto add = [&](const std::vector<ValueId>& values) { all.insert(values.begin(), values.end()); };
  for (const OpenGraph::Output& output : function.graph->outputs) all.insert(output.value);
  for (const Instr& instr : function.code) {
    add(instr.inputs), add(instr.outputs);
    if (instr.node == nullptr) continue;
    for (const Region& region : instr.node->regions) add(region.captures);
  }
  return all;
}

/// Reads or writes all fields of an instruction that runs a segment, but only the first fields of any other. Returns
/// whether the instruction runs a segment.
template <class Io, class I>
bool segment_instr_fields(Io& io, I& instr) {
  io.enumeration(instr.kind, kLastInstr, "kind of an instruction");
  id_fields(io, instr.dead, "values that are not needed any more");
  if (instr.kind != Instr::Kind::segment) return false;
  io.number(instr.segment, "segment of an instruction");
  id_fields(io, instr.inputs, "inputs of an instruction");
  id_fields(io, instr.outputs, "outputs of an instruction");
  return true;
}

void instr_fields(Writer& io, const Instr& instr) {
  if (segment_instr_fields(io, instr)) return;
  node_fields(io, *instr.node);
  io.number(static_cast<uint32_t>(instr.functions.size()), "graphs of an instruction");
  for (size_t i = 0; i < instr.functions.size(); ++i) {
    io.text(instr.node->regions[i].attribute, "attribute of a graph");
    id_fields(io, instr.node->regions[i].captures, "captures of a graph");
    io.number(instr.functions[i], "function of a graph");
  }
}

/// Reads an instruction; its node is added to `nodes`.
void instr_fields(Reader& io, Instr& instr, std::vector<OpenNode>& nodes) {
  if (segment_instr_fields(io, instr)) return;
  OpenNode& node = nodes.emplace_back();
  node_fields(io, node);
  uint32_t count = 0;
  io.number(count, "graphs of an instruction");
  for (uint32_t i = 0; i < count; ++i) {
    Region region;
    io.text(region.attribute, "attribute of a graph");
    id_fields(io, region.captures, "captures of a graph");
    node.regions.push_back(std::move(region));
    io.number(instr.functions.emplace_back(), "function of a graph");
  }
  instr.inputs = node.inputs;
  instr.outputs = node.outputs;
}

/// `whole`: the function runs the network. In the file, constants are then not among its inputs.
void function_fields(Writer& io, const Function& function, bool whole) {
  const OpenGraph& graph = *function.graph;
  OpenGraph interface{graph.name, {}, graph.inputs, graph.own_inputs, {}, graph.outputs};
  if (whole) {
    std::erase_if(interface.inputs,
                  [&](ValueId v) { return graph.values[static_cast<size_t>(v)].constant.has_value(); });
    interface.own_inputs = interface.inputs.size();
  }
  interface_fields(io, interface);
  const std::set<ValueId> names = mentioned(function);
  const std::set<ValueId> constants(function.constants.begin(), function.constants.end());
  value_fields(io, graph.values, [&](size_t v) {
    const auto id = static_cast<ValueId>(v);
    return constants.contains(id) || (names.contains(id) && !graph.values[v].constant);
  });
  id_fields(io, function.constants, "constants of a function");
  io.list(function.code, 17, "instructions", [&](const Instr& instr) { instr_fields(io, instr); });
}

void function_fields(Reader& io, Function& function, OpenGraph& graph) {
  interface_fields(io, graph);
  value_fields(io, graph.values, [](size_t) { return true; });
  id_fields(io, function.constants, "constants of a function");
  std::vector<OpenNode> nodes;
  io.list(function.code, 17, "instructions", [&](Instr& instr) { instr_fields(io, instr, nodes); });
  graph.nodes = std::move(nodes);
  function.graph = &graph;
  size_t next = 0;
  for (Instr& instr : function.code) {
    if (instr.kind != Instr::Kind::segment) instr.node = &graph.nodes[next++];
  }
}

/// Makes the functions the graphs of their nodes. Each function belongs to one node of an earlier function.
void link_functions(Reader& io, Program& program, const std::vector<std::shared_ptr<OpenGraph>>& graphs) {
  std::vector<int> depth(graphs.size(), -1);
  depth[0] = 0;
  for (size_t f = 0; f < graphs.size(); ++f) {
    if (depth[f] < 0) io.bad("function", fmt::format("function {} is not called", f));
    check_depth(io, depth[f]);
    size_t next = 0;
    for (Instr& instr : program.functions[f].code) {
      if (instr.kind == Instr::Kind::segment) continue;
      OpenNode& node = graphs[f]->nodes[next++];
      for (size_t i = 0; i < instr.functions.size(); ++i) {
        const int32_t called = instr.functions[i];
        if (called <= static_cast<int32_t>(f) || called >= std::ssize(graphs) ||
            depth[static_cast<size_t>(called)] >= 0)
          io.bad("function of a graph",
                 fmt::format("function {} calls function {} of {}; expected a later one that no other calls", f, called,
                             graphs.size()));
        depth[static_cast<size_t>(called)] = depth[f] + 1;
        node.regions[i].graph = graphs[static_cast<size_t>(called)];
      }
    }
  }
  program.graph = graphs[0];
}

void port_fields(auto& io, auto& port) {
  io.text(port.name, "name of a port");
  io.enumeration(port.kind, kLastKind, "kind of a port");
  io.flag(port.of_sequence, "whether an optional value is a sequence");
  io.enumeration(port.type, kLastType, "element type");
  bool ranked = port.dims.has_value();
  io.flag(ranked, "presence of a shape");
  if constexpr (std::remove_reference_t<decltype(io)>::kReads) {
    if (ranked) port.dims.emplace();
  }
  if (ranked) shape_fields(io, *port.dims);
  io.list(port.symbols, 8, "names of dimensions", [&](auto& symbol) { io.text(symbol, "name of a dimension"); });
  bool keyed = port.key.has_value();
  io.flag(keyed, "presence of keys");
  if constexpr (std::remove_reference_t<decltype(io)>::kReads) {
    if (keyed) port.key.emplace();
  }
  if (keyed) io.enumeration(*port.key, kLastType, "type of keys");
}

template <class Io, class R>
void range_fields(Io& io, R& ranges) {
  io.list(ranges.inputs(), 16, "ranges", [&](auto& input) {
    io.text(input.name, "input with ranges");
    io.list(input.dims, 40, "ranges of dimensions", [&](auto& dim) {
      io.text(dim.symbol, "name of a dimension");
      io.number(dim.low, "smallest size");
      io.number(dim.high, "largest size");
      io.number(dim.step, "step of sizes");
      shape_fields(io, dim.list);
    });
  });
}

template <class Io, class S, class G>
void segment_fields(Io& io, S& segment, G& graph) {
  io.text(segment.name, "name of a segment");
  io.flag(segment.has_graph, "presence of a graph");
  graph_fields(io, graph, segment.has_graph);
  io.list(segment.plans, 24, "plans", [&](auto& plan) { plan_fields(io, plan); });
}

template <class Io, class P>
void file_fields(Io& io, P& file) {
  io.text(file.model, "model");
  io.text(file.target, "target");
  io.text(file.precision, "precision");
  io.text(file.records, "tuning records");
  io.number(file.compiled_for, "threads that the file is for");
  io.list(file.inputs, 12, "inputs", [&](auto& port) { port_fields(io, port); });
  io.list(file.outputs, 12, "outputs", [&](auto& port) { port_fields(io, port); });
  range_fields(io, file.ranges);
}

}  // namespace

bool FilePort::is_fixed() const {
  return is_tensor() && type != DType::string && dims && std::ranges::all_of(*dims, [](int64_t d) { return d >= 0; });
}

std::string text(const FilePort& port) {
  std::string dims = "...";
  if (port.dims) {
    dims.clear();
    for (size_t i = 0; i < port.dims->size(); ++i) {
      const int64_t d = (*port.dims)[i];
      const std::string open = port.symbol(i).empty() ? "?" : printable(port.symbol(i));
      dims += (dims.empty() ? "" : ",") + (d < 0 ? open : std::to_string(d));
    }
  }
  const bool sequence = port.kind == DeclaredType::Kind::sequence || port.of_sequence;
  const std::string outer =
      fmt::format("{}{}", port.kind == DeclaredType::Kind::optional ? "optional " : "", sequence ? "sequence of " : "");
  if (port.key)
    return fmt::format("{}map{} from {} to {}", outer, sequence ? "s" : "", name(*port.key), name(port.type));
  return fmt::format("{}{}[{}]", outer, name(port.type), dims);
}

void program_fields(Writer& io, const ProgramFile& file) {
  file_fields(io, file);
  io.number(static_cast<uint32_t>(file.program.functions.size()), "functions");
  for (const Function& function : file.program.functions)
    function_fields(io, function, &function == file.program.functions.data());
  io.number(static_cast<uint32_t>(file.segments.size()), "segments");
  for (size_t i = 0; i < file.segments.size(); ++i) {
    const FileSegment& segment = file.segments[i];
    const OpenGraph& graph = file.program.segments[i];
    segment_fields(io, segment, segment.has_graph ? graph : interface_of(graph));
  }
}

ProgramFile program_fields(Reader& io) {
  ProgramFile file;
  file_fields(io, file);
  uint32_t functions = 0, segments = 0;
  io.number(functions, "functions");
  if (functions == 0) io.bad("functions", "expected at least one");
  std::vector<std::shared_ptr<OpenGraph>> graphs;
  for (uint32_t i = 0; i < functions; ++i) {
    graphs.push_back(std::make_shared<OpenGraph>());
    function_fields(io, file.program.functions.emplace_back(), *graphs.back());
  }
  link_functions(io, file.program, graphs);
  io.number(segments, "segments");
  for (uint32_t i = 0; i < segments; ++i)
    segment_fields(io, file.segments.emplace_back(), file.program.segments.emplace_back());
  io.finish();
  check_program(file, io.where);
  return file;
}

void save_program(const ProgramFile& file, const FileSink& to) {
  FilePools pools;
  Writer io(pools);
  program_fields(io, file);
  const std::string meta = io.take();
  write_sections(kFormat, {std::as_bytes(std::span(meta)), pools.code.bytes(), pools.constants.bytes()}, to);
}

ProgramFile parse_program(std::span<const std::byte> bytes, std::shared_ptr<void> owner, std::string_view where,
                          LoadOptions options) {
  const FileSections sections = read_sections(kFormat, bytes, where, options, owner);
  Reader io(sections, std::move(owner), where);
  return program_fields(io);
}

ProgramFile load_program(const std::filesystem::path& path, LoadOptions options) {
  const auto file = MappedFile::open(path);
  // The owner keeps the mapping alive; nothing writes through it.
  return parse_program(file->bytes(), std::const_pointer_cast<MappedFile>(file), path.string(), options);
}

bool is_program_file(const std::filesystem::path& path) { return is_file_of(kFormat, path); }
bool is_program_file(std::span<const std::byte> bytes) { return is_file_of(kFormat, bytes); }

}  // namespace kilter::vm
