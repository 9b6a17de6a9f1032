// The activity of each thread in the typical run, on a canvas that zooms and scrolls by mouse, touch and keyboard.

/** Events by thread, ordered by begin: {row, thread, begin, end}, in microseconds. */
function timelineTracks() {
  const tracks = Array.from({length: Math.max(profile.threads, 1)}, () => []);
  for (const [row, thread, begin, end] of profile.timeline) {
    if (tracks[thread]) tracks[thread].push({row: profile.rows[row], thread, begin, end});
  }
  tracks.forEach((events) => events.sort((a, b) => a.begin - b.begin));
  return tracks;
}

/** Index of the last event that begins at or before `at`; -1 before the first. */
function lastBefore(events, at) {
  let low = 0, high = events.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (events[middle].begin <= at) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}

/** The visible part of the run. */
class TimeWindow {
  constructor(end) {
    this.end = Math.max(end, 1e-3);
    this.reset();
  }

  reset() {
    this.from = 0;
    this.span = this.end;
  }

  /** Zooms in (factor < 1) or out around a time. Never narrower than 0.1 µs. */
  zoom(factor, around) {
    const share = (around - this.from) / this.span;
    this.span = Math.min(this.end, Math.max(0.1, this.span * factor));
    this.move(around - share * this.span - this.from);
  }

  move(by) {
    this.from = Math.max(0, Math.min(this.end - this.span, this.from + by));
  }

  /** Scrolls an interval into view, moving as little as possible. */
  reveal(begin, end) {
    if (end - begin > this.span) this.zoom((end - begin) * 1.2 / this.span, (begin + end) / 2);
    if (begin < this.from) this.move(begin - this.from);
    else if (end > this.from + this.span) this.move(end - this.from - this.span);
  }
}

const kAxisHeight = 22, kOverviewHeight = 14;

/** The picture of a window onto tracks. */
class TimelineCanvas {
  constructor(canvas, tracks, time) {
    Object.assign(this, {canvas, tracks, time, current: null});
    this.track = Math.max(9, Math.min(30, Math.floor(440 / tracks.length)));
    this.height = kAxisHeight + tracks.length * (this.track + 3) + kOverviewHeight;
  }

  resize(width) {
    const density = window.devicePixelRatio || 1;
    this.width = width;
    this.left = width < 480 ? 26 : 78;
    this.canvas.width = Math.round(width * density);
    this.canvas.height = Math.round(this.height * density);
    this.canvas.style.height = `${this.height}px`;
    this.density = density;
  }

  x(at) {
    return this.left + (this.width - this.left) * (at - this.time.from) / this.time.span;
  }

  at(x) {
    return this.time.from + this.time.span * (x - this.left) / (this.width - this.left);
  }

  y(thread) {
    return kAxisHeight + thread * (this.track + 3);
  }

  /** The event under a point, with a tolerance of one pixel. */
  hit(x, y) {
    const thread = Math.floor((y - kAxisHeight) / (this.track + 3));
    if (x < this.left || thread < 0 || thread >= this.tracks.length) return null;
    const grace = this.time.span / (this.width - this.left), events = this.tracks[thread];
    const event = events[lastBefore(events, this.at(x) + grace)];
    return event && event.end + grace >= this.at(x) ? event : null;
  }

  draw() {
    const context = this.canvas.getContext("2d");
    this.ink = themeColour("--ink"), this.muted = themeColour("--muted"), this.line = themeColour("--line");
    this.colours = new Map();
    context.setTransform(this.density, 0, 0, this.density, 0, 0);
    context.clearRect(0, 0, this.width, this.height);
    this.drawAxis(context);
    this.tracks.forEach((events, thread) => this.drawTrack(context, events, thread));
    this.drawOverview(context);
  }

  drawAxis(context) {
    const inMs = this.time.end >= 1000, unit = inMs ? 1000 : 1;
    const step = niceStep(this.time.span, (this.width - this.left) / 90);
    context.font = kFont;
    context.textBaseline = "middle";
    for (let i = Math.ceil(this.time.from / step); i * step <= this.time.from + this.time.span; ++i) {
      const x = this.x(i * step), text = `${tickText(i * step / unit, step / unit)} ${inMs ? "ms" : "µs"}`;
      context.fillStyle = this.line;
      context.fillRect(Math.round(x), kAxisHeight - 6, 1, this.height - kAxisHeight - kOverviewHeight + 6);
      context.fillStyle = this.muted;
      const half = context.measureText(text).width / 2;
      context.fillText(text, Math.max(this.left, Math.min(x - half, this.width - 2 * half - 2)), 8);
    }
  }

