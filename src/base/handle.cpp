#include "base/handle.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "base/text.h"

namespace kilter {

Handle& Handle::operator=(Handle&& other) noexcept {
  if (this != &other) {
    reset();
    fd_ = other.release();
  }
  return *this;
}

int Handle::release() { return std::exchange(fd_, -1); }

void Handle::reset() {
  if (fd_ >= 0) close(fd_);
  fd_ = -1;
}

std::string last_words(int fd) {
  constexpr off_t kMost = 2000;
  const off_t size = lseek(fd, 0, SEEK_END);
  const off_t from = std::max<off_t>(size - kMost, 0);
  std::string text(static_cast<size_t>(std::max<off_t>(size - from, 0)), '\0');
  const ssize_t got = pread(fd, text.data(), text.size(), from);
  text.resize(got > 0 ? static_cast<size_t>(got) : 0);
  return std::string(trim(text));
}

}  // namespace kilter
