"""Checks in a browser for every HTML page of Kilter: layout, contrast, keyboard, theme, print, names shown as text."""
import argparse
import base64
import csv
import io
import pathlib
import re
import shutil
import time

from browser import Browser

LAPTOP, PHONE = (1280, 800), (375, 812)

# Every visible text with its contrast to the background (WCAG 2.2, relative luminance), the worst first.
CONTRAST = """
const parse = (text) => { const c = (text.match(/[\\d.]+/g) || [0, 0, 0, 0]).map(Number); return c.length < 4 ? [...c.slice(0, 3), 1] : c; };
const over = (top, under) => [0, 1, 2].map((i) => top[i] * top[3] + under[i] * (1 - top[3])).concat(1);
const luminance = (c) => { const [r, g, b] = c.map((v) => v / 255).map((v) => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
const behind = (element) => {
  const layers = [];
  for (let e = element; e; e = e.parentElement) {
    const own = e.matches('g.mark') && e.querySelector(':scope > rect');
    layers.push(parse(own ? getComputedStyle(own).fill : getComputedStyle(e).backgroundColor));
    if (layers[layers.length - 1][3] === 1) break;
  }
  return layers.reverse().reduce((under, top) => over(top, under), [255, 255, 255, 1]);
};
const found = [];
const walker = document.createTreeWalker(document.querySelector(arguments[0]), NodeFilter.SHOW_TEXT);
for (let node; (node = walker.nextNode());) {
  const element = node.parentElement;
  if (!node.data.trim() || /SCRIPT|STYLE/.test(element.tagName) || !element.checkVisibility() || element.closest('.faded, .sr, .skip')) continue;
  const style = getComputedStyle(element), ink = parse(element.closest('svg') ? style.fill : style.color), ground = behind(element);
  const a = luminance(over(ink, ground)), b = luminance(ground);
  found.push([(Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05), node.data.trim().slice(0, 40), ink.join(), ground.join()]);
}
found.sort((x, y) => x[0] - y[0]);
return {count: found.length, worst: found.slice(0, 5)};
"""

# The number of colours in a downscaled PNG (base64), and the share of the most common one.
COLOURS = """
const done = arguments[arguments.length - 1], image = new Image();
image.onload = () => {
  const canvas = document.createElement('canvas');
  canvas.width = 200;
  canvas.height = Math.min(1500, Math.round(200 * image.height / image.width));
  const context = canvas.getContext('2d');
  context.drawImage(image, 0, 0, canvas.width, canvas.height);
  const counts = new Map(), {data} = context.getImageData(0, 0, canvas.width, canvas.height);
  for (let i = 0; i < data.length; i += 4) { const key = data[i] << 16 | data[i + 1] << 8 | data[i + 2]; counts.set(key, (counts.get(key) || 0) + 1); }
  done([counts.size, Math.max(...counts.values()) / (data.length / 4)]);
};
image.src = 'data:image/png;base64,' + arguments[0];
"""

# Elements that extend beyond the right edge of the page and are not inside a scrolling box.
STICKS_OUT = """
return [...document.querySelectorAll('body *')].filter((e) => !e.closest('.scroll, nav, .sr, svg') && e.checkVisibility() &&
  e.getBoundingClientRect().right > innerWidth + 0.5).map((e) => e.tagName + '.' + e.className).slice(0, 5);
"""


def check(condition, message):
    if not condition:
        raise AssertionError(message)


class Page:
    """One page in the browser, with the JSON from which it was written."""

    def __init__(self, browser, path, data):
        self.browser, self.path, self.data = browser, path, data

    def open(self, size=LAPTOP, dark=False):
        self.browser.screen(*size, dark=dark, phone=size == PHONE)
        self.browser.open(self.path)

    def js(self, script, *args):
        return self.browser.js(script, *args)

    def quiet(self, where):
        """Checks that the console is empty, and that nothing except the file itself was requested."""
        words = [entry["message"] for entry in self.browser.logs("browser")]
        check(not words, f"{where}: console: {words[:3]}")
        asked = [url for url in self.browser.requests() if url.split("#")[0] != f"file://{self.path}" and not url.startswith(("data:", "about:", "blob:"))]
        check(not asked, f"{where}: requests: {[url[:80] for url in asked[:3]]}")

    def focus(self, selector):
        self.js("document.querySelector(arguments[0]).focus()", selector)


