#include "base/free_memory.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <memory>
#include <vector>

namespace kilter {
namespace {

int64_t resident_bytes() {
  int64_t all = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> all >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

TEST(FreeMemory, IsReturnedToTheSystem) {
#ifndef __GLIBC__
  GTEST_SKIP() << "another C library";
#endif
  constexpr size_t kPiece = 100 << 10, kPieces = 4000;  // 400 MB in pieces that come from the heap
  std::vector<std::unique_ptr<char[]>> pieces, between;
  for (size_t i = 0; i < kPieces; ++i) {
    pieces.push_back(std::make_unique<char[]>(kPiece));
    std::memset(pieces.back().get(), 1, kPiece);
    between.push_back(std::make_unique<char[]>(64));
  }
  const int64_t full = resident_bytes();
  pieces.clear();
  return_free_memory();
  EXPECT_LT(resident_bytes(), full - (int64_t{300} << 20));
}

}  // namespace
}  // namespace kilter
