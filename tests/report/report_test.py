"""Opens Kilter's HTML report in a headless browser without a network: content, keyboard, touch, layout, contrast, print.

usage: report_test.py --kilter PROGRAM --worst-case PROGRAM --out FOLDER    (screenshots go to FOLDER)
"""
import json
import pathlib
import subprocess
import sys

import page as pages
from page import PHONE, check

SECTIONS = ["summary", "explain", "colours", "treemap", "roofline", "graph", "timeline", "rows"]
# A script that opens hidden parts for the check of contrast, and the radio buttons that choose what colours show.
OPEN = "document.querySelector('#row-table .name button')?.click(); document.querySelector('.chooser summary')?.click()"
COLOURS = [f"input[name=colour][value={mode}]" for mode in ("operator", "time", "share")]  # the page begins with the last


class Page(pages.Page):
    def row_ids(self):
        return self.js("return [...document.querySelectorAll('#row-table tbody tr[data-row]')].map((r) => Number(r.dataset.row))")


def content(page):
    """Checks that the page shows what the JSON contains."""
    data = page.data
    check(page.js("return document.getElementById('model').textContent") == data["model"], "model name")
    check(page.row_ids() == list(range(len(data["rows"]))), "rows in the order of the JSON")
    for label, field in [("kernels", "kernels_ms"), ("barriers", "barriers_ms"), ("gaps", "gaps_ms"), ("Sum", "sum_ms"),
                         ("residual", "residual_ms"), ("Total", "total_ms"), ("End to end", "end_to_end_ms")]:
        shown = page.js("const line = [...document.querySelectorAll('.ledger tr')].find((r) => r.querySelector('th').textContent === "
                        "arguments[0]); const cell = line.querySelector('td'); return [cell.textContent, Number(cell.dataset.ms)]", label)
        check(shown[1] == data[field], f"{label}: {shown[1]} shown, {data[field]} in the JSON")
        check(abs(float(shown[0].split("\u00a0")[0]) - data[field]) <= 5.1e-5 and shown[0].endswith("ms"), f"{label}: {shown[0]}")
    texts = page.js("return [...document.querySelectorAll('#row-table tbody td.time')].map((c) => c.textContent)")
    check(abs(sum(map(float, texts)) - sum(row["duration_ms"] for row in data["rows"])) < 1e-4 * len(texts), "times of the table add up")
    foot = page.js("return document.querySelector('#row-table tfoot td.time').textContent")
    check(abs(float(foot) - data["sum_ms"]) < 1e-4, f"the table's sum {foot}, the JSON's {data['sum_ms']}")
    names = page.js("return [...document.querySelectorAll('#row-table th.name bdi')].map((c) => c.textContent)")
    check(names == [row["name"] for row in data["rows"]], "names in the table")
    points = page.js("return [...document.querySelectorAll('#roofline circle')].map((c) => Number(c.dataset.row))")
    worked = [i for i, row in enumerate(data["rows"]) if row["kind"] != "gap" and row["flops"] and row["bytes"] and row["gflops"]]
    check(sorted(points) == worked, f"{len(points)} points in the roofline, {len(worked)} rows with work")
    cells = page.js("return [...document.querySelectorAll('#treemap .mark')].map((c) => [Number(c.dataset.row), "
                    "c.querySelector('rect').getBBox()]).map(([row, box]) => [row, box.width * box.height])")
    check(sorted(c[0] for c in cells) == [i for i, row in enumerate(data["rows"]) if row["duration_ms"] > 0], "cells of the treemap")
    largest = max(cells, key=lambda cell: cell[1])
    slowest = max(row["duration_ms"] for row in data["rows"])
    check(data["rows"][largest[0]]["duration_ms"] > 0.8 * slowest, "the largest cell is of the slowest rows")
    buffers = page.js("return document.querySelectorAll('#memory .mark').length")
    check(buffers == len(data["memory"]["arena"]), "buffers of the arena")
    check(page.js("return document.querySelectorAll('.empty').length") == 0, "no part says that it is empty")


