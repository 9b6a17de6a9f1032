#!/usr/bin/env python3
"""Compares Kilter with exact arithmetic and with ONNX Runtime on quantised operators, most of domain com.microsoft.

usage: microsoft_operators_test.py KILTER [--list]

Kilter must give the exact result of an operator with a quantised output: its real value, divided by the scale of the
output, rounded once. ONNX Runtime computes in f32; it may differ from that by one step, and only where the exact quotient is
a tie within the rounding of f32. Float outputs must agree within the rounding of their sums.
"""
import argparse
import pathlib
import subprocess
import sys
import tempfile
from fractions import Fraction

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

F32_ROUNDING = 2.0**-20  # several roundings, as a part of the largest term
TYPES = {np.dtype(np.uint8): (0, 255), np.dtype(np.int8): (-128, 127)}
INT8S = (np.uint8, np.int8)


class Case:
    """One node. `exact` maps the inputs by name to Fractions, or f64, of y / y_scale and the size of the largest term.
    `peer` is the node that ONNX Runtime runs, if it is a different one."""

    def __init__(self, op, inputs, exact=None, domain="com.microsoft", outputs=("y",), types=(), rtol=2e-6, peer=None, **attrs):
        self.op, self.exact, self.domain, self.peer = op, exact, domain, peer or self
        self.inputs = [(n, None if v is None else np.asarray(v)) for n, v in inputs]
        self.outputs, self.types, self.rtol, self.attrs = outputs, types, rtol, attrs

    def model(self, constants):
        tensors = {n: v for n, v in self.inputs if v is not None}
        node = helper.make_node(self.op, [n if v is not None else "" for n, v in self.inputs], list(self.outputs),
                                domain=self.domain, **self.attrs)
        graph = helper.make_graph(
            [node], "case",
            [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape)
             for n, v in tensors.items() if n not in constants],
            [helper.make_tensor_value_info(n, t, None) for n, t in zip(filter(None, self.outputs), self.types)],
            [numpy_helper.from_array(v.copy(), n) for n, v in tensors.items() if n in constants])
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)],
                                 ir_version=10)

    def text(self):
        shapes = " ".join("?" if v is None else f"{v.dtype}{list(v.shape)}" for _, v in self.inputs)
        return f"{self.op} {shapes} {self.attrs or ''}"


# ---- Values ----


def integers(rng, dtype, shape, limit=None):
    low, high = TYPES[np.dtype(dtype)] if limit is None else limit
    return rng.integers(low, high + 1, shape).astype(dtype)


def scale(rng, low=0.002, high=0.1):
    return np.float32(rng.uniform(low, high)).reshape(())


def exact_of(values, zero, factor):
    """(values - zero) * factor, as an array of Fractions."""
    wide = values.astype(np.int64) - (0 if zero is None else zero.astype(np.int64))
    factors = np.vectorize(lambda f: Fraction(float(f)), otypes=[object])(factor)
    return np.vectorize(Fraction, otypes=[object])(wide) * factors


def size(values):
    return max((abs(float(v)) for v in np.asarray(values).ravel()), default=0.0)


def tensor_type(dtype):
    return helper.np_dtype_to_tensor_dtype(np.dtype(dtype))


# ---- Cases ----


def elementwise(rng):
    shapes = [((64, 65), (64, 65)), ((3, 5, 7), (7,)), ((2, 1, 9), (4, 1)), ((1000,), (1,))]
    for op in ("QLinearAdd", "QLinearMul"):
        for dtype in INT8S:
            for n, (left, right) in enumerate(shapes):
                a, b = integers(rng, dtype, left), integers(rng, dtype, right)
                az, bz, cz = (integers(rng, dtype, ()) for _ in range(3))
                a_scale, b_scale, c_scale = scale(rng), scale(rng), scale(rng)
                if n == 0:  # many ties
                    a_scale, b_scale, c_scale = (np.float32(v).reshape(()) for v in (0.5, 0.25, 0.5 if op == "QLinearAdd" else 4))
                def exact(x, az=az, add=op == "QLinearAdd"):
                    left = exact_of(x["a"], az, x["a_scale"])
                    right = exact_of(x["b"], x["b_zero"], x["b_scale"])
                    y_scale = Fraction(float(x["y_scale"]))
                    return ((left + right if add else left * right) / y_scale,
                            (size(left) + size(right) if add else size(left) * size(right)) / float(y_scale))
                yield Case(op, [("a", a), ("a_scale", a_scale), ("a_zero", az), ("b", b), ("b_scale", b_scale), ("b_zero", bz),
                                ("y_scale", c_scale), ("y_zero", cz)], exact, types=[tensor_type(dtype)])


