"""Writes examples/notebooks from the scripts in this folder: python examples/python/make_notebooks.py.

A notebook contains a script's docstring as text, its imports and functions as cells, the parameters of main() as a cell
of variables, and the body of main() cut at its comments, which become text.
"""
from __future__ import annotations

import ast
import json
import pathlib
import textwrap
from typing import Any, Mapping

HERE = pathlib.Path(__file__).resolve().parent
NOTEBOOKS = HERE.parent / "notebooks"


def scripts() -> list[pathlib.Path]:
    """Returns the scripts that become notebooks: those that have a main() for run_main()."""
    return [path for path in sorted(HERE.glob("*.py")) if "\n    run_main(main)\n" in path.read_text(encoding="utf-8")]


def notebook_of(script: pathlib.Path, parameters: Mapping[str, Any] = {}) -> dict[str, Any]:
    """Returns a script as a notebook in the form of nbformat 4.5. `parameters` replace defaults of main()."""
    text = script.read_text(encoding="utf-8")
    module = ast.parse(text)
    lines = text.splitlines()
    docstring, *body = module.body
    cells = [_text_cell("# " + ast.get_docstring(module).replace("\n", "\n\n", 1).replace("\n\n\n", "\n\n"))]
    imports = [node for node in body if isinstance(node, (ast.Import, ast.ImportFrom))]
    cells.append(_code_cell(_imports(lines, imports)))
    for node, before in zip(body, [docstring, *body]):
        if isinstance(node, ast.FunctionDef) and node.name == "main":
            cells.append(_code_cell(_parameters(node, parameters)))
            first = node.body[0].lineno
            cells += _body_cells(lines[first - 1 - _comments_above(lines, first):node.end_lineno])
        elif isinstance(node, (ast.FunctionDef, ast.Assign)):
            cells.append(_code_cell("\n".join(lines[before.end_lineno:node.end_lineno])))
    for number, cell in enumerate(cells):
        cell["id"] = f"cell-{number}"
    kernel = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
    return {"cells": cells, "metadata": kernel, "nbformat": 4, "nbformat_minor": 5}


def _imports(lines: list[str], imports: list[Any]) -> str:
    """Returns the imports; those from helpers.py after its folder, and without what only scripts need."""
    kept, helpers = [], []
    for node in imports:
        if isinstance(node, ast.ImportFrom) and node.module == "helpers":
            helpers = [name.name for name in node.names if name.name != "run_main"]
        elif not (isinstance(node, ast.ImportFrom) and node.module == "__future__"):
            kept.append("\n".join(lines[node.lineno - 1:node.end_lineno]))
    if helpers:
        if "import sys" not in kept:
            kept.insert(0, "import sys")
        kept += ["", 'sys.path.insert(0, "../python")', f"from helpers import {', '.join(helpers)}"]
    return "\n".join(kept)


def _parameters(main: ast.FunctionDef, given: Mapping[str, Any]) -> str:
    """Returns assignments for the parameters of main()."""
    defaults = {argument.arg: ast.literal_eval(value) for argument, value in zip(main.args.args, main.args.defaults)}
    unknown = set(given) - set(defaults)
    if unknown:
        raise ValueError(f"no parameter {', '.join(unknown)}; main() has {', '.join(defaults)}")
    return "\n".join(f"{name} = {given.get(name, value)!r}" for name, value in defaults.items())


def _comments_above(lines: list[str], line: int) -> int:
    """Returns how many comment lines are directly above a line, which is counted from 1."""
    count = 0
    while lines[line - 2 - count].lstrip().startswith("#"):
        count += 1
    return count


def _body_cells(lines: list[str]) -> list[dict[str, Any]]:
    """Returns cells for the lines of a body: text for comments that stand alone, code for what follows them."""
    cells: list[dict[str, Any]] = []
    for part in textwrap.dedent("\n".join(lines)).split("\n\n"):
        comment = []
        rest = part.splitlines()
        while rest and rest[0].startswith("# "):
            comment.append(rest.pop(0)[2:])
        if comment:
            cells.append(_text_cell(" ".join(comment)))
        cells.append(_code_cell("\n".join(rest)))
    return cells


def _text_cell(text: str) -> dict[str, Any]:
    return {"cell_type": "markdown", "id": "", "metadata": {}, "source": text.splitlines(keepends=True)}


def _code_cell(text: str) -> dict[str, Any]:
    return {"cell_type": "code", "execution_count": None, "id": "", "metadata": {}, "outputs": [],
            "source": text.strip().splitlines(keepends=True)}


def text_of(notebook: Mapping[str, Any]) -> str:
    """Returns the text of a notebook's file."""
    return json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"


def main() -> None:
    NOTEBOOKS.mkdir(exist_ok=True)
    for script in scripts():
        (NOTEBOOKS / f"{script.stem}.ipynb").write_text(text_of(notebook_of(script)), encoding="utf-8")


if __name__ == "__main__":
    main()
