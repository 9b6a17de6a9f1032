"""The C interface of libkilter_runtime (include/kilter/runtime.h) through ctypes."""
from __future__ import annotations

import ctypes
import os
from typing import Any


class Error(Exception):
    """The base class of all exceptions that Kilter raises."""


class UsageError(Error, ValueError):
    """An argument is not legal."""


class InputError(Error, ValueError):
    """The file is damaged, or a tensor does not fit."""


class UnsupportedError(Error, NotImplementedError):
    """The file is valid, but cannot run on this machine or with the runtime alone."""


class FileError(Error, OSError):
    """The file cannot be read."""


class OutOfMemoryError(Error, MemoryError):
    """Memory could not be allocated."""


class InternalError(Error, RuntimeError):
    """A bug in Kilter. Please report it with the message."""


_KINDS = {1: UsageError, 2: InputError, 3: UnsupportedError, 4: FileError, 5: OutOfMemoryError}
_DTYPES = ("f32", "f64", "f16", "bf16", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "bool",
           "str", "f8e4m3fn", "f8e4m3fnuz", "f8e5m2", "f8e5m2fnuz", "f8e8m0", "f4e2m1", "i4", "u4", "i2", "u2")
_LOAD_UNVERIFIED = 1
_UNKNOWN_RANK = ctypes.c_size_t(-1).value
TENSOR, SEQUENCE, ABSENT = range(3)


class _TensorInfo(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("dtype", ctypes.c_int), ("rank", ctypes.c_size_t),
                ("dims", ctypes.POINTER(ctypes.c_int64)), ("bytes", ctypes.c_size_t)]


def _load_library() -> ctypes.CDLL:
    library = ctypes.CDLL(os.path.join(os.path.dirname(__file__), "libkilter_runtime.so"), mode=os.RTLD_LOCAL | os.RTLD_NOW)
    pointer, size, status = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
    int_pointer = ctypes.POINTER(ctypes.c_int)
    signatures: dict[str, tuple[Any, list[Any]]] = {
        "kilter_last_error": (ctypes.c_char_p, []),
        "kilter_runtime_version": (ctypes.c_char_p, []),
        "kilter_program_load_with": (status, [ctypes.c_char_p, ctypes.c_uint32, ctypes.POINTER(pointer)]),
        "kilter_program_free": (None, [pointer]),
        "kilter_program_input_count": (size, [pointer]),
        "kilter_program_output_count": (size, [pointer]),
        "kilter_program_input": (status, [pointer, size, ctypes.POINTER(_TensorInfo)]),
        "kilter_program_output": (status, [pointer, size, ctypes.POINTER(_TensorInfo)]),
        "kilter_program_input_kind": (status, [pointer, size, int_pointer, int_pointer]),
        "kilter_program_output_kind": (status, [pointer, size, int_pointer, int_pointer]),
        "kilter_instance_create": (status, [pointer, ctypes.c_int, ctypes.POINTER(pointer)]),
        "kilter_instance_free": (None, [pointer]),
        "kilter_instance_note": (ctypes.c_char_p, [pointer]),
        "kilter_instance_run": (status, [pointer, ctypes.POINTER(pointer), size, ctypes.POINTER(pointer), size]),
        "kilter_instance_run_values": (status, [pointer, ctypes.POINTER(pointer), size, ctypes.POINTER(pointer), size]),
        "kilter_value_tensor": (status, [ctypes.c_int, size, ctypes.POINTER(ctypes.c_int64), pointer,
                                         ctypes.POINTER(pointer)]),
        "kilter_value_strings": (status, [size, ctypes.POINTER(ctypes.c_int64), ctypes.POINTER(ctypes.c_char_p),
                                          ctypes.POINTER(size), ctypes.POINTER(pointer)]),
        "kilter_value_sequence": (status, [ctypes.POINTER(pointer), size, ctypes.POINTER(pointer)]),
        "kilter_value_free": (None, [pointer]),
        "kilter_value_kind": (ctypes.c_int, [pointer]),
        "kilter_value_info": (status, [pointer, ctypes.POINTER(_TensorInfo)]),
        "kilter_value_data": (pointer, [pointer]),
        "kilter_value_string": (status, [pointer, size, ctypes.POINTER(pointer), ctypes.POINTER(size)]),
        "kilter_value_count": (size, [pointer]),
        "kilter_value_element": (status, [pointer, size, ctypes.POINTER(pointer)]),
    }
    for name, (result, arguments) in signatures.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


_LIBRARY = _load_library()


def _check(status: int) -> None:
    if status != 0:
        raise _KINDS.get(status, InternalError)(_LIBRARY.kilter_last_error().decode())


def version() -> str:
    """Returns the version of the runtime library."""
    return _LIBRARY.kilter_runtime_version().decode()


def _dims(info: _TensorInfo) -> tuple[int | None, ...] | None:
    if info.rank == _UNKNOWN_RANK:
        return None
    return tuple(None if info.dims[d] < 0 else info.dims[d] for d in range(info.rank))


