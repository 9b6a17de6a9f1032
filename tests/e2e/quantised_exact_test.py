#!/usr/bin/env python3
"""Checks that the results of quantised networks are exactly those of exact arithmetic.

usage: quantised_exact_test.py KILTER [--count N] [--seed N] [--target TARGET]... [--emulated TARGET]... [--only NUMBER]
                               [--keep FOLDER]

Random problems (quantised_exact.py) are run many at a time, as one network, for several targets. Each result must be
that of exact arithmetic: integer sums, and one rounding of the exact real quotient. To check the expected results, ONNX
Runtime, which computes in f32, runs the same networks: if there is only one rounding between the inputs and a result,
ONNX Runtime's may differ by one step, and only near a tie.

--emulated runs the networks' code for an AArch64 processor as the tests in tests/aarch64 do: KILTER_AARCH64_BIN is the
folder with run_folder, KILTER_AARCH64_RUN the command that runs it.
"""
import argparse
import concurrent.futures
import os
import pathlib
import shlex
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime

import quantised_exact

BATCH = 50  # problems of one network
NEAR_TIE = 1e-3  # of a quotient in f32


def describe(problem, name, got, want):
    wrong = np.flatnonzero(got.ravel() != want.ravel())
    i = int(wrong[0])
    text = f"{name}: {wrong.size} of {want.size} elements differ, e.g. {i}: got {got.ravel()[i]}, want {want.ravel()[i]}"
    if name in problem.quotients:
        real, scale, zero = problem.quotients[name]
        text += f" for {float(real.quotient(i, scale))!r} + {zero}"
    return f"{text}\n    {' '.join(problem.text)}"


def equal(problem, name, got, want):
    """Whether results are right: equal, or one step off next to a tie. A quotient is next to a tie if it is within f32
    rounding of it and was computed by operators on floats, or otherwise if it is less than 2^-32 from it."""
    if np.array_equal(got, want):
        return True
    if name not in problem.quotients:
        return False
    off = np.abs(got.astype(np.int64) - want.astype(np.int64)).ravel()
    real, scale, _ = problem.quotients[name]
    free = real.near_ties(scale) if real.loose else real.snapped(scale)
    return off.max() == 1 and set(np.flatnonzero(off)) <= set(free)


def run_kilter(kilter, target, folder, problems):
    """Returns the outputs by name."""
    out = folder / f"out_{target}"
    command = [kilter, "run", str(folder / "model.onnx"), "--target", target, "--threads", "1", "--output", str(out), "--input"]
    command += [f"{n}={folder / n}.npy" for p in problems for n in p.inputs]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"kilter ends with {done.returncode}: {done.stderr.strip()[-2000:]}")
    return {n: np.load(out / f"{n}.npy") for p in problems for n in p.outputs}


def run_emulated(kilter, target, folder, problems):
    """Returns the outputs by name, of code for an AArch64 processor. Each problem is a file of its own, because problems with a
    step that has no kernel there are left out: the runtime library has no reference kernels."""
    where = folder / f"emulated_{target}"
    where.mkdir(exist_ok=True)
    for i, p in enumerate(problems):
        onnx.save(quantised_exact.model([p]), where / f"{i}.onnx")
        compiled = subprocess.run([kilter, "compile", where / f"{i}.onnx", "--target", target, "--threads", "1", "-o", where / f"{i}.kilter"],
                                  capture_output=True, text=True)
        if compiled.returncode != 0:
            raise RuntimeError(f"kilter compile ends with {compiled.returncode}: {compiled.stderr.strip()[-2000:]}")
        (where / f"{i}.in").write_bytes(b"".join(v.tobytes() for v in p.inputs.values()))
    subprocess.run([*shlex.split(os.environ["KILTER_AARCH64_RUN"]), os.environ["KILTER_AARCH64_BIN"] + "/run_folder", where], capture_output=True)
    out = {}
    for i, p in enumerate(problems):
        error, answer = where / f"{i}.error", where / f"{i}.out"
        if error.exists() and "reference kernel" in error.read_text():
            continue
        if not answer.exists():
            raise RuntimeError(f"{' '.join(p.text)}: {error.read_text() if error.exists() else 'no answer'}")
        at = 0
        for name, want in p.outputs.items():
            out[name] = np.frombuffer(answer.read_bytes(), want.dtype, want.size, at).reshape(want.shape)
            at += want.nbytes
    return out


