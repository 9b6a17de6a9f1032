#include "compile/varying_shapes.h"

#include <algorithm>

#include "compile/varying_values.h"

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

bool VaryingShapes::Group::has(const Shapes& shapes) const {
  const auto differing = difference(base, shapes);
  return differing && std::ranges::includes(dims, *differing);
}

size_t VaryingShapes::plans() const {
  size_t all = 0;
  for (const Group& group : groups_) all += group.runner->plans();
  return all;
}

int64_t VaryingShapes::held_bytes() const {
  int64_t all = 0;
  for (const Group& group : groups_) all += group.runner->held_bytes();
  return all;
}

/// Returns whether the last shapes, including these, differ from one another in the same dimensions; records these
/// shapes.
bool VaryingShapes::repeats(const Shapes& shapes) {
  constexpr int kLeastInARow = 2;
  const auto dims = last_ ? difference(*last_, shapes) : std::nullopt;
  if (dims && !dims->empty()) {
    in_a_row_ = *dims == dims_ ? in_a_row_ + 1 : 1;
    dims_ = *dims;
  } else {
    in_a_row_ = 0;
  }
  last_ = shapes;
  return in_a_row_ >= kLeastInARow && !useless_.contains(dims_);
}

ProgramRunner* VaryingShapes::runner_for(const Shapes& shapes, const std::vector<TensorType>& types) {
  constexpr int kRunsUntilPlan = 64;
  constexpr size_t kMostCounted = 4096, kMostGroups = 4;
  constexpr double kMostVarying = 0.5;
  if (const auto group = std::ranges::find_if(groups_, [&](const Group& g) { return g.has(shapes); });
      group != groups_.end()) {
    groups_.splice(groups_.begin(), groups_, group);
    std::map<Shapes, int>& runs = groups_.front().runs;
    if (runs.size() > kMostCounted) runs.clear();
    if (++runs[shapes] <= kRunsUntilPlan) return groups_.front().runner.get();
    runs.erase(shapes);
    return nullptr;
  }
  const std::vector<TensorType> before = std::exchange(last_types_, types);
  if (!repeats(shapes)) return nullptr;
  std::optional<Varying> varying = find_varying(*graph_, name_, before, types);
  if (!varying || varying->share > kMostVarying) {
    useless_.insert(dims_);
    return nullptr;
  }
  groups_.push_front({shapes, dims_, make_(std::move(varying->values))});
  if (groups_.size() > kMostGroups) groups_.pop_back();
  return groups_.front().runner.get();
}

}  // namespace kilter
