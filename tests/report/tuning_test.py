"""Opens the page of a tuning run in a headless browser without a network: content, keyboard, touch, layout, contrast, print.

usage: tuning_test.py --kilter PROGRAM --worst-case PROGRAM --out FOLDER    (screenshots go to FOLDER)
"""
import json
import pathlib
import subprocess
import sys

import page as pages
from page import PHONE, Page, check

SECTIONS = ["course", "trials", "time", "rows", "conditions"]
CHOICES = [f"input[name=over][value={over}]" for over in ("trials", "seconds")]


def by_share(page):
    tasks = page.data["tasks"]
    return sorted(range(len(tasks)), key=lambda i: -tasks[i]["share"])


def speed(of):
    """Returns the texts that the page shows for a speed: its GFLOP/s and its share of the bound."""
    parts = [f"{of['gflops']:.1f}\u00a0GFLOP/s"] if of["gflops"] is not None else []
    share = of["share_of_bound"]
    if share is not None:  # a bound that is clearly beaten is wrong
        parts.append("faster than its bound, which is therefore wrong" if share > 1.05 else f"{min(100 * share, 100):.0f}\u00a0% of its bound")
    return parts


def content(page):
    """Checks that the page shows what the JSON contains."""
    data = page.data
    check(page.js("return document.getElementById('model').textContent") == data["model"], "model name")
    said = page.js("return document.querySelector('#outcome .hero').textContent")
    ratio = float(page.js("return document.getElementById('change').dataset.ratio"))
    if "quiet" in data["conditions"]:
        green = page.js("return document.getElementById('change').className")
        check(data["conditions"]["quiet_text"] in said, f"whether the machine was quiet: {said}")
        check(data["conditions"]["quiet"] != "busy" or not green, "a figure of a busy machine is green")
    if data["same_plan"]:
        refused, unheld = data.get("refused"), data.get("unheld")
        why = f", so no plan is accepted: {unheld}." if unheld else f" is not accepted: {refused}." if refused else "the default plan stays"
        check(ratio == 1 and why in said, f"outcome: {said}")
    else:
        check(ratio == data["ratio"]["value"] and f"{data['ratio']['low']:.3f} to {data['ratio']['high']:.3f}" in said, f"outcome: {said}")
    graph = data.get("graph", {})
    if not data["same_plan"] and graph.get("rounds"):
        spread = page.js("return document.querySelector('#outcome .spread').textContent")
        check(f"graph-best over history-best: {graph['ratio']['value']:.3f} (" in spread, f"graph tuner: {spread}")
        check(("graph-best over the default: " in spread) == graph["won"], f"who won: {spread}")
        race = data["history_ratio"]
        interval = "" if race["low"] == race["high"] else " ("  # the default plan itself was history-best
        check(f"race of whole networks: {race['value']:.3f}{interval}" in spread, f"race: {spread}")
    cards = page.js("return [...document.querySelectorAll('#outcome .cards dd')].map((e) => e.textContent)")
    check(cards[0].startswith(f"{data['trials']}{data['trials_per_second']:.0f} a second; {data['failures']} failed"), f"trials: {cards[0]}")
    check(all(part in cards[2] for part in speed(data["before" if data["same_plan"] else "after"])), f"speed: {cards[2]}")
    check(data["same_plan"] or f"before: {', '.join(speed(data['before'])) or '–'}" in cards[2], f"speed: {cards[2]}")
    check(" in as much time again" in cards[3], f"left: {cards[3]}")
    settings = page.js("return document.getElementById('conditions').textContent")
    earlier = data.get("earlier_records", {"read": 0})
    check(earlier["read"] == 0 or f"{earlier['counted']} of {earlier['read']} count as trials" in settings, f"settings: {settings}")
    check(("no limit" in settings) == (data["settings"]["budget_seconds"] is None), f"settings: {settings}")
    check(data["stopped_because"] in cards[-1], f"why it ended: {cards[-1]}")
    check(page.js("return document.querySelectorAll('.empty').length") == 0, "no part says that it is empty")
    phases = page.js("return [...document.querySelectorAll('#time .legend bdi')].map((e) => e.textContent)")
    check(phases == [p["phase"] for p in data["phases"] if p["seconds"] > 0], f"phases {phases}")
    races = page.js("return document.querySelectorAll('#time tbody tr').length")
    check(races == len(data["trace"]["races"]), f"{races} races")
    bars = page.js("return [...document.querySelectorAll('.taskbars li')].map((e) => Number(e.dataset.task))")
    check(bars == by_share(page)[:len(bars)] and len(bars) == min(16, len(data["tasks"])), f"bars by share: {bars}")


