#!/usr/bin/env python3
"""Damages models field by field and gives them to the program, which must either run each model or say what is wrong with
it. A signal, an internal error (exit 4), a hang, or more memory than the limit is a failure.

    mutate_models.py KILTER --count 5000 --seed 1 [--keep FOLDER] [--jobs 2]

While fuzz_onnx cuts and flips bytes, this script knows the fields of ONNX, so most of its mutants can be parsed. The same
seed gives the same mutants; failures are written to --keep with the command that shows them.
"""

import argparse
import collections
import concurrent.futures
import copy
import os
import random
import resource
import signal
import subprocess
import sys
import tempfile

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from model_seeds import SEEDS, info

SECONDS = 60
LOOP_SECONDS = 5  # a model with loops may run forever: it must then end at SIGINT
MEMORY = 6 << 30
ODD_INTS = [0, -1, 1, 2, 3, 7, -2, -(2**63), 2**63 - 1, 2**31, 2**31 - 1, 2**32, 10**6, 10**9, 65536, 4097]
ODD_FLOATS = [0.0, -0.0, 1.0, -1.0, float("inf"), float("-inf"), float("nan"), 3.4e38, -3.4e38, 1e-45, 0.5]
ODD_NAMES = [b"", b"\xc3\x28", b"a\nb", b"\x1b[31mred", b"../up", b"x" * 5000, b"%s%n", b'"quoted"', b"=1+1", b"a\x00b", "ü".encode()]


# --- parts of a model that a mutation may change ---


def all_nodes(model):
    """Returns the nodes of the graph, of bodies and of functions."""
    open_lists = [model.graph.node] + [f.node for f in model.functions]
    found = []
    while open_lists:
        for node in open_lists.pop():
            found.append(node)
            open_lists += [a.g.node for a in node.attribute if a.HasField("g")]
    return found


def some(rng, things):
    things = list(things)
    return rng.choice(things) if things else None


def a_name(rng, model):
    names = [n for node in all_nodes(model) for n in list(node.input) + list(node.output)]
    return some(rng, names + [i.name for i in model.graph.initializer] + ["nowhere", ""])


def dims_of(model):
    shapes = [v.type.tensor_type.shape for v in list(model.graph.input) + list(model.graph.output)]
    return [d for shape in shapes for d in shape.dim]


# --- the kinds of mutation: each changes one thing in a model, or returns False ---


def dimension(rng, model):
    d = some(rng, dims_of(model))
    if d is None:
        return False
    d.dim_value = rng.choice(ODD_INTS)


def open_dimension(rng, model):
    d = some(rng, dims_of(model))
    if d is None:
        return False
    d.dim_param = rng.choice(["n", "", "a*b", "-1"])


def rank(rng, model):
    shape = rng.choice(list(model.graph.input) + list(model.graph.output)).type.tensor_type.shape
    if rng.random() < 0.5 and shape.dim:
        del shape.dim[rng.randrange(len(shape.dim))]
    else:
        count = rng.choice([1, 2, 60])
        for _ in range(count):  # the size stays small, because a large one may well take long
            shape.dim.add().dim_value = 1 if count > 2 else rng.choice([1, 1, 2])


def port_type(rng, model):
    rng.choice(list(model.graph.input) + list(model.graph.output)).type.tensor_type.elem_type = rng.randrange(-1, 26)


def no_type(rng, model):
    rng.choice(list(model.graph.input) + list(model.graph.output)).ClearField("type")


def tensor_type(rng, model):
    rng.choice(model.graph.initializer).data_type = rng.randrange(-1, 26)


def tensor_dims(rng, model):
    tensor = rng.choice(model.graph.initializer)
    if tensor.dims and rng.random() < 0.7:
        tensor.dims[rng.randrange(len(tensor.dims))] = rng.choice(ODD_INTS)
    else:
        tensor.dims.append(rng.choice([0, 1, 2, -1]))