def unary(rng):
    for dtype in INT8S:
        x = np.arange(TYPES[np.dtype(dtype)][0], TYPES[np.dtype(dtype)][1] + 1).astype(dtype)
        for _ in range(3):
            inputs = [("x", x), ("x_scale", scale(rng)), ("x_zero", integers(rng, dtype, ()))]
            output = [("y_scale", scale(rng)), ("y_zero", integers(rng, dtype, ()))]

            def leaky(v):
                real = exact_of(v["x"], v["x_zero"], v["x_scale"])
                alpha = Fraction(float(np.float32(0.3)))
                y = np.array([r * alpha if r < 0 else r for r in real], dtype=object) / Fraction(float(v["y_scale"]))
                return y, size(y)

            def logistic(v):
                real = exact_of(v["x"], v["x_zero"], v["x_scale"]).astype(np.longdouble)
                y = 1 / (1 + np.exp(-real)) / np.longdouble(v["y_scale"])
                return y, size(y)

            yield Case("QLinearLeakyRelu", inputs + output, leaky, types=[tensor_type(dtype)], alpha=0.3)
            yield Case("QLinearSigmoid", inputs + [("y_scale", np.float32(1 / 256).reshape(())), output[1]], logistic,
                       types=[tensor_type(dtype)])


def softmax(rng):
    for dtype in INT8S:
        zero = np.array(TYPES[np.dtype(dtype)][0], dtype)
        for shape, axis in (((7, 33), -1), ((2, 3, 50), 2), ((2, 9, 5), 1)):
            def exact(v, axis=axis):
                real = exact_of(v["x"], v["x_zero"], v["x_scale"]).astype(np.longdouble)
                e = np.exp(real - real.max(axis, keepdims=True))
                y = e / e.sum(axis, keepdims=True) / np.longdouble(v["y_scale"])
                return y, size(y)
            yield Case("QLinearSoftmax",
                       [("x", integers(rng, dtype, shape)), ("x_scale", scale(rng)), ("x_zero", integers(rng, dtype, ())),
                        ("y_scale", np.float32(1 / 256).reshape(())), ("y_zero", zero)],
                       exact, types=[tensor_type(dtype)], axis=axis, opset=13)


def windows(x, kernel, strides, pads, include_padding):
    """Sums and numbers of elements of 2-D windows of x [N, C, H, W]."""
    (kh, kw), (sh, sw), (top, left, bottom, right) = kernel, strides, pads
    n, c, h, w = x.shape
    out = ((h + top + bottom - kh) // sh + 1, (w + left + right - kw) // sw + 1)
    sums, counts = np.empty((n, c) + out, dtype=object), np.empty((n, c) + out, dtype=object)
    for i in range(out[0]):
        for j in range(out[1]):
            rows, columns = (max(0, i * sh - top), i * sh - top + kh), (max(0, j * sw - left), j * sw - left + kw)
            part = x[:, :, rows[0]:rows[1], columns[0]:columns[1]]
            sums[:, :, i, j] = part.sum((2, 3))
            counts[:, :, i, j] = kh * kw if include_padding else part.shape[2] * part.shape[3]
    return sums, counts


def pools(rng):
    for dtype in INT8S:
        for last in (0, 1):
            for op, shape, attrs in (
                    ("QLinearGlobalAveragePool", (2, 5, 7, 7), {}),
                    ("QLinearAveragePool", (1, 6, 9, 11), dict(kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])),
                    ("QLinearAveragePool", (2, 3, 8, 8),
                     dict(kernel_shape=[2, 3], strides=[2, 1], pads=[0, 1, 0, 1], count_include_pad=1))):
                x = integers(rng, dtype, shape)
                def exact(v, attrs=attrs, shape=shape, last=last):
                    x = v["x"].transpose(0, 3, 1, 2) if last else v["x"]
                    real = exact_of(x, v["x_zero"], v["x_scale"]) / Fraction(float(v["y_scale"]))
                    sums, counts = windows(real, attrs.get("kernel_shape", shape[2:]), attrs.get("strides", (1, 1)),
                                           attrs.get("pads", (0, 0, 0, 0)), attrs.get("count_include_pad", 0))
                    y = sums / counts
                    return (y.transpose(0, 2, 3, 1) if last else y), size(real)
                yield Case(op, [("x", np.ascontiguousarray(x.transpose(0, 2, 3, 1)) if last else x), ("x_scale", scale(rng)),
                                ("x_zero", integers(rng, dtype, ())), ("y_scale", scale(rng)),
                                ("y_zero", integers(rng, dtype, ()))],
                           exact, types=[tensor_type(dtype)], channels_last=last, **attrs)


