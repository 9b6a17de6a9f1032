"""Converters of recurrent layers and of PyTorch's fused transformer layers."""
from __future__ import annotations

import math
from typing import Any, Sequence

import torch

from .._conversion import Conversion, Refusal, converts, shape_of, torch_dtype
from .matrix import attention, linear_of

#: places of ONNX's gates among PyTorch's: input, output, forget, cell of i, f, g, o; update, reset, hidden of r, z, n
_GATES = {"LSTM": [0, 3, 1, 2], "GRU": [1, 0, 2]}


def _stacked(op: str, directions: Sequence[torch.Tensor]) -> torch.Tensor:
    """Returns the weights of all directions as [directions, gates * size, ...], gates in ONNX's order."""
    if not all(isinstance(w, torch.Tensor) for w in directions):
        raise Refusal("weights that are not constant")
    gates = _GATES[op]
    return torch.stack([torch.cat([w.detach().chunk(len(gates))[g] for g in gates]) for w in directions])


def _recurrent(c: Conversion, op: str, x: Any, states: Sequence[Any], weights: Sequence[Any], has_biases: bool,
               layers: int, training: bool, dropout: float, bidirectional: bool, batch_first: bool,
               **attrs: Any) -> tuple[Any, ...]:
    """Returns the sequence and the last states of layers of one kind."""
    if training and dropout:
        raise Refusal("dropout in training; call eval() on the model")
    if len(shape_of(x)) != 3:
        raise Refusal("a sequence without a batch")
    directions = 2 if bidirectional else 1
    hidden, each = shape_of(states[0])[-1], 4 if has_biases else 2
    if len(weights) != layers * directions * each:
        raise Refusal("projections of the hidden state")
    x = c.transpose(x, [1, 0, 2]) if batch_first else x
    lasts: list[list[Any]] = [[] for _ in states]
    for layer in range(layers):
        first = layer * directions
        taken = [weights[(first + d) * each:(first + d + 1) * each] for d in range(directions)]
        w, r = (_stacked(op, [part[i] for part in taken]) for i in (0, 1))
        bias = torch.cat([_stacked(op, [part[i] for part in taken]) for i in (2, 3)], 1) if has_biases else None
        begin = [c.slice(s, 0, first, first + directions) for s in states]
        made = c.op(op, x, w, r, bias, None, *begin, hidden_size=hidden, outputs=1 + len(states),
                    direction="bidirectional" if bidirectional else "forward", **attrs)
        steps, _, batch, _ = shape_of(made[0])
        x = c.reshape(c.transpose(made[0], [0, 2, 1, 3]), [steps, batch, directions * hidden])
        for kept, last in zip(lasts, made[1:]):
            kept.append(last)
    ends = [kept[0] if layers == 1 else c.op("Concat", *kept, axis=0) for kept in lasts]
    return (c.transpose(x, [1, 0, 2]) if batch_first else x, *ends)


@converts("lstm.input")
def lstm(c: Conversion, x: Any, states: Sequence[Any], params: Sequence[Any], has_biases: bool, num_layers: int,
         dropout: float, train: bool, bidirectional: bool, batch_first: bool) -> Any:
    return _recurrent(c, "LSTM", x, states, params, has_biases, num_layers, train, dropout, bidirectional, batch_first)


@converts("gru.input")
def gru(c: Conversion, x: Any, state: Any, params: Sequence[Any], has_biases: bool, num_layers: int, dropout: float,
        train: bool, bidirectional: bool, batch_first: bool) -> Any:
    return _recurrent(c, "GRU", x, [state], params, has_biases, num_layers, train, dropout, bidirectional, batch_first,
                      linear_before_reset=1)


# --- fused layers, which PyTorch's transformer modules call in inference ---


