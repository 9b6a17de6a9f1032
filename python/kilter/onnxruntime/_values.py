"""Element types under their names in ONNX Runtime, and OrtValue."""
from __future__ import annotations

import ctypes
from typing import Any, NamedTuple, Sequence

import numpy as np

from .._types import ELEMENT_TYPES
from ..network import Port
from ._exceptions import IllegalUse, WrongType


class OrtType(NamedTuple):
    """An element type under its names in ONNX Runtime."""

    #: Kilter's name, such as "f32"
    word: str
    #: the number in onnx.TensorProto.DataType
    number: int
    #: ONNX Runtime's text for tensors of it
    text: str
    #: the NumPy type that holds an element; one for its bits if NumPy lacks the type
    numpy: Any
    #: the name in ml_dtypes if NumPy lacks the type
    name_of_bits: str


# ONNX Runtime's names, where they are neither NumPy's nor those of ml_dtypes without the underscore
_NAMES = {"f32": "float", "f64": "double", "f8e8m0": "float8e8m0", "f4e2m1": "float4e2m1"}
_TYPES = sorted((OrtType(word, t.number, f"tensor({_NAMES.get(word, t.numpy.replace('_', ''))})",
                         np.dtype(t.bits or t.numpy), t.numpy if t.bits else "") for word, t in ELEMENT_TYPES.items()),
                key=lambda t: t.number)
# the types of keys in maps
_KEYS = {"i64": "int64", "str": "string"}
#: strings, which values can contain but the caller's memory cannot
STRINGS = OrtType("str", 8, "tensor(string)", np.dtype(object), "")
TYPE_OF_WORD = {**{t.word: t for t in _TYPES}, STRINGS.word: STRINGS}
_TYPE_OF_NUMBER = {t.number: t for t in _TYPES}
_TYPE_OF_BITS = {t.name_of_bits: t for t in _TYPES if t.name_of_bits}
_TYPE_OF_DTYPE = {t.numpy: t for t in _TYPES if not t.name_of_bits}


def type_text(port: Port) -> str:
    """Returns the type of a port as ONNX Runtime writes it, such as "tensor(float)", "seq(tensor(float))" or
    "seq(map(int64,tensor(float)))"."""
    text = TYPE_OF_WORD[port.dtype].text
    if port.key is not None:
        text = f"map({_KEYS[port.key]},{text})"
    if port.kind.endswith("sequence"):
        text = f"seq({text})"
    return f"optional({text})" if port.kind.startswith("optional") else text


def type_of(value: Any, what: str) -> OrtType:
    """Returns the element type for a NumPy type, its name, or ONNX's number."""
    if isinstance(value, int) and value in _TYPE_OF_NUMBER:
        return _TYPE_OF_NUMBER[value]
    if str(value) in _TYPE_OF_BITS:
        return _TYPE_OF_BITS[str(value)]
    try:
        return _TYPE_OF_DTYPE[np.dtype(value)]
    except (TypeError, KeyError):
        raise IllegalUse(f"{what}: element type {value!r}; legal values are the NumPy types "
                         f"{', '.join(str(t) for t in _TYPE_OF_DTYPE)}, and ONNX's numbers {sorted(_TYPE_OF_NUMBER)}"
                         ) from None


def require_cpu(device: Any, what: str) -> None:
    """Raises an error unless a device, by name, is the CPU."""
    if str(device).lower() != "cpu":
        raise IllegalUse(f"{what}: device '{device}'; Kilter's memory is on 'cpu'")


class _Bits:
    """An array of a type that NumPy lacks, as it is passed to Kilter: an object with that element type, whose view()
    returns the bits."""

    def __init__(self, bits: np.ndarray, dtype: str):
        self._bits = bits
        self.dtype = dtype

    def view(self, _: str) -> np.ndarray:
        """Returns the bits as an unsigned type."""
        return self._bits


