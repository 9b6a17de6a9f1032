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
    """Valid, but not on this machine or not with the runtime alone."""


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


class _TensorInfo(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("dtype", ctypes.c_int), ("rank", ctypes.c_size_t),
                ("dims", ctypes.POINTER(ctypes.c_int64)), ("bytes", ctypes.c_size_t)]


def _load_library() -> ctypes.CDLL:
    library = ctypes.CDLL(os.path.join(os.path.dirname(__file__), "libkilter_runtime.so"), mode=os.RTLD_LOCAL | os.RTLD_NOW)
    pointer, size, status = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
    signatures: dict[str, tuple[Any, list[Any]]] = {
        "kilter_last_error": (ctypes.c_char_p, []),
        "kilter_runtime_version": (ctypes.c_char_p, []),
        "kilter_program_load_with": (status, [ctypes.c_char_p, ctypes.c_uint32, ctypes.POINTER(pointer)]),
        "kilter_program_free": (None, [pointer]),
        "kilter_program_input_count": (size, [pointer]),
        "kilter_program_output_count": (size, [pointer]),
        "kilter_program_input": (status, [pointer, size, ctypes.POINTER(_TensorInfo)]),
        "kilter_program_output": (status, [pointer, size, ctypes.POINTER(_TensorInfo)]),
        "kilter_instance_create": (status, [pointer, ctypes.c_int, ctypes.POINTER(pointer)]),
        "kilter_instance_free": (None, [pointer]),
        "kilter_instance_note": (ctypes.c_char_p, [pointer]),
        "kilter_instance_run": (status, [pointer, ctypes.POINTER(pointer), size, ctypes.POINTER(pointer), size]),
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


class Program:
    """A compiled file that is mapped and checked."""

    def __init__(self, path: str, verify: bool):
        self.handle = ctypes.c_void_p()
        flags = 0 if verify else _LOAD_UNVERIFIED
        _check(_LIBRARY.kilter_program_load_with(os.fsencode(path), flags, ctypes.byref(self.handle)))
        self.inputs = self._ports(_LIBRARY.kilter_program_input_count, _LIBRARY.kilter_program_input)
        self.outputs = self._ports(_LIBRARY.kilter_program_output_count, _LIBRARY.kilter_program_output)

    def _ports(self, count: Any, describe: Any) -> list[tuple[str, str, tuple[int, ...]]]:
        ports = []
        for i in range(count(self.handle)):
            info = _TensorInfo()
            _check(describe(self.handle, i, ctypes.byref(info)))
            ports.append((info.name.decode(), _DTYPES[info.dtype], tuple(info.dims[d] for d in range(info.rank))))
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

    def __del__(self) -> None:
        if self.handle:
            _LIBRARY.kilter_instance_free(self.handle)
