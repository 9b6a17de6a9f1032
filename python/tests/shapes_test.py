"""Declared ranges of shapes: what shapes= accepts, errors, plans compiled in advance, and compiled files."""
from __future__ import annotations

import pickle
import time

import numpy as np
import pytest

import kilter
from small_networks import raised_text

onnx_parser = pytest.importorskip("onnx.parser")

SIZES = """
<ir_version: 9, opset_import: ["" : 20]>
sizes (float[n, 3, h, w] x) => (float[n, 3, h, w] y) { p = Relu (x)  y = Softmax <axis = 1> (p) }
"""
TOKENS = """
<ir_version: 9, opset_import: ["" : 20]>
tokens (float[b, seq] ids, float[b, seq] mask) => (float[b, seq] y) { y = Mul (ids, mask) }
"""
OUTSIDE = ("sizes: input 'x': dimension 2 ('h') is 9; expected {8..16:4}, of which 8 and 12 are the nearest; give the input "
           "such a size, or declare 9 as well (shapes) when the network is compiled")


def model(text=SIZES):
    return onnx_parser.parse_model(text)


def image(*shape):
    return np.ones(shape, np.float32)


@pytest.mark.parametrize("shapes", [
    {"x": (1, 3, range(8, 17, 4), [4, 6])},
    {"x": [1, 3, range(16, 7, -4), (4, 6)]},
    {"x": (np.int64(1), 3, "8..16:4", "{4,6}")},
    {"x": "1x3x{8..16:4}x{4,6}"},
    "x=1x3x{8..16:4}x{4,6}",
    ["x=1x3x{h=8..16:4}x{4,6}"],
])
def test_forms_of_ranges(shapes):
    net = kilter.compile(model(), shapes=shapes, threads=1)
    assert net.inputs[0].ranges == (1, 3, range(8, 17, 4), [4, 6])
    assert net.inputs[0] == ("x", "f32", ("n", 3, "h", "w"), "tensor")
    assert net(image(1, 3, 12, 4)).shape == (1, 3, 12, 4)
    assert raised_text(lambda: net(image(1, 3, 9, 4))) == OUTSIDE
    for other in (pickle.loads(pickle.dumps(net)), net.with_options(accuracy="strict"), net.twin()):
        assert other.inputs[0].ranges == net.inputs[0].ranges
        assert raised_text(lambda: other(image(1, 3, 9, 4))).endswith(OUTSIDE.removeprefix("sizes"))


def test_fixed_shapes_are_no_ranges():
    net = kilter.compile(model(), shapes={"x": (1, 3, 8, 8)}, threads=1)
    assert net.inputs[0].ranges is None
    assert net.conditions()["steps"] > 0
    one = kilter.compile(model(), shapes={"x": (1, 3, range(8, 9), [8])}, threads=1)
    assert one.inputs[0].ranges == (1, 3, 8, [8])
    assert one.conditions()["steps"] == net.conditions()["steps"]


def test_names_bind_dimensions():
    net = kilter.compile(model(TOKENS), shapes={"ids": (1, range(1, 65))}, threads=1)
    assert net.inputs[1].ranges == (1, range(1, 65))
    assert raised_text(lambda: net(image(1, 4), image(1, 5))) == (
        "tokens: input 'mask': dimension 1 ('seq') is 5, but dimension 1 of input 'ids' is 4; expected the same size, since "
        "both have the name 'seq'; if they may differ, give them different names, as in {other=1..8} (shapes)")
    own = kilter.compile(model(TOKENS), shapes={"ids": (1, "t=1..64"), "mask": (1, "{t}")}, threads=1)
    assert own(image(1, 4), image(1, 4)).shape == (1, 4)


