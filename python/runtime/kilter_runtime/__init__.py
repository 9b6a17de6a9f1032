"""Runs networks that Kilter compiled to files, without the compiler.

    import kilter_runtime
    net = kilter_runtime.load("resnet18.kilter")
    scores = net(image)

`kilter compile MODEL -o FILE` or kilter.Network.save() writes such files. A compiled file contains machine code: only
load files that you trust.
"""
from __future__ import annotations

import ctypes
import os
import threading
from typing import Any, Mapping, NamedTuple, Sequence

import numpy

from . import _library as _c
from ._library import Error, FileError, InputError, InternalError, OutOfMemoryError, UnsupportedError, UsageError

__all__ = ["Error", "FileError", "InputError", "InternalError", "Network", "OutOfMemoryError", "Port", "UnsupportedError",
           "UsageError", "load"]

__version__: str = _c.version()


class Port(NamedTuple):
    """An input or output of a network."""

    name: str
    #: the element type: "f32", "i64", "bool", "str", ...
    dtype: str
    #: None for a dimension, or for the rank, that is known only when the network runs
    shape: tuple[int | None, ...] | None
    #: "tensor", "sequence", "optional tensor" or "optional sequence"
    kind: str = "tensor"

    def __str__(self) -> str:
        dims = "..." if self.shape is None else ",".join("?" if d is None else str(d) for d in self.shape)
        kind = "" if self.kind == "tensor" else self.kind.replace("sequence", "sequence of").replace(" tensor", "") + " "
        return f"{self.name}: {kind}{self.dtype}[{dims}]"

    @property
    def fixed(self) -> bool:
        """Whether it is a tensor of numbers whose shape is known in advance."""
        return self.kind == "tensor" and self.dtype != "str" and self.shape is not None and None not in self.shape


def load(path: str | os.PathLike, *, threads: int = 0, verify: bool = True) -> Network:
    """Loads a compiled file. threads: 0 for the CPUs that this process may use, which KILTER_NUM_THREADS overrides.
    verify: whether to check the hash of the whole file, which takes about 10 ms for 100 MB.

    Raises InputError for a file that is damaged or from another version, UnsupportedError for another CPU, FileError.
    """
    return Network(_c.Program(os.fspath(path), verify), threads)


