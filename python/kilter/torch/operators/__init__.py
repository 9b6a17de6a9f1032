"""Converters of ATen operators, by kind. Importing this package fills the table in kilter.torch._conversion.

A converter's arguments are those of the operator, as PyTorch documents them, after the Conversion: Values for what is
computed at run time, tensors and numbers for what is constant. It raises Refusal for what it does not cover.
"""
from . import activation, elementwise, indexing, matrix, neural, recurrent, reduction, shape

__all__ = ["activation", "elementwise", "indexing", "matrix", "neural", "recurrent", "reduction", "shape"]
