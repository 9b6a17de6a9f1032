// The text of `kilter explain`: why the network is slow, how far it is from its bound, and what to do next.

/** The figure of a gain: green if an action achieves it with the same results. Otherwise the most that could be gained, or that there is none. */
function gainFigure(entry) {
  const size = ms(Math.abs(entry.gain_ms));
  if (entry.kind === "first") return "comes first";
  if (entry.kind !== "fact") return `${entry.gain_ms < 0 ? "+" : "−"}${size}`;
  if (entry.how === "measured") return "no significant gain";
  return entry.gain_ms > 0 ? `at most ${size}` : "";
}

/** The gain as a share of the run, and whether it was measured or predicted. */
function gainText(entry) {
  if (entry.kind === "first") return entry.gain_ms > 0 ? `the best run is ${percent(entry.gain_percent)} faster` : "";
  const interval = entry.gain_percent_interval;
  const range = interval ? `, ${fixed(interval[0], 1)} to ${percent(interval[1])}` : "";
  return `${percent(entry.gain_percent)} of the run${entry.how ? `, ${entry.how}` : ""}${range}`;
}

function stepLink(step) {
  const row = profile.rows.find((candidate) => candidate.step === step && candidate.kind !== "gap");
  return row ? h("a", {href: `#row-${row.id}`}, h("bdi", {}, row.name)) : null;
}

function finding(entry, rank) {
  const steps = entry.steps || [entry.step], others = steps.slice(1).map(stepLink).filter(Boolean);
  const evidence = [].concat(entry.evidence || []);
  const more = others.slice(0, 8).flatMap((link, i) => i ? [", ", link] : [link]);
  return h("li", {class: "finding"},
    h("div", {class: `gain ${entry.kind}`}, h("b", {}, gainFigure(entry)), h("span", {}, gainText(entry))),
    h("div", {},
      h("h3", {}, `${rank}. `, stepLink(steps[0]) || h("bdi", {}, entry.name || "the network")),
      h("p", {}, entry.cause),
      evidence.length ? h("ul", {class: "evidence"}, evidence.map((line) => h("li", {}, String(line)))) : null,
      others.length ? h("p", {class: "note"}, "Also: ", more, others.length > 8 ? ` and ${others.length - 8} more` : "") : null,
      entry.advice ? h("p", {}, entry.advice) : null,
      entry.action ? h("p", {class: "action"}, h("span", {}, "Next: "), h("code", {}, entry.action)) : null));
}

/** The same network in another runtime: a is Kilter, b is the other. Layers are ordered by how far the other is ahead. */
function against(duel) {
  const layers = [...duel.layers].sort((a, b) => (b.a_ms - b.b_ms) - (a.a_ms - a.b_ms)).slice(0, 12);
  const signed = (value) => `${value < 0 ? "−" : "+"}${ms(Math.abs(value))}`;
  const cell = (value) => h("td", {class: "num"}, value > 0 ? ms(value) : "–");
  const version = (duel.b.conditions || {}).program || duel.b.what;
  const head = [h("h3", {}, `Against ${version}`), quietNote(duel.a.conditions || {}),
    h("p", {class: "lead"}, `Kilter ${ms(duel.a.ms)}, ${version} ${ms(duel.b.ms)}, run interleaved: the other runtime takes `
      + `${fixed(duel.ratio.value, 3)} times as long (${fixed(duel.ratio.low, 3)} to ${fixed(duel.ratio.high, 3)}).`
      + (duel.cpu_ratio ? ` By CPU time, ${fixed(duel.cpu_ratio.value, 3)} times as long.` : ""))].filter((part) => part);
  if (duel.layers_withheld) return [...head, h("p", {class: "note"}, `Layers: ${duel.layers_withheld}.`)];
  return [...head,
    h("p", {class: "note"}, "Layers where the other runtime is furthest ahead. The times of its layers come from its own profiler"
      + (duel.b.profiled_ms > 0 ? `: ${ms(duel.b.layers_ms)} in all, in other runs, which take ${ms(duel.b.profiled_ms)}.` : ".")),
    h("div", {class: "scroll"}, h("table", {class: "plain"},
      h("thead", {}, h("tr", {}, ["Layer", "Kilter", version, "Difference"].map((name) => h("th", {scope: "col"}, name)))),
      h("tbody", {}, layers.map((layer) => h("tr", {}, h("th", {scope: "row"}, h("bdi", {}, layer.name)), cell(layer.a_ms),
        cell(layer.b_ms), h("td", {class: "num"}, signed(layer.a_ms - layer.b_ms)))))))];
}

/** Shows profile.explain, or nothing if the report was written without it. */
function renderExplain(body) {
  const explain = profile.explain;
  if (!explain) return;
  document.getElementById("explain").hidden = false;
  body.append(...[].concat(explain.summary || []).map((text) => h("p", {class: "lead"}, text)));
  const classes = ["c0", "c1", "c2", "c3", "c4", "c5", "c6"];
  if (explain.split && explain.split.length) {
    body.append(splitBar(explain.split.map((part, i) => ({name: part.what, ms: part.ms, percent: part.percent,
      css: classes[i % classes.length]})), "Where the time goes"));
  }
  const list = (entries) => h("ol", {class: "findings"}, entries.map((entry, i) => finding(entry, i + 1)));
  const of = (...kinds) => (explain.findings || []).filter((entry) => kinds.includes(entry.kind));
  const actions = of("first", "action"), trades = of("trade"), facts = of("fact");
  if (actions.length) body.append(h("p", {class: "note"}, "Ordered by the time that fixing each would save."), list(actions));
  if (explain.withheld) body.append(h("p", {class: "quiet warn"}, `${explain.withheld}.`));
  if (trades.length) {
    body.append(h("h3", {class: "part"}, "What would be faster and changes the results"), list(trades));
  }
  if (facts.length) {
    body.append(h("h3", {class: "part"}, "What else takes time"),
      h("p", {class: "note"}, "Nothing can be done about these in this version, or the remedy was run and showed no gain."), list(facts));
  }
  if (explain.against) body.append(...against(explain.against));
}

/** The gains that tuning has brought and may still bring; nothing if they were not determined. */
function renderTuning(body) {
  if (!profile.tuning) return;
  const {lines, action} = profile.tuning;
  document.getElementById("tuning").hidden = false;
  body.append(h("ul", {class: "evidence"}, lines.map((line) => h("li", {}, line))),
    h("p", {class: "action"}, h("span", {}, "Next: "), h("code", {}, action)));
}
