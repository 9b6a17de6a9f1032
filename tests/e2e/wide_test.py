#!/usr/bin/env python3
"""Tests operators with very many operands: Sum, Max, Min, Mean and Concat run and give NumPy's results.

    wide_test.py KILTER [--widths 10 1000 40000 100000]
"""

import argparse
import os
import subprocess
import sys
import tempfile

import numpy as np
import onnx
from onnx import helper

import made_models

RULES = {
    "Sum": lambda all: np.sum(all, axis=0, dtype=np.float64),
    "Mean": lambda all: np.mean(all, axis=0, dtype=np.float64),
    "Max": lambda all: np.max(all, axis=0),
    "Min": lambda all: np.min(all, axis=0),
    "Concat": lambda all: np.concatenate(all, axis=0),
}


def wide_model(operator, width):
    """Returns a model whose operands are rows of the input in an irregular order, half of them after a Relu."""
    shape = [16, 8]
    nodes = [helper.make_node("Relu", ["x"], ["r"])]
    nodes.append(helper.make_node("Split", ["x"], [f"x{i}" for i in range(16)], axis=0))
    nodes.append(helper.make_node("Split", ["r"], [f"r{i}" for i in range(16)], axis=0))
    names = [f"{'xr'[i % 2]}{(i * 7 + i // 16) % 16}" for i in range(width)]
    attributes = {"axis": 0} if operator == "Concat" else {}
    nodes.append(helper.make_node(operator, names, ["y"], **attributes))
    out = [width if operator == "Concat" else 1, 8]
    return made_models.model(nodes, [made_models.value("x", shape)], [made_models.value("y", out)]), names


def check(kilter, folder, operator, width):
    model, names = wide_model(operator, width)
    file = os.path.join(folder, "wide.onnx")
    onnx.save(model, file)
    x = np.random.default_rng(width).standard_normal((16, 8), dtype=np.float32)
    np.save(os.path.join(folder, "x.npy"), x)
    command = [kilter, "run", file, "--input", f"x={folder}/x.npy", "--output", folder]
    run = subprocess.run(command, capture_output=True, text=True, timeout=600)
    if run.returncode != 0:
        return f"{operator} of {width}: exit {run.returncode}: {run.stderr[-300:]}"
    rows = {"x": x, "r": np.maximum(x, 0)}
    want = RULES[operator]([rows[n[0]][int(n[1:])][None] for n in names])
    got = np.load(os.path.join(folder, "y.npy"))
    if got.shape != want.shape:
        return f"{operator} of {width}: shape {got.shape}, expected {want.shape}"
    exact = operator in ("Max", "Min", "Concat")
    # The error of an f32 sum from left to right is a share of the sum of magnitudes.
    error = np.abs(got - want).max() / (1 if exact else max(np.abs(want).max(), 1) * max(width, 10) ** 0.5)
    limit = 0 if exact else 1e-6
    return None if error <= limit else f"{operator} of {width}: error {error}, expected {limit} or less"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kilter")
    parser.add_argument("--widths", type=int, nargs="*", default=[10, 1000, 40000, 100000])
    options = parser.parse_args()
    faults = []
    for width in options.widths:
        for operator in RULES:
            with tempfile.TemporaryDirectory() as folder:
                fault = check(options.kilter, folder, operator, width)
            print(f"{operator} of {width}: {fault or 'right'}", flush=True)
            faults += [fault] if fault else []
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
