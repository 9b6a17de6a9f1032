#!/usr/bin/env python3
"""Runs random programs through Kilter, ONNX Runtime and ONNX's reference evaluator: nested If, Loop, Scan, SequenceMap and
functions, sequences, optionals, data-dependent shapes, empty tensors; each with inputs of several shapes in one session.

usage: random_programs.py KILTER [--count N] [--seed S] [--only I] [--target NAME] [--threads N] [--keep FOLDER]

Program I of seed S is the same on every machine (random_program.py). A program is set aside if no peer runs it or the peers
disagree. Verdicts, exit code, --keep and --only are those of random_graphs.py.
"""
import pathlib
import sys
import warnings

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import numpy as np  # noqa: E402
import onnx  # noqa: E402
from onnx import helper, inliner, numpy_helper  # noqa: E402
from onnx.reference.op_run import OpRun  # noqa: E402
from onnx.reference.ops import op_loop, op_optional, op_scan, op_sequence_insert  # noqa: E402

import random_program  # noqa: E402
from random_graphs import name_of, run  # noqa: E402

RTOL, ATOL = 1e-3, 1e-3


# --- the reference evaluator, corrected where it deviates from the standard ---


def loop(self, count, condition, *states, context=None, body=None, attributes=None, bindings=None):
    """Loop that stacks along a new axis, for slices of every rank; the evaluator concatenates along the first axis."""
    names, states, stacks = self.body.input_names, list(states), [[] for _ in range(self.K)]
    goes_on, trip = condition is None or bool(condition), 0
    while goes_on and (count is None or trip < count):
        inputs = dict(context or {})
        inputs.update(zip(names, [np.array(trip), np.array(goes_on), *states]))
        outputs = self._run_body(inputs, attributes=attributes, bindings=bindings)
        goes_on, states, trip = bool(outputs[0]), outputs[1:1 + self.N], trip + 1
        for stack, value in zip(stacks, outputs[1 + self.N:]):
            stack.append(value)
    declared = self.body.output_types[1 + self.N:]
    return tuple(states + [np.stack(s) if s else none_of(t.tensor_type) for s, t in zip(stacks, declared)])


def scan(self, *inputs, context=None, attributes=None, bindings=None, **_):
    """Scan with all its attributes and without iterations; the evaluator lacks both."""
    first = len(inputs) - self.num_scan_inputs
    states, scanned, count = list(inputs[:first]), inputs[first:], len(self.body.output_names) - first

    def numbers(name, many):
        return (getattr(self, name, None) or [0] * many)

    scanned = [np.moveaxis(x, axis, 0)[::-1 if back else 1] for x, axis, back in
               zip(scanned, numbers("scan_input_axes", len(scanned)), numbers("scan_input_directions", len(scanned)))]
    stacks = [[] for _ in range(count)]
    for parts in zip(*scanned):
        outputs = self._run_body({**(context or {}), **dict(zip(self.body.input_names, states + list(parts)))}, bindings=bindings)
        states = outputs[:first]
        for stack, value in zip(stacks, outputs[first:]):
            stack.append(value)
    axes, back = numbers("scan_output_axes", count), numbers("scan_output_directions", count)
    for stack, type_, axis, backward in zip(stacks, self.body.output_types[first:], axes, back):
        made = np.stack(stack[::-1 if backward else 1]) if stack else none_of(type_.tensor_type)
        states.append(np.moveaxis(made, 0, axis))
    return tuple(states)


def none_of(type_):
    """The result without slices: sizes that the body leaves open are 0."""
    return np.zeros([0] + [d.dim_value for d in type_.shape.dim], helper.tensor_dtype_to_np_dtype(type_.elem_type))


class SequenceMap(OpRun):
    """The evaluator's own implementation does not see the values outside the body."""
    op_domain = ""

    def need_context(self):
        return True

    def _run(self, first, *others, context=None, body=None, attributes=None, bindings=None):
        made = [[] for _ in self.body.output_names]
        for i, x in enumerate(first):
            given = [x] + [other[i] if isinstance(other, list) else other for other in others]
            outputs = self._run_body({**(context or {}), **dict(zip(self.body.input_names, given))}, bindings=bindings)
            for elements, value in zip(made, outputs):
                elements.append(value)
        return tuple(made)


