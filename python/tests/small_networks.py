"""Small networks and objects for the tests."""
from __future__ import annotations

import numpy as np
import pytest

import kilter
from kilter.graph import Graph


def identity(dtype="f32", shape=(2, 3)):
    g = Graph("id")
    g.output(g.Identity(g.input("x", dtype, shape)), "y")
    return kilter.compile(g, threads=1)


def product(size=64, threads=2):
    """A network y = x @ w, and w."""
    weights = np.random.default_rng(0).standard_normal((size, size)).astype(np.float32)
    g = Graph("product")
    g.output(g.input("x", "f32", (size, size)) @ weights, "y")
    return kilter.compile(g, threads=threads), weights


def model_bytes(batch="n"):
    """An ONNX model of y = Relu(x), x: f32[batch,3]."""
    onnx = pytest.importorskip("onnx")
    port = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph([onnx.helper.make_node("Relu", ["x"], ["y"])], "relu", [port("x", 1, [batch, 3])],
                                   [port("y", 1, [batch, 3])])
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 20)]).SerializeToString()


def raised_text(call, error=kilter.InputError):
    with pytest.raises(error) as raised:
        call()
    return str(raised.value)


class Tensor:
    """An object that has only DLPack, of the protocol with or without max_version."""

    def __init__(self, values, new=True):
        self.values = values
        self.__class__ = self.__class__ if new else OldTensor

    def __dlpack__(self, **how):
        return self.values.__dlpack__(**how)

    def __dlpack_device__(self):
        return self.values.__dlpack_device__()


class OldTensor(Tensor):
    def __dlpack__(self, stream=None):
        return self.values.__dlpack__()
