#include "tune/records/import.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/error.h"
#include "base/files.h"
#include "tune/records/scan.h"

namespace kilter::tune {
namespace {

/// Records of Kilter have a problem and a schedule, others of TVM a version and a result.
bool is_kilter_line(const nlohmann::json& json) {
  return json.is_object() && json.contains("problem") && json.contains("schedule");
}

std::string shortened(const std::string& text) {
  constexpr size_t kShown = 60;
  return text.size() <= kShown ? text : text.substr(0, kShown) + "...";
}

Entry entry_of(const Found& found, const Target& target) {
  Entry entry;
  entry.line = found.line;
  if (is_kilter_line(found.json)) {
    entry.record = record_from_json(found.json);
    return entry;
  }
  TvmRecord tvm = tvm_record(found.json, found.text, target);
  entry.record = std::move(tvm.record);
  entry.tvm = std::move(tvm.line);
  entry.notes = std::move(tvm.notes);
  return entry;
}

}  // namespace

std::vector<Record> Imported::records() const {
  std::vector<Record> all;
  for (const Entry& e : entries) all.push_back(e.record);
  return all;
}

size_t Imported::distinct() const {
  std::set<std::string> ids;
  for (const Entry& e : entries) ids.insert(e.record.id());
  return ids.size();
}

Imported import_text(std::string_view text, const std::string& name, const Target& target) {
  Imported out;
  for (const Found& found : scan_records(text)) {
    if (found.json.is_discarded()) {
      out.damaged.push_back(fmt::format("{}: line {}: skipped: damaged: {}", name, found.line, shortened(found.text)));
      continue;
    }
    if (!is_kilter_line(found.json) && !is_tvm_line(found.json)) continue;  // a part of a damaged one
    try {
      out.entries.push_back(entry_of(found, target));
    } catch (const Error& e) {
      auto& list = e.kind() == ErrorKind::unsupported ? out.refused : out.damaged;
      list.push_back(fmt::format("{}: line {}: skipped: {}", name, found.line, e.message()));
    }
  }
  return out;
}

Imported import_file(const std::filesystem::path& file, const Target& target) {
  if (!is_database(file)) return import_text(read_file(file), file.string(), target);
  Imported out;
  Reading reading = Store::open(file, Store::Mode::read)->read();
  for (Record& r : reading.records) out.entries.push_back({std::move(r), 0, std::nullopt, {}});
  out.damaged = std::move(reading.damaged);
  return out;
}

std::vector<PlanTask> plan_of(const std::vector<Entry>& entries) {
  std::vector<PlanTask> plan;
  for (const Entry& e : entries) {
    const auto same = [&](const PlanTask& t) { return t.problem == e.record.problem; };
    auto at = std::find_if(plan.begin(), plan.end(), same);
    if (at == plan.end()) at = plan.insert(at, {e.record.problem, 0});
    ++at->layers;
  }
  return plan;
}

std::vector<std::string> summary(const Imported& imported) {
  struct Part {
    size_t count = 0, mapped = 0;
    std::map<std::string, size_t> algorithms;
    std::vector<Entry> entries;
  };
  std::map<std::pair<std::string, std::string>, Part> parts;
  for (const Entry& e : imported.entries) {
    Part& part = parts[{e.record.source, e.tvm ? e.tvm->target : e.record.conditions.target}];
    ++part.count;
    part.mapped += e.record.mapped() ? 1 : 0;
    if (e.tvm) ++part.algorithms[e.tvm->algorithm];
    part.entries.push_back(e);
  }
  std::vector<std::string> lines;
  for (const auto& [key, part] : parts) {
    const std::vector<PlanTask> plan = plan_of(part.entries);
    std::string line = fmt::format("{:>5}  {}, {}: {} problems", part.count, key.first, key.second, plan.size());
    std::vector<std::string> algorithms;
    for (const auto& [name, count] : part.algorithms) algorithms.push_back(fmt::format("{} {}", count, name));
    if (!algorithms.empty()) line += fmt::format("; {}", fmt::join(algorithms, ", "));
    if (!part.algorithms.empty()) line += fmt::format("; {} with a schedule of ours", part.mapped);
    lines.push_back(line);
    std::vector<size_t> layers;
    for (const PlanTask& t : plan) layers.push_back(t.layers);
    if (part.algorithms.size() == 1 && plan.size() < part.count)
      lines.push_back(fmt::format("       as a plan: {} layers over {} tasks, layers of each {}", part.count,
                                  plan.size(), fmt::join(layers, ",")));
  }
  return lines;
}

int64_t add_missing(Store& store, const std::vector<Record>& records) {
  std::set<std::string> foreign;
  if (std::any_of(records.begin(), records.end(), [](const Record& r) { return r.imported(); })) {
    for (const Record& r : store.read().records) {
      if (r.imported()) foreign.insert(r.foreign);
    }
  }
  std::vector<Record> missing;
  for (const Record& r : records) {
    if (!r.imported() || foreign.insert(r.foreign).second) missing.push_back(r);
  }
  return store.append(missing);
}

}  // namespace kilter::tune
