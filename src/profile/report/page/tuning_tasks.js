// The tasks of a tuning run: the trials of each, and their table. Also how the budget was spent, and the races.

const kBarsShown = 16;

function taskBar(task, largest) {
  const ok = h("span", {class: "c0"}), bad = h("span", {class: "c5"});
  const failed = Math.min(task.failures, task.trials);
  ok.style.width = `${100 * (task.trials - failed) / largest}%`;
  bad.style.width = `${100 * failed / largest}%`;
  const bar = h("li", {role: "button", "data-task": task.id, "aria-label": `${task.problem}: ${plural(task.trials, "trial")}, ${task.failures} failed, ` +
    `${task.tried} of ${task.size} schedules tried`},
  h("bdi", {}, task.problem), h("span", {class: "num"}, `${plural(task.trials, "trial")}${task.failures ? ` · ${task.failures} failed` : ""}`),
  h("span", {class: "track"}, ok, bad));
  return mark(bar, `bar ${task.id}`, () => taskFacts(task), () => openTask(task.id));
}

function renderTrials(body) {
  const tasks = [...run.tasks].sort((a, b) => b.share - a.share).slice(0, kBarsShown);
  if (tasks.length === 0) {
    body.append(h("p", {class: "empty"}, "No task was tuned."));
    return;
  }
  const largest = Math.max(...tasks.map((task) => task.trials), 1);
  const bars = tasks.map((task) => taskBar(task, largest));
  const list = h("ol", {class: "taskbars"}, bars);
  body.append(list, h("ul", {class: "legend"}, [["c0", "measured"], ["c5", "failed: wrong, crashed, timed out or refused"]].map(([css, text]) =>
    h("li", {}, h("i", {class: `swatch ${css}`}), text))));
  if (run.tasks.length > tasks.length) body.append(h("p", {class: "note"}, `${run.tasks.length - tasks.length} tasks that take less time are in the table.`));
  roving(list, {}, bars);
}

function raceTable() {
  const {races} = run.trace;
  if (races.length === 0) return h("p", {class: "note"}, "No race was held: no layer had a schedule that is certainly faster.");
  const head = ["race", "tasks", "rounds", "after / before", "gave way"];
  return h("div", {class: "scroll", tabindex: "0", role: "region", "aria-label": "Races"}, h("table", {class: "plain"},
    h("caption", {}, "Races of whole networks"),
    h("thead", {}, h("tr", {}, head.map((name) => h("th", {scope: "col", class: "num"}, name)))),
    h("tbody", {}, races.map((race) => h("tr", {}, h("th", {scope: "row", class: "num"}, String(race.attempt)),
      h("td", {class: "num"}, String(race.tasks)), h("td", {class: "num"}, String(race.rounds)),
      race.rounds > 0 ? [h("td", {class: "num"}, ratioText(race.ratio)), h("td", {class: "num"}, String(race.given_way))]
        : h("td", {colspan: 2, class: "fault"}, race.fault))))));
}

function renderTime(body) {
  const classes = ["cgap", "c0", "c2", "c1", "c5", "c4"];
  body.append(splitBar(run.phases.map((phase, i) => ({name: phase.phase, ms: phase.seconds, css: classes[i % classes.length]})), "Phases", duration),
    h("p", {class: "note"}, `The run took ${duration(run.seconds)}. Candidates are compiled while others are measured if a CPU is free, so the parts may ` +
      "add up to more."), raceTable());
}

/** An interval on an axis shared by all tasks. The hairline is 1. */
function miniInterval(ratio, range) {
  const width = 110, x = (value) => 2 + (width - 4) * (value - range.low) / (range.high - range.low);
  return svg("svg", {width, height: 12, "aria-hidden": "true"}, svg("line", {class: "peak", x1: x(1), x2: x(1), y1: 0, y2: 12}),
    svg("rect", {class: "range", x: x(ratio.low), y: 3, height: 6, rx: 2, width: Math.max(x(ratio.high) - x(ratio.low), 2)}),
    svg("line", {class: "tick-mean", x1: x(ratio.value), x2: x(ratio.value), y1: 1, y2: 11}));
}

