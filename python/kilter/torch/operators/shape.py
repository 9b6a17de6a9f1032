"""Converters of operators that move elements: views, transpositions, slices, concatenation, padding."""
from __future__ import annotations

import sys
from typing import Any, Sequence

import torch

from .._conversion import Conversion, Refusal, axis_of, converts, shape_of


@converts("view.default", "reshape.default", "_unsafe_view.default", "flatten.using_ints", "unflatten.int",
          "squeeze", "unsqueeze.default", "_reshape_alias.default", "view_copy.default", "ravel.default")
def view(c: Conversion, x: Any, *_: Any, **options: Any) -> Any:
    return c.reshape(x, c.shape)


@converts("permute.default")
def permute(c: Conversion, x: Any, dims: Sequence[int]) -> Any:
    return c.transpose(x, [axis_of(x, d) for d in dims])


@converts("transpose.int", "swapaxes.default", "swapdims.default")
def transpose(c: Conversion, x: Any, dim0: int, dim1: int) -> Any:
    order = list(range(len(shape_of(x))))
    a, b = axis_of(x, dim0), axis_of(x, dim1)
    order[a], order[b] = order[b], order[a]
    return c.transpose(x, order)


@converts("movedim.intlist", "movedim.int")
def movedim(c: Conversion, x: Any, source: Any, destination: Any) -> Any:
    sources, places = ([d] if isinstance(d, int) else list(d) for d in (source, destination))
    sources, places = [axis_of(x, d) for d in sources], [axis_of(x, d) for d in places]
    order = [d for d in range(len(shape_of(x))) if d not in sources]
    for place, axis in sorted(zip(places, sources)):
        order.insert(place, axis)
    return c.transpose(x, order)


@converts("t.default", "numpy_T.default", "adjoint.default", "mT.default")
def t(c: Conversion, x: Any) -> Any:
    order = list(range(len(shape_of(x))))
    if str(c.node.target).split(".")[1] in ("t", "numpy_T"):
        return c.transpose(x, order[::-1])
    return c.transpose(x, [*order[:-2], order[-1], order[-2]])


@converts("expand.default", "broadcast_to.default", "expand_as.default")
def expand(c: Conversion, x: Any, *_: Any, **options: Any) -> Any:
    return c.expand(c.reshape(x, [1] * (len(c.shape) - len(shape_of(x))) + list(shape_of(x))), c.shape)


@converts("cat.default", "concat.default")
def cat(c: Conversion, tensors: Sequence[Any], dim: int = 0) -> Any:
    parts = [c.typed(x, c.dtype) for x in tensors if shape_of(x) != (0,)]
    return parts[0] if len(parts) == 1 else c.op("Concat", *parts, axis=dim)


@converts("stack.default")
def stack(c: Conversion, tensors: Sequence[Any], dim: int = 0) -> Any:
    axis = dim % len(c.shape)
    parts = [c.reshape(c.typed(x, c.dtype), [*shape_of(x)[:axis], 1, *shape_of(x)[axis:]]) for x in tensors]
    return c.op("Concat", *parts, axis=axis)


@converts("split.Tensor", "split_with_sizes.default", "chunk.default", "split_with_sizes_copy.default",
          "tensor_split.sections", "tensor_split.indices", "split.sizes", "unsafe_split.Tensor")
def split(c: Conversion, x: Any, _: Any, dim: int = 0) -> Any:
    axis = axis_of(x, dim)
    sizes = [part.shape[axis] for part in c.result]
    if len(sizes) == 1:
        return (x,)
    return c.op("Split", x, c.list(sizes), axis=axis, outputs=len(sizes))


@converts("unbind.int")
def unbind(c: Conversion, x: Any, dim: int = 0) -> Any:
    return tuple(select(c, x, dim, i) for i in range(shape_of(x)[axis_of(x, dim)]))


@converts("select.int")
def select(c: Conversion, x: Any, dim: int, index: int) -> Any:
    axis, shape = axis_of(x, dim), list(shape_of(x))
    index += shape[axis] if index < 0 else 0
    return c.reshape(c.slice(x, axis, index, index + 1), shape[:axis] + shape[axis + 1:])


