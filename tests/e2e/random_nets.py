"""Random ONNX graphs of a seed: what random_graphs.py draws.

Shapes of rank 0 to 5, optional inputs left out, constants of every rank, one element and negative values, and the
patterns that passes look for, with the operands of commutative nodes in either order. draw(seed) answers a Drawn: a
model, its inputs by name, and what it was made of.
"""
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
    """A step that does not fit the value it was tried on."""


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
        """A constant of one element; now and then of a rank beyond what it meets."""
        most = rank + 2 if self.chance(0.25) else min(rank, 1) if self.chance(0.7) else rank
        return self.constant(np.full((1,) * self.between(0, most), value, NUMPY[type]))

    def scalar(self, value, type=F32):
        """A parameter for which a scalar and a tensor of one element are one thing."""
        return self.constant(np.full((1,) * self.between(0, 1), value, NUMPY[type]))

    def node(self, op, inputs, outputs=1, **attrs):
        """The outputs of a node; an input of None is left out, an output name of '' too. Shapes by ONNX's inference."""
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
        """An operand beside x: another value of its shape, or a constant that broadcasts, of any rank."""
        kind = self.between(0, 5)
        others = [v for v in self.values if v.type == type and v.shape == x.shape]
        if kind == 0 and others:
            return self.pick(others)
        if kind == 1:
            return self.one(self.pick([0.5, -2, 1, 3, 0]) if type == F32 else self.pick([1, 2, -1]), x.rank, type)
        if kind == 2 and x.rank >= 2:  # of channels
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
        """`axes` as an input from opset `since` on, an attribute before; None leaves them out."""
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


# --- steps: each makes nodes from a value ---

def unary(net, x):
    op = net.pick(["Relu", "Sigmoid", "Tanh", "Abs", "Neg", "Erf", "Softplus", "Softsign", "Identity", "LeakyRelu", "Elu",
                   "Selu", "HardSigmoid", "HardSwish", "Celu", "ThresholdedRelu", "Sin", "Cos", "Atan"])
    need(op != "HardSwish" or net.opset >= 14)
    return net.node(op, [x], alpha=net.pick([None, 0.3]) if op in ("LeakyRelu", "Elu", "HardSigmoid") else None)


def guarded_unary(net, x):
    kind = net.between(0, 3)
    if kind == 0:
        return net.node("Exp", [net.node("Tanh", [x])])
    if kind == 3:
        return net.node("Reciprocal", [net.commute("Add", net.node("Abs", [x]), net.one(1.5, x.rank))])
    shifted = net.commute("Add", net.node("Abs", [x]), net.one(0.5, x.rank))
    return net.node(["Log", "Sqrt"][kind - 1], [shifted])


def binary(net, x):
    op = net.pick(["Add", "Sub", "Mul", "Max", "Min", "Add", "Mul"])
    return net.commute(op, x, net.like(x))


def arithmetic_chain(net, x):
    """Factors and summands of constants, those that do nothing among them."""
    for _ in range(net.between(1, 4)):
        op = net.pick(["Add", "Mul", "Sub", "Div"])
        c = net.one(net.pick([1, 0, 2, -0.5] if op in ("Add", "Sub") else [1, 2, -0.5]), x.rank)
        if op != "Div" and x.rank >= 2 and net.chance(0.3):
            c = net.constant(net.numbers((x.shape[1],) + (1,) * (x.rank - 2)))
        x = net.node(op, [x, c]) if op in ("Sub", "Div") and net.chance(0.8) else \
            net.node("Sub", [c, x]) if op == "Sub" else net.node("Div", [x, c]) if op == "Div" else net.commute(op, x, c)
    return x


def power(net, x):
    return net.node("Pow", [x, net.one(net.pick([2, 1, 3]), x.rank, net.pick([F32, I64]))])


def clip(net, x):
    low = net.constant(np.float32(net.pick([0, -1, -0.5]))) if net.chance(0.6) else None
    high = net.constant(np.float32(net.pick([6, 1, 0.5]))) if net.chance(0.6) else None
    return net.node("Clip", [x, low, high])


def swish(net, x):
    return net.commute("Mul", x, net.node("Sigmoid", [x]))


def hard_swish(net, x):
    if net.chance(0.25):
        return net.commute("Mul", x, net.node("HardSigmoid", [x], alpha=1 / 6, beta=0.5))
    high = net.constant(np.float32(6)) if net.chance(0.9) else None
    low = net.constant(np.float32(0)) if net.chance(0.9) else None
    clipped = net.node("Clip", [net.commute("Add", x, net.one(3, x.rank)), low, high])
    six = net.one(6, x.rank)
    if net.chance(0.5):
        return net.node("Div", [net.commute("Mul", x, clipped), six])
    return net.commute("Mul", x, net.node("Div", [clipped, six]))