function ratioCell(task, ratio, range) {
  if (!task.changed || !isNumber(ratio.value)) return h("td", {class: "num"}, kNone);
  return h("td", {class: "num ratio"}, h("b", {}, fixed(ratio.value, 3)), h("span", {}, `${fixed(ratio.low, 3)} to ${fixed(ratio.high, 3)}`),
    miniInterval(ratio, range));
}

function speedCell(task) {
  const now = task.changed ? task.after : task.before;
  const [first, ...rest] = speedParts(now);
  const was = task.changed ? speedParts(task.before).map((part, i) => (i === 0 ? `was ${part}` : part)) : [];
  return h("td", {class: "num ratio"}, h("b", {}, first ?? kNone), [...rest, ...was].map((part) => h("span", {}, part)));
}

function taskLine(task, largest, range) {
  const bar = h("span", {class: "in-cell"});
  bar.style.width = `${100 * task.share / largest}%`;
  return h("tr", {id: `task-${task.id}`, tabindex: "-1"}, h("td", {class: "num"}, String(task.task)), h("td", {class: "num share"}, bar, h("span", {}, percent(100 * task.share))),
    h("td", {class: "words"}, h("code", {class: "problem"}, task.problem), task.changed ? h("code", {}, h("b", {}, task.schedule)) : null,
      h("code", {class: "was"}, `${task.changed ? "instead of" : "default:"} ${task.default}`)),
    ratioCell(task, task.predicted, range), ratioCell(task, task.in_network, range), speedCell(task),
    h("td", {class: "num"}, `${task.tried} of ${task.size}`), h("td", {class: "num"}, String(task.failures)), h("td", {class: "num"}, String(task.nodes.length)));
}

function tasksCsv() {
  const ratio = (key) => ["value", "low", "high"].map((part) => ({title: `${key} ${part}`, value: (task) => task.changed ? task[key]?.[part] : null}));
  const speed = (key) => ["gflops", "share_of_bound"].map((part) => ({title: `${key} ${part}`, value: (task) => task[key]?.[part]}));
  const plain = (...keys) => keys.map((key) => ({title: key, value: (task) => task[key]}));
  const columns = [...plain("task", "share", "problem", "default", "schedule"), ...ratio("predicted"), ...ratio("in_network"), ...speed("before"), ...speed("after"),
    ...plain("tried", "size", "trials", "failures"), {title: "layers", value: (task) => task.nodes.join(" ")}];
  return csvText(columns, [...run.tasks].sort((a, b) => b.share - a.share));
}

function renderTasks(body) {
  if (run.tasks.length === 0) {
    body.append(h("p", {class: "empty"}, "No task was tuned."));
    return;
  }
  const ratios = run.tasks.filter((task) => task.changed).flatMap((task) => [task.predicted, task.in_network]);
  const range = {low: Math.min(0.95, ...ratios.map((ratio) => ratio.low).filter(isNumber)), high: Math.max(1.02, ...ratios.map((ratio) => ratio.high).filter(isNumber))};
  const largest = Math.max(...run.tasks.map((task) => task.share), 1e-9);
  const head = [["task", "num"], ["share", "num"], ["problem and schedule", ""], ["layer", "num"], ["in the network", "num"], ["speed", "num"], ["tried of space", "num"], ["failed", "num"], ["layers", "num"]];
  body.append(h("div", {class: "tools"}, saveButtons(run.model, "the tasks", tasksCsv, pageData)),
    h("div", {class: "scroll rows", tabindex: "0", role: "region", "aria-label": "Table of tasks"}, h("table", {class: "plain task-table"},
    h("caption", {class: "sr"}, "Tasks, those with the most time first"),
    h("thead", {}, h("tr", {}, head.map(([name, css]) => h("th", {scope: "col", class: css}, name)))),
    h("tbody", {}, [...run.tasks].sort((a, b) => b.share - a.share).map((task) => taskLine(task, largest, range))))));
}
