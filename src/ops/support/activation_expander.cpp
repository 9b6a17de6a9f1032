#include "ops/support/activation_expander.h"

#include <algorithm>
#include <array>

namespace kilter {
namespace {

/// An activation and the number of its attributes, alpha and beta.
struct Activation {
  std::string_view name;
  size_t values;
};
constexpr std::array<Activation, 12> kActivations = {{{"Clip", 2},
                                                      {"Elu", 1},
                                                      {"HardSigmoid", 2},
                                                      {"HardSwish", 0},
                                                      {"LeakyRelu", 1},
                                                      {"Relu", 0},
                                                      {"Sigmoid", 0},
                                                      {"Softplus", 0},
                                                      {"Softsign", 0},
                                                      {"Tanh", 0},
                                                      {"ThresholdedRelu", 1},
                                                      {"Selu", 0}}};

}  // namespace

ValueId ActivationExpander::activated(ValueId v, std::span<const float> values) {
  const std::string activation = node().string_attr("activation", "");
  if (activation.empty()) return v;
  const auto* found = std::ranges::find(kActivations, activation, &Activation::name);
  if (found == kActivations.end()) {
    std::string legal;
    for (const Activation& a : kActivations) legal += fmt::format("{}{}", legal.empty() ? "" : ", ", a.name);
    error(fmt::format("attribute activation is '{}'; legal values are {}", activation, legal));
  }
  if (activation == "Clip") {
    if (values.size() < 2) error("attribute activation is 'Clip', which needs a minimum and a maximum as parameters");
    const DType type = dtype(v);
    return add("Clip", {v, scalar(type, static_cast<double>(values[0])), scalar(type, static_cast<double>(values[1]))});
  }
  Attrs attrs;
  constexpr std::array kKeys = {"alpha", "beta"};
  for (size_t i = 0; i < std::min(found->values, values.size()); ++i) attrs[kKeys[i]] = values[i];
  return add(activation, {v}, std::move(attrs));
}

}  // namespace kilter
