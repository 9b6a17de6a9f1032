"""Converters of convolutions, pools, normalisations and resampling."""
from __future__ import annotations

import math
import re
from typing import Any, Sequence

import torch

from .._conversion import Conversion, Refusal, converts, shape_of, torch_dtype

# --- convolution ---


def _per_axis(numbers: int | Sequence[int], rank: int) -> list[int]:
    """Returns one number for each spatial axis."""
    listed = [numbers] if isinstance(numbers, int) else list(numbers)
    return listed * rank if len(listed) == 1 else listed


@converts("convolution.default")
def convolution(c: Conversion, x: Any, weight: Any, bias: Any, stride: Sequence[int], padding: Sequence[int],
                dilation: Sequence[int], transposed: bool, output_padding: Sequence[int], groups: int) -> Any:
    rank = len(shape_of(weight)) - 2
    batched = len(shape_of(x)) == rank + 2
    x = x if batched else c.reshape(x, [1, *shape_of(x)])
    pads = _per_axis(padding, rank)
    attrs: dict[str, Any] = dict(strides=_per_axis(stride, rank), pads=pads + pads, dilations=_per_axis(dilation, rank),
                                 group=groups)
    if transposed:
        attrs["output_padding"] = _per_axis(output_padding, rank)
    operands = [x, weight] if bias is None else [x, weight, bias]
    y = c.op("ConvTranspose" if transposed else "Conv", *operands, **attrs)
    return y if batched else c.reshape(y, shape_of(y)[1:])


@converts("conv1d.default", "conv2d.default", "conv3d.default")
def conv(c: Conversion, x: Any, weight: Any, bias: Any = None, stride: Any = (1,), padding: Any = (0,),
         dilation: Any = (1,), groups: int = 1) -> Any:
    return convolution(c, x, weight, bias, stride, padding, dilation, False, (0,), groups)


