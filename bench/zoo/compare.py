"""Compares Kilter with ONNX Runtime on the networks of export.py: values and times, one thread each. Writes a table.

usage: compare.py [--folder bench/models/zoo] [--package build/python] [--results FOLDER/results.jsonl] [--page FILE.md]
                  [--seconds 2] [--limit 600] [--memory 14] [--again] [--values] [FILE | NAME ...]

Each file runs in a process of its own, with both runtimes, on one CPU, within the limits of time (seconds) and memory
(GB). Values are compared on the first run of an input and after some runs, when all parts of a program are compiled.

An output agrees if its element type and shape are equal, and its elements differ by at most a share of the largest
magnitude of the output: 1e-4 for f32, 5e-2 for f16, 1e-1 for networks of 8 and 4 bits. Integers and booleans must be
equal; those of quantised networks, too. Detections (boxes, labels, scores) are paired by label and distance, because
two with nearly equal scores come in any order, which also changes in ONNX Runtime without its optimisations; the share
for them is 1e-3.

Times are CPU times, which other programs hardly affect. A round runs each runtime for a slice of 0.1 s or one run, in
random order. A time is the median of the slices' medians; the ratio is Kilter's time over ONNX Runtime's in the same
round, with its 95 % interval. --values skips times.

Results are appended to a file of JSON lines. Rows that it has are not measured again without --again; --page writes the
table of all rows. Exit codes: 0 all agree, 1 a value differs or a network does not run.
"""
import argparse
import collections
import json
import math
import os
import pathlib
import resource
import statistics
import subprocess
import sys
import time

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import networks  # noqa: E402
import peers  # noqa: E402

SHARES = {"f32": 1e-4, "f16": 5e-2, "int8": 1e-1}
DETECTIONS, DETECTION_SHARE = {"boxes", "labels", "scores"}, 1e-3
SLICE, WARM_RUNS = 0.1, 5
FAMILIES = {"classify": "classifiers", "dense": "images, masks, text in images", "detect": "detectors", "language": "language", "audio": "speech and sound",
            "quantised": "8 and 4 bits, half precision, fused graphs", "sizes": "open image sizes"}


def difference(got, want, share):
    """Returns the largest difference as a share of the output's largest magnitude, and "" or why the output does not agree."""
    got, want = np.asarray(got), np.asarray(want)
    if got.shape != want.shape or got.dtype != want.dtype:
        return math.inf, f"{got.dtype}{list(got.shape)} instead of {want.dtype}{list(want.shape)}"
    if want.size == 0:
        return 0.0, ""
    if not np.issubdtype(want.dtype, np.floating):
        wrong = int((got != want).sum())
        return (math.inf, f"{wrong} of {want.size} elements differ") if wrong else (0.0, "")
    got, want = got.astype(np.float64), want.astype(np.float64)
    special = ~np.isfinite(want)
    if not np.array_equal(got[special], want[special], equal_nan=True):
        return math.inf, "infinite or undefined elements differ"
    got, want = got[~special], want[~special]
    if want.size == 0:
        return 0.0, ""
    worst = float(np.abs(got - want).max() / max(np.abs(want).max(), 1e-30))
    return worst, "" if worst <= share else f"differs by {worst:.1e} of the largest magnitude"


def paired(names, got, want):
    """Returns the outputs of a detector with its detections in the order of the other ones: each with the nearest of the same label."""
    ours, theirs = dict(zip(names, got)), dict(zip(names, want))
    count = len(theirs["scores"])
    if theirs["boxes"].ndim != 2 or len(ours["scores"]) != count:
        return got
    order, free = [], set(range(count))
    for label, score, box in zip(theirs["labels"], theirs["scores"], theirs["boxes"]):
        apart = {i: np.abs(ours["boxes"][i] - box).max() + 100 * abs(ours["scores"][i] - score) + 1e9 * (ours["labels"][i] != label) for i in free}
        order.append(min(apart, key=apart.get))
        free.discard(order[-1])
    return [np.asarray(array)[order] if len(array) == count else array for array in got]


def compare_outputs(names, got, want, share):
    if DETECTIONS <= set(names):
        got, share = paired(names, got, want), DETECTION_SHARE
    found = [(name, *difference(a, b, share)) for name, a, b in zip(names, got, want, strict=True)]
    return max(worst for _, worst, _ in found), "; ".join(f"{name}: {text}" for name, _, text in found if text)


