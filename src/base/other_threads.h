// Texts about networks that run on a different number of threads than they were compiled for, or than was requested.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace kilter {

/// The expected loss in percent: an estimate.
constexpr double kOtherThreadsLoss = 4;

/// Returns "1 thread", "2 threads", ...; for 0, "an unknown number of threads".
std::string threads_text(int threads);

/// Returns "expected loss about 4 % (an estimate)".
std::string expected_loss_text(double percent);

/// Returns "compiled for 1 thread, run on 2; expected loss about 4 % (an estimate)". Returns an empty string when
/// `made_for` is 0 (any number, or an unknown one) or equals `threads`. `made` and `used` are the verbs, here
/// "compiled" and "run".
std::string other_threads_text(int made_for, int threads, std::string_view made = "compiled",
                               std::string_view used = "run");

/// `took_part`: for each thread, the share of the work for all threads in which it joined; empty if that is not known.
/// If a thread joined in less than half, returns "2 threads requested, 1 took part: thread 1 joined in 3 % of the work
/// for all threads, ...", with the reason and what to do; otherwise an empty string.
std::string absent_threads_text(const std::vector<double>& took_part);

}  // namespace kilter
