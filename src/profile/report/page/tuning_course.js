// Predicted time of the network during the search, over seconds or trials.

/** Gains of one batch fall on one point and share one mark. */
function gainGroups() {
  const groups = [];
  for (const gain of run.trace.gains) {
    const last = groups[groups.length - 1];
    if (last && last.trials === gain.trials && last.predicted_ms === gain.predicted_ms) last.gains.push(gain);
    else groups.push({seconds: gain.seconds, trials: gain.trials, predicted_ms: gain.predicted_ms, gains: [gain]});
  }
  return groups;
}

/** A predicted time in percent of the default plan's: the one scale that single layers and whole networks share. */
function ofDefault(time) {
  return 100 * time / run.trace.default_ms;
}

const kRaceWidth = 58;  // right of the plot, for the result of the race

function courseFrame(width, height, over) {
  const {points, spans} = run.trace;
  const raced = run.same_plan ? [] : [100 * run.ratio.low, 100 * run.ratio.high];
  const predicted = points.flatMap((p) => [ofDefault(p.predicted_ms), ofDefault(p.predicted_ms * (1 - p.remaining))]);
  const values = [100, ...raced, ...predicted].filter(isNumber);
  const low = Math.min(...values), high = Math.max(...values), margin = Math.max((high - low) * 0.08, high * 0.002);
  const end = over === "trials" ? Math.max(run.trials, 1)
    : Math.max(run.seconds, ...spans.map((span) => span.end), ...points.map((p) => p.seconds), 1e-3);
  const f = {left: 62, right: width - (run.same_plan ? 12 : kRaceWidth), upper: 24, lower: height - 40, from: low - margin, to: high + margin * 1.5, end, over};
  f.x = (value) => f.left + (f.right - f.left) * value / end;
  f.y = (value) => f.lower - (f.lower - f.upper) * (value - f.from) / (f.to - f.from);
  return f;
}

function courseAxes(f) {
  const parts = [], yStep = niceStep(f.to - f.from, 5), inMinutes = f.over === "seconds" && f.end > 180;
  const unit = inMinutes ? 60 : 1, xStep = Math.max(niceStep(f.end / unit, (f.right - f.left) / 55), f.over === "trials" ? 1 : 0);
  for (let i = Math.ceil(f.from / yStep); i * yStep <= f.to; ++i) {
    parts.push(svg("line", {class: "hair", x1: f.left, x2: f.right, y1: f.y(i * yStep), y2: f.y(i * yStep)}),
      svg("text", {class: "axis", x: f.left - 6, y: f.y(i * yStep) + 4, "text-anchor": "end"}, tickText(i * yStep, yStep)));
  }
  for (let i = 0; i * xStep * unit <= f.end; ++i) {
    parts.push(svg("text", {class: "axis", x: f.x(i * xStep * unit), y: f.lower + 16, "text-anchor": "middle"}, tickText(i * xStep, xStep)));
  }
  parts.push(svg("text", {class: "axis title", x: (f.left + f.right) / 2, y: f.lower + 33, "text-anchor": "middle"},
    f.over === "trials" ? "trials" : inMinutes ? "minutes" : "seconds"),
  svg("text", {class: "axis title", "text-anchor": "middle", transform: `translate(12 ${(f.upper + f.lower) / 2}) rotate(-90)`},
    "one run, % of the default"));
  return parts;
}

/** Phases other than the search itself, if they are wide enough to be visible. */
function phaseBands(f) {
  if (f.over === "trials") return [];
  return run.trace.spans.filter((span) => span.phase !== "searching").map((span) => {
    const x = f.x(span.begin), width = Math.max(f.x(span.end) - x, 1);
    const name = fitText(span.phase, width - 6, kFont) === span.phase
      ? svg("text", {class: "phase-name", x: x + width / 2, y: f.upper - 8, "text-anchor": "middle"}, span.phase) : null;
    return svg("g", {}, svg("rect", {class: "phase-band", x, y: f.upper, width, height: f.lower - f.upper}), name);
  });
}

/** The best time so far, as steps: each value applies until the next point. */
function courseLines(f) {
  const {points} = run.trace;
  if (points.length === 0) return [];
  const steps = [], lower = [];
  const end = f.over === "trials" ? f.end : Math.max(points[points.length - 1].seconds,
    ...run.trace.spans.filter((span) => span.phase === "searching").map((span) => span.end));
  points.forEach((p, i) => {
    const from = f.x(p[f.over]), to = f.x(i + 1 < points.length ? points[i + 1][f.over] : end);
    steps.push([from, f.y(ofDefault(p.predicted_ms))], [to, f.y(ofDefault(p.predicted_ms))]);
    lower.push([from, f.y(ofDefault(p.predicted_ms * (1 - p.remaining)))], [to, f.y(ofDefault(p.predicted_ms * (1 - p.remaining)))]);
  });
  const path = (list) => list.map(([x, y]) => `${x.toFixed(1)} ${y.toFixed(1)}`).join("L");
  return [svg("path", {class: "left-shade", d: `M${path(steps)}L${path([...lower].reverse())}Z`}), svg("path", {class: "best-line", d: `M${path(steps)}`})];
}

