// Data that is too large for a message and is stored as blobs of the queue.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace kilter::fleet {

/// Data in blobs of the queue.
struct Stored {
  int64_t bytes = 0;
  std::vector<std::string> hashes;  ///< of pieces of kPiece bytes, the last one shorter
  static constexpr int64_t kPiece = int64_t{16} << 20;
};

/// The fields of a message (exec/fields.h).
template <class Io, class S>
void stored_fields(Io& io, S& stored) {
  io.number(stored.bytes, "bytes of blobs");
  io.list(stored.hashes, 8, "blobs", [&](auto& hash) { io.text(hash, "hash of a blob"); });
}

}  // namespace kilter::fleet
