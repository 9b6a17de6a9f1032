// The C interface to profiles: the time of each step of repeated runs.
#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "base/ticks.h"
#include "exec/c_abi/support.h"

namespace {

/// A step, over all runs.
struct Row {
  std::string name, ops;
  std::vector<double> ms;  ///< of each run, without the steps inside it
  size_t calls = 0;        ///< in the latest run
};

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

}  // namespace

struct kilter_profile {
  double run_ms = 0, steps_ms = 0;
  std::vector<Row> rows;
  std::vector<kilter_profile_row> described;
};

namespace kilter::c_abi {
namespace {

/// Measures the times of the steps and instructions of runs. The time of an instruction does not contain that of the
/// steps and instructions inside it.
class Stopwatch : public Watch {
 public:
  Stopwatch(kilter_profile& profile, const vm::ProgramFile* file, size_t runs)
      : rows_(profile.rows), file_(file), runs_(runs) {}

  void begin_run(size_t run) {
    run_ = run;
    open_.clear();
    for (Row& row : rows_) row.calls = 0;
  }

  /// Forgets the times so far.
  void forget() {
    for (Row& row : rows_) std::ranges::fill(row.ms, 0);
  }

  void begin_step(const kilter::Program& plan, size_t step) override {
    const Step& of = plan.plan().steps[step];
    open(&of, [&] { return std::pair(of.name, of.ops); });
  }

  void begin_instr(const vm::Instr& instr) override {
    open(&instr, [&] {
      if (instr.node == nullptr)
        return std::pair(file_->segments[static_cast<size_t>(instr.segment)].name, std::string("segment"));
      return std::pair(instr.node->label, instr.node->op_name);
    });
  }

  void end() override {
    const uint64_t now = ticks();
    const Open step = open_.back();
    open_.pop_back();
    const double all = ms_between(step.begin, now);
    Row& row = rows_[step.row];
    row.ms[run_] += all - step.inside_ms;
    ++row.calls;
    if (!open_.empty()) open_.back().inside_ms += all;
  }

 private:
  struct Open {
    size_t row = 0;
    uint64_t begin = 0;
    double inside_ms = 0;
  };

  template <class Describe>
  void open(const void* key, Describe&& describe) {
    const auto [at, is_new] = row_of_.try_emplace(key, rows_.size());
    if (is_new) {
      auto [name, ops] = describe();
      rows_.push_back({std::move(name), std::move(ops), std::vector<double>(runs_), 0});
    }
    open_.push_back({at->second, 0, 0});
    open_.back().begin = ticks();
  }

  std::vector<Row>& rows_;
  const vm::ProgramFile* file_;
  size_t runs_, run_ = 0;
  std::map<const void*, size_t> row_of_;
  std::vector<Open> open_;
};

/// Watches an instance that this thread uses. The destructor restores the state that the instance had before.
class Watched {
 public:
  Watched(kilter_instance& instance, Watch& watch) : instance_(instance), state_(instance.state) {
    instance_.watch = &watch;
    if (instance_.plan) instance_.steps.after = [&watch](size_t) { watch.end(); };
  }
  ~Watched() {
    instance_.watch = nullptr;
    instance_.steps.after = nullptr;
    instance_.state.swap(state_);
  }
  Watched(const Watched&) = delete;
  Watched& operator=(const Watched&) = delete;

 private:
  kilter_instance& instance_;
  std::vector<BoundState> state_;
};

void describe(kilter_profile& profile) {
  for (const Row& row : profile.rows) {
    const double ms = median(row.ms);
    profile.steps_ms += ms;
    profile.described.push_back(
        {row.name.c_str(), row.ops.c_str(), row.calls, ms, profile.run_ms > 0 ? ms / profile.run_ms : 0});
  }
}

std::unique_ptr<kilter_profile> measure(kilter_instance& instance, const kilter_value* const* inputs, size_t count,
                                        int runs) {
  constexpr int kMostRuns = 100000;
  if (runs < 1 || runs > kMostRuns)
    fail(ErrorKind::usage, "{} runs of kilter_instance_profile(); legal values are 1 to {}", runs, kMostRuns);
  auto profile = std::make_unique<kilter_profile>();
  const vm::ProgramFile* file = instance.program ? &instance.program->program().file() : nullptr;
  Stopwatch stopwatch(*profile, file, static_cast<size_t>(runs));
  ns_per_tick();  // calibrates the clock before the runs
  const InUse in_use(instance);
  std::vector<double> all;
  {
    const Watched watched(instance, stopwatch);
    stopwatch.begin_run(0);
    run_held(instance, inputs, count);
    stopwatch.forget();
    for (size_t run = 0; run < static_cast<size_t>(runs); ++run) {
      stopwatch.begin_run(run);
      const uint64_t begin = ticks();
      run_held(instance, inputs, count);
      all.push_back(ms_between(begin, ticks()));
    }
  }
  profile->run_ms = median(std::move(all));
  describe(*profile);
  return profile;
}

}  // namespace
}  // namespace kilter::c_abi

using kilter::c_abi::guarded;
using kilter::c_abi::not_null;

kilter_status kilter_instance_profile(kilter_instance* instance, const kilter_value* const* inputs, size_t input_count,
                                      int runs, kilter_profile** profile) {
  if (profile != nullptr) *profile = nullptr;
  return guarded([&] {
    not_null(instance, "instance");
    not_null(profile, "profile");
    *profile = kilter::c_abi::measure(*instance, inputs, input_count, runs).release();
  });
}

double kilter_profile_run_ms(const kilter_profile* profile) { return profile == nullptr ? 0 : profile->run_ms; }

double kilter_profile_steps_ms(const kilter_profile* profile) { return profile == nullptr ? 0 : profile->steps_ms; }

size_t kilter_profile_count(const kilter_profile* profile) {
  return profile == nullptr ? 0 : profile->described.size();
}

kilter_status kilter_profile_step(const kilter_profile* profile, size_t index, kilter_profile_row* row) {
  return guarded([&] {
    not_null(profile, "profile");
    not_null(row, "row");
    if (index >= profile->described.size()) {
      kilter::fail(kilter::ErrorKind::usage, "row {} was requested; the profile has {}", index,
                   profile->described.size());
    }
    *row = profile->described[index];
  });
}

void kilter_profile_free(kilter_profile* profile) { delete profile; }
