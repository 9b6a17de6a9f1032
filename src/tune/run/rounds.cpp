#include "tune/run/rounds.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include "base/error.h"
#include "base/random.h"
#include "exec/plan_check.h"
#include "exec/trace.h"
#include "measure/caches.h"
#include "measure/clock.h"
#include "tune/run/runner.h"

namespace kilter::tune {
namespace {

constexpr int64_t kMostRunsOfTurn = 1000;

/// Bytes that a run touches: its constants and its arena.
int64_t touched_bytes(const Plan& plan) {
  int64_t total = plan.arena_bytes;
  for (const Step& step : plan.steps) {
    for (const BufferRef& ref : step.args) total += ref.space == Space::constant ? ref.bytes : 0;
  }
  return total;
}

std::vector<size_t> random_order(size_t count, const Random& random, int64_t round) {
  std::vector<size_t> order(count);
  std::iota(order.begin(), order.end(), 0);
  for (size_t i = count; i > 1; --i) {
    const uint64_t draw = random.bits(static_cast<uint64_t>(round) * count + i);
    std::swap(order[i - 1], order[draw % i]);
  }
  return order;
}

}  // namespace

double WidthProbe::read() {
  constexpr double kEveryMs = 0.05;
  const uint64_t now = ticks();
  if (last_ns_ > 0 && ms_between(at_, now) < kEveryMs) return last_ns_;
  at_ = now;
  return last_ns_ = reference_width_ns();
}

/// One variant in a measurement.
class Bench::Lane {
 public:
  Lane(const WorkerVariant& variant, Bench& bench, bool warm_up)
      : variant_(variant),
        bench_(bench),
        instance_(variant.program, bench.pool_,
                  {bench.arena_.data(), bench.scratch_.data(), least_scratch_stride(variant.plan())}),
        trace_(std::max<size_t>(variant.plan().steps.size(), 1), bench.pool_->threads()),
        warm_up_(warm_up) {
    observer_.before = [this](size_t step) {
      bench_.publisher_.step(static_cast<int64_t>(step));
      width_ns_[step] = bench_.width_.read();
    };
    width_ns_.resize(variant.plan().steps.size() + 1);
  }

  /// Runs once and returns the milliseconds.
  double run() {
    instance_.run(bench_.inputs_, bench_.to_, &observer_, &trace_);
    width_ns_.back() = bench_.width_.read();
    const double ms = ms_between(trace_.run().begin, trace_.run().end);
    shortest_ms_ = std::min(shortest_ms_, ms);
    return ms;
  }
  const WorkerVariant& variant() const { return variant_; }
  const RunTrace& trace() const { return trace_; }
  /// Time of WidthProbe's block before or after a step of the last run, whichever is longer.
  double width_ns(size_t step) const { return std::max(width_ns_[step], width_ns_[step + 1]); }
  bool warm_up() const { return warm_up_; }
  double shortest_ms() const { return shortest_ms_; }
  /// Number of runs that together take about as long as a turn should.
  int64_t runs_of_turn(const RoundsRequest& request) const {
    const auto fill = static_cast<int64_t>(std::ceil(request.slice_ms / std::max(shortest_ms_, 1e-3)));
    return std::max({std::min(fill, kMostRunsOfTurn), request.runs, int64_t{1}});
  }
  /// Maximum number of bytes that a round adds to the log.
  int64_t most_round_bytes(const RoundsRequest& request) const {
    const int64_t runs = std::max({request.slice_ms > 0 ? kMostRunsOfTurn : 1, request.runs, int64_t{1}});
    return 2 * runs * static_cast<int64_t>(sizeof(LapHeader) + sizeof(StepTimes) * variant_.plan().steps.size());
  }
  bool cut = false;

