// File descriptors that close themselves.
#pragma once

#include <string>

namespace kilter {

/// An open file descriptor that the destructor closes.
class Handle {
 public:
  Handle() = default;
  explicit Handle(int fd) : fd_(fd) {}
  ~Handle() { reset(); }
  Handle(Handle&& other) noexcept : fd_(other.release()) {}
  Handle& operator=(Handle&& other) noexcept;

  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  int release();
  void reset();

 private:
  int fd_ = -1;
};

/// Returns at most the last 2000 bytes of a file, with whitespace trimmed; "" if it cannot be read.
std::string last_words(int fd);

}  // namespace kilter
