// Memory shared by two processes: an anonymous file, mapped at an address that stays the same while the file grows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/handle.h"

namespace kilter::tune {

/// An anonymous file with `reserve` bytes of address space, of which the first size() exist.
class SharedMemory {
 public:
  /// Creates an empty file. `name` appears in the system's lists of mappings. Throws io with the system's reason.
  static SharedMemory create(const std::string& name, int64_t reserve);
  /// Maps a file of another process.
  static SharedMemory attach(Handle file, int64_t reserve, bool writable);
  SharedMemory(SharedMemory&& other) noexcept;
  SharedMemory& operator=(SharedMemory&&) = delete;
  ~SharedMemory();

  std::byte* data() const { return data_; }
  int64_t size() const { return size_; }
  /// Bytes that exist by now, including those that another process added.
  int64_t file_bytes() const;
  int64_t reserve() const { return reserve_; }
  int fd() const { return file_.get(); }
  /// A descriptor that gives read-only access to the memory.
  Handle read_only() const;
  /// Extends the file to `bytes`, in steps of a few MiB. Throws out_of_memory if `reserve` or the machine's memory is
  /// too small.
  void grow(int64_t bytes);
  /// Allocates memory for a range, so that accessing it cannot fail. Throws out_of_memory if there is none.
  void back(int64_t offset, int64_t bytes);
  /// Returns the memory of whole pages inside the range to the system. They read as 0 afterwards.
  void give_back(int64_t offset, int64_t bytes);

 private:
  SharedMemory(Handle file, int64_t reserve, bool writable);
  Handle file_;
  std::byte* data_ = nullptr;
  int64_t size_ = 0, reserve_ = 0;
};

}  // namespace kilter::tune
