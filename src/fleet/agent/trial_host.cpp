#include "fleet/agent/trial_host.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/connection_error.h"
#include "base/error.h"
#include "exec/sodium.h"
#include "tune/run/package.h"

namespace kilter::fleet {

using tune::Loaded;
using tune::StorePart;
using tune::VariantId;

/// A runner with what it has loaded. Its constants are kept until they take too much memory, because most constants of
/// two variants are the same.
class TrialHost::Session {
 public:
  Session(JobSource& blobs, const TrialJob& job, const std::filesystem::path& worker)
      : blobs_(blobs), runner_(options_of(blobs, job, worker)) {}

  void run(const TrialJob& job, TrialAnswer& answer) {
    for (const int64_t id : job.dropped) drop(id);
    bring(job.trusted, job, answer);
    for (const TrialVariant& v : job.variants) bring(v, job, answer);
    if (!job.measures.empty()) measure(job, answer);
    if (job.traces != 0) trace(job, answer);
    answer.restarts = runner_.restarts(), answer.confined = runner_.confined();
  }

 private:
  static constexpr int64_t kMostKept = int64_t{2} << 30;  ///< bytes

  /// The database may have been changed, and a job's signature covers only the hashes.
  static std::string fetch(JobSource& blobs, const std::string& hash) {
    std::string bytes = blobs.blob(hash);
    const std::string got = sha256(std::as_bytes(std::span(bytes)));
    if (got == hash) return bytes;
    fail(
        ErrorKind::bad_input,
        "the blob {} has the hash {}, so nothing in it was run: the database was changed or is damaged; its owner must "
        "delete this row of kilter.blobs",
        hash, got);
  }

  static std::string fetch(JobSource& blobs, const Stored& stored) {
    std::string bytes;
    for (const std::string& hash : stored.hashes) bytes += fetch(blobs, hash);
    if (static_cast<int64_t>(bytes.size()) != stored.bytes)
      fail(ErrorKind::bad_input, "blobs of {} bytes; the job expects {}", bytes.size(), stored.bytes);
    return bytes;
  }

  static tune::RunnerOptions options_of(JobSource& blobs, const TrialJob& job, const std::filesystem::path& worker) {
    tune::RunnerOptions options;
    for (const TrialInput& input : job.inputs) {
      Tensor t(input.type, input.shape);
      const std::string bytes = fetch(blobs, input.data);
      if (static_cast<int64_t>(bytes.size()) != t.bytes())
        fail(ErrorKind::bad_input, "an input of {} bytes; its shape expects {}", bytes.size(), t.bytes());
      if (!bytes.empty()) std::memcpy(t.raw(), bytes.data(), bytes.size());
      options.inputs.push_back(std::move(t));
    }
    options.threads = job.threads;
    options.timeout_ms = job.timeout_ms, options.timeout_factor = job.timeout_factor;
    options.worker = worker;
    return options;
  }

  void bring(const TrialVariant& variant, const TrialJob& job, TrialAnswer& answer) {
    const bool reported = std::ranges::find(job.loads, variant.id) != job.loads.end();
    if (ids_.contains(variant.id) && !reported) return;
    drop(variant.id);  // a job that is done again
    Loaded loaded = load(variant, reported ? job.how_to_load : tune::LoadOptions{.check = false});
    if (loaded.id) ids_[variant.id] = *std::exchange(loaded.id, variant.id);
    for (tune::Fault& fault : loaded.faults) fault.variant = variant.id;
    if (reported) {
      answer.loaded.push_back(std::move(loaded));
    } else if (!loaded.id) {
      fail(ErrorKind::bad_input, "a variant that could be loaded before cannot be loaded now: {}",
           loaded.faults.empty() ? "no reason is known" : loaded.faults.front().words);
    }
  }