def gelu(net, x):
    half, one = net.one(0.5, x.rank), net.one(1, x.rank)
    if net.chance(0.5):
        inner = net.node("Div", [x, net.one(math.sqrt(2), x.rank)])
    else:
        inner = net.commute("Mul", x, net.one(1 / math.sqrt(2), x.rank))
    term = net.commute("Add", net.node("Erf", [inner]), one)
    kind = net.between(0, 2)
    if kind == 0:
        return net.commute("Mul", net.commute("Mul", x, term), half)
    if kind == 1:
        return net.commute("Mul", net.commute("Mul", x, half), term)
    return net.commute("Mul", x, net.commute("Mul", term, half))


def last_mean(net, x, keep=1):
    return net.with_axes("ReduceMean", 18, x, [net.pick([-1, x.rank - 1])], keepdims=keep)


def row_vector(net, x):
    lead = net.between(0, x.rank + 1) if net.chance(0.4) else 0
    return net.constant(net.numbers((1,) * lead + (x.shape[-1],)))


def square(net, x):
    if net.chance(0.5):
        return net.node("Pow", [x, net.one(2, x.rank)])
    return net.node("Mul", [x, x])


def root_mean_square(net, x):
    return net.node("Sqrt", [net.commute("Add", last_mean(net, square(net, x)), net.one(net.pick([1e-2, 1e-5]), x.rank))])


def layer_norm(net, x):
    need(x.rank >= 1 and x.shape[-1] > 1)
    centred = net.node("Sub", [x, last_mean(net, x)])
    y = net.node("Div", [centred, root_mean_square(net, centred)])
    if net.chance(0.8):
        y = net.commute("Mul", y, row_vector(net, x))
    return net.commute("Add", y, row_vector(net, x)) if net.chance(0.8) else y


def rms_norm(net, x):
    need(x.rank >= 1)
    scale = row_vector(net, x)
    over = net.commute("Mul", x, scale) if net.chance(0.3) else x
    root = root_mean_square(net, x)
    kind = net.between(0, 2)
    if kind == 0:
        y = net.node("Div", [over, root])
    else:
        inverse = net.node("Reciprocal", [root]) if kind == 1 else net.node("Div", [net.one(1, x.rank), root])
        y = net.commute("Mul", over, inverse)
    return net.commute("Mul", y, scale) if over is x and net.chance(0.8) else y


