#!/usr/bin/env python3
"""Compares Kilter with ONNX Runtime on the operators of com.microsoft that its optimiser and its builders of transformers
write: attention with and without caches, normalisations, activations, fused products.

usage: transformer_operators_test.py KILTER [--list]

Every case runs with all operands as inputs, and with some of them as constants. Positions of a cache beyond its
sequence are not compared.
"""
import argparse
import pathlib
import sys
import tempfile

import numpy as np
import onnxruntime
from onnx import TensorProto

import microsoft_operators_test as base

F32, I32, I64 = TensorProto.FLOAT, TensorProto.INT32, TensorProto.INT64


def case(op, inputs, outputs=("y",), types=None, rtol=1e-5, valid=None, domain="com.microsoft", fixed=(), **attrs):
    """`valid` maps outputs to the parts that are compared, and `fixed` names operands that are always constants."""
    made = base.Case(op, inputs, domain=domain, outputs=outputs, types=types or [F32] * len(outputs), rtol=rtol, **attrs)
    made.valid, made.fixed = valid or {}, set(fixed)
    return made


class Values:
    """Seeded operands."""

    def __init__(self, rng):
        self.rng = rng

    def floats(self, *shape):
        return self.rng.standard_normal(shape).astype(np.float32)

    def ones(self, *shape):
        """A mask that shows about two thirds of the positions, and always the first."""
        mask = (self.rng.random(shape) < 0.7).astype(np.int32)
        mask[..., 0] = 1
        return mask


# ---- Attention ----


def multi_head(v):
    batch, heads, size, past = 2, 3, 8, 4
    f = v.floats
    for queries, keys, width in ((5, 5, size), (1, 7, size), (4, 6, 5)):
        q, k, value = f(batch, queries, heads * size), f(batch, keys, heads * size), f(batch, keys, heads * width)
        operands = [("q", q), ("k", k), ("v", value)]
        bias = ("bias", f(heads * (2 * size + width)))
        yield case("MultiHeadAttention", operands, num_heads=heads)
        yield case("MultiHeadAttention", operands + [bias], num_heads=heads, scale=0.2)
        for mask in (np.array([keys, 2], np.int32), v.ones(batch, keys), v.ones(batch, queries, keys)):
            added = ("added", f(1, heads, queries, keys))
            yield case("MultiHeadAttention", operands + [bias, ("mask", mask), added], num_heads=heads, mask_filter_value=-50.0)
        yield case("MultiHeadAttention", operands + [("bias", None), ("mask", None), ("added", f(batch, 1, queries, keys))],
                   outputs=("y", "", "", "scores"), types=[F32] * 2, num_heads=heads)
    for queries, held in ((3, past), (1, past), (3, 0)):
        operands = [(n, f(batch, queries, heads * size)) for n in "qkv"]
        cache = [(n, f(batch, heads, held, size)) for n in ("past_key", "past_value")]
        for causal in (0, 1):
            for mask in (None, v.ones(batch, held + queries)):
                yield case("MultiHeadAttention", operands + [("bias", f(3 * heads * size)), ("mask", mask), ("added", None)] + cache,
                           outputs=("y", "key", "value"), num_heads=heads, unidirectional=causal)
    cross = [(n, f(batch, heads, 6, size)) for n in "kv"]
    for queries in (1, 4):
        yield case("MultiHeadAttention", [("q", f(batch, queries, heads * size))] + cross + [("bias", f(3 * heads * size))],
                   num_heads=heads)
    buffers = [("bias", None), ("mask", None), ("added", None)] + [(n, f(batch, heads, 9, size)) for n in ("past_key", "past_value")]
    operands = [(n, f(batch, 3, heads * size)) for n in "qkv"]
    yield case("MultiHeadAttention", operands + buffers + [("length", np.array([past], np.int32))],
               outputs=("y", "key", "value"), num_heads=heads)


