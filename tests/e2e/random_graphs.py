#!/usr/bin/env python3
"""Runs random graphs through Kilter, ONNX Runtime without optimisations and ONNX's reference evaluator.

usage: random_graphs.py KILTER [--count N] [--seed S] [--only I] [--target NAME] [--threads N] [--keep FOLDER]

Graph I of seed S is the same on every machine (random_nets.py). Kilter must give the peers' results. A graph is set
aside and replaced with another graph if the peers do not run it, disagree or give values that are not finite, or if
changing the last bits of an input changes a result (a quotient at a rounding boundary, a tie). Verdicts:

  agree      the peers' values, types and shapes
  refused    Kilter says that it cannot run the model
  wrong      a different result
  internal   an internal error, a crash or a hang

The exit code is 1 if a graph is wrong, internal, or refused for a reason that EXPECTED_REFUSALS does not list. --keep
stores the graphs that do not agree in the ONNX test layout, for `kilter check`; --only draws one graph and keeps it.
"""
import argparse
import collections
import multiprocessing
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import warnings

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import numpy as np  # noqa: E402
import onnx  # noqa: E402
from onnx import numpy_helper  # noqa: E402

import random_nets  # noqa: E402

BATCH = 100  # graphs per `kilter check`
RTOL = 1e-3
ATOL = 2e-4  # relative to the largest value of the graph's outputs
FLOOR = 1e-6  # error that remains when numbers near 1 cancel
NUDGE = 3e-6  # relative change of an input: a few of its last bits
UNSTABLE = 0.25  # share of the tolerance by which this change may change a result
# Kilter's messages about parts of these graphs that it does not support yet.
EXPECTED_REFUSALS = [r"less than the window of \d+"]


def answers_of_onnxruntime(model, inputs):
    """Returns the outputs for the inputs and for the nudged inputs; None if the runtime does not run the model."""
    import onnxruntime
    model = onnx.ModelProto.FromString(model.SerializeToString())
    for i, node in enumerate(model.graph.node):
        if node.op_type == "Split":  # an output without a name causes a segmentation fault
            node.output[:] = [name or f"unnamed_{i}_{k}" for k, name in enumerate(node.output)]
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    try:
        session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        return [session.run(None, inputs), session.run(None, nudged(inputs, 1)), session.run(None, nudged(inputs, -1))]
    except Exception:
        return None


def answers_of_reference(model, inputs):
    from onnx.reference import ReferenceEvaluator
    if model.opset_import[0].version < 14 and any(node.op_type == "BatchNormalization" for node in model.graph.node):
        return None  # the evaluator mixes in the statistics of the batch
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            evaluator = ReferenceEvaluator(model)
            return [[np.asarray(y) for y in evaluator.run(None, given)]
                    for given in (inputs, nudged(inputs, 1), nudged(inputs, -1))]
    except Exception:
        return None


def nudged(inputs, sign):
    """Returns floats with a few last bits changed, neighbours in opposite directions."""
    moved = {}
    for name, x in inputs.items():
        if x.dtype == np.float32:
            signs = np.where(np.arange(x.size).reshape(x.shape) % 2 == 0, sign, -sign)
            x = np.asarray(x * (1 + NUDGE * signs), np.float32)  # with rank 0 it would be a scalar, which ONNX Runtime refuses
        moved[name] = x
    return moved


def same(got, want, share=1.0):
    if len(got) != len(want):
        return False
    largest = magnitude(want)
    for g, w in zip(got, want):
        if g.dtype != w.dtype or g.shape != w.shape:
            return False
        off = np.abs(g.astype(np.float64) - w.astype(np.float64))
        if not np.all(off <= share * (FLOOR + ATOL * largest + RTOL * np.abs(w.astype(np.float64)))):
            return False
    return True


def magnitude(answers):
    return max([float(np.max(np.abs(a.astype(np.float64)))) for a in answers if a.size], default=0.0)


def expected(drawn):
    """Returns the peers' outputs, or the reason why the graph is set aside."""
    runs = [r for r in (answers_of_onnxruntime(drawn.model, drawn.inputs), answers_of_reference(drawn.model, drawn.inputs)) if r]
    if not runs:
        return "no peer runs it"
    for run in runs:
        if [tuple(d.dim_value for d in o.type.tensor_type.shape.dim) for o in drawn.model.graph.output] != [a.shape for a in run[0]]:
            return "a peer's shapes are not those of ONNX's shape inference"
        if not all(np.all(np.isfinite(a.astype(np.float64))) for a in run[0]):
            return "not finite"
    if len(runs) == 2 and not same(runs[1][0], runs[0][0]):
        return "peers disagree"
    if any(not same(moved, run[0], UNSTABLE) for run in runs for moved in run[1:]):
        return "hangs on rounding"
    return runs[0][0]


