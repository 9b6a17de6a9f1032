#include "compile/stages/constant_pool.h"

#include <algorithm>
#include <cstring>

#include "base/align.h"
#include "base/error.h"
#include "base/hash.h"

namespace kilter {

int64_t stored_bytes(int64_t bytes) { return std::max<int64_t>(ceil_div(bytes, kCacheLine), 1) * kCacheLine; }

ConstantPool::ConstantPool(int64_t capacity)
    : capacity_(std::max<int64_t>(capacity, 1)), block_(capacity_, "the packed weights") {}

int64_t ConstantPool::add(int64_t bytes, const std::function<void(std::byte*)>& fill) {
  std::byte* to = block_.data() + used_;
  const auto size = static_cast<size_t>(bytes);
  require(used_ + bytes <= capacity_, "a constant of {} bytes does not fit in a pool of {} bytes, of which {} are used",
          bytes, capacity_, used_);
  fill(to);
  last_hash_ = hash_bytes({to, size});
  const auto [it, fresh] = by_hash_.try_emplace(last_hash_, Part{used_, bytes});
  const Part& known = it->second;
  if (!fresh && known.bytes == bytes && std::memcmp(block_.data() + known.at, to, size) == 0) {
    std::memset(to, 0, size);
    return known.at;
  }
  const int64_t at = used_;
  used_ += stored_bytes(bytes);
  return at;
}

void ConstantPool::drop_last(int64_t at) {
  const auto known = by_hash_.find(last_hash_);
  if (known != by_hash_.end() && known->second.at == at) by_hash_.erase(known);
  std::memset(block_.data() + at, 0, static_cast<size_t>(used_ - at));
  used_ = at;
}

Block ConstantPool::finish() {
  block_.release_from(used_);
  return std::move(block_);
}

}  // namespace kilter
