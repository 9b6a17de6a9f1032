// Memory that lives as long as an instance: aligned, zeroed, and on huge pages when it is large.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace kilter {

constexpr int64_t kCacheLine = 64;

/// Where an instance gets its memory from instead of the system. Both functions may be called by any thread.
struct Allocator {
  void* (*allocate)(size_t bytes, size_t alignment, void* user) = nullptr;  ///< returns null when there is no memory
  void (*release)(void* memory, size_t bytes, void* user) = nullptr;
  void* user = nullptr;
};

/// Zeroed bytes at a 64-byte boundary. Blocks above 4 MiB start at a 2 MiB boundary, use huge pages if the system has
/// them, and are backed by physical memory from the start. Throws out_of_memory naming `what` when the machine does not
/// have that much.
class Block {
 public:
  Block() = default;
  Block(int64_t bytes, std::string_view what);
  /// Takes the bytes from an allocator, to which the destructor returns them. Throws out_of_memory when it has none,
  /// and usage when it returns memory that is not aligned. Null: as the constructor above.
  Block(int64_t bytes, std::string_view what, const Allocator* from);
  ~Block();
  Block(Block&& other) noexcept;
  Block& operator=(Block&& other) noexcept;

  std::byte* data() const { return data_; }
  /// Gives a large block's memory from byte `used` on back to the system. That part must no longer be used.
  void release_from(int64_t used);

 private:
  std::byte* data_ = nullptr;
  void* base_ = nullptr;
  size_t mapped_bytes_ = 0;  ///< 0: from the heap or the allocator
  size_t bytes_ = 0;         ///< from the allocator
  Allocator allocator_;      ///< without functions: the memory is not from one
};

/// A copy of machine code at a page boundary that can be executed but not written.
class ExecutableCode {
 public:
  /// Throws internal, with the system's reason, when the system refuses executable memory.
  explicit ExecutableCode(std::span<const std::byte> code);
  ~ExecutableCode();
  ExecutableCode(const ExecutableCode&) = delete;
  ExecutableCode& operator=(const ExecutableCode&) = delete;

  std::byte* data() const { return data_; }

 private:
  std::byte* data_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace kilter
