"""Runs the examples of doc/python.md in order, in one namespace, and compares what they print with their comments."""
from __future__ import annotations

import contextlib
import importlib.util
import io
import os
import pathlib
import re
from typing import Any, Iterator

import pytest

PAGE = pathlib.Path(__file__).resolve().parents[2] / "doc" / "python.md"


def examples() -> list[Any]:
    """Returns the Python blocks of the page, each with the number of its first line, as parameters of a test."""
    text = PAGE.read_text(encoding="utf-8")
    found = re.finditer(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    lines_and_blocks = [(text[:match.start(1)].count("\n") + 1, match.group(1)) for match in found]
    return [pytest.param(line, block, id=f"line-{line}") for line, block in lines_and_blocks]


@pytest.fixture(scope="module")
def namespace(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """The names that earlier examples have defined. Examples run in a folder of their own."""
    before = os.getcwd()
    os.chdir(tmp_path_factory.mktemp("page"))
    yield {}
    os.chdir(before)


def expected_lines(block: str) -> list[str]:
    """Returns the outputs that the page promises: the comments two spaces after a print()."""
    return re.findall(r"^ *print\(.*\)  # (.+)$", block, re.MULTILINE)


@pytest.mark.parametrize("line, block", examples())
def test_example(line: int, block: str, namespace: dict[str, Any]) -> None:
    if "to_pandas" in block and not importlib.util.find_spec("pandas"):
        pytest.skip("pandas is missing")
    printed = io.StringIO()
    code = compile("\n" * (line - 1) + block.replace('"5min"', '"8s"'), str(PAGE), "exec")
    with contextlib.redirect_stdout(printed):
        exec(code, namespace)
    lines = printed.getvalue().splitlines()
    for expected in expected_lines(block):
        assert expected in lines, f"{PAGE.name}, example at line {line}: expected {expected!r}, got {lines}"


def test_page_has_examples() -> None:
    blocks = [example.values[1] for example in examples()]
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
