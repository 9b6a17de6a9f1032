// kilter ops, targets, options: print the tables of operators, targets, passes, templates and settings.

#include <functional>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/columns.h"
#include "base/cpu_info.h"
#include "codegen/backend.h"
#include "help_text.h"
#include "ops/op.h"
#include "terminal.h"
#include "tool.h"
#include "tune/search/options.h"
#include "tune/tuner/trial_options.h"

namespace kilter::tool {
namespace {

/// Escapes '|', which would end a table cell.
std::string escaped(std::string_view text) {
  std::string out;
  for (char c : text) {
    if (c == '|') out += '\\';
    out += c;
  }
  return out;
}

std::string runs_as(const OpDef& op) { return op.expand != nullptr ? "expansion" : std::string(name(op.family)); }

void print_ops(bool markdown) {
  if (markdown) say("| operator | opsets | runs as | what it does |\n|---|---|---|---|\n");
  for (const OpDef* op : all_ops()) {
    if (op->domain == "kilter") continue;
    const std::string until = op->until == std::numeric_limits<int32_t>::max() ? "" : std::to_string(op->until);
    const std::string opsets = fmt::format("{}-{}", op->since, until);
    const std::string full = op->domain.empty() ? std::string(op->name) : fmt::format("{}:{}", op->domain, op->name);
    const std::string runs = runs_as(*op);
    if (markdown) {
      say("| {} | {} | {} | {} |\n", full, opsets, runs, escaped(op->summary));
    } else {
      say("{}\n", hanging(fmt::format("{:<28} {:<8} {:<15} {}", full, opsets, runs, op->summary), 54,
                          terminal_columns().value_or(0)));
    }
  }
}

nlohmann::json ops_json() {
  nlohmann::json out = nlohmann::json::array();
  for (const OpDef* op : all_ops()) {
    if (op->domain == "kilter") continue;
    nlohmann::json row{{"name", op->name}, {"domain", op->domain}, {"since", op->since}, {"summary", op->summary}};
    if (op->until != std::numeric_limits<int32_t>::max()) row["until"] = op->until;
    row["runs_as"] = runs_as(*op);
    out.push_back(std::move(row));
  }
  return out;
}

nlohmann::json targets_json() {
  nlohmann::json targets = nlohmann::json::array(), back_ends = nlohmann::json::array();
  for (const TargetRow& row : all_targets()) {
    targets.push_back({{"name", row.name},
                       {"cpu", row.cpu},
                       {"summary", row.summary},
                       {"runs_here", runs_here(parse_target(row.name))}});
  }
  targets.push_back({{"name", "opencl"}, {"cpu", ""}, {"summary", "any OpenCL device"}, {"runs_here", nullptr}});
  for (const Backend* backend : all_backends())
    back_ends.push_back({{"name", backend->name}, {"version", backend->version()}});
  return {{"machine", cpu_brand()}, {"native", native_target().name}, {"targets", targets}, {"back_ends", back_ends}};
}

void print_targets() {
  const Target native = native_target();
  say("{}\n", styled(Style::bold, fmt::format("{:<22} {:<16} {}", "target", "LLVM's name", "processors")));
  for (const TargetRow& row : all_targets()) {
    const bool here = runs_here(parse_target(row.name));
    const std::string line = fmt::format("{:<22} {:<16} {}{}", row.name, row.cpu, row.summary,
                                         row.name == native.name ? "  (native)"
                                         : here                  ? ""
                                                                 : "  (does not run here)");
    say("{}\n", hanging(line, 40, terminal_columns().value_or(0)));
  }
  say("{}\n", hanging(fmt::format("{:<22} {:<16} any OpenCL device: a GPU, or the processor with PoCL", "opencl", ""),
                      40, terminal_columns().value_or(0)));
  say("this machine: {}\n\nback ends (--target 'NAME -mcpu=TARGET'); without one it is {}:\n", cpu_brand(),
      all_backends().front()->name);
  say("{}\n", styled(Style::bold, fmt::format("{:<22} {}", "back end", "version")));
  for (const Backend* backend : all_backends()) say("{:<22} {}\n", backend->name, backend->version());
}

/// What a user can name: a pass, a template, a searcher or an option, with everything that is said about it.
struct Item {
  std::string name, meaning;
  std::vector<std::pair<std::string, std::string>> facts;  ///< such as {"here because", "..."}
  std::vector<std::pair<std::string, std::string>> parts;  ///< the rewrites of a pass, with their equations
};
struct List {
  std::string key, title;
  std::vector<Item> items;
};

List environment_list() {
  return {
      "environment",
      "environment",
      {{"KILTER_NUM_THREADS", "number of threads, 1..1024 (default: the CPUs this process may use)", {}, {}},
       {"KILTER_SPIN_US", "how long an idle worker spins before it parks, microseconds", {}, {}},
       {"KILTER_XGBOOST", "libxgboost.so, its folder, or a Python environment with xgboost-cpu", {}, {}},
       {"KILTER_PYTHON",
        "Python interpreter that has onnxruntime or openvino, for comparisons with them (default: .venv/bin/python "
        "of the current folder, else python3)",
        {},
        {}},
       {"KILTER_FLEET", "URL of the fleet's database, for kilter fleet, --on and kilter-agent (doc/fleet.md)", {}, {}},
       {"KILTER_FLEET_KEY", "secret key that signs the jobs of kilter tune --fleet and of --on", {}, {}},
       {"KILTER_FLEET_TRUST", "public key, or folder of public keys, whose jobs kilter-agent runs", {}, {}},
       {"NO_COLOR", "any value: no colours or bold text, unless --color always is given", {}, {}}}};
}

List pass_list() {
  List out{"passes",
           "passes, in order (--disable PASS, --stop-after PASS), and their rewrites (--disable PASS.REWRITE)",
           {}};
  for (const PassRow& row : all_passes()) {
    Item& item = out.items.emplace_back();
    item = {std::string(row.name), std::string(row.summary), {{"here because", std::string(row.why_here)}}, {}};
    for (const Rewrite& rewrite : row.rewrites == nullptr ? std::vector<Rewrite>() : row.rewrites())
      item.parts.emplace_back(rewrite.name, rewrite.equation);
  }
  return out;
}

std::vector<List> search_lists() {
  List trials{"trial_options", "options for the trials of kilter tune (--NAME VALUE)", {}};
  for (const tune::TrialOptionRow& row : tune::all_trial_options()) {
    trials.items.push_back({std::string(row.name),
                            std::string(row.meaning),
                            {{"legal", std::string(row.legal)}, {"default", std::string(row.fallback)}},
                            {}});
  }
  List searchers{"searchers", "searchers (--searcher)", {}};
  for (const tune::SearcherRow& row : tune::all_searchers())
    searchers.items.push_back({std::string(row.name), std::string(row.summary), {}, {}});
  List options{"searcher_options", "options of searchers (--searcher-option NAME=VALUE)", {}};
  for (const tune::SearchOptionRow& row : tune::all_search_options()) {
    options.items.push_back({std::string(row.name),
                             std::string(row.meaning),
                             {{"legal", std::string(row.legal)},
                              {"default", fmt::format("{}", row.fallback())},
                              {"used by", std::string(row.used_by)}},
                             {}});
  }
  return {trials, searchers, options};
}

std::vector<List> option_lists() {
  List stages{"stages", "stages after the passes, in order (always run)", {}};
  for (const StageRow& row : all_stages())
    stages.items.push_back(
        {std::string(row.name), std::string(row.summary), {{"here because", std::string(row.why_here)}}, {}});
  List templates{"templates", "templates (--schedule), in order of preference", {}};
  for (const Template* t : all_templates())
    templates.items.push_back({std::string(t->name), std::string(t->summary), {}, {}});
  std::vector<List> out{environment_list(), pass_list(), stages, templates};
  for (List& list : search_lists()) out.push_back(std::move(list));
  return out;
}

nlohmann::json options_json() {
  nlohmann::json out;
  for (const List& list : option_lists()) {
    for (const Item& item : list.items) {
      nlohmann::json row{{"name", item.name}, {"meaning", item.meaning}};
      for (const auto& [what, text] : item.facts) row[what] = text;
      for (const auto& [name, equation] : item.parts)
        row["rewrites"].push_back({{"name", name}, {"equation", equation}});
      out[list.key].push_back(std::move(row));
    }
  }
  return out;
}

void print_options() {
  constexpr size_t kIndent = 27;
  const size_t width = output_columns();
  const auto entry = [&](size_t indent, const std::string& name, const std::string& text) {
    const std::string lines = wrapped(text, kIndent, width);
    const std::string left = std::string(indent, ' ') + name;
    if (left.size() >= kIndent) return say("{}\n{}", left, lines);
    say("{:<{}}{}", left, kIndent, lines.substr(std::min(kIndent, lines.size())));
  };
  bool first = true;
  for (const List& list : option_lists()) {
    say("{}{}", first ? "" : "\n", wrapped(list.title + ":", 0, width));
    first = false;
    for (const Item& item : list.items) {
      entry(2, item.name, item.meaning);
      std::string facts;
      for (const auto& [what, text] : item.facts) facts += (facts.empty() ? "" : "; ") + what + " " + text;
      if (!facts.empty()) say("{}", wrapped(facts, kIndent, width));
      for (const auto& [name, equation] : item.parts) entry(4, name, equation);
    }
  }
}

/// Registers a command that prints a list as text or as JSON.
Command add_list(Command app, const std::string& name, const std::string& summary, const std::string& what,
                 std::shared_ptr<std::string>& json) {
  Command sub = app.subcommand(name, summary);
  sub.group("Look inside");
  json = std::make_shared<std::string>();
  sub.json(*json, what);
  return sub;
}

void show(const std::string& json, nlohmann::json (*as_json)(), const std::function<void()>& print) {
  if (!json.empty()) write_json(json, as_json());
  if (json != "-") print();
}

}  // namespace

void add_lists(Command app, Context&) {
  std::shared_ptr<std::string> json;
  Command ops = add_list(app, "ops", "List the operators, their opsets and how they run", "the list", json);
  auto markdown = std::make_shared<bool>(false);
  ops.flag("--markdown", *markdown, "print the table of doc/operators.md");
  ops.example("kilter ops", "All operators that Kilter has");
  ops.callback([json, markdown] { show(*json, ops_json, [&] { print_ops(*markdown); }); });
  Command targets =
      add_list(app, "targets", "List the CPUs and devices that code can be generated for", "the list", json);
  targets.example("kilter targets", "The names for --target");
  targets.callback([json] { show(*json, targets_json, print_targets); });
  Command options = add_list(
      app, "options", "List environment variables, passes, templates, options for trials, searchers and their options",
      "the lists", json);
  options.example("kilter options", "Everything that options of other commands can name");
  options.callback([json] { show(*json, options_json, print_options); });
}

}  // namespace kilter::tool
