// Folding of what follows a convolution or a product into its weights and bias.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "quantize/document.h"

namespace kilter::quantize {

/// Folds BatchNormalization (inference form), and Add and Mul with one constant for each channel, into the weights and
/// the bias of the Conv before them, if nothing else reads the convolution's result. The Conv then computes the value
/// that the removed node computed. Returns the number of removed nodes. Without this, the removed nodes would stay
/// between a convolution and its quantised result, and no runtime could compute the convolution on integers.
int fold_into_convolutions(Document& document);

/// Joins a MatMul of matrices with constant weights, and the Add of a constant row if only this Add reads the product,
/// into a Gemm, so that the row becomes a bias of 32-bit integers. `is_matrix` returns whether a value has two
/// dimensions. Returns the number of removed nodes.
int fold_into_gemms(Document& document, const std::function<bool(const std::string& value)>& is_matrix);

}  // namespace kilter::quantize
