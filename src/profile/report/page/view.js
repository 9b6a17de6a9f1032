// The page's data, and what its charts show together.

/** The JSON that the page was made from. */
function pageData() {
  return JSON.parse(document.getElementById("page-data").textContent);
}

/** What all charts show together. Change it with set(), which has them drawn again. */
const view = {
  listeners: [],
  set(changes) {
    Object.assign(this, changes);
    this.listeners.forEach((listener) => listener());
  },
};
