"""Each converter of ATen operators, compared with PyTorch itself, with fallback=False: nothing may run in PyTorch."""
import math

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

import kilter.torch  # noqa: E402

F = torch.nn.functional
pytestmark = pytest.mark.slow


def floats(*shape, seed=0):
    """Seeded numbers from N(0, 1)."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def whole(*shape, top=5, seed=0):
    """Seeded i64 numbers in [0, top)."""
    return torch.randint(0, top, shape, generator=torch.Generator().manual_seed(seed))


X = floats(2, 4, 6, 6)
M = floats(3, 5)
P = floats(3, 5, seed=1).abs() + 0.5
I = whole(3, 5, seed=2) - 2
B = M > 0

CASES = {
    # elementwise
    "abs": (torch.abs, M), "acos": (torch.acos, M.clamp(-1, 1)), "acosh": (torch.acosh, P + 1),
    "asin": (torch.asin, M.clamp(-1, 1)), "asinh": (torch.asinh, M), "atan": (torch.atan, M),
    "atanh": (torch.atanh, M.clamp(-0.9, 0.9)), "ceil": (torch.ceil, M), "cos": (torch.cos, M), "cosh": (torch.cosh, M),
    "erf": (torch.erf, M), "exp": (torch.exp, M), "exp2": (torch.exp2, M), "expm1": (torch.expm1, M * 1e-3),
    "floor": (torch.floor, M), "log": (torch.log, P), "log2": (torch.log2, P), "log10": (torch.log10, P),
    "log1p": (torch.log1p, P), "neg": (torch.neg, M), "neg of integers": (torch.neg, I),
    "reciprocal": (torch.reciprocal, P), "round": (torch.round, M), "rsqrt": (torch.rsqrt, P),
    "sigmoid": (torch.sigmoid, M), "sign": (torch.sign, M), "sin": (torch.sin, M), "sinh": (torch.sinh, M),
    "sqrt": (torch.sqrt, P), "sqrt of integers": (torch.sqrt, I.abs()), "tan": (torch.tan, M), "tanh": (torch.tanh, M),
    "trunc": (torch.trunc, 3 * M), "square": (torch.square, M), "floor of integers": (torch.floor, I),
    "bitwise_not": (torch.bitwise_not, I), "bitwise_not of booleans": (torch.bitwise_not, B),
    "logical_not": (torch.logical_not, I), "isnan": (torch.isnan, torch.tensor([1.0, math.nan, math.inf])),
    "isinf": (torch.isinf, torch.tensor([1.0, math.nan, -math.inf])),
    "add": (lambda x, y: torch.add(x, y, alpha=2), M, P), "add of integers and floats": (torch.add, I, M),
    "add of a number": (lambda x: x + 1.5, I), "add of booleans": (torch.add, B, B.flip(0)),
    "sub": (lambda x, y: torch.sub(x, y, alpha=3), M, P), "rsub": (lambda x: 2 - x, M),
    "mul": (torch.mul, M, P), "mul of booleans": (torch.mul, B, B.flip(1)), "div": (torch.div, M, P),
    "div of integers": (torch.div, I, I.abs() + 1),
    "div, floor": (lambda x, y: torch.div(x, y, rounding_mode="floor"), M, P),
    "div, trunc": (lambda x, y: torch.div(x, y, rounding_mode="trunc"), 5 * M, P),
    "div of integers, floor": (lambda x, y: torch.div(x, y, rounding_mode="floor"), I, I.abs() + 1),
    "floor_divide": (lambda x: x // 2, I), "remainder": (torch.remainder, M, P),
    "remainder of integers": (lambda x: x % 3, I), "fmod": (torch.fmod, M, P),
    "pow": (torch.pow, P, M), "pow 2": (lambda x: x ** 2, M), "pow 0.5": (lambda x: x ** 0.5, P),
    "pow -0.5": (lambda x: x ** -0.5, P), "pow 3": (lambda x: x ** 3, M),
    "maximum": (torch.maximum, M, P), "minimum": (torch.minimum, M, P),
    "lerp": (torch.lerp, M, P, floats(3, 5, seed=3)),
    "addcmul": (lambda x, y: torch.addcmul(x, x, y, value=0.5), M, P),
    "clamp": (lambda x: x.clamp(-0.5, 0.5), M), "clamp, only max": (lambda x: x.clamp(max=0.5), M),
    "clamp of integers": (lambda x: x.clamp(0, 1), I), "clamp to a scalar": (lambda x, y: x.clamp(max=y[0, 0]), M, P),
    "clamp to tensors": (lambda x, y: x.clamp(min=-y, max=y), M, P), "clamp_min": (lambda x: x.clamp_min(0.1), M),
    "eq": (lambda x: x == 1, I), "ne": (lambda x, y: x != y, I, I.flip(0)), "lt": (torch.lt, M, P),
    "le": (lambda x: x <= 0.5, M), "gt": (lambda x: x > 0.5, I), "ge": (torch.ge, M, P),
    "logical_and": (torch.logical_and, I, B), "logical_or": (torch.logical_or, B, I),
    "logical_xor": (torch.logical_xor, B, B.flip(0)), "bitwise_and": (torch.bitwise_and, I, I.flip(0)),
    "bitwise_or": (torch.bitwise_or, B, B.flip(0)), "bitwise_xor": (torch.bitwise_xor, I, I.flip(1)),
    "where": (torch.where, B, M, P), "where with a number": (lambda c, x: torch.where(c, x, 0.0), B, M),
    "masked_fill": (lambda x, m: x.masked_fill(m, -1.0), M, B),
    "nan_to_num": (torch.nan_to_num, torch.tensor([1.0, math.nan, math.inf, -math.inf])),
    "to i64": (lambda x: x.to(torch.int64), 3 * M), "to f32": (lambda x: x.float(), I),
    "to bool": (lambda x: x.bool(), I),
    "full_like": (lambda x: torch.full_like(x, 3) + x, M), "zeros_like": (lambda x: torch.zeros_like(x) - x, M),
    "new_ones": (lambda x: x.new_ones(5) + x, M), "dropout in eval": (lambda x: F.dropout(x, training=False) + 1, M),
    # activation
    "relu": (F.relu, M), "relu6": (F.relu6, 4 * M), "gelu": (F.gelu, M),
    "gelu, tanh": (lambda x: F.gelu(x, approximate="tanh"), M), "silu": (F.silu, M), "hardswish": (F.hardswish, 3 * M),
    "hardsigmoid": (F.hardsigmoid, 3 * M), "hardtanh": (F.hardtanh, 2 * M),
    "leaky_relu": (lambda x: F.leaky_relu(x, 0.2), M), "elu": (lambda x: F.elu(x, 0.7), M), "celu": (F.celu, M),
    "selu": (F.selu, M), "mish": (F.mish, M), "softplus": (F.softplus, M),
    "softplus, beta": (lambda x: F.softplus(x, 2), M),
    "logsigmoid": (F.logsigmoid, M), "prelu": (F.prelu, X, P[0, :4]), "glu": (lambda x: F.glu(x, 1), X),
    "threshold": (lambda x: F.threshold(x, 0.1, 20.0), M), "softmax": (lambda x: x.softmax(-1), M),
    "softmax, axis 1": (lambda x: x.softmax(1), X), "log_softmax": (lambda x: x.log_softmax(-1), M),
    # shape
    "view": (lambda x: x.view(2, -1) + 1, X), "permute": (lambda x: x.permute(0, 2, 3, 1) * 2, X),
    "transpose": (lambda x: x.transpose(1, -1) * 2, X), "t": (lambda x: x.t() * 2, M),
    "squeeze": (lambda x: x[:, :1].squeeze(1) * 2, X), "unsqueeze": (lambda x: x.unsqueeze(1) * 2, M),
    "expand": (lambda x: x[:, None].expand(3, 2, 5) * 2, M), "cat": (lambda x, y: torch.cat([x, y], 1), M, P),
    "stack": (lambda x, y: torch.stack([x, y], -1), M, P), "split": (lambda x: torch.split(x * 2, 2, 1), M),
    "split into sizes": (lambda x: torch.split(x * 2, [1, 4], 1), M), "chunk": (lambda x: (x * 2).chunk(3, 2), X),
    "unbind": (lambda x: (x * 2).unbind(1), M), "select": (lambda x: x[:, -1] * 2, X),
    "slice": (lambda x: x[:, 1:-1, ::2] * 2, X), "narrow": (lambda x: x.narrow(1, 1, 3) * 2, M),
    "repeat": (lambda x: x.repeat(2, 1, 3), M), "repeat_interleave": (lambda x: x.repeat_interleave(3, 1), M),
    "roll": (lambda x: x.roll((1, -2), (2, 3)), X), "roll of all": (lambda x: x.roll(3), M),
    "flip": (lambda x: x.flip(0, 1), M), "pad": (lambda x: F.pad(x, (1, 2, 0, 3), value=0.5), X),
    "pad, reflect": (lambda x: F.pad(x, (1, 2, 2, 1), mode="reflect"), X),
    "pad, replicate": (lambda x: F.pad(x, (1, 2, 2, 1), mode="replicate"), X),
    "pixel_shuffle": (lambda x: F.pixel_shuffle(x, 2), X), "pixel_unshuffle": (lambda x: F.pixel_unshuffle(x, 2), X),
    "channel_shuffle": (lambda x: F.channel_shuffle(x, 2), X), "tril": (torch.tril, M),
    "triu": (lambda x: x.triu(1), M), "slice_scatter": (lambda x, y: x.slice_scatter(y[:, :2], 1, 1, 3), M, P),
    "select_scatter": (lambda x, y: x.select_scatter(y[:, 0], 1, -1), M, P),
    "as_strided": (lambda x: (x * 2).as_strided((2, 3), (1, 4), 1), M),
    # reduction
    "mean": (torch.mean, M), "mean over axes": (lambda x: x.mean((1, 3)), X),
    "mean over an image": (lambda x: x.mean((2, 3), keepdim=True), X), "sum": (lambda x: x.sum(1, keepdim=True), M),
    "sum of booleans": (torch.sum, B), "prod": (lambda x: x.prod(1), M), "amax": (lambda x: x.amax((2, 3)), X),
    "amin": (torch.amin, M), "max over an axis": (lambda x: tuple(x.max(1)), M),
    "min over an axis": (lambda x: tuple(x.min(1, keepdim=True)), M), "argmax": (lambda x: x.argmax(-1), M),
    "argmin": (torch.argmin, M), "any": (lambda x: x.any(1), B), "all": (torch.all, B), "var": (lambda x: x.var(1), M),
    "std": (lambda x: x.std(1, correction=0), M), "var_mean": (lambda x: torch.var_mean(x, (1, 2)), X),
    "norm": (lambda x: x.norm(dim=1), M), "norm of order 1": (lambda x: x.norm(1, dim=1), M),
    "logsumexp": (lambda x: x.logsumexp(1), M), "cumsum": (lambda x: x.cumsum(1), M),
    "cumsum of booleans": (lambda x: x.cumsum(-1), B), "topk": (lambda x: tuple(x.topk(2)), M),
    "sort": (lambda x: tuple(x.sort(-1, descending=True)), M),
    # convolution, pools, normalisation
    "conv2d": (lambda x, w, b: F.conv2d(x, w, b, stride=2, padding=1), X, floats(8, 4, 3, 3), floats(8)),
    "conv2d in groups": (lambda x, w: F.conv2d(x, w, padding=2, dilation=2, groups=2), X, floats(8, 2, 3, 3)),
    "conv2d, same": (lambda x, w: F.conv2d(x, w, padding="same"), X, floats(8, 4, 3, 3)),
    "conv2d without batch": (lambda x, w: F.conv2d(x[0], w), X, floats(8, 4, 3, 3)),
    "conv1d": (lambda x, w: F.conv1d(x, w, padding=1), floats(2, 4, 9), floats(6, 4, 3)),
    "conv3d": (lambda x, w: F.conv3d(x, w, padding=1), floats(1, 2, 4, 5, 6), floats(3, 2, 3, 3, 3)),
    "conv_transpose2d": (lambda x, w: F.conv_transpose2d(x, w, stride=2, padding=1, output_padding=1), X,
                         floats(4, 3, 3, 3)),
    "max_pool2d": (lambda x: F.max_pool2d(x, 3, 2, 1), X),
    "max_pool1d": (lambda x: F.max_pool1d(x, 2), floats(2, 4, 8)),
    "avg_pool2d": (lambda x: F.avg_pool2d(x, 3, 2, 1), X),
    "avg_pool2d without padding": (lambda x: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False), X),
    "avg_pool2d, ceil": (lambda x: F.avg_pool2d(x, 3, 2, ceil_mode=True), X),
    "avg_pool2d, divisor": (lambda x: F.avg_pool2d(x, 2, divisor_override=3), X),
    "adaptive_avg_pool2d": (lambda x: F.adaptive_avg_pool2d(x, 3), X),
    "adaptive_avg_pool2d to 1": (lambda x: F.adaptive_avg_pool2d(x, 1), X),
    "adaptive_max_pool2d": (lambda x: F.adaptive_max_pool2d(x, 2), X),
    "batch_norm": (lambda x, w: F.batch_norm(x, w, w.abs() + 1, w, w), X, floats(4, seed=5)),
    "layer_norm": (lambda x, w: F.layer_norm(x, (5,), w, w), M, floats(5)),
    "layer_norm without weights": (lambda x: F.layer_norm(x, (6, 6)), X),
    "rms_norm": (lambda x, w: F.rms_norm(x, (5,), w), M, floats(5)),
    "group_norm": (lambda x, w: F.group_norm(x, 2, w, w), X, floats(4)),
    "instance_norm": (lambda x: F.instance_norm(x), X),
    "upsample nearest": (lambda x: F.interpolate(x, scale_factor=2), X),
    "upsample nearest to a size": (lambda x: F.interpolate(x, size=(9, 4)), X),
    "upsample bilinear": (lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"), X),
    "upsample bilinear, corners": (lambda x: F.interpolate(x, size=(9, 11), mode="bilinear", align_corners=True), X),
    "upsample bicubic": (lambda x: F.interpolate(x, scale_factor=2, mode="bicubic"), X),
    "grid_sample": (lambda x, g: F.grid_sample(x, g.tanh(), align_corners=False), X, floats(2, 3, 5, 2)),
    # products
    "mm": (torch.mm, M, floats(5, 4)), "bmm": (torch.bmm, floats(2, 3, 4), floats(2, 4, 5)),
    "matmul": (torch.matmul, floats(2, 3, 4, 5), floats(5, 6)),
    "matmul of stacks": (torch.matmul, floats(2, 3, 4, 5), floats(2, 3, 5, 4)), "mv": (torch.mv, M, floats(5)),
    "addmm": (lambda b, x, y: torch.addmm(b, x, y, beta=0.5, alpha=2), floats(3, 4), M, floats(5, 4)),
    "addmv": (lambda b, x, y: torch.addmv(b, x, y, alpha=0.5), floats(3), M, floats(5)),
    "addbmm": (torch.addbmm, floats(3, 5), floats(2, 3, 4), floats(2, 4, 5)),
    "baddbmm": (torch.baddbmm, floats(2, 3, 5), floats(2, 3, 4), floats(2, 4, 5)),
    "linear": (F.linear, M, floats(7, 5), floats(7)),
    "linear of a sequence": (F.linear, floats(2, 3, 5), floats(7, 5), floats(7)),
    "einsum": (lambda x, y: torch.einsum("bhic,bhjc->bhij", x, y), floats(2, 3, 4, 5), floats(2, 3, 6, 5)),
    "attention": (F.scaled_dot_product_attention, floats(2, 3, 4, 8), floats(2, 3, 6, 8, seed=1),
                  floats(2, 3, 6, 8, seed=2)),
    "attention, causal": (lambda q: F.scaled_dot_product_attention(q, q, q, is_causal=True), floats(2, 3, 4, 8)),
    "attention, mask": (lambda q, m: F.scaled_dot_product_attention(q, q, q, attn_mask=m), floats(2, 3, 4, 8),
                        floats(2, 1, 4, 4)),
    "attention, boolean mask": (lambda q, m: F.scaled_dot_product_attention(q, q, q, attn_mask=m), floats(2, 3, 4, 8),
                                torch.ones(4, 4, dtype=torch.bool).tril()),
    "attention, grouped heads": (lambda q, k: F.scaled_dot_product_attention(q, k, k, scale=0.3, enable_gqa=True),
                                 floats(2, 4, 4, 8), floats(2, 2, 4, 8)),
    # indexing
    "embedding": (F.embedding, whole(2, 3), M.repeat(2, 1)),
    "index_select": (lambda x, i: x.index_select(1, i), M, whole(4)),
    "gather": (lambda x, i: x.gather(1, i), M, whole(3, 2)), "index": (lambda x, i: x[:, i], M, whole(2, 2)),
    "index of two axes": (lambda x, i, j: x[:, i, j], X, whole(3, top=4), whole(3, top=6, seed=1)),
    "index of axes apart": (lambda x, i, j: x[i, :, j], X, whole(3, top=2), whole(3, top=6, seed=1)),
    "index, broadcast": (lambda x, i, j: x[i[:, None], j], M, whole(3, top=3), whole(4, top=5)),
    "index_put": (lambda x, i, v: x.index_put((i,), v), M, torch.tensor([0, 2]), floats(2, 5, seed=4)),
    "scatter": (lambda x, i: x.scatter(1, i, 1.5), M, torch.tensor([[0], [3], [1]])),
    "scatter_add": (lambda x, i, v: x.scatter_add(1, i, v), M, whole(3, 2), floats(3, 2, seed=6)),
    "one_hot": (lambda i: F.one_hot(i, 6), whole(3)),
}


def assert_close(got, wanted, tolerance=1e-4):
    """Compares results: exact for integers and booleans, relative to the largest value for floats."""
    if isinstance(wanted, (tuple, list)):
        assert len(got) == len(wanted)
        for g, w in zip(got, wanted):
            assert_close(g, w, tolerance)
        return
    assert got.dtype == wanted.dtype and got.shape == wanted.shape
    if wanted.dtype.is_floating_point:
        largest = float(wanted[wanted.isfinite()].abs().max())
        torch.testing.assert_close(got, wanted, rtol=0, atol=tolerance * max(1e-3, largest))
    else:
        assert torch.equal(got, wanted)


@pytest.mark.parametrize("name", CASES)
def test_operator(name):
    function, *inputs = CASES[name]
    torch._dynamo.reset()
    compiled = torch.compile(function, backend=kilter.torch.backend, fullgraph=True, options={"fallback": False})
    with torch.no_grad():
        assert_close(compiled(*inputs), function(*inputs))
