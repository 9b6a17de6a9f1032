"""Networks built with kilter.graph, compared with NumPy and, saved as ONNX, with onnx.checker and ONNX Runtime."""
from __future__ import annotations

import numpy as np
import pytest

import kilter
from kilter.graph import NEWEST_OPSET, OLDEST_OPSET, Graph, Value

RANDOM = np.random.default_rng(7)
# ONNX Runtime supports opsets later than the standard defines them.
SHARED_OPSET = 21


def normal(*shape, scale=1.0):
    return (RANDOM.standard_normal(shape) * scale).astype(np.float32)


def agrees_with_onnxruntime(graph, feeds, rtol=1e-3, atol=1e-5):
    """Runs a graph with Kilter and, as ONNX, with ONNX Runtime; returns Kilter's outputs."""
    onnx = pytest.importorskip("onnx")
    onnxruntime = pytest.importorskip("onnxruntime")
    model = graph.to_onnx()
    onnx.checker.check_model(model, full_check=True)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    expected = session.run(None, feeds)
    outputs = kilter.compile(graph, threads=1).run(feeds)
    again = kilter.compile(model, threads=1).run(feeds)
    assert list(outputs) == [o.name for o in session.get_outputs()] == list(graph.outputs)
    for (name, value), want in zip(outputs.items(), expected):
        assert value.dtype == want.dtype and value.shape == want.shape, name
        np.testing.assert_allclose(value, want, rtol=rtol, atol=atol, err_msg=name)
        np.testing.assert_allclose(again[name], value, rtol=1e-5, atol=1e-6, err_msg=name)
    return outputs


# --- networks ---


