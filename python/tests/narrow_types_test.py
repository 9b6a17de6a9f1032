"""The narrow element types, compared with ml_dtypes: every code, every number of 16 bits, files, and arrays without
ml_dtypes."""
from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
import sys

import numpy as np
import pytest

import kilter
from kilter._types import ELEMENT_TYPES
from kilter.graph import Graph

ml_dtypes = pytest.importorskip("ml_dtypes")
onnx = pytest.importorskip("onnx")

BITS = {"f8e4m3fn": 8, "f8e4m3fnuz": 8, "f8e5m2": 8, "f8e5m2fnuz": 8, "f8e8m0": 8, "f4e2m1": 4, "i4": 4, "u4": 4,
        "i2": 2, "u2": 2}
FLOATS_OF_8_BITS = ["f8e4m3fn", "f8e4m3fnuz", "f8e5m2", "f8e5m2fnuz"]
HALVES = np.arange(65536, dtype=np.uint16).view(np.float16)


def theirs(word):
    return np.dtype(getattr(ml_dtypes, ELEMENT_TYPES[word].numpy))


def codes(word):
    """Returns every code of a type once."""
    return np.arange(1 << BITS[word], dtype=np.uint8).view(theirs(word))


def cast(x, word, to, **attributes):
    g = Graph("cast")
    g.output(g.Cast(g.input("x", word, x.shape), to=to, **attributes), "y")
    return kilter.compile(g, threads=1)(x)


def same_codes(got, want):
    """Compares codes; all NaN count as equal."""
    assert got.dtype == want.dtype
    wide = (np.isnan(got.astype(np.float32)) & np.isnan(want.astype(np.float32)))
    np.testing.assert_array_equal(np.where(wide, 0, got.view(np.uint8)), np.where(wide, 0, want.view(np.uint8)))


@pytest.mark.parametrize("word", BITS)
@pytest.mark.parametrize("to, dtype", [("f32", np.float32), ("f64", np.float64), ("f16", np.float16)])
def test_every_code_has_its_value(word, to, dtype):
    if word == "f8e8m0" and dtype is np.float16:
        pytest.skip("most of its values are beyond float16")
    got = cast(codes(word), word, to)
    want = codes(word).astype(dtype)
    np.testing.assert_array_equal(got, want)
    finite = ~np.isnan(want)
    np.testing.assert_array_equal(np.signbit(got[finite]), np.signbit(want[finite]))


@pytest.mark.parametrize("word", BITS)
def test_every_code_survives_files_and_moves(word, tmp_path):
    x = codes(word).reshape(2, -1)
    g = Graph("moves", 25)
    v = g.input("x", word, x.shape)
    g.output(g.Reshape(g.Transpose(v, perm=[1, 0]), np.array([2, -1])), "turned")
    g.output(g.Identity(g.constant(x)), "constant")
    g.output(g.Pad(v, np.array([0, 0, 1, 0]), g.constant(x[1, 0])), "padded")
    want = [x.T.reshape(2, -1), x, np.concatenate([x, np.full_like(x[:1], x[1, 0])])]
    g.save(tmp_path / "m.onnx")
    onnx.checker.check_model(onnx.load(tmp_path / "m.onnx"), full_check=True)
    network = kilter.compile(tmp_path / "m.onnx", threads=1)
    assert [p.dtype for p in network.inputs] == [word]
    network.save(tmp_path / "m.kilter")
    for made in (kilter.compile(g, threads=1), network, kilter.load(tmp_path / "m.kilter")):
        for got, expected in zip(made(x), want):
            same_codes(got, expected)
    from onnx.reference import ReferenceEvaluator
    for got, expected in zip(ReferenceEvaluator(str(tmp_path / "m.onnx")).run(None, {"x": x})[:2], want):
        same_codes(np.asarray(got), expected)


@pytest.mark.parametrize("word", BITS)
def test_operators_that_select_take_them(word):
    x = codes(word).reshape(2, -1)
    g = Graph("select")
    v = g.input("x", word, x.shape)
    g.output(g.Concat(v, v, axis=1), "concat")
    g.output(g.Slice(v, [0], [1], [0]), "slice")
    g.output(g.Gather(v, np.array([1, 0, 1])), "gather")
    g.output(g.Expand(g.Unsqueeze(v, [0]), np.array([2, 1, 1])), "expand")
    g.output(g.Shape(v), "shape")
    concat, cut, gathered, expanded, shape = kilter.compile(g, threads=1)(x)
    same_codes(concat, np.concatenate([x, x], 1))
    same_codes(cut, x[:1])
    same_codes(gathered, x[[1, 0, 1]])
    same_codes(expanded, np.stack([x, x]))
    assert shape.tolist() == list(x.shape)


@pytest.mark.parametrize("word", FLOATS_OF_8_BITS)
@pytest.mark.parametrize("saturate", [0, 1])
def test_every_half_is_rounded_once(word, saturate):
    with np.errstate(all="ignore"):
        want = onnx.numpy_helper.saturate_cast(HALVES, theirs(word)) if saturate else HALVES.astype(theirs(word))
    same_codes(cast(HALVES, "f16", word, saturate=saturate), want)


@pytest.mark.parametrize("word", [*FLOATS_OF_8_BITS, "f4e2m1"])
def test_numbers_between_neighbours_are_rounded_to_nearest_even(word):
    finite = np.unique(codes(word).astype(np.float32))
    finite = finite[np.isfinite(finite)]
    middle = (finite[1:] + finite[:-1]) / 2
    x = np.concatenate([middle, np.nextafter(middle, np.float32(np.inf)), np.nextafter(middle, np.float32(-np.inf))])
    same_codes(cast(x, "f32", word), x.astype(theirs(word)))


