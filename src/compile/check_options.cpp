#include "compile/check_options.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "compile/tasks.h"

namespace kilter {
namespace {

void check_rewrite_name(std::string_view pass, std::string_view rewrite) {
  const std::span<const PassRow> rows = all_passes();
  const PassRow& row = *std::ranges::find(rows, pass, &PassRow::name);
  if (row.rewrites == nullptr)
    fail(ErrorKind::usage, "--disable: pass '{}' has no table of rewrites; disable the pass as a whole", pass);
  std::vector<std::string_view> names;
  for (const Rewrite& known : row.rewrites()) names.push_back(known.name);
  if (std::ranges::find(names, rewrite) != names.end()) return;
  fail(ErrorKind::usage, "--disable: pass '{}' has no rewrite '{}'; legal values are {}", pass, rewrite,
       fmt::join(names, ", "));
}

/// The options that choose a fusion.
constexpr std::string_view kFusion[] = {"", "--no-fuse", "--fuse", "fuse=apart"};

}  // namespace

void check_pass_names(const CompileOptions& options) {
  std::vector<std::string_view> names;
  for (const PassRow& row : all_passes()) names.push_back(row.name);
  const auto known = [&](std::string_view n) { return std::find(names.begin(), names.end(), n) != names.end(); };
  if (!options.debug.stop_after.empty() && !known(options.debug.stop_after)) {
    fail(ErrorKind::usage, "--stop-after: no pass '{}'; legal values are {}", options.debug.stop_after,
         fmt::join(names, ", "));
  }
  for (const std::string& n : options.debug.disable) {
    const std::string pass = n.substr(0, n.find('.'));
    if (!known(pass))
      fail(ErrorKind::usage, "--disable: no pass '{}'; legal values are {}", pass, fmt::join(names, ", "));
    if (pass.size() < n.size()) check_rewrite_name(pass, n.substr(pass.size() + 1));
  }
}

bool has_instructions(const CpuLimits& limits, Precision precision) {
  if (precision == Precision::fp16) return limits.f16_convert;
  return precision == Precision::declared || limits.multiplies_bf16() || limits.bf16_tiles;
}

void check_precision(const Graph& graph, const CompileOptions& options) {
  if (options.precision == Precision::declared) {
    if (options.keep_float.empty()) return;
    fail(ErrorKind::usage,
         "--keep-float {}: has no effect with '--precision declared', where every layer keeps its types; use "
         "--precision bf16 or fp16",
         *options.keep_float.begin());
  }
  const bool asked = options.stored_ports.empty();  // otherwise the precision is that of a layer of another network
  const bool lacking = asked && !has_instructions(options.target.limits, options.precision);
  if (lacking && options.precision == Precision::fp16) {
    fail(ErrorKind::usage,
         "--precision {}: target '{}' has no instruction that converts f16 (F16C), so each vector that is loaded or "
         "stored would take about 20 more instructions; use --precision declared, or a --target with the instruction, "
         "such as x86-64-v3",
         name(options.precision), options.target.name);
  }
  if (lacking && options.precision == Precision::bf16) {
    fail(ErrorKind::usage,
         "--precision {}: target '{}' {}, so layers would take as long as in f32 and the conversions longer; use "
         "--precision declared, or a --target with a faster instruction, such as znver4, sapphirerapids or neoverse-v1",
         name(options.precision), options.target.name,
         options.target.limits.bf16_dots_per_cycle > 0
             ? "multiplies bf16 no faster than f32 (AVX-512 BF16 without AMX)"
             : "has no instruction that multiplies bf16 (AVX-512 BF16, AMX, Arm BF16)");
  }
  std::set<std::string_view> ops, nodes;
  for (NodeId id : graph.order()) ops.insert(graph.node(id).op->name), nodes.insert(graph.node(id).name);
  for (const std::string& held : options.keep_float) {
    if (ops.contains(held) || nodes.contains(held)) continue;
    fail(ErrorKind::usage, "--keep-float {}: no node or operator of the network has this name; its operators are {}",
         held, fmt::join(ops, ", "));
  }
}

void check_node_names(const Graph& graph, const CompileOptions& options) {
  std::set<std::string> anchors, nodes;  // filled when an option names one
  const auto task = [&](const std::string& node, const std::string& option) {
    if (anchors.empty()) {
      for (const Unit& unit : units(graph)) anchors.insert(make_task(graph, unit, nullptr).node().name);
    }
    if (anchors.contains(node)) return;
    fail(ErrorKind::usage, "{}: no task has this name; legal values are {}", option, fmt::join(anchors, ", "));
  };
  for (const Forbidden& f : options.forbidden) {
    if (!f.node.empty()) task(f.node, "--forbid " + f.text());
  }
  bool plain = false;
  for (const auto& [node, choice] : options.choices) {
    if (choice.forced()) task(node, option_text(options, "--schedule", node, choice.schedule->text()));
    if (choice.fuse != Fusion::usual) task(node, option_text(options, kFusion[static_cast<size_t>(choice.fuse)], node));
    if (choice.threads != 0) {
      const std::string option = option_text(options, "--layer-threads", node, std::to_string(choice.threads));
      task(node, option);
      if (choice.threads < 1) fail(ErrorKind::usage, "{}: expected 1 thread or more", option);
    }
    plain = plain || choice.plain;
  }
  for (NodeId id : plain ? graph.order() : std::vector<NodeId>{}) {
    if (graph.node(id).op->movement != Movement::relayout) nodes.insert(graph.node(id).name);
  }
  for (const auto& [node, choice] : options.choices) {
    if (!choice.plain || nodes.contains(node)) continue;
    fail(ErrorKind::usage, "{}: no node has this name; legal values are {}",
         option_text(options, "--plain-layout", node), fmt::join(nodes, ", "));
  }
}

namespace {

/// Returns why a forbidden schedule would not apply to the task, so that forbidding it changes nothing; empty if it
/// might apply.
std::optional<Rejected> idle(const Forbidden& forbidden, const Task& task, const CpuLimits& limits) {
  const auto analysed = find_template(forbidden.schedule.name)->analyse(task, limits);
  if (!analysed) return analysed.rejected();
  if (forbidden.schedule.knobs.empty()) return std::nullopt;
  return check_knobs(forbidden.schedule, (*analysed)->space());
}

}  // namespace

void check_forbidden(const PassedGraph& passed, const CompileOptions& options) {
  if (options.forbidden.empty()) return;
  std::vector<Task> tasks;
  for (const Unit& unit : units(passed.graph)) tasks.push_back(make_task(passed.graph, unit, nullptr));
  for (const Forbidden& f : options.forbidden) {
    const std::string option = "--forbid " + f.text();
    bool works = std::ranges::any_of(passed.unfused, [&](const Unfused& u) { return u.reason == option; });
    for (const Task& task : tasks) {
      if (works) break;
      if (!f.node.empty() && f.node != task.node().name) continue;
      const auto why = idle(f, task, options.target.limits);
      works = !why;
      if (why && !f.node.empty())
        fail(ErrorKind::usage, "{}: '{}' does not apply here anyway: {}; leave it out", option, f.schedule.text(),
             why->text());
    }
    if (!works && f.node.empty() && options.report.notice)
      options.report.notice(option + ": this has no effect, since it applies to no layer of this network");
  }
}

bool permits(const CompileOptions& options, const std::string& node, const Schedule& schedule) {
  if (forbids(options.forbidden, node, schedule) != nullptr) return false;
  const Template* from = find_template(schedule.name);
  return options.accuracy != Accuracy::strict || from == nullptr || from->approximates == nullptr;
}

std::string_view option_of(const LayerChoice& choice) {
  if (choice.forced()) return "--schedule";
  if (choice.threads != 0) return "--layer-threads";
  return choice.plain ? "--plain-layout" : kFusion[static_cast<size_t>(choice.fuse)];
}

std::string option_text(const CompileOptions& options, std::string_view option, const std::string& node,
                        std::string_view value) {
  const LayerChoice& choice = choice_for(options.choices, node);
  const Origin& from = option == "--schedule"        ? choice.schedule_from
                       : option == "--layer-threads" ? choice.threads_from
                       : option == "--plain-layout"  ? choice.plain_from
                                                     : choice.fuse_from;
  if (from.source == ScheduleSource::layer_plan) return fmt::format("{}, '{}'", from.words, node);
  return fmt::format("{} {}{}{}", option, node, value.empty() ? "" : "=", value);
}

}  // namespace kilter
