"""Draws the random ONNX graphs of random_graphs.py from a seed.

The graphs contain shapes of rank 0 to 5, optional inputs that are left out, constants of every rank, with one element
or negative values, and the patterns that passes look for, with the operands of commutative nodes in either order.
draw(seed) returns a Drawn: a model, its inputs by name, and the steps that drew it.
"""
import numpy as np
from onnx import helper

from random_net import F32, I64, I32, I8, U8, BOOL, NUMPY, Value, Undrawable, need, Net
from random_patterns import (unary, guarded_unary, binary, arithmetic_chain, power, clip, swish, hard_swish, gelu, layer_norm, rms_norm,
                             group_norm, norm_op, attention, image_of, conv, conv_scaled,
                             conv_transpose, pool, pad, pad_then_window)


def conv_then(net, x):
    """Signals, images and volumes between convolutions, and the nodes that passes move across them."""
    y = conv(net, x)
    for _ in range(net.between(1, 3)):
        y = net.pick([unary, slice_, split, pad, reduce, binary, clip, concat, norm_op, arithmetic_chain, pool, transpose,
                      softmax, resize])(net, y)
    return conv(net, y) if net.chance(0.7) else y


def slice_(net, x):
    need(x.rank >= 1)
    with_axes = net.chance(0.6)
    axes = net.axes(x.rank) if with_axes else None
    count = len(axes) if with_axes else net.between(1, x.rank)
    starts, ends, steps = [], [], []
    for k in range(count):
        extent = x.shape[axes[k] if with_axes else k]
        step = net.pick([1, 1, 2, -1, -2]) if net.chance(0.4) else 1
        low = net.between(0, max(0, extent - 1)) if net.chance(0.5) else 0
        start, end = (low, net.pick([extent, extent - 1 if extent - 1 > low else extent, 1 << 40, extent]))
        if step < 0:
            start, end = net.pick([-1, 1 << 40]), net.pick([-(1 << 40), 0 if extent > 1 else -(1 << 40)])
        starts.append(start if start < 1 << 39 or net.chance(0.5) else extent)
        ends.append(end)
        steps.append(step)
    all_one = all(s == 1 for s in steps)
    given = None if all_one and net.chance(0.5) else net.ints(steps)
    return net.node("Slice", [x, net.ints(starts), net.ints(ends), net.ints(axes) if with_axes else None, given])


