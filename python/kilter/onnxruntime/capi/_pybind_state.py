"""onnxruntime_pybind11_state under another name that programs import."""
from .onnxruntime_pybind11_state import *  # noqa: F403
from .onnxruntime_pybind11_state import __all__  # noqa: F401