def test_scales_are_those_of_the_standard():
    rng = np.random.default_rng(1)
    normal = np.ldexp(rng.uniform(1, 2, 2000), rng.integers(-120, 126, 2000)).astype(np.float32)
    for mode in ("up", "down", "nearest"):
        for saturate in (0, 1):
            want = onnx.numpy_helper.to_float8e8m0(normal, bool(saturate), mode)
            same_codes(cast(normal, "f32", "f8e8m0", saturate=saturate, round_mode=mode), want)


@pytest.mark.parametrize("word", ["i4", "u4", "i2", "u2"])
def test_integers_keep_the_lowest_bits(word):
    x = np.arange(-300, 300)
    same_codes(cast(x, "i64", word), x.astype(theirs(word)))
    same_codes(cast(x.astype(np.float32), "f32", word), x.astype(theirs(word)))


def test_float4_saturates():
    with np.errstate(all="ignore"):
        want = HALVES.astype(theirs("f4e2m1"))
    numbers = ~np.isnan(HALVES)
    same_codes(cast(HALVES, "f16", "f4e2m1")[numbers], want[numbers])


@pytest.mark.parametrize("word", ["f8e4m3fn", "f8e5m2", "f4e2m1", "i4", "u4", "i2", "u2"])
@pytest.mark.parametrize("scale", [0.25, 3.0])
def test_quantised_values_agree_with_the_reference(word, scale):
    from onnx import TensorProto, helper
    from onnx.reference import ReferenceEvaluator
    number = ELEMENT_TYPES[word].number
    nodes = [helper.make_node("QuantizeLinear", ["x", "s"], ["q"], output_dtype=number),
             helper.make_node("DequantizeLinear", ["q", "s"], ["y"])]
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [4, 250])],
                              [helper.make_tensor_value_info("q", number, [4, 250]),
                               helper.make_tensor_value_info("y", TensorProto.FLOAT, [4, 250])],
                              [helper.make_tensor("s", TensorProto.FLOAT, [], [scale])])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 25)])
    x = (np.random.default_rng(0).standard_normal((4, 250)) * 20).astype(np.float32)
    want = ReferenceEvaluator(model).run(None, {"x": x})
    got = kilter.compile(model, threads=1)(x)
    same_codes(got[0], np.asarray(want[0]).astype(theirs(word)))
    np.testing.assert_array_equal(got[1], want[1])


def test_strided_arrays_and_given_memory():
    x = codes("i4").reshape(4, 4)
    network = kilter.compile(moved("i4", x.shape), threads=1)
    same_codes(network(x[::-1].T), np.ascontiguousarray(x[::-1]))
    memory = np.zeros_like(x)
    assert network(x, out=memory) is memory
    same_codes(memory, np.ascontiguousarray(x.T))


def moved(word, shape):
    g = Graph("moved")
    g.output(g.Transpose(g.input("x", word, shape), perm=[1, 0]), "y")
    return g


def test_bytes_are_not_taken_for_narrow_elements():
    network = kilter.compile(moved("f8e5m2", (2, 2)), threads=1)
    with pytest.raises(kilter.InputError, match=r"input 'x' must be f8e5m2\[2,2\], got u8; arrays of ml_dtypes and ONNX "
                                                r"tensor files \(.pb\) have this type"):
        network(np.zeros((2, 2), np.uint8))


def test_without_ml_dtypes_results_are_codes():
    program = """
import sys
sys.modules["ml_dtypes"] = None
import numpy, kilter
from kilter.graph import Graph
g = Graph("g")
g.output(g.Cast(g.input("x", "f32", (3,)), to="i4"), "y")
y = kilter.compile(g, threads=1)(numpy.array([-1, 7, 2], numpy.float32))
print(y.dtype, y.tolist())
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == "uint8 [15, 7, 2]\n", done.stderr


def test_onnxruntime_sessions_take_the_bits():
    from kilter import onnxruntime as ort
    model = moved("f8e4m3fn", (2, 2)).to_onnx_bytes()
    session = ort.InferenceSession(model)
    assert session.get_inputs()[0].type == "tensor(float8e4m3fn)"
    x = codes("f8e4m3fn")[:4].reshape(2, 2)
    same_codes(session.run(None, {"x": x})[0], np.ascontiguousarray(x.T))
    value = ort.OrtValue.ortvalue_from_numpy_with_onnx_type(x.view(np.uint8), 17)
    assert (value.data_type(), value.element_type()) == ("tensor(float8e4m3fn)", 17)
    same_codes(session.run(None, {"x": value})[0], np.ascontiguousarray(x.T))
    with pytest.raises(ort.InvalidArgument if hasattr(ort, "InvalidArgument") else RuntimeError,
                       match="NumPy has no type for tensor"):
        value.numpy()


def test_the_runtime_alone_passes_the_bits(tmp_path):
    build = pathlib.Path(kilter.__file__).parents[2]
    library = build / "src" / "libkilter_runtime.so"
    if not library.exists():
        pytest.skip("the runtime is not built")
    shutil.copytree(pathlib.Path(os.environ["KILTER_SOURCE"]) / "python" / "runtime" / "kilter_runtime",
                    tmp_path / "kilter_runtime")
    shutil.copy(library, tmp_path / "kilter_runtime")
    x = codes("i4").reshape(2, 8)
    np.save(tmp_path / "x.npy", x.view(np.uint8))
    kilter.compile(moved("i4", x.shape), threads=1).save(tmp_path / "m.kilter")
    program = """
import numpy, kilter_runtime
network = kilter_runtime.load("m.kilter")
print(network.inputs[0], network(numpy.load("x.npy")).tolist())
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=tmp_path)
    assert done.stdout == f"x: i4[2,8] {x.view(np.uint8).T.tolist()}\n", done.stderr
