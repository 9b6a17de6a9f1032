"""kilter.onnxruntime compared with ONNX Runtime: values, names, types, bindings, options, and the messages of
errors."""
from __future__ import annotations

import logging
import pickle
import subprocess
import sys
import warnings

import numpy as np
import pytest

reference = pytest.importorskip("onnxruntime", reason="the package onnxruntime, to compare with, is not installed")
onnx = pytest.importorskip("onnx", reason="the package onnx, which builds the models, is not installed")

from onnx import TensorProto, helper  # noqa: E402

import kilter  # noqa: E402
import kilter.onnxruntime as ort  # noqa: E402
import ort_models  # noqa: E402
from kilter.onnxruntime.capi import onnxruntime_pybind11_state as state  # noqa: E402
from ort_models import FLOAT, INT64, built, one_node, tensor  # noqa: E402

BOTH = pytest.mark.parametrize("rt", [reference, ort], ids=["onnxruntime", "kilter"])


@pytest.fixture(scope="module")
def perceptron():
    return ort.InferenceSession(built("perceptron.onnx"))


X = ort_models.random(2, 16, seed=20)


# --- sessions and runs, the same in both ---

@BOTH
def test_what_a_session_says_about_ports(rt):
    session = rt.InferenceSession(built("text_encoder.onnx"))
    (ids, mask), (hidden, pooled) = session.get_inputs(), session.get_outputs()
    assert (ids.name, ids.type, ids.shape) == ("input_ids", "tensor(int64)", ["batch", "sequence"])
    assert (hidden.type, hidden.shape, pooled.shape) == ("tensor(float)", ["batch", "sequence", 32], ["batch", 32])
    assert str(mask) == "NodeArg(name='attention_mask', type='tensor(int64)', shape=['batch', 'sequence'])"
    assert session.get_providers() == ["CPUExecutionProvider"]
    assert session.get_provider_options() == {"CPUExecutionProvider": {}}


@BOTH
def test_unknown_dimensions_and_ranks(rt):
    session = rt.InferenceSession(one_node("Relu", [tensor("x", FLOAT, [None, 3])], [tensor("y", FLOAT, [None, 3])]))
    assert session.get_inputs()[0].shape == [None, 3]
    session = rt.InferenceSession(one_node("Relu", [tensor("x", FLOAT, None)], [tensor("y", FLOAT, None)]))
    assert session.get_inputs()[0].shape == []
    for shape in [(), (0, 2), (1, 2, 3)]:
        assert session.run(None, {"x": np.ones(shape, np.float32)})[0].shape == shape


@BOTH
def test_metadata(rt):
    meta = rt.InferenceSession(built("perceptron.onnx")).get_modelmeta()
    assert (meta.producer_name, meta.graph_name, meta.domain) == ("ort_models", "perceptron", "org.example")
    assert (meta.version, meta.description, meta.graph_description) == (3, "an MLP for tests", "two layers")
    assert meta.custom_metadata_map == {"classes": "ant,bee,cat,dog", "author": "nobody"}
    empty = rt.InferenceSession(built("half.onnx")).get_modelmeta()
    assert (empty.producer_name, empty.domain, empty.version, empty.custom_metadata_map) == ("", "", 2**63 - 1, {})


@BOTH
def test_outputs_come_in_the_order_asked_for(rt):
    session = rt.InferenceSession(built("perceptron.onnx"))
    everything = session.run(None, {"features": X})
    assert isinstance(everything, list) and [a.shape for a in everything] == [(2, 4), (2, 32)]
    for names in (["hidden", "probabilities"], ("hidden",), ["hidden", "hidden"], []):
        found = session.run(names, {"features": X})
        expected = [everything[["probabilities", "hidden"].index(n)] for n in names or ["probabilities", "hidden"]]
        assert len(found) == len(expected) and all((a == b).all() for a, b in zip(found, expected))


