#include "tune_view.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <optional>
#include <span>
#include <string_view>

#include "base/columns.h"
#include "base/text.h"
#include "console.h"
#include "profile/bounds.h"

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

/// A line of at most `width` columns. Colours take none.
class Line {
 public:
  explicit Line(size_t width) : room_(width) {}
  size_t room() const { return room_; }
  std::string text() const { return text_; }
  /// Adds a text, or its beginning if there is no room for all of it.
  void add(std::string_view text, std::optional<Style> style = std::nullopt) { add(text, text.size(), style); }
  /// As above, for a text whose characters take `columns` columns, however many bytes they have.
  void add(std::string_view text, size_t columns, std::optional<Style> style) {
    if (columns > room_) text = beginning(text, room_), columns = room_;
    room_ -= columns;
    text_ += style ? styled_error(*style, std::string(text)) : std::string(text);
  }
  /// Adds ", " and a text if there is room for all of it, and there was for those before it.
  void also(std::string_view text, std::optional<Style> style = std::nullopt) {
    full_ = full_ || text.size() + 2 > room_;
    if (!full_) add(", "), add(text, style);
  }

 private:
  size_t room_;
  bool full_ = false;
  std::string text_;
};

/// Returns e.g. "24 s", "4 min 05 s" or "2 h 03 min".
std::string duration(double seconds) {
  const auto s = static_cast<int64_t>(std::round(seconds));
  if (s < 100) return fmt::format("{} s", s);
  if (s < 3600) return fmt::format("{} min {:02} s", s / 60, s % 60);
  return fmt::format("{} h {:02} min", s / 3600, s / 60 % 60);
}

/// Returns e.g. "-9.8 %" for 0.902.
std::string change(double ratio) {
  const double percent = std::round(1000 * (ratio - 1)) / 10;
  return percent == 0 ? "0.0 %" : fmt::format("{:+.1f} %", percent);
}

bool is_changed(const TaskProgress& t) { return t.best != 1 || t.more_bytes != 0; }

/// The part of the run that has passed; nothing if neither its time nor its trials are limited.
std::optional<double> passed(const TuneProgress& p) {
  double share = 0;
  if (p.phase == "done") {
    share = 1;
  } else if (std::isfinite(p.budget_seconds)) {
    if (p.budget_seconds > 0) share = p.seconds / p.budget_seconds;
  } else if (p.most_trials > 0) {
    share = static_cast<double>(p.trials) / static_cast<double>(p.most_trials);
  } else {
    return std::nullopt;
  }
  return std::clamp(share, 0.0, 1.0);
}

/// Says what runs, with a bar of the time that has passed, and the time left. The bar stays in its place.
std::string time_line(const std::string& what, const TuneProgress& p, size_t width) {
  constexpr size_t kTime = 23;   // "100 %, 59 min 59 s left"
  constexpr size_t kPhase = 11;  // ": searching"
  constexpr size_t kLeastName = 8, kLeastForBar = 60;
  const std::optional<double> share = passed(p);
  const size_t bar = share && width >= kLeastForBar ? width / 4 : 0;
  const size_t taken = kTime + kPhase + 1 + (bar > 0 ? bar + 3 : 0);
  Line line(width);
  if (width >= taken + kLeastName) line.add(without_middle(what, width - taken) + ": ");
  line.add(fmt::format("{:<{}} ", p.phase, bar > 0 ? kPhase - 2 : 0));
  if (bar > 0) {
    const auto full = static_cast<size_t>(*share * static_cast<double>(bar));
    line.add("[" + std::string(full, '#') + std::string(bar - full, '-') + "] ");
  }
  if (p.phase == "done") {
    line.add("in " + duration(p.seconds));
  } else {
    const std::string time =
        std::isfinite(p.budget_seconds) ? duration(p.seconds_left()) + " left" : duration(p.seconds) + " so far";
    line.add(share ? percent(*share, 0) : time);
    if (share) line.also(time);
  }
  return line.text();
}

/// Says what the run has gained, then as much more about it as there is room for.
std::string result_line(const TuneProgress& p, size_t width) {
  const int digits = p.default_ms >= 100 ? 1 : p.default_ms >= 1 ? 2 : p.default_ms >= 0.1 ? 3 : 4;
  const auto memory = [](int64_t bytes) { return fmt::format("{:.1f}", static_cast<double>(bytes) * 1e-6); };
  Line line(width);
  if (p.default_ms <= 0) {
    line.add("not yet measured");
    return line.text();
  }
  const double ratio = p.predicted_ms / p.default_ms;
  const std::string times = fmt::format("{:.{}f} -> {:.{}f} ms", p.default_ms, digits, p.predicted_ms, digits);
  const std::string gain = fmt::format(" ({})", change(ratio));
  line.add(times.size() + gain.size() <= width ? times + gain : times,
           ratio < 1 ? std::optional(Style::good) : std::nullopt);
  if (p.default_bytes > 0) {
    line.also(fmt::format("{} -> {} MB ({})", memory(p.default_bytes), memory(p.predicted_bytes),
                          change(static_cast<double>(p.predicted_bytes) / static_cast<double>(p.default_bytes))));
  }
  if (quietness(p.runs) == Quietness::busy) line.also("busy machine", Style::bad);
  line.also(fmt::format("{}{} trials", p.trials, p.most_trials > 0 ? fmt::format(" of {}", p.most_trials) : ""));
  line.also(fmt::format("{} of {} task{} changed", std::ranges::count_if(p.tasks, is_changed), p.tasks.size(),
                        p.tasks.size() == 1 ? "" : "s"));
  if (p.bound_ms > 0) line.also(of_bound(p) == "beaten" ? "bound beaten" : bound_words(p));
  if (p.flops > 0) line.also(gflops(p, p.predicted_ms) + " GFLOP/s");
  line.also(percent(p.remaining) + " expected to be left");
  line.also(disturbed_words(p.runs));
  return line.text();
}

