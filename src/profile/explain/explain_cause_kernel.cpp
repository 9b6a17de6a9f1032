// Causes inside a kernel: idle threads, register tiles and their remainders, the first layer.

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "base/text.h"
#include "profile/explain/explain_causes.h"

namespace kilter::profile {
namespace {

/// A step that --layer-threads keeps from using all threads.
Suspicion limited(const Context& c, const Row& row) {
  const Step& step = c.step(row);
  const auto could = static_cast<int>(std::min<int64_t>(step.extent, c.subject.threads));
  const int may = c.usable_threads(step);
  Suspicion s{{row.step}, row.name, {}, row.time.mean * (1 - static_cast<double>(may) / could)};
  s.evidence = fmt::format("runs on {} of {} threads for {}; its {} work items would keep {} busy", may,
                           c.subject.threads, ms_text(row.time.mean), step.extent, could);
  s.evidence += fmt::format("; --layer-threads {}={} allows no more", row.name, step.max_threads);
  s.advice = fmt::format("drop --layer-threads {}={}", row.name, step.max_threads);
  s.mend = c.setting();
  take_back(s.mend->compile.choices, row.name, &LayerChoice::threads);
  return s;
}

/// A parallel region whose threads are busy for different lengths of time.
Suspicion unbalanced(const Context& c, const Row& row) {
  const Step& step = c.step(row);
  const int threads = c.usable_threads(step);
  const double rounds = std::ceil(static_cast<double>(step.extent) / threads);
  const double even = static_cast<double>(step.extent) / (rounds * threads);
  std::vector<std::string> busy;
  for (double ms : row.busy_ms) busy.push_back(ms_text(ms));
  Suspicion s{{row.step}, row.name, {}, row.time.mean * (1 - row.balance)};
  s.by_thread_times = true;
  s.evidence = fmt::format(
      "threads are busy for {}; {} work items on {} threads {}", fmt::join(busy, ", "), step.extent, threads,
      even < 0.95 ? "cannot be shared evenly" : "could be shared evenly: one thread ran slower or started late");
  return s;
}

void more_threads(const Context& c, std::vector<Suspicion>& all) {
  const int used = c.subject.threads, there = c.subject.cpus;
  if (used >= there) return;
  Suspicion s{{}, {}, {}, 0, fmt::format("--threads {}", there), c.setting()};
  s.gain_ms = c.profile.kernels_ms * (1 - static_cast<double>(used) / there);
  s.evidence = fmt::format("the network runs on {} of {} CPUs", used, there);
  s.mend->threads = there;
  all.push_back(std::move(s));
}

}  // namespace

std::vector<Suspicion> find_idle_threads(const Context& c) {
  std::vector<Suspicion> all;
  more_threads(c, all);
  if (c.subject.threads == 1) return all;
  for (const Row* row : c.rows()) {
    const Step& step = c.step(*row);
    if (step.kind != StepKind::kernel) continue;
    const auto could = static_cast<int>(std::min<int64_t>(step.extent, c.subject.threads));
    const int may = c.usable_threads(step);
    const bool asked = choice_for(c.subject.compile.choices, row->name).threads > 0;
    if (may < could) {
      if (asked) all.push_back(limited(c, *row));  // otherwise more threads would not make it faster
    } else if (could < c.subject.threads) {
      const double idle = row->time.mean * (1 - static_cast<double>(could) / c.subject.threads);
      if (!c.matters(idle)) continue;
      all.push_back({{row->step},
                     row->name,
                     fmt::format("{} work item{} for {} threads, {}", step.extent, step.extent == 1 ? "" : "s",
                                 c.subject.threads, ms_text(row->time.mean)),
                     idle});
    } else if (row->threads > 1 && row->balance < 0.85 && c.matters(row->time.mean * (1 - row->balance))) {
      all.push_back(unbalanced(c, *row));
    }
  }
  return all;
}

namespace {

/// A schedule that the user forced, compared with the one that Kilter would choose.
Suspicion forced_tile(const Context& c, const Row& row) {
  const StepNotes& notes = c.notes(static_cast<size_t>(row.step));
  Suspicion s{{row.step}, row.name, {}, 0, {}, c.setting()};
  s.evidence = fmt::format("--schedule forces '{}', which takes {}", row.schedule, ms_text(row.time.mean));
  if (row.bound.kind != Bound::none)
    s.evidence += fmt::format(", {} of its {} bound", bound_share_text(row), row.bound.level);
  if (const std::vector<Ranked> others = rivals(notes.templates, parse_schedule(row.schedule));
      notes.estimate && !others.empty()) {
    const Ranked& best = *std::min_element(others.begin(), others.end(), [](const Ranked& a, const Ranked& b) {
      return a.estimate.cycles < b.estimate.cycles;
    });
    const double ratio = notes.estimate->cycles / best.estimate.cycles;
    s.gain_ms = ratio > 1 ? row.time.mean * (1 - 1 / ratio) : 0;
    s.evidence +=
        fmt::format("; the model expects {} for it and {} for '{}'", ms_text(c.model_ms(*notes.estimate, c.step(row))),
                    ms_text(c.model_ms(best.estimate, c.step(row))), best.schedule.text());
  }
  s.advice = fmt::format("drop --schedule {}=...", row.name);
  take_back(s.mend->compile.choices, row.name, &LayerChoice::schedule);
  return s;
}

double median_of(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// Returns the input channels of a convolution that do not fill a block, or 0 for other layers.
int64_t few_channels(const Row& row) {
  if (row.kind != RowKind::layer || !row.problem.starts_with("conv2d ")) return 0;
  const std::vector<std::string_view> words = split_words(row.problem);
  if (words.size() < 3 || !words[2].starts_with('c')) return 0;
  const int64_t channels = try_parse_int(words[2].substr(1)).value_or(0);
  return channels <= 4 ? channels : 0;
}

std::string template_of(const Row& row) { return row.schedule.substr(0, row.schedule.find(' ')); }

}  // namespace

std::vector<Suspicion> find_poor_tiles(const Context& c) {
  std::vector<Suspicion> all;
  std::map<std::string, std::vector<double>> shares;
  for (const Row* row : c.rows()) {
    const bool asked = c.forced(*row) && row->kind == RowKind::layer;
    if (asked) all.push_back(forced_tile(c, *row));
    if (!asked && row->kind == RowKind::layer && row->bound.kind == Bound::compute)
      shares[template_of(*row)].push_back(row->share());
  }
  for (const Row* row : c.rows()) {
    if (row->kind != RowKind::layer || row->bound.kind != Bound::compute) continue;
    if (c.forced(*row) || few_channels(*row) > 0) continue;
    const auto& others = shares[template_of(*row)];
    if (others.size() < 4) continue;
    const double usual = median_of(others);
    const double gain = row->time.mean - row->bound.ms / usual;
    if (row->share() > 0.7 * usual || !c.matters(gain)) continue;
    all.push_back({{row->step},
                   row->name,
                   fmt::format("reaches {} of its FMA bound with '{}'; half of the {} layers of this template reach {}",
                               bound_share_text(*row), row->schedule, others.size(), percent_text(usual)),
                   gain});
  }
  return all;
}

std::vector<Suspicion> find_slower_templates(const Context& c) {
  Suspicion s{{}, {}, {}, 0, "drop --accuracy strict if the errors in doc/accuracy.md are acceptable", c.setting()};
  s.mend->compile.accuracy = Accuracy::normal;
  double now = 0, then = 0;
  std::set<std::string_view> barred;
  for (const Row* row : c.rows()) {
    const StepNotes& notes = c.notes(static_cast<size_t>(row->step));
    if (c.forced(*row) || !notes.estimate) continue;
    for (const TemplateView& v : notes.templates) {
      if (v.standing != TemplateView::barred || v.ranked.empty()) continue;
      barred.insert(v.from->name);
      const double ratio = v.ranked.front().estimate.cycles / notes.estimate->cycles;
      now += row->time.mean, then += row->time.mean * std::min(ratio, 1.0);
      s.steps.push_back(row->step);
    }
  }
  if (s.steps.empty() || !c.matters(now - then)) return {};
  s.name = c.row(static_cast<size_t>(s.steps.front()))->name;
  s.gain_ms = now - then;
  s.evidence =
      fmt::format("--accuracy strict excludes {} in {} layer{}: now {}; without strict, the model expects {}",
                  fmt::join(barred, ", "), s.steps.size(), s.steps.size() == 1 ? "" : "s", ms_text(now), ms_text(then));
  return {s};
}

std::vector<Suspicion> find_tails(const Context& c) {
  std::vector<Suspicion> all;
  for (const Row* row : c.rows()) {
    const StepNotes& notes = c.notes(static_cast<size_t>(row->step));
    if (row->kind != RowKind::layer || !notes.estimate || notes.estimate->tail < 0.1) continue;
    const double gain = row->time.mean * notes.estimate->tail;
    if (!c.matters(gain)) continue;
    all.push_back({{row->step},
                   row->name,
                   fmt::format("{} of its cycles are spent on tiles and vectors that are not full ('{}' on {})",
                               percent_text(notes.estimate->tail), row->schedule, row->problem),
                   gain});
  }
  return all;
}

std::vector<Suspicion> find_first_layers(const Context& c) {
  std::vector<Suspicion> all;
  for (const Row* row : c.rows()) {
    const int64_t channels = few_channels(*row);
    if (channels == 0 || row->share() > 0.7 || !c.matters(row->time.mean - row->bound.ms)) continue;
    all.push_back(
        {{row->step},
         row->name,
         fmt::format("{} input channels do not fill a block: the image is read plain, a pixel at a time, with "
                     "smaller tiles; {} of the {} bound",
                     channels, bound_share_text(*row), row->bound.level),
         row->time.mean - row->bound.ms});
  }
  return all;
}

}  // namespace kilter::profile