def shapes_text(arrays):
    """Returns "1x1, 1x32, 8 of 1x4x31x64"."""
    counts = collections.Counter("x".join(map(str, array.shape)) or "scalar" for array in arrays.values())
    return ", ".join(shape if count == 1 else f"{count} of {shape}" for shape, count in counts.items())


def slice_ms(run):
    samples, end = [], time.process_time() + SLICE
    while time.process_time() < end or not samples:
        begin = time.process_time()
        run()
        samples.append((time.process_time() - begin) * 1e3)
    return statistics.median(samples)


def measure_case(args, net, session, arrays, share):
    """Returns the figures of one input."""
    names = [port.name for port in session.get_outputs()]
    theirs = lambda: session.run(None, arrays)
    begin = time.perf_counter()
    first = net.run(arrays)
    row = {"inputs": shapes_text(arrays), "first_ms": (time.perf_counter() - begin) * 1e3}
    want = theirs()
    row["worst"], row["wrong"] = compare_outputs(names, [first[name] for name in names], want, share)
    for _ in range(WARM_RUNS):
        later = net.run(arrays)
    worst, wrong = compare_outputs(names, [later[name] for name in names], want, share)
    row["worst"], row["wrong"] = max(row["worst"], worst), row["wrong"] or wrong
    row["status"] = "differs" if row["wrong"] else "agrees"
    if not args.values:
        figures = peers.interleave({"kilter": lambda: slice_ms(lambda: net.run(arrays)), "ort": lambda: slice_ms(theirs)}, args.seconds)
        row |= {"kilter_ms": statistics.median(figures["kilter"]), "ort_ms": statistics.median(figures["ort"]),
                "ratio": peers.paired_ratio(figures["kilter"], figures["ort"])}
    return row


def measure_file(args, file):
    """Runs all cases of one file in this process, and prints a JSON line for each."""
    import onnxruntime

    resource.setrlimit(resource.RLIMIT_AS, (args.memory * 10**9,) * 2)
    peers.keep_to_cpus(1)
    sys.path.insert(0, str(args.package))
    import kilter

    name, facts = facts_of(file)
    basis = {"file": file.name, "family": facts["family"], "kilter": kilter.__version__, "onnxruntime": onnxruntime.__version__,
             "date": time.strftime("%Y-%m-%d")}
    session = networks.peer_session(file, 1)
    net = kilter.compile(str(file), threads=1)
    for number in range(facts["cases"]):
        with np.load(file.parent / f"{name}.{number}.npz") as stored:
            wanted = {port.name for port in session.get_inputs()}  # exporters drop inputs that nothing reads
            arrays = {key: stored[key] for key in stored.files if key in wanted}
        row = basis | {"case": number}
        try:
            row |= measure_case(args, net, session, arrays, SHARES[facts["kind"]])
        except Exception as error:  # noqa: BLE001  every error of either runtime is a result
            row |= {"inputs": shapes_text(arrays), "status": "fails", "wrong": " ".join(f"{type(error).__name__}: {error}".split())[:400]}
        print(json.dumps(row), flush=True)


def facts_of(file):
    """Returns the name of the network in a file, and what export.py says about it."""
    name = file.name.removesuffix(".onnx")
    for exporter in (".torchscript", ".dynamo"):
        name = name.removesuffix(exporter)
    return name, json.loads((file.parent / f"{name}.json").read_text())


def run_file(args, file):
    """Measures one file in a process of its own. Returns its rows; one says how the process ended if it did not finish."""
    options = ["--package", args.package, "--seconds", args.seconds, "--memory", args.memory, *(["--values"] if args.values else [])]
    command = [sys.executable, __file__, *map(str, options), "--here", str(file)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=args.limit)
        output, ended = done.stdout, "" if done.returncode == 0 else f"ended with {done.returncode}: {' '.join(done.stderr.split())[-400:]}"
    except subprocess.TimeoutExpired as late:
        output, ended = (late.stdout or b"").decode(), f"took more than {args.limit} s"
    rows = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
    facts = facts_of(file)[1]
    for number in range(len(rows), facts["cases"] if ended else 0):
        rows.append({"file": file.name, "family": facts["family"], "case": number, "inputs": "", "status": "fails", "wrong": ended})
    return rows


