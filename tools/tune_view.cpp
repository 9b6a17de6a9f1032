#include "tune_view.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <numeric>

namespace kilter::tool {

using namespace kilter::tune;

namespace {

constexpr double kLineEverySeconds = 2;

struct Size {
  size_t rows = 24, columns = 80;
};

Size terminal_size() {
  winsize size{};
  if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_row == 0 || size.ws_col == 0) return {};
  return {size.ws_row, size.ws_col};
}

std::string percent(double share, int digits = 1) { return fmt::format("{:.{}f} %", 100 * share, digits); }

std::string of_bound(const TaskProgress& t) {
  return t.bound_ms > 0 ? percent(t.share_of_bound(), 0) : std::string("-");
}

/// Of a schedule with this cost; kernels without arithmetic have none.
std::string gflops(const TaskProgress& t, double cost) {
  return t.flops > 0 ? fmt::format("{:.1f}", t.gflops(cost)) : std::string("-");
}

}  // namespace

std::string progress_line(const TuneProgress& p) {
  return fmt::format("{}: {:.0f} of {:.0f} s, {} trials, {:.3f} ms -> {:.3f} ms ({:.3f}), {} expected to be left",
                     p.phase, p.seconds, p.budget_seconds, p.trials, p.default_ms, p.predicted_ms,
                     p.predicted_ms / p.default_ms, percent(p.remaining));
}

std::vector<std::string> progress_table(const TuneProgress& p, size_t most, size_t width) {
  std::vector<size_t> order(p.tasks.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, [&](size_t a, size_t b) { return p.tasks[a].share > p.tasks[b].share; });
  std::vector<std::string> lines{fmt::format("{:>4} {:>7} {:>6} {:>11} {:>8} {:>8} {:>8} {:>9}  {}", "task", "share",
                                             "layers", "tried", "GFLOP/s", "best", "of bound", "best/def.", "problem")};
  for (size_t i = 0; i < std::min(most, order.size()); ++i) {
    const TaskProgress& t = p.tasks[order[i]];
    lines.push_back(fmt::format("{:>4} {:>7} {:>6} {:>11} {:>8} {:>8} {:>8} {:>9.3f}  {}", order[i] + 1,
                                percent(t.share), t.layers, fmt::format("{}/{}", t.tried, t.size), gflops(t, t.current),
                                gflops(t, t.best), of_bound(t), t.best, t.problem));
  }
  for (std::string& line : lines) line.resize(std::min(line.size(), width));
  return lines;
}

std::string gain_line(size_t task, const TaskProgress& t) {
  const std::string cost =
      t.best < 1 ? fmt::format("{:.3f} of the default's time", t.best) : std::string("the default again");
  return fmt::format("task {}: {} GFLOP/s, {} of its bound, {}, {}/{} tried: {} | {}", task + 1, gflops(t, t.best),
                     of_bound(t), cost, t.tried, t.size, t.problem, t.schedule);
}

TuneView::TuneView(std::string what, bool lines)
    : what_(std::move(what)), lines_(lines), terminal_(isatty(STDERR_FILENO) != 0) {}

void TuneView::show(const std::string& text) {
  if (!lines_ && terminal_) draw({what_ + ": " + text});
}

void TuneView::show(const TuneProgress& p) {
  if (lines_) return log(p);
  if (!terminal_) return;
  constexpr size_t kAround = 3;  // the line above the table, its headings, the line that the cursor is left on
  const Size size = terminal_size();
  std::vector<std::string> all{what_ + ": " + progress_line(p)};
  all.front().resize(std::min(all.front().size(), size.columns - 1));
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
    if (!told) fmt::print(stderr, "{}\n", gain_line(t, p.tasks[t]));
  }
  if (p.phase == phase_ && p.seconds - last_ < kLineEverySeconds) return;
  phase_ = p.phase, last_ = p.seconds;
  fmt::print(stderr, "{}\n", progress_line(p));
}

void TuneView::draw(const std::vector<std::string>& lines) {
  clear();
  std::string all;
  for (size_t i = 0; i < lines.size(); ++i) all += (i == 0 ? "" : "\n") + lines[i];
  fmt::print(stderr, "{}", all);
  std::fflush(stderr);
  drawn_ = lines.size();
}

void TuneView::clear() {
  if (drawn_ == 0) return;
  std::string up = "\r";
  if (drawn_ > 1) up += fmt::format("\033[{}A", drawn_ - 1);
  fmt::print(stderr, "{}\033[J", up);
  std::fflush(stderr);
  drawn_ = 0;
}

}  // namespace kilter::tool
