// The constants of a session's variants on the agent.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "fleet/agent/job_source.h"
#include "fleet/agent/trial_job.h"
#include "tune/run/constant_store.h"

namespace kilter::fleet {

/// Returns the bytes of the blobs. Throws bad_input if they do not have the hashes that the job names.
std::string fetch(JobSource& blobs, const Stored& stored);

/// Keeps constants in a store, and the tensors from which some are packed, until they use too much memory. Most
/// constants of two variants are the same, and many are packed from the same tensor.
class KeptParts {
 public:
  /// `most_bytes`: of the whole store.
  KeptParts(JobSource& blobs, tune::ConstantStore& store, int64_t most_bytes);

  /// Returns the part of the store that has a constant, which stays there until the next forget(). Throws bad_input if
  /// the blobs are not as described, the recipe is not sound, or the constant would need too much memory.
  tune::StorePart get(const TrialPart& part);
  /// Drops the least recently used entries until the rest is within the limit.
  void forget();

 private:
  struct Kept {
    tune::StorePart part = {};                       ///< if there is no source
    std::shared_ptr<const std::string> source = {};  ///< bytes of a tensor
    int64_t bytes = 0, used = 0;                     ///< used: larger means later
  };
  tune::StorePart make(const TrialPart& part);
  std::shared_ptr<const std::string> source(const Stored& stored);
  void keep(const std::string& name, Kept kept);

  JobSource& blobs_;
  tune::ConstantStore& store_;
  int64_t most_bytes_, most_kept_;
  std::map<std::string, Kept> kept_;
  int64_t kept_bytes_ = 0, uses_ = 0;
};

}  // namespace kilter::fleet
