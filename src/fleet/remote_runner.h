// Runs variants on an agent of a fleet: the Runner of a tuner that compiles here and measures there.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "exec/signature.h"
#include "fleet/agent/trial_job.h"
#include "fleet/answer_check.h"
#include "fleet/queue.h"
#include "tune/run/package.h"
#include "tune/run/runner.h"

namespace kilter::fleet {

struct RemoteOptions {
  std::string url;           ///< of the fleet's database
  std::string device_class;  ///< of the agents that measure
  std::string run;           ///< the jobs' run; empty: a random one
  int priority = 0;
  std::optional<SecretKey> key = {};  ///< signs the jobs; without one, only agents that trust anyone run them
  double patience_seconds = 60;       ///< how long all agents of the class may be silent
  /// Receives milliseconds for which a call waited beyond the agent's work: transfers, the queue, and jobs of others,
  /// in one part or several. May be empty.
  std::function<void(double)> overhead = {};
};

/// Returns the agent of a class that was heard from last. Throws io, naming the other agents, if none was heard from
/// for `patience_seconds`.
QueueAgent agent_of_class(Queue& queue, const std::string& device_class, double patience_seconds);

/// Each call is a job, so different calls may run on different agents of the class. Calls throw io if no agent is heard
/// from for too long or the server cannot be reached, unsupported if the job was cancelled or set aside, and bad_input
/// for an answer that no runner would give.
class RemoteRunner : public tune::Runner {
 public:
  /// Uses the inputs, threads and limits of `options`. Connects, and throws the errors of Queue().
  RemoteRunner(RemoteOptions remote, tune::RunnerOptions options);
  /// Cancels jobs that have not ended.
  ~RemoteRunner() override;

  using Runner::load;
  using Runner::measure;
  tune::Loaded load(const Plan& plan, std::span<const tune::StepValue> values,
                    const tune::LoadOptions& options) override;
  std::vector<tune::Loaded> load_all(std::span<const tune::Loadable> variants) override;
  tune::Laps measure(std::span<const tune::VariantId> ids, const tune::MeasureOptions& options) override;
  tune::Traced trace(tune::VariantId id, std::span<const tune::Tap> taps) override;
  void drop(tune::VariantId id) override;
  /// Returns the peaks of the machine of an agent, measured now.
  Peaks measure_peaks(int threads);
  tune::ConstantStore& store() override { return store_; }
  int64_t restarts() const override { return restarts_; }
  bool confined() const override { return confined_; }
  bool wants_recipes() const override { return true; }

 private:
  struct Known {
    TrialVariant variant;
    std::vector<tune::StorePart> parts;  ///< each needs one release()
    bool broken = false;
  };

  /// A tensor of the model, and its elements in the type in which agents get them.
  struct Source {
    Tensor tensor;    ///< kept, so that no other tensor gets its address
    Tensor elements;  ///< in this type
    Stored stored;
  };

  std::vector<tune::Loaded> load_all(std::span<const tune::Loadable> variants, const tune::LoadOptions& options);
  TrialJob job_for(std::span<const tune::VariantId> ids);
  Answered ask(const TrialJob& job);
  void check_known(tune::VariantId id, std::string_view what) const;
  void forget(tune::VariantId id);
  /// Pairs of a hash and its bytes.
  using Pieces = std::vector<std::pair<std::string, std::span<const std::byte>>>;
  /// Hashes bytes, and adds their pieces to those for upload(). Parts and tensors are hashed once.
  static Stored describe(std::span<const std::byte> bytes, Pieces& pieces);
  /// `recipes`: those of the variant's plan, by offset in the store.
  using Recipes = std::map<int64_t, const RecipeOfConstant*>;
  Recipes recipes_of(const Plan& plan) const;
  TrialPart describe(const tune::StorePart& part, const Recipes& recipes, Pieces& pieces);
  Stored describe(const Tensor& source, DType type, Pieces& pieces);
  void forget_sources();
  /// Uploads the pieces that the fleet does not have yet.
  void upload(const Pieces& pieces);

  RemoteOptions remote_;
  tune::RunnerOptions options_;
  tune::ConstantStore store_;
  Queue queue_;
  std::vector<TrialInput> inputs_;
  std::map<tune::VariantId, Known> variants_;
  StepNames steps_;                      ///< of these variants
  std::map<uint64_t, TrialPart> parts_;  ///< by serial number
  std::map<std::pair<const std::byte*, DType>, Source> sources_;
  int64_t sources_bytes_ = 0;
  std::vector<int64_t> dropped_;  ///< since the last job
  std::string session_;
  tune::VariantId last_id_ = 0, trusted_ = 0;
  int64_t restarts_ = 0;
  bool confined_ = false;
};

}  // namespace kilter::fleet
