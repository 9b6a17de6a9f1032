// Networks of one layer whose results are exact in every type and order of summation: convolutions, products and
// attention of whole numbers, and quantised layers.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "draw.h"

namespace kilter {

/// Whole numbers from -8 to 8: exact in bf16 and f16, as are their products and sums in f32.
Tensor whole_numbers(SweepNet& net, const Shape& shape);

/// A network of one layer, so that no sum is stored in a narrow type. Its operands are results of other nodes, which
/// may be stored in one.
struct Layer {
  explicit Layer(uint64_t seed) : net(seed) {}
  ValueId input(const Shape& shape) {
    inputs.push_back(whole_numbers(net, shape));
    return net.b.add("Abs", {net.b.input(fmt::format("x{}", inputs.size()), DType::f32, shape)});
  }
  ValueId constant(const Shape& shape) { return net.b.constant(whole_numbers(net, shape)); }

  SweepNet net;
  std::vector<Tensor> inputs;
};

void make_conv(Layer& l);
void make_product(Layer& l);
/// softmax(64 q k' + mask) v of whole numbers: a weight is 1 if the score is the largest, and below 1e-27 otherwise, so
/// results are means of a few values.
void make_attention(Layer& l);

/// The largest difference, relative to the largest element.
double difference(const Tensor& got, const Tensor& want);

/// The text of a network with a quantised input %q, which is %x after subtracting the zero point, and f32 weights %w;
/// the nodes compute its output %y.
std::string network_of_codes(std::string_view nodes, const Shape& codes, const Shape& weights, int64_t zero);

}  // namespace kilter
