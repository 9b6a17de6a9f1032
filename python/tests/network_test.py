"""Networks: arrays in and out, errors, pickling and compiled files."""
from __future__ import annotations

import array
import copy
import gc
import os
import pickle

import numpy as np
import pytest

import kilter
from kilter._arguments import with_arguments
from kilter.graph import Graph
from small_networks import Tensor, identity, model_bytes, product, raised_text

NATIVE = ["float32", "float64", "float16", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
          "bool"]
A = np.arange(6, dtype=np.float32).reshape(2, 3)


def two_outputs(threads=1):
    g = Graph("two")
    x = g.input("x", "f32", (2,))
    g.output(x + 1, "a")
    g.output(x * 2, "b")
    return kilter.compile(g, threads=threads)


NO_ARRAY = "input 'x': expected an array on the CPU, such as a numpy.ndarray or a torch.Tensor, got "
MAKES_ONE = "; numpy.asarray(value, dtype) makes one"


# --- arrays in ---


@pytest.mark.parametrize("dtype", NATIVE)
def test_element_types(dtype):
    values = np.array([[0, 1, 100], [3, 127, 1]]).astype(dtype)
    out = identity(dtype)(values)
    assert out.dtype == values.dtype
    np.testing.assert_array_equal(out, values)


def test_bfloat16_is_that_of_ml_dtypes():
    ml_dtypes = pytest.importorskip("ml_dtypes")
    values = np.array([[1.5, -2, 3], [4, 5, 0]], ml_dtypes.bfloat16)
    for given in (values, values[::-1], np.asfortranarray(values)):
        out = identity("bf16")(given)
        assert out.dtype == ml_dtypes.bfloat16
        np.testing.assert_array_equal(out, given)
    memory = np.zeros_like(values)
    assert identity("bf16")(values, out=memory) is memory
    np.testing.assert_array_equal(memory, values)


WIDE = np.arange(48, dtype=np.float32).reshape(4, 12)


@pytest.mark.parametrize("view", [
    A[::-1], A[:, ::-1], np.asfortranarray(A), A.reshape(3, 2).T, WIDE[:2, :3], WIDE[::2, ::4], WIDE[3:1:-1, 9::-4],
    np.broadcast_to(np.float32(7), (2, 3)), np.broadcast_to(A[0], (2, 3))])
def test_strides(view):
    np.testing.assert_array_equal(identity()(view), view)


def test_memory_of_any_alignment():
    raw = np.zeros(A.nbytes + 1, np.uint8)
    raw[1:] = np.frombuffer(A.tobytes(), np.uint8)
    shifted = raw[1:].view(np.float32).reshape(A.shape)
    assert not shifted.flags.aligned
    np.testing.assert_array_equal(identity()(shifted), A)


def test_read_only_arrays_are_read():
    fixed = A.copy()
    fixed.flags.writeable = False
    np.testing.assert_array_equal(identity()(fixed), A)


def test_scalars_and_empty_arrays():
    assert identity("f32", ())(np.array(3, np.float32)) == 3
    assert identity("f32", ())(np.float32(4)).shape == ()
    assert identity("f32", (0, 3))(np.zeros((0, 3), np.float32)).shape == (0, 3)
    assert identity("f32", (0, 3))(np.zeros((0, 6), np.float32)[:, ::2]).shape == (0, 3)


def test_more_dimensions_than_most():
    cube = np.arange(2**10, dtype=np.float32).reshape((2,) * 10)
    np.testing.assert_array_equal(identity("f32", cube.shape)(cube), cube)


def test_objects_with_the_buffer_protocol():
    np.testing.assert_array_equal(identity()(memoryview(A)), A)
    np.testing.assert_array_equal(identity("u8", (3,))(b"abc"), [97, 98, 99])
    np.testing.assert_array_equal(identity("u8", (3,))(bytearray(b"abc")), [97, 98, 99])
    np.testing.assert_array_equal(identity("f64", (2,))(array.array("d", [1, 2])), [1, 2])


@pytest.mark.parametrize("new", [True, False])
def test_objects_with_dlpack(new):
    np.testing.assert_array_equal(identity()(Tensor(A, new)), A)
    np.testing.assert_array_equal(identity()(Tensor(A.reshape(3, 2).T, new)), A.reshape(3, 2).T)


