// The console of a command: where it prints, and how its user watches and stops it. The user is at the terminal, or is
// a program that calls commands.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <cstdio>
#include <functional>
#include <string>
#include <utility>

namespace kilter::tool {

enum class Detail : uint8_t { quiet, normal, verbose };    // --quiet and --verbose
enum class Colour : uint8_t { automatic, always, never };  // --color

struct Console {
  std::FILE* out = stdout;
  std::FILE* err = stderr;
  Detail detail = Detail::normal;
  Colour colour = Colour::automatic;
  /// Receives a description of what the command is doing, which is then not shown on the terminal. It may throw, which
  /// ends the command.
  std::function<void(const std::string& doing)> progress = nullptr;
  /// Called often by work that may never end by itself, such as the loops of a network. It may throw, which ends the
  /// work. Null: SIGINT ends the process.
  std::function<void()> interrupt = nullptr;
  /// Returns whether a search should end and report what it has found. Null: SIGINT and SIGTERM end it.
  std::function<bool()> stopped = nullptr;

  /// Whether lines on `err` can be redrawn: it is a terminal, `progress` is not set, and --quiet is not given.
  bool redraws() const;
  /// Whether text for this file has colours: if --color says so, or it is a terminal that shows them and NO_COLOR is
  /// not set.
  bool colours(std::FILE* file) const;
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

/// Prints a note to the console's error output: something that the result does not depend on. --quiet leaves it out.
template <class... Args>
void note(fmt::format_string<Args...> format, Args&&... args) {
  if (console().detail != Detail::quiet) say_error(format, std::forward<Args>(args)...);
}
/// Prints to the console's output that something was done, such as a file written. --quiet leaves it out.
template <class... Args>
void confirm(fmt::format_string<Args...> format, Args&&... args) {
  if (console().detail != Detail::quiet) say(format, std::forward<Args>(args)...);
}

}  // namespace kilter::tool