def finding(page):
    """Checks the first sentence: the change with its interval, or why the default is kept."""
    page.open()
    data, said = page.data, page.js("return document.getElementById('finding').textContent")
    ratio, changed = data["ratio"], sum(task["schedule"] != task["default"] for task in data["tasks"])
    if not data["same_plan"]:
        word = "less time" if ratio["high"] < 1 else "more time" if ratio["low"] > 1 else "not certain"
        ends = (1 - ratio["high"], 1 - ratio["low"]) if ratio["high"] < 1 else (ratio["low"] - 1, ratio["high"] - 1)
        check(word in said and f"interval {100 * ends[0]:.1f} to" in said, f"first sentence: {said}")
        check(f"{changed} of {len(data['tasks'])}\u00a0task" in said, f"tasks that changed: {said}")
    undecided = data.get("undecided", "")
    check(undecided[1:] in said and bool(undecided) == ("End other programs and tune again" in said), f"undecided: {said}")
    check(("The machine was busy" in said) == (data["conditions"].get("quiet") == "busy" and not undecided), f"a busy machine: {said}")


def downloads(page):
    """Checks the files that the buttons save: the tasks as CSV without formulas, and the JSON of the run."""
    page.open()
    folder = pathlib.Path(page.path).parent / "saved-tuning"
    lines = pages.csv_lines(pages.saved(page, folder, "#rows .save"))
    check([int(line["task"]) for line in lines] == [page.data["tasks"][i]["task"] for i in by_share(page)], "tasks of the CSV")
    check(json.loads(pages.saved(page, folder, "#rows .save ~ .save"))["tasks"] == page.data["tasks"], "tasks of the JSON")


def table(page):
    """Checks that there is one line per task, longest total time first, with both schedules and both ratios."""
    lines = page.js("return [...document.querySelectorAll('.task-table tbody tr')].map((r) => [Number(r.id.slice(5)), r.textContent])")
    check([line[0] for line in lines] == by_share(page), "order of the tasks")
    for i, text in lines:
        task = page.data["tasks"][i]
        changed = task["schedule"] != task["default"]
        parts = [task["problem"], task["default"], f"{task['tried']} of {task['size']}", *speed(task["before"])]
        check(text.startswith(str(task["task"])), f"the number of task {task['task']}: {text[:30]}")
        if changed:
            parts += speed(task["after"]) + [f"was {part}" for part in speed(task["before"])[:1]]
            for ratio in (task["predicted"], task["in_network"]):
                parts += [f"{ratio['value']:.3f}", f"{ratio['low']:.3f} to {ratio['high']:.3f}"] if ratio["value"] is not None else []
            parts.append(task["schedule"])
        for part in parts:
            check(part in text, f"task {i} lacks {part[:60]!r}")


def course(page):
    """Checks the curve over seconds and over trials; gains are marks that the keyboard reaches and that lead to their task."""
    page.open()
    trace = page.data["trace"]
    batches = {(gain["trials"], gain["predicted_ms"]) for gain in trace["gains"]}
    marks = page.js("return document.querySelectorAll('#course circle.mark').length")
    check(marks == len(batches), f"{marks} marks for {len(batches)} batches with gains")
    line = "return document.querySelector('#course .best-line').getAttribute('d')"
    seconds = page.js(line)
    check(len(seconds.split("L")) == 2 * len(trace["points"]), "two corners a point")
    page.focus("input[name=over][value=seconds]")
    page.browser.press("Right")
    check(page.js(line) != seconds, "the arrow key chooses trials")
    check(page.js("return [...document.querySelectorAll('#course .axis.title')].some((e) => e.textContent === 'trials')"), "axis of trials")
    if not batches:
        return
    page.focus("#course circle.mark[tabindex='0']")
    tip = page.js("return document.getElementById('tip').hidden ? '' : document.getElementById('tip').innerText")
    place = next(i for i, task in enumerate(page.data["tasks"]) if task["task"] == trace["gains"][0]["task"])
    first = page.data["tasks"][place]["problem"].split("\n")[0][:30].strip()
    check(first in tip and ", ".join(speed(trace["gains"][0])) in tip.replace("\n", " ") and trace["gains"][0]["schedule"] in tip and "ms" in tip, f"tooltip of the first gain: {tip!r}")
    page.browser.press("Enter")
    check(page.js("return document.activeElement.id") == f"task-{place}", "Enter leads to the task")


