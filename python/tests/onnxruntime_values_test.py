"""OrtValue, IOBinding, asynchronous runs, termination and profiles of kilter.onnxruntime, compared with ONNX
Runtime."""
from __future__ import annotations

import json
import threading

import numpy as np
import pytest

reference = pytest.importorskip("onnxruntime", reason="the package onnxruntime, to compare with, is not installed")
pytest.importorskip("onnx", reason="the package onnx, which builds the models, is not installed")

from onnx import TensorProto  # noqa: E402

import kilter.onnxruntime as ort  # noqa: E402
import ort_models  # noqa: E402
from kilter.onnxruntime.capi import onnxruntime_pybind11_state as state  # noqa: E402
from ort_models import FLOAT, built, one_node, tensor  # noqa: E402

BOTH = pytest.mark.parametrize("rt", [reference, ort], ids=["onnxruntime", "kilter"])
X = ort_models.random(2, 16, seed=20)


@pytest.fixture(scope="module")
def perceptron():
    return ort.InferenceSession(built("perceptron.onnx"))


# --- OrtValue and IOBinding ---

@BOTH
def test_ort_values(rt):
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    value = rt.OrtValue.ortvalue_from_numpy(x)
    assert value.data_ptr() == x.ctypes.data and (value.numpy() == x).all()
    assert value.__dlpack_device__() == (1, 0) and np.from_dlpack(value).tolist() == x.tolist()
    value.update_inplace(x + 1)
    assert x[0, 0] == 1
    for wrong, kind in [(np.ones((3, 3), np.float32), RuntimeError), ([1], TypeError)]:
        with pytest.raises(kind):
            value.update_inplace(wrong)
    for element_type in (np.int64, "int64", 7):
        made = rt.OrtValue.ortvalue_from_shape_and_type([2, 2], element_type)
        assert (made.shape(), made.data_type(), made.tensor_size_in_bytes()) == ([2, 2], "tensor(int64)", 32)
    for call in (lambda: rt.OrtValue.ortvalue_from_numpy([1, 2]),
                 lambda: rt.OrtValue.ortvalue_from_numpy(np.array(["a"])),
                 lambda: rt.OrtValue.ortvalue_from_shape_and_type([1], np.float32, "cuda", 0)):
        with pytest.raises(RuntimeError):
            call()
    brain = rt.OrtValue.ortvalue_from_numpy_with_onnx_type(np.array([0x3F80, 0x4000], np.uint16), 16)
    assert (brain.data_type(), brain.element_type()) == ("tensor(bfloat16)", 16)


def test_what_ort_values_say():
    with pytest.raises(RuntimeError, match="ortvalue_from_numpy: expected a numpy.ndarray of numbers, got list"):
        ort.OrtValue.ortvalue_from_numpy([1])
    with pytest.raises(RuntimeError, match="device 'cuda'; Kilter's memory is on 'cpu'"):
        ort.OrtValue.ortvalue_from_shape_and_type([1], np.float32, "cuda")
    with pytest.raises(RuntimeError, match="element type 'complex64'; legal values are the NumPy types float32, uint8"):
        ort.OrtValue.ortvalue_from_shape_and_type([1], "complex64")
    value = ort.OrtValue.ortvalue_from_numpy(np.zeros(2, np.float32))
    with pytest.raises(RuntimeError, match=r"update_inplace: expected float32\[2\], got float64\[2\]"):
        value.update_inplace(np.zeros(2))
    fixed = np.zeros(2, np.float32)
    fixed.flags.writeable = False
    with pytest.raises(RuntimeError, match="read-only"):
        ort.OrtValue.ortvalue_from_numpy(fixed).update_inplace(np.ones(2, np.float32))
    with pytest.raises(RuntimeError, match="1 values to copy into 0"):
        ort.copy_tensors([value], [])
    other = ort.OrtValue.ortvalue_from_numpy(np.ones(2, np.float32))
    ort.copy_tensors([other], [value])
    assert value.numpy().tolist() == [1, 1]