def test_torch_both_ways():
    torch = pytest.importorskip("torch")
    tensor = torch.from_numpy(A.copy())
    np.testing.assert_array_equal(identity()(tensor), A)
    np.testing.assert_array_equal(identity()(tensor.t().contiguous().t()), A)
    memory = torch.zeros(2, 3)
    assert identity()(tensor, out=memory) is memory
    assert torch.equal(memory, tensor)
    assert torch.equal(torch.from_dlpack(identity()(tensor)), tensor)
    with pytest.raises(kilter.InputError, match="its __dlpack__ raises .*grad"):
        identity()(tensor.requires_grad_())


def test_results_are_shared_without_a_copy():
    out = identity()(A)
    assert np.shares_memory(np.from_dlpack(out), out)
    assert out.flags.writeable and out.ctypes.data % 64 == 0


def test_results_outlive_the_network_and_later_runs():
    net = identity()
    first = net(A)
    second = net(A + 1)
    assert not np.shares_memory(first, second)
    address = second.ctypes.data
    del second
    assert net(A + 2).ctypes.data == address  # memory that nobody refers to is used again
    del net
    gc.collect()
    np.testing.assert_array_equal(first, A)


@pytest.mark.parametrize("call, text", [
    (lambda n: n(A.astype(np.float64)), "id: input 'x' must be f32[2,3], got f64"),
    (lambda n: n(A[:1]), "id: input 'x' must have shape 2x3, got 1x3"),
    (lambda n: n(A[0]), "id: input 'x' must have shape 2x3, got 3"),
    (lambda n: n([[1, 2, 3], [4, 5, 6]]), NO_ARRAY + "list" + MAKES_ONE),
    (lambda n: n("text"), NO_ARRAY + "str" + MAKES_ONE),
    (lambda n: n(None), NO_ARRAY + "NoneType" + MAKES_ONE),
    (lambda n: n(2.5), NO_ARRAY + "float" + MAKES_ONE),
    (lambda n: n(A.astype(np.complex64)), "input 'x': complex elements of 64 bits are not supported; legal values are "
                                          "f32, f64, f16, bf16, i8, i16, i32, i64, u8, u16, u32, u64, bool"),
    (lambda n: n(A, A), "id: 2 inputs are given; expected x: f32[2,3]"),
    (lambda n: n(A, x=A), "id: input 'x' is given twice, by position and by name"),
    (lambda n: n(x=A, z=A), "id: no input 'z'; legal values are x"),
    (lambda n: n.run([A, A]), "id: 2 inputs are given; expected x: f32[2,3]"),
    (lambda n: n.run(A), "id: feeds: expected a mapping from names, or a list of arrays, got ndarray"),
    (lambda n: n.run({1: A}), "input 1: its name is not a string"),
    (lambda n: n.timer(A, A), "id: 2 inputs are given; expected x: f32[2,3]"),
])
def test_inputs_that_are_refused(call, text):
    assert raised_text(lambda: call(identity())) == text


def test_a_missing_input_is_named():
    assert raised_text(lambda: identity()()).startswith("id: input 'x' (f32[2,3]) is missing")


@pytest.mark.parametrize("values, "
                         "dtype", [(np.zeros((2, 3), "M8[s]"), "datetime64[s]"),
                                  (np.zeros((2, 3), [("a", "f4")]), "[('a', '<f4')]"), (A.astype(">f4"), ">f4"),
                                  (A.astype(">f8"), ">f8")])
def test_element_types_that_are_refused(values, dtype):
    assert raised_text(lambda: identity()(values)).startswith(NO_ARRAY + f"ndarray of {dtype}")


def test_strings_and_objects_are_no_numbers():
    assert raised_text(lambda: identity()(np.full((2, 3), "a"))) == "id: input 'x' must be f32[2,3], got str"
    assert raised_text(lambda: identity()(np.zeros((2, 3), object))) == (
        "input 'x': element 0 has type int; arrays of objects contain str or bytes, numpy.asarray(value, dtype) makes "
        "one of numbers")


def test_an_exception_of_dlpack_is_told():
    class Stubborn(Tensor):
        def __dlpack__(self, **how):
            raise BufferError("not today")

    assert raised_text(lambda: identity()(Stubborn(A))).endswith("; its __dlpack__ raises BufferError: not today")


# --- memory for outputs ---


