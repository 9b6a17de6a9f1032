// kilter searchers: compares the tuning searchers on tasks whose costs are all known, and measures the tables for that.

#include <algorithm>
#include <cmath>
#include <ctime>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/files.h"
#include "base/json_text.h"
#include "measure/clock.h"
#include "measure/conditions.h"
#include "measure/device.h"
#include "profile/schedule_costs.h"
#include "terminal.h"
#include "tool.h"
#include "tune/cost/boosted_trees.h"
#include "tune/cost/xgboost_library.h"
#include "tune/search/searcher.h"
#include "tune/search/simulate.h"
#include "tune/space/prune.h"
#include "tune/tuner/search/learned.h"
#include "tune/tuner/tasks/task_space.h"

namespace kilter::tool {
namespace {

using nlohmann::json;

constexpr double kSeconds[] = {1, 3, 10, 30, 60};
constexpr size_t kTrials[] = {8, 16, 32, 64, 128, 256};

struct SearchersOptions {
  std::vector<std::string> what, searchers, search_options;
  std::string target = "native", json, measure, cost_model = "none";
  int threads = 1, seeds = 20, rounds = 4, trials = 256;
  double prune = 1.5, noise = 0, seconds = 0;
  bool free_thinking = false, transfer = false;
};

// --- tables ---

/// Returns a file name for a problem such as "conv2d n1 c64 ... +bias".
std::string table_name(const std::string& problem) {
  std::string out;
  for (const char c : problem) {
    const bool plain = std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.';
    if (plain) out += c;
    if (!plain && !out.empty() && out.back() != '_') out += '_';
  }
  while (!out.empty() && out.back() == '_') out.pop_back();
  return out + ".jsonl";
}

/// Measures the costs of all schedules that pruning leaves. Measures the cheapest again, with more rounds, until no
/// others take their places, so that the optimum is not just the luckiest of many.
tune::CostTable measure_table(const std::string& problem, const SearchersOptions& options) {
  constexpr size_t kFront = 36;
  profile::CostOptions how;
  how.target = parse_target(options.target);
  how.threads = options.threads;
  how.rounds = options.rounds;
  const tune::TaskSpace task(problem, how.target);
  const tune::Pruned pruned = tune::prune(*task.space, {options.prune});
  say("{}\n  {}\n", problem, pruned.text());
  std::vector<Schedule> schedules;
  for (const tune::Point& p : pruned.points) schedules.push_back(task.space->schedule(p));
  Progress progress("searchers");
  const auto show = [&](size_t done) { progress.show(fmt::format("{} of {}: {}", done, schedules.size(), problem)); };
  const double start = now_ms();
  const std::vector<profile::ScheduleCost> costs = profile::schedule_costs(problem, schedules, how, show);
  tune::CostTable table{problem, how.target.name, options.threads, options.prune, {}, {}};
  for (size_t i = 0; i < schedules.size(); ++i)
    table.rows.push_back({schedules[i], costs[i].cost, costs[i].compile_ms + costs[i].measure_ms});
  how.rounds = 4 * options.rounds;
  const std::string repeats = tune::settle_front(table.rows, kFront, [&](const std::vector<Schedule>& best) {
    std::vector<double> again;
    for (const profile::ScheduleCost& c : profile::schedule_costs(problem, best, how)) again.push_back(c.cost);
    return again;
  });
  table.conditions =
      fmt::format("{}; {}; {}; {}", describe_device().fingerprint(), version_text(), iso_date(), repeats);
  progress.clear();
  say("  {} trials in {:.1f} s; best {:.4f} of the default: {}\n  {}\n", schedules.size(), (now_ms() - start) * 1e-3,
      table.rows.front().cost, table.rows.front().schedule.text(), repeats);
  return table;
}

void measure(const SearchersOptions& options) {
  for (const std::string& problem : options.what) {
    const auto path = std::filesystem::path(options.measure) / table_name(problem);
    if (std::filesystem::exists(path)) {
      say("{}: already exists\n", path.string());
      continue;
    }
    write_text("--measure", path.string(), text(measure_table(problem, options)));
  }
}

// --- comparing ---

struct Played {
  std::string searcher;
  std::vector<tune::Curve> curves;  ///< one per seed
};
struct Arena {
  tune::CostTable table;
  size_t points = 0;
  double optimum = 0, default_cost = 0;
  std::vector<Played> played;

  tune::Spread regret_at(const Played& p, double seconds) const {
    return spread(p, [&](const tune::Curve& c) { return c.best_after(seconds); });
  }
  tune::Spread regret_after(const Played& p, size_t trials) const {
    return spread(p, [&](const tune::Curve& c) { return c.best_after_trials(trials); });
  }

