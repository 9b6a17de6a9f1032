// Puts the report together. A section that fails says so and leaves the others standing.

/** Shows a row of the table, opened; from any chart. */
function openRow(id) {
  tip.hide();
  if (location.hash === `#row-${id}`) table.reveal(id);
  else location.hash = `#row-${id}`;
}

function followHash() {
  const match = /^#row-(\d+)$/.exec(location.hash);
  if (match && profile.rows[Number(match[1])]) table.reveal(Number(match[1]));
}

/** Marks of the row chosen last stand out in every chart. */
function showChosen() {
  document.querySelectorAll("[data-row]").forEach((element) => {
    element.classList.toggle("chosen", view.row !== null && element.dataset.row === String(view.row));
  });
}

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

function renderTitles() {
  const {conditions} = profile;
  document.getElementById("model").textContent = profile.model;
  document.getElementById("subtitle").textContent = ["Kilter profile", plural(profile.threads, "thread"), conditions.device,
    conditions.target, (conditions.date || "").replace("T", " ").replace("Z", " UTC")].filter(Boolean).join(" · ");
  document.getElementById("colophon").textContent = `Made by ${conditions.program || "Kilter"}` +
    `${conditions.codegen ? ` with ${conditions.codegen}` : ""}. One file, nothing is loaded from anywhere.`;
}

document.body.append(tip.box);
renderTitles();
render("summary", renderSummary);
render("explain", renderExplain);
render("colours", renderColours);
render("treemap", renderTreemap);
render("roofline", renderRoofline);
render("timeline", renderTimeline);
render("rows", renderTable);
render("memory", renderArena);
render("conditions", renderConditions);
renderNav();
renderTheme(document.getElementById("theme"));
new MutationObserver(showChosen).observe(document.getElementById("main"), {childList: true, subtree: true});
view.listeners.push(showChosen);
addEventListener("hashchange", followHash);
addEventListener("keydown", (event) => event.key === "Escape" && tip.hide());
addEventListener("scroll", () => tip.follow(), {passive: true, capture: true});
followHash();
