"""The recognition step of an OCR pipeline: text lines of several widths, decoding with the model's alphabet."""
import numpy as np
import onnxruntime as ort

NEEDS = ["ocr_recognise.onnx"]


class Recogniser:
    def __init__(self, path):
        options = ort.SessionOptions()
        options.log_severity_level = 4
        options.enable_cpu_mem_arena = False
        self.session = ort.InferenceSession(path, sess_options=options, providers=["CPUExecutionProvider"])
        letters = self.session.get_modelmeta().custom_metadata_map["character"].splitlines()
        self.alphabet = ["", *letters, " "]

    def normalise(self, line):
        scaled = line.astype(np.float32) / 255.0
        return ((scaled - 0.5) / 0.5).transpose(2, 0, 1)[np.newaxis]

    def decode(self, shares):
        best = shares.argmax(axis=-1)
        kept = [i for n, i in enumerate(best) if i != 0 and (n == 0 or best[n - 1] != i)]
        return "".join(self.alphabet[i] for i in kept)

    def __call__(self, line):
        feeds = {self.session.get_inputs()[0].name: self.normalise(line)}
        shares = self.session.run([self.session.get_outputs()[0].name], feeds)[0]
        return self.decode(shares[0]), shares


def draw(text, width):
    """Draws bars of text: strokes of letters 3 pixels wide on white ground."""
    line = np.full((48, width, 3), 255, np.uint8)
    for n, letter in enumerate(text):
        left = 8 + 20 * n
        line[8:40, left:left + 4] = 0
        if letter in "HEL":
            row = {"H": 22, "E": 8, "L": 36}[letter]
            line[row:row + 4, left:left + 14] = 0
        if letter == "E":
            line[22:26, left:left + 12] = line[36:40, left:left + 14] = 0
        if letter == "H":
            line[8:40, left + 12:left + 16] = 0
    return line


def main(models):
    recognise = Recogniser(str(models / "ocr_recognise.onnx"))
    found = [recognise(draw(text, width)) for text, width in (("HELL", 96), ("LEHI", 128), ("HELL", 96))]
    return {"texts": [text for text, _ in found], "shares": [shares for _, shares in found],
            "letters": len(recognise.alphabet)}