@BOTH
def test_feeds_may_be_lists_values_and_arrays_of_any_strides(rt):
    session = rt.InferenceSession(built("with_default.onnx"))
    assert session.run(None, {"x": [[1, 2], [3, 4]]})[0].tolist() == [[3, 8], [9, 16]]
    gain = np.array([5, 6.5], np.float32)
    assert session.run(None, {"x": [np.ones(2, np.float32)], "gain": gain})[0].tolist() == [[5, 6.5]]
    assert session.run(None, {"x": np.ones((2, 3), np.float32).T, "gain": np.ones(2, np.float32)})[0].shape == (3, 2)
    value = rt.OrtValue.ortvalue_from_numpy(np.ones((1, 2), np.float32))
    assert session.run(None, {"x": value})[0].tolist() == [[3, 4]]
    scalar = rt.InferenceSession(one_node("ReduceSum", [tensor("x", FLOAT, [2])], [tensor("y", FLOAT, [])], keepdims=0))
    found = scalar.run(None, {"x": np.array([1, 2], np.float32)})[0]
    assert type(found) is np.ndarray and found.shape == () and found == 3


def test_feeds_may_be_tuples_and_objects_with_dlpack():
    class OnlyDlpack:
        def __init__(self, array):
            self._array = array

        def __dlpack__(self, **how):
            return self._array.__dlpack__(**how)

        def __dlpack_device__(self):
            return self._array.__dlpack_device__()

    session = ort.InferenceSession(built("with_default.onnx"))
    x = np.ones((1, 2), np.float32)
    for feed in (((1, 1),), OnlyDlpack(x), memoryview(x)):
        assert session.run(None, {"x": feed})[0].tolist() == [[3, 4]]


@BOTH
def test_shapes_and_branches_that_depend_on_values_of_inputs(rt):
    reshape = rt.InferenceSession(one_node(
        "Reshape", [tensor("x", FLOAT, [4]), tensor("shape", INT64, [2])], [tensor("y", FLOAT, None)]))
    for shape in ([2, 2], [1, 4]):
        assert reshape.run(None, {"x": np.ones(4, np.float32), "shape": np.array(shape)})[0].shape == tuple(shape)
    branches = {}
    for name, value in (("then", 1.), ("else", 2.)):
        node = helper.make_node("Constant", [], [name], value_float=value)
        branches[name + "_branch"] = helper.make_graph([node], name, [], [tensor(name, FLOAT, [])])
    condition = tensor("c", TensorProto.BOOL, [])
    choice = rt.InferenceSession(one_node("If", [condition], [tensor("y", FLOAT, [])], **branches))
    assert [choice.run(None, {"c": np.array(c)})[0].item() for c in (True, False)] == [1, 2]


@BOTH
def test_results_stay_as_they_are(rt):
    session = rt.InferenceSession(one_node("Identity", [tensor("x", FLOAT, ["n"])], [tensor("y", FLOAT, ["n"])]))
    x = np.ones(3, np.float32)
    first = session.run(None, {"x": x})[0]
    x[:] = 7
    second = session.run(None, {"x": x})[0]
    first[0] = 5
    assert first.tolist() == [5, 1, 1] and second.tolist() == [7, 7, 7]


@BOTH
@pytest.mark.parametrize("dtype", "float16 float64 int8 int16 int32 int64 uint8 uint16 uint32 uint64 bool".split())
def test_element_types(rt, dtype):
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    session = rt.InferenceSession(one_node("Identity", [tensor("x", kind, ["n"])], [tensor("y", kind, ["n"])]))
    x = np.array([0, 1, 1], dtype)
    y = session.run(None, {"x": x})[0]
    assert y.dtype == x.dtype and (y == x).all()
    value = rt.OrtValue.ortvalue_from_numpy(x)
    assert (session.get_inputs()[0].type, value.element_type()) == (value.data_type(), kind)


def test_every_type_has_onnx_runtimes_text():
    for dtype in "float16 float32 float64 int8 int16 int32 int64 uint8 uint16 uint32 uint64 bool".split():
        theirs, ours = (rt.OrtValue.ortvalue_from_numpy(np.zeros(2, dtype)) for rt in (reference, ort))
        assert ours.data_type() == theirs.data_type() and ours.element_type() == theirs.element_type()


