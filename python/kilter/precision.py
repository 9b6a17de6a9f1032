"""Choosing the precision of a network: bf16 or fp16, and the layers that stay in f32."""
from __future__ import annotations

import json
import os
import pathlib
import re
import tempfile
from typing import Any, Iterable, Mapping

import numpy as np

from ._commands import read_text, run, words_of
from .errors import UsageError
from .measure import Record, network_of
from .network import Network, Progress

__all__ = ["PrecisionChoice", "choose_precision"]


class PrecisionChoice(Record):
    """What `kilter precision --json` writes: model, target, threads, samples, tolerance, mixes (each with its precision,
    keep_float, error, ms, of_f32, within, chosen) and precisions (each with the error and the times of its layers).

    `network` is the network compiled with the chosen mix.
    """

    def __init__(self, data: dict[str, Any], network: Network):
        super().__init__(data)
        self.network = network

    @property
    def chosen(self) -> dict[str, Any]:
        """The mix that was chosen: the fastest one within the tolerance."""
        return next(mix for mix in self.mixes if mix["chosen"])

    @property
    def precision(self) -> str:
        """The chosen precision: "declared", "bf16" or "fp16"."""
        return self.chosen["precision"]

    @property
    def keep_float(self) -> list[str]:
        """The nodes that the chosen mix keeps in f32."""
        return self.chosen["keep_float"]

    def __repr__(self) -> str:
        mix = self.chosen
        return (f"<kilter.PrecisionChoice: {mix['precision']}, {mix['layers_in_f32']} of {mix['layers']} layers in f32; "
                f"error {mix['error']:.1e} of {self.tolerance:g}, {mix['of_f32']['value']:.3f} of the time>")


def choose_precision(model: Any, samples: str | os.PathLike | Iterable[Any], tolerance: float, *,
                     layer_plan: str | os.PathLike | None = None, progress: Progress | None = None,
                     **options: Any) -> PrecisionChoice:
    """Finds the fastest mix of bf16 or fp16 with f32 whose outputs stay within a tolerance of f32.

    model: a Network, or what compile() accepts except compiled files. samples: inputs from real use, each an array, a
    sequence of arrays or a mapping of names to arrays; or a folder as `kilter precision` reads it. tolerance: the
    largest difference of an output that is allowed, relative to the output's largest magnitude. layer_plan: a file to
    write, for the option layer_plan of compile(). options: those of `kilter precision` (seconds) and of compile().
    """
    network, options = network_of(model, options)
    with tempfile.TemporaryDirectory(prefix="kilter-") as folder:
        if not isinstance(samples, (str, os.PathLike)):
            made = pathlib.Path(folder) / "samples"
            _write_samples(made, network, samples)
            samples = made
        report = os.path.join(folder, "report.json")
        words = ["precision", *network._command_words(options),
                 *words_of({"samples": samples, "tolerance": tolerance, "out": layer_plan, "json": report})]
        run(words, progress)
        data = json.loads(read_text(report))
    chosen = next(mix for mix in data["mixes"] if mix["chosen"])
    return PrecisionChoice(data, network.with_options(precision=chosen["precision"], keep_float=chosen["keep_float"]))


def _write_samples(folder: pathlib.Path, network: Network, samples: Iterable[Any]) -> None:
    """Writes samples as files: one for each sample of a network with one input, otherwise a folder for each."""
    folder.mkdir()
    names = [port.name for port in network.inputs]
    odd = [name for name in names if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]*", name)]
    if len(names) > 1 and odd:
        raise UsageError(f"samples: the name of input '{odd[0]}' is not a legal file name; give a folder of samples")
    for number, sample in enumerate(samples):
        named = sample if isinstance(sample, Mapping) else dict(zip(names, sample if len(names) > 1 else [sample]))
        if set(named) != set(names):
            raise UsageError(f"samples: sample {number} has inputs {sorted(named)}; expected {sorted(names)}")
        place = folder / f"{number:06}"
        if len(names) == 1:
            np.save(f"{place}.npy", np.asarray(named[names[0]]))
            continue
        place.mkdir()
        for name, array in named.items():
            np.save(place / f"{name}.npy", np.asarray(array))
