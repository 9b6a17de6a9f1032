// One thread's part of a parallel range. Its owner takes pieces from the front, others from the back.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

namespace kilter {

struct Piece {
  int64_t begin = 0, end = 0;
  bool empty() const { return begin >= end; }
};

/// Hands out every index exactly once, from any thread. It does not order the work done on the pieces.
class alignas(64) WorkRange {
 public:
  static constexpr int64_t kMost = UINT32_MAX;  ///< all indices are smaller

  void reset(int64_t begin, int64_t end) {
    first_ = begin;
    left_.store(packed(begin, end), std::memory_order_relaxed);
  }
  /// Takes a piece for the owner: half of the range the first time, then a quarter of the rest each time, so that its
  /// last pieces are small when the other threads run out of work.
  Piece take_front() {
    return take([this](Piece left) {
      const int64_t count = left.end - left.begin;
      const int64_t share = left.begin == first_ ? (count + 1) / 2 : (count + 3) / 4;
      return Piece{left.begin, left.begin + share};
    });
  }
  /// Takes a piece for another thread: half of the rest.
  Piece take_back() {
    return take([](Piece left) { return Piece{left.end - (left.end - left.begin + 1) / 2, left.end}; });
  }

 private:
  static uint64_t packed(int64_t begin, int64_t end) {
    return static_cast<uint64_t>(begin) << 32 | static_cast<uint64_t>(end);
  }
  template <class Choose>
  Piece take(Choose choose) {
    uint64_t seen = left_.load(std::memory_order_relaxed);
    for (;;) {
      const Piece left{static_cast<int64_t>(seen >> 32), static_cast<int64_t>(seen & UINT32_MAX)};
      if (left.empty()) return {};
      const Piece piece = choose(left);
      const bool front = piece.begin == left.begin;
      const uint64_t rest = front ? packed(piece.end, left.end) : packed(left.begin, piece.begin);
      if (left_.compare_exchange_weak(seen, rest, std::memory_order_relaxed)) return piece;
    }
  }

  std::atomic<uint64_t> left_{0};
  int64_t first_ = 0;  ///< read only by the owner
};

}  // namespace kilter