def tab_order(page, sections):
    """Checks that Tab moves through the page in the order of `sections` (ids), and that the focus is visible."""
    page.open()
    page.browser.press("Tab")
    place = page.js("const b = document.activeElement.getBoundingClientRect(); return [document.activeElement.className, b.top, b.left]")
    check(place[0] == "skip" and place[1] >= 0 and place[2] >= 0, f"the skip link comes first and into sight: {place}")
    page.browser.press("Enter")
    check(page.js("return document.activeElement.id") == "main", "the skip link leads to the figures")
    page.open()
    page.js("window.visited = []")
    for _ in range(40):
        page.browser.press("Tab")
        seen = page.js("""const e = document.activeElement, s = getComputedStyle(e), last = visited[visited.length - 1];
          const mark = e.matches('.mark') ? (e.querySelector('rect') || e) : null;
          const ring = mark ? parseFloat(getComputedStyle(mark).strokeWidth) >= 2 : s.outlineStyle !== 'none' && parseFloat(s.outlineWidth) >= 2;
          const ordered = !last || Boolean(last.compareDocumentPosition(e) & Node.DOCUMENT_POSITION_FOLLOWING);
          visited.push(e);
          return [e.tagName, ring, ordered, e.textContent.slice(0, 30), document.body === e];""")
        if seen[4]:
            break
        check(seen[1], f"focus cannot be seen on {seen}")
        check(seen[2], f"focus goes back at {seen}")
    order = page.js("return visited.map((e) => e.closest('section')?.id).filter((id, i, all) => id && id !== all[i - 1])")
    check(order[:5] == [s for s in sections if s in order][:5], f"order {order}")


def theme(page):
    """Checks that the button cycles through the system's theme, light and dark, and that nothing moves if the user prefers reduced motion."""
    page.open()
    colours = {}
    for word in ("light", "dark", "auto"):
        page.focus("#theme")
        page.browser.press("Enter")
        check(page.js("return document.getElementById('theme').textContent") == f"Theme: {word}", f"theme {word}")
        colours[word] = page.js("return getComputedStyle(document.body).backgroundColor")
    check(colours["light"] == colours["auto"] != colours["dark"], f"colours {colours}")
    motion = [page.browser.media(still=still) or page.js("return getComputedStyle(document.documentElement).scrollBehavior")
              for still in (True, False)]
    check(motion == ["auto", "smooth"], f"motion {motion}")


def looks(page, folder, choices, opened=""):
    """Checks layout, contrast and pictures at both sizes in both colour schemes. Contrast is checked after the script
    `opened` has opened hidden parts, once for each radio button of `choices` (selectors)."""
    pictures, name = [], pathlib.Path(page.path).stem
    for size, device in ((LAPTOP, "laptop"), (PHONE, "phone")):
        for dark in (False, True):
            page.open(size, dark)
            where = f"{name} {device} {'dark' if dark else 'light'}"
            width = page.js("return [document.documentElement.scrollWidth, innerWidth]")
            check(width == [size[0], size[0]], f"{where}: the page is {width[0]} wide in a window of {width[1]}")
            check(page.js(STICKS_OUT) == [], f"{where}: sticks out: {page.js(STICKS_OUT)}")
            page.quiet(where)
            file = folder / f"{name}-{device}-{'dark' if dark else 'light'}.png"
            pictures.append((where, page.browser.screenshot(file, scale=0.5 if size == PHONE else 1)))
            page.js(opened)
            for choice in choices:
                page.js("document.querySelector(arguments[0]).click()", choice)
                seen = page.js(CONTRAST, "body")
                check(seen["count"] > 100 and seen["worst"][0][0] >= 4.5, f"{where}: contrast by {choice}: {seen}")
            check(page.js("return document.documentElement.scrollWidth") == size[0], f"{where}: opened, the page is wider than its window")
    page.browser.call("/url", {"url": "about:blank"})
    for where, picture in pictures:
        colours, commonest = page.browser.call("/execute/async", {"script": COLOURS, "args": [picture]})
        check(colours > 300 and commonest < 0.9, f"{where}: the picture has {colours} colours, {commonest:.0%} of it is one")


