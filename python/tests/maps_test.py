"""Maps: operators of ai.onnx.ml that create and read them, in all three interfaces of Python and on the command
line."""
from __future__ import annotations

import json

import numpy as np
import pytest

onnx = pytest.importorskip("onnx", reason="the package onnx, which builds the models, is not installed")

from onnx import TensorProto, helper, numpy_helper  # noqa: E402

import kilter  # noqa: E402
import kilter.onnx_backend as backend  # noqa: E402
import kilter.onnxruntime as ort  # noqa: E402
from kilter.onnxruntime.capi import onnxruntime_pybind11_state as state  # noqa: E402
from small_networks import raised_text  # noqa: E402

ML = "ai.onnx.ml"
FLOAT, INT64, DOUBLE, STRING = TensorProto.FLOAT, TensorProto.INT64, TensorProto.DOUBLE, TensorProto.STRING
X = np.float32([[0.125, 0.25, 0.5], [1, 2, 4]])


def tensor(type_, dims=None):
    return helper.make_tensor_type_proto(type_, dims)


def map_of(key, value):
    return helper.make_map_type_proto(key, tensor(value))


def sequence(type_):
    return helper.make_sequence_type_proto(type_)


def model(op, given, result, domain=ML, **attrs):
    node = helper.make_node(op, ["x"], ["y"], "node", domain=domain, **attrs)
    graph = helper.make_graph([node], "maps", [helper.make_value_info("x", given)], [helper.make_value_info("y", result)])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18), helper.make_opsetid(ML, 1)], ir_version=9)


NUMBERS = model("ZipMap", tensor(FLOAT, [None, 3]), sequence(map_of(INT64, FLOAT)), classlabels_int64s=[7, 2, 9])
NAMES = model("ZipMap", tensor(FLOAT, [None, 3]), sequence(map_of(STRING, FLOAT)), classlabels_strings=["b", "a", "grün"])
WORDS = model("DictVectorizer", map_of(STRING, FLOAT), tensor(FLOAT), string_vocabulary=["c", "a", "z"])
TABLE = model("DictVectorizer", map_of(INT64, STRING), tensor(STRING), int64_vocabulary=[3, 1])


def test_results_are_lists_of_dicts():
    y = kilter.compile(NUMBERS, threads=1)(X)
    assert y == [{2: 0.25, 7: 0.125, 9: 0.5}, {2: 2.0, 7: 1.0, 9: 4.0}]
    assert [type(k) for k in y[0]] == [int] * 3 and [type(v) for v in y[0].values()] == [float] * 3
    assert kilter.compile(NAMES, threads=1)(X[:1]) == [{"a": 0.25, "b": 0.125, "grün": 0.5}]
    assert kilter.compile(NUMBERS, threads=1)(X[:0]) == []


def test_inputs_are_dicts():
    net = kilter.compile(WORDS, threads=1)
    for given in ({"a": 2, "b": 3.5, "c": 0.25}, {"c": np.float32(0.25), "a": np.int64(2)}, {b"c": 0.25, "a": True + 1}):
        np.testing.assert_array_equal(net(given), np.float32([[0.25, 2, 0]]))
    np.testing.assert_array_equal(net({}), np.zeros((1, 3), np.float32))
    table = kilter.compile(TABLE, threads=1)
    assert table({1: "x", np.int32(3): "y"}).tolist() == [["y", "x"]] and table({}).tolist() == [["", ""]]


@pytest.mark.parametrize("given, text", [
    (X, "input 'x': expected a dict, got ndarray of float32"),
    ({1: 2.0}, "input 'x': a key has type int; expected str"),
    ({"a": "2"}, "input 'x': a value has type str; expected a number"),
    ({"a": [1.0]}, "input 'x': a value has type list; expected a number"),
    ({"a": "b", "c": 1}, "input 'x': a value has type str; expected a number"),
    (None, "input 'x': expected a dict, got NoneType")])
def test_values_that_do_not_fit(given, text):
    assert raised_text(lambda: kilter.compile(WORDS, threads=1)(given)) == text


def test_keys_that_do_not_fit():
    net = kilter.compile(TABLE, threads=1)
    assert raised_text(lambda: net({1.5: "x"})) == "input 'x': a key has type float; expected an integer"
    assert raised_text(lambda: net({"1": "x"})) == "input 'x': a key has type str; expected an integer"
    assert raised_text(lambda: net({2**70: "x"})).startswith("input 'x': a key cannot be int64:")


