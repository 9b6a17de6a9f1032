// Speed over arithmetic intensity, under the roofs measured on this machine.

/** The roofs at the profile's number of threads: the FMA peak in GFLOP/s and bandwidths in GB/s. Roofs within 5 % of each other are merged. */
function roofs() {
  const {peaks} = profile, slopes = [];
  for (const [level, values] of [["L2", peaks.l2_gbps], ["L3", peaks.l3_gbps], ["DRAM", peaks.dram_gbps]]) {
    const gbps = peakOf(values), twin = slopes.find((slope) => Math.abs(slope.gbps / gbps - 1) < 0.05);
    if (twin) twin.name += `, ${level}`;
    else if (gbps > 0) slopes.push({name: level, css: level.toLowerCase(), gbps});
  }
  return {flat: peakOf(peaks.gflops), slopes};
}

/** Whole decades that contain the values. */
function decades(values, least) {
  const logs = values.filter((value) => value > 0).map(Math.log10);
  let low = Math.floor(Math.min(...logs)), high = Math.ceil(Math.max(...logs) + 0.02);
  if (high - low < least) low = high - least;
  return [low, high];
}

const kShortTime = 0.01;  // share of the time of all points that may lie outside the axis

/** The points that the axis spans: without those of lowest intensity that take hardly any time, which would stretch it. */
function spanned(points) {
  const all = points.reduce((sum, row) => sum + row.duration_ms, 0), rising = [...points].sort((a, b) => a.intensity - b.intensity);
  let before = 0;
  const first = rising.findIndex((row) => (before += row.duration_ms) > kShortTime * all);
  return rising.slice(Math.max(first, 0));
}

/** The logarithms of the ends of the axis of intensity: the points and ridges with a margin, at least two decades. */
function intensityRange(points, ridges) {
  const logs = [...spanned(points).map((row) => row.intensity), ...ridges.flatMap((ridge) => [ridge / 4, ridge * 4])].map(Math.log10);
  const low = Math.min(...logs) - 0.15, high = Math.max(...logs) + 0.15, missing = Math.max(0, 2 - (high - low));
  return [low - missing / 2, high + missing / 2];
}

function rooflineFrame(width, height, points, top) {
  const left = 50, right = width - 10, upper = 10, lower = height - 40;
  const [x0, x1] = intensityRange(points, top.slopes.map((slope) => top.flat / slope.gbps));
  const [y0, y1] = decades([...spanned(points).map((row) => row.gflops), top.flat], 2);
  return {
    left, right, upper, lower, x0, x1, y0, y1,
    x: (value) => left + (right - left) * Math.max(0, Math.log10(value) - x0) / (x1 - x0),
    y: (value) => lower - (lower - upper) * Math.min(1, Math.max(0, Math.log10(value) - y0) / (y1 - y0)),
  };
}

function rooflineAxes(f) {
  const parts = [];
  const everyX = Math.ceil((f.x1 - f.x0) * 34 / (f.right - f.left)), everyY = Math.ceil((f.y1 - f.y0) * 22 / (f.lower - f.upper));
  for (let e = Math.ceil(f.x0); e <= f.x1; ++e) {
    const at = f.x(10 ** e);
    parts.push(svg("line", {class: "hair", x1: at, x2: at, y1: f.upper, y2: f.lower}));
    if ((e - Math.ceil(f.x0)) % everyX === 0) {
      parts.push(svg("text", {class: "axis", x: at, y: f.lower + 15, "text-anchor": "middle"}, powerText(e)));
    }
  }
  for (let e = f.y0; e <= f.y1; ++e) {
    const at = f.y(10 ** e);
    parts.push(svg("line", {class: "hair", x1: f.left, x2: f.right, y1: at, y2: at}));
    if ((e - f.y0) % everyY === 0) {
      parts.push(svg("text", {class: "axis", x: f.left - 5, y: at + 4, "text-anchor": "end"}, powerText(e)));
    }
  }
  parts.push(svg("text", {class: "axis title", x: (f.left + f.right) / 2, y: f.lower + 32, "text-anchor": "middle"},
    "arithmetic intensity, FLOP/byte"));
  parts.push(svg("text", {class: "axis title", "text-anchor": "middle",
    transform: `translate(11 ${(f.upper + f.lower) / 2}) rotate(-90)`}, "speed, GFLOP/s"));
  return parts;
}