  coloursOf(row) {
    const name = markClass(row);
    if (!this.colours.has(name)) this.colours.set(name, coloursOf(name));
    return this.colours.get(name);
  }

  drawTrack(context, events, thread) {
    const y = this.y(thread), {from, span} = this.time;
    context.fillStyle = this.muted;
    context.textBaseline = "middle";
    if (this.track >= 11) context.fillText(this.left < 40 ? String(thread) : `thread ${thread}`, this.left < 40 ? 4 : 8, y + this.track / 2);
    context.save();
    context.beginPath();
    context.rect(this.left, y, this.width - this.left, this.track);
    context.clip();
    context.globalAlpha = 0.35;
    context.fillStyle = this.line;
    context.fillRect(this.left, y, this.width - this.left, this.track);
    let painted = -1;  // events that end in a pixel already painted change nothing
    for (let i = Math.max(0, lastBefore(events, from)); i < events.length && events[i].begin <= from + span; ++i) {
      const event = events[i], x = this.x(event.begin), right = Math.max(this.x(event.end), x + 1);
      if (right < painted + 0.5) continue;
      painted = right;
      this.drawEvent(context, event, x, right, y);
    }
    context.restore();
  }

  drawEvent(context, event, x, right, y) {
    const colours = this.coloursOf(event.row), width = right - x;
    context.globalAlpha = faded(event.row) ? 0.18 : 1;
    context.fillStyle = colours.mark;
    context.fillRect(x, y, width > 3 ? width - 0.75 : width, this.track);
    if (width > 44 && this.track >= 14) {
      const from = Math.max(x, this.left);
      context.fillStyle = faded(event.row) ? this.ink : colours.on;
      context.font = kFont;
      const text = fitName(event.row.name, Math.min(right, this.width) - from - 8);
      if (text) context.fillText(text, from + 4, y + this.track / 2 + 0.5);
    }
    const chosen = this.current === event || isSelected(event.row);
    if (!chosen) return;
    context.globalAlpha = 1;
    context.strokeStyle = this.ink;
    context.lineWidth = isSelected(event.row) ? 3 : 2;
    context.strokeRect(x + 1, y + 1, Math.max(width - 2.5, 1), this.track - 2);
  }

  drawOverview(context) {
    if (this.time.span > this.time.end * 0.999) return;
    const y = this.height - 8, width = this.width - this.left;
    context.fillStyle = this.line;
    context.fillRect(this.left, y, width, 5);
    context.fillStyle = this.muted;
    context.fillRect(this.left + width * this.time.from / this.time.end, y, Math.max(width * this.time.span / this.time.end, 3), 5);
  }
}

function eventFacts(event) {
  return rowFacts(event.row, ["on this thread", `${ms((event.end - event.begin) / 1000)}, from ${ms(event.begin / 1000)}`]);
}

/** Mouse: drag, wheel with Ctrl (and the pinch of a touch pad), click. Touch: one finger moves, two zoom, a tap shows the tooltip. */
function timelinePointers(picture, changed, act) {
  const {canvas, time} = picture, fingers = new Map();
  let travelled = 0, shown = null;
  const point = (event) => {
    const place = canvas.getBoundingClientRect();
    return {x: event.clientX - place.left, y: event.clientY - place.top};
  };
  canvas.addEventListener("pointerdown", (event) => {
    fingers.set(event.pointerId, point(event));
    travelled = 0;
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", (event) => {
    const to = point(event), from = fingers.get(event.pointerId);
    if (!from) {
      const found = picture.hit(to.x, to.y);
      canvas.style.cursor = found ? "pointer" : "grab";
      if (found) tip.show(found, () => eventFacts(found), event.clientX, event.clientY);
      else tip.hide();
      return;
    }
    const scale = time.span / (picture.width - picture.left);
    travelled += Math.abs(to.x - from.x) + Math.abs(to.y - from.y);
    const other = [...fingers].find(([id]) => id !== event.pointerId);
    if (other) {
      const before = Math.abs(from.x - other[1].x), now = Math.abs(to.x - other[1].x);
      if (before > 4 && now > 4) time.zoom(before / now, picture.at((to.x + other[1].x) / 2));
      time.move((from.x - to.x) * scale / 2);
    } else if (travelled > 4) {
      tip.hide();
      time.move((from.x - to.x) * scale);
    }
    fingers.set(event.pointerId, to);
    changed();
  });
  const lift = (event) => {
    fingers.delete(event.pointerId);
    if (event.type !== "pointerup" || travelled > 4) return;
    const at = point(event), found = picture.hit(at.x, at.y);
    if (!found) return tip.hide();
    if (event.pointerType === "touch" && shown !== found) {
      selectRow(found.row.id);
      tip.show(found, () => eventFacts(found), event.clientX, event.clientY);
    }
    else if (!selectRow(found.row.id)) act(found);
    shown = found;
  };
  canvas.addEventListener("pointerup", lift);
  canvas.addEventListener("pointercancel", lift);
  canvas.addEventListener("pointerleave", (event) => event.pointerType !== "touch" && tip.hide());
  canvas.addEventListener("wheel", (event) => {
    const sideways = Math.abs(event.deltaX) > Math.abs(event.deltaY) || event.shiftKey;
    if (!event.ctrlKey && !event.metaKey && !sideways) return;
    event.preventDefault();
    tip.hide();
    if (sideways) time.move((event.deltaX || event.deltaY) * time.span / (picture.width - picture.left));
    else time.zoom(Math.exp(event.deltaY * (event.deltaMode === 1 ? 0.05 : 0.004)), picture.at(point(event).x));
    changed();
  }, {passive: false});
}

