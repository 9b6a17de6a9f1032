// The controls of the table: filter, kinds, choice of columns.

function kindChoice() {
  const counts = new Map();
  for (const row of profile.rows) counts.set(row.kind, (counts.get(row.kind) || 0) + 1);
  const boxes = [...counts].map(([kind, count]) => h("label", {}, h("input", {type: "checkbox", name: "kind", value: kind,
    onchange: (event) => {
      if (event.target.checked) table.kinds.add(kind);
      else table.kinds.delete(kind);
      table.drawBody();
    }}), ` ${kind} `, h("span", {class: "num"}, String(count))));
  return h("fieldset", {class: "choice"}, h("legend", {}, "Only:"), boxes);
}

function columnChoice() {
  const redraw = () => {
    table.drawHead();
    table.drawBody();
  };
  const boxes = new Map(kColumns.filter((column) => column.key !== "name").map((column) => [column.key, h("input", {type: "checkbox",
    name: "column", value: column.key, checked: table.columns.has(column.key), onchange: (event) => {
      if (event.target.checked) table.columns.add(column.key);
      else table.columns.delete(column.key);
      redraw();
    }})]));
  const all = (keys) => {
    table.columns = new Set(keys);
    boxes.forEach((box, key) => box.checked = table.columns.has(key));
    redraw();
  };
  const button = (text, keys) => h("button", {type: "button", onclick: () => all(keys())}, text);
  const list = h("ul", {class: "columns"}, kColumns.filter((column) => boxes.has(column.key)).map((column) => h("li", {}, h("label", {},
    boxes.get(column.key), h("b", {}, ` ${columnTitle(column)}`)), h("span", {}, column.about))));
  return h("details", {class: "chooser"}, h("summary", {}, "Columns"), h("div", {class: "tools"},
    button("Usual", usualColumns), button("All", () => kColumns.map((column) => column.key)),
    button("Few", () => kColumns.filter((column) => column.narrow).map((column) => column.key))), list);
}

function usualColumns() {
  const narrow = matchMedia("(max-width: 640px)").matches;
  return kColumns.filter((column) => narrow ? column.narrow : column.wide).map((column) => column.key);
}

/** The rows that the table shows, in its order, with all columns. */
function rowsCsv() {
  const columns = kColumns.map((column) => ({title: columnTitle(column), value: column.key === "order" ? (row) => row.id : column.number || column.string}));
  const texts = ["problem", "schedule", "record", "shapes"].map((key) => ({title: key, value: (row) => row[key]}));
  return csvText([...columns, ...texts], table.shownRows());
}

/** The profile in the form of `kilter profile --json`. */
function profileJson() {
  const data = pageData();
  return {...data, timeline: data.timeline.map(([row, thread, begin_us, end_us]) => ({row, thread, begin_us, end_us}))};
}

function renderTable(body) {
  table.columns = new Set(usualColumns());
  table.head = h("thead", {});
  table.body = h("tbody", {});
  table.foot = h("tfoot", {});
  table.status = h("p", {class: "status", role: "status"});
  const filter = h("input", {type: "search", id: "filter", placeholder: "conv 3x3 relu …", autocomplete: "off", spellcheck: "false",
    oninput: (event) => {
      table.words = event.target.value;
      table.drawBody();
    }});
  const kinds = kindChoice();
  table.clear = () => {
    table.words = filter.value = "";
    table.kinds.clear();
    kinds.querySelectorAll("input").forEach((box) => box.checked = false);
    table.drawBody();
  };
  body.append(h("div", {class: "tools"}, h("label", {for: "filter"}, "Filter:"), filter,
    h("button", {type: "button", onclick: () => table.clear()}, "Clear"),
    h("button", {type: "button", onclick: () => {
      if (table.open.size) table.open.clear();
      else table.shownRows().forEach((row) => table.open.add(row.id));
      table.drawBody();
    }}, "Open or close all"), saveButtons(profile.model, "the rows shown", rowsCsv, profileJson)),
  kinds, columnChoice(), table.status,
  h("div", {class: "scroll rows", tabindex: "0", role: "region", "aria-label": "Table of rows"},
    h("table", {id: "row-table"}, h("caption", {class: "sr"}, "Rows of the profile. Buttons in the head sort."), table.head, table.body, table.foot)));
  table.drawHead();
  table.drawBody();
  view.listeners.push(() => table.drawBody());
}
