"""Tuning, explaining and comparing what is not one static graph: programs, and networks for several declared shapes."""
from __future__ import annotations

import json
import pathlib

import numpy as np
import pytest

onnx = pytest.importorskip("onnx", reason="the package onnx, which builds the models, is not installed")

import onnx.parser  # noqa: E402

import kilter  # noqa: E402
from small_networks import raised_text  # noqa: E402

# A product, a search whose result has an unknown size, and a loop with another product.
PROGRAM = onnx.parser.parse_model("""<ir_version: 9, opset_import: ["" : 20]>
program (float[16, 64] x, int64 count) => (float[16, 64] y, int64[2, n] found)
<float[64, 64] w = {%s}> {
  [first] a = MatMul (x, w)
  [positive] r = Relu (a)
  [find] found = NonZero (r)
  [again] y = Loop (count, , r) <body = step (int64 i, bool go, float[16, 64] v) => (bool on, float[16, 64] u) {
    on = Identity (go)
    [second] t = MatMul (v, w)
    [squash] u = Tanh (t)
  }>
}""" % ", ".join(f"{v:.3f}" for v in np.random.default_rng(0).standard_normal(64 * 64) * 0.1))
OPEN = onnx.parser.parse_model("""<ir_version: 9, opset_import: ["" : 20]>
open (float[rows, 64] x) => (float[rows, 64] y) <float[64, 64] w = {%s}> {
  [product] a = MatMul (x, w)
  [positive] y = Relu (a)
}""" % ", ".join(f"{v:.3f}" for v in np.random.default_rng(1).standard_normal(64 * 64) * 0.1))


@pytest.fixture
def program(tmp_path: pathlib.Path) -> list[str]:
    """The model's file and the options that give its inputs."""
    onnx.save(PROGRAM, tmp_path / "net.onnx")
    np.save(tmp_path / "count.npy", np.array(5))
    return [str(tmp_path / "net.onnx"), "--threads", "1", "--input", f"count={tmp_path}/count.npy"]


def graphs_with_plans(records: pathlib.Path) -> int:
    """Counts the graphs that have a plan, since a run may accept more than one for each."""
    return len({json.loads(line)["graph"] for line in pathlib.Path(f"{records}.plans.jsonl").read_text().splitlines()})


def test_tasks_of_a_program_are_those_of_its_parts(program):
    tasks = json.loads(kilter.command("tasks", *program, "--json", "-"))
    problems = {node: task["problem"] for task in tasks["tasks"] for node in task["nodes"]}
    assert problems["first"].endswith("+relu") and problems["second"].endswith("+tanh")


def test_a_program_is_tuned_and_its_parts_have_plans(program, tmp_path):
    records = tmp_path / "r.db"
    kilter.command("tune", *program, "--trials", "12", "--records", str(records))
    assert graphs_with_plans(records) == 2
    profile = json.loads(kilter.command("profile", *program, "--seconds", "0.1", "--records", str(records), "--json", "-"))
    assert "the plan accepted on" in profile["conditions"]["records"]
    want = kilter.compile(PROGRAM, threads=1)(x=np.ones((16, 64), np.float32), count=np.array(3))
    got = kilter.compile(PROGRAM, threads=1, records=str(records))(x=np.ones((16, 64), np.float32), count=np.array(3))
    np.testing.assert_allclose(got[0], want[0], rtol=1e-5)
    np.testing.assert_array_equal(got[1], want[1])


def test_a_network_is_tuned_for_several_shapes_at_once(tmp_path):
    onnx.save(OPEN, tmp_path / "net.onnx")
    records = tmp_path / "r.db"
    words = [str(tmp_path / "net.onnx"), "--threads", "1", "--shapes", "x={8,24}x64"]
    tasks = json.loads(kilter.command("tasks", *words, "--json", "-"))
    assert {"product", "product@24x64"} <= {node for task in tasks["tasks"] for node in task["nodes"]}
    kilter.command("tune", *words, "--trials", "12", "--records", str(records))
    assert graphs_with_plans(records) == 2
    for rows in (8, 24):
        out = json.loads(kilter.command("bench", words[0], "--threads", "1", "--input", f"x={rows}x64", "--seconds", "0.05",
                                        "--records", str(records), "--json", "-"))
        assert "the plan accepted on" in out["conditions"]["records"]


def test_options_for_a_layer_apply_in_a_program(program, tmp_path):
    np.save(tmp_path / "x.npy", np.random.default_rng(2).standard_normal((16, 64), dtype=np.float32))
    program += ["--input", f"x={tmp_path}/x.npy"]
    profile = json.loads(kilter.command("profile", *program, "--seconds", "0.05", "--schedule", "second=reference",
                                        "--json", "-"))
    kinds = {row["layer"]: row["kind"] for row in profile["rows"] if row["depth"] > 0}
    assert kinds["second"] == "reference" and kinds["first"] == "layer"
    assert "--schedule third: no node that runs compiled in the program" in raised_text(
        lambda: kilter.command("run", *program, "--schedule", "third=reference"), kilter.UsageError)


def test_a_program_is_explained_and_compared(program):
    text = kilter.command("explain", *program, "--seconds", "0.5")
    assert "is a program, whose compiled parts, each run once, take" in text
    assert "`kilter profile` shows the whole run" in text and "second" in text
    compared = json.loads(kilter.command("compare", *program, "--seconds", "0.3", "--schedule-b", "second=reference",
                                         "--json", "-"))
    assert compared["ratio"]["value"] > 1
    peers = kilter.command("compare", program[0], "onnxruntime:" + program[0], *program[1:], "--seconds", "0.3")
    assert "onnxruntime" in peers


def test_several_parts_have_no_layer_plan(program, tmp_path):
    text = raised_text(lambda: kilter.command("tune", *program, "--trials", "4", "--records", "none", "--write-plan",
                                              str(tmp_path / "net.plan")), kilter.UsageError)
    assert "a plan names the layers of one graph, but this is" in text and "parts of a program" in text
