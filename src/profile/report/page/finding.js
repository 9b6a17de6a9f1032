// The first sentence of the page: what the profile found.

/** Rows that belong to one layer (a convolution and its transform) as one: {name, rows, ms, bound_ms}, the longest first. */
function layersOf(rows) {
  const byName = new Map();
  for (const row of rows.filter((candidate) => candidate.kind !== "gap")) {
    const name = row.layer || row.name;
    if (!byName.has(name)) byName.set(name, {name, rows: [], ms: 0, bound_ms: 0});
    const layer = byName.get(name);
    layer.rows.push(row);
    layer.ms += row.duration_ms;
    layer.bound_ms += row.bounded ? row.bound.ms : NaN;
  }
  return [...byName.values()].sort((a, b) => b.ms - a.ms);
}

/**
 * The share of the threads' time, in percent, in which they had nothing to do: they waited for each other, or for work
 * of the caller's thread alone. NaN if a row does not say how long its threads were busy.
 */
function waitingShare() {
  let all = 0, busy = 0;
  for (const row of profile.rows) {
    all += profile.threads * row.duration_ms;
    const times = row.busy_ms || [];
    const sum = times.reduce((total, time) => total + time, 0);
    if (row.kind === "gap") busy += row.duration_ms;
    else busy += times.length ? Math.min(sum, profile.threads * row.duration_ms) : NaN;
  }
  return profile.threads > 1 && all > 0 ? 100 * (1 - busy / all) : NaN;
}

const kMuchWaiting = 15;   // percent of the threads' time from which waiting is mentioned first
const kLargeLayer = 10;    // percent of the sum from which a single layer is named
const kFewLayers = 5;

/** What part of the time the slowest layers take. Names are elements, so that they are text whatever they contain. */
function slowestText() {
  const layers = layersOf(profile.rows), [first] = layers;
  const share = (list) => 100 * list.reduce((sum, layer) => sum + layer.ms, 0) / profile.sum_ms;
  if (!first || !(profile.sum_ms > 0)) return [];
  if (layers.length === 1 || share([first]) >= kLargeLayer) {
    const reached = 100 * first.bound_ms / first.ms;
    return [h("a", {href: `#row-${first.rows.reduce((a, b) => (b.duration_ms > a.duration_ms ? b : a)).id}`}, h("bdi", {}, shortName(first.name))),
      ` alone takes ${percent(share([first]), 0)} of the time`, reached > 0 && reached <= 100 ? `, at ${percent(reached, 0)} of its bound` : ""];
  }
  const few = layers.slice(0, kFewLayers), bounded = profile.rows.filter((row) => row.bounded);
  const sum = (get) => bounded.reduce((total, row) => total + get(row), 0);
  const reached = 100 * sum((row) => row.bound.ms) / sum((row) => row.duration_ms);
  return [`no layer stands out: the slowest ${few.length} of ${layers.length} take ${percent(share(few), 0)} of the time`,
    reached > 0 && reached <= 100 ? `, and all together reach ${percent(reached, 0)} of their bounds` : ""];
}

/** Whether the figures of the sentence can be relied on; empty on a quiet machine, or if that was not checked. */
function reservation({quiet, disturbed_share: share}) {
  const runs = isNumber(share) ? ` (${percent(100 * share, 0)} of the runs were disturbed)` : "";
  if (quiet === "busy") return `The machine was busy${runs}: the time is an upper bound, and waiting may be other programs' doing.`;
  return quiet === "partly disturbed" ? `Other programs disturbed a part of the runs${isNumber(share) ? ` (${percent(100 * share, 0)})` : ""}.` : "";
}

/** What `kilter explain` advises first, if the profile has its findings. */
function firstAdvice() {
  const {explain} = profile;
  if (!explain) return "";
  // An action with other inputs saves nothing in this run.
  const [first] = (explain.findings || []).filter((entry) => ["first", "action"].includes(entry.kind) && !/ --input-b /.test(entry.action || ""));
  if (!first) return "Nothing is known that would save time with the same results.";
  if (first.kind === "first") return "Measure again when nothing else runs.";
  return `The largest saving known is ${percent(first.gain_percent)} of the run${first.how ? ` (${first.how})` : ""}: ${first.cause}.`;
}

/** The finding, in at most three sentences; nothing if the profile has no rows. */
function findingText() {
  const waits = waitingShare(), slowest = slowestText();
  if (slowest.length === 0) return null;
  const idle = `threads waited for each other, or for work of one thread, ${percent(waits, 0)} of their time`;
  const {absent_threads: absent} = profile.conditions;  // they had no CPU, so their waiting times mean nothing
  const parts = absent ? [`${absent}. `, ...slowest] : waits >= kMuchWaiting ? [`${idle[0].toUpperCase()}${idle.slice(1)}; `, ...slowest] : slowest;
  if (typeof parts[0] === "string") parts[0] = parts[0][0].toUpperCase() + parts[0].slice(1);
  const more = [reservation(profile.conditions), firstAdvice()].filter(Boolean).join(" ");
  return h("p", {class: "first-sentence", id: "finding"}, parts, ". ", more);
}