def test_outputs_are_written_to_memory_that_is_given():
    net, memory = two_outputs(), np.empty(2, np.float32)
    x = np.array([1, 2], np.float32)
    a, b = net(x, out={"b": memory})
    assert b is memory
    np.testing.assert_array_equal(a, [2, 3])
    np.testing.assert_array_equal(memory, [2, 4])
    assert net.run([x], out={"a": memory})["a"] is memory
    single = np.zeros((2, 3), np.float32)
    assert identity()(A, out=single) is single
    np.testing.assert_array_equal(single, A)


FIXED = np.zeros((2, 3), np.float32)
FIXED.flags.writeable = False


@pytest.mark.parametrize("out, text", [
    (FIXED, "memory for output 'y': the array is read-only"),
    (np.empty((3, 2), np.float32).T, "memory for output 'y': the array is not contiguous, so nothing can be written "
                                     "to it"),
    (np.empty((2, 6), np.float32)[:, ::2],
     "memory for output 'y': the array is not contiguous, so nothing can be written to it"),
    (np.empty((2, 3)), "memory for output 'y' must be f32[2x3], got f64[2x3]"),
    (np.empty((3, 3), np.float32), "memory for output 'y' must be f32[2x3], got f32[3x3]"),
    ({"q": np.empty((2, 3), np.float32)}, "memory for output 'q': there is no such output; legal values are y"),
    ([A], "memory for output 'y': expected an array on the CPU, such as a numpy.ndarray or a torch.Tensor, got "
          "list" + MAKES_ONE),
    ({1: np.empty((2, 3), np.float32)}, "memory for output 1: its name is not a string"),
])
def test_memory_that_is_refused(out, text):
    assert raised_text(lambda: identity()(A, out=out)) == text


def test_one_array_for_two_outputs_is_refused():
    assert raised_text(lambda: two_outputs()(np.zeros(2, np.float32), out=np.zeros(2, np.float32))) == (
        "two: out: one array is given for 2 outputs; expected a mapping with names among a, b")


def test_overlapping_memory_is_refused():
    memory = np.zeros(6, np.float32)
    for x, out in ((memory[:2], memory[:2]), (memory[:2], memory[1:3])):
        assert raised_text(lambda: two_outputs()(x, out={"a": out})) == (
            "memory for output 'a' overlaps input 'x'; give it memory of its own")
    assert raised_text(lambda: two_outputs()(np.zeros(2, np.float32), out={"a": memory[:2], "b": memory[1:3]})) == (
        "memory for output 'b' overlaps that for output 'a'; give it memory of its own")
    two_outputs()(memory[:2], out={"a": memory[2:4], "b": memory[4:]})  # neighbours
    np.testing.assert_array_equal(memory, [0, 0, 1, 1, 0, 0])


# --- compiling ---


def test_ports_and_texts():
    net = kilter.compile(model_bytes())
    assert net.inputs[0] == ("x", "f32", ("n", 3), "tensor") and net.outputs[0].shape == ("n", 3)
    assert repr(net) == "<kilter.Network 'model': (x: f32[n,3]) -> (y: f32[n,3])>"
    assert net(A).shape == (2, 3) and net(A[:1]).shape == (1, 3)
    assert net.name == "model" and net.note == ""
    facts = kilter.compile(model_bytes(), shapes={"x": (5, 3)}).conditions()
    assert set(facts) == {"target", "precision", "threads", "steps", "arena_bytes", "constants_bytes", "compile_ms", "records"}
    assert "Relu" in kilter.compile(model_bytes(2)).inspect()


def test_declared_shapes_are_compiled_once():
    net, doing = kilter.compile(model_bytes(2)), []
    net.conditions()
    net._net.run({"x": A}, None, doing.append)
    assert doing == []