def printing(page, folder, hidden):
    """Checks that the printed page shows whole tables and none of the elements in `hidden` (selectors)."""
    page.open(dark=True)
    pdf = base64.b64decode(page.browser.devtools("Page.printToPDF", printBackground=True, paperWidth=8.27, paperHeight=11.69)["data"])
    (folder / f"{pathlib.Path(page.path).stem}.pdf").write_bytes(pdf)
    check(pdf.startswith(b"%PDF") and pdf.count(b"/Type /Page\n") >= 2, f"{len(pdf)} bytes of PDF")
    page.browser.devtools("Emulation.setEmulatedMedia", media="print")
    gone = page.js("return arguments[0].every((s) => !document.querySelector(s).checkVisibility())", hidden)
    clipped = page.js("const b = document.querySelector('.scroll.rows'); return b.scrollHeight > b.clientHeight + 1")
    page.browser.devtools("Emulation.setEmulatedMedia", media="")
    check(gone and not clipped, "on paper there are no buttons, and the whole table")


def hostile(page):
    """Checks that names are shown as text and create no elements or scripts."""
    page.open()
    check("owned" not in page.js("return document.title").replace(page.data["model"], ""), "a planted script ran")
    check(page.js("return document.scripts.length") == 2 and page.js("return document.images.length") == 0, "planted elements")
    check(page.js("return [...document.querySelectorAll('a')].every((a) => a.getAttribute('href').startsWith('#'))"), "links leave the page")


def saved(page, folder, button):
    """Presses a button (a selector) and returns the text of the file that the browser then saves."""
    folder.mkdir(exist_ok=True)
    for old in folder.iterdir():
        old.unlink()
    page.browser.devtools("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(folder))
    page.focus(button)
    page.browser.press("Enter")
    end = time.monotonic() + 20
    # The file has its name before it has its content.
    while not (files := [f for f in folder.iterdir() if f.suffix in (".csv", ".json") and f.stat().st_size > 0]):
        check(time.monotonic() < end, f"{button} saves nothing")
        time.sleep(0.02)
    size = -1
    while size != (size := files[0].stat().st_size):
        time.sleep(0.1)
    return files[0].read_bytes().decode("utf-8")


def csv_lines(text):
    """Returns the lines of a CSV file as dictionaries. Checks that no cell can be taken for a formula."""
    lines = list(csv.DictReader(io.StringIO(text, newline="")))
    for cell in (cell for line in lines for cell in line.values()):
        check(not cell or cell[0] not in "=+-@" or re.fullmatch(r"-?[0-9.]+(e[+-]?[0-9]+)?", cell), f"a formula: {cell[:40]!r}")
        check(cell.isprintable(), f"control characters: {cell[:40]!r}")
    return lines


def main(description, run, add_arguments):
    """Parses arguments, starts a browser without a network, and calls run(browser, args), which returns the number of its checks."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--out", required=True, type=lambda text: pathlib.Path(text).resolve())
    add_arguments(parser)
    args = parser.parse_args()
    missing = [name for name in ("chromium", "chromedriver") if shutil.which(name) is None]
    if missing:
        print(f"skipped: {' and '.join(missing)} not found (Debian: apt install chromium chromium-driver)")
        return 77
    args.out.mkdir(parents=True, exist_ok=True)
    start = time.monotonic()
    with Browser() as browser:
        browser.go_offline()
        checks = run(browser, args)
    print(f"{checks} parts passed in {time.monotonic() - start:.0f} s; pictures in {args.out}")
    return 0