def decoder(v):
    batch, heads, size = 2, 3, 8
    f = v.floats
    operands = [(n, f(batch, 1, heads * size)) for n in "qkv"]
    yield case("DecoderMaskedMultiHeadAttention", operands, num_heads=heads)
    buffers = [(n, f(batch, heads, 9, size)) for n in ("past_key", "past_value")]
    for length in (0, 5):
        for mask in (None, v.ones(batch, length + 1)):
            yield case("DecoderMaskedMultiHeadAttention",
                       operands + [("mask", mask), ("added", None)] + buffers + [("length", np.array([length], np.int32))],
                       outputs=("y", "key", "value", "scores"), num_heads=heads, past_present_share_buffer=1, output_qk=1)
    yield case("DecoderMaskedMultiHeadAttention", operands[:1] + [(n, f(batch, heads, 6, size)) for n in "kv"], num_heads=heads)


def attention(v):
    batch, heads, inputs, past = 2, 2, 12, 3
    f = v.floats
    for length in (1, 5):
        for sizes in ([16, 16, 16], [16, 16, 10]):
            operands = [("x", f(batch, length, inputs)), ("w", f(inputs, sum(sizes))), ("bias", f(sum(sizes)))]
            masks = (None, np.array([length, 1], np.int32), np.array([length, 1, 0, 0], np.int32), v.ones(batch, length),
                     v.ones(batch, length, length))
            for mask in masks:
                for causal in (0, 1):
                    yield case("Attention", operands + [("mask", mask)], num_heads=heads, unidirectional=causal,
                               qkv_hidden_sizes=sizes)
            yield case("Attention", operands + [("mask", None), ("past", None), ("added", f(1, heads, length, length))],
                       num_heads=heads, scale=0.3, qkv_hidden_sizes=sizes)
        operands = [("x", f(batch, length, inputs)), ("w", f(inputs, 48)), ("bias", f(48))]
        for held in (0, past):
            cache = ("past", f(2, batch, heads, held, 8))
            for mask in (None, v.ones(batch, held + length)):
                yield case("Attention", operands + [("mask", mask), cache], outputs=("y", "present"), num_heads=heads,
                           unidirectional=1)


def rotary_tables(v, positions, half):
    angles = np.outer(np.arange(positions), 1 / 100.0 ** (np.arange(half) / half))
    return np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)


