#include "base/other_threads.h"

#include <fmt/format.h>

#include <algorithm>

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

std::string absent_threads_text(const std::vector<double>& took_part) {
  constexpr double kPresent = 0.5;
  std::vector<double> absent;
  std::string who;
  for (size_t i = 0; i < took_part.size(); ++i) {
    if (took_part[i] >= kPresent) continue;
    absent.push_back(took_part[i]);
    who += fmt::format("{}{}", who.empty() ? "" : ", ", i);
  }
  if (absent.empty()) return {};
  const auto [least, most] = std::ranges::minmax(absent);
  const std::string low = fmt::format("{:.0f}", 100 * least), high = fmt::format("{:.0f}", 100 * most);
  return fmt::format(
      "{} requested, {} took part: {} {} joined in {} % of the work for all threads, since {} in use; end "
      "other programs, or use {}",
      threads_text(static_cast<int>(took_part.size())), took_part.size() - absent.size(),
      absent.size() == 1 ? "thread" : "threads", who, low == high ? low : fmt::format("{} to {}", low, high),
      absent.size() == 1 ? "its CPU was" : "their CPUs were",
      threads_text(static_cast<int>(took_part.size() - absent.size())));
}

}  // namespace kilter