def bars(page):
    """Checks that a bar shows its tooltip and leads to its task: by keyboard, and by a first and a second tap."""
    page.open()
    order = by_share(page)
    page.focus(".taskbars li[tabindex='0']")
    page.browser.press("Down")
    check(int(page.js("return document.activeElement.dataset.task")) == order[1], "the arrow key moves on")
    check("tried" in page.js("return document.getElementById('tip').innerText"), "tooltip of what has the focus")
    page.browser.press("Enter")
    check(page.js("return document.activeElement.id") == f"task-{order[1]}", "Enter leads to the task")
    page.open(PHONE)
    at = page.js("const e = document.querySelector('.taskbars li'); e.scrollIntoView({block: 'center'}); "
                 "const b = e.getBoundingClientRect(); return [b.left + b.width / 2, b.top + b.height / 2]")
    page.browser.settle()
    page.browser.tap(*at)
    page.browser.wait_for("return !document.getElementById('tip').hidden")  # the first tap shows the tooltip
    page.browser.tap(*at)
    page.browser.wait_for("return document.activeElement.id === arguments[0]", f"task-{order[0]}")  # the second leads to the task


def hostile(page):
    pages.hostile(page)
    words = page.js("return [...document.querySelectorAll('.task-table .problem')].map((e) => e.textContent)")
    check(words == [page.data["tasks"][i]["problem"] for i in by_share(page)], "problems as they are")


def empty(browser, path):
    """Checks that a run that was interrupted at once still gives a page that says so."""
    page = Page(browser, path, None)
    page.open()
    said = page.js("return [...document.querySelectorAll('.empty')].map((e) => e.textContent)")
    check(len(said) == 3 and not any("could not be drawn" in text for text in said), f"an empty run: {said}")
    page.quiet("empty")


def run(browser, args):
    subprocess.run([args.worst_case, str(args.out)], check=True)
    subprocess.run([args.kilter, "tune", "zoo:squeezenet1_1", "--input", "input=1x3x64x64", "--threads", "1", "--time", "60s", "--trials", "120",
                    "--records", "none", "--html", str(args.out / "tuned.html"), "--json", str(args.out / "tuned.json")],
                   check=True, stdout=subprocess.DEVNULL)
    checks = 0
    for name in ("tuned", "worst-tuning"):
        with open(args.out / f"{name}.json", encoding="utf-8") as file:
            page = Page(browser, str(args.out / f"{name}.html"), json.load(file))
        page.open()
        for part in (content, finding, table, course, bars, downloads, pages.theme, hostile):
            part(page)
            page.quiet(f"{name}: {part.__name__}")
        pages.tab_order(page, SECTIONS)
        pages.looks(page, args.out, CHOICES)
        pages.printing(page, args.out, ["nav", "#theme", ".choice"])
        page.quiet(f"{name}: printing")
        checks += 11
    with open(args.out / "undecided-tuning.json", encoding="utf-8") as file:
        page = Page(browser, str(args.out / "undecided-tuning.html"), json.load(file))
    finding(page)
    page.quiet("undecided")
    empty(browser, str(args.out / "empty-tuning.html"))
    return checks + 2


def arguments(parser):
    parser.add_argument("--kilter", required=True)
    parser.add_argument("--worst-case", required=True)


if __name__ == "__main__":
    sys.exit(pages.main(__doc__, run, arguments))
