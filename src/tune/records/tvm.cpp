#include "tune/records/tvm.h"

#include <time.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json_text.h"
#include "base/text.h"

namespace kilter::tune {
namespace {

using nlohmann::json;

/// A knob's value as text: "-1,16", "true", "1500".
std::string value_text(const json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (!value.is_array()) return json_text(value);
  std::vector<std::string> parts;
  for (const json& part : value) parts.push_back(value_text(part));
  return join(parts, ",");
}

/// Returns the value of the key that exists: one version uses long names, the other short ones.
const json& either(const json& object, const char* long_key, const char* short_key) {
  return object.contains(long_key) ? object.at(long_key) : object.at(short_key);
}

std::string version_of(const json& object) {
  const json& version = either(object, "version", "v");
  return version.is_number() ? fmt::format("{}", version.get<double>()) : value_text(version);
}

TvmLine fields_of(const json& object) {
  TvmLine line;
  line.version = version_of(object);
  line.tvm_version = object.value("tvm_version", "");
  const json& input = either(object, "input", "i");
  line.target = input.at(0).get<std::string>();
  line.task = input.at(1).get<std::string>();
  const json& config = object.contains("config") ? object.at("config") : input.at(5);
  const json& index = either(config, "index", "i");
  line.index = index.is_number_integer() ? index.get<int64_t>() : -1;
  line.algorithm = config.value("t", "");
  if (line.algorithm.empty()) line.algorithm = line.task.find("winograd") != std::string::npos ? "winograd" : "direct";
  for (const json& knob : either(config, "entity", "e"))
    line.knobs.emplace_back(knob.at(0).get<std::string>(), value_text(knob.at(2)));
  return line;
}

std::string description(const TvmLine& line) {
  std::string text = fmt::format("{}{} {}", kForeignSchedule, line.task, line.algorithm);
  if (line.index >= 0) text += fmt::format(" index={}", line.index);
  for (const auto& [name, value] : line.knobs) text += fmt::format(" {}={}", name, value);
  return text;
}

struct Failure {
  Status status;
  std::string_view words;
};
/// Translates TVM's MeasureErrorNo.
Failure failure_of(int64_t number) {
  constexpr std::array kFailures = {Failure{Status::ok, ""},
                                    Failure{Status::rejected, "the configuration could not be instantiated"},
                                    Failure{Status::rejected, "the host code did not compile"},
                                    Failure{Status::rejected, "the device code did not compile"},
                                    Failure{Status::crash, "failed while running"},
                                    Failure{Status::wrong, "wrong answer"},
                                    Failure{Status::timeout, "compiling took too long"},
                                    Failure{Status::timeout, "running took too long"}};
  if (number >= 0 && number < static_cast<int64_t>(kFailures.size())) return kFailures.at(static_cast<size_t>(number));
  return {Status::crash, "an unknown error"};
}

std::string date_of(double seconds) {
  if (!(seconds > 0 && seconds < 1e11)) return {};
  const auto whole = static_cast<time_t>(seconds);
  tm utc{};
  gmtime_r(&whole, &utc);
  std::array<char, 32> text{};
  strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &utc);
  return text.data();
}

void take_result(const json& result, Record& record) {
  const int64_t number = result.at(1).get<int64_t>();
  const Failure failure = failure_of(number);
  record.status = failure.status;
  if (failure.status == Status::ok) {
    for (const json& seconds : result.at(0)) record.samples_ms.push_back(seconds.get<double>() * 1e3);
  } else {
    record.error = fmt::format("{} (TVM's error {})", failure.words, number);
    if (!result.at(0).empty() && result.at(0).at(0).is_string()) record.error += ": " + value_text(result.at(0).at(0));
  }
  Conditions& c = record.conditions;
  c.date = date_of(result.at(3).get<double>());
  c.taken = c.kept = static_cast<int64_t>(record.samples_ms.size());
}

/// Fills in the conditions. Fields that a log does not give stay empty, or 0 for threads.
void take_conditions(const TvmLine& line, Conditions& c) {
  c.threads = 0;
  c.device = line.cpu() ? "" : line.target;
  c.target = line.target;
  c.weights = "not known";
  c.estimator = "mean";
  c.executor = line.tvm_version.empty() ? "tvm" : "tvm " + line.tvm_version;
}

}  // namespace

int64_t TvmLine::last_of(std::string_view knob) const {
  for (const auto& [name, value] : knobs) {
    if (name == knob) return try_parse_int(split(value, ',').back()).value_or(0);
  }
  return 0;
}

bool is_tvm_line(const json& object) {
  return object.is_object() && (object.contains("version") || object.contains("v")) &&
         (object.contains("result") || object.contains("r")) && (object.contains("input") || object.contains("i"));
}

TvmRecord tvm_record(const json& object, const std::string& text, const Target& target) {
  TvmRecord out;
  try {
    out.line = fields_of(object);
    if (out.line.version != "0.1" && out.line.version != "0.2")
      fail(ErrorKind::unsupported, "log version {}; expected 0.1 or 0.2", out.line.version);
    Record& r = out.record;
    r.source = "tvm v" + out.line.version;
    r.foreign = text;
    const json& input = either(object, "input", "i");
    r.problem = tvm_problem(out.line.task, input.at(2));
    r.schedule = description(out.line);
    take_conditions(out.line, r.conditions);
    take_result(either(object, "result", "r"), r);
    Translation translation = translate(out.line, r.problem, target);
    out.notes = std::move(translation.notes);
    if (translation.schedule) r.schedule = translation.schedule->text();
    check(r);
  } catch (const json::exception& e) {
    fail(ErrorKind::bad_input, "not a line of a TVM log: {}", e.what());
  }
  return out;
}

}  // namespace kilter::tune