  Loaded load(const TrialVariant& variant, const tune::LoadOptions& how) {
    const std::string package = fetch(blobs_, variant.package);
    tune::Unpacked got =
        tune::unpack_variant(std::as_bytes(std::span(package)), nullptr, tune::ConstantStore::kReserve);
    if (got.parts.size() != variant.parts.size())
      fail(ErrorKind::bad_input, "a variant with {} parts; the job names {}", got.parts.size(), variant.parts.size());
    std::vector<StorePart> parts;
    for (size_t i = 0; i < got.parts.size(); ++i) {
      parts.push_back(keep(variant.parts[i]));
      if (parts.back().bytes != got.parts[i].bytes)
        fail(ErrorKind::bad_input, "a constant of {} bytes; the variant expects {}", parts.back().bytes,
             got.parts[i].bytes);
    }
    tune::move_constants(got.plan, got.parts, runner_.store(), parts);
    Loaded loaded = runner_.load(got.plan, got.values, how);
    forget_oldest();
    return loaded;
  }

  /// Returns the part of the store that has these bytes.
  StorePart keep(const Stored& stored) {
    const std::string key = fmt::format("{}", fmt::join(stored.hashes, " "));
    const auto known = kept_.find(key);
    if (known != kept_.end()) return known->second;
    const std::string bytes = fetch(blobs_, stored);
    const StorePart part = runner_.store().add(std::as_bytes(std::span(bytes)));
    kept_.emplace(key, part);
    order_.push_back(key);
    kept_bytes_ += part.bytes;
    return part;
  }

  void forget_oldest() {
    while (kept_bytes_ > kMostKept && !order_.empty()) {
      const auto oldest = kept_.find(order_.front());
      kept_bytes_ -= oldest->second.bytes;
      runner_.store().release(oldest->second);
      kept_.erase(oldest);
      order_.pop_front();
    }
  }

  void drop(int64_t id) {
    const auto known = ids_.find(id);
    if (known == ids_.end()) return;
    runner_.drop(known->second);
    ids_.erase(known);
  }

  void measure(const TrialJob& job, TrialAnswer& answer) {
    std::vector<VariantId> here;
    std::map<VariantId, int64_t> theirs;
    for (const int64_t id : job.measures) {
      here.push_back(ours(id));
      theirs[here.back()] = id;
    }
    answer.laps = runner_.measure(here, job.how_to_measure);
    for (VariantId& id : answer.laps.ids) id = theirs.at(id);
    for (tune::Fault& fault : answer.laps.faults) {
      const int64_t id = theirs.at(fault.variant);
      fault.variant = id;
    }
  }

  void trace(const TrialJob& job, TrialAnswer& answer) {
    answer.traced = runner_.trace(ours(job.traces), job.taps);
    if (answer.traced.fault) answer.traced.fault->variant = job.traces;
  }

  VariantId ours(int64_t id) const {
    const auto known = ids_.find(id);
    if (known == ids_.end()) fail(ErrorKind::bad_input, "a job runs variant {}, which it does not have", id);
    return known->second;
  }

  JobSource& blobs_;
  tune::LocalRunner runner_;
  std::map<int64_t, VariantId> ids_;  ///< by the submitter's
  std::map<std::string, StorePart> kept_;
  std::deque<std::string> order_;
  int64_t kept_bytes_ = 0;
};

TrialHost::TrialHost(JobSource& blobs, std::filesystem::path worker) : blobs_(blobs), worker_(std::move(worker)) {}
TrialHost::~TrialHost() = default;

TrialAnswer TrialHost::run(const TrialJob& job) {
  TrialAnswer answer;
  try {
    if (session_name_ != job.session) {
      session_.reset();  // before the next one takes memory
      session_ = std::make_unique<Session>(blobs_, job, worker_);
      session_name_ = job.session;
    }
    session_->run(job, answer);
  } catch (const ConnectionError&) {
    throw;
  } catch (const Error& e) {
    session_name_.clear();  // whatever state it is in
    answer = {};
    answer.error = e.message(), answer.kind = e.kind();
  }
  return answer;
}

}  // namespace kilter::fleet
