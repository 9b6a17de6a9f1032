// kilter cost-model: builds training tables for learned cost models of schedules, and trains, evaluates and shows the
// models.

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/files.h"
#include "base/json_text.h"
#include "base/text.h"
#include "tool.h"
#include "tune/cost/boosted_trees.h"
#include "tune/cost/table.h"
#include "tune/cost/xgboost_model.h"
#include "tune/records/place.h"
#include "tune/records/store.h"
#include "tune/tuner/search/cost_rows.h"

namespace kilter::tool {
namespace {

using nlohmann::json;
using tune::Metrics;

struct CostModelOptions {
  std::vector<std::string> tables;
  std::string model, start, trainer = "trees", xgboost, held_out = "task", json_file;
  size_t folds = 5;
  tune::BoostOptions boost;
};

/// The trainer with its options and the model that it starts from.
class Trainer {
 public:
  explicit Trainer(const CostModelOptions& options) : options_(options) {
    if (!options.start.empty()) start_ = tune::TreeModel::load(options.start);
    if (options.trainer != "trees") library_ = tune::XgboostLibrary::load(options.xgboost);
  }
  std::unique_ptr<tune::TrainableModel> make() const {
    tune::BoostOptions boost = options_.boost;
    boost.start = start_ ? &*start_ : nullptr;
    if (library_ == nullptr) return std::make_unique<tune::BoostedTrees>(boost);
    const auto objective = options_.trainer == "xgb" ? tune::Objective::cost : tune::Objective::rank;
    return std::make_unique<tune::XgboostModel>(library_, objective, boost);
  }

