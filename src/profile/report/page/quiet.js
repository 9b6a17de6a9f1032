// Shows next to a figure whether other programs disturbed the measurement.

/** One line of a list of checks. */
function check(holds, title, text) {
  return h("li", {class: holds ? "good" : "warn"}, h("span", {class: "sign", "aria-hidden": "true"}, holds ? "✓" : "!"),
    h("div", {}, h("b", {}, title), h("span", {}, text)));
}

const kQuietTitles = {quiet: "The machine was quiet", "slightly disturbed": "The machine was nearly quiet", "partly disturbed": "The machine was disturbed", busy: "The machine was busy"};

/** Whether the estimator left out all disturbed runs. */
function undisturbedFigure({quiet}) {
  return quiet === "quiet" || quiet === "slightly disturbed";
}

/** Lists whether the machine was quiet; nothing if that was not checked. */
function quietCheck(conditions) {
  const title = kQuietTitles[conditions.quiet];
  return title ? check(undisturbedFigure(conditions), title, `${conditions.quiet_text}.`) : null;
}

/** Shows whether the machine was quiet, as a note directly below the figure. */
function quietNote(conditions) {
  const known = kQuietTitles[conditions.quiet] !== undefined;
  return known ? h("p", {class: undisturbedFigure(conditions) ? "quiet good" : "quiet warn"},
    h("span", {"aria-hidden": "true"}, undisturbedFigure(conditions) ? "✓ " : "! "), conditions.quiet_text) : null;
}
