#!/usr/bin/env python3
"""Tests kilter quantize: runs the written files with ONNX Runtime, OpenVINO and Kilter, and compares its report and errors.

usage: quantize_test.py KILTER MODELS

The networks are a small one with the structures of real ones (depthwise and residual convolutions, squeeze and excitation,
pools, Concat, HardSwish, attention) and, if MODELS contains it, the classifier of the PyPI wheel rapidocr-onnxruntime.
"""
import itertools
import json
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

CLASSIFIER = "rapidocr_onnxruntime/models/ch_ppocr_mobile_v2.0_cls_infer.onnx"
SHAPE = (1, 3, 24, 24)
CLASSES = 10
LEAST_DB = 25  # of the output of the small network; measured: 27.3 to 28.6


class Maker:
    """Builds a network from operators, with seeded weights."""

    def __init__(self):
        self.nodes, self.weights = [], []
        self.random = np.random.default_rng(1)

    def weight(self, *shape, factor=None):
        name = f"w{len(self.weights)}"
        fan_in = int(np.prod(shape[1:])) if len(shape) > 1 else 1
        values = self.random.standard_normal(shape) * (factor or (2 / fan_in) ** 0.5)
        self.weights.append(numpy_helper.from_array(values.astype(np.float32), name))
        return name

    def constant(self, values):
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.array(values), name))
        return name

    def add(self, op, *inputs, **attributes):
        output = f"{op.lower()}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, list(inputs), [output], name=f"{op}{len(self.nodes)}", **attributes))
        return output

    def conv(self, x, channels_in, channels, kernel=3, stride=1, group=1, norm=True):
        weight = self.weight(channels, channels_in // group, kernel, kernel)
        pad = [kernel // 2] * 4
        if not norm:
            return self.add("Conv", x, weight, self.weight(channels, factor=0.1), pads=pad, strides=[stride] * 2, group=group)
        y = self.add("Conv", x, weight, pads=pad, strides=[stride] * 2, group=group)
        parameters = [np.abs(self.random.standard_normal(channels)).astype(np.float32) + 0.5 for _ in range(4)]
        return self.add("BatchNormalization", y, *map(self.constant, parameters))


def network():
    m = Maker()
    x = m.add("Relu", m.conv("x", 3, 16, stride=2))
    x = m.add("MaxPool", x, kernel_shape=[3, 3], strides=[1, 1], pads=[1] * 4)
    y = m.add("Clip", m.conv(x, 16, 16, group=16), m.constant(np.float32(0)), m.constant(np.float32(6)))
    x = m.add("Relu", m.add("Add", m.conv(y, 16, 16, kernel=1), x))
    y = m.add("HardSwish", m.conv(x, 16, 24, norm=False))
    scale = m.add("Relu", m.conv(m.add("GlobalAveragePool", y), 24, 8, kernel=1, norm=False))
    scale = m.add("HardSigmoid", m.conv(scale, 8, 24, kernel=1, norm=False))
    y = m.add("Mul", y, scale)
    x = m.add("Concat", m.conv(y, 24, 16, norm=False), x, axis=1)
    x = m.add("AveragePool", x, kernel_shape=[2, 2], strides=[2, 2])
    x = m.add("LeakyRelu", m.conv(x, 32, 32), alpha=0.1)
    tokens = m.add("Transpose", m.add("Reshape", x, m.constant(np.array([1, 32, 36]))), perm=[0, 2, 1])
    query, key = (m.add("Add", m.add("MatMul", tokens, m.weight(32, 16, factor=0.2)), m.weight(16, factor=0.1)) for _ in range(2))
    scores = m.add("Softmax", m.add("MatMul", query, m.add("Transpose", key, perm=[0, 2, 1])), axis=-1)
    x = m.add("ReduceMean", m.add("MatMul", scores, tokens), axes=[1], keepdims=0)
    x = m.add("Add", m.add("MatMul", x, m.weight(32, CLASSES)), m.weight(CLASSES, factor=0.1))
    m.nodes[-1].output[0] = "y"
    graph = helper.make_graph(m.nodes, "small", [helper.make_tensor_value_info("x", TensorProto.FLOAT, SHAPE)],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, CLASSES])], m.weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)], ir_version=8, producer_name="somebody")
    model.metadata_props.add(key="licence", value="free")
    return model


def write_samples(folder, shape, count):
    folder.mkdir()
    random = np.random.default_rng(2)
    for i in range(count):
        np.save(folder / f"{i:03}.npy", random.standard_normal(shape).astype(np.float32))
    return [np.load(file) for file in sorted(folder.glob("*.npy"))]


