// The profile as the charts need it, and the state that they share.

/** The embedded JSON of `kilter profile --json`; rows also get id, op, intensity and above (time above the bound). */
function readProfile() {
  const profile = pageData();
  profile.rows.forEach((row, id) => {
    row.id = id;
    row.op = row.ops || row.kind;
    row.intensity = row.flops > 0 && row.bytes > 0 ? row.flops / row.bytes : null;
    row.bounded = row.bound.kind !== "none" && row.bound.ms > 0;
    row.above = row.bounded ? row.duration_ms - row.bound.ms : null;
    row.share = row.bounded ? Math.min(100 * row.share_of_bound, 100) : null;
  });
  return profile;
}

/** Operators with their rows, time and share, the longest first; gaps are the last. */
function operatorsOf(rows) {
  const byName = new Map();
  for (const row of rows) {
    if (!byName.has(row.op)) byName.set(row.op, {name: row.op, rows: [], ms: 0, percent: 0, gap: row.kind === "gap"});
    const group = byName.get(row.op);
    group.rows.push(row);
    group.ms += row.duration_ms;
    group.percent += row.percent;
  }
  return [...byName.values()].sort((a, b) => a.gap - b.gap || b.ms - a.ms);
}

const profile = readProfile();
const operators = operatorsOf(profile.rows);
learnNames(profile.rows.filter((row) => row.kind === "layer").map((row) => row.name));

/** The state that all charts share (view.js). */
Object.assign(view, {
  colour: "share",  // or "time" or "operator"
  op: null,            // operator to highlight; the others fade
  row: null,           // id of the selected row
});

const kShares = [20, 40, 60, 80];  // limits of the colour classes, in percent of the bound
const kTimes = [1 / 16, 1 / 8, 1 / 4, 1 / 2].map((part) => part * profile.rows.reduce((most, row) => Math.max(most, row.percent || 0), 1e-9));  // likewise, of the sum
const kColoured = 7;               // operators with a colour of their own

const operatorClass = new Map(operators.map((group, i) => [group.name, group.gap ? "cgap" : i < kColoured ? `c${i}` : "cother"]));

/** The class that gives a mark its colours (style.css: --mark, --on). */
function markClass(row, time = row.percent) {
  if (view.colour === "time") return `t${kTimes.filter((limit) => time >= limit).length}`;
  if (view.colour === "operator") return operatorClass.get(row.op);
  return row.share === null ? "snone" : `s${kShares.filter((limit) => row.share >= limit).length}`;
}

function faded(row) {
  return view.op !== null && row.op !== view.op;
}

function boundText(row) {
  if (row.bounded && row.beats_bound) return `beats ${row.bound.level}`;
  return row.bounded ? `${fixed(row.share, 0)}\u00a0% of ${row.bound.level}` : kNone;
}

/** The text of a row's tooltip. */
function rowFacts(row, ...more) {
  return [
    h("p", {class: "tip-name"}, h("i", {class: `swatch ${markClass(row)}`}), h("bdi", {}, row.name)),
    facts([
      ["operator", row.kind === "gap" ? "gap" : row.op],
      ["time", `${ms(row.duration_ms)} (${ms(row.p10_ms)} to ${ms(row.p90_ms)})`],
      ["share", percent(row.percent, 2)],
      ["speed", row.flops > 0 ? `${significant(row.gflops, 3)}\u00a0GFLOP/s` : null],
      ["intensity", row.intensity === null ? null : `${significant(row.intensity, 3)}\u00a0FLOP/byte`],
      ["bound", row.bounded ? `${ms(row.bound.ms)}: ${boundText(row)}` : null],
      ["threads", row.kind === "gap" ? null : `${row.threads}, balance ${fixed(row.balance, 2)}`],
      ...more,
    ]),
  ];
}

/** The text of a row's mark for screen readers. */
function rowLabel(row) {
  return `${row.name}: ${row.op}, ${ms(row.duration_ms)}, ${percent(row.percent)}` +
    (row.bounded ? `, ${boundText(row)}` : "");
}
