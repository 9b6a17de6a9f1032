#include "tune/tuner/kept_plans.h"

#include <fstream>
#include <nlohmann/json.hpp>

#include "base/files.h"
#include "base/hash.h"
#include "base/text.h"
#include "ops/op.h"
#include "tune/tuner/choices_file.h"

namespace kilter::tune {
namespace {

using nlohmann::json;

json to_json(const Ratio& r) { return {r.value, r.low, r.high}; }
Ratio ratio_from(const json& value) { return {value.at(0), value.at(1), value.at(2)}; }

KeptPlan plan_from(const json& line, const std::string& where) {
  KeptPlan plan;
  plan.key = {line.at("graph"), line.at("target"), line.at("device"), line.at("codegen"), line.at("threads")};
  plan.network = line.at("network"), plan.date = line.at("date");
  plan.choices = parse_choices(line.at("plan").get<std::string>(), where);
  plan.ratio = ratio_from(line.at("ratio")), plan.default_ratio = ratio_from(line.at("default_ratio"));
  return plan;
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
    key = hash_text(node.name + "|" + std::string(node.op->name), key);
    values(node.inputs);
    values(node.outputs);
  }
  return key;
}

std::filesystem::path plans_file(const std::string& records) { return records + ".plans.jsonl"; }

void keep_plan(const std::filesystem::path& file, const KeptPlan& plan) {
  const json line = {{"graph", plan.key.graph},
                     {"target", plan.key.target},
                     {"device", plan.key.device},
                     {"codegen", plan.key.codegen},
                     {"threads", plan.key.threads},
                     {"network", plan.network},
                     {"date", plan.date},
                     {"plan", text(plan.choices, "")},
                     {"ratio", to_json(plan.ratio)},
                     {"default_ratio", to_json(plan.default_ratio)}};
  std::ofstream out(file, std::ios::app);
  out << line.dump() + "\n";
  if (!out.flush()) fail(ErrorKind::io, "{}: the chosen plan cannot be written", file.string());
}

std::optional<KeptPlan> find_plan(const std::filesystem::path& file, const PlanKey& key) {
  if (!std::filesystem::exists(file)) return std::nullopt;
  const std::string all = read_file(file);
  std::optional<KeptPlan> found;
  size_t number = 0;
  for (size_t at = 0; at < all.size();) {
    const size_t end = all.find('\n', at);
    if (end == std::string::npos) break;
    const std::string where = fmt::format("{} line {}", file.string(), ++number);
    try {
      KeptPlan plan = plan_from(
          json::parse(all.begin() + static_cast<std::ptrdiff_t>(at), all.begin() + static_cast<std::ptrdiff_t>(end)),
          where);
      if (plan.key == key) found = std::move(plan);
    } catch (const json::exception& e) {
      fail(ErrorKind::bad_input, "{}: no kept plan ({}); remove the line, or the file and tune again", where, e.what());
    }
    at = end + 1;
  }
  return found;
}

}  // namespace kilter::tune
