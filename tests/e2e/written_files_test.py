#!/usr/bin/env python3
"""Tests names that are not UTF-8 or contain control characters with every command that writes JSON, CSV or HTML, and
attributes that are not finite with --verify.

    written_files_test.py KILTER
"""

import html.parser
import json
import os
import subprocess
import sys
import tempfile

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import made_models

# Placeholders of the same length for the odd bytes, because protobuf's Python accepts only text.
ODD = {"node": b"\xc3\x28no\x1b[31m", "input": b"in\xc3\x28\n", "output": b"\xc3\x28out\x07", "graph": b"g\xff\xfe\xc3\x28"}
PLAIN = {kind: f"{kind[0].upper()}{'Z' * (len(odd) - 1)}" for kind, odd in ODD.items()}


def odd_names(file):
    weights = np.random.default_rng(1).standard_normal((16, 16, 3, 3), dtype=np.float32)
    nodes = [
        helper.make_node("Conv", [PLAIN["input"], "w"], ["c"], name=PLAIN["node"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], [PLAIN["output"]], name="r" + PLAIN["node"]),
    ]
    model = made_models.model(
        nodes,
        [made_models.value(PLAIN["input"], [1, 16, 12, 12])],
        [made_models.value(PLAIN["output"], [1, 16, 12, 12])],
        [numpy_helper.from_array(weights, "w")],
    )
    model.graph.name = PLAIN["graph"]
    data = model.SerializeToString()
    for kind, odd in ODD.items():
        data = data.replace(PLAIN[kind].encode(), odd)
    with open(file, "wb") as out:
        out.write(data)


class Page(html.parser.HTMLParser):
    """Checks that the text of a page contains no control character."""

    def handle_data(self, data):
        assert "\x1b" not in data and "\x07" not in data, data[:80]


def check_file(file):
    with open(file, "rb") as written:
        data = written.read()
    assert data, f"{os.path.basename(file)} is empty"
    if file.endswith(".csv"):
        return
    text = data.decode("utf-8")  # throws if it is not
    if file.endswith(".jsonl"):
        for line in text.splitlines():
            json.loads(line)
    elif file.endswith(".json"):
        json.loads(text)
    else:
        Page().feed(text)


def check_names(kilter, folder):
    odd_names(os.path.join(folder, "odd.onnx"))
    os.mkdir(os.path.join(folder, "samples"))
    np.save(os.path.join(folder, "samples", "0.npy"), np.random.default_rng(2).standard_normal((1, 16, 12, 12), dtype=np.float32))
    written = [
        ["profile", "odd.onnx", "--seconds", "0.2", "--json", "1.json", "--csv", "2.csv", "--trace", "3.json", "--html", "4.html"],
        ["inspect", "odd.onnx", "--schedules", "--json", "6.json"],
        ["explain", "odd.onnx", "--seconds", "1", "--json", "7.json", "--html", "8.html"],
        ["compare", "odd.onnx", "odd.onnx", "--seconds", "1", "--json", "9.json"],
        ["time", "odd.onnx", "--json", "10.json"],
        ["bench", "odd.onnx", "--seconds", "0.2", "--json", "11.json"],
        ["tasks", "odd.onnx", "--json", "12.json"],
        ["tune", "odd.onnx", "--time", "8s", "--trials", "8", "--records", "odd.db", "--json", "13.json", "--html", "14.html", "--events", "15.jsonl"],
        ["records", "list", "--records", "odd.db", "--json", "16.json"],
        ["graph-tune", "odd.onnx", "--records", "odd.db", "--no-run", "--json", "17.json"],
        ["kernels", "odd.onnx", "--seconds", "0.05", "--json", "18.json"],
        ["quantize", "odd.onnx", "--samples", "samples", "-o", "odd.q.onnx", "--json", "19.json"],
        ["run", "odd.q.onnx", "--verify"],
        ["compile", "odd.onnx", "-o", "odd.plan"],
        ["inspect", "odd.plan"],
        ["run", "odd.onnx", "--verify"],
    ]
    faults = []
    for arguments in written:
        run = subprocess.run([kilter, *arguments], cwd=folder, capture_output=True, timeout=300)
        files = [a for a in arguments if a.split(".")[-1] in ("json", "jsonl", "csv", "html")]
        try:
            assert run.returncode == 0, f"exit {run.returncode}: {run.stderr[-300:]}"
            for file in files:
                check_file(os.path.join(folder, file))
        except (AssertionError, ValueError, OSError) as fault:
            faults.append(f"{' '.join(arguments)}: {fault}")
    return faults


def infinite_models():
    """Returns nodes whose float attributes are not finite."""
    inf, nan = float("inf"), float("nan")
    x = made_models.value("x", [1, 4, 6, 6])

    def one(operator, opset, then=None, **attributes):
        nodes = [helper.make_node(operator, ["x"], ["t"], **attributes), then or helper.make_node("Relu", ["t"], ["y"])]
        output = helper.make_empty_tensor_value_info("y")
        output.type.tensor_type.elem_type = TensorProto.FLOAT
        return made_models.model(nodes, [x], [output], opset=opset)

    pool = helper.make_node("MaxPool", ["t"], ["y"], kernel_shape=[3, 3])
    made = [one("Pad", opset, pool, mode="constant", pads=[0, 0, 1, 1, 0, 0, 1, 1], value=-inf) for opset in (7, 8, 10)]
    made += [one("Clip", 7, min=-inf), one("Clip", 7, max=inf), one("Clip", 9, min=-inf, max=inf)]
    made += [one("LeakyRelu", 16, alpha=value) for value in (inf, nan)]
    made += [one("Elu", 7, alpha=inf), one("Selu", 7, gamma=inf), one("ThresholdedRelu", 10, alpha=-inf)]
    made += [one("HardSigmoid", 7, alpha=nan), one("Celu", 12, alpha=inf), one("Shrink", 9, lambd=inf, bias=-inf)]
    return made


def check_infinities(kilter, folder):
    faults = []
    for i, model in enumerate(infinite_models()):
        file = os.path.join(folder, f"infinite_{i}.onnx")
        onnx.save(model, file)
        node = model.graph.node[0]
        for arguments in (["run", file, "--verify"], ["compile", file, "-o", file + ".plan"], ["run", file + ".plan"]):
            run = subprocess.run([kilter, *arguments], capture_output=True, text=True, timeout=300)
            # What NaN and infinities do to the values is not tested here: exit code 1 is accepted.
            if run.returncode not in (0, 1):
                faults.append(f"{node.op_type} {list(node.attribute)}: {arguments[0]}: exit {run.returncode}: {run.stderr[-300:]}")
    return faults


def main():
    kilter = os.path.abspath(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_DATA_HOME"] = folder
        faults = check_names(kilter, folder) + check_infinities(kilter, folder)
    print("\n".join(faults) or "all names and attributes go through")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
