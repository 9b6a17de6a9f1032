#!/usr/bin/env python3
"""Compares Kilter with ONNX Runtime on networks that ONNX Runtime's own quantiser wrote (static, per tensor).

usage: quantised_test.py KILTER

A small network is calibrated and quantised in every format, and each file is then written with its scales and zero points
as scalars, as one-element vectors, and in both mixtures of these. All of them are the same network.
"""
import logging
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

SHAPE = (1, 3, 8, 8)
TOLERANCE = 0.06  # one step of the output's scale, since a tie may round either way


class Images(CalibrationDataReader):
    def __init__(self):
        rng = np.random.default_rng(0)
        self.images = iter([{"x": rng.standard_normal(SHAPE).astype(np.float32)} for _ in range(8)])

    def get_next(self):
        return next(self.images, None)


def network():
    rng = np.random.default_rng(1)
    weights = {"w": (8, 3, 3, 3), "b": (8,), "v": (8, 8, 1, 1), "m": (8, 5), "c": (5,)}
    nodes = [helper.make_node("Conv", ["x", "w", "b"], ["a"], pads=[1, 1, 1, 1]), helper.make_node("Relu", ["a"], ["r"]),
             helper.make_node("Conv", ["r", "v"], ["s"]), helper.make_node("Add", ["r", "s"], ["t"]),
             helper.make_node("GlobalAveragePool", ["t"], ["g"]), helper.make_node("Flatten", ["g"], ["f"]),
             helper.make_node("MatMul", ["f", "m"], ["p"]), helper.make_node("Add", ["p", "c"], ["y"])]
    graph = helper.make_graph(
        nodes, "quantised", [helper.make_tensor_value_info("x", TensorProto.FLOAT, SHAPE)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 5])],
        [numpy_helper.from_array((0.3 * rng.standard_normal(s)).astype(np.float32), n) for n, s in weights.items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


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
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"]).run(None, {"x": x})[0]


def main():
    kilter = sys.argv[1]
    logging.disable(logging.WARNING)
    with tempfile.TemporaryDirectory(prefix="quantised.") as scratch:
        scratch = pathlib.Path(scratch)
        onnx.save(network(), scratch / "float.onnx")
        x = np.random.default_rng(2).standard_normal(SHAPE).astype(np.float32)
        cases = 0
        for style in (QuantFormat.QOperator, QuantFormat.QDQ):
            for weights in (QuantType.QInt8, QuantType.QUInt8):
                for per_channel in (False, True):
                    file = scratch / "made.onnx"
                    quantize_static(scratch / "float.onnx", file, Images(), quant_format=style, weight_type=weights,
                                    activation_type=QuantType.QUInt8, per_channel=per_channel,
                                    op_types_to_quantize=["Conv", "MatMul"] if style == QuantFormat.QOperator else None)
                    made = onnx.load(file)
                    # With one scale per column, ONNX Runtime's own product differs by 0.09 from the float result.
                    want = answers(made if not per_channel else network(), x)
                    forms = {"as_written": (None, None), "scalars": ([], []), "vectors": ([1], [1]), "mixed": ([], [1]),
                             "other_way": ([1], [])}
                    for name, (scales, zeros) in forms.items():
                        case = scratch / "cases" / f"{style.name}_{weights.name}_{'channel' if per_channel else 'tensor'}_{name}"
                        data = case / "test_data_set_0"
                        data.mkdir(parents=True)
                        onnx.save(reshaped(made, scales, zeros), case / "model.onnx")
                        (data / "input_0.pb").write_bytes(numpy_helper.from_array(x).SerializeToString())
                        (data / "output_0.pb").write_bytes(numpy_helper.from_array(want).SerializeToString())
                        (case / "tol.txt").write_text(f"0 {TOLERANCE}\n")
                        cases += 1
        done = subprocess.run([kilter, "check", str(scratch / "cases")], capture_output=True, text=True)
        print(done.stdout, done.stderr, end="")
        sys.exit(0 if done.returncode == 0 and f"{cases} passed" in done.stdout else 1)


if __name__ == "__main__":
    main()
