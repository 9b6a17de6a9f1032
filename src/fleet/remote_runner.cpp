#include "fleet/remote_runner.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <deque>
#include <set>
#include <utility>

#include "base/connection_error.h"
#include "base/error.h"
#include "exec/sodium.h"
#include "fleet/agent/signed_job.h"
#include "measure/clock.h"
#include "packing/foreign_recipe.h"

namespace kilter::fleet {
namespace {

constexpr int64_t kMostSources = int64_t{1} << 30;  ///< bytes; beyond them, tensors are hashed again
constexpr double kHeartbeats = 15;                  ///< seconds within which each agent sends a heartbeat

}  // namespace

using tune::Laps;
using tune::Loaded;
using tune::StorePart;
using tune::Tap;
using tune::Traced;
using tune::VariantId;

QueueAgent agent_of_class(Queue& queue, const std::string& device_class, double patience_seconds) {
  std::vector<std::string> others;
  std::optional<QueueAgent> best;
  for (const QueueAgent& agent : queue.agents()) {
    if (agent.device_class != device_class || agent.draining) {
      others.push_back(fmt::format("{} ({}{})", agent.name, agent.device_class, agent.draining ? ", draining" : ""));
    } else if (!best || agent.seen_seconds < best->seen_seconds) {
      best = agent;
    }
  }
  if (best && best->seen_seconds < patience_seconds) return *best;
  fail(ErrorKind::io, "no agent of the device class {} {}; {}; start one (kilter-agent), or name another class",
       device_class, best ? fmt::format("was heard from for {:.0f} s", best->seen_seconds) : "is known",
       others.empty() ? "there are no other agents" : fmt::format("other agents: {}", fmt::join(others, ", ")));
}

RemoteRunner::RemoteRunner(RemoteOptions remote, tune::RunnerOptions options)
    : remote_(std::move(remote)), options_(std::move(options)), queue_(remote_.url), session_(new_name()) {
  if (remote_.run.empty()) remote_.run = new_name();
  Pieces pieces;
  for (const Tensor& t : options_.inputs)
    inputs_.push_back({t.dtype(), t.shape(), describe({t.raw(), static_cast<size_t>(t.bytes())}, pieces)});
  upload(pieces);
}

RemoteRunner::~RemoteRunner() {
  try {
    (void)queue_.cancel(remote_.run);
  } catch (const std::exception&) {  // an agent then runs a job in vain
    return;
  }
}

Loaded RemoteRunner::load(const Plan& plan, std::span<const tune::StepValue> values, const tune::LoadOptions& options) {
  const tune::Loadable one{&plan, {values.begin(), values.end()}};
  return load_all({&one, 1}, options).front();
}

std::vector<Loaded> RemoteRunner::load_all(std::span<const tune::Loadable> variants) {
  if (variants.empty()) return {};
  if (trusted_ == 0) return Runner::load_all(variants);  // the first one must be trusted before the others are loaded
  return load_all(variants, tune::LoadOptions());
}

std::vector<Loaded> RemoteRunner::load_all(std::span<const tune::Loadable> variants, const tune::LoadOptions& options) {
  std::vector<VariantId> ids;
  try {
    if (sources_bytes_ > kMostSources) forget_sources();
    TrialJob job = job_for({});
    job.how_to_load = options;
    std::deque<tune::Package> packages;  // a deque, so that bytes do not move before they are uploaded
    Pieces pieces;
    for (const tune::Loadable& variant : variants) {
      ids.push_back(++last_id_);
      Known& known = variants_[ids.back()];
      packages.push_back(tune::pack_variant(*variant.plan, variant.values, store_));
      known.parts = std::move(packages.back().parts);
      known.variant.id = ids.back();
      for (const Step& step : variant.plan->steps) steps_[ids.back()].push_back(step.name);
      known.variant.package = describe(std::as_bytes(std::span(packages.back().bytes)), pieces);
      const Recipes recipes = recipes_of(*variant.plan);
      for (const StorePart& part : known.parts) known.variant.parts.push_back(describe(part, recipes, pieces));
      if (trusted_ == 0) job.trusted = known.variant;
      if (trusted_ != 0) job.variants.push_back(known.variant);
    }
    upload(pieces);
    job.loads = ids;
    Answered given = ask(job);
    check_loaded(given, ids, steps_);
    std::vector<Loaded> all = std::move(given.answer.loaded);
    for (size_t i = 0; i < ids.size(); ++i) {
      if (!all[i].id) forget(ids[i]);
      if (all[i].id && trusted_ == 0) trusted_ = ids[i];
    }
    return all;
  } catch (...) {
    for (const VariantId id : ids) {
      if (variants_.contains(id)) forget(id);
    }
    forget_sources();  // perhaps they were not uploaded
    throw;
  }
}

Laps RemoteRunner::measure(std::span<const VariantId> ids, const tune::MeasureOptions& options) {
  for (const VariantId id : ids) check_known(id, "measured");
  TrialJob job = job_for(ids);
  job.measures.assign(ids.begin(), ids.end());
  job.how_to_measure = options;
  Answered given = ask(job);
  check_laps(given, ids, steps_);
  Laps laps = std::move(given.answer.laps);
  for (const tune::Fault& fault : laps.faults) {
    if (fault.variant != trusted_ && variants_.contains(fault.variant)) variants_.at(fault.variant).broken = true;
  }
  count(laps);
  return laps;
}

Traced RemoteRunner::trace(VariantId id, std::span<const Tap> taps) {
  check_known(id, "traced");
  Traced out;
  out.values.resize(taps.size());
  size_t next = 0;   // tap
  int64_t done = 0;  // bytes of this tap
  do {
    TrialJob job = job_for({&id, 1});
    job.traces = id;
    const size_t first = next;
    for (int64_t room = tune::kTracedAtOnce; next < taps.size() && room > 0;) {
      Tap& part = job.taps.emplace_back(taps[next]);
      part.buffer.offset += done;
      part.buffer.bytes = std::min(part.buffer.bytes - done, room);
      room -= part.buffer.bytes, done += part.buffer.bytes;
      if (done == taps[next].buffer.bytes) ++next, done = 0;
    }
    Answered given = ask(job);
    check_traced(given, id, job.taps, steps_);
    Traced some = std::move(given.answer.traced);
    if (some.fault) {
      if (id != trusted_) variants_.at(id).broken = true;
      return {{}, std::move(some.fault)};
    }
    for (size_t i = 0; i < some.values.size(); ++i) {
      std::vector<std::byte>& to = out.values[first + i];
      to.insert(to.end(), some.values[i].begin(), some.values[i].end());
    }
  } while (next < taps.size());
  return out;
}

Peaks RemoteRunner::measure_peaks(int threads) {
  TrialJob job;
  job.session = session_;
  job.peaks = threads;
  Answered given = ask(job);
  check_peaks(given, threads);
  return std::move(given.answer.peaks);
}

void RemoteRunner::check_known(VariantId id, std::string_view what) const {
  const auto known = variants_.find(id);
  if (known == variants_.end()) fail(ErrorKind::usage, "variant {} cannot be {}: it is not loaded", id, what);
  if (known->second.broken) fail(ErrorKind::usage, "variant {} cannot be {} again: it failed before", id, what);
}

void RemoteRunner::drop(VariantId id) {
  if (!variants_.contains(id)) fail(ErrorKind::usage, "variant {} cannot be dropped: it is not loaded", id);
  if (id == trusted_) fail(ErrorKind::usage, "all others are checked against variant {}, so it cannot be dropped", id);
  dropped_.push_back(id);
  forget(id);
}

void RemoteRunner::forget(VariantId id) {
  for (const StorePart& part : variants_.at(id).parts) {
    if (store_.release(part)) parts_.erase(part.serial);
  }
  variants_.erase(id);
  steps_.erase(id);
}

TrialJob RemoteRunner::job_for(std::span<const VariantId> ids) {
  TrialJob job;
  job.session = session_;
  job.inputs = inputs_;
  job.threads = options_.threads;
  job.timeout_ms = options_.timeout_ms, job.timeout_factor = options_.timeout_factor;
  if (trusted_ != 0) job.trusted = variants_.at(trusted_).variant;
  job.dropped = std::exchange(dropped_, {});
  for (const VariantId id : ids) {
    if (id != trusted_) job.variants.push_back(variants_.at(id).variant);
  }
  return job;
}

Answered RemoteRunner::ask(const TrialJob& job) {
  constexpr double kLook = 1, kLookForAgents = 5;
  const double start = now_ms();
  double looked = start, heard = start;
  const JobPlace place{remote_.run, kTrialKind, remote_.device_class};
  const SecretKey* const key = remote_.key ? &*remote_.key : nullptr;
  const int64_t id = queue_.submit({.run = remote_.run,
                                    .kind = kTrialKind,
                                    .device_class = remote_.device_class,
                                    .priority = remote_.priority,
                                    .candidates = static_cast<int>(job.variants.size()) + 1,
                                    .awaited = true,
                                    .payload = wrap_payload(pack(job), place, key)});
  std::vector<Ending> endings;
  while ((endings = queue_.endings({&id, 1})).empty()) {
    queue_.wait_for_ending(kLook);
    if (now_ms() - looked < kLookForAgents * 1e3) continue;
    looked = now_ms();
    try {
      (void)agent_of_class(queue_, remote_.device_class, remote_.patience_seconds);
      heard = looked;
    } catch (const ConnectionError&) {
      throw;
    } catch (const Error&) {  // perhaps the server's clock was moved forward; the next heartbeats will show
      if (looked - heard >= 1e3 * std::min(remote_.patience_seconds, kHeartbeats)) throw;
    }
  }
  const Ending& ending = endings.front();
  if (ending.how != Delivery::stored || ending.bodies.empty()) {
    fail(ErrorKind::unsupported, "the fleet did not measure a job for the device class {}: {}: {}",
         remote_.device_class, name(ending.how), ending.reason);
  }
  TrialAnswer answer = read_answer(ending.agent, ending.bodies.front());
  if (!answer.error.empty()) throw Error(answer.kind, fmt::format("agent {}: {}", ending.agent, answer.error));
  restarts_ = answer.restarts, confined_ = answer.confined;
  if (remote_.overhead) {
    double worked = answer.laps.wall_ms;
    for (const Loaded& loaded : answer.loaded) {
      for (const double ms : loaded.step_ms) worked += ms;
    }
    remote_.overhead(now_ms() - start - worked);
  }
  return {std::move(answer), ending.agent, now_ms() - start};
}

Stored RemoteRunner::describe(std::span<const std::byte> bytes, Pieces& pieces) {
  Stored out{static_cast<int64_t>(bytes.size()), {}};
  for (size_t at = 0; at < bytes.size(); at += Stored::kPiece) {
    const auto piece = bytes.subspan(at, std::min<size_t>(Stored::kPiece, bytes.size() - at));
    out.hashes.push_back(sha256(piece));
    pieces.emplace_back(out.hashes.back(), piece);
  }
  return out;
}

RemoteRunner::Recipes RemoteRunner::recipes_of(const Plan& plan) const {
  Recipes all;
  if (plan.constants != store_.data()) return all;  // its constants have other offsets in the store
  for (const RecipeOfConstant& one : plan.recipes) all[one.offset] = &one;
  return all;
}

TrialPart RemoteRunner::describe(const StorePart& part, const Recipes& recipes, Pieces& pieces) {
  const auto known = parts_.find(part.serial);
  if (known != parts_.end()) return known->second;
  TrialPart made{.bytes = part.bytes};
  const auto at = recipes.find(part.offset);
  if (at != recipes.end() && at->second->bytes == part.bytes) {
    const RecipeOfConstant& one = *at->second;
    const int64_t source_bytes = one.source.elems() * size_bytes(one.type);
    if (part.bytes <= most_packed_bytes(source_bytes)) {
      made.data = describe(one.source, one.type, pieces);
      made.recipe = one.recipe, made.type = one.type;
      return parts_[part.serial] = std::move(made);
    }
  }
  made.data = describe({store_.data() + part.offset, static_cast<size_t>(part.bytes)}, pieces);
  return parts_[part.serial] = std::move(made);
}

Stored RemoteRunner::describe(const Tensor& source, DType type, Pieces& pieces) {
  const auto [at, fresh] = sources_.try_emplace({source.raw(), type});
  Source& known = at->second;
  if (!fresh) return known.stored;
  known.tensor = source, known.elements = as_packed(source, type);
  sources_bytes_ += known.elements.bytes();
  known.stored = describe({known.elements.raw(), static_cast<size_t>(known.elements.bytes())}, pieces);
  return known.stored;
}

void RemoteRunner::forget_sources() {
  sources_.clear();
  sources_bytes_ = 0;
}

void RemoteRunner::upload(const Pieces& pieces) {
  if (pieces.empty()) return;
  const double start = now_ms();
  std::vector<std::string> hashes;
  for (const auto& [hash, bytes] : pieces) hashes.push_back(hash);
  std::set<std::string> known = queue_.known_blobs(hashes);
  for (const auto& [hash, bytes] : pieces) {
    if (!known.insert(hash).second) continue;
    const std::string put = queue_.put_blob({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
    require(put == hash, "the fleet's hash of a blob is {}; expected {}", put, hash);
  }
  if (remote_.overhead) remote_.overhead(now_ms() - start);
}

}  // namespace kilter::fleet
