// The selected layer, which all charts and the table highlight.

/** Whether the row belongs to the selected layer: a convolution and its transform are one. */
function isSelected(row) {
  const chosen = profile.rows[view.row];
  return Boolean(chosen) && (row === chosen || Boolean(row.layer) && row.layer === chosen.layer);
}

/** Selects a row in all charts. Returns false if it was selected before. */
function selectRow(id) {
  if (view.row === id) return false;
  view.set({row: id});
  return true;
}

/** Also takes the row out of the page's address. */
function clearSelection() {
  if (view.row === null) return;
  if (location.hash.startsWith("#row-")) history.replaceState(null, "", location.pathname + location.search);
  view.set({row: null});
}

/** Marks everything that shows the selected layer. */
function showChosen() {
  document.querySelectorAll("[data-row]").forEach((element) => {
    element.classList.toggle("chosen", isSelected(profile.rows[element.dataset.row]));
  });
}

/** A bar at the lower edge that names the selected layer and leads to it in each chart; hidden without a selection. */
function selectionBar() {
  const places = [["treemap", "Treemap"], ["roofline", "Roofline"], ["graph", "Graph"], ["timeline", "Timeline"]];
  const bar = h("div", {class: "selection", role: "region", "aria-label": "Selection", hidden: true});
  const said = h("p", {role: "status"});
  const open = h("button", {type: "button", onclick: () => openRow(view.row)}, "Open in the table");
  bar.append(said, ...places.filter(([id]) => !document.getElementById(id).hidden).map(([id, name]) => h("a", {href: `#${id}`}, name)), open,
    h("button", {type: "button", onclick: () => clearSelection()}, "Clear (Esc)"));
  let shown = null;
  view.listeners.push(() => {
    const row = profile.rows[view.row];
    bar.hidden = !row;
    if (row && shown !== row) said.replaceChildren(h("bdi", {}, row.name || row.op), ` ${ms(row.duration_ms)}, ${percent(row.percent)}`);
    shown = row;
  });
  return bar;
}
