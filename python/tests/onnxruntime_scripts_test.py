"""Scripts of ONNX Runtime's users, run with ONNX Runtime and, with one import changed, with kilter.onnxruntime."""
from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("onnxruntime", reason="the package onnxruntime, which results are compared with, is not installed")
pytest.importorskip("onnx", reason="the package onnx, which builds the models, is not installed")

import ort_models  # noqa: E402

SCRIPTS = sorted((Path(__file__).parent / "ort_scripts").glob("*.py"))


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """The folder of models that scripts read."""
    folder = tmp_path_factory.mktemp("models")
    ort_models.write_models(folder)
    return folder


def with_kilter(source: str) -> str:
    """Returns a script with its imports of onnxruntime changed to kilter.onnxruntime."""
    source = re.sub(r"^import onnxruntime$", "import kilter.onnxruntime as onnxruntime", source, flags=re.M)
    return re.sub(r"^(import|from) onnxruntime\b", r"\1 kilter.onnxruntime", source, flags=re.M)


def run_script(source: str, path: Path, models: Path) -> dict:
    """Runs a script's main() in a namespace of its own. Returns its results by name."""
    space = {"__name__": path.stem, "__file__": str(path)}
    exec(compile(source, str(path), "exec"), space)
    for needed in space.get("NEEDS", ()):
        if not (models / needed).exists():
            pytest.skip(f"{ort_models.MODELS / ort_models.FETCHED[needed]} is missing; the test peers.fetch fetches it")
    return space["main"](models)


def check_same(got, expected, where: str) -> None:
    """Compares results: arrays and floats to 1e-4 of the largest value, all else exactly."""
    if isinstance(expected, dict):
        assert got.keys() == expected.keys(), where
        for key in expected:
            check_same(got[key], expected[key], f"{where}.{key}")
    elif isinstance(expected, (list, tuple)):
        assert type(got) is type(expected) and len(got) == len(expected), f"{where}: {got!r}, expected {expected!r}"
        for i, item in enumerate(expected):
            check_same(got[i], item, f"{where}[{i}]")
    elif isinstance(expected, np.ndarray) and expected.dtype.kind == "f":
        assert type(got) is np.ndarray and got.dtype == expected.dtype and got.shape == expected.shape, where
        np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-4 * max(np.abs(expected).max(initial=0), 1e-6),
                                   err_msg=where)
    elif isinstance(expected, np.ndarray):
        assert type(got) is np.ndarray and got.dtype == expected.dtype, where
        np.testing.assert_array_equal(got, expected, err_msg=where)
    elif isinstance(expected, float):
        assert got == pytest.approx(expected, rel=1e-4, abs=1e-6), where
    else:
        assert got == expected, where


@pytest.mark.parametrize("path", SCRIPTS, ids=[path.stem for path in SCRIPTS])
def test_script_gives_the_same_with_kilter(path, models):
    source = path.read_text(encoding="utf-8")
    changed = with_kilter(source)
    assert changed != source and not re.search(r"^(import|from) onnxruntime", changed, flags=re.M)
    expected = run_script(source, path, models)
    assert expected, "the script has no results"
    check_same(run_script(changed, path, models), expected, path.stem)


def test_there_are_twenty_scripts():
    assert len(SCRIPTS) >= 20
