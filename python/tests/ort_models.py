"""Models that the tests of kilter.onnxruntime and the scripts in ort_scripts/ run, written to a folder."""
from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import kilter

#: where the project's models are; those that a machine lacks are skipped
MODELS = Path(os.environ.get("KILTER_MODELS") or Path(__file__).resolve().parents[2] / "models")
#: names in the folder of the tests, for files of the project's models
FETCHED = {
    "ocr_detect.onnx": "rapidocr_onnxruntime/models/ch_PP-OCRv4_det_infer.onnx",
    "ocr_angle.onnx": "rapidocr_onnxruntime/models/ch_ppocr_mobile_v2.0_cls_infer.onnx",
    "ocr_recognise.onnx": "rapidocr_onnxruntime/models/ch_PP-OCRv4_rec_infer.onnx",
    "speech.onnx": "silero_vad/data/silero_vad_openvino_16k.onnx",
}
FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64


def tensor(name, kind, shape):
    """Returns the declaration of an input or output."""
    return helper.make_tensor_value_info(name, kind, shape)


def model(nodes, inputs, outputs, weights=None, name="graph", opset=17, **facts):
    """Returns a model of the given nodes; `weights`: arrays by name."""
    made = [numpy_helper.from_array(array, key) for key, array in (weights or {}).items()]
    graph = helper.make_graph(nodes, name, inputs, outputs, made, doc_string=facts.pop("graph_doc", ""))
    properties = facts.pop("properties", {})
    built = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8, **facts)
    helper.set_model_props(built, properties)
    return built


def random(*shape, seed=0, scale=0.2):
    """Returns seeded normal numbers of f32."""
    return (np.random.default_rng(seed).standard_normal(shape) * scale).astype(np.float32)


def perceptron():
    """An MLP with an open batch, and with all the metadata that a model can have."""
    nodes = [helper.make_node("Gemm", ["features", "w1", "b1"], ["hidden_sum"], name="first"),
             helper.make_node("Relu", ["hidden_sum"], ["hidden"], name="activation"),
             helper.make_node("Gemm", ["hidden", "w2", "b2"], ["logits"], name="second"),
             helper.make_node("Softmax", ["logits"], ["probabilities"], name="softmax", axis=1)]
    weights = {"w1": random(16, 32, seed=1), "b1": random(32, seed=2), "w2": random(32, 4, seed=3),
               "b2": random(4, seed=4)}
    return model(nodes, [tensor("features", FLOAT, ["batch", 16])],
                 [tensor("probabilities", FLOAT, ["batch", 4]), tensor("hidden", FLOAT, ["batch", 32])], weights,
                 name="perceptron", graph_doc="two layers", producer_name="ort_models", producer_version="1",
                 domain="org.example", model_version=3, doc_string="an MLP for tests",
                 properties={"classes": "ant,bee,cat,dog", "author": "nobody"})


def text_encoder():
    """One layer of attention over token IDs with a mask; batch and length are open."""
    width, words = 32, 100
    node = helper.make_node
    nodes = [node("Gather", ["embedding", "input_ids"], ["x"]),
             node("MatMul", ["x", "wq"], ["q"]), node("MatMul", ["x", "wk"], ["k"]), node("MatMul", ["x", "wv"], ["v"]),
             node("Transpose", ["k"], ["kt"], perm=[0, 2, 1]), node("MatMul", ["q", "kt"], ["raw"]),
             node("Cast", ["attention_mask"], ["mask_f"], to=FLOAT), node("Sub", ["one", "mask_f"], ["hidden_f"]),
             node("Mul", ["hidden_f", "far"], ["bias2"]), node("Unsqueeze", ["bias2", "axis1"], ["bias"]),
             node("Add", ["raw", "bias"], ["scores"]), node("Softmax", ["scores"], ["shares"], axis=-1),
             node("MatMul", ["shares", "v"], ["mixed"]), node("Add", ["mixed", "x"], ["last_hidden_state"]),
             node("ReduceMean", ["last_hidden_state"], ["pooled"], axes=[1], keepdims=0)]
    weights = {"embedding": random(words, width, seed=5), "wq": random(width, width, seed=6),
               "wk": random(width, width, seed=7), "wv": random(width, width, seed=8), "one": np.float32(1),
               "far": np.float32(-1e9), "axis1": np.array([1], np.int64)}
    weights = {key: np.asarray(array) for key, array in weights.items()}
    return model(nodes, [tensor("input_ids", INT64, ["batch", "sequence"]),
                         tensor("attention_mask", INT64, ["batch", "sequence"])],
                 [tensor("last_hidden_state", FLOAT, ["batch", "sequence", width]),
                  tensor("pooled", FLOAT, ["batch", width])],
                 weights, name="text_encoder")


