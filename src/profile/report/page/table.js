// The table of rows: sorts, filters, selects columns, and expands a row to show the facts that do not fit into its line.

/** Whether any schedule was tuned; only then is the column of sources shown. */
const tunedRows = profile.rows.some((row) => row.schedule_from && row.schedule_from !== "default");

/** Columns: the text and the number of a row (for sorting), and whether the column is shown at first on a wide and on a narrow page. */
const kColumns = [
  {key: "order", name: "#", about: "Order in which the rows run first.", number: (r) => r.id, text: (r) => r.kind === "gap" ? "" : String(r.step),
    wide: true},
  {key: "name", name: "Layer", about: "Name of the layer in the model, or of the gap.", string: (r) => r.name, wide: true, narrow: true},
  {key: "ops", name: "Operators", about: "Operators that run in one kernel.", string: (r) => r.op, wide: true},
  {key: "kind", name: "Kind", about: "layer: machine code of a task; pack: packs an operand in every run; layout change, halo, copy: " +
    "move data only; reference: no schedule exists; segment, operator, control: instructions of a program; gap: between rows.", string: (r) => r.kind},
  {key: "count", name: "Runs", about: "How often it runs in one run of the network.", number: (r) => r.count},
  {key: "time", name: "Time", unit: "ms", about: "Mean time of one run of the network, from fork to join.", number: (r) => r.duration_ms, decimals: 4,
    wide: true, narrow: true, strong: true},
  {key: "spread", name: "±", unit: "ms", about: "Half the distance from the 10th to the 90th percentile of the time.",
    number: (r) => isNumber(r.p10_ms) && isNumber(r.p90_ms) ? (r.p90_ms - r.p10_ms) / 2 : null, decimals: 4, wide: true},
  {key: "share", name: "Of sum", unit: "%", about: "Share of the sum of all rows.", number: (r) => r.percent, decimals: 2, bar: (r) => r.percent,
    wide: true, narrow: true},
  {key: "gflops", name: "Speed", unit: "GFLOP/s", about: "Arithmetic per time.", number: (r) => r.flops > 0 ? r.gflops : null, decimals: 1, wide: true},
  {key: "gbps", name: "Traffic", unit: "GB/s", about: "Operands, read and written once, per time.", number: (r) => r.bytes > 0 ? r.gbps : null, decimals: 1,
    wide: true},
  {key: "bound", name: "Of bound", about: "Share of the bound that is reached, and the kind of bound: the FMA peak, the bandwidth of a " +
    "level of memory, or an empty parallel region.", number: (r) => r.share, text: (r) => r.beats_bound ? `beats ${r.bound.level}` :
      r.bounded ? `${fixed(r.share, 0)}\u00a0% ${r.bound.level}` : kNone,
    wide: true, narrow: true},
  {key: "above", name: "Above bound", unit: "ms", about: "Time minus bound: the most that could be saved on this machine.", number: (r) => r.above, decimals: 4,
    wide: true},
  {key: "bound_ms", name: "Bound", unit: "ms", about: "The least time that the machine allows.", number: (r) => r.bounded ? r.bound.ms : null, decimals: 4},
  {key: "threads", name: "Threads", about: "Threads that took part.", number: (r) => r.kind === "gap" ? null : r.threads, decimals: 0, wide: true},
  {key: "balance", name: "Balance", about: "Mean busy time of the threads divided by the largest: 1.00 is even.",
    number: (r) => r.kind === "gap" ? null : r.balance, decimals: 2, wide: true},
  {key: "barrier", name: "Barrier", unit: "ms", about: "Part of the time: waking the threads, and waiting for the last.",
    number: (r) => r.kind === "gap" ? null : r.barrier_ms, decimals: 4},
  {key: "gap", name: "Gap before", unit: "ms", about: "Between the row before and this one; not part of its time.",
    number: (r) => r.kind === "gap" ? null : r.gap_before_ms, decimals: 4},
  {key: "flops", name: "Work", unit: "MFLOP", about: "Arithmetic of one run, in millions of operations.", number: (r) => r.flops > 0 ? r.flops / 1e6 : null,
    decimals: 3},
  {key: "bytes", name: "Operands", unit: "MB", about: "Bytes of the operands, read and written once.", number: (r) => r.bytes > 0 ? r.bytes / 1e6 : null,
    decimals: 3},
  {key: "weights", name: "Weights", unit: "MB", about: "Part of the operands that are packed constants.",
    number: (r) => r.weight_bytes > 0 ? r.weight_bytes / 1e6 : null, decimals: 3},
  {key: "from", name: "From", about: "Where the schedule comes from: default (the analytic model), record (tuned), layer plan, or given with " +
    "--schedule. An opened row shows which record.", string: (r) => r.schedule_from || "", wide: tunedRows},
  {key: "intensity", name: "Intensity", unit: "FLOP/byte", about: "Arithmetic per byte of operands.", number: (r) => r.intensity, decimals: 2},
  {key: "hash", name: "Kernel", about: "Hash of problem, schedule, layouts, target and code generator.", string: (r) => r.hash},
  {key: "cycles", name: "Cycles", unit: "million", about: "Of all threads together, in user space.", counter: "cycles",
    number: (r) => counted(r, "cycles") ? r.counters.cycles / 1e6 : null, decimals: 3},
  {key: "ipc", name: "Instructions", unit: "per cycle", about: "Instructions for each cycle of a thread.", counter: "instructions",
    number: (r) => counted(r, "cycles") && counted(r, "instructions") ? r.counters.instructions / r.counters.cycles : null, decimals: 2},
  {key: "misses", name: "Cache misses", unit: "thousand", about: "Of all threads together, as the processor defines them.",
    counter: "cache_misses", number: (r) => counted(r, "cache_misses") ? r.counters.cache_misses / 1e3 : null, decimals: 1},
].filter((column) => !column.counter || profile.rows.some((row) => counted(row, column.counter)));

