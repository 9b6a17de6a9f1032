// Buffers in the arena: offset over steps.

/** Bytes needed at the fullest step, and that step. Bytes shared by several buffers count once. */
function fullestStep(buffers, steps) {
  const change = new Array(steps + 1).fill(0);
  for (const buffer of buffers) {
    change[buffer.first_step] += buffer.bytes;
    change[buffer.last_step + 1] -= buffer.bytes;
  }
  let live = 0, best = {step: 0, bytes: 0};
  change.forEach((bytesHere, step) => {
    live += bytesHere;
    if (live > best.bytes) best = {step, bytes: live};
  });
  return best;
}

function stepName(step) {
  const row = profile.rows.find((candidate) => candidate.step === step);
  return row ? `${step} (${row.name})` : String(step);
}

function arenaBuffer(buffer, place, row) {
  const width = Math.max(place.width - 1, 1), height = Math.max(place.height - 1, 1);
  const lifetime = `${stepName(buffer.first_step)} to ${stepName(buffer.last_step)}`;
  const cell = svg("g", {class: `mark ${row ? markClass(row) : "cother"}${row && faded(row) ? " faded" : ""}`, role: "button",
    "data-row": row ? row.id : null, "aria-label": `${buffer.name}: ${bytes(buffer.bytes)}, steps ${lifetime}`},
  svg("rect", {x: place.x, y: place.y, width, height, rx: Math.min(2, width / 4, height / 4)}));
  if (width > 40 && height > 14) cell.append(svg("text", {x: place.x + 4, y: place.y + 11.5}, fitName(buffer.name, width - 8)));
  return mark(cell, `buffer ${buffer.name} ${buffer.offset} ${buffer.first_step}`, () => [
    h("p", {class: "tip-name"}, h("bdi", {}, buffer.name)),
    facts([["size", bytes(buffer.bytes)], ["place", `${bytes(buffer.offset)} to ${bytes(buffer.offset + buffer.bytes)}`],
      ["steps", lifetime]]),
  ], () => row && openRow(row.id), () => Boolean(row) && selectRow(row.id));
}

function arenaAxes(f, steps, size) {
  const parts = [];
  const byteStep = niceStep(size, 5), stepStep = Math.max(1, niceStep(steps, (f.right - f.left) / 60));
  const [scale, unit] = size >= 1e9 ? [1e9, "GB"] : size >= 1e6 ? [1e6, "MB"] : size >= 1e3 ? [1e3, "kB"] : [1, "B"];
  for (let at = 0; at <= size; at += byteStep) {
    parts.push(svg("line", {class: "hair", x1: f.left, x2: f.right, y1: f.y(at), y2: f.y(at)}),
      svg("text", {class: "axis", x: f.left - 5, y: f.y(at) + 4, "text-anchor": "end"},
        `${tickText(at / scale, byteStep / scale)} ${unit}`));
  }
  for (let at = 0; at < steps; at += stepStep) {
    parts.push(svg("text", {class: "axis", x: f.x(at + 0.5), y: f.lower + 15, "text-anchor": "middle"}, String(at)));
  }
  parts.push(svg("text", {class: "axis title", x: (f.left + f.right) / 2, y: f.lower + 31, "text-anchor": "middle"}, "step of the plan"));
  return parts;
}

function renderArena(body) {
  const {memory} = profile;
  const buffers = [...memory.arena].sort((a, b) => a.first_step - b.first_step || a.offset - b.offset);
  const steps = 1 + Math.max(0, ...buffers.map((buffer) => buffer.last_step), ...profile.rows.map((row) => row.step));
  const fullest = fullestStep(buffers, steps);
  const list = [["arena", memory.arena_bytes, "its size is fixed: it is laid out once, at compile time"],
    ["fullest", fullest.bytes, `needed at step ${stepName(fullest.step)}`],
    ["packed weights", memory.constants_bytes, "constants as the kernels read them"],
    ["scratch", memory.scratch_bytes, `private to the ${plural(profile.threads, "thread")}`],
    ["code", memory.code_bytes, "machine code of the plan"]];
  body.append(h("dl", {class: "cards"}, list.map(([name, value, about]) => h("div", {}, h("dt", {}, name),
    h("dd", {}, h("b", {}, bytes(value)), h("span", {}, about))))));
  if (buffers.length === 0) {
    body.append(h("p", {class: "empty"}, "The arena contains no buffers."));
    return;
  }
  const size = Math.max(memory.arena_bytes, ...buffers.map((buffer) => buffer.offset + buffer.bytes), 1);
  const makers = new Map(profile.rows.map((row) => [row.step, row]));
  const box = h("div", {class: "chart"}), state = {};
  body.append(box, h("p", {class: "note"}, "Colour: that of the row that writes the buffer. Buffers that seem to overlap share " +
    "their bytes: one is written in place of the other."));
  drawn(box, (width) => {
    const focused = box.contains(document.activeElement);
    const height = width < 480 ? 300 : 360;
    const f = {left: 58, right: width - 6, upper: 24, lower: height - 38};
    f.x = (step) => f.left + (f.right - f.left) * step / steps;
    f.y = (offset) => f.lower - (f.lower - f.upper) * offset / size;
    const marks = buffers.map((buffer) => arenaBuffer(buffer, {x: f.x(buffer.first_step), y: f.y(buffer.offset + buffer.bytes),
      width: f.x(buffer.last_step + 1) - f.x(buffer.first_step), height: f.y(buffer.offset) - f.y(buffer.offset + buffer.bytes)},
    makers.get(buffer.first_step)));
    const peak = [svg("line", {class: "peak", x1: f.left, x2: f.right, y1: f.y(memory.arena_bytes), y2: f.y(memory.arena_bytes)}),
      svg("text", {class: "roof-name", x: f.right, y: f.y(memory.arena_bytes) - 6, "text-anchor": "end"},
        `peak ${bytes(memory.arena_bytes)}`)];
    const chart = svg("svg", {width, height, role: "group", "aria-label": "Arena: place of every buffer over the steps. " +
      "The arrow keys move in the order of the steps, Enter opens the row that writes the buffer."},
    arenaAxes(f, steps, size), marks, peak);
    box.replaceChildren(chart);
    roving(chart, state, marks);
    if (focused) marks[state.index].focus();
  });
}
