#include "tune/run/runner.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <utility>

#include "base/error.h"
#include "exec/cpu_limits.h"
#include "exec/plan_check.h"
#include "measure/clock.h"
#include "measure/stats.h"
#include "tune/run/link.h"
#include "tune/run/package.h"
#include "tune/run/time_log.h"

namespace kilter::tune {
namespace {

constexpr int kMostExcuses = 2;     ///< how often the worker may die from outside causes in one call
constexpr size_t kMostFaults = 64;  ///< in one variant; its remaining steps are left unchecked

void check_options(const RunnerOptions& o) {
  if (o.threads < 1 || o.threads > kMaxThreads) {
    fail(ErrorKind::usage, "a worker with {} threads is not legal; expected 1 to {}", o.threads, kMaxThreads);
  }
  if (!(o.timeout_ms > 0) || !(o.timeout_factor > 0)) {
    fail(ErrorKind::usage, "a timeout of {} ms and {} times the network's time is not legal; expected more than 0",
         o.timeout_ms, o.timeout_factor);
  }
  if (o.memory_bytes < 0) {
    fail(ErrorKind::usage,
         "a memory limit of {} bytes is not legal; expected 0 (half of what this process may use) or more",
         o.memory_bytes);
  }
  const auto bad = std::find_if(o.cpus.begin(), o.cpus.end(), [](int cpu) { return cpu < 0; });
  if (bad != o.cpus.end()) fail(ErrorKind::usage, "CPU {} is not legal; expected 0 or more", *bad);
}

}  // namespace

std::string_view name(FaultKind kind) {
  constexpr std::array<std::string_view, 4> kNames = {"crash", "timeout", "wrong", "memory"};
  return kNames[static_cast<size_t>(kind)];
}

namespace {

/// The program that set_worker() names; empty: none.
std::filesystem::path& set_program() {
  static std::filesystem::path program;
  return program;
}

}  // namespace

void set_worker(std::filesystem::path program) { set_program() = std::move(program); }

std::filesystem::path find_worker(const std::string& name, const std::filesystem::path& self) {
  if (!set_program().empty()) return set_program();
  std::error_code error;
  const std::filesystem::path program = std::filesystem::read_symlink(self, error);
  const std::filesystem::path folder = (error ? self : program).parent_path();
  const std::array places = {folder / name, folder / ".." / "libexec" / "kilter" / name};
  for (const auto& place : places) {
    if (access(place.c_str(), X_OK) == 0) return place;
  }
  fail(ErrorKind::io, "the program '{}', which measures candidates, is neither at {} nor at {}; build or install it",
       name, places[0].string(), places[1].lexically_normal().string());
}

struct LocalRunner::Impl {
  explicit Impl(RunnerOptions given) : options(std::move(given)), link(options, store) {
    check_options(options);
    if (options.memory_bytes == 0) options.memory_bytes = available_memory() / 2;
    for (const Tensor& t : options.inputs) {
      link.inputs.push_back(store.put({t.raw(), static_cast<size_t>(t.bytes())}));
    }
  }

  /// A variant as the tuner keeps it, so that it can be loaded again after a restart.
  struct Known {
    Package package;
    StorePart stored;                ///< the package's bytes
    std::vector<std::string> steps;  ///< names
    uint64_t worker = 0;             ///< serial number of the worker that has loaded it; 0: none
    bool broken = false;             ///< has failed and must not run again
  };

  // --- load ---

  Loaded load(const Plan& plan, std::span<const StepValue> values, const LoadOptions& load_options) {
    check_inputs(plan);
    excuses = kMostExcuses;
    const VariantId id = ++last_id;
    Known& variant = variants[id];
    try {
      describe(plan, values, variant);
      Loaded out = load_options.check || trusted == 0 ? check(id, load_options) : open(id);
      if (trusted == 0 && out.id) trust(id, out);
      if (!out.id) forget(id);
      return out;
    } catch (...) {
      forget(id);
      throw;
    }
  }

