// What Pad adds around a tensor, for those who take it over.
#pragma once

#include "ops/op.h"

namespace kilter {

/// Elements added (removed when negative) before and after every dimension.
struct Margins {
  Shape before;
  Shape after;
};
/// Of a Pad whose operands behind the first are constants.
Margins margins_of(const OpView& pad);
/// The element that it adds; nothing where it repeats the input's.
std::optional<double> constant_margin(const OpView& pad);

}  // namespace kilter
