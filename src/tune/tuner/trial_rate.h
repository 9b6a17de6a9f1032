// The number of trials per second of a tuning run, estimated from the dates of records.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "tune/records/record.h"

namespace kilter::tune {

struct TrialRate {
  enum From : uint8_t {
    assumed,  ///< there are too few records to estimate it
    machine,  ///< from all records
    network,  ///< from the network's own records
  } from = assumed;
  double per_second = 30;  ///< the assumed rate is the one that `kilter tune` promises for ResNet-50 (doc/search.md)
};

/// Estimates the rate from records of one machine, using only those of the network if there are enough of them. Pauses
/// of half a minute or more do not count as tuning time.
TrialRate trial_rate(std::span<const Record* const> records, const std::string& network);

}  // namespace kilter::tune
