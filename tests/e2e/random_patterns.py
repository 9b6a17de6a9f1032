"""Steps of random graphs that compute: element-wise, normalisation, attention, windows.

Each adds nodes that read a given value.
"""
import math

import numpy as np

from random_net import F32, I64, BOOL, need


def unary(net, x):
    op = net.pick(["Relu", "Sigmoid", "Tanh", "Abs", "Neg", "Erf", "Softplus", "Softsign", "Identity", "LeakyRelu", "Elu",
                   "Selu", "HardSigmoid", "HardSwish", "Celu", "ThresholdedRelu", "Sin", "Cos", "Atan"])
    need(op != "HardSwish" or net.opset >= 14)
    return net.node(op, [x], alpha=net.pick([None, 0.3]) if op in ("LeakyRelu", "Elu", "HardSigmoid") else None)


def guarded_unary(net, x):
    kind = net.between(0, 3)
    if kind == 0:
        return net.node("Exp", [net.node("Tanh", [x])])
    if kind == 3:
        return net.node("Reciprocal", [net.commute("Add", net.node("Abs", [x]), net.one(1.5, x.rank))])
    shifted = net.commute("Add", net.node("Abs", [x]), net.one(0.5, x.rank))
    return net.node(["Log", "Sqrt"][kind - 1], [shifted])


def binary(net, x):
    op = net.pick(["Add", "Sub", "Mul", "Max", "Min", "Add", "Mul"])
    return net.commute(op, x, net.like(x))


def arithmetic_chain(net, x):
    """Constant factors and summands, some of which have no effect."""
    for _ in range(net.between(1, 4)):
        op = net.pick(["Add", "Mul", "Sub", "Div"])
        c = net.one(net.pick([1, 0, 2, -0.5] if op in ("Add", "Sub") else [1, 2, -0.5]), x.rank)
        if op != "Div" and x.rank >= 2 and net.chance(0.3):
            c = net.constant(net.numbers((x.shape[1],) + (1,) * (x.rank - 2)))
        x = net.node(op, [x, c]) if op in ("Sub", "Div") and net.chance(0.8) else \
            net.node("Sub", [c, x]) if op == "Sub" else net.node("Div", [x, c]) if op == "Div" else net.commute(op, x, c)
    return x


def power(net, x):
    return net.node("Pow", [x, net.one(net.pick([2, 1, 3]), x.rank, net.pick([F32, I64]))])


def clip(net, x):
    low = net.constant(np.float32(net.pick([0, -1, -0.5]))) if net.chance(0.6) else None
    high = net.constant(np.float32(net.pick([6, 1, 0.5]))) if net.chance(0.6) else None
    return net.node("Clip", [x, low, high])


def swish(net, x):
    return net.commute("Mul", x, net.node("Sigmoid", [x]))


def hard_swish(net, x):
    if net.chance(0.25):
        return net.commute("Mul", x, net.node("HardSigmoid", [x], alpha=1 / 6, beta=0.5))
    high = net.constant(np.float32(6)) if net.chance(0.9) else None
    low = net.constant(np.float32(0)) if net.chance(0.9) else None
    clipped = net.node("Clip", [net.commute("Add", x, net.one(3, x.rank)), low, high])
    six = net.one(6, x.rank)
    if net.chance(0.5):
        return net.node("Div", [net.commute("Mul", x, clipped), six])
    return net.commute("Mul", x, net.node("Div", [clipped, six]))


def gelu(net, x):
    half, one = net.one(0.5, x.rank), net.one(1, x.rank)
    if net.chance(0.5):
        inner = net.node("Div", [x, net.one(math.sqrt(2), x.rank)])
    else:
        inner = net.commute("Mul", x, net.one(1 / math.sqrt(2), x.rank))
    term = net.commute("Add", net.node("Erf", [inner]), one)
    kind = net.between(0, 2)
    if kind == 0:
        return net.commute("Mul", net.commute("Mul", x, term), half)
    if kind == 1:
        return net.commute("Mul", net.commute("Mul", x, half), term)
    return net.commute("Mul", x, net.commute("Mul", term, half))


def last_mean(net, x, keep=1):
    return net.with_axes("ReduceMean", 18, x, [net.pick([-1, x.rank - 1])], keepdims=keep)


def row_vector(net, x):
    lead = net.between(0, x.rank + 1) if net.chance(0.4) else 0
    return net.constant(net.numbers((1,) * lead + (x.shape[-1],)))


def square(net, x):
    if net.chance(0.5):
        return net.node("Pow", [x, net.one(2, x.rank)])
    return net.node("Mul", [x, x])


def root_mean_square(net, x):
    return net.node("Sqrt", [net.commute("Add", last_mean(net, square(net, x)), net.one(net.pick([1e-2, 1e-5]), x.rank))])


def layer_norm(net, x):
    need(x.rank >= 1 and x.shape[-1] > 1)
    centred = net.node("Sub", [x, last_mean(net, x)])
    y = net.node("Div", [centred, root_mean_square(net, centred)])
    if net.chance(0.8):
        y = net.commute("Mul", y, row_vector(net, x))
    return net.commute("Add", y, row_vector(net, x)) if net.chance(0.8) else y