def test_ports():
    ports = [kilter.compile(m).inputs[0] for m in (WORDS, TABLE)] + [kilter.compile(m).outputs[0] for m in (NUMBERS, NAMES)]
    assert [str(p) for p in ports] == ["x: map from str to f32", "x: map from i64 to str", "y: sequence of maps from i64 to f32",
                                       "y: sequence of maps from str to f32"]
    assert [(p.kind, p.key, p.dtype, p.shape) for p in ports[:3:2]] == [("map", "str", "f32", ()), ("sequence", "i64", "f32", ())]
    name, dtype, shape, kind = ports[0]  # as before there were maps
    assert (name, dtype, shape, kind) == ports[0] == ("x", "f32", (), "map")
    assert kilter.compile(NUMBERS).inputs[0].key is None


def test_sequences_of_maps_and_maps_from_sequences():
    count = model("SequenceLength", sequence(map_of(STRING, INT64)), tensor(INT64, []), domain="")
    net = kilter.compile(count, threads=1)
    assert net([{"a": 1}, {}]) == 2 and net(()) == 0
    assert raised_text(lambda: net({"a": 1})) == "input 'x': expected a list or tuple of dicts, got dict"
    assert raised_text(lambda: net([{"a": 1}, {"b": 1.5}])) == "input 'x'[1]: a value has type float; expected an integer"
    absent = model("OptionalHasElement", helper.make_optional_type_proto(map_of(INT64, FLOAT)), tensor(TensorProto.BOOL, []), domain="")
    net = kilter.compile(absent, threads=1)
    assert str(net.inputs[0]) == "x: optional map from i64 to f32"
    assert not net(None) and net({}) and net({1: 2})


def test_the_backend_interface():
    node = helper.make_node("DictVectorizer", ["x"], ["y"], domain=ML, int64_vocabulary=[5, 6])
    y, = backend.run_node(node, [{6: 1.5}], outputs_info=[(np.float32, (1, 2))])
    np.testing.assert_array_equal(y, [[0, 1.5]])
    rep = backend.prepare(NUMBERS)
    assert rep.run([X])[0][0][9] == 0.5


# --- compared with ONNX Runtime ---


def sessions(data):
    onnxruntime = pytest.importorskip("onnxruntime", reason="the package onnxruntime, to compare with, is not installed")
    return [package.InferenceSession(data.SerializeToString(), providers=["CPUExecutionProvider"]) for package in (onnxruntime, ort)]


def agree(data, x):
    theirs, ours = (session.run(None, {"x": x})[0] for session in sessions(data))
    if isinstance(theirs, list):
        assert ours == theirs and [list(m) for m in ours] == [list(m) for m in theirs]
    else:
        assert (ours.dtype, ours.shape, ours.tolist()) == (theirs.dtype, theirs.shape, theirs.tolist())


@pytest.mark.parametrize("labels", [{"classlabels_int64s": [7, -2, 9]}, {"classlabels_strings": ["b", "a", "grün"]},
                                    {"classlabels_strings": ["b", "a", "b"]}, {"classlabels_int64s": [3, 3, 3]}])
@pytest.mark.parametrize("x", [X, X[0], X[:0], np.float32([[np.inf, -0.0, 1e-40]])])
def test_zip_map_is_that_of_onnx_runtime(labels, x):
    key = INT64 if "classlabels_int64s" in labels else STRING
    agree(model("ZipMap", tensor(FLOAT), sequence(map_of(key, FLOAT)), **labels), x)


@pytest.mark.parametrize("key, x, vocabulary", [
    (STRING, {"a": 1.5, "c": 2, "zz": 9}, {"string_vocabulary": ["b", "a", "c", "a"]}),
    (INT64, {1: 2.5, -7: 0.125}, {"int64_vocabulary": [3, -7, 1]}), (INT64, {4: 1}, {"int64_vocabulary": [2]})])
def test_dict_vectorizer_is_that_of_onnx_runtime(key, x, vocabulary):
    agree(model("DictVectorizer", map_of(key, FLOAT), tensor(FLOAT), **vocabulary), x)


@pytest.mark.parametrize("to, type_", [("TO_FLOAT", FLOAT), ("TO_INT64", INT64)])
@pytest.mark.parametrize("form", [{}, {"map_form": "SPARSE", "max_map": 7}])
def test_cast_map_is_that_of_onnx_runtime(to, type_, form):
    agree(model("CastMap", map_of(INT64, FLOAT), tensor(type_), cast_to=to, **form), {6: 1.5, 0: -2.75, 3: 1e10})