def test_bfloat16_goes_through_values():
    kind = TensorProto.BFLOAT16
    a, b, c = (tensor(name, kind, [2]) for name in "abc")
    session = ort.InferenceSession(one_node("Add", [a, b], [c]))
    value = ort.OrtValue.ortvalue_from_numpy_with_onnx_type(np.array([0x3F80, 0x4000], np.uint16), 16)  # 1, 2
    total = session.run_with_ort_values(None, {"a": value, "b": value})[0]
    assert total.data_type() == "tensor(bfloat16)" and total._array.tolist() == [0x4000, 0x4080]
    with pytest.raises(RuntimeError, match="NumPy has no type for tensor.bfloat16."):
        total.numpy()


@BOTH
def test_io_binding(rt):
    session = rt.InferenceSession(built("perceptron.onnx"))
    expected = session.run(None, {"features": X})
    binding = session.io_binding()
    binding.bind_cpu_input("features", X)
    hidden = np.zeros((2, 32), np.float32)
    binding.bind_output("hidden", "cpu", 0, np.float32, hidden.shape, hidden.ctypes.data)
    binding.bind_output("probabilities")
    session.run_with_iobinding(binding)
    outputs = binding.get_outputs()
    assert [o.shape() for o in outputs] == [[2, 4], [2, 32]] or [o.shape() for o in outputs] == [[2, 32], [2, 4]]
    assert np.allclose(hidden, expected[1])
    binding.clear_binding_outputs()
    with pytest.raises(RuntimeError):
        session.run_with_iobinding(binding)
    with pytest.raises(RuntimeError):
        binding.bind_cpu_input("nope", X)
    binding.bind_ortvalue_output("hidden", rt.OrtValue.ortvalue_from_shape_and_type([3, 32], np.float32))
    with pytest.raises(RuntimeError):
        session.run_with_iobinding(binding)


def test_outputs_are_in_the_order_of_binding(perceptron):
    binding = perceptron.io_binding()
    binding.bind_cpu_input("features", X)
    binding.bind_output("hidden")
    binding.bind_output("probabilities")
    perceptron.run_with_iobinding(binding)
    assert [o.shape() for o in binding.get_outputs()] == [[2, 32], [2, 4]]


def test_one_buffer_may_be_input_and_output():
    size = 48  # large enough that elements written too early would be read again
    a, b = (tensor(name, FLOAT, [size, size]) for name in "ab")
    session = ort.InferenceSession(one_node("Transpose", [a], [b], perm=[1, 0]))
    start = ort_models.random(size, size)
    memory = np.zeros(start.nbytes + 64, np.uint8)
    aligned = memory[-memory.ctypes.data % 64:][:start.nbytes]  # runs read and write such memory directly
    value = ort.OrtValue.ortvalue_from_numpy(aligned.view(np.float32).reshape(size, size))
    value.update_inplace(start)
    binding = session.io_binding()
    binding.bind_ortvalue_input("a", value)
    binding.bind_ortvalue_output("b", value)
    for expected in (start.T, start, start.T):
        session.run_with_iobinding(binding)
        assert (value.numpy() == expected).all()


def test_what_bindings_say(perceptron):
    binding = perceptron.io_binding()
    for call, text in [
            (lambda: binding.bind_cpu_input("nope", X), "no input 'nope' to bind; legal values are features"),
            (lambda: binding.bind_cpu_input("features", [1]),
             "bind_cpu_input 'features': expected a numpy.ndarray, got list"),
            (lambda: binding.bind_output("nope"), "no output 'nope' to bind; legal values are probabilities, hidden"),
            (lambda: binding.bind_output("hidden", "cuda"),
             "bind_output 'hidden': device 'cuda'; Kilter's memory is on 'cpu'"),
            (lambda: binding.bind_output("hidden", buffer_ptr=8),
             "buffer_ptr needs element_type and shape, got None and None"),
            (lambda: binding.bind_input("features", "cpu", 0, np.float32, [2, 16], 0),
             "bind_input 'features': buffer_ptr is 0; expected the address of 128 bytes"),
            (lambda: binding.bind_ortvalue_input("features", X), "expected an OrtValue, got ndarray of float32"),
            (lambda: perceptron.run_with_iobinding(binding), "no output is bound; bind some of probabilities, hidden"),
            (lambda: ort.InferenceSession(built("half.onnx")).run_with_iobinding(binding),
             "the binding belongs to another session, of 'model'")]:
        with pytest.raises(state.InvalidArgument) as raised:
            call()
        assert text in str(raised.value)
    binding.bind_output("hidden")
    with pytest.raises(RuntimeError, match="input 'features' is missing; given are none"):
        perceptron.run_with_iobinding(binding)


