"""Converters of ATen operators, by kind. Importing this package fills the table in kilter.torch._conversion."""
from . import activation, elementwise, indexing, matrix, neural, reduction, shape

__all__ = ["activation", "elementwise", "indexing", "matrix", "neural", "reduction", "shape"]
