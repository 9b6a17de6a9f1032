"""The exceptions that ONNX Runtime's users catch. Each is also one of kilter.errors, so either kind of handler works.

Messages begin as ONNX Runtime's do, with a status that programs look for, and go on with Kilter's text:
"[ONNXRuntimeError] : 2 : INVALID_ARGUMENT : model: input 'x' must be f32[1,3], got f64".
"""
from __future__ import annotations

import os
from typing import ClassVar

from ..errors import (Error, FileError, InputError, InternalError, ModelError, OutOfMemoryError, UnsupportedError,
                      UsageError)


class Status(Error):
    """The base class of this module's exceptions: an error with a status number and word."""

    number: ClassVar[int]
    word: ClassVar[str]

    def __init__(self, text: str):
        super().__init__(f"[ONNXRuntimeError] : {self.number} : {self.word} : {text}")
        #: the message without its status
        self.text = text

    def __reduce__(self) -> tuple[type, tuple[str]]:
        return type(self), (self.text,)


class Fail(Status):
    """Something failed that no other status describes, such as a run with `terminate` set."""

    number, word = 1, "FAIL"


class InvalidArgument(Status, InputError):
    """A name, tensor, shape or option does not fit."""

    number, word = 2, "INVALID_ARGUMENT"


class NoSuchFile(Status, FileError):
    """A model file does not exist."""

    number, word = 3, "NO_SUCHFILE"


class NoModel(Status, UsageError):
    """A session has no model. Kilter's sessions always have one; the name exists for handlers."""

    number, word = 4, "NO_MODEL"


class EngineError(Status, InternalError):
    """An engine failed. Kilter does not raise it; the name exists for handlers."""

    number, word = 5, "ENGINE_ERROR"


class RuntimeException(Status, InternalError):
    """A bug in Kilter. Please report it with the message."""

    number, word = 6, "RUNTIME_EXCEPTION"


class InvalidProtobuf(Status, ModelError):
    """A file or bytes are not an ONNX model."""

    number, word = 7, "INVALID_PROTOBUF"


class ModelLoaded(Status, UsageError):
    """A model is loaded already. Kilter does not raise it; the name exists for handlers."""

    number, word = 8, "MODEL_LOADED"


class NotImplemented(Status, UnsupportedError):  # noqa: A001, the name that users import
    """The model or call is valid, but Kilter cannot do this."""

    number, word = 9, "NOT_IMPLEMENTED"


class InvalidGraph(Status, ModelError):
    """A model's graph is invalid."""

    number, word = 10, "INVALID_GRAPH"


class EPFail(Status, UsageError):
    """An execution provider failed. Kilter does not raise it; the name exists for handlers."""

    number, word = 11, "EP_FAIL"


class ModelLoadCanceled(Status):
    """Loading was cancelled. Kilter does not raise it; the name exists for handlers."""

    number, word = 12, "MODEL_LOAD_CANCELED"


class ModelRequiresCompilation(Status, UsageError):
    """A model has to be compiled beforehand. Kilter does not raise it; the name exists for handlers."""

    number, word = 13, "MODEL_REQUIRES_COMPILATION"


class NotFound(Status, UsageError):
    """Something was not found. Kilter does not raise it; the name exists for handlers."""

    number, word = 14, "NOT_FOUND"


# If programs may catch either of two ONNX Runtime statuses, or one of Python's exceptions, an error is both.

class UnknownOperator(NotImplemented, InvalidGraph):
    """Kilter lacks an operator: to ONNX Runtime, such a graph is invalid or not implemented."""

    number, word = 9, "NOT_IMPLEMENTED"


class UnusableFile(Fail, FileError):
    """A file exists, but cannot be read or written."""


class OutOfMemory(Fail, OutOfMemoryError):
    """Memory could not be allocated."""


class IllegalOption(InvalidArgument, UsageError):
    """An option is not legal."""


class IllegalUse(InvalidArgument, RuntimeError):
    """A value or binding cannot be used; ONNX Runtime raises a plain RuntimeError."""


class WrongType(InvalidArgument, TypeError):
    """An argument has the wrong Python type; ONNX Runtime raises a plain TypeError."""


def translated(error: Error, path: str | None = None) -> Error:
    """Returns the counterpart of one of Kilter's errors. `path`: the model file that was being read."""
    if isinstance(error, Status):
        return error
    text = str(error)
    if isinstance(error, InputError):
        return InvalidArgument(text)
    if isinstance(error, ModelError):
        return InvalidProtobuf(text) if "not a valid ONNX protobuf" in text else InvalidGraph(text)
    if isinstance(error, UnsupportedError):
        return UnknownOperator(text) if "missing from Kilter" in text else NotImplemented(text)
    if isinstance(error, FileError):
        return NoSuchFile(text) if path is not None and not os.path.exists(path) else UnusableFile(text)
    if isinstance(error, UsageError):
        return IllegalOption(text)
    if isinstance(error, OutOfMemoryError):
        return OutOfMemory(text)
    return RuntimeException(text) if isinstance(error, InternalError) else Fail(text)
