"""Networks that run as programs: loops, sequences, optional values and strings, in all three interfaces of Python."""
from __future__ import annotations

import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import textwrap
import threading
import time

import numpy as np
import pytest

onnx = pytest.importorskip("onnx", reason="the package onnx, which builds the models, is not installed")

import onnx.parser  # noqa: E402

import kilter  # noqa: E402
import kilter.onnx_backend as backend  # noqa: E402
import kilter.onnxruntime as ort  # noqa: E402
from kilter.onnxruntime.capi import onnxruntime_pybind11_state as state  # noqa: E402
from small_networks import raised_text  # noqa: E402

X = np.array([[1, -2], [3, 4]], np.float32)


def parsed(text, opset=20):
    return onnx.parser.parse_model(f'<ir_version: 9, opset_import: ["" : {opset}]> ' + text)


DOUBLING = parsed("""doubling (float[2] x, int64 count) => (float[2] y, float[n, 2] all) {
  [again] y, all = Loop (count, , x) <body = step (int64 i, bool go, float[2] v) => (bool on, float[2] w, float[2] row) {
    on = Identity (go)
    [twice] w = Add (v, v)
    row = Identity (w)
  }>
}""")
SPLIT = parsed("split (float[n, 2] x) => (seq(float[k, 2]) s) { s = SplitToSequence (x) }")
JOIN = parsed("join (seq(float[k, 2]) s) => (float[n, 2] y) { y = ConcatFromSequence <axis = 0> (s) }")
WORDS = parsed("words (string[n] a, string[n] b) => (string[n] c) { c = StringConcat (a, b) }")
HAS = parsed("has (optional(float[2]) o) => (bool b) { b = OptionalHasElement (o) }")
# optional(seq(float)) o, present if it has an element
HAS_SEQUENCE = parsed("has (optional(seq(float[2])) o) => (bool b) { b = OptionalHasElement (o) }")
ABSENT = onnx.helper.make_model(onnx.helper.make_graph(
    [onnx.helper.make_node("Optional", [], ["o"], type=onnx.helper.make_tensor_type_proto(1, [2]))], "absent", [],
    [onnx.helper.make_value_info("o", onnx.helper.make_optional_type_proto(onnx.helper.make_tensor_type_proto(1, [2])))],
), opset_imports=[onnx.helper.make_opsetid("", 18)], ir_version=9)


# --- kilter.Network ---


def test_loops():
    net = kilter.compile(DOUBLING, threads=1)
    for count in (3, 0, 1):
        y, all_rows = net(X[0], np.array(count))
        np.testing.assert_array_equal(y, X[0] * 2 ** count)
        assert all_rows.shape == (count, 2)
    memory = np.zeros(2, np.float32)
    assert net.run({"x": X[0], "count": np.array(2)}, out={"y": memory})["y"] is memory
    np.testing.assert_array_equal(memory, X[0] * 4)


def test_ports_have_kinds():
    assert [str(kilter.compile(m).inputs[0]) for m in (DOUBLING, JOIN, WORDS, HAS, HAS_SEQUENCE)] == [
        "x: f32[2]", "s: sequence of f32[k,2]", "a: str[n]", "o: optional f32[2]", "o: optional sequence of f32[2]"]
    assert kilter.compile(JOIN).inputs[0] == ("s", "f32", ("k", 2), "sequence")


def test_sequences_are_lists():
    parts = kilter.compile(SPLIT, threads=1)(X)
    assert isinstance(parts, list) and len(parts) == 2
    np.testing.assert_array_equal(parts[1], X[1:])
    join = kilter.compile(JOIN, threads=1)
    np.testing.assert_array_equal(join(parts), X)
    np.testing.assert_array_equal(join((X, X[:1])), [*X, X[0]])
    assert raised_text(lambda: join(X)) == "input 's': expected a list or tuple of arrays, got ndarray of float32"
    assert raised_text(lambda: join([X, 3])).startswith("input 's'[1]: expected an array on the CPU")
    assert raised_text(lambda: join([X.astype(np.float64)])) == (
        "join: input 's' must be sequence of f32[k,2], got sequence of 1 (f64[2,2])")
    assert raised_text(lambda: join(None)).startswith("input 's': expected a list or tuple of arrays, got NoneType")


