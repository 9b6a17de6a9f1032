#include "tune/space/task_dims.h"

#include "ops/support/window.h"

namespace kilter::tune {
namespace {

double at(const Shape& shape, size_t from_the_end) {
  return shape.size() < from_the_end ? 1 : static_cast<double>(shape[shape.size() - from_the_end]);
}

void conv_dims(const Task& task, const Shape& x, const Shape& y, TaskDims& out) {
  const Node& node = task.node();
  const Shape& w = task.operand(node.inputs[1]).type.shape;
  out.groups = static_cast<double>(node.int_attr("group", 1));
  out.batch = static_cast<double>(y[0]);
  out.columns = static_cast<double>(y[1]) / out.groups;
  out.height = at(y, 2), out.width = at(y, 1);
  out.rows = out.height * out.width;
  out.taps = at(w, 1) * at(w, 2);
  out.reduction = static_cast<double>(x[1]) / out.groups * out.taps;
  for (const int64_t s : node.ints_attr("strides", {})) out.stride *= static_cast<double>(s);
}

void product_dims(const Shape& x, const Shape& y, TaskDims& out) {
  out.rows = at(y, 2), out.columns = at(y, 1), out.reduction = at(x, 1);
  out.batch = static_cast<double>(elems(y)) / std::max(out.rows * out.columns, 1.0);
  out.width = out.columns, out.height = out.rows;
}

void attention_dims(const Task& task, const Shape& y, TaskDims& out) {
  const Shape& k = task.operand(task.node().inputs[1]).type.shape;
  out.rows = at(y, 2), out.columns = at(y, 1), out.reduction = at(k, 2);  // the sum is over keys
  out.batch = static_cast<double>(elems(y)) / std::max(out.rows * out.columns, 1.0);
  out.width = out.columns, out.height = out.rows, out.taps = at(k, 1);
}

}  // namespace

TaskDims task_dims(const Task& task) {
  const Node& node = task.node();
  const Shape& y = task.graph->type(node.outputs[0]).shape;
  TaskDims out;
  out.outputs = static_cast<double>(elems(y));
  out.nodes = static_cast<double>(1 + task.feeder.size() + task.prologue.size() + task.epilogue.size());
  out.width = at(y, 1), out.height = at(y, 2);
  out.rows = out.width * out.height;
  out.batch = out.outputs / std::max(out.rows, 1.0);
  if (node.inputs.empty() || node.inputs[0] == kNone) return out;
  const Shape& x = task.graph->type(node.inputs[0]).shape;
  if (node.op->family == Family::attention) {
    attention_dims(task, y, out);
  } else if (node.op->family == Family::conv && y.size() == 4 && node.inputs.size() > 1) {
    conv_dims(task, x, y, out);
  } else if ((is_product(node.op->family) || node.op->family == Family::matmul_bits) && node.inputs.size() > 1) {
    product_dims(x, y, out);
  } else {
    // The number of input elements per output element.
    out.reduction = std::max(1.0, static_cast<double>(elems(x)) / std::max(out.outputs, 1.0));
    for (const int64_t s : node.ints_attr("kernel_shape", {})) out.taps *= static_cast<double>(s);
    for (const int64_t s : node.ints_attr("strides", {})) out.stride *= static_cast<double>(s);
  }
  return out;
}

std::span<const TaskDim> all_task_dims() {
  static constexpr TaskDim kDims[] = {
      {"batch", "images, matrices or heads", &TaskDims::batch},
      {"rows", "output pixels of an image, rows of a product, queries", &TaskDims::rows},
      {"columns", "output channels of a group, columns of a product", &TaskDims::columns},
      {"reduction", "products summed for one element of the output", &TaskDims::reduction},
      {"width", "innermost extent of the output", &TaskDims::width},
      {"height", "second innermost extent of the output", &TaskDims::height},
      {"taps", "positions of the kernel or window", &TaskDims::taps},
      {"groups", "groups of a convolution", &TaskDims::groups},
      {"stride", "product of the strides", &TaskDims::stride},
      {"outputs", "elements of the output", &TaskDims::outputs},
      {"nodes", "nodes of the task: the anchor and the fused ones", &TaskDims::nodes},
  };
  return kDims;
}

}  // namespace kilter::tune
