// When candidates are compiled beside the measurement of others, and when in turns with it: by what it does to the
// default plan's time.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace kilter::tune {

/// One batch of trials after another is told to note(), and the next one is run as beside() says.
class BuildingTurns {
 public:
  /// `apart`: there are CPUs beside those that measure; without them everything goes in turns.
  explicit BuildingTurns(bool apart) : apart_(apart), state_(apart ? State::beside : State::turns) {}

  /// Whether candidates are compiled while the next batch is measured.
  bool beside() const { return state_ == State::beside || state_ == State::trying; }
  /// Whether the next batch is measured with nothing beside it to see what that changes: what is compiled ends first.
  bool looks() const { return state_ == State::looking; }
  /// A batch was measured as beside() said. `ms`: the default plan's run in it; `usual_ms`: its run with nothing beside
  /// it, before the search.
  void note(double ms, double usual_ms);
  /// "beside the measurement, on other CPUs": how it went, for the summary.
  std::string words() const;

 private:
  enum class State : uint8_t {
    beside,   ///< until it seems to slow the default plan
    looking,  ///< one batch without anything beside it
    turns,    ///< it slows it; after a while it is tried again
    trying,   ///< some batches beside, against those in turns before
  };
  void go(State state);
  /// `slowed`: the default's time with building beside it, over that without.
  void decide(double slowed);

  bool apart_;
  State state_;
  std::vector<double> beside_ms_, alone_ms_;  ///< of the latest batches
  int64_t since_ = 0, wait_ = 0;              ///< batches in this state; before the next look
  int64_t batches_ = 0, in_turns_ = 0;
  double slowed_ = 0;  ///< as it was seen last when it was too much; 0: never
};

}  // namespace kilter::tune
