"""Tests that `kilter run` agrees with ONNX Runtime on the same inputs, written as .npy: max |difference| <= 1e-3 * max |reference|, no NaN.

usage: compare_onnxruntime.py KILTER MODELS_FOLDER [NAME ...] [--target NAME]...

Code is generated for each --target (default: native) that this machine runs.
"""
import argparse
import pathlib
import re
import subprocess
import sys
import tempfile

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bench"))
import networks  # noqa: E402

CASES = [(name, networks.SHAPES.get(name, {})) for name in networks.SPEED_SET]
CASES += [("ppocr_det", {"x": (1, 3, 480, 736)}), ("silero_openvino_16k", {}),
          ("silero_16k_sequence", networks.SHAPES["silero_16k_sequence"])]
TOLERANCE = 1e-3


def difference(kilter, path, target, feeds, ports, want):
    """Returns why the outputs differ from ONNX Runtime's ("" if they agree), and the largest relative difference."""
    with tempfile.TemporaryDirectory() as scratch:
        command = [kilter, "run", str(path), "--target", target, "--output", f"{scratch}/out"]
        for i, (port, value) in enumerate(feeds.items()):
            np.save(f"{scratch}/in{i}.npy", value)
            command += ["--input", f"{port}={scratch}/in{i}.npy"]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            return f"exit code {done.returncode}: {done.stderr.strip()[-500:]}", 0
        worst = 0.0
        for port, reference in zip(ports, want):
            got = np.load(f"{scratch}/out/" + re.sub(r"[^A-Za-z0-9_.-]", "_", port.name) + ".npy")
            if got.shape != reference.shape:
                return f"output {port.name}: shape {got.shape}, expected {reference.shape}", 0
            if np.isnan(got).any():
                return f"output {port.name}: NaN", 0
            most = np.abs(got.astype(np.float64) - reference).max() / max(np.abs(reference).max(), 1e-30)
            worst = max(worst, float(most))
    return ("" if worst <= TOLERANCE else f"differs by {worst:.2e} of the largest value, allowed {TOLERANCE}"), worst


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("kilter")
    parser.add_argument("folder")
    parser.add_argument("names", nargs="*")
    parser.add_argument("--target", action="append")
    options = parser.parse_args()
    targets = options.target or ["native"]
    for target in [t for t in targets if not networks.runs_here(options.kilter, t)]:
        print(f"skipped {target}: this machine does not run code for it")
        targets.remove(target)
    failed = 0
    for name, shapes in CASES:
        if options.names and name not in options.names:
            continue
        path = networks.path_of(name, options.folder)
        session = networks.peer_session(path, 1)
        feeds = networks.seeded_inputs(session.get_inputs(), shapes)
        want = session.run(None, feeds)
        label = name + "".join(f" {k}={'x'.join(map(str, v))}" for k, v in shapes.items())
        for target in targets:
            reason, worst = difference(options.kilter, path, target, feeds, session.get_outputs(), want)
            failed += bool(reason)
            outcome = reason or f"max difference {worst:.1e}"
            print(f"{'FAILED' if reason else 'ok    '} {label:<44} {target:<10} {outcome}", flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
