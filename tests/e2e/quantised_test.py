#!/usr/bin/env python3
"""Compares Kilter with ONNX Runtime on networks that ONNX Runtime's own quantisers wrote.

usage: quantised_test.py KILTER

Two small convolutional networks are calibrated and quantised in every format: per tensor and per channel, with unsigned and
signed types, as QDQ and as QOperator, whose files contain operators of domain com.microsoft. Each file with one scale per
tensor is also written with its scales and zero points as scalars, as one-element vectors, and in both mixtures of these. All
of them are the same network. A network of matrix products and an LSTM is quantised dynamically.
"""
import collections
import logging
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_dynamic, quantize_static

SHAPE = (1, 3, 8, 8)
UNSIGNED, SIGNED = QuantType.QUInt8, QuantType.QInt8
# What QOperator files must contain, so that the operators are really tested.
WANTED = {"QLinearAdd", "QLinearMul", "QLinearConcat", "QLinearWhere", "QLinearSigmoid", "QLinearLeakyRelu",
          "QLinearAveragePool", "QLinearGlobalAveragePool", "QLinearSoftmax", "QGemm", "QLinearConv", "QLinearMatMul"}


class Images(CalibrationDataReader):
    def __init__(self):
        rng = np.random.default_rng(0)
        self.images = iter([{"x": rng.standard_normal(SHAPE).astype(np.float32)} for _ in range(8)])

    def get_next(self):
        return next(self.images, None)


def model(nodes, inputs, outputs, weights, spread=0.3):
    rng = np.random.default_rng(1)
    value = lambda name, shape: helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
    graph = helper.make_graph(
        [helper.make_node(op, i, o, **attrs) for op, i, o, attrs in nodes], "quantised", [value(*v) for v in inputs.items()],
        [value(*v) for v in outputs.items()],
        [numpy_helper.from_array((spread * rng.standard_normal(s)).astype(np.float32), n) for n, s in weights.items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


def convolutional():
    nodes = [("Conv", ["x", "w", "b"], ["c1"], dict(pads=[1, 1, 1, 1])), ("Relu", ["c1"], ["r"], {}),
             ("Conv", ["r", "v"], ["c2"], {}), ("LeakyRelu", ["c2"], ["l"], dict(alpha=0.1)),
             ("Concat", ["r", "l"], ["k"], dict(axis=1)), ("Conv", ["k", "u"], ["c3"], {}), ("Sigmoid", ["c3"], ["g"], {}),
             ("Mul", ["r", "g"], ["m"], {}), ("Add", ["m", "l"], ["a"], {}),
             ("AveragePool", ["a"], ["p"], dict(kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])),
             ("MaxPool", ["p"], ["q"], dict(kernel_shape=[2, 2])), ("GlobalAveragePool", ["q"], ["h"], {}),
             ("Flatten", ["h"], ["f"], {}), ("MatMul", ["f", "t"], ["n"], {}), ("Gemm", ["n", "s", "d"], ["e"], dict(transB=1)),
             ("Softmax", ["e"], ["y"], dict(axis=1))]
    weights = {"w": (8, 3, 3, 3), "b": (8,), "v": (8, 8, 1, 1), "u": (8, 16, 1, 1), "t": (8, 6), "s": (5, 6), "d": (5,)}
    return model(nodes, {"x": SHAPE}, {"y": [1, 5], "p": [1, 8, 4, 4]}, weights, 0.4)


def moving():
    """Nearly all values are moved, not computed: the quantisers leave such operators as they are."""
    nodes = [("Conv", ["x", "w", "b"], ["c"], dict(pads=[1, 1, 1, 1])), ("Clip", ["c", "low", "high"], ["r"], {}),
             ("Conv", ["r", "u"], ["d"], {}), ("Where", ["which", "r", "d"], ["m"], {}), ("Pad", ["m", "pads"], ["p"], {}),
             ("Resize", ["p", "", "sizes"], ["z"],
              dict(mode="nearest", nearest_mode="floor", coordinate_transformation_mode="asymmetric")),
             ("Split", ["z"], ["s", "t"], dict(axis=1)), ("Conv", ["s", "v"], ["e"], {}), ("Conv", ["t", "v"], ["f"], {}),
             ("Add", ["e", "f"], ["y"], {}), ("ArgMax", ["m"], ["p_max"], dict(axis=1))]
    made = model(nodes, {"x": SHAPE}, {"y": None}, {"w": (8, 3, 3, 3), "b": (8,), "u": (8, 8, 1, 1), "v": (4, 4, 1, 1)}, 0.4)
    made.graph.output.append(helper.make_tensor_value_info("p_max", TensorProto.INT64, None))
    more = {"low": np.float32(0), "high": np.float32(2), "pads": np.array([0, 0, 1, 1, 0, 0, 1, 1]),
            "sizes": np.array([1, 1, 2, 2], np.float32), "which": np.random.default_rng(5).random((1, 8, 8, 8)) < 0.5}
    made.graph.initializer.extend(numpy_helper.from_array(np.asarray(v), n) for n, v in more.items())
    return made


def recurrent():
    nodes = [("MatMul", ["x", "p"], ["a"], {}), ("LSTM", ["a", "w", "r", "b"], ["h", "", ""], dict(hidden_size=12)),
             ("Squeeze", ["h", "axes"], ["s"], {}), ("MatMul", ["s", "m"], ["t"], {}), ("Tanh", ["t"], ["u"], {}),
             ("Reshape", ["u", "shape"], ["v"], {}), ("Gemm", ["v", "g", "c"], ["y"], dict(transB=1))]
    weights = {"p": (10, 8), "w": (1, 48, 8), "r": (1, 48, 12), "b": (1, 96), "m": (12, 9), "g": (4, 9), "c": (4,)}
    made = model(nodes, {"x": (6, 2, 10)}, {"y": (12, 4)}, weights)
    made.graph.initializer.extend([numpy_helper.from_array(np.array([1], np.int64), "axes"),
                                   numpy_helper.from_array(np.array([12, 9], np.int64), "shape")])
    return made


def reshaped(model, scales, zeros):
    """Returns the model with its one-element scales and zero points in these shapes; None leaves them unchanged."""
    model = onnx.ModelProto.FromString(model.SerializeToString())
    for tensor in model.graph.initializer:
        name, count = tensor.name, int(np.prod(tensor.dims))
        shape = scales if name.endswith("_scale") else zeros if name.endswith("_zero_point") else None
        if shape is not None and count == 1:
            tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor).reshape(shape), name))
    return model


