// The progress line that a long compilation shows on the terminal.
#pragma once

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

#include "compile/compile.h"
#include "tool.h"

namespace kilter::tool {

/// Shows the current stage on standard error, starting after kPatience and refreshed a few times a second until the
/// compilation ends. Quick compilations show nothing.
class CompileProgress {
 public:
  /// `what` is printed before the stage, e.g. "kilter".
  explicit CompileProgress(std::string what);
  ~CompileProgress();
  CompileProgress(const CompileProgress&) = delete;
  CompileProgress& operator=(const CompileProgress&) = delete;

  /// The callback for CompileReport::progress.
  void at(const CompileStage& stage);

 private:
  void watch();
  void end();

  std::string what_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::string text_;  ///< the current stage; empty if none is running
  std::thread watcher_;
};

}  // namespace kilter::tool
