"""Generates ONNX models of any number of nodes for tests. Each function returns a ModelProto."""

import numpy as np
import onnx
from onnx import TensorProto, helper

OPSET = 17
SHAPE = [1, 8]


def value(name, shape=None, kind=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, kind, SHAPE if shape is None else shape)


def model(nodes, inputs, outputs, initializers=(), functions=(), opset=OPSET):
    graph = helper.make_graph(nodes, "made", inputs, outputs, list(initializers))
    imports = [helper.make_opsetid("", opset)] + [helper.make_opsetid(d, 1) for d in {f.domain for f in functions}]
    return helper.make_model(graph, opset_imports=imports, ir_version=9, functions=list(functions))


def chain(n, operators=("Neg", "Sin")):
    """A chain of n operators with one operand each."""
    nodes = [helper.make_node(operators[i % len(operators)], [f"v{i}"], [f"v{i + 1}"]) for i in range(n)]
    return model(nodes, [value("v0")], [value(f"v{n}")])


def add_chain(n):
    """A chain of n sums, each of the previous sum and the input."""
    nodes = [helper.make_node("Add", [f"v{i}" if i else "x", "x"], [f"v{i + 1}"]) for i in range(n)]
    return model(nodes, [value("x")], [value(f"v{n}")])


def long_edges(n):
    """A chain whose i-th node also reads a much earlier value."""
    nodes = [helper.make_node("Sin", ["x"], ["v0"])]
    for i in range(n - 1):
        nodes.append(helper.make_node("Add", [f"v{i}", f"v{i // 2}"], [f"v{i + 1}"]))
    return model(nodes, [value("x")], [value(f"v{n - 1}")])


def softmaxes(n):
    """Operators that do not fuse, alternating with others."""
    nodes = [helper.make_node(("Softmax", "Exp")[i % 2], [f"v{i}"], [f"v{i + 1}"]) for i in range(n)]
    return model(nodes, [value("v0")], [value(f"v{n}")])


def split(n, used=True):
    """One Split into n parts, each of which a node reads (if `used`) or is an output."""
    nodes = [helper.make_node("Split", ["x"], [f"p{i}" for i in range(n)], axis=0)]
    if used:
        nodes += [helper.make_node("Relu", [f"p{i}"], [f"r{i}"]) for i in range(n)]
        nodes.append(helper.make_node("Concat", [f"r{i}" for i in range(n)], ["y"], axis=0))
        return model(nodes, [value("x", [n, 8])], [value("y", [n, 8])])
    return model(nodes, [value("x", [n, 8])], [value(f"p{i}") for i in range(n)])


def concat(n):
    """One Concat of n operands, which cycle through a few values."""
    nodes = [helper.make_node("Relu", ["x"], ["a"]), helper.make_node("Neg", ["x"], ["b"])]
    nodes.append(helper.make_node("Concat", [("x", "a", "b")[i % 3] for i in range(n)], ["y"], axis=0))
    return model(nodes, [value("x")], [value("y", [n, 8])])


def wide(operator, n):
    """Sum, Max, Min or Mean of n operands, which cycle through a few values."""
    nodes = [helper.make_node("Relu", ["x"], ["a"]), helper.make_node("Neg", ["x"], ["b"])]
    nodes.append(helper.make_node(operator, [("x", "a", "b")[i % 3] for i in range(n)], ["y"]))
    return model(nodes, [value("x")], [value("y")])


def branches(n):
    """n operators that read the input, and their sum."""
    nodes = [helper.make_node("Add", ["x", f"c{i}"], [f"b{i}"]) for i in range(n)]
    scalars = [helper.make_tensor(f"c{i}", TensorProto.FLOAT, [1, 8], [float(i)] * 8) for i in range(n)]
    nodes.append(helper.make_node("Sum", [f"b{i}" for i in range(n)], ["y"]))
    return model(nodes, [value("x")], [value("y")], scalars)


def outputs(n):
    """A chain of n operators, each of which is also an output of the network."""
    nodes = [helper.make_node("Sin", [f"v{i}"], [f"v{i + 1}"]) for i in range(n)]
    return model(nodes, [value("v0")], [value(f"v{i + 1}") for i in range(n)])


def functions(n):
    """About n nodes, after the expansion of functions that each call the previous one twice."""
    made, nodes = [], 2
    body = [helper.make_node("Neg", ["x"], ["t"]), helper.make_node("Sin", ["t"], ["y"])]
    made.append(helper.make_function("local", "f0", ["x"], ["y"], body, [helper.make_opsetid("", OPSET)]))
    while nodes * 2 <= n:
        inner = f"f{len(made) - 1}"
        body = [helper.make_node(inner, ["x"], ["t"], domain="local"), helper.make_node(inner, ["t"], ["y"], domain="local")]
        imports = [helper.make_opsetid("", OPSET), helper.make_opsetid("local", 1)]
        made.append(helper.make_function("local", f"f{len(made)}", ["x"], ["y"], body, imports))
        nodes *= 2
    call = helper.make_node(f"f{len(made) - 1}", ["x"], ["y"], domain="local")
    return model([call], [value("x")], [value("y")], functions=made)


def identities(n):
    """n operators that do nothing, which passes remove."""
    nodes = [helper.make_node("Identity", [f"v{i}"], [f"v{i + 1}"]) for i in range(n)]
    nodes.append(helper.make_node("Relu", [f"v{n}"], ["y"]))
    return model(nodes, [value("v0")], [value("y")])


def reshapes(n):
    """A chain of n views with alternating shapes."""
    shapes = [np.array(s, np.int64) for s in ([8, 1], [2, 4])]
    given = [onnx.numpy_helper.from_array(s, f"s{i}") for i, s in enumerate(shapes)]
    nodes = [helper.make_node("Reshape", [f"v{i}", f"s{i % 2}"], [f"v{i + 1}"]) for i in range(n)]
    nodes.append(helper.make_node("Relu", [f"v{n}"], ["y"]))
    return model(nodes, [value("v0")], [value("y", shapes[(n - 1) % 2].tolist())], given)


KINDS = {
    "chain": chain,
    "add_chain": add_chain,
    "long_edges": long_edges,
    "softmaxes": softmaxes,
    "split": split,
    "split_outputs": lambda n: split(n, used=False),
    "concat": concat,
    "sum": lambda n: wide("Sum", n),
    "branches": branches,
    "outputs": outputs,
    "functions": functions,
    "identities": identities,
    "reshapes": reshapes,
}
