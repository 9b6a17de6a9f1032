// The space of a task: every schedule that some template can lower it with, as data. The union over the templates that
// take the task of the products of their knobs' values; points of it are numbered, counted, walked and drawn.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "schedule/schedule.h"
#include "target/target.h"

namespace kilter::tune {

/// A template has no more knobs; internal error where one has.
constexpr size_t kMostKnobs = 8;

/// One schedule of a space, in numbers. Means something together with its Space only.
struct Point {
  uint16_t part = 0;                      ///< template: index in Space::parts()
  std::array<uint16_t, kMostKnobs> at{};  ///< by knob: index of its value; 0 beyond the template's knobs

  auto operator<=>(const Point&) const = default;
};

/// What one template adds to a space.
struct Part {
  const Template* from = nullptr;
  std::vector<Knob> knobs;
  uint64_t first = 0;            ///< ordinal of its first point
  uint64_t size = 1;             ///< of the product of its knobs
  std::optional<Schedule> pick;  ///< its own default; none where it takes the task only when it is forced to
};

/// A point that no cheap check refuses.
struct LegalPoint {
  Point point;
  bool modelled = false;  ///< its template has a model: `estimate` holds
  Estimate estimate;
};

/// Legality has three steps, each dearer than the one before: the knobs' values (in the product by construction), the
/// template's estimate(), which refuses what its lower() refuses, and lower() itself, which has the last word. The
/// points that pass the first two are found once, when the space is made (some microseconds each).
class Space {
 public:
  /// Keeps references to the task and its graph. Under Accuracy::strict templates that approximate are left out, and so
  /// is what is forbidden. A task that no template takes has an empty space; left_out() has the reasons.
  Space(const Task& task, const TargetLimits& limits, Accuracy accuracy = Accuracy::normal,
        std::span<const Forbidden> forbidden = {});

  const Task& task() const { return *task_; }
  const TargetLimits& limits() const { return limits_; }
  const std::vector<Part>& parts() const { return parts_; }
  /// Templates that add nothing, and why.
  const std::vector<std::pair<std::string_view, Rejected>>& left_out() const { return left_out_; }

  /// Points of the products, legal or not.
  uint64_t raw_size() const { return raw_size_; }
  /// All legal points, in the order of their ordinals.
  std::span<const LegalPoint> legal() const { return legal_; }
  /// Points of the products that are not legal, by the limit that they break: "register tile", ...
  const std::map<std::string, uint64_t>& illegal() const { return illegal_; }
  bool contains(const Point& point) const { return index_of(point).has_value(); }
  /// Place in legal(); none for points that are not legal or not of this space.
  std::optional<size_t> index_of(const Point& point) const;

  /// Points are numbered from 0 to raw_size() - 1: by template, then with the last knob fastest.
  uint64_t ordinal(const Point& point) const;
  Point point(uint64_t ordinal) const;

  Schedule schedule(const Point& point) const;
  /// The legal point of a schedule, its knobs in any order; none where it is not in the space.
  std::optional<Point> find(const Schedule& schedule) const;
  /// The last word on a point.
  Answer<Lowered> lower(const Point& point) const;

  /// Of the task's default schedule: the pick of the first template in order of preference. None in an empty space.
  std::optional<Point> default_point() const { return default_; }
  /// The legal point of a template that its model likes best (of equal ones the first); its pick where it has no model,
  /// its first point where it has neither. None for a template without legal points.
  std::optional<Point> best_of(size_t part) const { return best_.at(part); }

  /// Legal points one step away: for each knob the next legal ones below and above with all others as they are, and
  /// between the best points of the templates one another. b is a neighbour of a where a is one of b.
  std::vector<Point> neighbours(const Point& point) const;
  /// Point `draw` of a seeded stream, uniform over the legal ones. Internal error in an empty space.
  Point sample(uint64_t seed, uint64_t draw) const;

 private:
  void add_part(const Template& from, Accuracy accuracy, std::span<const Forbidden> forbidden);
  void find_legal(std::span<const Forbidden> forbidden);
  void find_best();
  std::optional<Point> step(const Point& point, size_t knob, int direction) const;

  const Task* task_;
  TargetLimits limits_;
  std::vector<Part> parts_;
  std::vector<std::pair<std::string_view, Rejected>> left_out_;
  uint64_t raw_size_ = 0;
  std::vector<LegalPoint> legal_;
  std::map<std::string, uint64_t> illegal_;
  std::unordered_map<uint64_t, uint32_t> index_;  ///< ordinal to place in legal_
  std::optional<Point> default_;
  std::vector<std::optional<Point>> best_;
};

/// What limit a refusal is about: its check without what stands in parentheses, so that refusals can be counted.
std::string limit_of(const Rejected& rejected);

}  // namespace kilter::tune
