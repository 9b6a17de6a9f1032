"""Translates messages of the compiler, which name options of the command line, to the terms of the Python package."""
from __future__ import annotations

import re
import shlex

__all__ = ["with_arguments"]

# A command to type in a shell, which stays unchanged.
_COMMAND = re.compile(r"(`kilter [^`]*`)")
# One word after an option, quoted for a shell or not.
_WORD = r"(?:'[^']*'|\\.|[^\s`'\":;,\\])+"
_INPUTS = re.compile(rf"(?<![\w-])--input {_WORD}(?: --input {_WORD})*")
_OPTION = re.compile(r"(?<![\w-])--([a-z][a-z0-9-]*)")
_SHAPE = re.compile(r"(scalar|\d+(x\d+)*)\Z")


def with_arguments(message: str) -> str:
    """Replaces options with arguments: --keep-float with keep_float, and `--input x=1x3` with `shapes={'x': (1, 3)}`."""
    return "".join(part if part.startswith("`kilter ") else _OPTION.sub(_name, _INPUTS.sub(_inputs, part))
                   for part in _COMMAND.split(message))


def _name(option: re.Match[str]) -> str:
    return "shapes" if option[1] == "input" else option[1].replace("-", "_")


def _inputs(found: re.Match[str]) -> str:
    words = [word for word in shlex.split(found[0]) if word != "--input"]
    values = dict(word.rsplit("=", 1) for word in words if "=" in word)
    if len(values) != len(words):
        return found[0]  # not assignments, or several for one input
    if all(_SHAPE.match(value) for value in values.values()):
        return f"shapes={ {name: _dims(value) for name, value in values.items()} !r}"
    return f"input={values!r}"


def _dims(shape: str) -> tuple[int, ...]:
    return () if shape == "scalar" else tuple(int(size) for size in shape.split("x"))