@pytest.mark.parametrize("name", ["squeezenet.onnx", "mobilenet.onnx"])
def test_built_in_networks_agree_with_onnx_runtime(name, tmp_path):
    kilter.command("zoo", *ort_models.ZOO[name], "-o", str(tmp_path / name))
    x = ort_models.random(1, 3, 64, 64, seed=21)
    theirs, ours = (rt.InferenceSession(str(tmp_path / name)) for rt in (reference, ort))
    assert [str(a) for a in ours.get_inputs()] == [str(a) for a in theirs.get_inputs()]
    assert [str(a) for a in ours.get_outputs()] == [str(a) for a in theirs.get_outputs()]
    feeds = {ours.get_inputs()[0].name: x}
    expected = theirs.run(None, feeds)[0]
    np.testing.assert_allclose(ours.run(None, feeds)[0], expected, atol=1e-4 * np.abs(expected).max())


def strokes(*shape: int) -> np.ndarray:
    """Returns an image of black strokes, like letters, on white ground."""
    image = np.full(shape, 1, np.float32)
    for left in range(20, shape[3] - 20, 12):
        image[:, :, 24:40, left:left + 3] = image[:, :, 30:33, left:left + 8] = -1
    return image


@pytest.mark.parametrize("name, shapes", [("ocr_detect.onnx", [(1, 3, 96, 160), (1, 3, 64, 128)]),
                                          ("ocr_recognise.onnx", [(2, 3, 48, 96)])])
def test_models_with_open_shapes_agree_with_onnx_runtime(name, shapes):
    file = ort_models.MODELS / ort_models.FETCHED[name]
    if not file.is_file():
        pytest.skip(f"{file} is missing; the test peers.fetch fetches it")
    theirs, ours = (rt.InferenceSession(str(file)) for rt in (reference, ort))
    assert [str(a) for a in ours.get_inputs()] == [str(a) for a in theirs.get_inputs()]
    assert ours.get_modelmeta().custom_metadata_map == theirs.get_modelmeta().custom_metadata_map
    for shape in shapes:
        x = strokes(*shape)
        expected = theirs.run(None, {"x": x})[0]
        assert expected.max() > 0.3, "nothing is seen in the image"
        np.testing.assert_allclose(ours.run(None, {"x": x})[0], expected, atol=1e-3 * np.abs(expected).max())


def test_other_models_of_kilter_open_as_well():
    from kilter.graph import Graph
    graph = Graph("double")
    x = graph.input("x", "f32", (3,))
    graph.output(graph.Add(x, x), "y")
    for source in (graph, ort_models.with_default()):
        session = ort.InferenceSession(source)
        assert session.run(None, {"x": np.ones([d if isinstance(d, int) else 1 for d in session.get_inputs()[0].shape],
                                               np.float32)})[0].size in (2, 3)


def test_a_model_with_known_shapes_is_compiled_before_its_first_run():
    session = ort.InferenceSession(built("detector.onnx"))
    doing = []
    session._network._net.run({"image": ort_models.random(1, 3, 32, 32)}, None, doing.append)
    assert not any("generate code" in text for text in doing), doing
    options = ort.SessionOptions()
    options.add_free_dimension_override_by_name("batch", 2)
    for session, compiles in ((ort.InferenceSession(built("perceptron.onnx"), options), False),
                              (ort.InferenceSession(built("perceptron.onnx")), True)):
        doing.clear()
        session._network._net.run({"features": X}, None, doing.append)
        assert any("generate code" in text for text in doing) == compiles, doing


# --- errors: the classes of ONNX Runtime, and Kilter's texts ---

