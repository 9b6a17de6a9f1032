// Memory that two processes share: an anonymous file, mapped at an address that stays while the file grows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/handle.h"

namespace kilter::tune {

/// An anonymous file of `reserve` bytes of addresses, of which the first size() exist.
class SharedMemory {
 public:
  /// An empty one. `name` is what the system's lists of mappings show. Throws io with the system's reason.
  static SharedMemory create(const std::string& name, int64_t reserve);
  /// Another process's.
  static SharedMemory attach(Handle file, int64_t reserve, bool writable);
  SharedMemory(SharedMemory&& other) noexcept;
  SharedMemory& operator=(SharedMemory&&) = delete;
  ~SharedMemory();

  std::byte* data() const { return data_; }
  int64_t size() const { return size_; }
  /// Bytes that exist by now, also where another process made them.
  int64_t file_bytes() const;
  int64_t reserve() const { return reserve_; }
  int fd() const { return file_.get(); }
  /// A descriptor through which the memory can be read and not written.
  Handle read_only() const;
  /// Makes the first `bytes` exist, in steps of some MiB. Throws out_of_memory when the machine or `reserve` has not
  /// that much.
  void grow(int64_t bytes);
  /// Backs a stretch with memory, so that touching it cannot fail. Throws out_of_memory when there is none.
  void back(int64_t offset, int64_t bytes);
  /// Gives the memory of whole pages inside of the stretch back; they read as 0.
  void give_back(int64_t offset, int64_t bytes);

 private:
  SharedMemory(Handle file, int64_t reserve, bool writable);
  Handle file_;
  std::byte* data_ = nullptr;
  int64_t size_ = 0, reserve_ = 0;
};

}  // namespace kilter::tune
