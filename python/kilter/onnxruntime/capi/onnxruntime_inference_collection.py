"""The classes of sessions and values under the name of the module that has them in ONNX Runtime."""
from .._binding import IOBinding
from .._session import InferenceSession
from .._values import OrtValue

__all__ = ["IOBinding", "InferenceSession", "OrtValue"]
