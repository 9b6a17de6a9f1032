#include "terminal.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdio>

#include "base/text.h"
#include "console.h"

namespace kilter::tool {

namespace {

std::string with_codes(Style style, const std::string& text, std::FILE* file) {
  if (!console().colours(file)) return text;
  constexpr const char* kCodes[] = {"1", "32", "1;31"};
  return fmt::format("\033[{}m{}\033[0m", kCodes[static_cast<size_t>(style)], text);
}

}  // namespace

std::optional<size_t> terminal_columns() {
  winsize size{};
  const int file = fileno(console().out);
  if (isatty(file) == 0) return std::nullopt;
  return ioctl(file, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : TerminalSize{}.columns;
}

size_t output_columns() { return terminal_columns().value_or(TerminalSize{}.columns); }

std::string styled(Style style, const std::string& text) { return with_codes(style, text, console().out); }
std::string styled_error(Style style, const std::string& text) { return with_codes(style, text, console().err); }

TableStyle table_style() {
  return {terminal_columns().value_or(0), [](const std::string& head) { return styled(Style::bold, head); }};
}

void say_fitted(std::string_view text) { say("{}", fit_lines(text, terminal_columns().value_or(0))); }

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
  if (!terminal_) {
    const std::string doing = text.substr(0, text.find_first_of(",:("));
    if (console().detail == Detail::verbose && !console().progress && doing != doing_)
      say_error("{}: {}\n", what_, printable(doing));
    doing_ = doing;
    return;
  }
  shown_ = true;
  const std::string line = what_ + ": " + printable(text);
  say_error("\r\033[K{}", std::string_view(line).substr(0, terminal_size().columns - 1));
  std::fflush(console().err);
}

}  // namespace kilter::tool
