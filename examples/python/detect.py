"""Reads the text in a picture with two networks of PP-OCR: one finds the lines, the other one reads each of them.

The models are in the wheel rapidocr_onnxruntime. The detector returns each pixel's probability of being text (the
method is called DB, differentiable binarization). NumPy code turns these into boxes: connected regions, their mean
probability, and a margin. Boxes are upright rectangles, so tilted text is read worse than with the rotated boxes of the
original. Both networks have open shapes, and Kilter compiles them for each size of picture that it encounters; sizes
are therefore rounded up.
"""
from __future__ import annotations

import time

import numpy as np
import onnx

import kilter
from helpers import load_picture, model_file, normalized, resized, run_main

# The font of the generated test picture: seven rows of five pixels for each character, in hexadecimal.
FONT = dict(zip("ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789", """
    040a11111f1111 1e11111e11111e 0e11101010110e 1e11111111111e 1f10101e10101f 1f10101e101010 0e11101713110f
    1111111f111111 0e04040404040e 0702020202120c 11121418141211 1010101010101f 111b1515111111 11191513111111
    0e11111111110e 1e11111e101010 0e11111115120d 1e11111e141211 0f10100e01011e 1f040404040404 1111111111110e
    11111111110a04 11111115151b11 11110a040a1111 11110a04040404 1f01020408101f 0e11131519110e 040c040404040e
    0e11010204081f 1f02040201110e 02060a121f0202 1f101e0101110e 0608101e11110e 1f010204080808 0e11110e11110e
    0e11110f01020c""".split()))


def picture_of(lines: list[str], scale: int = 5) -> np.ndarray:
    """Returns u8[height, width, 3]: lines of text in dark ink on light paper."""
    paper = np.zeros((16 * len(lines) + 8, 8 + 6 * max(map(len, lines))))
    for row, line in enumerate(lines):
        for column, character in enumerate(line.upper()):
            bits = np.unpackbits(np.frombuffer(bytes.fromhex(FONT.get(character, "00" * 7)), np.uint8)).reshape(7, 8)
            paper[16 * row + 8:16 * row + 15, 4 + 6 * column:9 + 6 * column] = bits[:, 3:]
    ink = resized(paper[:, :, None], paper.shape[0] * scale, paper.shape[1] * scale)
    return (235 - 200 * np.repeat(ink, 3, axis=2)).astype(np.uint8)


def regions(mask: np.ndarray) -> list[np.ndarray]:
    """Returns the connected regions of a boolean picture, each as an array of (row, column)."""
    label = np.where(mask, np.arange(mask.size).reshape(mask.shape), -1)  # of a pixel: a pixel of its region
    while True:
        grown = np.pad(label, 1, constant_values=-1)
        grown = np.maximum.reduce([grown[1:-1, 1:-1], grown[:-2, 1:-1], grown[2:, 1:-1], grown[1:-1, :-2],
                                   grown[1:-1, 2:]])
        grown = np.where(mask, grown, -1)
        grown[mask] = grown.ravel()[grown[mask]]  # that pixel's own label may point further
        if np.array_equal(grown, label):
            break
        label = grown
    return [np.argwhere(label == root) for root in np.unique(label[mask])]


def find_lines(detector: kilter.Network, picture: np.ndarray, threshold: float, least: float) -> list[tuple[int, ...]]:
    """Returns the boxes of lines of text (top, left, bottom, right), from top to bottom.

    threshold: the probability from which a pixel counts as text; least: the lowest mean probability of a region that
    counts."""
    height, width = picture.shape[:2]
    rounded = [-(-side // 32) * 32 for side in (height, width)]
    mean, deviation = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
    text = detector(normalized(resized(picture[:, :, ::-1], *rounded), mean, deviation))[0, 0]
    boxes = []
    for pixels in regions(text > threshold):
        (top, left), (bottom, right) = pixels.min(axis=0), pixels.max(axis=0) + 1
        if min(bottom - top, right - left) < 3 or text[tuple(pixels.T)].mean() < least:
            continue
        # The network is trained on regions that are smaller than the text, so they get a margin.
        margin = 1.6 * (bottom - top) * (right - left) / (2 * (bottom - top + right - left))
        box = np.array([top - margin, left - margin, bottom + margin, right + margin])
        box *= np.array([height, width, height, width]) / np.array(rounded * 2)
        boxes.append(tuple(np.clip(np.round(box), 0, [height, width, height, width]).astype(int).tolist()))
    return sorted(boxes)


def read_line(reader: kilter.Network, characters: list[str], line: np.ndarray) -> tuple[str, float]:
    """Returns the text of a picture of one line, and the mean probability of its characters."""
    width = max(1, round(line.shape[1] * 48 / line.shape[0]))
    paper = np.zeros((1, 3, 48, -(-width // 320) * 320), np.float32)
    paper[:, :, :, :width] = normalized(resized(line[:, :, ::-1], 48, width), [0.5] * 3, [0.5] * 3)
    chances = reader(paper)[0]  # [places, characters]
    best, chance = chances.argmax(axis=1), chances.max(axis=1)
    # Class 0 is "no character"; a character that is seen at several places in a row counts once.
    seen = (best > 0) & (best != np.concatenate(([0], best[:-1])))
    return "".join(characters[i] for i in best[seen]), float(chance[seen].mean()) if seen.any() else 0.0


def characters_of(path: str) -> list[str]:
    """Returns the characters of the reader's classes, which its model contains as a text of one per line."""
    properties = {p.key: p.value for p in onnx.load(path, load_external_data=False).metadata_props}
    return ["", *properties["character"].splitlines(), " "]


def main(image: str = "", detector: str = "", reader: str = "", threads: int = 0, threshold: float = 0.3,
         least: float = 0.6) -> None:
    # The picture, and the two networks. Nothing is compiled before the first picture comes.
    picture = load_picture(image) if image else picture_of(["KILTER READS", "TEXT IN PICTURES", "SINCE 2026"])
    detector = detector or model_file("rapidocr_onnxruntime/models/ch_PP-OCRv4_det_infer.onnx")
    reader = reader or model_file("rapidocr_onnxruntime/models/ch_PP-OCRv4_rec_infer.onnx")
    finder, recognizer = (kilter.compile(path, threads=threads or None) for path in (detector, reader))

    # Where is text?
    boxes = find_lines(finder, picture, threshold, least)
    print(f"{len(boxes)} lines of text in a picture of {picture.shape[1]} x {picture.shape[0]} pixels")

    # What does it say?
    characters = characters_of(reader)
    for top, left, bottom, right in boxes:
        text, chance = read_line(recognizer, characters, picture[top:bottom, left:right])
        print(f"  rows {top:4} to {bottom:4}, columns {left:4} to {right:4}: {text!r} ({chance:.1%})")

    # How long does a picture take, now that both networks are compiled for these sizes?
    start = time.perf_counter()
    for top, left, bottom, right in find_lines(finder, picture, threshold, least):
        read_line(recognizer, characters, picture[top:bottom, left:right])
    print(f"{1000 * (time.perf_counter() - start):.0f} ms for the whole picture")


if __name__ == "__main__":
    run_main(main)
