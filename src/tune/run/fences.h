// Memory between pages that nobody may touch, filled so that reading what nobody wrote shows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace kilter::tune {

/// `count` stretches of `bytes`; each ends at a page that faults (but for the rest of its last cache line) and begins
/// behind one. What lies between those pages and the stretch holds a pattern.
class Fenced {
 public:
  /// Filled with 0xFF: NaN as floats. Throws bad_input naming `what` when there is no memory.
  Fenced(int64_t bytes, int count, const std::string& what);
  ~Fenced();
  Fenced(Fenced&& other) noexcept;
  Fenced& operator=(Fenced&&) = delete;

  std::byte* data(int index = 0) const { return first_ + index * stride_; }
  int64_t bytes() const { return bytes_; }
  int64_t stride() const { return stride_; }
  int count() const { return count_; }
  /// Nobody may write any more.
  void protect() const;
  /// The first byte of the pattern that was written, from its stretch's start; nothing while the pattern is whole.
  /// Makes the pattern whole again.
  std::optional<int64_t> damage();

 private:
  std::byte* base_ = nullptr;
  std::byte* first_ = nullptr;
  int64_t mapped_ = 0, bytes_ = 0, room_ = 0, stride_ = 0;  ///< room_: whole pages of one stretch
  int count_ = 0;
};

}  // namespace kilter::tune