def grouped(v):
    heads, kv_heads, size = 4, 2, 16
    f = v.floats
    cosines, sines = rotary_tables(v, 32, size // 2)
    #        batch, queries, held positions, capacity of the past, positions of each sequence
    steps = [(1, 1, 5, 5, [6]), (1, 5, 0, 0, [5]), (1, 4, 3, 3, [7]), (2, 5, 0, 0, [5, 5]), (2, 1, 5, 5, [6, 4]),
             (1, 1, 5, 12, [6]), (1, 4, 3, 12, [7]), (1, 4, 0, 12, [4]), (2, 1, 5, 12, [6, 3]), (2, 5, 0, 12, [5, 2])]
    for batch, queries, held, capacity, lengths in steps:
        total = max(lengths)
        qkv = [("q", f(batch, queries, heads * size)), ("k", f(batch, queries, kv_heads * size)),
               ("v", f(batch, queries, kv_heads * size))]
        packed = [("q", np.concatenate([x for _, x in qkv], 2)), ("k", None), ("v", None)]
        cache = [(n, f(batch, kv_heads, capacity, size)) for n in ("past_key", "past_value")]
        place = [("lengths", np.array(lengths, np.int32) - 1), ("total", np.array(total, np.int32))]
        tables = [("cosines", cosines), ("sines", sines)]
        none = [("cosines", None), ("sines", None)]
        added = ("added", f(1, 1, queries, total))
        # Queries that are padding, and positions of a cache beyond the sequence, have no defined values.
        rows = [min(n, queries) for n in lengths] if held == 0 else [queries] * batch
        def outputs(y, rows=rows):
            return np.concatenate([y[b, :n].ravel() for b, n in enumerate(rows)])
        def positions(y, lengths=lengths):
            return np.concatenate([y[b, :, :n].ravel() for b, n in enumerate(lengths)])
        def scores(y, rows=rows):
            return np.concatenate([y[b, :, :n].ravel() for b, n in enumerate(rows)])
        common = dict(outputs=("y", "key", "value"), num_heads=heads, kv_num_heads=kv_heads, fixed={"total", "cosines", "sines"},
                      valid={"y": outputs, "key": positions, "value": positions, "scores": scores})
        gqa = lambda inputs, **more: case("GroupQueryAttention", inputs, **{**common, **more})
        yield gqa(qkv + cache + place)
        yield gqa(packed + cache + place + tables, do_rotary=1)
        yield gqa(qkv + cache + place + tables, do_rotary=1, rotary_interleaved=1, local_window_size=3)
        yield gqa(qkv + cache + place, softcap=1.5, scale=0.4, local_window_size=2)
        yield gqa(qkv + cache + place + none + [("positions", None), added], local_window_size=64)
        yield gqa(qkv + cache + place + none + [("positions", None), added, ("sink", f(heads))])
        yield gqa(qkv + cache + place, smooth_softmax=1, local_window_size=3)
        if batch == 1:
            yield gqa(qkv + cache + place, causal=0)
            ids = np.arange(total - queries, total).reshape(1, -1) + 7
            if held > 0:
                yield gqa(qkv + cache + place + tables + [("positions", ids)], do_rotary=1)
        for mode in (1, 2):
            if held > 0 and len(set(lengths)) == 1:
                yield gqa(qkv + cache + place, qk_output=mode, outputs=("y", "key", "value", "scores"))
    yield case("GroupQueryAttention", [("q", f(2, 3, heads * size)), ("k", f(2, 3, kv_heads * size)), ("v", f(2, 3, kv_heads * size)),
                                       ("pk", None), ("pv", None), ("lengths", np.array([2, 2], np.int32)),
                                       ("total", np.array(3, np.int32))],
               outputs=("y", "key", "value"), num_heads=heads, kv_num_heads=kv_heads, fixed={"total"})


def rotary(v):
    f = v.floats
    batch, length, heads, size = 2, 5, 3, 8
    for rotated in (size, 4):
        cosines, sines = rotary_tables(v, 24, rotated // 2)
        partial = dict(rotary_embedding_dim=rotated, num_heads=heads) if rotated < size else {}
        for ids in (np.array([3], np.int64), v.rng.integers(0, 24, (batch, length))):
            for interleaved in (0, 1):
                for shape in ((batch, length, heads * size), (batch, heads, length, size)):
                    yield case("RotaryEmbedding", [("x", f(*shape)), ("ids", ids), ("cosines", cosines), ("sines", sines)],
                               interleaved=interleaved, **partial)


# ---- Normalisations, embeddings, activations ----


def normalisations(v):
    f = v.floats
    hidden = 24
    x = f(2, 5, hidden)
    for skip in ((2, 5, hidden), (1, 5, hidden), (5, hidden)):
        for beta, bias in ((f(hidden), f(hidden)), (None, None), (f(hidden), None), (None, f(hidden))):
            yield case("SkipLayerNormalization", [("x", x), ("skip", f(*skip)), ("gamma", f(hidden)), ("beta", beta), ("bias", bias)],
                       outputs=("y", "", "", "sum"), types=[F32] * 2, epsilon=1e-5)
        for bias in (None, f(hidden)):
            yield case("SkipSimplifiedLayerNormalization", [("x", x), ("skip", f(*skip)), ("gamma", f(hidden)), ("bias", bias)],
                       outputs=("y", "", "", "sum"), types=[F32] * 2, epsilon=1e-6)
    yield case("SkipLayerNormalization", [("x", f(5, hidden)), ("skip", f(5, hidden)), ("gamma", f(hidden)), ("beta", f(hidden))])
    for axis in (-1, 1):
        shape = x.shape[axis:] if axis > 0 else (hidden,)
        yield case("SimplifiedLayerNormalization", [("x", x), ("scale", f(*shape))], outputs=("y", "inverse"), domain="", axis=axis,
                   epsilon=1e-5)
    ids = v.rng.integers(0, 9, (2, 5)).astype(np.int32)
    tables = [("word", f(9, hidden)), ("position", f(8, hidden)), ("segment", f(2, hidden)), ("gamma", f(hidden)), ("beta", f(hidden))]
    mask = np.array([[1, 1, 1, 1, 0], [1, 1, 0, 0, 0]], np.int32)
    yield case("EmbedLayerNormalization", [("ids", ids), ("segments", ids % 2)] + tables + [("mask", mask)],
               outputs=("y", "lengths", "sum"), types=[F32, I32, F32])
    places = ("places", v.rng.integers(0, 8, (1, 5)).astype(np.int32))
    no_segments = [("ids", ids), ("segments", None)] + tables[:2] + [("segment", None)] + tables[3:]
    yield case("EmbedLayerNormalization", no_segments + [("mask", None), places], outputs=("y", "lengths"), types=[F32, I32],
               epsilon=1e-5)


def activations(v):
    f = v.floats
    x = 3 * f(2, 5, 24)
    yield case("Gelu", [("x", x)])
    yield case("BiasGelu", [("x", x), ("bias", f(24))])
    yield case("FastGelu", [("x", x), ("bias", f(24))])
    yield case("FastGelu", [("x", x)])
    yield case("QuickGelu", [("x", x)])
    yield case("QuickGelu", [("x", x)], alpha=1.0)


# ---- Products and convolutions ----


def products(v):
    f = v.floats
    for a, b, attrs in (((2, 3, 4, 5), (5, 6), {}), ((2, 3, 5, 4), (2, 3, 6, 5), dict(transA=1, transB=1, alpha=0.5)),
                        ((2, 3, 4, 5), (3, 4, 5, 6), dict(transBatchA=1)), ((2, 3, 4, 5), (3, 4, 2, 6), dict(transBatchA=1, transA=1)),
                        ((3, 4, 2, 5), (2, 3, 5, 6), None)):
        if attrs is None:  # the batch of b is (3, 5), and its matrices are [2, 6]
            a, attrs = (3, 5, 4, 2), dict(transBatchB=1)
        yield case("FusedMatMul", [("a", f(*a)), ("b", f(*b))], **attrs)
    yield case("TransposeMatMul", [("a", f(2, 5, 4)), ("b", f(2, 5, 6))], transA=1)
    for name, attrs in (("Relu", {}), ("LeakyRelu", dict(activation_alpha=0.3)), ("Sigmoid", {}), ("Tanh", {}),
                        ("HardSigmoid", dict(activation_alpha=0.3, activation_beta=0.4))):
        yield case("FusedGemm", [("a", f(3, 5)), ("b", f(7, 5)), ("c", f(7))], activation=name, transB=1, alpha=0.5, **attrs)
    for name, values in (("Relu", []), ("LeakyRelu", [0.3]), ("Clip", [0.0, 1.0]), ("Sigmoid", []), ("Tanh", []),
                         ("HardSigmoid", [0.3, 0.4])):
        for z in (None, f(1, 8, 9, 7)):
            if z is not None and name != "Relu":
                continue
            attrs = dict(activation_params=values) if values else {}
            yield case("FusedConv", [("x", f(1, 4, 9, 7)), ("w", f(8, 4, 3, 3)), ("bias", f(8)), ("z", z)], activation=name,
                       pads=[1, 1, 1, 1], **attrs)
    yield case("NhwcMaxPool", [("x", v.rng.integers(0, 255, (1, 9, 7, 5)).astype(np.uint8))], types=[TensorProto.UINT8], rtol=0,
               kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])


# ---- Forms of ONNX's operators ----


def forms(v):
    f = v.floats
    ints = lambda *x: np.array(x, np.int64)
    one = lambda x, t=np.float32: np.array(x, t)
    for shape in ((), (1,)):
        yield case("Range", [("a", one(2).reshape(shape)), ("b", one(9).reshape(shape)), ("c", one(1.5).reshape(shape))],
                   fixed={"a", "b", "c"})
    yield case("Range", [("a", one(2, np.int32)), ("b", one(9, np.int32))], types=[I32], rtol=0, fixed={"a", "b"})
    for mode in ("constant", "reflect", "edge"):
        value = ("value", one([0.5])) if mode == "constant" else ("value", None)
        for pads in (ints(0, 2, 1, 1), ints(0, 2, 1, 1).reshape(1, 4)):
            yield case("Pad", [("x", f(3, 4)), ("pads", pads), value], rtol=0, mode=mode, fixed={"pads"})
    yield case("Unique", [("x", one([2, 1, 1, 3, 4, 3]))], outputs=("y", "places", "counts"), types=[F32, I64, I64], rtol=0,
               fixed={"x"})
    for upper in (0, 1):
        yield case("Trilu", [("x", f(2, 4, 5)), ("k", one(-1, np.int64))], rtol=0, upper=upper, fixed={"k"})
    yield case("GatherND", [("x", f(2, 3, 4)), ("indices", ints(0, 1, 1, 2).reshape(2, 2))], rtol=0)
    for mode, corners in (("bilinear", 0), ("nearest", 1), ("bicubic", 0)):
        for padding in ("zeros", "border", "reflection"):
            if (mode, padding) == ("bicubic", "border"):
                continue  # ONNX Runtime clamps positions where the standard clamps the pixels that are read
            yield case("GridSample", [("x", f(1, 2, 5, 6)), ("grid", f(1, 4, 3, 2))], mode=mode, align_corners=corners,
                       padding_mode=padding)
    for axis in (0, 1, -1):
        yield case("ExpandDims", [("x", f(3, 4)), ("axis", one(axis, np.int32))], rtol=0, fixed={"axis"})
    for dim, size, step in ((-1, 3, 1), (1, 4, 2)):
        yield case("UnfoldTensor", [("x", f(2, 7, 5))], rtol=0, dim=dim, size=size, step=step)
    yield case("Inverse", [("x", f(3, 5, 5))], rtol=1e-3)
    boxes = np.array([[0.1, 0.2, 0.9, 0.7], [0.5, -0.5, 1.5, 0.4], [0.9, 0.8, 0.1, 0.2], [0, 0, 1, 1]], np.float32)
    for mode in ("bilinear", "nearest"):
        for size in ((4, 5), (1, 3)):
            yield case("CropAndResize", [("x", f(2, 3, 7, 6)), ("boxes", boxes), ("images", np.array([0, 1, 1, 0], np.int32)),
                                         ("size", np.array(size, np.int32))],
                       mode=mode, extrapolation_value=9.0, fixed={"size"})
    for x in (v.rng.integers(-9, 9, 7).astype(np.int32), v.rng.integers(0, 9, 7).astype(np.uint64), f(7), f(7).astype(np.float64)):
        for positive, result in ((1, TensorProto.UINT32), (0, I32)):
            yield case("MurmurHash3", [("x", x)], types=[result], rtol=0, positive=positive, seed=5)
    yield case("CausalConvWithState", [("x", f(2, 5, 9)), ("w", f(5, 1, 4)), ("bias", f(5)), ("past", f(2, 5, 3))],
               outputs=("y", "state"), activation="silu")
    yield case("LinearAttention", [("q", f(2, 5, 16)), ("k", f(2, 5, 16)), ("v", f(2, 5, 12))], outputs=("y", "state"),
               q_num_heads=2, kv_num_heads=2, update_rule="linear")


def halves(v):
    """Operands of f16, whose results differ by roundings between the steps."""
    h = lambda *shape: v.floats(*shape).astype(np.float16)
    common = dict(rtol=4e-3, types=[TensorProto.FLOAT16] * 3)
    heads, kv_heads, size = 4, 2, 16
    tables = [(n, x.astype(np.float16)) for n, x in zip(("cosines", "sines"), rotary_tables(v, 32, size // 2))]
    for queries, held in ((1, 5), (4, 0), (3, 4)):
        total = queries + held
        yield case("GroupQueryAttention",
                   [("q", h(1, queries, heads * size)), ("k", h(1, queries, kv_heads * size)), ("v", h(1, queries, kv_heads * size)),
                    ("past_key", h(1, kv_heads, held, size)), ("past_value", h(1, kv_heads, held, size)),
                    ("lengths", np.array([total - 1], np.int32)), ("total", np.array(total, np.int32))] + tables,
                   outputs=("y", "key", "value"), num_heads=heads, kv_num_heads=kv_heads, do_rotary=1, local_window_size=3,
                   fixed={"total", "cosines", "sines"}, **common)
    x, skip, gamma = h(2, 5, 24), h(2, 5, 24), h(24)
    common["types"] = [TensorProto.FLOAT16]
    yield case("SkipLayerNormalization", [("x", x), ("skip", skip), ("gamma", gamma), ("beta", h(24)), ("bias", h(24))], **common)
    yield case("SkipSimplifiedLayerNormalization", [("x", x), ("skip", skip), ("gamma", gamma)], **common)


# ---- Comparison ----


def check(kilter, made, folder):
    names = [n for n, x in made.inputs if x is not None]
    worst = 0.0
    for constants in (made.fixed, set(names[1:])):
        peer = base.run_onnxruntime(made, constants)
        shown = [n for n in made.outputs if n]
        for name, got, want in zip(shown, base.run_kilter(kilter, made, constants, folder), peer):
            assert got.dtype == want.dtype and got.shape == want.shape, (name, got.dtype, got.shape, want.dtype, want.shape)
            part = made.valid.get(name, lambda y: y)
            got, want = part(got).astype(np.float64), part(want).astype(np.float64)
            assert (np.isfinite(got) == np.isfinite(want)).all(), f"{name}: other elements are finite"
            finite = np.isfinite(want) & (np.abs(want) < 1e30)
            difference = base.size(got[finite] - want[finite]) / max(base.size(want[finite]), 1e-30)
            worst = max(worst, difference)
            assert difference <= made.rtol, f"{name} differs by {difference:.3g} of the largest value, allowed {made.rtol:.3g}"
            assert (np.abs(got[~finite] - want[~finite]) <= 1e-6 * np.abs(want[~finite])).all() or not np.isfinite(want).all(), name
    return worst


FAMILIES = (multi_head, decoder, attention, grouped, rotary, normalisations, activations, products, forms, halves)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("kilter")
    parser.add_argument("--list", action="store_true", help="print every case with its largest difference")
    args = parser.parse_args()
    onnxruntime.set_default_logger_severity(4)
    values = Values(np.random.default_rng(0))
    failed = count = 0
    for family in FAMILIES:
        for made in family(values):
            count += 1
            with tempfile.TemporaryDirectory(prefix="operators.") as folder:
                try:
                    worst = check(args.kilter, made, pathlib.Path(folder))
                    if args.list:
                        print(f"{made.text()}: {worst:.2g}")
                except Exception as error:  # every case is reported
                    failed += 1
                    print(f"FAILED {made.text()}: {type(error).__name__}: {error}")
    print(f"{count - failed} of {count} cases agree")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