const kRoofName = 90;  // the longest name of a slanted roof, in pixels

/**
 * Slanted roofs, each labelled along its line, the last one below it. Labels that would touch move along their lines, or
 * to the other side. `covers` has places on a label, for other texts to avoid.
 */
function slopeLines(f, top) {
  const slant = -Math.atan2((f.lower - f.upper) / (f.y1 - f.y0), (f.right - f.left) / (f.x1 - f.x0)), angle = slant * 180 / Math.PI;
  const taken = [];
  const touch = (x, y) => Math.abs(x * Math.cos(slant) + y * Math.sin(slant)) < kRoofName && Math.abs(y * Math.cos(slant) - x * Math.sin(slant)) < 15;
  return top.slopes.map(({name, css, gbps}, i) => {
    const ridge = Math.min(top.flat / gbps, 10 ** f.x1);
    const start = Math.max(10 ** f.x0, 10 ** f.y0 / gbps);
    const from = [f.x(start), f.y(start * gbps)], to = [f.x(ridge), f.y(ridge * gbps)];
    const length = Math.hypot(to[0] - from[0], to[1] - from[1]);
    if (!(length > 1) || ridge <= start) return {};
    const at = (along, side) => [from[0] + (to[0] - from[0]) * along / length - side * Math.sin(slant),
      from[1] + (to[1] - from[1]) * along / length + side * Math.cos(slant)];
    const sides = i > 0 && i + 1 === top.slopes.length ? [14, -5] : [-5, 14], places = [];
    for (const side of sides) {
      for (let along = 8; along < Math.max(9, length - kRoofName); along += 6) places.push([along, side]);
    }
    const free = places.find((place) => !taken.some(([x, y]) => touch(x - at(...place)[0], y - at(...place)[1]))) || places[0];
    const [x, y] = at(...free);
    taken.push([x, y]);
    const label = length > 60 ? svg("text", {class: "roof-name", transform: `translate(${x} ${y}) rotate(${angle})`}, `${name} ${significant(gbps, 3)} GB/s`) : null;
    const covers = label ? [0, 1, 2, 3, 4, 5, 6].map((k) => ({x: x + 14 * k * Math.cos(slant), y: y + 14 * k * Math.sin(slant) - 10, width: 14})) : [];
    return {line: svg("line", {class: `roof ${css}`, x1: from[0], y1: from[1], x2: to[0], y2: to[1]}), label, covers};
  });
}

function flatLine(f, top) {
  const fastest = Math.max(...top.slopes.map((slope) => slope.gbps), top.flat / 10 ** f.x1);
  const y = f.y(top.flat);
  return {
    line: svg("line", {class: "roof", x1: f.x(Math.max(top.flat / fastest, 10 ** f.x0)), x2: f.right, y1: y, y2: y}),
    label: svg("text", {class: "roof-name", x: f.right - 2, y: y - 5, "text-anchor": "end"}, `FMA ${significant(top.flat, 3)} GFLOP/s`),
  };
}

/** The intensity at which the lowest roof of memory meets the flat one. */
function ridgeLine(f, top) {
  if (top.slopes.length === 0) return [];
  const at = f.x(top.flat / Math.min(...top.slopes.map((slope) => slope.gbps)));
  return [svg("line", {class: "ridge", x1: at, x2: at, y1: f.y(top.flat), y2: f.lower})];
}

const kNamed = 5;  // points with their name next to them