@pytest.mark.parametrize("data", [NUMBERS, NAMES, WORDS, TABLE])
def test_ports_are_those_of_onnx_runtime(data):
    theirs, ours = sessions(data)
    assert [str(p) for p in ours.get_inputs()] == [str(p) for p in theirs.get_inputs()]
    assert [str(p) for p in ours.get_outputs()] == [str(p) for p in theirs.get_outputs()]


def test_ort_values_of_maps():
    for package in (pytest.importorskip("onnxruntime"), ort):
        session = package.InferenceSession(NUMBERS.SerializeToString(), providers=["CPUExecutionProvider"])
        value, = session.run_with_ort_values(None, {"x": package.OrtValue.ortvalue_from_numpy(X)})
        assert (value.is_tensor(), value.is_tensor_sequence(), value.has_value()) == (False, False, True)
        assert value.data_type() == "seq(map(int64,tensor(float)))"
        with pytest.raises(RuntimeError):
            value.numpy()


def test_misuse_in_the_drop_in():
    session = ort.InferenceSession(WORDS.SerializeToString())
    np.testing.assert_array_equal(session.run(None, {"x": {"c": 1}})[0], [[1, 0, 0]])
    with pytest.raises(state.InvalidArgument, match="input 'x': expected a dict, got list"):
        session.run(None, {"x": [1.0]})
    with pytest.raises(state.InvalidArgument, match="input 'x' is missing"):
        session.run(None, {})


# --- the command line ---


def saved(data, folder, name):
    path = folder / f"{name}.onnx"
    onnx.save(data, path)
    return str(path)


def test_the_command_run_reads_and_writes_maps(tmp_path):
    np.save(tmp_path / "x.npy", X)
    out = kilter.command("run", saved(NUMBERS, tmp_path, "numbers"), "--input", f"x={tmp_path}/x.npy", "--verify",
                         "--output", str(tmp_path / "out"))
    assert out.splitlines()[:3] == ["y: sequence of 2", "y[0]: map of 3 from i64 to f32  2: 0.25, 7: 0.125, 9: 0.5",
                                    "y[1]: map of 3 from i64 to f32  2: 2, 7: 1, 9: 4"]
    assert out.endswith("verify: passed\n")
    assert json.loads((tmp_path / "out" / "y.json").read_text()) == [
        {"2": 0.25, "7": 0.125, "9": 0.5}, {"2": 2.0, "7": 1.0, "9": 4.0}]
    count = saved(model("SequenceLength", sequence(map_of(INT64, FLOAT)), tensor(INT64, []), domain=""), tmp_path, "count")
    assert kilter.command("run", count, "--input", f"x={tmp_path}/out/y.json").startswith("y: i64[scalar]  min 2")
    (tmp_path / "x.json").write_text('{"a": 2, "c": 0.5}')
    proto = onnx.MapProto(key_type=STRING, string_keys=[b"a", b"c"])
    proto.values.CopyFrom(numpy_helper.from_list([np.array(2, np.float32), np.array(0.5, np.float32)]))
    (tmp_path / "x.pb").write_bytes(proto.SerializeToString())
    for file in ("x.json", "x.pb"):
        out = kilter.command("run", saved(WORDS, tmp_path, "words"), "--input", f"x={tmp_path}/{file}")
        assert out == "y: f32[1x3]  min 0  max 2  mean 0.833333\n"


@pytest.mark.parametrize("text, error", [
    ("[]", "contains array, expected an object from keys to values"), ("{", "not valid JSON"),
    ('{"a": "x"}', "the value \"x\" of 'a', expected a number"), ('{"a": [1]}', "the value [1] of 'a', expected a number")])
def test_json_that_does_not_fit(text, error, tmp_path):
    file = tmp_path / "x.json"
    file.write_text(text)
    words = saved(WORDS, tmp_path, "words")
    assert raised_text(lambda: kilter.command("run", words, "--input", f"x={file}")).endswith(f"{file}: {error}")


def test_keys_in_json_that_do_not_fit(tmp_path):
    table = saved(TABLE, tmp_path, "table")
    (tmp_path / "x.json").write_text('{"1": "a", "b": "c"}')
    assert raised_text(lambda: kilter.command("run", table, "--input", f"x={tmp_path}/x.json")).endswith(
        "x.json: the key 'b', expected an integer, as keys are i64")
    assert raised_text(lambda: kilter.command("run", table)).endswith(
        "input 'x' (map from i64 to str) is not given; give it as `--input x=FILE.json` or `--input x=FILE.pb`")
    assert raised_text(lambda: kilter.command("run", table, "--input", "x=2x3")).endswith(
        "input 'x' (map from i64 to str) is given as '2x3'; give it as `--input x=FILE.json` or `--input x=FILE.pb`")