  void check_inputs(const Plan& plan) const {
    require(plan.inputs.size() == options.inputs.size(), "'{}' has {} inputs; the runner was given {}", plan.model,
            plan.inputs.size(), options.inputs.size());
    for (size_t i = 0; i < plan.inputs.size(); ++i) {
      const PlanTensor& t = plan.inputs[i];
      const Tensor& given = options.inputs[i];
      require(t.type == given.dtype() && t.shape == given.shape(),
              "input {} '{}' of '{}' is {}[{}]; the runner was given {}[{}]", i, t.name, plan.model,
              kilter::name(t.type), text(t.shape), kilter::name(given.dtype()), text(given.shape()));
    }
  }

  /// Stored parts are recorded in `out` immediately, so that they can be released if the rest fails.
  void describe(const Plan& plan, std::span<const StepValue> values, Known& out) {
    out.package = pack_variant(plan, values, store);
    for (const Step& s : plan.steps) out.steps.push_back(s.name);
    out.stored = store.put(std::as_bytes(std::span(out.package.bytes.data(), out.package.bytes.size())));
    out.package.bytes.clear();
  }

  /// Makes the variant the trusted one, with which others are compared, if it can be measured.
  void trust(VariantId id, Loaded& loaded) {
    trusted_in = link.serial();
    link.trusted_ms = 0;
    for (double ms : loaded.step_ms) link.trusted_ms += ms;
    trusted = id;
    // The check's run was cold and may have been interrupted, so the limit for late steps comes from an ordinary run.
    Laps laps = measure(std::array{id}, {.slice_ms = 0, .warm_up = WarmUp::never});
    if (laps.faults.empty()) return;
    trusted = 0, link.trusted_ms = 0;
    loaded.faults = std::move(laps.faults);
    loaded.id.reset();
  }

  /// Loads a variant without a check.
  Loaded open(VariantId id) {
    Loaded out;
    if (auto fault = bring(id)) {
      out.faults.push_back(std::move(*fault));
    } else {
      out.id = id;
    }
    return out;
  }

  /// Loads the variant into the worker if necessary. Returns the fault if this fails.
  std::optional<Fault> bring(VariantId id) {
    Known& variant = variants.at(id);
    link.start();
    if (variant.worker == link.serial()) return std::nullopt;
    variant.worker = link.serial();
    const Reply reply = link.ask(load_request(id, Check::none, {}));
    if (excused(reply)) return bring(id);
    return fault_of(id, reply);
  }

  /// Whether the worker died from a cause outside the code that it ran, and this has not happened too often.
  bool excused(const Reply& reply) { return reply.outside && excuses-- > 0; }

  std::string load_request(VariantId id, Check check, const std::set<uint64_t>& skip) const {
    Pack pack;
    pack.put(Request::load).put(id).put(variants.at(id).stored).put(check);
    return pack.put(std::vector<uint64_t>(skip.begin(), skip.end())).bytes();
  }

  /// Loads the trusted variant again, since a restarted worker has no values to compare with.
  void bring_trusted() {
    link.start();
    if (trusted == 0 || trusted_in == link.serial()) return;
    variants.at(trusted).worker = link.serial();
    const Reply reply = link.ask(load_request(trusted, Check::trust, {}));
    const auto fault = fault_of(trusted, reply);
    if (!fault) {
      trusted_in = link.serial();
      return;
    }
    if (excuses-- > 0) return bring_trusted();  // it ran before
    fail(ErrorKind::unsupported,
         "the default plan, which ran before, fails in a new worker, too: {}; check whether memory is short (at most "
         "{} bytes for a worker) and whether something on this machine kills its processes",
         fault->words, options.memory_bytes);
  }

