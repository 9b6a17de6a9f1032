#include "measure/quiet.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <string_view>
#include <utility>
#include <vector>

#include "base/text.h"
#include "base/ticks.h"
#include "measure/stats.h"

namespace kilter {
namespace {

constexpr int kChain = 1 << 14;

/// Runs 2^14 dependent instructions of one cycle each. No processor optimises away the exclusive-or of two registers.
uint64_t run_chain() {
#if defined(__x86_64__)
  uint64_t a = 1;
  uint64_t b = 2;
  for (int i = 0; i < kChain / 64; ++i) {
    asm volatile(
        ".rept 64\n\t"
        "xorq %1, %0\n\t"
        ".endr"
        : "+r"(a)
        : "r"(b)
        : "cc");
  }
  return a;
#else
  volatile uint64_t sink = 1;
  uint64_t a = sink;
  for (int i = 0; i < kChain / 4; ++i) a = a * 0x9e3779b97f4a7c15ULL + 1;
  sink = a;
  return a;
#endif
}

/// Runs 2^11 instructions in eight chains, more than any processor starts in a cycle.
uint64_t run_width() {
  constexpr int kWidth = 1 << 11;
#if defined(__x86_64__)
  uint64_t a = 1, b = 2, c = 3, d = 4, e = 5, f = 6, g = 7, h = 8;
  for (int i = 0; i < kWidth / 64; ++i) {
    asm volatile(
        ".rept 8\n\t"
        "addq $1, %0\n\taddq $1, %1\n\taddq $1, %2\n\taddq $1, %3\n\t"
        "addq $1, %4\n\taddq $1, %5\n\taddq $1, %6\n\taddq $1, %7\n\t"
        ".endr"
        : "+r"(a), "+r"(b), "+r"(c), "+r"(d), "+r"(e), "+r"(f), "+r"(g), "+r"(h)
        :
        : "cc");
  }
  return a + b + c + d + e + f + g + h;
#else
  volatile uint64_t sink = 1;
  const uint64_t start = sink;
  std::array<uint64_t, 8> chains;
  chains.fill(start);
  for (int i = 0; i < kWidth / 16; ++i) {
    for (uint64_t& chain : chains) chain = (chain + 1) ^ static_cast<uint64_t>(i);
  }
  for (const uint64_t chain : chains) sink = chain;
  return sink;
#endif
}

/// Reads the start of a small kernel file. It is opened for each reading, as each thread has its own files.
std::string_view read_start(const char* path, std::span<char> buffer) {
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return {};
  const ssize_t size = read(file, buffer.data(), buffer.size());
  close(file);
  return size > 0 ? std::string_view(buffer.data(), static_cast<size_t>(size)) : std::string_view{};
}

/// Reads steal time from the first line of /proc/stat: "cpu user nice system idle iowait irq softirq steal ..." in
/// units of 1 / USER_HZ.
bool read_steal(double& ms) {
  std::array<char, 512> buffer{};
  const std::string_view text = read_start("/proc/stat", buffer);
  const std::vector<std::string_view> words = split_words(text.substr(0, text.find('\n')));
  if (words.size() < 9 || words[0] != "cpu") return false;
  ms = static_cast<double>(try_parse_int(words[8]).value_or(0)) * 1e3 / static_cast<double>(sysconf(_SC_CLK_TCK));
  return true;
}

/// Adds up the waiting times of all threads; a thread's file is "on-cpu-ns waiting-ns slices".
bool read_wait(double& ms) {
  DIR* folder = opendir("/proc/self/task");
  if (folder == nullptr) return false;
  bool found = false;
  while (const dirent* entry = readdir(folder)) {
    if (entry->d_name[0] == '.') continue;
    std::array<char, 128> buffer{};
    const std::string path = fmt::format("/proc/self/task/{}/schedstat", entry->d_name);
    const std::vector<std::string_view> words = split_words(read_start(path.c_str(), buffer));
    if (words.size() < 2) continue;
    found = true;
    ms += static_cast<double>(try_parse_int(words[1]).value_or(0)) * 1e-6;
  }
  closedir(folder);
  return found;
}

}  // namespace

double reference_chain_ns(int tries) {
  uint64_t shortest = std::numeric_limits<uint64_t>::max();
  for (int i = 0; i < tries; ++i) {
    const uint64_t start = ticks();
    run_chain();
    shortest = std::min(shortest, ticks() - start);
  }
  return static_cast<double>(shortest) * ns_per_tick();
}

double reference_width_ns() {
  constexpr int kTries = 4;  // the first try runs with its code in no cache and earlier stores in flight
  uint64_t shortest = std::numeric_limits<uint64_t>::max();
  for (int i = 0; i < kTries; ++i) {
    const uint64_t start = ticks();
    run_width();
    shortest = std::min(shortest, ticks() - start);
  }
  return static_cast<double>(shortest) * ns_per_tick();
}

double core_clock_ghz([[maybe_unused]] int tries) {
#if defined(__x86_64__)
  return kChain / reference_chain_ns(tries);
#else
  return 0;
#endif
}

QuietReading read_quiet() {
  QuietReading reading;
  reading.has_steal = read_steal(reading.steal_ms);
  reading.has_wait = read_wait(reading.wait_ms);
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  reading.switches = usage.ru_nivcsw;
  reading.chain_ns = reference_chain_ns();
  return reading;
}

std::string Disturbance::why() const {
  std::vector<std::string> reasons;
  if (stolen) reasons.push_back(fmt::format("{:.1f} ms stolen by the hypervisor", steal_ms));
  if (waited) reasons.push_back(fmt::format("waited {:.2f} ms for a CPU", wait_ms));
  if (switched) {
    reasons.push_back(fmt::format("{} involuntary context switch{}", switches, switches == 1 ? "" : "es"));
  }
  if (drifted) {
    reasons.push_back(fmt::format("core {:.1f} % {}", std::abs(drift) * 100, drift > 0 ? "slower" : "faster"));
  }
  return join(reasons, ", ");
}

double Disturbance::weight() const {
  constexpr double kSwitchMs = 0.02;
  const double lost = std::max(0.0, steal_ms) + std::max(0.0, wait_ms) + kSwitchMs * static_cast<double>(switches);
  return (wall_ms > 0 ? lost / wall_ms : 0) + std::abs(drift);
}

void Disturbance::add(const Disturbance& other) {
  wall_ms += other.wall_ms;
  steal_ms += other.steal_ms;
  wait_ms += other.wait_ms;
  switches += other.switches;
  if (std::abs(other.drift) > std::abs(drift)) drift = other.drift;
  stolen |= other.stolen;
  waited |= other.waited;
  switched |= other.switched;
  drifted |= other.drifted;
}

void DisturbedCount::add(const Disturbance& d, int64_t samples) {
  taken += samples;
  if (!d.disturbed()) return;
  disturbed += samples;
  waited += d.waited ? samples : 0;
  stolen += d.stolen ? samples : 0;
  switched += d.switched ? samples : 0;
  drifted += d.drifted ? samples : 0;
}

std::string DisturbedCount::why() const {
  std::pair<int64_t, const char*> counts[] = {{waited, "waited for a CPU in"},
                                              {stolen, "time stolen by the hypervisor in"},
                                              {switched, "taken off its CPU in"},
                                              {drifted, kOtherClock}};
  std::ranges::stable_sort(counts, std::greater(), [](const auto& entry) { return entry.first; });
  std::vector<std::string> parts;
  for (const auto& [count, words] : counts) {
    if (count > 0) parts.push_back(fmt::format("{} {}", words, count));
  }
  return join(parts, ", ");
}

struct QuietWatch::Impl {
  QuietLimits limits;
  std::function<QuietReading()> read;
  QuietReading start;
  std::vector<double> chains;
  size_t next = 0;
  static constexpr size_t kRemembered = 31;