@pytest.mark.parametrize("make, error, text", [
    (lambda: kilter.compile(3), kilter.UsageError,
     "model: expected a path, 'zoo:NAME', the bytes of a model, an onnx.ModelProto or a kilter.graph.Graph, got int"),
    (lambda: kilter.compile("none.onnx"), kilter.FileError, "cannot read file 'none.onnx': No such file or directory"),
    (lambda: kilter.compile(b"garbage"), kilter.ModelError,
     "model: not a valid ONNX protobuf: this is a text, not an ONNX file; expected a binary ONNX model"),
    (lambda: kilter.compile(b""), kilter.ModelError,
     "model: not a valid ONNX protobuf: 0 bytes without an IR version; expected a binary ONNX model: the file is "
     "empty, "
     "truncated or in another format"),
    (lambda: kilter.compile(model_bytes(), colour="red"), kilter.UsageError,
     "unknown option 'colour'; `kilter run --help-all` lists the options"),
    (lambda: kilter.compile(model_bytes(), threads=0), kilter.UsageError,
     "threads: Value 0 not in range 1 to 1024; `kilter run --help` lists the legal values"),
    (lambda: kilter.compile(model_bytes(), shapes=[(2, 3)]), kilter.UsageError,
     "shapes: expected a mapping from names of inputs to shapes, or a text such as 'x=1x3x{320..960:32}', got list"),
    (lambda: kilter.compile(model_bytes(), shapes={"x": ("n", 3)}), kilter.UsageError,
     "shapes: dimension 0 of input 'x' is {n}, but no dimension of this name has sizes; give them once, as in "
     "{n=1..512}"),
    (lambda: kilter.compile(model_bytes(), shapes={"q": (2, 3)}).conditions(), kilter.InputError,
     "model: the model has no input 'q'; its inputs are: 'x' f32[n,3]"),
    (lambda: kilter.compile(model_bytes(), shapes={"x": (2, 4)}).conditions(), kilter.InputError,
     "model: input 'x': declared f32[n,3], given 2x4: dimension 1 is 3 in the model, got 4"),
    (lambda: identity().with_options(input={"x": (9, 9)}),
     kilter.InputError, "shapes={'x': (9, 9)}: id has input 'x' of shape 2x3"),
    (lambda: kilter.compile(model_bytes()).save("never.kilter"), kilter.InputError,
     "model: input 'x' f32[n,3]: no size for dimension 0 ('n'); give the shape, e.g. `shapes={'x': (1, 3)}`"),
    (lambda: kilter.compile(model_bytes()).profile(), kilter.InputError,
     "model: input 'x' f32[n,3]: no size for dimension 0 ('n'); give the shape, e.g. `shapes={'x': (1, 3)}`"),
    (lambda: kilter.command("run", "zoo:resnet18", "--input", "x=1x3x64x64"), kilter.InputError,
     "--input x=1x3x64x64: zoo:resnet18 has input 'input' of shape 1x3x64x64"),
    (lambda: identity().pool(0), kilter.UsageError, "pool: size 0; expected 1 or more"),
])
def test_misuse(make, error, text):
    assert raised_text(make, error) == text


@pytest.mark.parametrize("message, words", [
    ("give `--input ids=1x128 --input 'mask of it=1x128x7' --input '$(x)=scalar'`",
     "give `shapes={'ids': (1, 128), 'mask of it': (1, 128, 7), '$(x)': ()}`"),
    ("give their values, `--input shape=FILE.npy`", "give their values, `input={'shape': 'FILE.npy'}`"),
    ("give one shape with --input, and --keep-float a: a--b --", "give one shape with shapes, and keep_float a: a--b --"),
    ("run `kilter tune M --records x`, or `--records x`", "run `kilter tune M --records x`, or `records x`"),
    ("--input 'it'\\''s=1x2' x, --input s=1 --input s=2, --input \"",
     "shapes={\"it's\": (1, 2)} x, shapes s=1 shapes s=2, shapes \""),
])
def test_messages_name_arguments_in_place_of_options(message, words):
    assert with_arguments(message) == words


def test_measurements_use_the_shapes_of_the_last_run():
    net = kilter.compile(model_bytes(), threads=1)
    for rows in (5, 2):
        net(np.zeros((rows, 3), np.float32))
        assert f"f32[{rows},3]" in next(row["shapes"] for row in net.profile(seconds=0.05) if row["shapes"])
    assert "f32[4,3]" in next(row["shapes"] for row in net.profile(seconds=0.05, input={"x": (4, 3)}) if row["shapes"])
    again = net.with_options(accuracy="default").profile(seconds=0.05)
    assert "f32[2,3]" in next(row["shapes"] for row in again if row["shapes"])


def test_exceptions_are_pythons_own_kinds_too():
    for error, base in ((kilter.UsageError, ValueError), (kilter.ModelError, ValueError),
                        (kilter.InputError, ValueError),
                        (kilter.UnsupportedError, NotImplementedError), (kilter.FileError, OSError),
                        (kilter.OutOfMemoryError, MemoryError), (kilter.InternalError, RuntimeError)):
        assert issubclass(error, base) and issubclass(error, kilter.Error)


