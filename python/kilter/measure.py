"""Times, profiles, explanations and comparisons of networks: what the commands of the same names measure."""
from __future__ import annotations

import html as _html
import json
import os
import tempfile
from typing import Any, Iterator, Mapping

from ._commands import json_of, read_text, report_of, run, words_of, write_text
from .errors import MeasurementError, UsageError
from .network import Network, Progress, compile as _compile

__all__ = ["Bench", "Comparison", "Explanation", "Profile", "Timing", "bench", "compare", "explain", "profile", "tasks",
           "time_tasks"]

def network_of(model: Any, options: dict[str, Any]) -> tuple[Network, dict[str, Any]]:
    """Returns the network to measure, and the options that are left for the command."""
    if isinstance(model, Network):
        return model, options
    shapes = options.pop("shapes", None)
    return _compile(model, shapes=shapes), options


class Record(Mapping):
    """What a command measured: a mapping of the fields of its --json output, which are attributes as well."""

    def __init__(self, data: dict[str, Any]):
        self._data = data

    def __getitem__(self, key: str) -> Any:
        return self._data[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._data)

    def __len__(self) -> int:
        return len(self._data)

    def keys(self) -> Any:
        """The names of the fields."""
        return self._data.keys()

    def values(self) -> Any:
        """The fields without their names."""
        return self._data.values()

    def items(self) -> Any:
        """The names and values of the fields."""
        return self._data.items()

    def __eq__(self, other: Any) -> bool:
        return type(other) is type(self) and self._data == other._data

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # requested before there are fields, for example by copy and pickle
            raise AttributeError(f"{type(self).__name__} has no attribute '{name}'")
        try:
            return self._data[name]
        except KeyError:
            fields = ", ".join(self._data)
            raise AttributeError(f"{type(self).__name__} has no field '{name}'; it has {fields}") from None

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self._data]

    def to_dict(self) -> dict[str, Any]:
        """Returns the fields as a dictionary of JSON values."""
        return self._data


def undisturbed_figure(conditions: Mapping[str, Any]) -> bool:
    """Returns whether all disturbed samples were left out of the figure."""
    return conditions["quiet"] in ("quiet", "slightly disturbed")


class Timing(Record):
    """Times of a network's runs in milliseconds: samples_ms, mean_ms, std_ms, median_ms, min_ms, estimate_ms (the mean
    of the middle half of the undisturbed samples); number (runs in a sample), disturbed (samples), model, threads,
    target, records."""

    def __repr__(self) -> str:
        return (f"<kilter.Timing: {self.estimate_ms:.4f} ms; mean {self.mean_ms:.4f} (std dev {self.std_ms:.4f}), "
                f"median {self.median_ms:.4f}, min {self.min_ms:.4f}; {len(self.samples_ms)} measurements of "
                f"{self.number}>")


class Bench(Record):
    """The result of bench(): estimate_ms, mean_ms, std_dev_ms, median_ms, min_ms, p90_ms, conditions, ..."""

    def __repr__(self) -> str:
        threads = "1 thread" if self.threads == 1 else f"{self.threads} threads"
        return (f"<kilter.Bench {self.model!r}: {self.estimate_ms:.4f} ms on {threads} ({self.target}); "
                f"{self.conditions['quiet_text']}>")