def explain(page):
    """Checks that the texts of `explain` are shown if and only if the profile contains them."""
    page.open()
    said = page.data.get("explain")
    check(page.js("return document.getElementById('explain').checkVisibility()") == bool(said), "section of explain")
    if not said:
        return
    text = page.js("return document.getElementById('explain').textContent")
    for entry in said["findings"]:
        evidence = entry["evidence"] if isinstance(entry["evidence"], list) else [entry["evidence"]]
        for part in (entry["cause"], entry["advice"], entry["action"], *evidence):
            check(part in text, f"explain lacks {part[:60]!r}")
    links = page.js("return [...document.querySelectorAll('.finding h3 a')].map((a) => a.getAttribute('href'))")
    rows = {row["step"]: i for i, row in reversed(list(enumerate(page.data["rows"]))) if row["kind"] != "gap"}
    check(links == [f"#row-{rows[e['step']]}" for e in said["findings"] if e["step"] in rows], f"links to rows: {links}")
    gains = page.js("return [...document.querySelectorAll('.gain')].map((e) => e.textContent)")
    for entry, gain in zip(said["findings"], gains, strict=True):
        if entry["kind"] == "first":
            check(gain.startswith("comes first"), f"what comes first: {gain}")
            continue
        if entry["kind"] == "fact":
            none = "no significant gain" if entry["how"] == "measured" else "at most " if entry["gain_ms"] > 0 else ""
            check(gain.startswith(none) and gain[:1] not in "+\u2212", f"what nothing can be done about: {gain}")
        else:
            check(gain[0] == ("+" if entry["gain_ms"] < 0 else "\u2212"), f"gain: {gain}")
        check(entry["how"] in gain, f"gain: {gain}")
        if "gain_percent_interval" in entry:
            low, high = entry["gain_percent_interval"]
            check(gain.endswith(f"{entry['how']}, {low:.1f} to {high:.1f}\u00a0%"), f"how the gain is known: {gain}")
    sections(page, said)
    if "against" in said:
        rows = page.js("return [...document.querySelectorAll('#explain tbody tr')].map((r) => r.querySelector('bdi').textContent)")
        check(rows[0] == "behind most", f"layers against another runtime: {rows}")


def sections(page, said):
    """Checks that findings without a remedy, and those that change results, are listed separately and without green gains."""
    trades = [e for e in said["findings"] if e["kind"] == "trade"]
    facts = [e for e in said["findings"] if e["kind"] == "fact"]
    expected = (["What would be faster and changes the results"] if trades else []) + (["What else takes time"] if facts else [])
    headings = page.js("return [...document.querySelectorAll('#explain h3.part')].map((e) => e.textContent)")
    check(headings == expected, f"sections: {headings}, expected {expected}")
    lists = page.js("return [...document.querySelectorAll('#explain .findings')].map((e) => e.children.length)")
    expected = [n for n in (len(said["findings"]) - len(trades) - len(facts), len(trades), len(facts)) if n]
    check(lists == expected, f"findings by section: {lists}, expected {expected}")
    green = page.js("const good = getComputedStyle(document.documentElement).getPropertyValue('--good').trim();"
                    "const probe = document.body.appendChild(document.createElement('i')); probe.style.color = good;"
                    "const colour = getComputedStyle(probe).color; probe.remove();"
                    "return [...document.querySelectorAll('.gain b')].map((e) => getComputedStyle(e).color === colour)")
    check(green == [e["kind"] == "action" for e in said["findings"]], f"green gains: {green}")
    check(not said.get("withheld") or said["withheld"] in page.js("return document.getElementById('explain').textContent"), "what is withheld")


def finding(page):
    """Checks the first sentence: which threads took no part, or otherwise how long threads waited, the slowest layers,
    and whether the machine was busy."""
    page.open()
    data, said = page.data, page.js("return document.getElementById('finding').textContent")
    all_ms = sum(data["threads"] * row["duration_ms"] for row in data["rows"])
    busy = sum(row["duration_ms"] if row["kind"] == "gap" else min(sum(row["busy_ms"]), data["threads"] * row["duration_ms"]) for row in data["rows"])
    waits, absent = 100 * (1 - busy / all_ms), data["conditions"].get("absent_threads")
    check(not absent or said.startswith(f"{absent}. "), f"absent threads: {said}")
    check(("waited for each other" in said) == (waits >= 15 and not absent), f"threads waited {waits} %: {said}")
    check(absent or waits < 15 or f"{waits:.0f}\u00a0% of their time" in said, f"threads waited {waits} %: {said}")
    layers = {}
    for row in data["rows"]:
        if row["kind"] != "gap":
            name = row.get("layer") or row["name"]
            layers[name] = layers.get(name, 0) + 100 * row["duration_ms"] / data["sum_ms"]
    slowest = sorted(layers, key=layers.get, reverse=True)
    alone = f"{slowest[0]} alone takes {layers[slowest[0]]:.0f}\u00a0% of the time"
    five = f"slowest 5 of {len(layers)} take {sum(layers[name] for name in slowest[:5]):.0f}\u00a0% of the time"
    check((alone if layers[slowest[0]] >= 10 else five) in said, f"the slowest layers: {said}")
    check(("The machine was busy" in said) == (data["conditions"].get("quiet") == "busy"), f"a busy machine: {said}")
    actions = [e for e in data.get("explain", {}).get("findings", []) if e["kind"] in ("first", "action") and " --input-b " not in e.get("action", "")]
    if actions:
        advice = "Measure again" if actions[0]["kind"] == "first" else f"{actions[0]['gain_percent']:.1f}\u00a0% of the run"
        check(advice in said, f"the first advice: {said}")


