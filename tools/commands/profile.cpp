// kilter profile: shows where the time of a network goes, layer by layer, measured in the running network.

#include <nlohmann/json.hpp>

#include "base/columns.h"
#include "base/json_text.h"
#include "base/other_threads.h"
#include "look_ahead.h"
#include "on_agent.h"
#include "profile/program.h"
#include "profile/report/report.h"
#include "profile/shown.h"
#include "profile/table.h"
#include "terminal.h"
#include "tool.h"
#include "tuning.h"

namespace kilter::tool {
namespace {

struct ProfileOptions {
  ModelOptions model;
  OnOptions on;
  profile::TableOptions table;
  std::string json, csv, trace, html;
  double seconds = 3, minutes = 5;
  bool arena = false, counters = false, sort_given = false, minutes_given = false;
};

profile::Profile measured(Prepared& network, const ProfileOptions& options, const profile::Options& how) {
  if (network.loaded != nullptr) {
    profile::Profile p =
        profile::collect(*network.loaded->instance, network.plan(), network.threads, network.from, network.to, how);
    p.tuning = look_ahead(
        p, options.model, *network.session, [&] { return network.session->bind(network.inputs).graph; },
        options.minutes);
    return p;
  }
  for (const auto& [name, given] : {std::pair("--arena", options.arena), std::pair("--counters", options.counters)}) {
    if (!given) continue;
    fail(ErrorKind::usage, "{}: {} runs as a program; the option is for networks that are one plan, leave it out", name,
         network.session->name());
  }
  return profile::collect_program(*network.session, network.values, how);
}

/// A profile, and where it was measured if that was another machine.
struct Profiled {
  profile::Profile profile;
  AgentNetwork::Place place;
};

Profiled profile_here(const ProfileOptions& options, Progress& progress) {
  progress.show("compiling");
  Prepared network(options.model, Prepared::Form::any);
  profile::Options how;
  how.seconds = options.seconds;
  how.count = options.counters;
  how.progress = [&](double share) { progress.show(fmt::format("measuring, {:.0f} %", 100 * std::min(share, 1.0))); };
  Profiled out{measured(network, options, how), {}};
  out.profile.model = network.session->name();
  return out;
}

Profiled profile_there(const ProfileOptions& options, Progress& progress) {
  AgentNetwork network(options.model, options.on, {}, [&](const std::string& what) { progress.show(what); });
  const std::vector<tune::Lap> laps = network.measure(
      options.seconds, 0, [&](double share) { progress.show(fmt::format("measuring, {:.0f} %", 100 * share)); });
  std::vector<profile::RunTimes> runs;
  for (const tune::Lap& lap : laps) runs.push_back({lap.total_ms, lap.step_ms, lap.gap_ms, lap.disturbance});
  Profiled out{profile::of_runs(network.plan(), network.conditions(), std::move(runs)), {}};
  progress.show("measuring the machine's peaks");
  set_bounds(out.profile, network.plan(), [&] { return network.peaks(); });
  out.profile.model = network.session().name();
  out.place = network.place();  // also of the peaks
  return out;
}

/// Throws usage for options that cannot be used with --on.
void settle(ProfileOptions& options) {
  constexpr std::string_view kThreads = "agents do not report the times of single threads";
  options.on.settle({{"--counters", options.counters, "agents do not read the processor's counters"},
                     {"--trace", !options.trace.empty(), kThreads},
                     {"--html", !options.html.empty(), kThreads},
                     {"--minutes", options.minutes_given, "the prediction needs the records of this machine"}});
}

void run_profile(ProfileOptions options) {
  profile::check(options.table);
  settle(options);
  check_writable("--json", options.json);
  check_writable("--csv", options.csv);
  check_writable("--trace", options.trace);
  check_writable("--html", options.html);
  profile::TableOptions table = options.table;
  table.wide |= options.counters;
  table.style = table_style();
  if (table.top > 0 && !options.sort_given) table.sort = "time";
  Progress progress("profile " + options.model.model);
  Profiled made = options.on.given ? profile_there(options, progress) : profile_here(options, progress);
  profile::Profile& p = made.profile;
  p.conditions.program = version_text();
  progress.clear();
  if (!options.csv.empty()) write_text("--csv", options.csv, profile::to_csv(p));
  if (!options.trace.empty()) write_text("--trace", options.trace, json_text(profile::to_trace(p)) + "\n");
  if (!options.json.empty()) {
    nlohmann::json report = profile::to_json(p);
    if (!made.place.text.empty()) report["on"] = made.place.json;
    write_json(options.json, report);
  }
  if (!options.html.empty()) write_text("--html", options.html, profile::html_report(profile::to_json(p)));
  if (options.json == "-" || options.csv == "-" || options.trace == "-" || options.html == "-") return;
  p = profile::shown(std::move(p));
  if (!undisturbed_figure(p.conditions))
    say("{}\n", hanging(quiet_text(p.conditions, p.elsewhere ? "runs" : "passes"), 2, table.style.width));
  if (const std::string absent = absent_threads_text(p.conditions.took_part); !absent.empty())
    say("{}\n", hanging(absent, 2, table.style.width));
  say("{}: {} rows on {} thread{}\n", p.model, p.rows.size(), p.threads, p.threads == 1 ? "" : "s");
  if (!made.place.text.empty()) say("{}\n", hanging("  " + made.place.text, 2, table.style.width));
  say("{}", profile::table(p, table));
  if (options.arena) say("{}", profile::memory_table(p));
  if (p.tuning) {
    say("Tuning\n{}\n  $ {}\n", hanging("  " + p.tuning->summary, 2, table.style.width),
        p.tuning->action);  // a command stays one line, to be copied
  }
  confirm_report(options.html);
}

}  // namespace

void add_profile(Command app, Context&) {
  auto options = std::make_shared<ProfileOptions>();
  Command sub =
      app.subcommand("profile", "Show where the time of a network goes, in rows that add up to the end-to-end time");
  sub.group("Measure and explain");
  options->model.add_to(sub);
  sub.heading("Rows");
  sub.option("--by", options->table.by, "group rows by: layer, operator, or task (layers with the same problem)")
      .value("WORD")
      .suggests({"layer", "operator", "task"})
      .shows_default();
  sub.option("--sort", options->table.sort,
             "sort rows by: order (of execution), time, name, or share (of the bound) (default: order, or time with "
             "--top)")
      .value("WORD")
      .suggests({"order", "time", "name", "share"})
      .on_value([options] { options->sort_given = true; });
  sub.option("--top", options->table.top, "show only this many rows").non_negative();
  sub.flag("--wide", options->table.wide,
           "show each row's problem, schedule, shapes, layouts and kernel hash below it");
  sub.flag("--arena", options->arena, "also show the contents of the arena at each step");
  sub.flag("--counters", options->counters,
           "also show hardware counters by layer (cycles, instructions, cache misses, stalled cycles), measured in "
           "separate runs, if the machine has them");
  sub.heading("Measuring");
  sub.option("--seconds", options->seconds, "how long to measure, in seconds").range(0.01, 3600.0).shows_default();
  add_minutes(sub, options->minutes).on_value([options] { options->minutes_given = true; });
  options->on.add_to(sub);
  sub.heading("Output");
  sub.json(options->json, "everything");
  sub.option("--csv", options->csv, "also write the rows as CSV to a file, or - for standard output").file();
  sub.option("--trace", options->trace,
             "also write a trace of a typical run for ui.perfetto.dev or chrome://tracing, one track per thread")
      .file();
  sub.option("--html", options->html,
             "also write an HTML report with graph, roofline, timeline, table and memory: one file that works offline")
      .file();
  sub.footer(
      "A row's time is measured in the network, from fork to join of its parallel region; it is the mean of the middle "
      "half of the runs. Sum = kernels + gaps + barriers; the end-to-end time comes from interleaved runs without "
      "profiling. A network that runs as a program (doc/control_flow.md) has a row for each instruction; those of a "
      "loop's body are below it, and the loop's own row is without them. With --on, all runs are profiled, and rows "
      "are means of the middle half of the runs.");
  sub.example("kilter profile zoo:resnet18 --threads 1 --top 10", "The ten layers that take the most time");
  sub.example("kilter profile zoo:resnet18 --html report.html", "A report with charts, to look at in a browser");
  sub.example("kilter profile zoo:resnet18 --threads 1 --top 10 --on board --sign-key team.secret",
              "The layers on the machine of an agent that trusts team.public, in the fleet of KILTER_FLEET");
  sub.callback([=] { run_profile(*options); });
}

}  // namespace kilter::tool
