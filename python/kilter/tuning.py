"""Tuning networks, and the records that tuning keeps."""
from __future__ import annotations

import json
import os
import tempfile
from typing import Any, Callable, Iterator, Mapping

from ._commands import read_text, run, words_of, write_text
from .measure import Record, network_of, undisturbed_figure
from .progress import ProgressLine

__all__ = ["Records", "TuneResult", "tune"]


class TuneResult(Record):
    """What a tuning run found: default_ms, tuned_ms, ratio (value, low, high), default_memory, tuned_memory (bytes,
    weights, arena, scratch, code), bytes_ratio, trials, tasks, stopped_because, ...

    `network` is the network compiled with the run's records.
    """

    def __init__(self, data: dict[str, Any], html: str, network: Any):
        """data: what `kilter tune --json` writes. html: its report. network: the network with the run's records."""
        super().__init__(data)
        self._html = html
        self.network = network

    def html(self, path: str | os.PathLike) -> None:
        """Writes an HTML report of the run: one file that works offline."""
        write_text(path, self._html)

    @property
    def before_ms(self) -> float:
        """The time of a run with the default schedules, in milliseconds, measured alternately with `after_ms`."""
        return self.default_ms["value"]

    @property
    def after_ms(self) -> float:
        """The time of a run with the plan that the records now hold, in milliseconds."""
        return self.tuned_ms["value"]

    @property
    def before_bytes(self) -> int:
        """The memory of the network with the default schedules: packed weights, arena, temporaries and machine code."""
        return self.default_memory["bytes"]

    @property
    def after_bytes(self) -> int:
        """The memory of the network with the plan that the records now hold."""
        return self.tuned_memory["bytes"]

    @property
    def accepted(self) -> bool:
        """Whether the records now hold a plan that beat the default schedules in paired whole runs: it was faster or,
        if memory has a weight in the objective, had a lower score."""
        return not self.same_plan

    def untuned_layers(self) -> list[str]:
        """Returns the names of the layers that this run did not tune: `ops` leaves them out, the time was up before
        their turn, or they have only one legal schedule."""
        tried = {name for task in self.tasks if task["tried"] > 0 for name in task["nodes"]}
        return [name for task in self.network.tasks() for name in task["nodes"] if name not in tried]

    @property
    def text(self) -> str:
        """The outcome in a few lines: the trials, the times before and after, and a warning if the machine was busy."""
        return _summary(self)

    def __repr__(self) -> str:
        return self.text


def tune(model: Any, time: str | float | None = None, *, objective: str = "latency",
         progress: bool | Callable[[Mapping[str, Any]], Any] = True, **options: Any) -> TuneResult:
    """Finds faster or smaller schedules for a network by measuring them where they run, and keeps the plan that wins.

    model: a Network, or what compile() accepts except compiled files. time: the budget, such as "5min" or 90 (seconds);
    by default 5 minutes, or no limit if trials or early_stopping ends the search. objective: what to minimise:
    "latency", "memory" (packed weights, arena, temporaries and code), or both with weights in percent, such as
    "latency:80,memory:20". progress: True shows a line on a terminal or in a notebook, and elsewhere logs one every ten
    seconds (logger "kilter", level INFO), False nothing; a function is called with each event as a mapping
    (doc/tuning.md lists them) and ends the search early by returning True. options: those of `kilter tune` (trials,
    searcher, records, ops, until, ...) and of compile().

    The compiled parts of a network with control flow are tuned together, and so are the shapes that shapes= declares
    (up to eight); each keeps a plan of its own.

    Ctrl-C ends the search; the plan found so far is then raced for a few seconds and returned. A second Ctrl-C raises
    KeyboardInterrupt, and the previously accepted plan stays. Trials are kept in the records in any case; running tune
    again continues.
    """
    network, options = network_of(model, options)
    if time is not None:
        options["time"] = time if isinstance(time, str) else f"{time:g}s"
    options["objective"] = objective
    records = options.get("records", network._options.get("records", "default"))
    shown = ProgressLine(f"tune {network.name}") if progress is True else None
    watcher = progress if callable(progress) else None
    with tempfile.TemporaryDirectory(prefix="kilter-") as folder:
        report, page = os.path.join(folder, "report.json"), os.path.join(folder, "report.html")
        words = ["tune", *network._command_words(options), "--json", report, "--html", page]
        if shown or watcher:
            _run_watched(words, report, shown, watcher)
        else:
            run(words)
        data, html = json.loads(read_text(report)), read_text(page)
    return TuneResult(data, html, network.with_options(records=records) if records != "none" else network)


def _run_watched(words: list[str], report: str, shown: ProgressLine | None,
                 watcher: Callable[[Mapping[str, Any]], Any] | None) -> None:
    """Runs `tune`, which writes `report` at its end, and passes on its events as they happen."""
    def line(text: str) -> None:
        event = json.loads(text)
        if shown:
            shown.event(event)
        if watcher and watcher(event) is True:
            raise StopSearch

    try:
        run([*words, "--events", "-"], shown.text if shown else None, line)
    except (KeyboardInterrupt, StopSearch):
        if not os.path.exists(report):
            raise  # the search has not produced its result
    finally:
        if shown:
            shown.close()


class StopSearch(Exception):
    """Raised inside to end a search early."""


def _summary(result: TuneResult) -> str:
    lines = [f"{result.model}: {result.trials} trials in {result.seconds:.1f} s, {result.failures} failed; stopped: "
             f"{result.stopped_because}"]
    if result.accepted:
        ratio = result.ratio
        lines.append(f"before {result.before_ms:.4f} ms, after {result.after_ms:.4f} ms; after / before "
                     f"{ratio['value']:.4f} (95 %: {ratio['low']:.4f} to {ratio['high']:.4f})")
    else:
        better = "faster" if result.objective == "latency" else f"better by {result.objective}"
        undecided = result.to_dict().get("undecided")
        why = undecided or f"nothing that was tried is {better}"
        then = "; end other programs and tune again" if undecided else ""
        lines.append(f"before {result.before_ms:.4f} ms; {why}: the default plan stays{then}")
    if result.objective != "latency":
        score = result.score
        lines.append(f"memory before {result.before_bytes / 1e6:.3f} MB, after {result.after_bytes / 1e6:.3f} MB; after "
                     f"/ before {result.bytes_ratio:.4f}; score by {result.objective} {score['value']:.4f} "
                     f"({score['low']:.4f} to {score['high']:.4f})")
    if not undisturbed_figure(result.conditions):
        lines.append(result.conditions["quiet_text"])
    return "\n".join(lines)


class Records:
    """A file of tuning records, a database of a server ("postgresql://USER@HOST/DATABASE"), or the default file.
    Iterating gives the records as dictionaries."""

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
        """Writes the records to a file: JSON lines if its name ends in .jsonl or .json, otherwise a database, and the
        accepted plans next to it. options: the filters of `kilter records export`. Returns what the command prints."""
        return run(self._words("export", output=path, **options))

    def import_(self, path: str | os.PathLike, **options: Any) -> str:
        """Reads records from a file, such as a log of AutoTVM; returns what `kilter records import` prints."""
        return run(self._words("import", os.fspath(path), **options))

    def merge(self, path: str | os.PathLike, **options: Any) -> str:
        """Adds the records of a database or a file of JSON lines that are not here yet, and the accepted plans next to
        them; returns what `kilter records merge` prints."""
        return run(self._words("merge", os.fspath(path), **options))

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