class Profile(Record):
    """Where the time of a network goes: `rows`, one mapping for each layer, which add up to end_to_end_ms.

    Iterating over a profile gives its rows; len() counts them.
    """

    def __init__(self, data: dict[str, Any], files: Mapping[str, str] | None = None):
        super().__init__(data)
        self._files = files or {}

    def __iter__(self) -> Iterator[Any]:
        return iter(self._data["rows"])

    def __len__(self) -> int:
        return len(self._data["rows"])

    @property
    def sum_ms(self) -> float:
        """Kernels, gaps and barriers together, in milliseconds."""
        return self.kernels_ms + self.gaps_ms + self.barriers_ms

    @property
    def warnings(self) -> list[str]:
        """Reasons why this profile may be inaccurate, one sentence each: a busy machine, threads that got no CPU, rows
        that do not add up to the whole, layers for which the tuning records have no schedule. Empty if there are
        none."""
        told = [] if undisturbed_figure(self.conditions) else [self.conditions["quiet_text"]]
        if absent := self.conditions.get("absent_threads"):
            told.append(absent)
        if self.sum_over_end_to_end["agreement"] != "agree":
            ratio = self.sum_over_end_to_end
            told.append(f"the rows add up to {ratio['value']:.3f} of the end-to-end time (95 %: {ratio['low']:.3f} to "
                        f"{ratio['high']:.3f})")
        told += [self.bounds_beaten] if self.bounds_beaten else []
        left = self.default_layers()
        if self.conditions["records"] != "none" and left:
            told.append(f"{len(left)} layers keep the default schedule, as the records have none for them: "
                        f"{_listed(left)}")
        return told

    def default_layers(self) -> list[str]:
        """Returns the names of the layers whose schedule is the analytic model's default: without tuning records all
        layers, otherwise those for which the records have nothing faster."""
        return [row["name"] for row in self if row["kind"] == "layer" and row["schedule_from"] == "default"]

    def check(self, timing: Mapping[str, Any] | None = None, tolerance: float = 0.03) -> None:
        """Raises MeasurementError if the figures contradict each other.

        The rows must add up to the end-to-end time within `tolerance`, a fraction: the 95 % interval of their ratio
        must come that close to 1. A `timing` (of bench(), timer() or benchmark()) must have the same number of threads,
        target and records, and must agree: a measurement says that the time of a run is between its best run and its
        estimate, and the two ranges must overlap or be within `tolerance` of each other.
        """
        ratio = self.sum_over_end_to_end
        if ratio["low"] > 1 + tolerance or ratio["high"] < 1 - tolerance:
            raise MeasurementError(
                f"{self.model}: the rows add up to {self.sum_ms:.4f} ms, but a run takes {self.end_to_end_ms:.4f} ms "
                f"end to end: ratio {ratio['value']:.3f} (95 %: {ratio['low']:.3f} to {ratio['high']:.3f}), expected 1 "
                f"within {tolerance:.1%}{self._excuse()}")
        if timing is not None:
            self._check_conditions(timing)
            self._check_time(timing, tolerance)

    def _excuse(self) -> str:
        """Returns a reason to measure again, or ""."""
        return "" if undisturbed_figure(self.conditions) else f" ({self.conditions['quiet_text']})"

    def _check_conditions(self, timing: Mapping[str, Any]) -> None:
        here = {**self.conditions, "threads": self.threads}
        there = {**timing.get("conditions", {}), **timing}
        differ = [f"{key}: {here[key]} here, {there[key] or 'none'} in the timing"
                  for key in ("threads", "target", "records") if key in there and (there[key] or "none") != here[key]]
        if differ:
            raise MeasurementError(f"{self.model}: the profile and the timing were measured under different "
                                   f"conditions: {'; '.join(differ)}; expected the same")

    def _check_time(self, timing: Mapping[str, Any], tolerance: float) -> None:
        low, high = self.conditions["best_ms"], self.end_to_end_ms
        other_low, other_high = timing["min_ms"], timing["estimate_ms"]
        if other_low > high * (1 + tolerance) or low > other_high * (1 + tolerance):
            raise MeasurementError(f"{self.model}: the profile says {low:.4f} to {high:.4f} ms a run, the timing "
                                   f"{other_low:.4f} to {other_high:.4f} ms; expected ranges that overlap or are at "
                                   f"most {tolerance:.1%} apart{self._excuse()}")

    def to_pandas(self) -> Any:
        """Returns the rows as a pandas.DataFrame."""
        import pandas
        return pandas.json_normalize(self._data["rows"], sep="_")

    def html(self, path: str | os.PathLike) -> None:
        """Writes an HTML report: one file that works offline."""
        write_text(path, self._text("html"))

    def trace(self, path: str | os.PathLike) -> None:
        """Writes a trace of a typical run for ui.perfetto.dev or chrome://tracing."""
        write_text(path, self._text("trace"))

    def _text(self, kind: str) -> str:
        if kind not in self._files:
            raise UsageError(f"this profile has no {kind}: it was made from a dictionary")
        return self._files[kind]

    def table(self, top: int = 0) -> str:
        """Returns the rows as text, the slowest `top` of them, or all in order of execution if it is 0."""
        rows = sorted(self, key=lambda r: -r["duration_ms"])[:top] if top else list(self)
        lines = [f"{'layer':<40} {'ops':<24} {'ms':>9} {'%':>6} {'of bound':>8}"]
        for r in rows:
            of = r.get("share_of_bound") or 0
            lines.append(f"{r['name'][:40]:<40} {r['ops'][:24]:<24} {r['duration_ms']:>9.4f} {r['percent']:>6.2f} "
                         f"{of:>8.0%}")
        lines.append(f"sum {self.sum_ms:.4f} ms, end to end {self.end_to_end_ms:.4f} ms; "
                     f"{self.conditions['quiet_text']}")
        return "\n".join(lines)

    def __repr__(self) -> str:
        return self.table()

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><td>{_html.escape(r['name'])}</td><td>{_html.escape(r['ops'])}</td><td>{r['duration_ms']:.4f}</td>"
            f"<td>{r['percent']:.2f}</td><td>{(r.get('share_of_bound') or 0):.0%}</td>"
            f"<td>{_html.escape(r['schedule'])}</td></tr>" for r in self)
        heads = "".join(f"<th>{head}</th>" for head in ("layer", "operators", "ms", "%", "of its bound", "schedule"))
        return (f"<p>{_html.escape(self.model)}: {self.end_to_end_ms:.4f} ms end to end, rows add up to "
                f"{self.sum_ms:.4f} ms; {_html.escape(self.conditions['quiet_text'])}</p>"
                f"<table><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table>")


