// One line on a terminal that says how far a long compilation is.
#pragma once

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

#include "compile/compile.h"
#include "tool.h"

namespace kilter::tool {

/// Shows the stage on standard error from kPatience on, a few times a second, until it is told the end. Quick
/// compilations show nothing.
class CompileProgress {
 public:
  /// `what` stands before the stage: "kilter".
  explicit CompileProgress(std::string what);
  ~CompileProgress();
  CompileProgress(const CompileProgress&) = delete;
  CompileProgress& operator=(const CompileProgress&) = delete;

  /// For CompileOptions::progress.
  void at(const CompileStage& stage);

 private:
  void watch();
  void end();

  std::string what_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::string text_;  ///< of the stage under way; empty: none is
  std::thread watcher_;
};

}  // namespace kilter::tool
