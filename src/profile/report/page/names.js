// Short forms of the names of layers.

const kFont = "11px system-ui, sans-serif";

const kFewNames = 8;              // with at most this many names, no part counts as common
const commonParts = new Set();  // parts of paths that carry no information, because most names have them

/** Learns from all names of the page which parts of their paths most of them share. */
function learnNames(names) {
  const counts = new Map();
  for (const name of names) new Set(name.split("/")).forEach((part) => counts.set(part, (counts.get(part) || 0) + 1));
  if (names.length > kFewNames) counts.forEach((count, part) => 2 * count > names.length && commonParts.add(part));
}

/**
 * A path without the parts that the next part repeats, as exporters write them, and without the parts at its ends that most
 * names share: "/features/features.7/features.7.1/block/block.3/Conv" becomes "features.7.1/block.3".
 */
function shortName(name) {
  const parts = name.split("/").filter(Boolean);
  if (parts.length < 3) return name;
  const own = parts.filter((part, i) => i + 1 === parts.length || !`${parts[i + 1]}.`.startsWith(`${part}.`));
  while (own.length > 1 && commonParts.has(own[0])) own.shift();
  while (own.length > 1 && commonParts.has(own[own.length - 1])) own.pop();
  return own.join("/");
}

/** The width of a text in pixels. */
const textWidth = (() => {
  const context = document.createElement("canvas").getContext("2d");
  return (text, font = kFont) => {
    context.font = font;
    return context.measureText(text).width;
  };
})();

/** Shortens the text to a width in pixels. Names differ at both ends, so the middle is left out; "" if hardly any is left. */
const fitText = (() => {
  const cut = (text, kept) => {
    const head = Math.round(0.65 * kept);  // the beginning contains the number of the block
    return `${text.slice(0, head)}…${text.slice(text.length - kept + head)}`;
  };
  return (text, width, font) => {
    if (textWidth(text, font) <= width) return text;
    let low = 0, high = Math.min(text.length - 1, 200);
    while (low < high) {
      const middle = Math.ceil((low + high) / 2);
      if (textWidth(cut(text, middle), font) <= width) low = middle;
      else high = middle - 1;
    }
    return low < 5 ? "" : cut(text, low);
  };
})();

const kShortCut = 12;  // with fewer characters than this, shortened names cannot be distinguished

/** Shortens the name of a layer to a width. The first part of a path is not shortened if it fits: it contains the number of the block.
 * In very little space, words lose their ends before the name loses its middle: "layer2.0.conv1" becomes "l2.0.c1". */
function fitName(name, width, font = kFont) {
  const short = shortName(name), text = fitText(short, width, font), slash = short.indexOf("/");
  const first = `${short.slice(0, slash)}…`;
  if (text !== short && text.length < kShortCut && /\d/.test(short)) {
    const initials = [3, 1].map((kept) => short.replace(/[A-Za-z]+/g, (word) => word.slice(0, kept))).find((words) => textWidth(words, font) <= width);
    if (initials && slash < 1) return initials;
  }
  if (slash < 1 || text.startsWith(short.slice(0, slash))) return text;
  return fitText(first, width, font) === first ? first : text;
}
