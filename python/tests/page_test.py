"""Runs the examples of pages in order, each page in one namespace, and compares what they print with their comments."""
from __future__ import annotations

import contextlib
import importlib.util
import io
import os
import pathlib
import re
from typing import Any, Iterator

import pytest

DOC = pathlib.Path(__file__).resolve().parents[2] / "doc"
PAGE = DOC / "python.md"
PAGES = [PAGE, DOC / "control_flow.md", DOC / "dynamic_shapes.md", DOC / "state.md"]


def examples(page: pathlib.Path) -> list[Any]:
    """Returns the Python blocks of a page, each with the number of its first line, as parameters of a test."""
    text = page.read_text(encoding="utf-8")
    found = re.finditer(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    lines_and_blocks = [(text[:match.start(1)].count("\n") + 1, match.group(1)) for match in found]
    return [pytest.param(page, line, block, id=f"{page.stem}-line-{line}") for line, block in lines_and_blocks]


@pytest.fixture(scope="module")
def namespaces(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[pathlib.Path, dict[str, Any]]]:
    """The names that earlier examples of each page have defined. Examples run in a folder of their own."""
    before = os.getcwd()
    os.chdir(tmp_path_factory.mktemp("page"))
    yield {page: {} for page in PAGES}
    os.chdir(before)


def expected_lines(block: str) -> list[str]:
    """Returns the outputs that the page promises: the comments two spaces after a print()."""
    return re.findall(r"^ *print\(.*\)  # (.+)$", block, re.MULTILINE)


@pytest.mark.parametrize("page, line, block", [example for page in PAGES for example in examples(page)])
def test_example(page: pathlib.Path, line: int, block: str, namespaces: dict[pathlib.Path, dict[str, Any]]) -> None:
    for package, use in (("pandas", "to_pandas"), ("onnx", "import onnx")):
        if use in block and not importlib.util.find_spec(package):
            pytest.skip(f"{package} is missing")
    if page != PAGE and not namespaces[page] and "import" not in block:
        pytest.skip("an earlier example of the page was skipped")
    printed = io.StringIO()
    code = compile("\n" * (line - 1) + block.replace('"5min"', '"8s"'), str(page), "exec")
    with contextlib.redirect_stdout(printed):
        exec(code, namespaces[page])
    lines = printed.getvalue().splitlines()
    for expected in expected_lines(block):
        assert expected in lines, f"{page.name}, example at line {line}: expected {expected!r}, got {lines}"


def test_control_flow_shows_what_inspect_prints(namespaces: dict[pathlib.Path, dict[str, Any]]) -> None:
    page = PAGES[1]
    if not namespaces[page]:
        pytest.skip("its examples were skipped")
    shown = re.search(r"^```\n(program: .*?)^```$", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    assert shown and shown.group(1) in namespaces[page]["net"].inspect()


def test_page_has_examples() -> None:
    blocks = [example.values[2] for example in examples(PAGE)]
    assert len(blocks) >= 15
    assert sum(len(expected_lines(block)) for block in blocks) >= 15


def test_every_public_name_is_on_the_page() -> None:
    import kilter
    text = PAGE.read_text(encoding="utf-8")
    described_by_their_makers = {"Bench", "Comparison", "Explanation", "Network", "Pool", "Port", "Profile", "Timing",
                                 "TuneResult"}
    missing = [name for name in kilter.__all__ if name not in described_by_their_makers
               and not re.search(rf"\b{name}\b", text)]
    assert not missing
