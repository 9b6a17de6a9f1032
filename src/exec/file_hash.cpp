#include "exec/file_hash.h"

#include <algorithm>
#include <vector>

#include "base/hash.h"
#include "exec/helper_threads.h"

namespace kilter {
namespace {

constexpr size_t kChunk = size_t{1} << 20;
constexpr size_t kChunksPerThread = 4;  ///< hashing fewer takes less time than starting a thread
constexpr size_t kMostThreads = 8;      ///< more threads do not read faster

struct Chunk {
  std::span<const std::byte> bytes;
  uint64_t hash = 0;
};

std::vector<Chunk> chunks_of(std::span<const std::span<const std::byte>> pieces) {
  std::vector<Chunk> chunks;
  for (const auto& piece : pieces) {
    for (size_t at = 0; at < piece.size(); at += kChunk) {
      chunks.push_back({piece.subspan(at, std::min(kChunk, piece.size() - at))});
    }
  }
  return chunks;
}

}  // namespace

uint64_t hash_pieces(std::span<const std::span<const std::byte>> pieces, uint64_t seed) {
  std::vector<Chunk> chunks = chunks_of(pieces);
  const size_t threads = std::min(kMostThreads, chunks.size() / kChunksPerThread);
  on_helper_threads(chunks.size(), threads, [&](size_t i) { chunks[i].hash = hash_bytes(chunks[i].bytes, seed); });
  uint64_t hash = seed;
  for (const auto& piece : pieces) hash = hash_combine(hash, piece.size());
  for (const Chunk& chunk : chunks) hash = hash_combine(hash, chunk.hash);
  return hash;
}

}  // namespace kilter