def test_optional_values_may_be_absent():
    net = kilter.compile(HAS, threads=1)
    assert not net(None) and not net() and net(X[0])
    net = kilter.compile(HAS_SEQUENCE, threads=1)
    assert not net(None) and net([X[0]]) and net([])
    assert kilter.compile(ABSENT, threads=1)() is None


@pytest.mark.parametrize("a", [
    np.array(["x", "grün"], object), np.array(["x", "grün"]), np.array([b"x", "grün".encode()]),
    np.array([b"x", "grün"], object), np.array([["x", "-"], ["grün", "-"]])[:, 0]])
def test_strings(a):
    c = kilter.compile(WORDS, threads=1)(a, np.array(["1", "2"]))
    assert c.dtype == object and c.tolist() == ["x1", "grün2"]


def test_strings_that_are_not_utf_8_are_kept():
    net = kilter.compile(WORDS, threads=1)
    c = net(np.array([b"\xff", b""]), np.array(["1", ""]))
    assert c[0].encode("utf-8", "surrogateescape") == b"\xff1" and c[1] == ""
    assert net(c, c)[0] == c[0] * 2
    assert net(np.zeros(0, object), np.zeros(0, object)).shape == (0,)


@pytest.mark.parametrize("given, text", [
    (np.array(["x", 3], object), "input 'a': element 1 has type int; arrays of objects contain str or bytes, "
     "numpy.asarray(value, dtype) makes one of numbers"),
    (np.array(["\ud800"], object), "input 'a': element 0 contains half of a surrogate pair, which UTF-8 cannot "
                                   "represent"),
    (np.zeros(2, np.float32), "words: input 'a' must be str[n], got f32"),
    (["x"], "input 'a': expected an array on the CPU, such as a numpy.ndarray or a torch.Tensor, got list; "
            "numpy.asarray(value, dtype) makes one"),
])
def test_what_is_no_tensor_of_strings(given, text):
    net = kilter.compile(WORDS, threads=1)
    assert raised_text(lambda: net(given, np.array(["1", "2"]))) == text


def test_memory_for_what_is_no_tensor_of_numbers():
    words, split = kilter.compile(WORDS, threads=1), kilter.compile(SPLIT, threads=1)
    a = np.array(["x"])
    assert raised_text(lambda: words(a, a, out=a.astype(object))) == (
        "memory for output 'c': memory can be given for numbers, not for strings")
    assert raised_text(lambda: split(X, out=X.copy())) == (
        "memory for output 's': the output is sequence of 2 (f32[1,2], f32[1,2]); memory can be given for tensors of "
        "numbers")


def test_conditions_and_measurements_of_programs():
    net = kilter.compile(DOUBLING, threads=1)
    facts = net.conditions()
    assert (facts["functions"], facts["segments"], facts["threads"]) == (2, 1, 1)
    timing = net.timer(X[0], np.array(5), repeat=5)
    assert len(timing.samples_ms) == 5 and timing.mean_ms > 0 and timing.target == facts["target"]
    bench = net.bench(seconds=0.05)
    assert bench.program and bench.segments == 1 and bench.estimate_ms > 0
    profile = net.profile(seconds=0.2)
    assert abs(sum(row["duration_ms"] for row in profile) / profile.sum_ms - 1) < 1e-6
    assert [row["iterations"] > 0 for row in profile if row["kind"] == "control"] == [True]
    assert "Loop 'again'" in profile.table() and "Loop 'again'" in net.inspect()
    assert any("twice" in task["nodes"] for task in net.tasks())
    text = raised_text(lambda: kilter.time_tasks(net), kilter.UnsupportedError)
    assert "runs such a network as a program, which has no single plan" in text


SAVED = {  # models with the arrays of a run
    "loop": (DOUBLING, [X[0], np.array(5)]),
    "sequence": (SPLIT, [X]),
    "list": (JOIN, [[X, X]]),
    "strings": (WORDS, [np.array(["a", "ü"], object), np.array(["b", "c"], object)]),
    "optional": (HAS, [None]),
}


def same(a, b):
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(same, a, b))
    return a is b is None or np.array_equal(a, b)