def colours(page):
    """Checks that colours show the share of the bound at first, with a legend at the charts, and operators on demand."""
    page.open()
    shares = "return [...document.querySelectorAll('#treemap .mark')].every((e) => /\\bs(\\d|none)\\b/.test(e.className.baseVal))"
    check(page.js(shares) and page.js("return document.querySelector('input[name=colour]:checked').value") == "share", "share of the bound first")
    row = next(i for i, row in enumerate(page.data["rows"]) if row["bound"]["kind"] != "none" and row["duration_ms"] > 0)
    limit = sum(100 * page.data["rows"][row]["share_of_bound"] >= limit for limit in (20, 40, 60, 80))
    check(page.js("return document.querySelector(`#treemap [data-row='${arguments[0]}']`).classList.contains(arguments[1])", row, f"s{limit}"), "the class of a share")
    legend = "return ['treemap', 'timeline'].map((id) => document.querySelector(`#${id} .key`).textContent)"
    check(all("of the bound:" in text and "no bound known" in text for text in page.js(legend)), f"legends: {page.js(legend)}")
    page.focus(COLOURS[2])
    page.browser.press("Down")
    check(not page.js(shares) and all("of the time:" in text for text in page.js(legend)), f"times on demand: {page.js(legend)}")
    slowest = max(range(len(page.data["rows"])), key=lambda i: page.data["rows"][i]["percent"])
    check(page.js("return document.querySelector(`#treemap [data-row='${arguments[0]}']`).classList.contains('t4')", slowest), "the class of the slowest row")
    page.browser.press("Down")
    check(not page.js(shares) and not any("of the" in text for text in page.js(legend)), "operators on demand")


def roofline(page):
    """Checks that the five longest points have names that do not overlap, and that points with little time do not
    stretch the axis."""
    page.open()
    points = page.js("return [...document.querySelectorAll('#roofline circle')].map((c) => Number(c.dataset.row))")
    slowest = sorted(points, key=lambda i: -page.data["rows"][i]["duration_ms"])[:5]
    names = page.js("return [...document.querySelectorAll('.point-name')].map((e) => { const b = e.getBBox(); return [Number(e.dataset.of), b.x, b.y, b.width, b.height]; })")
    check([name[0] for name in names] == slowest, f"names of {[name[0] for name in names]}, the longest are {slowest}")
    for i, a in enumerate(names):
        for b in names[:i]:
            apart = a[1] + a[3] <= b[1] or b[1] + b[3] <= a[1] or a[2] + a[4] <= b[2] + 4 or b[2] + b[4] <= a[2] + 4
            check(apart, f"names overlap: {a} and {b}")
    spots = page.js("const f = document.querySelector('#roofline svg').getBoundingClientRect(); return [...document.querySelectorAll('#roofline circle')]"
                    ".map((c) => [Number(c.dataset.row), Number(c.getAttribute('cx')), f.width])")
    check(all(49 <= x <= width - 9 for _, x, width in spots), "all points are inside the frame")
    total = sum(page.data["rows"][i]["duration_ms"] for i in points)
    at_edge = sum(page.data["rows"][i]["duration_ms"] for i, x, _ in spots if x <= 50)
    check(at_edge <= 0.01 * total, f"points at the edge take {at_edge} of {total} ms")


# The layout of the page's network, or of `count` layers in a chain with some edges past others, at several widths: the
# number of nodes and edges, pairs of boxes that overlap, edges that do not lead down or to a later column, and the time.
LAYOUT = """
const [count] = arguments, began = performance.now();
const nodes = count ? Array.from({length: count}, (_, i) => ({reads: [i - 1, i % 7 === 6 ? i - 5 : i - 1, i % 100 === 99 ? i - 90 : i - 1]
  .filter((from, at, all) => from >= 0 && all.indexOf(from) === at)})) : graphNodes(profile.rows);
const layout = layoutOf(nodes), found = {nodes: nodes.length, edges: 0, overlaps: 0, upwards: 0, outside: 0};
for (const width of [250, 1200, 6000]) {
  const size = layout.fold({width, height: 600}), byTop = new Map();
  for (const place of layout.rows.flat()) {
    found.outside += place.left < 0 || place.left + place.width > size.width || place.top < 0 || place.top + kBoxHeight > size.height;
    byTop.set(place.top, [...(byTop.get(place.top) || []), place]);
  }
  for (const line of byTop.values()) {
    line.sort((a, b) => a.left - b.left).forEach((place, i) => found.overlaps += i > 0 && line[i - 1].left + line[i - 1].width > place.left);
  }
  const tops = [...byTop.keys()].sort((a, b) => a - b);
  tops.forEach((top, i) => found.overlaps += i > 0 && tops[i - 1] + kBoxHeight > top);
  nodes.forEach((node, to) => node.reads.forEach((from) => {
    const [a, b] = [from, to].map((at) => layout.chains[at][0]);
    found.edges += 1;
    found.upwards += !(a.column === b.column ? a.top + kBoxHeight < b.top : a.column.left < b.column.left);
  }));
}
return [found, performance.now() - began];
"""


