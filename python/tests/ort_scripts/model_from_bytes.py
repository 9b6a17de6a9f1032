"""Loads a model from bytes, as it comes from a database or an archive."""
import io
import zipfile

import numpy as np
from onnxruntime import InferenceSession, SessionOptions


def main(models):
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as packed:
        packed.write(models / "detector.onnx", "model.onnx")
    with zipfile.ZipFile(archive) as packed:
        content = packed.read("model.onnx")
    session = InferenceSession(content, SessionOptions(), providers=["CPUExecutionProvider"])
    x = np.linspace(-1, 1, 3 * 32 * 32, dtype=np.float32).reshape(1, 3, 32, 32)
    boxes, scores, labels = session.run(None, {"image": x})
    return {"boxes": boxes, "scores": scores, "labels": labels, "type": str(labels.dtype)}
