#include "tune/tuner/plans/choices_file.h"

#include <fmt/format.h>

#include <set>

#include "base/error.h"
#include "base/text.h"
#include "graph/text.h"

namespace kilter::tune {
namespace {

constexpr int64_t kMostThreads = 1024;

/// Whether a name can be written without quotation marks and read back.
bool stands_as_it_is(const std::string& name) {
  return !name.starts_with('#') && !name.starts_with('"') && !name.starts_with("--") && trim(name) == name &&
         printable(name) == name;
}

std::string written(const std::string& name) { return stands_as_it_is(name) ? name : kilter::in_quotes(name); }

/// Reads a name as written by written(). Messages begin with `where`.
std::string read_name(std::string_view text, const std::string& where) {
  std::string name(trim(text));
  return name.starts_with('"') ? TextReader(name, where).quoted_text() : name;
}

/// Applies a `fuse=` word. Returns false for any other word.
bool take_fusion(std::string_view word, LayerChoice& choice) {
  for (const Fusion fusion : {Fusion::none, Fusion::before, Fusion::apart}) {
    if (word != fmt::format("fuse={}", name(fusion))) continue;
    choice.fuse = fusion;
    return true;
  }
  return false;
}

/// Applies a word that is a setting. Returns false for a word of the schedule.
bool take_setting(std::string_view word, LayerChoice& choice) {
  if (word == "layout=plain") return choice.plain = true;
  if (take_fusion(word, choice)) return true;
  if (!word.starts_with("threads=")) return false;
  choice.threads = static_cast<int32_t>(parse_int(word.substr(8), word, 1, kMostThreads));
  return true;
}

LayerChoice parse_choice(std::string_view text) {
  LayerChoice choice;
  std::string schedule;
  std::set<std::string_view> given;  // settings already seen
  for (const std::string_view word : split(text, ' ')) {
    if (word.empty()) continue;
    if (take_setting(word, choice)) {
      const std::string_view name = word.substr(0, word.find('='));
      if (!given.insert(name).second) fail(ErrorKind::bad_input, "{} is given twice; give it once", name);
      continue;
    }
    if (word.starts_with("layout=") || word.starts_with("fuse=")) {
      fail(ErrorKind::bad_input,
           "'{}': legal settings after the schedule are layout=plain, fuse=no, fuse=before, fuse=apart and threads=N",
           word);
    }
    schedule += (schedule.empty() ? "" : " ") + std::string(word);
  }
  if (!schedule.empty()) choice.schedule = parse_schedule(schedule);
  return choice;
}

/// Applies a line that begins with "--". Returns false if it does not set the precision.
bool take_precision(std::string_view line, const std::string& where, LayerPlan& plan) {
  constexpr std::string_view kPrecision = "--precision ", kKeepFloat = "--keep-float ";
  if (line.starts_with(kKeepFloat)) {
    const std::string node = read_name(line.substr(kKeepFloat.size()), where);
    return !node.empty() && plan.keep_float.insert(node).second;
  }
  if (!line.starts_with(kPrecision) || plan.precision) return false;
  for (const Precision precision : {Precision::bf16, Precision::fp16}) {
    if (trim(line.substr(kPrecision.size())) == name(precision)) plan.precision = precision;
  }
  return plan.precision.has_value();
}

}  // namespace

std::string text(const LayerPlan& plan, const std::string& notes) {
  std::string out;
  for (const std::string_view line : split(notes, '\n')) {
    if (!line.empty()) out += fmt::format("# {}\n", line);
  }
  if (plan.precision) out += fmt::format("--precision {}\n", name(*plan.precision));
  for (const std::string& node : plan.keep_float) out += fmt::format("--keep-float {}\n", written(node));
  for (const auto& [node, choice] : plan.choices) out += fmt::format("{} = {}\n", written(node), text(choice));
  return out;
}

std::string text(const Choices& choices, const std::string& notes) { return text(LayerPlan{choices, {}, {}}, notes); }

Choices parse_choices(std::string_view text, const std::string& where) { return parse_layer_plan(text, where).choices; }

LayerPlan parse_layer_plan(std::string_view text, const std::string& where) {
  LayerPlan out;
  size_t number = 0;
  for (std::string_view line : split(text, '\n')) {
    ++number;
    line = trim(line);
    if (line.empty() || line.front() == '#') continue;
    const auto refuse = [&](std::string_view expected, std::string_view got) {
      fail(ErrorKind::bad_input, "{} line {}: expected {}, got '{}'", where, number, expected, got);
    };
    if (line.starts_with("--")) {
      if (!take_precision(line, where, out))
        refuse("--precision bf16 or --precision fp16, once, or --keep-float NODE, once for each node", line);
      continue;
    }
    // Names of layers may contain " = " and "#"; choices contain neither.
    const size_t equals = line.rfind(" = ");
    if (equals == std::string_view::npos)
      refuse("NODE = TEMPLATE KNOB=VALUE ... [threads=N] [layout=plain] [fuse=no|before|apart]", line);
    const std::string node = read_name(line.substr(0, equals), where);
    LayerChoice choice;
    try {
      const std::string_view value = line.substr(equals + 3);
      choice = parse_choice(value.substr(0, value.find('#')));
    } catch (const Error& e) {
      fail(ErrorKind::bad_input, "{} line {}: {}", where, number, e.message());
    }
    if (node.empty()) refuse("the name of a layer before ' = '", line);
    const Origin here{ScheduleSource::layer_plan, fmt::format("{} line {}", where, number)};
    choice.set_origin(here);
    if (!out.choices.emplace(node, std::move(choice)).second) refuse("each layer once", node);
  }
  return out;
}

Choices choices_in_use(const Compiled& compiled) {
  Choices out;
  for (const Step& step : compiled.plan.steps) {
    if (step.schedule.empty() || step.role == StepRole::pack) continue;
    LayerChoice& choice = out[step.name];
    choice.schedule = parse_schedule(step.schedule);
    const LayerChoice& made = choice_for(compiled.choices, step.name);
    choice.threads = made.threads;
    if (made.fuse == Fusion::none) choice.fuse = made.fuse;
  }
  for (const auto& [node, made] : compiled.choices) {
    if (made.plain) out[node].plain = true;
  }
  return out;
}

}  // namespace kilter::tune
