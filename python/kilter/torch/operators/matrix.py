"""Converters of products of matrices, linear layers and attention."""
from __future__ import annotations

import math
from typing import Any, Sequence

import torch
from torch import fx

from .._conversion import Conversion, Refusal, converts, shape_of

_VIEWS = ("aten.view.default", "aten.reshape.default", "aten._unsafe_view.default")


def _before_view(c: Conversion, argument: Any, kept: int) -> Any:
    """Returns the tensor that PyTorch flattened to multiply it: x for view(x) that merges all dimensions but the last
    `kept` of x. Products of x are fused with what follows, since no change of shape lies between. Returns None if
    there is no such tensor."""
    if not isinstance(argument, fx.Node) or str(argument.target) not in _VIEWS:
        return None
    source, flat = c.values[argument.args[0]], c.values[argument]
    shape = shape_of(source)
    if len(shape) <= kept + 1 or shape[-kept:] != shape_of(flat)[-kept:] or len(shape_of(flat)) != kept + 1:
        return None
    return source


def linear_of(c: Conversion, x: Any, weight: Any, bias: Any = None) -> Any:
    """Returns x [..., k] times weight [k, n], plus bias [n] or a matrix."""
    if len(shape_of(x)) == 2 and bias is not None and len(shape_of(bias)) == 1 and isinstance(weight, torch.Tensor):
        if weight.t().is_contiguous():
            return c.op("Gemm", x, weight.t(), bias, transB=1)
        return c.op("Gemm", x, weight, bias)
    y = c.op("MatMul", x, weight)
    return y if bias is None else c.op("Add", y, bias)


@converts("linear.default")
def linear(c: Conversion, x: Any, weight: Any, bias: Any = None) -> Any:
    return linear_of(c, x, c.transpose(weight, [1, 0]), bias)


@converts("mm.default")
def mm(c: Conversion, x: Any, y: Any) -> Any:
    source = _before_view(c, c.node.args[0], 1)
    return linear_of(c, x, y) if source is None else c.reshape(linear_of(c, source, y), c.shape)


@converts("addmm.default")
def addmm(c: Conversion, bias: Any, x: Any, y: Any, beta: float = 1, alpha: float = 1) -> Any:
    if beta == 1 and alpha == 1:
        source = _before_view(c, c.node.args[1], 1) if len(shape_of(bias)) == 1 else None
        return linear_of(c, x, y, bias) if source is None else c.reshape(linear_of(c, source, y, bias), c.shape)
    return _plus(c, c.op("MatMul", x, y), alpha, bias, beta)


@converts("bmm.default")
def bmm(c: Conversion, x: Any, y: Any) -> Any:
    a, b = (_before_view(c, argument, 2) for argument in c.node.args[:2])
    if a is None or b is None or shape_of(a)[:-2] != shape_of(b)[:-2]:
        return c.op("MatMul", x, y)
    return c.reshape(c.op("MatMul", a, b), c.shape)


@converts("baddbmm.default")
def baddbmm(c: Conversion, bias: Any, x: Any, y: Any, beta: float = 1, alpha: float = 1) -> Any:
    return _plus(c, c.op("MatMul", x, y), alpha, bias, beta)


@converts("addbmm.default")
def addbmm(c: Conversion, bias: Any, x: Any, y: Any, beta: float = 1, alpha: float = 1) -> Any:
    return _plus(c, c.op("ReduceSum", c.op("MatMul", x, y), c.list([0]), keepdims=0), alpha, bias, beta)


@converts("addmv.default")
def addmv(c: Conversion, bias: Any, x: Any, y: Any, beta: float = 1, alpha: float = 1) -> Any:
    return _plus(c, c.op("MatMul", x, y), alpha, bias, beta)


@converts("matmul.default", "dot.default", "mv.default")
def matmul(c: Conversion, x: Any, y: Any) -> Any:
    return c.op("MatMul", x, y)


