// The page's data, and the state that its charts share.

/** The JSON from which the page was created. */
function pageData() {
  return JSON.parse(document.getElementById("page-data").textContent);
}

/** The state that all charts share. Change it with set(), which redraws them. */
const view = {
  listeners: [],
  set(changes) {
    Object.assign(this, changes);
    this.listeners.forEach((listener) => listener());
  },
};
