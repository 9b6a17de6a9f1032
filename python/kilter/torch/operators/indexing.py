"""Converters of lookups by index and of writes at indices."""
from __future__ import annotations

from typing import Any, Sequence

import torch

from .._conversion import Conversion, Refusal, axis_of, converts, shape_of, torch_dtype


@converts("embedding.default")
def embedding(c: Conversion, weight: Any, indices: Any, *_: Any, **options: Any) -> Any:
    return c.op("Gather", weight, indices, axis=0)


@converts("index_select.default")
def index_select(c: Conversion, x: Any, dim: int, index: Any) -> Any:
    return c.op("Gather", x, index, axis=dim)


@converts("gather.default")
def gather(c: Conversion, x: Any, dim: int, index: Any, sparse_grad: bool = False) -> Any:
    axis = axis_of(x, dim)
    for d, size in enumerate(shape_of(index)):
        if d != axis:
            x = c.slice(x, d, 0, size)  # PyTorch allows fewer indices than elements on the other axes
    return c.op("GatherElements", x, c.typed(index, torch.int64), axis=axis)


def _indexed_axes(c: Conversion, indices: Sequence[Any]) -> list[int]:
    """Returns the axes that are indexed. Raises Refusal for masks of booleans, whose result depends on data."""
    for index in indices:
        if index is not None and torch_dtype(index) in (torch.bool, torch.uint8):
            raise Refusal("indexing by a mask, whose shape depends on data")
    return [d for d, index in enumerate(indices) if index is not None]


def _joined(c: Conversion, indices: Sequence[Any]) -> Any:
    """Returns index tensors, broadcast together, as the last dimension of one."""
    shape = torch.broadcast_shapes(*[shape_of(i) for i in indices])
    parts = []
    for index in indices:
        index = c.typed(index, torch.int64)
        index = c.reshape(index, [1] * (len(shape) - len(shape_of(index))) + list(shape_of(index)))
        parts.append(c.reshape(c.expand(index, shape), [*shape, 1]))
    if all(isinstance(p, torch.Tensor) for p in parts):
        return torch.cat(parts, -1)
    return parts[0] if len(parts) == 1 else c.op("Concat", *parts, axis=-1)


@converts("index.Tensor", "_unsafe_index.Tensor")
def index(c: Conversion, x: Any, indices: Sequence[Any]) -> Any:
    axes = _indexed_axes(c, indices)
    used = [indices[a] for a in axes]
    if len(axes) == 1:
        return c.op("Gather", x, c.typed(used[0], torch.int64), axis=axes[0])
    rank, together = len(shape_of(x)), axes == list(range(axes[0], axes[-1] + 1))
    rest = [d for d in range(rank) if d not in axes]
    found = c.op("GatherND", c.transpose(x, axes + rest), _joined(c, used))
    if not together or axes[0] == 0:
        return found
    lead, index_rank = axes[0], len(shape_of(found)) - len(rest)
    order = [*range(index_rank, index_rank + lead), *range(index_rank), *range(index_rank + lead, len(shape_of(found)))]
    return c.transpose(found, order)


@converts("index_put.default", "_unsafe_index_put.default")
def index_put(c: Conversion, x: Any, indices: Sequence[Any], values: Any, accumulate: bool = False) -> Any:
    axes = _indexed_axes(c, indices)
    if axes != list(range(len(axes))):
        raise Refusal("writes at indices that do not begin at the first axis")
    joined = _joined(c, [indices[a] for a in axes])
    shape = [*shape_of(joined)[:-1], *shape_of(x)[len(axes):]]
    values = c.typed(values, c.dtype)
    values = c.expand(c.reshape(values, [1] * (len(shape) - len(shape_of(values))) + list(shape_of(values))), shape)
    return c.op("ScatterND", x, joined, values, reduction="add" if accumulate else "none")


@converts("scatter.src", "scatter.value")
def scatter(c: Conversion, x: Any, dim: int, index: Any, source: Any) -> Any:
    return _scatter(c, x, dim, index, source, "none")


@converts("scatter_add.default")
def scatter_add(c: Conversion, x: Any, dim: int, index: Any, source: Any) -> Any:
    return _scatter(c, x, dim, index, source, "add")


def _scatter(c: Conversion, x: Any, dim: int, index: Any, source: Any, reduction: str) -> Any:
    source = c.typed(source, c.dtype)
    if shape_of(source) != shape_of(index):
        if len(shape_of(source)) == 0:
            source = c.expand(c.reshape(source, [1] * len(shape_of(index))), shape_of(index))
        for d, size in enumerate(shape_of(index)):
            source = c.slice(source, d, 0, size)
    return c.op("ScatterElements", x, c.typed(index, torch.int64), source, axis=dim, reduction=reduction)


@converts("one_hot.default")
def one_hot(c: Conversion, x: Any, num_classes: int = -1) -> Any:
    if num_classes < 0:
        raise Refusal("one_hot without a number of classes, whose shape depends on data")
    return c.op("OneHot", x, torch.tensor([num_classes]), torch.tensor([0, 1]), axis=-1)