def detector():
    """A small detector with outputs of boxes, scores and labels for an image of 32 by 32."""
    node = helper.make_node
    nodes = [node("Conv", ["image", "w1", "b1"], ["c1"], kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]),
             node("Relu", ["c1"], ["r1"]),
             node("Conv", ["r1", "w2"], ["grid"], kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]),
             node("Reshape", ["grid", "shape"], ["flat"]), node("Transpose", ["flat"], ["rows"], perm=[0, 2, 1]),
             node("Split", ["rows", "parts"], ["boxes", "logits"], axis=2), node("Sigmoid", ["logits"], ["all_scores"]),
             node("ReduceMax", ["all_scores"], ["scores"], axes=[2], keepdims=0),
             node("ArgMax", ["all_scores"], ["labels"], axis=2, keepdims=0)]
    weights = {"w1": random(8, 3, 3, 3, seed=9), "b1": random(8, seed=10), "w2": random(7, 8, 3, 3, seed=11),
               "shape": np.array([1, 7, 64], np.int64), "parts": np.array([4, 3], np.int64)}
    return model(nodes, [tensor("image", FLOAT, [1, 3, 32, 32])],
                 [tensor("boxes", FLOAT, [1, 64, 4]), tensor("scores", FLOAT, [1, 64]),
                  tensor("labels", INT64, [1, 64])],
                 weights, name="detector")


def recurrent_step():
    """One step of a recurrent network: a state goes in and comes out."""
    node = helper.make_node
    nodes = [node("MatMul", ["x", "wx"], ["from_x"]), node("MatMul", ["state", "ws"], ["from_state"]),
             node("Add", ["from_x", "from_state"], ["sum"]), node("Tanh", ["sum"], ["next_state"]),
             node("ReduceMean", ["next_state"], ["level"], axes=[1], keepdims=1)]
    return model(nodes, [tensor("x", FLOAT, [1, 8]), tensor("state", FLOAT, [1, 16])],
                 [tensor("next_state", FLOAT, [1, 16]), tensor("level", FLOAT, [1, 1])],
                 {"wx": random(8, 16, seed=12), "ws": random(16, 16, seed=13)}, name="recurrent_step")


def with_default():
    """A product with an input that has a default value."""
    return model([helper.make_node("Mul", ["x", "gain"], ["y"])],
                 [tensor("x", FLOAT, ["n", 2]), tensor("gain", FLOAT, [2])], [tensor("y", FLOAT, ["n", 2])],
                 {"gain": np.array([3, 4], np.float32)})


def half():
    """A sum of float16."""
    kind = TensorProto.FLOAT16
    return model([helper.make_node("Add", ["a", "b"], ["c"])], [tensor("a", kind, ["n"]), tensor("b", kind, ["n"])],
                 [tensor("c", kind, ["n"])])


BUILT = {"perceptron.onnx": perceptron, "text_encoder.onnx": text_encoder, "detector.onnx": detector,
         "recurrent_step.onnx": recurrent_step, "with_default.onnx": with_default, "half.onnx": half}
#: built-in networks, with the options of `kilter zoo` that make them small
ZOO = {"squeezenet.onnx": ("squeezenet1_1", "--size", "64", "--classes", "10"),
       "mobilenet.onnx": ("mobilenet_v2", "--size", "64", "--width", "0.5", "--classes", "12"),
       "resnet.onnx": ("resnet18", "--size", "64", "--classes", "10")}


def write_models(folder: Path) -> None:
    """Writes all models to a folder, and links to those of the project that this machine has."""
    for name, build in BUILT.items():
        onnx.save(build(), folder / name)
    for name, words in ZOO.items():
        kilter.command("zoo", *words, "-o", str(folder / name))
    for name, file in FETCHED.items():
        if (MODELS / file).is_file():
            (folder / name).symlink_to(MODELS / file)


def built(name: str) -> bytes:
    """Returns the bytes of one of the small models."""
    return BUILT[name]().SerializeToString()


def one_node(op: str, inputs, outputs, **attrs) -> bytes:
    """Returns the bytes of a model of one node; inputs and outputs: declarations."""
    node = helper.make_node(op, [i.name for i in inputs], [o.name for o in outputs], **attrs)
    return model([node], inputs, outputs).SerializeToString()
