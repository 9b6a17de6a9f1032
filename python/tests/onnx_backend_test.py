"""Runs the standard's own test runner (onnx.backend.test) on kilter.onnx_backend.

The cases that do not pass must be the same as with `kilter check`: tests/e2e/onnx_cases_not_passing.txt, which
peers.onnx_node_cases checks against the program, is the list of expected failures here, too. A listed case that passes
fails the test, and so does any other case that fails. The runner itself skips models that is_compatible() refuses:
those of opsets before 7. A quarter of the cases runs, unless KILTER_ALL_CASES is set, as it is for the slow test
python.onnx_backend_all.
"""
from __future__ import annotations

import os
import pathlib
import sys
import warnings
import zlib

import pytest

numpy = pytest.importorskip("numpy")
onnx = pytest.importorskip("onnx")

import kilter  # noqa: E402
import kilter.onnx_backend as backend  # noqa: E402

E2E = pathlib.Path(__file__).resolve().parents[2] / "tests" / "e2e"
sys.path.insert(0, str(E2E))
from onnx_node_cases import LEAST_PASSING, RANDOM, read_known  # noqa: E402

#: passes in `kilter check`
NOT_COMPARED = {"test_loop16_seq_none": "the standard's runner takes len() of each element of a sequence, and one is a "
                                        "scalar"}
KNOWN = {**read_known(E2E / "onnx_cases_not_passing.txt"), **NOT_COMPARED}


#: of all cases, by the runner's class
NAMES: dict[str, set[str]] = {}


def standard_cases() -> dict[str, type]:
    """Returns the runner's test classes by name, for the CPU, with the known failures marked."""
    warnings.filterwarnings("ignore", module="onnx|numpy")
    numpy.random.seed(0)  # as onnx_node_cases.write_cases() does: some cases are random
    from onnx.backend.test import BackendTest
    classes = BackendTest(backend, __name__).test_cases
    everything = bool(os.environ.get("KILTER_ALL_CASES"))
    for category in classes.values():
        for name in [n for n in vars(category) if n.startswith("test_")]:
            case = name.removesuffix("_cpu")
            if case == name:
                delattr(category, name)  # another device
                continue
            NAMES.setdefault(category.__name__, set()).add(case)
            if not everything and zlib.crc32(case.encode()) % 4 != 0:
                delattr(category, name)
            elif case in KNOWN:
                mark = pytest.mark.xfail(strict=not KNOWN[case].startswith(RANDOM), reason=KNOWN[case])
                setattr(category, name, mark(getattr(category, name)))
    return classes


globals().update(standard_cases())
NODE_CASES = NAMES["OnnxBackendNodeModelTest"]


