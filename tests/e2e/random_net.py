"""A random ONNX graph under construction: its values, and functions that draw numbers, operands and nodes for it."""
import dataclasses
import math

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

F32, I64, I32, I8, U8, BOOL = (TensorProto.FLOAT, TensorProto.INT64, TensorProto.INT32, TensorProto.INT8,
                               TensorProto.UINT8, TensorProto.BOOL)
NUMPY = {F32: np.float32, I64: np.int64, I32: np.int32, I8: np.int8, U8: np.uint8, BOOL: np.bool_}
MOST_ELEMENTS = 6000


@dataclasses.dataclass
class Value:
    name: str
    type: int
    shape: tuple

    @property
    def rank(self):
        return len(self.shape)

    @property
    def elements(self):
        return math.prod(self.shape)


@dataclasses.dataclass
class Drawn:
    model: onnx.ModelProto
    inputs: dict
    steps: list


class Undrawable(Exception):
    """Raised if a step does not fit the value to which it is applied."""


def need(holds):
    if not holds:
        raise Undrawable


class Net:
    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.opset = int(self.rng.choice([13, 17, 18, 20, 21]))
        self.nodes, self.initializers, self.values, self.inputs = [], [], [], {}
        self.ports, self.steps = [], []
        self.count = 0

    # --- draws ---

    def pick(self, items):
        return items[int(self.rng.integers(len(items)))]

    def chance(self, p):
        return bool(self.rng.random() < p)

    def between(self, low, high):
        need(low <= high)
        return int(self.rng.integers(low, high + 1))

    def shape(self, rank=None, most=7):
        rank = self.between(0, 5) if rank is None else rank
        most = {5: 4, 4: 6}.get(rank, most)
        return tuple(1 if self.chance(0.15) else self.between(1, most) for _ in range(rank))

    def numbers(self, shape, type=F32, low=None, high=None):
        if type == F32:
            values = self.rng.standard_normal(shape) if low is None else self.rng.uniform(low, high, shape)
            return np.asarray(values, np.float32)
        if type == BOOL:
            return np.asarray(self.rng.random(shape) < 0.5)
        info = np.iinfo(NUMPY[type])
        low, high = max(info.min, -9) if low is None else low, min(info.max, 9) if high is None else high
        return np.asarray(self.rng.integers(low, high + 1, shape), NUMPY[type])

    # --- values and nodes ---

    def fresh(self, hint="v"):
        self.count += 1
        return f"{hint}{self.count}"

    def input(self, shape, type=F32, array=None):
        name = self.fresh("in")
        self.inputs[name] = self.numbers(shape, type) if array is None else array
        self.ports.append(helper.make_tensor_value_info(name, type, list(shape)))
        value = Value(name, type, tuple(shape))
        self.values.append(value)
        return value

    def constant(self, array):
        array = np.ascontiguousarray(array).reshape(np.shape(array))
        name = self.fresh("c")
        if self.chance(0.3):
            self.nodes.append(helper.make_node("Constant", [], [name], value=numpy_helper.from_array(array)))
        else:
            self.initializers.append(numpy_helper.from_array(array, name))
        return Value(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)

    def ints(self, values):
        return self.constant(np.asarray(values, np.int64))

    def one(self, value, rank, type=F32):
        """Returns a one-element constant, occasionally of a higher rank than the other operand."""
        most = rank + 2 if self.chance(0.25) else min(rank, 1) if self.chance(0.7) else rank
        return self.constant(np.full((1,) * self.between(0, most), value, NUMPY[type]))

    def scalar(self, value, type=F32):
        """Returns a parameter for which a scalar and a one-element tensor mean the same."""
        return self.constant(np.full((1,) * self.between(0, 1), value, NUMPY[type]))

    def node(self, op, inputs, outputs=1, **attrs):
        """Adds a node and returns its outputs. An input None and an output named '' are left out. ONNX infers shapes."""
        names = [self.fresh("t") for _ in range(outputs)] if isinstance(outputs, int) else outputs
        made = helper.make_node(op, [v.name if v is not None else "" for v in inputs], names,
                                **{k: v for k, v in attrs.items() if v is not None})
        while made.input and made.input[-1] == "":
            del made.input[-1]
        types = {v.name: helper.make_tensor_type_proto(v.type, v.shape) for v in inputs if v is not None}
        known = {t.name: t for t in self.initializers}
        known |= {n.output[0]: n.attribute[0].t for n in self.nodes if n.op_type == "Constant"}
        data = {name: known[name] for name in made.input if name in known}
        schema = onnx.defs.get_schema(op, self.opset, "")
        try:
            inferred = onnx.shape_inference.infer_node_outputs(
                schema, made, types, data, opset_imports=[helper.make_opsetid("", self.opset)])
        except Exception as error:  # the step does not fit
            raise Undrawable(str(error)) from error
        made_values = []
        for name in names:
            if name == "":
                made_values.append(None)
                continue
            need(name in inferred)
            tensor = inferred[name].tensor_type
            need(tensor.HasField("shape") and all(d.HasField("dim_value") for d in tensor.shape.dim))
            value = Value(name, tensor.elem_type, tuple(d.dim_value for d in tensor.shape.dim))
            need(value.rank <= 7 and all(0 <= d <= MOST_ELEMENTS for d in value.shape) and value.elements <= MOST_ELEMENTS)
            made_values.append(value)
        self.nodes.append(made)
        self.values += [v for v in made_values if v is not None]
        return made_values[0] if len(made_values) == 1 else made_values

    def commute(self, op, a, b):
        return self.node(op, [b, a] if self.chance(0.5) else [a, b])

    def like(self, x, type=F32):
        """Returns another operand for x: a value of the same shape, or a constant of any rank that broadcasts."""
        kind = self.between(0, 5)
        others = [v for v in self.values if v.type == type and v.shape == x.shape]
        if kind == 0 and others:
            return self.pick(others)
        if kind == 1:
            return self.one(self.pick([0.5, -2, 1, 3, 0]) if type == F32 else self.pick([1, 2, -1]), x.rank, type)
        if kind == 2 and x.rank >= 2:  # one element per channel
            shape = (x.shape[1],) + (1,) * (x.rank - 2)
            return self.constant(self.numbers(shape if self.chance(0.6) else (1,) + shape, type))
        if kind == 3:
            return self.constant(self.numbers(x.shape[self.between(0, x.rank):] if x.rank else (), type))
        shape = tuple(1 if self.chance(0.4) else d for d in x.shape)
        shape = (1,) * (self.between(1, 2) if self.chance(0.1) else 0) + shape
        return self.constant(self.numbers(shape, type)) if kind == 4 else self.input(shape, type)

    def reshape_to(self, x, shape):
        return self.node("Reshape", [x, self.ints(list(shape))])

    def axes(self, rank, least=1):
        need(rank >= least)
        chosen = sorted(self.rng.permutation(rank)[:self.between(least, rank)].tolist())
        return [a - rank if self.chance(0.3) else a for a in chosen]

    def axis(self, rank):
        need(rank > 0)
        return self.between(-rank, rank - 1)

    def with_axes(self, op, since, x, axes, **attrs):
        """Passes `axes` as an input from opset `since` on and as an attribute before. None leaves the axes out."""
        if self.opset < since:
            return self.node(op, [x], axes=axes, **attrs)
        return self.node(op, [x, None if axes is None else self.ints(axes)], **attrs)

    def model(self):
        used = {name for node in self.nodes for name in node.input}
        answers = [v for v in self.values if v.name not in used and v.name not in self.inputs]
        inner = [v for v in self.values if v.name in used and v.name not in self.inputs]
        if inner and self.chance(0.4):
            answers.append(self.pick(inner))
        need(answers)
        outputs = [helper.make_tensor_value_info(v.name, v.type, list(v.shape)) for v in answers]
        read = [p for p in self.ports if p.name in used]
        need(read)
        graph = helper.make_graph(self.nodes, "random", read, outputs, self.initializers)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=8)
        return Drawn(model, {p.name: self.inputs[p.name] for p in read}, self.steps)