/** Keyboard: arrows choose events, Shift moves, + and - zoom, 0 shows all, the space bar selects, Enter opens the row. */
function timelineKeys(picture, changed, tell, act) {
  const {canvas, time, tracks} = picture;
  const nearest = (thread, at) => tracks[thread][Math.max(0, lastBefore(tracks[thread], at))] || null;
  const choose = (event) => {
    if (!event) return;
    picture.current = event;
    time.reveal(event.begin, event.end);
    tell(event);
  };
  const middle = () => picture.current ? (picture.current.begin + picture.current.end) / 2 : time.from + time.span / 2;
  const along = (by) => {
    const {current} = picture;
    if (!current) return choose(nearest(0, time.from));
    const events = tracks[current.thread];
    choose(events[events.indexOf(current) + by]);
  };
  const across = (by) => {
    for (let thread = (picture.current ? picture.current.thread : 0) + by; tracks[thread]; thread += by) {
      if (tracks[thread].length) return choose(nearest(thread, middle()));
    }
  };
  const keys = {
    ArrowRight: (event) => event.shiftKey ? time.move(time.span / 8) : along(1),
    ArrowLeft: (event) => event.shiftKey ? time.move(-time.span / 8) : along(-1),
    ArrowDown: () => across(1), ArrowUp: () => across(-1),
    "+": () => time.zoom(0.6, middle()), "=": () => time.zoom(0.6, middle()), "-": () => time.zoom(1 / 0.6, middle()),
    0: () => time.reset(), Home: () => time.reset(), Enter: () => picture.current && act(picture.current),
    " ": () => picture.current && selectRow(picture.current.row.id),
  };
  canvas.addEventListener("keydown", (event) => {
    if (!keys[event.key] || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    keys[event.key](event);
    changed();
  });
}

function renderTimeline(body) {
  const tracks = timelineTracks();
  if (profile.timeline.length === 0) {
    body.append(h("p", {class: "empty"}, "The profile contains no timeline."));
    return;
  }
  const time = new TimeWindow(Math.max(...tracks.map((events) => events.reduce((end, event) => Math.max(end, event.end), 0))));
  const canvas = h("canvas", {tabindex: "0", role: "application", "aria-label": "Timeline, one track per thread. Left and right " +
    "choose a stretch, up and down a thread; plus and minus zoom, Shift with left and right moves, 0 shows all, the space bar selects in all charts, Enter opens the row."});
  const picture = new TimelineCanvas(canvas, tracks, time);
  const box = h("div", {class: "chart"}, canvas), said = h("p", {class: "said", role: "status"});
  const changed = () => picture.draw();
  const act = (event) => openRow(event.row.id);
  const tell = (event) => {
    said.textContent = `${event.row.name} on thread ${event.thread}: ${ms((event.end - event.begin) / 1000)}, from ` +
      `${ms(event.begin / 1000)}; the row takes ${ms(event.row.duration_ms)}, ${percent(event.row.percent)} of the sum.`;
  };
  timelinePointers(picture, changed, act);
  timelineKeys(picture, changed, tell, act);
  const button = (text, label, change) => h("button", {type: "button", "aria-label": label, onclick: () => {
    change();
    changed();
  }}, text);
  const middle = () => time.from + time.span / 2;
  body.append(h("div", {class: "tools"}, button("+", "Zoom in", () => time.zoom(0.5, middle())),
    button("−", "Zoom out", () => time.zoom(2, middle())), button("Whole run", "Show the whole run", () => time.reset()),
    h("span", {class: "note"}, "Drag to move; Ctrl and the wheel, two fingers or the keys + and − zoom; arrow keys go from stretch to stretch.")),
  colourKey(), box, said);
  drawn(box, (width) => {
    picture.resize(width);
    picture.draw();
  });
}
