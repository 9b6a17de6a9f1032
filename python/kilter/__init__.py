"""Kilter compiles ONNX networks to machine code for this CPU, tunes them, and says where their time goes.

    import kilter
    net = kilter.compile("zoo:resnet18")
    scores = net(image)

`compile` returns a Network, which is called with NumPy arrays, or anything with DLPack, and returns NumPy arrays. The
functions `bench`, `profile`, `explain`, `compare`, `tasks` and `tune` do what the commands of the same name do, with
the same options, and `choose_precision` what `kilter precision` does. `kilter.onnxruntime` is a drop-in for ONNX
Runtime's InferenceSession, `kilter.graph` builds networks without a file, and torch.compile(model, backend="kilter")
compiles PyTorch models.
"""
import os as _os
import sys as _sys

from ._kilter import set_interpreter as _set_interpreter, set_worker as _set_worker, version_text as _version_text
from ._commands import command, device, ops, options, targets, zoo
from .errors import (Error, FileError, InputError, InternalError, MeasurementError, ModelError, OutOfMemoryError,
                     UnsupportedError, UsageError)
from .network import Network, Pool, Port, compile, load
from .measure import (Bench, Comparison, Explanation, Profile, Timing, bench, compare, explain, profile, tasks,
                      time_tasks)
from .precision import PrecisionChoice, choose_precision
from .tuning import Records, TuneResult, tune

_set_interpreter(_sys.executable or "")  # compare() runs ONNX Runtime and OpenVINO in a process of their own
_set_worker(_os.path.join(_os.path.dirname(__file__), "bin", "kilter-worker"))
__version__ = _version_text().split()[1]

__all__ = [
    "Bench", "Comparison", "Error", "Explanation", "FileError", "InputError", "InternalError", "MeasurementError",
    "ModelError", "Network", "OutOfMemoryError", "Pool", "Port", "PrecisionChoice", "Profile", "Records", "Timing",
    "TuneResult", "UnsupportedError", "UsageError", "bench", "choose_precision", "command", "compare", "compile", "device",
    "explain", "load", "ops", "options", "profile", "targets", "tasks", "time_tasks", "tune", "zoo",
]
