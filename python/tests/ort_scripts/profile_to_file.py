"""Profiles a model and reads the file: which kinds of events there are, and the total time by operator."""
import collections
import json
import os

import numpy as np
import onnxruntime as ort


def main(models):
    options = ort.SessionOptions()
    options.enable_profiling = True
    options.profile_file_prefix = str(models / "profile_squeezenet")
    session = ort.InferenceSession(str(models / "squeezenet.onnx"), options)
    started = session.get_profiling_start_time_ns()
    for _ in range(3):
        session.run(None, {session.get_inputs()[0].name: np.zeros((1, 3, 64, 64), np.float32)})
    name = session.end_profiling()

    with open(name) as file:
        events = json.load(file)
    by_operator = collections.Counter()
    for event in events:
        if event["cat"] == "Node" and event["name"].endswith("_kernel_time"):
            by_operator[event["args"]["op_name"]] += event["dur"]
    os.remove(name)
    runs = [e for e in events if e["cat"] == "Session" and e["name"] == "model_run"]
    return {"started": started > 0, "prefix": os.path.basename(name).startswith("profile_squeezenet"),
            "json": name.endswith(".json"), "runs": len(runs), "convolutions": any("Conv" in op for op in by_operator),
            "positive": all(e["dur"] >= 0 and e["ts"] >= 0 and e["ph"] == "X" for e in events),
            "initialised": sum(e["name"] == "session_initialization" for e in events)}
