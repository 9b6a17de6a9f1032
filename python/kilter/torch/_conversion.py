"""From nodes of an FX graph to a kilter.graph.Graph: the table of converters, and what a converter works with."""
from __future__ import annotations

from typing import Any, Callable, Iterable, Mapping, Sequence

import torch
from torch import fx

from ..errors import Error
from ..graph import Graph, Value

__all__ = ["CONVERTERS", "Conversion", "Refusal", "converts", "dtype_text"]

#: element types that both PyTorch and Kilter have
DTYPES: dict[torch.dtype, str] = {
    torch.float32: "f32", torch.float64: "f64", torch.float16: "f16", torch.bfloat16: "bf16", torch.int8: "i8",
    torch.int16: "i16", torch.int32: "i32", torch.int64: "i64", torch.uint8: "u8", torch.bool: "bool",
}
TORCH_TYPES: dict[str, torch.dtype] = {text: dtype for dtype, text in DTYPES.items()}

Converter = Callable[..., Any]
#: the converter of each ATen operator, by overload name such as "aten.add.Tensor"
CONVERTERS: dict[str, Converter] = {}


class Refusal(Exception):
    """Why a node cannot run in Kilter."""


def converts(*names: str) -> Callable[[Converter], Converter]:
    """Registers a converter for operators of ATen: "relu.default" or, for all overloads, "relu". A converter takes the
    Conversion and the operator's arguments, and returns the result: a Value, a tensor that is constant, or a tuple."""
    def register(function: Converter) -> Converter:
        for name in names:
            CONVERTERS["aten." + name] = function
        return function
    return register


def converter_of(node: fx.Node) -> Converter | None:
    """Returns the converter of a node's operator; None if there is none."""
    target = str(node.target)
    return CONVERTERS.get(target) or CONVERTERS.get(target.rpartition(".")[0])


def dtype_text(dtype: torch.dtype) -> str:
    """Returns Kilter's name of an element type. Raises Refusal if Kilter does not have it."""
    if dtype not in DTYPES:
        raise Refusal(f"element type {str(dtype).removeprefix('torch.')}; Kilter has {', '.join(TORCH_TYPES)}")
    return DTYPES[dtype]


def operator_name(node: fx.Node) -> str:
    """Returns a node's operator in words: "aten.add.Tensor"."""
    return str(node.target) if node.op == "call_function" else f"{node.op} {node.target}"


def label_of(node: fx.Node) -> str:
    """Returns the name of a node in Kilter: the module that it comes from, if it is known, and the node's own name."""
    stack = node.meta.get("nn_module_stack")
    if not stack:
        return node.name
    path = str(list(stack.values())[-1][0])
    for text in ("L['self'].", "L['self']", "L['fn'].", "_modules."):
        path = path.replace(text, "")
    for old, new in (("['", "."), ("']", ""), ("[", "."), ("]", "")):
        path = path.replace(old, new)
    path = path.strip(".")
    return f"{path}.{node.name}" if path else node.name


class _Unavailable:
    """Stands for a value that Kilter cannot hold, such as one of complex numbers."""

    def __init__(self, reason: str):
        self.reason = reason