def rms_norm(net, x):
    need(x.rank >= 1)
    scale = row_vector(net, x)
    over = net.commute("Mul", x, scale) if net.chance(0.3) else x
    root = root_mean_square(net, x)
    kind = net.between(0, 2)
    if kind == 0:
        y = net.node("Div", [over, root])
    else:
        inverse = net.node("Reciprocal", [root]) if kind == 1 else net.node("Div", [net.one(1, x.rank), root])
        y = net.commute("Mul", over, inverse)
    return net.commute("Mul", y, scale) if over is x and net.chance(0.8) else y


def group_norm(net, x):
    need(x.rank >= 3 and x.shape[1] % 2 == 0 and x.elements // (x.shape[0] * 2) > 1)
    groups = net.reshape_to(x, (x.shape[0], 2, -1))
    y = net.node("InstanceNormalization", [groups, net.constant(net.numbers((2,))), net.constant(net.numbers((2,)))])
    y = net.reshape_to(y, x.shape)
    channels = (x.shape[1],) + (1,) * (x.rank - 2)
    for op in ("Mul", "Add"):
        if net.chance(0.7):
            y = net.commute(op, y, net.constant(net.numbers(channels)) if net.chance(0.7) else net.one(1.5, x.rank))
    return y


def norm_op(net, x):
    kind = net.between(0, 3)
    if kind == 0:
        need(net.opset >= 17 and x.rank >= 1)
        axis = net.axis(x.rank)
        shape = x.shape[axis:] if axis < 0 else x.shape[axis:]
        need(math.prod(shape) > 1)
        bias = net.constant(net.numbers(shape)) if net.chance(0.6) else None
        return net.node("LayerNormalization", [x, net.constant(net.numbers(shape)), bias], axis=axis)
    need(x.rank >= 3 and x.elements > x.shape[0] * x.shape[1])
    c = x.shape[1]
    vector = lambda count: net.constant(net.numbers((count,)))  # noqa: E731
    if kind == 1:
        return net.node("InstanceNormalization", [x, vector(c), vector(c)])
    if kind == 2:
        return net.node("BatchNormalization", [x, vector(c), vector(c), vector(c),
                                               net.constant(net.numbers((c,), F32, 0.5, 2))])
    need(net.opset >= 21 and c % 2 == 0)
    return net.node("GroupNormalization", [x, vector(c), vector(c)], num_groups=2)


def attention(net, x):
    need(x.rank >= 2 and x.shape[-1] > 0)
    b, keys, width = x.shape[:-2], net.between(1, 5), x.shape[-1]
    q = x
    k = net.constant(net.numbers(b + (keys, width))) if net.chance(0.4) else net.input(b + (keys, width))
    v = net.input(b + (keys, net.between(1, 5)))
    factor = lambda t: net.commute("Mul", t, net.one(0.5, t.rank))  # noqa: E731
    if net.chance(0.3):
        q = factor(q)
    perm = list(range(x.rank))
    perm[-1], perm[-2] = perm[-2], perm[-1]
    k = net.node("Transpose", [k], perm=perm)
    scores = net.node("MatMul", [q, k])
    if net.chance(0.6):
        scores = factor(scores) if net.chance(0.5) else net.node("Div", [scores, net.one(2, scores.rank)])
    for _ in range(net.between(0, 2)):
        mask = tuple(1 if net.chance(0.5) else d for d in scores.shape[net.between(0, scores.rank):])
        if net.chance(0.7):
            scores = net.commute("Add", scores, net.constant(net.numbers(mask)) if net.chance(0.5) else net.input(mask))
        else:
            condition = net.input(mask, BOOL)
            scores = net.node("Where", [condition, scores, net.one(net.pick([-1e30, -1e9, 0.5]), scores.rank)])
    shares = net.node("Softmax", [scores], axis=net.pick([-1, scores.rank - 1]))
    if shares.shape[:-2] != b:
        v = net.input(shares.shape[:-2] + v.shape[-2:])
    return net.node("MatMul", [shares, v])


def conv_attrs(net, spatial, kernel):
    n = len(spatial)
    attrs = {"strides": [net.between(1, 2) for _ in range(n)] if net.chance(0.5) else None,
             "dilations": [net.between(1, 2) for _ in range(n)] if net.chance(0.3) else None}
    mode = net.between(0, 3)
    if mode == 1:
        attrs["pads"] = [net.between(0, kernel[i % n] // 2 + 1) for i in range(2 * n)]
    elif mode == 2:
        attrs["auto_pad"] = net.pick(["SAME_UPPER", "SAME_LOWER", "VALID"])
    return attrs


def image_of(net, x):
    """Returns x if it is a signal, image or volume; otherwise, one computed from it."""
    need(x.elements > 0)
    if 3 <= x.rank <= 5 and x.shape[0] <= 3:
        return x
    rank = net.between(3, 5)
    need(x.elements <= 800)
    dims = [1] * rank
    dims[1], dims[-1] = (2, x.elements // 2) if x.elements % 2 == 0 else (1, x.elements)
    return net.reshape_to(x, dims)


def conv(net, x):
    x = image_of(net, x)
    channels, spatial = x.shape[1], x.shape[2:]
    groups = channels if net.chance(0.25) else 2 if channels % 2 == 0 and net.chance(0.3) else 1
    filters = groups * net.between(1, 3)
    kernel = tuple(net.between(1, 3) for _ in spatial)
    w = net.numbers((filters, channels // groups) + kernel)
    weights = net.constant(w) if net.chance(0.9) else net.input(w.shape)
    kind = net.between(0, 2)
    bias = None if kind == 0 else net.constant(net.numbers((filters,))) if kind == 1 else \
        net.constant(net.numbers((filters,))) if net.chance(0.7) else net.input((filters,))
    attrs = conv_attrs(net, spatial, kernel)
    if attrs.get("auto_pad", "VALID") != "VALID":
        attrs["dilations"] = None
    return net.node("Conv", [x, weights, bias], group=groups, kernel_shape=list(kernel) if net.chance(0.5) else None,
                    **attrs)


def conv_scaled(net, x):
    y = conv(net, x)
    channels = (y.shape[1],) + (1,) * (y.rank - 2)
    for _ in range(net.between(1, 3)):
        op = net.pick(["Mul", "Add", "Sub", "BatchNormalization"])
        if op == "BatchNormalization":
            vectors = [net.constant(net.numbers((y.shape[1],))) for _ in range(3)]
            y = net.node(op, [y, *vectors, net.constant(net.numbers((y.shape[1],), F32, 0.5, 2))])
            continue
        c = net.constant(net.numbers(channels if net.chance(0.7) else (1,) + channels)) if net.chance(0.6) else \
            net.one(net.pick([2, -0.5, 1, 0]), y.rank)
        y = net.commute(op, y, c) if op != "Sub" else net.node(op, [y, c] if net.chance(0.8) else [c, y])
    return y


def conv_transpose(net, x):
    x = image_of(net, x)
    n = x.rank - 2
    groups = 2 if x.shape[1] % 2 == 0 and net.chance(0.2) else 1
    w = net.numbers((x.shape[1], net.between(1, 3)) + tuple(net.between(1, 3) for _ in range(n)))
    bias = net.constant(net.numbers((w.shape[1] * groups,))) if net.chance(0.5) else None
    strides = [net.between(1, 2) for _ in range(n)] if net.chance(0.6) else None
    pads = [net.between(0, 1) for _ in range(2 * n)] if net.chance(0.3) else None
    dilations = [net.between(1, 2) for _ in range(n)] if net.chance(0.2) else None
    return net.node("ConvTranspose", [x, net.constant(w), bias], group=groups, strides=strides, pads=pads,
                    dilations=dilations)


def pool(net, x):
    x = image_of(net, x)
    spatial = x.shape[2:]
    op = net.pick(["MaxPool", "AveragePool", "MaxPool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool", "LpPool",
                   "LRN"])
    if op.startswith("Global"):
        return net.node(op, [x])
    if op == "LRN":
        return net.node(op, [x], size=net.pick([1, 3]))
    kernel = [net.between(1, min(3, s)) for s in spatial]
    attrs = {"kernel_shape": kernel, "strides": [net.between(1, 2) for _ in spatial] if net.chance(0.5) else None}
    if net.chance(0.4):
        attrs["pads"] = [net.between(0, kernel[i % len(kernel)] - 1) for i in range(2 * len(kernel))]
    if op == "MaxPool" and net.chance(0.2):
        return net.node(op, [x], 2, **attrs)[0]
    if op == "AveragePool" and net.chance(0.5):
        attrs["count_include_pad"] = 1
    return net.node(op, [x], **attrs)


def pad(net, x):
    need(x.rank >= 1)
    mode = net.pick(["constant", "constant", "constant", "edge", "reflect", None])
    axes = [net.between(0, x.rank - 1)] if net.opset >= 18 and net.chance(0.3) else None
    covered = axes or list(range(x.rank))
    most = lambda a: min(2, x.shape[a] - 1) if mode == "reflect" else 2  # noqa: E731
    begin = [net.between(0, most(a)) if a >= min(2, x.rank - 1) or net.chance(0.2) else 0 for a in covered]
    end = [net.between(0, most(a)) if a >= min(2, x.rank - 1) or net.chance(0.2) else 0 for a in covered]
    if mode in ("constant", None) and net.chance(0.15):
        begin[-1] = -1 if x.shape[covered[-1]] > 2 else 0
    value = net.constant(np.float32(net.pick([0, -1, 0.5, 0]))) if mode in ("constant", None) and net.chance(0.5) else None
    return net.node("Pad", [x, net.ints(begin + end), value, net.ints(axes) if axes else None], mode=mode)


def pad_then_window(net, x):
    x = image_of(net, x)
    if net.chance(0.4):
        x = net.node("Relu", [x])
    y = pad(net, x)
    return net.pick([conv, pool])(net, y)
