#include "profile/schedules.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "profile/bounds.h"
#include "schedule/emit.h"
#include "schedule/register_tile.h"

namespace kilter::profile {
namespace {

using nlohmann::json;

const Step& main_step(const Compiled& c, const LayerSchedule& layer) { return c.plan.steps[layer.steps.back()]; }
const StepNotes& notes_of(const Compiled& c, const LayerSchedule& layer) { return c.notes[layer.steps.back()]; }

StaticBound bound_of(const Compiled& c, const LayerSchedule& layer, const TargetLimits& limits) {
  const double bytes = static_cast<double>(layer.bytes) / kL2BytesPerCycle;
  if (!contraction(main_step(c, layer))) return {bytes, "bytes"};
  const double arithmetic = static_cast<double>(layer.flops) / limits.flops_per_cycle();
  return arithmetic >= bytes ? StaticBound{arithmetic, "arithmetic"} : StaticBound{bytes, "bytes"};
}

std::vector<LayerSchedule> of_node(std::vector<LayerSchedule> layers, const Compiled& c, const std::string& node) {
  if (node.empty()) return layers;
  std::set<std::string> names;
  for (const LayerSchedule& l : layers) names.insert(main_step(c, l).name);
  if (!names.contains(node))
    fail(ErrorKind::usage, "--node {}: no layer has this name; legal are {}", node, fmt::join(names, ", "));
  std::erase_if(layers, [&](const LayerSchedule& l) { return main_step(c, l).name != node; });
  return layers;
}

/// "12.3 k", "4.56 M": cycles for readers.
std::string cycles_text(double cycles) {
  if (cycles >= 1e6) return fmt::format("{:.2f} M cycles", cycles * 1e-6);
  if (cycles >= 1e4) return fmt::format("{:.1f} k cycles", cycles * 1e-3);
  return fmt::format("{:.0f} cycles", cycles);
}

std::string line(std::string_view what, const std::string& text) { return fmt::format("    {:<11} {}\n", what, text); }

/// Whether a template is for other operators altogether.
bool other_operator(const Rejected& why) { return why.check.starts_with("operator"); }

std::string work_text(const Compiled& c, const LayerSchedule& layer) {
  std::string out = fmt::format("{:.3f} MFLOP", static_cast<double>(layer.flops) * 1e-6);
  if (layer.effective_flops != layer.flops)
    out += fmt::format(" executed, {:.3f} as defined", static_cast<double>(layer.effective_flops) * 1e-6);
  out += fmt::format("; {:.3f} MB", static_cast<double>(layer.bytes) * 1e-6);
  if (layer.bytes > 0)
    out += fmt::format("; {:.1f} FLOP a byte", static_cast<double>(layer.flops) / static_cast<double>(layer.bytes));
  if (const int64_t weights = weight_bytes(main_step(c, layer)); weights > 0)
    out += fmt::format("; {:.3f} MB of packed constants", static_cast<double>(weights) * 1e-6);
  return out;
}

std::string model_text(const LayerSchedule& layer, const StepNotes& notes) {
  const std::string bound = fmt::format("at least {} by {}", cycles_text(layer.bound.cycles),
                                        layer.bound.by == "bytes" ? "bytes (from L2)" : layer.bound.by);
  if (!notes.estimate) return "none for this template; " + bound;
  const Estimate& e = *notes.estimate;
  return fmt::format("{} of one core, {:.1f} % of them in tiles that are not full; {}, {:.0f} % of the prediction",
                     cycles_text(e.cycles), 100 * e.tail, bound, 100 * layer.bound.cycles / e.cycles);
}

/// Cycles of another schedule beside those of the one that was taken.
std::string beside(const Estimate& other, const StepNotes& notes) {
  std::string out = cycles_text(other.cycles);
  if (notes.estimate) out += fmt::format(" ({:+.1f} %)", 100 * (other.cycles / notes.estimate->cycles - 1));
  return out;
}

constexpr size_t kMostOthers = 3;  ///< schedules of one template that the text shows

std::string ranked_text(const TemplateView& v, const StepNotes& notes, const std::string& taken) {
  std::string out;
  size_t shown = 0;
  for (const Ranked& r : v.ranked) {
    if (r.schedule.text() == taken || shown == kMostOthers) continue;
    ++shown;
    out += line("  ranked", fmt::format("{}: {}", r.schedule.text(), beside(r.estimate, notes)));
  }
  return out;
}

std::string standing_text(const TemplateView& v) {
  switch (v.standing) {
    case TemplateView::preferred:
      return "would be the default; another schedule was forced";
    case TemplateView::behind:
      return "would take it; stands behind the template that does";
    case TemplateView::barred:
      return "would take it; --accuracy strict leaves it out";
    case TemplateView::forbidden:
      return "would take it; " + v.why->text();
    case TemplateView::chosen:
    case TemplateView::rejected:
      break;
  }
  return v.why ? v.why->text() : "";
}

std::string templates_text(const StepNotes& notes, const std::string& taken) {
  std::string out;
  std::vector<std::string> others;
  std::string got;
  for (const TemplateView& v : notes.templates) {
    if (v.standing == TemplateView::chosen) {
      out += line("chosen", fmt::format("{}: {}", v.from->name, v.from->summary));
      out += ranked_text(v, notes, taken);
    } else if (v.standing == TemplateView::rejected && other_operator(*v.why)) {
      others.push_back(fmt::format("{} ({})", v.from->name, v.why->limit));
      got = v.why->got;
    } else {
      const std::string what = v.fallback ? v.fallback->text() : std::string(v.from->name);
      out += line(name(v.standing), fmt::format("{}: {}", what, standing_text(v)));
      out += ranked_text(v, notes, taken);
    }
  }
  if (!others.empty())
    out += line("rejected", fmt::format("for other operators than {}: {}", got, fmt::join(others, ", ")));
  return out;
}

/// Why the layer's nodes run in a layer of their own, where another one could have taken them in.
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
  std::string out = fmt::format("{} '{}'", step.ops, step.name);
  if (notes.nodes.size() > 1) out += fmt::format(" (nodes {})", fmt::join(notes.nodes, ", "));
  out += "\n";
  if (step.kind == StepKind::halo)
    return out + line("work", fmt::format("zeroes {:.3f} MB", static_cast<double>(layer.bytes) * 1e-6));
  out += line("problem", step.problem);
  out += line("schedule", step.schedule);
  if (!step.record.empty()) out += line("record", step.record);
  for (const Unfused* u : kept_apart(c, notes))
    out += line("apart", fmt::format("'{}' does not run in '{}': {}", u->node, u->group, u->reason));
  out += line("operands", fmt::format("{} | {}", step.shapes, step.layouts));
  for (size_t s : layer.steps) {
    if (layer.steps.size() == 1) break;
    const Step& stage = c.plan.steps[s];
    out += line("stage", fmt::format("{}: {} work items, {:.3f} MFLOP, {:.3f} MB", stage.ops, stage.extent,
                                     static_cast<double>(stage.flops) * 1e-6, static_cast<double>(stage.bytes) * 1e-6));
  }
  out += line("work", work_text(c, layer));
  out += line("model", model_text(layer, notes));
  if (const std::string_view error = approximation_of(step.schedule); !error.empty())
    out += line("accuracy", fmt::format("approximates: {}", error));
  return out + templates_text(notes, step.schedule);
}

json estimate_json(const Estimate& e) { return {{"cycles", e.cycles}, {"tail", e.tail}}; }

json rejected_json(const Rejected& r) { return {{"check", r.check}, {"limit", r.limit}, {"got", r.got}}; }

json schedule_json(const Schedule& schedule) {
  json knobs = json::object();
  for (const auto& [key, value] : schedule.knobs) knobs[key] = value;
  return {{"text", schedule.text()}, {"template", schedule.name}, {"knobs", knobs}};
}

json template_json(const TemplateView& v) {
  json ranked = json::array();
  for (const Ranked& r : v.ranked) {
    json row = estimate_json(r.estimate);
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

json layer_json(const Compiled& c, const LayerSchedule& layer) {
  const Step& step = main_step(c, layer);
  const StepNotes& notes = notes_of(c, layer);
  json stages = json::array(), templates = json::array();
  for (size_t s : layer.steps) stages.push_back(stage_json(c, s));
  for (const TemplateView& v : notes.templates) templates.push_back(template_json(v));
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
  if (notes.estimate) out["predicted"] = estimate_json(*notes.estimate);
  return out;
}

}  // namespace

std::string_view approximation_of(const std::string& schedule) {
  const auto parsed = try_parse_schedule(schedule);
  const Template* from = parsed ? find_template(parsed->name) : nullptr;
  return from == nullptr || from->approximates == nullptr ? std::string_view() : from->approximates(*parsed);
}

std::vector<LayerSchedule> layer_schedules(const Compiled& c, const TargetLimits& limits) {
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
  for (LayerSchedule& layer : layers) layer.bound = bound_of(c, layer, limits);
  return layers;
}

std::string schedules_text(const Compiled& c, const TargetLimits& limits, const std::string& node) {
  std::string out;
  for (const LayerSchedule& layer : of_node(layer_schedules(c, limits), c, node)) out += layer_text(c, layer) + "\n";
  return out;
}

json schedules_json(const Compiled& c, const TargetLimits& limits, const std::string& node) {
  json layers = json::array();
  for (const LayerSchedule& layer : of_node(layer_schedules(c, limits), c, node))
    layers.push_back(layer_json(c, layer));
  return {{"format", "kilter-schedules-1"}, {"model", c.plan.model}, {"target", c.plan.target}, {"cpu", c.plan.cpu},
          {"codegen", c.plan.codegen},      {"layers", layers}};
}

}  // namespace kilter::profile
