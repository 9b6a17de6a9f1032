#include "base/other_threads.h"

#include <fmt/format.h>

namespace kilter {

std::string threads_text(int threads) {
  if (threads <= 0) return "an unknown number of threads";
  return fmt::format("{} thread{}", threads, threads == 1 ? "" : "s");
}

std::string expected_loss_text(double percent) {
  return fmt::format("expected loss about {:.0f} % (an estimate)", percent);
}

std::string other_threads_text(int made_for, int threads, std::string_view made, std::string_view used) {
  if (made_for == 0 || made_for == threads) return {};
  return fmt::format("{} for {}, {} on {}; {}", made, threads_text(made_for), used, threads,
                     expected_loss_text(kOtherThreadsLoss));
}

}  // namespace kilter