std::string tried_words(int64_t tried, int64_t size) { return fmt::format("{}/{}", tried, size); }

/// A column after the names, with the space before it. Those that do not fit are left out, the last ones first.
struct TaskColumn {
  std::string_view title;
  size_t width;
  std::string (*text)(const TaskProgress&);
  bool needed;  ///< names are shortened rather than this column left out
};

const TaskColumn kTaskColumns[] = {
    {"share", 8, [](const TaskProgress& t) { return percent(t.share); }, true},
    {"gain", 9, [](const TaskProgress& t) { return is_changed(t) ? change(t.best) : "-"; }, true},
    {"of bound", 10, [](const TaskProgress& t) { return of_bound(t); }, true},
    {"tried", 12, [](const TaskProgress& t) { return tried_words(t.tried, t.size); }, true},
    {"GFLOP/s", 9, [](const TaskProgress& t) { return gflops(t, t.best); }, false},
    {"task", 6, [](const TaskProgress& t) { return fmt::format("{}", t.number); }, false}};

/// The rows of the tasks that are shown, in order.
class TaskTable {
 public:
  TaskTable(std::vector<const TaskProgress*> tasks, size_t width) : tasks_(std::move(tasks)), width_(width) {
    constexpr size_t kLeastName = 10, kMostOfName = 48, kLeastProblem = 24;
    std::vector<std::string> names;
    for (const TaskProgress* t : tasks_) names.push_back(printable(t->node));
    start_ = std::string(common_start(names));
    size_t longest = kLeastName;
    for (size_t i = 0; i < names.size(); ++i) {
      names_.push_back(names[i].substr(start_.size()));
      longest = std::max(longest, names_[i].size() + more(*tasks_[i]).size());
    }
    if (!start_.empty()) longest = std::max(longest, title().size());
    longest = std::min(longest, kMostOfName);
    size_t used = 0;
    for (const TaskColumn& c : kTaskColumns) {
      if ((c.needed ? kLeastName : longest) + used + c.width > width_) break;
      columns_.push_back(&c), used += c.width;
    }
    name_width_ = std::min(longest, std::max(kLeastName, width_ - std::min(width_, used)));
    const size_t left = width_ - std::min(width_, name_width_ + used);
    if (columns_.size() == std::size(kTaskColumns) && left >= kLeastProblem) problem_width_ = left - 2;
  }

  std::string heads() const {
    Line line(width_);
    line.add(fmt::format("{:<{}}", without_middle(title(), name_width_), name_width_), name_width_, Style::bold);
    for (const TaskColumn* c : columns_) line.add(fmt::format("{:>{}}", c->title, c->width), Style::bold);
    if (problem_width_ > 0) line.add("  problem", Style::bold);
    return line.text();
  }

  std::string row(size_t i) const {
    const TaskProgress& t = *tasks_[i];
    const std::string more_layers = more(t);
    const std::string name = without_middle(names_[i], name_width_ - more_layers.size()) + more_layers;
    Line line(width_);
    line.add(fmt::format("{:<{}}", name, name_width_), name_width_, std::nullopt);
    for (const TaskColumn* c : columns_) {
      const bool good = c->title == "gain" && t.best < 1;
      line.add(fmt::format("{:>{}}", c->text(t), c->width), good ? std::optional(Style::good) : std::nullopt);
    }
    if (problem_width_ > 0) line.add("  " + without_middle(printable(t.problem), problem_width_));
    return line.text();
  }

 private:
  static std::string more(const TaskProgress& t) { return t.layers > 1 ? fmt::format(" +{}", t.layers - 1) : ""; }
  std::string title() const { return start_.empty() ? "layer" : "layer in " + start_; }

  std::vector<const TaskProgress*> tasks_;
  size_t width_, name_width_ = 0;
  size_t problem_width_ = 0;  ///< 0: the problems are not shown
  std::string start_;         ///< common start of the names, which the rows do not repeat
  std::vector<std::string> names_;
  std::vector<const TaskColumn*> columns_;
};

