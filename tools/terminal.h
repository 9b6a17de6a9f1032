// The terminal behind standard error: its size, and one line of progress on it.
#pragma once

#include <cstddef>
#include <string>

namespace kilter::tool {

struct TerminalSize {
  size_t rows = 24, columns = 80;
};

/// Returns the size of the terminal on standard error, or 24 rows of 80 columns if there is no terminal or its size is
/// unknown.
TerminalSize terminal_size();

/// One line that is rewritten in place, or the console's own progress. Prints nothing if standard error is not a
/// terminal. Cuts lines that are too wide, since a wrapped line could not be erased.
class Progress {
 public:
  /// `what` is printed before each text, e.g. "bench zoo:resnet18".
  explicit Progress(std::string what);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  void show(const std::string& text);
  void clear();

 private:
  std::string what_;
  bool terminal_;
  bool shown_ = false;
};

}  // namespace kilter::tool
