#include "fleet/agent/kept_parts.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "exec/memory.h"
#include "exec/sodium.h"
#include "packing/foreign_recipe.h"

namespace kilter::fleet {

using tune::StorePart;

namespace {

constexpr int64_t kMostKept = int64_t{2} << 30;  ///< bytes

/// Returns a blob, and checks its hash: the database may have been changed, and a job's signature covers only the
/// hashes.
std::string fetch(JobSource& blobs, const std::string& hash) {
  std::string bytes = blobs.blob(hash);
  const std::string got = sha256(std::as_bytes(std::span(bytes)));
  if (got == hash) return bytes;
  fail(ErrorKind::bad_input,
       "the blob {} has the hash {}, so nothing in it was run: the database was changed or is damaged; its owner must "
       "delete this row of kilter.blobs",
       hash, got);
}

}  // namespace

std::string fetch(JobSource& blobs, const Stored& stored) {
  std::string bytes;
  for (const std::string& hash : stored.hashes) bytes += fetch(blobs, hash);
  if (std::ssize(bytes) != stored.bytes)
    fail(ErrorKind::bad_input, "the blobs have {} bytes; the job expects {}", bytes.size(), stored.bytes);
  return bytes;
}

KeptParts::KeptParts(JobSource& blobs, tune::ConstantStore& store, int64_t most_bytes)
    : blobs_(blobs), store_(store), most_bytes_(most_bytes), most_kept_(std::min(kMostKept, most_bytes / 2)) {}

StorePart KeptParts::get(const TrialPart& part) {
  const std::string name = "part " + name_of(part);
  if (const auto known = kept_.find(name); known != kept_.end()) {
    known->second.used = ++uses_;
    return known->second.part;
  }
  const StorePart made = make(part);
  keep(name, {.part = made, .bytes = made.bytes});
  return made;
}

StorePart KeptParts::make(const TrialPart& part) {
  // These checks come before anything is fetched or memory is allocated.
  if (std::max(part.bytes, part.data.bytes) > most_bytes_ - store_.used_bytes())
    fail(ErrorKind::bad_input,
         "a constant of {} bytes, from {} bytes of data, in addition to {} bytes of other constants; expected at most "
         "{} bytes in total, half of this agent's memory; measure on a machine with more memory",
         part.bytes, part.data.bytes, store_.used_bytes(), most_bytes_);
  if (!part.recipe && part.bytes != part.data.bytes)
    fail(ErrorKind::bad_input, "a constant of {} bytes has {} bytes of blobs; expected the same number", part.bytes,
         part.data.bytes);
  if (part.recipe) {
    if (const auto fault = fault_of(*part.recipe, part.type, part.data.bytes, part.bytes))
      fail(ErrorKind::bad_input, "the recipe of a constant: {}", *fault);
    if (part.bytes > most_packed_bytes(part.data.bytes))
      fail(ErrorKind::bad_input,
           "the recipe of a constant makes {} bytes from {}; expected at most {} times as many plus {} MiB", part.bytes,
           part.data.bytes, kMostGrowth, kAlwaysAllowed >> 20);
  }
  const std::shared_ptr<const std::string> bytes =
      part.recipe ? source(part.data) : std::make_shared<const std::string>(fetch(blobs_, part.data));
  if (!part.recipe) return store_.add(std::as_bytes(std::span(*bytes)));
  const Block made(part.bytes, "a packed constant");
  pack(*part.recipe, part.type, reinterpret_cast<const std::byte*>(bytes->data()), part.type, made.data());
  return store_.add({made.data(), static_cast<size_t>(part.bytes)});
}

std::shared_ptr<const std::string> KeptParts::source(const Stored& stored) {
  const std::string name = fmt::format("source of {} bytes: {}", stored.bytes, fmt::join(stored.hashes, " "));
  if (const auto known = kept_.find(name); known != kept_.end()) {
    known->second.used = ++uses_;
    return known->second.source;
  }
  auto bytes = std::make_shared<const std::string>(fetch(blobs_, stored));
  keep(name, {.source = bytes, .bytes = std::ssize(*bytes)});
  return bytes;
}

void KeptParts::keep(const std::string& name, Kept kept) {
  kept.used = ++uses_;
  kept_bytes_ += kept.bytes;
  kept_.emplace(name, std::move(kept));
}

void KeptParts::forget() {
  while (kept_bytes_ > most_kept_ && !kept_.empty()) {
    const auto oldest = std::ranges::min_element(kept_, {}, [](const auto& entry) { return entry.second.used; });
    kept_bytes_ -= oldest->second.bytes;
    if (!oldest->second.source) (void)store_.release(oldest->second.part);
    kept_.erase(oldest);
  }
}

}  // namespace kilter::fleet