def concat(rng):
    for dtype in INT8S:
        inputs = [("y_scale", scale(rng)), ("y_zero", integers(rng, dtype, ()))]
        for k, extent in enumerate((3, 1, 5)):
            inputs += [(f"x{k}", integers(rng, dtype, (2, extent, 50))), (f"x{k}_scale", scale(rng)),
                       (f"x{k}_zero", integers(rng, dtype, ()))]
        def exact(v):
            parts = [exact_of(v[f"x{k}"], v[f"x{k}_zero"], v[f"x{k}_scale"]) for k in range(3)]
            y = np.concatenate(parts, 1) / Fraction(float(v["y_scale"]))
            return y, size(y)
        yield Case("QLinearConcat", inputs, exact, types=[tensor_type(dtype)], axis=1)


def where(rng):
    for dtype in INT8S:
        def exact(v):
            x = exact_of(v["x"], v["x_zero"], v["x_scale"])
            y = exact_of(v["other"], v["other_zero"], v["other_scale"])
            z = np.where(v["condition"], x, y) / Fraction(float(v["y_scale"]))
            return z, size(z)
        yield Case("QLinearWhere",
                   [("condition", rng.random((4, 1, 50)) < 0.5), ("x", integers(rng, dtype, (3, 50))), ("x_scale", scale(rng)),
                    ("x_zero", integers(rng, dtype, ())), ("other", integers(rng, dtype, (50,))), ("other_scale", scale(rng)),
                    ("other_zero", integers(rng, dtype, ())), ("y_scale", scale(rng)), ("y_zero", integers(rng, dtype, ()))],
                   exact, types=[tensor_type(dtype)])


def product_exact(v, turn_b=False, alpha=1):
    """The exact product, with the scale of b per column."""
    b = v["b"].T if turn_b else v["b"]
    sums = (v["a"].astype(np.int64) - v["a_zero"]) @ (b.astype(np.int64) - v["b_zero"])
    if v.get("c") is not None:
        sums = sums + v["c"]
    return exact_of(sums, None, v["a_scale"]) * exact_of(np.ones(1, np.int64), None, v["b_scale"]) * alpha


