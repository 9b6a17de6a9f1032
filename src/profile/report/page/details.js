// An expanded row of the table, with the facts that do not fit into its line.

/** The busy time of each thread, if several took part. */
function busyBars(row) {
  if (row.busy_ms.length < 2) return null;
  const busiest = Math.max(...row.busy_ms, 1e-12);
  return h("ol", {class: "busy", start: "0"}, row.busy_ms.map((time, thread) => {
    const bar = h("span", {class: "bar"});
    bar.style.width = `${100 * time / busiest}%`;
    return h("li", {}, h("span", {}, `thread ${thread}`), h("span", {class: "track"}, bar), h("span", {class: "num"}, ms(time)));
  }));
}

/** The hardware counters of one run, or why they cannot be right. */
function counterText(row) {
  const counters = row.counters || {};
  if (counters.invalid) return `not plausible: ${counters.invalid}`;
  const words = {cycles: "cycles", instructions: "instructions", cache_misses: "cache misses", stalled_cycles: "stalled cycles"};
  return Object.entries(words).filter(([key]) => isNumber(counters[key])).map(([key, word]) => `${si(counters[key], "").trim()}\u00a0${word}`).join(", ");
}

/** The findings of `kilter explain` for the row: causes, the approximation error, schedules that were not chosen, templates that do not apply. */
function explained(row) {
  const layer = ((profile.explain || {}).layers || []).find((candidate) => candidate.row === row.id);
  if (!layer) return [];
  const list = (entries, say) => entries && entries.length ? h("ul", {}, entries.map((entry) => h("li", {}, say(entry)))) : null;
  return [
    ["why", list(layer.causes, ({cause, evidence}) => h("span", {}, h("b", {}, cause), `: ${evidence}`))],
    ["accuracy", layer.approximates ? `approximates: ${layer.approximates}` : null],
    ["other schedules", list(layer.runners_up, ({schedule, predicted_ms, measured_ms}) => h("span", {}, h("code", {}, schedule),
      ` predicted ${ms(predicted_ms)}${isNumber(measured_ms) ? `, measured ${ms(measured_ms)}` : ""}`))],
    ["not possible", list(layer.rejected, ({template, check, limit, got}) => h("span", {}, h("code", {}, String(template)),
      `: ${check}, limit ${limit}, got ${got}`))],
  ];
}

/** The origin of the schedule: the model's default, or a record with how it was matched, its age and its ratio. */
function sourceText(row) {
  if (!row.schedule) return null;
  return row.record || "the default of the analytic model";
}

/** The rows and network inputs that the row reads. */
function readText(row) {
  const rows = (row.reads || []).map((id) => profile.rows[id]).filter(Boolean);
  const links = [...(row.reads_inputs || []).map((name) => h("bdi", {}, String(name))), ...rows.map((from) => h("a", {href: `#row-${from.id}`}, h("bdi", {}, from.name)))];
  return links.length ? h("span", {}, links.flatMap((link, i) => i ? [", ", link] : [link])) : null;
}

/** The longer texts of a row, and the busy times of its threads. */
function rowDetails(row) {
  const code = (text) => text ? h("code", {}, text) : null;
  const layouts = row.layouts || {};
  return h("div", {class: "details"}, facts([
    ["name", row.name.length > 24 ? h("bdi", {}, row.name) : null],
    ["problem", code(row.problem)], ["schedule", code(row.schedule)], ["from", sourceText(row)], ["shapes", code(row.shapes)],
    ["layouts", layouts.source || layouts.destination ? h("span", {}, code(layouts.source), " with weights ",
      code(layouts.weights || "none"), " to ", code(layouts.destination)) : null],
    ["reads", readText(row)],
    ["kernel", code(row.hash)],
    ["time", `${ms(row.duration_ms)}, 10th to 90th percentile ${ms(row.p10_ms)} to ${ms(row.p90_ms)}, ${percent(row.percent, 2)} of the sum`],
    ["parts", row.kind === "gap" ? null : `kernel ${ms(row.duration_ms - row.barrier_ms)}, barrier ${ms(row.barrier_ms)}; gap before ${ms(row.gap_before_ms)}`],
    ["bound", row.bounded ? `${ms(row.bound.ms)} by ${row.bound.kind} (${row.bound.level}): ${row.beats_bound
      ? "the row beats it, so the bound is wrong" : `${percent(row.share)} reached, ${ms(row.above)} above it`}` : null],
    ["work", row.flops > 0 || row.bytes > 0 ? `${si(row.flops, "FLOP")}, ${bytes(row.bytes)} of operands, of which ${bytes(row.weight_bytes)} packed weights` : null],
    ["counters", counterText(row)],
    ...explained(row),
    ["busy", busyBars(row)],
  ]));
}
