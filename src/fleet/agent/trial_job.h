// What a runner asks an agent to do, and the agent's answer, as payloads and results of the queue. Each job contains
// everything that an agent needs, so any agent of the class can run it. An agent keeps what it has loaded for earlier
// jobs of the same session.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/tensor.h"
#include "fleet/agent/stored.h"
#include "measure/machine/machine_peaks.h"
#include "packing/recipe.h"
#include "tune/run/runner.h"

namespace kilter::fleet {

/// Must change with every change of the format.
constexpr uint32_t kTrialProtocol = 4;
/// The queue's name for such jobs.
constexpr const char* kTrialKind = "trial";

struct TrialInput {
  DType type = DType::f32;
  Shape shape;
  Stored data;
};

/// A constant of a variant: its bytes, or the tensor that it is packed from.
struct TrialPart {
  Stored data = {};                   ///< with a recipe: a dense tensor of `type`, which many constants may share
  std::optional<Recipe> recipe = {};  ///< packs `data`
  DType type = DType::f32;            ///< with a recipe: element type of `data` and of the constant
  int64_t bytes = 0;                  ///< size of the constant
};

/// A variant, as tune::pack_variant() packs it.
struct TrialVariant {
  int64_t id = 0;  ///< the submitter's id
  Stored package;
  std::vector<TrialPart> parts;  ///< in the order of the package's parts
};

struct TrialJob {
  std::string session;  ///< jobs with the same inputs, options and trusted variant have the same one
  std::vector<TrialInput> inputs;
  int32_t threads = 1;
  double timeout_ms = 0, timeout_factor = 0;
  TrialVariant trusted;
  std::vector<int64_t> dropped;        ///< variants that are no longer needed
  std::vector<TrialVariant> variants;  ///< other variants that the job needs
  std::vector<int64_t> loads;          ///< those whose loading is reported
  tune::LoadOptions how_to_load;
  std::vector<int64_t> measures;  ///< variants; empty: measure nothing
  tune::MeasureOptions how_to_measure;
  int64_t traces = 0;  ///< a variant; 0: none
  std::vector<tune::Tap> taps;
  int32_t peaks = 0;  ///< threads with which to measure the machine's peaks, instead of all the above; 0: none
};

struct TrialAnswer {
  std::string error;  ///< why the job failed; empty if it succeeded
  ErrorKind kind = ErrorKind::internal;
  std::vector<tune::Loaded> loaded;  ///< in the order of TrialJob::loads
  tune::Laps laps;                   ///< times of steps have the precision of floats
  tune::Traced traced;
  Peaks peaks = {};
  int64_t restarts = 0;
  bool confined = false;
};

std::string pack(const TrialJob& job);
std::string pack(const TrialAnswer& answer);
/// Returns a name for the constant that a part describes; different constants have different names.
std::string name_of(const TrialPart& part);
/// Throw unsupported for another protocol, and bad_input for fields that are cut off or have illegal values.
TrialJob unpack_job(std::string_view bytes);
TrialAnswer unpack_answer(std::string_view bytes);

}  // namespace kilter::fleet
