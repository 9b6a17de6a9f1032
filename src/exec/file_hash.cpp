#include "exec/file_hash.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <thread>
#include <vector>

#include "base/hash.h"
#include "exec/cpu_limits.h"

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

/// Hashes all chunks. The caller takes part, so a thread that cannot be started costs only time.
void hash_all(std::vector<Chunk>& chunks, uint64_t seed) {
  std::atomic<size_t> next{0};
  const auto work = [&] {
    for (size_t i = next++; i < chunks.size(); i = next++) chunks[i].hash = hash_bytes(chunks[i].bytes, seed);
  };
  const size_t wanted = std::min(kMostThreads, chunks.size() / kChunksPerThread);
  std::vector<std::jthread> helpers;
  try {
    const size_t threads = wanted > 1 ? std::min(wanted, static_cast<size_t>(available_cpus())) : 1;
    helpers.reserve(threads);
    while (helpers.size() + 1 < threads) helpers.emplace_back(work);
  } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): see above
  }
  work();
}

}  // namespace

uint64_t hash_pieces(std::span<const std::span<const std::byte>> pieces, uint64_t seed) {
  std::vector<Chunk> chunks = chunks_of(pieces);
  hash_all(chunks, seed);
  uint64_t hash = seed;
  for (const auto& piece : pieces) hash = hash_combine(hash, piece.size());
  for (const Chunk& chunk : chunks) hash = hash_combine(hash, chunk.hash);
  return hash;
}

}  // namespace kilter
