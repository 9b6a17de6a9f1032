#include "graph/op_def.h"

#include "base/map_value.h"

namespace kilter {

std::string_view name(Family family) {
  switch (family) {
    case Family::reference:
      return "reference";
    case Family::map:
      return "map";
    case Family::movement:
      return "movement";
    case Family::reshape:
      return "reshape";
    case Family::reduce:
      return "reduce";
    case Family::matmul:
      return "matmul";
    case Family::gemm:
      return "gemm";
    case Family::matmul_bits:
      return "matmul_bits";
    case Family::attention:
      return "attention";
    case Family::recurrent:
      return "recurrent";
    case Family::conv:
      return "conv";
    case Family::conv_transpose:
      return "conv_transpose";
    case Family::pool:
      return "pool";
    case Family::softmax:
      return "softmax";
    case Family::normalize:
      return "normalize";
    case Family::gather:
      return "gather";
    case Family::resize:
      return "resize";
    case Family::channels:
      return "channels";
    case Family::scatter:
      return "scatter";
    case Family::arg:
      return "arg";
    case Family::sample:
      return "sample";
    case Family::trees:
      return "trees";
  }
  return "?";
}

bool is_product(Family family) {
  return family == Family::matmul || family == Family::gemm || family == Family::attention ||
         family == Family::recurrent;
}

bool over_pixels(Statistics statistics) {
  return statistics == Statistics::channel || statistics == Statistics::group || statistics == Statistics::volume_group;
}

bool is_contraction(Family family) {
  return is_product(family) || family == Family::matmul_bits || family == Family::conv ||
         family == Family::conv_transpose;
}

void node_error(const Node& node, const std::string& text) { fail(ErrorKind::bad_model, "{}: {}", label(node), text); }

const TensorType& InferContext::type(size_t i) const {
  if (!has(i)) error(fmt::format("input {} is missing", i));
  return *inputs_[i];
}

const Tensor& InferContext::needed(size_t i) const {
  if (!has(i)) error(fmt::format("input {} is missing", i));
  const Tensor* known = value(i);
  if (known == nullptr) throw NeedsValue{static_cast<int32_t>(i)};
  return *known;
}

void InferContext::set(size_t output, DType type, Shape shape) {
  if (output < outputs.size()) outputs[output] = TensorType{type, std::move(shape), {}};
}

const Tensor& RunContext::tensor(size_t i) const {
  if (!has(i) || !inputs[i].is_tensor()) {
    node_error(node, fmt::format("input {} is {}, expected a tensor", i,
                                 i < inputs.size() ? text(inputs[i]) : std::string("left out")));
  }
  return inputs[i].tensor();
}

AnyValue& RunContext::sequence(size_t i) {
  if (!has(i) || !is_list(inputs[i])) {
    node_error(node, fmt::format("input {} is {}, expected a sequence", i,
                                 i < inputs.size() ? text(inputs[i]) : std::string("left out")));
  }
  return inputs[i];
}

}  // namespace kilter
