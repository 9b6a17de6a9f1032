"""Element types under their names: Kilter's, NumPy's, and the numbers of onnx.TensorProto.DataType."""
from __future__ import annotations

from typing import NamedTuple


class ElementType(NamedTuple):
    """The names of an element type outside Kilter."""

    #: NumPy's name; that of bfloat16 is ml_dtypes'
    numpy: str
    #: the number in onnx.TensorProto.DataType
    number: int


#: by Kilter's names
ELEMENT_TYPES = {
    "f32": ElementType("float32", 1), "f64": ElementType("float64", 11), "f16": ElementType("float16", 10),
    "bf16": ElementType("bfloat16", 16), "i8": ElementType("int8", 3), "i16": ElementType("int16", 5),
    "i32": ElementType("int32", 6), "i64": ElementType("int64", 7), "u8": ElementType("uint8", 2),
    "u16": ElementType("uint16", 4), "u32": ElementType("uint32", 12), "u64": ElementType("uint64", 13),
    "bool": ElementType("bool", 9),
}
