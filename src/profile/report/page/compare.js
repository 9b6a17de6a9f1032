// Another profile next to this one: the times of both, and the layers that differ most. The file is read by the page itself.

const kLargestFile = 256e6;  // bytes

/** The profile in the text of a JSON file or of a page like this one. Throws an Error with the reason if there is none. */
function profileFrom(text) {
  const opening = "id=\"page-data\">", begin = text.indexOf(opening);  // the JSON of a page has no "<"
  const json = begin < 0 ? text : text.slice(begin + opening.length, text.indexOf("<", begin + opening.length));
  const other = JSON.parse(json);
  const sound = Array.isArray(other?.rows) && other.rows.every((row) => typeof row?.name === "string" && isNumber(row.duration_ms));
  if (!sound || !isNumber(other.end_to_end_ms)) throw new Error("it has no rows with times");
  return other;
}

/** The layers of both profiles by name, {name, here, there, by}: times in ms, NaN where a profile lacks the layer. Largest differences first. */
function layerPairs(other) {
  const pairs = new Map();
  const add = (rows, key) => layersOf(rows).forEach((layer) => {
    if (!pairs.has(layer.name)) pairs.set(layer.name, {name: layer.name, here: NaN, there: NaN, first: null});
    const pair = pairs.get(layer.name);
    pair[key] = layer.ms;
    if (key === "here") pair.first = layer.rows[0].id;
  });
  add(profile.rows, "here");
  add(other.rows, "there");
  const list = [...pairs.values()].map((pair) => ({...pair, by: (isNumber(pair.here) ? pair.here : 0) - (isNumber(pair.there) ? pair.there : 0)}));
  return list.sort((a, b) => Math.abs(b.by) - Math.abs(a.by));
}

/** The conditions in which two profiles should agree and do not: [name, here, there]. */
function differences(here, there) {
  const keys = ["device", "target", "threads", "precision", "program", "codegen", "records", "quiet", "huge_pages", "pinning"];
  const text = (value) => value === undefined || value === null ? kNone : String(value);
  return keys.filter((key) => text(here[key]) !== text(there[key])).map((key) => [kConditionWords[key] || key, text(here[key]), text(there[key])]);
}

/** The parts of both runs as bars on one scale. */
function twoBars(other) {
  const largest = Math.max(...[profile, other].map((one) => one.kernels_ms + one.barriers_ms + one.gaps_ms).filter(isNumber), 1e-12);
  return [["this profile", profile], ["the other", other]].map(([name, one]) => {
    const parts = [["kernels", one.kernels_ms, "c0"], ["barriers", one.barriers_ms, "c1"], ["gaps", one.gaps_ms, "cgap"]].filter(([, time]) => time > 0);
    const bar = h("div", {class: "split", role: "img", "aria-label": `${name}: ${parts.map(([part, time]) => `${part} ${ms(time)}`).join(", ")}`},
      parts.map(([, time, css]) => h("span", {class: css, style: `flex: none; width: ${100 * time / largest}%`})));
    return h("div", {class: "beside"}, h("p", {class: "note"}, `${name}: ${parts.map(([part, time]) => `${part} ${ms(time)}`).join(", ")}`), bar);
  });
}

function pairTable(pairs) {
  const time = (value) => h("td", {class: "num"}, fixed(value, 4));
  const line = (pair) => h("tr", {}, h("th", {scope: "row"}, pair.first === null ? h("bdi", {}, pair.name)
    : h("a", {href: `#row-${pair.first}`}, h("bdi", {}, pair.name))), time(pair.here), time(pair.there),
  h("td", {class: "num"}, `${pair.by < 0 ? "−" : pair.by > 0 ? "+" : ""}${fixed(Math.abs(pair.by), 4)}`));
  return h("div", {class: "scroll rows", tabindex: "0", role: "region", "aria-label": "Layers of both profiles"}, h("table", {class: "plain pairs"},
    h("thead", {}, h("tr", {}, ["Layer", "This profile", "The other", "Difference"].map((name, i) => h("th", {scope: "col", class: i ? "num" : ""}, name, i ? h("span", {class: "unit"}, "ms") : null)))),
    h("tbody", {}, pairs.map(line))));
}

/** What the two profiles say together. */
function compared(other) {
  const here = profile.end_to_end_ms, there = other.end_to_end_ms, pairs = layerPairs(other);
  const change = there > 0 ? 100 * (here / there - 1) : NaN;
  const [first] = pairs;
  const most = first && first.by !== 0 ? [" The largest difference is in ", h("bdi", {}, shortName(first.name)), `, which takes ${ms(Math.abs(first.by))} ${first.by > 0 ? "more" : "less"} here.`] : "";
  const unlike = differences(profile.conditions, other.conditions || {});
  return [h("p", {class: "lead"}, `This profile takes ${ms(here)} end to end, the other (`, h("bdi", {}, String(other.model ?? "")), `) ${ms(there)}: `,
    Math.abs(change) < 0.05 ? "no difference." : `this one takes ${percent(Math.abs(change))} ${change > 0 ? "more" : "less"}.`, most),
  h("p", {class: unlike.length ? "quiet warn" : "note"}, unlike.length ? `Measured under other conditions: ${unlike.map(([name, a, b]) => `${name} ${a} here, ${b} there`).join("; ")}.`
    : "Measured at different times: differences smaller than the spread may be due to chance."),
  ...twoBars(other), pairTable(pairs)];
}

function renderCompare(body) {
  const shown = h("div", {class: "compared"}), said = h("p", {class: "status", role: "status"});
  const input = h("input", {type: "file", id: "other", accept: ".json,.html,application/json,text/html", onchange: async () => {
    const [file] = input.files;
    shown.replaceChildren();
    said.textContent = "";
    if (!file) return;
    try {
      if (file.size > kLargestFile) throw new Error("it is too large");
      shown.replaceChildren(...compared(profileFrom(await file.text())));
      said.textContent = `Compared with ${file.name}.`;
    } catch (error) {
      said.textContent = `${file.name} is not a profile: ${error.message}.`;
    }
  }});
  body.append(h("div", {class: "tools"}, h("label", {for: "other"}, "Other profile:"), input), said, shown);
}
