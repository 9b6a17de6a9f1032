// Elements, the tooltip, and keyboard movement among the marks of a chart. Text is only ever inserted as text nodes.

/** Creates an HTML element. Attributes that are null or false are left out; functions whose names begin with "on" become listeners. */
function h(tag, attributes, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

function svg(tag, attributes, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

/** Calls draw(width) now, whenever the box changes its width, and whenever the state of the charts changes. */
function drawn(box, draw) {
  let width = 0;
  const redraw = () => {
    if (width > 0) draw(width);
  };
  new ResizeObserver(() => {
    const now = Math.floor(box.clientWidth);
    if (now === width || now === 0) return;
    width = now;
    redraw();
  }).observe(box);
  view.listeners.push(redraw);
}

/** The single tooltip. `key` identifies the mark that it describes. */
const tip = {
  box: h("div", {class: "tip", role: "tooltip", id: "tip", hidden: true}),
  key: null,
  anchor: null,  // element that it follows when the page scrolls
  owner: null,   // element that it describes, if known
  show(key, nodes, x, y, owner = null) {
    this.anchor = null;
    this.owner = owner;
    if (key !== this.key) this.box.replaceChildren(...nodes());
    this.key = key;
    this.box.hidden = false;
    const {offsetWidth: width, offsetHeight: height} = this.box;
    const left = Math.max(8, Math.min(x + 14, document.documentElement.clientWidth - width - 8));
    const below = y + 18 + height < innerHeight;
    this.box.style.left = `${left}px`;
    this.box.style.top = `${Math.max(8, below ? y + 18 : y - height - 12)}px`;
  },
  /** Shows the tooltip next to an element, for the keyboard. */
  showAt(key, nodes, element) {
    const place = element.getBoundingClientRect();
    this.show(key, nodes, place.left + Math.min(place.width / 2, 120), place.bottom - 12);
    this.anchor = element;
  },
  /** Called when something scrolls: moves the tooltip with its element, or hides it if its element moves away. */
  follow(scrolled) {
    if (this.anchor) this.showAt(this.key, null, this.anchor);
    else if (!this.owner || scrolled.contains(this.owner)) this.hide();
  },
  hide() {
    this.key = this.anchor = null;
    this.box.hidden = true;
  },
};

/** Names and values as a list for tooltips. Pairs without a value are left out. */
function facts(pairs) {
  return h("dl", {class: "facts"}, pairs.filter(([, value]) => value !== null && value !== undefined && value !== "")
    .map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value))));
}

/**
 * Makes an element of a chart a mark: it shows a tooltip while pointed at or focused, and acts on click and Enter. On a
 * touch screen, the first tap shows the tooltip and the second acts. `select` is called first by clicks, taps and the
 * space bar, and returns whether it changed the selection; if it did, nothing else happens.
 */
function mark(element, key, nodes, act, select = () => false) {
  let armed = true;
  element.addEventListener("pointerdown", (event) => {
    armed = event.pointerType !== "touch" || tip.key === key;
  });
  const follow = (event) => {
    if (event.pointerType !== "touch") tip.show(key, nodes, event.clientX, event.clientY, element);
  };
  element.addEventListener("pointerenter", follow);
  element.addEventListener("pointermove", follow);
  element.addEventListener("pointerleave", (event) => event.pointerType !== "touch" && tip.hide());
  element.addEventListener("focus", () => tip.showAt(key, nodes, element));
  element.addEventListener("blur", () => tip.hide());
  element.addEventListener("click", (event) => {
    const selected = select();
    if (!armed) tip.show(key, nodes, event.clientX, event.clientY, element);
    else if (!selected) act();
  });
  element.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" && event.key !== " ") return;
    event.preventDefault();
    if (event.key === "Enter" || !select()) act();
  });
  return element;
}

/** One tab stop for all marks. The arrow keys move among them in order. The position survives redraws. */
function roving(container, state, marks) {
  if (marks.length === 0) return;
  state.index = Math.min(state.index || 0, marks.length - 1);
  marks.forEach((element, i) => element.setAttribute("tabindex", i === state.index ? "0" : "-1"));
  const move = (to) => {
    marks[state.index].setAttribute("tabindex", "-1");
    state.index = Math.max(0, Math.min(to, marks.length - 1));
    marks[state.index].setAttribute("tabindex", "0");
    marks[state.index].focus();
  };
  marks.forEach((element, i) => element.addEventListener("focus", () => i !== state.index && move(i)));
  container.onkeydown = (event) => {
    const steps = {ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1, PageDown: 10, PageUp: -10};
    if (event.key in steps) move(state.index + steps[event.key]);
    else if (event.key === "Home") move(0);
    else if (event.key === "End") move(marks.length - 1);
    else return;
    event.preventDefault();
  };
}
