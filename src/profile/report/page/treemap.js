// Rows as rectangles, with areas proportional to their times, inside their operators.

/**
 * Divides a rectangle among weights (descending) so that the parts are nearly square: rows are laid along the shorter
 * side and closed when another part would make their parts longer (Bruls, Huizing and van Wijk, "Squarified Treemaps", 2000).
 */
function squarify(weights, x, y, width, height) {
  const scale = width * height / Math.max(weights.reduce((sum, weight) => sum + weight, 0), 1e-300);
  const places = [];
  const worst = (areas, sum, side) => Math.max(side * side * areas[0] / (sum * sum),
    sum * sum / (side * side * areas[areas.length - 1]));
  let i = 0;
  while (i < weights.length) {
    const side = Math.max(Math.min(width, height), 1e-6);
    const areas = [weights[i] * scale];
    let sum = areas[0];
    for (let j = i + 1; j < weights.length; ++j) {
      const area = weights[j] * scale;
      if (worst([...areas, area], sum + area, side) > worst(areas, sum, side)) break;
      areas.push(area);
      sum += area;
    }
    const depth = sum / side;
    let along = 0;
    for (const area of areas) {
      const length = depth > 0 ? area / depth : 0;
      places.push(width >= height ? {x, y: y + along, width: depth, height: length}
        : {x: x + along, y, width: length, height: depth});
      along += length;
    }
    if (width >= height) x += depth, width -= depth;
    else y += depth, height -= depth;
    width = Math.max(width, 0);
    height = Math.max(height, 0);
    i += areas.length;
  }
  return places;
}

function treemapCell(row, place) {
  const gap = Math.min(1, place.width / 4, place.height / 4);
  const width = place.width - gap, height = place.height - gap;
  const cell = svg("g", {class: `mark ${markClass(row)}${faded(row) ? " faded" : ""}`, role: "button", "data-row": row.id,
    "aria-label": rowLabel(row)}, svg("rect", {x: place.x, y: place.y, width, height, rx: Math.min(2, width / 4, height / 4)}));
  if (width > 34 && height > 15) {
    const text = fitName(row.name, width - 8);
    cell.append(svg("text", {x: place.x + 4, y: place.y + 12}, text));
    if (height > 30 && text !== "") {
      const time = ms(row.duration_ms);
      if (fitText(time, width - 8, kFont) === time) cell.append(svg("text", {x: place.x + 4, y: place.y + 25, class: "value"}, time));
    }
  }
  return mark(cell, `row ${row.id}`, () => rowFacts(row), () => openRow(row.id), () => selectRow(row.id));
}

function treemapGroup(group, place) {
  const titled = place.width > 46 && place.height > 44;
  const top = titled ? 17 : 0;
  const rows = group.rows.filter((row) => row.duration_ms > 0).sort((a, b) => b.duration_ms - a.duration_ms);
  const inner = {x: place.x + 1.5, y: place.y + top + 1, width: Math.max(place.width - 3, 0.5), height: Math.max(place.height - top - 2.5, 0.5)};
  const cells = squarify(rows.map((row) => row.duration_ms), inner.x, inner.y, inner.width, inner.height)
    .map((cell, i) => ({row: rows[i], element: treemapCell(rows[i], cell)}));
  const texts = [`${group.name} ${percent(group.percent)}`, group.name, percent(group.percent)];
  const title = titled ? svg("text", {x: place.x + 4, y: place.y + 12.5, class: "group-title", "aria-hidden": "true"},
    texts.find((text) => fitText(text, place.width - 6, `600 ${kFont}`) === text) || "") : null;
  return {cells, element: svg("g", {}, svg("rect", {class: "group", x: place.x, y: place.y, width: place.width,
    height: place.height}), title, cells.map((cell) => cell.element))};
}

function renderTreemap(body) {
  const box = h("div", {class: "chart"});
  const state = {};
  body.append(colourKey(), box);
  const groups = operators.filter((group) => group.ms > 0).sort((a, b) => b.ms - a.ms);
  drawn(box, (width) => {
    const focused = box.contains(document.activeElement);
    const height = width < 480 ? Math.round(width * 1.15) : Math.min(Math.round(width * 0.72), 460);
    const parts = squarify(groups.map((group) => group.ms), 0, 0, width, height).map((place, i) => treemapGroup(groups[i], place));
    const marks = parts.flatMap((part) => part.cells).sort((a, b) => b.row.duration_ms - a.row.duration_ms)
      .map((cell) => cell.element);
    const chart = svg("svg", {width, height, role: "group", "aria-label":
      "Time by operator and row. The arrow keys move through the rows, longest first; the space bar selects a row in all charts, Enter opens it in the table."},
    parts.map((part) => part.element));
    box.replaceChildren(chart);
    roving(chart, state, marks);
    if (focused && marks.length) marks[state.index].focus();
  });
}
