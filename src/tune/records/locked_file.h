// A file that several processes append to.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace kilter::tune {

/// The file, open and locked against other writers until this goes out of scope. Every failure is an io error that
/// names the file.
class LockedFile {
 public:
  /// Makes the file where there is none. Waits `busy_seconds` for other writers, then throws io.
  LockedFile(std::filesystem::path file, double busy_seconds);
  ~LockedFile();
  LockedFile(const LockedFile&) = delete;
  LockedFile& operator=(const LockedFile&) = delete;

  int64_t size() const { return status().st_size; }
  uint64_t inode() const { return status().st_ino; }
  /// The bytes from `offset` to the end.
  std::string from(int64_t offset) const;
  /// At the end; where it fails the file is as it was.
  void append(const std::string& text) const;

 private:
  [[noreturn]] void io_error(std::string_view doing) const;
  struct stat status() const;
  /// False while another process has it. A file that was replaced while this waited is opened again.
  bool lock();

  std::filesystem::path file_;
  int fd_ = -1;
};

}  // namespace kilter::tune