def conv(g, x, channels, size=3, stride=1):
    """A convolution with batch normalisation."""
    w = g.constant(normal(channels, x.shape[1], size, size, scale=0.1))
    y = g.Conv(x, w, strides=[stride, stride], pads=[size // 2] * 4)
    scale, bias, mean = normal(channels), normal(channels), normal(channels)
    return g.BatchNormalization(y, scale, bias, mean, np.abs(normal(channels)) + 1, epsilon=1e-5)


def residual_block(g, x, channels, stride):
    y = conv(g, g.Relu(conv(g, x, channels, stride=stride)), channels)
    if stride != 1 or x.shape[1] != channels:
        x = conv(g, x, channels, size=1, stride=stride)
    return g.Relu(x + y)


def test_a_stack_of_residual_blocks():
    g = Graph("resnet", opset=SHARED_OPSET)
    y = g.input("image", "f32", (2, 3, 32, 32))
    y = g.MaxPool(g.Relu(conv(g, y, 8, 7, 2)), kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    for channels, stride in ((8, 1), (16, 2), (16, 1)):
        y = residual_block(g, y, channels, stride)
    pooled = g.Flatten(g.GlobalAveragePool(y))
    g.output(g.Softmax(pooled @ normal(16, 10) + normal(10), axis=1), "scores")
    scores = agrees_with_onnxruntime(g, {"image": normal(2, 3, 32, 32)})["scores"]
    np.testing.assert_allclose(scores.sum(1), [1, 1], rtol=1e-5)


def attention(g, x, heads):
    batch, length, width = x.shape
    split = [batch, length, heads, width // heads]
    q, k, v = (g.Transpose(g.Reshape(x @ normal(width, width, scale=0.1) + normal(width), split), perm=[0, 2, 1, 3])
               for _ in range(3))
    weights = g.Softmax(q @ g.Transpose(k, perm=[0, 1, 3, 2]) / float(width // heads) ** 0.5)
    return g.Reshape(g.Transpose(weights @ v, perm=[0, 2, 1, 3]),
                     [batch, length, width]) @ normal(width, width, scale=0.1)


def test_a_transformer_encoder_layer():
    g = Graph("encoder", opset=SHARED_OPSET)
    x = g.input("tokens", "f32", (2, 7, 16))
    y = g.LayerNormalization(x + attention(g, x, 4), normal(16), normal(16), axis=-1, epsilon=1e-5)
    hidden = g.Gelu(y @ normal(16, 64, scale=0.2) + normal(64), approximate="tanh")
    g.output(g.LayerNormalization(y + (hidden @ normal(64, 16, scale=0.2)), normal(16), normal(16), axis=-1), "encoded")
    agrees_with_onnxruntime(g, {"tokens": normal(2, 7, 16)})


def test_a_text_classifier_with_lstm():
    g = Graph("text", opset=SHARED_OPSET)
    ids = g.input("ids", "i64", (2, 9))
    words = g.Transpose(g.Gather(normal(50, 12), ids), perm=[1, 0, 2])
    hidden = 6
    sequence, last, cell = g.LSTM(words, normal(2, 4 * hidden, 12), normal(2, 4 * hidden, hidden), None, None,
                                  np.zeros((2, 2, hidden), np.float32), outputs=3, hidden_size=hidden,
                                  direction="bidirectional", name="lstm")
    assert [v.shape for v in (sequence, last, cell)] == [(9, 2, 2, 6), (2, 2, 6), (2, 2, 6)]
    features = g.Concat(last[0], last[1], axis=1)
    g.output(features @ normal(12, 3), "logits")
    g.output(cell)
    outputs = agrees_with_onnxruntime(g, {"ids": RANDOM.integers(0, 50, (2, 9))})
    assert outputs["logits"].shape == (2, 3)


# --- operators of values ---

OPERATORS = {
    "+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b, "/": lambda a, b: a / b,
    "**": lambda a, b: a ** b}


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.int64])
@pytest.mark.parametrize("sign", OPERATORS)
def test_operators_do_what_numpy_does(sign, dtype):
    f = OPERATORS[sign]
    a, b = np.array([[4, 6, 9]], dtype), np.array([[2], [3]], dtype)
    g = Graph()
    x, y = g.input("x", dtype, a.shape), g.input("y", dtype, b.shape)
    for name, value in dict(values=f(x, y), array=f(x, b), reflected=f(a, y), number=f(x, 2), before=f(2, x)).items():
        assert value.dtype == x.dtype
        g.output(value, name)
    got = kilter.compile(g).run([a, b])
    with np.errstate(all="ignore"):
        want = dict(values=f(a, b), array=f(a, b), reflected=f(a, b), number=f(a, dtype(2)), before=f(dtype(2), a))
    for name, value in want.items():  # Div of integers drops the fraction
        np.testing.assert_allclose(got[name], value.astype(dtype), rtol=1e-5, err_msg=name)


def test_matrix_product_and_negation():
    g = Graph()
    x = g.input("x", "f32", (2, 3))
    left, right = normal(4, 2), normal(3, 5)
    g.output(-(left @ x @ right), "y")
    feed = normal(2, 3)
    np.testing.assert_allclose(kilter.compile(g)(feed), -(left @ feed @ right), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtype, number, text", [
    ("i32", 1.5, "1.5: expected a whole number beside a value of i32"),
    ("u8", 256, "256 is not a number of u8"),
    ("i8", -129, "-129 is not a number of i8")])
def test_numbers_that_a_type_does_not_have(dtype, number, text):
    x = Graph().input("x", dtype, (2,))
    with pytest.raises(kilter.UsageError) as raised:
        x + number
    assert str(raised.value) == text


@pytest.mark.parametrize("dtype", ["f16", "bf16", "f32", "f64"])
def test_numbers_take_the_type_of_the_other_side(dtype):
    g = Graph()
    x = g.input("x", dtype, (2,))
    y = (1 + x * 2.5 - 1) / 2
    assert y.dtype == dtype
    g.output(g.Cast(y, to="f32"), "y")
    np.testing.assert_allclose(kilter.compile(g)(g_array([2, 4], dtype)), [2.5, 5], rtol=1e-2)


def g_array(values, dtype):
    if dtype == "bf16":
        return np.array(values, pytest.importorskip("ml_dtypes").bfloat16)
    return np.array(values, {"f16": np.float16, "f32": np.float32, "f64": np.float64}[dtype])


INDICES = [np.s_[1], np.s_[-1], np.s_[0, 2], np.s_[1:], np.s_[:, ::2], np.s_[..., 1:3], np.s_[::-1], np.s_[:, -2:0:-1],
           np.s_[None], np.s_[:, None, 1], np.s_[..., None], np.s_[1, ..., None, 3], np.s_[5:],
           np.s_[None, 0, None, :, 1, None],
           np.s_[:], np.s_[...], np.s_[()], np.s_[2:1], np.s_[0, 1, 2], np.s_[:, :, -100:100:3], np.s_[np.int64(1)]]


@pytest.mark.parametrize("index", INDICES, ids=repr)
@pytest.mark.parametrize("opset", [NEWEST_OPSET, 12])
def test_indexing_is_that_of_numpy(index, opset):
    array = np.arange(2 * 3 * 4, dtype=np.float32).reshape(2, 3, 4)
    g = Graph("index", opset)
    part = g.input("x", "f32", array.shape)[index]
    assert part.shape == array[index].shape
    g.output(g.Identity(part), "y")
    np.testing.assert_array_equal(kilter.compile(g)(array), array[index])


@pytest.mark.parametrize("index, text", [
    (np.s_[2], "index 2 is out of range for dimension 0 of 2; legal values are -2 to 1"),
    (np.s_[0, -5], "index -5 is out of range for dimension 1 of 4; legal values are -4 to 3"),
    (np.s_[0, 0, 0], "3 indices are given for 2 dimensions"),
    (np.s_[..., 0, ...], "an index has at most one '...'"),
    (np.s_[1.5], "index 1.5; expected integers, slices, ... and None; g.Gather and g.Where take values"),
    (np.s_[True], "index True; expected integers, slices, ... and None; g.Gather and g.Where take values"),
    ([0, 1], "index [0, 1]; expected integers, slices, ... and None; g.Gather and g.Where take values")])
def test_indices_that_are_refused(index, text):
    x = Graph().input("x", "f32", (2, 4))
    with pytest.raises(kilter.UsageError) as raised:
        x[index]
    assert str(raised.value) == f"%x: f32[2,4]: {text}"


def test_a_value_is_no_sequence():
    g = Graph()
    with pytest.raises(TypeError, match="'Value' object is not iterable"):
        first, second = g.Split(g.input("x", "f32", (4,)), num_outputs=2, outputs=1)


def test_indices_need_slice_with_inputs():
    x = Graph("old", 9).input("x", "f32", (4,))
    with pytest.raises(kilter.UnsupportedError) as raised:
        x[1:]
    assert str(raised.value) == "%x: f32[4]: indices need opset 10 or later; the graph has opset 9"


# --- attributes, inputs, constants ---


def test_attributes_of_every_kind():
    g = Graph("kinds", SHARED_OPSET)
    x = g.input("x", "f32", (1, 2, 4, 4))
    g.output(g.LeakyRelu(x, alpha=0.25), "float")
    g.output(g.LeakyRelu(x, alpha=np.float32(0.5)), "numpy_float")
    g.output(g.Softmax(x, axis=np.int64(1)), "int")
    g.output(g.Cast(x, to=np.float64), "type")
    g.output(g.Resize(x, None, [1.0, 1.0, 2.0, 2.0], mode="nearest"), "text")
    g.output(g.AveragePool(x, kernel_shape=(2, np.int32(2)), count_include_pad=True, pads=None), "ints")
    g.output(g.Constant(value=np.arange(3, dtype=np.int32)), "tensor")
    g.output(g.Constant(value_floats=[1.0, 2]), "floats")
    g.output(g.ArgMax(x, axis=-1, keepdims=False), "flag")
    out = agrees_with_onnxruntime(g, {"x": normal(1, 2, 4, 4)})
    assert out["type"].dtype == np.float64 and out["text"].shape == (1, 2, 8, 8) and out["flag"].shape == (1, 2, 4)
    np.testing.assert_array_equal(out["floats"], [1, 2])


def test_whole_numbers_serve_as_floats():
    g = Graph("whole", SHARED_OPSET)
    x = g.input("x", "f32", (2,))
    g.output(g.LeakyRelu(x, alpha=2), "float")
    g.output(g.Constant(value_floats=[1, 2]), "floats")
    out = agrees_with_onnxruntime(g, {"x": np.array([-1, 3], np.float32)})
    np.testing.assert_array_equal(out["float"], [-2, 3])
    np.testing.assert_array_equal(out["floats"], np.array([1, 2], np.float32))


@pytest.mark.parametrize("dtype", ["f16", "float16", np.float16, np.dtype(np.float16), 10])
def test_names_of_element_types_in_attributes(dtype):
    g = Graph()
    assert g.Cast(g.input("x", "f32", (2,)), to=dtype).dtype == "f16"


@pytest.mark.parametrize("dtype, name", [(np.float32, "f32"), ("float32", "f32"), (np.dtype("int8"), "i8"),
                                         (bool, "bool"),
                                         ("u64", "u64"), (np.bool_, "bool"), ("bfloat16", "bf16"), (int, "i64"),
                                         ("float8_e5m2", "f8e5m2"), ("u2", "u2")])
def test_types_of_inputs(dtype, name):
    assert Graph().input("x", dtype, ()).dtype == name


def test_optional_inputs_and_several_outputs():
    g = Graph("optional", SHARED_OPSET)
    x = g.input("x", "f32", (2, 5))
    g.output(g.Clip(x, None, np.float32(0.5)), "clipped")
    values, places = g.TopK(x, [2], outputs=2)
    g.output(values, "values")
    g.output(places)
    out = agrees_with_onnxruntime(g, {"x": normal(2, 5)})
    assert list(out) == ["clipped", "values", places.name]
    assert out["clipped"].max() <= 0.5


def test_constants_share_memory():
    weights = normal(64, 64)
    g = Graph()
    constant = g.constant(weights, "weights")
    assert np.shares_memory(constant.numpy(), weights)
    transposed = g.constant(weights.T)  # not dense: a copy
    assert not np.shares_memory(transposed.numpy(), weights)
    np.testing.assert_array_equal(transposed.numpy(), weights.T)
    x = g.input("x", "f32", (1, 64))
    assert x.numpy() is None
    g.output(x @ constant, "y")
    feed = normal(1, 64)
    del constant, transposed
    net = kilter.compile(g)
    expected = feed @ weights
    del weights, g
    np.testing.assert_allclose(net(feed), expected, rtol=1e-3, atol=1e-4)


def test_constants_of_python_numbers():
    g = Graph()
    made = [g.constant(v) for v in (1, 1.5, True, [1, 2], [1, 2.5], [[True], [False]], [])]
    assert [(c.dtype, c.shape) for c in made] == [
        ("i64", ()), ("f32", ()), ("bool", ()), ("i64", (2,)), ("f32", (2,)), ("bool", (2, 1)), ("f32", (0,))]


def test_small_constants_are_computed_at_once():
    g = Graph()
    total = g.Add(g.constant([1, 2]), [3, 4])
    np.testing.assert_array_equal(total.numpy(), [4, 6])


# --- names, texts, saving ---


def test_names_and_texts():
    g = Graph("small")
    x = g.input("x", "f32", (1, 4))
    y = g.Relu(x, name="act")
    z = g.Relu(y, name="act")
    g.output(z, "out")
    assert (x.name, y.name, z.name, z.rank) == ("x", "act", "act_1", 2)
    assert repr(y) == "%act: f32[1,4]"
    assert repr(g) == "<kilter.graph.Graph 'small': (x: f32[1,4]) -> (out: f32[1,4])>"
    assert str(g) == ('graph "small" {\n  input %x: f32[1,4]\n  %act: f32[1,4] = Relu@28 "act"(%x)\n'
                      '  %act_1: f32[1,4] = Relu@28 "act_1"(%act)\n  output "out" %act_1\n}\n')
    assert list(g.inputs) == ["x"] and g.outputs == {"out": z} and isinstance(z, Value)
    assert g.Relu.__name__ == "Relu" and "op()" in g.Relu.__doc__


def test_operators_that_fail_leave_nothing_in_the_file():
    onnx = pytest.importorskip("onnx")
    g = Graph("clean")
    x = g.input("x", "f32", (1, 4))
    with pytest.raises(kilter.ModelError):
        g.MatMul(x, normal(3, 3))
    g.constant(normal(2))
    g.output(g.Relu(x), "y")
    model = g.to_onnx()
    assert len(model.graph.initializer) == 0 and len(model.graph.node) == 1
    onnx.checker.check_model(model)


@pytest.mark.parametrize("opset", [OLDEST_OPSET, 13, SHARED_OPSET, NEWEST_OPSET])
def test_round_trip_through_a_file(tmp_path, opset):
    g = Graph("saved", opset)
    x = g.input("x", "f32", (3, 4))
    g.output(g.Relu(g.MatMul(x, normal(4, 2))), "y")
    path = tmp_path / "saved.onnx"
    g.save(path)
    assert path.read_bytes() == g.to_onnx_bytes()
    feed = normal(3, 4)
    net = kilter.compile(path)
    assert net.name == str(path) and [p.name for p in net.outputs] == ["y"]
    np.testing.assert_array_equal(net(feed), kilter.compile(g)(feed))
    with pytest.raises(kilter.UnsupportedError, match=f"opset {NEWEST_OPSET + 1} of ai.onnx; Kilter reads "
                                                      f"1 to {NEWEST_OPSET}"):
        model = g.to_onnx()
        model.opset_import[0].version = NEWEST_OPSET + 1
        kilter.compile(model)


def test_weights_beyond_a_gibibyte_go_to_a_second_file(tmp_path):
    g = Graph("large")
    x = g.input("x", "f32", (1, 1 << 14))
    g.output(x @ np.zeros((1 << 14, (1 << 14) + 64), np.float32), "y")
    with pytest.raises(kilter.UnsupportedError) as raised:
        g.to_onnx_bytes()
    assert str(raised.value) == ("graph 'large': its weights exceed 1 GiB, so they do not fit into the bytes of one "
                                 "model; use save(), which writes a second file")


def test_a_graph_can_grow_after_compilation():
    g = Graph()
    x = g.input("x", "f32", (2,))
    g.output(x + 1, "y")
    first = kilter.compile(g)
    g.output(x * 2, "z")
    second = kilter.compile(g)
    feed = np.array([1, 2], np.float32)
    np.testing.assert_array_equal(first(feed), [2, 3])
    np.testing.assert_array_equal(second(feed)[1], [2, 4])


OTHER = Graph("other")


@pytest.mark.parametrize("call, error, text", [
    (lambda g, x: g.input("x", "f32", (1,)), "UsageError", "graph 'g': input 'x': the graph has a value of this name"),
    (lambda g, x: g.input("", "f32", (1,)), "UsageError", "graph 'g': input: the name is empty"),
    (lambda g, x: g.input("y", "f128", (1,)), "UsageError",
     "element type 'f128': legal values are f32, f64, f16, bf16, i8, i16, i32, i64, u8, u16, u32, u64, bool, "
     "f8e4m3fn, f8e4m3fnuz, f8e5m2, f8e5m2fnuz, f8e8m0, f4e2m1, i4, u4, i2, u2, and NumPy's types of that kind"),
    (lambda g, x: g.input("y", None, (1,)), "UsageError",
     "element type None: legal values are f32, f64, f16, bf16, i8, i16, i32, i64, u8, u16, u32, u64, bool, "
     "f8e4m3fn, f8e4m3fnuz, f8e5m2, f8e5m2fnuz, f8e8m0, f4e2m1, i4, u4, i2, u2, and NumPy's types of that kind"),
    (lambda g, x: g.input("y", "f32", ("n", 3)), "UsageError",
     "graph 'g': input 'y': dimension 'n'; dimensions are integers of 0 or more, since shapes are static"),
    (lambda g, x: g.input("y", "f32", (1, -1)), "UsageError",
     "graph 'g': input 'y': dimension -1; dimensions are integers of 0 or more, since shapes are static"),
    (lambda g, x: g.Relu(), "ModelError", "Relu 'Relu': has 0 inputs, expected 1"),
    (lambda g, x: g.Rlu(x), "UnsupportedError", "Rlu 'Rlu': unknown operator Rlu of domain ai.onnx at opset 28"),
    (lambda g, x: g.relu(x), "AttributeError", "Graph has no attribute 'relu'; operators begin with a capital letter"),
    (lambda g, x: g.MatMul(x, np.ones((3, 3), np.float32)), "ModelError",
     "MatMul 'MatMul': operands 1x4 and 3x3 cannot be multiplied: expected [..., m, k] and [..., k, n] with leading "
     "dimensions that broadcast"),
    (lambda g, x: g.MatMul(x, np.ones((4, 3))), "ModelError",
     "MatMul 'MatMul': input 1 has element type f64, expected f32 to match input 0"),
    (lambda g, x: g.Relu(x, slope=3), "ModelError", "Relu 'Relu': unknown attribute 'slope'; the operator has none"),
    (lambda g, x: g.Softmax(x, axis=5), "ModelError",
     "Softmax 'Softmax': axis 5 is out of range for rank 2; legal values are -2 to 1"),
    (lambda g, x: g.Softmax(x, axis=1.5), "ModelError", "Softmax 'Softmax': attribute 'axis' has type float, expected "
                                                        "int"),
    (lambda g, x: g.Softmax(x, axis=2**70), "UsageError",
     "Softmax: attribute 'axis': 1180591620717411303424 is not a 64-bit number"),
    (lambda g, x: g.Softmax(x, axis={}), "UsageError",
     "Softmax: attribute 'axis': expected an int, a float, a str, a list of one of them, or an array, got {}"),
    (lambda g, x: g.Softmax(x, axis=[1, "a"]), "UsageError",
     "Softmax: attribute 'axis': expected an int, a float, a str, a list of one of them, or an array, got [1, 'a']"),
    (lambda g, x: g.Cast(x, to="f128"), "UsageError",
     "element type 'f128': legal values are f32, f64, f16, bf16, i8, i16, i32, i64, u8, u16, u32, u64, bool, "
     "f8e4m3fn, f8e4m3fnuz, f8e5m2, f8e5m2fnuz, f8e8m0, f4e2m1, i4, u4, i2, u2, and NumPy's types of that kind"),
    (lambda g, x: g.Split(x, outputs=0), "UsageError", "Split: outputs=0; expected 1 or more"),
    (lambda g, x: g.Reshape(x, g.input("to", "i64", (2,))),
     "UnsupportedError", "Reshape 'Reshape': its shape depends on data"),
    (lambda g, x: g.constant("a"), "InputError",
     "constant 'const': expected an array on the CPU, such as a numpy.ndarray or a torch.Tensor, got str; "
     "numpy.asarray(value, dtype) makes one"),
    (lambda g, x: g.Relu(OTHER.input(f"x{len(OTHER.inputs)}", "f32", (1,))), "UsageError",
     "%x0: f32[1] belongs to another graph: 'other', not 'g'"),
    (lambda g, x: [g.output(x, "y"), g.output(x, "y")], "UsageError",
     "graph 'g': output 'y': the graph has an output of this name"),
    (lambda g, x: kilter.compile(g), "UsageError", "graph 'g' has no output; output(value, name) adds one"),
    (lambda g, x: g.save("x.onnx"), "UsageError", "graph 'g' has no output; output(value, name) adds one"),
    (lambda g, x: Graph("g", 99), "UsageError", f"Graph: opset 99; legal values are {OLDEST_OPSET} to {NEWEST_OPSET}"),
    (lambda g, x: g.Relu(x, opset=3), "UsageError",
     f"Relu: opset 3; legal values are {OLDEST_OPSET} to {NEWEST_OPSET}"),
    (lambda g, x: [g.output(x), g.save("/no/such/folder/x.onnx")], "FileError",
     "cannot write file '/no/such/folder/x.onnx': No such file or directory"),
])
def test_errors(call, error, text):
    g = Graph("g")
    with pytest.raises(getattr(kilter, error, AttributeError)) as raised:
        call(g, g.input("x", "f32", (1, 4)))
    assert str(raised.value) == text