@pytest.mark.parametrize("feeds, text", [
    ({}, "input 'features' is missing; given are none"),
    ({"features": X, "image": X}, "no input 'image'; legal values are features"),
    ({"features": X.astype(np.float64)}, "input 'features' must be f32[batch,16], got f64"),
    ({"features": X[0]}, "input 'features': declared f32[batch,16], given 16: expected 2 dimensions, got 1"),
    ({"features": X[:, :15]}, "input 'features': declared f32[batch,16], given 2x15: dimension 1 is 16 in the model, "
                            "got 15"),
    ({"features": [[1, 2], [3]]}, "input 'features': the list cannot be an array of float32: "),
    ({"features": 1.5}, "input 'features': expected a numpy.ndarray, list or OrtValue, got float; "
                        "numpy.asarray(value, 'float32') makes an array"),
    ({"features": None}, "input 'features': expected a numpy.ndarray, list or OrtValue, got NoneType; "
                         "numpy.asarray(value, 'float32') makes an array"),
])
def test_wrong_feeds_are_named(perceptron, feeds, text):
    with pytest.raises(state.InvalidArgument) as raised:
        perceptron.run(None, feeds)
    assert str(raised.value).startswith("[ONNXRuntimeError] : 2 : INVALID_ARGUMENT : ") and text in str(raised.value)
    assert isinstance(raised.value, kilter.InputError) and isinstance(raised.value, ValueError)
    with pytest.raises(Exception):
        reference.InferenceSession(built("perceptron.onnx")).run(None, feeds)


def test_wrong_arguments_of_run_are_named(perceptron):
    for call, text in [
            (lambda: perceptron.run(["nope"], {"features": X}),
             "no output 'nope'; legal values are probabilities, hidden"),
            (lambda: perceptron.run("hidden", {"features": X}), "output names: expected a list of str, got 'hidden'"),
            (lambda: perceptron.run(None, [X]),
             "inputs: expected a dict of arrays by name, got list; the inputs are features"),
            (lambda: perceptron.run(None, {"features": X}, 3), "run_options: expected RunOptions, got int"),
            (lambda: perceptron.run_with_ort_values(None, {"features": X}),
             "input 'features': expected an OrtValue, got ndarray of float32; OrtValue.ortvalue_from_numpy creates "
             "one")]:
        with pytest.raises(state.InvalidArgument) as raised:
            call()
        assert text in str(raised.value)
        assert isinstance(raised.value, TypeError) == ("expected" in text)


def test_models_that_cannot_be_opened(tmp_path):
    with pytest.raises(state.NoSuchFile, match="NO_SUCHFILE : cannot read file 'absent.onnx': No such file") as raised:
        ort.InferenceSession("absent.onnx")
    assert isinstance(raised.value, kilter.FileError) and isinstance(raised.value, OSError)
    with pytest.raises(state.Fail, match="FAIL : cannot read file '.*': it is a directory") as raised:
        ort.InferenceSession(tmp_path)
    assert isinstance(raised.value, kilter.FileError)
    with pytest.raises(state.InvalidProtobuf, match="INVALID_PROTOBUF : model: not a valid ONNX protobuf") as raised:
        ort.InferenceSession(b"no model")
    assert isinstance(raised.value, kilter.ModelError)
    with pytest.raises(TypeError, match="expected a path, 'zoo:NAME', the bytes of a model, .* got int"):
        ort.InferenceSession(3)
    with pytest.raises(TypeError, match="sess_options: expected SessionOptions, got str"):
        ort.InferenceSession(built("half.onnx"), "options")
    (tmp_path / "m.ort").write_bytes(b"ORTM")
    with pytest.raises(state.NotImplemented, match="m.ort: models in ONNX Runtime's own format cannot be read; "
                                                    "use the .onnx file"):
        ort.InferenceSession(tmp_path / "m.ort")


def test_graphs_that_are_invalid_or_unsupported():
    x, y = tensor("x", FLOAT, ["n"]), tensor("y", FLOAT, ["n"])
    bad = onnx.load_model_from_string(one_node("Relu", [x], [y]))
    bad.graph.node[0].input[0] = "z"
    with pytest.raises(state.InvalidGraph, match=r"Relu \(output 'y'\) reads 'z', which nothing in the graph produces"):
        ort.InferenceSession(bad.SerializeToString())
    bad.graph.node[0].input[0], bad.graph.node[0].op_type = "x", "Unheard"
    for kind in (state.InvalidGraph, state.NotImplemented, kilter.UnsupportedError, kilter.ModelError):
        with pytest.raises(kind, match="missing from Kilter: ai.onnx:Unheard@17"):
            ort.InferenceSession(bad.SerializeToString())