def test_progress_is_told_and_its_exceptions_end_the_compilation():
    doing = []
    net = kilter.compile(model_bytes(2))
    net.conditions(doing.append)
    assert doing[0] == "read the model" and len(doing) > 2

    def refuse(text):
        raise KeyError(text)

    other = kilter.compile(model_bytes(2))
    with pytest.raises(KeyError, match="read the model"):
        other.conditions(refuse)
    np.testing.assert_array_equal(other(A), A)


def test_plan_cache_limits_the_plans_that_are_kept():
    def compiles(net, rows):
        told = []
        net._net.run({"x": np.zeros((rows, 3), np.float32)}, None, told.append)
        return bool(told)

    usual, least = kilter.compile(model_bytes(), threads=1), kilter.compile(model_bytes(), threads=1, plan_cache="1B")
    assert [compiles(usual, rows) for rows in (2, 3, 2, 3)] == [True, True, False, False]
    assert [compiles(least, rows) for rows in (2, 3, 3, 2)] == [True, True, False, True]
    assert raised_text(lambda: kilter.compile(model_bytes(), plan_cache="much"), kilter.UsageError) == (
        "plan_cache much: expected a size of at least 1 byte in B, kB, MB, GB, KiB, MiB or GiB, such as 1.5GiB")


def test_a_call_from_inside_a_call_is_refused():
    net = kilter.compile(model_bytes(2))
    assert raised_text(lambda: net.conditions(lambda _: net(A)), kilter.UsageError) == (
        "model: the network is in use by the call that made this one")


# --- compiled files ---


def test_a_file_for_several_targets(tmp_path):
    net = kilter.compile("zoo:squeezenet1_1", shapes={"input": (1, 3, 32, 32)}, threads=1)
    x = np.random.default_rng(0).standard_normal((1, 3, 32, 32), np.float32)
    net.save(tmp_path / "net.kilter", targets=["native", "neoverse-n2", "a64fx"])
    assert np.array_equal(kilter.load(tmp_path / "net.kilter", threads=1)(x), net(x))
    assert "neoverse-n2" in kilter.load(tmp_path / "net.kilter").inspect()
    assert raised_text(lambda: net.save(tmp_path / "net.kilter", targets=["znver4", "znver4"]),
                       kilter.UsageError) == "target znver4,znver4: 'znver4' is given twice"


def test_a_small_file(tmp_path):
    net = kilter.compile("zoo:squeezenet1_1", shapes={"input": (1, 3, 32, 32)}, threads=1)
    x = np.random.default_rng(0).standard_normal((1, 3, 32, 32), np.float32)
    fast, small, one = (tmp_path / name for name in ("fast.kilter", "small.kilter", "one.kilter"))
    net.save(fast, targets=["native", "neoverse-n2"])
    net.save(small, targets=["native", "neoverse-n2"], size="small")
    net.save(one, size="small")
    assert small.stat().st_size < 0.6 * fast.stat().st_size
    for file in (small, one):
        assert np.array_equal(kilter.load(file, threads=1)(x), net(x))
    assert raised_text(lambda: net.save(one, size="tiny"), kilter.UsageError) == (
        "size 'tiny': expected 'fast' or 'small'")


def test_compiled_files(tmp_path):
    net, weights = product()
    path = tmp_path / "net.kilter"
    net.save(path)
    x = np.eye(64, dtype=np.float32)
    data = path.read_bytes()
    for loaded in (kilter.load(path), kilter.load(str(path)), kilter.load(data), kilter.load(bytearray(data)),
                   kilter.load(memoryview(data)), kilter.compile(data), pickle.loads(pickle.dumps(kilter.load(data)))):
        np.testing.assert_array_equal(loaded(x), net(x))
        assert loaded.conditions()["compile_ms"] == 0
    assert kilter.load(data).name == "compiled"
    kilter.load(data).save(tmp_path / "again.kilter")
    assert (tmp_path / "again.kilter").read_bytes() == data
    assert kilter.load(data, threads=1).bench(seconds=0.01).estimate_ms > 0
    assert raised_text(lambda: net.save(tmp_path / "no" / "net.kilter"),
                       kilter.FileError).startswith("cannot write file '")


def test_bytes_of_compiled_files_leave_no_open_files(tmp_path):
    identity().save(tmp_path / "net.kilter")
    data = (tmp_path / "net.kilter").read_bytes()
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(50):
        kilter.load(data)(A)
        with pytest.raises(kilter.InputError):
            kilter.load(data[:-1])
    gc.collect()
    assert len(os.listdir("/proc/self/fd")) <= before + 1


