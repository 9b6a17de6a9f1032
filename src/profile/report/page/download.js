// Files that the page saves: its data as JSON, its table as CSV.

const kReordering = /[\u0000-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/g;

/** Text from a model as one line: control characters and marks that reorder text appear as the \xNN of their bytes. */
function printable(text) {
  return text.replace(kReordering, (c) => [...new TextEncoder().encode(c)].map((byte) => `\\x${byte.toString(16).padStart(2, "0")}`).join(""));
}

/** A cell of a CSV file. A text that a spreadsheet would take for a formula gets a leading apostrophe; a number stays one. */
function csvCell(value) {
  if (value === null || value === undefined || Number.isNaN(value)) return "";
  let cell = printable(String(value));
  if (/^[=+@-]/.test(cell) && !/^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(cell)) cell = `'${cell}`;
  return /[,;"]/.test(cell) ? `"${cell.replaceAll("\"", "\"\"")}"` : cell;
}

/** CSV with a head line; each column is {title, value(item)}. */
function csvText(columns, items) {
  const lines = [columns.map((column) => column.title), ...items.map((item) => columns.map((column) => column.value(item)))];
  return lines.map((line) => `${line.map(csvCell).join(",")}\r\n`).join("");
}

/** A file name from the model's name. */
function fileName(model, ending) {
  return `${model.replace(/[^A-Za-z0-9._-]+/g, "_").replace(/^[._-]+/, "").slice(0, 60) || "network"}.${ending}`;
}

function save(name, type, text) {
  const address = URL.createObjectURL(new Blob([text], {type}));
  h("a", {href: address, download: name}).click();
  setTimeout(() => URL.revokeObjectURL(address), 10000);
}

/** Buttons that save the table (`csv()`) and the data of the whole page (`data()`). */
function saveButtons(model, about, csv, data) {
  const button = (word, title, act) => h("button", {type: "button", class: "save", "aria-label": title, onclick: act}, word);
  return [button("CSV", `Save ${about} as CSV`, () => save(fileName(model, "csv"), "text/csv", csv())),
    button("JSON", "Save all data of this page as JSON", () => save(fileName(model, "json"), "application/json", JSON.stringify(data())))];
}
