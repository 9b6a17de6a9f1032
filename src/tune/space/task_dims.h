// The sizes of a task in words that all its kinds share, so that a learned model sees a convolution and a matrix
// product as relatives.
#pragma once

#include <span>
#include <string_view>

#include "schedule/problem/task.h"

namespace kilter::tune {

/// 1 where a task has nothing of the kind.
struct TaskDims {
  double batch = 1;      ///< images, matrices, heads
  double rows = 1;       ///< output pixels of an image, rows of a product, queries
  double columns = 1;    ///< output channels of a group, columns of a product, size of an attention's values
  double reduction = 1;  ///< products summed for one element of the output
  double width = 1;      ///< innermost extent of the output's image
  double height = 1;     ///< extent above it
  double taps = 1;       ///< of the kernel or window
  double groups = 1;
  double stride = 1;   ///< product of the strides
  double outputs = 1;  ///< elements of the output
  double nodes = 1;    ///< of the task, anchor and fused ones
};

TaskDims task_dims(const Task& task);

struct TaskDim {
  std::string_view name, meaning;
  double TaskDims::* member;
};
std::span<const TaskDim> all_task_dims();

}  // namespace kilter::tune
