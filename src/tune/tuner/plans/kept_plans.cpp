#include "tune/tuner/plans/kept_plans.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/files.h"
#include "base/hash.h"
#include "base/json_text.h"
#include "base/text.h"
#include "graph/text.h"
#include "ops/op.h"
#include "tune/records/locked_file.h"
#include "tune/records/place.h"
#include "tune/records/store.h"
#include "tune/tuner/plans/choices_file.h"

namespace kilter::tune {
namespace {

using nlohmann::json;

json to_json(const Ratio& r) { return {r.value, r.low, r.high}; }
Ratio ratio_from(const json& value) { return {value.at(0), value.at(1), value.at(2)}; }

constexpr int kFormat = 1;  ///< of a line; lines of newer formats are skipped

KeptPlan plan_from(const json& line) {
  const int format = line.value("format", 1);
  if (format > kFormat)
    fail(ErrorKind::bad_input, "a newer version wrote it (format {}; this version reads up to {})", format, kFormat);
  KeptPlan plan;
  plan.key = {line.at("graph"),   line.at("target"),  line.at("device"),
              line.at("codegen"), line.at("threads"), line.value("settings", "")};
  plan.network = line.at("network"), plan.date = line.at("date");
  plan.choices = parse_choices(line.at("plan").get<std::string>(), "its plan");
  plan.ratio = ratio_from(line.at("ratio")), plan.default_ratio = ratio_from(line.at("default_ratio"));
  plan.objective = parse_objective(line.value("objective", "latency")), plan.bytes = line.value("bytes", 1.0);
  return plan;
}

std::string line_of(const KeptPlan& plan) {
  json line = {{"format", kFormat},
               {"graph", plan.key.graph},
               {"target", plan.key.target},
               {"device", plan.key.device},
               {"codegen", plan.key.codegen},
               {"threads", plan.key.threads},
               {"settings", plan.key.settings},
               {"network", plan.network},
               {"date", plan.date},
               {"plan", text(plan.choices, "")},
               {"ratio", to_json(plan.ratio)},
               {"default_ratio", to_json(plan.default_ratio)}};
  if (plan.objective.weighs_memory()) line["objective"] = text(plan.objective), line["bytes"] = plan.bytes;
  return json_text(line);
}

KeptPlans plans_in(std::string_view all, const std::filesystem::path& file) {
  KeptPlans out;
  size_t number = 0;
  for (const std::string_view line : split(all, '\n')) {
    ++number;
    if (trim(line).empty()) continue;
    const auto skip = [&](const std::string& why) {
      out.damaged.push_back(fmt::format("{}: line {}: skipped: not a kept plan: {}", file.string(), number, why));
    };
    try {
      out.plans.push_back(plan_from(parse_json(line)));
    } catch (const json::exception& e) {
      skip(e.what());
    } catch (const Error& e) {
      skip(e.message());
    }
  }
  return out;
}

}  // namespace

uint64_t graph_key(const Graph& graph) {
  uint64_t key = kHashSeed;
  const auto values = [&](const std::vector<ValueId>& ids) {
    for (const ValueId v : ids) key = hash_text(v == kNone ? "none" : text(graph.type(v)), key);
  };
  values(graph.inputs());
  for (const NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    key = hash_text(fmt::format("{}|{}|{}", node.name, node.op->name, node.opset), key);
    for (const auto& [name, attr] : node.attrs) key = hash_text(name + "=" + attr_text(attr), key);
    values(node.inputs);
    values(node.outputs);
  }
  return key;
}

std::filesystem::path plans_file(const std::string& records) { return beside(records) + ".plans.jsonl"; }

void keep_plan(const std::filesystem::path& file, const PlanKey& key, const DecidePlan& decide) {
  make_default_folder(file);
  const LockedFile out(file, StoreOptions().busy_seconds);
  const std::string before = out.from(0);
  const KeptPlans plans = plans_in(before, file);
  const std::optional<KeptPlan> plan = decide(plans.find(key));
  if (!plan) return;
  const bool cut_off = !before.empty() && before.back() != '\n';
  out.append((cut_off ? "\n" : "") + line_of(*plan) + "\n");
}

int64_t merge_plans(const std::filesystem::path& file, std::span<const KeptPlan* const> more) {
  int64_t added = 0;
  for (const KeptPlan* plan : more) {
    keep_plan(file, plan->key, [&](const KeptPlan* now) -> std::optional<KeptPlan> {
      if (now != nullptr && now->date >= plan->date) return std::nullopt;
      ++added;
      return *plan;
    });
  }
  return added;
}

KeptPlans read_plans(const std::filesystem::path& file) {
  if (!std::filesystem::exists(file)) return {};
  return plans_in(read_file(file), file);
}

const KeptPlan* KeptPlans::find(const PlanKey& key) const {
  const KeptPlan* found = nullptr;
  for (const KeptPlan& plan : plans) {
    if (plan.key == key) found = &plan;
  }
  return found;
}

std::vector<const KeptPlan*> KeptPlans::latest() const {
  std::vector<const KeptPlan*> out;
  for (const KeptPlan& plan : plans) {
    const auto known = std::ranges::find_if(out, [&](const KeptPlan* other) { return other->key == plan.key; });
    if (known == out.end())
      out.push_back(&plan);
    else
      *known = &plan;
  }
  return out;
}

std::string plan_settings(const CompileOptions& options, bool layers) {
  std::vector<std::string> all;
  const auto add = [&](std::string_view option, const auto& values) {
    if (!values.empty()) all.push_back(fmt::format("{} {}", option, fmt::join(values, ",")));
  };
  if (options.accuracy == Accuracy::strict) all.emplace_back("--accuracy strict");
  if (options.precision != Precision::declared) all.push_back(fmt::format("--precision {}", name(options.precision)));
  add("--keep-float", options.keep_float);
  if (options.budget.memory) all.push_back(fmt::format("--memory {}", *options.budget.memory));
  add("--disable", options.debug.disable);
  const DebugOptions& debug = options.debug;
  if (!debug.stop_after.empty()) all.push_back("--stop-after " + debug.stop_after);
  if (debug.max_rewrites != INT64_MAX) all.push_back(fmt::format("--max-rewrites {}", debug.max_rewrites));
  if (!layers) return fmt::format("{}", fmt::join(all, " "));
  add("--no-fuse", nodes_with(options.choices, Fusion::none));
  add("--fuse", nodes_with(options.choices, Fusion::before));
  for (const Forbidden& f : options.forbidden) all.push_back("--forbid " + f.text());
  std::vector<std::string> plain;
  for (const auto& [node, choice] : options.choices) {
    if (choice.plain) plain.push_back(node);
  }
  add("--plain-layout", plain);
  for (const auto& [node, choice] : options.choices) {
    if (choice.threads > 0) all.push_back(fmt::format("--layer-threads {}={}", node, choice.threads));
  }
  for (const auto& [node, choice] : options.choices) {
    if (choice.forced()) all.push_back(fmt::format("--schedule {}={}", node, choice.schedule->text()));
  }
  return fmt::format("{}", fmt::join(all, " "));
}

}  // namespace kilter::tune
