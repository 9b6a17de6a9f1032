"""Compares the untuned speed of Kilter, ONNX Runtime and OpenVINO, interleaved in one run; prints one table.

usage: peers.py [--kilter build/kilter] [--threads 1 2] [--seconds 10] [--models models] [--no-openvino]
                [--precision declared] [NAME ... | quantised]

All compute in fp32. With --precision bf16, Kilter compiles for bf16 and for the declared types, and OpenVINO runs as
shipped: in the precision that it chooses, which is bf16 where the processor has instructions for it. Networks that are
quantised (NAME.FORM with a form of networks.FORMS, or "quantised" for a set of them) are also compared with OpenVINO as
shipped, and with Kilter in fp32. A dash replaces OpenVINO's times if it cannot run a network, such as those of the form
qop.

Each round runs every runtime for a slice, in random order, until the seconds are spent. A time is the median of the slices'
medians; the ratio is that of Kilter's slice over the better peer's in each round, with its 95 % interval. Kilter runs in a
separate process (`kilter bench` of a compiled file). Every process is pinned to the same CPUs. Each number of threads gets a
new process, because OpenVINO counts the CPUs only once, when it is loaded.
"""
import argparse
import json
import math
import os
import pathlib
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
LEAST_ROUNDS = 8  # with fewer, an interval says little
LEAST_RESTARTS = 2
STUDENT = [12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262]  # 97.5 % quantiles, by degrees of freedom from 1


def refuse(text):
    """Prints one line on standard error and exits with 2, because the command line, or something that it names, cannot be used."""
    print(f"{pathlib.Path(sys.argv[0]).name}: {text}", file=sys.stderr)
    sys.exit(2)


class Parser(argparse.ArgumentParser):
    """Reports a wrong command line in one line, and shows the script's docstring as help."""

    def __init__(self, page):
        super().__init__(description=page, formatter_class=argparse.RawDescriptionHelpFormatter)

    def parse_args(self, *given):
        return self.parse_intermixed_args(*given)  # names may come before and after options

    def error(self, message):
        refuse(f"{message}; --help describes the options")


def seconds_of(text, given):
    """Parses "5min", "90s", "1h" or "90" like `kilter tune --time`. Refuses all else, quoting `given`."""
    units = {"min": 60, "h": 3600, "s": 1, "m": 60, "": 1}
    unit = next(unit for unit in units if text.endswith(unit))
    try:
        value = float(text.removesuffix(unit)) * units[unit]
    except ValueError:
        value = math.nan
    if not 0 < value <= 7 * 86400:
        refuse(f"{given}: expected a time such as 90s, 5min or 1h, above 0 and at most 7 days")
    return value


def check_program(args, named="--kilter"):
    """Refuses a program (args.kilter, which the option `named` gives) that does not run."""
    try:
        kilter(args, "--version")
    except (OSError, RuntimeError) as error:
        refuse(f"{named} {args.kilter}: expected the program kilter, which does not run: {error}; build it, or name it with {named}")


def check_comparison(args):
    """Refuses thread counts, --restarts and --compare that restarted_ratio() cannot use."""
    if min(args.threads if isinstance(args.threads, list) else [args.threads]) < 1:
        refuse(f"--threads {args.threads}: expected 1 or more")
    if args.restarts < LEAST_RESTARTS:
        refuse(f"--restarts {args.restarts}: expected {LEAST_RESTARTS} or more, as an interval of one process says nothing")
    if not args.compare / args.restarts >= 0.1:
        refuse(f"--compare {args.compare:g}: expected {0.1 * args.restarts:g} or more seconds, a tenth for each of the {args.restarts} --restarts")


def check_names(names):
    """Refuses unknown networks."""
    for name in names:
        if name not in networks.all_names() and not networks.base_of(name):
            refuse(f"no network '{name}'; legal values are {', '.join(networks.all_names())}; one of the first "
                   f"{len(networks.EXPORTED)} with a form of quantisation, such as resnet50.u8s8 "
                   f"({', '.join(networks.FORMS)})")


def is_slower(ratio):
    """Whether a ratio of times (value, low, high), new over old, shows that the new one is slower: the speed-up's interval begins below
    0.98 or ends below 1."""
    return 1 / ratio["high"] < 0.98 or ratio["low"] > 1


def kilter(args, *words, cpus=None):
    """Returns the standard output of a subcommand. It runs on `cpus`, or where this process runs."""
    pin = (lambda: os.sched_setaffinity(0, cpus)) if cpus else None
    done = subprocess.run([args.kilter, *map(str, words)], capture_output=True, text=True, preexec_fn=pin)
    if done.returncode != 0:
        raise RuntimeError(f"kilter {words[0]}: {done.stderr.strip()[-300:]}")
    return done.stdout