def test_exceptions_have_the_names_of_onnx_runtime():
    from onnxruntime.capi import onnxruntime_pybind11_state as theirs
    names = {n for n, kind in vars(theirs).items() if isinstance(kind, type) and issubclass(kind, BaseException)}
    for name in names - {"DeviceReset"}:  # of devices other than the CPU
        assert issubclass(getattr(state, name), kilter.Error)


def test_exceptions_can_be_pickled():
    error = pickle.loads(pickle.dumps(state.InvalidArgument("input 'x' is missing")))
    assert str(error) == "[ONNXRuntimeError] : 2 : INVALID_ARGUMENT : input 'x' is missing"
    assert error.text == "input 'x' is missing"


# --- options ---

@BOTH
def test_options_have_the_same_defaults_and_types(rt):
    for kind in ("SessionOptions", "RunOptions"):
        expected = getattr(reference, kind)()
        made = getattr(rt, kind)()
        for name in (n for n in dir(expected) if not n.startswith("_") and not callable(getattr(expected, n))):
            value = getattr(expected, name)
            assert getattr(made, name) == value or str(getattr(made, name)) == str(value), name
    options = rt.SessionOptions()
    for name, value in [("intra_op_num_threads", "2"), ("log_severity_level", 3.5), ("execution_mode", 1),
                        ("graph_optimization_level", 99), ("enable_mem_pattern", "x"), ("profile_file_prefix", 3)]:
        with pytest.raises(TypeError):
            setattr(options, name, value)
    with pytest.raises(AttributeError):
        options.threads = 2
    options.add_session_config_entry("session.a", "1")
    assert options.get_session_config_entry("session.a") == "1"
    with pytest.raises(RuntimeError, match="session.b"):
        options.get_session_config_entry("session.b")


def test_what_options_say():
    options = ort.SessionOptions()
    with pytest.raises(TypeError, match=r"SessionOptions.intra_op_num_threads: expected int, got '2' \(str\)"):
        options.intra_op_num_threads = "2"
    with pytest.raises(TypeError, match="expected ExecutionMode: ExecutionMode.ORT_SEQUENTIAL, ExecutionMode.ORT_PAR"):
        options.execution_mode = 0
    with pytest.raises(AttributeError, match="SessionOptions has no option 'threads'; it has intra_op_num_threads, "):
        options.threads = 2
    with pytest.raises(kilter.UsageError, match="free dimension 'batch': size -1; expected 0 or more"):
        options.add_free_dimension_override_by_name("batch", -1)
    for call, text in [
            (lambda: options.register_custom_ops_library("ops.so"), "custom operators of 'ops.so': Kilter generates"),
            (lambda: options.add_initializer("w", None), "initializer 'w': Kilter takes weights from the model"),
            (lambda: options.add_external_initializers(["w"], []), "external initializers w: Kilter takes"),
            (lambda: ort.RunOptions().add_active_adapter(None), "LoRA adapters: Kilter packs weights")]:
        with pytest.raises(state.NotImplemented, match=text):
            call()


def test_threads_and_options_of_kilter_reach_the_network(tmp_path):
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    options.add_session_config_entry("kilter.accuracy", "strict")
    session = ort.InferenceSession(built("detector.onnx"), options)
    bench = session._network.bench(seconds=0.05)
    assert bench.threads == 1 and session._network._options["accuracy"] == "strict"
    options.add_session_config_entry("kilter.accuracy", "lax")
    with pytest.raises(state.InvalidArgument, match="accuracy"):
        ort.InferenceSession(built("detector.onnx"), options)
    options = ort.SessionOptions()
    options.use_per_session_threads = False
    ort.set_global_thread_pool_sizes(1, 1)
    try:
        assert ort.InferenceSession(built("detector.onnx"), options)._network._options["threads"] == 1
    finally:
        ort.set_global_thread_pool_sizes(0)


def test_without_optimisation_each_node_is_a_kernel_of_its_own():
    steps = []
    for level in (ort.GraphOptimizationLevel.ORT_ENABLE_ALL, ort.GraphOptimizationLevel.ORT_DISABLE_ALL):
        options = ort.SessionOptions()
        options.graph_optimization_level = level
        steps.append(ort.InferenceSession(built("detector.onnx"), options)._network.conditions()["steps"])
    assert steps[1] > steps[0]


