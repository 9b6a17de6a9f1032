// A bar that shows the parts of a whole.

/** A bar of parts, each {name, ms, css}, over their sum, with its legend. `say` formats the time of a part. */
function splitBar(parts, label, say = ms) {
  const shown = parts.filter((part) => part.ms > 0);
  const whole = shown.reduce((sum, part) => sum + part.ms, 0);
  const share = (part) => whole > 0 ? 100 * part.ms / whole : 0;
  const bar = h("div", {class: "split", role: "img", "aria-label":
    `${label}: ${shown.map((part) => `${part.name} ${say(part.ms)}`).join(", ")}`});
  for (const part of shown) {
    const piece = h("span", {class: part.css});
    piece.style.flexGrow = String(Math.max(part.ms, whole / 400));
    bar.append(piece);
  }
  return h("div", {}, bar, h("ul", {class: "legend"}, shown.map((part) => h("li", {},
    h("i", {class: `swatch ${part.css}`}), h("bdi", {}, part.name),
    h("span", {class: "num"}, `${say(part.ms)} · ${percent(part.percent ?? share(part))}`)))));
}
