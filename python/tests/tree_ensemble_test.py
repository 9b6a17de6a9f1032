"""Tree ensembles of ai.onnx.ml, compared with ONNX Runtime, and damaged ones."""
from __future__ import annotations

import numpy as np
import pytest

onnxruntime = pytest.importorskip("onnxruntime", reason="the package onnxruntime, to compare with, is not installed")
onnx = pytest.importorskip("onnx", reason="the package onnx, which builds the models, is not installed")

from onnx import TensorProto, helper  # noqa: E402

import kilter.onnxruntime as ort  # noqa: E402
from ml_operators_test import DOUBLE, FLOAT, INT64, agree, model, random, run  # noqa: E402

MODES = ["BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ"]


def listed(trees, depth, features, what, leaf, seed=0, modes=MODES[:1], missing=False, integers=False):
    """Attributes of a random forest in the form of lists. `leaf(rng)` gives the (target, weight) pairs of a leaf."""
    rng = np.random.default_rng(seed)
    nodes = {k: [] for k in ("treeids", "nodeids", "featureids", "values", "modes", "truenodeids", "falsenodeids",
                             "missing_value_tracks_true")}
    leaves = {k: [] for k in ("treeids", "nodeids", "ids", "weights")}

    def node(*values):
        for key, value in zip(nodes, values, strict=True):
            nodes[key].append(value)

    for tree in range(trees):
        open_nodes, count = [(0, 0)], 1
        while open_nodes:
            i, level = open_nodes.pop(0)
            if level == depth or (level > 0 and rng.random() < 0.2):
                node(tree, i, 0, 0.0, "LEAF", 0, 0, 0)
                for target, weight in leaf(rng):
                    for key, value in zip(leaves, (tree, i, target, weight), strict=True):
                        leaves[key].append(value)
                continue
            value = float(rng.integers(-2, 3)) if integers else float(np.float32(rng.normal()))
            node(tree, i, int(rng.integers(features)), value, modes[rng.integers(len(modes))], count, count + 1,
                 int(missing and rng.random() < 0.5))
            open_nodes += [(count, level + 1), (count + 1, level + 1)]
            count += 2
    targets = {"n_targets": 1} if what == "target" else {}
    return {f"nodes_{k}": v for k, v in nodes.items()} | {f"{what}_{k}": v for k, v in leaves.items()} | targets


def one_target(rng):
    return [(0, float(rng.normal()))]


def each_of(count):
    return lambda rng: [(k, float(rng.random())) for k in range(count)]


def inputs(rows, features, missing=False, integers=False):
    rng = np.random.default_rng(5)
    x = rng.integers(-3, 4, (rows, features)).astype(np.float32) if integers else random(rows, features, seed=rows)
    if missing:
        x[rng.random(x.shape) < 0.3] = np.nan
    return x


# --- Conditions and shapes ---

@pytest.mark.parametrize("rows", [1, 3, 8, 21, 200])
@pytest.mark.parametrize("trees, depth", [(1, 1), (5, 3), (8, 6), (21, 9)])
def test_rows_and_trees(rows, trees, depth):
    agree("TreeEnsembleRegressor", [inputs(rows, 7)], [FLOAT], **listed(trees, depth, 7, "target", one_target))


@pytest.mark.parametrize("modes", [[m] for m in MODES] + [MODES[:2], MODES[2:4], MODES[4:], MODES])
@pytest.mark.parametrize("missing", [False, True])
def test_modes(modes, missing):
    trees = listed(9, 5, 4, "target", one_target, modes=modes, missing=missing, integers=True)
    agree("TreeEnsembleRegressor", [inputs(50, 4, missing, True)], [FLOAT], **trees)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan, 0.0, -0.0, 3.4028234663852886e38, 1e-45])
