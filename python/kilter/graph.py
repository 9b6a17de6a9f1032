"""Graphs without a file: operators of ONNX by name, with types inferred as they are added.

    import kilter
    from kilter.graph import Graph
    g = Graph("mlp")
    x = g.input("x", "f32", (1, 64))
    w = g.constant(weights)                      # shares the array's memory
    g.output(g.Relu(x @ w + bias), "y")
    net = kilter.compile(g)
    g.save("mlp.onnx")
"""
from __future__ import annotations

import os
import tempfile
from types import EllipsisType
from typing import Any, Sequence

from . import _kilter
from ._types import ELEMENT_TYPES
from .errors import UnsupportedError, UsageError

__all__ = ["Graph", "NEWEST_OPSET", "OLDEST_OPSET", "Value"]

#: the newest opset of ai.onnx that Kilter knows
NEWEST_OPSET: int = _kilter.NEWEST_OPSET
#: the oldest one
OLDEST_OPSET: int = 7

_INT64_MAX = 2**63 - 1
# Attributes whose numbers are element types.
_TYPE_ATTRIBUTES = ("dtype", "output_dtype", "stash_type", "to")


class Value:
    """A value of a graph: an input, a constant, or the result of an operator.

    x + y, x - y, x * y, x / y, x ** y, x @ y and -x add the operators Add, Sub, Mul, Div, Pow, MatMul and Neg; one side
    may be an array or a number, which takes the element type of the other side. x[...] selects parts as NumPy's basic
    indexing does: integers, slices, ... and None. Values cannot be compared and have no truth value: use g.Less and
    g.Where.
    """

    __slots__ = ("graph", "id")
    #: Makes NumPy defer `array + value` to Value.
    __array_ufunc__ = None
    __iter__ = None  # otherwise unpacking x, after a forgotten outputs=2, would add operators for x[0], x[1], ...

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
        """Returns the elements of a constant as an array over its memory; None for other values."""
        return self.graph._builder.value_constant(self.id)

    def __repr__(self) -> str:
        return f"%{self.name}: {self.dtype}[{','.join(map(str, self.shape))}]"

    # --- operators ---

    def _operand(self, other: Any) -> Any:
        """Returns the other side of an operator: numbers take this value's element type."""
        if isinstance(other, (bool, int, float)):
            return self.graph._number(other, self.dtype)
        return other

    def __add__(self, other: Any) -> Value:
        return self.graph.op("Add", self, self._operand(other))

    def __radd__(self, other: Any) -> Value:
        return self.graph.op("Add", self._operand(other), self)

    def __sub__(self, other: Any) -> Value:
        return self.graph.op("Sub", self, self._operand(other))

    def __rsub__(self, other: Any) -> Value:
        return self.graph.op("Sub", self._operand(other), self)

    def __mul__(self, other: Any) -> Value:
        return self.graph.op("Mul", self, self._operand(other))

    def __rmul__(self, other: Any) -> Value:
        return self.graph.op("Mul", self._operand(other), self)

    def __truediv__(self, other: Any) -> Value:
        return self.graph.op("Div", self, self._operand(other))

    def __rtruediv__(self, other: Any) -> Value:
        return self.graph.op("Div", self._operand(other), self)

    def __pow__(self, other: Any) -> Value:
        return self.graph.op("Pow", self, self._operand(other))

    def __rpow__(self, other: Any) -> Value:
        return self.graph.op("Pow", self._operand(other), self)

    def __matmul__(self, other: Any) -> Value:
        return self.graph.op("MatMul", self, other)

    def __rmatmul__(self, other: Any) -> Value:
        return self.graph.op("MatMul", other, self)

    def __neg__(self) -> Value:
        return self.graph.op("Neg", self)

    def __getitem__(self, index: Any) -> Value:
        return _part(self, index if isinstance(index, tuple) else (index,))


