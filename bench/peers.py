"""Untuned speed of Kilter, ONNX Runtime and OpenVINO (fp32), interleaved in one run; prints one table.

usage: peers.py [--kilter build/kilter] [--threads 1 2] [--seconds 10] [--models models] [--no-openvino] [NAME ...]

Each round runs every runtime for a slice, in random order, until the seconds are spent; a time is the median of the
slices' medians, the ratio that of Kilter's slice over the better peer's in each round, with its 95 % interval. Kilter
runs in a process of its own (`kilter bench` of a compiled file); every process is pinned to the same CPUs. Each number
of threads gets a fresh process, because OpenVINO counts the CPUs once, when it is loaded.
"""
import argparse
import json
import os
import platform
import random
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np

import networks

SLICE = 0.3
LEAST_ROUNDS = 8  # an interval of fewer says little


def is_slower(ratio):
    """Whether a ratio of times (value, low, high), new over old, shows the new one slower: the speed-up's interval begins below 0.98
    or ends below 1."""
    return 1 / ratio["high"] < 0.98 or ratio["low"] > 1


def kilter(args, *words, cpus=None):
    """Standard output of a subcommand; `cpus`: where it runs, else where this process does."""
    pin = (lambda: os.sched_setaffinity(0, cpus)) if cpus else None
    done = subprocess.run([args.kilter, *map(str, words)], capture_output=True, text=True, preexec_fn=pin)
    if done.returncode != 0:
        raise RuntimeError(f"kilter {words[0]}: {done.stderr.strip()[:300]}")
    return done.stdout


def kilter_slice(args, path, shapes, threads):
    words = ["bench", path, "--threads", threads, "--json", "-", "--seconds", SLICE, *networks.input_options(shapes)]
    return json.loads(kilter(args, *words))


def timed(run):
    samples = []
    end = time.perf_counter() + SLICE
    while time.perf_counter() < end or len(samples) < 5:
        start = time.perf_counter()
        run()
        samples.append((time.perf_counter() - start) * 1e3)
    return statistics.median(samples)


def openvino_runner(path, feeds, threads):
    import openvino as ov

    shapes = {name: value.shape for name, value in feeds.items()}
    request = networks.openvino_network(path, shapes, threads).create_infer_request()
    for name, value in feeds.items():
        request.set_tensor(name, ov.Tensor(value))
    return request.infer


def each_thread_count(script, counts):
    """Runs a script again for each number of threads, with this process's other arguments; the largest exit code."""
    at = sys.argv.index("--threads") if "--threads" in sys.argv else None
    rest = sys.argv[1:] if at is None else sys.argv[1:at] + sys.argv[at + 1 + len(counts):]
    return max(subprocess.run([sys.executable, script, *rest, "--threads", str(n)]).returncode for n in counts)


def peer_runners(path, shapes, threads, with_openvino=True):
    """For each peer what runs it for a slice and answers median milliseconds."""
    session = networks.peer_session(path, threads)
    feeds = networks.seeded_inputs(session.get_inputs(), shapes)
    runners = {"ort": lambda: timed(lambda: session.run(None, feeds))}
    if with_openvino:
        infer = openvino_runner(path, feeds, threads)
        runners["openvino"] = lambda: timed(infer)
    return runners


def interleave(runners, seconds):
    """Rounds of a slice of each runner, in random order, after one that is not counted; their figures by runner."""
    for runner in runners.values():
        runner()
    results = {key: [] for key in runners}
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(next(iter(results.values()))) < LEAST_ROUNDS:
        order = list(runners)
        random.shuffle(order)
        for key in order:
            results[key].append(runners[key]())
    return results


def paired_ratio(of, over):
    """Median of the rounds' ratios, and the 95 % interval of it (bootstrap)."""
    ratios = np.array(of) / np.array(over)
    drawn = np.median(np.random.default_rng(1).choice(ratios, (2000, len(ratios))), axis=1)
    return float(np.median(ratios)), *map(float, np.quantile(drawn, [0.025, 0.975]))


def measure(args, name, threads):
    path = networks.path_of(name, args.models)
    shapes = networks.SHAPES.get(name, {})
    runners = peer_runners(path, shapes, threads, not args.no_openvino)
    extra = kilter_slice(args, path, shapes, threads)
    with tempfile.NamedTemporaryFile(suffix=".kilter") as file:
        kilter(args, "compile", path, "-o", file.name, "--threads", threads, *networks.input_options(shapes))
        runners["kilter"] = lambda: kilter_slice(args, file.name, shapes, threads)["median_ms"]
        results = interleave(runners, args.seconds)
    ms = {key: statistics.median(values) for key, values in results.items()}
    best = min((key for key in ms if key != "kilter"), key=ms.get)
    return ms, paired_ratio(results["kilter"], results[best]), extra


def cpu_text(threads):
    """The processor and how much of it is used."""
    cpu = next((l.split(":")[1].strip() for l in open("/proc/cpuinfo") if l.startswith("model name")), platform.machine())
    return f"machine: {cpu}, {os.cpu_count()} CPUs, {threads} used"


def machine_text(threads):
    """The conditions that all tables of speed share."""
    import onnxruntime
    import openvino

    return (f"{cpu_text(threads)}; onnxruntime {onnxruntime.__version__}, openvino {openvino.__version__}, "
            f"numpy {np.__version__}; {time.strftime('%Y-%m-%d')}; fp32, batch 1")


def keep_to_cpus(program, threads):
    """Confines this process to as many CPUs as it has threads."""
    cpus = sorted(os.sched_getaffinity(0))
    if threads > len(cpus):
        sys.exit(f"{program}: --threads {threads}: this process may use {len(cpus)} CPUs")
    os.sched_setaffinity(0, set(cpus[:threads]))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--kilter", default="build/kilter")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--models", default="models")
    parser.add_argument("--no-openvino", action="store_true")
    args = parser.parse_args()
    if len(args.threads) > 1:
        sys.exit(each_thread_count(__file__, args.threads))
    print_table(args, args.threads[0])


def print_table(args, threads):
    keep_to_cpus("peers.py", threads)
    print(f"{machine_text(threads)}, untuned; median ms; interleaved slices of {SLICE} s")
    print(f"\n| network, {threads} thread{'s' if threads > 1 else ''} | Kilter | ONNX Runtime | OpenVINO | Kilter / better peer (95 %) | compile ms | reference steps |")
    print("|---|---|---|---|---|---|---|")
    ratios = []
    for name in args.names or networks.SPEED_SET:
        try:
            result, (ratio, low, high), extra = measure(args, name, threads)
        except RuntimeError as error:
            print(f"| {name} | failed: {error} |", flush=True)
            continue
        ratios.append(ratio)
        openvino_ms = f"{result['openvino']:.2f}" if "openvino" in result else "-"
        print(f"| {name} | {result['kilter']:.2f} | {result['ort']:.2f} | {openvino_ms} | {ratio:.2f} ({low:.2f} to {high:.2f}) | "
              f"{extra.get('compile_ms', 0):.0f} | {extra.get('reference_steps', 0)} |", flush=True)
    if ratios:
        print(f"| geometric mean | | | | {statistics.geometric_mean(ratios):.3f} ({1 / statistics.geometric_mean(ratios):.2f}x) | | |\n", flush=True)


if __name__ == "__main__":
    main()
