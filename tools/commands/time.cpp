// kilter time: times a single task under the conditions that it has in the network, and on request in the network.

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/align.h"
#include "base/columns.h"
#include "base/text.h"
#include "measure/stats.h"
#include "profile/replay.h"
#include "profile/table.h"
#include "terminal.h"
#include "tool.h"

namespace kilter::tool {
namespace {

struct TimeOptions {
  ModelOptions model;
  std::vector<std::string> nodes, ops;
  std::string weights = "cold", json;
  profile::ReplayOptions replay;
  double seconds = 3;
  bool in_network = false;
};

constexpr int kRounds = 4;

struct Timed {
  size_t step = 0;
  profile::Replay alone, warm;
  Samples in_network;  ///< one per round
};

bool wanted(const Step& step, const TimeOptions& options) {
  if (step.kind != StepKind::kernel) return false;
  const auto among = [](const std::vector<std::string>& list, std::string_view text) {
    return std::find(list.begin(), list.end(), text) != list.end();
  };
  if (!options.nodes.empty() && !among(options.nodes, step.name)) return false;
  if (options.ops.empty()) return true;
  for (std::string_view op : split(step.ops, '+')) {
    if (among(options.ops, op)) return true;
  }
  return false;
}

void check_words(const Plan& plan, const TimeOptions& options) {
  const auto known = [&](const std::string& word, bool node) {
    return std::any_of(plan.steps.begin(), plan.steps.end(), [&](const Step& s) {
      if (node) return s.name == word;
      const auto ops = split(s.ops, '+');
      return std::find(ops.begin(), ops.end(), word) != ops.end();
    });
  };
  for (const std::string& n : options.nodes) {
    if (!known(n, true)) fail(ErrorKind::usage, "--node {}: no layer has this name; `kilter profile` lists them", n);
  }
  for (const std::string& o : options.ops) {
    if (!known(o, false))
      fail(ErrorKind::usage, "--ops {}: no layer has this operator; `kilter profile` lists them", o);
  }
}

std::string difference(const Timed& t) {
  const double us = (t.alone.ms() - t.in_network.mean()) * 1e3;
  return fmt::format("{:+.1f} us {:+.1f} %", us, us / t.in_network.mean() * 0.1);
}

nlohmann::json to_json(const Timed& t, const Plan& plan) {
  const Step& s = plan.steps[t.step];
  nlohmann::json out{{"name", profile::labels_of(plan)[t.step]},
                     {"layer", s.name},
                     {"ops", s.ops},
                     {"problem", s.problem},
                     {"schedule", s.schedule},
                     {"estimate_ms", t.alone.ms()},
                     {"mean_ms", t.alone.samples.mean()},
                     {"std_dev_ms", t.alone.samples.std_dev()},
                     {"median_ms", t.alone.samples.median()},
                     {"min_ms", t.alone.samples.min()},
                     {"number", t.alone.number},
                     {"repeat", t.alone.samples.ms.size()},
                     {"weights", t.alone.weights},
                     {"activations", t.alone.activations}};
  if (!t.in_network.ms.empty()) {
    out["in_network_ms"] = t.in_network.mean();
    out["warm_ms"] = t.warm.ms();
  }
  return out;
}

/// The table that fits a terminal.
struct TableShape {
  size_t name = 40;  ///< width of the names
  bool warm = true;  ///< whether there is room for the column of warm times
};

/// `columns` 0: no limit.
TableShape shape_for(size_t columns, bool in_network) {
  constexpr size_t kAlone = 33, kInNetwork = 32, kWarm = 10, kLeastName = 12, kMostName = 40;
  if (columns == 0) return {};
  const size_t figures = kAlone + (in_network ? kInNetwork : 0);
  const size_t room = columns - std::min(columns, figures);
  const bool warm = room >= kLeastName + kWarm;
  const size_t left = room - (in_network && warm ? kWarm : 0);
  return {std::clamp(left, kLeastName, kMostName), warm};
}

void print_line(const Timed& t, const Plan& plan, const TableShape& shape) {
  const std::string name = profile::labels_of(plan)[t.step];
  const Samples& x = t.alone.samples;
  say("{:<{}} {:>10.4f} {:>9.4f} ({:.4f})", without_middle(printable(name), shape.name), shape.name, t.alone.ms(),
      x.mean(), x.std_dev());
  if (!t.in_network.ms.empty()) {
    say(" {:>10.4f} {:>20}", t.in_network.mean(), difference(t));
    if (shape.warm) say(" {:>9.4f}", t.warm.ms());
  }
  say("\n");
}

/// Prints how far the times of the single tasks differ from their times in the network.
void print_summary(const std::vector<Timed>& all) {
  std::vector<double> percent;
  double worst = 0, worst_us = 0;
  for (const Timed& t : all) {
    const double us = std::abs(t.alone.ms() - t.in_network.mean()) * 1e3;
    percent.push_back(us / t.in_network.mean() * 0.1);
    if (t.in_network.mean() >= 0.05) {
      worst = std::max(worst, percent.back());
    } else {
      worst_us = std::max(worst_us, us);
    }
  }
  say("{} tasks: median difference {:.1f} %, worst {:.1f} % (tasks under 50 us: {:.1f} us)\n", all.size(),
      median(percent), worst, worst_us);
}

void append(profile::Replay& all, profile::Replay more) {
  more.samples.ms.insert(more.samples.ms.begin(), all.samples.ms.begin(), all.samples.ms.end());
  all = std::move(more);
}

void measure_round(Prepared& network, const TimeOptions& options, std::vector<Timed>& all, int round, int rounds,
                   Progress& progress) {
  Instance& instance = *network.loaded->instance;
  const auto show = [&](const std::string& what) {
    progress.show(fmt::format("round {} of {}: {}", round + 1, rounds, what));
  };
  if (options.in_network) {
    show("the network");
    profile::Options how;
    how.seconds = options.seconds / rounds;
    how.peaks = false;
    const profile::Profile p =
        profile::collect(instance, network.plan(), network.threads, network.from, network.to, how);
    for (const profile::Row& row : p.rows) {
      for (Timed& t : all) {
        if (row.step == static_cast<int64_t>(t.step)) t.in_network.ms.push_back(row.time.mean);
      }
    }
  }
  profile::ReplayOptions replay = options.replay;
  replay.repeat = ceil_div(replay.repeat, rounds);
  for (Timed& t : all) {
    show(network.plan().steps[t.step].name);
    network.run();
    append(t.alone, profile::replay(instance, network.plan(), network.threads, t.step, replay));
    if (!options.in_network) continue;
    profile::ReplayOptions warm = replay;
    warm.weights = profile::Weights::warm;
    append(t.warm, profile::replay(instance, network.plan(), network.threads, t.step, warm));
  }
}

void time_tasks(TimeOptions& options) {
  options.replay.weights = profile::parse_weights(options.weights);
  check_writable("--json", options.json);
  Progress progress("time " + options.model.model);
  progress.show("compiling");
  Prepared network(options.model);
  const Plan& plan = network.plan();
  check_words(plan, options);
  std::vector<Timed> all;
  for (size_t s = 0; s < plan.steps.size(); ++s) {
    if (wanted(plan.steps[s], options)) all.push_back({s, {}, {}, {}});
  }
  // Both sides are measured in rounds, so that a change of the machine's clock affects both.
  const int rounds = options.in_network ? kRounds : 1;
  for (int round = 0; round < rounds; ++round) measure_round(network, options, all, round, rounds, progress);
  progress.clear();
  tell_absent_threads(*network.session);
  nlohmann::json report = nlohmann::json::array();
  for (const Timed& t : all) report.push_back(to_json(t, plan));
  if (!options.json.empty()) write_json(options.json, report);
  if (options.json == "-") return;
  say("{}: {} on {} thread{}; ms of one run; weights {}\n", printable(network.session->name()), plan.target,
      network.threads, network.threads == 1 ? "" : "s", options.weights);
  const TableShape shape = shape_for(terminal_columns().value_or(0), options.in_network);
  std::string head = fmt::format("{:<{}} {:>10} {:>9} {:<8}", "task", shape.name, "estimate", "mean", "(std dev)");
  if (options.in_network)
    head += fmt::format(" {:>10} {:>20}{}", "in network", "alone - in network", shape.warm ? "      warm" : "");
  say("{}\n", styled(Style::bold, head));
  for (const Timed& t : all) print_line(t, plan, shape);
  if (options.in_network && !all.empty()) print_summary(all);
  if (options.in_network && !shape.warm) say("there is no room for warm times; --json has them\n");
}

}  // namespace

void add_time(Command app, Context&) {
  auto options = std::make_shared<TimeOptions>();
  Command sub = app.subcommand("time", "Time tasks one by one, under the conditions they have in the network");
  sub.group("Measure and explain");
  options->model.add_to(sub);
  sub.heading("Tasks");
  sub.option("--node", options->nodes, "only these layers, by name").delimiter(',').value("NODE");
  sub.option("--ops", options->ops, "only layers with one of these operators, e.g. Conv,MatMul")
      .delimiter(',')
      .value("OP");
  sub.heading("Measuring");
  sub.option("--weights", options->weights,
             "cold (weights come from where the network finds them), warm (the same weights every time), or flush (all "
             "caches flushed before each run)")
      .value("WORD")
      .suggests({"cold", "warm", "flush"})
      .shows_default();
  sub.option("--number", options->replay.number, "runs per measurement").shows_default();
  sub.option("--repeat", options->replay.repeat, "number of measurements").shows_default();
  sub.option("--min-repeat-ms", options->replay.min_repeat_ms, "add runs until a measurement takes at least this long")
      .shows_default();
  sub.flag("--in-network", options->in_network,
           "also profile the network, and show each task's time in the network and its warm time");
  sub.option("--seconds", options->seconds, "how long to profile with --in-network, in seconds")
      .range(0.01, 3600.0)
      .shows_default();
  sub.heading("Output");
  sub.json(options->json, "the figures");
  sub.example("kilter time zoo:resnet18 --ops Conv --threads 1 --in-network",
              "Each convolution on its own and in the network");
  sub.callback([=] { time_tasks(*options); });
}

}  // namespace kilter::tool
