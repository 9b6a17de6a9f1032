"""Accuracy with real weights: what the networks of PP-OCR and silero-vad read and hear in each precision, and
kilter.choose_precision()."""
from __future__ import annotations

import json
import pathlib
import sys

import numpy as np
import pytest

import kilter

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "examples" / "python"))
import detect  # noqa: E402
import speech  # noqa: E402
from helpers import normalized, resized  # noqa: E402

MODELS = ROOT / "models"
DETECTOR = MODELS / "rapidocr_onnxruntime/models/ch_PP-OCRv4_det_infer.onnx"
READER = MODELS / "rapidocr_onnxruntime/models/ch_PP-OCRv4_rec_infer.onnx"
SPEECH = MODELS / "silero_vad/data/silero_vad_16k_sequence.onnx"
LINES = ["KILTER READS", "TEXT IN PICTURES", "SINCE 2026"]


def narrow_type(array: np.ndarray, name: str, to: str) -> object:
    """Returns a constant of an ONNX model as "f16" or "bf16"."""
    import onnx
    from onnx import numpy_helper
    if to == "f16":
        return numpy_helper.from_array(array.astype(np.float16), name)
    bits = array.view(np.uint32)
    halves = ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)  # rounded to even
    return onnx.TensorProto(name=name, data_type=onnx.TensorProto.BFLOAT16, dims=array.shape, raw_data=halves.tobytes())


def declaring(path: pathlib.Path, to: str) -> bytes:
    """Returns a model whose constants and values are "f16" or "bf16", with casts at its inputs and outputs."""
    import onnx
    from onnx import helper, numpy_helper
    model = onnx.load(path)
    graph, code = model.graph, onnx.TensorProto.FLOAT16 if to == "f16" else onnx.TensorProto.BFLOAT16
    constants = [*graph.initializer, *(a.t for n in graph.node for a in n.attribute if a.type == onnx.AttributeProto.TENSOR)]
    for constant in constants:
        if constant.data_type == onnx.TensorProto.FLOAT:
            constant.CopyFrom(narrow_type(numpy_helper.to_array(constant), constant.name, to))
    for node in graph.node:
        for attribute in node.attribute:
            if node.op_type == "Cast" and attribute.name == "to" and attribute.i == onnx.TensorProto.FLOAT:
                attribute.i = code
    del graph.value_info[:]
    inputs = {v.name for v in graph.input if v.type.tensor_type.elem_type == onnx.TensorProto.FLOAT}
    outputs = {v.name for v in graph.output if v.type.tensor_type.elem_type == onnx.TensorProto.FLOAT}
    for node in graph.node:
        for names in (node.input, node.output):
            names[:] = [name + "_narrow" if name in inputs | outputs else name for name in names]
    nodes = [helper.make_node("Cast", [name], [name + "_narrow"], to=code) for name in sorted(inputs)]
    nodes += [*graph.node]
    nodes += [helper.make_node("Cast", [name + "_narrow"], [name], to=onnx.TensorProto.FLOAT) for name in sorted(outputs)]
    del graph.node[:]
    graph.node.extend(nodes)
    return model.SerializeToString()


def compiled(path: pathlib.Path, precision: str) -> kilter.Network:
    """Returns a network in a precision: one of the option, or "declared f16" or "declared bf16". Skips the test if this
    CPU lacks the instructions or a model or package is missing."""
    if not path.exists():
        pytest.skip(f"{path} is missing; bench/networks.py fetches it")
    if precision.startswith("declared "):
        pytest.importorskip("onnx")
        return kilter.compile(declaring(path, precision.split()[1]), threads=1)
    try:
        kilter.compile("zoo:squeezenet1_1", precision=precision).conditions()
    except kilter.UsageError as error:
        pytest.skip(str(error))
    return kilter.compile(str(path), precision=precision, threads=1)


def relative(got: np.ndarray, want: np.ndarray) -> tuple[float, float]:
    """Returns the largest difference relative to the largest magnitude, and the same for the root mean squares."""
    return float(np.abs(got - want).max() / np.abs(want).max()), float(np.sqrt(((got - want) ** 2).mean() / (want ** 2).mean()))


def noisy_picture(sigma: float) -> np.ndarray:
    """Returns a picture of text with the noise of a camera."""
    picture = detect.picture_of(LINES).astype(float)
    return np.clip(picture + np.random.default_rng(0).normal(0, sigma, picture.shape), 0, 255).astype(np.uint8)


