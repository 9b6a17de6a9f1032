// Runs a variant once between fences and compares every value with the trusted variant's.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "exec/memory.h"
#include "tune/run/tap.h"
#include "tune/run/variant.h"

namespace kilter::tune {

/// A step whose effect differs from that of the trusted variant's step.
struct Finding {
  size_t step = 0;
  std::string words;  ///< the difference
};

struct Checked {
  std::vector<Finding> findings;  ///< in the order of the steps, at most one for each step
  std::vector<double> step_ms;    ///< from the single run, with everything cold
};

class Checker {
 public:
  /// `inputs`: the network's inputs, in the order of Plan::inputs.
  Checker(std::vector<const std::byte*> inputs, std::shared_ptr<ThreadPool> pool, Publisher& publisher);

  /// Runs the variant and keeps all its values as the correct ones.
  Checked trust(const WorkerVariant& variant);
  bool has_trusted() const { return has_trusted_; }
  /// Runs the variant. Each value is compared as soon as it is written and then overwritten with the correct one, so
  /// that every wrong step is found, and none is blamed for an earlier one. `skip`: steps that do not run. `careful`:
  /// also finds steps that change memory of the arena outside their own buffers, and repairs it.
  Checked compare(const WorkerVariant& variant, const std::set<size_t>& skip, bool careful);
  /// Runs the variant and copies the values of the taps to `to`, one after another. Compares nothing.
  void trace(const WorkerVariant& variant, std::span<const Tap> taps, std::byte* to);

 private:
  struct Trusted {
    ValueLayout layout;  ///< packed
    Block data;
    double largest = 0;
  };
  class Run;

  std::vector<const std::byte*> inputs_;
  std::shared_ptr<ThreadPool> pool_;
  Publisher& publisher_;
  std::map<std::string, Trusted> trusted_;  ///< by name of the value
  bool has_trusted_ = false;
};

}  // namespace kilter::tune
