"""Worker: JAX/XLA on the graph that torch_peers.py exported (a file of plain data, see gpu_networks.described).

usage: jax_peer.py NETWORK FOLDER --lock FILE [--precisions fp32 tf32 fp16] [--deadline 120]      (peers.py starts it)

Every aten operator is implemented with jax.numpy and lax in torch's NCHW form; XLA chooses layouts and fuses. The whole
network is one jit. Weights are arguments that stay on the device, so nothing is folded. Normalisations and softmax in fp16
compute in fp32, as torch does.
"""
import argparse
import os
import pathlib
import pickle
import time

import worker

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
PRECISIONS = {"fp32": "highest", "tf32": "tensorfloat32", "fp16": "default"}


def pair(value):
    return list(value) * (2 // len(value)) if isinstance(value, (list, tuple)) else [value, value]


def operators(jax):
    """Returns the aten operators of the networks, by name."""
    import numpy as np
    jnp, lax, nn = jax.numpy, jax.lax, jax.nn
    f32 = jnp.float32

    def conv2d(x, w, bias=None, stride=1, padding=0, dilation=1, groups=1):
        y = lax.conv_general_dilated(x, w, pair(stride), [(p, p) for p in pair(padding)], rhs_dilation=pair(dilation), feature_group_count=groups)
        return y if bias is None else y + bias[:, None, None]

    def conv_transpose2d(x, w, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1):
        """With as many groups as channels: a convolution of the input spread by the stride, with the window rotated."""
        assert w.shape[1] == 1 and groups == w.shape[0] and pair(dilation) == [1, 1]
        pads = [(k - 1 - p, k - 1 - p + o) for k, p, o in zip(w.shape[2:], pair(padding), pair(output_padding))]
        y = lax.conv_general_dilated(x, w[:, :, ::-1, ::-1], (1, 1), pads, lhs_dilation=pair(stride), feature_group_count=groups)
        return y if bias is None else y + bias[:, None, None]

    def max_pool2d(x, window, stride=(), padding=0, dilation=1, ceil_mode=False):
        assert not ceil_mode and pair(dilation) == [1, 1]
        steps = pair(stride) if stride else pair(window)
        return lax.reduce_window(x, np.array(-np.inf, x.dtype), lax.max, (1, 1, *pair(window)), (1, 1, *steps),
                                 [(0, 0), (0, 0), *((p, p) for p in pair(padding))])

    def adaptive_avg_pool2d(x, size):
        if list(size) == list(x.shape[2:]):
            return x
        assert list(size) == [1, 1]
        return x.mean((2, 3), keepdims=True)

    def layer_norm(x, shape, weight, bias, epsilon=1e-5, *_):
        y = x.astype(f32)
        y = y - y.mean(-1, keepdims=True)
        y = y * lax.rsqrt((y * y).mean(-1, keepdims=True) + epsilon)
        return (y * weight.astype(f32) + bias.astype(f32)).astype(x.dtype)

    def attention(q, k, v, mask=None, dropout=0.0, causal=False, scale=None, **_):
        assert mask is None and not causal
        scores = jnp.einsum("bhqd,bhkd->bhqk", q, k, preferred_element_type=f32) * (scale or q.shape[-1] ** -0.5)
        return jnp.einsum("bhqk,bhkd->bhqd", nn.softmax(scores, -1).astype(q.dtype), v)

    def slice_tensor(x, axis=0, start=0, end=None, step=1):
        return x[(slice(None),) * axis + (slice(start, end, step),)]

    def linear(x, w, bias=None):
        y = x @ w.T
        return y if bias is None else y + bias

    def expand(x, shape):
        return jnp.broadcast_to(x, [have if want == -1 else want for want, have in zip(shape, (1,) * (len(shape) - x.ndim) + x.shape)])

    def gelu(x, approximate="none"):
        return nn.gelu(x.astype(f32), approximate=approximate != "none").astype(x.dtype)

    table = {
        "conv2d": conv2d, "conv_transpose2d": conv_transpose2d, "max_pool2d": max_pool2d, "adaptive_avg_pool2d": adaptive_avg_pool2d,
        "layer_norm": layer_norm, "scaled_dot_product_attention": attention, "slice": slice_tensor, "linear": linear, "expand": expand,
        "gelu": gelu, "relu": nn.relu, "silu": nn.silu, "sigmoid": nn.sigmoid, "add": jnp.add, "mul": jnp.multiply, "ge": jnp.greater_equal,
        "hardtanh": lambda x, low=-1.0, high=1.0: jnp.clip(x, low, high), "dropout": lambda x, *_: x,
        "flatten": lambda x, start, end=-1: x.reshape(*x.shape[:start], -1), "view": lambda x, shape: x.reshape(shape),
        "reshape": lambda x, shape: x.reshape(shape), "transpose": jnp.swapaxes, "unsqueeze": jnp.expand_dims,
        "cat": lambda parts, axis=0: jnp.concatenate(parts, axis), "embedding": lambda table, at, *_: table[at],
        "gather": lambda x, axis, at: jnp.take_along_axis(x, at, axis), "arange": lambda *ends, **_: jnp.arange(*ends),
    }
    return table


def interpreted(jax, graph, precision):
    """Returns a function of (weights, inputs) that runs the graph."""
    table = operators(jax)

    def value_of(item, values):
        if isinstance(item, tuple):
            return values[item[1]]
        if isinstance(item, list):
            return [value_of(x, values) for x in item]
        return item

    def run(weights, *inputs):
        with jax.default_matmul_precision(PRECISIONS[precision]):
            values = {**weights, **dict(zip(graph["inputs"], inputs))}
            for name, operator, args, kwargs in graph["steps"]:
                known = table[operator.split(".")[0].rstrip("_")]
                values[name] = known(*value_of(args, values), **{key: value_of(x, values) for key, x in kwargs.items()})
            return value_of(graph["outputs"], values)
    return run


class Runner:
    """The jitted network with its arguments on the device."""

    def __init__(self, jax, graph, precision):
        import numpy as np
        self.jax = jax
        def put(x):
            return jax.device_put(x.astype(np.float16) if precision == "fp16" and x.dtype == np.float32 else x)
        self.weights = {name: put(value) for name, value in graph["weights"].items()}
        self.inputs = [put(value) for value in graph["values"]]
        self.host = [np.asarray(x) for x in self.inputs]
        self.function = jax.jit(interpreted(jax, graph, precision))

    def run(self):
        return self.function(self.weights, *self.inputs)

    def outputs(self):
        import numpy as np
        return [np.asarray(x) for x in self.run()]


def time_one(runner, request):
    """Returns the milliseconds of runs. "stream": chunks of runs that are not awaited one by one, one sample per chunk; "sync": each run
    is awaited; "end_to_end": including the copies from and to the host's memory."""
    jax, run = runner.jax, runner.run
    def chunk(count):
        start = time.perf_counter()
        for _ in range(count):
            result = run()
        jax.block_until_ready(result)
        return (time.perf_counter() - start) / count * 1e3
    def with_copies():
        start = time.perf_counter()
        jax.device_get(runner.function(runner.weights, *[jax.device_put(x) for x in runner.host]))
        return (time.perf_counter() - start) * 1e3
    each = chunk(3)
    count = max(1, min(50, round(15 / each)))
    sample = {"stream": lambda: chunk(count), "sync": lambda: chunk(1), "end_to_end": with_copies}[request["kind"]]
    sample()
    samples, end = [], time.perf_counter() + request["seconds"]
    while time.perf_counter() < end or len(samples) < 3:
        samples.append(sample())
    return {"samples": samples, "runs_per_sample": count if request["kind"] == "stream" else 1}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("network")
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--lock", required=True)
    parser.add_argument("--precisions", nargs="+", default=list(PRECISIONS))
    parser.add_argument("--deadline", type=float, default=120)
    args = parser.parse_args()
    messages, lock = worker.Messages(), worker.GpuLock(args.lock)
    import jax
    file = args.folder / f"{args.network}.graph"
    while not file.exists():
        time.sleep(0.2)
    graph = pickle.loads(file.read_bytes())
    runners = {}
    for precision in args.precisions:
        def make():
            runner = Runner(jax, graph, precision)
            with lock:  # XLA times kernels while compiling
                return runner, worker.relative_error(runner.outputs(), graph["reference"])
        runner = worker.prepare(messages, lock, args.network, "jax", precision, args.deadline, make)
        if runner:
            runners["jax", precision] = runner
    worker.serve(messages, lock, runners, time_one)


if __name__ == "__main__":
    main()