def check_peer(problems):
    """Returns how many results ONNX Runtime rounds differently, and where it contradicts the expected results."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    problems = [p for p in problems if p.groups <= 1 and p.on_reals]
    if not problems:
        return 0, []
    model = quantised_exact.model(problems).SerializeToString()
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    single = [(p, n) for p in problems for n in p.outputs if n in p.quotients]
    results = session.run([n for _, n in single], {n: v for p in problems for n, v in p.inputs.items()})
    ties, faults = 0, []
    for (p, name), got in zip(single, results):
        want = p.outputs[name]
        for i in np.flatnonzero(got.ravel() != want.ravel()):
            real, scale, _ = p.quotients[name]
            quotient = float(real.quotient(int(i), scale))
            step = abs(int(got.ravel()[i]) - int(want.ravel()[i]))
            if step > 1 or abs(abs(quotient - np.floor(quotient)) - 0.5) > NEAR_TIE:
                faults.append(f"ONNX Runtime: {describe(p, name, got, want)}")
                break
            ties += 1
    return ties, faults


def check(args, first, folder):
    """Checks one network. Returns the number of its results, of those that ONNX Runtime rounds differently, and the
    faults."""
    numbers = [args.only] if args.only is not None else range(first, min(first + BATCH, args.count))
    problems = [quantised_exact.problem(args.seed, n) for n in numbers]
    model = quantised_exact.model(problems)
    folder.mkdir(parents=True, exist_ok=True)
    onnx.save(model, folder / "model.onnx")
    for p in problems:
        for name, values in p.inputs.items():
            np.save(folder / f"{name}.npy", values)
    ties, faults = check_peer(problems)
    results = 0
    for target in args.target + args.emulated:
        run = run_emulated if target in args.emulated else run_kilter
        got = run(args.kilter, target, folder, problems)
        for p in problems:
            for name, want in p.outputs.items():
                if target in args.emulated and name not in got:
                    continue
                results += want.size
                same = got[name].dtype == want.dtype and got[name].shape == want.shape
                if not same:
                    faults.append(f"{target}: {name}: got {got[name].dtype}{got[name].shape}, want {want.dtype}{want.shape}")
                elif not equal(p, name, got[name], want):
                    faults.append(f"{target}: {describe(p, name, got[name], want)}")
    return results, ties, faults


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("kilter")
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--target", action="append")
    parser.add_argument("--emulated", action="append", default=[])
    parser.add_argument("--only", type=int, help="run only the problem of this number")
    parser.add_argument("--keep", type=pathlib.Path, help="folder for the networks and their inputs")
    args = parser.parse_args()
    args.target = args.target or [] if args.emulated else args.target or ["x86-64-v2", "x86-64-v3", "native"]
    onnxruntime.set_default_logger_severity(4)
    results = ties = 0
    faults = []
    with tempfile.TemporaryDirectory(prefix="quantised_exact.") as scratch:
        folder = args.keep or pathlib.Path(scratch)
        starts = [0] if args.only is not None else range(0, args.count, BATCH)
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            runs = {start: pool.submit(check, args, start, folder / str(start)) for start in starts}
            for start, run in runs.items():
                try:
                    more, other, found = run.result()
                    results, ties, faults = results + more, ties + other, faults + found
                except Exception as error:  # every network is reported
                    faults.append(f"network of problems {start} to {start + BATCH - 1}: {type(error).__name__}: {error}")
    for fault in faults:
        print(f"FAILED {fault}")
    print(f"{results} results of {len(starts) * BATCH if args.only is None else 1} problems for {', '.join(args.target + args.emulated)}, "
          f"{len(faults)} faults; ONNX Runtime rounds {ties} results another way")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
