#!/usr/bin/env python3
"""Tests that names from a model, whatever they contain, are safe in everything that the program prints and in the names
of the files that it writes. Also tests shapes that a model leaves open.

usage: names_test.py KILTER
"""
import csv
import io
import pathlib
import re
import subprocess
import sys
import tempfile

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

HOSTILE = "a\x1b[31mb\nkilter: forged\r\t\x07\x7f@@@@\u009b31m\u202e"
RAW = b"\xc3\x28\x9b\xff"  # replaces @@@@: invalid UTF-8, and an 8-bit control sequence
failures = 0


def expect(holds, *words):
    global failures
    if not holds:
        failures += 1
        print("FAILED:", *words, file=sys.stderr)


class Program:
    def __init__(self, kilter, folder):
        self.kilter, self.folder = kilter, folder

    def __call__(self, *words, code=0):
        """Returns the bytes of standard output and standard error."""
        done = subprocess.run([self.kilter, *map(str, words)], capture_output=True, cwd=self.folder, timeout=300,
                              env={"XDG_DATA_HOME": str(self.folder / "data"), "HOME": str(self.folder), "PATH": "/usr/bin:/bin", "LC_ALL": "C"})
        if done.returncode != code:
            expect(False, words, "exit", done.returncode, "expected", code, done.stdout[-500:], done.stderr[-1500:])
        return done.stdout, done.stderr


def weights(name, *shape):
    return numpy_helper.from_array(np.random.default_rng(1).standard_normal(shape).astype(np.float32), name)


def save(path, nodes, inputs, outputs, initializers=(), replace=True):
    graph = helper.make_graph(nodes, "g", inputs, outputs, list(initializers))
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    data = model.SerializeToString()
    path.write_bytes(data.replace(b"@@@@", RAW) if replace else data)


def hostile_model(path):
    """Two convolutions. The names of nodes, inputs, values and outputs contain bytes that no terminal may receive."""
    h = HOSTILE
    save(path,
         [helper.make_node("Conv", ["in" + h, "w1"], ["v1" + h], name="conv1" + h, pads=[1, 1, 1, 1]),
          helper.make_node("Relu", ["v1" + h], ["v2" + h], name="relu" + h),
          helper.make_node("Conv", ["v2" + h, "w2"], ["v3" + h], name="conv2" + h),
          helper.make_node("Softmax", ["v3" + h], ["../out" + h], name="softmax" + h, axis=1)],
         [helper.make_tensor_value_info("in" + h, TensorProto.FLOAT, [1, 8, 16, 16])],
         [helper.make_tensor_value_info("../out" + h, TensorProto.FLOAT, [1, 32, 16, 16])],
         [weights("w1", 16, 8, 3, 3), weights("w2", 32, 16, 1, 1)])


def is_clean(text):
    """Whether all bytes are valid UTF-8 and none moves the cursor, sets colours or reorders text."""
    try:
        decoded = text.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", decoded) is None