# --- asynchronous runs, threads, termination, profiles ---

@BOTH
def test_run_async(rt):
    options = rt.SessionOptions()
    options.intra_op_num_threads = 2
    session = rt.InferenceSession(built("perceptron.onnx"), options)
    done, seen = threading.Event(), []

    def callback(outputs, data, error):
        seen.append((outputs, data, error))
        done.set()

    session.run_async(["probabilities"], {"features": X}, callback, "data")
    assert done.wait(30)
    outputs, data, error = seen[0]
    assert data == "data" and error == "" and np.allclose(outputs[0], session.run(None, {"features": X})[0])
    done.clear()
    session.run_async(None, {"features": X[0]}, callback, None)
    assert done.wait(30) and len(seen[1][0]) == 0 and "features" in seen[1][2]
    with pytest.raises(ValueError, match="features"):
        session.run_async(None, {}, callback, None)


def test_a_callback_that_fails_is_logged(perceptron, caplog):
    done = threading.Event()

    def callback(outputs, data, error):
        done.set()
        raise KeyError("oops")

    perceptron.run_async(None, {"features": X}, callback, None)
    assert done.wait(30)
    perceptron._callbacks.submit(lambda: None).result()
    assert "the callback of run_async failed" in caplog.text and "oops" in caplog.text


def test_threads_share_a_session(perceptron):
    expected = perceptron.run(None, {"features": X})[0]
    wrong = []

    def work():
        for _ in range(20):
            if not (perceptron.run(["probabilities"], {"features": X})[0] == expected).all():
                wrong.append(1)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@BOTH
def test_termination(rt):
    session = rt.InferenceSession(built("perceptron.onnx"))
    options = rt.RunOptions()
    options.terminate = True
    with pytest.raises(Exception, match="terminate") as raised:
        session.run(None, {"features": X}, options)
    assert type(raised.value).__name__ == "Fail"
    options.terminate = False
    assert len(session.run(None, {"features": X}, options)) == 2


@BOTH
def test_profiles(rt, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    plain = rt.InferenceSession(built("perceptron.onnx"))
    assert plain.end_profiling() == "" and plain.get_profiling_start_time_ns() == 0
    options = rt.SessionOptions()
    options.enable_profiling = True
    options.profile_file_prefix = "mine"
    session = rt.InferenceSession(built("perceptron.onnx"), options)
    assert session.get_profiling_start_time_ns() > 10**18
    for _ in range(2):
        session.run(None, {"features": X})
    name = session.end_profiling()
    assert name.startswith("mine_") and name.endswith(".json") and session.end_profiling() == ""
    events = json.loads((tmp_path / name).read_text())
    assert [e["name"] for e in events if e["cat"] == "Session"].count("model_run") == 2
    nodes = [e for e in events if e["cat"] == "Node" and e["name"].endswith("_kernel_time")]
    assert any("Softmax" in e["args"]["op_name"] for e in nodes)
    assert all(e["args"]["provider"] == "CPUExecutionProvider" and e["dur"] >= 0 for e in nodes)


def test_profile_uses_the_inputs_of_the_last_run(tmp_path):
    options = ort.SessionOptions()
    options.enable_profiling = True
    options.profile_file_prefix = str(tmp_path / "p")
    options.add_session_config_entry("kilter.profile_seconds", "0.05")
    session = ort.InferenceSession(built("text_encoder.onnx"), options)
    ids = np.full((1, 5), 99)  # larger numbers would be outside the table
    session.run(None, {"input_ids": ids, "attention_mask": np.ones_like(ids)})
    events = json.loads(open(session.end_profiling()).read())
    assert any("[1,5" in e["args"].get("problem", "") for e in events)
    unused = ort.InferenceSession(built("text_encoder.onnx"), options)
    assert {e["cat"] for e in json.loads(open(unused.end_profiling()).read())} == {"Session"}
