// Decides from the effect on the default plan's time whether candidates are compiled while others are measured, or
// alternately with the measurement.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace kilter::tune {

/// Tracks how compiling affects the batches of trials. Report each batch to note(), and run the next one according to
/// beside().
class BuildingTurns {
 public:
  /// `apart`: there are CPUs besides those that measure. Otherwise, compiling and measuring always take turns.
  explicit BuildingTurns(bool apart) : apart_(apart), state_(apart ? State::beside : State::turns) {}

  /// Whether candidates are compiled while the next batch is measured.
  bool beside() const { return state_ == State::beside || state_ == State::trying; }
  /// Whether the next batch is measured while nothing is compiled, to determine the difference. Compiling in progress
  /// ends first.
  bool looks() const { return state_ == State::looking; }
  /// Reports a batch that was measured according to beside(). `ms`: the default plan's run in that batch; `usual_ms`:
  /// its run without compiling, measured before the search.
  void note(double ms, double usual_ms);
  /// Returns how candidates were compiled, for the summary: "during the measurements, on other CPUs".
  std::string words() const;

 private:
  enum class State : uint8_t {
    beside,   ///< compiling in parallel, until this seems to slow the default plan down
    looking,  ///< one batch while nothing is compiled
    turns,    ///< compiling slows the measurement down; compiling in parallel is retried after a while
    trying,   ///< some batches in parallel, compared with the preceding alternating ones
  };
  void go(State state);
  /// `slowed`: the default's time with compiling in parallel, over its time without.
  void decide(double slowed);

  bool apart_;
  State state_;
  std::vector<double> beside_ms_, alone_ms_;  ///< of the latest batches
  int64_t since_ = 0, wait_ = 0;              ///< batches in this state; batches before the next look
  int64_t batches_ = 0, in_turns_ = 0;
  double slowed_ = 0;  ///< the last slowdown that was too much; 0: never
};

}  // namespace kilter::tune
