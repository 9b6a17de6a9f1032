"""The angle classifier of an OCR pipeline: a batch of padded lines, turned if the model says so."""
import numpy as np
import onnxruntime as ort

NEEDS = ["ocr_angle.onnx"]
HEIGHT, WIDTH = 48, 192


def padded(line):
    canvas = np.zeros((3, HEIGHT, WIDTH), np.float32)
    columns = min(line.shape[1], WIDTH)
    canvas[:, :, :columns] = (line[:, :columns].transpose(2, 0, 1) / 255.0 - 0.5) / 0.5
    return canvas


def main(models):
    session = ort.InferenceSession(str(models / "ocr_angle.onnx"))
    random = np.random.default_rng(8)
    lines = [random.integers(0, 256, (HEIGHT, width, 3)).astype(np.uint8) for width in (100, 192, 300)]
    batch = np.stack([padded(line) for line in lines])
    shares = session.run(None, {session.get_inputs()[0].name: batch})[0]
    turned = [np.rot90(line, 2) if share[1] > 0.9 else line for line, share in zip(lines, shares)]
    return {"shares": shares, "turned": [bool((a != b).any()) for a, b in zip(lines, turned)]}
