// What is said of tuned schedules that run on another number of threads than they were chosen for.
#pragma once

#include <string>
#include <string_view>

#include "exec/plan.h"

namespace kilter {

/// Percent that they are expected to lose by it: an estimate.
constexpr double kOtherThreadsLoss = 4;

/// "1 thread", "2 threads"; 0: "an unknown number of threads".
std::string threads_text(int threads);

/// "expected loss about 4 % (an estimate)"
std::string expected_loss_text(double percent);

/// "made for 1 thread, used on 2; expected loss about 4 % (an estimate)"; empty where `made_for` is 0, which is any or
/// not known, or is `threads`. `made`, `used`: the words of the two.
std::string other_threads_text(int made_for, int threads, std::string_view made, std::string_view used);
/// Of a compiled plan: "compiled for 1 thread, run on 2; ..."
std::string other_threads_text(const Plan& plan, int threads);

}  // namespace kilter