@converts("einsum.default")
def einsum(c: Conversion, equation: str, tensors: Sequence[Any], path: Any = None) -> Any:
    return c.op("Einsum", *tensors, equation=equation)


def _plus(c: Conversion, product: Any, alpha: float, bias: Any, beta: float) -> Any:
    """Returns alpha * product + beta * bias."""
    product = _times(c, product, alpha)
    return product if beta == 0 else c.op("Add", product, _times(c, bias, beta))


def _times(c: Conversion, x: Any, factor: float) -> Any:
    return x if factor == 1 else c.op("Mul", x, c.typed(factor, c.dtype))


# --- attention ---


def _mask_of(c: Conversion, mask: Any, causal: bool, rows: int, columns: int, dtype: torch.dtype) -> Any:
    """Returns what is added to the scores, or None."""
    if causal:
        future = torch.ones(rows, columns, dtype=torch.bool).tril().logical_not()
        return torch.zeros(rows, columns, dtype=dtype).masked_fill(future, -math.inf)
    if mask is None or (isinstance(mask, torch.Tensor) and mask.dtype == torch.bool and bool(mask.all())):
        return None
    if isinstance(mask, torch.Tensor):
        return mask.to(dtype) if mask.dtype != torch.bool else torch.zeros(mask.shape, dtype=dtype).masked_fill(
            ~mask, -math.inf)
    if mask.dtype != "bool":
        return mask
    return c.op("Where", mask, c.typed(0.0, dtype), c.typed(-math.inf, dtype))


def attention(c: Conversion, q: Any, k: Any, v: Any, mask: Any, causal: bool, scale: float | None,
              dtype: torch.dtype) -> Any:
    """Returns softmax(scale * q k' + mask) v for q, k, v [..., heads, positions, size]."""
    rank = len(shape_of(q))
    keys = c.transpose(k, [*range(rank - 2), rank - 1, rank - 2])
    factor = 1 / math.sqrt(shape_of(q)[-1]) if scale is None else scale
    scores = c.op("Mul", c.op("MatMul", q, keys), c.typed(float(factor), dtype))
    added = _mask_of(c, mask, causal, shape_of(q)[-2], shape_of(k)[-2], dtype)
    if added is not None:
        scores = c.op("Add", scores, added)
    return c.op("MatMul", c.op("Softmax", scores, axis=-1), v)


def _repeated_heads(c: Conversion, x: Any, heads: int) -> Any:
    """Returns keys or values whose heads serve several queries each, once for each query."""
    *batch, few, positions, size = shape_of(x)
    if few == heads:
        return x
    apart = c.reshape(x, [*batch, few, 1, positions, size])
    return c.reshape(c.expand(apart, [*batch, few, heads // few, positions, size]), [*batch, heads, positions, size])


@converts("scaled_dot_product_attention.default")
def scaled_dot_product_attention(c: Conversion, q: Any, k: Any, v: Any, attn_mask: Any = None, dropout_p: float = 0,
                                 is_causal: bool = False, scale: float | None = None, enable_gqa: bool = False) -> Any:
    if dropout_p:
        raise Refusal("attention with dropout; call eval() on the model")
    if enable_gqa:
        k, v = (_repeated_heads(c, x, shape_of(q)[-3]) for x in (k, v))
    return attention(c, q, k, v, attn_mask, is_causal, scale, c.dtype)


@converts("_scaled_dot_product_flash_attention_for_cpu.default")
def flash_attention_for_cpu(c: Conversion, q: Any, k: Any, v: Any, dropout_p: float = 0, is_causal: bool = False,
                            attn_mask: Any = None, scale: float | None = None) -> Any:
    if dropout_p:
        raise Refusal("attention with dropout; call eval() on the model")
    k, v = (_repeated_heads(c, x, shape_of(q)[-3]) for x in (k, v))
    return attention(c, q, k, v, attn_mask, is_causal, scale, c.result[0].dtype), None