def group_norm(net, x):
    need(x.rank >= 3 and x.shape[1] % 2 == 0 and x.elements // (x.shape[0] * 2) > 1)
    groups = net.reshape_to(x, (x.shape[0], 2, -1))
    y = net.node("InstanceNormalization", [groups, net.constant(net.numbers((2,))), net.constant(net.numbers((2,)))])
    y = net.reshape_to(y, x.shape)
    channels = (x.shape[1],) + (1,) * (x.rank - 2)
    for op in ("Mul", "Add"):
        if net.chance(0.7):
            y = net.commute(op, y, net.constant(net.numbers(channels)) if net.chance(0.7) else net.one(1.5, x.rank))
    return y


def norm_op(net, x):
    kind = net.between(0, 3)
    if kind == 0:
        need(net.opset >= 17 and x.rank >= 1)
        axis = net.axis(x.rank)
        shape = x.shape[axis:] if axis < 0 else x.shape[axis:]
        need(math.prod(shape) > 1)
        bias = net.constant(net.numbers(shape)) if net.chance(0.6) else None
        return net.node("LayerNormalization", [x, net.constant(net.numbers(shape)), bias], axis=axis)
    need(x.rank >= 3 and x.elements > x.shape[0] * x.shape[1])
    c = x.shape[1]
    vector = lambda count: net.constant(net.numbers((count,)))  # noqa: E731
    if kind == 1:
        return net.node("InstanceNormalization", [x, vector(c), vector(c)])
    if kind == 2:
        return net.node("BatchNormalization", [x, vector(c), vector(c), vector(c),
                                               net.constant(net.numbers((c,), F32, 0.5, 2))])
    need(net.opset >= 21 and c % 2 == 0)
    return net.node("GroupNormalization", [x, vector(c), vector(c)], num_groups=2)


def attention(net, x):
    need(x.rank >= 2 and x.shape[-1] > 0)
    b, keys, width = x.shape[:-2], net.between(1, 5), x.shape[-1]
    q = x
    k = net.constant(net.numbers(b + (keys, width))) if net.chance(0.4) else net.input(b + (keys, width))
    v = net.input(b + (keys, net.between(1, 5)))
    factor = lambda t: net.commute("Mul", t, net.one(0.5, t.rank))  # noqa: E731
    if net.chance(0.3):
        q = factor(q)
    perm = list(range(x.rank))
    perm[-1], perm[-2] = perm[-2], perm[-1]
    k = net.node("Transpose", [k], perm=perm)
    scores = net.node("MatMul", [q, k])
    if net.chance(0.6):
        scores = factor(scores) if net.chance(0.5) else net.node("Div", [scores, net.one(2, scores.rank)])
    for _ in range(net.between(0, 2)):
        mask = tuple(1 if net.chance(0.5) else d for d in scores.shape[net.between(0, scores.rank):])
        if net.chance(0.7):
            scores = net.commute("Add", scores, net.constant(net.numbers(mask)) if net.chance(0.5) else net.input(mask))
        else:
            condition = net.input(mask, BOOL)
            scores = net.node("Where", [condition, scores, net.one(net.pick([-1e30, -1e9, 0.5]), scores.rank)])
    shares = net.node("Softmax", [scores], axis=net.pick([-1, scores.rank - 1]))
    if shares.shape[:-2] != b:
        v = net.input(shares.shape[:-2] + v.shape[-2:])
    return net.node("MatMul", [shares, v])


def conv_attrs(net, spatial, kernel):
    n = len(spatial)
    attrs = {"strides": [net.between(1, 2) for _ in range(n)] if net.chance(0.5) else None,
             "dilations": [net.between(1, 2) for _ in range(n)] if net.chance(0.3) else None}
    mode = net.between(0, 3)
    if mode == 1:
        attrs["pads"] = [net.between(0, kernel[i % n] // 2 + 1) for i in range(2 * n)]
    elif mode == 2:
        attrs["auto_pad"] = net.pick(["SAME_UPPER", "SAME_LOWER", "VALID"])
    return attrs


def image_of(net, x):
    """x where it is a signal, image or volume; else one made of it."""
    need(x.elements > 0)
    if 3 <= x.rank <= 5 and x.shape[0] <= 3:
        return x
    rank = net.between(3, 5)
    need(x.elements <= 800)
    dims = [1] * rank
    dims[1], dims[-1] = (2, x.elements // 2) if x.elements % 2 == 0 else (1, x.elements)
    return net.reshape_to(x, dims)


def conv(net, x):
    x = image_of(net, x)
    channels, spatial = x.shape[1], x.shape[2:]
    groups = channels if net.chance(0.25) else 2 if channels % 2 == 0 and net.chance(0.3) else 1
    filters = groups * net.between(1, 3)
    kernel = tuple(net.between(1, 3) for _ in spatial)
    w = net.numbers((filters, channels // groups) + kernel)
    weights = net.constant(w) if net.chance(0.9) else net.input(w.shape)
    kind = net.between(0, 2)
    bias = None if kind == 0 else net.constant(net.numbers((filters,))) if kind == 1 else \
        net.constant(net.numbers((filters,))) if net.chance(0.7) else net.input((filters,))
    attrs = conv_attrs(net, spatial, kernel)
    if attrs.get("auto_pad", "VALID") != "VALID":
        attrs["dilations"] = None
    return net.node("Conv", [x, weights, bias], group=groups, kernel_shape=list(kernel) if net.chance(0.5) else None,
                    **attrs)


def conv_scaled(net, x):
    y = conv(net, x)
    channels = (y.shape[1],) + (1,) * (y.rank - 2)
    for _ in range(net.between(1, 3)):
        op = net.pick(["Mul", "Add", "Sub", "BatchNormalization"])
        if op == "BatchNormalization":
            vectors = [net.constant(net.numbers((y.shape[1],))) for _ in range(3)]
            y = net.node(op, [y, *vectors, net.constant(net.numbers((y.shape[1],), F32, 0.5, 2))])
            continue
        c = net.constant(net.numbers(channels if net.chance(0.7) else (1,) + channels)) if net.chance(0.6) else \
            net.one(net.pick([2, -0.5, 1, 0]), y.rank)
        y = net.commute(op, y, c) if op != "Sub" else net.node(op, [y, c] if net.chance(0.8) else [c, y])
    return y


def conv_then(net, x):
    """What passes carry over signals, images and volumes between convolutions."""
    y = conv(net, x)
    for _ in range(net.between(1, 3)):
        y = net.pick([unary, slice_, split, pad, reduce, binary, clip, concat, norm_op, arithmetic_chain, pool, transpose,
                      softmax, resize])(net, y)
    return conv(net, y) if net.chance(0.7) else y


def conv_transpose(net, x):
    x = image_of(net, x)
    n = x.rank - 2
    groups = 2 if x.shape[1] % 2 == 0 and net.chance(0.2) else 1
    w = net.numbers((x.shape[1], net.between(1, 3)) + tuple(net.between(1, 3) for _ in range(n)))
    bias = net.constant(net.numbers((w.shape[1] * groups,))) if net.chance(0.5) else None
    strides = [net.between(1, 2) for _ in range(n)] if net.chance(0.6) else None
    pads = [net.between(0, 1) for _ in range(2 * n)] if net.chance(0.3) else None
    dilations = [net.between(1, 2) for _ in range(n)] if net.chance(0.2) else None
    return net.node("ConvTranspose", [x, net.constant(w), bias], group=groups, strides=strides, pads=pads,
                    dilations=dilations)


def pool(net, x):
    x = image_of(net, x)
    spatial = x.shape[2:]
    op = net.pick(["MaxPool", "AveragePool", "MaxPool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool", "LpPool",
                   "LRN"])
    if op.startswith("Global"):
        return net.node(op, [x])
    if op == "LRN":
        return net.node(op, [x], size=net.pick([1, 3]))
    kernel = [net.between(1, min(3, s)) for s in spatial]
    attrs = {"kernel_shape": kernel, "strides": [net.between(1, 2) for _ in spatial] if net.chance(0.5) else None}
    if net.chance(0.4):
        attrs["pads"] = [net.between(0, kernel[i % len(kernel)] - 1) for i in range(2 * len(kernel))]
    if op == "MaxPool" and net.chance(0.2):
        return net.node(op, [x], 2, **attrs)[0]
    if op == "AveragePool" and net.chance(0.5):
        attrs["count_include_pad"] = 1
    return net.node(op, [x], **attrs)


def pad(net, x):
    need(x.rank >= 1)
    mode = net.pick(["constant", "constant", "constant", "edge", "reflect", None])
    axes = [net.between(0, x.rank - 1)] if net.opset >= 18 and net.chance(0.3) else None
    covered = axes or list(range(x.rank))
    most = lambda a: min(2, x.shape[a] - 1) if mode == "reflect" else 2  # noqa: E731
    begin = [net.between(0, most(a)) if a >= min(2, x.rank - 1) or net.chance(0.2) else 0 for a in covered]
    end = [net.between(0, most(a)) if a >= min(2, x.rank - 1) or net.chance(0.2) else 0 for a in covered]
    if mode in ("constant", None) and net.chance(0.15):
        begin[-1] = -1 if x.shape[covered[-1]] > 2 else 0
    value = net.constant(np.float32(net.pick([0, -1, 0.5, 0]))) if mode in ("constant", None) and net.chance(0.5) else None
    return net.node("Pad", [x, net.ints(begin + end), value, net.ints(axes) if axes else None], mode=mode)


def pad_then_window(net, x):
    x = image_of(net, x)
    if net.chance(0.4):
        x = net.node("Relu", [x])
    y = pad(net, x)
    return net.pick([conv, pool])(net, y)


def slice_(net, x):
    need(x.rank >= 1)
    with_axes = net.chance(0.6)
    axes = net.axes(x.rank) if with_axes else None
    count = len(axes) if with_axes else net.between(1, x.rank)
    starts, ends, steps = [], [], []
    for k in range(count):
        extent = x.shape[axes[k] if with_axes else k]
        step = net.pick([1, 1, 2, -1, -2]) if net.chance(0.4) else 1
        low = net.between(0, max(0, extent - 1)) if net.chance(0.5) else 0
        start, end = (low, net.pick([extent, extent - 1 if extent - 1 > low else extent, 1 << 40, extent]))
        if step < 0:
            start, end = net.pick([-1, 1 << 40]), net.pick([-(1 << 40), 0 if extent > 1 else -(1 << 40)])
        starts.append(start if start < 1 << 39 or net.chance(0.5) else extent)
        ends.append(end)
        steps.append(step)
    all_one = all(s == 1 for s in steps)
    given = None if all_one and net.chance(0.5) else net.ints(steps)
    return net.node("Slice", [x, net.ints(starts), net.ints(ends), net.ints(axes) if with_axes else None, given])


def split(net, x):
    need(x.rank >= 1)
    axis = net.axis(x.rank)
    extent = x.shape[axis]
    need(extent >= 2)
    parts = net.between(2, min(4, extent))
    use = net.between(0, 1)
    if use == 0:  # sizes
        cuts = sorted(net.rng.permutation(extent - 1)[:parts - 1].tolist())
        bounds = [0] + [c + 1 for c in cuts] + [extent]
        given, attrs = net.ints([b - a for a, b in zip(bounds, bounds[1:])]), {}
    else:
        given, attrs = None, {}
        if net.opset >= 18:
            attrs["num_outputs"] = parts
            need(extent - (parts - 1) * -(-extent // parts) > 0)
        else:
            need(extent % parts == 0)
    names = [net.fresh("s") for _ in range(parts)]
    if net.chance(0.2):  # parts that nobody wants
        names[net.between(0, parts - 1)] = ""
    made = [v for v in net.node("Split", [x, given], names, axis=axis if axis != 0 or net.chance(0.5) else None, **attrs)
            if v is not None]
    need(made)
    if len(made) > 1 and net.chance(0.5):
        return net.node("Concat", made if net.chance(0.7) else made[::-1], axis=axis)
    return net.pick(made)


def concat(net, x):
    axis = net.axis(x.rank)
    others = [v for v in net.values if v.type == x.type and v.shape == x.shape]
    parts = [x] + [net.pick(others) for _ in range(net.between(0, 2))]
    if net.chance(0.4):
        shape = list(x.shape)
        shape[axis] = net.between(1, 3)
        parts.append(net.constant(net.numbers(shape, x.type)))
    net.rng.shuffle(parts)
    return net.node("Concat", parts, axis=axis)


def transpose(net, x):
    perm = net.rng.permutation(x.rank).tolist() if net.chance(0.8) and x.rank else None
    y = net.node("Transpose", [x], perm=perm)
    return net.node("Transpose", [y], perm=net.rng.permutation(x.rank).tolist()) if net.chance(0.3) and x.rank else y


def reshape(net, x):
    kind = net.between(0, 5)
    if kind == 0:
        return net.reshape_to(x, [-1])
    if kind == 1:
        at = net.between(0, x.rank)
        axes = [at - x.rank - 1 if net.chance(0.4) else at]
        return net.with_axes("Unsqueeze", 13, x, axes)
    if kind == 2:
        ones = [i for i, d in enumerate(x.shape) if d == 1]
        need(ones)
        return net.with_axes("Squeeze", 13, x, None if net.chance(0.4) else [net.pick(ones)])
    if kind == 3:
        need(x.rank >= 1)
        return net.node("Flatten", [x], axis=net.pick([None, net.between(0, x.rank)]))
    if kind == 4:
        need(x.rank >= 2)
        return net.reshape_to(x, [0, -1] if x.elements else x.shape)
    dims = list(x.shape)
    net.rng.shuffle(dims)
    return net.reshape_to(x, dims + [1] * net.between(0, 5 - len(dims)) if len(dims) < 5 else dims)


def channel_shuffle(net, x):
    need(x.rank == 4 and x.shape[1] % 2 == 0)
    n, c, h, w = x.shape
    y = net.node("Transpose", [net.reshape_to(x, [n, 2, c // 2, h, w])], perm=[0, 2, 1, 3, 4])
    return net.reshape_to(y, x.shape)


def expand(net, x):
    if net.chance(0.5):
        need(x.rank >= 1)
        return net.node("Tile", [x, net.ints([net.between(1, 2) for _ in x.shape])])
    shape = [net.pick([1, d, 3]) if d == 1 else net.pick([1, d]) for d in x.shape]
    return net.node("Expand", [x, net.ints([1] * net.between(0, 1) + shape)])


def gather(net, x):
    axis = net.axis(x.rank)
    extent = x.shape[axis]
    need(extent > 0)
    shape = net.pick([(), (1,), (3,), (2, 2), (1, 1)])
    array = net.numbers(shape, I64, -extent, extent - 1)
    indices = net.constant(array) if net.chance(0.6) else net.input(shape, I64, array)
    return net.node("Gather", [x, indices], axis=axis)


def gather_elements(net, x):
    axis = net.axis(x.rank)
    shape = list(x.shape)
    shape[axis] = net.between(1, 4)
    array = net.numbers(shape, I64, -x.shape[axis], x.shape[axis] - 1)
    if net.chance(0.5):
        return net.node("GatherElements", [x, net.constant(array)], axis=axis)
    index = net.numbers((net.between(1, 3), 1), I64, 0, x.shape[0] - 1)
    if net.chance(0.5):
        return net.node("GatherND", [x, net.constant(index)])
    updates = net.constant(net.numbers((len(set(index[:, 0].tolist())),) + x.shape[1:]))
    return net.node("ScatterND", [x, net.constant(np.unique(index)[:, None]), updates])


def reduce(net, x):
    op = net.pick(["ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin", "ReduceL1", "ReduceL2", "ReduceSumSquare",
                   "ReduceLogSumExp", "ReduceProd"])
    since = 13 if op == "ReduceSum" else 18
    axes = None if net.chance(0.25) or x.rank == 0 else net.axes(x.rank)
    keep = net.pick([None, 0, 1])
    noop = net.pick([None, 0, 1]) if axes is None and net.opset >= since else None
    need(not (noop == 1 and op in ("ReduceL1", "ReduceL2", "ReduceSumSquare", "ReduceLogSumExp")))  # peers disagree
    if op == "ReduceProd":
        x = net.node("Tanh", [x])
    return net.with_axes(op, since, x, axes, keepdims=keep, noop_with_empty_axes=noop)


def softmax(net, x):
    return net.node(net.pick(["Softmax", "Softmax", "LogSoftmax"]), [x],
                    axis=None if net.chance(0.3) else net.axis(x.rank))


def matmul(net, x):
    need(x.rank >= 1)
    k, n = x.shape[-1], net.between(1, 6)
    lead = tuple(1 if net.chance(0.5) else d for d in x.shape[:-2][net.between(0, max(0, x.rank - 2)):])
    shape = net.pick([(k, n), lead + (k, n), (k,)])
    return net.node("MatMul", [x, net.constant(net.numbers(shape)) if net.chance(0.7) else net.input(shape)])


def gemm(net, x):
    if x.rank != 2:
        need(x.rank >= 1)
        x = net.node("Flatten", [x])
    need(x.elements)
    ta, tb = net.between(0, 1), net.between(0, 1)
    m, k = x.shape[::-1] if ta else x.shape
    n = net.between(1, 5)
    c = net.pick([None, (n,), (1, n), (m, 1), (m, n), (), (1,), (1, 1)])
    b = (n, k) if tb else (k, n)
    return net.node("Gemm", [x, net.constant(net.numbers(b)) if net.chance(0.7) else net.input(b),
                             None if c is None else net.constant(net.numbers(c))],
                    transA=ta, transB=tb, alpha=net.pick([None, 0.5]), beta=net.pick([None, 2.0]))


def where(net, x):
    condition = net.input(tuple(1 if net.chance(0.4) else d for d in x.shape), BOOL) if net.chance(0.5) else \
        net.node(net.pick(["Greater", "Less", "GreaterOrEqual", "Equal"]), [x, net.one(0.1, x.rank)])
    pair = [x, net.like(x)]
    if net.chance(0.5):
        pair.reverse()
    return net.node("Where", [condition] + pair)


def resize(net, x):
    need(3 <= x.rank <= 5)
    sizes = list(x.shape[:2]) + [net.between(1, 2 * s) for s in x.shape[2:]]
    mode = net.pick(["nearest", "linear"])
    attrs = {"mode": mode, "coordinate_transformation_mode": net.pick(["asymmetric", "half_pixel", "align_corners"])}
    if mode == "nearest":
        attrs["nearest_mode"], attrs["coordinate_transformation_mode"] = "floor", "asymmetric"
    if net.chance(0.5):
        return net.node("Resize", [x, None, None, net.ints(sizes)], **attrs)
    scales = net.constant(np.asarray([1, 1] + [net.pick([1, 2]) for _ in x.shape[2:]], np.float32))
    return net.node("Resize", [x, None, scales], **attrs)


def cumulate(net, x):
    return net.node("CumSum", [x, net.scalar(net.axis(x.rank), I64)], exclusive=net.between(0, 1),
                    reverse=net.between(0, 1))


def top_k(net, x):
    axis = net.axis(x.rank)
    k = net.constant(np.asarray([net.between(1, x.shape[axis])], np.int64))
    values, indices = net.node("TopK", [x, k], 2, axis=axis, largest=net.between(0, 1))
    return values if net.chance(0.8) else net.node("Cast", [indices], to=F32)


def arg(net, x):
    y = net.node(net.pick(["ArgMax", "ArgMin"]), [x], axis=net.axis(x.rank), keepdims=net.between(0, 1))
    return net.node("Cast", [y], to=F32)


def one_hot(net, x):
    depth = net.between(1, 5)
    indices = net.input(x.shape[:3], I64, net.numbers(x.shape[:3], I64, -depth - 1, depth + 1))
    return net.node("OneHot", [indices, net.scalar(depth, I64), net.constant(np.asarray([-0.5, 2], np.float32))],
                    axis=net.pick([None, 0, -1]))


def triangle(net, x):
    need(x.rank >= 2 and net.opset >= 14)
    k = net.scalar(net.between(-2, 2), I64) if net.chance(0.6) else None
    return net.node("Trilu", [x, k], upper=net.pick([None, 0, 1]))


def depth_space(net, x):
    need(x.rank == 4)
    if net.chance(0.5):
        need(x.shape[1] % 4 == 0)
        return net.node("DepthToSpace", [x], blocksize=2, mode=net.pick([None, "CRD", "DCR"]))
    need(x.shape[2] % 2 == 0 and x.shape[3] % 2 == 0)
    return net.node("SpaceToDepth", [x], blocksize=2)


def prelu(net, x):
    shape = net.pick([(1,) if x.rank else (), (x.shape[1],) + (1,) * (x.rank - 2) if x.rank >= 2 else (), x.shape])
    return net.node("PRelu", [x, net.constant(net.numbers(shape))])


def variadic(net, x):
    return net.node(net.pick(["Sum", "Mean", "Max", "Min"]), [x] + [net.like(x) for _ in range(net.between(0, 2))])


def dropout(net, x):
    ratio = net.scalar(0.3) if net.chance(0.5) else None
    need(ratio is None or ratio.rank == 0)
    return net.node("Dropout", [x, ratio])


def step(net, low=0.03, high=0.15):
    """A scale; no round number, whose products would meet sums of integers in ties."""
    return net.scalar(np.float32(net.rng.uniform(low, high)))


def zero_point(net, type, scale_shape):
    shape = scale_shape if net.chance(0.6) else () if scale_shape == (1,) else (1,)
    return net.constant(np.full(shape, net.between(0, 9), NUMPY[type]))


def quantised(net, x, type):
    scale = step(net)
    zero = zero_point(net, type, scale.shape) if type != U8 or net.chance(0.8) else None
    return net.node("QuantizeLinear", [x, scale, zero]), scale, zero


def quantise(net, x):
    type = net.pick([U8, I8])
    q, scale, zero = quantised(net, x, type)
    if net.chance(0.3):
        scale = step(net)
        zero = zero_point(net, type, scale.shape) if net.chance(0.7) else None
    return net.node("DequantizeLinear", [q, scale, zero])


def quantise_axis(net, x):
    need(x.rank >= 1)
    axis = net.axis(x.rank)
    scale = net.constant(net.numbers((x.shape[axis],), F32, 0.03, 0.2))
    zero = net.constant(net.numbers(scale.shape, I8)) if net.chance(0.6) else None
    if zero is None:
        zero = net.constant(np.zeros(scale.shape, np.int8))
    q = net.node("QuantizeLinear", [x, scale, zero], axis=axis)
    return net.node("DequantizeLinear", [q, scale, zero if net.chance(0.7) else None], axis=axis)


def one_zero(net, type):
    return net.scalar(net.between(0, 5), type)


def quantised_matmul(net, x):
    need(x.rank >= 2)
    q, scale, zero = quantised(net, x, U8)
    n = net.between(1, 5)
    w = net.constant(net.numbers((x.shape[-1], n), I8))
    if net.chance(0.5):
        y = net.node("MatMulInteger", [q, w, zero if net.chance(0.7) else None, one_zero(net, I8) if net.chance(0.6) else None])
        return net.node("Cast", [y], to=F32)
    y_scale = step(net, 0.3, 0.6)
    y = net.node("QLinearMatMul", [q, scale, zero or one_zero(net, U8), w, step(net), one_zero(net, I8),
                                   y_scale, one_zero(net, U8)])
    return net.node("DequantizeLinear", [y, y_scale, one_zero(net, U8)])


def quantised_conv(net, x):
    x = image_of(net, x)
    q, scale, zero = quantised(net, x, U8)
    filters = net.between(1, 4)
    w = net.constant(net.numbers((filters, x.shape[1]) + tuple(net.between(1, min(3, s)) for s in x.shape[2:]), I8))
    if net.chance(0.4):
        y = net.node("ConvInteger", [q, w, zero if net.chance(0.7) else None, one_zero(net, I8) if net.chance(0.5) else None])
        return net.node("Cast", [y], to=F32)
    per_filter = net.chance(0.3)
    w_scale = net.constant(net.numbers((filters,), F32, 0.05, 0.2)) if per_filter else step(net)
    w_zero = net.constant(np.zeros((filters,), np.int8)) if per_filter else net.scalar(0, I8)
    bias = net.constant(net.numbers((filters,), I32, -50, 50)) if net.chance(0.5) else None
    y_scale = step(net, 0.3, 0.6)
    y = net.node("QLinearConv", [q, scale, zero or one_zero(net, U8), w, w_scale, w_zero, y_scale, one_zero(net, U8), bias])
    return net.node("DequantizeLinear", [y, y_scale, one_zero(net, U8)])


def dynamic_quantise(net, x):
    need(x.elements > 1)
    q, scale, zero = net.node("DynamicQuantizeLinear", [x], 3)
    return net.node("DequantizeLinear", [q, scale, zero])


def recurrent(net, x):
    if x.rank != 3:
        need(0 < x.elements <= 120)
        x = net.reshape_to(x, [1, 1, -1] if net.chance(0.5) or x.elements % 2 else [2, 1, -1])
    steps, batch, width = x.shape
    need(width > 0 and steps > 0)
    op, gates = net.pick([("LSTM", 4), ("GRU", 3), ("RNN", 1)])
    hidden, direction = net.between(1, 4), net.pick([None, "forward", "reverse", "bidirectional"])
    d = 2 if direction == "bidirectional" else 1
    maybe = lambda shape, p=0.5: net.constant(net.numbers(shape)) if net.chance(p) else None  # noqa: E731
    inputs = [x, net.constant(net.numbers((d, gates * hidden, width))), net.constant(net.numbers((d, gates * hidden, hidden))),
              maybe((d, 2 * gates * hidden)), None, maybe((d, batch, hidden))]
    if op == "LSTM":
        inputs += [maybe((d, batch, hidden)), maybe((d, 3 * hidden), 0.3)]
    attrs = {"linear_before_reset": net.pick([None, 0, 1])} if op == "GRU" else {}
    count = net.between(1, 3 if op == "LSTM" else 2)
    made = net.node(op, inputs, [net.fresh("r") for _ in range(count)], hidden_size=hidden, direction=direction, **attrs)
    return made[0] if isinstance(made, list) else made


def einsum(net, x):
    letters = "abcde"[:x.rank]
    need(x.rank >= 1)
    out = list(letters)
    net.rng.shuffle(out)
    out = "".join(out[:net.between(0, len(out))])
    return net.node("Einsum", [x], equation=f"{letters}->{out}")


def shape_arithmetic(net, x):
    """A reshape by what Shape says, as exporters write it."""
    need(x.rank >= 2)
    shape = net.node("Shape", [x])
    first = net.node("Gather", [shape, net.constant(np.asarray(0, np.int64))], axis=0)
    first = net.with_axes("Unsqueeze", 13, first, [0])
    target = net.node("Concat", [first, net.ints([-1])], axis=0)
    made = helper.make_node("Reshape", [x.name, target.name], [net.fresh("t")])
    net.nodes.append(made)
    value = Value(made.output[0], x.type, (x.shape[0], x.elements // x.shape[0]))
    net.values = [v for v in net.values if v.name not in (shape.name, first.name, target.name)] + [value]
    return value


STEPS = {
    unary: 4, guarded_unary: 2, binary: 4, arithmetic_chain: 3, power: 1, clip: 2, swish: 2, hard_swish: 3, gelu: 4,
    layer_norm: 3, rms_norm: 3, group_norm: 2, norm_op: 2, attention: 4, conv: 3, conv_scaled: 3, conv_then: 5,
    conv_transpose: 2, pool: 2, pad: 2, pad_then_window: 3, slice_: 3, split: 3, concat: 2, transpose: 2, reshape: 3,
    channel_shuffle: 1, expand: 2, gather: 3, gather_elements: 2, reduce: 3, softmax: 2, matmul: 3, gemm: 2, where: 2,
    resize: 2, cumulate: 1, top_k: 1, arg: 1, one_hot: 1, triangle: 1, depth_space: 1, prelu: 1, variadic: 1, dropout: 1,
    quantise: 2, quantise_axis: 1, quantised_matmul: 1, quantised_conv: 1, dynamic_quantise: 1, recurrent: 1, einsum: 1,
    shape_arithmetic: 1,
}


def try_step(net, step, x):
    """The value that a step makes; None, and nothing changed, where it does not fit."""
    state = [list(part) for part in (net.nodes, net.initializers, net.values, net.ports)], dict(net.inputs)
    try:
        made = step(net, x)
        need(made.type == F32 and made.elements > 0)
        return made
    except Undrawable:
        (net.nodes, net.initializers, net.values, net.ports), net.inputs = state
        return None


def draw(seed):
    net = Net(seed)
    x = net.input(net.shape())
    for _ in range(net.between(0, 2)):
        net.input(net.shape() if net.chance(0.6) else x.shape)
    steps, weights = list(STEPS), np.asarray(list(STEPS.values()), float)
    wanted = net.between(1, 7)
    for _ in range(60):
        if len(net.steps) == wanted:
            break
        step = steps[int(net.rng.choice(len(steps), p=weights / weights.sum()))]
        floats = [v for v in net.values if v.type == F32 and v.elements > 0]
        x = floats[-1] if net.chance(0.75) else net.pick(floats)
        if try_step(net, step, x) is not None:
            net.steps.append(step.__name__.strip("_"))
    if not net.steps:
        net.node("Identity", [x])
    return net.model()