class Conversion:
    """A Graph that is built from FX nodes, added in order.

    Values of nodes are Values of the graph, or tensors and numbers that are constant: a node whose operands are all
    constant is computed by PyTorch at once, which creates views of weights without copying them.
    """

    def __init__(self, name: str, constants: Mapping[fx.Node, Any]):
        self.graph = Graph(name)
        self.values: dict[fx.Node, Any] = dict(constants)
        self.node: fx.Node | None = None  # the node that is being converted
        self.inputs: dict[fx.Node, Value] = {}  # nodes outside whose values are fed, and the inputs of the graph
        self.labels: dict[str, fx.Node] = {}  # nodes by their names in the graph
        self._constants: dict[int, tuple[torch.Tensor, Value]] = {}

    # --- nodes ---

    def add_input(self, node: fx.Node) -> None:
        """Makes the values of a node inputs of the graph."""
        value = self.values[node] = self._input_like(node.meta.get("val"), node.name)
        if isinstance(value, Value):
            self.inputs[node] = value

    def _input_like(self, fake: Any, name: str) -> Any:
        if isinstance(fake, (tuple, list)):
            return tuple(self._input_like(item, f"{name}_{i}") for i, item in enumerate(fake))
        if not isinstance(fake, torch.Tensor):
            return _Unavailable(f"'{name}' is {type(fake).__name__}, which is not a tensor")
        try:
            return self.graph.input(name, dtype_text(fake.dtype), list(fake.shape))
        except (Refusal, Error) as why:
            return _Unavailable(f"'{name}': {why}")

    def add(self, node: fx.Node) -> None:
        """Adds what a node computes. Raises Refusal if Kilter cannot compute it."""
        self.node = node
        self.labels[label_of(node)] = node
        args = fx.map_arg(node.args, self._operand)
        kwargs = fx.map_arg(node.kwargs, self._operand)
        if not _has_value((args, kwargs)):
            self.values[node] = self._fold(node, args, kwargs)
            return
        if getattr(node.target, "__name__", "") == "getitem":
            self.values[node] = args[0][args[1]]
            return
        converter = converter_of(node)
        if converter is None:
            raise Refusal("no converter for this operator")
        for fake in _tensors_of(node.meta.get("val")):
            dtype_text(fake.dtype)
        try:
            self.values[node] = converter(self, *args, **kwargs)
        except Error as why:
            raise Refusal(str(why)) from why
        except Refusal:
            raise
        except Exception as why:  # arguments that the converter does not expect
            raise Refusal(f"its converter does not take these arguments: {type(why).__name__}: {why}") from why
        self._check(node)

    def _operand(self, node: fx.Node) -> Any:
        if node not in self.values:
            self.add_input(node)
        value = self.values[node]
        if isinstance(value, _Unavailable):
            raise Refusal(value.reason)
        return value

    def _fold(self, node: fx.Node, args: Any, kwargs: Any) -> Any:
        """Computes a node of constants."""
        if torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ()):
            raise Refusal("it draws random numbers")
        try:
            with torch.no_grad():
                return node.target(*args, **kwargs)
        except Exception as why:
            raise Refusal(f"PyTorch cannot compute it in advance: {why}") from why

    def _check(self, node: fx.Node) -> None:
        """Checks that the result has the element type and shape that PyTorch expects."""
        wanted, got = node.meta.get("val"), self.values[node]
        if wanted is None:
            return
        pairs = [(wanted, got)] if isinstance(wanted, torch.Tensor) else list(zip(wanted, got))
        for fake, value in pairs:
            if not isinstance(value, Value):
                continue
            if tuple(fake.shape) != value.shape or DTYPES[fake.dtype] != value.dtype:
                raise Refusal(f"its converter made {value.dtype}{list(value.shape)}, PyTorch makes "
                              f"{DTYPES[fake.dtype]}{list(fake.shape)}")

    # --- for converters ---

    @property
    def result(self) -> Any:
        """What PyTorch expects of the node that is being converted: a tensor without data, or a tuple of them."""
        return self.node.meta["val"]

    @property
    def shape(self) -> list[int]:
        """The shape of the result."""
        return list(self.result.shape)

    @property
    def dtype(self) -> torch.dtype:
        """The element type of the result."""
        return self.result.dtype

    def op(self, op_type: str, *inputs: Any, **attrs: Any) -> Any:
        """Adds an operator of ONNX. Operands: Values, tensors, or None for those that are left out."""
        operands = [None if i is None else self.value(i) for i in inputs]
        return self.graph.op(op_type, *operands, name=label_of(self.node), **attrs)

    def value(self, operand: Any) -> Value:
        """Returns an operand as a Value. Tensors become constants that share their memory if they are dense."""
        if isinstance(operand, Value):
            return operand
        if not isinstance(operand, torch.Tensor):
            raise Refusal(f"an operand is {operand!r}, expected a tensor")
        known = self._constants.get(id(operand))
        if known is None:
            dtype_text(operand.dtype)
            dense = operand.detach().resolve_conj().resolve_neg().contiguous()
            known = self._constants[id(operand)] = (operand, self.graph.constant(dense, f"{self.node.name}_const"))
        return known[1]

    def typed(self, operand: Any, dtype: torch.dtype) -> Any:
        """Returns an operand, or a number as a tensor without dimensions, converted to an element type."""
        if isinstance(operand, (bool, int, float)):
            return torch.tensor(operand, dtype=dtype)
        if isinstance(operand, torch.Tensor):
            return operand if operand.dtype == dtype else operand.detach().to(dtype)
        return operand if operand.dtype == DTYPES.get(dtype) else self.op("Cast", operand, to=dtype_text(dtype))

    def list(self, numbers: Iterable[int]) -> torch.Tensor:
        """Returns a constant vector of i64, as operators take for shapes and axes."""
        return torch.tensor([int(n) for n in numbers], dtype=torch.int64)

    def reshape(self, x: Any, shape: Sequence[int]) -> Any:
        """Returns x with another shape, of the same number of elements."""
        if list(shape_of(x)) == [int(d) for d in shape]:
            return x
        if isinstance(x, torch.Tensor):
            return x.reshape(list(shape))
        return self.op("Reshape", x, self.list(shape), allowzero=1)

    def transpose(self, x: Any, order: Sequence[int]) -> Any:
        """Returns x with its dimensions in another order."""
        if isinstance(x, torch.Tensor):
            return x.permute(list(order))
        return x if list(order) == list(range(x.rank)) else self.op("Transpose", x, perm=list(order))

    def expand(self, x: Any, shape: Sequence[int]) -> Any:
        """Returns x broadcast to a shape."""
        if isinstance(x, torch.Tensor):
            return x.expand(list(shape))
        return x if list(x.shape) == list(shape) else self.op("Expand", x, self.list(shape))

    def slice(self, x: Any, axis: int, start: int, end: int, step: int = 1) -> Any:
        """Returns x[start:end:step] along an axis."""
        if isinstance(x, torch.Tensor):
            return x[(slice(None),) * axis + (slice(start, end, step),)]
        if start == 0 and step == 1 and end >= x.shape[axis]:
            return x
        return self.op("Slice", x, self.list([start]), self.list([end]), self.list([axis]), self.list([step]))


def shape_of(x: Any) -> tuple[int, ...]:
    """Returns the shape of a Value, tensor or number."""
    return tuple(x.shape) if hasattr(x, "shape") else ()


def torch_dtype(x: Any) -> torch.dtype:
    """Returns the element type of a Value or tensor."""
    return TORCH_TYPES[x.dtype] if isinstance(x, Value) else x.dtype


def axis_of(x: Any, axis: int) -> int:
    """Returns an axis counted from the first one."""
    return axis + len(shape_of(x)) if axis < 0 else axis


def _has_value(arguments: Any) -> bool:
    if isinstance(arguments, (tuple, list)):
        return any(_has_value(a) for a in arguments)
    if isinstance(arguments, Mapping):
        return any(_has_value(a) for a in arguments.values())
    return isinstance(arguments, Value)


def _tensors_of(fake: Any) -> list[torch.Tensor]:
    if isinstance(fake, torch.Tensor):
        return [fake]
    return [t for item in fake for t in _tensors_of(item)] if isinstance(fake, (tuple, list)) else []
