// Errors that a user can see. Everything that fails throws kilter::Error; nothing aborts or exits.
#pragma once

#include <fmt/format.h>

#include <exception>
#include <string>
#include <utility>

namespace kilter {

/// The kind of failure, as far as callers distinguish it. The command line maps it to its exit code.
enum class ErrorKind {
  usage,          ///< wrong option or argument (exit 2)
  bad_model,      ///< the model file or its graph is invalid (exit 3)
  bad_input,      ///< an input tensor, shape or file is not as required (exit 3)
  unsupported,    ///< valid, but Kilter cannot do it yet (exit 3)
  io,             ///< a file cannot be read or written (exit 3)
  internal,       ///< a bug in Kilter itself (exit 4)
  out_of_memory,  ///< memory could not be allocated: base/out_of_memory.h (exit 3)
};

/// Messages say what failed, where, what was expected and what was found (with units), what is legal and what to do.
class Error : public std::exception {
 public:
  Error(ErrorKind kind, std::string message) : kind_(kind), message_(std::move(message)) {}
  ErrorKind kind() const { return kind_; }
  const std::string& message() const { return message_; }
  const char* what() const noexcept override { return message_.c_str(); }

 private:
  ErrorKind kind_;
  std::string message_;
};

template <class... Args>
[[noreturn]] void fail(ErrorKind kind, fmt::format_string<Args...> format, Args&&... args) {
  throw Error(kind, fmt::format(format, std::forward<Args>(args)...));
}

/// Checks an internal invariant. The message names the broken invariant.
template <class... Args>
void require(bool holds, fmt::format_string<Args...> format, Args&&... args) {
  if (!holds) throw Error(ErrorKind::internal, fmt::format(format, std::forward<Args>(args)...));
}

/// The reason why something does not apply: the check that failed, its limit, and the value found.
struct Rejected {
  std::string check;
  std::string limit;
  std::string got;
  bool other_kind = false;  ///< the rule is for a different kind of task, so nobody would expect it to apply
  std::string text() const { return fmt::format("{}: limit {}, got {}", check, limit, got); }
};

}  // namespace kilter
