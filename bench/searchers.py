#!/usr/bin/env python3
"""Draws the curves of `kilter searchers --json`: all of them as one HTML page, or the mean over all tasks as one SVG picture.

usage: bench/searchers.py CURVES.json PAGE.html|PICTURE.svg
  kilter searchers bench/searchers/*.jsonl --json curves.json && bench/searchers.py curves.json searchers.html
Exit codes: 0 done, 2 usage or a file that is not the JSON of `kilter searchers`.
"""
import html
import json
import math
import sys

COLOURS = {"model": "#0b6e4f", "xgb": "#1f5fbf", "xgb-rank": "#6a8fd8", "ga": "#c2571a", "random": "#7a7a7a",
           "grid": "#b8a200", "exhaustive": "#222222"}
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 400, 230, 46, 12, 10, 34
LEGEND = 22
STYLE = "svg text { font-size: 11px; fill: #444; } .grid { stroke: #ddd; }"


def mean_rows(tasks, name, kind):
    """Returns the mean over tasks at each point of a curve. A task that is fully searched keeps its final value."""
    curves = [next(s[kind] for s in t["searchers"] if s["searcher"] == name) for t in tasks]
    xs = sorted({row[0] for c in curves for row in c})
    def at(curve, x):
        best = curve[0]
        for row in curve:
            if row[0] <= x:
                best = row
        return best
    return [[x] + [sum(at(c, x)[k] for c in curves) / len(curves) for k in range(1, 5)] for x in xs]


def picture(curves, label):
    """Draws regret in percent over a logarithmic axis. The band is the middle half of the seeds."""
    xs = [row[0] for rows in curves.values() for row in rows]
    low, high = min(xs), max(xs)
    top = max(0.1, max(100 * row[4] for rows in curves.values() for row in rows))
    def x(v):
        return LEFT + (WIDTH - LEFT - RIGHT) * (math.log(v / low) / max(math.log(high / low), 1e-9))
    def y(v):
        return TOP + (HEIGHT - TOP - BOTTOM) * (1 - min(max(v, 0), top) / top)
    out = [f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" role="img" '
           f'aria-label="regret over {html.escape(label)}">']
    for i in range(5):
        v = top * i / 4
        out.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y(v):.1f}" y2="{y(v):.1f}" class="grid"/>'
                   f'<text x="{LEFT - 5}" y="{y(v) + 4:.1f}" text-anchor="end">{v:.{1 if top >= 2 else 2}f}</text>')
    tick = 10 ** math.floor(math.log10(low))
    while tick <= high * 1.001:
        for v in (tick, 2 * tick, 5 * tick):
            if low * 0.999 <= v <= high * 1.001:
                out.append(f'<text x="{x(v):.1f}" y="{HEIGHT - BOTTOM + 15}" text-anchor="middle">{v:g}</text>')
        tick *= 10
    out.append(f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 4}" text-anchor="middle">{html.escape(label)}</text>')
    for name, rows in curves.items():
        colour = COLOURS.get(name, "#444444")
        upper = " ".join(f"{x(r[0]):.1f},{y(100 * r[4]):.1f}" for r in rows)
        lower = " ".join(f"{x(r[0]):.1f},{y(100 * r[2]):.1f}" for r in reversed(rows))
        line = " ".join(f"{x(r[0]):.1f},{y(100 * r[1]):.1f}" for r in rows)
        out.append(f'<polygon points="{upper} {lower}" fill="{colour}" opacity="0.12"/>'
                   f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="1.8"/>')
    return "".join(out) + "</svg>"


def means_of(tasks, names):
    """Draws the curves of the mean over all tasks, by trials and by seconds."""
    return [{n: mean_rows(tasks, n, kind) for n in names} for kind in ("by_trials", "by_seconds")]


def names_of(data):
    return [s["searcher"] for s in data["tasks"][0]["searchers"]]


def svg(data):
    """Draws the mean over all tasks with a legend, as a separate picture."""
    names = names_of(data)
    parts, x = [], LEFT
    for n in names:
        parts.append(f'<text x="{x}" y="15" style="fill:{COLOURS.get(n, "#444444")}">&#9632; {html.escape(n)}</text>')
        x += 30 + 7 * len(n)
    for i, (curves, label) in enumerate(zip(means_of(data["tasks"], names), ("trials", "seconds"))):
        parts.append(picture(curves, label).replace("<svg ", f'<svg x="{i * WIDTH}" y="{LEGEND}" ', 1))
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {2 * WIDTH} {HEIGHT + LEGEND}" width="{2 * WIDTH}" height="{HEIGHT + LEGEND}" '
            f'font-family="system-ui, sans-serif"><title>Mean regret in percent of {len(data["tasks"])} tasks over trials and seconds</title>'
            f'<style>{STYLE}</style><rect width="100%" height="100%" fill="#fff"/>{"".join(parts)}</svg>\n')


def section(title, note, by_trials, by_seconds):
    return (f"<section><h2>{html.escape(title)}</h2><p>{html.escape(note)}</p>"
            f"<div>{picture(by_trials, 'trials')}{picture(by_seconds, 'seconds')}</div></section>")


def page(data):
    tasks = data["tasks"]
    names = names_of(data)
    parts = []
    if len(tasks) > 1:
        parts.append(section(f"All {len(tasks)} tasks, mean", "", *means_of(tasks, names)))
    for t in tasks:
        curves = [{s["searcher"]: s[kind] for s in t["searchers"]} for kind in ("by_trials", "by_seconds")]
        note = f'{t["points"]} points; optimum {t["optimum"]:.3f} of the time of the default; {t["conditions"]}'
        parts.append(section(t["problem"], note, *curves))
    legend = " ".join(f'<span style="color:{COLOURS.get(n, "#444444")}">&#9632; {html.escape(n)}</span>' for n in names)
    thinking = "counts" if data["thinking_counts"] else "does not count"
    return f"""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>Searchers compared</title><style>
body {{ font: 14px/1.45 system-ui, sans-serif; margin: 24px auto; max-width: 860px; color: #222; }}
h1 {{ font-size: 22px; }} h2 {{ font-size: 15px; margin-bottom: 2px; }} p {{ margin: 2px 0 6px; color: #555; }}
{STYLE}
</style></head><body><h1>Searchers compared</h1>
<p>Regret in percent: how much longer the best so far takes than the best of all points; lines are means of {data["seeds"]}
seeds, bands their middle half. Time is what each trial took when the table was measured; the time of the searcher itself
{thinking}. {html.escape(data["program"])}</p><p>{legend}</p>{"".join(parts)}</body></html>
"""


def main():
    if len(sys.argv) != 3:
        print(__doc__, file=sys.stderr)
        return 2
    try:
        with open(sys.argv[1], encoding="utf-8") as f:
            data = json.load(f)
        text = svg(data) if sys.argv[2].endswith(".svg") else page(data)
    except (OSError, ValueError, KeyError, IndexError) as error:
        print(f"searchers.py: {sys.argv[1]}: expected what `kilter searchers --json` writes: {error!r}", file=sys.stderr)
        return 2
    with open(sys.argv[2], "w", encoding="utf-8") as f:
        f.write(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
