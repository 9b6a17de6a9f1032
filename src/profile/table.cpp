#include "profile/table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "base/columns.h"
#include "base/error.h"
#include "base/text.h"

namespace kilter::profile {
namespace {

constexpr double kMega = 1e-6;

std::string share_text(const Row& r) {
  if (r.bound.kind == Bound::none) return "-";
  return r.beats_bound() ? "beats " + r.bound.level
                         : fmt::format("{:.0f}% {}", 100 * std::min(r.share(), 1.0), r.bound.level);
}

/// The name that the table shows: names inside a control row are indented, and those of loops have their trip counts.
std::string shown_name(const Row& r) {
  std::string name = std::string(2 * static_cast<size_t>(r.depth), ' ') + r.label();
  return r.iterations > 0 ? name + fmt::format(" ({} iterations)", r.iterations) : name;
}

/// A column after the name. Of those that do not fit, the ones with the highest rank are left out first.
struct Column {
  std::string_view title;
  size_t width;
  int rank;
  std::string (*text)(const Row&);
  bool left = false;
  bool here = false;  ///< a profile of another machine does not have it
};

bool works(const Row& r) { return r.kind != RowKind::gap; }

const Column kColumns[] = {
    {"operators", 18, 2, [](const Row& r) { return works(r) ? without_middle(r.ops, 18) : std::string(); }, true},
    {"count", 5, 3, [](const Row& r) { return fmt::format("{}", r.count); }},
    {"ms", 9, 0, [](const Row& r) { return fmt::format("{:.4f}", r.time.mean); }},
    {"+-", 7, 1, [](const Row& r) { return fmt::format("{:.4f}", (r.time.high - r.time.low) / 2); }},
    {"%", 6, 0, [](const Row& r) { return fmt::format("{:.2f}", r.percent); }},
    {"GFLOP/s", 8, 0, [](const Row& r) { return r.flops > 0 ? fmt::format("{:.1f}", r.gflops()) : "-"; }},
    {"effective", 9, 5,
     [](const Row& r) { return r.effective_flops > 0 ? fmt::format("{:.1f}", r.effective_gflops()) : "-"; }},
    {"GB/s", 7, 4, [](const Row& r) { return r.bytes > 0 ? fmt::format("{:.1f}", r.gbps()) : "-"; }},
    {"of bound", 13, 0, [](const Row& r) { return share_text(r); }},
    {"thr", 4, 6, [](const Row& r) { return works(r) ? fmt::format("{}", r.threads) : "-"; }, false, true},
    {"bal", 5, 7, [](const Row& r) { return works(r) ? fmt::format("{:.2f}", r.balance) : "-"; }, false, true}};

/// The columns of a table and the names of its rows, as far as they fit.
struct Layout {
  std::vector<const Column*> columns;
  std::vector<std::string> left_out;
  std::string_view start;  ///< the common beginning of the names, which the rows do not repeat
  size_t name_width = 10;

  std::map<std::string, std::string> shown;  ///< by the whole name

