// The display of a tuning run while it runs: a table redrawn in place on a terminal, or lines for logs.
#pragma once

#include <string>
#include <vector>

#include "tune/tuner/tuner.h"

namespace kilter::tool {

/// Returns e.g. "searching: 35 of 300 s, 265 s left, 1234 trials, 34.510 ms -> 33.020 ms (0.957), 54.5 GFLOP/s (last
/// 50.1), 61 % of its bound, 2.1 % expected to be left". The GFLOP/s are those of the best schedules so far and of the
/// schedules tried last.
std::string progress_line(const tune::TuneProgress& progress);
/// Returns a line of headings, the network, then the tasks that take the most time, at most `most` of them. No line is
/// longer than `width` characters.
std::vector<std::string> progress_table(const tune::TuneProgress& progress, size_t most, size_t width);
/// Describes a task whose best schedule changed, with its figures and the schedule. More samples may undo the gain.
std::string gain_line(const tune::TaskProgress& progress);

/// Draws on standard error and erases its last drawing when it is destroyed.
class TuneView {
 public:
  /// `lines` prints lines instead of redrawing a table: one every two seconds, and one for each task that became
  /// faster. This is also done if standard error is not a terminal.
  TuneView(std::string what, bool lines);
  ~TuneView() { clear(); }
  TuneView(const TuneView&) = delete;
  TuneView& operator=(const TuneView&) = delete;

  void show(const std::string& text);
  void show(const tune::TuneProgress& progress);
  void clear();

 private:
  void draw(const std::vector<std::string>& lines);
  void log(const tune::TuneProgress& progress);

  std::string what_, phase_;
  bool lines_;
  size_t drawn_ = 0;
  double last_ = 0;                ///< time of the run at the last line, in seconds
  std::vector<std::string> best_;  ///< last schedule reported for each task
};

}  // namespace kilter::tool
