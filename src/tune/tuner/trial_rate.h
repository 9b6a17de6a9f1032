// How many trials a second tuning makes, as the dates of records tell.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "tune/records/record.h"

namespace kilter::tune {

struct TrialRate {
  enum From : uint8_t {
    assumed,  ///< the records are too few to tell
    machine,  ///< from all records
    network,  ///< from those of the network
  } from = assumed;
  double per_second = 30;  ///< assumed: what `kilter tune` promises for ResNet-50 (doc/search.md)
};

/// Records of one machine; those of the network count alone where they are enough. Pauses of half a minute and more
/// are no tuning.
TrialRate trial_rate(std::span<const Record* const> records, const std::string& network);

}  // namespace kilter::tune
