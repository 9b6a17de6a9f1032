#!/usr/bin/env python3
"""Checks whether a change made any network slower. Two builds of the program take turns. Prints one table; exits with 1 if one is slower.

usage: builds.py BEFORE AFTER [--threads 1] [--seconds 12] [--mean 1.01] [--most 1.03] [--models models] [NAME|FILE.onnx ...]

BEFORE and AFTER are programs (build/kilter of two checkouts). Each compiles the networks (default: the speed set) with its
own default plan, and runs its own files. Each slice is a new process, so that one lucky placement in memory does not
persist. A time is the median of the slices' medians; the ratio is that of the slices of one round, with its 95 % interval.
A network counts as slower if the whole interval is above --most, and all together if the geometric mean of the ratios is
above --mean.
Exit codes: 0 none is slower; 1 one is, or all together, or one failed; 2 the command line cannot be used.
"""
import argparse
import os
import pathlib
import statistics
import sys
import tempfile

import networks
import peers


def with_program(args, program):
    return argparse.Namespace(**{**vars(args), "kilter": program})


def compare(args, name, folder):
    """Returns the milliseconds of both builds, and the ratio."""
    shapes = networks.SHAPES.get(name, {})
    path = name if name.endswith(".onnx") else networks.path_of(name, args.models)
    runners = {}
    for build, program in (("before", args.before), ("after", args.after)):
        own = with_program(args, program)
        file = pathlib.Path(folder) / f"{build}.kilter"
        peers.kilter(own, "compile", path, "-o", file, "--threads", args.threads, *networks.input_options(shapes))
        runners[build] = lambda own=own, file=file: peers.kilter_slice(own, file, shapes, args.threads)["median_ms"]
    results = peers.interleave(runners, args.seconds)
    return [statistics.median(results[build]) for build in runners], peers.paired_ratio(results["after"], results["before"])


def print_table(args, names):
    """Returns the ratios by network, None for one that failed."""
    print(f"{peers.cpu_text(args.threads)}; median ms of interleaved slices\n")
    print("| network | before | after | ratio (95 %) |\n|---|---|---|---|")
    ratios = {}
    for name in names:
        ratios[name] = None
        try:
            with tempfile.TemporaryDirectory() as folder:
                ms, ratios[name] = compare(args, name, folder)
        except RuntimeError as error:
            print(f"| {name} | failed: {error} |", flush=True)
            continue
        print(f"| {name} | {ms[0]:.4f} | {ms[1]:.4f} | {peers.ratio_text(ratios[name])} |", flush=True)
    return ratios


def main():
    parser = peers.Parser(__doc__)
    parser.add_argument("before", metavar="BEFORE")
    parser.add_argument("after", metavar="AFTER")
    parser.add_argument("names", nargs="*", metavar="NAME|FILE.onnx")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=12)
    parser.add_argument("--mean", type=float, default=1.01)
    parser.add_argument("--most", type=float, default=1.03)
    parser.add_argument("--models", default="models")
    args = parser.parse_args()
    for named, program in (("BEFORE", args.before), ("AFTER", args.after)):
        peers.check_program(with_program(args, program), named)
    if not 1 <= args.threads <= len(os.sched_getaffinity(0)):
        peers.refuse(f"--threads {args.threads}: expected 1 to {len(os.sched_getaffinity(0))}")
    names = args.names or networks.SPEED_SET
    peers.check_names([name for name in names if not name.endswith(".onnx")])
    ratios = print_table(args, names)
    measured = [ratio for ratio in ratios.values() if ratio]
    slower = [name for name, ratio in ratios.items() if not ratio or ratio["low"] > args.most]
    if not measured:
        sys.exit(1)
    mean = statistics.geometric_mean(ratio["value"] for ratio in measured)
    print(f"\ngeometric mean {mean:.3f}; "
          f"{'slower or failed: ' + ', '.join(slower) if slower else 'none is certainly slower'}")
    sys.exit(1 if slower or mean > args.mean else 0)


if __name__ == "__main__":
    main()
