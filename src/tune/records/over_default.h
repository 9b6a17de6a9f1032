// Ratios over the default schedule of now, of records that were measured against another one.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>

#include "tune/records/record.h"

namespace kilter::tune {

/// What records of one task under one set of conditions say over one default. A default is another one when it is
/// forbidden now, `--accuracy` leaves it out, or the analytic model picks differently than it did.
class OverDefault {
 public:
  /// As every record has it, over whatever default it was measured against.
  OverDefault() = default;
  /// Over `fallback`, a schedule's text; empty: as above. `records` may hold what relates other defaults to it.
  OverDefault(std::span<const Record* const> records, std::string fallback);

  /// Where the record was measured against another default than `fallback`: its ratio times that default's over
  /// `fallback`, as the pairs of either over the other have it, with both intervals. Nothing for a record without a
  /// ratio, and where no record relates the two.
  std::optional<Ratio> of(const Record& record) const;
  /// Whether of() is made of two ratios.
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
