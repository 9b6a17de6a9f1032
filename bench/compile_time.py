"""Measures how long compiling a network takes, untuned, on one core: `kilter compile`, each time in a new process.

usage: compile_time.py [--kilter build/kilter] [--networks NAME ...] [--repeat 5] [--limit NAME=SECONDS ...] [--models models]
Each round compiles every network once, in random order, after an uncounted round (which brings the models into memory).
Everything runs on one CPU. Wall time covers the whole process: reading the model, compiling the network and writing the
file. CPU time is the process's own; if wall time is much longer, other processes used the machine. Peak memory is the largest
resident set of the process. The table has medians; for wall time also the smallest and the largest.
Exit codes: 0 done, 1 a limit is exceeded or a network does not compile, 2 usage.
"""
import argparse
import os
import pathlib
import random
import statistics
import sys
import tempfile
import time

import networks
import peers
import process_cost

LIMITS = {"resnet50": 2.0, "mobilenet_v2": 2.0, "bert_base_128": 3.0}  # seconds of wall time, on one core


def limit_of(text):
    """Parses NAME=SECONDS to a pair."""
    name, _, seconds = text.partition("=")
    try:
        value = float(seconds)
    except ValueError:
        value = 0
    if name not in networks.SPEED_SET or not value > 0:
        raise argparse.ArgumentTypeError(f"got '{text}'; expected NAME=SECONDS with seconds above 0 and a NAME of "
                                         f"{', '.join(networks.SPEED_SET)}")
    return name, value


def compile_once(args, name, cpu, file):
    """Returns the cost of one compilation, with the size of its output."""
    command = [args.kilter, "compile", networks.path_of(name, args.models), "-o", file, "--threads", 1]
    try:
        cost = process_cost.cost_of(command + networks.input_options(networks.SHAPES.get(name, {})), cpu)
    except RuntimeError as error:
        sys.exit(f"compile_time.py: {name}: {error}")
    if cost["code"] != 0:
        sys.exit(f"compile_time.py: {name}: kilter compile ended with {cost['code']}: {cost['error'].strip()[-300:]}")
    return cost | {"file_mb": file.stat().st_size * 1e-6}


def measure(args, cpu):
    """Returns the costs of all compilations, by network."""
    costs = {name: [] for name in args.networks}
    with tempfile.TemporaryDirectory() as folder:
        for round_number in range(args.repeat + 1):
            for name in random.sample(args.networks, len(args.networks)):
                file = pathlib.Path(folder) / f"{name}.kilter"
                cost = compile_once(args, name, cpu, file)
                file.unlink()
                if round_number > 0:
                    costs[name].append(cost)
    return costs


def print_table(costs, limits):
    """Prints one row per network. Returns a sentence for each limit that is exceeded."""
    print("\n| network | wall s | smallest | largest | CPU s | limit s | peak MiB | file MB |\n|---|---|---|---|---|---|---|---|")
    passed = []
    for name, of_network in costs.items():
        median = {key: statistics.median(cost[key] for cost in of_network) for key in ("wall_s", "cpu_s", "peak_mib", "file_mb")}
        walls = [cost["wall_s"] for cost in of_network]
        limit = limits.get(name)
        if limit is not None and median["wall_s"] > limit:
            passed.append(f"{name} takes {median['wall_s']:.2f} s (CPU time {median['cpu_s']:.2f} s), limit {limit:g} s")
        print(f"| {name} | {median['wall_s']:.2f} | {min(walls):.2f} | {max(walls):.2f} | {median['cpu_s']:.2f} "
              f"| {'-' if limit is None else f'{limit:g}'} | {median['peak_mib']:.0f} | {median['file_mb']:.1f} |", flush=True)
    return passed


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kilter", default="build/kilter")
    parser.add_argument("--networks", nargs="+", metavar="NAME", choices=networks.SPEED_SET, default=networks.SPEED_SET)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--limit", action="append", type=limit_of, default=[], metavar="NAME=SECONDS")
    parser.add_argument("--models", default="models")
    args = parser.parse_args()
    if args.repeat < 1:
        parser.error(f"argument --repeat: got {args.repeat}; expected 1 or more")
    return args


def main():
    args = parse_arguments()
    cpu = min(os.sched_getaffinity(0))
    before = os.getloadavg()[0]
    for name in args.networks:
        networks.path_of(name, args.models)  # generated or downloaded before anything is timed
    costs = measure(args, cpu)
    version = process_cost.cost_of([args.kilter, "--version"], cpu)["output"].strip()
    print(f"{peers.cpu_text(1)} (CPU {cpu}); {version}; {time.strftime('%Y-%m-%d')}; untuned, fp32, batch 1; {args.repeat} compilations of each, "
          f"interleaved; processes that wanted to run: {before:.1f} before, {os.getloadavg()[0]:.1f} after (one is ours)")
    passed = print_table(costs, LIMITS | dict(args.limit))
    if passed:
        sys.exit(f"compile_time.py: compiling takes longer than its limit: {'; '.join(passed)}")


if __name__ == "__main__":
    main()