class OrtValue:
    """A tensor in memory: a NumPy array, and its element type. Create one with the class methods. Runs also return
    values that are sequences, which are lists of arrays or dicts, maps, which are dicts, and optional values without
    content, which are None."""

    __slots__ = ("_array", "_type", "_key")

    def __init__(self, array: Any, type: OrtType, key: str | None = None):
        self._array = array
        self._type = type
        self._key = key  # as Port.key

    @classmethod
    def ortvalue_from_numpy(cls, numpy_obj: np.ndarray, device_type: str = "cpu", device_id: int = 0,
                            vendor_id: int = -1) -> OrtValue:
        """Creates a value over the memory of an array; arrays that are not dense are copied. Raises an error for
        devices other than the CPU, and for arrays of strings."""
        require_cpu(device_type, "OrtValue.ortvalue_from_numpy")
        if not isinstance(numpy_obj, np.ndarray) or numpy_obj.dtype.kind in "OUS":
            raise IllegalUse(f"OrtValue.ortvalue_from_numpy: expected a numpy.ndarray of numbers, got "
                             f"{described(numpy_obj)}")
        kind = type_of(numpy_obj.dtype, "OrtValue.ortvalue_from_numpy")
        bits = numpy_obj.view(kind.numpy) if kind.name_of_bits else numpy_obj
        return cls(np.ascontiguousarray(bits).reshape(bits.shape), kind)

    @classmethod
    def ortvalue_from_numpy_with_onnx_type(cls, data: np.ndarray, /, onnx_element_type: int) -> OrtValue:
        """Creates a value over the memory of an array whose bits are of another type: uint16 for bfloat16 (16)."""
        what = "OrtValue.ortvalue_from_numpy_with_onnx_type"
        kind = type_of(int(onnx_element_type), what)
        if data.dtype.itemsize != kind.numpy.itemsize:
            raise IllegalUse(f"{what}: elements of {data.dtype} have {data.dtype.itemsize} bytes; expected the "
                             f"{kind.numpy.itemsize} of {kind.text}")
        return cls(np.ascontiguousarray(data).view(kind.numpy), kind)

    @classmethod
    def ortvalue_from_shape_and_type(cls, shape: Sequence[int], element_type: Any, device_type: str = "cpu",
                                     device_id: int = 0, vendor_id: int = -1) -> OrtValue:
        """Allocates a value, whose elements are undefined. element_type: a NumPy type or ONNX's number."""
        require_cpu(device_type, "OrtValue.ortvalue_from_shape_and_type")
        kind = type_of(element_type, "OrtValue.ortvalue_from_shape_and_type")
        return cls(np.empty([int(d) for d in shape], kind.numpy), kind)

    @classmethod
    def from_dlpack(cls, data: Any, /) -> OrtValue:
        """Creates a value over the memory of any object on the CPU that has DLPack."""
        return cls.ortvalue_from_numpy(np.from_dlpack(data))

    @classmethod
    def _of_result(cls, result: Any, port: Port) -> OrtValue:
        kind = TYPE_OF_WORD[port.dtype]
        array = result.view(kind.numpy) if kind.name_of_bits and isinstance(result, np.ndarray) else result
        return cls(array, kind, port.key)

    def _tensor(self, method: str) -> np.ndarray:
        if not isinstance(self._array, np.ndarray):
            raise IllegalUse(f"OrtValue.{method}: the value is a {self.data_type()}; expected a tensor. run() returns "
                             f"such a value as a list, a dict or None")
        return self._array

    def numpy(self) -> np.ndarray:
        """Returns the array, without a copy. Raises an error for bfloat16 and the other types that NumPy lacks, and for
        values that are not tensors."""
        if self._type.name_of_bits:
            raise IllegalUse(f"OrtValue.numpy: NumPy has no type for {self._type.text}; let the model cast it to float")
        return self._tensor("numpy")

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self.numpy(), dtype=dtype, copy=copy)

    def __dlpack__(self, **how: Any) -> Any:
        return self.numpy().__dlpack__(**how)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)  # the CPU

    def shape(self) -> list[int]:
        """Returns the dimensions. Raises an error for values that are not tensors, as others below do."""
        return list(self._tensor("shape").shape)

    def data_type(self) -> str:
        """Returns the type as ONNX Runtime writes it, such as "tensor(float)" or "seq(tensor(float))"."""
        text = self._type.text if self._key is None else f"map({_KEYS[self._key]},{self._type.text})"
        if self._array is None:
            return f"optional({text})"
        return f"seq({text})" if isinstance(self._array, list) else text

    def element_type(self) -> int:
        """Returns the element type's number in onnx.TensorProto.DataType, such as 1 for float."""
        return self._type.number

    def device_name(self) -> str:
        """Returns "cpu"."""
        return "cpu"

    def data_ptr(self) -> int:
        """Returns the address of the first element."""
        return self._tensor("data_ptr").ctypes.data

    def tensor_size_in_bytes(self) -> int:
        """Returns the size of all elements in bytes."""
        return self._tensor("tensor_size_in_bytes").nbytes

    def has_value(self) -> bool:
        """Returns whether the value is anything but an optional value without content."""
        return self._array is not None

    def is_tensor(self) -> bool:
        """Returns whether the value is a tensor."""
        return isinstance(self._array, np.ndarray)

    def is_sparse_tensor(self) -> bool:
        """Returns False: all tensors are dense."""
        return False

    def is_tensor_sequence(self) -> bool:
        """Returns whether the value is a sequence of tensors."""
        return isinstance(self._array, list) and self._key is None

    def update_inplace(self, data: np.ndarray | OrtValue) -> None:
        """Copies an array's elements into this value. Raises an error if its shape or element type differs."""
        if not isinstance(data, (np.ndarray, OrtValue)):
            raise WrongType(f"OrtValue.update_inplace: expected a numpy.ndarray or OrtValue, got {described(data)}")
        source = data._tensor("update_inplace") if isinstance(data, OrtValue) else data
        if source.shape != self._tensor("update_inplace").shape or source.dtype != self._array.dtype:
            raise IllegalUse(f"OrtValue.update_inplace: expected {self._array.dtype}{self.shape()}, got "
                             f"{source.dtype}{list(source.shape)}")
        if not self._array.flags.writeable:
            raise IllegalUse("OrtValue.update_inplace: the value is over the memory of a read-only array")
        self._array[...] = source

    def _feed(self) -> Any:
        """Returns the value in the form that is passed to Kilter; types that NumPy lacks are passed as raw bits
        (_Bits)."""
        name = self._type.name_of_bits
        if not name or self._array is None or self._key is not None:
            return self._array
        if isinstance(self._array, list):
            return [_Bits(array.view(self._type.numpy), name) for array in self._array]
        return _Bits(self._array, name)

    def __repr__(self) -> str:
        shape = self.shape() if self.is_tensor() else ""
        return f"<kilter.onnxruntime.OrtValue {self.data_type()}{shape} on cpu>"