def insert(self, sequence, value, at=None):
    made = list(sequence)
    at = len(made) if at is None else int(np.asarray(at).reshape(()))
    made.insert(at, value)
    return (made,)


op_loop.Loop._run = loop
op_loop.Loop._check_and_fix_outputs = lambda self, results: results
op_scan.Scan.__init__ = OpRun.__init__
op_scan.Scan._run = scan
op_scan.Scan._check_and_fix_outputs = lambda self, results: results
op_sequence_insert.SequenceInsert._run = insert
op_optional.Optional._run = lambda self, x=None, type=None: (x,)


def without_functions(model):
    """The evaluator loses the attributes of functions in graphs inside nodes, and inlining loses their default values."""
    model = onnx.ModelProto.FromString(model.SerializeToString())
    defaults = {function.name: function.attribute_proto for function in model.functions}

    def visit(nodes):
        for node in nodes:
            if node.op_type in defaults and not node.attribute:
                node.attribute.extend(defaults[node.op_type])
            for attribute in node.attribute:
                visit(attribute.g.node)
    visit(model.graph.node)
    return inliner.inline_local_functions(model)


def answers_of_reference(program):
    from onnx.reference import ReferenceEvaluator
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            evaluator = ReferenceEvaluator(without_functions(program.model), new_ops=[SequenceMap])
            return [[y if isinstance(y, list) else np.asarray(y) for y in evaluator.run(None, given)] for given in program.sets]
    except Exception as error:
        return str(error)


def answers_of_onnxruntime(program):
    import onnxruntime
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    try:
        session = onnxruntime.InferenceSession(program.model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        return [session.run(None, given) for given in program.sets]
    except Exception as error:
        return str(error)


def same(got, want):
    if isinstance(want, list):
        return isinstance(got, list) and len(got) == len(want) and all(same(g, w) for g, w in zip(got, want))
    if isinstance(got, list) or got.dtype != want.dtype or got.shape != want.shape:
        return False
    return bool(np.all(np.abs(got.astype(np.float64) - want.astype(np.float64)) <= ATOL + RTOL * np.abs(want.astype(np.float64))))


def expected(program):
    """Returns the peers' outputs for every set of inputs, or the reason why the program is set aside."""
    answers, peer = answers_of_reference(program), answers_of_onnxruntime(program)
    if isinstance(answers, str):
        return "the reference evaluator does not run it"
    # ONNX Runtime alone is not reliable: outputs of bodies that are also their inputs get the values of later
    # iterations.
    if not isinstance(peer, str) and not all(same(g, w) for got, want in zip(peer, answers) for g, w in zip(got, want)):
        return "peers disagree"
    return answers


def proto(value, array):
    if value.kind == "optional":
        return numpy_helper.from_optional(array)
    if value.kind == "sequence":
        return numpy_helper.from_list(array, dtype=None if array else 1)
    return numpy_helper.from_array(np.ascontiguousarray(array).reshape(array.shape))


def write_case(folder, program, answers):
    for i, (given, wanted) in enumerate(zip(program.sets, answers)):
        data = folder / f"test_data_set_{i}"
        data.mkdir(parents=True)
        for k, value in enumerate(program.inputs):
            (data / f"input_{k}.pb").write_bytes(proto(value, given[value.name]).SerializeToString())
        for k, (value, array) in enumerate(zip(program.outputs, wanted)):
            (data / f"output_{k}.pb").write_bytes(proto(value, array).SerializeToString())
    (folder / "model.onnx").write_bytes(program.model.SerializeToString())
    (folder / "tol.txt").write_text(f"{RTOL} {ATOL}\n")


def draw_cases(seed, first, count, folder, say):
    """Writes `count` cases, beginning with program `first`. Reports each program through `say`, in order: its index, the
    reason why it is set aside (or nothing), and its steps."""
    while count > 0:
        say((first, "begun", []))
        program = random_program.draw([seed, first])
        answers = "nothing fits" if program is None else expected(program)
        aside = answers if isinstance(answers, str) else ""
        if not aside:
            write_case(folder / name_of(first), program, answers)
            count -= 1
        say((first, aside, program.steps if program else []))
        first += 1


if __name__ == "__main__":
    run(300, draw_cases, "programs")
