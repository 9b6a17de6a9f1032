// Memory between inaccessible pages, filled so that reads of unwritten memory show up.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace kilter::tune {

/// `count` regions of `bytes` each, separated by pages that cannot be accessed. The last cache line of a region ends at
/// the page that follows it. The gaps between a region and the pages around it are filled with a pattern.
class Fenced {
 public:
  /// Fills the regions with 0xFF, which is NaN as floats. Throws out_of_memory naming `what` if there is no memory.
  Fenced(int64_t bytes, int count, const std::string& what);
  ~Fenced();
  Fenced(Fenced&& other) noexcept;
  Fenced& operator=(Fenced&&) = delete;

  std::byte* data(int index = 0) const { return first_ + index * stride_; }
  int64_t bytes() const { return bytes_; }
  int64_t stride() const { return stride_; }
  int count() const { return count_; }
  /// Makes the memory read-only.
  void protect() const;
  /// Returns the offset of the first overwritten pattern byte from the start of its region, or nothing if the patterns
  /// are intact. Restores the patterns.
  std::optional<int64_t> damage();

 private:
  std::byte* base_ = nullptr;
  std::byte* first_ = nullptr;
  int64_t mapped_ = 0, bytes_ = 0, room_ = 0, stride_ = 0;  ///< room_: whole pages of one region
  int count_ = 0;
};

}  // namespace kilter::tune