  Loaded check(VariantId id, const LoadOptions& load_options) {
    const Known& variant = variants.at(id);
    Loaded out;
    suspected.clear();
    std::set<uint64_t> skip;
    Check how = trusted == 0 ? Check::trust : Check::compare;
    for (size_t tries = 0; tries < kMostFaults; ++tries) {
      bring_trusted();
      variants.at(id).worker = link.serial();
      const Reply reply = link.ask(load_request(id, how, skip));
      if (excused(reply)) continue;
      if (auto fault = fault_of(id, reply)) {
        const int64_t step = fault->step;
        out.faults.push_back(std::move(*fault));
        if (step < 0 || how == Check::trust || !load_options.find_all) break;
        skip_layer(variant, step, skip);
        how = Check::careful;
        continue;
      }
      Unpack from(reply.bytes);
      (void)from.get<Answer>();
      out.step_ms = from.list<double>();
      const bool found = read_findings(id, from, out, how == Check::compare);
      if (found && how == Check::compare) {
        how = Check::careful;
        continue;
      }
      break;
    }
    sort_faults(out.faults);
    const bool runs =
        std::all_of(out.faults.begin(), out.faults.end(), [](const Fault& f) { return f.kind == FaultKind::wrong; });
    if (runs && (how != Check::trust || out.faults.empty())) out.id = id;
    return out;
  }

  /// Reads findings and returns whether there were any. Findings of a first look are confirmed by a second one.
  bool read_findings(VariantId id, Unpack& from, Loaded& out, bool first_look) {
    const auto count = from.get<uint64_t>();
    std::vector<Fault> found;
    for (uint64_t i = 0; i < count; ++i) {
      const auto step = static_cast<int64_t>(from.get<uint64_t>());
      found.push_back(fault_at(id, FaultKind::wrong, step, ""));
      found.back().words = fmt::format("wrong{}: {}", place(found.back()), from.text());
    }
    if (first_look) {
      suspected = std::move(found);
      return count > 0;
    }
    // A fault that only the first look saw is intermittent, but still a fault.
    std::vector<Fault>& faults = count > 0 || suspected.empty() ? found : suspected;
    out.faults.insert(out.faults.end(), faults.begin(), faults.end());
    suspected.clear();
    return count > 0;
  }

  static void skip_layer(const Known& variant, int64_t step, std::set<uint64_t>& skip) {
    for (size_t i = 0; i < variant.steps.size(); ++i) {
      if (variant.steps[i] == variant.steps[static_cast<size_t>(step)]) skip.insert(i);
    }
  }

  static void sort_faults(std::vector<Fault>& faults) {
    std::stable_sort(faults.begin(), faults.end(), [](const Fault& a, const Fault& b) { return a.step < b.step; });
  }

  // --- faults ---

  Fault fault_at(VariantId id, FaultKind kind, int64_t step, std::string words) const {
    Fault fault{id, kind, -1, "", std::move(words)};
    const auto known = variants.find(id);
    if (known == variants.end() || step < 0 || step >= static_cast<int64_t>(known->second.steps.size())) return fault;
    fault.step = step;
    fault.layer = known->second.steps[static_cast<size_t>(step)];
    return fault;
  }

  static std::string place(const Fault& fault) {
    return fault.step < 0 ? "" : fmt::format(" at step {} '{}'", fault.step, fault.layer);
  }

  /// Returns the fault that a reply describes, if any. `id`: the variant in the request.
  std::optional<Fault> fault_of(VariantId id, const Reply& reply) const {
    if (reply.kind == ReplyKind::answer) return std::nullopt;
    const bool inside = reply.phase != Phase::idle && reply.phase != Phase::starting;
    if (reply.variant > 0 && inside && variants.contains(reply.variant)) id = reply.variant;
    Fault fault = fault_at(id, kind_of(reply), reply.step, "");
    fault.words = fmt::format("{}{} while {}{}{}", reply.what, place(fault), name(reply.phase),
                              reply.detail.empty() ? "" : ": ", reply.detail);
    return fault;
  }

  static FaultKind kind_of(const Reply& reply) {
    if (reply.outside) return FaultKind::memory;  // no excuses are left
    switch (reply.kind) {
      case ReplyKind::late:
        return FaultKind::timeout;
      case ReplyKind::no_memory:
        return FaultKind::memory;
      default:
        return FaultKind::crash;
    }
  }

