#include "terminal.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdio>

#include "base/text.h"
#include "console.h"

namespace kilter::tool {

TerminalSize terminal_size() {
  winsize size{};
  if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_row == 0 || size.ws_col == 0) return {};
  return {size.ws_row, size.ws_col};
}

Progress::Progress(std::string what) : what_(printable(what)), terminal_(console().redraws()) {}
Progress::~Progress() { clear(); }

void Progress::clear() {
  if (shown_) say_error("\r\033[K");
  shown_ = false;
}

void Progress::show(const std::string& text) {
  if (console().progress) console().progress(text);
  if (!terminal_) return;
  shown_ = true;
  const std::string line = what_ + ": " + printable(text);
  say_error("\r\033[K{}", std::string_view(line).substr(0, terminal_size().columns - 1));
  std::fflush(console().err);
}

}  // namespace kilter::tool
