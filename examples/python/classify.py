"""Classifies a picture with ResNet-18 from the zoo, or with an ONNX file that takes f32[1,3,height,width].

The networks of the zoo have generated weights: their speed is that of the real ones, but their classes mean nothing.
For real classes, give a file, such as one that torch.onnx.export has written, and the names of its classes, one per
line.
"""
from __future__ import annotations

import pathlib

import numpy as np

import kilter
from helpers import load_picture, normalized, resized, run_main


def synthetic_picture() -> np.ndarray:
    """Returns u8[240, 320, 3]: a ball over a lawn."""
    rows, columns = np.mgrid[:240, :320]
    picture = np.where(rows[:, :, None] > 150, [60, 140, 50], [150, 190, 240])
    distance = np.hypot(rows - 130, columns - 160)
    picture[distance < 60] = np.array([220, 60, 40]) * (1 - distance[distance < 60, None] / 90)
    return picture.astype(np.uint8)


def main(model: str = "zoo:resnet18", image: str = "", labels: str = "", top: int = 5, threads: int = 0) -> None:
    # Any model that Kilter reads. It is compiled on the first run, or by conditions().
    net = kilter.compile(model, threads=threads or None)
    facts = net.conditions()
    print(f"{net!r}\ncompiled for {facts['target']} in {facts['compile_ms']:.0f} ms: {facts['steps']} steps, "
          f"{facts['constants_bytes'] / 1e6:.1f} MB of weights")

    # The picture in the size of the input, normalised as for the training of torchvision's classifiers: mean 0 and
    # deviation 1.
    picture = load_picture(image) if image else synthetic_picture()
    _, _, height, width = net.inputs[0].shape
    x = normalized(resized(picture, height, width), [0.485, 0.456, 0.406], [0.229, 0.224, 0.225])

    # Scores become probabilities.
    scores = net(x)[0]
    chances = np.exp(scores - scores.max())
    chances /= chances.sum()
    names = pathlib.Path(labels).read_text("utf-8").splitlines() if labels else None
    for i in np.argsort(-chances)[:top]:
        print(f"  {chances[i]:7.2%}  {names[i] if names else f'class {i}'}")

    # How long does a picture take?
    print(net.timer(x, repeat=20))


if __name__ == "__main__":
    run_main(main)
