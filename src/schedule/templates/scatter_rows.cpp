// ScatterND and ScatterElements: copies the data, then writes rows or single elements into the copy, or adds or
// multiplies them into it, by index (see place_of) and in the order of the updates. Threads split the work so that no
// two write the same element.

#include "schedule/model/loop_model.h"
#include "schedule/templates/place.h"
#include "schedule/templates/rows.h"
#include "schedule/templates/templates.h"

namespace kilter {
namespace {

constexpr int64_t kPart = 4096;  ///< elements per item

std::optional<Rejected> check(const Task& task, const CpuLimits&) {
  const Node& node = task.node();
  if (node.op->family != Family::scatter) return not_for("operator family", "scatter", node.op->name);
  if (!task.prologue.empty() || !task.epilogue.empty()) return Rejected{"fused nodes", "none", "some"};
  const Operand& data = task.operand(node.inputs[0]);
  const std::string reduction = node.string_attr("reduction", "none");
  const DType type = data.type.dtype;
  const bool sums = reduction == "add" || reduction == "mul";
  if (reduction != "none" && !sums) return Rejected{"reduction", "none, add or mul", reduction};
  if (sums && type != DType::f32 && type != DType::i32 && type != DType::i64)
    return Rejected{"element type of sums and products", "f32, i32 or i64", std::string(name(type))};
  if (type == DType::string) return Rejected{"element type", "numeric", "str"};
  for (const auto* list : {&task.inputs, &task.outputs}) {
    for (const Operand& o : *list) {
      if (elems(o.type.shape) == 0 || o.type.shape.empty()) return Rejected{"elements", "1 or more", "0"};
      if (auto rejected = check_dense(o)) return rejected;
    }
  }
  if (const Shape& indices = task.operand(node.inputs[1]).type.shape;
      node.op->addressing == Addressing::tuple && indices.back() == 0)
    return Rejected{"indices in a tuple", "1 or more", "0"};
  return std::nullopt;
}

Stage copy_stage(const Task& task, Lowered& lowered) {
  Emitter e(task, "scatter_copy");
  const Node& node = task.node();
  parallel_parts(
      e.b, "part", elems(task.operand(node.inputs[0]).type.shape), kPart, [&](const Expr& first, int64_t count) {
        const Buf from = e.input(node.inputs[0]), to = e.output(node.outputs[0]);
        e.b.vector_loop("v", count, [&](const Expr& v) { e.b.store(to, first + v, e.b.load(from, first + v)); });
      });
  return e.finish(lowered);
}

class ScatterEmitter : IndexedEmitter {
 public:
  explicit ScatterEmitter(Emitter& e) : IndexedEmitter(e), reduction_(node_.string_attr("reduction", "none")) {}

  void run() {
    if (node_.op->addressing == Addressing::tuple) {
      tuples();
    } else {
      elements();
    }
  }

 private:
  void declare() {
    at_ = e_.input(node_.inputs[1]);
    from_ = e_.input(node_.inputs[2]);
    to_ = e_.output(node_.outputs[0]);
  }
  void put(const Expr& target, const Expr& source) {
    const Expr value = b_.load(from_, source);
    if (reduction_ == "none") return b_.store(to_, target, value);
    const Expr before = b_.load(to_, target);
    b_.store(to_, target, reduction_ == "add" ? before + value : before * value);
  }

  /// Threads take parts of the rows, since two tuples may address the same row.
  void tuples() {
    const int64_t width = indices_.back(), count = elems(indices_) / width;
    const int64_t after = strides_[static_cast<size_t>(width) - 1];
    parallel_parts(b_, "part", after, kPart, [&](const Expr& first, int64_t part) {
      declare();
      b_.loop("t", 0, count, [&](const Expr& t) {
        Expr row = first;
        for (int64_t k = 0; k < width; ++k) {
          const auto d = static_cast<size_t>(k);
          row = row + place_of(b_, at_, t * Expr(width) + Expr(k), data_[d]) * Expr(strides_[d]);
        }
        const Expr target = b_.let("target", row), source = b_.let("source", t * Expr(after) + first);
        b_.vector_loop("v", part, [&](const Expr& v) { put(target + v, source + v); });
      });
    });
  }

  /// One item per row along the axis.
  void elements() {
    const size_t axis = this->axis();
    const Shape steps = dense_strides(indices_);
    Expr source = Expr(0), target = Expr(0);
    for (size_t d = 0; d < data_.size(); ++d) {
      if (d == axis) continue;
      const Expr i = b_.parallel("i" + std::to_string(d), indices_[d]);
      source = source + i * Expr(steps[d]), target = target + i * Expr(strides_[d]);
    }
    declare();
    const Expr from = b_.let("source", source), to = b_.let("target", target);
    b_.loop("k", 0, indices_[axis], [&](const Expr& k) {
      const Expr at = b_.let("at", from + k * Expr(steps[axis]));
      put(to + place_of(b_, at_, at, data_[axis]) * Expr(strides_[axis]), at);
    });
  }

  std::string reduction_;
  Buf at_, from_, to_;
};

class ScatterRows final : public LoopModel {
 public:
  using LoopModel::LoopModel;

 private:
  Schedule usual() const override { return {"scatter_rows", {}}; }
  Lowered emit(const Schedule&) const override {
    Lowered lowered;
    lowered.stages.push_back(copy_stage(task(), lowered));
    Emitter e(task(), "scatter_rows");
    ScatterEmitter(e).run();
    lowered.stages.push_back(e.finish(lowered));
    return lowered;
  }
};

}  // namespace

const Template scatter_rows{"scatter_rows", "rows and elements written by index", analyse_as<ScatterRows, check>};

}  // namespace kilter