class Graph:
    """A network under construction. Shapes are static; each operator is checked as it is added.

    op() adds an operator of ONNX: g.op("Conv", x, w, b, strides=[2, 2]); g.Conv(x, w, b, strides=[2, 2]) does the same.
    Operators whose inputs are small constants are computed at once.
    """

    def __init__(self, name: str = "graph", opset: int = NEWEST_OPSET):
        """Creates an empty graph, with the operators of an opset of ai.onnx. Raises UsageError for an unknown one."""
        _check_opset("Graph", opset)
        self.name = name
        self.opset = opset
        #: the inputs by name, in order
        self.inputs: dict[str, Value] = {}
        #: the outputs by name, in order
        self.outputs: dict[str, Value] = {}
        self._builder = _kilter.GraphBuilder(name, opset)

    def input(self, name: str, dtype: Any, shape: Sequence[int]) -> Value:
        """Adds an input. dtype: "f32", "i64", ..., or a NumPy type such as numpy.float32.

        Raises UsageError for a name that another value has, an unknown type, or a dimension that is not a number.
        """
        if not name:
            raise UsageError(f"graph '{self.name}': input: the name is empty")
        for d in shape:
            if not hasattr(d, "__index__") or d.__index__() < 0:
                raise UsageError(f"graph '{self.name}': input '{name}': dimension {d!r}; dimensions are integers of 0 "
                                 f"or more, since shapes are static")
        value = Value(self, self._builder.input(name, _type_name(dtype), [d.__index__() for d in shape]))
        self.inputs[name] = value
        return value

    placeholder = input

    def constant(self, array: Any, name: str = "const") -> Value:
        """Adds a constant over the memory of an array, which must not change afterwards. Arrays that are not dense are
        copied. Python numbers become scalars of i64, bool or f32, and lists of them become arrays. If the name is
        taken, a number is appended.

        Raises InputError for objects that are not arrays, and for element types that Kilter does not have.
        """
        if isinstance(array, (bool, int, float, list, tuple)):
            array = _array_of(array)
        return Value(self, self._builder.constant(array, name))

    def op(self, op_type: str, *inputs: Value | None | Any, name: str = "", domain: str = "", opset: int = 0,
           outputs: int = 1, **attrs: Any) -> Any:
        """Adds an operator. Inputs are values, None for optional ones that are left out, or arrays and numbers, which
        become constants. attrs: ints, floats, texts, lists of them, or arrays; None leaves one out. Attributes that
        name an element type, such as `to` of Cast, take "f16" or numpy.float16 as well as ONNX's number. name: of the
        node and its results; if it is taken, a number is appended. outputs: the number of results.

        Returns the result, or a tuple if `outputs` is above 1. Raises ModelError for illegal operands or attributes,
        and UnsupportedError for an unknown operator or a shape that depends on data.
        """
        if not isinstance(outputs, int) or outputs < 1:
            raise UsageError(f"{op_type}: outputs={outputs!r}; expected 1 or more")
        if opset and not domain:
            _check_opset(op_type, opset)
        ids = [None if i is None else self._value(i).id for i in inputs]
        attributes = {k: _attribute(op_type, k, v) for k, v in attrs.items() if v is not None}
        made = self._builder.add(op_type, ids, attributes, name, domain, opset, outputs)
        return Value(self, made[0]) if outputs == 1 else tuple(Value(self, i) for i in made)

    def __getattr__(self, op_type: str) -> Any:
        if not op_type[:1].isupper():
            raise AttributeError(f"Graph has no attribute '{op_type}'; operators begin with a capital letter")

        def add(*inputs: Any, **attrs: Any) -> Any:
            return self.op(op_type, *inputs, **attrs)

        add.__name__ = add.__qualname__ = op_type
        add.__doc__ = f"Adds the operator {op_type} of ONNX; see op()."
        return add

    def output(self, value: Any, name: str | None = None) -> None:
        """Makes a value, or an array, an output of the network. name: by default that of the value.

        Raises UsageError for a name that another output has.
        """
        value = self._value(value)
        name = name or value.name
        if name in self.outputs:
            raise UsageError(f"graph '{self.name}': output '{name}': the graph has an output of this name")
        self._builder.output(value.id, name)
        self.outputs[name] = value

    def save(self, path: str | os.PathLike) -> None:
        """Writes the graph as an ONNX model; weights go to a second file if they exceed 1 GiB.

        Raises UsageError for a graph without outputs, and FileError.
        """
        self._check_outputs()
        self._builder.save(os.fspath(path))

    def to_onnx_bytes(self) -> bytes:
        """Returns the graph as the bytes of an ONNX model. Raises UnsupportedError if weights exceed 1 GiB."""
        with tempfile.TemporaryDirectory(prefix="kilter-") as folder:
            path = os.path.join(folder, "model.onnx")
            self.save(path)
            if len(os.listdir(folder)) > 1:
                raise UnsupportedError(f"graph '{self.name}': its weights exceed 1 GiB, so they do not fit into the "
                                       "bytes of one model; use save(), which writes a second file")
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
            raise UsageError(f"{value!r} belongs to another graph: '{value.graph.name}', not '{self.name}'")
        return value

    def _number(self, value: bool | int | float, dtype: str) -> Value:
        """Adds a scalar constant of an element type."""
        import numpy
        if isinstance(value, float) and dtype[0] in "iu":
            raise UsageError(f"{value}: expected a whole number beside a value of {dtype}")
        if ELEMENT_TYPES[dtype].bits:
            return self.op("Cast", numpy.float32(value), to=dtype)
        try:
            return self.constant(numpy.array(value, ELEMENT_TYPES[dtype].numpy))
        except OverflowError:
            raise UsageError(f"{value} is not a number of {dtype}") from None

    def _check_outputs(self) -> None:
        if not self.outputs:
            raise UsageError(f"graph '{self.name}' has no output; output(value, name) adds one")

    def _memory_model(self) -> Any:
        self._check_outputs()
        return self._builder.model()

    def __str__(self) -> str:
        return self._builder.text()

    def __repr__(self) -> str:
        def ports(values: dict[str, Value]) -> str:
            return ", ".join(f"{name}: {v.dtype}[{','.join(map(str, v.shape))}]" for name, v in values.items())

        return f"<kilter.graph.Graph {self.name!r}: ({ports(self.inputs)}) -> ({ports(self.outputs)})>"


