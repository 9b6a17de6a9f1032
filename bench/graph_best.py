#!/usr/bin/env python3
"""Compares graph-best with history-best on networks: the graph tuner's choices, the time that it takes, and the race's result.

usage: bench/graph_best.py [--kilter PROGRAM] [--records FILE] [--threads N] [--measure S] [--race S] [--compare S] [--restarts N]
                           [--models models] [--json FILE] [NETWORK ...]
  NETWORK is a name in the speed set, or a model for `kilter graph-tune`: zoo:resnet18, model.onnx (default: the speed set).
  FILE has records from `kilter tune --records FILE`, or is the folder where bench/tuned.py keeps those of each network.

Everything runs on a copy of the records without the accepted plans next to them, so these stay unchanged and the race is
against history-best. If the graph tuner chooses another plan, its own race found that plan faster. Both plans are then compiled
and started --restarts times (--compare seconds in total); the ratio of their times, with its interval over these processes, decides.
The table has both ratios. If the graph tuner chooses history-best, the two are one plan, which is not timed.
Exit codes: 0 done, 1 a chosen plan is slower than history-best (interval's lower end of the speed-up below 0.98 or
upper end below 1), 2 usage or a network that does not run; the others still have their rows.
"""
import json
import os
import pathlib
import shutil
import statistics
import sys
import tempfile
import time

import networks
import peers
import tuned


def copied(options, network, folder):
    """Copies a network's records, with the known layout changes and without accepted plans. "none" stays "none"."""
    if options.records == "none":
        return "none"
    file = pathlib.Path(options.records)
    if options.records == "default":
        file = pathlib.Path(os.environ.get("XDG_DATA_HOME") or pathlib.Path.home() / ".local/share") / "kilter" / "records.db"
    if file.is_dir():
        file = tuned.records_of(options, network, options.threads)
    if not file.exists():
        raise RuntimeError(f"--records {options.records}: {file} is missing; `kilter tune --records FILE` creates one")
    for part in file.parent.iterdir():
        if part.name.startswith(file.name) and not part.name.endswith(".plans.jsonl"):
            shutil.copy(part, folder)
    return folder / file.name


def common_of(options, network):
    """Returns the arguments that every command of Kilter gets for a network."""
    known = network in networks.SPEED_SET
    shapes = networks.input_options(networks.SHAPES.get(network, {})) if known else []
    return [networks.path_of(network, options.models) if known else network, "--threads", options.threads, *shapes]


def choose(options, common, records, *more):
    start = time.monotonic()
    said = peers.kilter(options, "graph-tune", *common, "--records", records, "--json", "-", *more)
    return json.loads(said) | {"wall_seconds": time.monotonic() - start}


def measure(options, network, folder):
    """Returns the tuner's choice from records alone, its choice with measuring, and their comparison; None if it is history-best."""
    common, records, plan = common_of(options, network), copied(options, network, folder), folder / "best.plan"
    alone = choose(options, common, records, "--no-run")
    r = choose(options, common, records, "--measure", options.measure, "--race", options.race, "--write-plan", plan)
    if not r["won"]:
        return alone, r, None
    history = [*common, *(["--records", records, "--choose", "history-best"] if records != "none" else [])]
    return alone, r, peers.restarted_ratio(options, folder, options.threads, history, [*common, "--layer-plan", plan])


def parsed():
    parser = peers.Parser(__doc__)
    parser.add_argument("networks", nargs="*", metavar="NETWORK", default=networks.SPEED_SET)
    parser.add_argument("--kilter", default="build/kilter")
    parser.add_argument("--records", default="default")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--measure", default="8")
    parser.add_argument("--race", default="10")
    parser.add_argument("--compare", type=float, default=15)
    parser.add_argument("--restarts", type=int, default=5)
    parser.add_argument("--models", default="models")
    parser.add_argument("--json")
    options = parser.parse_args()
    peers.check_comparison(options)
    peers.check_program(options)
    return options


def print_row(network, records, r, ratio):
    d = r["differences"]
    race = "the same plan" if r["same_plan"] else peers.ratio_text(r["ratio"], 4)
    print(f"| {network} | {r['layers']}, {r['alternatives']}, {r['edges']} | {r['how']}"
          f"{', exact' if r['exact'] else ''} | {r['solve_ms']:.1f} | {records['wall_seconds']:.1f} "
          f"| {r['wall_seconds']:.1f} | {d['schedules']}, {d['threads']}, {d['layouts']}, {d['fusions']} | {race} "
          f"| {peers.ratio_text(ratio, 4) if ratio else '1, not timed'} |", flush=True)


def print_table(options):
    """Prints the table. Returns the rows and the exit code."""
    rows, code = {}, 0
    print("| network | layers, alternatives, edges | solved by | ms | from records alone, s | with measuring, s "
          "| differs in schedules, threads, layouts, fusions | its race (95 %) | graph-best / history-best after it (95 %) |")
    print("|---|---|---|---|---|---|---|---|---|")
    for network in options.networks:
        try:
            with tempfile.TemporaryDirectory() as made:
                records, r, ratio = measure(options, network, pathlib.Path(made))
        except (RuntimeError, ValueError) as error:
            print(f"| {network} | failed: {error} |", flush=True)
            code = 2
            continue
        rows[network] = {"records": records, "measured": r, "ratio": ratio}
        print_row(network, records, r, ratio)
        if ratio is not None and peers.is_slower(ratio):
            code = max(code, 1)
    if rows:
        gains = [row["ratio"]["value"] if row["ratio"] else 1.0 for row in rows.values()]
        print(f"| geometric mean | | | | | | | | {statistics.geometric_mean(gains):.4f} |")
    return rows, code


def main():
    options = parsed()
    rows, code = print_table(options)
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(rows, indent=1), encoding="utf-8")
    sys.exit(code)


if __name__ == "__main__":
    main()