def layers_text(args, path, *options):
    """Returns the schedule and settings of every layer of a network, as lines of a layer plan. Compiled plans are the same if these lines are equal."""
    said = kilter(args, "inspect", path, "--schedules", "--write-plan", "-", *options)
    return "".join(line for line in said.splitlines(keepends=True) if not line.startswith("#"))


def mean_ratio(ratios):
    """Returns the geometric mean of independent ratios, and its 95 % interval (Student's t over their logarithms)."""
    logs = [math.log(ratio) for ratio in ratios]
    quantile = STUDENT[min(len(logs) - 1, len(STUDENT)) - 1]
    half = quantile * statistics.stdev(logs) / math.sqrt(len(logs))
    return dict(zip(("value", "low", "high"), (math.exp(statistics.fmean(logs) + more) for more in (0, -half, half))))


def restarted_ratio(args, folder, threads, a, b):
    """Returns B's time over A's, with the 95 % interval over processes. Two files of one plan differ by up to two percent because of
    their placement in memory, which rounds within one process do not show. `a` and `b` are the arguments of `kilter compile` for each
    side. Both are compiled again for each of `args.restarts` processes, which run `args.compare` seconds in total and alternate in
    which side goes first."""
    ratios = []
    for n in range(args.restarts):
        files = [pathlib.Path(folder) / f"compared.{side}.kilter" for side in "ab"]
        for file, words in zip(files, (a, b)):
            file.unlink(missing_ok=True)
            kilter(args, "compile", *words, "-o", file)
        turned = n % 2 == 1
        said = kilter(args, "compare", *(reversed(files) if turned else files), "--threads", threads, "--seconds", args.compare / args.restarts,
                      "--half-width", 0.1, "--json", "-")
        value = json.loads(said)["ratio"]["value"]
        ratios.append(1 / value if turned else value)
        for file in files:
            file.unlink()
    return mean_ratio(ratios)


def ratio_text(ratio, digits=3):
    return f"{ratio['value']:.{digits}f} ({ratio['low']:.{digits}f} to {ratio['high']:.{digits}f})"


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


def openvino_runner(path, feeds, threads, as_shipped=False):
    import openvino as ov

    shapes = {name: value.shape for name, value in feeds.items()}
    request = networks.openvino_network(path, shapes, threads, as_shipped).create_infer_request()
    for name, value in feeds.items():
        request.set_tensor(name, ov.Tensor(value))
    return request.infer


def each_thread_count(script, counts):
    """Runs a script once per number of threads, with the other arguments unchanged. Returns the largest exit code or ending signal."""
    at = sys.argv.index("--threads") if "--threads" in sys.argv else None
    rest = sys.argv[1:] if at is None else sys.argv[1:at] + sys.argv[at + 1 + len(counts):]
    return max(abs(subprocess.run([sys.executable, script, *rest, "--threads", str(n)]).returncode) for n in counts)


def peer_runners(path, shapes, threads, with_openvino=True, as_shipped=False):
    """Returns, for each peer, a function that runs it for a slice and returns the median milliseconds."""
    session = networks.peer_session(path, threads)
    feeds = networks.seeded_inputs(session.get_inputs(), shapes)
    runners = {"ort": lambda: timed(lambda: session.run(None, feeds))}
    if with_openvino:
        try:
            infer = openvino_runner(path, feeds, threads, as_shipped)
            runners["openvino"] = lambda: timed(infer)
        except RuntimeError as error:
            print(f"{path}: OpenVINO does not run it: {str(error).strip().splitlines()[-1]}", file=sys.stderr)
    return runners


def interleave(runners, seconds):
    """Runs rounds of one slice per runner, in random order, after an uncounted round. Returns their figures by runner."""
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
    """Returns the median of the rounds' ratios, with its 95 % interval (bootstrap)."""
    ratios = np.array(of) / np.array(over)
    drawn = np.median(np.random.default_rng(1).choice(ratios, (2000, len(ratios))), axis=1)
    return dict(zip(("value", "low", "high"), map(float, (np.median(ratios), *np.quantile(drawn, [0.025, 0.975])))))


def compiled_runner(args, path, shapes, threads, file, precision):
    """Compiles a network and returns a function that runs it for a slice and returns the median milliseconds."""
    kilter(args, "compile", path, "-o", file, "--threads", threads, "--precision", precision, *networks.input_options(shapes))
    return lambda: kilter_slice(args, file, shapes, threads)["median_ms"]