@pytest.mark.parametrize("case", SAVED)
def test_programs_are_saved_and_loaded(tmp_path, case):
    model, arrays = SAVED[case]
    net = kilter.compile(model, threads=1)
    want = net(*arrays)
    net.save(tmp_path / "net.kilter")
    loaded = kilter.load(tmp_path / "net.kilter", threads=1)
    assert [str(p) for p in loaded.inputs] == [str(p) for p in net.inputs]
    assert same(loaded(*arrays), want) and same(loaded.twin()(*arrays), want)
    assert loaded.conditions()["segments"] == net.conditions()["segments"]
    assert kilter.load((tmp_path / "net.kilter").read_bytes()).inspect().count("function 0") == 1


def close(a, b):
    if isinstance(a, list):
        return len(a) == len(b) and all(map(close, a, b))
    return a is b is None or (a.shape == b.shape and np.allclose(a, b, rtol=1e-3, atol=1e-3, equal_nan=True))


@pytest.mark.parametrize("first", [0, 20])
def test_random_programs_are_saved_and_loaded(tmp_path, first):
    sys.path.insert(0, os.path.join(os.environ["KILTER_SOURCE"], "tests", "e2e"))
    import random_program
    compared = 0
    for index in range(first, first + 20):
        program = random_program.draw([5, index])
        if program is None:
            continue
        inputs = program.sets[0]
        shapes = {name: x.shape for name, x in inputs.items() if isinstance(x, np.ndarray) and x.ndim}
        net = kilter.compile(program.model, threads=1, shapes=shapes)
        want = net.run(inputs)
        net.save(tmp_path / "net.kilter")
        loaded = kilter.load(tmp_path / "net.kilter", threads=1)
        if "program: functions" not in loaded.inspect():
            continue  # its plan may be for other values of inputs
        got = loaded.run(inputs)
        assert all(close(got[name], want[name]) for name in want), f"program {index}: {program.steps}"
        compared += 1
    assert compared > 10


def test_the_runtime_alone_runs_programs(tmp_path):
    library = pathlib.Path(kilter.__file__).parents[2] / "src" / "libkilter_runtime.so"
    if not library.exists():
        pytest.skip("the runtime is not built")
    shutil.copytree(pathlib.Path(os.environ["KILTER_SOURCE"]) / "python" / "runtime" / "kilter_runtime",
                    tmp_path / "kilter_runtime")
    shutil.copy(library, tmp_path / "kilter_runtime")
    for name, (model, arrays) in SAVED.items():
        net = kilter.compile(model, threads=1)
        net(*arrays)
        net.save(tmp_path / f"{name}.kilter")
    (tmp_path / "use.py").write_text(textwrap.dedent("""
        import gc
        import numpy as np
        import kilter_runtime

        X = np.array([[1, -2], [3, 4]], np.float32)
        net = kilter_runtime.load("loop.kilter", threads=1)
        print(net)
        y, rows = net(X[0], np.array(5))
        del net
        gc.collect()
        print(y.tolist(), rows.shape, rows.dtype)
        net = kilter_runtime.load("sequence.kilter", threads=1)
        print([p.tolist() for p in net(X)], net.clone().run([X])["s"][1].tolist())
        print(kilter_runtime.load("list.kilter")([X, 2 * X]).tolist())
        words = kilter_runtime.load("strings.kilter")
        print(words(np.array(["a", "ü"]), np.array([b"b", "c"], object)).tolist())
        has = kilter_runtime.load("optional.kilter")
        print(has(None), has())
        for wrong in (lambda: net(1), lambda: net(X, out={"s": X}), lambda: words(X, X), lambda: words(),
                      lambda: kilter_runtime.load("list.kilter")(X)):
            try:
                wrong()
            except kilter_runtime.InputError as error:
                print(error)
    """))
    done = subprocess.run([sys.executable, "use.py"], capture_output=True, text=True, cwd=tmp_path)
    assert done.stdout.splitlines() == [
        "<kilter_runtime.Network (x: f32[2], count: i64[]) -> (y: f32[2], all: f32[?,2])>",
        "[32.0, -64.0] (5, 2) float32",
        "[[[1.0, -2.0]], [[3.0, 4.0]]] [[3.0, 4.0]]",
        "[[1.0, -2.0], [3.0, 4.0], [2.0, -4.0], [6.0, 8.0]]",
        "['ab', 'üc']",
        "False False",
        "input 'x' must be x: f32[?,2], got int64[]",
        "memory for output 's': the sizes of outputs are known only after the run; leave it out",
        "input 'a' must be a: str[?], got float32",
        "input 'a' (a: str[?]) is missing",
        "input 's': expected a list or tuple of arrays, got ndarray",
    ], done.stderr


