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
render("graph", renderGraph);
render("timeline", renderTimeline);
render("rows", renderTable);
render("compare", renderCompare);
render("memory", renderArena);
render("conditions", renderConditions);
new MutationObserver(showChosen).observe(document.getElementById("main"), {childList: true, subtree: true});
view.listeners.push(showChosen);
document.body.append(selectionBar());
addEventListener("keydown", (event) => {
  if (event.key === "Escape" && !event.target.matches?.("input")) clearSelection();
});
addEventListener("hashchange", followHash);
finishPage();
followHash();
