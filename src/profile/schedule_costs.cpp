#include "profile/schedule_costs.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "measure/caches.h"
#include "measure/clock.h"
#include "profile/kernel_form.h"

namespace kilter::profile {
namespace {

struct Entry {
  size_t index = 0;  ///< index among the schedules
  KernelForm form;
  std::unique_ptr<Replayer> cold;
};

class CostRun {
 public:
  CostRun(const std::string& line, const CostOptions& options)
      : line_(line),
        options_(options),
        problem_(parse_problem(line)),
        pool_(std::make_shared<ThreadPool>(options.threads)),
        default_(compile_form(problem_, line, {options.target, Accuracy::normal, {}}, pool_)) {
    // Between two runs of one schedule, the rest of its batch touches twice the size of the last-level cache.
    touched_ = 2 * last_level_cache_bytes() / static_cast<int64_t>(options.batch + 1);
    default_cold_ = replayer(default_, Weights::cold, options.threads, touched_);
  }

  void batch(std::span<const Schedule> schedules, size_t first, std::vector<ScheduleCost>& out) {
    std::vector<Entry> entries;
    for (size_t i = first; i < std::min(first + options_.batch, schedules.size()); ++i) {
      if (auto entry = make(schedules[i], out[i])) {
        entry->index = i;
        entries.push_back(std::move(*entry));
      }
    }
    if (!entries.empty()) measure(entries, out);
  }

 private:
  std::optional<Entry> make(const Schedule& schedule, ScheduleCost& cost) {
    const double start = now_ms();
    try {
      Entry entry;
      entry.form = compile_form(problem_, line_, {options_.target, Accuracy::normal, schedule}, pool_);
      cost.compile_ms = now_ms() - start;
      entry.cold = replayer(entry.form, Weights::cold, options_.threads, touched_);
      return entry;
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::usage) throw;
      cost.compile_ms = now_ms() - start;
      cost.cost = std::numeric_limits<double>::infinity();
      return std::nullopt;
    }
  }

  void measure(std::vector<Entry>& entries, std::vector<ScheduleCost>& out) {
    std::vector<Candidate> candidates{candidate("default", *default_cold_, false)};
    for (Entry& e : entries) {
      Candidate c = candidate(e.form.schedule, *e.cold, false);
      c.timed = [run = c.timed, &spent = out[e.index].measure_ms](int64_t calls) {
        const double start = now_ms();
        const double ms = run(calls);
        spent += now_ms() - start;
        return ms;
      };
      candidates.push_back(std::move(c));
    }
    CompareOptions how;
    how.max_seconds = 60;
    how.target_half_width = 0;
    how.stop_when_different = false;
    how.min_rounds = how.max_rounds = options_.rounds;
    how.slice_ms = options_.slice_ms;
    how.warm_up = 1;
    const Comparison c = compare(candidates, how);
    for (size_t i = 0; i < entries.size(); ++i) out[entries[i].index].cost = c.ratio(0, i + 1).value;
  }

  std::string line_;
  const CostOptions& options_;
  Problem problem_;
  std::shared_ptr<ThreadPool> pool_;
  KernelForm default_;
  int64_t touched_ = 0;
  std::unique_ptr<Replayer> default_cold_;
};

}  // namespace

std::vector<ScheduleCost> schedule_costs(const std::string& problem, std::span<const Schedule> schedules,
                                         const CostOptions& options, const std::function<void(size_t)>& progress) {
  CostRun run(problem, options);
  std::vector<ScheduleCost> out(schedules.size());
  for (size_t first = 0; first < schedules.size(); first += options.batch) {
    run.batch(schedules, first, out);
    if (progress) progress(std::min(first + options.batch, schedules.size()));
  }
  return out;
}

}  // namespace kilter::profile
