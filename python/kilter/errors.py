"""The exceptions of Kilter. Messages are those of the command line: what failed, where, what was expected, what is
legal."""


class Error(Exception):
    """The base class of all exceptions that Kilter raises."""


class UsageError(Error, ValueError):
    """An option or argument is not legal."""


class ModelError(Error, ValueError):
    """A model file or its graph is invalid."""


class InputError(Error, ValueError):
    """A tensor, shape or input file does not fit."""


class UnsupportedError(Error, NotImplementedError):
    """The model is valid, but Kilter cannot do this yet."""


class FileError(Error, OSError):
    """A file cannot be read or written."""


class OutOfMemoryError(Error, MemoryError):
    """Memory could not be allocated."""


class MeasurementError(Error, RuntimeError):
    """Measurements contradict each other, or cannot be compared."""


class InternalError(Error, RuntimeError):
    """A bug in Kilter. Please report it with the message."""