/** Names next to the points of the longest rows, each where it covers the fewest others. */
function pointNames(f, rows, marks, top, covers) {
  const flat = f.y(top.flat), roof = {x: f.left, y: flat - 13, width: f.right - f.left};  // with its name
  const taken = [roof, ...covers], width = (text) => 7 * text.length + 6, height = 15;
  const shared = (a, b) => Math.max(0, Math.min(a.x + a.width, b.x + b.width) - Math.max(a.x, b.x)) *
    Math.max(0, Math.min(a.y + height, b.y + height) - Math.max(a.y, b.y));
  return rows.map((row, i) => {
    const text = fitName(row.name || row.op, 130), size = width(text), r = Number(marks[i].getAttribute("r"));
    const x = f.x(row.intensity), y = f.y(row.gflops), places = [];
    for (const far of [0, 16, 32, 48, 64]) {
      places.push([x + r + 4, y - height / 2 + far], [x - r - 4 - size, y - height / 2 + far], [x - size / 2, y + r + 3 + far], [x - size / 2, y - r - 3 - height - far]);
    }
    const boxes = places.map(([left, upper]) => ({x: Math.max(f.left, Math.min(left, f.right - size)), width: size,
      y: Math.max(f.upper, Math.min(upper, f.lower - height))}));
    const cost = (box) => taken.reduce((sum, other) => sum + shared(box, other), 0) +
      rows.reduce((sum, other) => sum + shared(box, {x: f.x(other.intensity) - 4, y: f.y(other.gflops) - 4, width: 8}), 0);
    const best = boxes.reduce((a, b) => (cost(b) < cost(a) ? b : a));
    taken.push(best);
    return svg("text", {class: "point-name", x: best.x + 3, y: best.y + 11.5, "data-of": row.id, "aria-hidden": "true"}, text);
  });
}

function renderRoofline(body) {
  const work = profile.rows.filter((row) => row.kind !== "gap");
  const points = work.filter((row) => row.intensity !== null && row.gflops > 0).sort((a, b) => b.duration_ms - a.duration_ms);
  const top = roofs();
  if (points.length === 0 || !(top.flat > 0)) {
    body.append(h("p", {class: "empty"}, "No row has both arithmetic and operands, or no peak was measured: nothing to plot."));
    return;
  }
  const box = h("div", {class: "chart"});
  const state = {};
  const others = work.filter((row) => !points.includes(row));
  const outside = points.length - spanned(points).length;
  body.append(box, h("p", {class: "note"}, `Roofs: ${plural(profile.threads, "thread")}, measured in this run. Dotted: ` +
    "the intensity from which arithmetic can be the limit. " + (outside ? `At the edge: ${plural(outside, "row")} of less intensity. ` : "") +
    (others.length ? `Not here: ${plural(others.length, "row")} without arithmetic, ` +
      `${ms(others.reduce((sum, row) => sum + row.duration_ms, 0))} together.` : "")));
  drawn(box, (width) => {
    const focused = box.contains(document.activeElement);
    const height = width < 480 ? Math.round(width * 1.05) : Math.min(Math.round(width * 0.72), 460);
    const f = rooflineFrame(width, height, points, top);
    const largest = Math.min(width, 560) / 26;
    const marks = points.map((row) => {
      const radius = Math.max(3, largest * Math.sqrt(row.duration_ms / points[0].duration_ms));
      const dot = svg("circle", {class: `mark ${markClass(row)}${faded(row) ? " faded" : ""}`, role: "button", "data-row": row.id,
        cx: f.x(row.intensity), cy: f.y(row.gflops), r: radius, "aria-label": rowLabel(row)});
      return mark(dot, `row ${row.id}`, () => rowFacts(row), () => openRow(row.id), () => selectRow(row.id));
    });
    const lines = [...slopeLines(f, top), flatLine(f, top)];
    const names = pointNames(f, points.slice(0, kNamed), marks, top, lines.flatMap((roof) => roof.covers || []));
    const chart = svg("svg", {width, height, role: "group", "aria-label": "Roofline: speed over arithmetic intensity. " +
      "The arrow keys move through the rows, longest first; the space bar selects a row in all charts, Enter opens it in the table."},
    rooflineAxes(f), ridgeLine(f, top), lines.map((roof) => roof.line), marks, lines.map((roof) => roof.label), names);
    box.replaceChildren(chart);
    roving(chart, state, marks);
    if (focused) marks[state.index].focus();
  });
}
