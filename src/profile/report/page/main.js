// Assembles the report of a profile.

/** Shows and expands a row of the table; called from any chart. */
function openRow(id) {
  tip.hide();
  if (location.hash === `#row-${id}`) table.reveal(id);
  else location.hash = `#row-${id}`;
}

function followHash() {
  const match = /^#row-(\d+)$/.exec(location.hash);
  if (match && profile.rows[Number(match[1])]) table.reveal(Number(match[1]));
}

/** Highlights the marks of the row selected last in every chart. */
function showChosen() {
  document.querySelectorAll("[data-row]").forEach((element) => {
    element.classList.toggle("chosen", view.row !== null && element.dataset.row === String(view.row));
  });
}

function renderTitles() {
  const {conditions} = profile;
  titles(profile.model, ["Kilter profile", plural(profile.threads, "thread")], conditions);
}

renderTitles();
render("summary", renderSummary);
render("explain", renderExplain);
render("tuning", renderTuning);
render("colours", renderColours);
render("treemap", renderTreemap);
render("roofline", renderRoofline);
render("timeline", renderTimeline);
render("rows", renderTable);
render("memory", renderArena);
render("conditions", renderConditions);
new MutationObserver(showChosen).observe(document.getElementById("main"), {childList: true, subtree: true});
view.listeners.push(showChosen);
addEventListener("hashchange", followHash);
finishPage();
followHash();
