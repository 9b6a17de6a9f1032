"""Converters of activation functions except those that have the same meaning in ONNX, which elementwise.py lists."""
from __future__ import annotations

from typing import Any

import torch

from .._conversion import Conversion, Refusal, converts, shape_of
from .elementwise import clamp


@converts("relu6.default")
def relu6(c: Conversion, x: Any) -> Any:
    return clamp(c, x, 0, 6)


@converts("gelu.default")
def gelu(c: Conversion, x: Any, approximate: str = "none") -> Any:
    return c.op("Gelu", x, approximate=approximate)


@converts("silu.default")
def silu(c: Conversion, x: Any) -> Any:
    return c.op("Mul", x, c.op("Sigmoid", x))


@converts("hardsigmoid.default")
def hardsigmoid(c: Conversion, x: Any) -> Any:
    return c.op("HardSigmoid", x, alpha=1 / 6, beta=0.5)


@converts("leaky_relu.default")
def leaky_relu(c: Conversion, x: Any, negative_slope: float = 0.01) -> Any:
    return c.op("LeakyRelu", x, alpha=float(negative_slope))


@converts("elu.default")
def elu(c: Conversion, x: Any, alpha: float = 1, scale: float = 1, input_scale: float = 1) -> Any:
    if input_scale != 1:
        raise Refusal(f"input_scale {input_scale}; only 1 is converted")
    y = c.op("Elu", x, alpha=float(alpha))
    return y if scale == 1 else c.op("Mul", y, c.typed(float(scale), c.dtype))


@converts("celu.default")
def celu(c: Conversion, x: Any, alpha: float = 1) -> Any:
    return c.op("Celu", x, alpha=float(alpha))


@converts("softplus.default")
def softplus(c: Conversion, x: Any, beta: float = 1, threshold: float = 20) -> Any:
    if beta == 1:
        return c.op("Softplus", x)
    return c.op("Mul", c.op("Softplus", c.op("Mul", x, c.typed(beta, c.dtype))), c.typed(1 / beta, c.dtype))


@converts("log_sigmoid_forward.default")
def log_sigmoid_forward(c: Conversion, x: Any) -> Any:
    return c.op("Neg", c.op("Softplus", c.op("Neg", x))), None


@converts("log_sigmoid.default")
def log_sigmoid(c: Conversion, x: Any) -> Any:
    return log_sigmoid_forward(c, x)[0]


@converts("prelu.default", "_prelu_kernel.default")
def prelu(c: Conversion, x: Any, weight: Any) -> Any:
    if len(shape_of(weight)) == 1 and len(shape_of(x)) > 1:
        weight = c.reshape(weight, [-1 if isinstance(weight, torch.Tensor) else shape_of(weight)[0]]
                           + [1] * (len(shape_of(x)) - 2))
    return c.op("PRelu", x, weight)


@converts("glu.default")
def glu(c: Conversion, x: Any, dim: int = -1) -> Any:
    axis = dim % len(shape_of(x))
    half = shape_of(x)[axis] // 2
    gate = c.op("Sigmoid", c.slice(x, axis, half, 2 * half))
    return c.op("Mul", c.slice(x, axis, 0, half), gate)


@converts("threshold.default")
def threshold(c: Conversion, x: Any, threshold: float, value: float) -> Any:
    above = c.op("Greater", x, c.typed(threshold, c.dtype))
    return c.op("Where", above, x, c.typed(value, c.dtype))


@converts("_softmax.default", "softmax.int", "_safe_softmax.default")
def softmax(c: Conversion, x: Any, dim: int, *_: Any, **options: Any) -> Any:
    y = c.op("Softmax", c.typed(x, c.dtype), axis=dim)
    if not str(c.node.target).startswith("aten._safe_softmax"):
        return y
    return c.op("Where", c.op("IsNaN", y), c.typed(0.0, c.dtype), y)  # rows of -inf


@converts("_log_softmax.default", "log_softmax.int")
def log_softmax(c: Conversion, x: Any, dim: int, *_: Any, **options: Any) -> Any:
    return c.op("LogSoftmax", c.typed(x, c.dtype), axis=dim)
