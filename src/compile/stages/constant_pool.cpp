#include "compile/stages/constant_pool.h"

#include <algorithm>
#include <cstring>

#include "base/align.h"
#include "base/hash.h"

namespace kilter {
namespace {

constexpr int64_t kConstantAlign = 64;

}  // namespace

int64_t stored_bytes(int64_t bytes) { return std::max<int64_t>(ceil_div(bytes, kConstantAlign), 1) * kConstantAlign; }

int64_t ConstantPool::add(const Tensor& tensor) {
  const std::span<const std::byte> bytes(tensor.raw(), static_cast<size_t>(tensor.bytes()));
  const uint64_t hash = hash_bytes(bytes);
  auto [it, fresh] = by_hash_.emplace(hash, total_);
  if (!fresh) {
    const Tensor& known = parts_.at(it->second);
    if (known.bytes() == tensor.bytes() && std::memcmp(known.raw(), tensor.raw(), bytes.size()) == 0) return it->second;
  }
  const int64_t at = total_;
  parts_.emplace(at, tensor);
  total_ += stored_bytes(tensor.bytes());
  return at;
}

Block ConstantPool::join() {
  Block all(std::max<int64_t>(total_, 1), "the packed weights");
  for (auto& [at, part] : parts_) {
    std::memcpy(all.data() + at, part.raw(), static_cast<size_t>(part.bytes()));
    part = Tensor();
  }
  return all;
}

}  // namespace kilter
