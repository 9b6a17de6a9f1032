#include "profile/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/error.h"

namespace kilter::profile {
namespace {

constexpr double kMega = 1e-6;

std::string shortened(const std::string& text, size_t width) {
  return text.size() <= width ? text : text.substr(0, width - 2) + "..";
}

std::string share_text(const Row& r) {
  if (r.bound.kind == Bound::none) return "-";
  return r.beats_bound() ? "beats " + r.bound.level
                         : fmt::format("{:.0f}% {}", 100 * std::min(r.share(), 1.0), r.bound.level);
}

/// The name as the table shows it: rows inside a control row are indented, and loops have their trip counts.
std::string shown_name(const Row& r) {
  std::string name = std::string(2 * static_cast<size_t>(r.depth), ' ') + r.label();
  return r.iterations > 0 ? name + fmt::format(" ({} iterations)", r.iterations) : name;
}

std::string line(const Row& r, size_t name_width) {
  const bool work = r.kind != RowKind::gap;
  return fmt::format("{:<{}} {:<18} {:>5} {:>9.4f} {:>7.4f} {:>6.2f} {:>8} {:>9} {:>7} {:>13} {:>4} {:>5}\n",
                     shortened(shown_name(r), name_width), name_width, shortened(work ? r.ops : "", 18), r.count,
                     r.time.mean, (r.time.high - r.time.low) / 2, r.percent,
                     r.flops > 0 ? fmt::format("{:.1f}", r.gflops()) : "-",
                     r.effective_flops > 0 ? fmt::format("{:.1f}", r.effective_gflops()) : "-",
                     r.bytes > 0 ? fmt::format("{:.1f}", r.gbps()) : "-", share_text(r),
                     work ? fmt::format("{}", r.threads) : "-", work ? fmt::format("{:.2f}", r.balance) : "-");
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

std::string sums(const Profile& p) {
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
  const bool disturbed = quietness(p.conditions) != Quietness::quiet;
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
      out.back().step = -1, out.back().stage.clear();
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
  size_t width = 10;
  for (const Row& r : rows)
    width = std::max(width, std::min<size_t>(shown_name(r).size(), options.by == "task" ? 72 : 40));
  std::string out =
      fmt::format("{:<{}} {:<18} {:>5} {:>9} {:>7} {:>6} {:>8} {:>9} {:>7} {:>13} {:>4} {:>5}\n", options.by, width,
                  "operators", "count", "ms", "+-", "%", "GFLOP/s", "effective", "GB/s", "of bound", "thr", "bal");
  int64_t shown = 0;
  double hidden = 0;
  for (const Row& r : rows) {
    if (options.top > 0 && shown >= options.top) {
      hidden += r.time.mean;
      continue;
    }
    ++shown;
    out += line(r, width);
    if (options.wide) out += details(r);
  }
  if (hidden > 0)
    out += fmt::format("{:<{}} {:>34.4f}\n", fmt::format("({} more rows)", static_cast<int64_t>(rows.size()) - shown),
                       width, hidden);
  return out + sums(p) + configuration(p);
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