def test_the_commands_take_compiled_programs(tmp_path):
    onnx.save(DOUBLING, tmp_path / "net.onnx")
    file = str(tmp_path / "net.kilter")
    out = kilter.command("compile", str(tmp_path / "net.onnx"), "-o", file)
    assert re.match(r".*net.kilter: a program \(functions 2, segments 1, plans 1\) for \S+ in \d+ ms, 0.0 MB\n$", out)
    np.save(tmp_path / "x.npy", X[0]), np.save(tmp_path / "n.npy", np.array(3))
    inputs = ["--input", f"x={tmp_path}/x.npy", "--input", f"count={tmp_path}/n.npy"]
    want = kilter.command("run", str(tmp_path / "net.onnx"), *inputs)
    assert kilter.command("run", file, *inputs) == want and "all: f32[3x2]" in want
    assert "0 (Identity (output 'on') and 2 more nodes): bool[] f32[2], 3 steps; no other shapes" in kilter.command("inspect", file)
    assert "plans in the compiled file 1" in kilter.command("bench", file, "--seconds", "0.05", *inputs)
    for words, text in ((["compile", file, "-o", "x"], "is already a compiled file: copy it, or give the original model"),
                        (["run", file, "--verify"], "--verify needs the model, not a compiled file"),
                        (["profile", file], "is a compiled file of a program; use the model that it was compiled from"),
                        (["explain", file], "is a compiled file of a program: explain the original model"),
                        (["tune", file], "is a compiled file: tuning needs the original model")):
        assert text in raised_text(lambda: kilter.command(*words), kilter.Error)


def test_the_command_run_prints_and_writes_values_of_all_kinds(tmp_path):
    for model in (SPLIT, WORDS, ABSENT):
        onnx.save(model, tmp_path / f"{model.graph.name}.onnx")
    np.save(tmp_path / "x.npy", X)
    out = kilter.command("run", str(tmp_path / "split.onnx"), "--input", f"x={tmp_path}/x.npy", "--output",
                         str(tmp_path / "out"))
    assert out.splitlines() == ["s: sequence of 2", "s[0]: f32[1x2]  min -2  max 1  mean -0.5",
                                "s[1]: f32[1x2]  min 3  max 4  mean 3.5", "s[0] is in s_0_.npy", "s[1] is in s_1_.npy"]
    np.testing.assert_array_equal(np.load(tmp_path / "out" / "s_1_.npy"), X[1:])
    assert kilter.command("run", str(tmp_path / "absent.onnx")) == "o: absent\n"
    np.save(tmp_path / "a.npy", np.array(["x", "grün", ""]))
    out = kilter.command("run", str(tmp_path / "words.onnx"), "--input", f"a={tmp_path}/a.npy", "--input",
                         f"b={tmp_path}/a.npy", "--output", str(tmp_path / "out"))
    assert out == "c: str[3]  'xx', 'grüngrün', ''\n"
    assert np.load(tmp_path / "out" / "c.npy").tolist() == ["xx", "grüngrün", ""]


def test_the_command_run_reads_sequences(tmp_path):
    onnx.save(JOIN, tmp_path / "join.onnx")
    join = ["run", str(tmp_path / "join.onnx"), "--input"]
    np.savez(tmp_path / "s.npz", X, X[:1])
    np.save(tmp_path / "x.npy", X)
    sequence = onnx.numpy_helper.from_list([X, X[:1]])
    (tmp_path / "s.pb").write_bytes(sequence.SerializeToString())
    (tmp_path / "x.pb").write_bytes(onnx.numpy_helper.from_array(X[:1]).SerializeToString())
    expected = "y: f32[3x2]  min -2  max 4  mean 0.833333\n"
    for given in ([f"s={tmp_path}/s.npz"], [f"s={tmp_path}/s.pb"],
                  [f"s={tmp_path}/x.npy", "--input", f"s={tmp_path}/x.pb"]):
        assert kilter.command(*join, *given) == expected
    assert kilter.command(*join, "s=2x2", "--input", "s=3x2").startswith("y: f32[5x2]")
    assert kilter.command(*join, "s=2x2").startswith("y: f32[2x2]")
    assert "no elements" in raised_text(lambda: kilter.command(*join, "s=[]"), kilter.Error)
    bench = json.loads(kilter.command("bench", *join[1:], "s=2x2", "--seconds", "0.05", "--json", "-"))
    assert bench["program"]
    assert "segments after 4 runs" in kilter.command("inspect", *join[1:], "s=2x2")


