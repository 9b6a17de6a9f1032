"""Graphs without a file: operators of ONNX by name, with types inferred as they are added.

    from kilter.graph import Graph
    g = Graph("mlp")
    x = g.input("x", "f32", (1, 64))
    w = g.constant(weights)                      # shares the array's memory
    g.output(g.Relu(g.MatMul(x, w)), "y")
    net = kilter.compile(g)
    g.save("mlp.onnx")
"""
from __future__ import annotations

import os
import tempfile
from typing import Any, Sequence

from . import _kilter
from .errors import UsageError

__all__ = ["Graph", "NEWEST_OPSET", "Value"]

#: the newest opset of ai.onnx that Kilter knows
NEWEST_OPSET: int = _kilter.NEWEST_OPSET


class Value:
    """A value of a graph: an input, a constant, or the result of an operator."""

    __slots__ = ("graph", "id")

    def __init__(self, graph: Graph, id: int):
        self.graph = graph
        self.id = id

    @property
    def name(self) -> str:
        """The name, which is unique in the graph."""
        return self.graph._builder.value_name(self.id)

    @property
    def dtype(self) -> str:
        """The element type: "f32", "i64", "bool", ..."""
        return self.graph._builder.dtype(self.id)

    @property
    def shape(self) -> tuple[int, ...]:
        """The dimensions."""
        return tuple(self.graph._builder.shape(self.id))

    @property
    def rank(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    def numpy(self) -> Any:
        """Returns the elements of a constant as an array; None for other values."""
        return self.graph._builder.value_constant(self.id)

    def __repr__(self) -> str:
        return f"%{self.name}: {self.dtype}[{','.join(map(str, self.shape))}]"


class Graph:
    """A network under construction. Shapes are static; each operator is checked as it is added.

    op() adds an operator of ONNX: g.op("Conv", x, w, b, strides=[2, 2]); g.Conv(x, w, b, strides=[2, 2]) does the same.
    Operators whose inputs are small constants are computed at once.
    """

    def __init__(self, name: str = "graph", opset: int = NEWEST_OPSET):
        self.name = name
        self.opset = opset
        self._builder = _kilter.GraphBuilder(name, opset)

    def input(self, name: str, dtype: str, shape: Sequence[int]) -> Value:
        """Adds an input. dtype: "f32", "i64", ... Raises UsageError for an unknown type."""
        return Value(self, self._builder.input(name, dtype, [int(d) for d in shape]))

    placeholder = input

    def constant(self, array: Any, name: str = "const") -> Value:
        """Adds a constant over the memory of an array, which must not change any more. Python numbers become scalars
        of i64 or f32, and lists of them vectors."""
        if isinstance(array, (bool, int, float, list, tuple)):
            array = _array_of(array)
        return Value(self, self._builder.constant(array, name))

    def op(self, op_type: str, *inputs: Value | None | Any, name: str = "", domain: str = "", opset: int = 0,
           outputs: int = 1, **attrs: Any) -> Any:
        """Adds an operator. Inputs are values, None for optional ones that are left out, or arrays, which become constants.
        attrs: ints, floats, texts, lists of them, or arrays. Returns its result, or a tuple if `outputs` is above 1.

        Raises ModelError for illegal operands or attributes, and UnsupportedError for an unknown operator or a shape
        that depends on data.
        """
        ids = [None if i is None else self._value(i).id for i in inputs]
        attributes = {k: v for k, v in attrs.items() if v is not None}
        made = self._builder.add(op_type, ids, attributes, name, domain, opset, outputs)
        return Value(self, made[0]) if outputs == 1 else tuple(Value(self, i) for i in made)

    def __getattr__(self, op_type: str) -> Any:
        if not op_type[:1].isupper():
            raise AttributeError(f"Graph has no attribute '{op_type}'; operators begin with a capital letter")
        return lambda *inputs, **attrs: self.op(op_type, *inputs, **attrs)

    def output(self, value: Value, name: str | None = None) -> None:
        """Makes a value an output of the network."""
        self._builder.output(self._value(value).id, name or value.name)

    def save(self, path: str | os.PathLike) -> None:
        """Writes the graph as an ONNX model; weights go to a second file if they exceed 1 GiB."""
        self._builder.save(os.fspath(path))

    def to_onnx_bytes(self) -> bytes:
        """Returns the graph as the bytes of an ONNX model."""
        with tempfile.TemporaryDirectory(prefix="kilter-") as folder:
            path = os.path.join(folder, "model.onnx")
            self.save(path)
            with open(path, "rb") as file:
                return file.read()

    def to_onnx(self) -> Any:
        """Returns the graph as an onnx.ModelProto. Needs the package onnx."""
        import onnx
        return onnx.load_model_from_string(self.to_onnx_bytes())

    def _value(self, value: Any) -> Value:
        if not isinstance(value, Value):
            return self.constant(value)
        if value.graph is not self:
            raise UsageError(f"{value!r} belongs to another graph")
        return value

    def _memory_model(self) -> Any:
        return self._builder.model()

    def __str__(self) -> str:
        return self._builder.text()

    def __repr__(self) -> str:
        return f"<kilter.graph.Graph {self.name!r}>"


def _array_of(value: Any) -> Any:
    """Returns Python numbers as an array of i64, bool or f32."""
    import numpy
    array = numpy.asarray(value)
    return array.astype(numpy.float32) if array.dtype.kind == "f" else array