def graph(page):
    """Checks the picture of the network: its boxes and edges, the layout's properties, keyboard, selection and zoom."""
    page.open()
    rows = page.data["rows"]
    layers = list(dict.fromkeys(row["layer"] or row["name"] for row in rows if row["kind"] not in ("gap", "halo")))
    check(page.js("return graphNodes(profile.rows).filter((node) => node.row).map((node) => node.name)") == layers, "a box for every layer")
    edges = page.js("return graphNodes(profile.rows).flatMap((node, _, all) => node.reads.map((from) => [all[from].name, node.name]))")
    for row in rows:
        for from_ in (rows[i] for i in row["reads"] if "squeezenet" in page.data["model"] and rows[i]["kind"] != "halo"):
            check(from_["layer"] == row["layer"] or [from_["layer"], row["layer"]] in edges, f"{row['name']} reads {from_['name']}")
    check(all([name, rows[0]["layer"]] in edges for name in rows[0]["reads_inputs"]) and len(edges) >= len(layers) - 10, f"{len(edges)} edges")
    for count in (0, 1, 1500):
        found, took = page.js(LAYOUT, count)
        check(found["overlaps"] == found["upwards"] == found["outside"] == 0 and found["nodes"] == (count or found["nodes"]), f"layout of {count}: {found}")
        check(took < 3000, f"the layout of {count} layers took {took} ms")
    page.focus("#graph .mark[tabindex='0']")
    page.browser.press("Right", "Right", " ")
    chosen = int(page.js("return document.activeElement.dataset.row"))
    same = [i for i, row in enumerate(rows) if row["layer"] == rows[chosen]["layer"]]
    marks = page.js("return ['#graph', '#row-table'].map((p) => [...document.querySelectorAll(`${p} .chosen[data-row]`)].map((e) => Number(e.dataset.row)))")
    check(marks[0] == [chosen] and sorted(marks[1]) == same, f"selected in the graph: {marks}, expected {chosen} and {same}")
    wires = page.js("return document.querySelectorAll('#graph .wire.chosen').length")
    check(wires == sum(rows[chosen]["layer"] in edge for edge in edges), f"{wires} edges of the selected layer")
    last = page.js("const marks = document.querySelectorAll('#graph .mark'); selectRow(Number(marks[marks.length - 1].dataset.row)); "
                   "const b = marks[marks.length - 1].getBoundingClientRect(), p = document.querySelector('.graph').getBoundingClientRect(); "
                   "return [b.left >= p.left, b.right <= p.right + 1, b.top >= p.top, b.bottom <= p.bottom + 1]")
    check(all(last), f"a layer selected elsewhere comes into sight: {last}")
    size = "const s = document.querySelector('#graph .graph svg').getBoundingClientRect(), p = document.querySelector('.graph'); return [s.width, s.height, p.clientWidth, p.clientHeight]"
    before = page.js(size)
    page.browser.press("+")
    check(page.js(size)[0] > before[0], "the key + zooms")
    page.browser.press("0")
    whole = page.js(size)
    check(whole[0] <= whole[2] + 1 and (whole[1] <= whole[3] + 1 or whole[1] < 0.06 * before[1]), f"the whole graph: {whole}")
    page.browser.press("Escape")
    check(page.js("return document.querySelector('#graph .chosen')") is None, "Escape clears")


def names(page):
    """Checks that shortened names keep what tells layers apart: both ends, without parts of paths that all share."""
    page.open()
    short = page.js("commonParts.clear(); learnNames(Array.from({length: 20}, (_, i) => `/m/encoder/layer.${i}/output/MatMul`)); "
                    "return arguments[0].map(shortName)", ["/m/encoder/layer.7/output/MatMul", "/features/features.7/features.7.1/block/block.3/Conv", "a/b", ""])
    check(short == ["layer.7", "features.7.1/block.3/Conv", "a/b", ""], f"short names: {short}")
    texts = page.js("return [40, 80, 2].map((width) => fitText('fire8.expand3x3.and.more', width, kFont))")
    check(texts[2] == "" and all(text.startswith("fi") and text.endswith("e") and "\u2026" in text for text in texts[:2]), f"fitted names: {texts}")
    few = page.js("return [44, 74, 110].map((width) => fitName('layer2.0.conv1', width))")
    check(few == ["l2.0.c1", "lay2.0.con1", "layer2.0.conv1"], f"names in little room: {few}")
    check(page.js("return fitName('layer.11/output/dense', 66)") == "layer.11\u2026", "the first part of a path stays whole")