def products(rng):
    for left, right in ((np.uint8, np.uint8), (np.uint8, np.int8), (np.int8, np.int8)):
        for per_column in (False, True):
            columns = (40,) if per_column else ()
            # Sums of pairs of products of u8 and i8 saturate in some kernels of ONNX Runtime if weights exceed 7 bits.
            limit = (-64, 63) if right == np.int8 else None
            a, b = integers(rng, left, (30, 50)), integers(rng, right, (50, 40), limit)
            parameters = dict(a_scale=scale(rng), a_zero=integers(rng, left, ()),
                              b_scale=rng.uniform(0.002, 0.1, columns).astype(np.float32),
                              b_zero=integers(rng, right, columns, limit), y_scale=scale(rng, 1, 5),
                              y_zero=integers(rng, left, ()))
            p = {k: (k, np.asarray(v)) for k, v in parameters.items()}
            c = rng.integers(-5000, 5000, 40).astype(np.int32)
            for turn in (0, 1):
                def exact(v, turn=turn):
                    y = product_exact(v, turn) / Fraction(float(v["y_scale"]))
                    return y, size(y)
                yield Case("QGemm", [("a", a), p["a_scale"], p["a_zero"], ("b", np.ascontiguousarray(b.T) if turn else b),
                                     p["b_scale"], p["b_zero"], ("c", c), p["y_scale"], p["y_zero"]],
                           exact, types=[tensor_type(left)], transB=turn)
            yield Case("QGemm", [("a", a), p["a_scale"], p["a_zero"], ("b", b), p["b_scale"], p["b_zero"]],
                       types=[TensorProto.FLOAT], alpha=0.5)
            yield Case("MatMulIntegerToFloat", [("a", a), ("b", b), p["a_scale"], p["b_scale"], p["a_zero"], p["b_zero"],
                                                ("bias", rng.standard_normal(40).astype(np.float32))],
                       types=[TensorProto.FLOAT])
            yield Case("DynamicQuantizeMatMul", [("a", rng.standard_normal((3, 50)).astype(np.float32)), ("b", b), p["b_scale"],
                                                 p["b_zero"], ("bias", rng.standard_normal(40).astype(np.float32))],
                       types=[TensorProto.FLOAT])
            if not per_column:
                def exact_matmul(v):
                    y = product_exact(v) / Fraction(float(v["y_scale"]))
                    return y, size(y)
                yield Case("QLinearMatMul", [("a", a), p["a_scale"], p["a_zero"], ("b", b), p["b_scale"], p["b_zero"],
                                             p["y_scale"], p["y_zero"]], exact_matmul, domain="", types=[tensor_type(left)])