@pytest.mark.parametrize("given, text", [
    ([], "join.onnx: input 's' (sequence of f32[k,2]) is not given; give it as `--input s=FILE.npz`, or its elements one "
         "after another, `--input s=FILE.npy`, `--input s=FILE.pb` or `--input s=SHAPE`"),
    (["--input", "s=s.json"], "input 's' (sequence of f32[k,2]) is given as 's.json'; give it as `--input s=FILE.npz`"),
    (["--input", "s=[]", "--input", "s=2x2"], "input 's' (sequence of f32[k,2]) is given as '[]'; give it as"),
    (["--input", "s=none.npz"], "none.npz"),
    (["--input", "s=2xa"], "--input s=2xa: '2xa' is neither a shape such as 1x3x224x224 nor a file; expected NAME=SHAPE, "
                           "NAME=FILE.npy, NAME=FILE.pb, for a sequence also NAME=FILE.npz or NAME=[], for maps NAME=FILE.json")])
def test_sequences_that_the_command_line_refuses(given, text, tmp_path):
    onnx.save(JOIN, tmp_path / "join.onnx")
    assert text in raised_text(lambda: kilter.command("run", str(tmp_path / "join.onnx"), *given), kilter.Error)


def test_the_command_run_reads_optional_values(tmp_path):
    onnx.save(HAS, tmp_path / "has.onnx")
    onnx.save(HAS_SEQUENCE, tmp_path / "has_sequence.onnx")
    onnx.save(SPLIT, tmp_path / "split.onnx")
    assert kilter.command("run", str(tmp_path / "has.onnx")).startswith("b: bool[scalar]  min 0")
    assert kilter.command("run", str(tmp_path / "has.onnx"), "--input", "o=2").startswith("b: bool[scalar]  min 1")
    assert kilter.command("run", str(tmp_path / "has_sequence.onnx")).startswith("b: bool[scalar]  min 0")
    assert kilter.command("run", str(tmp_path / "has_sequence.onnx"), "--input", "o=[]").startswith("b: bool[scalar]  min 1")
    np.savez(tmp_path / "s.npz", X)
    assert "input 'o' (optional f32[2]) is given as" in raised_text(
        lambda: kilter.command("run", str(tmp_path / "has.onnx"), "--input", f"o={tmp_path}/s.npz"))
    assert "input 'x' (f32[n,2]) is given as" in raised_text(
        lambda: kilter.command("run", str(tmp_path / "split.onnx"), "--input", f"x={tmp_path}/s.npz"))


def test_twins_and_pools_of_programs():
    net = kilter.compile(DOUBLING, threads=1)
    with net.pool(2) as pool:
        for result in pool.map([{"x": X[0], "count": np.array(2)}] * 6):
            np.testing.assert_array_equal(result["y"], X[0] * 4)


ENDLESS = """
    import os, signal, sys, threading, time
    import numpy as np, onnx, kilter, kilter.onnxruntime as ort
    from onnx.parser import parse_model
    model = parse_model('''<ir_version: 9, opset_import: ["" : 20]>
    endless (bool go, float[2] x) => (float[2] y) {
      y = Loop (, go, x) <body = step (int64 i, bool on, float[2] v) => (bool again, float[2] w) {
        again = Identity (on)
        w = Add (v, v)
      }>
    }''')
    feeds = {"go": np.array(True), "x": np.ones(2, np.float32)}
    net = kilter.compile(model, threads=1)
    session = ort.InferenceSession(model.SerializeToString())
    threading.Thread(target=lambda: (time.sleep(1), os.kill(os.getpid(), signal.SIGINT))).start()
    begin = time.monotonic()
    try:
        WORK
    except KeyboardInterrupt:
        feeds["go"] = np.array(False)
        print("interrupted", time.monotonic() - begin < 20, net(**feeds), session.run(None, feeds)[0])
    """


