#include "vm/small_file.h"

#include <algorithm>
#include <tuple>

#include "base/align.h"
#include "base/error.h"
#include "base/hash.h"
#include "exec/helper_threads.h"
#include "exec/memory.h"
#include "packing/foreign_recipe.h"

namespace kilter::vm {
namespace {

constexpr int64_t kAlignment = 64;  ///< of constants in memory; kernels may read up to the end of their last line
constexpr int64_t kMostBytes = int64_t{1} << 40;
constexpr int64_t kBytesPerThread = int64_t{1} << 20;  ///< packing fewer takes less time than starting a thread
constexpr size_t kMostThreads = 16;

/// Bytes of memory from the start of a constant to that of the next one.
int64_t placed_bytes(int64_t bytes) { return round_up(std::max<int64_t>(bytes, 1), kAlignment); }

std::span<const std::byte> bytes_of(const Tensor& tensor) {
  return {tensor.raw(), static_cast<size_t>(tensor.bytes())};
}

/// A hash of bytes. Equal bytes have equal digests.
struct Digest {
  uint64_t hash = 0;
  size_t size = 0;
  auto operator<=>(const Digest&) const = default;
};

Digest digest_of(std::span<const std::byte> bytes) { return {hash_bytes(bytes), bytes.size()}; }

}  // namespace

Sources::Sources(std::span<const Plan* const> plans) {
  std::map<std::tuple<const std::byte*, int64_t, DType>, std::pair<Tensor, Digest>> converted;
  std::map<Digest, std::set<Digest>> made;  // what is packed from each source
  std::map<std::pair<const Plan*, int64_t>, Digest> source_of;
  for (const Plan* plan : plans) {
    for (const RecipeOfConstant& one : plan->recipes) {
      auto [at, fresh] = converted.try_emplace({one.source.raw(), one.source.bytes(), one.type});
      if (fresh) {
        Tensor tensor = as_packed(one.source, one.type);
        const Digest digest = digest_of(bytes_of(tensor));
        at->second = {std::move(tensor), digest};
      }
      const auto& [tensor, digest] = at->second;
      made[digest].insert(digest_of({plan->constants + one.offset, static_cast<size_t>(one.bytes)}));
      sources_[{plan, one.offset}] = {&one.recipe, tensor};
      source_of[{plan, one.offset}] = digest;
    }
  }
  std::erase_if(sources_, [&](const auto& entry) {
    const Digest& source = source_of.at(entry.first);
    size_t packed = 0;
    for (const Digest& digest : made.at(source)) packed += digest.size;
    return packed <= source.size;
  });
}

const Sources::Source* Sources::of(const Plan& plan, int64_t offset) const {
  const auto at = sources_.find({&plan, offset});
  return at == sources_.end() ? nullptr : &at->second;
}

int64_t MemoryLayout::place(std::span<const std::byte> constant, bool& fresh) {
  const uint64_t hash = hash_bytes(constant);
  const auto [begin, end] = places_.equal_range(hash);
  fresh = false;
  for (auto it = begin; it != end; ++it) {
    if (std::ranges::equal(it->second.second, constant)) return it->second.first;
  }
  fresh = true;
  const int64_t offset = bytes_;
  places_.emplace(hash, std::pair(offset, constant));
  bytes_ += placed_bytes(std::ssize(constant));
  return offset;
}

namespace {

[[noreturn]] void bad(std::string_view where, size_t index, std::string_view problem) {
  fail(ErrorKind::bad_input, "compiled file '{}': constant {}: {}", where, index, problem);
}

void check(const StoredConstant& c, int64_t section, std::string_view where, size_t index) {
  if (c.stored_at < 0 || c.stored_bytes < 0 || c.stored_at > section || c.stored_bytes > section - c.stored_at ||
      c.stored_at % kAlignment != 0)
    bad(where, index,
        fmt::format("{} bytes at byte {} of a section of {}; expected a multiple of {} inside it", c.stored_bytes,
                    c.stored_at, section, kAlignment));
  if (c.bytes < 0 || c.bytes > kMostBytes) bad(where, index, fmt::format("{} bytes", c.bytes));
  if (!c.packed) {
    if (c.bytes != c.stored_bytes)
      bad(where, index, fmt::format("{} bytes in memory from {} in the file", c.bytes, c.stored_bytes));
    return;
  }
  if (const auto fault = fault_of(c.recipe, c.type, c.stored_bytes, c.bytes)) bad(where, index, *fault);
}

}  // namespace

Unpacked unpack(std::span<const StoredConstant> constants, std::span<const std::byte> section, std::string_view where) {
  const int64_t most = most_packed_bytes(std::ssize(section));
  std::vector<int64_t> places;
  int64_t bytes = 0;
  for (size_t i = 0; i < constants.size(); ++i) {
    check(constants[i], std::ssize(section), where, i);
    places.push_back(bytes);
    bytes += placed_bytes(constants[i].bytes);
    if (bytes > most)
      bad(where, i,
          fmt::format("it ends at byte {} of memory; expected at most {} times the {} bytes of the section and {} MiB",
                      bytes, kMostGrowth, section.size(), kAlwaysAllowed >> 20));
  }
  auto block = std::make_shared<Block>(std::max(bytes, kAlignment), "the packed weights");
  const auto threads = static_cast<size_t>(bytes / kBytesPerThread);
  on_helper_threads(constants.size(), std::min(threads, kMostThreads), [&](size_t i) {
    const StoredConstant& c = constants[i];
    const std::byte* from = section.data() + c.stored_at;
    if (c.packed) {
      pack(c.recipe, c.type, from, c.type, block->data() + places[i]);
    } else {
      std::copy_n(from, c.bytes, block->data() + places[i]);
    }
  });
  std::byte* data = block->data();
  return {std::move(block), {data, static_cast<size_t>(bytes)}};
}

}  // namespace kilter::vm
