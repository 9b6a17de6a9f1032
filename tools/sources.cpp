// What the commands that compile take of what was tuned: --records, --choose, --layer-plan and --forbid.

#include <algorithm>
#include <regex>

#include "base/files.h"
#include "exec/schedule_source.h"
#include "measure/device.h"
#include "tool.h"
#include "tune/records/match.h"
#include "tune/tuner/choices_file.h"
#include "tune/tuner/use_tuned.h"
#include "tuning.h"

namespace kilter::tool {
namespace {

constexpr std::string_view kRecord = "record:";
constexpr std::string_view kCompiledFor = "; compiled for ";  ///< ends what a compiled file says of records

std::string loss_of_other_threads() {
  const auto row = std::ranges::find(tune::all_distances(), tune::Distance::threads, &tune::DistanceRow::distance);
  return fmt::format("expected loss about {:.0f} % (an estimate)", row->loss_percent);
}

/// What the first line of a layer plan, "# NET for TARGET on 1 thread, tuned ...", says against running it on
/// `threads`; empty where it names no number or this one.
std::string other_threads(const std::string& plan, int threads) {
  static const std::regex kOn(" on ([0-9]{1,4} threads?)[,;]");
  const std::string line = plan.substr(0, plan.find('\n'));
  std::smatch made;
  if (!line.starts_with('#') || !std::regex_search(line, made, kOn)) return {};
  if (made.str(1) == tune::threads_text(threads)) return {};
  return fmt::format("; made for {}, used on {}; {}", made.str(1), threads, loss_of_other_threads());
}

/// The one whose id starts with these digits.
const tune::Record& named(std::span<const tune::Record> records, const std::string& digits, const std::string& file) {
  constexpr size_t kLeast = 6;
  const std::string option = "--forbid record:" + digits;
  if (digits.size() < kLeast || digits.find_first_not_of("0123456789abcdef") != std::string::npos) {
    fail(ErrorKind::usage, "{}: expected {} or more hexadecimal digits of an id, as `kilter records list` shows them",
         option, kLeast);
  }
  const auto ids = [&](const tune::Record& r) { return r.id().starts_with(digits); };
  const auto count = std::ranges::count_if(records, ids);
  if (count != 1) {
    fail(ErrorKind::usage,
         "{}: {} records of {} have ids that start so, expected one; `kilter records list` shows them", option, count,
         file);
  }
  return *std::ranges::find_if(records, ids);
}

}  // namespace

void keep_threads(Plan& plan, int threads) {
  if (!plan.records.empty()) plan.records += fmt::format("{}{}", kCompiledFor, tune::threads_text(threads));
}

void tell_threads(Plan& plan, int threads) {
  const size_t at = plan.records.rfind(kCompiledFor);
  if (at == std::string::npos) return;
  if (plan.records.substr(at + kCompiledFor.size()) == tune::threads_text(threads)) {
    plan.records.erase(at);
  } else {
    plan.records += fmt::format(", run on {}; {}", threads, loss_of_other_threads());
  }
}

std::string made_for(const std::string& records, int threads) {
  static const std::regex kOthers("(made for|tuned at) ([0-9]{1,4} threads?), used ");
  std::smatch made;
  return std::regex_search(records, made, kOthers) ? made.str(2) : tune::threads_text(threads);
}

bool names_record(std::string_view forbid) { return forbid.starts_with(kRecord); }

void ModelOptions::add_records_to(CLI::App& app) {
  app.add_option("--records", records,
                 "take schedules from tuning records: a file, default (that of kilter tune) or none")
      ->capture_default_str();
}

void ModelOptions::add_sources_to(CLI::App& app) {
  add_records_to(app);
  app.add_option(
         "--choose", choose,
         "of records: accepted, the plan that tuning accepted for exactly this network, machine and number of "
         "threads, else history-best; history-best, the best record of each task; graph-best, as accepted, else "
         "the graph tuner's answer from records (default: accepted)")
      ->check(CLI::IsMember({"accepted", "history-best", "graph-best"}));
  app.add_option(
      "--layer-plan", layer_plan,
      "take schedules, layouts, fusion and threads of layers from a file, as --write-plan of kilter tune and "
      "of kilter inspect makes it");
}

std::string ModelOptions::records_file() const {
  if (records == "none") return {};
  return records == "default" ? tune::default_records_file().string() : records;
}

ModelOptions ModelOptions::without_records() const {
  ModelOptions out = *this;
  out.records = "none", out.choose.clear();
  std::erase_if(out.forbid, names_record);
  return out;
}

void ModelOptions::bar_records(std::vector<tune::Record>& known) const {
  const std::string file = records_file();
  std::vector<tune::Record> barred;  // all of them before the first is barred, which changes ids
  for (const std::string& text : forbid) {
    if (!names_record(text)) continue;
    if (file.empty()) fail(ErrorKind::usage, "--forbid {}: no records are in use; give --records", text);
    barred.push_back(named(known, text.substr(kRecord.size()), file));
  }
  for (const tune::Record& r : barred)
    tune::bar(known, r, fmt::format("--forbid {}{}", kRecord, r.id().substr(0, tune::kShownDigits)));
}

void ModelOptions::add_layer_plan(CompileOptions& options) const {
  if (records != "none")
    fail(ErrorKind::usage, "--records {} and --layer-plan {}: give one of them", records, layer_plan);
  const std::string file = read_file(layer_plan);
  const tune::Choices choices =
      tune::allowed(tune::parse_choices(file, layer_plan, &options.given_in), options.forbidden);
  for (const auto& [node, schedule] : options.schedules) options.given_in.erase(node);
  tune::add_settings(choices, options);
  tune::add_schedules(choices, options);  // passes read them, too: they say which pairs run in one kernel
  Recorded told;
  told.summary =
      fmt::format("{}{}: {} layers{}", kFromLayerPlan, layer_plan, choices.size(), other_threads(file, thread_count()));
  for (const auto& [node, choice] : choices) {
    if (!choice.schedule) told.words[node] = std::string(kFromLayerPlan) + options.given_in[node];
  }
  options.recorded = [told](const PassedGraph&, const CompileOptions&) { return told; };
}

void ModelOptions::add_sources(CompileOptions& options) const {
  for (const std::string& text : forbid) {
    if (!names_record(text)) options.forbidden.push_back(parse_forbidden(text));
  }
  const std::string file = records_file();
  if (file.empty()) {
    std::vector<tune::Record> none;
    bar_records(none);
    if (!choose.empty()) {
      fail(ErrorKind::usage,
           "--choose {}: no records are in use that it could choose from; give --records, or leave it out", choose);
    }
  }
  if (!layer_plan.empty()) return add_layer_plan(options);
  if (file.empty()) return;
  const auto store = tune::Store::open(file, tune::Store::Mode::read);
  std::vector<tune::Record> known = read_records(*store);
  tune::TunedSource source;
  bar_records(known);
  source.records = std::make_shared<const tune::Matcher>(std::move(known));
  auto plans = std::make_shared<const tune::KeptPlans>(tune::read_plans(tune::plans_file(file)));
  for (const std::string& line : plans->damaged) fmt::print(stderr, "{}\n", line);
  source.plans = std::move(plans);
  source.apply.file = file;
  source.apply.device = describe_device().fingerprint();
  source.apply.threads = thread_count();
  source.apply.tune = tune_command(*this);
  source.choose = choose.empty() ? tune::Choose::accepted : tune::parse_choose(choose);
  source.notice = [](const std::string& line) { fmt::print(stderr, "{}\n", line); };
  tune::use_tuned(options, std::move(source));
}

}  // namespace kilter::tool