def measure(args, name, threads):
    path = networks.path_of(name, args.models)
    shapes = networks.SHAPES.get(name, {})
    base = networks.base_of(name)
    lower = args.precision == "bf16" or base is not None
    runners = peer_runners(path, shapes, threads, not args.no_openvino, as_shipped=lower)
    extra = kilter_slice(args, path, shapes, threads)
    with tempfile.TemporaryDirectory() as folder:
        runners["kilter"] = compiled_runner(args, path, shapes, threads, os.path.join(folder, "network.kilter"), args.precision)
        if lower:
            fp32 = networks.path_of(base, args.models) if base else path
            runners["fp32"] = compiled_runner(args, fp32, shapes, threads, os.path.join(folder, "fp32.kilter"), "declared")
        results = interleave(runners, args.seconds)
    ms = {key: statistics.median(values) for key, values in results.items()}
    best = min((key for key in ms if key in ("ort", "openvino")), key=ms.get)
    own = paired_ratio(results["fp32"], results["kilter"]) if lower else None
    return ms, paired_ratio(results["kilter"], results[best]), own, extra


def cpu_text(threads):
    """Describes the processor and how much of it is used."""
    cpu = next((l.split(":")[1].strip() for l in open("/proc/cpuinfo") if l.startswith("model name")), platform.machine())
    return f"machine: {cpu}, {os.cpu_count()} CPUs, {threads} used"


def machine_text(threads):
    """Describes the conditions that all tables of speed share."""
    import onnxruntime
    import openvino

    return (f"{cpu_text(threads)}; onnxruntime {onnxruntime.__version__}, openvino {openvino.__version__}, "
            f"numpy {np.__version__}; {time.strftime('%Y-%m-%d')}; batch 1")


def keep_to_cpus(threads):
    """Confines this process to as many CPUs as it has threads. Refuses more threads than CPUs."""
    cpus = sorted(os.sched_getaffinity(0))
    if threads > len(cpus):
        refuse(f"--threads {threads}: this process may use {len(cpus)} CPUs")
    os.sched_setaffinity(0, set(cpus[:threads]))


def main():
    parser = Parser(__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", default=networks.SPEED_SET)
    parser.add_argument("--kilter", default="build/kilter")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--models", default="models")
    parser.add_argument("--no-openvino", action="store_true")
    parser.add_argument("--precision", choices=["declared", "bf16"], default="declared")
    args = parser.parse_args()
    args.names = [name for given in args.names for name in (networks.QUANTISED_SET if given == "quantised" else [given])]
    check_names(args.names)
    check_program(args)
    if len(args.threads) > 1:
        sys.exit(each_thread_count(__file__, args.threads))
    print_table(args, args.threads[0])


def print_table(args, threads):
    keep_to_cpus(threads)
    bf16, quantised = args.precision == "bf16", any(networks.base_of(name) for name in args.names)
    types = "Kilter in bf16, OpenVINO as shipped, ONNX Runtime in fp32" if bf16 else "as declared, OpenVINO as shipped" if quantised else "fp32"
    print(f"{machine_text(threads)}; {types}; untuned; median ms; interleaved slices of {SLICE} s")
    own_column = f" own fp32 / {'bf16' if bf16 else 'quantised'} (95 %) |" if bf16 or quantised else ""
    print(f"\n| network, {threads} thread{'s' if threads > 1 else ''} | Kilter | ONNX Runtime | OpenVINO | Kilter / better peer (95 %) |{own_column} compile ms | reference steps |")
    print("|---|---|---|---|---|---|---|" + ("---|" if own_column else ""))
    ratios, owns = [], []
    for name in args.names:
        try:
            result, ratio, own, extra = measure(args, name, threads)
        except RuntimeError as error:
            print(f"| {name} | failed: {error} |", flush=True)
            continue
        ratios.append(ratio["value"])
        openvino_ms = f"{result['openvino']:.2f}" if "openvino" in result else "-"
        own_text = " - |" if own_column else ""
        if own is not None:
            owns.append(own["value"])
            own_text = f" {ratio_text(own, 2)} |"
        print(f"| {name} | {result['kilter']:.2f} | {result['ort']:.2f} | {openvino_ms} | {ratio_text(ratio, 2)} |{own_text} "
              f"{extra.get('compile_ms', 0):.0f} | {extra.get('reference_steps', 0)} |", flush=True)
    if ratios:
        mean = statistics.geometric_mean(ratios)
        own_mean = f" {statistics.geometric_mean(owns):.3f} |" if owns else ""
        print(f"| geometric mean | | | | {mean:.3f} ({1 / mean:.2f}x) |{own_mean} | |\n", flush=True)


if __name__ == "__main__":
    main()
