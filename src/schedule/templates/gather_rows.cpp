// Gather, GatherND and GatherElements: rows or single elements of the data, by index (see place_of).

#include "schedule/model/loop_model.h"
#include "schedule/templates/place.h"
#include "schedule/templates/rows.h"
#include "schedule/templates/templates.h"

namespace kilter {
namespace {

std::optional<Rejected> check(const Task& task, const CpuLimits&) {
  const Node& node = task.node();
  if (node.op->family != Family::gather) return not_for("operator family", "gather", node.op->name);
  if (!task.prologue.empty() || !task.epilogue.empty()) return Rejected{"fused nodes", "none", "some"};
  const Operand& data = task.operand(node.inputs[0]);
  if (data.type.dtype == DType::string) return Rejected{"element type", "numeric", "str"};
  if (data.type.shape.empty() || elems(data.type.shape) == 0 || elems(task.outputs[0].type.shape) == 0) {
    return Rejected{"elements", "1 or more", "0"};
  }
  for (const auto* list : {&task.inputs, &task.outputs}) {
    for (const Operand& o : *list) {
      if (auto rejected = check_dense(o)) return rejected;
    }
  }
  return std::nullopt;
}

class GatherEmitter : IndexedEmitter {
 public:
  using IndexedEmitter::IndexedEmitter;

  void run() {
    if (node_.op->addressing == Addressing::tuple) return tuples();
    if (node_.op->addressing == Addressing::element) return elements();
    rows();
  }

 private:
  void declare() {
    from_ = e_.input(node_.inputs[0]);
    at_ = e_.input(node_.inputs[1]);
    to_ = e_.output(node_.outputs[0]);
  }
  Expr place(const Expr& i, int64_t extent) { return place_of(b_, at_, i, extent); }
  void copy(const Expr& target, const Expr& source, int64_t count) {
    b_.vector_loop("v", count, [&](const Expr& v) { b_.store(to_, target + v, b_.load(from_, source + v)); });
  }

  void rows() {
    const size_t axis = this->axis();
    const int64_t after = strides_[axis], extent = data_[axis], count = elems(indices_);
    const Expr outer = b_.parallel("outer", elems(Shape(data_.begin(), data_.begin() + static_cast<int64_t>(axis))));
    if (after == 1) return single_elements(outer, extent, count);
    const Expr i = b_.parallel("i", count);
    declare();
    const Expr row = place(i, extent);
    const Expr source = b_.let("source", (outer * Expr(extent) + row) * Expr(after));
    const Expr target = b_.let("target", (outer * Expr(count) + i) * Expr(after));
    copy(target, source, after);
  }

  /// Gathers rows of one element, with vectors over the indices.
  void single_elements(const Expr& outer, int64_t extent, int64_t count) {
    constexpr int64_t kPart = 4096;
    parallel_parts(b_, "part", count, kPart, [&](const Expr& first, int64_t size) {
      declare();
      const Expr source = b_.let("source", outer * Expr(extent)),
                 target = b_.let("target", outer * Expr(count) + first);
      b_.vector_loop("v", size, [&](const Expr& v) {
        b_.store(to_, target + v, b_.load(from_, source + place(first + v, extent)));
      });
    });
  }

  /// Gathers rows at index tuples, which are stored along the last dimension of the indices. A tuple of k indices
  /// addresses k dimensions of the data, after the batch dimensions.
  void tuples() {
    const auto batch = static_cast<size_t>(node_.int_attr("batch_dims", 0));
    const auto width = static_cast<size_t>(indices_.back());
    const int64_t batches = elems(Shape(data_.begin(), data_.begin() + static_cast<int64_t>(batch)));
    const int64_t count = elems(indices_) / indices_.back() / batches, all = elems(data_) / batches;
    const int64_t after = strides_[batch + width - 1];
    const Expr outer = b_.parallel("outer", batches);
    const Expr i = b_.parallel("i", count);
    declare();
    const Expr tuple = b_.let("tuple", outer * Expr(count) + i);
    Expr source = outer * Expr(all);
    for (size_t k = 0; k < width; ++k) {
      const Expr index = place(tuple * Expr(indices_.back()) + Expr(static_cast<int64_t>(k)), data_[batch + k]);
      source = source + index * Expr(strides_[batch + k]);
    }
    copy(tuple * Expr(after), b_.let("source", source), after);
  }

  /// Gathers single elements, each at its own position except along the axis.
  void elements() {
    const size_t axis = this->axis(), last = data_.size() - 1;
    const Shape steps = dense_strides(indices_);
    Expr source = Expr(0), target = Expr(0);
    for (size_t d = 0; d < last; ++d) {
      const Expr i = b_.parallel("i" + std::to_string(d), indices_[d]);
      target = target + i * Expr(steps[d]);
      if (d != axis) source = source + i * Expr(strides_[d]);
    }
    declare();
    const Expr first = b_.let("source", source), row = b_.let("target", target);
    b_.vector_loop("v", indices_[last], [&](const Expr& v) {
      const Expr along = place(row + v, data_[axis]) * Expr(strides_[axis]);
      b_.store(to_, row + v, b_.load(from_, first + (axis == last ? along : along + v)));
    });
  }

  Buf from_, at_, to_;
};

class GatherRows final : public LoopModel {
 public:
  using LoopModel::LoopModel;

 private:
  Schedule usual() const override { return {"gather_rows", {}}; }
  Lowered emit(const Schedule&) const override {
    Emitter e(task(), "gather_rows");
    GatherEmitter(e).run();
    return e.finish();
  }
};

}  // namespace

const Template gather_rows{"gather_rows", "rows and elements by index", analyse_as<GatherRows, check>};

}  // namespace kilter