def check_printers(program, folder):
    hostile_model(folder / "h.onnx")
    cases = folder / "cases" / ("case" + "\x1b[31m")
    (cases / "test_data_set_0").mkdir(parents=True)
    hostile_model(cases / "model.onnx")
    (cases / "test_data_set_0" / "output_0.pb").write_bytes(numpy_helper.from_array(np.zeros((1, 32, 16, 16), np.float32)).SerializeToString())
    (cases / "test_data_set_0" / "input_0.pb").write_bytes(numpy_helper.from_array(np.zeros((1, 8, 16, 16), np.float32)).SerializeToString())
    commands = [
        ("run", "h.onnx"), ("run", "h.onnx", "--verify"), ("run", "h.onnx", "--output", "outputs"), ("inspect", "h.onnx"),
        ("inspect", "h.onnx", "--schedules"), ("profile", "h.onnx", "--seconds", "0.1", "--wide", "--arena"),
        ("profile", "h.onnx", "--seconds", "0.1", "--by", "task"), ("profile", "h.onnx", "--seconds", "0.1", "--csv", "-"),
        ("bench", "h.onnx", "--seconds", "0.1"), ("time", "h.onnx", "--seconds", "0.1"), ("tasks", "h.onnx", "--spaces"),
        ("explain", "h.onnx", "--seconds", "0.5"), ("compare", "h.onnx", "--threads-b", "1", "--seconds", "0.3"),
        ("compile", "h.onnx", "-o", "h.kilter"), ("run", "h.kilter"), ("inspect", "h.kilter"), ("profile", "h.kilter", "--seconds", "0.1"),
        ("tune", "h.onnx", "--time", "20s", "--trials", "20", "--verbose", "--threads", "1"),
        ("run", "h.onnx", "--records", "default", "--threads", "1"), ("tasks", "h.onnx", "--records", "default", "--threads", "1"),
        ("inspect", "h.onnx", "--schedules", "--records", "default", "--threads", "1"),
        ("graph-tune", "h.onnx", "--layers", "--measure", "1", "--race", "1", "--threads", "1"), ("records", "list"), ("records", "plans"),
    ]
    for words in commands:
        out, err = program(*words)
        expect(is_clean(out) and is_clean(err), words, "prints control bytes:", (out + err)[-1500:])
        lines = (out + err).decode("utf-8", "replace").splitlines()
        expect(not any(line.startswith("kilter: forged") for line in lines), words, "prints a line that a name forged")
    refused = [("check", "cases", 1), ("run", "h.onnx", "--no-fuse", "nope" + HOSTILE, 2), ("run", "no\x1b[31m\n.onnx", 3),
               ("inspect", "h.onnx", "--schedules", "--node", "nope", 2), ("inspect", "h.onnx", "--asm", "nope", 2),
               ("run", "h.onnx", "--input", "nope" + HOSTILE + "=1x2", 3), ("run", "h.onnx", "--\x1b[31m", 2),
               ("explain", "h.onnx", "--seconds", "0.3", "--node", "nope" + HOSTILE, 2)]
    for *words, code in refused:
        out, err = program(*words, code=code)
        expect(is_clean(out) and is_clean(err), words, "prints control bytes:", (out + err)[-1500:])
    out, _ = program("run", "h.onnx")
    expect(b"../out" + rb"a\x1b[31mb\x0akilter: forged\x0d\x09\x07\x7f\xc3(\x9b\xff\xc2\x9b31m\xe2\x80\xae: f32[1x32x16x16]" in out, out)


def check_csv(program, folder):
    evil = ['=HYPERLINK("http://x","y")', "+cmd|' /C calc'!A0", "-2+3", "@SUM(A1)", "\t=1+1", "\r=1+1", "plain,with;separators"]
    nodes, before = [], "x"
    for i, name in enumerate(evil):
        nodes.append(helper.make_node("Softmax", [before], [f"v{i}"], name=name, axis=i % 2))
        before = f"v{i}"
    save(folder / "csv.onnx", nodes, [helper.make_tensor_value_info("x", TensorProto.FLOAT, [64, 64])],
         [helper.make_tensor_value_info(before, TensorProto.FLOAT, [64, 64])])
    out, _ = program("profile", "csv.onnx", "--seconds", "0.1", "--csv", "-")
    head, *rows = csv.reader(io.StringIO(out.decode(), newline=""))
    names = [row[head.index("name")] for row in rows]
    for name in ["'" + e for e in evil[:4]] + [r"\x09=1+1", r"\x0d=1+1", evil[6]]:
        expect(name in names, repr(name), "is not among", names)
    for row in rows:
        expect(len(row) == len(head), "a row of other length:", row)
        for column, cell in zip(head, row):
            number = column in ("count", "duration_ms", "p10_ms", "p90_ms", "percent", "barrier_ms", "gap_before_ms", "threads", "balance", "flops", "gflops", "bytes", "gbps")
            if number:
                float(cell)
            else:
                expect(cell[:1] not in ("=", "+", "-", "@", "\t", "\r"), column, "begins a formula:", cell)


