#include "ops/support/conv_reference.h"

namespace kilter {

ConvShape conv_shape(const Node& node, const Shape& x, const Shape& w) {
  ConvShape shape;
  shape.window = conv_window(node, x, w);
  shape.batch = x[0];
  shape.channels = x[1];
  shape.filters = w[0];
  shape.groups = node.int_attr("group", 1);
  if (shape.groups < 1 || shape.channels % shape.groups != 0 || w[1] != shape.channels / shape.groups) {
    node_error(node, fmt::format("input {} and filter {} do not fit group={}: expected input channels = filter "
                                 "channels * group",
                                 text(x), text(w), shape.groups));
  }
  if (shape.filters % shape.groups != 0) {
    node_error(node, fmt::format("{} filters cannot be divided into group={}", shape.filters, shape.groups));
  }
  return shape;
}

}  // namespace kilter
