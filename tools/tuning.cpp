#include "tuning.h"

#include <functional>

#include "compile/check_options.h"
#include "compile/code_versions.h"
#include "exec/thread_pool.h"
#include "measure/device.h"
#include "tune/records/place.h"

namespace kilter::tool {

using namespace kilter::tune;

std::vector<Record> read_records(Store& store) {
  Reading reading = store.read();
  for (const auto* lines : {&store.notices(), &std::as_const(reading.damaged), &std::as_const(reading.newer)})
    for (const std::string& line : *lines) say_error("{}\n", line);
  return std::move(reading.records);
}

TuningSetup::TuningSetup(const ModelOptions& options, bool writes) {
  session = options.without_records().open();  // candidates are compared with the defaults
  if (session->compiled_file())
    fail(ErrorKind::usage, "{} is a compiled file: tuning needs the original model", options.model);
  threads = options.threads > 0 ? options.threads : default_threads();
  device = describe_device().fingerprint();
  file = options.records_file();
  if (!writes && is_absent(file)) file.clear();
  if (!file.empty()) {
    store = Store::open(file, writes ? Store::Mode::write : Store::Mode::read);
    known = read_records(*store);
    for (const std::string& line : read_plans(plans_file(file)).damaged) say_error("{}\n", line);
  }
  options.bar_records(known);
  network = parts_of(options, *session);
  if (!network.text.empty()) note("{}: tuned together: {}\n", options.model, network.text);
  CompileOptions given = session->options().compile;
  network.spread(given);
  compile_ = adapted(given, session->options().chooser.get(), network.whole);
  if (!compile_.forbidden.empty()) check_forbidden(run_passes(network.whole, compile_), compile_);
}

PlanKey TuningSetup::key(const NetworkParts::Part& part) const {
  return {graph_key(part.graph),         compile().target.name, device, code_versions(compile().target).all(), threads,
          plan_settings(compile(), true)};
}

void check_write_plan(const TuningSetup& setup, const std::string& file) {
  if (file.empty() || setup.network.single()) return;
  fail(ErrorKind::usage,
       "--write-plan {}: a plan names the layers of one graph, but this is {}, whose plans are kept next to the "
       "records; leave the option out",
       file, setup.network.text);
}

std::optional<KeptPlan> kept_plan(const TuningSetup& setup) {
  if (setup.file.empty()) return std::nullopt;
  const KeptPlans plans = read_plans(plans_file(setup.file));
  std::optional<KeptPlan> out;
  for (const NetworkParts::Part& part : setup.network.parts) {
    const KeptPlan* plan = plans.find(setup.key(part));
    if (plan == nullptr) continue;
    if (!out) out = *plan, out->choices.clear();
    add(setup.network.in_whole(plan->choices, part), out->choices);
  }
  return out;
}

namespace {

/// Returns a line for the user if another run has kept the plan `now` since `before` was read and its score is no worse
/// than that of `plan`, by the objective of `plan`.
std::string stays(const KeptPlan* now, const std::optional<KeptPlan>& before, const KeptPlan& plan) {
  const bool other = now != nullptr && (!before || !(now->choices == before->choices) || now->date != before->date);
  const auto score = [&](const KeptPlan& of) { return plan.objective.score(of.default_ratio, of.bytes).value; };
  if (!other || score(*now) > score(plan)) return {};
  return fmt::format(
      "the plan that another run accepted in the meantime is kept: it took {} of the default's time in its race\n",
      ratio_text(now->default_ratio));
}

std::string stays(const KeptPlan& plan) {
  return fmt::format("the plan that was accepted on {} is kept: it took {} of the default's time in its race\n",
                     plan.date.substr(0, 10), ratio_text(plan.default_ratio));
}

/// Called if graph-best lost: sets the plan to history-best, or to nothing if that is not certainly faster than the
/// default plan.
void take_history(KeptPlan& plan, const GraphBest& best, const Choices& history) {
  const bool faster = !history.empty() && best.history_is_faster();
  plan.choices = faster ? history : Choices{};
  plan.ratio = {1, 1, 1};
  plan.default_ratio = faster ? best.history_ratio : Ratio{1, 1, 1};
}

/// Keeps what the plan says for each part of the network, unless `stays` returns a line for the plan that the file
/// contains by then. `before`: the plan that the run raced against. Returns that line, or otherwise `kept`.
std::string keep(const TuningSetup& setup, const KeptPlan& plan, const std::string& kept,
                 const std::optional<KeptPlan>& before,
                 const std::function<std::string(const KeptPlan* now, const std::optional<KeptPlan>& before)>& stays) {
  std::string said = kept;
  for (const NetworkParts::Part& part : setup.network.parts) {
    const auto of_part = [&](KeptPlan whole) {
      whole.key = setup.key(part);
      whole.choices = setup.network.of_part(whole.choices, part);
      return whole;
    };
    const auto before_here = before ? std::optional(of_part(*before)) : std::nullopt;
    const KeptPlan here = of_part(plan);
    keep_plan(plans_file(setup.file), here.key, [&](const KeptPlan* now) -> std::optional<KeptPlan> {
      const std::string line = stays(now, before_here);
      if (line.empty()) return here;
      said = line;
      return std::nullopt;
    });
  }
  return said;
}

}  // namespace

std::string keep(const TuningSetup& setup, const TuneResult& result, std::optional<KeptPlan>& before) {
  if (setup.file.empty()) return {};
  if (!result.refused.empty()) return "the previously accepted plan is kept, because the winning plan was refused\n";
  if (result.same_plan && result.trials == 0 && !result.rejected)
    return "nothing was tried, so the accepted plan is unchanged\n";
  if (!result.unheld.empty()) return "the previously accepted plan is kept, because no race was held\n";
  if (result.kept && before && result.choices == before->choices) return {};  // the plan keeps its own race's ratio
  KeptPlan plan{{}, setup.session->name(), iso_date(), result.choices, {1, 1, 1}, result.ratio};
  plan.objective = result.objective;
  if (plan.objective.weighs_memory()) plan.bytes = result.bytes_ratio();
  if (result.graph && result.graph->won) plan.ratio = result.graph->ratio;
  std::string line = keep(setup, plan, "", before, [&](const KeptPlan* now, const std::optional<KeptPlan>& then) {
    return stays(now, then, plan);
  });
  if (line.empty()) before = std::move(plan);
  return line;
}

std::string keep(const TuningSetup& setup, const GraphBest& best, const Choices& history,
                 const std::optional<KeptPlan>& before) {
  if (setup.file.empty()) return {};
  if (!best.won && best.rounds == 0) return before ? stays(*before) : "";  // nothing was raced
  KeptPlan plan{{}, setup.session->name(), iso_date(), best.choices, best.ratio, best.default_ratio};
  const KeptPlan raced = plan;
  if (!best.won) take_history(plan, best, history);
  const char* kept = best.won               ? "graph-best is kept as the accepted plan\n"
                     : plan.choices.empty() ? "the default plan is kept as the accepted one\n"
                                            : "history-best is kept as the accepted plan\n";
  return keep(setup, plan, kept, before, [&](const KeptPlan* now, const std::optional<KeptPlan>& then) {
    const std::string line = stays(now, then, raced);
    return line.empty() && now != nullptr && !best.won ? stays(*now) : line;
  });
}

void bar_wrong(const TuningSetup& setup, const ReferenceCheck& check) {
  if (!check.layer || setup.store == nullptr) return;
  Conditions here = current_conditions();
  here.device = setup.device, here.threads = setup.threads;
  here.target = setup.compile().target.name, here.program = version_text();
  try {
    const KernelVersions versions = code_versions(setup.compile().target);
    setup.store->append(wrong_record(*check.layer, check.wrong, here, versions, setup.session->name()));
  } catch (const Error& e) {  // the check's finding is reported anyway
    say_error("{}; the wrong schedule is not recorded and may be tried again\n", e.message());
  }
}

std::string ratio_text(const Ratio& r) { return fmt::format("{:.4f} ({:.4f} to {:.4f})", r.value, r.low, r.high); }

std::string graph_text(const GraphBest& b) {
  std::string out = fmt::format(
      "graph tuner: {} layers, {} alternatives, {} edges; {}, {:.1f} ms, {}; {} variants measured, {:.1f} s to "
      "prepare\n",
      b.layers, b.alternatives, b.edges, b.answer.how, b.solve_ms,
      b.answer.exact ? "exact" : fmt::format("at most {:.2f} % from the best", 100 * b.answer.gap()),
      b.measured.variants, b.prepare_ms / 1e3);
  if (b.transforms.model) {
    out += fmt::format("layout changes: {} samples, {}\n", b.transforms.model->samples().size(),
                       b.transforms.seconds > 0 ? fmt::format("measured in {:.1f} s", b.transforms.seconds)
                                                : "known from " + b.transforms.file);
    if (!b.transforms.unusable.empty()) out += fmt::format("replaced: {}\n", b.transforms.unusable);
  }
  if (b.measured.crowded > 0.5) {
    out += fmt::format(
        "numbers of threads: other processes took CPUs away in {:.0f} % of the rounds, which do not count; "
        "a quiet machine gives better results\n",
        100 * b.measured.crowded);
  }
  out += fmt::format("layers by the analytic model: history-best {:.4f} ms, graph-best {:.4f} ms\n", b.history_ms,
                     b.graph_ms);
  if (b.same_plan) return out + "graph-best is history-best\n";
  const Differences& d = b.differences;
  out += fmt::format("graph-best differs in {} schedules, {} numbers of threads, {} layouts, {} fusions\n", d.schedules,
                     d.threads, d.layouts, d.fusions);
  if (b.rounds == 0) return out;
  out += fmt::format("graph-best / history-best {} in {} paired rounds", ratio_text(b.ratio), b.rounds);
  if (b.accepted_ratio) out += fmt::format(", / the accepted plan {}", ratio_text(*b.accepted_ratio));
  if (!b.check.wrong.empty())
    out += fmt::format("; it is refused: {}\n", b.check.wrong);
  else
    out += b.won              ? ": graph-best is accepted\n"
           : b.accepted_ratio ? ": the accepted plan stays\n"
                              : ": history-best stays\n";
  if (!b.history_check.wrong.empty()) out += fmt::format("history-best is not accepted: {}\n", b.history_check.wrong);
  return out;
}

}  // namespace kilter::tool
