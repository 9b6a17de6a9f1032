// The network as boxes and edges: a box is a layer, an edge a value that a layer reads. Empty for profiles without edges.

// `first`: the smallest scale at first; `fold`: for one more column; `text`: the smallest scale with text
const kZooms = {least: 0.05, most: 2.5, first: 0.75, fold: 0.85, text: 0.4};

/** The inputs of the network and the layers in order of running: {name, row, rows, ms, percent, reads}. Inputs have no row. */
function graphNodes(rows) {
  const nodes = [], byInput = new Map(), byLayer = new Map(), nodeOf = new Map();
  const input = (name) => {
    if (!byInput.has(name)) byInput.set(name, nodes.push({name, row: null, rows: [], reads: []}) - 1);
    return byInput.get(name);
  };
  const readable = (row) => Array.isArray(row.reads) && row.kind !== "gap";
  rows.filter(readable).forEach((row) => (Array.isArray(row.reads_inputs) ? row.reads_inputs : []).forEach(input));
  let halos = [];  // they are zeroed right before the layer that fills the buffer, and count as a part of it
  for (const row of rows.filter(readable)) {
    if (row.kind === "halo") {
      halos.push(row);
      continue;
    }
    const name = row.layer || row.name;
    if (!byLayer.has(name)) byLayer.set(name, nodes.push({name, row, rows: [], reads: []}) - 1);
    const at = byLayer.get(name);
    [...halos, row].forEach((own) => (nodes[at].rows.push(own), nodeOf.set(own.id, at)));
    halos = [];
  }
  nodes.forEach((node, at) => {
    const reads = node.rows.flatMap((row) => [...row.reads.map((from) => nodeOf.get(from)), ...(row.reads_inputs || []).map((name) => byInput.get(name))]);
    node.reads = [...new Set(reads)].filter((from) => from < at);
    node.ms = node.rows.reduce((sum, row) => sum + row.duration_ms, 0);
    node.percent = node.rows.reduce((sum, row) => sum + row.percent, 0);
    node.row = node.rows.reduce((a, b) => (a && a.duration_ms >= b.duration_ms ? a : b), null);
  });
  return nodes;
}

/** The texts of a box, shortened to its width: its name, operator and time. */
function boxTexts(node) {
  const time = `${ms(node.ms)} · ${percent(node.percent)}`, room = kBoxWidth - 16;
  return {name: fitName(node.name, room, `600 ${kFont}`), op: fitText(node.row.op, room - textWidth(time) - 8, kFont), time};
}

function layerFacts(node, nodes) {
  const parts = node.rows.length > 1 ? `${ms(node.ms)}, ${percent(node.percent, 2)}, in ${plural(node.rows.length, "row")}` : null;
  const few = 4, names = node.reads.slice(0, few).map((from) => shortName(nodes[from].name));
  if (node.reads.length > few) names.push(`${node.reads.length - few} more`);
  return rowFacts(node.row, ["layer", parts], ["reads", names.join(", ") || null]);
}

function layerBox(node, place, nodes, longest) {
  const {left: x, top: y} = place, {name, op, time} = node.texts ??= boxTexts(node);
  const bar = Math.max(1, (kBoxWidth - 16) * node.ms / longest);
  const box = svg("g", {class: `mark ${markClass(node.row, node.percent)}${faded(node.row) ? " faded" : ""}`, role: "button", "data-row": node.row.id,
    "aria-label": `${node.name}: ${node.row.op}, ${ms(node.ms)}, ${percent(node.percent)}${node.row.bounded ? `, ${boundText(node.row)}` : ""}`},
  svg("rect", {x, y, width: kBoxWidth, height: kBoxHeight, rx: 4}),
  svg("path", {class: "bar", d: `M${x + 8} ${y + kBoxHeight - 5}h${bar}`}),
  svg("text", {x: x + 8, y: y + 15, class: "title"}, name), svg("text", {x: x + 8, y: y + 30}, op),
  svg("text", {x: x + kBoxWidth - 8, y: y + 30, "text-anchor": "end", class: "value"}, time));
  return mark(box, `layer ${node.row.id}`, () => layerFacts(node, nodes), () => openRow(node.row.id), () => selectRow(node.row.id));
}

function inputBox(node, {left: x, top: y}) {
  return svg("g", {class: "source"}, svg("rect", {x, y: y + kBoxHeight - 24, width: kBoxWidth, height: 24, rx: 12}),
    svg("text", {x: x + kBoxWidth / 2, y: y + kBoxHeight - 8, "text-anchor": "middle"}, fitName(node.name, kBoxWidth - 24)));
}

/** The edges: all() has a path for every value, chosen() those of the selected layer. */
function graphWires(nodes, {chains}) {
  const into = nodes.map(() => []);
  nodes.forEach((node, at) => node.reads.forEach((from) => into[from].push(at)));
  const last = (from, to) => edgePath(chainAt(chains[from], chains[to][0].rank - 1), chains[to][0]);
  const whole = (from, to) => svg("path", {class: "wire chosen", d: chainPath(chains[from], chains[to][0].rank - 1) + last(from, to)});
  return {
    all: () => nodes.map((node, at) => into[at].length
      ? svg("path", {class: "wire", d: chainPath(chains[at], Infinity) + into[at].map((to) => last(at, to)).join("")}) : null),
    chosen: () => nodes.flatMap((node, at) => node.row && isSelected(node.row)
      ? [...node.reads.map((from) => whole(from, at)), ...into[at].map((to) => whole(at, to))] : []),
  };
}

