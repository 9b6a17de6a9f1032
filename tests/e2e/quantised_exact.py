"""Random quantised networks with their exact results, for quantised_exact_test.py.

A problem is a small network of one to three groups. A group computes real numbers from dequantised values and quantises
them once.
"""
import itertools
from fractions import Fraction

import numpy as np
from onnx import helper, numpy_helper

from exact_reals import TYPES, Real, along, convolve, floats, fractions, window_members

CHANNELS = (1, 2, 3, 4, 5, 7, 8, 9, 12, 15, 16, 17, 20, 33)

class Codes:
    """A quantised tensor of the network."""

    def __init__(self, name, values, scale, zero):
        self.name, self.values, self.scale, self.zero = name, values, scale, zero

    @property
    def integers(self):
        return self.values.astype(np.int64) - int(self.zero)

    @property
    def real(self):
        return Real.products(self.integers, Fraction(float(self.scale)))


class Problem:
    """A problem's nodes, operands and expected outputs. All names begin with the problem's number."""

    def __init__(self, number, rng):
        self.rng, self.prefix = rng, f"p{number}_"
        self.nodes, self.constants, self.inputs, self.outputs = [], {}, {}, {}
        self.quotients = {}  # by output: the Real and the scale from which it was quantised
        self.groups, self.text, self.names = 0, [], itertools.count()
        self.on_reals = True  # no operators on quantised values, for which ONNX Runtime lacks some combinations of types
        self.done = False  # everything after it depends on how a near tie was rounded
        self.extreme = rng.random() < 0.08  # all integers at the ends of their ranges, for large sums
        self.ties = rng.random() < 0.5  # scales with few bits, whose quotients are often halfway between integers

    # -- nodes --

    def name(self, stem):
        return f"{self.prefix}{stem}{next(self.names)}"

    def constant(self, value, stem="c"):
        name = self.name(stem)
        self.constants[name] = np.asarray(value)
        return name

    def operand(self, value, stem="c"):
        """A constant, or now and then an input of the network."""
        name = self.constant(value, stem)
        if self.chance(0.04):
            self.inputs[name] = self.constants.pop(name)
        return name

    def node(self, op, inputs, domain="", **attrs):
        name = self.name("v")
        self.nodes.append(helper.make_node(op, inputs, [name], name=name + "_" + op, domain=domain, **attrs))
        self.text.append(op)
        return name

    def output(self, name, values, made=None):
        self.outputs[name] = values
        if made is not None:
            self.quotients[name] = made

    # -- draws --

    def one_of(self, *choices):
        return choices[int(self.rng.integers(len(choices)))]

    def chance(self, p):
        return self.rng.random() < p

    def number(self, low, high):
        return int(self.rng.integers(low, high + 1))

    def code_type(self):
        return self.one_of(np.uint8, np.int8)

    def zero(self, dtype):
        low, high = TYPES[np.dtype(dtype)]
        return dtype(self.one_of(0, low, high, (low + high + 1) // 2, self.number(low, high), self.number(low, high)))

    def scale(self, near=None):
        """An f32, about `near`."""
        if near is None and self.chance(0.05):
            return np.float32(1)
        near = 2.0 ** self.rng.uniform(-9, -2) if near is None else near
        if self.ties:
            return np.float32(self.one_of(1, 1, 1, 1, 1.5, 1.25) * 2.0 ** round(np.log2(near)))
        return np.float32(near * self.rng.uniform(0.7, 1.4))

    def integers(self, dtype, shape, most=255):
        low, high = TYPES[np.dtype(dtype)]
        if self.extreme or self.chance(0.1):
            return np.where(self.rng.random(shape) < self.one_of(0.5, 0.95, 1), high, low).astype(dtype)
        middle = (low + high + 1) // 2
        return self.rng.integers(max(low, middle - most), min(high, middle + most) + 1, shape).astype(dtype)

    def multiples(self, dtype, shape, zero):
        """Zero points plus a few multiples of a power of two, whose sums of products are often halfway between
        integers."""
        low, high = TYPES[np.dtype(dtype)]
        step = self.one_of(16, 32, 64)
        return np.clip(zero.astype(np.int64) + step * self.rng.integers(-3, 4, shape), low, high).astype(dtype)

    def image_shape(self, rank=None):
        rank = self.one_of(1, 2, 2, 2, 2) if rank is None else rank
        spatial = [self.number(1, 9) for _ in range(rank)]
        return (self.one_of(1, 1, 1, 2), self.one_of(*CHANNELS)) + tuple(spatial)

    # -- quantised values --

    def input_codes(self, shape, dtype=None):
        dtype = self.code_type() if dtype is None else dtype
        name = self.name("x")
        codes = Codes(name, self.integers(dtype, shape), self.scale(), self.zero(dtype))
        self.inputs[name] = codes.values
        return codes

    def dequantised(self, codes):
        zero = [] if codes.zero == 0 and codes.values.dtype == np.uint8 and self.chance(0.5) else [self.constant(codes.zero)]
        return self.node("DequantizeLinear", [codes.name, self.constant(codes.scale)] + zero), codes.real

    def spread(self, real):
        """A scale with which most quotients of a real tensor are within the range of the quantised type."""
        size = float(np.sqrt(np.mean(np.square(real.approx)))) if real.approx.size else 0.0
        near = max(size, 1e-6) / self.rng.uniform(8, 120)
        if not self.ties and real.unit and self.chance(0.5):  # quotients that miss ties by the rounding of a scale
            return np.float32(real.unit * 2.0 ** round(np.log2(near / real.unit)))
        return self.scale(near)

    def quantised(self, name, real, dtype=None, alike=None):
        """A Quantize of a real tensor; `alike`: a quantised tensor whose scale and zero point it shares."""
        dtype = self.code_type() if dtype is None else dtype
        scale, zero = (alike.scale, alike.zero) if alike else (self.spread(real), self.zero(dtype))
        dtype = alike.values.dtype.type if alike else dtype
        out = self.node("QuantizeLinear", [name, self.constant(scale), self.constant(zero)])
        return self.rounded(out, real, scale, zero, dtype)

    def rounded(self, name, real, scale, zero, dtype):
        """The quantised tensor that a node computes by rounding a real tensor; the end of a group."""
        codes = Codes(name, real.codes(scale, zero, dtype), scale, zero)
        self.groups += 1
        self.last = (codes, (real, scale, zero))
        self.done = self.done or bool(real.snapped(scale)) or (real.loose and real.near_ties(scale).size > 0)
        if self.chance(0.3):
            self.output(name, codes.values, (real, scale, zero))
        return codes

    # -- contractions --

    def filters(self, shape, axis, dtype=None):
        """Weights after a Dequantize: the name, integers, and scales, which are a scalar or vary along `axis`."""
        dtype = self.one_of(np.uint8, np.int8, np.int8) if dtype is None else dtype
        values = self.integers(dtype, shape, self.one_of(2, 20, 64, 255))
        count = shape[axis]
        per_axis = self.chance(0.5)
        scale = np.array([self.scale() for _ in range(count)], np.float32) if per_axis else np.asarray(self.scale())
        one = self.zero(dtype) if self.chance(0.3) or dtype == np.uint8 else dtype(0)
        zero = np.full(scale.shape, one, dtype)
        if per_axis and self.chance(0.2):
            zero = self.integers(dtype, count, 10)
        if self.ties and self.chance(0.6):
            values = self.multiples(dtype, shape, along(zero, axis, len(shape)))
        name = self.node("DequantizeLinear", [self.constant(values, "w"), self.constant(scale), self.constant(zero)],
                         **({"axis": axis} if per_axis else {}))
        return name, values.astype(np.int64) - along(zero.astype(np.int64), axis, len(shape)), scale

    def summands(self, size):
        """The integers of a bias."""
        step = self.one_of(1, 64) if self.ties else 1
        return (step * self.rng.integers(-2000 // step, 2000 // step + 1, size)).astype(np.int32)

    def bias(self, size, x_scale, w_scale):
        """An optional bias: the names of no or one operand, and the summands."""
        kind = self.one_of("none", "float", "codes", "codes")
        if kind == "none":
            return [], np.full(size, Fraction(0))
        product = (x_scale * w_scale).astype(np.float32) if self.chance(0.8) else np.asarray(self.scale())
        values = self.summands(size)
        if kind == "float":
            summands = (values * product).astype(np.float32)
            return [self.constant(summands)], fractions(summands)
        zero = [self.constant(np.zeros(product.shape, np.int32))] if self.chance(0.3) else []
        name = self.node("DequantizeLinear", [self.constant(values), self.constant(product)] + zero,
                         **({"axis": 0} if product.ndim else {}))
        return [name], fractions(values) * fractions(product)

    def window(self, spatial, kernels=(1, 1, 2, 3, 3, 5), dilate=True):
        """Random attributes of windows that fit an image."""
        rank = len(spatial)
        kernel, strides, pads, dilations = [], [], [[], []], []
        for extent in spatial:
            k, d = self.one_of(*kernels), self.one_of(1, 1, 1, 2) if dilate else 1
            before, after = self.number(0, min(k - 1, 2)), self.number(0, min(k - 1, 2))
            while (k - 1) * d + 1 > extent + before + after:
                k, d, before, after = max(1, k - 1), 1, min(before, max(0, k - 2)), min(after, max(0, k - 2))
            kernel.append(k), dilations.append(d), strides.append(self.one_of(1, 1, 1, 2, 3))
            pads[0].append(before), pads[1].append(after)
        return dict(kernel_shape=kernel, strides=strides, pads=pads[0] + pads[1], dilations=dilations)

    def conv_attrs(self, shape):
        """Attributes and the shape of the filters of a convolution of an image."""
        channels = shape[1]
        attrs = self.window(shape[2:])
        group = self.one_of(1, 1, 1, channels, self.one_of(*[g for g in range(1, channels + 1) if channels % g == 0]))
        count = group * self.one_of(1, 1, 2) if group == channels else group * self.number(1, max(1, 20 // group))
        attrs["group"] = group
        return attrs, (count if group > 1 else self.one_of(*CHANNELS), channels // group) + tuple(attrs["kernel_shape"])

    def conv(self, codes, form=None):
        name, _ = self.dequantised(codes)
        attrs, shape = form or self.conv_attrs(codes.values.shape)
        w, integers, w_scale = self.filters(shape, 0)
        bias, summand = self.bias(shape[0], codes.scale, w_scale)
        sums = convolve(codes.integers, integers, attrs["strides"], attrs["pads"], attrs["dilations"], attrs["group"])
        rank = len(shape)
        factor = fractions(codes.scale) * along(fractions(w_scale), 1, rank)
        return self.node("Conv", [name, w] + bias, **attrs), Real.products(sums, factor, along(summand, 1, rank))

    def separable(self, codes):
        """A convolution without padding and a depthwise one, its only reader: one kernel, if their sizes permit."""
        rank, channels = codes.values.ndim - 2, codes.values.shape[1]
        count = self.one_of(16, 17, 32, 40)
        attrs = dict(kernel_shape=[1] * rank, strides=[1] * rank, pads=[0] * 2 * rank, dilations=[1] * rank, group=1)
        codes = self.quantised(*self.clamped(*self.conv(codes, (attrs, (count, channels) + (1,) * rank))))
        if self.done:
            return codes
        attrs = dict(self.window(codes.values.shape[2:], dilate=False), group=count)
        return self.group_of(*self.conv(codes, (attrs, (count, 1) + tuple(attrs["kernel_shape"]))))

    def product(self, codes):
        """A MatMul or a Gemm; Gemm needs a matrix."""
        name, _ = self.dequantised(codes)
        depth, columns = codes.values.shape[-1], self.one_of(*CHANNELS)
        gemm = codes.values.ndim == 2 and self.chance(0.6)
        turned = gemm and self.chance(0.5)
        w, integers, w_scale = self.filters((columns, depth) if turned else (depth, columns), 0 if turned else 1)
        sums = codes.integers @ (integers.T if turned else integers)
        factor = fractions(codes.scale) * fractions(w_scale)
        if not gemm:
            return self.node("MatMul", [name, w]), Real.products(sums, factor)
        bias, summand = self.bias(columns, codes.scale, w_scale)
        return self.node("Gemm", [name, w] + bias, transB=int(turned)), Real.products(sums, factor, summand)

    # -- the rest of a group --

    def clamped(self, name, real):
        kind = self.one_of("none", "relu", "relu", "clip")
        if kind == "relu":
            return self.node("Relu", [name]), real.map(lambda a: np.maximum(a, 0), lambda e: max(e, Fraction(0)))
        if kind == "clip":
            size = float(np.max(np.abs(real.approx))) or 1.0
            low = np.float32(self.one_of(0, -size * self.rng.random()))
            high = np.float32(self.one_of(6, size * self.rng.random()))
            clip = lambda e: min(max(e, Fraction(float(low))), Fraction(float(high)))
            return (self.node("Clip", [name, self.constant(low), self.constant(high)]),
                    real.map(lambda a: np.minimum(np.maximum(a, np.longdouble(low)), np.longdouble(high)), clip))
        return name, real

    def scaled(self, name, real):
        by = self.scale(1.0)
        return (self.node("Mul", [name, self.constant(by)]),
                real.map(lambda a: a * np.longdouble(by), lambda e: e * Fraction(float(by))))

    def with_residual(self, name, real):
        other = self.input_codes(real.shape)
        more, summand = self.dequantised(other)
        order = [name, more] if self.chance(0.5) else [more, name]
        return self.node("Add", order), real.add(summand)

    def with_constant(self, name, real):
        shape = (1, real.shape[1]) + (1,) * (len(real.shape) - 2) if self.chance(0.5) else ()
        values = (np.std(real.approx) * self.rng.standard_normal(shape)).astype(np.float32)
        summand = np.broadcast_to(fractions(values), real.shape)
        return (self.node("Add", [name, self.constant(values)]),
                real.add(Real(floats(summand), lambda i: summand.flat[i])))

    def moved_real(self, name, real):
        """Results of a contraction that are moved as floats, which Kilter may compute with one more rounding."""
        where = np.arange(real.approx.size).reshape(real.shape)
        kind = self.one_of("pool", "transpose", "flatten", "concat") if len(real.shape) > 2 else "transpose"
        if kind == "pool":
            attrs = self.window(real.shape[2:], (1, 2, 3), dilate=False)
            members = window_members(real.shape, *(attrs[k] for k in ("kernel_shape", "strides", "pads", "dilations")))
            return self.node("MaxPool", [name], **attrs), real.largest(members).on_floats()
        if kind == "concat":
            return self.node("Concat", [name, name], axis=1), Real.concat([real, real], 1).on_floats()
        if kind == "flatten":
            return self.node("Flatten", [name]), real.pick(where.reshape(where.shape[0], -1)).on_floats()
        order = [int(d) for d in self.rng.permutation(where.ndim)]
        return self.node("Transpose", [name], perm=order), real.pick(where.transpose(order)).on_floats()

    def on_floats(self, codes):
        """An operator that has no exact form, between a Dequantize and a Quantize."""
        name, real = self.dequantised(codes)
        if self.chance(0.5):
            alpha = Fraction(float(np.float32(0.3)))
            leaky = lambda e: e if e > 0 else e * alpha
            name = self.node("LeakyRelu", [name], alpha=0.3)
            real = real.map(lambda a: np.where(a > 0, a, a * np.longdouble(float(alpha))), leaky)
        else:
            other = self.input_codes(codes.values.shape)
            more, factor = self.dequantised(other)
            name = self.node("Mul", [name, more])
            real = Real(real.approx * factor.approx, lambda i, r=real: r.exact(i) * factor.exact(i))
        return self.quantised(name, real.on_floats())

    def group_of(self, name, real, dtype=None):
        """Nodes that may follow a contraction or a sum, and the Quantize."""
        if self.chance(0.06):
            return self.quantised(*self.clamped(*self.moved_real(name, real)), dtype)
        if self.chance(0.3):
            name, real = self.with_residual(name, real)
        elif self.chance(0.15):
            name, real = self.with_constant(name, real)
        if self.chance(0.1):
            name, real = self.scaled(name, real)
        return self.quantised(*self.clamped(name, real), dtype)

    # -- groups without weights --

    def pool(self, codes):
        shape = codes.values.shape
        name, real = self.dequantised(codes)
        kind = self.one_of("mean", "mean", "global", "reduce")
        if kind == "mean":
            attrs = self.window(shape[2:], (1, 2, 3, 3), dilate=False)
            members = window_members(shape, *(attrs[k] for k in ("kernel_shape", "strides", "pads", "dilations")))
            del attrs["dilations"]
            every = self.chance(0.5)
            counts = np.full(members.shape[:-1], members.shape[-1]) if every else (members >= 0).sum(-1)
            name = self.node("AveragePool", [name], count_include_pad=int(every), **attrs)
            real = real.mean(members, counts)
        else:
            axes = tuple(range(2, len(shape)))
            members = np.arange(codes.values.size).reshape(shape[:2] + (1,) * len(axes) + (-1,))
            if kind == "global":
                name = self.node("GlobalAveragePool", [name])
            else:
                name = self.node("ReduceMean", [name, self.constant(np.array(axes, np.int64))], keepdims=1)
            real = real.mean(members, np.full(members.shape[:-1], members.shape[-1]))
        return self.quantised(*self.clamped(name, real))

    def max_pool(self, codes):
        """On quantised values, or on reals that a Quantize with the same parameters reads."""
        attrs = self.window(codes.values.shape[2:], (1, 2, 3), dilate=False)
        members = window_members(codes.values.shape, *(attrs[k] for k in ("kernel_shape", "strides", "pads", "dilations")))
        if self.chance(0.5):
            name, real = self.dequantised(codes)
            alike = codes if self.chance(0.6) else None
            return self.quantised(self.node("MaxPool", [name], **attrs), real.largest(members), alike=alike)
        values = np.where(members < 0, -1000, codes.values.astype(np.int64).ravel()[members]).max(-1)
        return Codes(self.node("MaxPool", [codes.name], **attrs), values.astype(codes.values.dtype), codes.scale, codes.zero)

    def sum(self, codes):
        name, real = self.dequantised(codes)
        name, real = self.with_residual(name, real)
        if self.chance(0.3):
            name, real = self.with_residual(name, real)
        return self.quantised(*self.clamped(name, real))

    def concat(self, codes):
        shape = list(codes.values.shape)
        parts = [self.dequantised(codes)]
        for _ in range(self.number(1, 2)):
            shape[1] = self.one_of(1, 3, 4, 8, 16)
            other = self.input_codes(tuple(shape))
            if self.chance(0.3):
                other.scale = codes.scale
            parts.append(self.dequantised(other))
        if self.chance(0.3):
            self.rng.shuffle(parts)
        name = self.node("Concat", [p for p, _ in parts], axis=1)
        return self.quantised(name, Real.concat([r for _, r in parts], 1))

    def concat_codes(self, codes):
        shape = list(codes.values.shape)
        shape[1] = self.one_of(1, 4, 16)
        other = self.input_codes(tuple(shape), codes.values.dtype.type)
        values = np.concatenate([codes.values, other.values], 1)
        return Codes(self.node("Concat", [codes.name, other.name], axis=1), values, codes.scale, codes.zero)

    def moved(self, codes):
        """A Transpose or Reshape of quantised values, or of reals with a Quantize after it."""
        shape, where = codes.values.shape, np.arange(codes.values.size).reshape(codes.values.shape)
        name, real = (codes.name, None) if self.chance(0.5) else self.dequantised(codes)
        if self.chance(0.5):
            order = [int(d) for d in self.rng.permutation(len(shape))]
            name, where = self.node("Transpose", [name], perm=order), where.transpose(order)
        else:
            to = (shape[0], -1) if self.chance(0.5) else (shape[0], shape[1], -1) if len(shape) > 3 else shape + (1,)
            name, where = self.node("Reshape", [name, self.constant(np.array(to, np.int64))]), where.reshape(to)
        if real is None:
            return Codes(name, codes.values.ravel()[where], codes.scale, codes.zero)
        return self.quantised(name, real.pick(where), alike=codes if self.chance(0.6) else None)

    def part(self, codes):
        extent = codes.values.shape[1]
        first = self.number(0, extent - 1)
        last = self.number(first + 1, extent)
        bounds = [self.constant(np.array([v], np.int64)) for v in (first, last, 1)]
        return Codes(self.node("Slice", [codes.name, *bounds]), codes.values[:, first:last].copy(), codes.scale, codes.zero)

    def split(self, codes):
        """The two halves of the channels, swapped."""
        first = codes.values.shape[1] // 2
        if first == 0:
            return self.part(codes)
        names = [self.name("v"), self.name("v")]
        sizes = self.constant(np.array([first, codes.values.shape[1] - first], np.int64))
        self.nodes.append(helper.make_node("Split", [codes.name, sizes], names, axis=1))
        self.text.append("Split")
        values = np.concatenate([codes.values[:, first:], codes.values[:, :first]], 1)
        return Codes(self.node("Concat", names[::-1], axis=1), values, codes.scale, codes.zero)

    # -- operators on quantised values --

    def parameters(self, codes):
        self.on_reals = False
        return [self.operand(codes.scale), self.operand(codes.zero)]

    def q_weights(self, shape, axis, dtype):
        values = self.integers(dtype, shape, self.one_of(2, 20, 64, 255))
        size = shape[axis] if self.chance(0.5) else None
        scale = np.array([self.scale() for _ in range(size)], np.float32) if size else np.asarray(self.scale())
        zero = np.full(scale.shape, self.zero(dtype) if self.chance(0.5) else 0, dtype)
        if size and self.chance(0.3):
            zero = self.integers(dtype, size, 10)
        if self.ties and self.chance(0.6):
            values = self.multiples(dtype, shape, along(zero, axis, len(shape)))
        return values, values.astype(np.int64) - along(zero.astype(np.int64), axis, len(shape)), scale, zero

    def q_conv(self, codes):
        attrs, shape = self.conv_attrs(codes.values.shape)
        values, integers, w_scale, w_zero = self.q_weights(shape, 0, self.one_of(np.uint8, np.int8))
        sums = convolve(codes.integers, integers, attrs["strides"], attrs["pads"], attrs["dilations"], attrs["group"])
        factor = fractions(codes.scale) * along(fractions(w_scale), 1, len(shape))
        bias = []
        if self.chance(0.6):
            integers = self.summands(shape[0])
            bias = [self.constant(integers)]
            sums = sums + along(integers.astype(np.int64), 1, len(shape))
        real, dtype = Real.products(sums, factor), codes.values.dtype.type
        scale, zero = self.spread(real), self.zero(dtype)
        name = self.node("QLinearConv", [codes.name, *self.parameters(codes), self.operand(values, "w"),
                                         self.operand(w_scale), self.operand(w_zero), self.operand(scale),
                                         self.operand(zero)] + bias, **attrs)
        return self.rounded(name, real, scale, zero, dtype)

    def q_product(self, codes):
        depth, columns, dtype = codes.values.shape[-1], self.one_of(*CHANNELS), codes.values.dtype.type
        gemm = codes.values.ndim == 2 and self.chance(0.5)
        turned = gemm and self.chance(0.5)
        shape = (columns, depth) if turned else (depth, columns)
        values, integers, w_scale, w_zero = self.q_weights(shape, 0 if turned else 1, self.one_of(np.uint8, np.int8))
        if not gemm and codes.values.ndim > 2 and self.chance(0.4):  # a matrix for each quantised matrix
            more = self.integers(values.dtype, codes.values.shape[-3:-2] + shape, 30)
            values, integers = more, more.astype(np.int64) - w_zero.astype(np.int64)
        sums = codes.integers @ (integers.T if turned else integers)
        weights = [self.operand(values, "w"), self.operand(w_scale), self.operand(w_zero)]
        bias = []
        if gemm:
            bias = [""]
            if self.chance(0.5):
                added = self.summands(columns)
                bias, sums = [self.constant(added)], sums + added
        real = Real.products(sums, fractions(codes.scale) * fractions(w_scale))
        scale, zero = self.spread(real), self.zero(dtype)
        inputs = [codes.name, *self.parameters(codes), *weights] + bias + [self.operand(scale), self.operand(zero)]
        if gemm:
            name = self.node("QGemm", inputs, "com.microsoft", transB=int(turned))
        else:
            name = self.node("QLinearMatMul", inputs)
        return self.rounded(name, real, scale, zero, dtype)

    def q_elementwise(self, codes):
        shape = codes.values.shape
        other = self.input_codes(shape, codes.values.dtype.type)
        add = self.chance(0.5)
        if add:
            real = codes.real.add(other.real)
        else:
            real = Real.products(codes.integers * other.integers, fractions(codes.scale) * fractions(other.scale))
        dtype = codes.values.dtype.type
        scale, zero = self.spread(real), self.zero(dtype)
        name = self.node("QLinearAdd" if add else "QLinearMul",
                         [codes.name, *self.parameters(codes), other.name, *self.parameters(other), self.constant(scale),
                          self.constant(zero)], "com.microsoft")
        return self.rounded(name, real, scale, zero, dtype)

    def integer_operator(self, codes):
        """ConvInteger or MatMulInteger, whose i32 results are an output."""
        self.on_reals = False
        dtype = self.one_of(np.uint8, np.int8)
        if codes.values.ndim > 2 and self.chance(0.7):
            attrs, shape = self.conv_attrs(codes.values.shape)
            values, integers, _, zero = self.q_weights(shape, 0, dtype)
            zero = np.full((), zero.ravel()[0]) if len(set(zero.ravel())) == 1 else zero
            integers = values.astype(np.int64) - along(zero.astype(np.int64), 0, len(shape))
            sums = convolve(codes.integers, integers, attrs["strides"], attrs["pads"], attrs["dilations"], attrs["group"])
            op = "ConvInteger"
        else:
            values, integers, _, zero = self.q_weights((codes.values.shape[-1], self.one_of(*CHANNELS)), 1, dtype)
            sums, attrs, op = codes.integers @ integers, {}, "MatMulInteger"
        name = self.node(op, [codes.name, self.operand(values, "w"), self.operand(codes.zero), self.operand(zero)], **attrs)
        self.output(name, sums.astype(np.int32))

    # -- a whole problem --

    def step(self, codes):
        """One or more nodes from quantised values to quantised values."""
        image, matrix = codes.values.ndim > 2, codes.values.ndim >= 2
        choices = [self.sum, self.concat, self.concat_codes, self.moved, self.part, self.split, self.q_elementwise, self.on_floats]
        if image:
            choices += [lambda c: self.group_of(*self.conv(c))] * 8 + [self.separable] * 3 + [self.q_conv] * 4 + [self.pool] * 3 + [self.max_pool] * 2
        if matrix:
            choices += [lambda c: self.group_of(*self.product(c))] * (2 if image else 12) + [self.q_product] * (1 if image else 4)
        return self.one_of(*choices)(codes)

    def build(self):
        if self.chance(0.3):
            shape = tuple(self.number(1, 5) for _ in range(self.number(1, 2)))
            shape += (self.one_of(*CHANNELS, 64, 100, 301, 600, 1030),)
        elif self.chance(0.08):  # sums beyond 2^24
            shape = (1, self.one_of(64, 130, 301), self.number(1, 4), self.number(1, 4))
        else:
            shape = self.image_shape()
        codes = self.input_codes(shape)
        if self.chance(0.1):
            self.integer_operator(codes)
        for _ in range(self.one_of(1, 1, 2, 3)):
            if not self.done:
                codes = self.step(codes)
        last = getattr(self, "last", None)
        self.output(codes.name, codes.values, last[1] if last and last[0] is codes else None)
        return self


def problem(seed, number):
    return Problem(number, np.random.default_rng([seed, number])).build()


def model(problems):
    """One network of many problems."""
    value = lambda n, v: helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape)
    graph = helper.make_graph(
        [node for p in problems for node in p.nodes], "quantised",
        [value(n, v) for p in problems for n, v in p.inputs.items()],
        [value(n, v) for p in problems for n, v in p.outputs.items()],
        [numpy_helper.from_array(v, n) for p in problems for n, v in p.constants.items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19), helper.make_opsetid("com.microsoft", 1)],
                             ir_version=9)
