// The families of networks: each file of this folder provides its rows of the table.
#pragma once

#include <vector>

#include "zoo/zoo.h"

namespace kilter::zoo {

std::vector<Row> resnet_rows();
std::vector<Row> vgg_rows();
std::vector<Row> mobilenet_rows();
std::vector<Row> squeezenet_rows();
std::vector<Row> inception_rows();
std::vector<Row> densenet_rows();
std::vector<Row> centernet_rows();
std::vector<Row> transformer_rows();
std::vector<Row> volume_rows();

}  // namespace kilter::zoo
