// The outcome of a tuning run: the speeds before and after, their certainty, and the gain that is left.

/** The ratios that matter, for one axis with the default at 1. */
function outcomeRatios() {
  if (run.same_plan) return [];
  const predicted = run.fidelity * run.history_ratio.value;
  const list = [["layers predicted", {value: predicted, low: predicted, high: predicted}], ["race of whole networks", run.history_ratio]];
  if (run.previous) list.push(["against earlier records", run.previous]);
  if (run.graph && run.graph.rounds > 0) list.push(["graph-best over history-best", run.graph.ratio]);
  if (run.graph && run.graph.won) list.push(["graph-best over the default", run.ratio]);
  return list.filter(([, ratio]) => isNumber(ratio.value));
}

function ratioChart(box, list) {
  const low = Math.min(1, ...list.map(([, ratio]) => ratio.low)), high = Math.max(1, ...list.map(([, ratio]) => ratio.high));
  const margin = Math.max((high - low) * 0.12, 0.002);
  const from = low - margin, to = high + margin, bottom = 34 * list.length + 8;
  drawn(box, (width) => {
    const x = (value) => 4 + (width - 8) * (value - from) / (to - from);
    const marks = list.map(([name, ratio], i) => {
      const y = 14 + 34 * i;
      return svg("g", {}, svg("text", {x: 4, y, class: "small"}, `${name}: ${ratio.low < ratio.high ? ratioText(ratio) : fixed(ratio.value, 3)}`),
        svg("line", {x1: 4, x2: width - 4, y1: y + 10, y2: y + 10, class: "hair"}),
        svg("rect", {x: x(ratio.low), width: Math.max(x(ratio.high) - x(ratio.low), 2), y: y + 5, height: 10, rx: 3, class: i === 1 ? "range" : "range second"}),
        svg("line", {x1: x(1), x2: x(1), y1: y + 3, y2: y + 21, class: "peak"}),
        svg("line", {x1: x(ratio.value), x2: x(ratio.value), y1: y + 2, y2: y + 18, class: "tick-mean"}));
    });
    const step = niceStep(to - from, width / 70), ticks = [];
    for (let i = Math.ceil(from / step); i * step <= to; ++i) {
      const at = x(i * step), anchor = at < 20 ? "start" : at > width - 20 ? "end" : "middle";
      ticks.push(svg("text", {x: at, y: bottom + 16, class: "small axis", "text-anchor": anchor}, tickText(i * step, step)));
    }
    box.replaceChildren(svg("svg", {width, height: bottom + 22, role: "img", "aria-label": "Time over the default's. " +
      list.map(([name, ratio]) => `${name}: ${ratioText(ratio)}`).join("; ")}, marks, ticks));
  });
}

/** Why the default plan stays. */
function staysText() {
  if (run.unheld) return `The race of whole networks could not be held, so no plan is accepted: ${run.unheld}.`;
  if (run.refused) return `The plan that won the race is not accepted: ${run.refused}.`;
  if (run.undecided) return `${run.undecided[0].toUpperCase()}${run.undecided.slice(1)}: the default plan stays. End other programs and tune again.`;
  return "No schedule that was tried makes the network faster: the default plan stays.";
}

function quietNotes() {
  const note = quietNote(run.conditions || {});
  return note ? [note] : [];
}

function outcomeHero() {
  const text = h("div", {class: "hero"});
  if (run.same_plan) {
    text.append(h("p", {class: "big"}, h("b", {id: "change", "data-ratio": 1}, "0"), " %"), ...quietNotes(),
      h("p", {}, `${staysText()} A run takes ${ms(run.default_ms.value)}.`));
    if (run.rejected) {
      text.append(h("p", {class: "note"}, `The plan that was found, with ${plural(run.rejected.layers, "layer")} changed, took ` +
        `${ratioText(run.rejected.ratio)} of the default's time in ${plural(run.rejected.rounds, "paired round")}.`));
    }
    return text;
  }
  const sound = run.conditions.quiet !== "busy";  // green only if other programs did not disturb the machine
  text.append(h("p", {class: "big"}, h("b", {id: "change", class: sound ? "gain-big" : null, "data-ratio": run.ratio.value},
    fixed(100 * (run.ratio.value - 1), 1).replace("-", "−")), " %"), ...quietNotes(),
  h("p", {}, `A run takes ${ms(run.tuned_ms.value)} instead of ${ms(run.default_ms.value)}: after / before ${ratioText(run.ratio)}, ` +
    `95\u00a0% interval of ${plural(run.rounds, "paired round")} of whole networks.`));
  return text;
}

