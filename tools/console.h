// Where a command prints, and how it is watched and stopped: by the terminal, or by a program that calls commands.
#pragma once

#include <fmt/format.h>

#include <cstdio>
#include <functional>
#include <string>
#include <utility>

namespace kilter::tool {

struct Console {
  std::FILE* out = stdout;
  std::FILE* err = stderr;
  /// Called with what the command is doing, in place of a line on the terminal. It may throw, which ends the command.
  std::function<void(const std::string& doing)> progress = nullptr;
  /// Returns whether a search should end and report what it has found. Null: SIGINT and SIGTERM end it.
  std::function<bool()> stopped = nullptr;

  /// Whether lines on `err` can be redrawn: it is a terminal, and nobody else shows the progress.
  bool redraws() const;
};

/// Returns the console of the calling thread, which is that of the process unless a UseConsole replaces it.
Console& console();

/// Replaces the console of the calling thread as long as this object lives.
class UseConsole {
 public:
  explicit UseConsole(Console now) : before_(std::exchange(console(), std::move(now))) {}
  ~UseConsole() { console() = std::move(before_); }
  UseConsole(const UseConsole&) = delete;
  UseConsole& operator=(const UseConsole&) = delete;

 private:
  Console before_;
};

/// Prints to the console's output.
template <class... Args>
void say(fmt::format_string<Args...> format, Args&&... args) {
  fmt::print(console().out, format, std::forward<Args>(args)...);
}
/// Prints to the console's error output.
template <class... Args>
void say_error(fmt::format_string<Args...> format, Args&&... args) {
  fmt::print(console().err, format, std::forward<Args>(args)...);
}

}  // namespace kilter::tool
