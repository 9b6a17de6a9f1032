#include "profile/schedules.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "base/text.h"
#include "profile/bounds.h"
#include "schedule/emit.h"
#include "schedule/model/register_tile.h"

namespace kilter::profile {
namespace {

using nlohmann::json;

const Step& main_step(const Compiled& c, const LayerSchedule& layer) { return c.plan.steps[layer.steps.back()]; }
const StepNotes& notes_of(const Compiled& c, const LayerSchedule& layer) { return c.notes[layer.steps.back()]; }

/// Returns the most operations in a cycle of one core for products of f32, bf16 or bytes (Step::multiplies).
double rate_of(DType products, const CpuLimits& limits) {
  const double f32 = limits.flops_per_cycle();
  if (products == DType::f32) return f32;
  const bool bf16 = products == DType::bf16;
  const double group = 4.0 / static_cast<double>(size_bytes(products));
  const double dots = bf16 ? 2 * limits.bf16_dots_per_cycle  // products in a cycle for each i32 or f32 of a vector
                           : std::max(4 * limits.byte_dots_per_cycle, 2 * limits.word_dots_per_cycle);
  const double vectors = 2 * dots * limits.lanes_f32();
  const bool tiles = bf16 ? limits.bf16_tiles : limits.byte_tiles;
  constexpr double kPairs = kTileRows * kTileRows * kTileRowBytes / 4;  // of groups, in a product of tile registers
  return std::max({f32, vectors, tiles ? 2 * group * kPairs / limits.tile_dot_cycles : 0});
}

/// Returns the bound for these operations (two per multiply-add) and these bytes, streamed at the highest rate that the
/// models assume.
StaticBound bound_of(int64_t flops, int64_t bytes, DType products, const CpuLimits& limits) {
  const double stream = static_cast<double>(bytes) / reread_rate(0, limits);
  const double arithmetic = static_cast<double>(flops) / rate_of(products, limits);
  return flops > 0 && arithmetic >= stream ? StaticBound{arithmetic, "arithmetic"} : StaticBound{stream, "bytes"};
}

void set_bounds(const Compiled& c, LayerSchedule& layer, const CpuLimits& limits) {
  const bool counts = main_step(c, layer).role == StepRole::contraction;
  const int64_t bytes = notes_of(c, layer).task_bytes;
  const DType products = main_step(c, layer).multiplies;
  layer.bound = bound_of(counts ? layer.flops : 0, layer.bytes, products, limits);
  layer.exact_least = bound_of(counts ? layer.effective_flops : 0, bytes, products, limits).cycles;
  layer.any_least = bound_of(0, bytes, products, limits).cycles;
}

/// Returns the cycles reported for a schedule: those of its model, but never less than its bound. Models rank schedules
/// of one template and leave out the cost that these have in common.
double shown_cycles(const Compiled& c, const LayerSchedule& layer, const Schedule& schedule, const Estimate& e) {
  if (schedule.text() == main_step(c, layer).schedule) return std::max(e.cycles, layer.bound.cycles);
  const Template* from = find_template(schedule.name);
  const bool exact = from != nullptr && from->approximates == nullptr;
  return std::max(e.cycles, exact ? layer.exact_least : layer.any_least);
}

/// Returns the cycles of the schedule that runs, or 0 without a model.
double shown_cycles(const Compiled& c, const LayerSchedule& layer) {
  const auto& estimate = notes_of(c, layer).estimate;
  return estimate ? std::max(estimate->cycles, layer.bound.cycles) : 0;
}

std::vector<LayerSchedule> of_node(std::vector<LayerSchedule> layers, const Compiled& c, const std::string& node) {
  if (node.empty()) return layers;
  std::set<std::string> names;
  for (const LayerSchedule& l : layers) names.insert(main_step(c, l).name);
  const std::vector<std::string> meant = layers_named(c, names, node);
  if (meant.empty())
    fail(ErrorKind::usage, "--node {}: no layer has this name; legal values are {}", node, fmt::join(names, ", "));
  std::erase_if(layers,
                [&](const LayerSchedule& l) { return std::ranges::find(meant, main_step(c, l).name) == meant.end(); });
  return layers;
}

/// Formats cycles for readers, e.g. "12.3 k" or "4.56 M".
std::string cycles_text(double cycles) {
  if (cycles >= 1e6) return fmt::format("{:.2f} M cycles", cycles * 1e-6);
  if (cycles >= 1e4) return fmt::format("{:.1f} k cycles", cycles * 1e-3);
  return fmt::format("{:.0f} cycles", cycles);
}

std::string line(std::string_view what, const std::string& text) {
  return fmt::format("    {:<11} {}\n", what, printable(text));
}

std::string mb(int64_t bytes) { return fmt::format("{:.3f} MB", static_cast<double>(bytes) * 1e-6); }

/// Returns the kind of task that a template is for, if this task is of a different kind: "MatMul", "feeder: a
/// convolution".
std::string kind_wanted(const Rejected& why) {
  return why.check.starts_with("operator") ? why.limit : fmt::format("{}: {}", why.check, why.limit);
}

/// Returns the name of the limit on packed weights.
std::string_view weight_limiter(const Compiled& c) { return c.memory ? "--memory" : "the default limit of weights"; }

std::string work_text(const Compiled& c, const LayerSchedule& layer) {
  std::string out = fmt::format("{:.3f} MFLOP", static_cast<double>(layer.flops) * 1e-6);
  if (layer.effective_flops != layer.flops)
    out += fmt::format(" executed, {:.3f} as defined", static_cast<double>(layer.effective_flops) * 1e-6);
  out += "; " + mb(layer.bytes);
  if (layer.bytes > 0)
    out += fmt::format("; {:.1f} FLOP a byte", static_cast<double>(layer.flops) / static_cast<double>(layer.bytes));
  if (const int64_t weights = weight_bytes(main_step(c, layer)); weights > 0)
    out += fmt::format("; {} of packed constants", mb(weights));
  return out;
}

std::string model_text(const Compiled& c, const LayerSchedule& layer) {
  const StepNotes& notes = notes_of(c, layer);
  const std::string bound = fmt::format("lower bound {}, set by {}", cycles_text(layer.bound.cycles),
                                        layer.bound.by == "bytes" ? "bytes from L2" : layer.bound.by);
  if (!notes.estimate) return "none for this template; " + bound;
  const Estimate& e = *notes.estimate;
  const double cycles = shown_cycles(c, layer);
  std::string out = cycles_text(cycles) + " on one core";
  if (const std::string counted = cycles_text(e.cycles); cycles_text(cycles) != counted)
    out += fmt::format(" (raised to the lower bound; the model counts {})", counted);
  return out + fmt::format(", {:.1f} % of them in tiles that are not full; {}: {:.0f} % of the predicted cycles",
                           100 * e.tail, bound, 100 * layer.bound.cycles / cycles);
}

/// Compares the cycles of another schedule with those of the chosen one.
std::string beside(const Compiled& c, const LayerSchedule& layer, const Ranked& other) {
  const double cycles = shown_cycles(c, layer, other.schedule, other.estimate), taken = shown_cycles(c, layer);
  std::string out = cycles_text(cycles);
  if (taken > 0) out += fmt::format(" ({:+.1f} %)", 100 * (cycles / taken - 1));
  return out;
}

/// Describes the schedule that the layer gave up because its packed weights were too large.
std::string given_up_text(const Compiled& c, const GivenUp& g) {
  return fmt::format("{} ruled out {}: {} of packed weights, now {}", weight_limiter(c), g.schedule.text(), mb(g.bytes),
                     mb(g.now_bytes));
}

constexpr size_t kMostOthers = 3;  ///< maximum number of schedules of one template in the text

std::string ranked_text(const Compiled& c, const LayerSchedule& layer, const TemplateView& v) {
  std::string out;
  size_t shown = 0;
  for (const Ranked& r : v.ranked) {
    if (r.schedule.text() == main_step(c, layer).schedule || shown == kMostOthers) continue;
    ++shown;
    out += line("  ranked", fmt::format("{}: {}", r.schedule.text(), beside(c, layer, r)));
  }
  return out;
}

std::string standing_text(const Compiled& c, const TemplateView& v) {
  switch (v.standing) {
    case TemplateView::preferred:
      return "would be the default; another schedule was forced";
    case TemplateView::behind:
      return "applies, but ranks behind the chosen template";
    case TemplateView::barred:
      return "applies, but --accuracy strict excludes it";
    case TemplateView::forbidden:
      return "applies; " + v.why->text();
    case TemplateView::given_up:
      return fmt::format("applies, but its packed weights are too large ({})", weight_limiter(c));
    case TemplateView::chosen:
    case TemplateView::rejected:
      break;
  }
  return v.why ? v.why->text() : "";
}

std::string templates_text(const Compiled& c, const LayerSchedule& layer) {
  std::string out;
  std::vector<std::string> others;
  for (const TemplateView& v : notes_of(c, layer).templates) {
    if (v.standing == TemplateView::rejected && v.why->other_kind) {
      others.push_back(fmt::format("{} ({})", v.from->name, kind_wanted(*v.why)));
      continue;
    }
    const std::string what =
        v.fallback && v.standing != TemplateView::chosen ? v.fallback->text() : std::string(v.from->name);
    const std::string why = v.standing == TemplateView::chosen ? std::string(v.from->summary) : standing_text(c, v);
    out += line(name(v.standing), fmt::format("{}: {}", what, why)) + ranked_text(c, layer, v);
  }
  if (!others.empty()) out += line("rejected", fmt::format("for other kinds of tasks: {}", fmt::join(others, ", ")));
  return out;
}

/// Returns why the layer's nodes run in a separate layer although another one could have included them.
std::vector<const Unfused*> kept_apart(const Compiled& c, const StepNotes& notes) {
  std::vector<const Unfused*> out;
  for (const Unfused& u : c.unfused) {
    if (std::ranges::find(notes.nodes, u.node) != notes.nodes.end()) out.push_back(&u);
  }
  return out;
}

std::string layer_text(const Compiled& c, const LayerSchedule& layer) {
  const Step& step = main_step(c, layer);
  const StepNotes& notes = notes_of(c, layer);
  std::string out = fmt::format("{} '{}'", step.ops, printable(step.name));
  if (notes.nodes.size() > 1) out += fmt::format(" (nodes {})", printable(join(notes.nodes, ", ")));
  out += "\n";
  if (step.kind == StepKind::halo) return out + line("work", "zeroes " + mb(layer.bytes));
  out += line("problem", step.problem);
  out += line("schedule", step.schedule);
  if (!step.record.empty()) out += line("record", step.record);
  if (notes.given_up) out += line("memory", given_up_text(c, *notes.given_up));
  for (const Unfused* u : kept_apart(c, notes))
    out += line("apart", fmt::format("'{}' does not run in '{}': {}", u->node, u->group, u->reason));
  out += line("operands", fmt::format("{} | {}", step.shapes, step.layouts));
  for (size_t s : layer.steps) {
    if (layer.steps.size() == 1) break;
    const Step& stage = c.plan.steps[s];
    out += line("stage", fmt::format("{}: {} work items, {:.3f} MFLOP, {}", stage.ops, stage.extent,
                                     static_cast<double>(stage.flops) * 1e-6, mb(stage.bytes)));
  }
  out += line("work", work_text(c, layer));
  out += line("model", model_text(c, layer));
  if (const std::string_view error = approximation_of(step.schedule); !error.empty())
    out += line("accuracy", fmt::format("approximates: {}", error));
  return out + templates_text(c, layer);
}

json estimate_json(const Estimate& e, double cycles) {
  json out{{"cycles", cycles}, {"tail", e.tail}};
  if (cycles > e.cycles) out["model_cycles"] = e.cycles;
  return out;
}

json rejected_json(const Rejected& r) {
  json out{{"check", r.check}, {"limit", r.limit}, {"got", r.got}};
  if (r.other_kind) out["other_kind"] = true;
  return out;
}

json schedule_json(const Schedule& schedule) {
  json knobs = json::object();
  for (const auto& [key, value] : schedule.knobs) knobs[key] = value;
  return {{"text", schedule.text()}, {"template", schedule.name}, {"knobs", knobs}};
}

json template_json(const Compiled& c, const LayerSchedule& layer, const TemplateView& v) {
  json ranked = json::array();
  for (const Ranked& r : v.ranked) {
    json row = estimate_json(r.estimate, shown_cycles(c, layer, r.schedule, r.estimate));
    row["schedule"] = r.schedule.text();
    ranked.push_back(std::move(row));
  }
  json out{{"template", v.from->name}, {"standing", name(v.standing)}, {"ranked", ranked}};
  if (v.why) out["rejected"] = rejected_json(*v.why);
  if (v.fallback) out["schedule"] = v.fallback->text();
  if (v.from->approximates != nullptr && v.fallback) out["approximates"] = v.from->approximates(*v.fallback);
  return out;
}

json stage_json(const Compiled& c, size_t s) {
  const Step& step = c.plan.steps[s];
  json out{{"step", s}, {"ops", step.ops}, {"work_items", step.extent}, {"flops", step.flops}, {"bytes", step.bytes}};
  if (step.kernel >= 0) {
    out["kernel_key"] = fmt::format("{:016x}", step.key);
    out["loops_hash"] = fmt::format("{:016x}", c.notes[s].loops);
  }
  return out;
}

std::string_view kind_of(const Step& step) {
  switch (step.kind) {
    case StepKind::kernel:
      return "kernel";
    case StepKind::reference:
      return "reference";
    case StepKind::halo:
      return "halo";
    case StepKind::copy:
      break;
  }
  return "copy";
}

json given_up_json(const GivenUp& g) {
  return {{"schedule", g.schedule.text()}, {"weight_bytes", g.bytes}, {"now_weight_bytes", g.now_bytes}};
}

json layer_json(const Compiled& c, const LayerSchedule& layer) {
  const Step& step = main_step(c, layer);
  const StepNotes& notes = notes_of(c, layer);
  json stages = json::array(), templates = json::array();
  for (size_t s : layer.steps) stages.push_back(stage_json(c, s));
  for (const TemplateView& v : notes.templates) templates.push_back(template_json(c, layer, v));
  json out{{"name", step.name},
           {"kind", kind_of(step)},
           {"ops", step.ops},
           {"nodes", notes.nodes},
           {"problem", step.problem},
           {"shapes", step.shapes},
           {"layouts", step.layouts},
           {"stages", stages},
           {"flops", layer.flops},
           {"effective_flops", layer.effective_flops},
           {"bytes", layer.bytes},
           {"constant_bytes", weight_bytes(step)},
           {"bound", {{"cycles", layer.bound.cycles}, {"by", layer.bound.by}}},
           {"templates", templates}};
  for (const Unfused* u : kept_apart(c, notes))
    out["apart"].push_back({{"node", u->node}, {"from", u->group}, {"reason", u->reason}});
  if (!step.schedule.empty()) out["schedule"] = schedule_json(parse_schedule(step.schedule));
  if (!step.record.empty()) out["record"] = step.record;
  if (notes.estimate) out["predicted"] = estimate_json(*notes.estimate, shown_cycles(c, layer));
  if (notes.given_up) out["given_up"] = given_up_json(*notes.given_up);
  return out;
}

json weights_json(const Compiled& c) {
  json out{{"bytes", c.weight_bytes}, {"wanted", c.wanted_bytes}, {"limit", c.weight_limit}, {"slimmed", c.slimmed}};
  if (c.memory) out["memory"] = *c.memory;
  return out;
}

}  // namespace

std::string_view approximation_of(const std::string& schedule) {
  const auto parsed = try_parse_schedule(schedule);
  const Template* from = parsed ? find_template(parsed->name) : nullptr;
  return from == nullptr || from->approximates == nullptr ? std::string_view() : from->approximates(*parsed);
}

std::vector<LayerSchedule> layer_schedules(const Compiled& c, const CpuLimits& limits) {
  std::vector<LayerSchedule> layers;
  for (size_t s = 0; s < c.plan.steps.size(); ++s) {
    const Step& step = c.plan.steps[s];
    const Step* before = layers.empty() ? nullptr : &main_step(c, layers.back());
    const bool stage = before != nullptr && step.kind == StepKind::kernel && before->kind == StepKind::kernel &&
                       before->name == step.name && before->problem == step.problem;
    if (!stage) layers.emplace_back();
    LayerSchedule& layer = layers.back();
    layer.steps.push_back(s);
    layer.flops += step.flops, layer.effective_flops += step.effective_flops, layer.bytes += step.bytes;
  }
  for (LayerSchedule& layer : layers) set_bounds(c, layer, limits);
  return layers;
}

std::vector<std::string> layers_named(const Compiled& c, const std::set<std::string>& layers, const std::string& node) {
  if (layers.contains(node)) return {node};
  const auto found = c.layers_of_nodes.find(node);
  std::vector<std::string> meant = found == c.layers_of_nodes.end() ? std::vector<std::string>{} : found->second;
  std::erase_if(meant, [&](const std::string& layer) { return !layers.contains(layer); });
  return meant;
}

std::string memory_text(const Compiled& c) {
  if (c.slimmed.empty()) return "";
  const bool one = c.slimmed.size() == 1;
  return fmt::format(
      "memory: {} kernels with smaller weights than {}: {} of packed weights instead of {}; the limit is {} ({})",
      one ? "1 layer runs" : fmt::format("{} layers run", c.slimmed.size()),
      one ? "its fastest one" : "their fastest ones", mb(c.weight_bytes), mb(c.wanted_bytes), mb(c.weight_limit),
      c.memory ? fmt::format("--memory {} less an arena of {}", *c.memory, mb(c.plan.arena_bytes))
               : "64 MiB, or 2.5 times the parameters");
}

std::string schedules_text(const Compiled& c, const CpuLimits& limits, const std::string& node) {
  std::string out;
  if (const std::string memory = memory_text(c); !memory.empty())
    out += fmt::format("{}: {}\n\n", memory, printable(join(c.slimmed, ", ")));
  const std::vector<LayerSchedule> layers = of_node(layer_schedules(c, limits), c, node);
  if (!node.empty() && main_step(c, layers.front()).name != node) {
    std::vector<std::string> names;
    for (const LayerSchedule& layer : layers) names.push_back(main_step(c, layer).name);
    out += fmt::format("'{}' runs in {}\n\n", printable(node), printable(join(names, ", ")));
  }
  for (const LayerSchedule& layer : layers) out += layer_text(c, layer) + "\n";
  return out;
}

json schedules_json(const Compiled& c, const CpuLimits& limits, const std::string& node) {
  json layers = json::array();
  for (const LayerSchedule& layer : of_node(layer_schedules(c, limits), c, node))
    layers.push_back(layer_json(c, layer));
  return {
      {"format", "kilter-schedules-1"}, {"model", c.plan.model},      {"target", c.plan.target}, {"cpu", c.plan.cpu},
      {"codegen", c.plan.codegen},      {"weights", weights_json(c)}, {"layers", layers}};
}

}  // namespace kilter::profile