class Explanation(Record):
    """Why a network takes as long as it does: `findings`, the most promising first, and the profile on which they are
    based. Printed, it is the text of `kilter explain`."""

    def __init__(self, data: dict[str, Any], text: str, html: str):
        super().__init__(data)
        self._text, self._html = text, html

    @property
    def findings(self) -> list[dict[str, Any]]:
        """What could be gained: cause, evidence, advice, action (a command), gain_ms, how ("measured", "predicted")."""
        return self.explain["findings"]

    def html(self, path: str | os.PathLike) -> None:
        """Writes an HTML report: the profile's and this explanation, in one file."""
        write_text(path, self._html)

    def __repr__(self) -> str:
        return self._text


class Comparison(Record):
    """Two networks, measured alternately: a, b, ratio (time of b over that of a: value, low, high), layers, ...
    Printed, it is the text of `kilter compare`, which begins with the conditions that differ."""

    def __init__(self, data: dict[str, Any], text: str):
        super().__init__(data)
        self._text = text

    def __repr__(self) -> str:
        return self._text


def _listed(names: list[str], most: int = 5) -> str:
    """Returns the first names, and how many others there are."""
    others = len(names) - most
    return ", ".join(names[:most]) + (f" and {others} others" if others > 0 else "")


def bench(model: Any, *, progress: Progress | None = None, **options: Any) -> Bench:
    """Times a network from the caller's inputs to the caller's outputs, on seeded random inputs.

    model: a Network, or what compile() accepts. options: those of `kilter bench` (seconds, number, repeat,
    min_repeat_ms, flush) and of compile(). Times are in milliseconds.
    """
    network, options = network_of(model, options)
    return Bench(json_of(["bench", *network._command_words(options)], progress))