class Value:
    """A tensor, a sequence or None. It refers to `kept`, whose memory it uses."""

    def __init__(self, kept: Any = None):
        self.handle = ctypes.c_void_p()
        self._kept = kept

    @classmethod
    def tensor(cls, dtype: str, shape: tuple[int, ...], address: int, kept: Any) -> Value:
        """Returns a tensor of the numbers at an address."""
        made = cls(kept)
        dims = (ctypes.c_int64 * len(shape))(*shape)
        _check(_LIBRARY.kilter_value_tensor(_DTYPES.index(dtype), len(shape), dims, address, ctypes.byref(made.handle)))
        return made

    @classmethod
    def strings(cls, shape: tuple[int, ...], texts: list[bytes]) -> Value:
        """Returns a tensor of strings."""
        made = cls()
        dims = (ctypes.c_int64 * len(shape))(*shape)
        lengths = (ctypes.c_size_t * len(texts))(*map(len, texts))
        _check(_LIBRARY.kilter_value_strings(len(shape), dims, (ctypes.c_char_p * len(texts))(*texts), lengths,
                                             ctypes.byref(made.handle)))
        return made

    @classmethod
    def sequence(cls, elements: list[Value]) -> Value:
        """Returns a sequence."""
        made = cls(elements)
        _check(_LIBRARY.kilter_value_sequence(_handles(elements), len(elements), ctypes.byref(made.handle)))
        return made

    @property
    def kind(self) -> int:
        """TENSOR, SEQUENCE or ABSENT."""
        return _LIBRARY.kilter_value_kind(self.handle)

    def info(self) -> tuple[str, tuple[int, ...], int, int]:
        """Returns element type, shape, address and bytes of a tensor."""
        info = _TensorInfo()
        _check(_LIBRARY.kilter_value_info(self.handle, ctypes.byref(info)))
        shape = tuple(info.dims[d] for d in range(info.rank))
        return _DTYPES[info.dtype], shape, _LIBRARY.kilter_value_data(self.handle) or 0, info.bytes

    def string(self, index: int) -> bytes:
        """Returns an element of a tensor of strings."""
        text, length = ctypes.c_void_p(), ctypes.c_size_t()
        _check(_LIBRARY.kilter_value_string(self.handle, index, ctypes.byref(text), ctypes.byref(length)))
        return ctypes.string_at(text, length.value)

    def elements(self) -> list[Value]:
        """Returns the elements of a sequence."""
        all_of = [Value() for _ in range(_LIBRARY.kilter_value_count(self.handle))]
        for i, element in enumerate(all_of):
            _check(_LIBRARY.kilter_value_element(self.handle, i, ctypes.byref(element.handle)))
        return all_of

    def __del__(self) -> None:
        if self.handle:
            _LIBRARY.kilter_value_free(self.handle)


def _handles(values: list[Value]) -> Any:
    return (ctypes.c_void_p * len(values))(*(v.handle.value for v in values))


class Program:
    """A compiled file that is mapped and checked."""

    def __init__(self, path: str, verify: bool):
        self.handle = ctypes.c_void_p()
        flags = 0 if verify else _LOAD_UNVERIFIED
        _check(_LIBRARY.kilter_program_load_with(os.fsencode(path), flags, ctypes.byref(self.handle)))
        self.inputs = self._ports("input")
        self.outputs = self._ports("output")

    def _ports(self, what: str) -> list[tuple[str, str, tuple[int | None, ...] | None, str]]:
        """Returns name, element type, dimensions (None: known only when it runs) and kind of each input or output."""
        ports = []
        for i in range(getattr(_LIBRARY, f"kilter_program_{what}_count")(self.handle)):
            info, kind, optional = _TensorInfo(), ctypes.c_int(), ctypes.c_int()
            _check(getattr(_LIBRARY, f"kilter_program_{what}")(self.handle, i, ctypes.byref(info)))
            _check(getattr(_LIBRARY, f"kilter_program_{what}_kind")(self.handle, i, ctypes.byref(kind),
                                                                    ctypes.byref(optional)))
            ports.append((info.name.decode(errors="surrogateescape"), _DTYPES[info.dtype], _dims(info),
                          ("optional " if optional.value else "") + ("tensor", "sequence")[kind.value]))
        return ports

    def __del__(self) -> None:
        if self.handle:
            _LIBRARY.kilter_program_free(self.handle)


class Instance:
    """Working memory and threads for one run of a program at a time."""

    def __init__(self, program: Program, threads: int):
        self._program = program  # its library may free it only after this
        self.handle = ctypes.c_void_p()
        _check(_LIBRARY.kilter_instance_create(program.handle, threads, ctypes.byref(self.handle)))

    @property
    def note(self) -> str:
        """The remark of kilter_instance_note()."""
        return _LIBRARY.kilter_instance_note(self.handle).decode()

    def run(self, inputs: Any, outputs: Any) -> None:
        """Runs once. The arguments are arrays of pointers; the interpreter's lock is released meanwhile."""
        _check(_LIBRARY.kilter_instance_run(self.handle, inputs, len(inputs), outputs, len(outputs)))

    def run_values(self, inputs: list[Value], count: int) -> list[Value]:
        """Runs once and returns `count` outputs. The interpreter's lock is released meanwhile."""
        made = (ctypes.c_void_p * count)()
        _check(_LIBRARY.kilter_instance_run_values(self.handle, _handles(inputs), len(inputs), made, count))
        outputs = [Value() for _ in range(count)]
        for value, handle in zip(outputs, made):
            value.handle = ctypes.c_void_p(handle)
        return outputs

    def __del__(self) -> None:
        if self.handle:
            _LIBRARY.kilter_instance_free(self.handle)
