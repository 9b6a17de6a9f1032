// Shows conditions as a list.

const kConditionWords = {
  executor: "executor", device: "device", target: "target", codegen: "code generator", program: "program", records: "tuning records",
  pinning: "CPUs of the process", huge_pages: "huge pages", weights: "weights", weights_from: "weights stream from",
  activations: "activations", clock: "clock", estimator: "estimator", threads: "threads", taken: "runs taken", kept: "runs kept",
  disturbed: "runs disturbed", disturbed_by: "disturbed by", best_ms: "best run, ms", quiet: "machine", date: "date", no_counters: "hardware counters",
};

/** Lists conditions in words, followed by `more`. Leaves out empty values. */
function conditionList(conditions, more = {}) {
  const {quiet_text: said, disturbed_share: share, took_part: shares, absent_threads: absent, ...fields} = conditions;  // shown elsewhere
  const shown = Object.entries({...fields, ...more}).filter(([, value]) => ![undefined, null, ""].includes(value));
  const order = Object.keys(kConditionWords);
  const rank = (key) => order.includes(key) ? order.indexOf(key) : order.length;
  shown.sort(([a], [b]) => rank(a) - rank(b));
  return h("dl", {class: "facts wide"}, shown.map(([key, value]) => h("div", {}, h("dt", {}, kConditionWords[key] || key),
    h("dd", {}, typeof value === "object" ? JSON.stringify(value) : String(value)))));
}
