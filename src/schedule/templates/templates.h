// The templates of this folder.
#pragma once

#include "schedule/schedule.h"

namespace kilter {

extern const Template conv2d_winograd;
extern const Template conv2d_direct;
extern const Template conv2d_depthwise;
extern const Template conv2d_then_depthwise;
extern const Template conv_transpose;
extern const Template matmul_tiled;
extern const Template attention_rows;
extern const Template recurrent_steps;
extern const Template pool_rows;
extern const Template reduce_rows;
extern const Template softmax_rows;
extern const Template normalize_rows;
extern const Template normalize_groups;
extern const Template gather_rows;
extern const Template scatter_rows;
extern const Template arg_rows;
extern const Template sample_rows;
extern const Template resize_table;
extern const Template take_channels;
extern const Template move_regions;
extern const Template map_elementwise;

}  // namespace kilter
