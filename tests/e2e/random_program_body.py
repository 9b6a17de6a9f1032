"""The graphs of random programs while they are drawn: values with their dimensions, nodes, bodies (random_program.py)."""
import numpy as np
from onnx import TensorProto, helper, numpy_helper

F32, I64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL


class Undrawable(Exception):
    """A step that does not fit the values at hand."""


def need(condition):
    if not condition:
        raise Undrawable


class Value:
    def __init__(self, name, kind, type_, dims, exact=True, least=0):
        self.name = name
        self.kind = kind  # tensor, sequence, optional
        self.type = type_  # of the tensors
        self.dims = dims  # of the tensors: numbers and names; None: the rank is open; for a sequence, None where elements differ
        self.exact = exact  # computed without rounding
        self.least = least  # the least number of elements of a sequence

    @property
    def rank(self):
        return None if self.dims is None else len(self.dims)


class Body:
    """A graph or function while it is drawn."""

    def __init__(self, program, outer=None):
        self.program, self.outer = program, outer
        self.depth = 0 if outer is None else outer.depth + 1
        self.nodes, self.values, self.initializers = [], [], []
        self.names = set()  # dimensions that are sizes only inside this graph
        self.rng, self.opset = program.rng, program.opset
        self.attributes = {}  # of a function

    # --- draws ---

    def chance(self, p):
        return self.rng.random() < p

    def between(self, low, high):
        return int(self.rng.integers(low, high + 1))

    def pick(self, things):
        need(len(things) > 0)
        return things[self.between(0, len(things) - 1)]

    def visible(self):
        return self.values + (self.outer.visible() if self.outer is not None else [])

    def any(self, kind="tensor", fits=lambda v: True):
        own = [v for v in self.values[-12:] if v.kind == kind and fits(v)]
        if own and self.chance(0.6):
            return self.pick(own)
        return self.pick([v for v in self.visible() if v.kind == kind and fits(v)])

    def tensor(self, type_=None, fits=lambda v: True):
        return self.any("tensor", lambda v: (type_ is None or v.type == type_) and v.dims is not None and fits(v))

    # --- nodes and values ---

    def add(self, value):
        self.values.append(value)
        return value

    def raw(self, op, inputs, outputs, **attrs):
        attrs = {k: v for k, v in attrs.items() if v is not None}
        self.nodes.append(helper.make_node(op, [v.name if v else "" for v in inputs], [o.name for o in outputs],
                                           name=self.program.fresh(op.lower()), **attrs))
        return outputs

    def node(self, op, inputs, type_, dims, exact=None, **attrs):
        exact = all(v.exact for v in inputs if v) if exact is None else exact
        made = Value(self.program.fresh("v"), "tensor", type_, dims, exact or type_ != F32)
        self.raw(op, inputs, [made], **attrs)
        return self.add(made)

    def sequence(self, op, inputs, type_, dims, least, exact, **attrs):
        made = Value(self.program.fresh("q"), "sequence", type_, dims, exact, least)
        self.raw(op, inputs, [made], **attrs)
        return self.add(made)

    def constant(self, array):
        """A constant: an initializer or a node. It is not a candidate for other steps."""
        array = np.asarray(array)
        name = self.program.fresh("c")
        value = Value(name, "tensor", helper.np_dtype_to_tensor_dtype(array.dtype), list(array.shape))
        if self.chance(0.5) and not self.program.in_function:
            self.initializers.append(numpy_helper.from_array(array, name))
        else:
            self.nodes.append(helper.make_node("Constant", [], [name], value=numpy_helper.from_array(array, name)))
        return value

    def integer(self, n):
        return self.constant(np.int64(n))

    def ints(self, numbers):
        return self.constant(np.asarray(numbers, np.int64))

    def numbers(self, shape):
        return self.constant(np.asarray(self.rng.integers(-8, 9, shape) / 8, np.float32))

    def dim(self):
        """A size that is known only inside this graph or, in the network itself, not known at all."""
        name = self.program.fresh("d")
        self.names.add(name)
        return name

    def fixed(self, dims):
        """Returns whether the dimensions are the same in every run of this graph within one of the graph around it."""
        return dims is not None and not any(d in self.names for d in dims if d is not None)

    def step(self, choices):
        """Adds one of the steps, (weight, function), and returns its value."""
        for _ in range(40):
            weights = np.array([w for w, _ in choices], float)
            one = choices[int(self.rng.choice(len(choices), p=weights / weights.sum()))][1]
            nodes, values, initializers = len(self.nodes), len(self.values), len(self.initializers)
            try:
                made = one(self)
                self.program.steps.append(one.__name__)
                return made
            except Undrawable:
                del self.nodes[nodes:], self.values[values:], self.initializers[initializers:]
        raise Undrawable

    def graph(self, name, inputs, outputs):
        return helper.make_graph(self.nodes, name, [info(v) for v in inputs], [info(v) for v in outputs], self.initializers)

    def out(self, value):
        """The value as an output of this graph, which is a separate value."""
        if value in self.values and self.chance(0.7):
            return value
        made = Value(self.program.fresh("o"), value.kind, value.type, value.dims, value.exact, value.least)
        self.raw("Identity", [value], [made])
        return made


def info(value, dims="own"):
    dims = value.dims if dims == "own" else dims
    tensor = helper.make_tensor_type_proto(value.type, dims)
    if value.kind == "sequence":
        return helper.make_value_info(value.name, helper.make_sequence_type_proto(tensor))
    if value.kind == "optional":
        return helper.make_value_info(value.name, helper.make_optional_type_proto(tensor))
    return helper.make_value_info(value.name, tensor)
