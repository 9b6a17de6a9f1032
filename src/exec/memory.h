// Memory that lives as long as an instance: aligned, zeroed, on huge pages where it is large.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace kilter {

constexpr int64_t kCacheLine = 64;

/// Zeroed bytes at a 64-byte boundary; above 4 MiB at a 2 MiB boundary on huge pages, if the system has them, and
/// already backed by memory. Throws out_of_memory naming `what` when the machine has not that much.
class Block {
 public:
  Block() = default;
  Block(int64_t bytes, std::string_view what);
  ~Block();
  Block(Block&& other) noexcept;
  Block& operator=(Block&& other) noexcept;

  std::byte* data() const { return data_; }

 private:
  std::byte* data_ = nullptr;
  void* base_ = nullptr;
  size_t mapped_bytes_ = 0;  ///< 0: from the heap
};

/// A copy of machine code that can be executed and not written, at a page boundary.
class ExecutableCode {
 public:
  /// Throws internal, with the system's reason, when executable memory is refused.
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
