#include "fleet_bench.h"

#include <algorithm>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/columns.h"
#include "base/error.h"
#include "base/text.h"
#include "base/text_table.h"
#include "fleet/status.h"
#include "measured_network.h"
#include "profile/bounds.h"
#include "terminal.h"

namespace kilter::tool {
namespace {

/// The networks of the speed set that need no file.
constexpr std::string_view kUsualModels[] = {
    "zoo:resnet18",      "zoo:resnet50",     "zoo:vgg16",       "zoo:mobilenet_v1",    "zoo:mobilenet_v2",
    "zoo:squeezenet1_1", "zoo:inception_v3", "zoo:densenet121", "zoo:centernet_dla34", "zoo:bert_base"};

struct FleetBench {
  std::vector<std::string> models, classes;
  FleetOptions fleet;
  std::string precision = "declared", json, markdown;
  double seconds = 2;
  int threads = 0;
  bool all_classes = false;
};

/// One network on the machines of one class.
struct Cell {
  std::string model;
  std::string error;           ///< why there are no figures; empty if there are
  std::optional<Bench> bench;  ///< empty with an error
  double bound_ms = 0;         ///< the least time that the machine's peaks allow

  double share() const { return bound_ms / bench->evaluation.estimate(); }
};

struct ClassOfAgents {
  std::string name;
  AgentMachine machine;
  Peaks peaks = {};  ///< measured before the first figure
  int threads = 0;
  std::vector<Cell> cells = {};  ///< in the order of the models
};

/// Returns the classes to measure on, with the machines of their agents. `absent` receives the classes that have
/// agents, but none that is ready.
std::vector<ClassOfAgents> classes_of(const FleetBench& options, std::map<std::string, std::string>& absent) {
  std::vector<ClassOfAgents> out;
  if (!options.all_classes) {
    for (const std::string& name : options.classes) out.push_back({name, machine_of_class(options.fleet.url, name)});
    return out;
  }
  kilter::fleet::Queue queue(options.fleet.url);
  std::map<std::string, kilter::fleet::QueueAgent> ready;  // one agent of each class
  for (const kilter::fleet::QueueAgent& agent : queue.agents()) {
    const std::string state = state_of(agent);
    if (state == "waits" || state == "works") {
      ready.try_emplace(agent.device_class, agent);
    } else {
      std::string& all = absent[agent.device_class];
      all += fmt::format("{}{} is {}", all.empty() ? "" : ", ", printable(agent.name), state);
    }
  }
  std::erase_if(absent, [&](const auto& of_class) { return ready.contains(of_class.first); });
  if (ready.empty()) {
    std::vector<std::string> others;
    for (const auto& [name, agents] : absent) others.push_back(fmt::format("{} ({})", printable(name), agents));
    fail(ErrorKind::io, "--all-classes: no agent is ready; {}; start one on each kind of machine (kilter-agent)",
         others.empty() ? "the fleet has no agents" : "there are the classes " + join(others, ", "));
  }
  for (const auto& [name, agent] : ready) out.push_back({name, machine_of(agent)});
  return out;
}

/// Measures one network. Errors of the network or the fleet are in the cell.
Cell measured(const std::string& name, ClassOfAgents& there, const FleetBench& options, Progress& progress,
              const std::string& where) {
  const auto show = [&](const std::string& what) { progress.show(fmt::format("{}: {}", where, what)); };
  Cell cell{name, {}, {}};
  ModelOptions model;
  model.model = name, model.threads = options.threads, model.precision = options.precision;
  OnOptions on;
  on.fleet = options.fleet, on.fleet.device_class = there.name, on.given = true;
  try {
    AgentNetwork network(std::move(model), on, {}, show);
    cell.model = network.session().name();
    const auto measure_peaks = [&] {
      show("measuring the machine's peaks");
      there.peaks = better(there.peaks, network.peaks());
    };
    const auto bound = [&] { return profile::bound_ms(network.plan(), there.peaks, network.threads()); };
    if (there.peaks.gflops.empty()) measure_peaks();
    const std::vector<tune::Lap> runs = network.measure(
        options.seconds, 0, [&](double share) { show(fmt::format("measuring, {:.0f} %", 100 * share)); });
    cell.bench = bench_of(network, runs);
    cell.bound_ms = bound();
    constexpr int kTries = 2;  // peaks that a network beats were disturbed
    for (int i = 0; i < kTries && cell.share() > 1; ++i) measure_peaks(), cell.bound_ms = bound();
  } catch (const Error& e) {
    cell.bench.reset();
    cell.error = e.message();
  }
  return cell;
}

std::string percent(double share) { return fmt::format("{:.0f} %", 100 * share); }

std::string text(const ClassOfAgents& there) {
  std::string out =
      fmt::format("{} ({}), {} thread{}, target {}\n", printable(there.name), printable(there.machine.device),
                  there.threads, there.threads == 1 ? "" : "s", printable(there.machine.target));
  TextTable table({{.title = "network", .width = 20, .left = true, .least = 12},
                   {.title = "ms", .width = 10},
                   {.title = "shortest", .width = 10},
                   {.title = "of bound", .width = 8},
                   {.title = "disturbed", .width = 9}},
                  2);
  std::string errors;
  for (const Cell& cell : there.cells) {
    if (!cell.bench) {
      table.add({printable(cell.model), "-", "-", "-", "-"});
      errors += hanging(fmt::format("  {}: {}", printable(cell.model), printable(cell.error)), 4, table_style().width);
      errors += "\n";
      continue;
    }
    const Evaluation& e = cell.bench->evaluation;
    table.add({printable(cell.model), fmt::format("{:.3f}", e.estimate()), fmt::format("{:.3f}", e.samples.min()),
               percent(cell.share()), percent(disturbed_share(cell.bench->conditions))});
  }
  return out + table.text(table_style(), "--json has them") + errors;
}

/// Returns the rows of all classes as a table of a README, with the conditions below it.
std::string markdown(const std::vector<ClassOfAgents>& classes) {
  std::string head = "| network |", line = "|---|", rows, conditions;
  for (const ClassOfAgents& there : classes) {
    head += fmt::format(" {}: ms | of bound |", printable(there.name)), line += "---|---|";
    conditions +=
        fmt::format("- {}: {}, {} thread{}, target {}\n", printable(there.name), printable(there.machine.device),
                    there.threads, there.threads == 1 ? "" : "s", printable(there.machine.target));
  }
  for (size_t row = 0; row < classes.front().cells.size(); ++row) {
    rows += fmt::format("| {} |", printable(classes.front().cells[row].model));
    for (const ClassOfAgents& there : classes) {
      const Cell& cell = there.cells[row];
      rows += cell.bench ? fmt::format(" {:.3f} | {} |", cell.bench->evaluation.estimate(), percent(cell.share()))
                         : " - | - |";
    }
    rows += "\n";
  }
  return fmt::format("{}\n{}\n{}\n{}\n{}, {}; untuned; means of the middle half of the undisturbed runs.\n", head, line,
                     rows, conditions, version_text(), iso_date().substr(0, 10));
}

nlohmann::json json_of(const std::vector<ClassOfAgents>& classes) {
  nlohmann::json out{{"program", version_text()}, {"date", iso_date()}, {"results", nlohmann::json::array()}};
  for (const ClassOfAgents& there : classes) {
    for (const Cell& cell : there.cells) {
      nlohmann::json result{{"model", cell.model}, {"device_class", there.name}};
      if (cell.bench) {
        result.update(report_of(*cell.bench));
        result["bound_ms"] = cell.bound_ms, result["share_of_bound"] = cell.share();
      } else {
        result["error"] = cell.error;
      }
      out["results"].push_back(std::move(result));
    }
  }
  return out;
}

void settle(FleetBench& options) {
  if (options.all_classes != options.classes.empty())
    fail(
        ErrorKind::usage,
        "say where to measure: --on CLASS, which may be given several times, or --all-classes for every class that has "
        "an agent; `kilter fleet status` lists them");
  options.fleet.url = required_fleet(options.fleet.url);
  if (options.models.empty()) options.models.assign(std::begin(kUsualModels), std::end(kUsualModels));
  if (options.json == "-" && options.markdown == "-")
    fail(ErrorKind::usage, "--json - and --markdown - exclude each other; write one of them to a file");
  check_writable("--json", options.json);
  check_writable("--markdown", options.markdown);
}

int run(FleetBench options) {
  settle(options);
  Progress progress("fleet bench");
  std::map<std::string, std::string> absent;
  std::vector<ClassOfAgents> classes = classes_of(options, absent);
  for (ClassOfAgents& there : classes) there.threads = options.threads > 0 ? options.threads : there.machine.cpus;
  const size_t all = classes.size() * options.models.size();
  size_t done = 0, failed = 0;
  const bool prints = options.json != "-" && options.markdown != "-";
  for (ClassOfAgents& there : classes) {
    for (const std::string& model : options.models) {
      const std::string where = fmt::format("{} on {} ({} of {})", model, there.name, ++done, all);
      there.cells.push_back(measured(model, there, options, progress, where));
      if (!there.cells.back().error.empty()) ++failed;
    }
    progress.clear();
    if (prints) say("{}{}", &there == &classes.front() ? "" : "\n", text(there));
  }
  if (!options.json.empty()) write_json(options.json, json_of(classes));
  if (!options.markdown.empty()) write_text("--markdown", options.markdown, markdown(classes));
  for (const auto& [name, agents] : absent)
    say_error("kilter: nothing was measured on the device class {}: {}\n", printable(name), agents);
  if (failed > 0) say_error("kilter: {} of {} measurements failed\n", failed, all);
  return failed > 0 || !absent.empty() ? kCheckFailed : kDone;
}

}  // namespace

void add_fleet_bench(const Command& fleet, Context& context) {
  auto options = std::make_shared<FleetBench>();
  Command sub = fleet.subcommand("bench", "Time networks on the machines of a fleet, as one table");
  sub.option("MODEL", options->models,
             "networks, as `kilter bench` accepts them (default: the networks of the speed set that are built in)")
      .value("MODEL...");
  sub.heading("Where");
  sub.flag("--all-classes", options->all_classes, "on one agent of every device class that has one");
  sub.option("--on", options->classes, "on an agent of this device class; may be given several times")
      .value("CLASS")
      .one_value_each();
  sub.option("--fleet", options->fleet.url, "the fleet's database (default: $KILTER_FLEET)").value("URL");
  options->fleet.add_key_to(sub);
  sub.heading("How");
  sub.option("--threads", options->threads, "number of threads (default: the CPUs of the agent's machine)").positive();
  sub.option("--precision", options->precision, "declared, bf16 or fp16").value("WORD").shows_default();
  sub.option("--seconds", options->seconds, "how long to measure each network, in seconds")
      .range(0.01, 3600.0)
      .shows_default();
  sub.heading("Output");
  sub.option("--markdown", options->markdown,
             "also write a Markdown table, with a column for each class, to a file, or - for standard output")
      .file();
  sub.json(options->json, "all figures with their conditions");
  sub.footer(
      "Networks are compiled here for the target of each agent's machine. `of bound` compares the time with the least "
      "that the machine's peaks allow. A network that cannot run on a class has a reason instead of figures, and the "
      "exit code is 1.");
  sub.example("kilter fleet bench --all-classes --sign-key team.secret", "The speed set on every kind of machine");
  sub.example("kilter fleet bench zoo:squeezenet1_1 --on board --sign-key team.secret --markdown -",
              "One network on one class, as Markdown");
  sub.callback([options, &context] { context.exit = run(*options); });
}

}  // namespace kilter::tool
