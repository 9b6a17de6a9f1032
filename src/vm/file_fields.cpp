#include "vm/file_fields.h"

#include <algorithm>

#include "base/align.h"
#include "base/error.h"
#include "base/hash.h"
#include "exec/file_hash.h"
#include "exec/memory.h"
#include "exec/plan_check.h"
#include "exec/plan_meta.h"

namespace kilter::vm {
namespace {

constexpr size_t kAlignment = 64;  ///< of plans' code and of constants

}  // namespace

int64_t Pool::put(std::span<const std::byte> bytes) {
  const auto [begin, end] = places_.equal_range(hash_bytes(bytes));
  for (auto it = begin; it != end; ++it) {
    const auto& [offset, size] = it->second;
    if (size == bytes.size() && std::equal(bytes.begin(), bytes.end(), bytes_.begin() + offset)) return offset;
  }
  const auto offset = static_cast<int64_t>(bytes_.size());
  places_.emplace(hash_bytes(bytes), std::pair(offset, bytes.size()));
  bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
  // Kernels may read whole vectors up to the end of a constant's last cache line.
  bytes_.resize(std::max(round_up(bytes_.size(), kAlignment), static_cast<size_t>(offset) + kAlignment));
  return offset;
}

uint64_t UsedBytes::hash(std::span<const std::byte> code_section, std::span<const std::byte> constants_section) const {
  std::vector<std::span<const std::byte>> pieces;
  const auto add = [&](std::span<const std::byte> section, const std::set<std::pair<int64_t, int64_t>>& parts) {
    for (const auto& [offset, size] : parts)
      pieces.push_back(section.subspan(static_cast<size_t>(offset), static_cast<size_t>(size)));
  };
  add(code_section, code);
  add(constants_section, constants);
  return hash_pieces(pieces, kHashSeed);
}

int64_t UsedBytes::total(const std::set<std::pair<int64_t, int64_t>>& parts) {
  int64_t bytes = 0;
  for (const auto& [offset, size] : parts) bytes += size;
  return bytes;
}

void Writer::code(std::span<const std::byte> data, const char* what) {
  const int64_t offset = pools.code.put(data);
  used.code.emplace(offset, std::ssize(data));
  number(offset, what);
  number(static_cast<int64_t>(data.size()), what);
}

void Writer::constants(std::span<const std::byte> data, const char* what) {
  number(put_constants(data), what);
  number(static_cast<int64_t>(data.size()), what);
}

int64_t Writer::put_constants(std::span<const std::byte> data) {
  const int64_t offset = pools.constants.put(data);
  used.constants.emplace(offset, std::ssize(data));
  return offset;
}

std::span<const std::byte> Reader::bytes(std::span<const std::byte> section,
                                         std::set<std::pair<int64_t, int64_t>>& parts, const char* what) {
  int64_t offset = 0, size = 0;
  number(offset, what);
  number(size, what);
  const auto all = static_cast<int64_t>(section.size());
  if (offset < 0 || size < 0 || offset > all || size > all - offset || offset % static_cast<int64_t>(kAlignment) != 0)
    bad(what, fmt::format("{} bytes at byte {} of a section of {}; expected a multiple of {} inside it", size, offset,
                          all, kAlignment));
  parts.emplace(offset, size);
  return section.subspan(static_cast<size_t>(offset), static_cast<size_t>(size));
}

namespace {

/// Returns the place of a plan's constant in memory once the file is loaded.
int64_t place(Writer& io, const Plan& plan, const BufferRef& ref) {
  const std::span<const std::byte> data{plan.constants + ref.offset, static_cast<size_t>(ref.bytes)};
  if (io.sources == nullptr) return io.put_constants(data);
  bool fresh = false;
  const int64_t at = io.layout.place(data, fresh);
  if (!fresh) return at;
  StoredConstant& constant = io.stored.emplace_back();
  constant.bytes = ref.bytes;
  std::span<const std::byte> bytes = data;
  if (const Sources::Source* source = io.sources->of(plan, ref.offset)) {
    constant.packed = true, constant.type = source->tensor.dtype(), constant.recipe = *source->recipe;
    bytes = {source->tensor.raw(), static_cast<size_t>(source->tensor.bytes())};
    const Block again(ref.bytes, "a packed constant");
    pack(constant.recipe, constant.type, bytes.data(), constant.type, again.data());
    require(std::equal(data.begin(), data.end(), again.data()), "{}: the recipe of a constant does not reproduce it",
            plan.model);
  }
  constant.stored_at = io.put_constants(bytes);
  constant.stored_bytes = std::ssize(bytes);
  return at;
}

}  // namespace

void plan_fields(Writer& io, const Plan& plan) {
  Plan stored = plan;
  for (Step& step : stored.steps) {
    for (BufferRef& ref : step.args) {
      if (ref.space == Space::constant) ref.offset = place(io, plan, ref);
    }
  }
  io.text(write_plan_meta(stored), "plan");
  io.code({plan.code, static_cast<size_t>(plan.code_bytes)}, "code of a plan");
}

void plan_fields(Reader& io, Plan& plan) {
  std::string meta;
  io.text(meta, "plan");
  plan = read_plan_meta(std::as_bytes(std::span(meta)), io.where);
  const auto code = io.code("code of a plan");
  plan.code = code.data();
  plan.code_bytes = std::ssize(code);
  const std::span<const std::byte> constants = io.unpacked ? io.unpacked->bytes : io.sections.constants;
  plan.constants = constants.data();
  plan.constants_bytes = std::ssize(constants);
  plan.owner = io.owner;
  if (io.unpacked) plan.owner = std::make_shared<std::pair<std::shared_ptr<void>, Unpacked>>(io.owner, *io.unpacked);
  check_plan(plan, ErrorKind::bad_input);
  if (io.unpacked) return;  // the constants that the file contains are listed
  for (const Step& step : plan.steps) {
    for (const BufferRef& ref : step.args) {
      if (ref.space == Space::constant) io.used.constants.emplace(ref.offset, ref.bytes);
    }
  }
}

}  // namespace kilter::vm