 private:
  template <class F>
  tune::Spread spread(const Played& p, const F& best) const {
    std::vector<double> all;
    for (const tune::Curve& c : p.curves) all.push_back(best(c) / optimum - 1);
    return tune::spread_of(std::move(all));
  }
};

/// A table, its task, and the game that the searchers play on it.
struct Contest {
  explicit Contest(const std::string& file)
      : table(tune::parse_cost_table(read_file(file), file)),
        task(table.problem, parse_target(table.target)),
        game(*task.space, table, file) {}

  tune::CostTable table;
  tune::TaskSpace task;
  tune::Game game;
};
using Contests = std::vector<std::unique_ptr<Contest>>;

/// Returns training data from the tables of other problems, whatever machine they were measured on. Each contributes at
/// most kMostLessons points.
tune::EarlierTrials lessons_of_others(const Contests& all, const Contest& but) {
  tune::EarlierTrials out;
  for (size_t i = 0; i < all.size(); ++i) {
    if (all[i]->table.problem != but.table.problem)
      out.append(all[i]->game.lessons(static_cast<uint32_t>(i), tune::kMostLessons));
  }
  return out;
}

Arena play(const Contest& contest, const std::vector<tune::SearchOptions>& searchers, const SearchersOptions& options,
           const tune::EarlierTrials& earlier) {
  Arena arena{contest.table, contest.game.points(), contest.game.optimum(), contest.game.default_cost(), {}};
  tune::PlayOptions how;
  how.most_trials = static_cast<size_t>(options.trials);
  if (options.seconds > 0) how.most_seconds = options.seconds;
  how.noise = options.noise;
  how.stop_at_optimum = true;
  // Counts the CPU time of this process's threads, so that other processes do not affect it.
  if (!options.free_thinking) how.clock = [] { return 1e3 * static_cast<double>(std::clock()) / CLOCKS_PER_SEC; };
  tune::LearnedPoints taught(std::make_unique<tune::BoostedTrees>());
  std::unique_ptr<const tune::PointModel> pretrained;
  if (options.transfer) {
    taught.fit(earlier.rows, earlier.log2_costs, earlier.groups);
    how.earlier = &earlier;
    how.pretrained = &taught;
  } else {
    pretrained = tune::load_points(options.cost_model);
    how.pretrained = pretrained.get();
  }
  for (const tune::SearchOptions& searcher : searchers) {
    Played p{searcher.searcher, {}};
    for (int seed = 1; seed <= options.seeds; ++seed) {
      tune::SearchOptions seeded = searcher;
      seeded.seed = searcher.seed + seed - 1;
      const auto trained = tune::model_for(searcher.searcher);
      how.trained = trained.get();
      p.curves.push_back(contest.game.play(seeded, how));
    }
    arena.played.push_back(std::move(p));
  }
  return arena;
}

void print_arena(const Arena& arena) {
  say("{}\n  {} points, optimum {:.3f} of the default's time (the default against itself: {:.3f})\n  {:<11}",
      arena.table.problem, arena.points, arena.optimum, arena.default_cost, "regret, %");
  for (const size_t t : kTrials) say(" {:>8}", fmt::format("{} tr.", t));
  for (const double s : kSeconds) say(" {:>7}", fmt::format("{:.0f} s", s));
  say(" {:>9}\n", "ms/trial");
  for (const Played& p : arena.played) {
    say("  {:<11}", p.searcher);
    for (const size_t t : kTrials) say(" {:>8.2f}", 100 * arena.regret_after(p, t).mean);
    for (const double s : kSeconds) say(" {:>7.2f}", 100 * arena.regret_at(p, s).mean);
    double thinking = 0, trials = 0;
    for (const tune::Curve& c : p.curves) thinking += c.thinking_ms, trials += static_cast<double>(c.best.size());
    say(" {:>9.3f}\n", thinking / trials);
  }
}

/// Prints the means over the tables.
void print_summary(const std::vector<Arena>& all) {
  if (all.size() < 2) return;
  say("all {} tasks, mean regret in %\n  {:<11}", all.size(), "");
  for (const size_t t : kTrials) say(" {:>8}", fmt::format("{} tr.", t));
  for (const double s : kSeconds) say(" {:>7}", fmt::format("{:.0f} s", s));
  say("\n");
  for (size_t i = 0; i < all.front().played.size(); ++i) {
    say("  {:<11}", all.front().played[i].searcher);
    const auto mean = [&](const auto& of) {
      double sum = 0;
      for (const Arena& a : all) sum += of(a, a.played[i]).mean;
      return 100 * sum / static_cast<double>(all.size());
    };
    for (const size_t t : kTrials)
      say(" {:>8.2f}", mean([&](const Arena& a, const Played& p) { return a.regret_after(p, t); }));
    for (const double s : kSeconds)
      say(" {:>7.2f}", mean([&](const Arena& a, const Played& p) { return a.regret_at(p, s); }));
    say("\n");
  }
}

/// Prints which searcher is ahead of which, on the same tasks with the same seeds.
void print_leads(const std::vector<Arena>& all, int seeds) {
  if (seeds < 2 || all.front().played.size() < 2) return;
  say("first minus second, mean regret in % with the interval of 95 % over seeds; *: it does not contain 0\n  {:<17}",
      "");
  for (const size_t t : kTrials) say(" {:>12}", fmt::format("{} tr.", t));
  for (const double s : kSeconds) say(" {:>12}", fmt::format("{:.0f} s", s));
  say("\n");
  const size_t count = all.front().played.size();
  for (size_t a = 0; a < count; ++a) {
    for (size_t b = a + 1; b < count; ++b) {
      const auto print = [&](const auto& best) {
        std::vector<std::vector<double>> differences;
        for (const Arena& arena : all) {
          std::vector<double>& of_task = differences.emplace_back();
          for (size_t s = 0; s < static_cast<size_t>(seeds); ++s) {
            const double gap = best(arena.played[a].curves[s]) - best(arena.played[b].curves[s]);
            of_task.push_back(gap / arena.optimum);
          }
        }
        const tune::Lead lead = tune::lead_of(differences);
        say(" {:>12}", fmt::format("{:+.2f}±{:.2f}{}", 100 * lead.mean, 100 * lead.half, lead.told() ? "*" : " "));
      };
      say("  {:<17}", all.front().played[a].searcher + " - " + all.front().played[b].searcher);
      for (const size_t t : kTrials) print([&](const tune::Curve& c) { return c.best_after_trials(t); });
      for (const double s : kSeconds) print([&](const tune::Curve& c) { return c.best_after(s); });
      say("\n");
    }
  }
}

json spread_json(const tune::Spread& s) {
  const auto short_form = [](double v) { return std::round(v * 1e6) / 1e6; };
  return {short_form(s.mean), short_form(s.low), short_form(s.median), short_form(s.high)};
}

json to_json(const std::vector<Arena>& all, const SearchersOptions& options) {
  json tasks = json::array();
  for (const Arena& a : all) {
    json searchers = json::array();
    for (const Played& p : a.played) {
      json trials = json::array(), seconds = json::array();
      // Exact costs are known after one trial of each point; noisy costs need more.
      const auto asked = static_cast<size_t>(options.trials);
      for (size_t t = 1; t <= (options.noise > 0 ? asked : std::min(a.points, asked)); t = std::max(t + 1, t * 9 / 8)) {
        json row{t};
        for (const json& v : spread_json(a.regret_after(p, t))) row.push_back(v);
        trials.push_back(std::move(row));
      }
      for (double s = 0.1; s <= 61; s *= 1.15) {
        json row{std::round(s * 1000) / 1000};
        for (const json& v : spread_json(a.regret_at(p, s))) row.push_back(v);
        seconds.push_back(std::move(row));
      }
      json at = json::object();
      for (const double s : kSeconds) at[fmt::format("{:.0f}", s)] = spread_json(a.regret_at(p, s));
      searchers.push_back(
          {{"searcher", p.searcher}, {"by_trials", trials}, {"by_seconds", seconds}, {"regret_at", at}});
    }
    tasks.push_back({{"problem", a.table.problem},
                     {"points", a.points},
                     {"optimum", a.optimum},
                     {"default_cost", a.default_cost},
                     {"conditions", a.table.conditions},
                     {"searchers", searchers}});
  }
  return {{"noise", options.noise},
          {"seeds", options.seeds},
          {"trials", options.trials},
          {"seconds", options.seconds},
          {"program", version_text()},
          {"fields", {"x", "mean", "quartile", "median", "quartile"}},
          {"thinking_counts", !options.free_thinking},
          {"transfer", options.transfer},
          {"cost_model", options.cost_model},
          {"tasks", tasks}};
}

/// Returns all searchers that can run here.
std::vector<std::string> usual_searchers() {
  try {
    tune::XgboostLibrary::load();
  } catch (const Error& e) {
    if (e.kind() != ErrorKind::unsupported) throw;
    note("searchers: xgb and xgb-rank are left out: {}\n", e.message());
    return {"model", "ga", "random", "grid"};
  }
  return {"model", "xgb", "xgb-rank", "ga", "random", "grid"};
}

/// Returns each searcher with the options that it reads.
std::vector<tune::SearchOptions> parse_searchers(const SearchersOptions& options) {
  std::vector<std::string> names = options.searchers;
  if (names.empty()) names = usual_searchers();
  if (names.size() == 1) return {tune::parse_search_options(names[0], options.search_options)};
  std::vector<tune::SearchOptions> out;
  for (const std::string& name : names) {
    std::vector<std::string> own;
    for (const std::string& text : options.search_options) {
      const auto named = [&](const tune::SearchOptionRow& row) {
        return text.starts_with(std::string(row.name) + "=");
      };
      const auto row = std::ranges::find_if(tune::all_search_options(), named);
      if (row == tune::all_search_options().end() || tune::reads(name, *row)) own.push_back(text);
    }
    out.push_back(tune::parse_search_options(name, own));
  }
  return out;
}

void searchers(const SearchersOptions& options) {
  if (!options.measure.empty()) return measure(options);
  check_writable("--json", options.json);
  const std::vector<tune::SearchOptions> searchers = parse_searchers(options);
  if (!options.searchers.empty()) tune::check_cost_model(options.cost_model, options.searchers);
  Contests contests;
  for (const std::string& file : options.what) contests.push_back(std::make_unique<Contest>(file));
  std::vector<Arena> all;
  Progress progress("searchers");
  for (const auto& contest : contests) {
    progress.show(contest->table.problem);
    const tune::EarlierTrials earlier =
        options.transfer ? lessons_of_others(contests, *contest) : tune::EarlierTrials{};
    all.push_back(play(*contest, searchers, options, earlier));
  }
  progress.clear();
  if (!options.json.empty()) write_text("--json", options.json, json_text(to_json(all, options)) + "\n");
  if (options.json == "-") return;
  for (const Arena& a : all) print_arena(a);
  print_summary(all);
  print_leads(all, options.seeds);
}

}  // namespace

void add_searchers(Command app, Context&) {
  auto options = std::make_shared<SearchersOptions>();
  Command sub = app.subcommand("searchers", "Compare the tuning searchers on tasks whose costs are all known");
  sub.group("Tune");
  sub.option("WHAT", options->what, "tables of costs (bench/searchers/*.jsonl); with --measure: problems")
      .file("WHAT")
      .required();
  sub.heading("Search");
  sub.option("--searcher", options->searchers,
             "searchers to compare (default: model, xgb and xgb-rank if XGBoost is found, ga, random, grid)");
  sub.option("--searcher-option", options->search_options,
             "NAME=VALUE, for the searchers that read it; `kilter options` lists them");
  sub.option("--seeds", options->seeds, "number of searches for each searcher, with consecutive seeds")
      .range(1, 1000)
      .shows_default();
  Option trials =
      sub.option("--trials", options->trials, "maximum number of trials in a search").range(1, 100000).shows_default();
  sub.option("--seconds", options->seconds, "end each search after this many simulated seconds, instead of --trials")
      .range(0.1, 1e6)
      .excludes(trials)
      .on_value([options] { options->trials = 100000; });
  sub.option("--noise", options->noise,
             "add noise with this standard deviation to the logarithm of each measured cost; one trial in three "
             "measures a candidate for the best again, and regret is the true regret of what would be chosen")
      .range(0.0, 1.0)
      .shows_default();
  sub.flag("--free-thinking", options->free_thinking, "do not count the time that the searchers themselves take");
  Option cost_model = sub.option("--cost-model", options->cost_model,
                                 "cost model that the searcher `model` starts from, in addition to the analytic "
                                 "estimate: a file written by `kilter cost-model train`, shipped or none")
                          .shows_default();
  sub.flag("--transfer", options->transfer,
           "xgb also learns from 64 points of each other problem's table, and model starts from trees trained on them")
      .excludes(cost_model);
  sub.heading("Measuring tables");
  sub.option("--measure", options->measure,
             "instead of comparing, write DIR/PROBLEM.jsonl with the cost of every point of each problem")
      .folder();
  sub.option("--prune", options->prune,
             "with --measure: skip points estimated at more than this many times the best estimate")
      .range(1.0, 1e6)
      .shows_default();
  sub.option("--rounds", options->rounds, "with --measure: interleaved rounds of each schedule with the default")
      .range(2, 1000)
      .shows_default();
  sub.option("--target", options->target, "with --measure: CPU to generate code for").shows_default();
  sub.option("--threads", options->threads, "with --measure: number of threads").range(1, 1024).shows_default();
  sub.heading("Output");
  sub.json(options->json, "the curves");
  sub.footer(
      "Regret: how much longer the best schedule so far runs than the best of all. Time is that of the trials when "
      "they were measured, plus the time that the searcher itself needs now.");
  sub.example("kilter searchers bench/searchers/*.jsonl --seeds 2 --searcher model --searcher random",
              "Compare two searchers on measured tables");
  sub.callback([=] { searchers(*options); });
}

}  // namespace kilter::tool