/** Whether a hardware counter was read for the row and is plausible. */
function counted(row, counter) {
  return Boolean(row.counters) && isNumber(row.counters[counter]) && row.counters[counter] > 0 && !row.counters.invalid;
}

function columnTitle(column) {
  return column.unit ? `${column.name}, ${column.unit}` : column.name;
}

function cellText(column, row) {
  if (column.text) return column.text(row);
  if (column.string) return column.string(row);
  return fixed(column.number(row), column.decimals || 0);
}

const table = {
  sort: {key: "order", down: false},
  words: "",
  kinds: new Set(),  // none chosen means all
  columns: new Set(),
  open: new Set(),
  lines: new Map(),

  shownColumns() {
    return kColumns.filter((column) => column.key === "name" || this.columns.has(column.key));
  },

  /** The rows that pass the filter, in the requested order. Rows without a value come last. */
  shownRows() {
    const words = this.words.toLowerCase().split(/\s+/).filter(Boolean);
    const rows = profile.rows.filter((row) => {
      if (this.kinds.size && !this.kinds.has(row.kind)) return false;
      const text = `${row.name} ${row.op} ${row.kind} ${row.problem} ${row.schedule} ${row.shapes} ${row.hash}`.toLowerCase();
      return words.every((word) => text.includes(word));
    });
    const column = kColumns.find((candidate) => candidate.key === this.sort.key);
    const value = column.number || column.string, sign = this.sort.down ? -1 : 1;
    return rows.sort((a, b) => {
      const x = value(a), y = value(b);
      if (x === null || y === null) return (x === null) - (y === null) || a.id - b.id;
      return (sign * (typeof x === "string" ? (x > y) - (x < y) : x - y)) || a.id - b.id;
    });
  },

  drawHead() {
    this.head.replaceChildren(h("tr", {}, this.shownColumns().map((column) => {
      const active = this.sort.key === column.key;
      const button = h("button", {type: "button", onclick: () => this.sortBy(column)}, column.name,
        active ? h("span", {class: "arrow", "aria-hidden": "true"}, this.sort.down ? "▼" : "▲") : null,
        column.unit ? h("span", {class: "unit"}, column.unit) : null);
      const about = () => [h("p", {class: "tip-name"}, columnTitle(column)), h("p", {}, column.about)];
      button.addEventListener("pointerenter", (event) => event.pointerType !== "touch" && tip.show(column, about, event.clientX, event.clientY));
      button.addEventListener("pointerleave", () => tip.hide());
      button.addEventListener("focus", () => button.matches(":focus-visible") && tip.showAt(column, about, button));
      button.addEventListener("blur", () => tip.hide());
      return h("th", {scope: "col", "data-key": column.key, class: `${column.string ? "" : "num"} ${column.key}`,
        "aria-sort": active ? (this.sort.down ? "descending" : "ascending") : null}, button);
    })));
  },

  /** Sorting starts with the largest number, the first word or the first in running order. Sorting again reverses the order. */
  sortBy(column) {
    const first = Boolean(column.number) && column.key !== "order";
    this.sort = {key: column.key, down: this.sort.key === column.key ? !this.sort.down : first};
    const narrow = document.activeElement && this.head.contains(document.activeElement);
    this.drawHead();
    this.drawBody();
    if (narrow) this.head.querySelector(`[data-key=${column.key}] button`).focus();
  },

  line(row) {
    const open = this.open.has(row.id);
    const cells = this.shownColumns().map((column) => {
      if (column.key === "name") {
        return h("th", {scope: "row", class: "name"}, h("button", {type: "button", "aria-expanded": String(open),
          "aria-controls": open ? `detail-${row.id}` : null, onclick: () => this.toggle(row.id)},
        h("span", {class: "arrow", "aria-hidden": "true"}, open ? "▾" : "▸"), h("i", {class: `swatch ${markClass(row)}`}),
        h("bdi", {}, row.name)));
      }
      const cell = h("td", {class: `${column.string ? "" : "num"} ${column.strong ? "strong" : ""} ${column.key}`});
      if (column.bar) {
        const bar = h("span", {class: "in-cell"});
        bar.style.width = `${Math.max(0, Math.min(100, 100 * column.bar(row) / this.largest))}%`;
        cell.append(bar);
      }
      cell.append(h(column.string ? "bdi" : "span", {}, cellText(column, row)));
      return cell;
    });
    return h("tr", {id: `line-${row.id}`, "data-row": row.id, class: faded(row) ? "faded" : "",
      onclick: (event) => event.target.closest("button") || selectRow(row.id)}, cells);
  },

  drawBody() {
    const rows = this.shownRows(), columns = this.shownColumns();
    this.largest = Math.max(...profile.rows.map((row) => row.percent), 1e-9);
    this.lines = new Map(rows.map((row) => [row.id, this.line(row)]));
    const body = [];
    for (const row of rows) {
      body.push(this.lines.get(row.id));
      if (this.open.has(row.id)) body.push(h("tr", {class: "detail", id: `detail-${row.id}`}, h("td", {colspan: columns.length}, rowDetails(row))));
    }
    if (rows.length === 0) body.push(h("tr", {}, h("td", {colspan: columns.length, class: "empty"}, "No row matches. Clear the filter to see all.")));
    this.body.replaceChildren(...body);
    const sum = (get) => rows.reduce((total, row) => total + get(row), 0);
    const sums = {name: "Sum of the rows shown", time: fixed(sum((r) => r.duration_ms), 4), share: fixed(sum((r) => r.percent), 2),
      barrier: fixed(sum((r) => r.kind === "gap" ? 0 : r.barrier_ms), 4), above: fixed(sum((r) => r.above || 0), 4),
      bound_ms: fixed(sum((r) => r.bounded ? r.bound.ms : 0), 4), flops: fixed(sum((r) => r.flops) / 1e6, 3)};
    this.foot.replaceChildren(h("tr", {}, columns.map((column) => column.key === "name" ? h("th", {scope: "row", class: "name"}, sums.name)
      : h("td", {class: `num ${column.key}`}, sums[column.key] || ""))));
    this.status.textContent = `${rows.length} of ${plural(profile.rows.length, "row")} · ${ms(sum((r) => r.duration_ms))} · ` +
      `${percent(sum((r) => r.percent))} of the sum`;
  },

  /** Opens or closes a row; opening selects it. */
  toggle(id) {
    const opens = !this.open.delete(id);
    if (opens) this.open.add(id);
    if (!opens || !selectRow(id)) this.drawBody();
    this.lines.get(id).querySelector("button").focus({preventScroll: true});
  },

  /** Expands a row and scrolls it into view. Clears a filter that hides it. */
  reveal(id) {
    this.open.add(id);
    if (!this.shownRows().some((row) => row.id === id)) this.clear();
    view.set({row: id});
    const line = this.lines.get(id);
    line.scrollIntoView({block: "center"});
    line.querySelector("button").focus({preventScroll: true});
  },
};
