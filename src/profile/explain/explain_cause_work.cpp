// Causes that are avoidable work: reference kernels, separate element-wise steps, layout changes.

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/text.h"
#include "profile/explain/explain_causes.h"
#include "schedule/templates/templates.h"

namespace kilter::profile {
namespace {

/// Returns the rejections that say more than that a template is for other kinds of tasks.
std::string telling(const std::vector<std::pair<std::string, Rejected>>& rejected) {
  std::vector<std::string> parts;
  for (const auto& [name, r] : rejected) {
    if (!r.other_kind) parts.push_back(name + ": " + r.text());
  }
  return parts.empty() ? "no template knows this operator" : "no template applies (" + join(parts, "; ") + ")";
}

/// Returns the time that a compiled kernel at half of its bound would take.
double as_kernel_ms(const Context& c, const Step& step) {
  Step kernel = step;
  kernel.kind = StepKind::kernel;
  kernel.extent = c.subject.threads;
  return 2 * bound_of(kernel, footprint(c.plan), c.profile.peaks, c.subject.threads).ms;
}

}  // namespace

std::vector<Suspicion> find_reference_kernels(const Context& c) {
  std::vector<Suspicion> all;
  for (const Row* row : c.rows()) {
    if (row->kind != RowKind::reference) continue;
    const auto step = static_cast<size_t>(row->step);
    Suspicion s{{row->step}, row->name, {}, 0};
    s.gain_ms = std::max(row->time.mean - as_kernel_ms(c, c.plan.steps[step]), 0.0);
    s.evidence =
        fmt::format("{} runs the operator's reference kernel on one thread for {}", row->ops, ms_text(row->time.mean));
    const CompileOptions& options = c.subject.compile;
    if (c.forced(*row)) {
      s.evidence += fmt::format("; --schedule {}=reference forces it", row->name);
      s.advice = fmt::format("drop --schedule {}=reference", row->name);
      s.mend = c.setting();
      take_back(s.mend->compile.choices, row->name, &LayerChoice::schedule);
    } else if (choice_for(options.choices, row->name).plain) {
      s.evidence += fmt::format("; with --plain-layout {} no template applies", row->name);
      s.advice = "drop --plain-layout " + row->name;
      s.mend = c.setting();
      take_back(s.mend->compile.choices, row->name, &LayerChoice::plain);
    } else if (c.compiled != nullptr) {
      s.evidence += "; " + telling(c.compiled->rejected[step]);
    }
    all.push_back(std::move(s));
  }
  return all;
}

namespace {

/// Returns the time that fusing an element-wise step saves: its input and output need not pass through memory.
double saved_by_fusing(const Row& row, const Step& step) {
  const auto moved = std::count_if(step.args.begin(), step.args.end(),
                                   [](const BufferRef& ref) { return ref.space != Space::constant; });
  return (row.time.mean + row.gap_ms) * std::min(1.0, 2.0 / static_cast<double>(std::max<int64_t>(moved, 1)));
}

bool element_wise(const Context& c, const Row& row) {
  if (row.kind != RowKind::layer || row.schedule.empty() || c.step(row).role == StepRole::contraction) return false;
  return parse_schedule(row.schedule).name == map_elementwise.name;
}

void add_unfused(const Context& c, const Unfused& u, std::map<std::string, Suspicion>& by_group) {
  const Row* row = c.layer(u.node);
  if (row == nullptr || u.why == Unfused::schedule) return;  // reported with the reference kernel that causes it
  const Choices& choices = c.subject.compile.choices;
  const LayerChoice &own = choice_for(choices, u.node), &of_group = choice_for(choices, u.group);
  if (u.why == Unfused::cycles || own.fuse == Fusion::apart) return;      // chosen by the model, or measured
  if (u.why == Unfused::layout && (own.plain || of_group.plain)) return;  // reported with the layout change
  const Row* into = c.layer(u.group);
  const auto& readers = c.users(static_cast<size_t>(row->step));
  const bool after = into != nullptr && std::ranges::find(readers, static_cast<size_t>(into->step)) != readers.end();
  const bool kept = of_group.fuse == Fusion::none;
  const std::string could =
      fmt::format("'{}', which {}, could run it, but {}", u.group, after ? "reads its result" : "computes its input",
                  kept ? fmt::format("--no-fuse {} keeps it out", u.group) : u.reason);
  const auto told = std::ranges::find_if(by_group, [&](const auto& entry) {
    return std::ranges::find(entry.second.steps, row->step) != entry.second.steps.end();
  });
  Suspicion& s = told != by_group.end() ? told->second : by_group[u.group + "|" + u.reason];
  if (!s.evidence.empty()) s.evidence += "; ";
  if (told == by_group.end()) {
    s.steps.push_back(row->step);
    if (s.name.empty()) s.name = row->name;
    s.gain_ms += saved_by_fusing(*row, c.step(*row));
    s.evidence += fmt::format("{} '{}' runs on its own for {} and moves {}; ", row->ops, row->name,
                              ms_text(row->time.mean), bytes_text(row->bytes));
  }
  s.evidence += could;
  if (kept) {
    s.advice = "drop --no-fuse " + u.group;
    s.mend = c.setting();
    take_back(s.mend->compile.choices, u.group, &LayerChoice::fuse);
  }
}

/// Finds element-wise steps before a task that cannot have a prologue.
std::optional<Suspicion> before_contractions(const Context& c, const std::set<int64_t>& told) {
  Suspicion s;
  const Row* largest = nullptr;
  for (const Row* row : c.rows()) {
    if (!element_wise(c, *row) || told.contains(row->step)) continue;
    const auto& users = c.users(static_cast<size_t>(row->step));
    if (std::none_of(users.begin(), users.end(),
                     [&](size_t u) { return c.plan.steps[u].role == StepRole::contraction; }))
      continue;
    s.steps.push_back(row->step);
    s.gain_ms += saved_by_fusing(*row, c.step(*row));
    if (largest == nullptr || row->time.mean > largest->time.mean) largest = row;
  }
  if (largest == nullptr || !c.matters(s.gain_ms)) return std::nullopt;
  s.name = largest->name;
  std::iter_swap(s.steps.begin(), std::find(s.steps.begin(), s.steps.end(), largest->step));
  s.evidence = fmt::format(
      "{} element-wise step{} {} on {} own before the contraction that reads the result, the longest '{}' for {}; "
      "contractions can include only the nodes after them",
      s.steps.size(), s.steps.size() == 1 ? "" : "s", s.steps.size() == 1 ? "runs" : "run",
      s.steps.size() == 1 ? "its" : "their", largest->name, ms_text(largest->time.mean));
  return s;
}

}  // namespace

std::vector<Suspicion> find_unfused_neighbours(const Context& c) {
  std::map<std::string, Suspicion> by_group;
  if (c.compiled != nullptr) {
    for (const Unfused& u : c.compiled->unfused) add_unfused(c, u, by_group);
  }
  std::vector<Suspicion> all;
  std::set<int64_t> told;
  for (auto& [group, s] : by_group) {
    told.insert(s.steps.begin(), s.steps.end());
    all.push_back(std::move(s));
  }
  if (auto s = before_contractions(c, told)) all.push_back(std::move(*s));
  return all;
}

namespace {

/// Returns the layout changes before a step, and those after the step and the element-wise steps that follow it.
std::vector<const Row*> changes_around(const Context& c, size_t step) {
  std::vector<const Row*> found;
  const auto note = [&](size_t s) {
    const Row* row = c.row(s);
    if (row == nullptr || !changes_layout(*row)) return false;
    if (std::find(found.begin(), found.end(), row) == found.end()) found.push_back(row);
    return true;
  };
  for (size_t from : c.notes(step).producers) note(from);
  std::vector<size_t> open = c.users(step);
  for (int depth = 0; depth < 4 && !open.empty(); ++depth) {
    std::vector<size_t> next;
    for (size_t s : open) {
      const Row* row = c.row(s);
      const bool passes_on = row != nullptr && element_wise(c, *row);
      if (!note(s) && passes_on) next.insert(next.end(), c.users(s).begin(), c.users(s).end());
    }
    open = std::move(next);
  }
  return found;
}

Suspicion kept_plain(const Context& c, const std::string& node) {
  Suspicion s{{}, node, {}, 0, "drop --plain-layout " + node, c.setting()};
  take_back(s.mend->compile.choices, node, &LayerChoice::plain);
  s.evidence = fmt::format("--plain-layout {} keeps its operands plain between blocked ones", node);
  const Row* own = c.layer_with(node);
  if (own == nullptr) return s;  // storage only: the gain of dropping the option is measured
  s.steps.push_back(own->step);
  std::vector<const Row*> changes = changes_around(c, static_cast<size_t>(own->step));
  if (changes_layout(*own)) changes.insert(changes.begin(), own);
  std::vector<std::string> parts;
  for (const Row* row : changes) {
    s.gain_ms += row->time.mean + row->gap_ms;
    s.steps.push_back(row->step);
    parts.push_back(fmt::format("'{}' {}", row->label(), ms_text(row->time.mean)));
  }
  s.evidence += fmt::format("; layout changes around it: {}", parts.empty() ? "none" : join(parts, ", "));
  return s;
}

std::string layout_of_step(const Context& c, size_t step, bool result) {
  const std::string& all = c.plan.steps[step].layouts;
  const size_t arrow = all.find("->");
  if (arrow == std::string::npos) return "another layout";
  return std::string(trim(result ? std::string_view(all).substr(arrow + 2) : std::string_view(all).substr(0, arrow)));
}

/// Returns which layers require a layout change.
std::string why_changed(const Context& c, const Row& row) {
  const auto step = static_cast<size_t>(row.step);
  const std::string before = layout_of_step(c, step, false), after = layout_of_step(c, step, true);
  std::string out =
      before == after ? fmt::format("'{}' copies {}", row.name, bytes_text(row.bytes / 2))
                      : fmt::format("'{}' turns {} from {} to {}", row.name, bytes_text(row.bytes / 2), before, after);
  out += " in " + ms_text(row.time.mean);
  const auto name = [&](size_t s) {
    return fmt::format("{}{} '{}'", c.plan.steps[s].kind == StepKind::reference ? "the reference kernel of " : "",
                       c.plan.steps[s].ops, c.plan.steps[s].name);
  };
  const auto& from = c.notes(step).producers;
  out += from.empty() ? "; from the network's input" : "; from " + name(from.front());
  out += c.users(step).empty() ? " to the network's output" : " for " + name(c.users(step).front());
  return out;
}

}  // namespace

std::vector<Suspicion> find_layout_changes(const Context& c) {
  std::vector<Suspicion> all;
  std::set<int64_t> told;
  for (const auto& [node, choice] : c.subject.compile.choices) {
    if (!choice.plain) continue;
    all.push_back(kept_plain(c, node));
    told.insert(all.back().steps.begin(), all.back().steps.end());
  }
  Suspicion rest;
  double halos = 0, packs = 0, changes = 0;
  int64_t count = 0;
  for (const Row* row : c.rows()) {
    if (told.contains(row->step)) continue;
    if (row->kind == RowKind::halo) halos += row->time.mean + row->gap_ms;
    if (row->kind == RowKind::pack) packs += row->time.mean + row->gap_ms;
    if (!changes_layout(*row)) continue;
    ++count;
    changes += row->time.mean + row->gap_ms;
    if (c.matters(row->time.mean))
      all.push_back({{row->step}, row->name, why_changed(c, *row), row->time.mean + row->gap_ms});
  }
  const auto network = [&](double ms, std::string evidence) {
    if (c.matters(2 * ms)) all.push_back({{}, {}, std::move(evidence), ms});
  };
  network(changes,
          fmt::format("{} only change{} layouts or copy: {} together",
                      count == 1 ? "1 step" : fmt::format("{} steps", count), count == 1 ? "s" : "", ms_text(changes)));
  network(halos, fmt::format("zeroing the halos that contain padding takes {}", ms_text(halos)));
  network(packs, fmt::format("products' second operands, if computed at run time, are packed in every run: {}",
                             ms_text(packs)));
  return all;
}

std::vector<Suspicion> find_passes_held_back(const Context& c) {
  const DebugOptions& options = c.subject.compile.debug;
  std::vector<std::string> given;
  for (const std::string& pass : options.disable) given.push_back("--disable " + pass);
  if (!options.stop_after.empty()) given.push_back("--stop-after " + options.stop_after);
  if (options.max_rewrites != INT64_MAX) given.push_back(fmt::format("--max-rewrites {}", options.max_rewrites));
  if (given.empty()) return {};
  double spare = 0;
  for (const Row* row : c.rows())
    spare += element_wise(c, *row) || changes_layout(*row) || row->kind == RowKind::reference ? row->time.mean : 0;
  const std::string all = fmt::format("{}", fmt::join(given, " "));
  Suspicion s{{}, {}, all + " keeps passes from improving the network", spare, "drop " + all, c.setting()};
  s.mend->compile.debug = {};
  return {s};
}

}  // namespace kilter::profile
