"""Compares Kilter with ONNX Runtime on forests of decision trees.

usage: forests.py [--package build/python] [--seconds 2] [--threads 1,2] [--json FILE]
Generates forests of 100 and 1000 trees: whole trees of depth 6, 8 and 10, and ragged ones, as regressors and as
classifiers of three classes. Runs both programs in turn in this process, with one row and with 1,000 rows, and prints
the median of each and the median of the ratios of neighbouring runs (above 1: Kilter is faster).
Exit codes: 0 done, 1 values differ.
"""
import argparse
import json
import pathlib
import statistics
import sys
import time

import numpy as np
import onnxruntime
from onnx import TensorProto, helper

HERE = pathlib.Path(__file__).resolve().parent
CLASSES = 3
RAGGED_LEAVES = 0.2  # the chance that a node of a ragged tree is a leaf, from depth 2 on
# Trees, depth, features, ragged, classifier.
FORESTS = [(100, 6, 20, False, False), (100, 8, 20, False, False), (100, 10, 100, False, True), (100, 18, 20, True, False),
           (1000, 6, 20, False, False), (1000, 8, 100, False, False), (1000, 8, 20, False, True)]


def add_tree(rng, nodes, leaves, tree, depth, features, ragged, classifier):
    open_nodes, count = [(0, 0)], 1
    while open_nodes:
        i, level = open_nodes.pop()
        if level == depth or (ragged and level > 1 and rng.random() < RAGGED_LEAVES):
            row = (tree, i, 0, 0.0, "LEAF", 0, 0)
            weights = rng.dirichlet(np.ones(CLASSES)) if classifier else [rng.normal()]
            leaves += [(tree, i, k, float(w)) for k, w in enumerate(weights)]
        else:
            row = (tree, i, int(rng.integers(features)), float(rng.normal()), "BRANCH_LEQ", count, count + 1)
            open_nodes += [(count, level + 1), (count + 1, level + 1)]
            count += 2
        nodes.append(row)


def forest(trees, depth, features, ragged, classifier):
    rng = np.random.default_rng(0)
    nodes, leaves = [], []
    for tree in range(trees):
        add_tree(rng, nodes, leaves, tree, depth, features, ragged, classifier)
    what = "class" if classifier else "target"
    keys = ("treeids", "nodeids", "featureids", "values", "modes", "truenodeids", "falsenodeids")
    attrs = {f"nodes_{k}": list(v) for k, v in zip(keys, zip(*nodes))}
    attrs |= {f"{what}_{k}": list(v) for k, v in zip(("treeids", "nodeids", "ids", "weights"), zip(*leaves))}
    attrs |= {"classlabels_int64s": list(range(CLASSES))} if classifier else {"n_targets": 1}
    op, outputs = ("TreeEnsembleClassifier", ["labels", "y"]) if classifier else ("TreeEnsembleRegressor", ["y"])
    kinds = {"labels": TensorProto.INT64, "y": TensorProto.FLOAT}
    graph = helper.make_graph([helper.make_node(op, ["x"], outputs, domain="ai.onnx.ml", **attrs)], "forest",
                              [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", features])],
                              [helper.make_tensor_value_info(o, kinds[o], None) for o in outputs])
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("ai.onnx.ml", 3)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9).SerializeToString()


def session(runtime, data, threads):
    options = runtime.SessionOptions()
    options.intra_op_num_threads = threads
    return runtime.InferenceSession(data, options, providers=["CPUExecutionProvider"])


def compare(sessions, x, seconds):
    """Returns the median times of both in microseconds, and the median ratio."""
    times = ([], [])
    repeats = max(1, 32 // len(x))
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        for s, own in zip(sessions, times):
            begin = time.perf_counter()
            for _ in range(repeats):
                s.run(["y"], {"x": x})
            own.append((time.perf_counter() - begin) / repeats * 1e6)
    return [statistics.median(t) for t in times], statistics.median(b / a for a, b in zip(*times))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--package", default=HERE.parent / "build/python")
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--json")
    args = parser.parse_args()
    sys.path.insert(0, str(args.package))
    import kilter.onnxruntime

    found, wrong = [], False
    print(f"{'forest':48} {'rows':>5} {'thr':>3} {'kilter us':>10} {'ort us':>10} {'ratio':>6}")
    for trees, depth, features, ragged, classifier in FORESTS:
        data = forest(trees, depth, features, ragged, classifier)
        name = (f"{trees} {'ragged' if ragged else 'whole'} trees of depth {depth}, {features} features, "
                f"{'classes' if classifier else 'sum'}")
        for rows in (1, 1000):
            x = np.random.default_rng(rows).normal(size=(rows, features)).astype(np.float32)
            for threads in map(int, args.threads.split(",")):
                both = [session(r, data, threads) for r in (kilter.onnxruntime, onnxruntime)]
                got, want = (s.run(["y"], {"x": x})[0] for s in both)
                wrong = wrong or not np.allclose(got, want, 1e-4, 1e-4)
                (own, peer), ratio = compare(both, x, args.seconds)
                print(f"{name:48} {rows:5} {threads:3} {own:10.1f} {peer:10.1f} {ratio:6.2f}", flush=True)
                found.append({"forest": name, "rows": rows, "threads": threads, "kilter_us": own, "onnxruntime_us": peer,
                              "ratio": ratio})
    if args.json:
        pathlib.Path(args.json).write_text(json.dumps(found, indent=1))
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