  std::string name_of(const Row& r) const {
    const std::string whole = shown_name(r);
    const auto known = shown.find(whole);
    return known != shown.end() ? known->second : without_middle(whole, name_width);
  }
  /// Shortens the names to the width.
  void shorten(const std::vector<std::string>& names) {
    std::vector<std::string> rest;
    for (const std::string& name : names) rest.push_back(name.substr(name.starts_with(start) ? start.size() : 0));
    const std::vector<std::string> cut = short_names(rest, name_width);
    for (size_t i = 0; i < names.size(); ++i) shown.emplace(names[i], cut[i]);
  }
};

size_t width_of(const Layout& layout) {
  size_t width = layout.name_width;
  for (const Column* c : layout.columns) width += 1 + c->width;
  return width;
}

/// `names`: those of the rows, which must outlive the result. `width` 0: no limit.
Layout layout_of(const std::vector<std::string>& names, size_t most_of_name, size_t width, bool elsewhere) {
  constexpr size_t kLeastName = 24;  // names need this many characters to be distinguishable
  Layout layout;
  if (width > 0) layout.start = common_start(names);
  size_t longest = layout.name_width;
  for (const std::string& name : names) longest = std::max(longest, name.size() - layout.start.size());
  layout.name_width = std::min(longest, most_of_name);
  for (const Column& c : kColumns) {
    if (!c.here || !elsewhere) layout.columns.push_back(&c);
  }
  if (width == 0) {
    layout.shorten(names);
    return layout;
  }
  const size_t whole = layout.name_width;
  const size_t least = std::min(whole, kLeastName);
  const auto excess = [&] { return width_of(layout) - std::min(width_of(layout), width); };
  while (excess() > whole - least) {
    const auto last = std::ranges::max_element(layout.columns, {}, &Column::rank);
    if ((*last)->rank == 0) break;
    layout.left_out.insert(layout.left_out.begin(), std::string((*last)->title));
    layout.columns.erase(last);
  }
  layout.name_width = std::max(least, whole - std::min(whole, excess()));
  layout.shorten(names);
  return layout;
}

std::string heads(const Layout& layout, const std::string& by, const TableStyle& style) {
  std::string out = fmt::format("{:<{}}", by, layout.name_width);
  for (const Column* c : layout.columns)
    out += c->left ? fmt::format(" {:<{}}", c->title, c->width) : fmt::format(" {:>{}}", c->title, c->width);
  return (style.head ? style.head(out) : out) + "\n";
}

std::string line(const Row& r, const Layout& layout) {
  std::string out = fmt::format("{:<{}}", layout.name_of(r), layout.name_width);
  for (const Column* c : layout.columns)
    out += c->left ? fmt::format(" {:<{}}", c->text(r), c->width) : fmt::format(" {:>{}}", c->text(r), c->width);
  return out + "\n";
}

/// Returns what the table does not show.
std::string left_out_text(const Layout& layout, size_t width) {
  std::string out;
  if (!layout.start.empty()) out += hanging(fmt::format("names begin with {}", layout.start), 2, width) + "\n";
  if (layout.left_out.empty()) return out;
  const std::string left =
      fmt::format("left out at {} columns: {}; --wide shows them", width, fmt::join(layout.left_out, ", "));
  return out + hanging(left, 2, width) + "\n";
}

std::string counter_text(const CounterValues& c) {
  if (!c.cycles && !c.instructions) return {};
  const auto value = [](const std::optional<int64_t>& v) { return v ? fmt::format("{}", *v) : std::string("-"); };
  std::string out = fmt::format("cycles {} instructions {} cache misses {} stalled cycles {}", value(c.cycles),
                                value(c.instructions), value(c.cache_misses), value(c.stalled_cycles));
  if (c.cycles && c.instructions && *c.cycles > 0)
    out += fmt::format(" ({:.2f} a cycle)", static_cast<double>(*c.instructions) / static_cast<double>(*c.cycles));
  return c.invalid.empty() ? out : out + "  INVALID: " + c.invalid;
}

std::string details(const Row& r) {
  std::string out;
  if (const std::string counters = counter_text(r.counters); !counters.empty())
    out = fmt::format("    {:<9} {}\n", "counters", counters);
  for (const auto& [what, text] : {std::pair{"problem", &r.problem},
                                   {"schedule", &r.schedule},
                                   {"from", &r.record},
                                   {"shapes", &r.shapes},
                                   {"layouts", &r.layouts},
                                   {"hash", &r.key}}) {
    if (!text->empty()) out += fmt::format("    {:<9} {}\n", what, *text);
  }
  return out;
}

std::string agreement_text(const Ratio& sum_over_end_to_end) {
  switch (agreement(sum_over_end_to_end)) {
    case Agreement::agree:
      return fmt::format("they agree, as the interval overlaps +-{:.0f} %", 100 * kSumLimit);
    case Agreement::unknown:
      return fmt::format("not known, as the interval is wider than +-{:.0f} %; --seconds narrows it", 100 * kSumLimit);
    case Agreement::differ:
      break;
  }
  return fmt::format("they differ by more than {:.0f} %", 100 * kSumLimit);
}

std::string sums_elsewhere(const Profile& p) {
  std::string out = fmt::format("Sum        {:>10.4f} ms   kernels with their barriers {:.4f} + gaps {:.4f}\n",
                                p.sum_ms, p.kernels_ms, p.gaps_ms);
  out += fmt::format(
      "Total      {:>10.4f} ms   ({:.4f} to {:.4f}) of the runs ({} runs, the {} nearest the middle kept)\n",
      p.total_ms, p.total.low, p.total.high, p.passes, p.kept);
  out += fmt::format("           {}\n", quiet_text(p.conditions, "runs"));
  out += "           agents report neither barriers nor the times of single threads\n";
  if (const std::string beaten = beaten_text(p); !beaten.empty()) out += beaten + "\n";
  return out;
}

std::string sums(const Profile& p) {
  if (p.elsewhere) return sums_elsewhere(p);
  std::string out = fmt::format("Sum        {:>10.4f} ms   kernels {:.4f} + gaps {:.4f} + barriers {:.4f}\n", p.sum_ms,
                                p.kernels_ms, p.gaps_ms, p.barriers_ms);
  out += fmt::format(
      "Total      {:>10.4f} ms   wall time of the profiled runs ({} passes, the {} nearest the middle kept)\n",
      p.total_ms, p.passes, p.kept);
  out += fmt::format("Residual   {:>10.4f} ms   Total - Sum, {:.2f} % of Total\n", p.residual_ms,
                     100 * p.residual_ms / p.total_ms);
  out += fmt::format(
      "End to end {:>10.4f} ms   without profiling, interleaved ({:.4f} to {:.4f}); profiling costs {:.2f} %\n",
      p.end_to_end_ms, p.end_to_end.low, p.end_to_end.high, p.overhead_percent);
  out += fmt::format("           {}\n", quiet_text(p.conditions, "passes"));
  const Ratio& r = p.sum_over_end_to_end;
  out += fmt::format("Sum over end to end  {:+.2f} % ({:+.2f} to {:+.2f}, 95 %, in pairs): {}\n", 100 * (r.value - 1),
                     100 * (r.low - 1), 100 * (r.high - 1), agreement_text(r));
  if (const std::string beaten = beaten_text(p); !beaten.empty()) out += beaten + "\n";
  return out;
}

/// Counts the sources of the rows' schedules: "31 default, 9 record (40.2 % of the sum)".
std::string sources(const Profile& p) {
  std::map<ScheduleSource, std::pair<int64_t, double>> by_source;
  for (const Row& r : p.rows) {
    if (r.schedule.empty()) continue;
    auto& [count, percent] = by_source[r.from()];
    ++count, percent += r.percent;
  }
  std::string out;
  for (const auto& [source, sum] : by_source)
    out += fmt::format("{}{} {} ({:.1f} % of the sum)", out.empty() ? "" : ", ", sum.first, name(source), sum.second);
  return out.empty() ? "none" : out;
}

double layout_share(const Profile& p) {
  double ms = 0;
  for (const Row& r : p.rows)
    ms += r.kind == RowKind::relayout || r.kind == RowKind::halo || r.kind == RowKind::copy || r.kind == RowKind::pack
              ? r.time.mean
              : 0;
  return p.sum_ms > 0 ? 100 * ms / p.sum_ms : 0;
}

std::string peaks_text(const Profile& p) {
  const Peaks& k = p.peaks;
  return fmt::format(
      "  {:<22} {:.1f} GFLOP/s FMA, {:.0f} GB/s L2, {:.0f} GB/s L3, {:.0f} GB/s DRAM (measured in this run)\n", "peaks",
      k.at(k.gflops, p.threads), k.at(k.l2_gbps, p.threads), k.at(k.l3_gbps, p.threads), k.at(k.dram_gbps, p.threads));
}

std::string configuration(const Profile& p) {
  std::string out = "Configuration\n";
  out += fmt::format("  {:<22} {}\n", "threads", p.threads);
  out += fmt::format("  {:<22} {}\n", "executor",
                     p.program ? "program of segments and operators" : "flat plan, one barrier a region");
  const Conditions& c = p.conditions;
  const std::pair<const char*, const std::string*> fields[] = {{"device", &c.device},
                                                               {"target", &c.target},
                                                               {"precision", &c.precision},
                                                               {"code generator", &c.codegen},
                                                               {"program", &c.program},
                                                               {"tuning records", &c.records},
                                                               {"CPUs allowed", &c.pinning},
                                                               {"huge pages", &c.huge_pages},
                                                               {"weights", &c.weights},
                                                               {"activations", &c.activations},
                                                               {"clock", &c.clock},
                                                               {"estimator", &c.estimator},
                                                               {"date", &c.date}};
  for (const auto& [what, value] : fields) {
    if (!value->empty()) out += fmt::format("  {:<22} {}\n", what, *value);
  }
  if (!p.peaks.gflops.empty()) out += peaks_text(p);
  out += fmt::format("  {:<22} {}\n", "schedules", sources(p));
  out += fmt::format("  {:<22} {:.1f} % of the sum\n", "layout changes", layout_share(p));
  if (!p.no_counters.empty()) out += fmt::format("  {:<22} {}\n", "counters", p.no_counters);
  return out;
}

}  // namespace

std::string bound_share_text(const Row& row) {
  return row.beats_bound() ? "beaten" : fmt::format("{:.0f} %", 100 * std::min(row.share(), 1.0));
}

std::string beaten_text(const Profile& p) {
  const Row* most = nullptr;
  int64_t count = 0;
  for (const Row& r : p.rows) {
    if (!r.beats_bound()) continue;
    ++count;
    if (most == nullptr || r.share() > most->share()) most = &r;
  }
  if (most == nullptr) return {};
  const bool disturbed = !undisturbed_figure(p.conditions);
  return fmt::format("{} layer{} {} bound, '{}' most of all (its {} bound is {:.2f} times its time): {}", count,
                     count == 1 ? "" : "s", count == 1 ? "beats its" : "beat their", most->label(), most->bound.level,
                     most->share(),
                     disturbed                           ? "other programs disturbed the measurement of the peaks"
                     : most->bound.kind == Bound::memory ? "operands come from a nearer cache than the model assumes"
                                                         : "the peaks were measured at a lower clock");
}

std::string_view name(RowKind kind) {
  constexpr std::string_view kNames[] = {"layer",     "pack", "layout change", "halo",     "copy",
                                         "reference", "gap",  "segment",       "operator", "control"};
  return kNames[static_cast<size_t>(kind)];
}

std::vector<Row> group(const std::vector<Row>& rows, std::string_view by) {
  if (by == "layer") return rows;
  if (by != "operator" && by != "task") fail(ErrorKind::usage, "--by {}: legal values are layer, operator, task", by);
  std::vector<Row> out;
  std::map<std::string, size_t> known;
  for (const Row& r : rows) {
    const bool task = by == "task" && !r.problem.empty();
    const std::string key = r.kind == RowKind::gap ? r.name : (task ? r.problem + r.ops : r.ops);
    const auto [it, fresh] = known.emplace(key, out.size());
    if (fresh) {
      out.push_back(r);
      if (r.kind != RowKind::gap) out.back().name = task ? r.problem : r.ops;
      out.back().step = -1, out.back().stage.clear(), out.back().reads.clear(), out.back().reads_inputs.clear();
      continue;
    }
    Row& g = out[it->second];
    const double before = g.time.mean + r.time.mean;
    g.balance = before > 0 ? (g.balance * g.time.mean + r.balance * r.time.mean) / before : 1;
    g.time = {before, g.time.low + r.time.low, g.time.high + r.time.high};
    g.count += r.count, g.percent += r.percent, g.barrier_ms += r.barrier_ms, g.gap_ms += r.gap_ms;
    g.effective_flops += r.effective_flops;
    g.flops += r.flops, g.bytes += r.bytes, g.weight_bytes += r.weight_bytes, g.bound.ms += r.bound.ms;
    g.threads = std::max(g.threads, r.threads);
    for (size_t t = 0; t < g.busy_ms.size(); ++t) g.busy_ms[t] += r.busy_ms[t];
    if (g.schedule != r.schedule) g.schedule = "several";
    if (g.record != r.record) g.record = "several";
    if (g.bound.level != r.bound.level) g.bound.level = "several";
    for (std::string* field : {&g.shapes, &g.layouts, &g.key}) field->clear();
  }
  return out;
}

std::vector<Row> sorted(std::vector<Row> rows, std::string_view sort) {
  const auto by = [&](auto less) { std::stable_sort(rows.begin(), rows.end(), less); };
  if (sort == "time") {
    by([](const Row& a, const Row& b) { return a.time.mean > b.time.mean; });
  } else if (sort == "name") {
    by([](const Row& a, const Row& b) { return a.name < b.name; });
  } else if (sort == "share") {
    by([](const Row& a, const Row& b) { return a.share() < b.share(); });
  } else if (sort != "order") {
    fail(ErrorKind::usage, "--sort {}: legal values are order, time, name, share", sort);
  }
  return rows;
}

void check(const TableOptions& options) {
  group({}, options.by);
  sorted({}, options.sort);
}

std::string table(const Profile& p, const TableOptions& options) {
  const std::vector<Row> rows = sorted(group(p.rows, options.by), options.sort);
  std::vector<std::string> names;
  for (const Row& r : rows) {
    if (works(r)) names.push_back(shown_name(r));
  }
  const Layout layout =
      layout_of(names, options.by == "task" ? 72 : 40, options.wide ? 0 : options.style.width, p.elsewhere);
  std::string out = heads(layout, options.by, options.style);
  int64_t shown = 0;
  double hidden = 0;
  for (const Row& r : rows) {
    if (options.top > 0 && shown >= options.top) {
      hidden += r.time.mean;
      continue;
    }
    ++shown;
    out += line(r, layout);
    if (options.wide) out += details(r);
  }
  if (hidden > 0) out += fmt::format("({} more rows: {:.4f} ms)\n", static_cast<int64_t>(rows.size()) - shown, hidden);
  out += left_out_text(layout, options.style.width);
  const std::string below = sums(p) + configuration(p);
  for (const std::string_view text : split(below, '\n'))
    out += hanging(text, text.starts_with("  ") ? 25 : 27, options.style.width) + "\n";
  out.pop_back();  // the text ended with a line end
  return out;
}

std::string memory_table(const Profile& p) {
  std::string out =
      fmt::format("Memory\n  arena {:.3f} MB, packed weights {:.3f} MB, scratch {:.3f} MB, code {:.3f} MB\n",
                  static_cast<double>(p.arena_bytes) * kMega, static_cast<double>(p.constants_bytes) * kMega,
                  static_cast<double>(p.scratch_bytes) * kMega, static_cast<double>(p.code_bytes) * kMega);
  out += fmt::format("  {:>6} {:>10} {:>10}  {}\n", "step", "live MB", "arena %", "layer");
  for (const Row& r : p.rows) {
    if (r.step < 0) continue;
    int64_t live = 0;
    for (const ArenaSpan& s : p.arena) live += s.first_step <= r.step && r.step <= s.last_step ? s.bytes : 0;
    out += fmt::format("  {:>6} {:>10.3f} {:>10.1f}  {}\n", r.step, static_cast<double>(live) * kMega,
                       p.arena_bytes > 0 ? 100.0 * static_cast<double>(live) / static_cast<double>(p.arena_bytes) : 0.0,
                       r.label());
  }
  return out;
}

}  // namespace kilter::profile
