"""Functions of the module: providers, versions, log levels, threads for all sessions."""
from __future__ import annotations

import logging
import warnings
from typing import Any, Sequence

from .. import __version__ as _kilter_version
from ._exceptions import IllegalOption, IllegalUse, WrongType

CPU = "CPUExecutionProvider"
#: the version of ONNX Runtime whose API this module follows
API_VERSION = "1.31.0"
LOGGER = logging.getLogger("kilter.onnxruntime")

#: Python's level for each of ONNX Runtime's severities: verbose, info, warning, error, fatal
_LEVELS = (logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR, logging.CRITICAL)
_settings = {"severity": 2, "threads": 0}


def get_available_providers() -> list[str]:
    """Returns the providers that sessions can use: ["CPUExecutionProvider"]."""
    return [CPU]


def get_all_providers() -> list[str]:
    """Returns the providers that Kilter knows: ["CPUExecutionProvider"]."""
    return [CPU]


def get_device() -> str:
    """Returns "CPU"."""
    return "CPU"


def get_version_string() -> str:
    """Returns the version of ONNX Runtime whose API this module follows; kilter.__version__ is Kilter's own."""
    return API_VERSION


def get_build_info() -> str:
    """Returns the versions of Kilter and of the API in words."""
    return f"Kilter {_kilter_version}, with the API of ONNX Runtime {API_VERSION}"


def has_collective_ops() -> bool:
    """Returns False: there are no operators for several processes."""
    return False


def set_default_logger_severity(severity: int) -> None:
    """Sets the lowest severity of log lines of sessions that do not set their own: 0 verbose, 1 info, 2 warning, 3
    error, 4 fatal. Lines go to Python's logger "kilter.onnxruntime"."""
    if isinstance(severity, bool) or not hasattr(severity, "__index__"):
        raise WrongType(f"set_default_logger_severity: expected an int, got {severity!r} "
                        f"({type(severity).__name__})")
    if not 0 <= severity <= 4:
        raise IllegalUse(f"set_default_logger_severity: {severity}; legal values are 0 (verbose), 1 (info), "
                         f"2 (warning), 3 (error) and 4 (fatal)")
    _settings["severity"] = severity.__index__()


def set_default_logger_verbosity(verbosity: int) -> None:
    """Has no effect: Kilter has one level of verbose lines."""


def set_seed(seed: int) -> None:
    """Has no effect: Kilter's random operators draw the same numbers in each run, from the seeds in the model."""


def set_global_thread_pool_sizes(intra_op_num_threads: int, inter_op_num_threads: int = 0) -> None:
    """Sets the number of threads of sessions with use_per_session_threads=False; 0 means the default."""
    _settings["threads"] = max(0, int(intra_op_num_threads))


def enable_telemetry_events() -> None:
    """Has no effect: Kilter sends nothing."""


def disable_telemetry_events() -> None:
    """Has no effect: Kilter sends nothing."""


def global_threads() -> int:
    """Returns the number of threads that set_global_thread_pool_sizes() has set; 0 if none."""
    return _settings["threads"]


def log(severity: int, own_severity: int, text: str) -> None:
    """Logs a line unless the session's own severity, or the default if that is -1, is higher."""
    least = own_severity if own_severity >= 0 else _settings["severity"]
    if severity >= least:
        LOGGER.log(_LEVELS[severity], text)


def check_providers(providers: Sequence[Any] | None, options: Sequence[Any] | None, stacklevel: int) -> None:
    """Checks providers and their options as a session is given them, and warns once about those that are not the
    CPU's."""
    if providers is None:
        return
    if isinstance(providers, str):
        providers = [providers]
    if not isinstance(providers, Sequence):
        raise IllegalOption(f"providers: expected a list of names, got {type(providers).__name__}")
    if options is not None and (not isinstance(options, Sequence) or len(options) != len(providers) or
                                not all(isinstance(o, dict) for o in options)):
        raise IllegalOption(f"provider_options: expected one dict for each of {len(providers)} providers, got "
                            f"{options!r}")
    names = []
    for provider in providers:
        pair = isinstance(provider, (tuple, list)) and len(provider) == 2
        name = provider[0] if pair and isinstance(provider[1], dict) else provider
        if not isinstance(name, str):
            raise IllegalOption(f"providers: expected a name or a tuple of name and dict, got {provider!r}")
        names.append(name)
    others = [name for name in names if name != CPU]
    if others:
        text = f"{', '.join(others)}: not available; Kilter runs the session on {CPU}"
        warnings.warn(text, UserWarning, stacklevel + 1)
