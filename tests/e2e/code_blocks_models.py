"""Small models under the names that the pages use, for code_blocks_test.py. Each function writes the files that its
name describes into the working folder."""

import os

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


def tensor(name, shape, kind=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, kind, shape)


def weights(name, *shape):
    return numpy_helper.from_array(np.random.default_rng(1).standard_normal(shape).astype(np.float32) / 8, name)


def save(path, nodes, inputs, outputs, initializers=()):
    graph = helper.make_graph(nodes, "small", inputs, outputs, list(initializers))
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid("ai.onnx.ml", 3)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=9), path)


def images(path, shape, name="input"):
    """A convolution, a pool, a convolution and a classifier, with the names of layers that the pages use."""
    conv = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}
    nodes = [
        helper.make_node("Conv", [name, "w1"], ["c1"], name="stem", **conv), helper.make_node("Relu", ["c1"], ["r1"], name="stem.relu"),
        helper.make_node("Conv", ["r1", "w2"], ["c2"], name="conv1", **conv), helper.make_node("Relu", ["c2"], ["r2"], name="conv1.relu"),
        helper.make_node("MaxPool", ["r2"], ["p"], name="pool1", kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Conv", ["p", "w3"], ["c3"], name="/head/Conv", **conv), helper.make_node("GlobalAveragePool", ["c3"], ["a"], name="average"),
        helper.make_node("Flatten", ["a"], ["f"], name="flatten"), helper.make_node("MatMul", ["f", "w4"], ["m"], name="fc"),
        helper.make_node("Softmax", ["m"], ["output"], name="softmax")]
    constants = [weights("w1", 64, 3, 3, 3), weights("w2", 64, 64, 3, 3), weights("w3", 64, 64, 3, 3), weights("w4", 64, 32)]
    save(path, nodes, [tensor(name, shape)], [tensor("output", [shape[0], 32])], constants)


def model():
    images("model.onnx", [1, 3, 28, 28])


def net():
    images("net.onnx", [1, 3, 28, 28])


def resnet18():
    images("resnet18.onnx", ["n", 3, 224, 224])


def resnet18_of_batch_1():
    images("resnet18.onnx", [1, 3, 224, 224])


def detector():
    conv = helper.make_node("Conv", ["x", "w"], ["y"], name="conv", kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[16, 16])
    save("detector.onnx", [conv], [tensor("x", [1, 3, "h", "w"])], [tensor("y", [1, 8, "a", "b"])], [weights("w", 8, 3, 3, 3)])


def samples():
    """Samples for model.onnx and net.onnx."""
    os.mkdir("samples")
    for i in range(2):
        np.save(f"samples/{i}.npy", np.random.default_rng(i).standard_normal((1, 3, 28, 28)).astype(np.float32))


def rows():
    """y = 10 * (x1 + ... + x4) - (30, 20, 10), as on the page about the server."""
    weight, bias = np.full((4, 3), 10, np.float32), np.array([-30, -20, -10], np.float32)
    save("rows.onnx", [helper.make_node("Gemm", ["x", "w", "b"], ["y"], name="rows")], [tensor("x", ["n", 4])], [tensor("y", ["n", 3])],
         [numpy_helper.from_array(weight, "w"), numpy_helper.from_array(bias, "b")])


def classifier():
    """A classifier with a map from class to probability for each row."""
    linear = helper.make_node("LinearClassifier", ["x"], ["label", "scores"], domain="ai.onnx.ml", coefficients=[0.5] * 4 + [-0.5] * 4,
                              intercepts=[0.0, 0.0], classlabels_strings=["cat", "dog"], post_transform="SOFTMAX")
    maps = helper.make_node("ZipMap", ["scores"], ["probabilities"], domain="ai.onnx.ml", classlabels_strings=["cat", "dog"])
    kind = helper.make_map_type_proto(TensorProto.STRING, helper.make_tensor_type_proto(TensorProto.FLOAT, []))
    output = helper.make_value_info("probabilities", helper.make_sequence_type_proto(kind))
    save("classifier.onnx", [linear, maps], [tensor("x", ["n", 4])], [tensor("label", ["n"], TensorProto.STRING), output])


def silero_vad():
    """The inputs, outputs and state of silero-vad, of which only the names and shapes matter here."""
    nodes = [helper.make_node("ReduceMean", ["input"], ["m"], keepdims=1), helper.make_node("Add", ["m", "state"], ["stateN"]),
             helper.make_node("ReduceMax", ["stateN"], ["all"], keepdims=0), helper.make_node("Sigmoid", ["all"], ["output"])]
    save("silero_vad.onnx", nodes, [tensor("input", [1, 576]), tensor("state", [1, 128])],
         [tensor("output", []), tensor("stateN", [1, 128])])
