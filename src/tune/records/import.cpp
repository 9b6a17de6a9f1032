#include "tune/records/import.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <functional>
#include <map>
#include <set>

#include "base/error.h"
#include "base/files.h"
#include "base/text.h"
#include "tune/records/place.h"
#include "tune/records/scan.h"

namespace kilter::tune {
namespace {

/// Kilter's records have a problem and a schedule; TVM's have a version and a result.
bool is_kilter_line(const nlohmann::json& json) {
  return json.is_object() && json.contains("problem") && json.contains("schedule");
}

std::string shortened(const std::string& text) {
  constexpr size_t kShown = 60;
  return text.size() <= kShown ? text : text.substr(0, kShown) + "...";
}

/// Replaces standalone numbers in the text by N.
std::string without_numbers(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool begins =
        std::isdigit(static_cast<unsigned char>(text[i])) != 0 && (i == 0 || text[i - 1] == '=' || text[i - 1] == ' ');
    if (!begins) {
      out += text[i];
      continue;
    }
    out += 'N';
    i = std::min(text.find_first_not_of("0123456789", i), text.size()) - 1;
  }
  return out;
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

class TextImport {
 public:
  TextImport(std::string_view text, const std::string& name, const Target& target)
      : text_(text), name_(name), target_(target) {}

  Imported run() {
    for (const Found& found : scan_records(text_)) take(found);
    add_unread_lines();
    for (auto& [line, words] : damaged_) out_.damaged.push_back(std::move(words));
    return std::move(out_);
  }

 private:
  void take(const Found& found) {
    const bool own = is_kilter_line(found.json);
    if (found.json.is_discarded()) {
      told(found);
      return damage(found.line, fmt::format("damaged: {}", shortened(found.text)));
    }
    if (!own && !is_tvm_line(found.json)) return;  // part of a damaged record
    told(found);
    own_ += own ? 1 : 0;
    try {
      out_.entries.push_back(entry_of(found, target_));
    } catch (const Error& e) {
      if (e.kind() != ErrorKind::unsupported) return damage(found.line, e.message());
      if (!own) ++out_.refused_for[without_numbers(e.message())];
      (own ? out_.newer : out_.refused).push_back(words(found.line, e.message()));
    }
  }

  /// In files of Kilter's lines, reports lines that are not records. In other texts, prose between records is ignored.
  void add_unread_lines() {
    const std::vector<std::string_view> lines = split(text_, '\n');
    const auto filled = std::ranges::count_if(lines, [](std::string_view line) { return !trim(line).empty(); });
    if (own_ == 0 || (2 * own_ < filled && !is_json_lines(name_))) return;
    for (size_t i = 0; i < lines.size(); ++i) {
      const auto number = static_cast<int64_t>(i) + 1;
      const std::string_view line = trim(lines[i]);
      // Without content, the line is only punctuation of a list of records.
      const bool content = line.find_first_not_of("[],") != std::string_view::npos;
      if (content && !told_.contains(number))
        damage(number, fmt::format("not a record: {}", shortened(std::string(line))));
    }
  }

  /// Marks all lines of an object as handled.
  void told(const Found& found) {
    const auto more = std::ranges::count(found.text, '\n');
    for (int64_t line = found.line; line <= found.line + more; ++line) told_.insert(line);
  }
  void damage(int64_t line, const std::string& why) { damaged_.emplace(line, words(line, why)); }
  std::string words(int64_t line, const std::string& why) const {
    return fmt::format("{}: line {}: skipped: {}", name_, line, why);
  }

  std::string_view text_;
  const std::string& name_;
  const Target& target_;
  Imported out_;
  std::multimap<int64_t, std::string> damaged_;  ///< by line
  std::set<int64_t> told_;                       ///< lines that were read or reported
  int64_t own_ = 0;                              ///< number of Kilter's records
};

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
  return TextImport(text, name, target).run();
}

Imported import_store(const std::string& place) {
  const auto store = Store::open(place, Store::Mode::read);
  Reading reading = store->read();
  Imported out;
  out.notices = store->notices();
  for (Record& r : reading.records) out.entries.push_back({std::move(r), 0, std::nullopt, {}});
  out.damaged = std::move(reading.damaged), out.newer = std::move(reading.newer);
  return out;
}

Imported import_file(const std::string& place, const Target& target) {
  if (is_server(place) || is_database(place)) return import_store(place);
  const std::string text = read_file(place);
  Imported out = import_text(text, place, target);
  if (out.entries.empty() && !text.empty() && should_be_database(place)) fail_damaged_header(place);
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
    if (!part.algorithms.empty()) line += fmt::format("; {} with a Kilter schedule", part.mapped);
    lines.push_back(line);
    std::vector<size_t> layers;
    for (const PlanTask& t : plan) layers.push_back(t.layers);
    if (part.algorithms.size() == 1 && plan.size() < part.count)
      lines.push_back(fmt::format("       as a plan: {} layers over {} tasks; layers per task: {}", part.count,
                                  plan.size(), fmt::join(layers, ",")));
  }
  return lines;
}

std::vector<std::pair<std::string, size_t>> reasons(const Imported& imported) {
  std::map<std::string, size_t> counts = imported.refused_for;
  for (const Entry& e : imported.entries) {
    for (const std::string& note : e.notes) ++counts[without_numbers(note)];
  }
  std::vector<std::pair<std::string, size_t>> all(counts.begin(), counts.end());
  std::ranges::stable_sort(all, std::greater<>(), [](const auto& reason) { return reason.second; });
  return all;
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