def write_case(folder, drawn, answers):
    data = folder / "test_data_set_0"
    data.mkdir(parents=True)
    (folder / "model.onnx").write_bytes(drawn.model.SerializeToString())
    for prefix, arrays in (("input", drawn.inputs.values()), ("output", answers)):
        for i, array in enumerate(arrays):
            (data / f"{prefix}_{i}.pb").write_bytes(numpy_helper.from_array(np.ascontiguousarray(array).reshape(array.shape)).SerializeToString())
    (folder / "tol.txt").write_text(f"{RTOL} {ATOL * magnitude(answers) + FLOOR}\n")


def draw_cases(seed, first, count, folder, say):
    """Writes `count` cases, beginning with graph `first`. Reports each graph through `say`, in order: its index, the
    reason why it is set aside (or nothing), and its steps."""
    while count > 0:
        say((first, "begun", []))
        drawn = random_nets.draw([seed, first])
        answers = expected(drawn)
        aside = answers if isinstance(answers, str) else ""
        if not aside:
            write_case(folder / name_of(first), drawn, answers)
            count -= 1
        say((first, aside, drawn.steps))
        first += 1


def name_of(index):
    return f"g{index:06}"


def drawn_apart(draw, seed, first, count, folder):
    """Runs a function like draw_cases in a separate process, because a peer may crash."""
    while count > 0:
        here, there = multiprocessing.Pipe(duplex=False)
        child = multiprocessing.Process(target=draw, args=(seed, first, count, folder, there.send))
        child.start()
        there.close()
        state = None
        try:
            while True:
                index, state, steps = here.recv()
                if state == "begun":
                    first = index
                    continue
                first = index + 1
                count -= state == ""
                yield index, state, steps
        except EOFError:
            child.join()
        if count > 0 and (state != "begun" or child.exitcode > 0):  # an exception is a bug in this script
            sys.exit(f"drawing graph {first} of seed {seed} failed; exit code {child.exitcode}")
        if state == "begun":
            first = index + 1
            yield index, "ONNX's shape inference or a peer crashes", steps


def verdict_of(reason):
    if reason.startswith(("crashed", "did not end", "ended with", "internal")):
        return "internal"
    return "wrong" if re.match(r"(output '.*': (expected|element|strings)|expected \d+ outputs)", reason) else "refused"


def check(kilter, folder, names, options):
    """Returns the verdict and reason of every case."""
    done = subprocess.run([kilter, "check", str(folder), "--target", options.target, "--threads", str(options.threads),
                           "--list-passed"], capture_output=True, text=True, errors="replace")
    found = {}
    for line in done.stdout.splitlines():
        m = re.match(r"(passed|failed|skipped) +(\S+?)(?:: (.*))?$", line)
        if m and m[2] in names:
            found[m[2]] = ("agree", "") if m[1] == "passed" else \
                ("refused", m[3]) if m[1] == "skipped" else (verdict_of(m[3]), m[3])
    if len(found) != len(names):
        sys.exit(f"kilter check: {len(found)} verdicts of {len(names)} graphs; exit code {done.returncode}\n{done.stderr[-2000:]}")
    return found


def run(count, draw, what):
    """Draws by a function like draw_cases as often as the arguments say, or `count` times, and checks the cases."""
    parser = argparse.ArgumentParser()
    parser.add_argument("kilter")
    parser.add_argument("--count", type=int, default=count)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", type=int)
    parser.add_argument("--target", default="native")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--keep", type=pathlib.Path)
    options = parser.parse_args()
    counts, aside, steps, kept = collections.Counter(), collections.Counter(), collections.Counter(), []
    scratch = pathlib.Path(tempfile.mkdtemp(prefix="random_graphs."))
    index = 0 if options.only is None else options.only
    wanted = options.count if options.only is None else 1
    try:
        while sum(counts.values()) < wanted:
            batch = {}
            for at, why, of in drawn_apart(draw, options.seed, index, min(BATCH, wanted - sum(counts.values())), scratch):
                index = at + 1
                if options.only is not None and why:
                    sys.exit(f"set aside: {why}; {of}")
                if why:
                    aside[why] += 1
                else:
                    batch[name_of(at)] = of
            for name, (verdict, reason) in sorted(check(options.kilter, scratch, batch, options).items()):
                counts[verdict] += 1
                steps.update(batch[name])
                expected_refusal = verdict == "refused" and any(re.search(e, reason) for e in EXPECTED_REFUSALS)
                if verdict != "agree":
                    print(f"{verdict} {name}: {reason} [{', '.join(batch[name])}]", flush=True)
                if verdict != "agree" and not expected_refusal:
                    kept.append(name)
                if options.keep is not None and (verdict != "agree" or options.only is not None):
                    shutil.copytree(scratch / name, options.keep / name, dirs_exist_ok=True)
                shutil.rmtree(scratch / name)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    print(", ".join(f"{counts[v]} {v}" for v in ("agree", "refused", "wrong", "internal")) +
          f" of {sum(counts.values())} {what} of seed {options.seed} (target {options.target}, threads {options.threads})")
    print("set aside: " + (", ".join(f"{n} {why}" for why, n in sorted(aside.items())) or "none"))
    print("steps: " + ", ".join(f"{name} {n}" for name, n in steps.most_common()))
    sys.exit(1 if kept else 0)


if __name__ == "__main__":
    run(150, draw_cases, "graphs")
