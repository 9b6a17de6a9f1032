#!/usr/bin/env python3
"""A few minutes of `kilter tune` against the best plan known: how much of its speed they reach; prints one table.

usage: best_plan.py [--kilter build/kilter] [--threads 1] [--time 3min] [--reference 10min] [--compare 20] [--records DIR] [NAME[=TIME] ...]

For each network: `kilter tune --time TIME` from no records; then all searchers (model with another seed, ga, xgb-rank, random)
go on from what it found, REFERENCE together, and the plan chosen at their end is the best one known. Both plans are compiled and
run in turns (`kilter compare`); the share is the best plan's time over the tuned plan's. A plan that was not reached by
tuning cannot be among them, so the share is of what is known, not of what is possible. A TIME of 0 takes the records of the
last run under DIR as what was tuned.
Exit codes: 0 done, 1 a share lies below 0.97 or a network failed, 2 usage.
"""
import argparse
import json
import pathlib
import shutil
import sys

import networks
import peers

SEARCHERS = ["model", "ga", "xgb-rank", "random"]
NETWORKS = ["resnet50=5min", "resnet18", "mobilenet_v2", "squeezenet1_1", "inception_v3", "centernet_dla34", "ppocr_det"]


def seconds(text):
    for unit, factor in (("min", 60), ("s", 1), ("h", 3600)):
        if text.endswith(unit):
            return float(text[: -len(unit)]) * factor
    return float(text)


def measure(args, name, time):
    path, shapes = networks.path_of(name, args.models), networks.SHAPES.get(name, {})
    common = ["--threads", args.threads, *networks.input_options(shapes)]
    folder = pathlib.Path(args.records) / f"{name}.{args.threads}"
    if time != "0":
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
    fast, best = folder / "tuned.db", folder / "best.db"

    def tune(records, *more):
        out = records.with_suffix(".json")
        peers.kilter(args, "tune", path, "--records", records, "--json", out, *more, *common)
        return json.loads(out.read_text())

    def compiled(records):
        out = records.with_suffix(".kilter")
        peers.kilter(args, "compile", path, "-o", out, "--records", records, "--choose", "graph-best", *common)
        return out

    run = json.loads(fast.with_suffix(".json").read_text()) if time == "0" else tune(fast, "--time", time)
    plan, a = run["choices"], compiled(fast)
    for file in folder.glob("best.*"):
        file.unlink()
    for file in folder.glob("tuned.db*"):
        shutil.copy(file, folder / file.name.replace("tuned.db", "best.db"))
    trials = 0
    for seed, searcher in enumerate(SEARCHERS, 2):
        share = seconds(args.reference) / len(SEARCHERS)
        other = tune(best, "--time", f"{share:g}s", "--searcher", searcher, "--searcher-option", f"seed={seed}")
        trials += other["trials"]
    b = compiled(best)
    if plan == other["choices"]:
        return run, trials, None
    said = peers.kilter(args, "compare", a, b, "--threads", args.threads, "--seconds", args.compare, "--half-width", 0.1, "--json", "-")
    return run, trials, json.loads(said)["ratio"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME[=TIME]", default=NETWORKS)
    parser.add_argument("--kilter", default="build/kilter")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--time", default="3min")
    parser.add_argument("--reference", default="10min")
    parser.add_argument("--compare", type=float, default=20)
    parser.add_argument("--records", default="models/best_plan")
    parser.add_argument("--models", default="models")
    args = parser.parse_args()
    print(f"| network, {args.threads} thread{'s' if args.threads > 1 else ''} | tuned for | trials | trials a second | tuned / default (95 %) "
          "| trials of the others | share of the best plan's speed (95 %) |\n|---|---|---|---|---|---|---|")
    missed = False
    for entry in args.names:
        name, _, time = entry.partition("=")
        time = time or args.time
        try:
            run, more, share = measure(args, name, time)
        except RuntimeError as error:
            print(f"| {name} | failed: {error} |", flush=True)
            missed = True
            continue
        gain = run["ratio"]
        says = f"{share['value']:.3f} ({share['low']:.3f} to {share['high']:.3f})" if share else "1, the same plan"
        print(f"| {name} | {run['seconds']:.0f} s | {run['trials']} | {run['trials_per_second']:.0f} | {gain['value']:.3f} ({gain['low']:.3f} to {gain['high']:.3f}) "
              f"| {more} | {says} |", flush=True)
        missed = missed or (share is not None and share["value"] < 0.97)
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
