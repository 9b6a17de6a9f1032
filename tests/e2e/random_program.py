"""Draws the random programs of random_programs.py from a seed: nested graphs, sequences, optionals, data-dependent shapes.

draw(seed) returns a Program: a model, sets of inputs of different shapes, and the steps that drew it. A Value knows its
dimensions as numbers or as names; the same name stands for the same size wherever both are visible, so every program
fits together for all inputs, empty ones included. Conditions and counts are computed from integers and from floats
without rounding, so that runtimes cannot take different branches.
"""
import numpy as np
import onnx
from onnx import helper, numpy_helper

from random_program_body import BOOL, F32, I64, Body, Undrawable, Value, info, need
from random_program_steps import statements


class Program:
    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.opset = int(self.rng.choice([17, 18, 19, 20, 21]))
        self.count, self.steps, self.functions, self.in_function = 0, [], [], False
        if self.rng.random() < 0.5:
            self.in_function = True
            self.functions.append(self.function())
            self.in_function = False
        self.inputs = self.draw_inputs()
        body = Body(self)
        body.values.extend(self.inputs)
        statements(body, 4, 14)
        self.model = self.finish(body)
        self.sets = [self.draw_set() for _ in range(3)]

    def fresh(self, hint):
        self.count += 1
        return f"{hint}{self.count}"

    def function(self):
        """y = an If or Loop around LeakyRelu, whose slope is the function's attribute."""
        name = self.fresh("Local")
        inner = helper.make_node("LeakyRelu", ["x"], ["leaky"], name="leaky")
        inner.attribute.append(onnx.AttributeProto(name="alpha", ref_attr_name="slope", type=onnx.AttributeProto.FLOAT))
        y = helper.make_tensor_value_info("leaky", F32, None)
        if self.rng.random() < 0.5:
            other = helper.make_graph([helper.make_node("Neg", ["x"], ["negative"])], "other", [],
                                      [helper.make_tensor_value_info("negative", F32, None)])
            nodes = [helper.make_node("Size", ["x"], ["size"]), helper.make_node("Cast", ["size"], ["some"], to=BOOL),
                     helper.make_node("If", ["some"], ["y"], then_branch=helper.make_graph([inner], "some", [], [y]), else_branch=other)]
        else:
            inner.input[0] = "state"
            body = helper.make_graph([inner, helper.make_node("Identity", ["go"], ["on"])], "body",
                                     [helper.make_tensor_value_info("i", I64, []), helper.make_tensor_value_info("go", BOOL, []),
                                      helper.make_tensor_value_info("state", F32, None)],
                                     [helper.make_tensor_value_info("on", BOOL, []), y])
            two = numpy_helper.from_array(np.int64(2))
            nodes = [helper.make_node("Constant", [], ["two"], value=two), helper.make_node("Loop", ["two", "", "x"], ["y"], body=body)]
        return helper.make_function("local", name, ["x"], ["y"], nodes, [helper.make_opsetid("", self.opset)],
                                    attribute_protos=[helper.make_attribute("slope", 0.125)])

    def draw_inputs(self):
        kinds = [("x", F32, ["n", 4]), ("y", F32, ["n"]), ("z", F32, ["m", "n"]), ("i", I64, ["n"]), ("j", I64, ["m", 3]), ("k", I64, []),
                 ("w", F32, [2, 3, "m"]), ("a", F32, []), ("b", BOOL, []), ("mask", BOOL, ["n"])]
        kept = [Value(name, "tensor", type_, dims) for name, type_, dims in kinds if name in "xkb" or self.rng.random() < 0.5]
        if self.rng.random() < 0.3:
            kept.append(Value("q", "sequence", F32, ["n", None]))
        if self.rng.random() < 0.3:
            kept.append(Value("p", "optional", F32, ["n"]))
        return kept

    def draw_set(self):
        sizes = {name: int(self.rng.choice([0, 1, 2, 3, 5, 8])) for name in ("n", "m")}

        def array(type_, dims):
            shape = [int(self.rng.integers(0, 4)) if d is None else sizes.get(d, d) for d in dims]
            drawn = self.rng.integers(-8, 9, shape)
            return np.asarray(drawn / 4, np.float32) if type_ == F32 else np.asarray(drawn > 0 if type_ == BOOL else drawn,
                                                                                     bool if type_ == BOOL else np.int64)
        made = {}
        for v in self.inputs:
            if v.kind == "sequence":
                made[v.name] = [array(v.type, v.dims) for _ in range(int(self.rng.integers(0, 4)))]
            else:
                made[v.name] = None if v.kind == "optional" and self.rng.random() < 0.5 else array(v.type, v.dims)
        return made

    def finish(self, body):
        candidates = [v for v in body.values if v.kind != "optional" and v not in self.inputs]
        need(candidates)
        chosen = candidates[-2:] + [body.pick(candidates) for _ in range(body.between(0, 3))]
        outputs = []
        for v in chosen:
            if v.name not in [o.name for o in outputs]:
                outputs.append(v)
        self.outputs = outputs
        declared = [info(v, None if v.dims is None else [d if isinstance(d, int) else None for d in v.dims]) for v in outputs]
        graph = helper.make_graph(body.nodes, "program", [info(v) for v in self.inputs], declared, body.initializers)
        imports = [helper.make_opsetid("", self.opset)] + ([helper.make_opsetid("local", 1)] if self.functions else [])
        return helper.make_model(graph, opset_imports=imports, functions=self.functions, ir_version=10)


def draw(seed):
    """Returns the program, or None if nothing fits."""
    try:
        return Program(seed)
    except Undrawable:
        return None
