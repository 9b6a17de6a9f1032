// Reads and replaces the values of a network while it runs, for checks and measurements.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "compile/loaded.h"

namespace kilter {

/// Called for a value after the step that writes it, with the value's buffer for extract() and insert().
using VisitValue = std::function<void(const PlacedValue& value, std::byte* buffer)>;
/// Runs a plan on dense tensors in the plan's order. Values are visited in the order of the steps.
std::vector<Tensor> run_visiting(Loaded& loaded, const std::vector<Tensor>& inputs, const VisitValue& visit);

/// Writes a dense tensor with the elements of a value to the value's place in a run, the inverse of extract(). Shapes
/// may differ in dimensions of 1. Elements are rounded to the type in which the value is stored.
void insert(const PlacedValue& value, const Tensor& elements, std::byte* buffer);

/// The values of a run by name, in the order of the steps, and the outputs in the order of the plan.
struct RunValues {
  std::vector<std::pair<std::string, Tensor>> made;
  std::vector<Tensor> outputs;
};
/// `only`: the values to return; null: all.
RunValues values_of(Loaded& loaded, const std::vector<Tensor>& inputs,
                    const std::map<std::string, Tensor>* only = nullptr);
/// Returns the values that each layer computes on its own: every layer reads the values of `others`, which come from
/// another plan for the same network, as far as both plans have them.
std::map<std::string, Tensor> values_of_layers_alone(Loaded& loaded, const std::vector<Tensor>& inputs,
                                                     const std::map<std::string, Tensor>& others);

/// Whether two tensors can be values of the same name in two plans of a network. A signal [n,c,w] may be computed as an
/// image [n,c,1,w] under the same name, and elements of a float type may have a different float type.
bool comparable(const Tensor& a, const Tensor& b);

}  // namespace kilter
