"""Fixtures: model files, and one server with most of them."""
import subprocess

import onnx.parser
import pytest

from serving import KILTER, MODELS, serving


@pytest.fixture(scope="session")
def files(tmp_path_factory):
    """Model files by name."""
    folder = tmp_path_factory.mktemp("models")
    for name, text in MODELS.items():
        opset = 13 if name == "mean" else 17
        onnx.save(onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : {opset}]> {text}'), folder / f"{name}.onnx")
    subprocess.run([KILTER, "zoo", "squeezenet1_1", "--size", "64", "-o", folder / "picture.onnx"], check=True, capture_output=True)
    subprocess.run([KILTER, "compile", folder / "rows.onnx", "--shapes", "x={1,4}x4", "-o", folder / "rows.kilter"], check=True,
                   capture_output=True)
    return {path.name: path for path in folder.iterdir()}


@pytest.fixture(scope="module")
def server(files):
    names = ("rows", "pair", "types", "texts", "mean", "open", "scalar", "lookup", "picture")
    with serving(*(files[f"{name}.onnx"] for name in names), f"compiled={files['rows.kilter']}", "--max-request", "1MB") as running:
        yield running
