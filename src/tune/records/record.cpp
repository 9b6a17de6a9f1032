#include "tune/records/record.h"

#include <fmt/ranges.h>

#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/hash.h"
#include "base/json_text.h"

namespace kilter::tune {
namespace {

constexpr std::array<std::string_view, 5> kStatus = {"ok", "wrong", "crash", "timeout", "rejected"};

/// A text field; the table is in the order of the documentation.
struct TextField {
  const char* key;
  std::string Record::* field;
};
constexpr std::array kTexts = {
    TextField{"problem", &Record::problem},   TextField{"layouts", &Record::layouts},
    TextField{"schedule", &Record::schedule}, TextField{"error", &Record::error},
    TextField{"network", &Record::network},   TextField{"node", &Record::node},
    TextField{"source", &Record::source},     TextField{"foreign", &Record::foreign},
};

const nlohmann::json& default_conditions() {
  static const nlohmann::json kDefault = to_json(Conditions{});
  return kDefault;
}

/// Returns the fields that differ from their default, and those unknown to this version.
nlohmann::json short_conditions(const Record& r) {
  nlohmann::json json = to_json(r.conditions);
  for (const auto& [key, value] : default_conditions().items()) {
    if (json.at(key) == value) json.erase(key);
  }
  if (!r.more_conditions.empty()) json.update(parse_json(r.more_conditions));
  return json;
}

/// Returns the content that is hashed for the id and written.
nlohmann::json content(const Record& r) {
  nlohmann::json json{{"status", std::string(name(r.status))}};
  for (const TextField& f : kTexts) {
    if (!(r.*f.field).empty()) json[f.key] = r.*f.field;
  }
  if (!r.samples_ms.empty()) json["samples_ms"] = r.samples_ms;
  if (r.versus) {
    const Ratio& ratio = r.versus->ratio;
    json["versus"] = {
        {"ratio", ratio.value}, {"low", ratio.low}, {"high", ratio.high}, {"schedule", r.versus->schedule}};
  }
  json["conditions"] = short_conditions(r);
  return json;
}

std::string dump(const nlohmann::json& json) { return json_text(json); }

std::string hash_of(const nlohmann::json& content) {
  const std::string text = dump(content);
  return fmt::format("{:016x}{:016x}", hash_bytes(std::as_bytes(std::span(text))), mix_bits(hash_text(text)));
}

/// Returns the conditions that a newer version added.
std::string unknown_conditions(const nlohmann::json& conditions) {
  nlohmann::json unknown = nlohmann::json::object();
  for (const auto& [key, value] : conditions.items()) {
    if (!default_conditions().contains(key)) unknown[key] = value;
  }
  return unknown.empty() ? std::string() : dump(unknown);
}

void check_version(const nlohmann::json& json) {
  const int version = json.value("kilter_record", kRecordVersion);
  if (version > kRecordVersion) {
    fail(ErrorKind::unsupported, "record of version {}; this program reads versions 1 to {}: use a newer one", version,
         kRecordVersion);
  }
}

Versus versus_from_json(const nlohmann::json& json) {
  Versus versus;
  versus.ratio = {json.at("ratio").get<double>(), json.at("low").get<double>(), json.at("high").get<double>()};
  versus.schedule = json.value("schedule", "");
  return versus;
}

bool positive(double value) { return std::isfinite(value) && value > 0; }

}  // namespace

std::string_view name(Status status) { return kStatus.at(static_cast<size_t>(status)); }

Status parse_status(std::string_view text) {
  for (size_t i = 0; i < kStatus.size(); ++i) {
    if (kStatus[i] == text) return static_cast<Status>(i);
  }
  fail(ErrorKind::usage, "status '{}': unknown; legal values are {}", text, fmt::join(kStatus, ", "));
}

double Record::ms() const { return samples_ms.empty() ? 0 : mean_of_middle_half(samples_ms); }

std::string Record::id() const { return hash_of(content(*this)); }

bool Record::mapped() const { return !schedule.starts_with(kForeignSchedule); }

nlohmann::json to_json(const Record& record) {
  nlohmann::json json = content(record);
  json["id"] = hash_of(json);
  json["kilter_record"] = kRecordVersion;
  return json;
}

std::string to_line(const Record& record) { return dump(to_json(record)); }

Record record_from_json(const nlohmann::json& json, IdCheck ids) {
  if (!json.is_object()) fail(ErrorKind::bad_input, "record: expected a JSON object, got {}", json.type_name());
  Record r;
  try {
    check_version(json);
    for (const TextField& f : kTexts) r.*f.field = json.value(f.key, r.*f.field);
    r.status = parse_status(json.value("status", "ok"));
    if (json.contains("samples_ms")) r.samples_ms = json.at("samples_ms").get<std::vector<double>>();
    if (json.contains("versus")) r.versus = versus_from_json(json.at("versus"));
    if (json.contains("conditions")) {
      r.conditions = conditions_from_json(json.at("conditions"));
      r.more_conditions = unknown_conditions(json.at("conditions"));
    }
    check(r);
    if (ids == IdCheck::none) return r;
    const std::string id = json.value("id", ""), own = r.id();
    if (!id.empty() && id != own)
      fail(ErrorKind::bad_input, "record: its id is {}, but its content gives {}: it was changed or damaged", id, own);
  } catch (const nlohmann::json::exception& e) {
    fail(ErrorKind::bad_input, "record: {}", e.what());
  }
  return r;
}

Record record_from_line(std::string_view line) {
  const nlohmann::json json = try_parse_json(line);
  if (json.is_discarded()) fail(ErrorKind::bad_input, "not JSON");
  return record_from_json(json);
}

void check(const Record& r) {
  if (r.problem.empty()) fail(ErrorKind::bad_input, "record: no 'problem'");
  if (r.schedule.empty()) fail(ErrorKind::bad_input, "record: no 'schedule'");
  if (r.conditions.threads < 0)
    fail(ErrorKind::bad_input, "record: 'threads' is {}; expected 1 or more, or 0 if it is not known",
         r.conditions.threads);
  for (const double ms : r.samples_ms) {
    if (!positive(ms)) fail(ErrorKind::bad_input, "record: a sample of {} ms; expected times above 0", ms);
  }
  if (r.versus) {
    for (const double ratio : {r.versus->ratio.value, r.versus->ratio.low, r.versus->ratio.high}) {
      if (!positive(ratio)) fail(ErrorKind::bad_input, "record: a ratio of {}; expected ratios above 0", ratio);
    }
  }
  const bool timed = !r.samples_ms.empty() || r.versus.has_value();
  if (r.status == Status::ok && !timed)
    fail(ErrorKind::bad_input, "record: status ok, but neither samples nor a ratio");
  if (r.status != Status::ok && r.error.empty())
    fail(ErrorKind::bad_input, "record: status {}, but no 'error' that says what happened", name(r.status));
}

std::string code_version(const Record& record, const KernelVersions& versions) {
  return versions.of(record.schedule, record.versus ? record.versus->schedule : std::string());
}

}  // namespace kilter::tune
