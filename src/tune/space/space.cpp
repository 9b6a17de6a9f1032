#include "tune/space/space.h"

#include <algorithm>
#include <limits>

#include "base/random.h"
#include "base/text.h"

namespace kilter::tune {

std::string limit_of(const Rejected& rejected) {
  const std::string_view check = rejected.check;
  return std::string(trim(check.substr(0, check.find('('))));
}

Space::Space(const Task& task, const CpuLimits& limits, Accuracy accuracy, std::span<const Forbidden> forbidden)
    : task_(&task), limits_(limits) {
  for (const Template* from : all_templates()) add_part(*from, accuracy, forbidden);
  find_legal(forbidden);
  find_best();
}

void Space::add_part(const Template& from, Accuracy accuracy, std::span<const Forbidden> forbidden) {
  auto analysed = from.analyse(*task_, limits_);
  if (!analysed) {
    left_out_.emplace_back(from.name, analysed.rejected());
    return;
  }
  if (from.approximates != nullptr && accuracy == Accuracy::strict) {
    left_out_.emplace_back(from.name, Rejected{"accuracy", "default", "strict"});
    return;
  }
  if (const Forbidden* barred = forbids(forbidden, task_->node().name, {std::string(from.name), {}})) {
    left_out_.emplace_back(from.name, Rejected{std::string(kForbid), "allowed schedules", barred->text()});
    return;
  }
  Part part{&from, *std::move(analysed), {}, raw_size_, 1, {}};
  part.knobs = part.analysed->space();
  require(part.knobs.size() <= kMostKnobs, "template {} has {} knobs, at most {} are supported", from.name,
          part.knobs.size(), kMostKnobs);
  for (const Knob& knob : part.knobs) {
    if (knob.values.empty()) {
      left_out_.emplace_back(from.name, Rejected{"values of knob " + knob.name, "1 or more", "0"});
      return;
    }
    require(knob.values.size() <= std::numeric_limits<uint16_t>::max(), "knob {} of {} has {} values", knob.name,
            from.name, knob.values.size());
    part.size *= knob.values.size();
  }
  if (auto picked = default_pick(from, *part.analysed, accuracy, forbidden)) part.pick = *std::move(picked);
  raw_size_ += part.size;
  parts_.push_back(std::move(part));
}

void Space::find_legal(std::span<const Forbidden> forbidden) {
  for (const Part& part : parts_) {
    for (uint64_t i = part.first; i < part.first + part.size; ++i) {
      LegalPoint at{point(i), {}};
      if (!forbidden.empty() && forbids(forbidden, task_->node().name, schedule(at.point)) != nullptr) {
        ++illegal_[std::string(kForbid)];
        continue;
      }
      const auto estimate = part.analysed->estimate(schedule(at.point));
      if (!estimate) {
        ++illegal_[limit_of(estimate.rejected())];
        continue;
      }
      at.estimate = *estimate;
      index_.emplace(i, static_cast<uint32_t>(legal_.size()));
      legal_.push_back(at);
    }
  }
}

void Space::find_best() {
  best_.resize(parts_.size());
  for (size_t p = 0; p < parts_.size(); ++p) {
    const auto of_part = [&](const LegalPoint& l) { return l.point.part == p; };
    const auto first = std::find_if(legal_.begin(), legal_.end(), of_part);
    if (first == legal_.end()) continue;
    const auto end = std::find_if_not(first, legal_.end(), of_part);
    const auto cheaper = [](const LegalPoint& a, const LegalPoint& b) { return a.estimate.cycles < b.estimate.cycles; };
    best_[p] = std::min_element(first, end, cheaper)->point;
    if (!default_ && parts_[p].pick) default_ = find(*parts_[p].pick);
  }
  // Templates that accept the task only when forced give the default if there is no other.
  for (size_t p = 0; p < parts_.size() && !default_; ++p) default_ = best_[p];
}

std::optional<size_t> Space::index_of(const Point& point) const {
  if (point.part >= parts_.size()) return std::nullopt;
  const Part& part = parts_[point.part];
  for (size_t k = 0; k < kMostKnobs; ++k) {
    const size_t values = k < part.knobs.size() ? part.knobs[k].values.size() : 1;
    if (point.at[k] >= values) return std::nullopt;
  }
  const auto it = index_.find(ordinal(point));
  return it == index_.end() ? std::nullopt : std::optional<size_t>(it->second);
}

uint64_t Space::ordinal(const Point& point) const {
  const Part& part = parts_.at(point.part);
  uint64_t within = 0;
  for (size_t k = 0; k < part.knobs.size(); ++k) within = within * part.knobs[k].values.size() + point.at[k];
  return part.first + within;
}

Point Space::point(uint64_t ordinal) const {
  require(ordinal < raw_size_, "point {} was requested; the space has {}", ordinal, raw_size_);
  size_t p = parts_.size() - 1;
  while (parts_[p].first > ordinal) --p;
  const Part& part = parts_[p];
  Point out;
  out.part = static_cast<uint16_t>(p);
  uint64_t within = ordinal - part.first;
  for (size_t k = part.knobs.size(); k-- > 0;) {
    const uint64_t values = part.knobs[k].values.size();
    out.at[k] = static_cast<uint16_t>(within % values);
    within /= values;
  }
  return out;
}

Schedule Space::schedule(const Point& point) const {
  const Part& part = parts_.at(point.part);
  Schedule out{std::string(part.from->name), {}};
  for (size_t k = 0; k < part.knobs.size(); ++k)
    out.knobs.emplace_back(part.knobs[k].name, part.knobs[k].values.at(point.at[k]));
  return out;
}

std::optional<Point> Space::find(const Schedule& schedule) const {
  const auto named = [&](const Part& part) { return part.from->name == schedule.name; };
  const auto it = std::find_if(parts_.begin(), parts_.end(), named);
  if (it == parts_.end() || schedule.knobs.size() != it->knobs.size()) return std::nullopt;
  Point out;
  out.part = static_cast<uint16_t>(it - parts_.begin());
  for (size_t k = 0; k < it->knobs.size(); ++k) {
    const Knob& knob = it->knobs[k];
    const auto given = std::find_if(schedule.knobs.begin(), schedule.knobs.end(),
                                    [&](const auto& pair) { return pair.first == knob.name; });
    if (given == schedule.knobs.end()) return std::nullopt;
    const auto value = std::find(knob.values.begin(), knob.values.end(), given->second);
    if (value == knob.values.end()) return std::nullopt;
    out.at[k] = static_cast<uint16_t>(value - knob.values.begin());
  }
  return contains(out) ? std::optional(out) : std::nullopt;
}

Result<Lowered> Space::lower(const Point& point) const {
  return parts_.at(point.part).analysed->lower(schedule(point));
}

std::optional<Point> Space::step(const Point& point, size_t knob, int direction) const {
  const auto values = static_cast<int>(parts_[point.part].knobs[knob].values.size());
  Point next = point;
  for (int at = point.at[knob] + direction; at >= 0 && at < values; at += direction) {
    next.at[knob] = static_cast<uint16_t>(at);
    if (contains(next)) return next;
  }
  return std::nullopt;
}

std::vector<Point> Space::neighbours(const Point& point) const {
  std::vector<Point> out;
  if (!contains(point)) return out;
  for (size_t k = 0; k < parts_[point.part].knobs.size(); ++k) {
    for (const int direction : {-1, 1}) {
      if (const auto next = step(point, k, direction)) out.push_back(*next);
    }
  }
  if (best_[point.part] == point) {
    for (size_t p = 0; p < best_.size(); ++p) {
      if (p != point.part && best_[p]) out.push_back(*best_[p]);
    }
  }
  return out;
}

Point Space::sample(uint64_t seed, uint64_t draw) const {
  require(!legal_.empty(), "a point of an empty space was requested");
  const auto last = static_cast<int64_t>(legal_.size()) - 1;
  return legal_[static_cast<size_t>(Random(seed, "space").integer(draw, 0, last))].point;
}

}  // namespace kilter::tune
