// The words of `kilter explain`: why it is slow, where the bound is, what to do next.

function finding(entry, rank) {
  const row = profile.rows.find((candidate) => candidate.step === entry.step && candidate.kind !== "gap");
  const name = h("bdi", {}, entry.name || (row ? row.name : "the network"));
  const evidence = [].concat(entry.evidence || []);
  return h("li", {class: "finding"},
    h("div", {class: "gain"}, h("b", {}, `−${ms(entry.gain_ms)}`), h("span", {}, `${percent(entry.gain_percent)} of the run`)),
    h("div", {},
      h("h3", {}, `${rank}. `, row ? h("a", {href: `#row-${row.id}`}, name) : name),
      h("p", {}, entry.cause),
      evidence.length ? h("ul", {class: "evidence"}, evidence.map((line) => h("li", {}, String(line)))) : null,
      entry.action ? h("p", {class: "action"}, h("span", {}, "Next: "), h("code", {}, entry.action)) : null));
}

/** Shows profile.explain, and nothing when the report was made without it. */
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
  if (explain.findings && explain.findings.length) {
    body.append(h("p", {class: "note"}, "Ranked by the time that mending it is predicted to save."),
      h("ol", {class: "findings"}, explain.findings.map((entry, i) => finding(entry, i + 1))));
  }
}
