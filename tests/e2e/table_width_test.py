#!/usr/bin/env python3
"""Runs the commands that print tables on a terminal of 80 columns, with a network whose layers have long names: no line is
wider, titles are bold, and the same command without a terminal prints whole names.

usage: table_width_test.py KILTER
"""
import fcntl
import os
import pathlib
import pty
import re
import struct
import subprocess
import sys
import tempfile
import termios

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from terminal_output import rest_of

KILTER, COLUMNS = os.path.abspath(sys.argv[1]), 80
BLOCK = "/backbone/a_stage_with_a_long_name/blocks.{}/residual_branch_of_the_block/"
BOLD, CODES = "\033[1m", re.compile(r"\033\[[0-9;]*m")
failures = []


def check(what, condition, got=""):
    if not condition:
        failures.append(what)
        print(f"FAILED: {what}: {got}")


def write_model(path):
    """Writes a network of convolutions with residual branches, and a classifier."""
    random, nodes, weights = np.random.default_rng(1), [], []

    def weight(*shape):
        weights.append(numpy_helper.from_array((random.standard_normal(shape) * 0.1).astype(np.float32), f"w{len(weights)}"))
        return weights[-1].name

    def node(op, inputs, name, **attributes):
        nodes.append(helper.make_node(op, inputs, [name + "_output"], name=name, **attributes))
        return name + "_output"

    value = "the_input_image_of_the_network"
    for block in range(4):
        at = BLOCK.format(block)
        branch = node("Conv", [value, weight(16, 16 if block else 3, 3, 3)], at + "convolution_with_a_very_long_name_indeed", pads=[1] * 4)
        branch = node("Relu", [branch], at + "activation_after_the_convolution")
        value = node("Add", [branch, value], at + "addition_of_both_branches") if block else branch
    value = node("GlobalAveragePool", [value], "/head/global_average_pooling_of_the_last_stage")
    value = node("Flatten", [value], "/head/flatten_for_the_classifier")
    value = node("Gemm", [value, weight(16, 10)], "/head/fully_connected_classifier_with_a_long_name")
    graph = helper.make_graph(nodes, "long_names", [helper.make_tensor_value_info("the_input_image_of_the_network", TensorProto.FLOAT, [1, 3, 24, 24])],
                              [helper.make_tensor_value_info(value, TensorProto.FLOAT, [1, 10])], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)


def on_terminal(words, folder):
    """Returns what the command prints on a terminal of COLUMNS columns, with its codes."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, COLUMNS, 0, 0))
    environment = {key: value for key, value in os.environ.items() if key != "NO_COLOR"} | {"TERM": "xterm-256color"}
    process = subprocess.Popen([KILTER, *words], stdin=subprocess.DEVNULL, stdout=theirs, stderr=subprocess.DEVNULL, cwd=folder, env=environment)
    os.close(theirs)
    out = rest_of(ours).decode().replace("\r\n", "\n")
    os.close(ours)
    check(f"{words[0]} ends with 0", process.wait() == 0, process.returncode)
    return out


def fits(words, folder, titles):
    """Checks the widths of all lines, apart from commands to copy, and that each line of titles is bold."""
    out = on_terminal(words, folder)
    name = " ".join(words[:1] + [word for word in words[1:] if word.startswith("-")])
    for line in CODES.sub("", out).split("\n"):
        command = line.strip().startswith("$ ") or " kilter " in line
        check(f"{name}: a line has at most {COLUMNS} columns", command or len(line) <= COLUMNS, f"{len(line)}: {line}")
    for title in titles:
        line = next((line for line in out.split("\n") if title in line), "")
        check(f"{name}: '{title}' is bold", line.startswith(BOLD), line)


def main():
    long_name = BLOCK.format(1) + "convolution_with_a_very_long_name_indeed"
    with tempfile.TemporaryDirectory() as folder:
        write_model(pathlib.Path(folder) / "long.onnx")
        (pathlib.Path(folder) / "samples").mkdir()
        for i in range(2):
            np.save(pathlib.Path(folder) / "samples" / f"{i}.npy", np.random.default_rng(i).random((1, 3, 24, 24), np.float32))
        quick, one = ["--seconds", "0.2"], ["--threads", "1"]
        for words, titles in [
            (["profile", "long.onnx", *one, *quick], ["of bound"]),
            (["explain", "long.onnx", *one, "--seconds", "0.5"], ["  of it  "]),
            (["inspect", "long.onnx"], ["problem | schedule"]),
            (["tasks", "long.onnx"], ["becomes", "best ms"]),
            (["compare", "long.onnx", *one, "--schedule-b", f"{long_name}=reference", "--seconds", "0.3"], ["B - A"]),
            (["bench", "long.onnx", *one, *quick], []),
            (["time", "long.onnx", *one, *quick], ["estimate"]),
            (["device"], ["GFLOP/s"]),
            (["quantize", "long.onnx", "--samples", "samples", "-o", "q.onnx"], ["alone dB"]),
            (["quantize", "long.onnx", "--weights", "int8", "-o", "w.onnx"], ["weights dB"]),
            (["precision", "long.onnx", "--samples", "samples", "--tolerance", "1e-3", *one, "--seconds", "0.5"], ["layers in f32", "error alone"]),
            (["targets"], []), (["zoo"], []), (["ops"], []), (["records", "list"], []),
        ]:
            fits(words, folder, titles)
        whole = subprocess.run([KILTER, "tasks", "long.onnx"], cwd=folder, capture_output=True, text=True, check=True).stdout
        check("without a terminal, names stay whole", long_name in whole and BOLD not in whole, whole[:200])
    print("tables fit their terminal" if not failures else f"{len(failures)} checks failed")
    return bool(failures)


if __name__ == "__main__":
    sys.exit(main())
