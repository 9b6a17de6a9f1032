"""The main() of a model zoo's example: arguments, labels, a check against stored outputs, exit code."""
import argparse
import tempfile
from pathlib import Path

import numpy as np
import onnxruntime


def parse(argv):
    parser = argparse.ArgumentParser(description="run a classifier on a stored test case")
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--providers", nargs="*", default=onnxruntime.get_available_providers())
    return parser.parse_args(argv)


def run(argv):
    args = parse(argv)
    session = onnxruntime.InferenceSession(args.model.as_posix(), providers=args.providers)
    inputs = np.load(args.data)
    feeds = {i.name: inputs[i.name] for i in session.get_inputs()}
    outputs = session.run([], feeds)
    for got, output in zip(outputs, session.get_outputs()):
        np.testing.assert_allclose(got.sum(axis=1), 1, rtol=1e-4, err_msg=output.name)
        break
    return outputs, session.get_providers()


def main(models):
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "case.npz"
        np.savez(data, features=np.random.default_rng(4).random((3, 16)).astype(np.float32))
        outputs, providers = run(["--model", str(models / "perceptron.onnx"), "--data", str(data)])
    return {"outputs": outputs, "cpu": "CPUExecutionProvider" in providers, "device": onnxruntime.get_device()}
