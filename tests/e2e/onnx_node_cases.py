"""Runs the ONNX standard's node cases, and the models that the package onnx contains, with `kilter check`.

usage: onnx_node_cases.py KILTER CASES_FOLDER KNOWN_FILE [--write] [--target NAME]

KNOWN_FILE lists the cases that do not pass, one `name: reason` per line. The test fails if a case that is not listed
does not pass, if a listed one passes (then remove it, unless it is random and agrees by chance), or if fewer than
LEAST_PASSING pass. --write rewrites the list. Code is generated for --target (default: native). The test is skipped
(exit code 77) for a target that this machine does not run.
"""
import argparse
import pathlib
import re
import subprocess
import sys
import warnings

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bench"))
from networks import runs_here  # noqa: E402

# Folders of onnx.backend.test whose data are in the package.
PACKAGED = ("simple", "pytorch-operator", "pytorch-converted")
LEAST_PASSING = 1865
RANDOM = "random draws are compared by distribution (tests/ops/random_test.cpp), agrees by chance: "
# The expected values include the rounding errors of the reference's intermediate values. Values of float16 are up to
# 2^-10 apart, relative to the value, but rtol is 1e-3.
NEAR_ZERO = "the expected value is a rounding error of the reference where the result is 0, above atol: "
ROUNDED = "the reference rounds its intermediates in another order, which shows in steps of float16 above rtol: "


def write_cases(folder):
    import numpy as np
    import onnx
    from onnx import numpy_helper
    warnings.filterwarnings("ignore")
    np.random.seed(0)  # some cases use random numbers, which must be the same on every machine
    from onnx.backend.test.case.node import collect_testcases

    marker = folder / f"onnx-{onnx.__version__}.done"
    if marker.exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    for case in collect_testcases(None):
        where = folder / case.name
        where.mkdir(exist_ok=True)
        (where / "model.onnx").write_bytes(case.model.SerializeToString())
        for s, (inputs, outputs) in enumerate(case.data_sets):
            data = where / f"test_data_set_{s}"
            data.mkdir(exist_ok=True)
            for prefix, values, ports in (("input", inputs, case.model.graph.input), ("output", outputs, case.model.graph.output)):
                for i, value in enumerate(values):
                    port = ports[i]
                    if isinstance(value, onnx.TensorProto):
                        proto = value
                    elif port.type.WhichOneof("value") == "sequence_type":
                        proto = numpy_helper.from_list(value, port.name)
                    elif port.type.WhichOneof("value") == "optional_type":
                        proto = numpy_helper.from_optional(value, port.name)
                    else:
                        proto = numpy_helper.from_array(np.asarray(value), port.name)
                    (data / f"{prefix}_{i}.pb").write_bytes(proto.SerializeToString())
        (where / "tol.txt").write_text(f"{case.rtol} {case.atol}\n")
    marker.write_text("")


def read_known(file):
    known = {}
    for line in file.read_text().splitlines() if file.exists() else []:
        if line and not line.startswith("#"):
            name, _, reason = line.partition(": ")
            known[name] = reason
    return known


def packaged_folder(name):
    import onnx.backend.test
    return pathlib.Path(onnx.backend.test.__file__).parent / "data" / name


def run_check(kilter, folder, target):
    """Returns the lines that `kilter check` prints, and the number of cases that pass."""
    done = subprocess.run([kilter, "check", str(folder), "--target", target], capture_output=True, text=True)
    lines = done.stdout.splitlines()
    totals = re.fullmatch(r"(\d+) passed, (\d+) failed, (\d+) skipped", lines[-1] if lines else "")
    if not totals:
        sys.exit(f"kilter check {folder}: no closing line; exit code {done.returncode}\n{done.stderr[-2000:]}")
    return lines, int(totals[1])


def read_missed(lines, folder, prefix):
    """Returns the reasons of the cases that do not pass, by name."""
    missed = {}
    for line in lines[:-1]:
        found = re.match(r"(failed |skipped) *(\S+): (.*)", line)
        if found:
            missed[prefix + found[2]] = found[3].replace(str(folder), "CASES")[:160]
    return missed


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("kilter")
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("known_file", type=pathlib.Path)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--target", default="native")
    options = parser.parse_args()
    kilter, folder, known_file = options.kilter, options.folder, options.known_file
    if not runs_here(kilter, options.target):
        print(f"skipped: this machine does not run code for {options.target}")
        sys.exit(77)
    write_cases(folder)
    lines, passed = run_check(kilter, folder, options.target)
    missed = read_missed(lines, folder, "")
    for name in PACKAGED:
        packaged = packaged_folder(name)
        missed |= read_missed(run_check(kilter, packaged, options.target)[0], packaged, f"{name}/")
    if options.write:
        head = "# Cases of the ONNX standard that do not pass yet, each with its reason. Made by onnx_node_cases.py --write.\n"
        for name in missed:
            if not missed[name].startswith("output "):
                continue
            if re.match(r"test_attention.*_fp16", name):
                missed[name] = ROUNDED + missed[name]
            if re.match(r"test_dft_inverse", name):
                missed[name] = NEAR_ZERO + missed[name]
        chance = {name: RANDOM + reason for name, reason in missed.items() if re.search(r"bernoulli|random|training_dropout", name)}
        known_file.write_text(head + "".join(f"{name}: {reason}\n" for name, reason in sorted((missed | chance).items())))
    known = read_known(known_file)
    lost = sorted(set(missed) - set(known))
    # The steps in which kernels round can depend on the target.
    varying = (RANDOM,) if options.target == "native" else (RANDOM, ROUNDED)
    won = sorted(name for name in set(known) - set(missed) if not known[name].startswith(varying))
    for name in lost:
        print(f"lost: {name}: {missed[name]}")
    for name in won:
        print(f"passes now, take it off {known_file.name}: {name}")
    print(lines[-1])
    if passed < LEAST_PASSING:
        print(f"expected at least {LEAST_PASSING} to pass, got {passed}")
    sys.exit(1 if lost or won or passed < LEAST_PASSING else 0)


if __name__ == "__main__":
    main()