def selection(page):
    """Checks that a layer selected in one chart, by keyboard or mouse, is highlighted in all, and that Escape clears it."""
    chosen = "return ['#treemap', '#roofline', '#row-table'].map((p) => [...document.querySelectorAll(`${p} .chosen`)].map((e) => Number(e.dataset.row)).sort())"
    image = "return document.querySelector('#timeline canvas').toDataURL()"
    rows, bar = page.data["rows"], "return document.querySelector('.selection').innerText"
    page.open()
    plain = page.js(image)
    page.focus("#treemap .mark[tabindex='0']")
    page.browser.press(" ")
    slowest = int(page.js("return document.activeElement.dataset.row"))
    same = sorted((i for i, row in enumerate(rows) if i == slowest or row.get("layer") and row["layer"] == rows[slowest].get("layer")), key=str)
    marks = page.js(chosen)
    check(all(slowest in found and set(found) <= set(same) for found in marks) and marks[2] == same, f"selected in the treemap: {marks}, expected {same}")
    check(page.js(image) != plain, "the timeline shows the selection")
    check(page.js("return location.hash") == "" and rows[slowest]["name"].split("\n")[0][:12] in page.js(bar), "the space bar stays, and a bar names the layer")
    page.browser.press("Escape")
    check(page.js(chosen) == [[], [], []] and page.js("return document.querySelector('.selection').hidden"), "Escape clears")
    at = page.js("const cell = document.querySelector('#row-table tr[data-row=\"1\"] td.time'); cell.scrollIntoView({block: 'center'}); "
                 "const b = cell.getBoundingClientRect(); return [b.left + b.width / 2, b.top + b.height / 2]")
    for kind in ("mousePressed", "mouseReleased"):
        page.browser.mouse(kind, *at, button="left", clickCount=1)
    check(page.js(chosen)[0] == [1] or rows[1]["duration_ms"] == 0, f"selected in the table: {page.js(chosen)}")
    whole = next(i for i, row in enumerate(rows) if row.get("layer") and sum(other.get("layer") == row["layer"] for other in rows) > 1)
    page.focus(f"#line-{whole} button")
    page.browser.press("Enter")
    expected = sorted((i for i, row in enumerate(rows) if row.get("layer") == rows[whole]["layer"]), key=str)
    check(page.js(chosen)[2] == expected, f"the rows of one layer are selected together: {page.js(chosen)[2]}, expected {expected}")
    page.focus("#timeline canvas")
    page.browser.press("Right", " ")
    said = page.js("return document.querySelector('#timeline .said').textContent")
    first = page.js(chosen)[2]
    check(first and first != [1] and said.startswith(rows[first[0]]["name"][:8]), f"selected in the timeline: {first}, {said!r}")
    page.browser.press("Enter")
    page.browser.settle()
    check(page.js("return location.hash").startswith("#row-"), "Enter opens the row")
    page.browser.press("Escape")
    check(page.js("return location.hash") == "" and page.js(chosen) == [[], [], []], "Escape also clears the address")


def downloads(page):
    """Checks the files that the buttons save: the rows as CSV without formulas, and the JSON of the profile."""
    page.open()
    folder = pathlib.Path(page.path).parent / "saved"
    lines = pages.csv_lines(pages.saved(page, folder, "#rows .save"))
    rows = page.data["rows"]
    check(len(lines) == len(rows) and all(abs(float(line["Time, ms"]) - row["duration_ms"]) < 1e-9 for line, row in zip(lines, rows)), "rows of the CSV")
    for line, row in zip(lines, rows):
        check(not row["name"].isprintable() or line["Layer"].removeprefix("'") == row["name"], f"a name in the CSV: {line['Layer'][:60]!r}")
    data = json.loads(pages.saved(page, folder, "#rows .save ~ .save"))
    check(data["rows"] == rows and data["model"] == page.data["model"], "rows of the JSON")
    check(len(data["timeline"]) == len(page.data["timeline"]) and set(data["timeline"][0]) == {"row", "thread", "begin_us", "end_us"}, "timeline of the JSON")


def other(page, name, text):
    """Chooses a file as the profile to compare with. Returns what the page then says about the file."""
    page.js("const files = new DataTransfer(), input = document.getElementById('other'); files.items.add(new File([arguments[1]], arguments[0])); "
            "document.querySelector('#compare .status').textContent = ''; input.files = files.files; input.dispatchEvent(new Event('change'))", name, text)
    return page.browser.wait_for("return document.querySelector('#compare .status').textContent")


def compare(page):
    """Checks the comparison with another profile, from JSON and from a page, and with files that are not profiles."""
    page.open()
    twin = json.loads(json.dumps(page.data))
    slowest = max((i for i, row in enumerate(twin["rows"]) if row["kind"] != "gap"), key=lambda i: twin["rows"][i]["duration_ms"])
    twin["rows"][slowest]["duration_ms"] *= 3
    twin["end_to_end_ms"] *= 2
    twin["conditions"]["target"] = "<b>another</b>"
    for row in twin["rows"]:  # as older versions wrote it
        del row["reads"], row["reads_inputs"]
    said = other(page, "<i>b.json", json.dumps(twin))
    lead, unlike, largest, lines = page.js("return [...['.lead', '.quiet', 'tbody tr'].map((s) => document.querySelector(`.compared ${s}`).textContent), "
                                           "document.querySelectorAll('.compared tbody tr').length]")
    check("<i>b.json" in said and "50.0\u00a0% less" in lead, f"compared: {said} {lead}")
    check("<b>another</b> there" in unlike, f"other conditions: {unlike}")
    row = page.data["rows"][slowest]
    layers = {row.get("layer") or row["name"] for row in page.data["rows"] if row["kind"] != "gap"}
    check(largest.startswith(row.get("layer") or row["name"]) and "\u2212" in largest and lines == len(layers), f"the largest difference: {largest[:80]}")
    page.js("document.getElementById('compare').scrollIntoView()")
    check(page.js(pages.STICKS_OUT) == [], "the comparison sticks out")
    with open(page.path, encoding="utf-8") as file:
        other(page, "a.html", file.read())
    check("no difference" in page.js("return document.querySelector('.compared .lead').textContent"), "the page compared with itself")
    for text in ("{}", "not JSON", "null", '{"rows": [{"name": 1}]}'):
        check("is not a profile" in other(page, "c.json", text) and not page.js("return document.querySelector('.compared').children.length"), f"no profile: {text}")


