"""The exceptions of ONNX Runtime, which are also those of kilter.errors, and its classes of options."""
from .._environment import (get_all_providers, get_available_providers, get_build_info, get_device, get_version_string,
                            set_default_logger_severity, set_default_logger_verbosity, set_seed)
from .._exceptions import (EngineError, EPFail, Fail, InvalidArgument, InvalidGraph, InvalidProtobuf,
                           ModelLoadCanceled, ModelLoaded, ModelRequiresCompilation, NoModel, NoSuchFile, NotFound,
                           NotImplemented, RuntimeException)
from .._metadata import ModelMetadata
from .._options import ExecutionMode, ExecutionOrder, GraphOptimizationLevel, RunOptions, SessionOptions
from .._session import NodeArg

__all__ = [
    "EPFail", "EngineError", "ExecutionMode", "ExecutionOrder", "Fail", "GraphOptimizationLevel", "InvalidArgument",
    "InvalidGraph", "InvalidProtobuf", "ModelLoadCanceled", "ModelLoaded", "ModelMetadata", "ModelRequiresCompilation",
    "NoModel", "NoSuchFile", "NodeArg", "NotFound", "NotImplemented", "RunOptions", "RuntimeException",
    "SessionOptions", "get_all_providers", "get_available_providers", "get_build_info", "get_device",
    "get_version_string", "set_default_logger_severity", "set_default_logger_verbosity", "set_seed",
]
