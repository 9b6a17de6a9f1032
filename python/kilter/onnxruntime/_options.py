"""Enumerations, SessionOptions and RunOptions."""
from __future__ import annotations

import copy
from enum import IntEnum
from typing import Any, ClassVar

from ._exceptions import IllegalOption, IllegalUse, NotImplemented, WrongType


class _Enum(IntEnum):
    """An enumeration whose members print as in ONNX Runtime: "ExecutionMode.ORT_SEQUENTIAL"."""

    def __str__(self) -> str:
        return f"{type(self).__name__}.{self.name}"


class GraphOptimizationLevel(_Enum):
    """How much a graph is rewritten. ORT_DISABLE_ALL gives each node a kernel of its own; the other levels are
    equivalent."""

    ORT_DISABLE_ALL = 0
    ORT_ENABLE_BASIC = 1
    ORT_ENABLE_EXTENDED = 2
    ORT_ENABLE_LAYOUT = 3
    ORT_ENABLE_ALL = 99


class ExecutionMode(_Enum):
    """Whether nodes may run side by side. Kilter runs one at a time, on all threads."""

    ORT_SEQUENTIAL = 0
    ORT_PARALLEL = 1


class ExecutionOrder(_Enum):
    """The order in which nodes run. Kilter chooses its own."""

    DEFAULT = 0
    PRIORITY_BASED = 1
    MEMORY_EFFICIENT = 2


def _shown(value: Any) -> str:
    return f"{value!r} ({type(value).__name__})"


class _Options:
    """Attributes with fixed names and types, and configuration entries, which are texts by name."""

    _defaults: ClassVar[dict[str, Any]]

    def __init__(self) -> None:
        object.__setattr__(self, "_entries", {})
        for name, default in self._defaults.items():
            object.__setattr__(self, name, default)

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in self._defaults:
            raise AttributeError(f"{type(self).__name__} has no option '{name}'; it has {', '.join(self._defaults)}")
        object.__setattr__(self, name, self._checked(name, value))

    def _checked(self, name: str, value: Any) -> Any:
        kind = type(self._defaults[name])
        if isinstance(value, kind) and not (kind is int and isinstance(value, bool)):
            return value
        if kind is bool and isinstance(value, int):
            return bool(value)
        if kind is int and hasattr(value, "__index__"):
            return value.__index__()
        if kind is str and hasattr(value, "__fspath__") and name.endswith(("filepath", "prefix")):
            return str(value)
        legal = f": {', '.join(map(str, kind))}" if issubclass(kind, _Enum) else ""
        raise WrongType(f"{type(self).__name__}.{name}: expected {kind.__name__}{legal}, got {_shown(value)}")

    def _add_entry(self, key: str, value: str) -> None:
        if not isinstance(key, str) or not isinstance(value, str):
            raise WrongType(f"{type(self).__name__}: expected a name and a value of type str for a configuration "
                            f"entry, got {_shown(key)} and {_shown(value)}")
        self._entries[key] = value

    def _entry(self, key: str) -> str:
        if key not in self._entries:
            raise IllegalUse(f"{type(self).__name__}: no configuration entry '{key}' was added; there are "
                             f"{', '.join(self._entries) or 'none'}")
        return self._entries[key]

    def _copy(self) -> Any:
        other = copy.copy(self)
        for name, value in vars(self).items():
            if isinstance(value, dict):
                object.__setattr__(other, name, dict(value))
        return other


