#include "tune_view.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numeric>

#include "base/text.h"
#include "console.h"
#include "profile/bounds.h"
#include "terminal.h"

namespace kilter::tool {

using namespace kilter::tune;

namespace {

constexpr double kLineEverySeconds = 2;

std::string percent(double share, int digits = 1) { return fmt::format("{:.{}f} %", 100 * share, digits); }

/// A share above 1 is impossible: the peaks behind the bound were measured while disturbed, or at a lower clock.
std::string of_bound(const auto& of) {
  if (of.bound_ms <= 0) return "-";
  return of.share_of_bound() > 1 + profile::kPeakError ? "beaten" : percent(std::min(of.share_of_bound(), 1.0), 0);
}

/// Returns e.g. "61 % of its bound".
std::string bound_words(const auto& of) {
  const std::string share = of_bound(of);
  return share == "beaten" ? "faster than its bound, which is therefore wrong" : share + " of its bound";
}

std::string disturbed_words(const Conditions& runs) {
  return fmt::format("{} of the runs disturbed", percent(disturbed_share(runs), 0));
}

/// Returns the GFLOP/s of a task whose schedule has this cost, or of a network that takes this many milliseconds; "-"
/// for kernels without arithmetic.
std::string gflops(const auto& of, double at) {
  return of.flops > 0 ? fmt::format("{:.1f}", of.gflops(at)) : std::string("-");
}

/// Returns e.g. ", 52.1 MB -> 33.0 MB (0.633)"; empty if memory has no weight.
std::string memory_words(const TuneProgress& p) {
  if (p.default_bytes <= 0) return {};
  const auto before = static_cast<double>(p.default_bytes), after = static_cast<double>(p.predicted_bytes);
  return fmt::format(", {:.1f} MB -> {:.1f} MB ({:.3f})", before * 1e-6, after * 1e-6, after / before);
}

}  // namespace

std::string progress_line(const TuneProgress& p) {
  const std::string time = std::isfinite(p.budget_seconds) ? fmt::format("{:.0f} of {:.0f} s, {:.0f} s left", p.seconds,
                                                                         p.budget_seconds, p.seconds_left())
                                                           : fmt::format("{:.0f} s", p.seconds);
  const bool busy = quietness(p.runs) == Quietness::busy;
  return fmt::format(
      "{}{}: {}, {}{} trials, {:.3f} ms -> {:.3f} ms ({:.3f}){}, {} GFLOP/s (last {}), {}, {} "
      "expected to be left, {}",
      busy ? "busy machine, times are upper bounds; " : "", p.phase, time, p.trials,
      p.most_trials > 0 ? fmt::format(" of {}", p.most_trials) : "", p.default_ms, p.predicted_ms,
      p.predicted_ms / p.default_ms, memory_words(p), gflops(p, p.predicted_ms), gflops(p, p.current_ms()),
      bound_words(p), percent(p.remaining), disturbed_words(p.runs));
}

std::vector<std::string> progress_table(const TuneProgress& p, size_t most, size_t width) {
  std::vector<size_t> order(p.tasks.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, [&](size_t a, size_t b) { return p.tasks[a].share > p.tasks[b].share; });
  std::vector<std::string> lines;
  const auto add = [&](const auto&... words) {
    lines.push_back(fmt::format("{:>4} {:>7} {:>6} {:>11} {:>8} {:>8} {:>8} {:>9}  {}", words...));
    lines.back().resize(std::min(lines.back().size(), width));
  };
  add("task", "share", "layers", "tried", "GFLOP/s", "best", "of bound", "best/def.", "problem");
  TaskProgress all;
  all.share = 0, all.layers = 0;
  for (const TaskProgress& t : p.tasks)
    all.share += t.share, all.layers += t.layers, all.tried += t.tried, all.size += t.size;
  const auto tried = [](const TaskProgress& t) { return fmt::format("{}/{}", t.tried, t.size); };
  const auto cost = [](double value) { return fmt::format("{:.3f}", value); };
  add("all", percent(all.share), all.layers, tried(all), gflops(p, p.current_ms()), gflops(p, p.predicted_ms),
      of_bound(p), cost(p.predicted_ms / p.default_ms), "the network");
  for (size_t i = 0; i < std::min(most, order.size()); ++i) {
    const TaskProgress& t = p.tasks[order[i]];
    add(t.number, percent(t.share), t.layers, tried(t), gflops(t, t.current), gflops(t, t.best), of_bound(t),
        cost(t.best), t.problem);
  }
  return lines;
}

std::string gain_line(const TaskProgress& t) {
  std::string cost = "the default again";
  if (t.best < 1 || t.more_bytes != 0) cost = fmt::format("{:.3f} of the default's time", t.best);
  if (t.more_bytes != 0) cost += fmt::format(" and {:+.3f} MB", static_cast<double>(t.more_bytes) * 1e-6);
  return fmt::format("task {}: {} GFLOP/s (last {}), {}, {}, {}/{} tried: {} | {}", t.number, gflops(t, t.best),
                     gflops(t, t.current), bound_words(t), cost, t.tried, t.size, t.problem, t.schedule);
}

TuneView::TuneView(std::string what, bool lines) : what_(printable(what)), lines_(lines || !console().redraws()) {}

void TuneView::show(const std::string& text) {
  if (!lines_) draw({what_ + ": " + text});
}

void TuneView::show(const TuneProgress& p) {
  if (lines_) return log(p);
  constexpr size_t kAround = 4;  // the line above the table, the headings, the network's line, and the cursor's line
  const TerminalSize size = terminal_size();
  std::vector<std::string> all{what_ + ": " + progress_line(p)};
  if (size.rows > kAround + 1 && p.phase == "searching") {
    for (std::string& line : progress_table(p, size.rows - kAround, size.columns - 1)) all.push_back(std::move(line));
  }
  draw(all);
}

void TuneView::log(const TuneProgress& p) {
  best_.resize(p.tasks.size());
  for (size_t t = 0; t < p.tasks.size(); ++t) {
    const bool told = best_[t].empty() || best_[t] == p.tasks[t].schedule;
    best_[t] = p.tasks[t].schedule;
    if (!told) say_error("{}\n", gain_line(p.tasks[t]));
  }
  if (p.phase == phase_ && p.seconds - last_ < kLineEverySeconds) return;
  phase_ = p.phase, last_ = p.seconds;
  say_error("{}\n", progress_line(p));
}

void TuneView::draw(const std::vector<std::string>& lines) {
  clear();
  const size_t columns = terminal_size().columns - 1;
  std::string all;
  for (size_t i = 0; i < lines.size(); ++i) all += (i == 0 ? "" : "\n") + lines[i].substr(0, columns);
  say_error("{}", all);
  std::fflush(console().err);
  drawn_ = lines.size();
}

void TuneView::clear() {
  if (drawn_ == 0) return;
  std::string up = "\r";
  if (drawn_ > 1) up += fmt::format("\033[{}A", drawn_ - 1);
  say_error("{}\033[J", up);
  std::fflush(console().err);
  drawn_ = 0;
}

}  // namespace kilter::tool
