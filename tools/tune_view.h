// What a tuning run shows while it goes on: a table that is drawn over itself on a terminal, or lines for logs.
#pragma once

#include <string>
#include <vector>

#include "tune/tuner/tuner.h"

namespace kilter::tool {

/// "searching: 35 of 300 s, 265 s left, 1234 trials, 34.510 ms -> 33.020 ms (0.957), 54.5 GFLOP/s (last 50.1), 61 % of
/// its bound, 2.1 % expected to be left". The GFLOP/s are those of the best schedules so far, and of those tried last.
std::string progress_line(const tune::TuneProgress& progress);
/// The network, then the tasks with most of the time, at most `most`, under a line of headings; lines of at most
/// `width` characters.
std::vector<std::string> progress_table(const tune::TuneProgress& progress, size_t most, size_t width);
/// A task whose best schedule changed: its figures and that schedule; more samples may take a gain back.
std::string gain_line(const tune::TaskProgress& progress);

/// Draws on standard error, which it leaves as it was when it ends.
class TuneView {
 public:
  /// `lines`: no drawing over; a line each two seconds and for each task that became faster. So it is, too, where
  /// standard error is no terminal.
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
  double last_ = 0;                ///< seconds of the run at the last line
  std::vector<std::string> best_;  ///< by task, as it was told last
};

}  // namespace kilter::tool