def blocks(rng):
    """Weights of a few bits with one scale per block."""
    def floats(*shape):
        return rng.standard_normal(shape).astype(np.float32)
    def raw(*shape):
        return rng.integers(0, 256, shape).astype(np.uint8)
    for bits in (4, 8):
        for block in (16, 32, 128):
            for k in (block, 200):
                n, count = 24, -(-k // block)
                zeros = raw(n, -(-count * bits // 8))
                for zero in (None, zeros, floats(n, count)):
                    if zero is not None and zero.dtype == np.float32 and bits == 8:
                        continue  # ONNX Runtime has no kernel
                    bias = floats(n) if zero is not None else None
                    yield Case("MatMulNBits", [("a", floats(2, 3, k)), ("b", raw(n, count, block * bits // 8)),
                                               ("scales", floats(n, count)), ("zeros", zero), ("g_idx", None), ("bias", bias)],
                               types=[TensorProto.FLOAT], K=k, N=n, bits=bits, block_size=block)
        # ONNX Runtime reads g_idx only for the first eight rows of a block, and with g_idx ignores zero points.
        order = np.repeat(rng.permutation(4), 16).astype(np.int32)
        if bits == 4:
            yield Case("MatMulNBits", [("a", floats(3, 64)), ("b", raw(8, 4, 8)), ("scales", floats(8, 4)), ("zeros", None),
                                       ("g_idx", order)], types=[TensorProto.FLOAT], K=64, N=8, bits=4, block_size=16)
        for zero in (None, raw(20, 2 * bits // 8)):
            yield Case("GatherBlockQuantized",
                       [("data", raw(20, 64 * bits // 8)), ("indices", np.array([[3, 0], [-1, 19]], np.int64)),
                        ("scales", floats(20, 2)), ("zeros", zero)],
                       types=[TensorProto.FLOAT], rtol=0, bits=bits, block_size=32)


def tables(rng):
    ids = rng.integers(0, 9, (2, 5)).astype(np.int32)
    mask = np.array([[1, 1, 1, 1, 0], [1, 1, 0, 0, 0]], np.int32)
    for dtype in INT8S:
        shapes = {"word": (9, 16), "position": (8, 16), "segment": (2, 16), "gamma": (16,), "beta": (16,)}
        values = {n: integers(rng, dtype, s) for n, s in shapes.items()}
        for segments in (True, False):
            keep = {n: v if segments or n != "segment" else None for n, v in values.items()}
            scales = [(n + "_scale", scale(rng) if v is not None else None) for n, v in keep.items()]
            zeros = [(n + "_zero", integers(rng, dtype, ()) if v is not None else None) for n, v in keep.items()]
            yield Case("QEmbedLayerNormalization",
                       [("ids", ids), ("segments", ids % 2 if segments else None), *keep.items(),
                        ("mask", mask if segments else None), *scales, *zeros],
                       types=[TensorProto.FLOAT, TensorProto.INT32], outputs=("y", "lengths"), rtol=1e-5)
    x = rng.standard_normal((3, 4, 10)).astype(np.float32)
    for dtype in (np.uint8, np.int8, np.uint16, np.int16):
        for shape, attrs in (((), {}), ((4,), {"axis": 1})):
            scales, zero = rng.uniform(0.01, 0.1, shape).astype(np.float32), np.full(shape, 3, dtype)
            yield Case("QuantizeLinear", [("x", x), ("s", scales), ("z", zero)], types=[tensor_type(dtype)], rtol=0, **attrs)
            yield Case("DequantizeLinear", [("x", rng.integers(0, 100, x.shape).astype(dtype)), ("s", scales), ("z", zero)],
                       types=[TensorProto.FLOAT], rtol=0, **attrs)


def dequantised(x):
    """The values that DynamicQuantizeLinear's result represents."""
    low, high = np.minimum(x.min(), np.float32(0)), np.maximum(x.max(), np.float32(0))
    step = (high - low) / np.float32(255)
    zero = np.rint(-low / step)
    return ((np.clip(np.rint(x / step) + zero, 0, 255) - zero) * step).astype(np.float32)


def lstm(rng):
    """x and the weights are quantised. ONNX Runtime also quantises h, in portions that depend on its number of threads,
    so Kilter must agree with its LSTM with the dequantised x and weights."""
    for directions, hidden, inputs in ((1, 9, 7), (2, 5, 6)):
        x = rng.standard_normal((6, 2, inputs)).astype(np.float32)
        for dtype in INT8S:
            for per_column in (False, True):
                parameters, floats = [], {}
                for name, rows in (("w", inputs), ("r", hidden)):
                    q = integers(rng, dtype, (directions, rows, 4 * hidden))
                    shape = (directions, 4 * hidden) if per_column else (directions,)
                    s, z = rng.uniform(0.001, 0.01, shape).astype(np.float32), integers(rng, dtype, shape)
                    spread = (directions, 1, -1)
                    floats[name] = ((q.astype(np.int32) - z.reshape(spread)) * s.reshape(spread)).astype(np.float32)
                    parameters += [(name, q), (name + "_scale", s), (name + "_zero", z)]
                bias = rng.standard_normal((directions, 8 * hidden)).astype(np.float32)
                attrs = dict(hidden_size=hidden, direction="bidirectional" if directions == 2 else "reverse")
                outputs, types = ("y", "h", "c"), [TensorProto.FLOAT] * 3
                peer = Case("LSTM", [("x", dequantised(x)), *[(n, v.transpose(0, 2, 1)) for n, v in floats.items()], ("bias", bias)],
                            domain="", outputs=outputs, types=types, **attrs)
                yield Case("DynamicQuantizeLSTM",
                           [("x", x), parameters[0], parameters[3], ("bias", bias), ("lengths", None), ("h0", None), ("c0", None),
                            ("peepholes", None), *parameters[1:3], *parameters[4:6]],
                           outputs=outputs, types=types, rtol=1e-5, peer=peer, **attrs)


def attention(rng):
    batch, length, heads, hidden, past_length = 2, 5, 2, 16, 3
    x, w = integers(rng, np.uint8, (batch, length, hidden)), integers(rng, np.int8, (hidden, 3 * hidden), (-64, 63))
    base = [("x", x), ("w", w), ("bias", rng.standard_normal(3 * hidden).astype(np.float32)),
            ("x_scale", scale(rng, 0.005, 0.01)), ("w_scale", scale(rng, 0.005, 0.01))]
    zeros = [("x_zero", np.uint8(120).reshape(())), ("w_zero", np.int8(0).reshape(()))]
    past = rng.standard_normal((2, batch, heads, past_length, hidden // heads)).astype(np.float32)
    seen = (rng.random((batch, length)) < 0.7).astype(np.int32)
    seen[:, 0] = 1
    for mask in (None, np.array([4, 5], np.int32), np.array([4, 5, 1, 0], np.int32), seen):
        for causal in (0, 1):
            yield Case("QAttention", base + [("mask", mask)] + zeros, types=[TensorProto.FLOAT], rtol=2e-5, num_heads=heads,
                       unidirectional=causal)
    yield Case("QAttention", base + [("mask", None)] + zeros + [("past", past)], types=[TensorProto.FLOAT] * 2,
               outputs=("y", "present"), rtol=2e-5, num_heads=heads, unidirectional=1)


# ---- Comparison ----


def run_kilter(kilter, case, constants, folder):
    model = folder / "model.onnx"
    onnx.save(case.model(constants), model)
    command = [kilter, "run", str(model), "--output", str(folder)]
    for name, value in case.inputs:
        if value is None or name in constants:
            continue
        np.save(folder / f"{name}.npy", value)
        command += ["--input", f"{name}={folder / name}.npy"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"kilter ends with {done.returncode}: {done.stderr.strip()}")
    return [np.load(folder / f"{name}.npy") for name in filter(None, case.outputs)]


def run_onnxruntime(case, constants):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(case.model(constants).SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, {n: v for n, v in case.inputs if v is not None and n not in constants})


def check_quantised(case, got, peer):
    """Returns the number of ties that ONNX Runtime rounds differently. Raises AssertionError."""
    values = dict(case.inputs)
    quotient, largest = case.exact(values)
    dtype = got.dtype
    low, high = TYPES[dtype]
    zero = int(values["y_zero"]) if values.get("y_zero") is not None else 0
    nearest = [int(round(q) if isinstance(q, Fraction) else np.rint(q)) for q in quotient.ravel()]
    rounded = np.array([min(high, max(low, whole + zero)) for whole in nearest])
    want = rounded.reshape(got.shape)
    wrong = np.flatnonzero(got.ravel() != rounded)
    assert wrong.size == 0, (f"{wrong.size} elements are not exact, e.g. {wrong[0]}: got {got.ravel()[wrong[0]]}, want "
                             f"{rounded[wrong[0]]} for {float(quotient.ravel()[wrong[0]])} + {zero}")
    differ = np.flatnonzero(peer.ravel() != rounded)
    for i in differ:
        step = int(peer.ravel()[i]) - int(want.ravel()[i])
        q = float(quotient.ravel()[i])
        off = abs(abs(q - np.floor(q)) - 0.5)
        assert abs(step) == 1 and off <= F32_ROUNDING * max(largest, 1), (
            f"ONNX Runtime differs by {step} at {i}, where the exact quotient {q!r} is {off:.2g} from a tie")
    return differ.size


def check_float(case, got, peer):
    assert got.dtype == peer.dtype and got.shape == peer.shape, (got.dtype, got.shape, peer.dtype, peer.shape)
    limit = case.rtol * size(peer)
    worst = size(got.astype(np.float64) - peer.astype(np.float64))
    assert worst <= limit, f"differs by {worst:.3g} from ONNX Runtime, allowed {limit:.3g}"


def check(kilter, case, folder):
    """Runs a case with all operands as inputs of the network, and with all but the first as constants."""
    names = [n for n, v in case.inputs if v is not None]
    ties = 0
    for constants in (set(), set(names[1:])):
        peer = run_onnxruntime(case.peer, constants)
        for k, got in enumerate(run_kilter(kilter, case, constants, folder)):
            if case.exact is not None:
                ties += check_quantised(case, got, peer[k])
            else:
                check_float(case, got, peer[k])
    return ties


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("kilter")
    parser.add_argument("--list", action="store_true", help="print every case with the number of its ties")
    args = parser.parse_args()
    onnxruntime.set_default_logger_severity(4)
    rng = np.random.default_rng(0)
    failed = count = ties = elements = 0
    for family in (elementwise, unary, softmax, pools, concat, where, products, blocks, tables, lstm, attention):
        for case in family(rng):
            count += 1
            with tempfile.TemporaryDirectory(prefix="operators.") as folder:
                try:
                    found = check(args.kilter, case, pathlib.Path(folder))
                    ties += found
                    if args.list:
                        print(f"{case.text()}: {found} ties")
                except Exception as error:  # every case is reported
                    failed += 1
                    print(f"FAILED {case.text()}: {type(error).__name__}: {error}")
    print(f"{count - failed} of {count} cases agree; ONNX Runtime rounds {ties} ties another way")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
