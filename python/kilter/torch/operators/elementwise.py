"""Converters of arithmetic, comparisons, logic and conversions of element types."""
from __future__ import annotations

import math
from typing import Any

import torch

from .._conversion import Conversion, Refusal, converts, shape_of, torch_dtype

#: operators that have the same meaning in ONNX; integers are converted to the result's type first
_SAME = {
    "abs": "Abs", "acos": "Acos", "acosh": "Acosh", "asin": "Asin", "asinh": "Asinh", "atan": "Atan", "atanh": "Atanh",
    "bitwise_not": "BitwiseNot", "ceil": "Ceil", "cos": "Cos", "cosh": "Cosh", "erf": "Erf", "exp": "Exp",
    "floor": "Floor", "hardswish": "HardSwish", "log": "Log", "mish": "Mish", "neg": "Neg",
    "reciprocal": "Reciprocal", "relu": "Relu", "round": "Round", "selu": "Selu", "sigmoid": "Sigmoid", "sign": "Sign",
    "sin": "Sin", "sinh": "Sinh", "sqrt": "Sqrt", "tan": "Tan", "tanh": "Tanh",
}
_BINARY = {"bitwise_and": "BitwiseAnd", "bitwise_or": "BitwiseOr", "bitwise_xor": "BitwiseXor"}
_LOGICAL = {"logical_and": "And", "logical_or": "Or", "logical_xor": "Xor"}
_ON_BOOLEANS = {"BitwiseAnd": "And", "BitwiseOr": "Or", "BitwiseXor": "Xor", "BitwiseNot": "Not"}
_COMPARISONS = {"eq": "Equal", "lt": "Less", "le": "LessOrEqual", "gt": "Greater", "ge": "GreaterOrEqual"}


def _register_same(name: str, op: str) -> None:
    @converts(f"{name}.default")
    def unary(c: Conversion, x: Any) -> Any:
        kind = _ON_BOOLEANS.get(op, op) if c.dtype == torch.bool else op
        if kind in ("Ceil", "Floor", "Round") and not c.dtype.is_floating_point:
            return x
        return c.op(kind, c.typed(x, c.dtype))


def _register_binary(name: str, op: str) -> None:
    @converts(name)
    def binary(c: Conversion, x: Any, y: Any) -> Any:
        kind = _ON_BOOLEANS[op] if c.dtype == torch.bool else op
        return c.op(kind, c.typed(x, c.dtype), c.typed(y, c.dtype))


def _register_logical(name: str, op: str) -> None:
    @converts(f"{name}.default")
    def logical(c: Conversion, x: Any, y: Any) -> Any:
        return c.op(op, as_bool(c, x), as_bool(c, y))


def _register_comparison(name: str, op: str) -> None:
    @converts(name)
    def comparison(c: Conversion, x: Any, y: Any) -> Any:
        return c.op(op, *_alike(c, x, y))


for _name, _op in _SAME.items():
    _register_same(_name, _op)
for _name, _op in _BINARY.items():
    _register_binary(_name, _op)
for _name, _op in _LOGICAL.items():
    _register_logical(_name, _op)
for _name, _op in _COMPARISONS.items():
    _register_comparison(_name, _op)


def as_bool(c: Conversion, x: Any) -> Any:
    """Returns whether elements are not 0."""
    return c.typed(x, torch.bool)


def _alike(c: Conversion, x: Any, y: Any) -> tuple[Any, Any]:
    """Returns two operands in the element type in which PyTorch compares them."""
    samples = [v if isinstance(v, (bool, int, float)) else torch.empty(shape_of(v), dtype=torch_dtype(v), device="meta")
               for v in (x, y)]
    common = torch.result_type(*samples)
    return c.typed(x, common), c.typed(y, common)


@converts("ne")
def ne(c: Conversion, x: Any, y: Any) -> Any:
    return c.op("Not", c.op("Equal", *_alike(c, x, y)))


@converts("logical_not.default")
def logical_not(c: Conversion, x: Any) -> Any:
    return c.op("Not", as_bool(c, x))


@converts("isnan.default")
def isnan(c: Conversion, x: Any) -> Any:
    return c.op("IsNaN", x)


@converts("isinf.default")
def isinf(c: Conversion, x: Any) -> Any:
    return c.op("IsInf", x)


# --- arithmetic ---


def _scaled(c: Conversion, x: Any, factor: float) -> Any:
    """Returns x, of the result's type, times a number."""
    x = c.typed(x, c.dtype)
    return x if factor == 1 else c.op("Mul", x, c.typed(factor, c.dtype))


@converts("add")
def add(c: Conversion, x: Any, y: Any, alpha: float = 1) -> Any:
    if c.dtype == torch.bool:
        return c.op("Or", as_bool(c, x), as_bool(c, y))
    return c.op("Add", c.typed(x, c.dtype), _scaled(c, y, alpha))


