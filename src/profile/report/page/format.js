// Formats numbers as text, each with its unit. Independent of the reader's locale.

const kNone = "–";

function isNumber(value) {
  return typeof value === "number" && Number.isFinite(value);
}

/** `value` with a fixed number of decimals, or a dash if it is not a number. */
function fixed(value, decimals) {
  return isNumber(value) ? value.toFixed(decimals).replace(/^-(0(\.0*)?)$/, "$1") : kNone;
}

/** About `digits` significant digits, with at most `most` decimals. */
function significant(value, digits = 4, most = 4) {
  if (!isNumber(value)) return kNone;
  const magnitude = value === 0 ? 0 : Math.floor(Math.log10(Math.abs(value)));
  return fixed(value, Math.min(most, Math.max(0, digits - 1 - magnitude)));
}

function withUnit(text, unit) {
  return text === kNone ? kNone : `${text}\u00a0${unit}`;
}

function ms(value) {
  return withUnit(significant(value, Math.abs(value) < 1 ? 3 : 4), "ms");
}

/** A value that would round to zero is shown as less than the last decimal. */
function percent(value, decimals = 1) {
  const least = 10 ** -decimals;
  return withUnit(value > 0 && value < least / 2 ? `<${fixed(least, decimals)}` : fixed(value, decimals), "%");
}

/** 1500 "FLOP" becomes "1.50 kFLOP". Prefixes are powers of 1000. */
function si(value, unit, digits = 3) {
  if (!isNumber(value)) return kNone;
  const prefixes = ["", "k", "M", "G", "T", "P"];
  let scaled = value, i = 0;
  while (Math.abs(scaled) >= 999.5 && i + 1 < prefixes.length) scaled /= 1000, ++i;
  return withUnit(i === 0 && Number.isInteger(scaled) ? String(scaled) : significant(scaled, digits), prefixes[i] + unit);
}

function bytes(value) {
  return si(value, "B");
}

/** A multiple of `step`, with enough decimals to distinguish it from its neighbours. */
function tickText(value, step) {
  return fixed(value, Math.max(0, -Math.floor(Math.log10(step) + 1e-9)));
}

function plural(count, word, words = `${word}s`) {
  return `${count}\u00a0${count === 1 ? word : words}`;
}

/** Round steps (1, 2, 5 times a power of ten) that give at most `count` ticks over `range`. */
function niceStep(range, count) {
  const raw = Math.max(range, 1e-12) / Math.max(count, 1);
  const base = 10 ** Math.floor(Math.log10(raw));
  return base * [1, 2, 5, 10].find((factor) => factor * base >= raw * (1 - 1e-9));
}

/** Short text of a power of ten: 0.01, 1, 1000, 1e6. */
function powerText(exponent) {
  return exponent < -3 || exponent > 4 ? `1e${exponent}` : (10 ** exponent).toFixed(Math.max(0, -exponent));
}
