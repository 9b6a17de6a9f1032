// The kernel functions of support vector machines.
#pragma once

#include <span>

#include "ops/support/ml.h"

namespace kilter {

/// A kernel function of two vectors: their product (linear), (gamma product + coef0)^degree (poly),
/// tanh(gamma product + coef0) (sigmoid), exp(-gamma |difference|^2) (rbf).
struct SvmKernel {
  enum class Kind { linear, poly, rbf, sigmoid };
  Kind kind = Kind::linear;
  double gamma = 0, coef0 = 0, degree = 0;

  double operator()(std::span<const double> a, std::span<const double> b) const;
};
/// Reads attributes kernel_type and kernel_params.
SvmKernel svm_kernel(const Node& node);

}  // namespace kilter
