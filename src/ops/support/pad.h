// The margins that Pad adds around a tensor, for operators and passes that absorb them.
#pragma once

#include "ops/op.h"

namespace kilter {

/// Elements added (removed if negative) before and after every dimension.
struct Margins {
  Shape before;
  Shape after;
};
/// Returns the margins of a Pad whose operands after the first are constants.
Margins margins_of(const OpView& pad);
/// Returns the element that the Pad adds, or nothing if it repeats elements of the input.
std::optional<double> constant_margin(const OpView& pad);

}  // namespace kilter
