"""Element types under their names: Kilter's, NumPy's, and the numbers of onnx.TensorProto.DataType."""
from __future__ import annotations

from typing import NamedTuple


class ElementType(NamedTuple):
    """The names of an element type outside Kilter."""

    #: NumPy's name, or that of ml_dtypes if NumPy lacks the type
    numpy: str
    #: the number in onnx.TensorProto.DataType
    number: int
    #: NumPy's name of a type for the bits of an element, if NumPy lacks the type
    bits: str = ""


#: by Kilter's names
ELEMENT_TYPES = {
    "f32": ElementType("float32", 1), "f64": ElementType("float64", 11), "f16": ElementType("float16", 10),
    "bf16": ElementType("bfloat16", 16, "uint16"), "i8": ElementType("int8", 3), "i16": ElementType("int16", 5),
    "i32": ElementType("int32", 6), "i64": ElementType("int64", 7), "u8": ElementType("uint8", 2),
    "u16": ElementType("uint16", 4), "u32": ElementType("uint32", 12), "u64": ElementType("uint64", 13),
    "bool": ElementType("bool", 9),
    "f8e4m3fn": ElementType("float8_e4m3fn", 17, "uint8"), "f8e4m3fnuz": ElementType("float8_e4m3fnuz", 18, "uint8"),
    "f8e5m2": ElementType("float8_e5m2", 19, "uint8"), "f8e5m2fnuz": ElementType("float8_e5m2fnuz", 20, "uint8"),
    "f8e8m0": ElementType("float8_e8m0fnu", 24, "uint8"), "f4e2m1": ElementType("float4_e2m1fn", 23, "uint8"),
    "i4": ElementType("int4", 22, "uint8"), "u4": ElementType("uint4", 21, "uint8"),
    "i2": ElementType("int2", 26, "uint8"), "u2": ElementType("uint2", 25, "uint8"),
}