@pytest.mark.parametrize("missing", [0, 1])
def test_extreme_thresholds(mode, value, missing):
    trees = {"nodes_treeids": [0, 0, 0], "nodes_nodeids": [0, 1, 2], "nodes_featureids": [0, 0, 0], "nodes_values": [value, 0.0, 0],
             "nodes_modes": [mode, "LEAF", "LEAF"], "nodes_truenodeids": [1, 0, 0], "nodes_falsenodeids": [2, 0, 0],
             "nodes_missing_value_tracks_true": [missing, 0, 0], "target_treeids": [0, 0], "target_nodeids": [1, 2],
             "target_ids": [0, 0], "target_weights": [1.0, 2.0], "n_targets": 1}
    x = np.float32([np.nan, np.inf, -np.inf, 0, -0.0, 1e-45, -1e-45, 3.4028234663852886e38, -3.4028234663852886e38, 1])
    agree("TreeEnsembleRegressor", [x[:, None]], [FLOAT], **trees)


@pytest.mark.parametrize("dtype", [np.float64, np.int64, np.int32])
@pytest.mark.parametrize("modes", [MODES[:1], MODES[:2], MODES[3:4]])
def test_types_of_features(dtype, modes):
    trees = listed(9, 5, 3, "class", one_target, modes=modes)
    x = random(60, 3, dtype=np.float64)
    thresholds = np.float32(trees["nodes_values"])[np.array(trees["nodes_modes"]) != "LEAF"].astype(np.float64)
    x[:30] = (thresholds[:90] * (1 + np.tile([1e-12, -1e-12, 0], 30))).reshape(30, 3)  # near thresholds, on both sides
    x = x if dtype == np.float64 else (x * 2).astype(dtype)
    agree("TreeEnsembleClassifier", [x], [INT64, FLOAT], classlabels_int64s=[0, 1], **trees)


@pytest.mark.parametrize("modes", [MODES[:1], MODES[1:2], MODES])
@pytest.mark.parametrize("targets", [1, 2])
def test_thresholds_of_f64(modes, targets):
    trees = listed(9, 5, 3, "target", each_of(targets), modes=modes) | {"n_targets": targets}
    rng = np.random.default_rng(3)
    thresholds = rng.normal(size=len(trees["nodes_values"]))
    for key, values in (("nodes_values", thresholds), ("target_weights", rng.normal(size=len(trees["target_weights"])))):
        del trees[key]
        trees[key + "_as_tensor"] = helper.make_tensor("t", DOUBLE, [len(values)], values)
    x = np.concatenate([thresholds, np.nextafter(thresholds, -9), np.nextafter(thresholds, 9)])
    x = np.tile(x[:60, None], (1, 3))
    agree("TreeEnsembleRegressor", [x], [FLOAT], version=3, **trees)


# --- Scores ---

@pytest.mark.parametrize("aggregate", ["SUM", "AVERAGE", "MIN", "MAX"])
@pytest.mark.parametrize("targets", [1, 3])
@pytest.mark.parametrize("base", [False, True])
def test_aggregates(aggregate, targets, base):
    attrs = {"base_values": [0.5, -1.0, 2.0][:targets]} if base else {}
    for leaf in (each_of(targets), lambda rng: [(int(rng.integers(targets)), float(rng.normal()))]):
        agree("TreeEnsembleRegressor", [inputs(30, 4)], [FLOAT], aggregate_function=aggregate,
              **(listed(12, 4, 4, "target", leaf) | attrs | {"n_targets": targets}))


@pytest.mark.parametrize("transform", ["NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"])
@pytest.mark.parametrize("targets", [1, 2, 3])
def test_transforms(transform, targets):
    def leaf(rng):
        return [(k, float(rng.random() / 12)) for k in range(targets)]
    agree("TreeEnsembleRegressor", [inputs(30, 4)], [FLOAT], post_transform=transform,
          **(listed(12, 4, 4, "target", leaf) | {"n_targets": targets}))


@pytest.mark.parametrize("transform", ["NONE", "SOFTMAX", "LOGISTIC"])
@pytest.mark.parametrize("classes", [3, 5])
@pytest.mark.parametrize("base", [False, True])
def test_classes(transform, classes, base):
    attrs = {"base_values": [0.1 * k for k in range(classes)]} if base else {}
    for leaf in (each_of(classes), lambda rng: [(int(rng.integers(classes)), float(rng.normal()))]):
        agree("TreeEnsembleClassifier", [inputs(40, 4)], [INT64, FLOAT], post_transform=transform,
              classlabels_int64s=[7 * k + 2 for k in range(classes)], **listed(12, 4, 4, "class", leaf), **attrs)


