// The sizes of a task in terms common to all kinds of tasks, so that a learned model can relate a convolution to a
// matrix product.
#pragma once

#include <span>
#include <string_view>

#include "schedule/problem/task.h"

namespace kilter::tune {

/// Sizes that a task does not have are 1.
struct TaskDims {
  double batch = 1;      ///< images, matrices, heads
  double rows = 1;       ///< output pixels of an image, rows of a product, queries
  double columns = 1;    ///< output channels in a group, columns of a product, size of an attention's values
  double reduction = 1;  ///< products summed for one output element
  double width = 1;      ///< innermost extent of the output's image
  double height = 1;     ///< the next extent outside `width`
  double taps = 1;       ///< positions of the kernel or window
  double groups = 1;
  double stride = 1;   ///< product of the strides
  double outputs = 1;  ///< elements of the output
  double nodes = 1;    ///< nodes of the task: the anchor and the fused ones
};

TaskDims task_dims(const Task& task);

struct TaskDim {
  std::string_view name, meaning;
  double TaskDims::* member;
};
std::span<const TaskDim> all_task_dims();

}  // namespace kilter::tune
