// The tuning run as the charts need it, and the formats of its figures.

/** The embedded JSON of `kilter tune --json`; tasks also get id, their position in the list, and changed. */
function readRun() {
  const run = pageData();
  run.tasks.forEach((task, id) => {
    task.id = id;
    task.changed = task.schedule !== task.default;
  });
  return run;
}

const run = readRun();

/** The task with a given number of `kilter tasks`. */
function taskOf(number) {
  return run.tasks.find((task) => task.task === number);
}

/** "58.3 s", "5.0 min", "2.5 h". */
function duration(seconds) {
  if (!isNumber(seconds)) return kNone;
  if (seconds < 100) return withUnit(significant(seconds, 3, seconds < 10 ? 2 : 1), "s");
  return seconds < 5400 ? withUnit(fixed(seconds / 60, 1), "min") : withUnit(fixed(seconds / 3600, 1), "h");
}

function ratioText(ratio) {
  return ratio ? `${fixed(ratio.value, 3)} (${fixed(ratio.low, 3)} to ${fixed(ratio.high, 3)})` : kNone;
}

const kPeakError = 0.05;  // of the peaks that the bounds are computed from

/** A share above 1 is impossible: the bound is wrong. */
function shareOfBound(share) {
  return share > 1 + kPeakError ? "faster than its bound, which is therefore wrong" : `${percent(Math.min(100 * share, 100), 0)} of its bound`;
}

/** Whichever of ["98.5 GFLOP/s", "71 % of its bound"] is known. */
function speedParts(speed) {
  return [isNumber(speed?.gflops) ? `${fixed(speed.gflops, 1)}\u00a0GFLOP/s` : null,
    isNumber(speed?.share_of_bound) ? shareOfBound(speed.share_of_bound) : null].filter((part) => part);
}

function speedText(speed) {
  return speedParts(speed).join(", ") || kNone;
}

/** "−4.0 %" for a ratio, "+1.2 %" for one above 1. */
function changeText(ratio) {
  return isNumber(ratio) ? `${ratio < 1 ? "−" : "+"}${percent(100 * Math.abs(ratio - 1))}` : kNone;
}

/** Shows a task's line in the table. */
function openTask(id) {
  tip.hide();
  const line = document.getElementById(`task-${id}`);
  line.scrollIntoView({block: "center"});
  line.focus({preventScroll: true});
}

/** The text of a task's tooltip. */
function taskFacts(task) {
  return [
    h("p", {class: "tip-name"}, h("bdi", {}, task.problem)),
    facts([
      ["task", `${task.task} of kilter tasks`],
      ["share", percent(100 * task.share)],
      ["layers", String(task.nodes.length)],
      ["trials", `${task.trials}${task.failures ? `, ${task.failures} schedules failed` : ""}`],
      ["tried", `${task.tried} of ${task.size} worth a trial`],
      ["layer", task.changed ? ratioText(task.predicted) : "no schedule is faster"],
      ["race", task.changed ? ratioText(task.in_network) : null],
      ["before", speedText(task.before)],
      ["after", task.changed ? speedText(task.after) : null],
    ]),
  ];
}