def _check_opset(what: str, opset: int) -> None:
    if not OLDEST_OPSET <= opset <= NEWEST_OPSET:
        raise UsageError(f"{what}: opset {opset}; legal values are {OLDEST_OPSET} to {NEWEST_OPSET}")


def _type_name(dtype: Any) -> str:
    """Returns Kilter's name of an element type: "f32" for "f32", "float32" and numpy.float32."""
    if isinstance(dtype, str) and dtype in ELEMENT_TYPES:
        return dtype
    import numpy
    try:
        name = str(dtype) if any(str(dtype) == t.numpy for t in ELEMENT_TYPES.values()) else numpy.dtype(dtype).name
    except TypeError:
        name = ""
    for ours, theirs in ELEMENT_TYPES.items():
        if name == theirs.numpy and dtype is not None:
            return ours
    raise UsageError(f"element type {dtype!r}: legal values are {', '.join(ELEMENT_TYPES)}, and NumPy's types of that "
                     f"kind")


def _array_of(value: Any) -> Any:
    """Returns Python numbers as an array of i64, bool or f32."""
    import numpy
    array = numpy.asarray(value)
    return array.astype(numpy.float32) if array.dtype.kind == "f" else array


def _attribute(op_type: str, name: str, value: Any) -> Any:
    """Returns an attribute's value in a form that the builder takes."""
    import numpy
    if name in _TYPE_ATTRIBUTES and (isinstance(value, (str, type, numpy.dtype))):
        return ELEMENT_TYPES[_type_name(value)].number
    if isinstance(value, (list, tuple)):
        items = [v.item() if isinstance(v, numpy.generic) else v for v in value]
        kinds = {str if isinstance(v, str) else float if isinstance(v, float) else int if isinstance(v, int) else None
                 for v in items}
        if None not in kinds and (str not in kinds or len(kinds) == 1):
            return [_checked(op_type, name, v) for v in items]
    elif isinstance(value, numpy.generic):
        return _checked(op_type, name, value.item())
    elif isinstance(value, (bool, int, float, str)):
        return _checked(op_type, name, value)
    elif hasattr(value, "__dlpack__") or hasattr(value, "__array__"):
        return value
    raise UsageError(f"{op_type}: attribute '{name}': expected an int, a float, a str, a list of one of them, or an "
                     f"array, got {value!r}")