@converts("sub")
def sub(c: Conversion, x: Any, y: Any, alpha: float = 1) -> Any:
    return c.op("Sub", c.typed(x, c.dtype), _scaled(c, y, alpha))


@converts("rsub")
def rsub(c: Conversion, x: Any, y: Any, alpha: float = 1) -> Any:
    return c.op("Sub", c.typed(y, c.dtype), _scaled(c, x, alpha))


@converts("mul")
def mul(c: Conversion, x: Any, y: Any) -> Any:
    if c.dtype == torch.bool:
        return c.op("And", as_bool(c, x), as_bool(c, y))
    return c.op("Mul", c.typed(x, c.dtype), c.typed(y, c.dtype))


@converts("div")
def div(c: Conversion, x: Any, y: Any, rounding_mode: str | None = None) -> Any:
    quotient = c.op("Div", c.typed(x, c.dtype), c.typed(y, c.dtype))
    if rounding_mode is None or (rounding_mode == "trunc" and not c.dtype.is_floating_point):
        return quotient
    if not c.dtype.is_floating_point:
        return _floor_of_integers(c, x, y)
    if rounding_mode == "floor":
        return c.op("Floor", quotient)
    return c.op("Mul", c.op("Sign", quotient), c.op("Floor", c.op("Abs", quotient)))


@converts("floor_divide")
def floor_divide(c: Conversion, x: Any, y: Any) -> Any:
    return div(c, x, y, rounding_mode="floor")


def _floor_of_integers(c: Conversion, x: Any, y: Any) -> Any:
    x, y = c.typed(x, c.dtype), c.typed(y, c.dtype)
    return c.op("Div", c.op("Sub", x, c.op("Mod", x, y)), y)


@converts("remainder")
def remainder(c: Conversion, x: Any, y: Any) -> Any:
    x, y = c.typed(x, c.dtype), c.typed(y, c.dtype)
    if not c.dtype.is_floating_point:
        return c.op("Mod", x, y)
    return c.op("Sub", x, c.op("Mul", c.op("Floor", c.op("Div", x, y)), y))


@converts("fmod")
def fmod(c: Conversion, x: Any, y: Any) -> Any:
    return c.op("Mod", c.typed(x, c.dtype), c.typed(y, c.dtype), fmod=1)


@converts("pow")
def power(c: Conversion, x: Any, y: Any) -> Any:
    x = c.typed(x, c.dtype)
    if isinstance(y, (int, float)):
        if y == 2:
            return c.op("Mul", x, x)
        if y == 0.5:
            return c.op("Sqrt", x)
        if y == -0.5:
            return c.op("Reciprocal", c.op("Sqrt", x))
    return c.op("Pow", x, c.typed(y, c.dtype))


@converts("square.default")
def square(c: Conversion, x: Any) -> Any:
    return c.op("Mul", x, x)


@converts("rsqrt.default")
def rsqrt(c: Conversion, x: Any) -> Any:
    return c.op("Reciprocal", c.op("Sqrt", c.typed(x, c.dtype)))


@converts("exp2.default")
def exp2(c: Conversion, x: Any) -> Any:
    return c.op("Exp", _scaled(c, x, math.log(2)))


@converts("expm1.default")
def expm1(c: Conversion, x: Any) -> Any:
    # exp(x) - 1 = 2 sinh(x / 2) exp(x / 2), which stays accurate near 0
    half = _scaled(c, x, 0.5)
    return _scaled(c, c.op("Mul", c.op("Sinh", half), c.op("Exp", half)), 2)


@converts("log2.default")
def log2(c: Conversion, x: Any) -> Any:
    return _scaled(c, c.op("Log", c.typed(x, c.dtype)), 1 / math.log(2))


@converts("log10.default")
def log10(c: Conversion, x: Any) -> Any:
    return _scaled(c, c.op("Log", c.typed(x, c.dtype)), 1 / math.log(10))


@converts("log1p.default")
def log1p(c: Conversion, x: Any) -> Any:
    # log(1 + x) = 2 atanh(x / (2 + x)), which stays accurate near 0
    x = c.typed(x, c.dtype)
    near = _scaled(c, c.op("Atanh", c.op("Div", x, c.op("Add", x, c.typed(2, c.dtype)))), 2)
    far = c.op("Log", c.op("Add", x, c.typed(1, c.dtype)))
    return c.op("Where", c.op("Less", c.op("Abs", x), c.typed(0.5, c.dtype)), near, far)


@converts("trunc.default")
def trunc(c: Conversion, x: Any) -> Any:
    if not c.dtype.is_floating_point:
        return x
    return c.op("Mul", c.op("Sign", x), c.op("Floor", c.op("Abs", x)))


@converts("maximum.default", "max.other")
def maximum(c: Conversion, x: Any, y: Any) -> Any:
    return c.op("Max", c.typed(x, c.dtype), c.typed(y, c.dtype))


