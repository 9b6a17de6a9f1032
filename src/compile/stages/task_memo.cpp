#include "compile/stages/task_memo.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <type_traits>

#include "ops/op.h"

namespace kilter {
namespace {

constexpr int64_t kMostBytes = 1024;  ///< largest tensor or list that is compared by content

class FormText {
 public:
  explicit FormText(const Task& task) : task_(task), graph_(*task.graph) {}

  std::optional<TaskForm> run() {
    for (const auto* part : {&task_.feeder, &task_.prologue}) list(*part);
    list({task_.anchor});
    list(task_.epilogue);
    for (const auto* operands : {&task_.inputs, &task_.outputs}) {
      put(operands->size());
      for (const Operand& o : *operands) operand(o);
    }
    if (too_large_) return std::nullopt;
    return std::move(form_);
  }

 private:
  void put(const void* data, size_t bytes) { form_.text.append(static_cast<const char*>(data), bytes); }
  template <class T>
    requires std::is_arithmetic_v<T> || std::is_enum_v<T> || std::is_pointer_v<T>
  void put(T value) {
    put(&value, sizeof(T));
  }
  template <class T>
    requires std::is_arithmetic_v<T>
  void put(const std::vector<T>& all) {
    put(all.size());
    too_large_ = too_large_ || std::ssize(all) * static_cast<int64_t>(sizeof(T)) > kMostBytes;
    if (!too_large_) put(all.data(), all.size() * sizeof(T));
  }
  void put(const std::string& text) {
    put(text.size());
    too_large_ = too_large_ || std::ssize(text) > kMostBytes;
    if (!too_large_) put(text.data(), text.size());
  }
  void put(const std::vector<std::string>& all) {
    put(all.size());
    for (const std::string& text : all) put(text);
  }
  void put(const Tensor& tensor) {
    put(tensor.dtype());
    put(tensor.shape());
    if (tensor.dtype() == DType::string || tensor.bytes() > kMostBytes) {
      too_large_ = true;
    } else {
      put(tensor.raw(), static_cast<size_t>(tensor.bytes()));
    }
  }
  void put(const Attr& attr) {
    put(attr.index());
    std::visit([this](const auto& value) { put(value); }, attr);
  }

  void list(const std::vector<NodeId>& nodes) {
    put(nodes.size());
    for (NodeId id : nodes) node(graph_.node(id));
  }

  void node(const Node& node) {
    put(node.op);
    put(node.opset);
    put(node.attrs.size());
    for (const auto& [key, attr] : node.attrs) {
      put(key);
      put(attr);
    }
    for (const auto* values : {&node.inputs, &node.outputs}) {
      put(values->size());
      for (ValueId v : *values) value(v);
    }
  }

  /// Appends a value's number and, at its first occurrence, everything known about it.
  void value(ValueId id) {
    if (id == kNone) return put(kNone);
    const auto [it, fresh] = numbers_.emplace(id, static_cast<int32_t>(form_.values.size()));
    put(it->second);
    if (!fresh) return;
    form_.values.push_back(id);
    const Value& v = graph_.value(id);
    put(v.type.dtype);
    put(v.type.shape);
    put(v.type.layout.block);
    put(v.type.layout.halo.data(), sizeof(v.type.layout.halo));
    put(stored_type(v.type));
    put(v.type.layout.zero);
    put(v.constant.has_value());
    if (!v.constant) return;
    const int64_t count = v.constant->elems();
    if (only_maps_ && is_float(v.type.dtype) && count > 1 && count <= kMostRead) {
      // Element-wise kernels read it from a buffer; templates only ask whether all its elements are zero.
      form_.any_content = true;
      put(all_zero(*v.constant));
    } else if (count <= kFewElems && v.constant->dtype() != DType::string) {
      put(*v.constant);
    } else {
      put(id);  // by identity, because tasks of one form share their packed constants
    }
  }

  static bool all_zero(const Tensor& t) {
    for (int64_t i = 0; i < t.elems(); ++i) {
      if (t.as_double(i) != 0) return false;
    }
    return true;
  }

  bool maps_only() const {
    const auto maps = [this](NodeId id) { return graph_.node(id).op->family == Family::map; };
    return task_.feeder.empty() && std::ranges::all_of(task_.prologue, maps) && maps(task_.anchor) &&
           std::ranges::all_of(task_.epilogue, maps);
  }

  void operand(const Operand& o) {
    value(o.value);
    put(o.phys.dims);
    put(o.phys.strides);
    put(o.phys.offset);
    form_.elems.push_back(o.phys.elems);
    // Templates of these families base choices on the size of the buffer.
    const Family family = task_.node().op->family;
    if (family == Family::conv || family == Family::conv_transpose || family == Family::sample) put(o.phys.elems);
  }

  static constexpr int64_t kFewElems = 16, kMostRead = 4096;

  const Task& task_;
  const Graph& graph_;
  TaskForm form_;
  std::map<ValueId, int32_t> numbers_;
  bool only_maps_ = maps_only();
  bool too_large_ = false;
};

}  // namespace

std::optional<TaskForm> form_of(const Task& task) { return FormText(task).run(); }

ValueId LoweredForm::counterpart(ValueId value, const TaskForm& other) const {
  const auto at = std::ranges::find(form.values, value);
  require(at != form.values.end(), "value {} does not belong to the task that was lowered", value);
  return other.values[static_cast<size_t>(at - form.values.begin())];
}

LoopFunc LoweredForm::with_elems_of(const Task& task, const TaskForm& other, const Stage& stage) const {
  LoopFunc func = stage.func;
  auto arg = stage.args.begin();
  for (Buffer& buffer : func.buffers) {
    if (buffer.kind == BufferKind::scratch) continue;
    if (arg->kind == StageArg::value) buffer.elems = task.operand(counterpart(arg->index, other)).phys.elems;
    ++arg;
  }
  return func;
}

}  // namespace kilter