@pytest.mark.parametrize("work", ["net(**feeds)", "session.run(None, feeds)", "net.timer(**feeds)"])
def test_ctrl_c_ends_an_endless_loop(work):
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(ENDLESS.replace("WORK", work))], capture_output=True,
                          text=True, timeout=120, check=False)
    assert (done.stdout, done.stderr, done.returncode) == ("interrupted True [1. 1.] [1. 1.]\n", "", 0)


def test_ctrl_c_ends_the_program_kilter(tmp_path):
    model = parsed("""endless (float[2] x) => (float[2] y) <bool go = {1}> {
      y = Loop (, go, x) <body = step (int64 i, bool on, float[2] v) => (bool again, float[2] w) {
        again = Identity (on)
        w = Add (v, v)
      }>
    }""")
    onnx.save(model, tmp_path / "endless.onnx")
    with subprocess.Popen([sys.executable, "-m", "kilter", "run", str(tmp_path / "endless.onnx")]) as program:
        with pytest.raises(subprocess.TimeoutExpired):
            program.wait(3)
        program.send_signal(signal.SIGINT)
        assert program.wait(20) == 130


def test_other_threads_run_during_a_loop():
    net, counted, ended = kilter.compile(DOUBLING, threads=1), [], threading.Event()

    def work():
        net(X[0], np.array(200_000))
        ended.set()

    thread = threading.Thread(target=work)
    thread.start()
    while not ended.is_set():
        counted.append(time.monotonic())
        time.sleep(0.001)
    thread.join()
    assert len(counted) > 20


def test_outputs_share_no_memory_with_inputs_and_constants():
    model = parsed("""pick (bool c, float[2] x) => (float[2] y, float[2] z)
        <float[2] two = {2.0, 2.0}> {
      y, z = If (c) <then_branch = first () => (float[2] t, float[2] t2) { t = Identity (x)  t2 = Identity (x) },
                     else_branch = other () => (float[2] e, float[2] e2) { e = Identity (two)  e2 = Identity (two) }>
    }""")
    net = kilter.compile(model, threads=1)
    for c in (True, False):
        for _ in range(6):
            x = np.ones(2, np.float32)
            y, z = net(np.array(c), x)
            assert y.tolist() == z.tolist() == ([1, 1] if c else [2, 2])
            y[:] = 7
            assert x.tolist() == [1, 1] and z.tolist() == ([1, 1] if c else [2, 2])


# --- kilter.onnxruntime ---


def sessions(model):
    """Sessions of both packages."""
    reference = pytest.importorskip("onnxruntime", reason="the package onnxruntime, to compare with, is not installed")
    data = model.SerializeToString()
    return (reference.InferenceSession(data, providers=["CPUExecutionProvider"]), ort.InferenceSession(data))


@pytest.mark.parametrize("model, feeds", [
    (DOUBLING, {"x": X[0], "count": np.array(3)}), (SPLIT, {"x": X}), (JOIN, {"s": [X, X[:1]]}),
    (WORDS, {"a": np.array(["x", "ü"]), "b": ["1", "2"]}), (WORDS, {"a": np.array(["x", 3], object), "b": ["1", "2"]}),
    (HAS, {"o": X[0]}), (HAS, {"o": None}), (HAS, {}), (ABSENT, {})])
def test_runs_are_those_of_onnx_runtime(model, feeds):
    want, got = (session.run(None, feeds) for session in sessions(model))
    assert len(got) == len(want)
    for ours, theirs in zip(got, want):
        assert type(ours) is type(theirs)
        if isinstance(theirs, list):
            assert len(ours) == len(theirs)
        for a, b in zip(ours, theirs) if isinstance(theirs, list) else [(ours, theirs)]:
            assert b is None or a.dtype == b.dtype
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("model", [DOUBLING, SPLIT, JOIN, WORDS, HAS, ABSENT])
def test_ports_are_those_of_onnx_runtime(model):
    theirs, ours = sessions(model)
    assert [str(p) for p in ours.get_inputs()] == [str(p) for p in theirs.get_inputs()]
    assert [str(p) for p in ours.get_outputs()] == [str(p) for p in theirs.get_outputs()]