@pytest.mark.parametrize("transform", ["NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO"])
@pytest.mark.parametrize("leaf", [
    lambda rng: [(0, float(rng.random() / 12))], lambda rng: [(1, float(rng.random() / 12))],
    lambda rng: [(0, float(rng.normal()))], lambda rng: [(1, float(rng.normal()))],
    each_of(2), lambda rng: [(k, float(rng.normal())) for k in range(2)],
], ids=["first", "second", "first_mixed", "second_mixed", "both", "both_mixed"])
@pytest.mark.parametrize("base", [[], [0.25], [0.1, 0.2]], ids=len)
def test_two_classes(transform, leaf, base):
    attrs = {"base_values": base} if base else {}
    agree("TreeEnsembleClassifier", [inputs(40, 4)], [INT64, FLOAT], post_transform=transform, classlabels_int64s=[10, 20],
          **listed(12, 4, 4, "class", leaf), **attrs)


@pytest.mark.parametrize("transform", ["NONE", "SOFTMAX", "LOGISTIC"])
def test_one_class_and_scores_of_some_rows(transform):
    agree("TreeEnsembleClassifier", [inputs(40, 4)], [INT64, FLOAT], post_transform=transform, classlabels_int64s=[5],
          **listed(12, 4, 4, "class", one_target))
    for classes in (2, 3):
        agree("TreeEnsembleClassifier", [inputs(40, 4)], [INT64, FLOAT], post_transform=transform,
              classlabels_int64s=list(range(classes)),
              **listed(1, 3, 4, "class", lambda rng: [(int(rng.integers(classes)), float(rng.normal()))]))


