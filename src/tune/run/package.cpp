#include "tune/run/package.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "exec/plan_check.h"
#include "exec/plan_meta.h"
#include "tune/run/tap.h"
#include "tune/run/wire.h"

namespace kilter::tune {
namespace {

constexpr int64_t kLine = 64;

/// A range of a plan's constants that steps read, with its place in the store.
struct Stretch {
  int64_t begin = 0, end = 0;
  StorePart part;
};

/// Returns ranges of whole cache lines that together contain every constant, ascending. Overlapping constants share a
/// range.
std::vector<Stretch> stretches(const Plan& plan) {
  std::vector<Stretch> all;
  for (const Step& step : plan.steps) {
    for (const BufferRef& ref : step.args) {
      if (ref.space != Space::constant || ref.bytes == 0) continue;
      all.push_back({ref.offset / kLine * kLine, ref.offset + ref.bytes, {}});
    }
  }
  std::sort(all.begin(), all.end(), [](const Stretch& a, const Stretch& b) { return a.begin < b.begin; });
  std::vector<Stretch> joined;
  for (const Stretch& s : all) {
    if (!joined.empty() && s.begin < joined.back().end) {
      joined.back().end = std::max(joined.back().end, s.end);
    } else {
      joined.push_back(s);
    }
  }
  return joined;
}

void move_constants(Plan& plan, const std::vector<Stretch>& from) {
  for (Step& step : plan.steps) {
    for (BufferRef& ref : step.args) {
      if (ref.space != Space::constant) continue;
      if (ref.bytes == 0) {
        ref.offset = 0;
        continue;
      }
      const auto after = std::upper_bound(from.begin(), from.end(), ref.offset,
                                          [](int64_t offset, const Stretch& s) { return offset < s.begin; });
      const Stretch& home = *std::prev(after);
      ref.offset = home.part.offset + (ref.offset - home.begin);
    }
  }
}

void check_values(const Plan& plan, std::span<const StepValue> values) {
  for (const StepValue& v : values) {
    require(v.step < plan.steps.size(), "value '{}' is said to be written by step {} of {}", v.name, v.step,
            plan.steps.size());
    const int64_t reach = range_of(v.layout).end * size_bytes(v.layout.type);
    const BufferRef& b = v.buffer;
    const int64_t room = written_space_bytes(plan, b);
    require(b.offset >= 0 && b.offset <= room && reach <= room - b.offset,
            "value '{}' occupies {} bytes at byte {} of the arena or an output, which has {}", v.name, reach, b.offset,
            room);
  }
}

void put_value(Pack& pack, const StepValue& v) {
  pack.put(v.name).put(static_cast<uint64_t>(v.step)).put(v.buffer).put(v.tolerance);
  pack.put(v.layout.type).put(v.layout.shape).put(v.layout.block).put(v.layout.halo);
  pack.put(v.layout.strides).put(v.layout.offset);
}

StepValue get_value(Unpack& from) {
  StepValue v;
  v.name = from.text();
  v.step = from.get<uint64_t>();
  v.buffer = from.get<BufferRef>();
  v.tolerance = from.get<double>();
  v.layout.type = from.get<DType>();
  v.layout.shape = from.list<int64_t>();
  v.layout.block = from.get<int64_t>();
  v.layout.halo = from.get<std::array<int64_t, 4>>();
  v.layout.strides = from.list<int64_t>();
  v.layout.offset = from.get<int64_t>();
  return v;
}

}  // namespace

PlacedPlan place_constants(const Plan& plan, ConstantStore& store) {
  const bool at_home = plan.constants == store.data();
  std::vector<Stretch> constants = stretches(plan);
  PlacedPlan out;
  try {
    for (Stretch& s : constants) {
      const int64_t bytes = s.end - s.begin;
      s.part =
          at_home ? store.share(s.begin, bytes) : store.add({plan.constants + s.begin, static_cast<size_t>(bytes)});
      out.parts.push_back(s.part);
    }
  } catch (...) {
    for (const StorePart& part : out.parts) (void)store.release(part);
    throw;
  }
  out.plan = plan;
  if (!at_home) move_constants(out.plan, constants);
  out.plan.constants = store.data();
  out.plan.constants_bytes = store.size();
  return out;
}

void move_constants(Plan& plan, std::span<const StorePart> from, const ConstantStore& store,
                    std::span<const StorePart> to) {
  std::vector<Stretch> moved;
  for (size_t i = 0; i < from.size(); ++i) moved.push_back({from[i].offset, from[i].offset + from[i].bytes, to[i]});
  std::ranges::sort(moved, {}, &Stretch::begin);
  for (const Step& step : plan.steps) {
    for (const BufferRef& ref : step.args) {
      if (ref.space != Space::constant || ref.bytes == 0) continue;
      const auto after = std::ranges::upper_bound(moved, ref.offset, {}, &Stretch::begin);
      if (after == moved.begin() || ref.bytes < 0 || ref.bytes > std::prev(after)->end - ref.offset)
        fail(ErrorKind::bad_input, "a variant's step '{}' reads constants that the variant does not have", step.name);
    }
  }
  move_constants(plan, moved);
  plan.constants = store.data();
  plan.constants_bytes = store.size();
}

Package pack_variant(const Plan& plan, std::span<const StepValue> values, ConstantStore& store) {
  check_plan(plan, ErrorKind::internal);
  check_values(plan, values);
  PlacedPlan placed = place_constants(plan, store);
  Pack pack;
  pack.put(std::string_view(write_plan_meta(placed.plan)));
  pack.put(std::string_view(reinterpret_cast<const char*>(plan.code), static_cast<size_t>(plan.code_bytes)));
  pack.put(placed.parts);
  pack.put(static_cast<uint64_t>(values.size()));
  for (const StepValue& v : values) put_value(pack, v);
  return {pack.bytes(), std::move(placed.parts)};
}

Unpacked unpack_variant(std::span<const std::byte> bytes, const std::byte* constants, int64_t constants_bytes) {
  Unpack from(bytes);
  Unpacked out;
  out.plan = read_plan_meta(from.block(), "a variant");
  const auto code = from.block();
  out.plan.code = code.data();
  out.plan.code_bytes = static_cast<int64_t>(code.size());
  out.plan.constants = constants;
  out.plan.constants_bytes = constants_bytes;
  out.parts = from.list<StorePart>();
  const auto count = from.get<uint64_t>();
  for (uint64_t i = 0; i < count; ++i) out.values.push_back(get_value(from));
  return out;
}

}  // namespace kilter::tune
