// Declared ranges of sizes for the inputs of a model.
#pragma once

#include <string>
#include <vector>

#include "base/shape_ranges.h"
#include "onnx/model.h"

namespace kilter::onnx {

/// Returns the ranges with the names that the model gives its dimensions, resolved. Inputs whose open dimensions all
/// have names with known sizes are added. `inputs`: those of the model; `defaults`: those with default values. Throws
/// bad_input, with `model` as its name, for an input that does not exist or is not a tensor, for a different rank, and
/// for a range that contradicts a size of the model; usage as ShapeRanges::resolve() does.
ShapeRanges bind_ranges(ShapeRanges ranges, const std::vector<Port>& inputs, const std::vector<Port>& defaults,
                        const std::string& model);

/// Returns the sizes that a port's open dimensions may have, "h = {320..960:32}, w = {320..960:32}"; a dimension
/// without a name is "dimension 2". Empty if no range is declared for one of them.
std::string ranges_text(const Port& port, const ShapeRanges& ranges);

}  // namespace kilter::onnx