  void remember(double chain_ns) {
    if (chains.size() < kRemembered) {
      chains.push_back(chain_ns);
    } else {
      chains[next++ % kRemembered] = chain_ns;
    }
  }
};

QuietWatch::QuietWatch(QuietLimits limits, std::function<QuietReading()> read)
    : impl_(std::make_unique<Impl>(Impl{limits, std::move(read), {}, {}})) {}
QuietWatch::~QuietWatch() = default;
QuietWatch::QuietWatch(QuietWatch&&) noexcept = default;
QuietWatch& QuietWatch::operator=(QuietWatch&&) noexcept = default;

void QuietWatch::start() { impl_->start = impl_->read(); }

Disturbance QuietWatch::stop(double wall_ms) {
  const QuietReading from = impl_->start;
  const QuietReading to = impl_->read();
  impl_->remember(std::min(from.chain_ns, to.chain_ns));
  const QuietLimits& limits = impl_->limits;
  Disturbance d;
  d.wall_ms = wall_ms;
  d.steal_ms = to.steal_ms - from.steal_ms;
  d.wait_ms = to.wait_ms - from.wait_ms;
  d.switches = to.switches - from.switches;
  const double usual = usual_chain_ns();
  const double slow = std::max(from.chain_ns, to.chain_ns) / usual - 1;
  const double fast = std::min(from.chain_ns, to.chain_ns) / usual - 1;
  d.drift = usual <= 0 ? 0 : std::abs(slow) >= std::abs(fast) ? slow : fast;
  d.stolen = d.steal_ms > limits.steal_share * wall_ms;
  d.waited = d.wait_ms > limits.wait_share * wall_ms;
  d.switched = static_cast<double>(d.switches) * 1e3 > limits.switches_per_second * wall_ms;
  d.drifted = std::abs(d.drift) > limits.drift;
  impl_->start = to;
  return d;
}

double QuietWatch::usual_chain_ns() const { return impl_->chains.empty() ? 0 : median(impl_->chains); }

}  // namespace kilter
