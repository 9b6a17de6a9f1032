#!/usr/bin/env python3
"""Checks whether any network is slower on several threads than on one. Prints one table; exits with 1 if one is.

usage: threads.py [--kilter build/kilter] [--threads 2] [--seconds 8] [--most 1.05] [--busy N] [--models models] [NAME ...]

Runs the speed set, and networks of a few microseconds that this script generates (row operators over 2 KB to 2 MB, a small
encoder). Slices of both numbers of threads take turns. A time is the median of the slices' medians; the ratio is that of the
slices of one round, with its 95 % interval. --busy N: N other processes keep one CPU each busy all the time. A network counts
as slower if the whole interval is above --most.
Exit codes: 0 none is slower; 1 one is, or failed; 2 the command line cannot be used.
"""
import multiprocessing
import os
import pathlib
import statistics
import sys
import tempfile

import numpy as np
import onnx
from onnx import TensorProto, helper

import networks
import peers

ROWS = {"2KB": (8, 64), "64KB": (64, 256), "2MB": (512, 1024)}


def model(name, nodes, inputs, outputs, constants=()):
    graph = helper.make_graph(nodes, name, inputs, outputs, list(constants))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def f32(name, *shape):
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)


def weights(name, *shape):
    values = np.random.default_rng(1).standard_normal(shape).astype(np.float32) / np.sqrt(shape[0])
    return onnx.numpy_helper.from_array(values.astype(np.float32), name)


def row_network(op, shape):
    """Returns a network of one row operator over f32[shape]."""
    constants, operands, attributes, out = [], ["x"], {}, shape
    if op == "LayerNormalization":
        constants, operands = [weights("scale", shape[1])], ["x", "scale"]
    elif op == "Gather":
        constants, operands = [onnx.numpy_helper.from_array(np.arange(shape[0])[::-1].copy(), "i")], ["x", "i"]
    elif op == "ReduceMean":
        attributes, out = {"axes": [1], "keepdims": 1}, (shape[0], 1)
    nodes = [helper.make_node(op, operands, ["y"], **attributes), helper.make_node("Mul", ["y", "y"], ["z"])]
    return model(op, nodes, [f32("x", *shape)], [f32("z", *out)], constants)


def encoder(tokens, width, blocks):
    """Returns blocks of normalisation, a product, GELU's erf, another product and a sum."""
    nodes, constants, at = [], [], "x"
    for b in range(blocks):
        names = [f"{n}{b}" for n in ("scale", "up", "down", "n", "h", "e", "d", "o")]
        scale, up, down, n, h, e, d, o = names
        constants += [weights(scale, width), weights(up, width, 2 * width), weights(down, 2 * width, width)]
        nodes += [helper.make_node("LayerNormalization", [at, scale], [n]), helper.make_node("MatMul", [n, up], [h]),
                  helper.make_node("Erf", [h], [e]), helper.make_node("MatMul", [e, down], [d]), helper.make_node("Add", [at, d], [o])]
        at = o
    return model("encoder", nodes, [f32("x", tokens, width)], [f32(at, tokens, width)], constants)


def small_networks(folder):
    """Generates the small networks. Returns paths by name."""
    made = {f"{op}.{size}": row_network(op, shape) for op in ("Softmax", "LayerNormalization", "ReduceMean", "Gather")
            for size, shape in ROWS.items()}
    made |= {f"encoder.{tokens}x{width}": encoder(tokens, width, 4) for tokens, width in ((8, 32), (16, 64), (64, 128))}
    for name, network in made.items():
        onnx.save(network, folder / f"{name}.onnx")
    return {name: folder / f"{name}.onnx" for name in made}


def spin():
    while True:
        pass


def compare(args, path, shapes, folder):
    """Returns the milliseconds on one thread and on several, and the ratio."""
    file = pathlib.Path(folder) / "network.kilter"
    peers.kilter(args, "compile", path, "-o", file, *networks.input_options(shapes))
    runners = {n: lambda n=n: peers.kilter_slice(args, file, shapes, n)["median_ms"] for n in (1, args.threads)}
    results = peers.interleave(runners, args.seconds)
    return [statistics.median(results[n]) for n in (1, args.threads)], peers.paired_ratio(results[args.threads], results[1])


def main():
    parser = peers.Parser(__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--kilter", default="build/kilter")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=8)
    parser.add_argument("--most", type=float, default=1.05)
    parser.add_argument("--busy", type=int, default=0)
    parser.add_argument("--models", default="models")
    args = parser.parse_args()
    peers.check_program(args)
    if args.threads < 2:
        peers.refuse(f"--threads {args.threads}: expected 2 or more")
    with tempfile.TemporaryDirectory() as folder:
        small = small_networks(pathlib.Path(folder))
        names = args.names or [*small, *networks.SPEED_SET]
        for name in names:
            if name not in small and name not in networks.all_names():
                peers.refuse(f"no network '{name}'; legal values are {', '.join([*small, *networks.all_names()])}")
        hogs = [multiprocessing.Process(target=spin, daemon=True) for _ in range(args.busy)]
        for hog in hogs:
            hog.start()
        slower = print_table(args, names, small, folder)
        for hog in hogs:
            hog.kill()
    print(f"\n{'slower than on one thread: ' + ', '.join(slower) if slower else 'none is slower than on one thread'}")
    sys.exit(1 if slower else 0)


def print_table(args, names, small, folder):
    """Prints the table. Returns the names of the networks that are slower or failed."""
    print(f"{peers.cpu_text(len(os.sched_getaffinity(0)))}; {args.busy} other busy processes; median ms of interleaved slices\n")
    print(f"| network | 1 thread | {args.threads} threads | ratio (95 %) |\n|---|---|---|---|")
    slower = []
    for name in names:
        path = small[name] if name in small else networks.path_of(name, args.models)
        try:
            ms, ratio = compare(args, path, networks.SHAPES.get(name, {}), folder)
        except RuntimeError as error:
            print(f"| {name} | failed: {error} |", flush=True)
            slower.append(name)
            continue
        print(f"| {name} | {ms[0]:.4f} | {ms[1]:.4f} | {peers.ratio_text(ratio, 2)} |", flush=True)
        if ratio["low"] > args.most:
            slower.append(name)
    return slower


if __name__ == "__main__":
    main()
