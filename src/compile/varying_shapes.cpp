#include "compile/varying_shapes.h"

#include <algorithm>

#include "vm/varying.h"

namespace kilter {

std::optional<std::set<VaryingShapes::Dim>> VaryingShapes::difference(const Shapes& a, const Shapes& b) {
  if (!std::ranges::equal(a, b, {}, &Shapes::value_type::first, &Shapes::value_type::first)) return std::nullopt;
  std::set<Dim> dims;
  for (const auto& [name, shape] : a) {
    const Shape& other = b.at(name);
    if (shape.size() != other.size()) return std::nullopt;
    for (size_t i = 0; i < shape.size(); ++i) {
      if (shape[i] != other[i]) dims.emplace(name, i);
    }
  }
  return dims;
}

bool VaryingShapes::fits(const Shapes& shapes) const {
  const auto dims = runner_ != nullptr ? difference(base_, shapes) : std::nullopt;
  return dims && std::ranges::includes(runner_dims_, *dims);
}

ProgramRunner* VaryingShapes::runner_for(const Shapes& shapes, const std::vector<TensorType>& types) {
  constexpr int kRunsUntilPlan = 64;
  constexpr size_t kMostCounted = 4096;
  constexpr int kLeastInARow = 2;
  constexpr double kMostVarying = 0.5;
  if (fits(shapes)) {
    if (runs_.size() > kMostCounted) runs_.clear();
    if (++runs_[shapes] <= kRunsUntilPlan) return runner_.get();
    runs_.erase(shapes);
    return nullptr;
  }
  const auto dims = last_ ? difference(*last_, shapes) : std::nullopt;
  if (dims && !dims->empty()) {
    in_a_row_ = *dims == dims_ ? in_a_row_ + 1 : 1;
    dims_ = *dims;
  } else {
    in_a_row_ = 0;
  }
  const std::vector<TensorType> before = std::exchange(last_types_, types);
  last_ = shapes;
  if (in_a_row_ < kLeastInARow || useless_.contains(dims_)) return nullptr;
  std::optional<vm::Varying> varying = vm::find_varying(*graph_, name_, before, types);
  if (!varying || varying->share > kMostVarying) {
    useless_.insert(dims_);
    return nullptr;
  }
  runner_ = make_(std::move(varying->values));
  base_ = shapes, runner_dims_ = dims_;
  runs_.clear();
  return runner_.get();
}

}  // namespace kilter
