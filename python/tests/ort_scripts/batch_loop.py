"""Runs a data set through a model in batches; the last batch is smaller."""
import numpy
import onnxruntime


def batches(data, size):
    for start in range(0, len(data), size):
        yield data[start:start + size]


def main(models):
    session = onnxruntime.InferenceSession(models / "perceptron.onnx")
    data = numpy.random.RandomState(7).rand(22, 16).astype(numpy.float32)
    name = session.get_inputs()[0].name
    predicted, sizes = [], []
    for batch in batches(data, 8):
        probabilities = session.run(None, {name: batch})[0]
        predicted.append(probabilities.argmax(axis=1))
        sizes.append(len(probabilities))
    whole, _ = session.run(None, {name: data})
    return {"predicted": numpy.concatenate(predicted), "sizes": sizes, "whole": whole,
            "same": bool((whole.argmax(axis=1) == numpy.concatenate(predicted)).all())}
