#include "tune/run/link.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstring>
#include <new>

#include "base/error.h"
#include "base/ticks.h"
#include "measure/clock.h"
#include "tune/run/crash_handler.h"

namespace kilter::tune {
namespace {

constexpr double kPatienceMs = 60'000;  ///< limit for requests that run no step
/// Limit for a step of the first run, which determines the limits of later runs. The step may be a reference kernel on
/// a slow board.
constexpr double kFirstRunMs = 3.6e6;
constexpr double kAsleep = 30;  ///< multiple of the limit for a worker that uses no CPU time
constexpr int kStarts = 3;      ///< attempts to start a worker if other processes kill it before it replies

std::string signal_text(int signal) {
  const char* words = sigdescr_np(signal);
  return fmt::format("signal {} ({})", signal, words != nullptr ? words : "unknown");
}

std::string address_text(const Crash& crash) {
  if (crash.stack != 0) return "the stack overflowed";
  std::string text = fmt::format("address {:#x}", crash.address);
  if (crash.region < 0 || crash.region > static_cast<int32_t>(Region::constants)) return text;
  const std::string_view region = name(static_cast<Region>(crash.region));
  if (crash.inside != 0) return text + fmt::format(", a write to {}", region);
  if (crash.distance < 0) return text + fmt::format(", {} bytes before the start of {}", -crash.distance, region);
  return text + fmt::format(", {} bytes past the end of {}", crash.distance, region);
}

}  // namespace

std::string_view name(Phase phase) {
  constexpr std::array<std::string_view, 7> kNames = {"idle",      "starting",   "loading",  "checking",
                                                      "comparing", "warming up", "measuring"};
  const auto index = static_cast<size_t>(phase);
  return index < kNames.size() ? kNames[index] : "in no known phase";
}

Link::Link(const RunnerOptions& options, const ConstantStore& store)
    : options_(options), store_(store), log_(SharedMemory::create("kilter-times", kLogReserve)) {
  log_.grow(kLogStart);
}

void Link::start() {
  if (child_) return;
  Reply reply;
  for (int n = 0; n < kStarts; ++n) {
    reply = start_once();
    if (reply.kind == ReplyKind::answer) return;
    child_.reset();
    if (!reply.outside) break;
  }
  fail(ErrorKind::io, "the worker {} does not start: {}{}{}", program().string(), reply.what,
       reply.detail.empty() ? "" : ": ", reply.detail);
}

std::filesystem::path Link::program() const {
  return !options_.worker.empty() ? options_.worker : find_worker("kilter-worker");
}

Reply Link::start_once() {
  child_.reset();
  if (lost_) ++restarts_;
  lost_ = false;
  ++serial_;
  Board* board = new (log_.data()) Board{};
  board->step = board->variant = -1;
  child_ = std::make_unique<Child>(program(), store_.memory(), log_);
  Pack pack;
  pack.put(Request::start)
      .put(kProtocol)
      .put(ns_per_tick())
      .put(options_.cpus)
      .put(static_cast<int32_t>(options_.threads));
  Reply reply = ask(pack.put(options_.memory_bytes).put(inputs).bytes());
  if (reply.kind == ReplyKind::answer) {
    Unpack from(reply.bytes);
    static_cast<void>(from.get<Answer>());
    confined_ = from.get<bool>();
  }
  return reply;
}

Reply Link::ask(const std::string& request) {
  require(child_ != nullptr, "a request without a worker");
  board().log_bytes = 0;
  if (!child_->send(request)) return dead();
  return wait();
}

double Link::limit_ms(Phase phase) const {
  const double limit =
      trusted_ms > 0 ? std::max(options_.timeout_ms, options_.timeout_factor * trusted_ms) : kFirstRunMs;
  const bool runs = phase == Phase::checking || phase == Phase::warming || phase == Phase::measuring;
  return runs ? limit : std::max(kPatienceMs, options_.timeout_ms);
}

Reply Link::wait() {
  uint64_t beat = board().beat;
  double since = now_ms(), cpu = child_->cpu_ms();
  for (;;) {
    const double limit = limit_ms(board().phase);
    // Waits for at most a fraction of a step's limit, even if no step has begun yet, since one may begin meanwhile.
    const auto slice = static_cast<int>(std::clamp(std::min(limit, options_.timeout_ms) / 8, 5.0, 200.0));
    if (auto packet = child_->receive(slice)) {
      if (packet->empty()) return dead();
      return refused(std::move(*packet));
    }
    if (const uint64_t now = board().beat; now != beat) {
      beat = now, since = now_ms(), cpu = child_->cpu_ms();
      continue;
    }
    // A worker that other processes keep from running is not late: as long as it gets some CPU time, only that time
    // counts.
    const double waited = now_ms() - since;
    if (waited < limit) continue;
    const bool busy = child_->cpu_ms() - cpu >= limit / 2;
    if (busy || (waited >= kAsleep * limit && !child_->stopped())) return late(waited, limit);
  }
}

/// Turns the worker's packet into a Reply.
Reply Link::refused(std::string packet) const {
  Unpack from(packet);
  const auto answer = from.get<Answer>();
  Reply reply;
  if (answer == Answer::done) {
    reply.bytes = std::move(packet);
    return reply;
  }
  const auto kind = from.get<ErrorKind>();
  const std::string words(from.text());
  place(reply);
  if (answer == Answer::refused && reply.step < 0) throw Error(kind, words);
  reply.kind = answer == Answer::no_memory ? ReplyKind::no_memory : ReplyKind::failed;
  reply.what = answer == Answer::no_memory ? "out of memory" : "failed";
  reply.detail = words;
  return reply;
}

void Link::place(Reply& reply) const {
  reply.phase = board().phase;
  reply.variant = board().variant;
  reply.step = board().step;
}

Reply Link::dead() {
  const Ending ending = child_->end(false);
  Reply reply;
  reply.kind = ReplyKind::died;
  place(reply);
  describe_crash(reply, ending);
  child_.reset();
  lost_ = true;
  return reply;
}

void Link::describe_crash(Reply& reply, const Ending& ending) const {
  const Crash& crash = board().crash;
  const int signal = ending.signal != 0 ? ending.signal : crash.set != 0 ? crash.signal : 0;
  if (signal == 0) {
    reply.what = ending.known ? fmt::format("the worker ended with code {}", ending.exit) : "the worker ended";
    reply.detail = ending.said;
  } else {
    reply.what = signal_text(signal);
  }
  const bool sent = signal == SIGKILL || signal == SIGTERM;
  reply.outside = reply.phase == Phase::idle || (crash.set == 0 && sent);
  if (signal == SIGKILL) reply.detail = "killed by another process, or by the system for lack of memory";
  if (crash.set == 0) return;
  std::vector<std::string> parts;
  if (crash.thread >= 0 && options_.threads > 1) parts.push_back(fmt::format("thread {}", crash.thread));
  if (crash.signal == SIGSEGV || crash.signal == SIGBUS) parts.push_back(address_text(crash));
  if (crash.signal == SIGSYS)
    parts.push_back(fmt::format("system call {}, which code on trial may not make", crash.address));
  if (!ending.said.empty()) parts.push_back(ending.said);
  reply.detail = fmt::format("{}", fmt::join(parts, ", "));
}

void Link::replace() {
  child_->end(true);
  child_.reset();
  lost_ = true;
}

std::optional<std::span<const std::byte>> Link::log() const {
  const int64_t bytes = board().log_bytes.load(std::memory_order_acquire);
  if (bytes < 0 || bytes > log_.file_bytes() - kLogStart) return std::nullopt;
  return std::span(log_.data() + kLogStart, static_cast<size_t>(bytes));
}

Reply Link::late(double waited_ms, double limit) {
  Reply reply;
  reply.kind = ReplyKind::late;
  place(reply);
  replace();
  reply.what = fmt::format("did not end within {:.0f} ms", waited_ms);
  reply.detail = trusted_ms > 0 ? fmt::format(
                                      "the limit is {:.0f} ms, {:g} times a run of the trusted variant and at "
                                      "least {:g} ms",
                                      limit, options_.timeout_factor, options_.timeout_ms)
                                : fmt::format("the limit is {:.0f} ms for a step of the first run", limit);
  return reply;
}

}  // namespace kilter::tune