/** The part of the picture that is visible, in a box with scroll bars. */
class GraphView {
  constructor(pane) {
    Object.assign(this, {pane, scale: null, size: {width: 1, height: 1}, svg: null});
  }

  /** Shows a picture of a size. At first it fits the width, but text stays readable, and `first` is in the middle. */
  show(element, size, first) {
    let {scrollLeft, scrollTop} = this.pane;
    this.size = size;
    this.svg = element;
    if (this.scale === null) {
      this.scale = Math.min(1, Math.max(kZooms.first, this.pane.clientWidth / size.width));
      scrollLeft = (first.left + kBoxWidth / 2) * this.scale - this.pane.clientWidth / 2;
    }
    this.pane.replaceChildren(element);
    this.apply();
    this.pane.scrollTo(scrollLeft, scrollTop);
  }

  apply() {
    this.svg.setAttribute("width", Math.ceil(this.size.width * this.scale));
    this.svg.setAttribute("height", Math.ceil(this.size.height * this.scale));
    this.svg.classList.toggle("far", this.scale < kZooms.text);
  }

  /** Zooms; a point of the pane, or its middle, stays where it is. */
  zoom(factor, x = this.pane.clientWidth / 2, y = this.pane.clientHeight / 2) {
    const {pane} = this, before = this.scale;
    this.scale = Math.min(kZooms.most, Math.max(kZooms.least, before * factor));
    this.apply();
    const by = this.scale / before;
    pane.scrollTo((pane.scrollLeft + x) * by - x, (pane.scrollTop + y) * by - y);
  }

  /** Shows the whole picture. */
  fit() {
    const most = parseFloat(getComputedStyle(this.pane).maxHeight) || this.pane.clientHeight;
    this.zoom(Math.min(1, (this.pane.clientWidth - 2) / this.size.width, (most - 4) / this.size.height) / this.scale);
  }

  /** Scrolls a place into view, moving as little as possible. */
  reveal({left, top}) {
    const {pane, scale} = this, margin = 20;
    const near = (from, length, at, room) => Math.min(Math.max(at, from + length + margin - room), Math.max(0, from - margin));
    pane.scrollTo(near(left * scale, kBoxWidth * scale, pane.scrollLeft, pane.clientWidth),
      near(top * scale, kBoxHeight * scale, pane.scrollTop, pane.clientHeight));
  }
}

/** Ctrl and the wheel zoom; so do the keys + and -, and 0 shows all. */
function graphZooming(picture) {
  const {pane} = picture;
  pane.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    tip.hide();
    const place = pane.getBoundingClientRect();
    picture.zoom(Math.exp(-event.deltaY * (event.deltaMode === 1 ? 0.05 : 0.004)), event.clientX - place.left, event.clientY - place.top);
  }, {passive: false});
  pane.addEventListener("keydown", (event) => {
    const keys = {"+": () => picture.zoom(1.25), "=": () => picture.zoom(1.25), "-": () => picture.zoom(0.8), 0: () => picture.fit()};
    if (!keys[event.key] || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    keys[event.key]();
  });
}

function graphTools(picture) {
  const button = (text, label, act) => h("button", {type: "button", "aria-label": label, onclick: act}, text);
  return h("div", {class: "tools"}, button("+", "Zoom in", () => picture.zoom(1.25)), button("−", "Zoom out", () => picture.zoom(0.8)),
    button("Whole graph", "Show the whole graph", () => picture.fit()),
    h("span", {class: "note"}, "Scroll to move; Ctrl and the wheel or the keys + and − zoom, 0 shows all; arrow keys go from layer to layer."));
}

function renderGraph(body) {
  const nodes = graphNodes(profile.rows);
  if (!nodes.some((node) => node.reads.length || node.row)) return;
  body.closest("section").hidden = false;
  const layout = layoutOf(nodes), longest = nodes.reduce((most, node) => Math.max(most, node.ms), 1e-12);
  const pane = h("div", {class: "scroll graph"}), box = h("div", {class: "chart"}, pane), state = {};
  const picture = new GraphView(pane);
  graphZooming(picture);
  body.append(graphTools(picture), colourKey(), box);
  const wires = graphWires(nodes, layout), chosen = svg("g", {}), place = (at) => layout.chains[at][0];
  const draw = (width) => {
    const size = layout.fold({width: (width - 18) / kZooms.fold, height: Math.min(600, 0.7 * innerHeight)});
    const boxes = nodes.map((node, at) => node.row ? layerBox(node, place(at), nodes, longest) : inputBox(node, place(at)));
    const marks = boxes.filter((element, at) => nodes[at].row), focused = pane.contains(document.activeElement);
    picture.show(svg("svg", {viewBox: `0 0 ${size.width} ${size.height}`, role: "group", "aria-label": "Layers and the values between them. " +
      "The arrow keys move through the layers in the order of running; the space bar selects a layer in all charts, Enter opens it in the table."},
    wires.all(), chosen, boxes), size, place(0));
    roving(picture.svg, state, marks);
    if (focused && marks.length) marks[state.index].focus({preventScroll: true});
  };
  let drawnFor = "", shown = null;
  drawn(box, (width) => {
    const now = [width, view.colour, view.op].join();  // a selection changes no boxes
    if (now !== drawnFor) draw(width);
    drawnFor = now;
    chosen.replaceChildren(...wires.chosen());
    const selected = nodes.findIndex((node) => node.row && isSelected(node.row));
    if (view.row !== shown && selected >= 0) picture.reveal(place(selected));
    shown = view.row;
  });
}
