// A file that several processes append to.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace kilter::tune {

/// A file that is open and locked against other writers until this object is destroyed. Every failure is an io error
/// that names the file.
class LockedFile {
 public:
  /// Creates the file if it does not exist. Waits up to `busy_seconds` for other writers, then throws io.
  LockedFile(std::filesystem::path file, double busy_seconds);
  ~LockedFile();
  LockedFile(const LockedFile&) = delete;
  LockedFile& operator=(const LockedFile&) = delete;

  int64_t size() const { return status().st_size; }
  uint64_t inode() const { return status().st_ino; }
  /// Returns the bytes from `offset` to the end.
  std::string from(int64_t offset) const;
  /// Writes at the end of the file. If this fails, the file is unchanged.
  void append(const std::string& text) const;

 private:
  [[noreturn]] void io_error(std::string_view doing) const;
  struct stat status() const;
  /// Returns false while another process holds the lock. Reopens a file that was replaced meanwhile.
  bool lock();

  std::filesystem::path file_;
  int fd_ = -1;
};

}  // namespace kilter::tune