@converts("conv1d.padding", "conv2d.padding", "conv3d.padding")
def conv_padded(c: Conversion, x: Any, weight: Any, bias: Any = None, stride: Any = (1,), padding: str = "valid",
                dilation: Any = (1,), groups: int = 1) -> Any:
    rank = len(shape_of(weight)) - 2
    if padding == "valid":
        return conv(c, x, weight, bias, stride, (0,), dilation, groups)
    taps = [d * (k - 1) for d, k in zip(_per_axis(dilation, rank), shape_of(weight)[2:])]
    before = [t // 2 for t in taps]
    pads = before + [t - b for t, b in zip(taps, before)]
    operands = [x, weight] if bias is None else [x, weight, bias]
    return c.op("Conv", *operands, strides=_per_axis(stride, rank), pads=pads, dilations=_per_axis(dilation, rank),
                group=groups)


@converts("conv_transpose1d.default", "conv_transpose2d.input", "conv_transpose3d.input")
def conv_transpose(c: Conversion, x: Any, weight: Any, bias: Any = None, stride: Any = (1,), padding: Any = (0,),
                   output_padding: Any = (0,), groups: int = 1, dilation: Any = (1,)) -> Any:
    return convolution(c, x, weight, bias, stride, padding, dilation, True, output_padding, groups)


# --- pools ---


def _pool(c: Conversion, op: str, x: Any, kernel: Sequence[int], stride: Sequence[int], padding: Sequence[int],
          ceil_mode: bool, rank: int, **attrs: Any) -> Any:
    kernel, pads = _per_axis(kernel, rank), _per_axis(padding, rank)
    strides = _per_axis(stride, rank) if isinstance(stride, int) or len(stride) > 0 else kernel
    batched = len(shape_of(x)) == rank + 2
    x = x if batched else c.reshape(x, [1, *shape_of(x)])
    y = c.op(op, x, kernel_shape=kernel, strides=strides, pads=pads + pads, ceil_mode=int(ceil_mode), **attrs)
    return y if batched else c.reshape(y, shape_of(y)[1:])


def _rank(c: Conversion) -> int:
    """Returns the number of spatial axes, which is in the operator's name."""
    return int(re.search(r"(\d)d", str(c.node.target)).group(1))


@converts("max_pool1d.default", "max_pool2d.default", "max_pool3d.default")
def max_pool(c: Conversion, x: Any, kernel_size: Any, stride: Any = (), padding: Any = (0,), dilation: Any = (1,),
             ceil_mode: bool = False) -> Any:
    rank = _rank(c)
    return _pool(c, "MaxPool", x, kernel_size, stride, padding, ceil_mode, rank, dilations=_per_axis(dilation, rank))


@converts("max_pool2d_with_indices.default", "max_pool3d_with_indices.default")
def max_pool_with_indices(c: Conversion, x: Any, *window: Any, **options: Any) -> Any:
    used = {user.args[1] for user in c.node.users if len(user.args) == 2}
    if 1 in used:
        raise Refusal("the indices of the maximum are used; only its value is converted")
    return max_pool(c, x, *window, **options), None


@converts("avg_pool1d.default", "avg_pool2d.default", "avg_pool3d.default")
def avg_pool(c: Conversion, x: Any, kernel_size: Any, stride: Any = (), padding: Any = (0,), ceil_mode: bool = False,
             count_include_pad: bool = True, divisor_override: int | None = None) -> Any:
    rank = _rank(c)
    y = _pool(c, "AveragePool", x, kernel_size, stride, padding, ceil_mode, rank,
              count_include_pad=int(count_include_pad or divisor_override is not None))
    if divisor_override is None:
        return y
    return c.op("Mul", y, c.typed(math.prod(_per_axis(kernel_size, rank)) / divisor_override, c.dtype))


def _adaptive(c: Conversion, pool: str, global_pool: str, x: Any, output: Sequence[int]) -> Any:
    sizes, output = shape_of(x)[-len(output):], list(output)
    if any(size % out for size, out in zip(sizes, output)):
        raise Refusal(f"from {list(sizes)} to {output} elements, which no window of one size gives")
    if all(out == 1 for out in output):
        batched = len(shape_of(x)) == len(output) + 2
        y = c.op(global_pool, x if batched else c.reshape(x, [1, *shape_of(x)]))
        return y if batched else c.reshape(y, shape_of(y)[1:])
    kernel = [size // out for size, out in zip(sizes, output)]
    return _pool(c, pool, x, kernel, kernel, (0,), False, len(output))


@converts("_adaptive_avg_pool2d.default", "_adaptive_avg_pool3d.default", "adaptive_avg_pool1d.default",
          "adaptive_avg_pool2d.default", "adaptive_avg_pool3d.default")
def adaptive_avg_pool(c: Conversion, x: Any, output_size: Any) -> Any:
    return _adaptive(c, "AveragePool", "GlobalAveragePool", x, _per_axis(output_size, 1))


@converts("adaptive_max_pool2d.default", "adaptive_max_pool3d.default", "adaptive_max_pool1d.default")
def adaptive_max_pool(c: Conversion, x: Any, output_size: Any) -> Any:
    if any(len(user.args) == 2 and user.args[1] == 1 for user in c.node.users):
        raise Refusal("the indices of the maximum are used; only its value is converted")
    return _adaptive(c, "MaxPool", "GlobalMaxPool", x, _per_axis(output_size, 1)), None


# --- normalisation ---


def _ones(x: Any, size: int) -> torch.Tensor:
    return torch.ones(size, dtype=torch_dtype(x))


def _zeros(x: Any, size: int) -> torch.Tensor:
    return torch.zeros(size, dtype=torch_dtype(x))


def _batch_norm(c: Conversion, x: Any, weight: Any, bias: Any, mean: Any, variance: Any, eps: float) -> Any:
    channels = shape_of(x)[1]
    weight = _ones(x, channels) if weight is None else weight
    bias = _zeros(x, channels) if bias is None else bias
    return c.op("BatchNormalization", x, weight, bias, mean, variance, epsilon=float(eps))


@converts("_native_batch_norm_legit_no_training.default")
def batch_norm_no_training(c: Conversion, x: Any, weight: Any, bias: Any, mean: Any, variance: Any, momentum: float,
                           eps: float) -> Any:
    return _batch_norm(c, x, weight, bias, mean, variance, eps), None, None


@converts("batch_norm.default")
def batch_norm(c: Conversion, x: Any, weight: Any, bias: Any, mean: Any, variance: Any, training: bool,
               momentum: float, eps: float, cudnn_enabled: bool = False) -> Any:
    if training:
        raise Refusal("batch normalisation in training; call eval() on the model")
    return _batch_norm(c, x, weight, bias, mean, variance, eps)


@converts("native_batch_norm.default", "cudnn_batch_norm.default")
def native_batch_norm(c: Conversion, x: Any, weight: Any, bias: Any, mean: Any, variance: Any, training: bool,
                      momentum: float, eps: float) -> Any:
    return batch_norm(c, x, weight, bias, mean, variance, training, momentum, eps), None, None


@converts("layer_norm.default")
def layer_norm(c: Conversion, x: Any, normalized_shape: Sequence[int], weight: Any = None, bias: Any = None,
               eps: float = 1e-5, cudnn_enable: bool = False) -> Any:
    shape = list(normalized_shape)
    weight = _ones(x, math.prod(shape)).reshape(shape) if weight is None else weight
    operands = [x, weight] if bias is None else [x, weight, bias]
    return c.op("LayerNormalization", *operands, axis=-len(shape), epsilon=float(eps))


@converts("native_layer_norm.default")
def native_layer_norm(c: Conversion, x: Any, normalized_shape: Sequence[int], weight: Any, bias: Any,
                      eps: float) -> Any:
    return layer_norm(c, x, normalized_shape, weight, bias, eps), None, None


@converts("rms_norm.default")
def rms_norm(c: Conversion, x: Any, normalized_shape: Sequence[int], weight: Any = None,
             eps: float | None = None) -> Any:
    shape = list(normalized_shape)
    weight = _ones(x, math.prod(shape)).reshape(shape) if weight is None else weight
    epsilon = torch.finfo(torch_dtype(x)).eps if eps is None else eps
    return c.op("RMSNormalization", x, weight, axis=-len(shape), epsilon=float(epsilon))


@converts("_fused_rms_norm.default")
def fused_rms_norm(c: Conversion, x: Any, normalized_shape: Sequence[int], weight: Any, eps: float | None) -> Any:
    if any(len(user.args) == 2 and user.args[1] == 1 for user in c.node.users):
        raise Refusal("the reciprocal root is used; only the normalised value is converted")
    return rms_norm(c, x, normalized_shape, weight, eps), None


@converts("group_norm.default")
def group_norm(c: Conversion, x: Any, num_groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5,
               cudnn_enabled: bool = False) -> Any:
    channels = shape_of(x)[1]
    weight = _ones(x, channels) if weight is None else weight
    bias = _zeros(x, channels) if bias is None else bias
    return c.op("GroupNormalization", x, weight, bias, num_groups=num_groups, epsilon=float(eps))


@converts("native_group_norm.default")
def native_group_norm(c: Conversion, x: Any, weight: Any, bias: Any, n: int, channels: int, size: int, group: int,
                      eps: float) -> Any:
    return group_norm(c, x, group, weight, bias, eps), None, None


@converts("instance_norm.default")
def instance_norm(c: Conversion, x: Any, weight: Any, bias: Any, mean: Any, variance: Any, use_input_stats: bool,
                  momentum: float, eps: float, cudnn_enabled: bool = False) -> Any:
    if not use_input_stats:
        return _batch_norm(c, x, weight, bias, mean, variance, eps)
    channels = shape_of(x)[1]
    weight = _ones(x, channels) if weight is None else weight
    bias = _zeros(x, channels) if bias is None else bias
    return c.op("InstanceNormalization", x, weight, bias, epsilon=float(eps))


@converts("_native_batch_norm_legit.no_stats")
def batch_norm_of_batch(c: Conversion, x: Any, weight: Any, bias: Any, training: bool, momentum: float,
                        eps: float) -> Any:
    channels = shape_of(x)[1]
    if shape_of(x)[0] != 1:
        raise Refusal("statistics over a batch of several")
    weight = _ones(x, channels) if weight is None else weight
    bias = _zeros(x, channels) if bias is None else bias
    return c.op("InstanceNormalization", x, weight, bias, epsilon=float(eps)), None, None


# --- resampling ---


def _resize(c: Conversion, x: Any, scales: Sequence[float | None], **attrs: Any) -> Any:
    out = c.shape
    spatial = len(out) - 2
    if len(scales) == spatial and all(scale is not None for scale in scales):
        factors = torch.tensor([1.0, 1.0, *scales], dtype=torch.float32)
        if [int(d * s) for d, s in zip(shape_of(x)[2:], scales)] == out[2:]:
            return c.op("Resize", x, None, factors, **attrs)
    return c.op("Resize", x, None, None, c.list(out), **attrs)


@converts("upsample_nearest1d.default", "upsample_nearest2d.default", "upsample_nearest3d.default",
          "upsample_nearest1d.vec", "upsample_nearest2d.vec", "upsample_nearest3d.vec")
def upsample_nearest(c: Conversion, x: Any, output_size: Any, *scales: Any, **options: Any) -> Any:
    return _resize(c, x, _scales(c, scales), mode="nearest", coordinate_transformation_mode="asymmetric",
                   nearest_mode="floor")


def _scales(c: Conversion, scales: Sequence[Any]) -> list[Any]:
    """Returns the scale of each axis, whichever overload gave them."""
    if len(scales) == 1 and isinstance(scales[0], (list, tuple)):
        return list(scales[0])
    return list(scales)


def _interpolated(c: Conversion, x: Any, mode: str, align_corners: bool, scales: Sequence[Any], **attrs: Any) -> Any:
    how = "align_corners" if align_corners else "half_pixel"
    return _resize(c, x, _scales(c, scales), mode=mode, coordinate_transformation_mode=how, **attrs)


@converts("upsample_linear1d", "upsample_bilinear2d", "upsample_trilinear3d")
def upsample_linear(c: Conversion, x: Any, output_size: Any, align_corners: bool, *scales: Any, **options: Any) -> Any:
    return _interpolated(c, x, "linear", align_corners, scales)


@converts("upsample_bicubic2d")
def upsample_bicubic(c: Conversion, x: Any, output_size: Any, align_corners: bool, *scales: Any, **options: Any) -> Any:
    return _interpolated(c, x, "cubic", align_corners, scales, cubic_coeff_a=-0.75)


@converts("grid_sampler_2d.default", "grid_sampler_3d.default", "grid_sampler.default")
def grid_sampler(c: Conversion, x: Any, grid: Any, interpolation_mode: int, padding_mode: int,
                 align_corners: bool) -> Any:
    return c.op("GridSample", x, grid, mode=("linear", "nearest", "cubic")[interpolation_mode],
                padding_mode=("zeros", "border", "reflection")[padding_mode], align_corners=int(align_corners))
