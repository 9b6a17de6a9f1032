#include "ops/support/svm.h"

#include <cmath>

#include "ops/support/operands.h"

namespace kilter {

double SvmKernel::operator()(std::span<const double> a, std::span<const double> b) const {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double difference = a[i] - b[i];
    sum += kind == Kind::rbf ? difference * difference : a[i] * b[i];
  }
  switch (kind) {
    case Kind::linear:
      break;
    case Kind::poly:
      return std::pow(gamma * sum + coef0, degree);
    case Kind::rbf:
      return std::exp(-gamma * sum);
    case Kind::sigmoid:
      return std::tanh(gamma * sum + coef0);
  }
  return sum;
}

SvmKernel svm_kernel(const Node& node) {
  SvmKernel kernel;
  const std::string kind = node.string_attr("kernel_type", "LINEAR");
  if (kind == "POLY") {
    kernel.kind = SvmKernel::Kind::poly;
  } else if (kind == "RBF") {
    kernel.kind = SvmKernel::Kind::rbf;
  } else if (kind == "SIGMOID") {
    kernel.kind = SvmKernel::Kind::sigmoid;
  } else if (kind != "LINEAR") {
    node_error(node,
               fmt::format("attribute kernel_type is '{}'; legal values are LINEAR, POLY, RBF and SIGMOID", kind));
  }
  const std::vector<float> params = node.floats_attr("kernel_params");
  if (params.empty() && kernel.kind == SvmKernel::Kind::linear) return kernel;
  check_count(node, "numbers in attribute kernel_params: gamma, coef0 and degree", 3, params.size());
  kernel.gamma = static_cast<double>(params[0]);
  kernel.coef0 = static_cast<double>(params[1]);
  kernel.degree = static_cast<double>(params[2]);
  return kernel;
}

}  // namespace kilter
