#!/usr/bin/env python3
"""Tuned against untuned Kilter, ONNX Runtime and OpenVINO (fp32) over the speed set; prints one table.

usage: tuned.py [--kilter build/kilter] [--threads 1 2] [--tune 90s] [--seconds 12] [--compare 8] [--records DIR] [--models models] [NAME ...]

For each network: `kilter tune --time TUNE` into records of its own under DIR (nothing with --tune 0: the records there are
used), both plans compiled, `kilter compare` of the two for the ratio and its 95 % interval (the same plan is not timed), then
interleaved slices of all four as bench/peers.py takes them.
Exit codes: 0 done, 1 a tuned network is slower (interval's lower end of the speed-up below 0.98 or upper end below 1), 2 usage.
"""
import argparse
import json
import math
import os
import pathlib
import statistics
import sys

import networks
import peers


CPUS = os.sched_getaffinity(0)  # before this process is kept to fewer


class Tuned:
    """A network with its two plans as compiled files, and what tuning said."""

    def __init__(self, args, name, threads):
        self.shapes = networks.SHAPES.get(name, {})
        self.path = networks.path_of(name, args.models)
        folder = pathlib.Path(args.records)
        folder.mkdir(parents=True, exist_ok=True)
        records, report = folder / f"{name}.{threads}.db", folder / f"{name}.{threads}.json"
        common = ["--threads", threads, *networks.input_options(self.shapes)]
        if args.tune != "0":
            peers.kilter(args, "tune", self.path, "--time", args.tune, "--records", records, "--json", report, *common, cpus=CPUS)
        self.report = json.loads(report.read_text())
        self.files = {"default": folder / f"{name}.{threads}.default.kilter", "tuned": folder / f"{name}.{threads}.tuned.kilter"}
        peers.kilter(args, "compile", self.path, "-o", self.files["default"], *common)
        peers.kilter(args, "compile", self.path, "-o", self.files["tuned"], "--records", records, "--choose", "graph-best", *common)
        self.same = not self.report["choices"]  # nothing differs from the default plan

    def ratio(self, args, threads):
        """Tuned over untuned: value, low, high; None where both are one plan."""
        if self.same:
            return None
        said = json.loads(peers.kilter(args, "compare", self.files["default"], self.files["tuned"], "--threads", threads, "--seconds",
                                 args.compare, "--half-width", 0.2, "--json", "-"))
        return said["ratio"]

    def runner(self, args, which, threads):
        def run():
            words = ["bench", self.files[which], "--threads", threads, "--json", "-", "--seconds", peers.SLICE, *networks.input_options(self.shapes)]
            return json.loads(peers.kilter(args, *words))["median_ms"]

        return run


def measure(args, name, threads):
    tuned = Tuned(args, name, threads)
    ratio = tuned.ratio(args, threads)
    runners = peers.peer_runners(tuned.path, tuned.shapes, threads)
    runners["default"] = tuned.runner(args, "default", threads)
    if ratio:
        runners["tuned"] = tuned.runner(args, "tuned", threads)
    ms = {key: statistics.median(values) for key, values in peers.interleave(runners, args.seconds).items()}
    return tuned, ratio, {"tuned": ms["default"]} | ms


def print_table(args, threads):
    peers.keep_to_cpus("tuned.py", threads)
    print(f"{peers.machine_text(threads)}; tuned for {args.tune} each with kilter tune; median ms; interleaved slices of {peers.SLICE} s")
    print(f"\n| network, {threads} thread{'s' if threads > 1 else ''} | untuned | tuned | ONNX Runtime | OpenVINO | tuned / untuned (95 %) "
          "| tuned / better peer | trials | trials a second |\n|---|---|---|---|---|---|---|---|---|")
    gains, against, slower = [], [], False
    for name in args.names or networks.SPEED_SET:
        try:
            tuned, ratio, ms = measure(args, name, threads)
        except RuntimeError as error:
            print(f"| {name} | failed: {error} |", flush=True)
            slower = True
            continue
        best = ms["tuned"] / min(ms["ort"], ms["openvino"])
        against.append(best)
        gains.append(ratio["value"] if ratio else 1.0)
        slower = slower or (ratio is not None and peers.is_slower(ratio))
        says = f"{ratio['value']:.3f} ({ratio['low']:.3f} to {ratio['high']:.3f})" if ratio else "the same plan"
        print(f"| {name} | {ms['default']:.2f} | {ms['tuned']:.2f} | {ms['ort']:.2f} | {ms['openvino']:.2f} | {says} | {best:.2f} "
              f"| {tuned.report['trials']} | {tuned.report['trials_per_second']:.0f} |", flush=True)
    if gains:
        print(f"| geometric mean | | | | | {statistics.geometric_mean(gains):.3f} | {statistics.geometric_mean(against):.3f} "
              f"({math.exp(-statistics.fmean(map(math.log, against))):.2f}x) | | |\n", flush=True)
    return slower


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--kilter", default="build/kilter")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--tune", default="90s")
    parser.add_argument("--seconds", type=float, default=12)
    parser.add_argument("--compare", type=float, default=8)
    parser.add_argument("--records", default="models/tuned")
    parser.add_argument("--models", default="models")
    args = parser.parse_args()
    if len(args.threads) == 1:
        sys.exit(1 if print_table(args, args.threads[0]) else 0)
    sys.exit(peers.each_thread_count(__file__, args.threads))


if __name__ == "__main__":
    main()