@pytest.mark.parametrize("spoil, text", [
    (lambda d: d[:50], "cut off: expected at least 136 bytes of header, got 50"),
    (lambda d: d[:-10], "the file is cut off"),
    (lambda d: d[:len(d) // 2] + bytes([d[len(d) // 2] ^ 1]) + d[len(d) // 2 + 1:], "are not those that were written"),
])
def test_damaged_compiled_files_are_refused(tmp_path, spoil, text):
    product()[0].save(tmp_path / "net.kilter")
    data = spoil((tmp_path / "net.kilter").read_bytes())
    (tmp_path / "bad.kilter").write_bytes(data)
    for source in (data, tmp_path / "bad.kilter"):
        assert text in raised_text(lambda: kilter.load(source))


# --- pickling, contexts ---


def test_pickling_by_model_and_options(tmp_path):
    onnx = pytest.importorskip("onnx")
    data = model_bytes(2)
    (tmp_path / "m.onnx").write_bytes(data)
    g = Graph("g")
    g.output(g.Relu(g.input("x", "f32", (2, 3))), "y")
    for model in (data, bytearray(data), memoryview(data), onnx.load_model_from_string(data), tmp_path / "m.onnx", g):
        net = kilter.compile(model, threads=1, accuracy="strict")
        for again in (pickle.loads(pickle.dumps(net)), copy.copy(net), copy.deepcopy(net)):
            np.testing.assert_array_equal(again(-A), net(-A))
            assert again._options == net._options and [p.name for p in again.inputs] == ["x"]


def test_contexts():
    with identity() as net, net.pool(2) as pool:
        np.testing.assert_array_equal(pool.run([A])["y"], A)
    np.testing.assert_array_equal(net(A), A)
    with pytest.raises(RuntimeError, match="shutdown"):
        pool.submit([A])


def test_pool_of_a_network_whose_shapes_only_runs_show():
    """Open dimensions, and shapes that depend on the values of inputs, are left to the first runs."""
    onnx = pytest.importorskip("onnx")
    port = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph([onnx.helper.make_node("Expand", ["x", "shape"], ["y"])], "wide",
                                   [port("x", 1, [1, 3]), port("shape", 7, [2])], [port("y", 1, [None, 3])])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 20)], ir_version=10)
    feeds = {"x": np.ones((1, 3), np.float32), "shape": np.array([4, 3], np.int64)}
    with kilter.compile(model, threads=1).pool(2) as pool:
        assert [y["y"].shape for y in pool.map([feeds] * 3)] == [(4, 3)] * 3
    with kilter.compile(model_bytes(), threads=1).pool(2) as pool:
        assert [y["y"].shape for y in pool.map([{"x": A}] * 3)] == [A.shape] * 3


def test_precision():
    x = np.random.default_rng(0).standard_normal((1, 3, 224, 224), np.float32)
    wide = kilter.compile("zoo:squeezenet1_1", threads=1)
    if wide.conditions()["target"] not in ("znver4", "znver5", "sapphirerapids"):
        with pytest.raises(kilter.UsageError, match="has no instruction that multiplies bf16"):
            kilter.compile("zoo:squeezenet1_1", precision="bf16").conditions()
        return
    narrow = kilter.compile("zoo:squeezenet1_1", precision="bf16", threads=1)
    assert (wide.conditions()["precision"], narrow.conditions()["precision"]) == ("declared", "bf16")
    difference = np.abs(narrow(x) - wide(x)).max() / np.abs(wide(x)).max()
    assert 1e-4 < difference < 0.05
    held = kilter.compile("zoo:squeezenet1_1", precision="bf16", keep_float=["Conv", "Relu", "MaxPool", "Concat"], threads=1)
    assert np.abs(held(x) - wide(x)).max() < np.abs(narrow(x) - wide(x)).max()


def test_a_library_is_written_with_its_header(tmp_path):
    net = kilter.compile("zoo:squeezenet1_1", shapes={"input": (1, 3, 32, 32)}, threads=1)
    files = net.save_library(tmp_path / "squeezenet.so", name="squeeze", weights="file")
    assert [os.path.basename(file) for file in files] == ["squeezenet.so", "squeeze.h", "squeeze.weights"]
    assert all(os.path.getsize(file) > 0 for file in files)
    with pytest.raises(kilter.UsageError, match="weights 'both': expected 'inside' or 'file'"):
        net.save_library(tmp_path / "x.so", weights="both")
