// kilter ops, targets, options: print the tables of operators, targets, passes, templates and settings.

#include <limits>

#include "base/cpu_info.h"
#include "codegen/backend.h"
#include "ops/op.h"
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

void print_ops(bool markdown) {
  if (markdown) say("| operator | opsets | runs as | what it does |\n|---|---|---|---|\n");
  for (const OpDef* op : all_ops()) {
    if (op->domain == "kilter") continue;
    const std::string until = op->until == std::numeric_limits<int32_t>::max() ? "" : std::to_string(op->until);
    const std::string opsets = fmt::format("{}-{}", op->since, until);
    const std::string full = op->domain.empty() ? std::string(op->name) : fmt::format("{}:{}", op->domain, op->name);
    std::string runs(name(op->family));
    if (op->expand != nullptr) runs = "expansion";
    if (markdown) {
      say("| {} | {} | {} | {} |\n", full, opsets, runs, escaped(op->summary));
    } else {
      say("{:<28} {:<8} {:<15} {}\n", full, opsets, runs, op->summary);
    }
  }
}

void print_targets() {
  const Target native = native_target();
  for (const TargetRow& row : all_targets()) {
    const bool here = runs_here(parse_target(row.name));
    say("{:<18} {:<16} {}{}\n", row.name, row.cpu, row.summary,
        row.name == native.name ? "  (native)"
        : here                  ? ""
                                : "  (does not run here)");
  }
  say("this machine: {}\n\nback ends (--target 'NAME -mcpu=TARGET'); without one it is {}:\n", cpu_brand(),
      all_backends().front()->name);
  for (const Backend* backend : all_backends()) say("{:<18} {}\n", backend->name, backend->version());
}

void print_options() {
  say("environment:\n  KILTER_NUM_THREADS  number of threads, 1..1024 (default: the CPUs this process may use)\n"
      "  KILTER_SPIN_US      how long an idle worker spins before it parks, microseconds\n"
      "  KILTER_XGBOOST      libxgboost.so, its folder, or a Python environment with xgboost-cpu\n"
      "  KILTER_PYTHON       Python interpreter that has onnxruntime or openvino, for comparisons with them (default: "
      ".venv/bin/python of the current folder, else python3)\n\npasses, in order (--disable PASS, --stop-after PASS), "
      "and "
      "their rewrites (--disable PASS.REWRITE):\n");
  for (const PassRow& row : all_passes()) {
    say("  {:<24} {}\n{:<27}here because: {}\n", row.name, row.summary, "", row.why_here);
    for (const Rewrite& rewrite : row.rewrites == nullptr ? std::vector<Rewrite>() : row.rewrites())
      say("    {:<22} {}\n", rewrite.name, rewrite.equation);
  }
  say("\nstages after the passes, in order (always run):\n");
  for (const StageRow& row : all_stages())
    say("  {:<24} {}\n{:<27}here because: {}\n", row.name, row.summary, "", row.why_here);
  say("\ntemplates (--schedule), in order of preference:\n");
  for (const Template* t : all_templates()) say("  {:<24} {}\n", t->name, t->summary);
  say("\noptions for the trials of kilter tune (--NAME VALUE):\n");
  for (const tune::TrialOptionRow& row : tune::all_trial_options())
    say("  {:<24} {}\n{:<27}{}; default {}\n", row.name, row.meaning, "", row.legal, row.fallback);
  say("\nsearchers (--searcher):\n");
  for (const tune::SearcherRow& row : tune::all_searchers()) say("  {:<24} {}\n", row.name, row.summary);
  say("\noptions of searchers (--searcher-option NAME=VALUE):\n");
  for (const tune::SearchOptionRow& row : tune::all_search_options()) {
    say("  {:<24} {}\n{:<27}{}; default {}; used by {}\n", row.name, row.meaning, "", row.legal, row.fallback(),
        row.used_by);
  }
}

}  // namespace

void add_lists(Command app, Context&) {
  Command ops = app.subcommand("ops", "List the operators, their opsets and how they run");
  auto markdown = std::make_shared<bool>(false);
  ops.flag("--markdown", *markdown, "print the table of doc/operators.md");
  ops.callback([=] { print_ops(*markdown); });
  Command targets = app.subcommand("targets", "List the CPUs that code can be generated for");
  targets.callback([] { print_targets(); });
  Command options = app.subcommand(
      "options", "List environment variables, passes, templates, options for trials, searchers and their options");
  options.callback([] { print_options(); });
}

}  // namespace kilter::tool
