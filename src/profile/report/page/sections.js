// The parts that all pages share: sections, their list, titles. A section that fails reports it and does not affect the others.

function render(id, draw) {
  const body = document.querySelector(`#${id} .body`);
  try {
    draw(body);
  } catch (error) {
    console.error(`report section ${id}:`, error);
    body.append(h("p", {class: "empty"}, `This part could not be drawn: ${error.message}`));
  }
}

function renderNav() {
  const list = document.getElementById("nav");
  for (const section of document.querySelectorAll("main section:not([hidden])")) {
    list.append(h("li", {}, h("a", {href: `#${section.id}`}, section.dataset.short)));
  }
}

/** The name, the line below it (`words`, then the `conditions`) and the line at the end. */
function titles(name, words, conditions) {
  document.getElementById("model").textContent = name;
  document.getElementById("subtitle").textContent = [...words, conditions.device, conditions.target,
    (conditions.date || "").replace("T", " ").replace("Z", " UTC")].filter(Boolean).join(" · ");
  document.getElementById("colophon").textContent = `Made by ${conditions.program || "Kilter"}` +
    `${conditions.codegen ? ` with ${conditions.codegen}` : ""}. A single file that loads nothing else.`;
}

/** Called after the last section: sets up the parts that act on all sections. */
function finishPage() {
  document.body.append(tip.box);
  renderNav();
  renderTheme(document.getElementById("theme"));
  addEventListener("keydown", (event) => event.key === "Escape" && tip.hide());
  addEventListener("scroll", (event) => tip.follow(event.target), {passive: true, capture: true});
}
