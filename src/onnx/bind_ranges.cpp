#include "onnx/bind_ranges.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "base/error.h"
#include "base/text.h"

namespace kilter::onnx {
namespace {

/// Checks the ranges of one input against its declaration, and gives them the model's names.
void bind_input(ShapeRanges::Input& input, const Port& port, const std::string& model) {
  const auto refuse = [&, declared = ShapeRanges::text(input)](const std::string& why) {
    fail(ErrorKind::bad_input, "{}: input '{}' ({}): --shapes declares {}; {}", model, printable(port.name), text(port),
         declared, why);
  };
  if (!port.is_tensor()) refuse("only tensors have sizes: leave it out");
  if (!port.dims) return;
  if (port.dims->size() != input.dims.size())
    refuse(fmt::format("expected {} dimensions, got {}", port.dims->size(), input.dims.size()));
  for (size_t axis = 0; axis < input.dims.size(); ++axis) {
    DimRange& range = input.dims[axis];
    const Dim& dim = (*port.dims)[axis];
    if (dim.size) {
      if (range.refers || range.count() != 1 || !range.contains(*dim.size))
        refuse(fmt::format("dimension {} is {} in the model, got {}: give {} there", axis, *dim.size, range.text(),
                           *dim.size));
    } else if (range.symbol.empty()) {
      range.symbol = dim.symbol;
    }
  }
}

/// The declared sizes of dimensions by name.
std::map<std::string, DimRange> named_ranges(const ShapeRanges& ranges) {
  std::map<std::string, DimRange> known;
  for (const ShapeRanges::Input& input : ranges.inputs()) {
    for (const DimRange& dim : input.dims) {
      if (!dim.symbol.empty() && !dim.refers) known.emplace(dim.symbol, dim);
    }
  }
  return known;
}

/// Adds the inputs whose sizes follow from those of the others.
void add_implied(ShapeRanges& ranges, const std::vector<Port>& inputs) {
  const std::map<std::string, DimRange> known = named_ranges(ranges);
  for (const Port& port : inputs) {
    if (!port.is_tensor() || !port.dims || declared_shape(port) || ranges.find(port.name) != nullptr) continue;
    ShapeRanges::Input implied{port.name, {}};
    for (const Dim& dim : *port.dims) {
      if (dim.size) {
        implied.dims.push_back({.symbol = "", .low = *dim.size, .high = *dim.size});
      } else if (const auto range = known.find(dim.symbol); range != known.end()) {
        implied.dims.push_back(range->second);
      }
    }
    if (implied.dims.size() == port.dims->size()) ranges.inputs().push_back(std::move(implied));
  }
}

}  // namespace

ShapeRanges bind_ranges(ShapeRanges ranges, const std::vector<Port>& inputs, const std::vector<Port>& defaults,
                        const std::string& model) {
  std::vector<std::string> legal;
  std::map<std::string, const Port*> ports;
  for (const auto* all : {&inputs, &defaults}) {
    for (const Port& port : *all) {
      ports[port.name] = &port;
      legal.push_back(fmt::format("'{}' {}", printable(port.name), text(port)));
    }
  }
  for (ShapeRanges::Input& input : ranges.inputs()) {
    const auto port = ports.find(input.name);
    if (port == ports.end()) {
      fail(ErrorKind::bad_input, "{}: --shapes {}={}: the model has no input '{}'; its inputs are: {}", model,
           printable(input.name), ShapeRanges::text(input), printable(input.name),
           legal.empty() ? "none" : fmt::format("{}", fmt::join(legal, ", ")));
    }
    bind_input(input, *port->second, model);
  }
  if (ranges.empty()) return ranges;
  add_implied(ranges, inputs);
  ranges.resolve();
  return ranges;
}

std::string ranges_text(const Port& port, const ShapeRanges& ranges) {
  if (!port.is_tensor() || !port.dims) return {};
  const ShapeRanges::Input* own = ranges.find(port.name);
  const std::map<std::string, DimRange> known = named_ranges(ranges);
  std::vector<std::string> all;
  for (size_t axis = 0; axis < port.dims->size(); ++axis) {
    const Dim& dim = (*port.dims)[axis];
    if (dim.size) continue;
    const DimRange* range = own != nullptr && axis < own->dims.size() ? &own->dims[axis] : nullptr;
    if (range == nullptr) {
      const auto named = known.find(dim.symbol);
      if (named == known.end()) continue;
      range = &named->second;
    }
    const std::string& symbol = range->symbol.empty() ? dim.symbol : range->symbol;
    const std::string line =
        fmt::format("{} = {}", symbol.empty() ? dimension_text(axis, "") : printable(symbol), range->text(false));
    if (std::ranges::find(all, line) == all.end()) all.push_back(line);
  }
  return fmt::format("{}", fmt::join(all, ", "));
}

}  // namespace kilter::onnx
