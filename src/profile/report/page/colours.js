// The legend shared by all charts.

function legendItem(group) {
  return h("li", {}, h("button", {
    type: "button", "aria-pressed": view.op === group.name,
    onclick: () => view.set({op: view.op === group.name ? null : group.name}),
  }, view.colour === "operator" ? h("i", {class: `swatch ${operatorClass.get(group.name)}`}) : null, h("bdi", {}, group.name),
  h("span", {class: "num"}, h("span", {class: "spare"}, `${ms(group.ms)} · `), percent(group.percent))));
}

function shareLegend() {
  const limits = ["0", ...kShares.map(String)];
  const items = limits.map((limit, i) => h("li", {}, h("i", {class: `swatch s${i}`}),
    i < kShares.length ? `${limit} to ${kShares[i]}\u00a0%` : `${limit}\u00a0% and more`));
  return h("ul", {class: "legend scale"}, h("li", {class: "legend-title"}, "of the bound:"), items,
    h("li", {}, h("i", {class: "swatch snone"}), "no bound known"));
}

function timeLegend() {
  const items = kTimes.map((limit, i) => `${i ? `${significant(kTimes[i - 1], 2)} to ` : "up to "}${significant(limit, 2)}\u00a0%`);
  return h("ul", {class: "legend scale"}, h("li", {class: "legend-title"}, "of the time:"), [...items, `${significant(kTimes[3], 2)}\u00a0% and more`]
    .map((text, i) => h("li", {}, h("i", {class: `swatch t${i}`}), text)));
}

const kKeyOperators = 4;

/** The largest operators with their colours. */
function operatorKey() {
  const rest = operators.length - kKeyOperators;
  return h("ul", {class: "legend scale"}, operators.slice(0, kKeyOperators).map((group) => h("li", {},
    h("i", {class: `swatch ${operatorClass.get(group.name)}`}), h("bdi", {}, group.name))), rest > 0 ? h("li", {}, `and ${rest} more`) : null);
}

/** What the colours of a chart mean now. */
function colourKey() {
  const box = h("div", {class: "key"});
  const keys = {share: shareLegend, time: timeLegend, operator: operatorKey};
  const draw = () => box.replaceChildren(keys[view.colour]());
  view.listeners.push(draw);
  draw();
  return box;
}

function renderColours(body) {
  const choice = (value, text) => h("label", {}, h("input", {
    type: "radio", name: "colour", value, checked: value === view.colour,
    onchange: () => view.set({colour: value}),
  }), ` ${text}`);
  const list = h("div", {});
  const draw = () => {
    const focused = [...list.querySelectorAll("button")].indexOf(document.activeElement);
    list.replaceChildren(h("ul", {class: "legend"}, operators.map(legendItem)));
    if (focused >= 0) list.querySelectorAll("button")[focused].focus();
  };
  body.append(h("fieldset", {class: "choice"}, h("legend", {}, "Colour of the charts:"),
    choice("share", "share of the bound that is reached"), choice("time", "share of the time"), choice("operator", "operator")),
  h("p", {class: "note"}, "Press an operator to highlight its layers in all charts."), list);
  view.listeners.push(draw);
  draw();
}