/** The speed, and the text below it. */
function speedCard() {
  const [first, ...rest] = speedParts(run.same_plan ? run.before : run.after);
  return [first ?? kNone, [...rest, run.same_plan ? "as before" : `before: ${speedText(run.before)}`].join("; ")];
}

function outcomeCards() {
  const changed = run.tasks.filter((task) => task.changed);
  const share = changed.reduce((sum, task) => sum + task.share, 0);
  const list = [
    ["Trials", String(run.trials), `${fixed(run.trials_per_second, 0)} a second; ${run.failures} failed, ${plural(run.restarts, "worker")} replaced`],
    ["Tasks changed", `${changed.length} of ${run.tasks.length}`, `${percent(100 * share)} of the network's time`],
    ["Speed", ...speedCard()],
    ["Estimated further gain", percent(100 * run.regret), `of which ${percent(100 * run.as_long_again)} in as much time again`],
    ["Winners that changed", percent(100 * run.winner_flips), "of the tasks with a best schedule: the races did not accept it"],
    ["Time", duration(run.seconds), `the search ended: ${run.stopped_because}`],
  ];
  return h("dl", {class: "cards"}, list.map(([name, value, about]) => h("div", {},
    h("dt", {}, name), h("dd", {}, h("b", {}, value), h("span", {}, about)))));
}

/** The task whose new schedule saves most of the run, as {task, saved}: by the race if it knows, by single layers otherwise. */
function bestTask() {
  const saved = (task) => task.share * (1 - (isNumber(task.in_network?.value) ? task.in_network.value : task.predicted?.value));
  return run.tasks.filter((task) => task.changed).map((task) => ({task, saved: saved(task)}))
    .filter(({saved: part}) => part > 0).sort((a, b) => b.saved - a.saved)[0];
}

/** The first sentence of the page: what the run found. */
function outcomeText() {
  const busy = run.conditions.quiet === "busy" && !run.undecided;
  const doubt = busy ? ` The machine was busy (${percent(100 * run.conditions.disturbed_share, 0)} of the runs were disturbed): repeat the race on a quiet one.` : "";
  if (run.same_plan) return `${staysText()}${doubt}`;
  const {value, low, high} = run.ratio, changed = run.tasks.filter((task) => task.changed);
  const size = percent(100 * Math.abs(1 - value));
  const range = (from, to) => `95\u00a0% interval ${fixed(100 * from, 1)} to ${percent(100 * to)}`;
  const sure = high < 1 ? `A run takes ${size} less time than before tuning (${range(1 - high, 1 - low)})`
    : low > 1 ? `A run takes ${size} more time than before tuning (${range(low - 1, high - 1)})`
      : `It is not certain that tuning made a run faster (change of its time: ${range(low - 1, high - 1)})`;
  const best = bestTask();
  const where = best ? `; the largest part, about ${percent(100 * best.saved)} of the run, comes from task ${best.task.task}` : "";
  return `${sure}: ${changed.length} of ${plural(run.tasks.length, "task")} have another schedule${where}.${doubt}`;
}

function renderOutcome(body) {
  body.append(h("p", {class: "first-sentence", id: "finding"}, outcomeText()));
  const list = outcomeRatios(), chart = h("div", {class: "spread"});
  body.append(h("div", {class: "halves"}, outcomeHero(), list.length ? h("div", {}, chart,
    h("p", {class: "note"}, "Time divided by that of the default plan (1: dashed line); against earlier records or history-best, divided by that of their plan. Ratios of single layers are optimistic; the race decides.")) : h("div", {})),
  outcomeCards());
  if (list.length) ratioChart(chart, list);
}