def _checked(op_type: str, name: str, value: Any) -> Any:
    """Refuses an int that ONNX's attributes cannot hold."""
    if isinstance(value, int) and not -_INT64_MAX - 1 <= value <= _INT64_MAX:
        raise UsageError(f"{op_type}: attribute '{name}': {value} is not a 64-bit number")
    return value


def _part(value: Value, index: tuple[Any, ...]) -> Value:
    """Adds the operators of NumPy's basic indexing: Slice, Squeeze for integers, and Unsqueeze for None."""
    if sum(i is Ellipsis for i in index) > 1:
        raise UsageError(f"{value!r}: an index has at most one '...'")
    named = sum(i is not None and i is not Ellipsis for i in index)
    if named > value.rank:
        raise UsageError(f"{value!r}: {named} indices are given for {value.rank} dimensions")
    if Ellipsis not in index:
        index = (*index, Ellipsis)
    at = index.index(Ellipsis)
    index = (*index[:at], *[slice(None)] * (value.rank - named), *index[at + 1:])
    cuts, gone, new, axis = [], [], [], 0
    for item in index:
        if item is None:
            new.append(axis - len(gone) + len(new))
            continue
        cut = _cut(value, axis, item)
        if cut != (0, value.shape[axis], 1):
            cuts.append((axis, *cut))
        if not isinstance(item, slice):
            gone.append(axis)
        axis += 1
    return _reshaped(_sliced(value, cuts), gone, new)


def _cut(value: Value, axis: int, item: Any) -> tuple[int, int, int]:
    """Returns start, end and step of Slice for an integer or a slice."""
    size = value.shape[axis]
    if isinstance(item, slice):
        start, stop, step = item.indices(size)
        return start, stop if stop >= 0 else -_INT64_MAX, step
    if isinstance(item, (bool, Value, EllipsisType)) or not hasattr(item, "__index__"):
        raise UsageError(
            f"{value!r}: index {item!r}; expected integers, slices, ... and None; g.Gather and g.Where take values")
    place = item.__index__()
    if not -size <= place < size:
        raise UsageError(f"{value!r}: index {place} is out of range for dimension {axis} of {size}" +
                         (f"; legal values are {-size} to {size - 1}" if size else ""))
    return place % size, place % size + 1, 1


def _sliced(value: Value, cuts: list[tuple[int, int, int, int]]) -> Value:
    if not cuts:
        return value
    axes, starts, ends, steps = (list(column) for column in zip(*cuts))
    if value.graph.opset < 10:
        raise UnsupportedError(f"{value!r}: indices need opset 10 or later; the graph has opset {value.graph.opset}")
    return value.graph.op("Slice", value, starts, ends, axes, steps)


def _reshaped(value: Value, gone: list[int], new: list[int]) -> Value:
    """Removes the dimensions `gone`, then adds dimensions of 1 at the places `new`."""
    for op_type, axes in (("Squeeze", gone), ("Unsqueeze", new)):
        if axes and value.graph.opset < 13:
            value = value.graph.op(op_type, value, axes=axes)
        elif axes:
            value = value.graph.op(op_type, value, axes)
    return value
