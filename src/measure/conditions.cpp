#include "measure/conditions.h"

#include <fmt/format.h>
#include <sched.h>
#include <time.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <fstream>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/other_threads.h"
#include "base/text.h"
#include "base/ticks.h"
#include "measure/quiet.h"
#include "measure/stats.h"

namespace kilter {
namespace {

/// Text fields in order of importance; the number of threads precedes them all.
struct TextField {
  const char* key;
  const char* what;
  std::string Conditions::* field;
};
constexpr std::array kTexts = {
    TextField{"executor", "executor", &Conditions::executor},
    TextField{"target", "target", &Conditions::target},
    TextField{"precision", "precision", &Conditions::precision},
    TextField{"records", "tuning records", &Conditions::records},
    TextField{"program", "version of Kilter", &Conditions::program},
    TextField{"codegen", "version of the code generator", &Conditions::codegen},
    TextField{"device", "device", &Conditions::device},
    TextField{"weights", "weights", &Conditions::weights},
    TextField{"weights_from", "weights stream from", &Conditions::weights_from},
    TextField{"activations", "activations", &Conditions::activations},
    TextField{"pinning", "CPUs of the process", &Conditions::pinning},
    TextField{"huge_pages", "huge pages", &Conditions::huge_pages},
    TextField{"clock", "clock", &Conditions::clock},
    TextField{"estimator", "estimator", &Conditions::estimator},
};

std::string shown(const std::string& text) { return text.empty() ? "not known" : text; }

}  // namespace

Conditions current_conditions() {
  Conditions c;
  c.pinning = affinity_text();
  c.huge_pages = huge_pages_text();
  c.clock = tick_source();
  c.estimator = kEstimator;
  c.date = iso_date();
  return c;
}

Quietness quietness(const Conditions& c) {
  if (c.taken <= 0) return Quietness::unknown;
  if (2 * c.disturbed > c.taken) return Quietness::busy;
  if (4 * c.disturbed > c.taken) return Quietness::partly;
  return 20 * c.disturbed > c.taken ? Quietness::slightly : Quietness::quiet;
}

bool undisturbed_figure(const Conditions& c) {
  const Quietness found = quietness(c);
  return found == Quietness::quiet || found == Quietness::slightly;
}

std::string_view name(Quietness quietness) {
  constexpr std::string_view kNames[] = {"not known", "quiet", "slightly disturbed", "partly disturbed", "busy"};
  return kNames[static_cast<size_t>(quietness)];
}

double disturbed_share(const Conditions& c) {
  return c.taken > 0 ? static_cast<double>(c.disturbed) / static_cast<double>(c.taken) : 0;
}

bool more_threads_than_cpus(const Conditions& c) {
  const int cpus = count_cpus(c.pinning);
  return cpus > 0 && c.threads > cpus;
}

std::string quiet_text(const Conditions& c, std::string_view samples) {
  const Quietness found = quietness(c);
  std::string out(name(found));
  if (found == Quietness::unknown) return fmt::format("{}: no {} were checked for other programs", out, samples);
  out += fmt::format(": {} of {} {} disturbed ({:.3g} %", c.disturbed, c.taken, samples, 100 * disturbed_share(c));
  if (found != Quietness::quiet && !c.disturbed_by.empty()) out += ": " + c.disturbed_by;
  out += ")";
  if (found == Quietness::busy) {
    std::string why = "other programs use the machine";
    if (more_threads_than_cpus(c)) {
      why = fmt::format("{} threads share {} CPUs", c.threads, count_cpus(c.pinning));
    } else if (c.disturbed_by.starts_with(kOtherClock)) {
      why = "the clock rate changes";
    }
    out += fmt::format(", because {}; the time is an upper bound", why);
  }
  if (c.best_ms > 0) out += fmt::format(", best {:.3f} ms", c.best_ms);
  return out;
}

std::string figure_text(double ms, const Conditions& c, int decimals) {
  const bool interval = quietness(c) == Quietness::busy && c.best_ms > 0 && c.best_ms < ms;
  return interval ? fmt::format("{:.{}f} to {:.{}f} ms", c.best_ms, decimals, ms, decimals)
                  : fmt::format("{:.{}f} ms", ms, decimals);
}

nlohmann::json to_json(const Conditions& conditions) {
  nlohmann::json json{{"threads", conditions.threads},
                      {"taken", conditions.taken},
                      {"kept", conditions.kept},
                      {"disturbed", conditions.disturbed},
                      {"date", conditions.date}};
  for (const TextField& f : kTexts) json[f.key] = conditions.*f.field;
  if (!conditions.took_part.empty()) {
    json["took_part"] = conditions.took_part;
    json["absent_threads"] = absent_threads_text(conditions.took_part);
  }
  if (conditions.best_ms > 0) {
    json["best_ms"] = conditions.best_ms, json["disturbed_by"] = conditions.disturbed_by;
    json["disturbed_share"] = disturbed_share(conditions);
    json["quiet"] = name(quietness(conditions)), json["quiet_text"] = quiet_text(conditions);
  }
  return json;
}

Conditions conditions_from_json(const nlohmann::json& json) {
  Conditions c;
  try {
    c.threads = json.value("threads", c.threads);
    c.took_part = json.value("took_part", c.took_part);
    c.taken = json.value("taken", c.taken);
    c.kept = json.value("kept", c.kept);
    c.disturbed = json.value("disturbed", c.disturbed);
    c.disturbed_by = json.value("disturbed_by", c.disturbed_by);
    c.best_ms = json.value("best_ms", c.best_ms);
    c.date = json.value("date", c.date);
    for (const TextField& f : kTexts) c.*f.field = json.value(f.key, c.*f.field);
  } catch (const nlohmann::json::exception& e) {
    fail(ErrorKind::bad_input, "conditions: {}", e.what());
  }
  return c;
}

std::vector<Difference> differences(const Conditions& a, const Conditions& b) {
  std::vector<Difference> list;
  if (a.threads != b.threads) list.push_back({"threads", std::to_string(a.threads), std::to_string(b.threads)});
  for (const TextField& f : kTexts) {
    if (a.*f.field != b.*f.field) list.push_back({f.what, shown(a.*f.field), shown(b.*f.field)});
  }
  return list;
}

std::vector<int> affinity_cpus() {
  // The kernel refuses masks smaller than its own, which may be larger than cpu_set_t's 1024 CPUs.
  for (size_t cpus = 1024; cpus <= size_t{1} << 18; cpus *= 4) {
    std::vector<cpu_set_t> mask(cpus / 1024);
    const size_t bytes = mask.size() * sizeof(cpu_set_t);
    if (sched_getaffinity(0, bytes, mask.data()) != 0) continue;
    std::vector<int> list;
    for (size_t i = 0; i < cpus; ++i) {
      if (CPU_ISSET_S(i, bytes, mask.data())) list.push_back(static_cast<int>(i));
    }
    return list;
  }
  return {0};
}

std::vector<int> cpus_in(std::string_view list) {
  constexpr int64_t kMostCpus = 1 << 16;
  std::vector<int> cpus;
  for (const std::string_view range : split(trim(list), ',')) {
    const size_t dash = range.find('-');
    const auto first = try_parse_int(range.substr(0, dash));
    const auto last = dash == std::string_view::npos ? first : try_parse_int(range.substr(dash + 1));
    if (!first || !last || *first < 0 || *last < *first || *last >= kMostCpus) return {};
    for (int64_t cpu = *first; cpu <= *last; ++cpu) cpus.push_back(static_cast<int>(cpu));
  }
  std::ranges::sort(cpus);
  const auto twice = std::ranges::unique(cpus);
  cpus.erase(twice.begin(), twice.end());
  return cpus;
}

int count_cpus(std::string_view list) { return static_cast<int>(cpus_in(list).size()); }

int online_cpus() {
  std::string list;
  std::getline(std::ifstream("/sys/devices/system/cpu/online"), list);
  return std::max(count_cpus(list), static_cast<int>(affinity_cpus().size()));
}

std::vector<int> cores_of(const std::vector<int>& cpus) {
  std::vector<int> cores;
  for (const int cpu : cpus) {
    std::string list;
    std::getline(std::ifstream(fmt::format("/sys/devices/system/cpu/cpu{}/topology/thread_siblings_list", cpu)), list);
    const auto first = try_parse_int(list.substr(0, list.find_first_of(",-")));
    cores.push_back(first ? static_cast<int>(*first) : cpu);
  }
  return cores;
}

bool set_affinity(const std::vector<int>& cpus) {
  if (cpus.empty()) return true;
  const int last = *std::max_element(cpus.begin(), cpus.end());
  std::vector<cpu_set_t> mask(static_cast<size_t>(last) / CPU_SETSIZE + 1);
  const size_t bytes = mask.size() * sizeof(cpu_set_t);
  for (const int cpu : cpus) CPU_SET_S(static_cast<size_t>(cpu), bytes, mask.data());
  return sched_setaffinity(0, bytes, mask.data()) == 0;
}

std::string cpu_list_text(const std::vector<int>& cpus) {
  std::string text;
  for (size_t i = 0; i < cpus.size();) {
    size_t last = i;
    while (last + 1 < cpus.size() && cpus[last + 1] == cpus[last] + 1) ++last;
    if (!text.empty()) text += ',';
    text += last == i ? std::to_string(cpus[i]) : fmt::format("{}-{}", cpus[i], cpus[last]);
    i = last + 1;
  }
  return text;
}

std::string affinity_text() { return cpu_list_text(affinity_cpus()); }

std::string huge_pages_text() {
  std::ifstream file("/sys/kernel/mm/transparent_hugepage/enabled");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const size_t open = text.find('[');
  const size_t close = text.find(']');
  if (open == std::string::npos || close == std::string::npos || close < open) return "unknown";
  return text.substr(open + 1, close - open - 1);
}

std::string iso_date() {
  const time_t now = time(nullptr);
  tm utc{};
  gmtime_r(&now, &utc);
  std::array<char, 32> text{};
  strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &utc);
  return text.data();
}

std::optional<int64_t> second_of(std::string_view iso_date) {
  constexpr std::string_view kForm = "dddd-dd-ddTdd:dd:ddZ";
  const size_t size = iso_date.size();
  const auto fits = [](char c, char form) { return form == 'd' ? c >= '0' && c <= '9' : c == form; };
  if ((size != 10 && size != 16 && size != 19 && size != 20) ||
      !std::equal(iso_date.begin(), iso_date.end(), kForm.begin(), fits))
    return std::nullopt;
  const auto number = [&](size_t at, size_t count) {
    return at < size ? try_parse_int(iso_date.substr(at, count)).value_or(0) : 0;
  };
  const std::chrono::year_month_day day{std::chrono::year(static_cast<int>(number(0, 4))),
                                        std::chrono::month(static_cast<unsigned>(number(5, 2))),
                                        std::chrono::day(static_cast<unsigned>(number(8, 2)))};
  const int64_t hour = number(11, 2), minute = number(14, 2), second = number(17, 2);
  if (!day.ok() || hour > 23 || minute > 59 || second > 60) return std::nullopt;
  return ((std::chrono::sys_days(day).time_since_epoch().count() * int64_t{24} + hour) * 60 + minute) * 60 + second;
}

}  // namespace kilter
