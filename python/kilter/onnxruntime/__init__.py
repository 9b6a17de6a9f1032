"""A drop-in for ONNX Runtime's Python API on the CPU: replace `import onnxruntime as ort` with

    import kilter.onnxruntime as ort
    session = ort.InferenceSession("model.onnx")
    outputs = session.run(None, {session.get_inputs()[0].name: array})

doc/onnxruntime.md says what is covered, what is refused and why, and what each option does.
"""
from . import capi
from ._binding import IOBinding
from ._environment import (API_VERSION as __version__, disable_telemetry_events, enable_telemetry_events,
                           get_all_providers, get_available_providers, get_build_info, get_device, get_version_string,
                           has_collective_ops, set_default_logger_severity, set_default_logger_verbosity,
                           set_global_thread_pool_sizes, set_seed)
from ._metadata import ModelMetadata
from ._options import ExecutionMode, ExecutionOrder, GraphOptimizationLevel, RunOptions, SessionOptions
from ._session import InferenceSession, NodeArg
from ._values import OrtValue, copy_tensors

__all__ = [
    "ExecutionMode", "ExecutionOrder", "GraphOptimizationLevel", "IOBinding", "InferenceSession", "ModelMetadata",
    "NodeArg", "OrtValue", "RunOptions", "SessionOptions", "capi", "copy_tensors", "disable_telemetry_events",
    "enable_telemetry_events", "get_all_providers", "get_available_providers", "get_build_info", "get_device",
    "get_version_string", "has_collective_ops", "set_default_logger_severity", "set_default_logger_verbosity",
    "set_global_thread_pool_sizes", "set_seed",
]

_ON_FILES = "it works on ONNX files: use that of the package onnxruntime, and run the file that it writes with Kilter"
_REFUSED = {
    "quantization": _ON_FILES,
    "tools": _ON_FILES,
    "transformers": _ON_FILES,
    "LoraAdapter": "weights are packed when a model is compiled; merge the adapter into the model",
    "AdapterFormat": "weights are packed when a model is compiled; merge the adapter into the model",
    "SparseTensor": "Kilter has dense tensors only",
    "ModelCompiler": "kilter.compile(model).save(path) writes a compiled file, which InferenceSession(path) loads",
    "OrtDevice": "Kilter's memory is on the CPU; give the device's name, 'cpu'",
    "OrtMemoryInfo": "Kilter allocates memory itself; bind_output and OrtValue give it yours",
    "create_and_register_allocator": "Kilter allocates memory itself; bind_output and OrtValue give it yours",
    "register_execution_provider_library": "providers of ONNX Runtime cannot run Kilter's code",
    "get_ep_devices": "providers of ONNX Runtime cannot run Kilter's code; kilter.device() describes this machine",
}


def __getattr__(name: str) -> object:
    reason = f": {_REFUSED[name]}" if name in _REFUSED else "; doc/onnxruntime.md lists what is covered"
    raise AttributeError(f"kilter.onnxruntime has no '{name}'{reason}")
