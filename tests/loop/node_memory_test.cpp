// Memory of the loop IR's nodes: pieces are aligned and do not overlap, any thread may free them, and slabs are freed.
#include "loop/node_memory.h"

#include <gtest/gtest.h>
#include <malloc.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <thread>
#include <vector>

namespace kilter {
namespace {

struct Piece {
  unsigned char* memory;
  size_t bytes;
  unsigned char mark;
};

std::vector<Piece> take_pieces(size_t count, unsigned char mark) {
  std::vector<Piece> pieces;
  for (size_t i = 0; i < count; ++i) {
    const size_t bytes = i % 1000 == 999 ? 20'000 : 1 + i % 300;  // some are too large for a slab
    auto* memory = static_cast<unsigned char*>(node_memory::take(bytes));
    std::memset(memory, mark, bytes);
    pieces.push_back({memory, bytes, mark});
  }
  return pieces;
}

/// Checks that nothing else wrote to the pieces.
void give(const std::vector<Piece>& pieces) {
  for (const Piece& p : pieces) {
    EXPECT_EQ(reinterpret_cast<uintptr_t>(p.memory) % alignof(std::max_align_t), 0U);
    EXPECT_TRUE(std::all_of(p.memory, p.memory + p.bytes, [&](unsigned char byte) { return byte == p.mark; }));
    node_memory::give(p.memory, p.bytes);
  }
}

TEST(NodeMemory, PiecesDoNotOverlap) {
  const std::vector<Piece> some = take_pieces(5000, 1), others = take_pieces(5000, 2);
  give(some);
  const std::vector<Piece> more = take_pieces(5000, 3);
  give(others);
  give(more);
}

TEST(NodeMemory, AnyThreadMayFree) {
  constexpr size_t kThreads = 4;
  std::vector<std::vector<Piece>> made(kThreads);
  std::vector<std::thread> threads;
  for (size_t t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] { made[t] = take_pieces(4000, static_cast<unsigned char>(t + 1)); });
  for (std::thread& thread : threads) thread.join();
  threads.clear();
  for (size_t t = 0; t < kThreads; ++t) {  // each thread frees what another allocated, and allocates more meanwhile
    threads.emplace_back([&, t] {
      const std::vector<Piece> own = take_pieces(1000, static_cast<unsigned char>(t + 10));
      give(made[(t + 1) % kThreads]);
      give(own);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST(NodeMemory, SlabsAreFreedWithTheirLastNode) {
  const auto in_use = [] { return mallinfo2().uordblks + mallinfo2().hblkhd; };
  constexpr size_t kMiB = size_t{1} << 20;
  const size_t before = in_use();
  {
    const std::vector<Piece> pieces = take_pieces(200'000, 7);  // about 34 MB
    EXPECT_GT(in_use(), before + 25 * kMiB);
    give(pieces);
  }
  EXPECT_LT(in_use(), before + kMiB) << "at most the current slab stays";
}
#endif

}  // namespace
}  // namespace kilter
