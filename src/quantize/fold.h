// Folding of what follows a convolution into its weights and bias.
#pragma once

#include "quantize/document.h"

namespace kilter::quantize {

/// Folds BatchNormalization (inference form), and Add and Mul with one constant for each channel, into the weights and
/// the bias of the Conv before them, if nothing else reads the convolution's result. The Conv then makes the value that
/// the removed node made. Returns the number of removed nodes. Without this, the removed nodes would stay between a
/// convolution and its quantised result, and no runtime could compute the convolution on integers.
int fold_into_convolutions(Document& document);

}  // namespace kilter::quantize