def test_ort_values_of_other_kinds_than_tensors():
    for session, package in zip(sessions(SPLIT), (pytest.importorskip("onnxruntime"), ort)):
        value, = session.run_with_ort_values(None, {"x": package.OrtValue.ortvalue_from_numpy(X)})
        assert (value.is_tensor(), value.is_tensor_sequence(), value.has_value()) == (False, True, True)
        assert (value.data_type(), value.element_type()) == ("seq(tensor(float))", 1)
        for method in (value.shape, value.numpy, value.data_ptr, value.tensor_size_in_bytes):
            with pytest.raises(RuntimeError):
                method()
        joined = package.InferenceSession(JOIN.SerializeToString(), providers=["CPUExecutionProvider"])
        np.testing.assert_array_equal(joined.run(None, {"s": value})[0], X)
    binding = ort.InferenceSession(WORDS.SerializeToString()).io_binding()
    for name in "ab":
        binding.bind_cpu_input(name, np.array(["x"], object))
    binding.bind_output("c")
    binding._session.run_with_iobinding(binding)
    value, = binding.get_outputs()
    assert (value.data_type(), value.element_type(), value.shape()) == ("tensor(string)", 8, [1])
    assert value.numpy().tolist() == ["xx"] and binding.copy_outputs_to_cpu()[0].tolist() == ["xx"]


@pytest.mark.parametrize("model, feeds, layer", [
    (DOUBLING, {"x": X[0], "count": np.array(3)}, "Loop 'again'_kernel_time"),
    (WORDS, {"a": np.array(["x"]), "b": np.array(["y"], object)}, "segment 0_kernel_time"), (JOIN, {"s": [X]}, None)])
def test_profiles(model, feeds, layer, tmp_path):
    options = ort.SessionOptions()
    options.enable_profiling, options.profile_file_prefix = True, str(tmp_path / "p")
    session = ort.InferenceSession(model.SerializeToString(), options)
    session.run(None, feeds)
    with open(session.end_profiling(), encoding="utf-8") as file:
        names = [event["name"] for event in json.load(file)]
    assert (layer in names) if layer else all(not name.endswith("_kernel_time") for name in names)


def test_misuse_of_sequences():
    session = ort.InferenceSession(JOIN.SerializeToString())
    with pytest.raises(state.InvalidArgument, match="input 's': expected a list or tuple of arrays, got ndarray"):
        session.run(None, {"s": X})
    with pytest.raises(state.InvalidArgument, match="input 's' is missing"):
        session.run(None, {})
    with pytest.raises(state.InvalidArgument, match="must be sequence of f32"):
        session.run(None, {"s": [X.astype(np.float64)]})


def test_a_program_is_written_and_read(tmp_path):
    options = ort.SessionOptions()
    options.optimized_model_filepath = str(tmp_path / "x.kilter")
    feeds = {"x": X[0], "count": np.array(2)}
    want = ort.InferenceSession(DOUBLING.SerializeToString(), options).run(None, feeds)
    for a, b in zip(ort.InferenceSession(str(tmp_path / "x.kilter")).run(None, feeds), want):
        np.testing.assert_array_equal(a, b)


# --- kilter.onnx_backend ---


def test_backend_reads_lists_and_none():
    assert not backend.prepare(HAS).run([None]).b
    np.testing.assert_array_equal(backend.prepare(JOIN).run([[X, X]]).y, [*X, *X])
    parts = backend.run_node(onnx.helper.make_node("SplitToSequence", ["x"], ["s"]), [X]).s
    np.testing.assert_array_equal(parts[1], X[1:])
    joined = backend.run_node(onnx.helper.make_node("ConcatFromSequence", ["s"], ["y"], axis=1), [[X, X]])
    np.testing.assert_array_equal(joined.y, np.concatenate([X, X], 1))
    words = backend.run_node(onnx.helper.make_node("StringConcat", ["a", "a"], ["b"]), [np.array(["x"])] * 2)
    assert words.b.tolist() == ["xx"]


def test_backend_refuses_unknown_operators_inside_loops():
    model = onnx.ModelProto()
    model.CopyFrom(DOUBLING)
    body = next(a.g for a in model.graph.node[0].attribute if a.name == "body")
    body.node[1].op_type = "Plus"
    assert backend.is_compatible(DOUBLING) and not backend.is_compatible(model)
