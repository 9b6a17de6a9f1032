// The activations that ONNX Runtime's optimiser fuses into products and convolutions.
#pragma once

#include "ops/support/expander.h"

namespace kilter {

class ActivationExpander : protected Expander {
 protected:
  explicit ActivationExpander(ExpandContext& ctx) : Expander(ctx) {}

  /// Returns attribute `activation` applied to v, with the values of its attributes in the order of the operator's
  /// definition (alpha, beta; Clip: min, max). Values that are not given have the operator's defaults.
  ValueId activated(ValueId v, std::span<const float> values);
};

}  // namespace kilter
