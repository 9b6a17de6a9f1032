// A tensor's memory between fences, which reveals kernels that write outside it.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <string>

namespace kilter {

/// The bytes of a tensor between two fences. `shift` moves them off the 64-byte boundary.
class GuardedMemory {
 public:
  GuardedMemory(int64_t bytes, size_t shift) : bytes_(static_cast<size_t>(bytes)), shift_(shift) {
    memory_.reset(new (std::align_val_t{64}) std::byte[size()]);
    std::fill_n(memory_.get(), size(), kFence);
    std::fill_n(data(), bytes_, kPoison);
  }
  size_t bytes() const { return bytes_; }
  std::byte* data() const { return memory_.get() + kFenceBytes + shift_; }
  /// Returns "" if both fences are intact, otherwise the position of the first changed byte, relative to the tensor's
  /// start.
  std::string damage() const {
    for (size_t i = 0; i < size(); ++i) {
      const bool inside = i >= kFenceBytes + shift_ && i < kFenceBytes + shift_ + bytes_;
      if (inside || memory_[i] == kFence) continue;
      return fmt::format("byte {} of a tensor of {} bytes was written",
                         static_cast<int64_t>(i) - static_cast<int64_t>(kFenceBytes + shift_), bytes_);
    }
    return "";
  }

 private:
  struct Free {
    void operator()(std::byte* p) const { ::operator delete[](p, std::align_val_t{64}); }
  };
  static constexpr size_t kFenceBytes = 256;
  static constexpr std::byte kFence{0x5A};
  static constexpr std::byte kPoison{0xC3};
  size_t size() const { return bytes_ + shift_ + 2 * kFenceBytes; }

  size_t bytes_;
  size_t shift_;
  std::unique_ptr<std::byte[], Free> memory_;
};

}  // namespace kilter