def answers(model, x):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, {"x": x})


def step_of(model, output):
    """Returns the scale of a quantised output, by which it may differ: ONNX Runtime may round a tie differently."""
    node = next(node for node in model.graph.node if output in node.output)
    scale = next(tensor for tensor in model.graph.initializer if tensor.name == node.input[1])
    return 1.001 * float(numpy_helper.to_array(scale).ravel()[0])


def write_case(folder, model, x, want, tolerance):
    data = folder / "test_data_set_0"
    data.mkdir(parents=True)
    onnx.save(model, folder / "model.onnx")
    (data / "input_0.pb").write_bytes(numpy_helper.from_array(x).SerializeToString())
    for i, output in enumerate(want):
        (data / f"output_{i}.pb").write_bytes(numpy_helper.from_array(output).SerializeToString())
    (folder / "tol.txt").write_text(f"0 {tolerance}\n")


def static_cases(network, step_output, scratch, cases):
    """Writes the cases of a network, which may differ by one step of an output, and returns the operators of the QOperator
    files."""
    onnx.save(network(), scratch / "float.onnx")
    x = np.random.default_rng(2).standard_normal(SHAPE).astype(np.float32)
    seen = collections.Counter()
    for style in (QuantFormat.QOperator, QuantFormat.QDQ):
        for activations, weights in ((UNSIGNED, UNSIGNED), (UNSIGNED, SIGNED), (SIGNED, SIGNED)):
            for per_channel in (False, True):
                file = scratch / "made.onnx"
                quantize_static(scratch / "float.onnx", file, Images(), quant_format=style, weight_type=weights,
                                activation_type=activations, per_channel=per_channel, reduce_range=weights == SIGNED,
                                # QLinearWhere is only written with this option.
                                extra_options={"ForceQuantizeNoInputCheck": network == moving})
                made = onnx.load(file)
                if style == QuantFormat.QOperator:
                    seen.update(node.op_type for node in made.graph.node)
                want = answers(made, x)
                forms = {"as_written": (None, None), "scalars": ([], []), "vectors": ([1], [1]), "mixed": ([], [1]),
                         "other_way": ([1], [])}
                for name, (scales, zeros) in forms.items():
                    title = "_".join([network.__name__, style.name, activations.name, weights.name,
                                      "channel" if per_channel else "tensor", name])
                    write_case(cases / title, reshaped(made, scales, zeros), x, want, step_of(made, step_output))
    return seen


def dynamic_cases(scratch, cases):
    onnx.save(recurrent(), scratch / "recurrent.onnx")
    x = np.random.default_rng(3).standard_normal((6, 2, 10)).astype(np.float32)
    seen = collections.Counter()
    for weights in (SIGNED, UNSIGNED):
        for per_channel in (False, True):
            file = scratch / "dynamic.onnx"
            quantize_dynamic(scratch / "recurrent.onnx", file, weight_type=weights, per_channel=per_channel,
                             reduce_range=weights == SIGNED, op_types_to_quantize=["MatMul", "Gemm", "LSTM"])
            made = onnx.load(file)
            seen.update(node.op_type for node in made.graph.node)
            title = f"dynamic_{weights.name}_{'channel' if per_channel else 'tensor'}"
            # Kilter does not quantise x and h of the LSTM; ONNX Runtime does, with steps of at most 1/127.
            write_case(cases / title, made, x, answers(made, x), 0.02)
    return seen


def main():
    kilter = sys.argv[1]
    logging.disable(logging.WARNING)
    with tempfile.TemporaryDirectory(prefix="quantised.") as scratch:
        scratch = pathlib.Path(scratch)
        cases = scratch / "cases"
        seen = static_cases(convolutional, "p", scratch, cases) + static_cases(moving, "y", scratch, cases)
        seen += dynamic_cases(scratch, cases)
        missing = (WANTED | {"DynamicQuantizeLSTM", "MatMulInteger"}) - set(seen)
        if missing:
            sys.exit(f"the quantisers no longer write {', '.join(sorted(missing))}: change the networks of this test")
        count = len(list(cases.iterdir()))
        done = subprocess.run([kilter, "check", str(cases)], capture_output=True, text=True)
        print(done.stdout, done.stderr, end="")
        sys.exit(0 if done.returncode == 0 and f"{count} passed" in done.stdout else 1)


if __name__ == "__main__":
    main()