def read_rows(path):
    """Returns the rows of a results file by file and case, the last one of each."""
    lines = path.read_text().splitlines() if path.exists() else []
    return {(row["file"], row["case"]): row for row in map(json.loads, lines)}


def files_for(args):
    files = sorted(args.folder.glob("*.onnx"))
    if not files:
        peers.refuse(f"--folder {args.folder}: no networks there; export.py creates them")
    known = {file.name for file in files} | {facts_of(file)[0] for file in files}
    for word in args.names:
        if word not in known:
            peers.refuse(f"no network '{word}' in {args.folder}; legal values are the files there, and their names without exporter and .onnx")
    return [file for file in files if not args.names or {file.name, facts_of(file)[0]} & set(args.names)]


def row_text(row):
    name = row["file"].removesuffix(".onnx")
    cells = [name, row["inputs"]]
    if row["status"] == "fails":
        return cells + [f"fails: {row['wrong']}", "", "", ""]
    cells.append(f"{row['worst']:.1e}" if row["status"] == "agrees" else f"**differs**: {row['wrong']}")
    if "ratio" not in row:
        return cells + ["", "", ""]
    ratio = peers.ratio_text(row["ratio"], 2)
    return cells + [f"{row['kilter_ms']:.2f}", f"{row['ort_ms']:.2f}", f"**{ratio}**" if row["ratio"]["value"] > 1 else ratio]


def page_text(rows):
    """Returns the table as Markdown, by family."""
    timed = [row for row in rows if "ratio" in row]
    statuses = [row["status"] for row in rows]
    lines = [f"{len({row['file'] for row in rows})} files, {len(rows)} rows: {statuses.count('agrees')} agree, {statuses.count('differs')} differ, "
             f"{statuses.count('fails')} do not run."]
    if timed:
        ratios = {row["file"] + "/" + str(row["case"]): row["ratio"]["value"] for row in timed}
        slower = sum(value > 1 for value in ratios.values())
        lines[0] += (f" Kilter's time over ONNX Runtime's: geometric mean {statistics.geometric_mean(ratios.values()):.2f}, "
                     f"highest {max(ratios.values()):.2f}, {slower} above 1 (bold).")
    for family, title in FAMILIES.items():
        own = [row for row in rows if row["family"] == family]
        if own:
            lines += ["", f"### {title[0].upper()}{title[1:]}", "", "| network | inputs | largest difference | Kilter ms | ONNX Runtime ms | ratio (95 %) |",
                      "|---|---|---|---|---|---|"]
            lines += ["| " + " | ".join(row_text(row)) + " |" for row in own]
    return "\n".join(lines) + "\n"


def main():
    parser = peers.Parser(__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--folder", type=pathlib.Path, default=HERE.parent / "models" / "zoo")
    parser.add_argument("--package", type=pathlib.Path, default=HERE.parents[1] / "build" / "python")
    parser.add_argument("--results", type=pathlib.Path)
    parser.add_argument("--page", type=pathlib.Path)
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--limit", type=int, default=600)
    parser.add_argument("--memory", type=int, default=14)
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--values", action="store_true")
    parser.add_argument("--here", type=pathlib.Path, help=argparse.SUPPRESS)  # measure this file in this process
    args = parser.parse_args()
    if args.here:
        measure_file(args, args.here)
        return
    args.results = args.results or args.folder / "results.jsonl"
    known = read_rows(args.results)
    for file in files_for(args):
        had = [row for (of, _), row in known.items() if of == file.name]
        if had and not args.again and (args.values or all("ratio" in row or row["status"] == "fails" for row in had)):
            continue
        with open(args.results, "a", encoding="utf-8") as results:
            for row in run_file(args, file):
                results.write(json.dumps(row) + "\n")
                print(" | ".join(row_text(row)), flush=True)
    rows = list(read_rows(args.results).values())
    if args.page:
        args.page.write_text(page_text(rows))
    sys.exit(0 if all(row["status"] == "agrees" for row in rows) else 1)


if __name__ == "__main__":
    main()
