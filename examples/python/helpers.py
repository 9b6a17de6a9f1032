"""Shared by the examples: options from a function's signature, models of the project's folder, and pictures."""
from __future__ import annotations

import argparse
import inspect
import pathlib
import sys
from typing import Any, Callable

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]


def run_main(main: Callable[..., Any]) -> None:
    """Calls `main` with the options of the command line: one for each of its parameters, with the parameter's
    default."""
    parser = argparse.ArgumentParser(description=sys.modules["__main__"].__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, parameter in inspect.signature(main).parameters.items():
        parser.add_argument("--" + name.replace("_", "-"), default=parameter.default, type=type(parameter.default),
                            help=f"default: {parameter.default!r}")
    main(**vars(parser.parse_args()))


def model_file(path: str) -> str:
    """Returns the path of a model in the repository's folder `models`, where `bench/networks.py` puts them. Exits if it
    is missing."""
    file = ROOT / "models" / path
    if not file.exists():
        sys.exit(f"{file} is missing. Unpack it from the wheel of that name (pip download --no-deps), or run, in the "
                 f"root of the repository: python bench/networks.py models ppocr_det silero_16k_sequence")
    return str(file)


def load_picture(path: str) -> np.ndarray:
    """Returns a picture as u8[height, width, 3], red first. PPM and .npy files are read here, others need Pillow."""
    if path.endswith(".npy"):
        return np.load(path)
    if path.endswith(".ppm"):
        return _load_ppm(path)
    from PIL import Image  # pip install pillow
    return np.asarray(Image.open(path).convert("RGB"))


def _load_ppm(path: str) -> np.ndarray:
    data = pathlib.Path(path).read_bytes()
    magic, width, height, most = data.split(maxsplit=4)[:4]
    if magic != b"P6" or most != b"255":
        sys.exit(f"{path}: expected a binary PPM of 8 bits (P6 and 255), got {magic!r} and {most!r}")
    pixels = np.frombuffer(data, np.uint8)[-int(height) * int(width) * 3:]
    return pixels.reshape(int(height), int(width), 3)


def resized(picture: np.ndarray, height: int, width: int) -> np.ndarray:
    """Returns f32[height, width, channels]: the picture in another size, interpolated linearly."""
    rows, above, below = _between(picture.shape[0], height)
    columns, left, right = _between(picture.shape[1], width)
    rows, columns = rows[:, None, None], columns[None, :, None]
    lines = picture[above] * (1 - rows) + picture[below] * rows
    return (lines[:, left] * (1 - columns) + lines[:, right] * columns).astype(np.float32)


def _between(old: int, new: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns, for each new position, the weight of the second of its two old neighbours, and both neighbours."""
    place = np.clip((np.arange(new) + 0.5) * old / new - 0.5, 0, old - 1)
    first = place.astype(int)
    return place - first, first, np.minimum(first + 1, old - 1)


def normalized(picture: np.ndarray, mean: list[float], deviation: list[float]) -> np.ndarray:
    """Returns f32[1, 3, height, width]: values of 0 to 255 scaled to 0 to 1, minus `mean`, divided by `deviation`."""
    planes = (picture / np.float32(255) - np.array(mean, np.float32)) / np.array(deviation, np.float32)
    return np.ascontiguousarray(planes.transpose(2, 0, 1)[None], dtype=np.float32)