def ticks(page):
    """Checks that a tick next to the figure says whether the machine was quiet; on a busy one, no tick is green."""
    quiet = page.data["conditions"].get("quiet")
    note = page.js("return document.querySelector('.hero .quiet')?.textContent")
    signs = page.js("return [...document.querySelectorAll('.checks li')].map((e) => [e.className, e.querySelector('.sign').textContent])")
    if quiet is None:
        check(note is None and len(signs) == 3, f"ticks of an unknown machine: {note} {signs}")
        return
    check(page.data["conditions"]["quiet_text"] in note, f"next to the figure: {note}")
    check(len(signs) == 4 and (signs[0] == ["good", "\u2713"]) == (quiet in ("quiet", "slightly disturbed")), f"the tick of the machine: {signs}")
    if quiet == "busy":
        check(signs == [["warn", "!"]] * 4, f"a busy machine wears green ticks: {signs}")
        figure = page.js("return document.getElementById('end-to-end').textContent")
        check(" to " in figure or page.data["conditions"]["best_ms"] >= page.data["end_to_end_ms"], f"the figure of a busy machine: {figure}")
    beaten = [i for i, row in enumerate(page.data["rows"]) if row.get("beats_bound")]
    said = page.js("return document.getElementById('row-table').textContent")
    check(not beaten or ("beats " in said and "170\u00a0%" not in said), "a bound that is beaten is no share")


def tuning(page):
    """Checks that the pages of both commands show the possible gain of tuning."""
    page.open()
    text = page.js("const s = document.getElementById('tuning'); return s.checkVisibility() ? s.textContent : ''")
    for part in [*page.data["tuning"]["lines"], page.data["tuning"]["action"]]:
        check(part in text, f"the outlook lacks {part[:60]!r}")


def sorting(page):
    """Checks sorting from the keyboard, and that it is announced to screen readers."""
    page.focus("th[data-key=time] button")
    for expected, sign in (("descending", -1), ("ascending", 1)):
        page.browser.press("Enter")
        sort, active = page.js("return [document.querySelector('th[data-key=time]').getAttribute('aria-sort'), "
                               "document.activeElement.closest('th')?.dataset.key]")
        check(sort == expected and active == "time", f"aria-sort {sort}, focus on {active}")
        times = [page.data["rows"][i]["duration_ms"] for i in page.row_ids()]
        check(times == sorted(times, key=lambda t: sign * t), f"rows {expected} by time")
    check(page.js("return document.querySelectorAll('[aria-sort]').length") == 1, "one column is sorted")
    page.focus("th[data-key=order] button")
    page.browser.press(" ")
    check(page.row_ids() == list(range(len(page.data["rows"]))), "back in the order of running")


def filtering(page):
    rows = page.data["rows"]
    page.focus("#filter")
    page.browser.press(*"conv2d")
    matching = [i for i, row in enumerate(rows) if "conv2d" in f"{row['name']} {row['problem']} {row['schedule']}".lower()]
    check(0 < len(matching) < len(rows) or all("conv2d" in row["problem"] for row in rows), "the filter has something to do")
    check(page.row_ids() == matching, f"filter: {len(page.row_ids())} rows, expected {len(matching)}")
    status = page.js("return document.querySelector('#rows .status').textContent")
    check(status.startswith(f"{len(matching)} of {len(rows)}\u00a0rows"), f"status: {status}")
    foot = float(page.js("return document.querySelector('#row-table tfoot td.time').textContent"))
    check(abs(foot - sum(rows[i]["duration_ms"] for i in matching)) < 1e-4, "sum of the rows that pass")
    page.browser.press(*"nonsense")
    check(page.row_ids() == [] and page.js("return document.querySelector('#row-table .empty') !== null"), "no row matches")
    page.browser.press("Tab", "Enter")  # the button Clear
    check(len(page.row_ids()) == len(rows), "cleared")
    kind = rows[0]["kind"]
    page.focus(f"input[name=kind][value='{kind}']")
    page.browser.press(" ")
    check(page.row_ids() == [i for i, row in enumerate(rows) if row["kind"] == kind], f"only {kind}")
    page.browser.press(" ")


