// Shows the conditions that a profile's figures apply to, and the measured peaks.

function peakTable() {
  const {peaks} = profile;
  const columns = [["FMA, fp32", peaks.gflops, "GFLOP/s"], ["L2", peaks.l2_gbps, "GB/s"], ["L3", peaks.l3_gbps, "GB/s"],
    ["DRAM", peaks.dram_gbps, "GB/s"], ["fork, join", peaks.region_us, "µs"]];
  const count = Math.max(0, ...columns.map(([, values]) => (values || []).length));
  if (count === 0) return h("p", {class: "empty"}, "No peaks were measured.");
  // Adjacent thread counts with the same figures share one line.
  const figures = (i) => columns.map(([, values]) => values && i < values.length ? values[i] : NaN);
  const lines = [];
  for (let i = 0; i < count; ++i) {
    const last = lines[lines.length - 1];
    if (last && String(last.values) === String(figures(i))) last.to = i + 1;
    else lines.push({from: i + 1, to: i + 1, values: figures(i)});
  }
  return h("div", {class: "scroll", tabindex: "0", role: "region", "aria-label": "Peaks"}, h("table", {class: "plain"},
    h("caption", {}, "Peaks, measured in this run"),
    h("thead", {}, h("tr", {}, h("th", {scope: "col"}, "threads"),
      columns.map(([name, , unit]) => h("th", {scope: "col", class: "num"}, name, h("span", {class: "unit"}, unit))))),
    h("tbody", {}, lines.map((line) => h("tr", {}, h("th", {scope: "row"}, line.from === line.to ? String(line.from) : `${line.from} to ${line.to}`),
      line.values.map((value) => h("td", {class: "num"}, significant(value, 4, 2))))))));
}

function renderConditions(body) {
  const {peaks} = profile;
  body.append(h("div", {class: "halves"}, conditionList(profile.conditions, {no_counters: profile.no_counters}), h("div", {}, peakTable(),
    h("p", {class: "note"}, `Caches: L2 ${bytes(peaks.l2_bytes)} per core, L3 ${bytes(peaks.l3_bytes)} shared. Fork and join: an empty ` +
      "parallel region. A bound is the larger of two times: the arithmetic at the FMA peak, and reading the operands at the " +
      "bandwidth of the nearest level that they can come from."))));
}