def page_of(picture: np.ndarray) -> np.ndarray:
    rounded = [-(-side // 32) * 32 for side in picture.shape[:2]]
    return normalized(resized(picture[:, :, ::-1], *rounded), [0.485, 0.456, 0.406], [0.229, 0.224, 0.225])


#: by precision: the limit on the root mean square of the detector's errors, and the noise of the pictures. A detector whose
#: parameters are bf16 finds one more box in the noise.
OCR = {"fp16": (0.01, (0, 4)), "bf16": (0.06, (0, 4)), "declared f16": (0, (0, 4)), "declared bf16": (0.1, (0,))}


@pytest.mark.parametrize("precision", OCR)
def test_text_in_pictures(precision):
    """Text, and where it is: boxes move by no more than two pixels, and no letter or digit changes."""
    pytest.importorskip("onnx")
    reader = compiled(READER, precision)
    exact_finder, exact_reader = (kilter.compile(str(path), threads=1) for path in (DETECTOR, READER))
    # A parameter of the detector exceeds the range of f16.
    finder = exact_finder if precision == "declared f16" else compiled(DETECTOR, precision)
    characters = detect.characters_of(str(READER))
    limit, noises = OCR[precision]
    for sigma in noises:
        picture = noisy_picture(sigma)
        page = page_of(picture)
        most, rms = relative(finder(page), exact_finder(page))
        boxes, exact = (detect.find_lines(net, picture, 0.3, 0.6) for net in (finder, exact_finder))
        assert len(boxes) == len(exact) >= len(LINES)
        moved = np.abs(np.array(boxes) - np.array(exact)).max()
        reads, wanted = ([detect.read_line(net, characters, picture[top:bottom, left:right])[0]
                          for top, left, bottom, right in places]
                         for net, places in ((reader, boxes), (exact_reader, exact)))
        print(f"\n| {precision} | {sigma} | {most:.1e} | {rms:.1e} | {moved} | {reads} | {wanted} |")
        assert moved <= 2
        assert ["".join(text.split()) for text in reads] == ["".join(text.split()) for text in wanted]
        assert rms <= limit


def test_text_with_eight_bits(tmp_path):
    """The reader, quantised by `kilter quantize` on the lines that it reads."""
    pytest.importorskip("onnx")
    finder, exact = (compiled(path, "declared") for path in (DETECTOR, READER))
    characters = detect.characters_of(str(READER))
    picture = noisy_picture(0)
    lines = [picture[top:bottom, left:right] for top, left, bottom, right in detect.find_lines(finder, picture, 0.3, 0.6)]
    for number, line in enumerate(lines):
        paper = normalized(resized(line[:, :, ::-1], 48, 320), [0.5] * 3, [0.5] * 3)
        np.save(tmp_path / f"{number}.npy", paper)
    kilter.command("quantize", READER, "--samples", tmp_path, "--per-channel", "-o", tmp_path / "reader.onnx")
    reader = kilter.compile(str(tmp_path / "reader.onnx"), threads=1)
    reads, wanted = ([detect.read_line(net, characters, line)[0] for line in lines] for net in (reader, exact))
    print(f"\n| int8 | {reads} | {wanted} |")
    assert ["".join(text.split()) for text in reads] == ["".join(text.split()) for text in wanted]


#: by precision: the limit on the difference of a probability of speech
SPEECH_LIMITS = {"fp16": 0.003, "bf16": 0.02, "declared f16": 0.003, "declared bf16": 0.02}


@pytest.mark.parametrize("precision", SPEECH_LIMITS)
def test_speech(precision):
    """Probabilities of speech for each 32 ms, and where speech begins and ends."""
    net = compiled(SPEECH, precision)
    exact = kilter.compile(str(SPEECH), threads=1)
    pieces = speech.pieces_of(speech.synthetic_recording(np.random.default_rng(0)))
    got, want = speech.probabilities(net, pieces), speech.probabilities(exact, pieces)
    difference = np.abs(got - want).max()
    print(f"\n| {precision} | {difference:.1e} |")
    assert difference <= SPEECH_LIMITS[precision]
    assert speech.spoken(got, 0.5, 0.3) == speech.spoken(want, 0.5, 0.3)


def test_choose_precision(tmp_path):
    net = kilter.compile("zoo:squeezenet1_1", shapes={"input": (1, 3, 64, 64)}, threads=1, target="x86-64-v3")
    samples = np.random.default_rng(0).standard_normal((3, 1, 3, 64, 64), np.float32)
    plan = tmp_path / "net.plan"
    choice = kilter.choose_precision(net, samples, 3e-4, layer_plan=plan, seconds=0.5)
    assert choice.precision == choice.chosen["precision"] and choice.keep_float == choice.chosen["keep_float"]
    assert choice.chosen["error"] <= 3e-4
    narrow = [mix for mix in choice.mixes if mix["precision"] == "fp16"]
    assert not narrow[0]["within"] and narrow[1]["within"] and narrow[1]["keep_float"]
    assert "kilter.PrecisionChoice: " in repr(choice)
    # The network of the choice, the same from the layer plan, and the figure in the report.
    error = max(relative(choice.network(x), net(x))[0] for x in samples)
    assert error == pytest.approx(choice.chosen["error"], rel=1e-3, abs=1e-9)
    assert np.array_equal(net.with_options(layer_plan=plan)(samples[0]), choice.network(samples[0]))
    folder = tmp_path / "samples"
    folder.mkdir()
    np.save(folder / "a.npy", samples[0])
    again = kilter.choose_precision(net, folder, 0.5, seconds=0.2)
    assert again.samples == 1 and json.dumps(again.to_dict())
    with pytest.raises(kilter.UsageError, match="tolerance 1e-12: no mix of f32 with bf16 or fp16 stays within it"):
        kilter.choose_precision(net, samples, 1e-12, seconds=0.2)
    with pytest.raises(kilter.InputError, match="the folder contains no samples"):
        kilter.choose_precision(net, [], 1e-2)
    with pytest.raises(kilter.InputError, match=r"f32 of shape 1x3x8x8, expected f32\[1,3,64,64\] for input 'input'"):
        kilter.choose_precision(net, [np.zeros((1, 3, 8, 8), np.float32)], 1e-2)
    with pytest.raises(kilter.UsageError, match=r"sample 0 has inputs \['y'\]; expected \['input'\]"):
        kilter.choose_precision(net, [{"y": samples[0]}], 1e-2)
