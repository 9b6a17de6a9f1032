// The terminal behind standard error: its size, and one line of progress on it.
#pragma once

#include <cstddef>
#include <string>

namespace kilter::tool {

struct TerminalSize {
  size_t rows = 24, columns = 80;
};

/// The size of standard error's terminal; if there is none, or its size is not known, 24 rows of 80 columns.
TerminalSize terminal_size();

/// One line that is rewritten in place; nothing where standard error is no terminal. A line that does not fit is cut:
/// what wraps cannot be taken back.
class Progress {
 public:
  /// `what` stands before each text: "bench zoo:resnet18".
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
