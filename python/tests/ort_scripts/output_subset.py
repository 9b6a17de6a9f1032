"""Asks for some outputs, in another order than the model's, and for all."""
import numpy as np
import onnxruntime as ort


def main(models):
    session = ort.InferenceSession(str(models / "detector.onnx"))
    feeds = {"image": np.random.default_rng(9).random((1, 3, 32, 32)).astype("float32")}
    names = [o.name for o in session.get_outputs()]
    labels, boxes = session.run(["labels", "boxes"], feeds)
    everything = session.run(names, feeds)
    default = session.run(None, feeds)
    (scores,) = session.run(["scores"], feeds)
    keep = scores[0] > np.sort(scores[0])[-10]
    return {"names": names, "labels": labels[0][keep], "boxes": boxes[0][keep], "count": len(default),
            "list": isinstance(default, list), "same": all((a == b).all() for a, b in zip(everything, default))}
