"""Checks whether Kilter's numbers agree with each other. Prints the tables of doc/measuring.md; exits with 1 if a limit is broken.

usage: numbers_agree.py sums  [--threads 1 2] [--seconds 3] [NAME ...]   rows against the end-to-end time
       numbers_agree.py alone [--threads 1] [--repeat 40] [NAME ...]     tasks alone against the same tasks in the network

sums: |sum - end to end| <= 3 %, in the sense that its 95 % interval must overlap this range and be no wider than it;
|residual| <= 1 %, overhead <= 2 %, no layer above 105 % of its bound. All limits are doubled with more threads than CPUs. The
machine's peaks are measured first, since the stored ones may be from a busy hour. alone: |alone - in network| median <= 5 %,
worst <= 15 %, tasks under 50 us <= 5 us.
A network outside the limits is measured again, at most twice and twice as long each time, since other work on the machine
can break them, too. A network that stays outside is BROKEN if a measurement shows it (an interval outside its limit, a
residual, or a layer). It is BUSY if none does: each time more than half of the passes were disturbed by other work, or their
slowest tenth took 1.3 times as long as their fastest (because of work on the core's other hardware thread, which cannot be
seen here), or the interval stayed too wide to tell.
Exit codes: 0 all within the limits, 1 a limit is broken, 77 nothing is broken but rows are BUSY.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys

import networks

TRIES = 3
ALONE = ["resnet50", "mobilenet_v2", "bert_base_128"]


def kilter(args, command, name, threads, *more):
    call = [args.kilter, command, str(networks.path_of(name, args.models)), "--threads", str(threads), "--json", "-", *more]
    call += networks.input_options(networks.SHAPES.get(name, {}))
    done = subprocess.run(call, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"numbers_agree.py: {' '.join(call)}: {done.stderr.strip()}")
    return json.loads(done.stdout)


def sums_once(args, name, threads, seconds):
    """Returns the figures of one profile, and a verdict: "fine", "busy" (it cannot tell) or "broken"."""
    report = kilter(args, "profile", name, threads, "--seconds", str(seconds))
    end = report["end_to_end_ms"]
    layers = [row for row in report["rows"] if row["kind"] == "layer"]
    worst = max(layers, key=lambda row: row["share_of_bound"])
    factor = 2 if threads > len(os.sched_getaffinity(0)) else 1
    figures = {
        "end": end,
        "sum": 100 * (report["sum_ms"] / end - 1),
        "low": 100 * (report["sum_over_end_to_end"]["low"] - 1),
        "high": 100 * (report["sum_over_end_to_end"]["high"] - 1),
        "residual": 100 * report["residual_ms"] / report["total_ms"],
        "overhead": report["overhead_percent"],
        "bound": 100 * worst["share_of_bound"],
        "layer": worst["name"],
        "passes": report["passes"],
    }
    conditions, end_to_end = report["conditions"], report["end_to_end"]
    limit = 3 * factor
    # The overhead is the same comparison, including the residual.
    low_overhead = figures["low"] + figures["residual"]
    agrees = figures["low"] <= limit and figures["high"] >= -limit
    tells = figures["high"] - figures["low"] <= 2 * limit
    sound = abs(figures["residual"]) <= 1 * factor and figures["bound"] <= 105
    if agrees and tells and sound and figures["overhead"] <= 2 * factor:
        return figures, "fine"
    disturbed = conditions["disturbed"] > conditions["taken"] / 2 or end_to_end["p90_ms"] > 1.3 * end_to_end["p10_ms"]
    shown = not agrees or not sound or (figures["overhead"] if tells else low_overhead) > 2 * factor
    return figures, "broken" if shown and not disturbed else "busy"


def sums(args):
    broken, busy = [], []
    print("| network | threads | end to end ms | sum | residual | overhead | highest share of a bound | passes | tries |")
    print("|---|---|---|---|---|---|---|---|---|")
    for threads in args.threads or [1, 2]:
        for name in args.names or networks.SPEED_SET:
            verdicts = []
            while len(verdicts) < TRIES and "fine" not in verdicts:
                f, verdict = sums_once(args, name, threads, args.seconds * 2 ** len(verdicts))
                verdicts.append(verdict)
            mark = "" if "fine" in verdicts else ", BROKEN" if "broken" in verdicts else ", BUSY"
            print(f"| {name} | {threads} | {f['end']:.3f} | {f['sum']:+.2f} % ({f['low']:+.2f} to {f['high']:+.2f}) | {f['residual']:+.3f} % | {f['overhead']:+.2f} % | "
                  f"{f['bound']:.0f} % {f['layer']} | {f['passes']} | {len(verdicts)}{mark} |", flush=True)
            if mark:
                (broken if "broken" in verdicts else busy).append(f"{name} on {threads}")
    return broken, busy


def alone_once(args, name, threads):
    tasks = kilter(args, "time", name, threads, "--ops", args.ops[name], "--in-network", "--repeat", str(args.repeat),
                   "--seconds", str(args.seconds))
    cold, warm, small = [], [], [0.0]
    for task in tasks:
        network = task["in_network_ms"]
        off = abs(task["estimate_ms"] - network)
        cold.append((100 * off / network, network, task["name"]))
        warm.append(100 * abs(task["warm_ms"] - network) / network)
        if network < 0.05:
            small.append(off * 1e3)
    large = [entry for entry in cold if entry[1] >= 0.05]
    worst = max(large) if large else (0, 0, "-")
    figures = {"tasks": len(tasks), "median": statistics.median(c[0] for c in cold), "worst": worst[0], "name": worst[2],
               "small": max(small), "warm": statistics.median(warm), "warm_worst": max(warm)}
    return figures, figures["median"] <= 5 and figures["worst"] <= 15 and figures["small"] <= 5


def alone(args):
    broken = []
    args.ops = {name: "MatMul,FusedAttention" if name in ("bert_base_128", "deit_tiny") else "Conv" for name in networks.SPEED_SET}
    print("| network | threads | tasks | cold: median | worst (from 50 us) | worst below 50 us | warm: median | warm: worst | tries |")
    print("|---|---|---|---|---|---|---|---|---|")
    for threads in args.threads or [1]:
        for name in args.names or ALONE:
            for attempt in range(1, TRIES + 1):
                f, fine = alone_once(args, name, threads)
                if fine:
                    break
            print(f"| {name} | {threads} | {f['tasks']} | {f['median']:.1f} % | {f['worst']:.1f} % {f['name']} | {f['small']:.1f} us | "
                  f"{f['warm']:.1f} % | {f['warm_worst']:.1f} % | {attempt}{'' if fine else ', BROKEN'} |", flush=True)
            if not fine:
                broken.append(f"{name} on {threads}")
    return broken, []


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=["sums", "alone"])
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--kilter", default="build/kilter")
    parser.add_argument("--models", default="models")
    parser.add_argument("--threads", type=int, nargs="+")
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--repeat", type=int, default=40)
    args = parser.parse_intermixed_args()
    if args.part == "sums":
        subprocess.run([args.kilter, "device", "--measure"], stdout=subprocess.DEVNULL, check=True)
    broken, busy = {"sums": sums, "alone": alone}[args.part](args)
    if broken:
        sys.exit(f"numbers_agree.py: limits broken for {', '.join(broken)}")
    if busy:
        print(f"numbers_agree.py: the machine was too busy to measure {', '.join(busy)}")
        sys.exit(77)
    print("numbers_agree.py: all within the limits")


if __name__ == "__main__":
    main()