class Network:
    """A compiled network. Call it with arrays in the order of its inputs or by name; it returns a numpy.ndarray, or a
    tuple of them for several outputs. In networks with control flow, strings are arrays of str or objects, sequences are
    lists, and an optional value may be None.

    Several threads may call one network; their calls run one after another. clone() gives a network with threads and
    working memory of its own that shares the weights.
    """

    def __init__(self, program: Any, threads: int):
        self._program = program
        self._threads = threads
        self._instance = _c.Instance(program, threads)
        self._lock = threading.Lock()
        self.inputs = [Port(*p) for p in program.inputs]
        self.outputs = [Port(*p) for p in program.outputs]
        self._fixed = all(p.fixed for p in (*self.inputs, *self.outputs))
        self._from = (ctypes.c_void_p * len(self.inputs))()
        self._to = (ctypes.c_void_p * len(self.outputs))()
        self._dtypes = [numpy.dtype(_NUMPY[p.dtype]) for p in self.inputs]
        self._out_dtypes = [numpy.dtype(_NUMPY[p.dtype]) for p in self.outputs]

    @property
    def note(self) -> str:
        """A remark for the user of the network, such as that it was tuned for another number of threads; or ""."""
        return self._instance.note

    def __call__(self, *arrays: Any, out: Mapping[str, Any] | None = None, **named: Any) -> Any:
        """Runs the network once. `out`: arrays that outputs are written to, by name."""
        if len(arrays) > len(self.inputs):
            raise InputError(f"{len(arrays)} inputs are given; expected {', '.join(map(str, self.inputs))}")
        for port, array in zip(self.inputs, arrays):
            if port.name in named:
                raise InputError(f"input '{port.name}' is given twice, by position and by name")
            named[port.name] = array
        results = self._run(named, out or {})
        return results[0] if len(results) == 1 else tuple(results)

    def run(self, feeds: Mapping[str, Any] | Sequence[Any], out: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Runs the network once on inputs by name or in order. Returns the outputs by name."""
        if not isinstance(feeds, Mapping):
            feeds = dict(zip((p.name for p in self.inputs), feeds))
        return dict(zip((p.name for p in self.outputs), self._run(dict(feeds), out or {})))

    def clone(self) -> Network:
        """Returns a network with threads and working memory of its own that shares the weights."""
        return Network(self._program, self._threads)

    def _run(self, feeds: dict[str, Any], out: Mapping[str, Any]) -> list[Any]:
        read = self._input if self._fixed else self._value
        kept = [read(i, feeds) for i in range(len(self.inputs))]
        if feeds:
            names = ", ".join(p.name for p in self.inputs)
            raise InputError(f"no input '{next(iter(feeds))}'; legal values are {names}")
        if not self._fixed:
            return self._run_values(kept, out)
        results = [self._output(i, out) for i in range(len(self.outputs))]
        for name in out:
            if all(p.name != name for p in self.outputs):
                raise InputError(f"memory for output '{name}': there is no such output; legal values are "
                                 f"{', '.join(p.name for p in self.outputs)}")
        with self._lock:
            for i, array in enumerate(kept):
                self._from[i] = array.ctypes.data
            for i, array in enumerate(results):
                self._to[i] = array.ctypes.data
            self._instance.run(self._from, self._to)
        return results

    def _input(self, index: int, feeds: dict[str, Any]) -> Any:
        port = self.inputs[index]
        if port.name not in feeds:
            raise InputError(f"input '{port.name}' ({port}) is missing")
        given = feeds.pop(port.name)
        array = given if isinstance(given, numpy.ndarray) else numpy.asarray(given)
        if array.dtype.name == _NAME_OF_BITS.get(port.dtype):
            array = array.view(self._dtypes[index])
        if array.dtype != self._dtypes[index] or array.shape != port.shape:
            raise InputError(f"input '{port.name}' must be {port}, got {array.dtype}[{','.join(map(str, array.shape))}]")
        return numpy.ascontiguousarray(array).reshape(port.shape)

    def _run_values(self, kept: list[Any], out: Mapping[str, Any]) -> list[Any]:
        if out:
            raise InputError(f"memory for output '{next(iter(out))}': the sizes of outputs are known only after the run; "
                             "leave it out")
        with self._lock:
            return [_object_of(v) for v in self._instance.run_values(kept, len(self.outputs))]

    def _value(self, index: int, feeds: dict[str, Any]) -> Any:
        port = self.inputs[index]
        given = feeds.pop(port.name, None)
        if given is None:
            if port.kind.startswith("optional"):
                return _c.Value()
            raise InputError(f"input '{port.name}' ({port}) is missing")
        if port.kind.endswith("sequence"):
            if not isinstance(given, (list, tuple)):
                raise InputError(f"input '{port.name}': expected a list or tuple of arrays, got {type(given).__qualname__}")
            return _c.Value.sequence([self._tensor(port, element) for element in given])
        return self._tensor(port, given)

    def _tensor(self, port: Port, given: Any) -> Any:
        array = given if isinstance(given, numpy.ndarray) else numpy.asarray(given)
        if port.dtype == "str":
            if array.dtype.kind not in "OUS":
                raise InputError(f"input '{port.name}' must be {port}, got {array.dtype}")
            texts = [t if isinstance(t, bytes) else str(t).encode(errors="surrogateescape") for t in array.reshape(-1)]
            return _c.Value.strings(array.shape, texts)
        wanted = numpy.dtype(_NUMPY[port.dtype])
        if array.dtype.name == _NAME_OF_BITS.get(port.dtype):
            array = array.view(wanted)
        if array.dtype != wanted:
            raise InputError(f"input '{port.name}' must be {port}, got {array.dtype}[{','.join(map(str, array.shape))}]")
        dense = numpy.ascontiguousarray(array).reshape(array.shape)
        return _c.Value.tensor(port.dtype, array.shape, dense.ctypes.data, dense)

    def _output(self, index: int, out: Mapping[str, Any]) -> Any:
        port = self.outputs[index]
        if port.name not in out:
            return numpy.empty(port.shape, self._out_dtypes[index])
        array = out[port.name]
        legal = (isinstance(array, numpy.ndarray) and array.dtype == self._out_dtypes[index] and array.shape == port.shape
                 and array.flags.c_contiguous and array.flags.writeable)
        if not legal:
            raise InputError(f"memory for output '{port.name}' must be a contiguous array of {port} that can be written")
        return array

    def __repr__(self) -> str:
        ins, outs = ", ".join(map(str, self.inputs)), ", ".join(map(str, self.outputs))
        return f"<kilter_runtime.Network ({ins}) -> ({outs})>"

    def __enter__(self) -> Network:
        return self

    def __exit__(self, *_: Any) -> None:
        pass


def _object_of(value: Any) -> Any:
    """Returns an output as an array, a list or None. Arrays of numbers share its memory."""
    if value.kind == _c.ABSENT:
        return None
    if value.kind == _c.SEQUENCE:
        return [_object_of(element) for element in value.elements()]
    dtype, shape, address, size = value.info()
    if dtype == "str":
        texts = numpy.empty(shape, object)
        flat = texts.reshape(-1)
        for i in range(flat.size):
            flat[i] = value.string(i).decode(errors="surrogateescape")
        return texts
    if size == 0:
        return numpy.empty(shape, _NUMPY[dtype])
    memory = (ctypes.c_byte * size).from_address(address)
    memory.kept = value  # keeps the memory alive
    return numpy.frombuffer(memory, _NUMPY[dtype]).reshape(shape)


#: the names in ml_dtypes of the types that NumPy lacks; they are passed as their bits
_NAME_OF_BITS = {"bf16": "bfloat16", "f8e4m3fn": "float8_e4m3fn", "f8e4m3fnuz": "float8_e4m3fnuz", "f8e5m2": "float8_e5m2",
                 "f8e5m2fnuz": "float8_e5m2fnuz", "f8e8m0": "float8_e8m0fnu", "f4e2m1": "float4_e2m1fn", "i4": "int4",
                 "u4": "uint4", "i2": "int2", "u2": "uint2"}
#: NumPy's types by name
_NUMPY = {"f32": "f4", "f64": "f8", "f16": "f2", "bf16": "u2", "i8": "i1", "i16": "i2", "i32": "i4", "i64": "i8", "u8": "u1",
          "u16": "u2", "u32": "u4", "u64": "u8", "bool": "?", "str": "O",
          **{word: "u1" for word in _NAME_OF_BITS if word != "bf16"}}