@converts("slice.Tensor")
def slice_(c: Conversion, x: Any, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1) -> Any:
    return c.slice(x, axis_of(x, dim), start or 0, sys.maxsize if end is None else end, step)


@converts("narrow.default")
def narrow(c: Conversion, x: Any, dim: int, start: int, length: int) -> Any:
    axis = axis_of(x, dim)
    start += shape_of(x)[axis] if start < 0 else 0
    return c.slice(x, axis, start, start + length)


def _replaced(c: Conversion, x: Any, axis: int, start: int, part: Any) -> Any:
    """Returns x with `part` in place of the elements from `start` on along an axis."""
    end = start + shape_of(part)[axis]
    pieces = [c.slice(x, axis, 0, start), c.typed(part, c.dtype), c.slice(x, axis, end, sys.maxsize)]
    pieces = [piece for piece in pieces if shape_of(piece)[axis] > 0]
    return pieces[0] if len(pieces) == 1 else c.op("Concat", *pieces, axis=axis)


@converts("slice_scatter.default")
def slice_scatter(c: Conversion, x: Any, part: Any, dim: int = 0, start: int | None = None, end: int | None = None,
                  step: int = 1) -> Any:
    if step != 1:
        raise Refusal(f"step {step}; only 1 is converted")
    axis, size = axis_of(x, dim), shape_of(x)[axis_of(x, dim)]
    first = min(max((start or 0) + (size if (start or 0) < 0 else 0), 0), size)
    return _replaced(c, x, axis, first, part)


@converts("select_scatter.default")
def select_scatter(c: Conversion, x: Any, part: Any, dim: int, index: int) -> Any:
    axis, size = axis_of(x, dim), shape_of(x)[axis_of(x, dim)]
    shape = list(shape_of(part))
    return _replaced(c, x, axis, index + (size if index < 0 else 0), c.reshape(part, shape[:axis] + [1] + shape[axis:]))


@converts("repeat.default", "tile.default")
def repeat(c: Conversion, x: Any, repeats: Sequence[int]) -> Any:
    rank = max(len(repeats), len(shape_of(x)))
    counts = [1] * (rank - len(repeats)) + list(repeats)
    return c.op("Tile", c.reshape(x, [1] * (rank - len(shape_of(x))) + list(shape_of(x))), c.list(counts))


@converts("repeat_interleave.self_int")
def repeat_interleave(c: Conversion, x: Any, repeats: int, dim: int | None = None,
                      output_size: int | None = None) -> Any:
    shape = list(shape_of(x))
    axis = 0 if dim is None else axis_of(x, dim)
    if dim is None:
        shape = [torch.Size(shape).numel()]
    apart = c.reshape(x, shape[:axis + 1] + [1] + shape[axis + 1:])
    return c.reshape(c.expand(apart, shape[:axis + 1] + [repeats] + shape[axis + 1:]), c.shape)


@converts("roll.default")
def roll(c: Conversion, x: Any, shifts: Sequence[int], dims: Sequence[int] = ()) -> Any:
    if not dims:
        shape = shape_of(x)
        return c.reshape(roll(c, c.reshape(x, [torch.Size(shape).numel()]), shifts, [0]), shape)
    for shift, dim in zip(shifts, dims):
        axis = axis_of(x, dim)
        size = shape_of(x)[axis]
        cut = -shift % size
        if cut:
            x = c.op("Concat", c.slice(x, axis, cut, size), c.slice(x, axis, 0, cut), axis=axis)
    return x


@converts("flip.default")
def flip(c: Conversion, x: Any, dims: Sequence[int]) -> Any:
    for dim in dims:
        axis = axis_of(x, dim)
        x = c.op("Slice", x, c.list([-1]), c.list([-sys.maxsize]), c.list([axis]), c.list([-1]))
    return x