def test_rows_do_not_depend_on_the_batch():
    trees = listed(37, 7, 9, "target", one_target)
    x = inputs(200, 9)
    sums = []
    for rows in (1, 7, 200):
        data = model("TreeEnsembleRegressor", [x[:rows]], [FLOAT], **trees)
        sums.append(np.concatenate([run(ort, data, [x[i:i + rows]])[0] for i in range(0, 200 // rows * rows, rows)]))
    assert (sums[0] == sums[2]).all() and (sums[1] == sums[2][:len(sums[1])]).all()


# --- TreeEnsemble ---

def linked(dtype, **changes):
    code = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))

    def tensor(values, kind=code):
        return helper.make_tensor("t", kind, [len(values)], values)
    # x0 in {3, 7, 1} ? leaf 0 : (x1 <= 4.5 ? leaf 1 : (x0 in {2} ? leaf 2 : leaf 3)); and a tree that is leaf 1
    attrs = {"nodes_featureids": [0, 1, 0, 0], "nodes_modes": tensor([6, 0, 6, 0], TensorProto.UINT8),
             "nodes_splits": tensor([0.0, 4.5, 0, 0]), "nodes_truenodeids": [0, 1, 2, 1], "nodes_trueleafs": [1, 1, 1, 1],
             "nodes_falsenodeids": [1, 2, 3, 1], "nodes_falseleafs": [0, 0, 1, 1], "tree_roots": [0, 3],
             "leaf_targetids": [0, 1, 0, 1], "leaf_weights": tensor([1.0, 2.5, 4, 8]), "n_targets": 2,
             "membership_values": tensor([3.0, 7, 1, np.nan, 2, np.nan])}
    return attrs | changes


@pytest.mark.parametrize("dtype, code", [(np.float32, FLOAT), (np.float64, DOUBLE)])
@pytest.mark.parametrize("aggregate", [0, 1, 2, 3])
def test_linked_trees(dtype, code, aggregate):
    x = np.stack(np.meshgrid([1, 2, 3, 7, 8, 2.5], [4, 4.5, 5]), -1).reshape(-1, 2).astype(dtype)
    agree("TreeEnsemble", [x], [code], version=5, aggregate_function=aggregate, **linked(dtype))
    scores = run(ort, model("TreeEnsemble", [x], [code], 5, **linked(dtype)), [x])[0]
    # ONNX Runtime takes 1 for LOGISTIC and 2 for SOFTMAX; the standard has them the other way round.
    for number, want in ((1, np.exp(scores) / np.exp(scores).sum(1, keepdims=True)), (2, 1 / (1 + np.exp(-scores)))):
        data = model("TreeEnsemble", [x], [code], 5, post_transform=number, **linked(dtype))
        np.testing.assert_allclose(run(ort, data, [x])[0], want, 1e-5)


# --- Damaged forests ---

def refuse(message, op="TreeEnsembleRegressor", version=1, **attrs):
    with pytest.raises(Exception) as caught:
        run(ort, model(op, [inputs(2, 2)], [FLOAT], version, **attrs), [inputs(2, 2)])
    assert f"{op} 'node': {message}" in str(caught.value)


@pytest.mark.parametrize("changes, message", [
    ({"nodes_featureids": [2, 0, 0]}, "entry 0 of attribute nodes_featureids is 2, but the input has 2 features"),
    ({"nodes_featureids": [-1, 0, 0]}, "entry 0 of attribute nodes_featureids is -1, but the input has 2 features"),
    ({"nodes_truenodeids": [7, 0, 0]}, "node 0 of tree 0 names node 7 of tree 0, which does not exist"),
    ({"nodes_truenodeids": [0, 0, 0]}, "node 0 in the list of nodes is its own descendant"),
    ({"nodes_modes": ["BRANCH_LEQ", "BRANCH_LEQ", "LEAF"], "nodes_truenodeids": [1, 1, 0], "nodes_falsenodeids": [2, 2, 0]},
     "node 1 in the list of nodes is its own descendant"),
    ({"nodes_nodeids": [0, 1, 1]}, "node 1 of tree 0 occurs twice"),
    ({"nodes_modes": ["BRANCH_IN", "LEAF", "LEAF"]},
     "entry 0 of attribute nodes_modes is 'BRANCH_IN'; legal values are BRANCH_LEQ, BRANCH_LT, BRANCH_GTE, BRANCH_GT, BRANCH_EQ, "
     "BRANCH_NEQ and LEAF"),
    ({"nodes_values": [0.5, 0.0]}, "attribute nodes_values has 2 entries, expected 3"),
    ({"target_ids": [0, 1]}, "a leaf has target 1; there are 1 targets"),
    ({"target_nodeids": [1, 9]}, "entry 1 of attribute target_nodeids names node 9 of tree 0, which does not exist"),
    ({"n_targets": 1 << 40}, "attribute n_targets is 1099511627776; legal values are 1 to 1048576"),
    ({"base_values": [1.0, 2.0]}, "expected 1 numbers in attribute base_values, one for each target, got 2"),
])
def test_damaged_lists(changes, message):
    trees = {"nodes_treeids": [0, 0, 0], "nodes_nodeids": [0, 1, 2], "nodes_featureids": [0, 0, 0], "nodes_values": [0.5, 0.0, 0],
             "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"], "nodes_truenodeids": [1, 0, 0], "nodes_falsenodeids": [2, 0, 0],
             "target_treeids": [0, 0], "target_nodeids": [1, 2], "target_ids": [0, 0], "target_weights": [1.0, 2.0]}
    refuse(message, **(trees | changes))


@pytest.mark.parametrize("changes, message", [
    ({"nodes_falsenodeids": [0, 2, 3, 1]}, "node 0 in the list of nodes is its own descendant"),
    ({"nodes_falsenodeids": [1, 9, 3, 1]}, "entry 1 of attribute nodes_falsenodeids is 9; there are 4 nodes"),
    ({"nodes_truenodeids": [0, 1, 2, -1]}, "entry 3 of attribute nodes_truenodeids is -1; there are 4 leaves"),
    ({"tree_roots": [4]}, "attribute tree_roots has 4; there are 4 nodes"),
    ({"membership_values": helper.make_tensor("t", FLOAT, [3], [1, np.nan, 2])},
     "attribute membership_values has no set for node 2; each set ends with NaN"),
    ({"nodes_modes": helper.make_tensor("t", TensorProto.UINT8, [4], [6, 0, 6, 9])},
     "entry 3 of attribute nodes_modes is 9; legal values are 0 to 6"),
    ({"leaf_targetids": [0, 1, 0, 2]}, "a leaf has target 2; there are 2 targets"),
])
def test_damaged_links(changes, message):
    refuse(message, "TreeEnsemble", 5, **linked(np.float32, **changes))