  // --- measure ---

  Laps measure(std::span<const VariantId> ids, const MeasureOptions& how) {
    const double start = now_ms();
    excuses = kMostExcuses;
    Laps out;
    out.ids.assign(ids.begin(), ids.end());
    out.laps.resize(ids.size());
    out.cut.resize(ids.size());
    std::vector<VariantId> left = known(ids);
    RoundsRequest request{0,           how.rounds,   0,        how.max_ms,
                          how.cut_off, how.slice_ms, how.runs, static_cast<int32_t>(how.warm_up),
                          how.seed,    how.log_bytes};
    while (!left.empty() && request.rounds > 0) {
      if (!bring_all(left, out)) continue;
      request.max_ms = std::max(how.max_ms - (now_ms() - start), 0.0);
      const Reply reply = link.ask(Pack().put(Request::measure).put(request).put(left).bytes());
      const bool answered = reply.kind == ReplyKind::answer;
      const bool sound = read_log(out, request, answered);
      if (answered && sound) {
        read_outcome(reply, left, out);
      } else if (answered) {
        link.replace();
        blame({0, FaultKind::crash, -1, "", "the times of the worker were overwritten while measuring"}, left, out);
      } else if (!excused(reply)) {
        blame(*fault_of(0, reply), left, out);
      }
      if (now_ms() - start >= how.max_ms) break;
    }
    out.rounds = rounds_of(out);
    make_relative(out);
    mark_held_up(out);
    out.wall_ms = now_ms() - start;
    return out;
  }

  /// Converts widths from nanoseconds to multiples of the usual width. If a core is shared all the time, its width
  /// while shared counts as the usual one.
  static void make_relative(Laps& out) {
    constexpr double kUsual = 0.2;
    std::vector<double> all;
    for (const auto& lane : out.laps) {
      for (const Lap& lap : lane) all.insert(all.end(), lap.width.begin(), lap.width.end());
    }
    if (all.empty()) return;
    const double usual = std::max(quantile(all, kUsual), 1.0);
    for (auto& lane : out.laps) {
      for (Lap& lap : lane) {
        for (double& width : lap.width) width /= usual;
      }
    }
  }

  static void mark_held_up(Laps& out) {
    constexpr double kUsual = 0.3, kMore = 0.005;
    const auto lost = [](const Lap& lap) {
      const Disturbance& d = lap.disturbance;
      return d.wall_ms > 0 ? (d.wait_ms + d.steal_ms) / d.wall_ms : 0;
    };
    std::vector<double> all;
    for (const auto& lane : out.laps) {
      for (const Lap& lap : lane) all.push_back(lost(lap));
    }
    if (all.empty()) return;
    const double most = quantile(all, kUsual) + kMore;
    for (auto& lane : out.laps) {
      for (Lap& lap : lane) lap.held_up = lost(lap) > most;
    }
  }

  std::vector<VariantId> known(std::span<const VariantId> ids) const {
    for (VariantId id : ids) check_known(id, "measured");
    return {ids.begin(), ids.end()};
  }

  void check_known(VariantId id, std::string_view what) const {
    const auto it = variants.find(id);
    if (it == variants.end()) fail(ErrorKind::usage, "variant {} cannot be {}: it is not loaded", id, what);
    if (it->second.broken) fail(ErrorKind::usage, "variant {} cannot be {} again: it failed before", id, what);
  }

  /// Returns false if a variant could not be loaded again; it is then removed from `left`.
  bool bring_all(std::vector<VariantId>& left, Laps& out) {
    link.start();
    uint64_t serial = 0;
    // If the worker dies during this loop, the variants that it had must be loaded again.
    while (serial != link.serial()) {
      serial = link.serial();
      for (VariantId id : left) {
        if (auto fault = bring(id)) {
          add_fault(std::move(*fault), left, out);
          return false;
        }
      }
    }
    return true;
  }