@pytest.mark.parametrize("shapes, text", [
    (3, "shapes: expected a mapping from names of inputs to shapes, or a text such as 'x=1x3x{320..960:32}', got int"),
    ({"x": 3}, "shapes: input 'x': expected a tuple of integers, ranges and lists, or a text such as "
               "'1x3x{320..960:32}', got 3"),
    ({"x": (1, 3, range(0), 4)}, "shapes: input 'x': dimension range(0, 0); expected an integer, a range or a list of "
                                 "integers that is not empty, or a text such as 'seq=1..512'"),
    ({"x": (1, 3, 2.5, 4)}, "shapes: input 'x': dimension 2.5; expected an integer, a range or a list of integers that is "
                            "not empty, or a text such as 'seq=1..512'"),
])
def test_other_shapes_are_refused(shapes, text):
    assert raised_text(lambda: kilter.compile(model(), shapes=shapes), kilter.UsageError) == text


def test_ranges_that_contradict_the_model():
    assert raised_text(lambda: kilter.compile(model(), shapes={"x": (1, [3, 4], 8, 8)})) == (
        "sizes: input 'x' (f32[n,3,h,w]): shapes declares 1x{3,4}x8x8; dimension 1 is 3 in the model, got {3,4}: give 3 "
        "there")


def test_plans_are_made_at_once():
    told = []
    net = kilter.compile(model(), shapes={"x": (1, 3, [8, 16], [4, 6])}, specialise="now", threads=1, progress=told.append)
    assert told[0] == "shape 1 of 4: read the model"
    assert any(text.startswith("shape 4 of 4: ") for text in told)
    first = []
    net._net.run({"x": image(1, 3, 16, 6)}, None, first.append)
    assert first == [], "nothing is compiled in the run"
    spread = []
    kilter.compile(model(), shapes={"x": (1, 3, range(8, 64), 4)}, specialise="now", max_shapes=55, threads=1,
                   progress=spread.append)
    assert any(text.startswith("shape 16 of 16: ") for text in spread)
    assert net.bench(seconds=0.05, input={"x": (1, 3, 8, 4)}).steps > 0


def test_plans_are_made_in_the_background():
    net = kilter.compile(model(), shapes={"x": (1, 3, [8, 16], [4, 6])}, specialise="auto", threads=1)
    assert kilter.compile(model(), threads=1).plans_ahead == (0, 0, True)
    want = kilter.compile(model(), threads=1)(image(1, 3, 16, 6))
    np.testing.assert_allclose(net(image(1, 3, 16, 6)), want, rtol=1e-5)
    assert net.timer(image(1, 3, 16, 6)).median_ms > 0
    end = time.monotonic() + 60
    while not net.plans_ahead.ended and time.monotonic() < end:
        time.sleep(0.01)
    assert net.plans_ahead == (4, 4, True)
    told = []
    net._net.run({"x": image(1, 3, 8, 4)}, None, told.append)
    assert told == [], "nothing is compiled in the run"


def test_a_compiled_file_has_all_shapes(tmp_path):
    shapes = {"x": (1, 3, [8, 16], range(4, 7))}
    net = kilter.compile(model(), shapes=shapes, threads=1)
    net.save(tmp_path / "net.kilter")
    loaded = kilter.load(tmp_path / "net.kilter", threads=1)
    assert loaded.inputs == net.inputs
    assert loaded.inputs[0].ranges == (1, 3, [8, 16], range(4, 7))
    for h, w in ((8, 4), (16, 6), (8, 5)):
        x = np.random.default_rng(h * w).standard_normal((1, 3, h, w), dtype=np.float32)
        np.testing.assert_array_equal(loaded(x), net(x))
    assert "dimension 3 ('w') is 7; expected {4..6}" in raised_text(lambda: loaded(image(1, 3, 8, 7)))
    assert "  x=1x3x16x6: " in loaded.inspect()
    many = kilter.compile(model(), shapes={"x": (1, 3, range(1, 10), range(1, 10))})
    assert "shapes declares 81 shapes" in raised_text(lambda: many.save(tmp_path / "many.kilter"))
