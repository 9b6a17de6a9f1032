#include "schedule/kernel_versions.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/hash.h"

namespace kilter {
namespace {

constexpr KernelHash kTable[] = {
#include "schedule/kernel_hashes.inc"
};

std::string digits(uint64_t hash) { return fmt::format("{:016x}", hash).substr(0, 8); }

std::string_view template_in(std::string_view schedule) { return schedule.substr(0, schedule.find(' ')); }

}  // namespace

std::span<const KernelHash> kernel_hashes() { return kTable; }

KernelVersions::KernelVersions(std::string generator, std::span<const KernelHash> table)
    : generator_(std::move(generator)), table_(table) {}

std::string KernelVersions::of(std::string_view schedule, std::string_view versus) const {
  if (empty()) return {};
  std::string version = generator_;
  const auto add = [&](std::string_view name) {
    version += fmt::format(", {}", name);
    if (const auto row = std::ranges::find(table_, name, &KernelHash::name); row != table_.end())
      version += " " + digits(row->hash);
  };
  add(template_in(schedule));
  if (!versus.empty() && template_in(versus) != template_in(schedule)) add(template_in(versus));
  return version;
}

std::string KernelVersions::all() const {
  if (empty()) return {};
  uint64_t hash = kHashSeed;
  for (const KernelHash& row : table_) hash = hash_combine(hash_text(row.name, hash), row.hash);
  return fmt::format("{}, kernels {}", generator_, digits(hash));
}

}  // namespace kilter
