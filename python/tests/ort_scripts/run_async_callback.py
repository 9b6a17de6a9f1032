"""Asynchronous runs: the callback stores results and sets an event."""
import threading

import numpy as np
import onnxruntime as ort


class Request:
    def __init__(self):
        self.done = threading.Event()
        self.outputs = None
        self.error = None


def finished(outputs, request, error):
    request.outputs = outputs
    request.error = error
    request.done.set()


def main(models):
    options = ort.SessionOptions()
    options.intra_op_num_threads = 2
    session = ort.InferenceSession(str(models / "perceptron.onnx"), options)
    data = np.random.default_rng(5).random((4, 16), dtype=np.float32)
    requests = [Request() for _ in range(4)]
    for row, request in zip(data, requests):
        session.run_async(["probabilities"], {"features": row[None]}, finished, request)
    arrived = all(request.done.wait(30) for request in requests)

    wrong = Request()
    session.run_async(None, {"features": data.astype(np.float32)[0]}, finished, wrong)
    arrived = arrived and wrong.done.wait(30)
    return {"arrived": arrived, "outputs": np.concatenate([r.outputs[0] for r in requests]),
            "errors": [r.error for r in requests], "wrong_outputs": len(wrong.outputs),
            "wrong_is_told": bool(wrong.error)}
