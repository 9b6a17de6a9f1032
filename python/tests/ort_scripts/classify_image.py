"""Classifies an image: resize, normalise, run, softmax, top five."""
import numpy as np
import onnxruntime as ort

MEAN = np.array([0.485, 0.456, 0.406], dtype=np.float32)
STD = np.array([0.229, 0.224, 0.225], dtype=np.float32)


def make_picture(height=120, width=160):
    rows, columns = np.mgrid[0:height, 0:width]
    return np.stack([rows % 256, columns % 256, (rows + columns) % 256], axis=-1).astype(np.uint8)


def resize(picture, size):
    rows = np.linspace(0, picture.shape[0] - 1, size).round().astype(int)
    columns = np.linspace(0, picture.shape[1] - 1, size).round().astype(int)
    return picture[rows][:, columns]


def preprocess(picture, size):
    scaled = resize(picture, size).astype(np.float32) / 255.0
    normalised = (scaled - MEAN) / STD
    return np.expand_dims(normalised.transpose(2, 0, 1), 0)


def softmax(scores):
    e = np.exp(scores - scores.max())
    return e / e.sum()


def main(models):
    session = ort.InferenceSession(str(models / "squeezenet.onnx"), providers=["CPUExecutionProvider"])
    spec = session.get_inputs()[0]
    batch = preprocess(make_picture(), spec.shape[2])
    scores = session.run([session.get_outputs()[0].name], {spec.name: batch})[0]
    probabilities = softmax(scores[0].ravel())
    best = np.argsort(probabilities)[::-1][:5]
    return {"best": best, "probabilities": probabilities[best], "shape": scores.shape}