function defaultLine(f) {
  const y = f.y(100);
  return [svg("line", {class: "peak", x1: f.left, x2: f.right + (run.same_plan ? 0 : kRaceWidth - 12), y1: y, y2: y}),
    svg("text", {class: "roof-name", x: f.left + 6, y: y - 6}, "default")];
}

/** The result of the race of whole networks: an interval right of the plot, with its name and figure below. */
function racedMark(f) {
  if (run.same_plan) return [];
  const x = f.right + kRaceWidth / 2;
  const [low, middle, high] = [run.ratio.low, run.ratio.value, run.ratio.high].map((ratio) => f.y(100 * ratio));
  return [svg("line", {class: "raced", x1: x, x2: x, y1: Math.max(low, high + 2), y2: high}),
    ...[low, high].map((y) => svg("line", {class: "raced-end", x1: x - 5, x2: x + 5, y1: y, y2: y})),
    svg("circle", {class: "c5", cx: x, cy: middle, r: 4.5, fill: "#d55e00"}),
    svg("text", {class: "roof-name", x, y: f.lower + 16, "text-anchor": "middle"}, "race"),
    svg("text", {class: "roof-name", x, y: f.lower + 33, "text-anchor": "middle"}, changeText(run.ratio.value))];
}

function gainFacts(group) {
  const first = group.gains.slice(0, 5).flatMap((gain) => {
    const task = taskOf(gain.task);
    return [h("p", {class: "tip-name"}, h("bdi", {}, task ? task.problem : `task ${gain.task}`)),
      facts([["schedule", gain.schedule], ["layer", ratioText(gain.ratio)], ["speed", speedText(gain)]])];
  });
  return [facts([["after", `${duration(group.seconds)}, ${plural(group.trials, "trial")}`], ["one run", `${percent(ofDefault(group.predicted_ms))} of the default, ${ms(group.predicted_ms)}, as single layers predict`]]), ...first,
    group.gains.length > 5 ? h("p", {}, `and ${plural(group.gains.length - 5, "task")} more`) : ""];
}

function gainMark(f, group) {
  const dot = svg("circle", {class: "mark c0", role: "button", cx: f.x(group[f.over]), cy: f.y(ofDefault(group.predicted_ms)), r: Math.min(3.5 + group.gains.length / 2, 7),
    "aria-label": `${duration(group.seconds)}, ${plural(group.trials, "trial")}: ${percent(ofDefault(group.predicted_ms))} of the default; ` +
      `${plural(group.gains.length, "task")} with another best schedule, first ${taskOf(group.gains[0].task)?.problem}`});
  return mark(dot, `gain ${group.trials} ${group.seconds}`, () => gainFacts(group), () => openTask(taskOf(group.gains[0].task).id));
}

function renderCourse(body) {
  if (run.trace.points.length < 2) {
    body.append(h("p", {class: "empty"}, "No batch of trials was finished: there is no course to draw."));
    return;
  }
  view.over = "seconds";
  const choice = (value, text) => h("label", {}, h("input", {type: "radio", name: "over", value, checked: view.over === value,
    onchange: () => view.set({over: value})}), ` ${text}`);
  const box = h("div", {class: "chart"}), state = {}, groups = gainGroups();
  body.append(h("fieldset", {class: "choice"}, h("legend", {}, "Over:"), choice("seconds", "time"), choice("trials", "trials")), box,
    h("p", {class: "note"}, "The prediction counts a schedule only when the whole interval of its ratio is below 1; if more samples contradict it, " +
      "the line goes up. On the right: the result of the race of whole networks."));
  drawn(box, (width) => {
    const focused = box.contains(document.activeElement);
    const f = courseFrame(width, width < 480 ? 300 : 360, view.over);
    const marks = groups.map((group) => gainMark(f, group));
    const chart = svg("svg", {width, height: f.lower + 40, role: "group", "aria-label": `Predicted time of a run over ${view.over}. ` +
      "The arrow keys move from gain to gain, Enter shows the task in the table."},
    phaseBands(f), courseAxes(f), courseLines(f), defaultLine(f), marks, racedMark(f));
    box.replaceChildren(chart);
    roving(chart, state, marks);
    if (focused && marks.length) marks[state.index].focus();
  });
}
