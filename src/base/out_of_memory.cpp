#include "base/out_of_memory.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <fstream>

#include "base/error.h"

namespace kilter {
namespace {

constexpr int64_t kUnknown = std::numeric_limits<int64_t>::max();

int64_t left_in_machine() {
  std::ifstream file("/proc/meminfo");
  std::string word;
  while (file >> word) {
    int64_t kilobytes = 0;
    if (word == "MemAvailable:" && file >> kilobytes) return kilobytes * 1024;
  }
  return kUnknown;
}

int64_t left_of_addresses() {
  struct rlimit limit{};
  int64_t pages = 0;
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return kUnknown;
  if (!(std::ifstream("/proc/self/statm") >> pages)) return kUnknown;
  return std::max<int64_t>(static_cast<int64_t>(limit.rlim_cur) - pages * sysconf(_SC_PAGESIZE), 0);
}

}  // namespace

int64_t free_memory() { return std::min(left_in_machine(), left_of_addresses()); }

std::string memory_text(int64_t bytes) {
  constexpr std::array<std::string_view, 5> kUnits = {"kB", "MB", "GB", "TB", "PB"};
  if (bytes < 1000) return fmt::format("{} bytes", bytes);
  double number = static_cast<double>(bytes) / 1000;
  size_t unit = 0;
  while (number >= 999.5 && unit + 1 < kUnits.size()) {
    number /= 1000;
    ++unit;
  }
  return number < 9.95 ? fmt::format("{:.1f} {}", number, kUnits[unit])
                       : fmt::format("{:.0f} {}", number, kUnits[unit]);
}

void fail_out_of_memory(int64_t bytes, std::string_view what, int64_t limit) {
  const int64_t left = std::min(free_memory(), limit);
  fail(ErrorKind::out_of_memory, "cannot allocate {} for {}: out of memory{}", memory_text(bytes), what,
       left == kUnknown ? "" : fmt::format(" ({} available)", memory_text(left)));
}

}  // namespace kilter