def tensor_bytes(rng, model):
    tensor = rng.choice(model.graph.initializer)
    raw = tensor.raw_data
    tensor.raw_data = rng.choice([raw[: len(raw) // 2], raw[:-1], raw + b"\0", b"", raw * 2])


def tensor_values(rng, model):
    tensor = rng.choice(model.graph.initializer)
    if tensor.data_location == TensorProto.EXTERNAL:  # already damaged: its values are not in any file
        return False
    array = numpy_helper.to_array(tensor).copy().reshape(-1)
    if array.size == 0 or array.dtype == np.bool_:
        return False
    with np.errstate(all="ignore"):
        odd = rng.choice(ODD_FLOATS) if array.dtype.kind == "f" else rng.choice(ODD_INTS)
        width = array.dtype.itemsize * 8
        array[rng.randrange(array.size)] = odd if array.dtype.kind == "f" else np.array([odd % 2**width], np.uint64).astype(array.dtype)[0]
    tensor.raw_data = array.tobytes()


def external_data(rng, model):
    tensor = rng.choice(model.graph.initializer)
    tensor.data_location = TensorProto.EXTERNAL
    tensor.ClearField("raw_data")
    places = ["weights.bin", "", "../up", "/dev/zero", "/etc/passwd", "none", "."]
    for key, value in (("location", rng.choice(places)), ("offset", str(rng.choice(ODD_INTS))), ("length", str(rng.choice(ODD_INTS)))):
        if rng.random() < 0.8:
            entry = tensor.external_data.add()
            entry.key, entry.value = key, value


def attribute_value(rng, model):
    attributes = [a for node in all_nodes(model) for a in node.attribute if a.type in (1, 2, 3, 6, 7)]
    a = some(rng, attributes)
    if a is None:
        return False
    if a.type == 1:
        a.f = rng.choice(ODD_FLOATS)
    elif a.type == 2:
        a.i = rng.choice(ODD_INTS)
    elif a.type == 3:
        a.s = rng.choice([b"", b"SAME_LOWER", b"reflect", b"\xff\xfe", b"nchw,nchw->", b"cubic", b"x" * 10000])
    else:
        values = a.floats if a.type == 6 else a.ints
        if values and rng.random() < 0.7:
            values[rng.randrange(len(values))] = rng.choice(ODD_FLOATS if a.type == 6 else ODD_INTS)
        elif rng.random() < 0.5:
            values.append(rng.choice(ODD_FLOATS if a.type == 6 else ODD_INTS))
        else:
            del values[:]


def attribute_type(rng, model):
    a = some(rng, [a for node in all_nodes(model) for a in node.attribute])
    if a is None:
        return False
    a.type = rng.randrange(0, 16)


def attribute_gone(rng, model):
    node = some(rng, [n for n in all_nodes(model) if n.attribute])
    if node is None:
        return False
    del node.attribute[rng.randrange(len(node.attribute))]


def attribute_more(rng, model):
    node = rng.choice(all_nodes(model))
    key = rng.choice(["axis", "group", "unknown", "kernel_shape", "keepdims", "to", "strides", "pads", "value", "dilations"])
    value = rng.choice([0, 5, -7, 0.5, [1, 2], [0, 0, 0, 0], "text", [0.5], 2**62])
    node.attribute.append(helper.make_attribute(key, value))


def input_gone(rng, model):
    node = some(rng, [n for n in all_nodes(model) if n.input])
    if node is None:
        return False
    if rng.random() < 0.5:
        node.input[rng.randrange(len(node.input))] = ""
    else:
        del node.input[-1]


def input_other(rng, model):
    node = some(rng, [n for n in all_nodes(model) if n.input])
    if node is None:
        return False
    node.input[rng.randrange(len(node.input))] = a_name(rng, model)


def input_more(rng, model):
    node = rng.choice(all_nodes(model))
    node.input.extend([a_name(rng, model)] * rng.choice([1, 2, 50, 3000]))


def output_changed(rng, model):
    node = rng.choice(all_nodes(model))
    pick = rng.random()
    if pick < 0.3 and node.output:
        del node.output[-1]
    elif pick < 0.6:
        node.output.extend([f"more{i}" for i in range(rng.choice([1, 3, 200]))])
    elif node.output:
        node.output[rng.randrange(len(node.output))] = a_name(rng, model)


def operator_other(rng, model):
    node = rng.choice(all_nodes(model))
    kinds = [n.op_type for seed in SEEDS for n in all_nodes(seed())] + ["Identity", "Loop", "Nothing", "", "NonZero", "Einsum"]
    node.op_type = rng.choice(kinds)


def domain_other(rng, model):
    rng.choice(all_nodes(model)).domain = rng.choice(["", "ai.onnx", "local", "com.microsoft", "kilter"])


def opset_other(rng, model):
    pick = rng.random()
    if pick < 0.7:
        rng.choice(model.opset_import).version = rng.choice([-1, 0, 1, 4, 6, 7, 9, 10, 11, 12, 13, 14, 16, 18, 20, 21, 24, 99, 2**40])
    elif pick < 0.85:
        del model.opset_import[rng.randrange(len(model.opset_import))]
    else:
        model.ir_version = rng.choice([-1, 0, 1, 3, 12, 99, 2**60])


def order_other(rng, model):
    nodes = [copy.deepcopy(n) for n in model.graph.node]
    rng.shuffle(nodes)
    del model.graph.node[:]
    model.graph.node.extend(nodes)


def cycle(rng, model):
    nodes = list(model.graph.node)
    first, last = sorted(rng.sample(range(len(nodes)), 2))
    if not nodes[first].input or not nodes[last].output:
        return False
    nodes[first].input[0] = nodes[last].output[0]


def doubled(rng, model):
    pick = rng.choice(["node", "initializer", "input", "output", "function"])
    if pick == "function":
        if not model.functions:
            return False
        model.functions.append(copy.deepcopy(model.functions[0]))
    else:
        things = getattr(model.graph, pick)
        things.append(copy.deepcopy(rng.choice(things)))


def removed(rng, model):
    things = getattr(model.graph, rng.choice(["node", "initializer", "input", "output"]))
    if not things:
        return False
    del things[rng.randrange(len(things))]


def body_changed(rng, model):
    bodies = [a for n in all_nodes(model) for a in n.attribute if a.HasField("g")]
    body = some(rng, bodies)
    if body is None:
        return False
    pick = rng.random()
    if pick < 0.3:
        body.g.node.append(copy.deepcopy(model.graph.node[0]))
    elif pick < 0.6:
        del body.g.output[:]
    else:
        body.g.input.append(info("more", [2, 3]))


def function_changed(rng, model):
    if not model.functions:
        return False
    function = model.functions[0]
    pick = rng.random()
    if pick < 0.4:
        function.node.append(helper.make_node(function.name, list(function.input), ["again"], domain=function.domain))
    elif pick < 0.7:
        function.input.append("more")
    else:
        del function.opset_import[:]


def sparse_changed(rng, model):
    tensors = list(model.graph.sparse_initializer) + [a.sparse_tensor for n in all_nodes(model) for a in n.attribute if a.HasField("sparse_tensor")]
    sparse = some(rng, tensors)
    if sparse is None:
        return False
    pick = rng.random()
    if pick < 0.4:
        array = numpy_helper.to_array(sparse.indices).copy().reshape(-1)
        array[rng.randrange(array.size)] = rng.choice(ODD_INTS)
        sparse.indices.raw_data = array.tobytes()
    elif pick < 0.6:
        sparse.dims[rng.randrange(len(sparse.dims))] = rng.choice(ODD_INTS)
    elif pick < 0.8:
        sparse.ClearField(rng.choice(["dims", "indices", "values"]))
    else:
        rng.choice([sparse.indices, sparse.values]).dims.append(rng.choice([0, 1, 2, -1]))


def open_condition(rng, model):
    node = some(rng, [n for n in all_nodes(model) if n.op_type == "If"])
    if node is None:
        return False
    model.graph.input.append(info("open", [], TensorProto.BOOL))
    node.input[0] = "open"


KINDS = [
    dimension, open_dimension, rank, port_type, no_type, tensor_type, tensor_dims, tensor_bytes, tensor_values,
    external_data, attribute_value, attribute_type, attribute_gone, attribute_more, input_gone, input_other, input_more,
    output_changed, operator_other, domain_other, opset_other, order_other, cycle, doubled, removed, body_changed,
    function_changed, open_condition, sparse_changed,
]


def with_odd_name(rng, data):
    """Returns a file in which one name consists of bytes that protobuf's Python would refuse."""
    old = rng.choice([b"conv", b"seed", b"ids", b"top", b"last", b"scaled", b"mask", b"depth"])
    odd = rng.choice([n for n in ODD_NAMES if n])[: len(old)]
    return data.replace(old, odd.ljust(len(old), b"_"))


def mutant(seed):
    """Returns the bytes of a mutant and a description of its changes."""
    rng = random.Random(seed)
    model = rng.choice(SEEDS)()
    done = []
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        for _ in range(10):
            kind = rng.choice(KINDS)
            try:
                changed = kind(rng, model) is not False
            except (IndexError, TypeError, ValueError, OverflowError):  # an earlier change removed what this one needs
                changed = False
            if changed:
                done.append(kind.__name__)
                break
    data = model.SerializeToString()
    if rng.random() < 0.06:
        data = with_odd_name(rng, data)
        done.append("odd_name")
    return data, done


def limit():
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def ended(command, folder, interrupt_after):
    """Runs a command and returns its exit code, None if it does not end, and the end of its messages."""
    run = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, preexec_fn=limit, cwd=folder)
    try:
        try:
            error = run.communicate(timeout=interrupt_after or SECONDS)[1]
        except subprocess.TimeoutExpired:
            if interrupt_after is None:
                raise
            run.send_signal(signal.SIGINT)
            error = run.communicate(timeout=SECONDS)[1]
        return run.returncode, error[-600:].decode("utf-8", "replace")
    except subprocess.TimeoutExpired:
        run.kill()
        run.communicate()
        return None, ""


def try_one(kilter, seed, folder):
    """Returns what is wrong with the program's reaction to a mutant (or nothing), and its exit code."""
    data, done = mutant(seed)
    file = os.path.join(folder, f"mutant_{seed}.onnx")
    with open(file, "wb") as out:
        out.write(data)
    modes = [["run"], ["run", "--verify"], ["compile"], ["inspect"]]
    command = [kilter, *random.Random(~seed).choice(modes)]
    command = command[:2] + [file] + command[2:] + (["-o", file + ".plan"] if command[1] == "compile" else [])
    loops = b"Loop" in data or b"Scan" in data
    code, error = ended(command, folder, LOOP_SECONDS if loops else None)
    for rest in (file, file + ".plan"):
        if os.path.exists(rest):
            os.remove(rest)
    fault = None
    if code is None:
        fault = f"no answer in {SECONDS} s"
    elif code not in (0, 1, 3) and not (loops and code == 130):
        fault = f"exit {code}: {error}"
    return fault, code, f"seed {seed} ({', '.join(done)}): {' '.join(command)}", data


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kilter")
    parser.add_argument("--count", type=int, default=150)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--keep", default="", help="folder for mutants that show a fault")
    options = parser.parse_args()
    kilter = os.path.abspath(options.kilter)
    codes, faults = collections.Counter(), 0
    seeds = [options.seed * 1_000_000 + i for i in range(options.count)]
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        with open(os.path.join(folder, "weights.bin"), "wb") as out:
            out.write(bytes(range(256)) * 16)
        for i, (fault, code, words, data) in enumerate(pool.map(lambda s: try_one(kilter, s, folder), seeds)):
            codes[code] += 1
            if fault:
                faults += 1
                print(f"{words}\n    {fault}", flush=True)
                if options.keep:
                    os.makedirs(options.keep, exist_ok=True)
                    with open(os.path.join(options.keep, f"mutant_{seeds[i]}.onnx"), "wb") as out:
                        out.write(data)
            if (i + 1) % 500 == 0:
                print(f"{i + 1} of {options.count}: {faults} faults", flush=True)
    ran = ", ".join(f"exit {code}: {count}" for code, count in sorted(codes.items(), key=lambda c: str(c[0])))
    print(f"{options.count} mutants, {faults} faults ({ran})")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