def answers(model, samples, optimised=False):
    """Returns all outputs of ONNX Runtime for each sample."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    level = onnxruntime.GraphOptimizationLevel
    options.graph_optimization_level = level.ORT_ENABLE_ALL if optimised else level.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return [session.run(None, {"x": x}) for x in samples]


def decibels(want, got):
    """Of the first output."""
    want, got = (np.concatenate([outputs[0].ravel() for outputs in all_outputs]).astype(np.float64) for all_outputs in (want, got))
    return 10 * np.log10(np.sum(want ** 2) / np.sum((want - got) ** 2))


class Test:
    def __init__(self, kilter, folder):
        self.kilter, self.folder = kilter, folder
        self.faults = []

    def run(self, *arguments):
        return subprocess.run([self.kilter, *map(str, arguments)], cwd=self.folder, capture_output=True, text=True)

    def check(self, holds, fault):
        if not holds:
            self.faults.append(fault)

    def quantise(self, model, samples, *options):
        """Returns the written model and the report."""
        done = self.run("quantize", model, "--samples", samples, *options, "-o", "q.onnx", "--json", "q.json")
        assert done.returncode == 0, f"{options}: {done.stderr}"
        written = onnx.load(self.folder / "q.onnx")
        onnx.checker.check_model(written, full_check=True)
        return written, json.loads((self.folder / "q.json").read_text()), done.stdout

    def integers(self, written, samples, what):
        """Compares every quantised value of a QDQ file, as Kilter and ONNX Runtime compute it. A tie that one of them
        rounds differently may change later values by one more step, but not more."""
        shown = onnx.ModelProto.FromString(written.SerializeToString())
        del shown.graph.output[:]
        for node in written.graph.node:
            if node.op_type == "QuantizeLinear":
                zero = next(t for t in written.graph.initializer if t.name == node.input[2])
                shown.graph.output.append(helper.make_tensor_value_info(node.output[0], zero.data_type, None))
        onnx.save(shown, self.folder / "shown.onnx")
        np.save(self.folder / "x.npy", samples[0])
        done = self.run("run", "shown.onnx", "--input", "x=x.npy", "--output", "shown")
        assert done.returncode == 0, f"{what}: {done.stderr}"
        different = count = 0
        for output, want in zip(shown.graph.output, answers(shown, samples[:1])[0]):
            got = np.load(self.folder / "shown" / (re.sub(r"[^A-Za-z0-9_.-]", "_", output.name) + ".npy"))
            steps = np.abs(want.astype(np.int32) - got.astype(np.int32))
            self.check(steps.max(initial=0) <= 1, f"{what}: {output.name} differs by {steps.max(initial=0)} steps")
            different, count = different + np.count_nonzero(steps), count + steps.size
        self.check(different <= 0.02 * count, f"{what}: {different} of {count} integers differ")

    def openvino(self, want, samples, least, what):
        import openvino
        model = openvino.Core().compile_model(str(self.folder / "q.onnx"), "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
        got = decibels(want, [[model([x])[0]] for x in samples])
        self.check(got >= least, f"{what}: OpenVINO {got:.1f} dB, expected {least}")

    def one(self, model, folder, samples, options, least):
        what = f"{model} {' '.join(options)}"
        want = answers(onnx.load(self.folder / model), samples)
        written, report, _ = self.quantise(model, folder, *options)
        output = report["outputs"][0]
        exact, fused = (decibels(want, answers(written, samples, optimised)) for optimised in (False, True))
        print(f"{what}: reported {output['db']:.1f} dB, ONNX Runtime {exact:.1f} and {fused:.1f} dB")
        self.check(min(exact, fused) >= least, f"{what}: {exact:.1f} and {fused:.1f} dB, expected {least}")
        self.check(abs(output["db"] - exact) < 3, f"{what}: reported {output['db']:.1f} dB, found {exact:.1f}")
        alone = [layer["alone_db"] for layer in report["layers"] if layer["alone_db"] is not None]
        self.check(alone == sorted(alone), f"{what}: the layers are not sorted")
        if report["format"] == "qdq":
            # If ranges exclude values, one step may grow to several in a softmax.
            if report["method"] == "minmax":
                self.integers(written, samples, what)
            self.openvino(want, samples, least, what)
        return written, report

    def formats(self, samples):
        choices = [("qdq", "qoperator"), ("u8", "s8"), ("s8", "u8"), (False, True)]
        for form, activations, weights, per_channel in itertools.product(*choices):
            if (form, activations, weights) == ("qoperator", "s8", "u8"):
                continue
            options = ["--format", form, "--activations", activations, "--weights", weights] + ["--per-channel"] * per_channel
            written, report = self.one("small.onnx", "samples", samples, options, LEAST_DB)
            self.check(written.metadata_props[0].value == "free" and written.producer_name == "somebody", "metadata are lost")
            self.check(report["folded_nodes"] == 5, f"{report['folded_nodes']} nodes folded")
            self.check([o.name for o in written.graph.output] == ["y"], "the output has another name")
            self.check(report["outputs"][0]["rows"] == len(samples), "rows")
        self.one("small.onnx", "samples", samples, ["--method", "percentile", "--percentile", "99.9", "--per-channel"], LEAST_DB - 3)
        # Entropy clips the few large values of a softmax.
        attended = next(n.name for n in network().graph.node if n.op_type == "MatMul" and n.input[0].startswith("softmax"))
        self.one("small.onnx", "samples", samples, ["--method", "entropy", "--per-channel", "--exclude", attended], LEAST_DB - 3)

    def fusions(self):
        """The convolutions, products and sums become operators on integers in ONNX Runtime."""
        options = onnxruntime.SessionOptions()
        options.optimized_model_filepath = str(self.folder / "fused.onnx")
        options.log_severity_level = 3
        self.quantise("small.onnx", "samples")
        onnxruntime.InferenceSession(str(self.folder / "q.onnx"), options, providers=["CPUExecutionProvider"])
        left = [n.name for n in onnx.load(self.folder / "fused.onnx").graph.node if n.op_type in ("Conv", "Gemm", "MatMul", "FusedMatMul")]
        self.check(not left, f"ONNX Runtime computes {left} in float")

    def excluded(self):
        _, report, text = self.quantise("small.onnx", "samples")
        worst = report["layers"][0]["node"]
        written, report, _ = self.quantise("small.onnx", "samples", "--exclude", worst)
        node = next(n for n in written.graph.node if n.name == worst)
        self.check(all("dequantized" not in name for name in node.input[1:]), f"{worst} has quantised weights")
        self.check({"node": worst, "op": node.op_type, "reason": "--exclude"} in report["float_products"], "left out")
        # The command that the report suggests runs unchanged.
        suggested = re.findall(r": kilter (quantize .*)", text)
        self.check(len(suggested) == 2, text)
        for line in suggested:
            done = self.run(*shlex.split(line))
            self.check(done.returncode == 0, f"{line}: {done.stderr}")

    def two_inputs(self):
        """A network with an input of integers; each sample is a folder."""
        random = np.random.default_rng(3)
        weights = {"table": (50, 8), "w": (16, 6), "b": (6,)}
        nodes = [helper.make_node("Gather", ["table", "ids"], ["rows"]), helper.make_node("ReduceMean", ["rows"], ["mean"], axes=[1], keepdims=0),
                 helper.make_node("Concat", ["x/y", "mean"], ["both"], axis=1), helper.make_node("Gemm", ["both", "w", "b"], ["z"], name="last")]
        graph = helper.make_graph(
            nodes, "two", [helper.make_tensor_value_info("x/y", TensorProto.FLOAT, ["n", 8]), helper.make_tensor_value_info("ids", TensorProto.INT64, ["n", 5])],
            [helper.make_tensor_value_info("z", TensorProto.FLOAT, ["n", 6])],
            [numpy_helper.from_array(random.standard_normal(shape).astype(np.float32), name) for name, shape in weights.items()])
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), self.folder / "two.onnx")
        for i, batch in enumerate((1, 3, 1)):
            folder = self.folder / "two" / str(i)
            folder.mkdir(parents=True)
            np.save(folder / "x_y.npy", random.standard_normal((batch, 8)).astype(np.float32))
            np.save(folder / "ids.npy", random.integers(0, 50, (batch, 5)))
        _, report, _ = self.quantise("two.onnx", "two")
        self.check(report["outputs"][0]["rows"] == 5 and report["outputs"][0]["db"] > 30, f"two inputs: {report['outputs']}")
        self.check([layer["node"] for layer in report["layers"]] == ["last"], f"two inputs: {report['layers']}")

    def weights(self, samples):
        want = answers(onnx.load(self.folder / "small.onnx"), samples)
        for form, bits in itertools.product(("matmulnbits", "qdq"), (4, 8)):
            done = self.run("quantize", "small.onnx", "--weights", f"int{bits}", "--block", 16, "--format", form, "-o", "q.onnx")
            assert done.returncode == 0, done.stderr
            written = onnx.load(self.folder / "q.onnx")
            onnx.checker.check_model(written, full_check=True)
            self.check(form == "matmulnbits" or written.opset_import[0].version == 21, "opset")
            got, least = decibels(want, answers(written, samples)), {4: 15, 8: 38}[bits]
            print(f"weights of {bits} bits, {form}: {got:.1f} dB")
            self.check(got >= least, f"{form}, {bits} bits: {got:.1f} dB, expected {least}")
            if form == "qdq":
                self.openvino(want, samples, least, f"{form}, {bits} bits")

    def error(self, arguments, expected, code=2):
        done = self.run("quantize", *arguments, "-o", "none.onnx")
        self.check(done.returncode == code and done.stderr == f"kilter: {expected}\n", f"{arguments}: exit {done.returncode}: {done.stderr}")
        self.check(not (self.folder / "none.onnx").exists(), f"{arguments}: a file was written")

    def errors(self):
        self.error(["small.onnx"], "quantize small.onnx: give a folder of samples with --samples DIR, from which the ranges of the values "
                   "are measured (without samples: --weights int4 or int8, for the weights of MatMul and Gemm only)\n"
                   "the model's inputs:\n  x: f32[1,3,24,24]\n"
                   "each file DIR/*.npy is one sample of 'x'. To make samples in Python from real inputs (about 100):\n"
                   "  for i, x in enumerate(inputs): numpy.save(f\"DIR/{i:04}.npy\", x.astype(numpy.float32))")
        (self.folder / "empty").mkdir()
        self.error(["small.onnx", "--samples", "empty"], "--samples empty: the folder contains no samples\n"
                   "the model's inputs:\n  x: f32[1,3,24,24]\n"
                   "each file DIR/*.npy is one sample of 'x'. To make samples in Python from real inputs (about 100):\n"
                   "  for i, x in enumerate(inputs): numpy.save(f\"DIR/{i:04}.npy\", x.astype(numpy.float32))", 3)
        idle = "{0} has no effect without {1}; leave it out, or add {1}"
        self.error(["small.onnx", "--samples", "samples", "--percentile", "99"], idle.format("--percentile", "--method percentile"))
        self.error(["small.onnx", "--samples", "samples", "--block", "32"], idle.format("--block", "--weights int4 or int8"))
        self.error(["small.onnx", "--weights", "int4", "--samples", "samples"], idle.format("--samples", "--weights s8 or u8"))
        self.error(["small.onnx", "--weights", "int4", "--block", "48"], "--block 48: expected a power of two, 16 or more")
        self.error(["small.onnx", "--samples", "samples", "--exclude", "Conv99"],
                   "--exclude Conv99: small.onnx has no node of this name; legal values are the names in the table that quantize prints, and those "
                   "that `kilter inspect` lists; a node without a name is named after its first output")
        self.error(["small.onnx", "--samples", "samples", "--format", "qoperator", "--activations", "s8", "--weights", "u8"],
                   "--format qoperator with --activations s8 and --weights u8: no runtime has QLinearConv for these types; use "
                   "--weights s8, or --format qdq")
        done = self.run("quantize", "small.onnx", "--samples", "samples", "-o", "./small.onnx")
        self.check(done.stderr == "kilter: -o ./small.onnx is the model itself and would overwrite it; give another "
                                  "file\n", done.stderr)


def main():
    kilter, models = pathlib.Path(sys.argv[1]).absolute(), pathlib.Path(sys.argv[2])
    with tempfile.TemporaryDirectory(prefix="quantize.") as scratch:
        test = Test(kilter, pathlib.Path(scratch))
        onnx.save(network(), test.folder / "small.onnx")
        samples = write_samples(test.folder / "samples", SHAPE, 8)
        test.formats(samples)
        test.fusions()
        test.excluded()
        test.two_inputs()
        test.weights(samples)
        test.errors()
        if (models / CLASSIFIER).exists():
            (test.folder / "classifier.onnx").write_bytes((models / CLASSIFIER).read_bytes())
            images = write_samples(test.folder / "images", (1, 3, 48, 192), 8)
            test.one("classifier.onnx", "images", images, ["--per-channel"], 20)
            test.one("classifier.onnx", "images", images, ["--format", "qoperator", "--per-channel"], 20)
    print("\n".join(test.faults) or "all files run and agree")
    return 1 if test.faults else 0


if __name__ == "__main__":
    sys.exit(main())
