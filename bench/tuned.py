#!/usr/bin/env python3
"""Compares tuned Kilter with untuned Kilter, ONNX Runtime and OpenVINO (fp32) on the speed set. Prints one table and checks the promises.

usage: tuned.py [--kilter build/kilter] [--threads 1 2] [--tune 90s] [--seconds 12] [--compare 15] [--restarts 5] [--records DIR]
                [--models models] [NAME ...]

For each network, `kilter tune --time TUNE` writes to separate records under DIR (with --tune 0 nothing is tuned and the
existing records are used), and both plans are compiled. If they are the same plan, the table says so. Otherwise they are
compared: both are compiled and started --restarts times (--compare seconds in total), with the 95 % interval of their ratio over
these processes. Then interleaved slices of all four are measured as in bench/peers.py, with the ratio to the better peer and
its interval over the rounds.
Promises: no tuned network is slower (the speed-up's interval begins at 0.98 or above and does not end below 1), each is at
least as fast as the better peer, and those that ran are 1.4 times as fast as it in the geometric mean. The last line of a table
says whether the promises were met.
Exit codes: 0 met; 1 not met, or a network failed; 2 the command line cannot be used.
"""
import json
import os
import pathlib
import statistics
import subprocess
import sys

import networks
import peers

PROMISED_MEAN = 1.4  # the better peer's time over the tuned network's

CPUS = os.sched_getaffinity(0)  # before this process is confined to fewer


def records_of(args, name, threads):
    return pathlib.Path(args.records) / f"{name}.{threads}.db"


class Tuned:
    """A network with the arguments of `kilter compile` for its two plans, and the report of tuning."""

    def __init__(self, args, name, threads):
        self.args, self.threads, self.shapes = args, threads, networks.SHAPES.get(name, {})
        self.path = networks.path_of(name, args.models)
        self.folder = pathlib.Path(args.records)
        self.folder.mkdir(parents=True, exist_ok=True)
        records = records_of(args, name, threads)
        report = records.with_suffix(".json")
        common = ["--threads", threads, *networks.input_options(self.shapes)]
        if args.tune != "0":
            for old in self.folder.glob(records.name + "*"):  # tuning starts from nothing, as the table says
                old.unlink()
            report.unlink(missing_ok=True)
            peers.kilter(args, "tune", self.path, "--time", args.tune, "--records", records, "--json", report, *common, cpus=CPUS)
        self.trials = trials_text(report)
        self.plans = {"default": [self.path, *common], "tuned": [self.path, *common, "--records", records, "--choose", "graph-best"]}
        self.same = peers.layers_text(args, *self.plans["default"]) == peers.layers_text(args, *self.plans["tuned"])

    def ratio(self):
        """Returns tuned over untuned, or None if both are the same plan."""
        if self.same:
            return None
        return peers.restarted_ratio(self.args, self.folder, self.threads, self.plans["default"], self.plans["tuned"])

    def runner(self, which):
        file = self.folder / f"{which}.{self.threads}.kilter"
        peers.kilter(self.args, "compile", *self.plans[which], "-o", file)
        return lambda: peers.kilter_slice(self.args, file, self.shapes, self.threads)["median_ms"]


def trials_text(report):
    """Returns the last two columns, which are unknown for records without a report."""
    try:
        said = json.loads(report.read_text())
        return f"{said['trials']} | {said['trials_per_second']:.0f}"
    except (OSError, ValueError, KeyError):
        return "- | -"


def measure(args, name, threads):
    """Returns the report of tuning, tuned over untuned, median milliseconds, and tuned over the better peer."""
    tuned = Tuned(args, name, threads)
    ratio = tuned.ratio()
    runners = peers.peer_runners(tuned.path, tuned.shapes, threads)
    others = list(runners)
    runners["default"] = tuned.runner("default")
    if ratio:
        runners["tuned"] = tuned.runner("tuned")
    rounds = peers.interleave(runners, args.seconds)
    rounds.setdefault("tuned", rounds["default"])
    ms = {key: statistics.median(values) for key, values in rounds.items()}
    better = min(others, key=ms.get)
    return tuned.trials, ratio, ms, peers.paired_ratio(rounds["tuned"], rounds[better])


