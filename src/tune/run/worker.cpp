#include "tune/run/worker.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <csignal>
#include <cstring>
#include <fstream>
#include <map>
#include <set>
#include <thread>

#include "base/cpu_info.h"
#include "base/error.h"
#include "base/ticks.h"
#include "exec/plan_check.h"
#include "measure/caches.h"
#include "measure/conditions.h"
#include "tune/run/checker.h"
#include "tune/run/confine.h"
#include "tune/run/crash_handler.h"
#include "tune/run/mirror.h"
#include "tune/run/package.h"
#include "tune/run/rounds.h"
#include "tune/run/tap.h"

namespace kilter::tune {
namespace {

constexpr int kUsageExit = 2;
constexpr int64_t kSlack = int64_t{256} << 20;  ///< bytes of address space that malloc may map but not use

/// Ends the process as soon as the tuner is gone, whatever the other threads are doing.
void follow_tuner() {
  std::thread([] {
    pollfd waits{kSocketFd, POLLRDHUP, 0};
    while (poll(&waits, 1, -1) <= 0) {
    }
    _exit(0);
  }).detach();
}

void limit(int what, int64_t bytes) {
  rlimit now{};
  getrlimit(static_cast<__rlimit_resource_t>(what), &now);
  const auto wanted = static_cast<rlim_t>(bytes);
  now.rlim_cur = now.rlim_max == RLIM_INFINITY ? wanted : std::min(wanted, now.rlim_max);
  now.rlim_max = now.rlim_cur;
  setrlimit(static_cast<__rlimit_resource_t>(what), &now);
}

/// Limits the mapped memory of this process, and its writable private memory, to `bytes` more than it has now.
void limit_memory(int64_t bytes) {
  int64_t mapped = 0, unused = 0, data = 0;
  std::ifstream("/proc/self/statm") >> mapped >> unused >> unused >> unused >> unused >> data;
  limit(RLIMIT_DATA, data * sysconf(_SC_PAGESIZE) + bytes);
  limit(RLIMIT_AS, mapped * sysconf(_SC_PAGESIZE) + bytes + kSlack);
}

void pin(const std::vector<int>& cpus) {
  if (!set_affinity(cpus)) {
    fail(ErrorKind::usage, "the worker cannot run on the requested CPUs: {}", std::strerror(errno));
  }
}

class Worker {
 public:
  explicit Worker(SharedMemory log)
      : log_(std::move(log)),
        store_(SharedMemory::attach(Handle(kStoreFd), ConstantStore::kReserve, false)),
        mirror_(store_.data()),
        publisher_(*reinterpret_cast<Board*>(log_.data())) {}

  void serve() {
    for (;;) {
      const std::string packet = *receive_packet(kSocketFd, -1);
      if (packet.empty()) return;
      if (!send_packet(kSocketFd, answer(packet))) return;
    }
  }

 private:
  static std::string refusal(Answer answer, ErrorKind kind, const std::string& why) {
    return Pack().put(answer).put(kind).put(std::string_view(why)).bytes();
  }

  std::string answer(const std::string& packet) {
    try {
      return respond(packet);
    } catch (const std::bad_alloc&) {
      return refusal(Answer::no_memory, ErrorKind::out_of_memory, "the limit is reached");
    } catch (const Error& e) {
      const bool memory = e.kind() == ErrorKind::out_of_memory;
      return refusal(memory ? Answer::no_memory : Answer::refused, e.kind(), e.message());
    } catch (const std::exception& e) {
      return refusal(Answer::refused, ErrorKind::internal, e.what());
    }
  }

  std::string respond(const std::string& packet) {
    Unpack from(packet);
    switch (from.get<Request>()) {
      case Request::start:
        return start(from);
      case Request::load:
        return load(from);
      case Request::drop:
        return drop(from);
      case Request::measure:
        return measure(from);
      case Request::trace:
        return trace(from);
    }
    fail(ErrorKind::internal, "the worker received an unknown request");
  }

  std::string start(Unpack& from) {
    publisher_.enter(Phase::starting, -1);
    const auto protocol = from.get<uint32_t>();
    require(protocol == kProtocol,
            "kilter-worker speaks protocol {}, but the tuner speaks protocol {}: install both from one build",
            kProtocol, protocol);
    adopt_ns_per_tick(from.get<double>());
    pin(from.list<int>());
    pool_ = std::make_shared<ThreadPool>(from.get<int32_t>());
    install_crash_handler(publisher_.board(), *pool_);
    memory_bytes_ = from.get<int64_t>();
    limit_memory(memory_bytes_);
    const auto parts = from.list<StorePart>();
    mirror_.take(parts);
    std::vector<const std::byte*> inputs;
    for (const StorePart& part : parts) inputs.push_back(mirror_.data() + part.offset);
    checker_.emplace(inputs, pool_, publisher_);
    bench_.emplace(inputs, pool_, publisher_, log_);
    constants_.emplace(Region::constants, mirror_.data(), ConstantStore::kReserve);
    // Called to cache their results: determining them opens system files, and asks for permission to use tile
    // registers.
    last_level_cache_bytes();
    cpu_features();
    const bool confined = confine_process();
    publisher_.enter(Phase::idle, -1);
    return Pack().put(Answer::done).put(confined).bytes();
  }