def profile(model: Any, *, progress: Progress | None = None, **options: Any) -> Profile:
    """Shows where the time of a network goes, in rows that add up to the end-to-end time.

    model: a Network, or what compile() accepts. options: those of `kilter profile` (seconds, counters) and of
    compile().
    """
    network, options = network_of(model, options)
    with tempfile.TemporaryDirectory(prefix="kilter-") as folder:
        paths = {kind: os.path.join(folder, kind) for kind in ("json", "html", "trace")}
        words = [word for kind, path in paths.items() for word in (f"--{kind}", path)]
        run(["profile", *network._command_words(options), *words], progress)
        texts = {kind: read_text(path) for kind, path in paths.items()}
    return Profile(json.loads(texts.pop("json")), texts)


def explain(model: Any, *, progress: Progress | None = None, **options: Any) -> Explanation:
    """Says why a network takes as long as it does, what the machine would allow, and what to do next.

    model: a Network, or what compile() accepts. options: those of `kilter explain` (node, seconds, against) and of
    compile().
    """
    network, options = network_of(model, options)
    with tempfile.TemporaryDirectory(prefix="kilter-") as folder:
        report, page = os.path.join(folder, "report.json"), os.path.join(folder, "report.html")
        words = [*network._command_words(options), "--json", report, "--html", page]
        text = run(["explain", *words], progress)
        return Explanation(report_of(report, words), text.removesuffix(f"report: {page}\n").rstrip(), read_text(page))


def compare(a: Any, b: Any = None, *, progress: Progress | None = None, **options: Any) -> Comparison:
    """Measures two networks alternately, and reports the ratio of their times with its 95 % interval.

    a, b: Networks, what compile() accepts, or "onnxruntime:MODEL" and "openvino:MODEL". b defaults to a, which needs
    options of one side, such as threads_a=1, threads_b=2. If only one of them is a Network, the other runs on as many
    threads. options: those of `kilter compare` and of compile().
    """
    words, own = [], []
    for what, other, side in ((a, b, "a"), (b, a, "b")):
        if what is None:
            continue
        if isinstance(what, Network):
            settings = what._options
        else:
            threads = other._options.get("threads") if isinstance(other, Network) else None
            settings = {} if {"threads", f"threads_{side}"} & options.keys() else {"threads": threads}
            if not (isinstance(what, str) and what.split(":")[0] in ("onnxruntime", "openvino")):
                what = _compile(what)
        words.append(what._source.word if isinstance(what, Network) else what)
        own += [f"{word}-{side}" if word.startswith("--") else word for word in words_of(settings)]
    with tempfile.TemporaryDirectory(prefix="kilter-") as folder:
        report = os.path.join(folder, "report.json")
        text = run(["compare", *words, *own, *words_of(options), "--json", report], progress)
        return Comparison(report_of(report, words), text.rstrip())


def tasks(model: Any, *, progress: Progress | None = None, **options: Any) -> list[dict[str, Any]]:
    """Returns the parts of a network that can be tuned, as `kilter tasks` lists them: task, problem, schedule, nodes,
    share of the time, flops, points (legal schedules), ..."""
    network, options = network_of(model, options)
    return json_of(["tasks", *network._command_words(options)], progress)["tasks"]


def time_tasks(model: Any, *, progress: Progress | None = None, **options: Any) -> list[dict[str, Any]]:
    """Times the layers of a network one by one, as `kilter time` does: under the conditions that they have in the
    network.

    model: a Network, or what compile() accepts. options: those of `kilter time` (node, ops, weights, number, repeat,
    in_network) and of compile(). Returns one mapping for each layer: name, problem, schedule, estimate_ms (weights that
    come from where the network finds them, unless weights="warm" or "flush"), and with in_network=True also
    in_network_ms (as in a profile) and warm_ms (the layer in a loop, with its weights in the cache).
    """
    network, options = network_of(model, options)
    return json_of(["time", *network._command_words(options)], progress)
