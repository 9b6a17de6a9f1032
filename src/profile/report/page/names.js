// Names of layers in little room.

const kFont = "11px system-ui, sans-serif";

/**
 * A name without the folders that the next part of its path repeats, as exporters write them:
 * "/features/features.7/features.7.1/block/block.3/Conv" becomes "features.7.1/block.3/Conv".
 */
function shortName(name) {
  const parts = name.split("/").filter(Boolean);
  if (parts.length < 3) return name;
  return parts.filter((part, i) => i + 1 === parts.length || !`${parts[i + 1]}.`.startsWith(`${part}.`)).join("/");
}

/** Shortens the text to a width in pixels. Names differ at both ends, so the middle is left out; "" if hardly any is left. */
const fitText = (() => {
  const context = document.createElement("canvas").getContext("2d");
  const cut = (text, kept) => `${text.slice(0, kept >> 1)}…${text.slice(text.length - kept + (kept >> 1))}`;
  return (text, width, font) => {
    context.font = font;
    if (context.measureText(text).width <= width) return text;
    let low = 0, high = Math.min(text.length - 1, 200);
    while (low < high) {
      const middle = Math.ceil((low + high) / 2);
      if (context.measureText(cut(text, middle)).width <= width) low = middle;
      else high = middle - 1;
    }
    return low < 5 ? "" : cut(text, low);
  };
})();
