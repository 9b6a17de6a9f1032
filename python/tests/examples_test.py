"""Tests of examples/python: every script runs with a small budget, and so does the notebook that is generated from
it."""
from __future__ import annotations

import importlib.util
import pathlib
import re
import subprocess
import sys
from typing import Any

import pytest

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "examples"
sys.path.insert(0, str(EXAMPLES / "python"))
import make_notebooks  # noqa: E402

#: what scripts that compare with ONNX Runtime print, if ONNX Runtime is installed
BESIDE_ONNXRUNTIME = ([r"Kilter [\d.]+ ms, ONNX Runtime [\d.]+ ms: ONNX Runtime takes [\d.]+ times as long"]
                      if importlib.util.find_spec("onnxruntime") else [])
#: by script: parameters that make it quick, what it prints, and the models and packages that it needs
RUNS: dict[str, tuple[dict[str, Any], list[str], list[str]]] = {
    "classify": ({"model": "zoo:squeezenet1_1", "threads": 1},
                 [r"compiled for \S+ in \d+ ms", r"(?m)^ +\d+\.\d\d%  class \d+$", r"<kilter\.Timing: [\d.]+ ms"], []),
    "detect": ({"threads": 1}, ["3 lines of text", "'KILTER READS'", "'TEXT IN PICTURES'", "'SINCE 2026'"],
               ["onnx", "rapidocr_onnxruntime/models/ch_PP-OCRv4_det_infer.onnx",
                "rapidocr_onnxruntime/models/ch_PP-OCRv4_rec_infer.onnx"]),
    "speech": ({}, [r"6\.00 s in 188 pieces", r"speech from (1\.9|2\.[01])\d to (3\.9|4\.[01])\d s",
                    "as fast as real time"], ["silero_vad/data/silero_vad_16k_sequence.onnx"]),
    "report_000_tune_time_profile": (
        {"model": "zoo:squeezenet1_1", "time": "4s", "records": "{folder}/records.db"},
        [r"\d+ trials in", r"before [\d.]+ ms", r"not tuned: .*pool10", r"Mean inference time \(std dev\): [\d.]+ ms",
         r"sum [\d.]+ ms, end to end [\d.]+ ms", "the profile and the timing agree|they contradict each other: "], []),
    "report_001_profile": ({"model": "zoo:squeezenet1_1", "seconds": 0.3, "page": "{folder}/page.html"},
                           [r"rows [\d.]+ ms, end to end [\d.]+ ms", r"layer +[\d.]+ +\d", "speedup"], ["pandas"]),
    "report_002_tasks": ({}, [
        "21 convolutions, 12 different ones, 20 different tasks; 6 tasks of other operators",
        r"(?m)^conv2d n1 c64 h56 w56 k64 r3 s3 pad1 f32$", "    stage1_unit1_conv1, stage1_unit2_conv1 with bias, relu",
        r"x86-64-v2: 20 tasks of convolutions for 21 layers, \d+ schedules"], []),
    "report_003_in_network": ({"model": "zoo:resnet18", "node": "layer4.1.conv2", "seconds": 0.3},
                              [r"alone +conv +[\d.]+ ms", r"in the network +[\d.]+ ms",
                               r"in a loop, .* +[\d.]+ ms"], []),
    "report_004_why_slower": ({"size": 64, "seconds": 0.1}, [r"sum [\d.]+ ms", "base: conv2d n1 c3 h64 w64 k16 r7 s7",
                                                            r"without any Winograd: [\d.]+ ms",
                                                            *BESIDE_ONNXRUNTIME], []),
}


def parameters_of(name: str, folder: pathlib.Path) -> dict[str, Any]:
    """Returns the quick parameters of a script. Skips the test if something that the script needs is missing."""
    parameters, _, needs = RUNS[name]
    for need in needs:
        found = (EXAMPLES.parent / "models" / need).exists() if "/" in need else importlib.util.find_spec(need)
        if not found:
            pytest.skip(f"{need} is missing")
    return {key: value.format(folder=folder) if isinstance(value, str) else value for key, value in parameters.items()}


def expect_printed(name: str, text: str) -> None:
    """Fails unless the output contains everything that the script should print."""
    for pattern in RUNS[name][1]:
        assert re.search(pattern, text), f"no '{pattern}' in:\n{text}"


def test_every_script_is_run_here() -> None:
    assert sorted(RUNS) == [script.stem for script in make_notebooks.scripts()]


@pytest.mark.parametrize("name", sorted(RUNS))
def test_script(name: str, tmp_path: pathlib.Path) -> None:
    words = [str(word) for key, value in parameters_of(name, tmp_path).items() for word in (f"--{key}", value)]
    run = subprocess.run([sys.executable, str(EXAMPLES / "python" / f"{name}.py"), *words], cwd=tmp_path, text=True,
                         capture_output=True, timeout=300)
    assert run.returncode == 0, run.stdout + run.stderr
    expect_printed(name, run.stdout)


@pytest.mark.parametrize("name", sorted(RUNS))
def test_notebook_is_the_script(name: str) -> None:
    notebook = make_notebooks.notebook_of(EXAMPLES / "python" / f"{name}.py")
    written = (EXAMPLES / "notebooks" / f"{name}.ipynb").read_text(encoding="utf-8")
    assert written == make_notebooks.text_of(notebook), "run python examples/python/make_notebooks.py"


@pytest.mark.parametrize("name", sorted(RUNS))
def test_notebook_runs(name: str, tmp_path: pathlib.Path) -> None:
    nbclient, nbformat = pytest.importorskip("nbclient"), pytest.importorskip("nbformat")
    pytest.importorskip("ipykernel")
    made = make_notebooks.notebook_of(EXAMPLES / "python" / f"{name}.py", parameters_of(name, tmp_path))
    notebook = nbformat.reads(make_notebooks.text_of(made), as_version=4)
    nbformat.validate(notebook)
    folder = {"metadata": {"path": str(EXAMPLES / "notebooks")}}
    nbclient.NotebookClient(notebook, timeout=300, resources=folder).execute()
    printed = [output.text for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs
               if output.output_type == "stream" and output.name == "stdout"]
    expect_printed(name, "".join(printed))


def test_unknown_notebook_parameter() -> None:
    with pytest.raises(ValueError, match="no parameter speed; main\\(\\) has model, target, other"):
        make_notebooks.notebook_of(EXAMPLES / "python" / "report_002_tasks.py", {"speed": 1})


def test_missing_model_is_named() -> None:
    run = subprocess.run([sys.executable, "-c", "import helpers; helpers.model_file('nowhere/no.onnx')"], text=True,
                         capture_output=True, cwd=EXAMPLES / "python")
    assert run.returncode == 1
    assert re.search(r"nowhere/no\.onnx is missing\. .* python bench/networks\.py models", run.stderr)