  std::string load(Unpack& from) {
    const auto id = from.get<int64_t>();
    publisher_.enter(Phase::loading, id);
    const auto package = from.get<StorePart>();
    const auto check = from.get<Check>();
    const auto skip = from.list<uint64_t>();
    if (!variants_.contains(id)) variants_.emplace(id, open(id, package));
    const WorkerVariant& variant = variants_.at(id);
    Checked checked;
    if (check == Check::trust) checked = checker_->trust(variant);
    if (check == Check::compare || check == Check::careful) {
      require(checker_->has_trusted(), "a variant cannot be checked before there is a trusted one");
      checked = checker_->compare(variant, {skip.begin(), skip.end()}, check == Check::careful);
    }
    publisher_.enter(Phase::idle, -1);
    return report(checked);
  }

  WorkerVariant open(int64_t id, const StorePart& package) {
    Unpacked got = unpack_variant({store_.data() + package.offset, static_cast<size_t>(package.bytes)}, mirror_.data(),
                                  ConstantStore::kReserve);
    const int64_t scratch = least_scratch_stride(got.plan) * pool_->threads();
    if (got.plan.arena_bytes > memory_bytes_ - scratch) {
      fail(ErrorKind::out_of_memory, "'{}' needs {} bytes of arena and {} of scratch memory; the limit is {} bytes",
           got.plan.model, got.plan.arena_bytes, scratch, memory_bytes_);
    }
    mirror_.take(got.parts);
    WorkerVariant variant;
    variant.id = id;
    variant.values = std::move(got.values);
    variant.values_of.resize(got.plan.steps.size());
    for (size_t i = 0; i < variant.values.size(); ++i) variant.values_of[variant.values[i].step].push_back(i);
    variant.program = std::make_shared<const Program>(std::move(got.plan));
    return variant;
  }

  /// Truncates findings so that all of them fit into one packet.
  static std::string report(const Checked& checked) {
    Pack pack;
    pack.put(Answer::done).put(checked.step_ms);
    const size_t most = kPacketBytes / 2 / std::max<size_t>(checked.findings.size(), 1);
    pack.put(static_cast<uint64_t>(checked.findings.size()));
    for (const Finding& f : checked.findings) {
      pack.put(static_cast<uint64_t>(f.step)).put(std::string_view(f.words).substr(0, most));
    }
    return pack.bytes();
  }

  std::string drop(Unpack& from) {
    variants_.erase(from.get<int64_t>());
    mirror_.drop(from.list<StorePart>());
    return Pack().put(Answer::done).bytes();
  }

  std::string measure(Unpack& from) {
    const auto request = from.get<RoundsRequest>();
    std::vector<const WorkerVariant*> variants;
    for (int64_t id : from.list<int64_t>()) variants.push_back(&variants_.at(id));
    const Bench::Outcome outcome = bench_->measure(variants, request);
    return Pack().put(Answer::done).put(outcome.rounds).put(outcome.cut).bytes();
  }

  /// Runs once. The log then contains the values, one after another.
  std::string trace(Unpack& from) {
    const auto id = from.get<int64_t>();
    publisher_.enter(Phase::loading, id);
    const auto list = from.get<StorePart>();
    const WorkerVariant& variant = variants_.at(id);
    const auto taps =
        Unpack(std::span<const std::byte>(store_.data() + list.offset, static_cast<size_t>(list.bytes))).list<Tap>();
    const int64_t bytes = check_taps(variant.plan(), taps, kLogReserve - kLogStart);
    log_.grow(kLogStart + bytes);
    checker_->trace(variant, taps, log_.data() + kLogStart);
    publisher_.board().log_bytes.store(bytes, std::memory_order_release);
    publisher_.enter(Phase::idle, -1);
    return Pack().put(Answer::done).bytes();
  }

  SharedMemory log_, store_;
  Mirror mirror_;
  Publisher publisher_;
  std::shared_ptr<ThreadPool> pool_;
  std::optional<Checker> checker_;
  std::optional<Bench> bench_;
  std::optional<MarkedRegion> constants_;
  std::map<int64_t, WorkerVariant> variants_;
  int64_t memory_bytes_ = 0;
};

/// Parses "kilter-worker TUNER-PID FOLLOW". FOLLOW says whether to exit with the thread that started the process.
bool started_by_tuner(std::span<const char* const> arguments) {
  if (arguments.size() != 2) return false;
  const std::string_view pid = arguments[0];
  int parent = 0;
  const auto [end, error] = std::from_chars(pid.data(), pid.data() + pid.size(), parent);
  if (error != std::errc() || end != pid.data() + pid.size()) return false;
  if (std::string_view(arguments[1]) == "thread") prctl(PR_SET_PDEATHSIG, SIGKILL);
  return getppid() == parent && fcntl(kSocketFd, F_GETFD) >= 0 && fcntl(kStoreFd, F_GETFD) >= 0 &&
         fcntl(kLogFd, F_GETFD) >= 0;
}

/// Makes this process the first to be killed if the machine runs out of memory.
void offer_to_be_killed() { std::ofstream("/proc/self/oom_score_adj") << 1000; }

}  // namespace

int worker_main(std::span<const char* const> arguments) {
  if (!started_by_tuner(arguments)) return kUsageExit;
  std::signal(SIGINT, SIG_IGN);
  std::signal(SIGHUP, SIG_IGN);
  limit(RLIMIT_CORE, 1);  // no core file, and no dump piped to a collecting program
  offer_to_be_killed();
  follow_tuner();
  Worker(SharedMemory::attach(Handle(kLogFd), kLogReserve, true)).serve();
  return 0;
}

}  // namespace kilter::tune