def opening(page):
    """Checks that a row expands to its problem, schedule and layouts, and that columns can be chosen."""
    chosen = next(i for i, row in enumerate(page.data["rows"]) if row["problem"] and row["layouts"])
    row = page.data["rows"][chosen]
    page.focus(f"#line-{chosen} button")
    page.browser.press("Enter")
    text = page.js("return document.getElementById(`detail-${arguments[0]}`).textContent", chosen)
    layer = next((entry for entry in page.data.get("explain", {}).get("layers", []) if entry["row"] == chosen), None)
    found = [entry[key] for part, key in (("causes", "cause"), ("runners_up", "schedule"), ("rejected", "check"))
             for entry in layer[part][:1]] + [layer.get("approximates", "")] if layer else []
    for part in [row["problem"], row["schedule"], row["layouts"]["source"], row["layouts"]["destination"], row["hash"], *found, row["record"] or "the default of the analytic model"]:
        check(part in text, f"opened row lacks {part}")
    check(page.js("return document.activeElement.getAttribute('aria-expanded')") == "true", "said to be open")
    page.browser.press("Enter")
    check(page.js("return document.querySelector('.detail') === null"), "closed again")
    page.focus(".chooser summary")
    page.browser.press("Enter")
    page.focus("input[name=column][value=barrier]")
    page.browser.press(" ")
    check(page.js("return document.querySelectorAll('#row-table tbody td.barrier').length") == len(page.data["rows"]), "column chosen")
    page.browser.press(" ")
    check(page.js("return document.querySelector('#row-table td.barrier') === null"), "column gone")


def charts(page):
    """Checks charts by keyboard and mouse: moving between marks, their tooltips, and their links to the table."""
    page.open()
    slowest = max(range(len(page.data["rows"])), key=lambda i: page.data["rows"][i]["duration_ms"])
    page.focus("#treemap .mark[tabindex='0']")
    check(int(page.js("return document.activeElement.dataset.row")) == slowest, "the slowest row is the treemap's first stop")
    check("ms" in page.js("return document.activeElement.getAttribute('aria-label')"), "label with its time")
    page.browser.press("Right")
    second = page.js("return document.activeElement.dataset.row")
    check(int(second) != slowest, "the arrow key moves on")
    tip = page.js("return document.getElementById('tip').hidden ? '' : document.getElementById('tip').innerText")
    check("ms" in tip and "%" in tip, f"tooltip of what has the focus: {tip!r}")
    page.browser.press("Enter")
    page.browser.settle()
    check(page.js("return [location.hash, document.activeElement.closest('tr')?.id]") == [f"#row-{second}", f"line-{second}"], "Enter opens the row")
    top = page.js("const b = document.activeElement.getBoundingClientRect(); return b.top > 0 && b.bottom < innerHeight")
    check(top, "the row is in sight")
    page.browser.call("/url", {"url": "about:blank"})
    page.browser.call("/url", {"url": f"file://{page.path}#row-{slowest}"})
    page.browser.settle()
    seen = page.js("const b = document.getElementById(`line-${arguments[0]}`).getBoundingClientRect(), "
                   "head = document.querySelector('#row-table thead').getBoundingClientRect(); "
                   "return [b.top >= head.bottom - 1, b.bottom < innerHeight, document.activeElement.closest('tr')?.id]", slowest)
    check(seen == [True, True, f"line-{slowest}"], f"an address with a row opens there, not behind the head: {seen}")
    page.js("document.querySelector('#roofline').scrollIntoView()")
    page.browser.settle()
    at = page.js("const c = document.querySelector('#roofline circle:last-of-type').getBoundingClientRect(); "
                 "return [c.left + c.width / 2, c.top + c.height / 2, document.querySelector('#roofline circle:last-of-type').dataset.row]")
    page.browser.mouse("mouseMoved", at[0], at[1])
    tip = page.js("return document.getElementById('tip').hidden ? '' : document.getElementById('tip').innerText")
    check("FLOP/byte" in tip and "GFLOP/s" in tip, f"tooltip under the mouse: {tip!r}")
    for selected in (True, False):
        for kind in ("mousePressed", "mouseReleased"):
            page.browser.mouse(kind, at[0], at[1], button="left", clickCount=1)
        page.browser.settle()
        check(not selected or page.js("return location.hash") != f"#row-{at[2]}", "the first click only selects")
    check(page.js("return document.activeElement.closest('tr')?.id") == f"line-{at[2]}", "a second click on a point leads to its row")