def _onnx_pads(x: Any, pad: Sequence[int]) -> torch.Tensor:
    """Turns PyTorch's pads, which begin with the last axis, into those of ONNX."""
    rank = len(shape_of(x))
    before, after = [0] * rank, [0] * rank
    for i in range(len(pad) // 2):
        before[rank - 1 - i], after[rank - 1 - i] = pad[2 * i], pad[2 * i + 1]
    return torch.tensor(before + after, dtype=torch.int64)


@converts("constant_pad_nd.default")
def constant_pad_nd(c: Conversion, x: Any, pad: Sequence[int], value: float = 0) -> Any:
    return c.op("Pad", x, _onnx_pads(x, pad), c.typed(value, c.dtype), mode="constant")


@converts("pad.default")
def pad(c: Conversion, x: Any, pad: Sequence[int], mode: str = "constant", value: float | None = None) -> Any:
    if mode == "constant":
        return constant_pad_nd(c, x, pad, value or 0)
    modes = {"reflect": "reflect", "replicate": "edge", "circular": "wrap"}
    return c.op("Pad", x, _onnx_pads(x, pad), mode=modes[mode])


@converts("reflection_pad1d.default", "reflection_pad2d.default", "reflection_pad3d.default")
def reflection_pad(c: Conversion, x: Any, padding: Sequence[int]) -> Any:
    return pad(c, x, padding, "reflect")


@converts("replication_pad1d.default", "replication_pad2d.default", "replication_pad3d.default")
def replication_pad(c: Conversion, x: Any, padding: Sequence[int]) -> Any:
    return pad(c, x, padding, "replicate")


@converts("pixel_shuffle.default")
def pixel_shuffle(c: Conversion, x: Any, upscale_factor: int) -> Any:
    return c.op("DepthToSpace", x, blocksize=upscale_factor, mode="CRD")


@converts("pixel_unshuffle.default")
def pixel_unshuffle(c: Conversion, x: Any, downscale_factor: int) -> Any:
    n, channels, height, width = shape_of(x)
    f = downscale_factor
    apart = c.reshape(x, [n, channels, height // f, f, width // f, f])
    return c.reshape(c.transpose(apart, [0, 1, 3, 5, 2, 4]), c.shape)


@converts("channel_shuffle.default", "native_channel_shuffle.default")
def channel_shuffle(c: Conversion, x: Any, groups: int) -> Any:
    n, channels, *rest = shape_of(x)
    apart = c.reshape(x, [n, groups, channels // groups, *rest])
    return c.reshape(c.transpose(apart, [0, 2, 1, *range(3, 3 + len(rest))]), c.shape)


@converts("tril.default")
def tril(c: Conversion, x: Any, diagonal: int = 0) -> Any:
    return c.op("Trilu", x, torch.tensor(diagonal), upper=0)


@converts("triu.default")
def triu(c: Conversion, x: Any, diagonal: int = 0) -> Any:
    return c.op("Trilu", x, torch.tensor(diagonal), upper=1)


@converts("sym_size.int")
def sym_size(c: Conversion, x: Any, dim: int) -> int:
    return shape_of(x)[dim]


@converts("sym_numel.default")
def sym_numel(c: Conversion, x: Any) -> int:
    return torch.Size(shape_of(x)).numel()


@converts("_assert_async.default", "_assert_async.msg", "_assert_scalar.default", "_assert_tensor_metadata.default",
          "sym_constrain_range.default", "sym_constrain_range_for_size.default")
def unchecked(c: Conversion, *_: Any, **options: Any) -> None:
    """Leaves out an assertion, which has no result."""


@converts("as_strided.default")
def as_strided(c: Conversion, x: Any, size: Sequence[int], stride: Sequence[int],
               storage_offset: int | None = None) -> Any:
    fake = c.node.args[0].meta["val"]
    offset = fake.storage_offset() if storage_offset is None else storage_offset
    seen = [d for d, extent in enumerate(size) if extent > 1]
    if list(size) == list(fake.shape) and offset == fake.storage_offset() and all(
            stride[d] == fake.stride(d) for d in seen):
        return x
    if fake.storage_offset() != 0 or fake.untyped_storage().nbytes() != fake.numel() * fake.element_size():
        raise Refusal("a view of memory of which the operand is only a part")
    places = torch.empty_strided(fake.shape, fake.stride(), dtype=torch.int64)
    places.copy_(torch.arange(fake.numel()).view(fake.shape))  # the element at each place in memory
    return c.op("Gather", c.reshape(x, [fake.numel()]), places.as_strided(size, stride, offset), axis=0)