@BOTH
def test_free_dimensions(rt):
    options = rt.SessionOptions()
    options.add_free_dimension_override_by_name("batch", 2)
    session = rt.InferenceSession(built("perceptron.onnx"), options)
    assert session.get_inputs()[0].shape == [2, 16] and session.get_outputs()[1].shape == [2, 32]
    assert session.run(None, {"features": X})[0].shape == (2, 4)
    with pytest.raises(Exception, match="features"):
        session.run(None, {"features": X[:1]})


@BOTH
def test_free_dimensions_by_denotation(rt):
    x = tensor("x", FLOAT, [None, 3])
    x.type.tensor_type.shape.dim[0].denotation = "DATA_BATCH"
    options = rt.SessionOptions()
    options.add_free_dimension_override_by_denotation("DATA_BATCH", 5)
    session = rt.InferenceSession(one_node("Relu", [x], [tensor("y", FLOAT, [None, 3])]), options)
    assert session.get_inputs()[0].shape == [5, 3]


def test_what_free_dimensions_say(caplog):
    options = ort.SessionOptions()
    options.add_free_dimension_override_by_name("batch", 2)
    session = ort.InferenceSession(built("perceptron.onnx"), options)
    with pytest.raises(state.InvalidArgument, match="input 'features': dimension 0 is 2 by the session's options and "
                                                    "the model, got 1"):
        session.run(None, {"features": X[:1]})
    options.add_free_dimension_override_by_name("length", 2)
    with caplog.at_level(logging.DEBUG, "kilter.onnxruntime"):
        ort.InferenceSession(built("perceptron.onnx"), options)
    assert "no input has a dimension 'length' to override; open dimensions are named batch" in caplog.text
    caplog.clear()
    options.log_severity_level = 3
    with caplog.at_level(logging.DEBUG, "kilter.onnxruntime"):
        ort.InferenceSession(built("perceptron.onnx"), options)
    assert not caplog.records


def test_optimized_model_is_a_compiled_file(tmp_path):
    options = ort.SessionOptions()
    options.optimized_model_filepath = str(tmp_path / "optimized.onnx")
    first = ort.InferenceSession(built("detector.onnx"), options)
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL  # as it is optimised already
    second = ort.InferenceSession(tmp_path / "optimized.onnx", options)
    third = ort.InferenceSession((tmp_path / "optimized.onnx").read_bytes())
    feeds = {"image": ort_models.random(1, 3, 32, 32)}
    for session in (second, third):
        assert session.get_inputs()[0].shape == [1, 3, 32, 32]
        for a, b in zip(first.run(None, feeds), session.run(None, feeds)):
            assert (a == b).all()
    options.optimized_model_filepath = str(tmp_path / "open.onnx")
    with pytest.raises(kilter.UsageError, match="fixed shapes, and those of features: f32.batch,16. are open; fix them "
                                                "with add_free_dimension_override_by_name"):
        ort.InferenceSession(built("perceptron.onnx"), options)


def test_external_data_of_a_model_given_as_bytes(tmp_path):
    big = ort_models.perceptron()
    onnx.save(big, tmp_path / "m.onnx", save_as_external_data=True, location="m.data", size_threshold=0)
    data = (tmp_path / "m.onnx").read_bytes()
    with pytest.raises(kilter.Error):
        ort.InferenceSession(data)
    options = ort.SessionOptions()
    options.add_session_config_entry("session.model_external_initializers_file_folder_path", str(tmp_path))
    expected = ort.InferenceSession(tmp_path / "m.onnx").run(None, {"features": X})
    assert (ort.InferenceSession(data, options).run(None, {"features": X})[0] == expected[0]).all()


# --- providers and the module's functions ---

@pytest.mark.parametrize("providers", [["CUDAExecutionProvider", "CPUExecutionProvider"],
                                       [("CUDAExecutionProvider", {})]])
