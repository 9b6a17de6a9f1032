// Words about schedules that run on another number of threads than they were chosen for.
#pragma once

#include <string>
#include <string_view>

namespace kilter {

/// The loss that is expected of it, in percent: an estimate.
constexpr double kOtherThreadsLoss = 4;

/// "1 thread", "2 threads"; 0: "an unknown number of threads".
std::string threads_text(int threads);

/// "expected loss about 4 % (an estimate)"
std::string expected_loss_text(double percent);

/// "compiled for 1 thread, run on 2; expected loss about 4 % (an estimate)"; empty where `made_for` is 0 (any number,
/// or an unknown one) or equals `threads`. `made`, `used`: the words for the two.
std::string other_threads_text(int made_for, int threads, std::string_view made = "compiled",
                               std::string_view used = "run");

}  // namespace kilter