@pytest.fixture(autouse=True, scope="module")
def onnx_home(tmp_path_factory):
    """A folder of its own for the models that the runner writes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ONNX_HOME", str(tmp_path_factory.mktemp("onnx")))
        patch.delenv("ONNX_MODELS", raising=False)
        yield


def test_the_list_names_cases_of_the_standard():
    assert set(KNOWN) - NODE_CASES == set()
    assert len(NODE_CASES - set(KNOWN)) >= LEAST_PASSING


# --- the interface beyond what the runner uses ---


def mlp(batch="n"):
    """A model of two inputs and two outputs: y = x + b, z = Relu(y)."""
    port = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("Add", ["x", "b"], ["y"]), onnx.helper.make_node("Relu", ["y"], ["z"])], "mlp",
        [port("x", 1, [batch, 3]), port("b", 1, [3])], [port("y", 1, [batch, 3]), port("z", 1, [batch, 3])])
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 20)])


X = numpy.array([[1, -2, 3]], numpy.float32)
B = numpy.array([1, 1, -4], numpy.float32)


def test_outputs_have_positions_and_names():
    rep = backend.prepare(mlp(), threads=1)
    for inputs in ([X, B], (X, B), {"b": B, "x": X}):
        outputs = rep.run(inputs)
        numpy.testing.assert_array_equal(outputs[0], X + B)
        numpy.testing.assert_array_equal(outputs["z"], numpy.maximum(X + B, 0))
        assert outputs.y is outputs[0] and len(outputs) == 2
    assert isinstance(rep, onnx.backend.base.BackendRep)
    assert rep.network.inputs[0].shape == ("n", 3)
    assert rep.run([numpy.repeat(X, 5, 0), B]).y.shape == (5, 3)


def test_one_array_is_the_only_input():
    node = onnx.helper.make_node("Relu", ["x"], ["y"])
    numpy.testing.assert_array_equal(backend.run_node(node, X)[0], numpy.maximum(X, 0))


def test_run_model_prepares_and_runs():
    y, z = backend.run_model(mlp(1), [X, B])
    numpy.testing.assert_array_equal(y, X + B)
    numpy.testing.assert_array_equal(z, numpy.maximum(X + B, 0))


def test_static_models_are_compiled_by_prepare():
    doing = []
    network = backend.prepare(mlp(1)).network
    network._net.run({"x": X, "b": B}, None, doing.append)
    assert doing == []  # nothing is left to compile
    network = backend.prepare(mlp()).network
    network._net.run({"x": X, "b": B}, None, doing.append)
    assert doing != []


def test_shapes_that_depend_on_values_are_compiled_by_run():
    node = onnx.helper.make_node("Expand", ["x", "shape"], ["y"])
    for shape in ([4, 3], [2, 1, 3]):
        outputs = backend.run_node(node, [X, numpy.array(shape)])
        numpy.testing.assert_array_equal(outputs.y, numpy.broadcast_to(X, shape))


def test_run_node_takes_optional_repeated_and_named_inputs():
    clip = onnx.helper.make_node("Clip", ["x", "", "high"], ["y"])
    numpy.testing.assert_array_equal(backend.run_node(clip, [X, numpy.float32(2)]).y, numpy.minimum(X, 2))
    numpy.testing.assert_array_equal(backend.run_node(clip, {"high": numpy.float32(0), "x": X}).y, numpy.minimum(X, 0))
    square = onnx.helper.make_node("Mul", ["x", "x"], ["y"])
    numpy.testing.assert_array_equal(backend.run_node(square, [X, X]).y, X * X)


def test_run_node_leaves_out_outputs_without_a_name():
    split = onnx.helper.make_node("TopK", ["x", "k"], ["", "places"])
    outputs = backend.run_node(split, [X, numpy.array([2])])
    assert outputs._fields == ("places",)
    numpy.testing.assert_array_equal(outputs.places, [[2, 0]])


def test_run_node_reads_the_opset():
    old = onnx.helper.make_node("Softmax", ["x"], ["y"])  # before 13, axis 1 and all after it are one
    cube = numpy.arange(8, dtype=numpy.float32).reshape(1, 2, 4)
    whole = numpy.exp(cube - 7) / numpy.exp(cube - 7).sum()
    rows = numpy.exp(cube - 7) / numpy.exp(cube - 7).sum(-1, keepdims=True)
    numpy.testing.assert_allclose(backend.run_node(old, [cube], opset_version=11).y, whole, rtol=1e-5)
    numpy.testing.assert_allclose(backend.run_node(old, [cube]).y, rows, rtol=1e-5)


def test_run_node_checks_outputs_info():
    node = onnx.helper.make_node("Relu", ["x"], ["y"])
    backend.run_node(node, [X], outputs_info=[(numpy.float32, (1, 3))])
    with pytest.raises(kilter.InputError) as raised:
        backend.run_node(node, [X], outputs_info=[(numpy.float64, (3,))])
    assert str(raised.value) == "Relu: output 'y': outputs_info says float64[3], the result is float32[1, 3]"


def test_run_node_names_an_unknown_operator():
    node = onnx.helper.make_node("Fold", ["x"], ["y"], domain="my.own")
    with pytest.raises(kilter.UnsupportedError, match=r"my\.own:Fold@1 \(1 node: 'y'\): unknown operator"):
        backend.run_node(node, [X], outputs_info=[(numpy.float32, (1, 3))])


def test_devices():
    assert [backend.supports_device(d) for d in ("CPU", "CPU:0", "CUDA", "CUDA:1", "cpu", "")] == [
        True, True, False, False, False, False]
    with pytest.raises(kilter.UsageError) as raised:
        backend.prepare(mlp(), "CUDA")
    assert str(raised.value) == "device 'CUDA': Kilter runs ONNX models on 'CPU'"
    assert not backend.is_compatible(mlp(), "CUDA")


def test_is_compatible_says_whether_prepare_works():
    assert backend.is_compatible(mlp())
    newer = mlp()
    newer.opset_import[0].version = 99
    unknown = mlp()
    unknown.graph.node[0].op_type = "Plus"
    invalid = mlp(1)
    invalid.graph.node[0].input[1] = "nothing"
    for model, error in ((newer, kilter.UnsupportedError),
                         (unknown, kilter.UnsupportedError), (invalid, kilter.ModelError)):
        assert not backend.is_compatible(model)
        with pytest.raises(error):
            backend.prepare(model)
    with pytest.raises(kilter.UsageError):
        backend.is_compatible(mlp(), threads="many")


@pytest.mark.parametrize("call, text", [
    (lambda: backend.prepare(mlp()).run([X, B], threads=1),
     "run: unknown argument 'threads'; options belong to prepare()"),
    (lambda: backend.prepare(mlp()).run([X, B, B]), "mlp: 3 inputs are given; expected x: f32[n,3], b: f32[3]"),
    (lambda: backend.run_node(onnx.helper.make_node("Add", ["x", "b"], ["y"]), [X]),
     "Add: 1 inputs are given; expected 2: x, b"),
    (lambda: backend.run_node(onnx.helper.make_node("Add", ["x", "b"], ["y"]), {"x": X, "c": B}),
     "Add: the inputs given are x, c; expected x, b"),
])
def test_misuse(call, text):
    with pytest.raises(kilter.Error) as raised:
        call()
    assert str(raised.value) == text
