// The display of a tuning run while it runs: a view redrawn in place on a terminal, or lines for logs.
#pragma once

#include <string>
#include <vector>

#include "terminal.h"
#include "tune/tuner/tuner.h"

namespace kilter::tool {

/// Returns e.g. "searching: 35 of 300 s, 265 s left, 1234 trials, 34.510 ms -> 33.020 ms (0.957), 54.5 GFLOP/s (last
/// 50.1), 61 % of its bound, 2.1 % expected to be left". The GFLOP/s are those of the best schedules so far and of the
/// schedules tried last.
std::string progress_line(const tune::TuneProgress& progress);
/// Returns the view of a run for a terminal of this size, which it never fills completely: what runs and the time left;
/// the gain so far; then the tasks that take the most time, at most eight of them, and the rest in one line. Wider
/// terminals get more columns. `what` is printable, e.g. "tune zoo:resnet18".
std::vector<std::string> view_lines(const std::string& what, const tune::TuneProgress& progress,
                                    const TerminalSize& size);
/// Returns the output that turns the lines `before`, on a terminal, into the lines `now`: it writes only those that
/// differ. The cursor is in the last line before and after; with no lines before, at the beginning of an empty line.
std::string rewritten(const std::vector<std::string>& before, const std::vector<std::string>& now);
/// Describes a task whose best schedule changed, with its figures and the schedule. More samples may undo the gain.
std::string gain_line(const tune::TaskProgress& progress);

/// Draws on standard error and erases its last drawing when it is destroyed. Follows the size of the terminal.
class TuneView {
 public:
  /// `lines` prints lines instead of redrawing the view: one every two seconds, and one for each task that became
  /// faster. This is also done if standard error is not a terminal.
  TuneView(std::string what, bool lines);
  ~TuneView() { clear(); }
  TuneView(const TuneView&) = delete;
  TuneView& operator=(const TuneView&) = delete;

  void show(const std::string& text);
  void show(const tune::TuneProgress& progress);
  void clear();

 private:
  void draw(std::vector<std::string> lines);
  void log(const tune::TuneProgress& progress);

  std::string what_, phase_;
  bool lines_;
  std::vector<std::string> drawn_;
  TerminalSize size_;              ///< at the last drawing
  double last_ = 0;                ///< time of the run at the last line, in seconds
  std::vector<std::string> best_;  ///< last schedule reported for each task
};

}  // namespace kilter::tool