 private:
  const CostModelOptions& options_;
  std::optional<tune::TreeModel> start_;
  std::shared_ptr<const tune::XgboostLibrary> library_;
};

tune::Table read(const CostModelOptions& options) {
  return tune::read_table({options.tables.begin(), options.tables.end()});
}

void print_metrics_head() {
  say("{:<32} {:>8} {:>7} {:>8} {:>10} {:>9} {:>11} {:>12}\n", "", "rows", "groups", "judged", "pairwise", "Spearman",
      "top-1 regret", "first fails");
}

void print_metrics(const std::string& what, const Metrics& m) {
  const auto percent = [](double share) { return std::isnan(share) ? "-" : fmt::format("{:.1f} %", share * 100); };
  say("{:<32} {:>8} {:>7} {:>8} {:>10} {:>9} {:>12} {:>12}\n", what, m.rows, m.groups, m.judged, percent(m.pairwise),
      std::isnan(m.spearman) ? "-" : fmt::format("{:.3f}", m.spearman), percent(m.top1_regret),
      percent(m.failed_first));
}

json to_json(const Metrics& m) {
  return {{"rows", m.rows},
          {"groups", m.groups},
          {"judged", m.judged},
          {"pairwise", m.pairwise},
          {"spearman", m.spearman},
          {"top1_regret", m.top1_regret},
          {"failed_first", m.failed_first}};
}

/// Tables of costs begin with their templates; records do not.
bool is_cost_table(const std::string& file) {
  if (tune::is_server(file) || tune::is_database(file)) return false;
  const std::string text = read_file(file);
  const json head = try_parse_json(text.substr(0, text.find('\n')));
  return head.is_object() && head.contains("templates");
}

void make_rows(const CostModelOptions& options) {
  tune::CostRows rows;
  for (const std::string& file : options.tables) {
    if (is_cost_table(file)) {
      rows.add(tune::parse_cost_table(read_file(file), file), file);
      continue;
    }
    const tune::Reading read = tune::Store::open(file, tune::Store::Mode::read)->read();
    for (const std::string& line : read.damaged) say_error("{}: {}\n", tune::shown(file), line);
    rows.add(read.records);
  }
  for (const auto& [reason, count] : rows.left_out()) say("left out: {} records {}\n", count, reason);
  if (rows.rows() == 0) {
    fail(ErrorKind::bad_input,
         "{}: no measured schedules to learn from; expected tables written by `kilter searchers --measure` or records "
         "from `kilter tune`",
         fmt::join(options.tables, ", "));
  }
  write_text("--out", options.model, rows.text());
  say("{}: {} rows\n", options.model, rows.rows());
}

void train(const CostModelOptions& options) {
  const tune::Table table = read(options);
  const Trainer trainer(options);
  const auto model = trainer.make();
  model->fit(table.set);
  tune::TreeModel::Parts parts = model->trees().parts();
  parts.notes.emplace_back("tasks", std::to_string(table.tasks.size()));
  for (const std::string& device : table.devices) {
    // A note must fit on one line, but a device's name may contain anything.
    std::string name = device.empty() ? "unknown" : device;
    std::replace_if(name.begin(), name.end(), [](char c) { return static_cast<uint8_t>(c) < ' '; }, '?');
    parts.notes.emplace_back("device", name);
  }
  const tune::TreeModel kept(std::move(parts));
  kept.save(options.model);
  say("{}: {} trees from {} rows of {} tasks on {} device{}, {} bytes\n", options.model, kept.parts().trees.size(),
      table.set.size(), table.tasks.size(), table.devices.size(), table.devices.size() == 1 ? "" : "s",
      kept.text().size());
  print_metrics_head();
  print_metrics("on the training rows", tune::judge(kept.predict(table.set.rows), table.set.costs, table.set.groups));
  say("To evaluate it on other tasks:  kilter cost-model eval --held-out task --table ...\n");
}

void evaluate(const CostModelOptions& options) {
  const tune::Table table = read(options);
  std::vector<double> predicted;
  std::string what = "all rows";
  if (!options.model.empty()) {
    predicted = tune::TreeModel::load(options.model).predict(table.set.rows);
  } else {
    const auto by = options.held_out == "task" ? tune::HoldOut::task : tune::HoldOut::device;
    const size_t kinds = (by == tune::HoldOut::task ? table.tasks : table.devices).size();
    const size_t folds = std::min(options.folds, std::max<size_t>(kinds, 2));
    const Trainer trainer(options);
    predicted = tune::predict_held_out(table, tune::folds_of(table, by, folds, options.boost.seed),
                                       [&] { return trainer.make(); });
    what = fmt::format("{} folds, held out by {}", folds, options.held_out);
  }
  const Metrics all = tune::judge(predicted, table.set.costs, table.set.groups);
  const std::vector<Metrics> by_device = tune::judge_by_device(table, predicted);
  json report = {{"what", what}, {"all", to_json(all)}, {"devices", json::array()}};
  for (size_t d = 0; d < by_device.size(); ++d) {
    report["devices"].push_back({{"device", table.devices[d]}, {"metrics", to_json(by_device[d])}});
  }
  if (!options.json_file.empty()) write_json(options.json_file, report);
  if (options.json_file == "-") return;
  print_metrics_head();
  print_metrics(what, all);
  for (size_t d = 0; d < by_device.size(); ++d) print_metrics("  " + table.devices[d], by_device[d]);
  say("\npairwise: share of a group's pairs in the right order; chance gives 50 %. top-1 regret: how much longer the\n"
      "schedule predicted best takes than the group's best. first fails: groups in which that schedule fails. Means "
      "over\n"
      "the judged groups (each one task on one device, with rows of different cost).\n");
}

void show(const CostModelOptions& options) {
  const tune::TreeModel model = tune::TreeModel::load(options.model);
  const std::vector<int64_t> splits = model.splits();
  std::vector<size_t> order(splits.size());
  size_t nodes = 0;
  for (const tune::Tree& tree : model.parts().trees) nodes += tree.size();
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return splits[a] > splits[b]; });
  json report = {{"objective", name(model.objective())},
                 {"base", model.parts().base},
                 {"trees", model.parts().trees.size()},
                 {"nodes", nodes},
                 {"notes", json::array()},
                 {"features", json::array()}};
  for (const auto& [word, text] : model.parts().notes) report["notes"].push_back({{"note", word}, {"text", text}});
  for (const size_t i : order) report["features"].push_back({{"name", model.features()[i]}, {"splits", splits[i]}});
  if (!options.json_file.empty()) {
    write_json(options.json_file, report);
  }
  if (options.json_file == "-") return;
  say("objective  {}\ntrees      {}, {} nodes\n", name(model.objective()), model.parts().trees.size(), nodes);
  for (const auto& [word, text] : model.parts().notes) say("{:<10} {}\n", printable(word), printable(text));
  say("\n{:<32} {:>8}\n", "feature", "splits");
  for (const size_t i : order) say("{:<32} {:>8}\n", model.features()[i], splits[i]);
}

