"""A server's pattern: several sessions in a pool of threads, and one session that all threads share."""
from concurrent.futures import ThreadPoolExecutor
from threading import local

import numpy as np
import onnxruntime as ort

store = local()


def own_session(path):
    if not hasattr(store, "session"):
        options = ort.SessionOptions()
        options.intra_op_num_threads = 1
        store.session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return store.session


def main(models):
    path = str(models / "perceptron.onnx")
    rows = np.random.default_rng(2).random((24, 1, 16), dtype=np.float32)
    shared = ort.InferenceSession(path)
    with ThreadPoolExecutor(max_workers=4) as pool:
        own = list(pool.map(lambda row: own_session(path).run(["probabilities"], {"features": row})[0], rows))
        one = list(pool.map(lambda row: shared.run(["probabilities"], {"features": row})[0], rows))
    return {"own": np.concatenate(own), "agree": bool(np.allclose(np.concatenate(own), np.concatenate(one), atol=1e-6))}