def verdict_of(gains, against, failed):
    """Returns whether the promises are met, and the text. Takes the ratios to untuned (None: same plan) and to the better peer."""
    missed = [f"{name} failed" for name in failed]
    missed += [f"{name}: tuned / untuned {peers.ratio_text(ratio)}, slower" for name, ratio in gains.items() if ratio and peers.is_slower(ratio)]
    for name, ratio in against.items():
        undecided = ", undecided" if ratio["low"] < 1 < ratio["high"] else ""
        if ratio["value"] > 1:
            missed.append(f"{name}: tuned / better peer {peers.ratio_text(ratio)}, slower{undecided}")
    if against:
        mean = 1 / statistics.geometric_mean(ratio["value"] for ratio in against.values())
        if mean < PROMISED_MEAN:
            missed.append(f"{mean:.3f} times as fast as the better peer in the geometric mean, promised: {PROMISED_MEAN}")
    return not missed, "passed: none slower than untuned or the better peer, and the mean" if not missed else "missed: " + "; ".join(missed)


def print_table(args, threads):
    """Prints the table. Returns whether the promises are met."""
    peers.keep_to_cpus(threads)
    print(f"{peers.machine_text(threads)}; {'tuned before' if args.tune == '0' else f'tuned for {args.tune} each with kilter tune'}; median ms; interleaved slices of {peers.SLICE} s")
    print(f"\n| network, {threads} thread{'s' if threads > 1 else ''} | untuned | tuned | ONNX Runtime | OpenVINO | tuned / untuned (95 %) "
          "| tuned / better peer (95 %) | trials | trials a second |\n|---|---|---|---|---|---|---|---|---|")
    gains, against, failed = {}, {}, []
    for name in args.names:
        try:
            trials, gains[name], ms, against[name] = measure(args, name, threads)
        except (RuntimeError, OSError, ValueError, subprocess.SubprocessError) as error:
            print(f"| {name} | failed: {error} |", flush=True)
            failed.append(name)
            continue
        says = peers.ratio_text(gains[name]) if gains[name] else "the same plan"
        print(f"| {name} | {ms['default']:.2f} | {ms['tuned']:.2f} | {ms['ort']:.2f} | {ms['openvino']:.2f} | {says} "
              f"| {peers.ratio_text(against[name], 2)} | {trials} |", flush=True)
    if against:
        gain = statistics.geometric_mean(ratio["value"] if ratio else 1.0 for ratio in gains.values())
        mean = statistics.geometric_mean(ratio["value"] for ratio in against.values())
        print(f"| geometric mean | | | | | {gain:.3f} | {mean:.3f} ({1 / mean:.2f}x) | | |")
    met, words = verdict_of(gains, against, failed)
    print(f"\n{words}\n", flush=True)
    return met


def parsed():
    parser = peers.Parser(__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", default=networks.SPEED_SET)
    parser.add_argument("--kilter", default="build/kilter")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--tune", default="90s")
    parser.add_argument("--seconds", type=float, default=12)
    parser.add_argument("--compare", type=float, default=15)
    parser.add_argument("--restarts", type=int, default=5)
    parser.add_argument("--records", default="models/tuned")
    parser.add_argument("--models", default="models")
    args = parser.parse_args()
    peers.check_comparison(args)
    peers.check_names(args.names)
    peers.check_program(args)
    if args.tune != "0":
        peers.seconds_of(args.tune, f"--tune {args.tune}")
        return args
    for records in (records_of(args, name, threads) for name in args.names for threads in args.threads):
        if not records.exists():
            peers.refuse(f"--tune 0: {records} is missing; give a time to create it")
    return args


def main():
    args = parsed()
    if len(args.threads) == 1:
        sys.exit(0 if print_table(args, args.threads[0]) else 1)
    sys.exit(peers.each_thread_count(__file__, args.threads))


if __name__ == "__main__":
    main()