def _blocked(c: Conversion, mask: Any, mask_type: int | None, dtype: torch.dtype) -> Any:
    """Returns a mask of what must not be read as a term to add to scores [batch, heads, queries, keys]; or None."""
    if mask is None:
        return None
    mask = c.typed(mask, torch.bool)  # PyTorch reads masks of numbers in the same way: 0 may be read, all else not
    if mask_type == 1:  # [batch, keys]
        batch, keys = shape_of(mask)
        mask = c.reshape(mask, [batch, 1, 1, keys])
    return c.op("Where", mask, c.typed(-math.inf, dtype), c.typed(0.0, dtype))


def _self_attention(c: Conversion, x: Any, heads: int, qkv: tuple[Any, Any], out: tuple[Any, Any], mask: Any) -> Any:
    """Returns attention of x [batch, positions, size] to itself, with its projections (weight, bias)."""
    batch, positions, size = shape_of(x)
    joint = linear_of(c, x, c.transpose(qkv[0], [1, 0]), qkv[1])
    apart = c.transpose(c.reshape(joint, [batch, positions, 3, heads, size // heads]), [2, 0, 3, 1, 4])
    q, k, v = (c.reshape(c.slice(apart, 0, i, i + 1), [batch, heads, positions, size // heads]) for i in range(3))
    mixed = c.transpose(attention(c, q, k, v, mask, False, None, torch_dtype(x)), [0, 2, 1, 3])
    return linear_of(c, c.reshape(mixed, [batch, positions, size]), c.transpose(out[0], [1, 0]), out[1])


@converts("_native_multi_head_attention.default")
def native_multi_head_attention(c: Conversion, query: Any, key: Any, value: Any, embed_dim: int, num_head: int,
                                qkv_weight: Any, qkv_bias: Any, proj_weight: Any, proj_bias: Any, mask: Any = None,
                                need_weights: bool = True, average_attn_weights: bool = True,
                                mask_type: int | None = None) -> Any:
    if c.node.args[0] is not c.node.args[1] or c.node.args[0] is not c.node.args[2]:
        raise Refusal("queries, keys and values that differ")
    if need_weights and any(user.args[1] == 1 and user.users for user in c.node.users):
        raise Refusal("the attention weights are used; only the result is converted")
    blocked = _blocked(c, mask, mask_type, torch_dtype(query))
    return _self_attention(c, query, num_head, (qkv_weight, qkv_bias), (proj_weight, proj_bias), blocked), None


@converts("_transformer_encoder_layer_fwd.default")
def transformer_encoder_layer(c: Conversion, x: Any, embed_dim: int, num_heads: int, qkv_weight: Any, qkv_bias: Any,
                              proj_weight: Any, proj_bias: Any, use_gelu: bool, norm_first: bool, eps: float,
                              norm_weight_1: Any, norm_bias_1: Any, norm_weight_2: Any, norm_bias_2: Any,
                              ffn_weight_1: Any, ffn_bias_1: Any, ffn_weight_2: Any, ffn_bias_2: Any, mask: Any = None,
                              mask_type: int | None = None) -> Any:
    def norm(y: Any, weight: Any, bias: Any) -> Any:
        return c.op("LayerNormalization", y, weight, bias, axis=-1, epsilon=float(eps))

    def attend(y: Any) -> Any:
        blocked = _blocked(c, mask, mask_type, c.dtype)
        return _self_attention(c, y, num_heads, (qkv_weight, qkv_bias), (proj_weight, proj_bias), blocked)

    def feed_forward(y: Any) -> Any:
        y = c.op("Gelu" if use_gelu else "Relu", linear_of(c, y, c.transpose(ffn_weight_1, [1, 0]), ffn_bias_1))
        return linear_of(c, y, c.transpose(ffn_weight_2, [1, 0]), ffn_bias_2)

    if norm_first:
        x = c.op("Add", x, attend(norm(x, norm_weight_1, norm_bias_1)))
        return c.op("Add", x, feed_forward(norm(x, norm_weight_2, norm_bias_2)))
    x = norm(c.op("Add", x, attend(x)), norm_weight_1, norm_bias_1)
    return norm(c.op("Add", x, feed_forward(x)), norm_weight_2, norm_bias_2)