  void add_fault(Fault fault, std::vector<VariantId>& left, Laps& out) {
    require(variants.contains(fault.variant), "a worker failed outside of every variant: {}", fault.words);
    std::erase(left, fault.variant);
    if (fault.variant != trusted) variants.at(fault.variant).broken = true;
    out.faults.push_back(std::move(fault));
  }

  /// Reads the laps of all completed turns, even if the worker is gone; the request then continues after them. Returns
  /// false and changes nothing if no worker would write such a log.
  bool read_log(Laps& out, RoundsRequest& request, bool complete) {
    std::map<VariantId, size_t> steps;
    for (VariantId id : out.ids) steps[id] = variants.at(id).steps.size();
    const auto log = link.log();
    auto laps = log ? read_laps(*log, steps, request) : std::nullopt;
    if (!laps) return false;
    if (laps->empty()) return true;
    const int64_t last_round = laps->back().lap.round;
    request.first_order = laps->back().lap.order + 1;
    for (LoggedLap& logged : *laps) {
      if (logged.variant == trusted) link.trusted_ms = std::min(link.trusted_ms, logged.lap.total_ms);
      out.laps[index_of(out, logged.variant)].push_back(std::move(logged.lap));
    }
    // A round that was cut short does not count; the round that replaces it gets a new number.
    request.rounds -= last_round - request.first_round + (complete ? 1 : 0);
    request.first_round = last_round + 1;
    return true;
  }

  static size_t index_of(const Laps& laps, VariantId id) {
    const auto which = std::find(laps.ids.begin(), laps.ids.end(), id);
    require(which != laps.ids.end(), "the worker reports on variant {}, which it was not asked about", id);
    return static_cast<size_t>(which - laps.ids.begin());
  }

  /// Removes variants that were too slow, so that they get no more turns.
  static void read_outcome(const Reply& reply, std::vector<VariantId>& left, Laps& out) {
    Unpack from(reply.bytes);
    (void)from.get<Answer>();
    (void)from.get<int64_t>();
    for (VariantId id : from.list<int64_t>()) {
      out.cut[index_of(out, id)] = true;
      std::erase(left, id);
    }
  }

  /// Assigns a fault to its variant. If it has none, assigns it to all variants that ran except the trusted one: any of
  /// them may have overwritten the worker's memory.
  void blame(Fault fault, std::vector<VariantId>& left, Laps& out) {
    if (std::find(left.begin(), left.end(), fault.variant) != left.end()) {
      add_fault(std::move(fault), left, out);
      return;
    }
    std::vector<VariantId> suspects = left;
    std::erase(suspects, trusted);
    if (suspects.empty()) suspects = left;
    for (VariantId id : suspects) add_fault(fault_at(id, fault.kind, -1, fault.words), left, out);
  }

  static int64_t rounds_of(const Laps& laps) {
    int64_t last = 0;
    for (const auto& lane : laps.laps) {
      if (!lane.empty()) last = std::max(last, lane.back().round + 1);
    }
    return last;
  }

  // --- trace ---

  Traced trace(VariantId id, std::span<const Tap> taps) {
    check_known(id, "traced");
    excuses = kMostExcuses;
    const std::string bytes = Pack().put(std::vector<Tap>(taps.begin(), taps.end())).bytes();
    const StorePart list = store.put(std::as_bytes(std::span(bytes)));
    Traced out;
    try {
      out = trace(id, taps, list);
    } catch (...) {
      (void)store.release(list);
      throw;
    }
    (void)store.release(list);
    if (out.fault && out.fault->variant != trusted) variants.at(id).broken = true;
    return out;
  }

  /// `list`: the taps, in the store.
  Traced trace(VariantId id, std::span<const Tap> taps, const StorePart& list) {
    for (;;) {
      if (auto fault = bring(id)) return {{}, std::move(fault)};
      const Reply reply = link.ask(Pack().put(Request::trace).put(id).put(list).bytes());
      if (excused(reply)) continue;
      if (auto fault = fault_of(id, reply)) return {{}, std::move(fault)};
      if (auto values = read_values(taps)) return {std::move(*values), std::nullopt};
      link.replace();
      return {{}, fault_at(id, FaultKind::crash, -1, "the size of the values was overwritten while checking")};
    }
  }