def timeline(page):
    page.open()
    image = "return document.querySelector('#timeline canvas').toDataURL().length + document.querySelector('#timeline canvas').toDataURL().slice(-4000)"
    whole = page.js(image)
    page.focus("#timeline canvas")
    page.browser.press("Right", "Right", "+", "+", "Down")
    zoomed, said = page.js(image), page.js("return document.querySelector('#timeline .said').textContent")
    check(whole != zoomed, "the keys zoom")
    check(" on thread " in said and "ms" in said, f"what is chosen is said: {said!r}")
    page.browser.press("Shift+Right")
    check(page.js(image) != zoomed, "Shift and an arrow move")
    page.browser.press("0")
    reset = page.js(image)
    page.js("document.querySelector('#timeline').scrollIntoView()")
    box = page.js("const b = document.querySelector('#timeline canvas').getBoundingClientRect(); return [b.left + b.width / 2, b.top + 40]")
    page.browser.mouse("mouseWheel", *box, deltaX=0, deltaY=-300, modifiers=2)
    page.browser.settle()
    wheeled = page.js(image)
    check(wheeled != reset, "Ctrl and the wheel zoom")
    page.browser.mouse("mousePressed", *box, button="left", clickCount=1)
    page.browser.mouse("mouseMoved", box[0] - 200, box[1], button="left", buttons=1)
    page.browser.mouse("mouseReleased", box[0] - 200, box[1], button="left", clickCount=1)
    page.browser.settle()
    check(page.js(image) != wheeled, "dragging moves")
    scroll = page.js("return scrollY")
    page.browser.mouse("mouseWheel", *box, deltaX=0, deltaY=200)
    page.browser.wait_for("return scrollY !== arguments[0]", scroll)  # the wheel without Ctrl scrolls the page
    page.browser.settle()


def touch(page):
    """Checks that the first tap on a mark shows its tooltip and the second opens its row."""
    page.open(PHONE)
    check(page.js("return innerWidth") == PHONE[0], "the page is as wide as the phone")
    at = page.js("const cell = document.querySelector('#treemap .mark[tabindex=\"0\"]'); cell.scrollIntoView({block: 'center'}); "
                 "const b = cell.getBoundingClientRect(); return [b.left + b.width / 2, b.top + b.height / 2, cell.dataset.row]")
    page.browser.settle()
    page.browser.tap(at[0], at[1])
    page.browser.wait_for("return !document.getElementById('tip').hidden")  # the first tap shows the tooltip
    check(page.js("return location.hash") == "", "the first tap opens nothing")
    page.browser.tap(at[0], at[1])
    page.browser.wait_for("return location.hash === arguments[0]", f"#row-{at[2]}")  # the second opens the row


def hostile(page):
    """Checks that names are shown as text and create no elements or scripts."""
    pages.hostile(page)
    for i, row in enumerate(page.data["rows"]):
        if "<" in row["name"]:
            label = page.js("return document.querySelector(`#treemap [data-row='${arguments[0]}']`)?.getAttribute('aria-label')", i)
            check(label is None or label.startswith(row["name"]), f"label of row {i}: {label}")


def empty(browser, path):
    """Checks that a profile without rows still gives a page that says so."""
    page = Page(browser, path, None)
    page.open()
    said = page.js("return [...document.querySelectorAll('.empty')].map((e) => e.textContent)")
    check(page.js("return document.getElementById('graph').hidden"), "no graph without edges")
    check(len(said) == 5 and not any("could not be drawn" in text for text in said), f"an empty profile: {said}")
    page.quiet("empty")


def tab_order(page):
    pages.tab_order(page, SECTIONS)


def make(args):
    """Writes the reports that are checked."""
    def kilter(*words):
        subprocess.run([args.kilter, *words], check=True, stdout=subprocess.DEVNULL)
    subprocess.run([args.worst_case, str(args.out)], check=True)
    kilter("profile", "zoo:squeezenet1_1", "--seconds", "0.3", "--html", str(args.out / "squeezenet.html"), "--json",
           str(args.out / "squeezenet.json"))
    # A reference kernel gives explain something to report.
    kilter("explain", "zoo:squeezenet1_1", "--seconds", "1", "--schedule", "conv1=reference", "--html",
           str(args.out / "explained.html"), "--json", str(args.out / "explained.json"))


def run(browser, args):
    make(args)
    checks = 0
    reports = {}
    for name in ("squeezenet", "explained", "worst"):
        with open(args.out / f"{name}.json", encoding="utf-8") as file:
            reports[name] = Page(browser, str(args.out / f"{name}.html"), json.load(file))
    for name, page in reports.items():
        page.open()
        for part in (content, finding, ticks, explain, colours, roofline, graph, names, selection, downloads, compare, tuning, sorting, filtering, opening, tab_order, charts, timeline, touch, pages.theme, hostile):
            part(page)
            page.quiet(f"{name}: {part.__name__}")
            checks += 1
        pages.looks(page, args.out, COLOURS, OPEN)
        pages.printing(page, args.out, ["nav", "#theme", ".tools"])
        page.quiet(f"{name}: printing")
        checks += 2
    empty(browser, str(args.out / "empty.html"))
    return checks + 1


def arguments(parser):
    parser.add_argument("--kilter", required=True)
    parser.add_argument("--worst-case", required=True)


if __name__ == "__main__":
    sys.exit(pages.main(__doc__, run, arguments))