class SessionOptions(_Options):
    """How a session compiles and runs its model; doc/onnxruntime.md says what each option does in Kilter.

    The configuration entries "kilter.NAME" give options of kilter.compile(): add_session_config_entry("kilter.records",
    "default"). Other entries are kept and have no effect.
    """

    intra_op_num_threads: int
    inter_op_num_threads: int
    graph_optimization_level: GraphOptimizationLevel
    execution_mode: ExecutionMode
    execution_order: ExecutionOrder
    enable_profiling: bool
    profile_file_prefix: str
    optimized_model_filepath: str
    enable_cpu_mem_arena: bool
    enable_mem_pattern: bool
    enable_mem_reuse: bool
    use_deterministic_compute: bool
    use_per_session_threads: bool
    log_severity_level: int
    log_verbosity_level: int
    logid: str

    _defaults = dict(
        intra_op_num_threads=0, inter_op_num_threads=0, graph_optimization_level=GraphOptimizationLevel.ORT_ENABLE_ALL,
        execution_mode=ExecutionMode.ORT_SEQUENTIAL, execution_order=ExecutionOrder.DEFAULT, enable_profiling=False,
        profile_file_prefix="onnxruntime_profile_", optimized_model_filepath="", enable_cpu_mem_arena=True,
        enable_mem_pattern=True, enable_mem_reuse=True, use_deterministic_compute=False, use_per_session_threads=True,
        log_severity_level=-1, log_verbosity_level=0, logid="")

    def __init__(self) -> None:
        super().__init__()
        object.__setattr__(self, "_dims_by_name", {})
        object.__setattr__(self, "_dims_by_denotation", {})

    def add_session_config_entry(self, key: str, value: str) -> None:
        """Adds a configuration entry, or replaces it."""
        self._add_entry(key, value)

    def get_session_config_entry(self, key: str) -> str:
        """Returns a configuration entry. Raises an error, which is also a RuntimeError, if it was not added."""
        return self._entry(key)

    def add_free_dimension_override_by_name(self, name: str, value: int) -> None:
        """Fixes the dimensions of inputs that the model calls `name`, such as "batch", to a size."""
        self._dims_by_name[name] = self._size(name, value)

    def add_free_dimension_override_by_denotation(self, denotation: str, value: int) -> None:
        """Fixes the dimensions of inputs with a denotation, such as "DATA_BATCH", to a size."""
        self._dims_by_denotation[denotation] = self._size(denotation, value)

    @staticmethod
    def _size(name: str, value: int) -> int:
        if isinstance(value, bool) or not hasattr(value, "__index__"):
            raise WrongType(f"free dimension '{name}': expected an int, got {_shown(value)}")
        if value.__index__() < 0:
            raise IllegalOption(f"free dimension '{name}': size {value}; expected 0 or more")
        return value.__index__()

    def register_custom_ops_library(self, path: str) -> None:
        """Refuses custom operators: they are compiled for ONNX Runtime, which Kilter does not call."""
        raise NotImplemented(
            f"custom operators of '{path}': Kilter generates code for the operators of `kilter ops` and cannot call "
            f"those of a library for ONNX Runtime; export the model with standard operators")

    def add_initializer(self, name: str, ort_value: Any) -> None:
        """Refuses to replace a weight: Kilter takes them from the model."""
        raise NotImplemented(
            f"initializer '{name}': Kilter takes weights from the model; store it there, or make it an input")

    def add_external_initializers(self, names: Any, values: Any) -> None:
        """Refuses to replace weights: Kilter takes them from the model and its external data."""
        raise NotImplemented(
            f"external initializers {', '.join(names)}: Kilter takes weights from the model and the files of external "
            f"data beside it")


class RunOptions(_Options):
    """Options of one run. With `terminate` set, the run is refused; the others have no effect."""

    log_severity_level: int
    log_verbosity_level: int
    logid: str
    only_execute_path_to_fetches: bool
    terminate: bool

    _defaults = dict(log_severity_level=-1, log_verbosity_level=0, logid="", only_execute_path_to_fetches=False,
                     terminate=False)

    def add_run_config_entry(self, key: str, value: str) -> None:
        """Adds a configuration entry, or replaces it."""
        self._add_entry(key, value)

    def get_run_config_entry(self, key: str) -> str:
        """Returns a configuration entry. Raises an error, which is also a RuntimeError, if it was not added."""
        return self._entry(key)

    def add_active_adapter(self, adapter: Any) -> None:
        """Refuses LoRA adapters."""
        raise NotImplemented(
            "LoRA adapters: Kilter packs weights when it compiles and cannot replace them in a run; merge the adapter "
            "into the model")