  /// Empty if the log does not have as many bytes as the taps.
  std::optional<std::vector<std::vector<std::byte>>> read_values(std::span<const Tap> taps) {
    const auto log = link.log();
    int64_t total = 0;
    for (const Tap& tap : taps) total += tap.buffer.bytes;
    if (!log || std::ssize(*log) != total) return std::nullopt;
    std::vector<std::vector<std::byte>> out;
    std::span<const std::byte> left = *log;
    for (const Tap& tap : taps) {
      const auto value = left.first(static_cast<size_t>(tap.buffer.bytes));
      out.emplace_back(value.begin(), value.end());
      left = left.subspan(value.size());
    }
    link.free_log(total);
    return out;
  }

  // --- drop ---

  void drop(VariantId id) {
    const auto it = variants.find(id);
    if (it == variants.end()) fail(ErrorKind::usage, "variant {} cannot be dropped: it is not loaded", id);
    if (id == trusted) fail(ErrorKind::usage, "all others are checked against variant {}, so it cannot be dropped", id);
    forget(id);
  }

  /// Releases the variant's memory, also in the worker.
  void forget(VariantId id) {
    const Known& variant = variants.at(id);
    std::vector<StorePart> freed;
    for (const StorePart& part : variant.package.parts) {
      if (store.release(part)) freed.push_back(part);
    }
    if (variant.stored.serial != 0) (void)store.release(variant.stored);
    if (variant.worker != 0 && variant.worker == link.serial()) {
      (void)link.ask(Pack().put(Request::drop).put(id).put(freed).bytes());
    }
    variants.erase(id);
  }

  RunnerOptions options;
  ConstantStore store;
  Link link;
  std::map<VariantId, Known> variants;
  std::vector<Fault> suspected;  ///< from the first look at the variant being checked
  VariantId last_id = 0, trusted = 0;
  int excuses = 0;          ///< left for the current call
  uint64_t trusted_in = 0;  ///< worker that has the trusted values
};

void Runner::count(const Laps& laps) {
  for (const auto& lane : laps.laps) {
    for (const Lap& lap : lane) {
      disturbed_.add(lap.disturbance);
      best_ms_ = best_ms_ > 0 ? std::min(best_ms_, lap.total_ms) : lap.total_ms;
    }
  }
}

std::vector<Loaded> Runner::load_all(std::span<const Loadable> variants) {
  std::vector<Loaded> out;
  for (const Loadable& v : variants) out.push_back(load(*v.plan, v.values));
  return out;
}

std::unique_ptr<Runner> make_runner(RunnerOptions options) {
  if (const auto make = options.make) return make(std::move(options));
  return std::make_unique<LocalRunner>(std::move(options));
}

LocalRunner::LocalRunner(RunnerOptions options) : impl_(std::make_unique<Impl>(std::move(options))) {}
LocalRunner::~LocalRunner() = default;

Loaded LocalRunner::load(const Plan& plan, std::span<const StepValue> values, const LoadOptions& options) {
  return impl_->load(plan, values, options);
}
Laps LocalRunner::measure(std::span<const VariantId> ids, const MeasureOptions& options) {
  Laps laps = impl_->measure(ids, options);
  count(laps);
  return laps;
}
Traced LocalRunner::trace(VariantId id, std::span<const Tap> taps) { return impl_->trace(id, taps); }
void LocalRunner::drop(VariantId id) { impl_->drop(id); }
ConstantStore& LocalRunner::store() { return impl_->store; }
int64_t LocalRunner::restarts() const { return impl_->link.restarts(); }
bool LocalRunner::confined() const { return impl_->link.confined(); }
std::optional<int> LocalRunner::worker_pid() const { return impl_->link.pid(); }

}  // namespace kilter::tune