def check_open_shapes(program, folder):
    save(folder / "open.onnx",
         [helper.make_node("Unsqueeze", ["ids", "axes"], ["u"], name="unsqueeze"), helper.make_node("Add", ["u", "the mask"], ["s"], name="add"),
          helper.make_node("Softmax", ["s"], ["y"], name="softmax", axis=-1)],
         [helper.make_tensor_value_info("ids", TensorProto.FLOAT, ["batch", "length"]),
          helper.make_tensor_value_info("the mask", TensorProto.FLOAT, ["batch", "length", 4])],
         [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", "length", 4])],
         [numpy_helper.from_array(np.array([2], np.int64), "axes")])
    example = "`--input ids=1x128 --input 'the mask=1x128x4'`"
    for words in (["run"], ["bench"], ["profile"], ["compile", "-o", "o.kilter"], ["tune", "--time", "5s"], ["graph-tune"],
                  ["inspect", "--schedules"], ["explain"], ["compare"], ["tasks"], ["time"]):
        _, err = program(words[0], "open.onnx", *words[1:], code=3)
        expect(example in err.decode(), words, "has no example that gives all inputs:", err.decode())
    out, _ = program("inspect", "open.onnx")
    expect(example in out.decode(), "inspect shows no example that gives all inputs:", out.decode())
    program("run", "open.onnx", "--input", "ids=1x128", "--input", "the mask=1x128x4")
    _, err = program("bench", "open.onnx", "--input", "ids=2x7", code=3)
    expect("e.g. `--input 'the mask=2x7x4'`" in err.decode(), "one input is left:", err.decode())
    expect(not (folder / "data" / "kilter" / "open").exists(), "")


def check_output_files(program, folder):
    names = ["../up", ".hidden", "/etc/kilter", "-rf", "a/b", "a?b", "n" * 300 + "1", "n" * 300 + "2", "plain", "é", "a_b-2", "x\ny"]
    save(folder / "many.onnx", [helper.make_node("Relu", ["x"], [name], name=f"n{i}") for i, name in enumerate(names)],
         [helper.make_tensor_value_info("x", TensorProto.FLOAT, [4])], [helper.make_tensor_value_info(name, TensorProto.FLOAT, [4]) for name in names])
    where = folder / "deep" / "er"
    out, _ = program("run", "many.onnx", "--output", where)
    seen = sorted(subprocess.run(["ls", where], capture_output=True, text=True, check=True).stdout.splitlines())
    expect(len(seen) == len(names), "ls shows", seen)
    expect(sorted(p.name for p in (folder / "deep").iterdir()) == ["er"], "a file left the folder")
    for file in ("___up.npy", "_hidden.npy", "_etc_kilter.npy", "_rf.npy", "a_b.npy", "plain.npy"):
        expect(file in seen, file, "is not in", seen)
    lines = out.decode().splitlines()
    expect("../up is in ___up.npy" in lines, lines)
    expect(not any(line.startswith("plain is in") for line in lines), lines)
    for file in seen:
        expect(np.load(where / file).shape == (4,), file)


def check_folders(program, folder):
    case = folder / "suite" / "relu_case"
    (case / "test_data_set_0").mkdir(parents=True)
    save(case / "model.onnx", [helper.make_node("Relu", ["x"], ["y"], name="n")], [helper.make_tensor_value_info("x", TensorProto.FLOAT, [4])],
         [helper.make_tensor_value_info("y", TensorProto.FLOAT, [4])])
    one = numpy_helper.from_array(np.ones(4, np.float32)).SerializeToString()
    (case / "test_data_set_0" / "input_0.pb").write_bytes(one)
    (case / "test_data_set_0" / "output_0.pb").write_bytes(one)
    for given in ("suite/relu_case", "suite/relu_case/", "suite/relu_case//", "suite", "suite/", "suite/../suite/relu_case/.", case):
        out, _ = program("check", given, "--list-passed")
        expect(out.decode().splitlines()[0] == "passed  relu_case", given, out)


def check_nothing_is_left(program, folder):
    data = folder / "data"
    for words, code in ((["tune", "zoo:squeezenet1_1", "--input", "input=1x3x32x32", "--ops", "nope"], 2), (["tune", "zoo:nothing"], 2),
                        (["tune", "zoo:squeezenet1_1", "--schedule", "nope=direct"], 2), (["graph-tune", "zoo:nothing"], 2),
                        (["tune", "nowhere.onnx"], 3), (["records", "import", "nowhere.jsonl"], 3)):
        for records in ([], ["--records", folder / "r.db"], ["--records", folder / "r.jsonl"]):
            program(*words, *records, code=code)
            expect(not data.exists() or not list((data / "kilter").glob("records*")), words, "left", list(data.glob("*/*")))
            expect(not list(folder.glob("r.*")), words, records, "left", list(folder.glob("r.*")))


def main():
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        program = Program(str(pathlib.Path(sys.argv[1]).resolve()), folder)
        for check in (check_nothing_is_left, check_open_shapes, check_output_files, check_folders, check_csv, check_printers):
            check(program, folder)
            print(check.__name__, "done", flush=True)
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
