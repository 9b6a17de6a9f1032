// The space of a task: every schedule with which some template can lower it, as data. It is the union, over the
// templates that accept the task, of the products of their knobs' values. Its points can be numbered, counted,
// enumerated and drawn at random.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <map>
#include <memory>
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

/// The maximum number of knobs of a template; more are an internal error.
constexpr size_t kMostKnobs = 8;

/// One schedule of a space, as numbers. It has a meaning only together with its Space.
struct Point {
  uint16_t part = 0;                      ///< its template, as an index in Space::parts()
  std::array<uint16_t, kMostKnobs> at{};  ///< by knob: index of its value; 0 beyond the template's knobs

  auto operator<=>(const Point&) const = default;
};

/// The part of a space that comes from one template.
struct Part {
  const Template* from = nullptr;
  std::shared_ptr<const Analysed> analysed;
  std::vector<Knob> knobs;
  uint64_t first = 0;            ///< ordinal of its first point
  uint64_t size = 1;             ///< number of its points, legal or not: the product of its knobs' numbers of values
  std::optional<Schedule> pick;  ///< the template's default; none if it accepts the task only when forced
};

/// A point that no cheap check rejects, and the estimate by its template's model.
struct LegalPoint {
  Point point;
  Estimate estimate;
};

/// Legality is checked in three steps of rising cost: by the knobs' values (legal in the product by construction), by
/// the template's estimate(), which rejects the same points as lower(), and by lower() itself, which decides. The
/// points that pass the first two steps are found once, when the space is created (a few microseconds each).
class Space {
 public:
  /// Keeps references to the task and its graph. Leaves out forbidden schedules and, under Accuracy::strict, templates
  /// that approximate. A task that no template accepts has an empty space; left_out() gives the reasons.
  Space(const Task& task, const CpuLimits& limits, Accuracy accuracy = Accuracy::normal,
        std::span<const Forbidden> forbidden = {});

  const Task& task() const { return *task_; }
  const CpuLimits& limits() const { return limits_; }
  const std::vector<Part>& parts() const { return parts_; }
  /// Templates that contribute no points, each with the reason.
  const std::vector<std::pair<std::string_view, Rejected>>& left_out() const { return left_out_; }

  /// Number of all points, legal or not.
  uint64_t raw_size() const { return raw_size_; }
  /// All legal points in the order of their ordinals.
  std::span<const LegalPoint> legal() const { return legal_; }
  /// Number of illegal points by the limit that they violate: "register tile", ...
  const std::map<std::string, uint64_t>& illegal() const { return illegal_; }
  bool contains(const Point& point) const { return index_of(point).has_value(); }
  /// Index in legal(); none for points that are not legal or not of this space.
  std::optional<size_t> index_of(const Point& point) const;

  /// Points are numbered from 0 to raw_size() - 1: by template, then with the last knob varying fastest.
  uint64_t ordinal(const Point& point) const;
  Point point(uint64_t ordinal) const;

  Schedule schedule(const Point& point) const;
  /// The legal point of a schedule, whose knobs may be in any order; none if it is not in the space.
  std::optional<Point> find(const Schedule& schedule) const;
  /// Lowers a point, which decides whether it is legal.
  Result<Lowered> lower(const Point& point) const;

  /// The point of the task's default schedule: the pick of the first template in order of preference. None in an empty
  /// space.
  std::optional<Point> default_point() const { return default_; }
  /// The legal point of a template that its model rates best (the first of equal ones). None for a template without
  /// legal points.
  std::optional<Point> best_of(size_t part) const { return best_.at(part); }

  /// Legal points one step away: for each knob the next legal values below and above, with all other knobs unchanged;
  /// the best points of the templates are also neighbours of one another. The relation is symmetric.
  std::vector<Point> neighbours(const Point& point) const;
  /// Returns draw number `draw` of a seeded stream, uniform over the legal points. Throws internal if the space is
  /// empty.
  Point sample(uint64_t seed, uint64_t draw) const;

 private:
  void add_part(const Template& from, Accuracy accuracy, std::span<const Forbidden> forbidden);
  void find_legal(std::span<const Forbidden> forbidden);
  void find_best();
  std::optional<Point> step(const Point& point, size_t knob, int direction) const;

  const Task* task_;
  CpuLimits limits_;
  std::vector<Part> parts_;
  std::vector<std::pair<std::string_view, Rejected>> left_out_;
  uint64_t raw_size_ = 0;
  std::vector<LegalPoint> legal_;
  std::map<std::string, uint64_t> illegal_;
  std::unordered_map<uint64_t, uint32_t> index_;  ///< ordinal to place in legal_
  std::optional<Point> default_;
  std::vector<std::optional<Point>> best_;
};

/// Returns the limit under which a rejection is counted: its check without the text in parentheses.
std::string limit_of(const Rejected& rejected);

}  // namespace kilter::tune