def copy_tensors(src: Sequence[OrtValue], dst: Sequence[OrtValue], stream: Any = None) -> None:
    """Copies each of the values `src` into that of `dst`. Raises an error if types or shapes differ."""
    if len(src) != len(dst):
        raise IllegalUse(f"copy_tensors: {len(src)} values to copy into {len(dst)}; expected the same number")
    for source, target in zip(src, dst):
        target.update_inplace(source)


def described(value: Any) -> str:
    """Returns what a value is, for messages: "list", "ndarray of float64"."""
    kind = type(value).__name__
    return f"{kind} of {value.dtype}" if hasattr(value, "dtype") else kind


def feed_of(name: str, value: Any, port: Port) -> Any:
    """Returns the value of an input in the form that is passed to Kilter: arrays as they are, lists as arrays of the
    input's type or as sequences, dicts as maps. Refuses what ONNX Runtime refuses, including Python's numbers."""
    if port.key is not None:  # the run checks dicts
        return value._feed() if isinstance(value, OrtValue) else value
    if port.kind != "tensor":
        if value is None and port.kind.startswith("optional"):
            return None
        if port.kind.endswith("sequence") and isinstance(value, (list, tuple)):
            return [_tensor_feed(f"{name}[{i}]", element, port.dtype) for i, element in enumerate(value)]
    return _tensor_feed(name, value, port.dtype)


def _tensor_feed(name: str, value: Any, word: str) -> Any:
    if type(value) is np.ndarray:
        return _texts(value) if word == STRINGS.word and value.dtype.kind == "O" else value
    if isinstance(value, OrtValue):
        return value._feed()
    dtype = TYPE_OF_WORD[word].numpy
    if isinstance(value, (list, tuple)):
        try:
            array = np.asarray(value, dtype)
        except (TypeError, ValueError) as error:
            raise IllegalUse(f"input '{name}': the list cannot be an array of {dtype}: {error}") from None
        return _texts(array) if word == STRINGS.word else array
    if value is None or isinstance(value, (str, bytes, int, float, complex, np.generic)):
        raise IllegalUse(f"input '{name}': expected a numpy.ndarray, list or OrtValue, got {described(value)}; "
                         f"numpy.asarray(value, '{dtype}') makes an array")
    return value


def _texts(array: np.ndarray) -> np.ndarray:
    """Returns an array of objects as strings. As in ONNX Runtime, str() converts objects that are not strings."""
    if all(isinstance(element, str) for element in array.flat):
        return array
    texts = np.empty(array.shape, object)
    texts.flat = [str(element) for element in array.flat]
    return texts


def array_at(address: int, shape: Sequence[int], kind: OrtType, what: str) -> np.ndarray:
    """Returns an array over memory that the caller keeps alive."""
    shape = [int(d) for d in shape]
    count = int(np.prod(shape, dtype=np.int64))
    if count == 0:
        return np.empty(shape, kind.numpy)
    size = count * kind.numpy.itemsize
    if not address:
        raise IllegalUse(f"{what}: buffer_ptr is {address!r}; expected the address of {size} bytes")
    memory = (ctypes.c_ubyte * size).from_address(int(address))
    return np.frombuffer(memory, kind.numpy, count).reshape(shape)
