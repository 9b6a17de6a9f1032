// Assembles the page of a tuning run.

/** The number of earlier records that count as trials, out of those that were read. */
function earlierText() {
  const earlier = run.earlier_records;
  return earlier && earlier.read ? `${earlier.counted} of ${earlier.read} count as trials` : null;
}

function renderSettings(body) {
  const {settings} = run;
  const list = [["budget", settings.budget_seconds === null ? "no limit" : duration(settings.budget_seconds)], ["searcher", `${settings.searcher}, seed ${settings.seed}`],
    ["trials at most", settings.most_trials || null], ["early stopping", settings.early_stopping ? plural(settings.early_stopping, "trial") : null],
    ["until", settings.until < 1 ? `${percent(100 * settings.until, 0)} of the expected speed` : null],
    ["only", (settings.ops || []).join(", ")], ["earlier records", earlierText()],
    ["cost model", settings.cost_model]];
  const {kept, ...conditions} = run.conditions;  // the number of samples that are kept differs between trials
  const shown = list.filter(([, value]) => ![undefined, null, ""].includes(value));
  body.append(h("div", {class: "halves"}, conditionList(conditions), h("div", {}, h("h3", {}, "Settings"),
    h("dl", {class: "facts wide"}, shown.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, String(value))))))));
}

titles(run.model, ["Kilter tuning", plural(run.settings.threads, "thread")], run.conditions);
render("outcome", renderOutcome);
render("course", renderCourse);
render("trials", renderTrials);
render("time", renderTime);
render("rows", renderTasks);
render("conditions", renderSettings);
finishPage();