@converts("minimum.default", "min.other")
def minimum(c: Conversion, x: Any, y: Any) -> Any:
    return c.op("Min", c.typed(x, c.dtype), c.typed(y, c.dtype))


@converts("clamp", "hardtanh")
def clamp(c: Conversion, x: Any, min: Any = None, max: Any = None) -> Any:
    if str(c.node.target).startswith("aten.hardtanh"):
        min, max = -1.0 if min is None else min, 1.0 if max is None else max
    x, low, high = (None if v is None else c.typed(v, c.dtype) for v in (x, min, max))
    if any(shape_of(bound) for bound in (low, high)):
        x = x if low is None else c.op("Max", x, low)
        return x if high is None else c.op("Min", x, high)
    return c.op("Clip", x, low) if high is None else c.op("Clip", x, low, high)


@converts("clamp_min")
def clamp_min(c: Conversion, x: Any, min: Any) -> Any:
    return clamp(c, x, min=min)


@converts("clamp_max")
def clamp_max(c: Conversion, x: Any, max: Any) -> Any:
    return clamp(c, x, max=max)


@converts("lerp")
def lerp(c: Conversion, x: Any, end: Any, weight: Any) -> Any:
    return c.op("Add", x, c.op("Mul", c.op("Sub", end, x), c.typed(weight, c.dtype)))


@converts("addcmul.default")
def addcmul(c: Conversion, x: Any, a: Any, b: Any, value: float = 1) -> Any:
    return c.op("Add", x, _scaled(c, c.op("Mul", a, b), value))


# --- selection ---


@converts("where.self", "where.ScalarSelf", "where.ScalarOther")
def where(c: Conversion, condition: Any, x: Any, y: Any) -> Any:
    return c.op("Where", as_bool(c, condition), c.typed(x, c.dtype), c.typed(y, c.dtype))


@converts("masked_fill")
def masked_fill(c: Conversion, x: Any, mask: Any, value: Any) -> Any:
    return c.op("Where", as_bool(c, mask), c.typed(value, c.dtype), x)


@converts("nan_to_num.default")
def nan_to_num(c: Conversion, x: Any, nan: float | None = None, posinf: float | None = None,
               neginf: float | None = None) -> Any:
    limits = torch.finfo(c.dtype)
    above, below = (limits.max if posinf is None else posinf), (limits.min if neginf is None else neginf)
    if above != limits.max or below != limits.min:
        raise Refusal("posinf and neginf; only their defaults are converted")
    return clamp(c, c.op("Where", c.op("IsNaN", x), c.typed(nan or 0.0, c.dtype), x), below, above)


# --- copies and element types ---


@converts("_to_copy.default", "to.dtype", "to.device", "to.dtype_layout", "type_as.default", "copy.default", "copy")
def to(c: Conversion, x: Any, *others: Any, **options: Any) -> Any:
    source = others[0] if str(c.node.target).startswith("aten.copy.") else x
    if _narrows(source, c.dtype):
        raise Refusal("conversion from floats to integers or booleans of fewer bits, where out-of-range values differ")
    return c.expand(c.typed(source, c.dtype), c.shape)


def _narrows(x: Any, dtype: torch.dtype) -> bool:
    return torch_dtype(x).is_floating_point and dtype in (torch.int8, torch.int16, torch.uint8)


@converts("clone.default", "alias.default", "detach.default", "contiguous.default", "lift_fresh_copy.default",
          "lift_fresh.default")
def same(c: Conversion, x: Any, *_: Any, **options: Any) -> Any:
    return x


@converts("dropout.default", "feature_dropout.default", "alpha_dropout.default")
def dropout(c: Conversion, x: Any, p: float, train: bool) -> Any:
    if train:
        raise Refusal("dropout in training; call eval() on the model")
    return x


@converts("native_dropout.default")
def native_dropout(c: Conversion, x: Any, p: float, train: bool | None) -> Any:
    if train is None or train:
        raise Refusal("dropout in training; call eval() on the model")
    return x, torch.ones(shape_of(x), dtype=torch.bool)


# --- tensors of one number, of the shape of another ---


def _filled(c: Conversion, number: Any) -> torch.Tensor:
    return torch.tensor(number, dtype=c.dtype).expand(c.shape)


@converts("zeros_like.default", "new_zeros.default", "zero.default", "empty_like.default", "new_empty.default")
def zeros_like(c: Conversion, *_: Any, **options: Any) -> Any:
    return _filled(c, 0)


@converts("ones_like.default", "new_ones.default")
def ones_like(c: Conversion, *_: Any, **options: Any) -> Any:
    return _filled(c, 1)


@converts("full_like.default", "fill.Scalar")
def full_like(c: Conversion, x: Any, value: Any, **options: Any) -> Any:
    return _filled(c, value)


@converts("new_full.default")
def new_full(c: Conversion, x: Any, size: Any, value: Any, **options: Any) -> Any:
    return _filled(c, value)