 private:
  const WorkerVariant& variant_;
  Bench& bench_;
  Instance instance_;
  RunTrace trace_;
  StepObserver observer_;
  std::vector<double> width_ns_;  ///< before each step, and after the last
  bool warm_up_;
  double shortest_ms_ = std::numeric_limits<double>::infinity();
};

Bench::Bench(std::vector<const std::byte*> inputs, std::shared_ptr<ThreadPool> pool, Publisher& publisher,
             SharedMemory& log)
    : inputs_(std::move(inputs)), pool_(std::move(pool)), publisher_(publisher), log_(log) {}

Bench::~Bench() = default;

void Bench::make_room(const std::vector<const WorkerVariant*>& variants) {
  for (const WorkerVariant* v : variants) {
    const Plan& plan = v->plan();
    if (plan.arena_bytes > arena_bytes_) {
      arena_ = Block(plan.arena_bytes, "the arena of '" + plan.model + "'");
      arena_bytes_ = plan.arena_bytes;
    }
    const int64_t scratch = least_scratch_stride(plan) * pool_->threads();
    if (scratch > scratch_bytes_) {
      scratch_ = Block(scratch, "the scratch memory of '" + plan.model + "'");
      scratch_bytes_ = scratch;
    }
    if (!to_.empty()) continue;
    for (const PlanTensor& t : plan.outputs) {
      outputs_.emplace_back(std::max<int64_t>(*tensor_bytes(t.type, t.shape), 1), "an output of '" + plan.model + "'");
      to_.push_back(outputs_.back().data());
    }
  }
}

bool Bench::needs_warm_up(const WorkerVariant& variant, const RoundsRequest& request) const {
  const auto warm = static_cast<WarmUp>(request.warm);
  if (warm != WarmUp::as_needed) return warm == WarmUp::always;
  // A network larger than the caches always finds them full of its own last data, whichever variant ran before.
  return touched_bytes(variant.plan()) < 2 * last_level_cache_bytes();
}

Bench::Outcome Bench::measure(const std::vector<const WorkerVariant*>& variants, const RoundsRequest& request) {
  make_room(variants);
  publisher_.board().log_bytes.store(0, std::memory_order_release);
  Lanes lanes;
  for (const WorkerVariant* v : variants)
    lanes.push_back(std::make_unique<Lane>(*v, *this, needs_warm_up(*v, request)));
  const Random random(request.seed, "rounds");
  Outcome out;
  next_order_ = request.first_order;
  log_bytes_ = 0;
  watching_ = false;
  check_log_room(lanes, request);
  const double start = now_ms();
  for (; out.rounds < request.rounds; ++out.rounds) {
    if (out.rounds > 0 && now_ms() - start >= request.max_ms) break;
    if (out.rounds > 0 && log_bytes_ + most_round_bytes(lanes, request) > request.log_bytes) break;
    const int64_t round = request.first_round + out.rounds;
    std::vector<size_t> order = random_order(lanes.size(), random, round);
    for (size_t i : order) turn(*lanes[i], round, request);
    for (size_t i = order.size(); i-- > 0;) turn(*lanes[order[i]], round, request);
    if (request.cut_off <= 0) continue;
    double best = std::numeric_limits<double>::infinity();
    for (const auto& lane : lanes) best = std::min(best, lane->shortest_ms());
    for (const auto& lane : lanes) lane->cut |= lane->shortest_ms() > request.cut_off * best;
  }
  for (const auto& lane : lanes) {
    if (lane->cut) out.cut.push_back(lane->variant().id);
  }
  publisher_.enter(Phase::idle, -1);
  return out;
}

int64_t Bench::most_round_bytes(const Lanes& lanes, const RoundsRequest& request) {
  int64_t bytes = 0;
  for (const auto& lane : lanes) bytes += lane->cut ? 0 : lane->most_round_bytes(request);
  return bytes;
}

void Bench::check_log_room(const Lanes& lanes, const RoundsRequest& request) {
  const int64_t bytes = most_round_bytes(lanes, request), room = kLogReserve - kLogStart;
  if (bytes <= room) return;
  fail(ErrorKind::usage,
       "the times of a round of {} variants with at least {} runs in a turn need {} bytes; the worker has room for {}; "
       "ask for fewer runs in a turn, or fewer variants",
       lanes.size(), request.runs, bytes, room);
}

void Bench::turn(Lane& lane, int64_t round, const RoundsRequest& request) {
  if (lane.cut) return;
  if (lane.warm_up()) {
    publisher_.enter(Phase::warming, lane.variant().id);
    lane.run();
    watching_ = false;
  }
  if (!watching_) watch_.start();
  publisher_.enter(Phase::measuring, lane.variant().id);
  const int64_t first = log_bytes_;
  const double begin = now_ms();
  int64_t runs = 0;
  do {
    LapHeader header;
    header.total_ms = lane.run();
    header.round = round;
    header.order = next_order_++;
    record(lane, header);
  } while (++runs < lane.runs_of_turn(request));
  finish_turn(first, watch_.stop(now_ms() - begin));
  watching_ = true;
}

void Bench::record(const Lane& lane, const LapHeader& header) {
  const RunTrace& trace = lane.trace();
  const auto steps = static_cast<int64_t>(trace.size());
  const auto bytes = static_cast<int64_t>(sizeof(LapHeader) + sizeof(StepTimes) * trace.size());
  log_.grow(kLogStart + log_bytes_ + bytes);
  std::byte* at = log_.data() + kLogStart + log_bytes_;
  LapHeader own = header;
  own.variant = lane.variant().id;
  own.steps = steps;
  std::memcpy(at, &own, sizeof(own));
  at += sizeof(own);
  uint64_t last = trace.run().begin;
  for (size_t i = 0; i < trace.size(); ++i) {
    const TickSpan wall = trace.region(i).wall;
    const StepTimes times{ms_between(wall.begin, wall.end), ms_between(last, wall.begin), lane.width_ns(i)};
    std::memcpy(at, &times, sizeof(times));
    at += sizeof(times);
    last = wall.end;
  }
  log_bytes_ += bytes;
}

void Bench::finish_turn(int64_t first_byte, const Disturbance& d) {
  for (int64_t at = first_byte; at < log_bytes_;) {
    std::byte* place = log_.data() + kLogStart + at;
    LapHeader header;
    std::memcpy(&header, place, sizeof(header));
    header.wall_ms = d.wall_ms, header.steal_ms = d.steal_ms, header.wait_ms = d.wait_ms;
    header.switches = d.switches, header.drift = d.drift;
    header.stolen = d.stolen, header.waited = d.waited, header.switched = d.switched, header.drifted = d.drifted;
    std::memcpy(place, &header, sizeof(header));
    at += static_cast<int64_t>(sizeof(header)) + static_cast<int64_t>(sizeof(StepTimes)) * header.steps;
  }
  publisher_.board().log_bytes.store(log_bytes_, std::memory_order_release);
}

}  // namespace kilter::tune