def test_other_providers_give_one_warning(providers):
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        session = ort.InferenceSession(built("half.onnx"), providers=providers)
        ort.InferenceSession(built("half.onnx"), providers=["CPUExecutionProvider"], provider_options=[{}])
        ort.InferenceSession(built("half.onnx"), providers="CPUExecutionProvider")
    assert [str(w.message) for w in seen] == [
        "CUDAExecutionProvider: not available; Kilter runs the session on CPUExecutionProvider"]
    assert seen[0].filename == __file__
    assert session.get_providers() == ["CPUExecutionProvider"]
    with pytest.warns(UserWarning, match="TensorrtExecutionProvider: not available"):
        session.set_providers(["TensorrtExecutionProvider"])


def test_wrong_providers():
    with pytest.raises(kilter.UsageError, match="providers: expected a list of names, got int"):
        ort.InferenceSession(built("half.onnx"), providers=3)
    with pytest.raises(kilter.UsageError, match="providers: expected a name or a tuple of name and dict, got 3"):
        ort.InferenceSession(built("half.onnx"), providers=[3])
    with pytest.raises(kilter.UsageError, match="provider_options: expected one dict for each of 1 providers, got"):
        ort.InferenceSession(built("half.onnx"), providers=["CPUExecutionProvider"], provider_options=[{}, {}])


def test_functions_of_the_module():
    assert ort.get_available_providers() == ort.get_all_providers() == ["CPUExecutionProvider"]
    assert ort.get_device() == reference.get_device() == "CPU"
    assert ort.__version__ == ort.get_version_string() and kilter.__version__ in ort.get_build_info()
    for call in (ort.set_default_logger_verbosity, ort.set_seed):
        assert call(1) is None
    assert ort.disable_telemetry_events() is ort.enable_telemetry_events() is None
    with pytest.raises(RuntimeError, match="set_default_logger_severity: 9; legal values are 0 .verbose."):
        ort.set_default_logger_severity(9)
    with pytest.raises(AttributeError, match="kilter.onnxruntime has no 'LoraAdapter': weights are packed"):
        ort.LoraAdapter
    with pytest.raises(AttributeError, match="kilter.onnxruntime has no 'training'; doc/onnxruntime.md lists"):
        ort.training


@pytest.mark.parametrize("name", ["GraphOptimizationLevel", "ExecutionMode", "ExecutionOrder"])
def test_enumerations(name):
    ours, theirs = getattr(ort, name), getattr(reference, name)
    assert {k: int(v) for k, v in ours.__members__.items()} == {k: int(v) for k, v in theirs.__members__.items()}
    for key in theirs.__members__:
        assert str(getattr(ours, key)) == str(getattr(theirs, key))
        assert repr(getattr(ours, key)) == repr(getattr(theirs, key))


def test_default_severity_decides_which_lines_are_logged(caplog):
    options = ort.SessionOptions()
    options.execution_mode = ort.ExecutionMode.ORT_PARALLEL
    with caplog.at_level(logging.DEBUG, "kilter.onnxruntime"):
        ort.InferenceSession(built("half.onnx"), options)
        assert not caplog.records
        ort.set_default_logger_severity(1)
        try:
            ort.InferenceSession(built("half.onnx"), options)
        finally:
            ort.set_default_logger_severity(2)
    assert "ORT_PARALLEL has no effect; nodes run one at a time, each on all threads" in caplog.text


def test_it_can_stand_in_for_onnxruntime_in_other_packages():
    """The lines of doc/onnxruntime.md for packages that import onnxruntime themselves."""
    code = """
import sys
import kilter.onnxruntime
for name, module in list(sys.modules.items()):
    if name.startswith("kilter.onnxruntime"):
        sys.modules[name.removeprefix("kilter.")] = module

import onnxruntime
from onnxruntime import InferenceSession
from onnxruntime.capi.onnxruntime_pybind11_state import InvalidArgument
from onnxruntime.capi import _pybind_state
assert InferenceSession is kilter.onnxruntime.InferenceSession is onnxruntime.InferenceSession
assert issubclass(InvalidArgument, kilter.Error) and _pybind_state.InvalidArgument is InvalidArgument
print("as one")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout == "as one\n", done.stderr
