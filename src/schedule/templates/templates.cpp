#include "schedule/templates/templates.h"

namespace kilter {

std::span<const Template* const> all_templates() {
  static const Template* const kTemplates[] = {
      &conv2d_then_depthwise, &conv2d_depthwise, &conv2d_winograd, &conv2d_direct, &conv_transpose, &matmul_tiled,
      &attention_rows,        &recurrent_steps,  &pool_rows,       &reduce_rows,   &softmax_rows,   &normalize_rows,
      &normalize_groups,      &gather_rows,      &scatter_rows,    &arg_rows,      &sample_rows,    &resize_table,
      &take_channels,         &move_regions,     &map_elementwise,
  };
  return kTemplates;
}

}  // namespace kilter
