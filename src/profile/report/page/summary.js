// The end-to-end time, how the parts add up to it, and whether the figures can be trusted.

/** Two ranges on one axis: the 10th to 90th percentile, with the mean. */
function spreadChart(box) {
  const ranges = [["without profiling", profile.end_to_end], ["while profiled", profile.total]];
  const low = Math.min(...ranges.map(([, time]) => time.p10_ms)), high = Math.max(...ranges.map(([, time]) => time.p90_ms));
  const margin = Math.max((high - low) * 0.15, high * 0.01);
  const from = low - margin, to = high + margin;
  if (!(to > from)) return;
  drawn(box, (width) => {
    const x = (value) => 4 + (width - 8) * (value - from) / (to - from);
    const marks = ranges.map(([name, time], i) => {
      const y = 14 + 34 * i;
      return svg("g", {}, svg("text", {x: 4, y, class: "small"}, name),
        svg("line", {x1: 4, x2: width - 4, y1: y + 10, y2: y + 10, class: "hair"}),
        svg("rect", {x: x(time.p10_ms), width: Math.max(x(time.p90_ms) - x(time.p10_ms), 2), y: y + 5, height: 10, rx: 3,
          class: i ? "range second" : "range"}),
        svg("line", {x1: x(time.mean_ms), x2: x(time.mean_ms), y1: y + 2, y2: y + 18, class: "tick-mean"}));
    });
    const step = niceStep(to - from, width / 90);
    const ticks = [];
    for (let i = Math.ceil(from / step); i * step <= to; ++i) {
      const anchor = x(i * step) < 24 ? "start" : x(i * step) > width - 30 ? "end" : "middle";
      ticks.push(svg("text", {x: x(i * step), y: 88, class: "small axis", "text-anchor": anchor},
        `${tickText(i * step, step)} ms`));
    }
    box.replaceChildren(svg("svg", {width, height: 94, role: "img", "aria-label": ranges.map(([name, time]) =>
      `${name}: mean ${ms(time.mean_ms)}, ${ms(time.p10_ms)} to ${ms(time.p90_ms)}`).join("; ")}, marks, ticks));
  });
}

/** If other programs used the machine, the figure is an interval from the best run to the upper bound. */
function figure() {
  const {quiet, best_ms: best} = profile.conditions;
  const number = significant(profile.end_to_end_ms);
  return quiet === "busy" && best < profile.end_to_end_ms ? `${significant(best)} to ${number}` : number;
}

function hero() {
  const time = profile.end_to_end;
  const spread = h("div", {class: "spread"});
  spreadChart(spread);
  return h("div", {class: "hero"},
    h("p", {class: "big"}, h("b", {id: "end-to-end", "data-ms": profile.end_to_end_ms}, figure()), " ms"),
    quietNote(profile.conditions),
    h("p", {}, `from the inputs to the outputs, without profiling; 8 runs in 10 took ${ms(time.p10_ms)} to ${ms(time.p90_ms)}. ` +
      (profile.end_to_end_ms > 0 ? `That is ${significant(1000 / profile.end_to_end_ms, 3)} runs a second.` : "")),
    spread,
    h("p", {class: "note"}, `Bars: 10th to 90th percentile of ${plural(profile.passes, "run")} each, interleaved. Line: mean ` +
      `of the middle half, ${plural(profile.kept, "run")}.`));
}

/** The sums as a ledger: how the times add up, with a phrase on each. */
function ledger() {
  const lines = [
    ["kernels", profile.kernels_ms, "the work of all rows, without their barriers", "part"],
    ["barriers", profile.barriers_ms, "waking the threads, and waiting for the last one", "part"],
    ["gaps", profile.gaps_ms, "on the caller's thread between two rows", "part"],
    ["Sum", profile.sum_ms, "everything that has a row in the table", "sum"],
    ["residual", profile.residual_ms, "total minus sum: time that no row accounts for", "part"],
    ["Total", profile.total_ms, "wall time of the profiled runs, by another clock", "sum"],
    ["overhead", profile.total_ms - profile.end_to_end_ms, `what profiling adds: ${percent(profile.overhead_percent, 2)} of end to end`,
      "part"],
    ["End to end", profile.end_to_end_ms, "wall time of runs without profiling, interleaved with the others", "sum"],
  ];
  return h("table", {class: "ledger"}, h("caption", {class: "sr"}, "How the times add up"),
    h("tbody", {}, lines.map(([name, value, about, css]) => h("tr", {class: css},
      h("th", {scope: "row"}, name), h("td", {class: "num", "data-ms": value}, withUnit(fixed(value, 4), "ms")),
      h("td", {class: "about"}, about)))));
}

