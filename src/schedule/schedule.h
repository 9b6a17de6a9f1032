// Templates and schedules. A template is one file in templates/: its knobs as data, an analytic choice of the default,
// and the lowering to loop IR. A schedule is a template's name with values for its knobs.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/result.h"
#include "loop/loop.h"
#include "packing/recipe.h"
#include "schedule/problem/task.h"
#include "target/target.h"

namespace kilter {

struct Schedule {
  std::string name;                                    ///< of the template
  std::vector<std::pair<std::string, int64_t>> knobs;  ///< in the template's order

  /// The value of a knob. Internal error if the schedule does not set it.
  int64_t knob(std::string_view key) const;
  /// Returns "conv2d_direct vectors=2 rows=1 tile=14 prefetch=0".
  std::string text() const;
  bool operator==(const Schedule&) const = default;
};
/// Whether `pattern` denotes this schedule: it is only a template's name, or a schedule with its knobs in any order.
bool covers(const Schedule& pattern, const Schedule& schedule);
/// Reads Schedule::text(), or only a template's name. Throws usage, naming the malformed word or the repeated knob.
Schedule parse_schedule(std::string_view text);
/// Returns nullopt for a text that parse_schedule() refuses, such as one in a record from another version.
std::optional<Schedule> try_parse_schedule(std::string_view text);

/// A template, or one schedule of it, that must not be chosen.
struct Forbidden {
  Schedule schedule;  ///< without knobs: any schedule of the template
  std::string node;   ///< the task's anchor; empty: any task

  /// Returns "conv2d_winograd@conv1".
  std::string text() const { return schedule.text() + (node.empty() ? "" : "@" + node); }
};
/// Rejected::check of a forbidden schedule.
constexpr std::string_view kForbid = "--forbid";
/// Reads "TEMPLATE", "TEMPLATE@NODE" or "SCHEDULE@NODE"; NODE "*" means any node. The template may be named in any form
/// that template_of() accepts. Throws usage if no template has the name.
Forbidden parse_forbidden(const std::string& text);
/// The first entry that forbids this schedule for this node's task; null if none does.
const Forbidden* forbids(std::span<const Forbidden> all, std::string_view node, const Schedule& schedule);

/// One argument of a stage.
struct StageArg {
  enum Kind : uint8_t {
    value,     ///< operand `index` = ValueId
    constant,  ///< Lowered::constants[index]
    temp,      ///< Lowered::temp_bytes[index]: arena memory that lives from the first to the last stage
  } kind = value;
  int32_t index = 0;
};

/// The work of a stage in one run, if that is not an equal share of the task's arithmetic and operands.
struct StageWork {
  int64_t flops = 0;            ///< executed by the stage
  int64_t effective_flops = 0;  ///< the part of the task's arithmetic that these operations represent
  int64_t bytes = 0;            ///< read and written, each buffer once
};

/// One kernel of a lowered task; stages run one after another.
struct Stage {
  LoopFunc func;
  std::vector<StageArg> args;  ///< for the function's non-scratch buffers, in order
  bool packs = false;  ///< only lays out an operand for a later stage; the other stages share the task's arithmetic
  std::optional<StageWork> work = {};
};

/// A constant in the form in which a kernel reads it, dense. It is packed only when needed, since a search lowers many
/// schedules that share it.
struct Packing {
  ValueId from = kNone;  ///< the constant operand that is packed; kNone: several, or none
  std::string form;      ///< equal forms of one operand have equal bytes; empty if `from` is kNone
  DType dtype = DType::f32;
  int64_t elems = 0;
  /// Writes the bytes into memory that is zeroed and aligned to a cache line. Does not use the task, so it may be
  /// called after the graph has been destroyed.
  std::function<void(std::byte*)> fill;
  /// The recipe for what `fill` does to the elements of `from`, if there is one; files may contain it instead of the
  /// bytes.
  std::optional<Recipe> recipe = {};
  int64_t bytes() const { return elems * size_bytes(dtype); }
};
/// The constant operand `from`, which is `source`, packed by a recipe.
Packing packed_by(Recipe recipe, ValueId from, std::string form, DType type, const Tensor& source);

struct Lowered {
  std::vector<Stage> stages;
  std::vector<Packing> constants;
  std::vector<int64_t> temp_bytes;
};

struct Knob {
  std::string name;
  std::vector<int64_t> values;  ///< the legal values, ascending
};

/// The prediction of a template's analytic model for a schedule.
struct Estimate {
  double cycles = 0;           ///< of one core, for the whole task
  double tail = 0;             ///< share of the cycles (0..1) lost to partly filled last tiles and vectors
  int64_t constant_bytes = 0;  ///< of the packed weights, if the template's forms differ in size
};

/// The analysis of one task by one template, done once and used to answer all questions about the task. Keeps
/// references to the task and its graph.
class Analysed {
 public:
  Analysed(const Task& task, const CpuLimits& limits) : task_(&task), limits_(limits) {}
  virtual ~Analysed() = default;
  Analysed(const Analysed&) = delete;
  Analysed& operator=(const Analysed&) = delete;

  const Task& task() const { return *task_; }
  const CpuLimits& limits() const { return limits_; }

