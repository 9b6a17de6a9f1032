#include "tune/records/locked_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <system_error>

#include "base/error.h"

namespace kilter::tune {

LockedFile::LockedFile(std::filesystem::path file, double busy_seconds) : file_(std::move(file)) {
  const auto start = std::chrono::steady_clock::now();
  while (!lock()) {
    const std::chrono::duration<double> waited = std::chrono::steady_clock::now() - start;
    if (waited.count() > busy_seconds) {
      fail(ErrorKind::io,
           "records {}: another process has held the file for {} s; nothing was written: try again when it has ended",
           file_.string(), busy_seconds);
    }
    usleep(2000);
  }
}

LockedFile::~LockedFile() {
  if (fd_ >= 0) ::close(fd_);
}

std::string LockedFile::from(int64_t offset) const {
  std::string text(static_cast<size_t>(std::max<int64_t>(size() - offset, 0)), '\0');
  size_t done = 0;
  while (done < text.size()) {
    const ssize_t got = ::pread(fd_, text.data() + done, text.size() - done, offset + static_cast<int64_t>(done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) io_error("read");
    if (got == 0) break;
    done += static_cast<size_t>(got);
  }
  text.resize(done);
  return text;
}

void LockedFile::append(const std::string& text) const {
  const int64_t before = size();
  size_t done = 0;
  while (done < text.size()) {
    const ssize_t put = ::pwrite(fd_, text.data() + done, text.size() - done, before + static_cast<int64_t>(done));
    if (put < 0 && errno == EINTR) continue;
    if (put >= 0) {
      done += static_cast<size_t>(put);
      continue;
    }
    const int code = errno;
    [[maybe_unused]] const int cut = ::ftruncate(fd_, before);  // otherwise readers would find a damaged line
    errno = code;
    io_error("write");
  }
}

void LockedFile::io_error(std::string_view doing) const {
  const int code = errno;
  const std::string why = std::generic_category().message(code);
  if (code == ENOSPC || code == EFBIG || code == EDQUOT) {
    fail(ErrorKind::io,
         "records {}: no space left to write ({}); earlier records are safe, but the last ones are not stored: free "
         "space and run the same command again",
         file_.string(), why);
  }
  fail(ErrorKind::io, "records {}: cannot {} the file: {}", file_.string(), doing, why);
}

struct stat LockedFile::status() const {
  struct stat info{};
  if (::fstat(fd_, &info) != 0) io_error("read");
  return info;
}

bool LockedFile::lock() {
  if (fd_ < 0) fd_ = ::open(file_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, S_IRUSR | S_IWUSR);
  if (fd_ < 0) io_error("open");
  if (::flock(fd_, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR) io_error("lock");
    return false;
  }
  struct stat mine{}, named{};
  if (::fstat(fd_, &mine) == 0 && ::stat(file_.c_str(), &named) == 0 && mine.st_ino == named.st_ino) return true;
  ::close(fd_);
  fd_ = -1;
  return false;
}

}  // namespace kilter::tune