std::string rest_line(std::span<const TaskProgress* const> rest, size_t width) {
  double share = 0;
  int64_t tried = 0, size = 0, changed = 0;
  for (const TaskProgress* t : rest)
    share += t->share, tried += t->tried, size += t->size, changed += is_changed(*t) ? 1 : 0;
  Line line(width);
  line.add(fmt::format("and {} more task{}", rest.size(), rest.size() == 1 ? "" : "s"));
  line.also(percent(share) + " of the time");
  line.also(tried_words(tried, size) + " tried");
  line.also(fmt::format("{} changed", changed));
  return line.text();
}

/// Returns the lines of the tasks, at most `most`.
std::vector<std::string> task_lines(const TuneProgress& p, size_t width, size_t most) {
  constexpr size_t kMostTasks = 8;
  std::vector<const TaskProgress*> order;
  for (const TaskProgress& t : p.tasks) order.push_back(&t);
  std::ranges::stable_sort(order, std::greater{}, [](const TaskProgress* t) { return t->share; });
  size_t count = std::min(order.size(), kMostTasks);
  const bool all = count == order.size() && count + 1 <= most;
  if (!all) count = std::min(count, most - std::min<size_t>(most, 2));  // the headings and the rest
  if (count == 0) return {};
  const TaskTable table({order.begin(), order.begin() + static_cast<std::ptrdiff_t>(count)}, width);
  std::vector<std::string> lines{table.heads()};
  for (size_t i = 0; i < count; ++i) lines.push_back(table.row(i));
  if (count < order.size()) lines.push_back(rest_line(std::span(order).subspan(count), width));
  return lines;
}

std::string up(size_t lines) { return lines > 0 ? fmt::format("\033[{}A", lines) : std::string(); }

/// The columns that a line takes at most: its bytes without the codes of colours.
size_t shown(std::string_view line) {
  size_t count = 0;
  for (size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '\033')
      i = line.find('m', i);
    else
      ++count;
  }
  return count;
}

}  // namespace

std::vector<std::string> view_lines(const std::string& what, const TuneProgress& p, const TerminalSize& size) {
  const size_t width = std::max<size_t>(size.columns, 2) - 1;  // a full line would move the cursor to the next one
  const size_t height = std::max<size_t>(size.rows, 2) - 1;
  std::vector<std::string> lines{time_line(what, p, width)};
  if (height > 1) lines.push_back(result_line(p, width));
  if (height > 2) {
    for (std::string& line : task_lines(p, width, height - 2)) lines.push_back(std::move(line));
  }
  return lines;
}

std::string rewritten(const std::vector<std::string>& before, const std::vector<std::string>& now) {
  if (before == now) return {};
  std::string out = "\r" + up(before.empty() ? 0 : before.size() - 1);
  const bool fewer = now.size() < before.size();
  for (size_t i = 0; i < now.size(); ++i) {
    if (i > 0) out += "\r\n";
    const bool last = fewer && i + 1 == now.size();  // what is below is erased from its end
    if (last || i >= before.size() || before[i] != now[i]) out += now[i] + (last ? "\033[J" : "\033[K");
  }
  return out + "\r";
}

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

std::string gain_line(const TaskProgress& t) {
  std::string cost = "the default again";
  if (t.best < 1 || t.more_bytes != 0) cost = fmt::format("{:.3f} of the default's time", t.best);
  if (t.more_bytes != 0) cost += fmt::format(" and {:+.3f} MB", static_cast<double>(t.more_bytes) * 1e-6);
  return fmt::format("task {}: {} GFLOP/s (last {}), {}, {}, {}/{} tried: {} | {}", t.number, gflops(t, t.best),
                     gflops(t, t.current), bound_words(t), cost, t.tried, t.size, t.problem, t.schedule);
}

TuneView::TuneView(std::string what, bool lines) : what_(printable(what)), lines_(lines || !console().redraws()) {}

void TuneView::show(const std::string& text) {
  if (lines_) return;
  Line line(terminal_size().columns - 1);
  line.add(what_ + ": " + text);
  draw({line.text()});
}

void TuneView::show(const TuneProgress& p) {
  if (lines_) return log(p);
  draw(view_lines(what_, p, terminal_size()));
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

void TuneView::draw(std::vector<std::string> lines) {
  const TerminalSize size = terminal_size();
  if (size != size_) clear();
  size_ = size;
  const std::string change = rewritten(drawn_, lines);
  drawn_ = std::move(lines);
  if (change.empty()) return;
  say_error("{}", change);
  std::fflush(console().err);
}

void TuneView::clear() {
  if (drawn_.empty()) return;
  // A terminal that became narrower has wrapped the lines.
  const size_t columns = terminal_size().columns;
  size_t above = 0;
  for (size_t i = 0; i + 1 < drawn_.size(); ++i)
    above += std::max<size_t>(1, (shown(drawn_[i]) + columns - 1) / columns);
  say_error("\r{}\033[J", up(above));
  std::fflush(console().err);
  drawn_.clear();
}

}  // namespace kilter::tool
