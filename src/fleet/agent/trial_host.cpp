#include "fleet/agent/trial_host.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/connection_error.h"
#include "base/error.h"
#include "exec/cpu_limits.h"
#include "exec/plan_check.h"
#include "fleet/agent/kept_parts.h"
#include "tune/run/package.h"

namespace kilter::fleet {

using tune::Loaded;
using tune::StorePart;
using tune::VariantId;

/// A runner with what it has loaded.
class TrialHost::Session {
 public:
  Session(JobSource& blobs, const TrialJob& job, const std::filesystem::path& worker)
      : blobs_(blobs),
        runner_(options_of(blobs, job, worker)),
        constants_(blobs, runner_.store(), available_memory() / 2) {}

  void run(const TrialJob& job, TrialAnswer& answer) {
    for (const int64_t id : job.dropped) drop(id);
    bring(job.trusted, job, answer);
    for (const TrialVariant& v : job.variants) bring(v, job, answer);
    if (!job.measures.empty()) measure(job, answer);
    if (job.traces != 0) trace(job, answer);
    answer.restarts = runner_.restarts(), answer.confined = runner_.confined();
  }

 private:
  static tune::RunnerOptions options_of(JobSource& blobs, const TrialJob& job, const std::filesystem::path& worker) {
    tune::RunnerOptions options;
    for (const TrialInput& input : job.inputs) {
      const auto expected = tensor_bytes(input.type, input.shape);
      if (expected != input.data.bytes)
        fail(ErrorKind::bad_input, "an input has {} bytes; expected the size of {} {}", input.data.bytes,
             name(input.type), text(input.shape));
      const std::string bytes = fetch(blobs, input.data);
      Tensor t(input.type, input.shape);
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
    drop(variant.id);  // if the job is repeated
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
      fail(ErrorKind::bad_input, "a variant has {} parts; the job names {}", got.parts.size(), variant.parts.size());
    std::vector<StorePart> parts;
    for (size_t i = 0; i < got.parts.size(); ++i) {
      parts.push_back(constants_.get(variant.parts[i]));
      if (parts.back().bytes != got.parts[i].bytes)
        fail(ErrorKind::bad_input, "a constant has {} bytes; the variant expects {}", parts.back().bytes,
             got.parts[i].bytes);
    }
    tune::move_constants(got.plan, got.parts, runner_.store(), parts);
    Loaded loaded = runner_.load(got.plan, got.values, how);
    constants_.forget();
    return loaded;
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
    if (known == ids_.end()) fail(ErrorKind::bad_input, "a job runs variant {}, which it does not contain", id);
    return known->second;
  }

  JobSource& blobs_;
  tune::LocalRunner runner_;
  std::map<int64_t, VariantId> ids_;  ///< by the submitter's id
  KeptParts constants_;
};

TrialHost::TrialHost(JobSource& blobs, std::filesystem::path worker) : blobs_(blobs), worker_(std::move(worker)) {}
TrialHost::~TrialHost() = default;

TrialAnswer TrialHost::run(const TrialJob& job) {
  TrialAnswer answer;
  try {
    if (job.peaks != 0) {
      answer.peaks = measure_peaks(job.peaks);
      return answer;
    }
    if (session_name_ != job.session) {
      session_.reset();  // before memory is allocated for the next one
      session_ = std::make_unique<Session>(blobs_, job, worker_);
      session_name_ = job.session;
    }
    session_->run(job, answer);
  } catch (const ConnectionError&) {
    throw;
  } catch (const Error& e) {
    session_name_.clear();  // its state is unknown
    answer = {};
    answer.error = e.message(), answer.kind = e.kind();
  }
  return answer;
}

}  // namespace kilter::fleet
