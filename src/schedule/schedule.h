// Templates and schedules. A template is one file of this folder: the space of its knobs as data, an analytic pick of
// the default, and the lowering to loop IR. A schedule is a template's name and the values of its knobs.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/error.h"
#include "loop/loop.h"
#include "schedule/problem/task.h"
#include "target/target.h"

namespace kilter {

struct Schedule {
  std::string name;                                    ///< of the template
  std::vector<std::pair<std::string, int64_t>> knobs;  ///< in the template's order

  /// Value of a knob; internal error when the template did not set it.
  int64_t knob(std::string_view key) const;
  /// "conv2d_direct tile=14 rows=1 vectors=2 unroll=4"
  std::string text() const;
  bool operator==(const Schedule&) const = default;
};
/// Whether `pattern`, a template alone or a schedule with its knobs in any order, means this schedule.
bool covers(const Schedule& pattern, const Schedule& schedule);
/// Reads Schedule::text(), or a template's name alone. Throws usage naming the word that is malformed or the knob that
/// comes twice.
Schedule parse_schedule(std::string_view text);
/// Nothing for a text that parse_schedule() refuses, such as a record's of another version.
std::optional<Schedule> try_parse_schedule(std::string_view text);

/// A template, or one schedule of it, that is not to be taken.
struct Forbidden {
  Schedule schedule;  ///< without knobs: any of the template
  std::string node;   ///< the task's anchor; empty: any

  /// "conv2d_winograd@conv1".
  std::string text() const { return schedule.text() + (node.empty() ? "" : "@" + node); }
};
/// Rejected::check of what is forbidden.
constexpr std::string_view kForbid = "--forbid";
/// Reads "TEMPLATE", "TEMPLATE@NODE" or "SCHEDULE@NODE"; "*" for any node; a template may be named as template_of()
/// takes it. Throws usage for a text without one.
Forbidden parse_forbidden(const std::string& text);
/// The first that means this schedule of this node's task; null without one.
const Forbidden* forbids(std::span<const Forbidden> all, std::string_view node, const Schedule& schedule);

/// What one argument of a stage is.
struct StageArg {
  enum Kind : uint8_t {
    value,     ///< operand `index` = ValueId
    constant,  ///< Lowered::constants[index]
    temp,      ///< Lowered::temp_bytes[index]: arena memory that lives from the first to the last stage
  } kind = value;
  int32_t index = 0;
};

/// What a stage does in one run, where that is not its share of the task's arithmetic and operands.
struct StageWork {
  int64_t flops = 0;            ///< executed
  int64_t effective_flops = 0;  ///< of the task's arithmetic
  int64_t bytes = 0;            ///< read and written, each buffer once
};

/// One kernel of a lowered task; stages run one after another.
struct Stage {
  LoopFunc func;
  std::vector<StageArg> args;  ///< for the function's non-scratch buffers, in order
  bool packs = false;          ///< only lays out an operand for a later stage; others share the task's arithmetic
  std::optional<StageWork> work = {};
};

/// A constant as a kernel wants it, dense. It is packed when it is wanted: a search lowers many schedules of a task
/// that share it.
struct Packing {
  ValueId from = kNone;  ///< the constant operand that it is made of; kNone: of more than one, or of none
  std::string form;      ///< how: equal forms of one operand have equal bytes; empty where `from` is kNone
  DType dtype = DType::f32;
  int64_t elems = 0;
  std::function<Tensor()> make;  ///< does not look at the task; may be called once the graph is gone
};

struct Lowered {
  std::vector<Stage> stages;
  std::vector<Packing> constants;
  std::vector<int64_t> temp_bytes;
};

struct Knob {
  std::string name;
  std::vector<int64_t> values;  ///< legal ones, ascending
};

template <class T>
using Answer = std::variant<T, Rejected>;

/// What the analytic model of a template expects of a schedule.
struct Estimate {
  double cycles = 0;           ///< of one core, for the whole task
  double tail = 0;             ///< share of them (0..1) that is lost because the last tiles and vectors are not full
  int64_t constant_bytes = 0;  ///< of the weights as it packs them, where its forms differ in that
};

struct Template {
  std::string_view name;
  std::string_view summary;
  /// Knobs with their legal values for this task, or why the template does not apply.
  Answer<std::vector<Knob>> (*space)(const Task&, const TargetLimits&);
  /// The default by the analytic model; deterministic, from static limits only.
  Answer<Schedule> (*pick)(const Task&, const TargetLimits&);
  /// Pure function of its arguments. Rejects knob values outside of space().
  Answer<Lowered> (*lower)(const Task&, const Schedule&, const TargetLimits&);
  /// The schedules that the model ranks, pick()'s among them; null for templates without a model.
  std::vector<Schedule> (*candidates)(const Task&, const TargetLimits&) = nullptr;
  /// The model's view of one schedule; null for templates without a model.
  Answer<Estimate> (*estimate)(const Task&, const Schedule&, const TargetLimits&) = nullptr;
  /// For templates that round in other places than a sum of the operator's products does, whatever their order: how
  /// much a schedule errs, in words with figures. Null for all others.
  std::string_view (*approximates)(const Schedule&) = nullptr;
};

enum class Accuracy : uint8_t {
  normal,  ///< templates that approximate are defaults where they are within the gates of doc/accuracy.md
  strict,  ///< they are not chosen; forced ones are
};

struct Ranked {
  Schedule schedule;
  Estimate estimate;
};
/// The best `most` candidates of a template by its model, fewest cycles first; equal ones in the template's order.
/// Empty when the template has no model or does not take the task.
std::vector<Ranked> rank(const Template& from, const Task& task, const TargetLimits& limits, size_t most);

/// What the model of a schedule's template expects of it; nullopt without a template, a model or where it does not
/// apply.
std::optional<Estimate> estimate_of(const Task& task, const Schedule& schedule, const TargetLimits& limits);

/// In order of preference: the first whose space() applies gives the default schedule.
std::span<const Template* const> all_templates();
const Template* find_template(std::string_view name);
/// The same, or the only template whose name ends in "_NAME"; null where there is none. Throws usage, naming the option
/// as it was written, where several end so.
const Template* template_of(std::string_view name, std::string_view option);

/// What a template may be the default with: its pick, or the best by its model that is not forbidden.
Answer<Schedule> default_pick(const Template& from, const Task& task, const TargetLimits& limits, Accuracy accuracy,
                              std::span<const Forbidden> forbidden);

/// The outcome of choosing for one task.
struct Chosen {
  Schedule schedule;  ///< name "reference" when no template applies
  Lowered lowered;
  std::vector<std::pair<std::string, Rejected>> rejected;  ///< templates before it, and why not
};
/// Whether choose() lowers `forced`. Throws usage for a name that no template has.
bool takes(const Task& task, const Schedule& forced, const TargetLimits& limits);
/// Picks the default that is not forbidden, or lowers `forced`; of a template without knobs what that would pick, be it
/// the default or not. Throws usage with the reason, which is about the node, where `forced` does not apply.
Chosen choose(const Task& task, const TargetLimits& limits, const std::optional<Schedule>& forced = {},
              Accuracy accuracy = Accuracy::normal, std::span<const Forbidden> forbidden = {});

/// Checks that every knob of `schedule` is in `space`; the template's lower() calls it first.
std::optional<Rejected> check_knobs(const Schedule& schedule, const std::vector<Knob>& space);

}  // namespace kilter
