#!/usr/bin/env python3
"""graph-best against history-best on networks: what the graph tuner chooses, how long it takes, what the race says.

usage: bench/graph_best.py [--kilter PROGRAM] [--records FILE] [--threads N] [--measure S] [--race S] [--compare S] [--json FILE] NETWORK...
  networks as `kilter graph-tune` takes them: zoo:resnet18, model.onnx; records of `kilter tune --records FILE`

Where the graph tuner takes another plan than history-best, its own race said that it is faster; so both are compiled and
compared once more (`kilter compare`), and that ratio judges. Where it takes history-best the two are one plan, which is not timed.
Exit codes: 0 done, 1 a plan that was taken is slower than history-best (interval's lower end of the speed-up below 0.98 or upper
end below 1), 2 usage or a network that does not run.
"""
import argparse
import json
import pathlib
import statistics
import sys
import tempfile
import time

import peers


def choose(options, network, *more):
    start = time.monotonic()
    said = peers.kilter(options, "graph-tune", network, "--threads", options.threads, "--records", options.records, "--json", "-", *more)
    return json.loads(said) | {"wall_seconds": time.monotonic() - start}


def compare(options, network, plan, folder):
    """The plan over history-best, as files that run in turns: value, low, high."""
    ours, history = folder / "graph_best.kilter", folder / "history_best.kilter"
    peers.kilter(options, "compile", network, "--threads", options.threads, "--layer-plan", plan, "-o", ours)
    peers.kilter(options, "compile", network, "--threads", options.threads, "--records", options.records, "--choose", "history-best", "-o", history)
    said = peers.kilter(options, "compare", history, ours, "--threads", options.threads, "--seconds", options.compare, "--half-width", 0.2, "--json", "-")
    return json.loads(said)["ratio"]


def measure(options, network):
    """What the tuner chooses from records alone, what with measuring, and how that compares; None where it is history-best."""
    with tempfile.TemporaryDirectory() as made:
        folder = pathlib.Path(made)
        plan = folder / "best.plan"
        records = choose(options, network, "--no-run")
        r = choose(options, network, "--measure", options.measure, "--race", options.race, "--write-plan", plan)
        return records, r, compare(options, network, plan, folder) if r["won"] else None


def interval(ratio):
    return f"{ratio['value']:.4f} ({ratio['low']:.4f} to {ratio['high']:.4f})"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("networks", nargs="+")
    parser.add_argument("--kilter", default="build/kilter")
    parser.add_argument("--records", default="default")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--measure", default="8")
    parser.add_argument("--race", default="10")
    parser.add_argument("--compare", default="10")
    parser.add_argument("--json")
    options = parser.parse_args()
    rows, slower = {}, False
    print("| network | layers, alternatives, edges | solved by | ms | from records alone, s | with measuring, s "
          "| differs in schedules, threads, layouts, fusions | race | graph-best / history-best |")
    print("|---|---|---|---|---|---|---|---|---|")
    for network in options.networks:
        try:
            records, r, ratio = measure(options, network)
        except RuntimeError as error:
            print(f"graph_best.py: {network}: {error}", file=sys.stderr)
            sys.exit(2)
        rows[network] = {"records": records, "measured": r, "ratio": ratio}
        d = r["differences"]
        race = "the same plan" if r["same_plan"] else interval(r["ratio"])
        print(f"| {network} | {r['layers']}, {r['alternatives']}, {r['edges']} | {r['how']}"
              f"{', exact' if r['exact'] else ''} | {r['solve_ms']:.1f} | {records['wall_seconds']:.1f} "
              f"| {r['wall_seconds']:.1f} | {d['schedules']}, {d['threads']}, {d['layouts']}, {d['fusions']} | {race} "
              f"| {interval(ratio) if ratio else '1, not taken'} |", flush=True)
        slower = slower or (ratio is not None and peers.is_slower(ratio))
    gains = [row["ratio"]["value"] if row["ratio"] else 1.0 for row in rows.values()]
    print(f"| geometric mean | | | | | | | | {statistics.geometric_mean(gains):.4f} |")
    if options.json:
        with open(options.json, "w", encoding="utf-8") as out:
            json.dump(rows, out, indent=1)
    sys.exit(1 if slower else 0)


if __name__ == "__main__":
    main()
