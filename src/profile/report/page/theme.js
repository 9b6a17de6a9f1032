// The light and dark themes, and their colours.

/** The colours of a class as currently displayed, for canvases. */
function coloursOf(name) {
  const probe = h("i", {class: name, hidden: true});
  document.body.append(probe);
  const style = getComputedStyle(probe);
  const colours = {mark: style.getPropertyValue("--mark").trim(), on: style.getPropertyValue("--on").trim()};
  probe.remove();
  return colours;
}

/** A colour of the theme (style.css), resolved. */
function themeColour(variable) {
  const probe = h("i", {style: `color: var(${variable})`});
  document.body.append(probe);
  const colour = getComputedStyle(probe).color;
  probe.remove();
  return colour;
}

/** Light, dark, or the system's choice. Remembered if the browser lets a file store it. */
function renderTheme(button) {
  const words = {auto: "Theme: auto", light: "Theme: light", dark: "Theme: dark"};
  const order = Object.keys(words);
  let theme = "auto";
  try {
    theme = order.find((word) => word === localStorage.getItem("kilter-theme")) || "auto";
  } catch {
    theme = "auto";
  }
  const apply = () => {
    if (theme === "auto") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = theme;
    button.textContent = words[theme];
    view.set({});
  };
  button.addEventListener("click", () => {
    theme = order[(order.indexOf(theme) + 1) % order.length];
    try {
      localStorage.setItem("kilter-theme", theme);
    } catch {
      // Kept for this page only.
    }
    apply();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => view.set({}));
  addEventListener("beforeprint", () => {
    document.documentElement.dataset.theme = "light";
    view.set({});
  });
  addEventListener("afterprint", apply);
  apply();
}
