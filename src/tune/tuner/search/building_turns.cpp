#include "tune/tuner/search/building_turns.h"

#include <fmt/format.h>

#include "measure/stats.h"

namespace kilter::tune {
namespace {

constexpr size_t kBatches = 4;      ///< number of batches measured for a verdict
constexpr int64_t kFirstWait = 32;  ///< batches between the first look and the next; doubles each time
constexpr double kSlowed = 1.1;     ///< limit of the default's time while candidates compile, over its time otherwise

void keep_latest(std::vector<double>& all, double ms) {
  if (all.size() == kBatches) all.erase(all.begin());
  all.push_back(ms);
}

}  // namespace

void BuildingTurns::go(State state) {
  state_ = state;
  since_ = 0;
}

void BuildingTurns::decide(double slowed) {
  if (slowed > kSlowed) slowed_ = slowed;
  go(slowed > kSlowed ? State::turns : State::beside);
  wait_ = wait_ == 0 ? kFirstWait : 2 * wait_;
  beside_ms_.clear(), alone_ms_.clear();
}

void BuildingTurns::note(double ms, double usual_ms) {
  if (!apart_) return;
  ++batches_, ++since_;
  in_turns_ += state_ == State::turns ? 1 : 0;
  keep_latest(beside() ? beside_ms_ : alone_ms_, ms);
  switch (state_) {
    case State::beside:
      if (beside_ms_.size() == kBatches && since_ >= wait_ && median(beside_ms_) > kSlowed * usual_ms)
        go(State::looking);
      break;
    case State::looking:
      decide(median(beside_ms_) / ms);
      break;
    case State::turns:
      if (since_ >= wait_) go(State::trying);
      break;
    case State::trying:
      if (beside_ms_.size() == kBatches) decide(median(beside_ms_) / median(alone_ms_));
      break;
  }
}

std::string BuildingTurns::words() const {
  if (!apart_) return "between the measurements, which need all CPUs";
  const std::string took = fmt::format("which took {:.2f} times as long during compilation", slowed_);
  if (state_ == State::turns) return "between the measurements, " + took;
  if (in_turns_ == 0) return "during the measurements, on other CPUs";
  return fmt::format("during the measurements, on other CPUs; in {} of {} batches between them, {}", in_turns_,
                     batches_, took);
}

}  // namespace kilter::tune