/** The checks that the figures must pass to be credible. On a busy machine none of them earns a tick. */
function checks() {
  const share = (part, whole) => whole > 0 ? 100 * part / whole : NaN;
  const busy = profile.conditions.quiet === "busy";
  const ratio = profile.sum_over_end_to_end || {};
  const list = [
    {good: "The rows add up", bad: "The rows miss the end-to-end time", limit: 3,
      value: share(profile.sum_ms - profile.end_to_end_ms, profile.end_to_end_ms),
      interval: isNumber(ratio.low) ? [100 * (ratio.low - 1), 100 * (ratio.high - 1)] : null,
      say: (size, more) => `Their sum is ${size} ${more ? "above" : "below"} the end-to-end time`},
    {good: "Nothing is missing", bad: "Some time has no row", limit: 1, value: share(profile.residual_ms, profile.total_ms),
      say: (size, more) => `The rows are ${size} ${more ? "short of" : "over"} the total`},
    {good: "Profiling costs little", bad: "Profiled runs differ from others", limit: 2, value: profile.overhead_percent,
      say: (size, more) => `Profiled runs took ${size} ${more ? "longer" : "less"}`},
  ];
  const items = list.map(({good, bad, limit, value, interval, say}) => {
    const [low, high] = interval || [value, value];
    const fits = isNumber(value) && low <= limit && high >= -limit && high - low <= 2 * limit;
    const holds = fits && !busy;
    const range = interval ? `, ${fixed(low, 2)} to ${percent(high, 2)}` : "";
    const why = busy ? " Other programs disturbed most runs, so it says nothing."
      : holds ? "" : " Something else may have used the machine: measure again, for longer.";
    return check(holds, fits ? good : bad, `${say(percent(Math.abs(value), 2), value >= 0)}${range}; up to ${limit}\u00a0% is fine.${why}`);
  });
  return h("ul", {class: "checks"}, [quietCheck(profile.conditions), ...items].filter((item) => item));
}

function cards() {
  const work = profile.rows.filter((row) => row.kind !== "gap");
  const total = (list, get) => list.reduce((sum, row) => sum + get(row), 0);
  const flops = total(work, (row) => row.flops);
  const peak = peakOf(profile.peaks.gflops);
  const rate = profile.end_to_end_ms > 0 ? flops / profile.end_to_end_ms * 1e-6 : NaN;
  const bounded = work.filter((row) => row.bounded);
  const reached = (part, whole) => whole > 0 ? part > whole ? "beaten" : percent(100 * part / whole) : kNone;
  const bound = total(bounded, (row) => row.bound.ms), took = total(bounded, (row) => row.duration_ms);
  const moving = work.filter((row) => ["layout change", "halo", "copy", "pack"].includes(row.kind));
  const reference = work.filter((row) => row.kind === "reference");
  const list = [
    ["Arithmetic", si(flops, "FLOP"), `in one run: ${significant(rate, 3)} GFLOP/s, ${percent(100 * rate / peak)} of the FMA peak`],
    ["Of the bound", reached(bound, took), `work that took ${ms(took)} could take ${ms(bound)} on this machine` +
      (profile.bounds_beaten ? `; ${profile.bounds_beaten}` : "")],
    ["Layout changes", percent(total(moving, (row) => row.percent)), `${plural(moving.length, "row")} that only move or pack data`],
    ["Memory", bytes(profile.memory.arena_bytes), `arena; the packed weights are ${bytes(profile.memory.constants_bytes)} more`],
    ["Rows", String(work.length), `on ${plural(profile.threads, "thread")}` +
      (reference.length ? `; ${reference.length} run a reference kernel, ${percent(total(reference, (row) => row.percent))} of the sum` : "")],
  ];
  return h("dl", {class: "cards"}, list.map(([name, value, about]) => h("div", {},
    h("dt", {}, name), h("dd", {}, h("b", {}, value), h("span", {}, about)))));
}

/** The measured peak at the profile's number of threads, or at the largest number measured. */
function peakOf(values) {
  return values && values.length ? values[Math.min(values.length, Math.max(profile.threads, 1)) - 1] : NaN;
}

function renderSummary(body) {
  const parts = [
    {name: "kernels", ms: profile.kernels_ms, css: "c0"}, {name: "barriers", ms: profile.barriers_ms, css: "c1"},
    {name: "gaps", ms: profile.gaps_ms, css: "cgap"}, {name: "residual", ms: profile.residual_ms, css: "c5"},
  ];
  const finding = findingText();
  if (finding) body.append(finding);
  body.append(h("div", {class: "halves"}, hero(), h("div", {}, splitBar(parts, "Total"), ledger())), checks(), cards());
}
