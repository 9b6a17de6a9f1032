"""Catches what goes wrong: a missing file, a damaged file, wrong names, types and shapes."""
import numpy as np
import onnxruntime as ort
from onnxruntime.capi.onnxruntime_pybind11_state import InvalidArgument, InvalidProtobuf, NoSuchFile


def attempt(function, *args):
    try:
        function(*args)
        return "nothing"
    except NoSuchFile:
        return "no such file"
    except InvalidProtobuf:
        return "no model"
    except InvalidArgument as error:
        return "invalid argument" if "INVALID_ARGUMENT" in str(error) else "invalid argument without status"
    except (RuntimeError, ValueError, TypeError) as error:
        return type(error).__name__


def missing_is_value_error(session):
    try:
        session.run(None, {})
    except ValueError as error:
        return "features" in str(error)
    return False


def main(models):
    damaged = models / "damaged.onnx"
    damaged.write_bytes(b"this is no model")
    session = ort.InferenceSession(str(models / "perceptron.onnx"))
    x = np.zeros((1, 16), np.float32)
    return {"file": attempt(ort.InferenceSession, str(models / "absent.onnx")),
            "content": attempt(ort.InferenceSession, str(damaged)),
            "output": attempt(session.run, ["nope"], {"features": x}),
            "input": attempt(session.run, None, {"features": x, "nope": x}),
            "type": attempt(session.run, None, {"features": x.astype(np.float64)}),
            "shape": attempt(session.run, None, {"features": np.zeros((1, 15), np.float32)}),
            "rank": attempt(session.run, None, {"features": x[0]}),
            "missing": missing_is_value_error(session),
            "still_runs": session.run(None, {"features": x})[0]}
