"""Converters of reductions, searches along an axis and running sums."""
from __future__ import annotations

import math
from typing import Any

import torch

from .._conversion import Conversion, Refusal, axis_of, converts, shape_of, torch_dtype
from .elementwise import as_bool


def _axes(x: Any, dim: Any) -> list[int]:
    """Returns the axes that `dim` names: one, several, or all of them for None and []."""
    rank = len(shape_of(x))
    if dim is None or (isinstance(dim, (list, tuple)) and not dim):
        return list(range(rank))
    return sorted(axis_of(x, d) for d in ([dim] if isinstance(dim, int) else dim))


def _reduce(c: Conversion, op: str, x: Any, dim: Any, keepdim: bool) -> Any:
    axes = _axes(x, dim)
    return c.op(op, x, c.list(axes), keepdims=int(keepdim)) if axes else x


@converts("mean.default", "mean.dim")
def mean(c: Conversion, x: Any, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Any:
    x = c.typed(x, c.dtype)
    if keepdim and len(shape_of(x)) > 3 and _axes(x, dim) == list(range(2, len(shape_of(x)))):
        return c.op("GlobalAveragePool", x)
    return _reduce(c, "ReduceMean", x, dim, keepdim)


@converts("sum.default", "sum.dim_IntList")
def sum_(c: Conversion, x: Any, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Any:
    return _reduce(c, "ReduceSum", c.typed(x, c.dtype), dim, keepdim)


@converts("prod.default", "prod.dim_int")
def prod(c: Conversion, x: Any, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Any:
    return _reduce(c, "ReduceProd", c.typed(x, c.dtype), dim, keepdim)


@converts("amax.default", "max.default")
def amax(c: Conversion, x: Any, dim: Any = None, keepdim: bool = False) -> Any:
    return _reduce(c, "ReduceMax", x, dim, keepdim)


@converts("amin.default", "min.default")
def amin(c: Conversion, x: Any, dim: Any = None, keepdim: bool = False) -> Any:
    return _reduce(c, "ReduceMin", x, dim, keepdim)


@converts("max.dim")
def max_dim(c: Conversion, x: Any, dim: int, keepdim: bool = False) -> Any:
    return (_reduce(c, "ReduceMax", x, dim, keepdim), c.op("ArgMax", x, axis=dim, keepdims=int(keepdim)))


@converts("min.dim")
def min_dim(c: Conversion, x: Any, dim: int, keepdim: bool = False) -> Any:
    return (_reduce(c, "ReduceMin", x, dim, keepdim), c.op("ArgMin", x, axis=dim, keepdims=int(keepdim)))


def _arg(c: Conversion, op: str, x: Any, dim: int | None, keepdim: bool) -> Any:
    if dim is None:
        if keepdim:
            raise Refusal("keepdim without dim")
        return c.op(op, c.reshape(x, [torch.Size(shape_of(x)).numel()]), axis=0, keepdims=0)
    return c.op(op, x, axis=dim, keepdims=int(keepdim))


@converts("argmax.default")
def argmax(c: Conversion, x: Any, dim: int | None = None, keepdim: bool = False) -> Any:
    return _arg(c, "ArgMax", x, dim, keepdim)


@converts("argmin.default")
def argmin(c: Conversion, x: Any, dim: int | None = None, keepdim: bool = False) -> Any:
    return _arg(c, "ArgMin", x, dim, keepdim)


@converts("any.default", "any.dim", "any.dims")
def any_(c: Conversion, x: Any, dim: Any = None, keepdim: bool = False) -> Any:
    ones = c.typed(as_bool(c, x), torch.int32)
    return c.typed(_reduce(c, "ReduceMax", ones, dim, keepdim), torch.bool)


@converts("all.default", "all.dim", "all.dims")
def all_(c: Conversion, x: Any, dim: Any = None, keepdim: bool = False) -> Any:
    ones = c.typed(as_bool(c, x), torch.int32)
    return c.typed(_reduce(c, "ReduceMin", ones, dim, keepdim), torch.bool)


def _mean_and_variance(c: Conversion, x: Any, dim: Any, correction: float | None, keepdim: bool) -> tuple[Any, Any]:
    axes, shape = _axes(x, dim), shape_of(x)
    count = math.prod(shape[a] for a in axes)
    divisor = count - (1 if correction is None else correction)
    if divisor <= 0:
        raise Refusal(f"variance of {count} elements with correction {correction}")
    centre = _reduce(c, "ReduceMean", x, axes, True)
    apart = c.op("Sub", x, centre)
    variance = _reduce(c, "ReduceMean", c.op("Mul", apart, apart), axes, keepdim)
    if divisor != count:
        variance = c.op("Mul", variance, c.typed(count / divisor, torch_dtype(x)))
    kept = [d for a, d in enumerate(shape) if a not in axes]
    return (centre if keepdim else c.reshape(centre, kept)), variance


def _correction(unbiased: bool | None, correction: float | None) -> float | None:
    return correction if unbiased is None else float(unbiased)


@converts("var.correction")
def var(c: Conversion, x: Any, dim: Any = None, correction: float | None = None, keepdim: bool = False) -> Any:
    return _mean_and_variance(c, x, dim, correction, keepdim)[1]


@converts("var.default", "var.dim")
def var_unbiased(c: Conversion, x: Any, dim: Any = None, unbiased: bool = True, keepdim: bool = False) -> Any:
    if isinstance(dim, bool):
        dim, unbiased = None, dim
    return _mean_and_variance(c, x, dim, float(unbiased), keepdim)[1]


@converts("std.correction")
def std(c: Conversion, x: Any, dim: Any = None, correction: float | None = None, keepdim: bool = False) -> Any:
    return c.op("Sqrt", var(c, x, dim, correction, keepdim))


@converts("var_mean.correction")
def var_mean(c: Conversion, x: Any, dim: Any = None, correction: float | None = None, keepdim: bool = False) -> Any:
    centre, variance = _mean_and_variance(c, x, dim, correction, keepdim)
    return variance, centre


@converts("linalg_vector_norm.default", "norm.ScalarOpt_dim", "norm.Scalar")
def vector_norm(c: Conversion, x: Any, ord: float = 2, dim: Any = None, keepdim: bool = False,
                dtype: Any = None) -> Any:
    x = c.typed(x, c.dtype)
    if ord == 2:
        return _reduce(c, "ReduceL2", x, dim, keepdim)
    if ord == 1:
        return _reduce(c, "ReduceL1", x, dim, keepdim)
    if ord in (math.inf, -math.inf):
        return _reduce(c, "ReduceMax" if ord > 0 else "ReduceMin", c.op("Abs", x), dim, keepdim)
    raise Refusal(f"norm of order {ord}; 1, 2, inf and -inf are converted")


@converts("logsumexp.default")
def logsumexp(c: Conversion, x: Any, dim: Any, keepdim: bool = False) -> Any:
    return _reduce(c, "ReduceLogSumExp", c.typed(x, c.dtype), dim, keepdim)


@converts("cumsum.default")
def cumsum(c: Conversion, x: Any, dim: int, dtype: Any = None) -> Any:
    return c.op("CumSum", c.typed(x, c.dtype), torch.tensor(axis_of(x, dim)))


@converts("cumprod.default")
def cumprod(c: Conversion, x: Any, dim: int, dtype: Any = None) -> Any:
    return c.op("CumProd", c.typed(x, c.dtype), torch.tensor(axis_of(x, dim)))


@converts("topk.default")
def topk(c: Conversion, x: Any, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> Any:
    return c.op("TopK", x, c.list([k]), axis=dim, largest=int(largest), sorted=1, outputs=2)


@converts("sort.default", "sort.stable")
def sort(c: Conversion, x: Any, dim: int = -1, descending: bool = False, stable: bool | None = None) -> Any:
    return topk(c, x, shape_of(x)[dim], dim, largest=descending)
