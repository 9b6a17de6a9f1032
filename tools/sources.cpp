// The options with which commands that compile use earlier tuning: --records, --choose, --layer-plan and --forbid.

#include "tune/tuner/plans/sources.h"

#include <algorithm>

#include "base/text.h"
#include "tool.h"
#include "tune/records/match.h"
#include "tune/records/place.h"
#include "tuning.h"

namespace kilter::tool {
namespace {

constexpr std::string_view kRecord = "record:";

/// Returns the one record whose id starts with these digits. Throws usage if there is not exactly one.
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
         "{}: {} records of {} have ids that start with this; expected one; `kilter records list` shows them", option,
         count, file);
  }
  return *std::ranges::find_if(records, ids);
}

}  // namespace

bool names_record(std::string_view forbid) { return forbid.starts_with(kRecord); }

namespace {

void add_records_option(Command app, ModelOptions& o, const std::string& suffix) {
  Option records =
      app.option("--records" + suffix, o.records,
                 "tuning records to take schedules from: a file, postgresql://USER@HOST/DATABASE, default (the file of "
                 "kilter tune) or none")
          .file()
          .suggests({"default", "none"});
  if (!o.records.empty()) records.shows_default();
}

}  // namespace

void add_sources_of(Command app, ModelOptions& o, const std::string& suffix) {
  app.heading("Using tuning results");
  add_records_option(app, o, suffix);
  app.option(
         "--choose" + suffix, o.choose,
         "how to use records. accepted: the plan that tuning accepted for exactly this network, machine and number of "
         "threads, or history-best if there is none; history-best: the best record of each task; graph-best: the "
         "accepted plan, or the graph tuner's answer from records if there is none (default: accepted)")
      .one_of({"accepted", "history-best", "graph-best"});
  app.option("--layer-plan" + suffix, o.layer_plan,
             "file to take schedules, layouts, fusion and threads of layers from, as written by --write-plan of kilter "
             "tune and kilter inspect")
      .file();
}

void ModelOptions::add_records_to(Command app) { add_records_option(app, *this, ""); }
void ModelOptions::add_sources_to(Command app) { add_sources_of(app, *this, ""); }

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
  std::vector<tune::Record> barred;  // collected before any is barred, since barring changes ids
  for (const std::string& text : forbid) {
    if (!names_record(text)) continue;
    if (file.empty()) fail(ErrorKind::usage, "--forbid {}: no records are in use; give --records", text);
    barred.push_back(named(known, text.substr(kRecord.size()), tune::shown(file)));
  }
  for (const tune::Record& r : barred)
    tune::bar(known, r, fmt::format("--forbid {}{}", kRecord, r.id().substr(0, tune::kShownDigits)));
}

std::shared_ptr<const Chooser> ModelOptions::add_sources(CompileOptions& options) const {
  for (const std::string& text : forbid) {
    if (!names_record(text)) options.forbidden.push_back(parse_forbidden(text));
  }
  const std::string file = records_file();
  if (file.empty()) {
    std::vector<tune::Record> none;
    bar_records(none);
    if (!choose.empty()) {
      fail(ErrorKind::usage, "--choose {}: no records are in use to choose from; give --records, or leave --choose out",
           choose);
    }
  }
  if (!layer_plan.empty()) {
    std::shared_ptr<const Chooser> plan = tune::use_layer_plan(layer_plan, thread_count(), options, ships);
    if (plan != nullptr && records != "none")
      fail(ErrorKind::usage, "--records {} and --layer-plan {}: give only one of them", tune::shown(records),
           layer_plan);
    if (plan != nullptr) return plan;
  }
  if (file.empty()) return nullptr;
  return tune::use_records({.file = file,
                            .threads = thread_count(),
                            .choose = choose.empty() ? tune::Choose::accepted : tune::parse_choose(choose),
                            .tune = tune_command(*this),
                            .shipped = ships,
                            .edit = [this](std::vector<tune::Record>& known) { bar_records(known); },
                            .notice = [](const std::string& line) { say_error("{}\n", printable(line)); }});
}

}  // namespace kilter::tool
