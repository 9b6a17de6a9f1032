// Ratios over today's default schedule, from records that were measured against a different default.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>

#include "tune/records/record.h"

namespace kilter::tune {

/// The ratios of one task's records, taken under one set of conditions, over one default. The default may have changed
/// because it is forbidden now, `--accuracy` excludes it, or the analytic model picks differently.
class OverDefault {
 public:
  /// Leaves every ratio as recorded, regardless of the default against which it was measured.
  OverDefault() = default;
  /// Converts ratios so that they are relative to `fallback`, the text of a schedule. Converts nothing if that is
  /// empty. `records` may contain records that relate other defaults to it.
  OverDefault(std::span<const Record* const> records, std::string fallback);

  /// Returns the record's ratio over `fallback`. If it was measured against a different default, it is multiplied by
  /// that default's ratio over `fallback`, known from records that pair the two, and the intervals are combined. Empty
  /// for a record without a ratio, and if no record pairs the two defaults.
  std::optional<Ratio> of(const Record& record) const;
  /// Whether of() combines two ratios.
  bool converts(const Record& record) const;

 private:
  struct Link {
    Ratio ratio;  ///< the other default's time over that of `fallback_`
    size_t samples = 0;
  };
  void add(const std::string& other, const Link& link);

  std::string fallback_;
  std::map<std::string, Link> links_;  ///< by the other default
};

}  // namespace kilter::tune