void add_training(Command sub, CostModelOptions& o) {
  sub.heading("Training");
  sub.option("--trainer", o.trainer,
             "trees: Kilter's own regression; xgb, xgb-rank: XGBoost's regression and pairwise ranking")
      .one_of({"trees", "xgb", "xgb-rank"})
      .shows_default();
  sub.option("--xgboost", o.xgboost,
             "libxgboost.so, its folder, or a Python environment with xgboost-cpu (default: KILTER_XGBOOST, "
             "$VIRTUAL_ENV, .venv, the system's)")
      .file("PATH");
  sub.option("--start", o.start, "model to correct with new trees; a few measurements adapt it to a machine").file();
  sub.option("--trees", o.boost.trees, "number of trees to grow, 1..10000").shows_default();
  sub.option("--depth", o.boost.depth, "maximum depth of a tree, 1..16").shows_default();
  sub.option("--rate", o.boost.rate,
             "learning rate: the share of each tree's prediction that is added, above 0, up to 1")
      .shows_default();
  sub.option("--l2", o.boost.l2, "L2 regularisation, added to the weight of a leaf, 0 or more").shows_default();
  sub.option("--min-child-weight", o.boost.min_child_weight, "minimum weight of the rows on each side of a split")
      .shows_default();
  sub.option("--bins", o.boost.bins, "candidate split points per feature, 2..65536").shows_default();
  sub.option("--threads", o.boost.threads, "threads of XGBoost, 1..1024; Kilter's own trainer uses one")
      .shows_default();
  sub.option("--seed", o.boost.seed,
             "random seed of XGBoost, and of the choice of tasks or devices that are held out together")
      .shows_default();
}

void add_table(Command sub, CostModelOptions& o) {
  sub.option("--table", o.tables, "table of named features and costs, as JSON lines; may be repeated")
      .file()
      .required()
      .one_value_each();
}

}  // namespace

void add_cost_model(Command app, Context&) {
  auto o = std::make_shared<CostModelOptions>();
  Command sub = app.subcommand("cost-model", "Train, evaluate and show learned cost models of schedules");
  sub.require_subcommand();
  sub.group("Tune");
  sub.footer("Format of the tables: src/tune/cost/table.h.");
  Command rows = sub.subcommand("rows", "Make a training table from measured schedules");
  rows.option("FILE", o->tables,
              "tables of costs (kilter searchers --measure), or tuning records (kilter tune): files, or "
              "postgresql://USER@HOST/DATABASE")
      .file("FILE")
      .required();
  rows.option("-o,--output,~--out", o->model, "file for the table; - for standard output").file().required();
  rows.example("kilter cost-model rows bench/searchers/*.jsonl -o rows.jsonl", "From the tables of ten tasks");
  rows.callback([=] { make_rows(*o); });
  Command trains = sub.subcommand("train", "Train a model from tables of measured schedules");
  add_table(trains, *o);
  trains.option("-o,--output,~--out", o->model, "file for the model").file().required();
  trains.example("kilter cost-model train --table rows.jsonl -o my.trees", "Trees of Kilter's own trainer");
  add_training(trains, *o);
  trains.callback([=] { train(*o); });
  Command judges =
      sub.subcommand("eval", "Evaluate a model on tables, or a trainer on tasks or devices it did not see");
  add_table(judges, *o);
  Option model = judges.option("MODEL", o->model, "model file; without one, the trainer is evaluated").file("MODEL");
  judges
      .option("--held-out", o->held_out,
              "kind of part to hold out: each one in turn is excluded from training and used for evaluation")
      .one_of({"task", "device"})
      .shows_default()
      .excludes(model);
  judges.option("--folds", o->folds, "number of parts to hold out in turn, at most one per task or device")
      .range(2, 1000)
      .shows_default()
      .excludes(model);
  add_training(judges, *o);
  judges.heading("Output");
  judges.json(o->json_file, "the figures");
  judges.example("kilter cost-model eval my.trees --table rows.jsonl", "How well a model orders schedules");
  judges.callback([=] { evaluate(*o); });
  Command shows = sub.subcommand("show", "Show a model: what it was trained on, and which features it uses");
  shows.option("MODEL", o->model, "model file").file("MODEL").required();
  shows.json(o->json_file, "it");
  shows.example("kilter cost-model show my.trees", "What the model has learned");
  shows.callback([=] { show(*o); });
}

}  // namespace kilter::tool