  /// The knobs with their legal values.
  virtual std::vector<Knob> space() const { return {}; }
  /// The default according to the analytic model. Deterministic; depends only on static limits. Rejected if the
  /// template accepts the task only when forced.
  virtual Result<Schedule> pick() const = 0;
  /// A legal schedule that is found quickly, and usually is as fast as that of pick().
  virtual Result<Schedule> quick() const { return pick(); }
  /// The schedules that the model ranks, pick()'s among them.
  virtual std::vector<Schedule> candidates() const = 0;
  /// The loop IR of a schedule. Rejects knob values outside space(), and those that do not fit together.
  Result<Lowered> lower(const Schedule& schedule) const;
  /// The model's prediction for a schedule. Rejects what lower() rejects.
  Result<Estimate> estimate(const Schedule& schedule) const;

 protected:
  /// Returns why knob values that are legal one by one do not fit together; nullopt if they do.
  virtual std::optional<Rejected> conflict(const Schedule&) const { return std::nullopt; }
  // This function and the next are called only with legal schedules that have no conflict.
  virtual Lowered emit(const Schedule& schedule) const = 0;
  virtual Estimate model(const Schedule& schedule) const = 0;

 private:
  const Task* task_;
  const CpuLimits limits_;
};

struct Template {
  std::string_view name;
  std::string_view summary;
  /// Analyses a task, or gives the reason why the template does not apply.
  Result<std::unique_ptr<const Analysed>> (*analyse)(const Task&, const CpuLimits&);
  /// For templates whose rounding differs from that of any summation order of the operator's products: a description of
  /// a schedule's error, with figures. Null for all others.
  std::string_view (*approximates)(const Schedule&) = nullptr;

  // The functions of Analysed, for callers that ask only one question about a task.
  Result<Schedule> pick(const Task& task, const CpuLimits& limits) const;
  Result<Lowered> lower(const Task& task, const Schedule& schedule, const CpuLimits& limits) const;
};

/// Template::analyse for a class T that derives from Analysed. If `find` returns a Result, T is constructed from the
/// task, the limits and the value in the Result; if it returns std::optional<Rejected>, from the task and the limits.
template <class T, auto find>
Result<std::unique_ptr<const Analysed>> analyse_as(const Task& task, const CpuLimits& limits) {
  auto found = find(task, limits);
  if constexpr (std::is_same_v<decltype(found), std::optional<Rejected>>) {
    if (found) return *found;
    return std::unique_ptr<const Analysed>(std::make_unique<const T>(task, limits));
  } else {
    if (!found) return found.rejected();
    return std::unique_ptr<const Analysed>(std::make_unique<const T>(task, limits, *std::move(found)));
  }
}

enum class Accuracy : uint8_t {
  normal,  ///< templates that approximate may be defaults if they are within the limits of doc/accuracy.md
  strict,  ///< templates that approximate are not defaults; they can still be forced
};

struct Ranked {
  Schedule schedule;
  Estimate estimate;
};
/// The best `most` candidates according to a template's model, fewest cycles first; ties keep the template's order.
std::vector<Ranked> rank(const Analysed& analysed, size_t most);
/// Ranks the schedules of a task that has not been analysed yet; empty if the template does not accept it.
std::vector<Ranked> rank(const Template& from, const Task& task, const CpuLimits& limits, size_t most);

/// Returns the prediction of the template's model for a schedule; nullopt if there is no such template, or if the
/// schedule does not apply.
std::optional<Estimate> estimate_of(const Task& task, const Schedule& schedule, const CpuLimits& limits);

/// All templates in order of preference: the first that applies gives the default schedule.
std::span<const Template* const> all_templates();
const Template* find_template(std::string_view name);
/// Finds a template by its name, or as the only one whose name ends in "_NAME". Null if there is none. Throws usage,
/// naming the option as it was written, if several names have this ending.
const Template* template_of(std::string_view name, std::string_view option);

/// The schedule with which a template may become the default of a task that it analysed: its pick or, if that is
/// forbidden, the best allowed schedule according to its model.
Result<Schedule> default_pick(const Template& from, const Analysed& analysed, Accuracy accuracy,
                              std::span<const Forbidden> forbidden);

/// The result of choosing a schedule for one task.
struct Chosen {
  Schedule schedule;  ///< name "reference" if no template applies
  Lowered lowered;
  std::vector<std::pair<std::string, Rejected>> rejected;  ///< preferred templates, and why they were rejected
};
/// Whether choose() can lower `forced`. Throws usage if no template has its name.
bool takes(const Task& task, const Schedule& forced, const CpuLimits& limits);
/// Chooses the default among the schedules that are not forbidden, or lowers `forced`. A forced template without knobs
/// gets the schedule that it picks itself, whether or not that would be the default. Throws usage with the reason if
/// `forced` does not apply.
Chosen choose(const Task& task, const CpuLimits& limits, const std::optional<Schedule>& forced = {},
              Accuracy accuracy = Accuracy::normal, std::span<const Forbidden> forbidden = {});

/// Checks that `schedule` sets every knob in `space` to a legal value, and no others.
std::optional<Rejected> check_knobs(const Schedule& schedule, const std::vector<Knob>& space);

}  // namespace kilter
