"""Commands of the program, called in this process. Options become words, and output becomes Python objects."""
from __future__ import annotations

import json
import os
import re
from typing import Any, Callable, Iterable, Mapping

from . import _kilter
from .errors import Error, FileError

__all__ = ["command", "device", "ops", "options", "targets", "words_of", "zoo"]


class Unnamed(str):
    """A word for a model that has no name in the file system. `shown` replaces the word in texts for the user."""
    shown: str

    def __new__(cls, word: str, shown: str) -> Unnamed:
        made = super().__new__(cls, word)
        made.shown = shown
        return made


def with_names(text: str, words: Iterable[str]) -> str:
    """Returns a command's output, with the unnamed models among its words as they are shown to the user. Columns stay
    aligned if there is room."""
    for word in words:
        if isinstance(word, Unnamed) and word in text:
            pattern = re.compile(rf"'?{re.escape(word)}'?(?!\d)(  +)?")
            text = pattern.sub(lambda m: word.shown.ljust(len(m[0]) - 2) + "  " if m[1] else word.shown, text)
    return text


def words_of(options: Mapping[str, Any]) -> list[str]:
    """Turns keyword options into words of a command line: layer_threads={"conv1": 2} to --layer-threads conv1=2.

    None and False leave an option out, True makes a flag, lists repeat an option, mappings give NAME=VALUE, and shapes
    in mappings are written as 1x3x224x224. Other values are written as text. An underscore at the end of a name is
    dropped: for_ is --for.
    """
    words: list[str] = []
    for name, value in options.items():
        option = "--" + name.rstrip("_").replace("_", "-")
        if value is None or value is False:
            continue
        if value is True:
            words.append(option)
        elif isinstance(value, Mapping):
            for key, item in value.items():
                words += [option, f"{key}={_value_text(item)}"]
        elif isinstance(value, (list, tuple, set, frozenset)):
            for item in value:
                words += [option, _value_text(item)]
        else:
            words += [option, _value_text(value)]
    return words


def _value_text(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return "x".join(str(int(d)) for d in value)
    return os.fspath(value) if isinstance(value, os.PathLike) else str(value)


def command(*words: str, progress: Callable[[str], None] | None = None,
            line: Callable[[str], None] | None = None) -> str:
    """Runs a command of the program in this process and returns what it prints.

    `words` are those of the command line without the program's name: command("inspect", "zoo:resnet18"). `progress` is
    called with what the command is doing, `line` with each line of its output as it is printed. Ctrl-C ends a search,
    which then reports what it has found; it ends any other command at once. Raises the exception of the error's kind,
    and Error if the command's check failed (exit code 1).
    """
    return run([str(word) for word in words], progress, line, verbatim=True)


def run(words: list[str], progress: Callable[[str], None] | None = None,
        line: Callable[[str], None] | None = None, verbatim: bool = False) -> str:
    """Runs a command as command() does, for words in a list. Messages name Python's arguments in place of options,
    unless `verbatim` says that the caller's user wrote the words."""
    try:
        code, out, messages = _kilter.run_command(words, progress, line, verbatim)
    except Error as error:
        raise type(error)(with_names(str(error), words)) from None
    if code != 0:
        raise Error(with_names(messages.strip() or out.strip() or f"kilter {' '.join(words)}: exit code {code}", words))
    return with_names(out, words)


def read_text(path: str | os.PathLike) -> str:
    """Returns what a command has written to a file."""
    with open(path, encoding="utf-8") as file:
        return file.read()


def report_of(path: str | os.PathLike, words: Iterable[str]) -> Any:
    """Returns the JSON that a command has written to a file, with names as with_names() shows them."""
    return json.loads(read_text(path), object_pairs_hook=lambda pairs: {k: _named(v, words) for k, v in pairs})


def _named(value: Any, words: Iterable[str]) -> Any:
    if isinstance(value, list):
        return [_named(item, words) for item in value]
    return with_names(value, words) if isinstance(value, str) else value


def write_text(path: str | os.PathLike, text: str) -> None:
    """Writes a text to a file. Raises FileError."""
    try:
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise FileError(f"cannot write file '{os.fspath(path)}': {error.strerror}") from error


def json_of(words: Iterable[str], progress: Callable[[str], None] | None = None) -> Any:
    """Runs a command with --json - and returns what it writes."""
    return json.loads(run([*words, "--json", "-"], progress))


def device() -> dict[str, Any]:
    """Returns facts about this machine and its peak performance, as `kilter device` measures it."""
    return json_of(["device"])


def targets() -> str:
    """Returns the list of CPUs that code can be generated for, as `kilter targets` prints it."""
    return run(["targets"])


def zoo() -> str:
    """Returns the list of built-in networks, as `kilter zoo` prints it."""
    return run(["zoo"])


def ops() -> str:
    """Returns the list of operators, as `kilter ops` prints it."""
    return run(["ops"])


def options() -> str:
    """Returns passes, rewrites, templates, searchers and their options, as `kilter options` prints them."""
    return run(["options"])
