#include "profile/count.h"

#include <charconv>
#include <filesystem>

namespace kilter::profile {
namespace {

/// Opens one group of counters for each thread of this process.
std::vector<Counters> open_all(std::string& why_not) {
  std::vector<Counters> all;
  std::error_code error;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task", error)) {
    const std::string name = task.path().filename().string();
    pid_t tid = 0;
    std::from_chars(name.data(), name.data() + name.size(), tid);
    Counters counters(tid);
    if (!counters.available()) {
      why_not = counters.why_not();
      return {};
    }
    all.push_back(std::move(counters));
  }
  if (all.empty()) why_not = Counters().why_not();
  return all;
}

CounterValues read_all(const std::vector<Counters>& all) {
  CounterValues total = all.front().read();
  for (size_t i = 1; i < all.size(); ++i) total = sum(total, all[i].read());
  return total;
}

}  // namespace

CounterValues per_run(CounterValues sum, int runs) {
  for (auto* value : {&sum.cycles, &sum.instructions, &sum.cache_misses, &sum.stalled_cycles}) {
    if (*value) **value /= runs;
  }
  return sum;
}

StepCounters count_steps(Instance& instance, const Plan& plan, std::span<const std::byte* const> inputs,
                         std::span<std::byte* const> outputs, int passes) {
  StepCounters out;
  const std::vector<Counters> all = open_all(out.why_not);
  if (all.empty()) return out;
  std::vector<CounterValues> sums(plan.steps.size());
  std::vector<bool> seen(plan.steps.size(), false);
  CounterValues before;
  StepObserver observer;
  observer.before = [&](size_t) { before = read_all(all); };
  observer.after = [&](size_t step) {
    const CounterValues now = difference(before, read_all(all));
    sums[step] = seen[step] ? sum(sums[step], now) : now;
    seen[step] = true;
  };
  for (int pass = 0; pass < passes; ++pass) instance.run(inputs, outputs, &observer);
  for (CounterValues& values : sums) out.steps.push_back(per_run(values, passes));
  return out;
}

}  // namespace kilter::profile
