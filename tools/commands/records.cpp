// kilter records: lists, chooses, moves, checks and prunes tuning records.

#include <algorithm>
#include <csignal>
#include <nlohmann/json.hpp>

#include "base/columns.h"
#include "base/files.h"
#include "base/text.h"
#include "compile/code_versions.h"
#include "exec/thread_pool.h"
#include "measure/device.h"
#include "record_plans.h"
#include "schedule/problem/problem.h"
#include "terminal.h"
#include "tool.h"
#include "tune/records/explain_log.h"
#include "tune/records/import.h"
#include "tune/records/maintain.h"
#include "tune/records/match.h"
#include "tune/records/place.h"

namespace kilter::tool {
namespace {

using namespace kilter::tune;

/// Options common to all subcommands of `kilter records`.
struct RecordsOptions {
  std::string file, json;
  Filter filter;
  std::string status;
  int threads = -1;

  bool default_file() const { return file.empty() || file == "default"; }
  std::string place() const { return default_file() ? default_records_file().string() : file; }
  Filter full_filter() const {
    Filter f = filter;
    if (!status.empty()) f.status = parse_status(status);
    if (threads >= 0) f.threads = threads;
    return f;
  }
  bool quiet() const { return json == "-"; }
};

void tell(const std::vector<std::string>& lines) {
  for (const std::string& line : lines) say_error("{}\n", printable(line));
}

void tell_faults(const Imported& imported) { tell(imported.notices), tell(imported.damaged), tell(imported.newer); }

/// Reads all records of a file. Reports damage on standard error and continues.
std::vector<Record> read_all(const RecordsOptions& options) {
  const std::string place = options.place();
  if (options.default_file() && is_missing(place)) {
    note("{}: no records yet; `kilter tune MODEL` makes some, and `kilter records import FILE` imports others\n",
         place);
    return {};
  }
  if (is_server(place) || is_missing(place) || is_database(place) || is_json_lines(place)) {
    const Imported imported = import_store(place);
    tell_faults(imported);
    return imported.records();
  }
  const Imported imported = import_file(place, native_target());
  tell_faults(imported), tell(imported.refused);
  const bool none = imported.entries.empty() && imported.damaged.empty() && imported.refused.empty();
  std::error_code none_such;  // set for anything that is not a regular file, such as a pipe
  const auto size = std::filesystem::file_size(place, none_such);
  if (none && imported.newer.empty() && !none_such && size > 0) {
    fail(ErrorKind::bad_input,
         "records {}: it contains no record; expected a Kilter database (SQLite), JSON lines, or text with records "
         "from TVM",
         place);
  }
  return imported.records();
}

/// Reads the records that the filter admits.
std::vector<Record> read_records(const RecordsOptions& options) {
  std::vector<Record> records = read_all(options);
  std::erase_if(records, [filter = options.full_filter()](const Record& r) { return !filter.admits(r); });
  return records;
}

/// Reads the records that the filter admits, and all failures, which bar schedules regardless of the filter.
std::vector<Record> read_to_choose(const RecordsOptions& options) {
  std::vector<Record> records = read_all(options);
  std::erase_if(records, [filter = options.full_filter()](const Record& r) {
    return r.status == Status::ok && !filter.admits(r);
  });
  return records;
}

std::string time_text(const Record& r) {
  if (r.status != Status::ok) return std::string(name(r.status));
  return r.samples_ms.empty() ? "-" : fmt::format("{:.4f}", r.ms());
}

std::string ratio_text(const Record& r) { return r.versus ? fmt::format("{:.3f}", r.versus->ratio.value) : "-"; }

std::string threads_text(const Record& r) {
  return r.conditions.threads == 0 ? "?" : std::to_string(r.conditions.threads);
}

std::string target_text(const Record& r) {
  return r.conditions.target.empty() ? r.conditions.device : r.conditions.target;
}

/// Prints the figures of a line and its text, which a narrow terminal has below them.
void print_line(const std::string& figures, const std::string& text, bool head) {
  constexpr size_t kFigures = 75, kBelow = 4, kLeastWide = 120;
  const size_t width = terminal_columns().value_or(0);
  const bool narrow = width > 0 && width < kLeastWide;
  const std::string below = "\n" + hanging(std::string(kBelow, ' ') + text, kBelow + 2, width);
  const std::string line = narrow ? figures + below : hanging(figures + "  " + text, kFigures, width);
  say("{}\n", head ? styled(Style::bold, line) : line);
}

void print_header() {
  print_line(fmt::format("{:<12} {:>9} {:>7} {:>3} {:<14} {:<10} {:<10}", "id", "ms", "ratio", "thr", "target",
                         "source", "date"),
             "problem | schedule", true);
}

void print_row(const Record& r) {
  const std::string figures =
      fmt::format("{:<12} {:>9} {:>7} {:>3} {:<14} {:<10} {:<10}", r.id().substr(0, kShownDigits), time_text(r),
                  ratio_text(r), threads_text(r), target_text(r), r.source, r.conditions.date.substr(0, 10));
  const std::string text = fmt::format("{} | {}{}", r.problem, r.schedule, r.error.empty() ? "" : " | " + r.error);
  print_line(printable(figures), printable(text), false);
}

nlohmann::json json_of(const std::vector<Record>& records) {
  nlohmann::json list = nlohmann::json::array();
  for (const Record& r : records) list.push_back(to_json(r));
  return list;
}

// --- list and best ---

void list(const RecordsOptions& options, size_t most) {
  const std::vector<Record> records = read_records(options);
  write_json(options.json, json_of(records));
  if (options.quiet()) return;
  if (!records.empty()) print_header();
  // The newest records are the interesting ones.
  const size_t first = records.size() > most ? records.size() - most : 0;
  for (size_t i = first; i < records.size(); ++i) print_row(records[i]);
  say("{} record{}{}\n", records.size(), records.size() == 1 ? "" : "s",
      first > 0 ? fmt::format(", the last {} shown; --limit shows more", most) : "");
}

struct BestOptions {
  std::string task, target = "native", layouts;
  size_t most = 5;
};

nlohmann::json json_of(const std::vector<Match>& matches) {
  nlohmann::json list = nlohmann::json::array();
  for (const Match& m : matches) {
    nlohmann::json differences = nlohmann::json::array();
    for (const Distance d : m.differences) differences.push_back(std::string(name(d)));
    list.push_back({{"distance", std::string(name(m.distance))},
                    {"differences", differences},
                    {"used", m.record.may_be_faster()},
                    {"expected_loss_percent", m.loss_percent},
                    {"words", m.words},
                    {"record", to_json(m.record)}});
  }
  return list;
}

std::string_view unused_text(const Record& r) {
  if (r.may_be_faster()) return "";
  return r.versus ? "; not faster than the default: not used" : "; not measured against the default: not used";
}

/// Shows the records that would serve one task here, nearest first.
void best_for(RecordsOptions options, const BestOptions& best) {
  const Target target = parse_target(best.target);
  Query query{best.task,
              best.layouts,
              target.name,
              describe_device().fingerprint(),
              options.threads > 0 ? options.threads : default_threads(),
              code_versions(target)};
  options.threads = -1;  // records for other numbers of threads also serve, at a greater distance
  const Matcher matcher(read_to_choose(options));
  const std::vector<Match> matches = matcher.matches(query, best.most);
  if (matches.empty()) parse_problem(best.task);  // reports what is wrong with a problem that no network has
  write_json(options.json, json_of(matches));
  if (options.quiet()) return;
  say("{}\n  for {}, {}, at {} thread{}\n", printable(query.problem), query.target, query.device, query.threads,
      query.threads == 1 ? "" : "s");
  for (const Match& m : matches) {
    say_fitted(fmt::format("{:<9} loss {:>3.0f} %  {:>9} ms  ratio {:>6}  {}  {}\n{:10}{}{}\n", name(m.distance),
                           m.loss_percent, time_text(m.record), ratio_text(m.record),
                           m.record.id().substr(0, kShownDigits), printable(m.record.schedule), "", printable(m.words),
                           unused_text(m.record)));
  }
  if (matches.empty()) say("no record applies: the analytic model's default schedule is used\n");
  if (const int64_t imported = matcher.imported(query.problem); imported > 0) say("{}\n", imported_text(imported));
}

void best(const RecordsOptions& options, const BestOptions& best) {
  if (!best.task.empty()) return best_for(options, best);
  const std::vector<Record> records = history_best(read_to_choose(options));
  write_json(options.json, json_of(records));
  if (options.quiet()) return;
  if (!records.empty()) print_header();
  for (const Record& r : records) print_row(r);
  say("best records, one per problem, target, device and thread count: {}\n", records.size());
}

// --- export, import, merge ---

/// Reports what happened to the plans next to a file. Prints nothing if it has none.
void print_added(const std::string& file, const std::string& plans) {
  if (!plans.empty()) say("{}: {}\n", file, plans);
}

void export_records(const RecordsOptions& options, const std::string& output) {
  const std::vector<Record> records = read_records(options);
  if (output == "-") {
    for (const Record& r : records) say("{}\n", to_line(r));
    return;
  }
  const auto store = Store::open(output, Store::Mode::write);
  tell(store->notices());
  const int64_t added = store->append(records);
  say("{}: {} records written, {} were already there\n", store->name(), added,
      static_cast<int64_t>(records.size()) - added);
  print_added(store->name(), PlansBeside(options.place(), options.full_filter()).add_to(output));
}

struct ImportOptions {
  std::vector<std::string> files;
  std::string target = "native";
  bool foreign = true;  ///< also text of other systems
  bool notes = false;
};

void print_notes(const Imported& imported) {
  std::map<std::string, std::pair<size_t, std::string>> seen;  // by foreign line: count and notes
  std::vector<std::string> order;
  for (const Entry& e : imported.entries) {
    if (e.notes.empty()) continue;
    const auto [at, fresh] = seen.try_emplace(e.record.foreign);
    if (fresh) {
      order.push_back(e.record.foreign);
      at->second.second = fmt::format("{} | {}\n", e.record.problem, e.record.schedule);
      for (const std::string& note : e.notes) at->second.second += fmt::format("      {}\n", note);
    }
    ++at->second.first;
  }
  for (const std::string& line : order) say("  {}x {}", seen[line].first, printable_lines(seen[line].second));
}

nlohmann::json json_of(const std::string& file, const Imported& imported, int64_t added) {
  return {{"file", file},
          {"records", imported.entries.size()},
          {"distinct", imported.distinct()},
          {"added", added},
          {"notices", imported.notices},
          {"damaged", imported.damaged},
          {"newer", imported.newer},
          {"refused", imported.refused},
          {"without_counterpart", reasons(imported)}};
}

void print_import(const std::string& file, const Imported& imported, int64_t added, const std::string& to, bool notes) {
  say("{}: {} records, {} different; {} added to {}, {} were already there; {} damaged, {} without counterpart{}\n",
      file, imported.entries.size(), imported.distinct(), added, to, static_cast<int64_t>(imported.distinct()) - added,
      imported.damaged.size(), imported.refused.size(),
      imported.newer.empty() ? "" : fmt::format(", {} of a newer version", imported.newer.size()));
  for (const std::string& line : summary(imported)) say("{}\n", line);
  const auto all = reasons(imported);
  if (!all.empty()) say("without counterpart{}:\n", notes ? "" : ", --notes lists each");
  for (const auto& [reason, count] : all) say("{:>5}x {}\n", count, printable(reason));
  if (!notes) return;
  for (const std::string& line : imported.refused) say("{}\n", printable(line));
  print_notes(imported);
}

void import(const RecordsOptions& options, const ImportOptions& how) {
  const Target target = parse_target(how.target);
  for (const std::string& file : how.files) {
    if (is_absent(file))  // must fail before an empty file is created for it
      fail(ErrorKind::io, "{}: no such file; nothing was imported", file);
  }
  const auto store = Store::open(options.place(), Store::Mode::write);
  tell(store->notices());
  const Filter filter = options.full_filter();
  nlohmann::json files = nlohmann::json::array();
  for (const std::string& file : how.files) {
    Imported imported = how.foreign ? import_file(file, target) : import_store(file);
    tell_faults(imported);
    std::erase_if(imported.entries, [&](const Entry& e) { return !filter.admits(e.record); });
    const int64_t added = add_missing(*store, imported.records());
    files.push_back(json_of(shown(file), imported, added));
    const std::string plans = PlansBeside(file, filter).add_to(options.place());
    if (options.quiet()) continue;
    print_import(shown(file), imported, added, store->name(), how.notes);
    print_added(shown(file), plans);
  }
  write_json(options.json, files);
}

void plans(const RecordsOptions& options) {
  const std::filesystem::path plans = plans_file(options.place());
  if (!options.default_file() && is_absent(options.place()) && is_missing(plans)) {
    fail(ErrorKind::io, "records {}: there is neither this file nor {} next to it; `kilter tune MODEL` creates both",
         options.file, plans.filename().string());
  }
  print_plans(options.place(), options.full_filter(), options.json);
}

// --- prune, verify, explain ---

void prune(const RecordsOptions& options, const PruneOptions& how, bool yes) {
  if (!how.before.empty()) check_date("--before", how.before);
  // A missing file has nothing to prune; opening it for writing would create it.
  const bool writes = yes && !is_absent(options.place());
  const auto store = Store::open(options.place(), writes ? Store::Mode::write : Store::Mode::read);
  tell(store->notices());
  const Reading reading = store->read();
  tell(reading.damaged), tell(reading.newer);
  const PrunePlan plan = plan_prune(reading.records, how, options.full_filter());
  const int64_t removed = yes && !plan.ids.empty() ? store->remove(plan.ids) : 0;
  write_json(options.json, {{"go", plan.ids.size()},
                            {"measured", plan.measured},
                            {"failed", plan.failed},
                            {"stay", plan.kept},
                            {"removed", removed}});
  if (options.quiet()) return;
  say("{} of {} records {}: {} measured, {} failed; {} remain{}\n", plan.ids.size(), reading.records.size(),
      yes ? "removed" : "would be removed", plan.measured, plan.failed, plan.kept,
      yes ? "" : "; nothing was changed, --yes removes them");
}

void migrate(const RecordsOptions& options) {
  if (is_absent(options.place()))
    fail(ErrorKind::io, "records {}: no such file; nothing was migrated", options.place());
  const auto store = Store::open(options.place(), Store::Mode::write);
  write_json(options.json, {{"records", store->name()}, {"changes", store->notices()}});
  if (options.quiet()) return;
  for (const std::string& line : store->notices()) say("{}\n", printable(line));
  say("{}: its schema is that of this version\n", store->name());
}

void verify_file(const RecordsOptions& options, Context& context) {
  const auto store = Store::open(options.place(), Store::Mode::read);
  tell(store->notices());
  Progress progress("verify");
  const Verification v = verify(*store, [&](size_t done, size_t all) {
    if (done % 64 == 0) progress.show(fmt::format("{} of {}", done, all));
  });
  progress.clear();
  const PlansBeside beside(options.place());
  const bool passed = v.passed() && beside.damaged().empty();
  write_json(options.json, {{"sound", v.sound},
                            {"file", v.file},
                            {"damaged", v.damaged},
                            {"unreadable", v.unreadable},
                            {"plans", beside.plans().size()},
                            {"damaged_plans", beside.damaged()},
                            {"passed", passed}});
  if (!passed) context.exit = kCheckFailed;
  if (options.quiet()) return;
  for (const auto* faults : {&v.file, &v.damaged, &v.unreadable}) {
    for (const std::string& fault : *faults) say("{}\n", printable(fault));
  }
  say("{}: {} sound, {} damaged, {} that this version cannot read; the file is {}\n", store->name(), v.sound,
      v.damaged.size(), v.unreadable.size(), v.file.empty() ? "sound" : "damaged");
  if (!beside.plans().empty() || !beside.damaged().empty()) {
    say("{}: {} accepted plan{}, {} damaged line{}\n", plans_file(options.place()).string(), beside.plans().size(),
        beside.plans().size() == 1 ? "" : "s", beside.damaged().size(), beside.damaged().size() == 1 ? "" : "s");
  }
  if (!v.passed()) {
    say("`kilter records export --records {} --output FILE.jsonl` saves what is sound\n", store->name());
  }
}

struct ExplainOptions {
  std::string log, model, device, target = "native";
  double measured_ms = 0;
  size_t rows = 20;
};

std::vector<NetworkLayer> layers_of(const std::string& model, const std::string& target) {
  Session::Options how;
  how.compile.target = parse_target(target);
  how.compile.contents.code = false;
  const auto session = Session::open(model, how);
  std::vector<NetworkLayer> layers;
  for (const Step& step : session->compile().plan().steps) {
    if (step.problem.empty() || step.role == StepRole::pack) continue;
    const bool stage = !layers.empty() && layers.back().name == step.name && layers.back().problem == step.problem;
    if (stage) {
      layers.back().flops += step.effective_flops;
    } else {
      layers.push_back({step.name, step.problem, step.effective_flops});
    }
  }
  return layers;
}

void explain(RecordsOptions options, const ExplainOptions& how) {
  options.file = how.log;
  const std::vector<Record> records = read_records(options);
  const LogExplanation explanation =
      explain_log(layers_of(how.model, how.target), records, {.device = how.device, .measured_ms = how.measured_ms});
  write_json(options.json, to_json(explanation));
  if (!options.quiet()) say("{}", text(explanation, how.rows));
}

// --- the command line ---

void add_file(Command sub, RecordsOptions& options) {
  sub.option("--records", options.file,
             "database, JSON lines if the name ends in .jsonl or .json, or a PostgreSQL server's database as "
             "postgresql://USER@HOST/DATABASE; default: $XDG_DATA_HOME/kilter/records.db, else "
             "~/.local/share/kilter/records.db")
      .file()
      .suggests({"default"})
      .default_text("default");
}

void add_json(Command sub, RecordsOptions& options) { sub.json(options.json, "the result"); }

void add_filter(Command sub, RecordsOptions& options) {
  sub.heading("Only these records");
  sub.option("--problem", options.filter.contains, "only problems that contain this text");
  sub.option("--device", options.filter.device, "only devices or targets whose name contains this text");
  sub.option("--network", options.filter.network, "only records of this network");
  sub.option("--source", options.filter.source, "only records of this source: kilter, tvm, \"tvm v0.1\"");
  sub.option("--status", options.status, "only records with this status: ok, wrong, crash, timeout or rejected");
  sub.option("--threads", options.threads,
             "only records for this number of threads; 0: records whose number is not known")
      .range(0, 1024);
}

template <class T>
struct Sub {
  Command app;
  std::shared_ptr<RecordsOptions> options;
  std::shared_ptr<T> own;
};
template <class T>
Sub<T> add_sub(Command parent, const char* name, const char* what) {
  return {parent.subcommand(name, what), std::make_shared<RecordsOptions>(), std::make_shared<T>()};
}

void add_looking(Command app) {
  auto l = add_sub<size_t>(app, "list", "Show records, oldest first");
  *l.own = 50;
  add_file(l.app, *l.options), add_filter(l.app, *l.options), add_json(l.app, *l.options);
  l.app.option("--limit", *l.own, "show only the last N").shows_default();
  l.app.example("kilter records list --status crash --problem conv2d", "The convolutions whose trials crashed");
  l.app.callback([=] { list(*l.options, *l.own); });

  auto a = add_sub<int>(app, "plans",
                        "Show the plans that tuning accepted for whole networks, which are stored next to the records");
  add_file(a.app, *a.options), add_json(a.app, *a.options);
  a.app.option("--network", a.options->filter.network, "only plans of this network");
  a.app.option("--device", a.options->filter.device, "only plans of devices or targets whose name contains this text");
  a.app.option("--threads", a.options->threads, "only plans for this number of threads").range(1, 1024);
  a.app.example("kilter records plans --network resnet50", "The plans of one network");
  a.app.callback([=] { plans(*a.options); });

  auto b =
      add_sub<BestOptions>(app, "best", "Show the best record of each problem, or those that apply to one task here");
  add_file(b.app, *b.options), add_filter(b.app, *b.options), add_json(b.app, *b.options);
  b.app.option("--for", b.own->task,
               "show the records that apply to this problem on this machine at --threads (default: the CPUs of this "
               "process), nearest first, each with its expected loss");
  b.app.option("--target", b.own->target, "with --for: the target").shows_default();
  b.app.option("--layouts", b.own->layouts, "with --for: layouts of the task's inputs and outputs (default: any)");
  b.app.option("--limit", b.own->most, "with --for: number of records to show").shows_default();
  b.app.example("kilter records best --problem conv2d", "The best record of each convolution");
  b.app.example("kilter records best --for \"conv2d n1 c64 h56 w56 k64 r3 s3 pad1 f32 +bias +relu\" --threads 2",
                "The records that apply to one layer, nearest first");
  b.app.callback([=] { best(*b.options, *b.own); });
}

void add_moving(Command app) {
  auto e = add_sub<std::string>(app, "export",
                                "Write records to JSON lines or a database, and the accepted plans next to them");
  *e.own = "-";
  add_file(e.app, *e.options), add_filter(e.app, *e.options);
  e.app
      .option("-o,--output", *e.own,
              "file (.jsonl or .json: JSON lines; otherwise a database), postgresql://USER@HOST/DATABASE, or - for "
              "standard output")
      .file()
      .shows_default();
  e.app.example("kilter records export --network resnet50 -o resnet50.jsonl", "The records of one network");
  e.app.callback([=] { export_records(*e.options, *e.own); });

  for (const bool foreign : {true, false}) {
    auto i = add_sub<ImportOptions>(
        app, foreign ? "import" : "merge",
        foreign ? "Import records from files: JSON lines, databases, TVM tuning logs (v0.1 and v0.2), any text"
                : "Add the records of other databases or files of JSON lines, and the accepted plans next to them; "
                  "existing records are not duplicated");
    i.own->foreign = foreign;
    add_file(i.app, *i.options), add_filter(i.app, *i.options), add_json(i.app, *i.options);
    i.app.option("FILE", i.own->files, "files to read, or postgresql://USER@HOST/DATABASE").file("FILE").required();
    if (foreign) {
      i.app.option("--target", i.own->target, "CPU to translate CPU schedules for").shows_default();
      i.app.flag(
          "--notes", i.own->notes,
          "list each record that has no counterpart here, or whose schedule has none, and why (by default they are "
          "counted by reason)");
    }
    if (foreign) {
      i.app.example("kilter records import tests/records/data/tvm_v01.txt --notes", "A log of TVM");
    } else {
      i.app.example("kilter records merge other.db", "The records of another machine");
    }
    i.app.callback([=] { import(*i.options, *i.own); });
  }
}

void add_caring(Command app, Context& context) {
  auto p = add_sub<PruneOptions>(
      app, "prune", "Remove all but the best schedules of each task; without --yes, only show what would be removed");
  auto yes = std::make_shared<bool>(false);
  add_file(p.app, *p.options), add_filter(p.app, *p.options), add_json(p.app, *p.options);
  p.app
      .option("--keep", p.own->keep,
              "number of schedules to keep for each problem, layouts, target, device, number of threads and code "
              "generator; "
              "with fewer than 8 a task no longer counts as tuned")
      .range(1, 1'000'000)
      .shows_default();
  p.app.option("--before", p.own->before,
               "remove only records measured before this date, such as 2026-03-01 or 2026-03-01T12:00:00Z");
  p.app.flag("--drop-failures", p.own->drop_failures,
             "also remove wrong, crashed, timed-out and rejected records; their schedules may then be tried again");
  p.app.flag("--yes", *yes, "remove them");
  p.app.example("kilter records prune --before 2026-03-01", "What pruning old records would remove");
  p.app.callback([=] { prune(*p.options, *p.own, *yes); });

  auto m =
      add_sub<int>(app, "migrate",
                   "Create or update the schema of a database, for users of a server who may not do that themselves");
  add_file(m.app, *m.options), add_json(m.app, *m.options);
  m.app.example("kilter records migrate --records other.db", "Update a database that an older version created");
  m.app.callback([=] { migrate(*m.options); });

  auto v = add_sub<int>(
      app, "verify",
      "Check the file, the plans next to it, and that every record can be read; exit code 1 if anything is wrong");
  add_file(v.app, *v.options), add_json(v.app, *v.options);
  v.app.example("kilter records verify", "Check the file of `kilter tune`");
  v.app.callback([=, &context] { verify_file(*v.options, context); });

  auto x = add_sub<ExplainOptions>(
      app, "explain", "Show what a log predicts for a network, what it does not cover, and what is suspicious");
  add_json(x.app, *x.options);
  x.app.option("LOG", x.own->log, "database, JSON lines, or text with records from TVM").file("LOG").required();
  add_model_argument(x.app, x.own->model, false);
  x.app.option("--device", x.own->device,
               "use records of this device or target (default: the one with the most records)");
  x.app
      .option("--measured-ms", x.own->measured_ms,
              "measured time of the network; the difference from the prediction is explained")
      .positive();
  x.app.option("--target", x.own->target, "CPU to make the network's tasks for").shows_default();
  x.app.option("--rows", x.own->rows, "number of problems to show").shows_default();
  x.app.example("kilter records explain tests/records/data/tvm_v01.txt zoo:resnet18_tvm",
                "What a log of TVM says about ResNet-18");
  x.app.callback([=] { explain(*x.options, *x.own); });
}

}  // namespace

void add_records(Command app, Context& context) {
  Command sub = app.subcommand("records", "List, choose, move, check and prune tuning records");
  sub.require_subcommand();
  sub.refused_option("--records", [](const std::string& file) {
    fail(ErrorKind::usage, "--records {0}: expected after the subcommand, as in `kilter records list --records {0}`",
         shown(file));
  });
  sub.group("Tune");
  sub.footer("doc/records.md says what a record contains and how one is chosen.");
  add_looking(sub);
  add_moving(sub);
  add_caring(sub, context);
}

}  // namespace kilter::tool