def split(net, x):
    need(x.rank >= 1)
    axis = net.axis(x.rank)
    extent = x.shape[axis]
    need(extent >= 2)
    parts = net.between(2, min(4, extent))
    use = net.between(0, 1)
    if use == 0:  # with the sizes of the parts
        cuts = sorted(net.rng.permutation(extent - 1)[:parts - 1].tolist())
        bounds = [0] + [c + 1 for c in cuts] + [extent]
        given, attrs = net.ints([b - a for a, b in zip(bounds, bounds[1:])]), {}
    else:
        given, attrs = None, {}
        if net.opset >= 18:
            attrs["num_outputs"] = parts
            need(extent - (parts - 1) * -(-extent // parts) > 0)
        else:
            need(extent % parts == 0)
    names = [net.fresh("s") for _ in range(parts)]
    if net.chance(0.2):  # parts that nothing reads
        names[net.between(0, parts - 1)] = ""
    made = [v for v in net.node("Split", [x, given], names, axis=axis if axis != 0 or net.chance(0.5) else None, **attrs)
            if v is not None]
    need(made)
    if len(made) > 1 and net.chance(0.5):
        return net.node("Concat", made if net.chance(0.7) else made[::-1], axis=axis)
    return net.pick(made)


def concat(net, x):
    axis = net.axis(x.rank)
    others = [v for v in net.values if v.type == x.type and v.shape == x.shape]
    parts = [x] + [net.pick(others) for _ in range(net.between(0, 2))]
    if net.chance(0.4):
        shape = list(x.shape)
        shape[axis] = net.between(1, 3)
        parts.append(net.constant(net.numbers(shape, x.type)))
    net.rng.shuffle(parts)
    return net.node("Concat", parts, axis=axis)


def transpose(net, x):
    perm = net.rng.permutation(x.rank).tolist() if net.chance(0.8) and x.rank else None
    y = net.node("Transpose", [x], perm=perm)
    return net.node("Transpose", [y], perm=net.rng.permutation(x.rank).tolist()) if net.chance(0.3) and x.rank else y


def reshape(net, x):
    kind = net.between(0, 5)
    if kind == 0:
        return net.reshape_to(x, [-1])
    if kind == 1:
        at = net.between(0, x.rank)
        axes = [at - x.rank - 1 if net.chance(0.4) else at]
        return net.with_axes("Unsqueeze", 13, x, axes)
    if kind == 2:
        ones = [i for i, d in enumerate(x.shape) if d == 1]
        need(ones)
        return net.with_axes("Squeeze", 13, x, None if net.chance(0.4) else [net.pick(ones)])
    if kind == 3:
        need(x.rank >= 1)
        return net.node("Flatten", [x], axis=net.pick([None, net.between(0, x.rank)]))
    if kind == 4:
        need(x.rank >= 2)
        return net.reshape_to(x, [0, -1] if x.elements else x.shape)
    dims = list(x.shape)
    net.rng.shuffle(dims)
    return net.reshape_to(x, dims + [1] * net.between(0, 5 - len(dims)) if len(dims) < 5 else dims)


def channel_shuffle(net, x):
    need(x.rank == 4 and x.shape[1] % 2 == 0)
    n, c, h, w = x.shape
    y = net.node("Transpose", [net.reshape_to(x, [n, 2, c // 2, h, w])], perm=[0, 2, 1, 3, 4])
    return net.reshape_to(y, x.shape)


def expand(net, x):
    if net.chance(0.5):
        need(x.rank >= 1)
        return net.node("Tile", [x, net.ints([net.between(1, 2) for _ in x.shape])])
    shape = [net.pick([1, d, 3]) if d == 1 else net.pick([1, d]) for d in x.shape]
    return net.node("Expand", [x, net.ints([1] * net.between(0, 1) + shape)])


def gather(net, x):
    axis = net.axis(x.rank)
    extent = x.shape[axis]
    need(extent > 0)
    shape = net.pick([(), (1,), (3,), (2, 2), (1, 1)])
    array = net.numbers(shape, I64, -extent, extent - 1)
    indices = net.constant(array) if net.chance(0.6) else net.input(shape, I64, array)
    return net.node("Gather", [x, indices], axis=axis)


def gather_elements(net, x):
    axis = net.axis(x.rank)
    shape = list(x.shape)
    shape[axis] = net.between(1, 4)
    array = net.numbers(shape, I64, -x.shape[axis], x.shape[axis] - 1)
    if net.chance(0.5):
        return net.node("GatherElements", [x, net.constant(array)], axis=axis)
    index = net.numbers((net.between(1, 3), 1), I64, 0, x.shape[0] - 1)
    if net.chance(0.5):
        return net.node("GatherND", [x, net.constant(index)])
    updates = net.constant(net.numbers((len(set(index[:, 0].tolist())),) + x.shape[1:]))
    return net.node("ScatterND", [x, net.constant(np.unique(index)[:, None]), updates])


def reduce(net, x):
    op = net.pick(["ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin", "ReduceL1", "ReduceL2", "ReduceSumSquare",
                   "ReduceLogSumExp", "ReduceProd"])
    since = 13 if op == "ReduceSum" else 18
    axes = None if net.chance(0.25) or x.rank == 0 else net.axes(x.rank)
    keep = net.pick([None, 0, 1])
    noop = net.pick([None, 0, 1]) if axes is None and net.opset >= since else None
    need(not (noop == 1 and op in ("ReduceL1", "ReduceL2", "ReduceSumSquare", "ReduceLogSumExp")))  # peers disagree
    if op == "ReduceProd":
        x = net.node("Tanh", [x])
    return net.with_axes(op, since, x, axes, keepdims=keep, noop_with_empty_axes=noop)


def softmax(net, x):
    return net.node(net.pick(["Softmax", "Softmax", "LogSoftmax"]), [x],
                    axis=None if net.chance(0.3) else net.axis(x.rank))


def matmul(net, x):
    need(x.rank >= 1)
    k, n = x.shape[-1], net.between(1, 6)
    lead = tuple(1 if net.chance(0.5) else d for d in x.shape[:-2][net.between(0, max(0, x.rank - 2)):])
    shape = net.pick([(k, n), lead + (k, n), (k,)])
    return net.node("MatMul", [x, net.constant(net.numbers(shape)) if net.chance(0.7) else net.input(shape)])


def gemm(net, x):
    if x.rank != 2:
        need(x.rank >= 1)
        x = net.node("Flatten", [x])
    need(x.elements)
    ta, tb = net.between(0, 1), net.between(0, 1)
    m, k = x.shape[::-1] if ta else x.shape
    n = net.between(1, 5)
    c = net.pick([None, (n,), (1, n), (m, 1), (m, n), (), (1,), (1, 1)])
    b = (n, k) if tb else (k, n)
    return net.node("Gemm", [x, net.constant(net.numbers(b)) if net.chance(0.7) else net.input(b),
                             None if c is None else net.constant(net.numbers(c))],
                    transA=ta, transB=tb, alpha=net.pick([None, 0.5]), beta=net.pick([None, 2.0]))


def where(net, x):
    condition = net.input(tuple(1 if net.chance(0.4) else d for d in x.shape), BOOL) if net.chance(0.5) else \
        net.node(net.pick(["Greater", "Less", "GreaterOrEqual", "Equal"]), [x, net.one(0.1, x.rank)])
    pair = [x, net.like(x)]
    if net.chance(0.5):
        pair.reverse()
    return net.node("Where", [condition] + pair)


def resize(net, x):
    need(3 <= x.rank <= 5)
    sizes = list(x.shape[:2]) + [net.between(1, 2 * s) for s in x.shape[2:]]
    mode = net.pick(["nearest", "linear"])
    attrs = {"mode": mode, "coordinate_transformation_mode": net.pick(["asymmetric", "half_pixel", "align_corners"])}
    if mode == "nearest":
        attrs["nearest_mode"], attrs["coordinate_transformation_mode"] = "floor", "asymmetric"
    if net.chance(0.5):
        return net.node("Resize", [x, None, None, net.ints(sizes)], **attrs)
    scales = net.constant(np.asarray([1, 1] + [net.pick([1, 2]) for _ in x.shape[2:]], np.float32))
    return net.node("Resize", [x, None, scales], **attrs)


def cumulate(net, x):
    return net.node("CumSum", [x, net.scalar(net.axis(x.rank), I64)], exclusive=net.between(0, 1),
                    reverse=net.between(0, 1))


def top_k(net, x):
    axis = net.axis(x.rank)
    k = net.constant(np.asarray([net.between(1, x.shape[axis])], np.int64))
    values, indices = net.node("TopK", [x, k], 2, axis=axis, largest=net.between(0, 1))
    return values if net.chance(0.8) else net.node("Cast", [indices], to=F32)


def arg(net, x):
    y = net.node(net.pick(["ArgMax", "ArgMin"]), [x], axis=net.axis(x.rank), keepdims=net.between(0, 1))
    return net.node("Cast", [y], to=F32)


def one_hot(net, x):
    depth = net.between(1, 5)
    indices = net.input(x.shape[:3], I64, net.numbers(x.shape[:3], I64, -depth - 1, depth + 1))
    return net.node("OneHot", [indices, net.scalar(depth, I64), net.constant(np.asarray([-0.5, 2], np.float32))],
                    axis=net.pick([None, 0, -1]))


def triangle(net, x):
    need(x.rank >= 2 and net.opset >= 14)
    k = net.scalar(net.between(-2, 2), I64) if net.chance(0.6) else None
    return net.node("Trilu", [x, k], upper=net.pick([None, 0, 1]))


def depth_space(net, x):
    need(x.rank == 4)
    if net.chance(0.5):
        need(x.shape[1] % 4 == 0)
        return net.node("DepthToSpace", [x], blocksize=2, mode=net.pick([None, "CRD", "DCR"]))
    need(x.shape[2] % 2 == 0 and x.shape[3] % 2 == 0)
    return net.node("SpaceToDepth", [x], blocksize=2)


def prelu(net, x):
    shape = net.pick([(1,) if x.rank else (), (x.shape[1],) + (1,) * (x.rank - 2) if x.rank >= 2 else (), x.shape])
    return net.node("PRelu", [x, net.constant(net.numbers(shape))])


def variadic(net, x):
    return net.node(net.pick(["Sum", "Mean", "Max", "Min"]), [x] + [net.like(x) for _ in range(net.between(0, 2))])


def dropout(net, x):
    ratio = net.scalar(0.3) if net.chance(0.5) else None
    need(ratio is None or ratio.rank == 0)
    return net.node("Dropout", [x, ratio])


def step(net, low=0.03, high=0.15):
    """Returns a scale that is not a round number: with round numbers, products and sums of integers would often tie."""
    return net.scalar(np.float32(net.rng.uniform(low, high)))


def zero_point(net, type, scale_shape):
    shape = scale_shape if net.chance(0.6) else () if scale_shape == (1,) else (1,)
    return net.constant(np.full(shape, net.between(0, 9), NUMPY[type]))


def quantised(net, x, type):
    scale = step(net)
    zero = zero_point(net, type, scale.shape) if type != U8 or net.chance(0.8) else None
    return net.node("QuantizeLinear", [x, scale, zero]), scale, zero


def quantise(net, x):
    type = net.pick([U8, I8])
    q, scale, zero = quantised(net, x, type)
    if net.chance(0.3):
        scale = step(net)
        zero = zero_point(net, type, scale.shape) if net.chance(0.7) else None
    return net.node("DequantizeLinear", [q, scale, zero])


def quantise_axis(net, x):
    need(x.rank >= 1)
    axis = net.axis(x.rank)
    scale = net.constant(net.numbers((x.shape[axis],), F32, 0.03, 0.2))
    zero = net.constant(net.numbers(scale.shape, I8)) if net.chance(0.6) else None
    if zero is None:
        zero = net.constant(np.zeros(scale.shape, np.int8))
    q = net.node("QuantizeLinear", [x, scale, zero], axis=axis)
    return net.node("DequantizeLinear", [q, scale, zero if net.chance(0.7) else None], axis=axis)


def one_zero(net, type):
    return net.scalar(net.between(0, 5), type)


def quantised_matmul(net, x):
    need(x.rank >= 2)
    q, scale, zero = quantised(net, x, U8)
    n = net.between(1, 5)
    w = net.constant(net.numbers((x.shape[-1], n), I8))
    if net.chance(0.5):
        y = net.node("MatMulInteger", [q, w, zero if net.chance(0.7) else None, one_zero(net, I8) if net.chance(0.6) else None])
        return net.node("Cast", [y], to=F32)
    y_scale = step(net, 0.3, 0.6)
    y = net.node("QLinearMatMul", [q, scale, zero or one_zero(net, U8), w, step(net), one_zero(net, I8),
                                   y_scale, one_zero(net, U8)])
    return net.node("DequantizeLinear", [y, y_scale, one_zero(net, U8)])


def quantised_conv(net, x):
    x = image_of(net, x)
    q, scale, zero = quantised(net, x, U8)
    filters = net.between(1, 4)
    w = net.constant(net.numbers((filters, x.shape[1]) + tuple(net.between(1, min(3, s)) for s in x.shape[2:]), I8))
    if net.chance(0.4):
        y = net.node("ConvInteger", [q, w, zero if net.chance(0.7) else None, one_zero(net, I8) if net.chance(0.5) else None])
        return net.node("Cast", [y], to=F32)
    per_filter = net.chance(0.3)
    w_scale = net.constant(net.numbers((filters,), F32, 0.05, 0.2)) if per_filter else step(net)
    w_zero = net.constant(np.zeros((filters,), np.int8)) if per_filter else net.scalar(0, I8)
    bias = net.constant(net.numbers((filters,), I32, -50, 50)) if net.chance(0.5) else None
    y_scale = step(net, 0.3, 0.6)
    y = net.node("QLinearConv", [q, scale, zero or one_zero(net, U8), w, w_scale, w_zero, y_scale, one_zero(net, U8), bias])
    return net.node("DequantizeLinear", [y, y_scale, one_zero(net, U8)])


def dynamic_quantise(net, x):
    need(x.elements > 1)
    q, scale, zero = net.node("DynamicQuantizeLinear", [x], 3)
    return net.node("DequantizeLinear", [q, scale, zero])


def recurrent(net, x):
    if x.rank != 3:
        need(0 < x.elements <= 120)
        x = net.reshape_to(x, [1, 1, -1] if net.chance(0.5) or x.elements % 2 else [2, 1, -1])
    steps, batch, width = x.shape
    need(width > 0 and steps > 0)
    op, gates = net.pick([("LSTM", 4), ("GRU", 3), ("RNN", 1)])
    hidden, direction = net.between(1, 4), net.pick([None, "forward", "reverse", "bidirectional"])
    d = 2 if direction == "bidirectional" else 1
    maybe = lambda shape, p=0.5: net.constant(net.numbers(shape)) if net.chance(p) else None  # noqa: E731
    inputs = [x, net.constant(net.numbers((d, gates * hidden, width))), net.constant(net.numbers((d, gates * hidden, hidden))),
              maybe((d, 2 * gates * hidden)), None, maybe((d, batch, hidden))]
    if op == "LSTM":
        inputs += [maybe((d, batch, hidden)), maybe((d, 3 * hidden), 0.3)]
    attrs = {"linear_before_reset": net.pick([None, 0, 1])} if op == "GRU" else {}
    count = net.between(1, 3 if op == "LSTM" else 2)
    made = net.node(op, inputs, [net.fresh("r") for _ in range(count)], hidden_size=hidden, direction=direction, **attrs)
    return made[0] if isinstance(made, list) else made


def einsum(net, x):
    letters = "abcde"[:x.rank]
    need(x.rank >= 1)
    out = list(letters)
    net.rng.shuffle(out)
    out = "".join(out[:net.between(0, len(out))])
    return net.node("Einsum", [x], equation=f"{letters}->{out}")


def shape_arithmetic(net, x):
    """A reshape to a shape computed by Shape, as exporters write it."""
    need(x.rank >= 2)
    shape = net.node("Shape", [x])
    first = net.node("Gather", [shape, net.constant(np.asarray(0, np.int64))], axis=0)
    first = net.with_axes("Unsqueeze", 13, first, [0])
    target = net.node("Concat", [first, net.ints([-1])], axis=0)
    made = helper.make_node("Reshape", [x.name, target.name], [net.fresh("t")])
    net.nodes.append(made)
    value = Value(made.output[0], x.type, (x.shape[0], x.elements // x.shape[0]))
    net.values = [v for v in net.values if v.name not in (shape.name, first.name, target.name)] + [value]
    return value


STEPS = {
    unary: 4, guarded_unary: 2, binary: 4, arithmetic_chain: 3, power: 1, clip: 2, swish: 2, hard_swish: 3, gelu: 4,
    layer_norm: 3, rms_norm: 3, group_norm: 2, norm_op: 2, attention: 4, conv: 3, conv_scaled: 3, conv_then: 5,
    conv_transpose: 2, pool: 2, pad: 2, pad_then_window: 3, slice_: 3, split: 3, concat: 2, transpose: 2, reshape: 3,
    channel_shuffle: 1, expand: 2, gather: 3, gather_elements: 2, reduce: 3, softmax: 2, matmul: 3, gemm: 2, where: 2,
    resize: 2, cumulate: 1, top_k: 1, arg: 1, one_hot: 1, triangle: 1, depth_space: 1, prelu: 1, variadic: 1, dropout: 1,
    quantise: 2, quantise_axis: 1, quantised_matmul: 1, quantised_conv: 1, dynamic_quantise: 1, recurrent: 1, einsum: 1,
    shape_arithmetic: 1,
}


def try_step(net, step, x):
    """Returns the value that a step adds; None, with nothing changed, if the step does not fit."""
    state = [list(part) for part in (net.nodes, net.initializers, net.values, net.ports)], dict(net.inputs)
    try:
        made = step(net, x)
        need(made.type == F32 and made.elements > 0)
        return made
    except Undrawable:
        (net.nodes, net.initializers, net.values, net.ports), net.inputs = state
        return None


def draw(seed):
    net = Net(seed)
    x = net.input(net.shape())
    for _ in range(net.between(0, 2)):
        net.input(net.shape() if net.chance(0.6) else x.shape)
    steps, weights = list(STEPS), np.asarray(list(STEPS.values()), float)
    wanted = net.between(1, 7)
    for _ in range(60):
        if len(net.steps) == wanted:
            break
        step = steps[int(net.rng.choice(len(steps), p=weights / weights.sum()))]
        floats = [v for v in net.values if v.type == F32 and v.elements > 0]
        x = floats[-1] if net.chance(0.75) else net.pick(floats)
        if try_step(net, step, x) is not None:
            net.steps.append(step.__name__.strip("_"))
    if not net.steps:
        net.node("Identity", [x])
    return net.model()
