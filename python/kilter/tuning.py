"""Tuning networks, and the records that tuning keeps."""
from __future__ import annotations

import json
import os
import tempfile
from typing import Any, Callable, Iterator, Mapping

from ._commands import run, words_of
from .measure import Record, network_of
from .progress import ProgressLine

__all__ = ["Records", "TuneResult", "tune"]


class TuneResult(Record):
    """What a tuning run found: default_ms, tuned_ms, ratio (value, low, high), trials, tasks, stopped_because, ...

    `network` is the network compiled with the run's records.
    """

    def __init__(self, data: dict[str, Any], html: str, network: Any):
        super().__init__(data)
        self._html = html
        self.network = network

    def html(self, path: str | os.PathLike) -> None:
        """Writes an HTML report of the run: one file that works offline."""
        with open(path, "w", encoding="utf-8") as file:
            file.write(self._html)

    def __repr__(self) -> str:
        return self.text

    @property
    def text(self) -> str:
        """The summary that `kilter tune` prints."""
        return self.__dict__["_summary"]


def tune(model: Any, time: str | float | None = None, *, progress: bool | Callable[[Mapping[str, Any]], Any] = True,
         **options: Any) -> TuneResult:
    """Finds faster schedules for a network by measuring them where they run, and keeps the plan that wins.

    model: a Network, or what compile() accepts except compiled files. time: the budget, such as "5min" or 90 (seconds);
    by default 5 minutes, or no limit if trials or early_stopping ends the search. progress: True shows a line on a
    terminal or in a notebook, False nothing; a function is called with each event as a mapping (doc/tuning.md lists
    them) and ends the search early by returning True. options: those of `kilter tune` (trials, searcher, records, ops,
    until, ...) and of compile().

    Ctrl-C ends the search; the plan found so far is then raced for a few seconds and returned. A second Ctrl-C raises
    KeyboardInterrupt, and the previously accepted plan stays. Trials are kept in the records in any case; running tune
    again continues.
    """
    network, options = network_of(model, options)
    if time is not None:
        options["time"] = time if isinstance(time, str) else f"{time:g}s"
    records = options.get("records", network._options.get("records", "default"))
    shown = ProgressLine(f"tune {network.name}") if progress is True else None
    watcher = progress if callable(progress) else None
    with tempfile.TemporaryDirectory(prefix="kilter-") as folder:
        report, page, events = (os.path.join(folder, name) for name in ("report.json", "report.html", "events"))
        words = ["tune", *network._command_words(options), "--json", report, "--html", page]
        if shown or watcher:
            _run_watched(words, shown, watcher)
            summary = ""
        else:
            summary = run(words)
        with open(report, encoding="utf-8") as file:
            data = json.load(file)
        with open(page, encoding="utf-8") as file:
            html = file.read()
    result = TuneResult(data, html, network.with_options(records=records) if records != "none" else network)
    result.__dict__["_summary"] = summary.strip() or _summary(data)
    return result


def _run_watched(words: list[str], shown: ProgressLine | None, watcher: Callable[[Mapping[str, Any]], Any] | None) -> None:
    """Runs `tune` and passes on its events as they happen."""
    def line(text: str) -> None:
        event = json.loads(text)
        if shown:
            shown.event(event)
        if watcher and watcher(event) is True:
            raise StopSearch

    try:
        run([*words, "--events", "-"], shown.text if shown else None, line)
    except (KeyboardInterrupt, StopSearch):
        if not os.path.exists(words[words.index("--json") + 1]):
            raise  # the search has not come to its result
    finally:
        if shown:
            shown.close()


class StopSearch(Exception):
    """Raised inside to end a search early."""


def _summary(data: Mapping[str, Any]) -> str:
    ratio = data["ratio"]
    return (f"before {data['default_ms']['value']:.4f} ms, after {data['tuned_ms']['value']:.4f} ms; after / before "
            f"{ratio['value']:.4f} ({ratio['low']:.4f} to {ratio['high']:.4f}); {data['trials']} trials, stopped: "
            f"{data['stopped_because']}")


class Records:
    """A file of tuning records, or the default one. Iterating gives the records as dictionaries."""

    def __init__(self, path: str | os.PathLike | None = None):
        self.path = None if path is None else os.fspath(path)

    def _words(self, action: str, *words: str, **options: Any) -> list[str]:
        given = {} if self.path is None else {"records": self.path}
        return ["records", action, *words, *words_of({**given, **options})]

    def list(self, **options: Any) -> list[dict[str, Any]]:
        """Returns the records. options: the filters of `kilter records list`."""
        return json.loads(run([*self._words("list", **options), "--json", "-"]))

    def best(self, **options: Any) -> list[dict[str, Any]]:
        """Returns the best record of each problem, target, device and number of threads."""
        return json.loads(run([*self._words("best", **options), "--json", "-"]))

    def export(self, path: str | os.PathLike, **options: Any) -> str:
        """Writes the records to a file that other tools read; returns what `kilter records export` prints."""
        return run(self._words("export", os.fspath(path), **options))

    def import_(self, path: str | os.PathLike, **options: Any) -> str:
        """Reads records from a file, such as a log of AutoTVM; returns what `kilter records import` prints."""
        return run(self._words("import", os.fspath(path), **options))

    def to_pandas(self, **options: Any) -> Any:
        """Returns the records as a pandas.DataFrame."""
        import pandas
        return pandas.json_normalize(self.list(**options), sep="_")

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self.list())

    def __len__(self) -> int:
        return len(self.list())

    def __repr__(self) -> str:
        return f"<kilter.Records {self.path or 'default'}>"
