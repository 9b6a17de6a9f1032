"""Profiles of sessions as files: a list of trace events, as ONNX Runtime writes them."""
from __future__ import annotations

import json
import os
import tempfile
import threading
import time
from typing import Any, Mapping

import numpy as np

from ..network import Network
from ._environment import CPU

#: how long end_profiling() measures, in seconds, unless the entry "kilter.profile_seconds" says otherwise
SECONDS = "0.3"


class Profiler:
    """Records when a session's runs begin and end, and writes them with Kilter's profile of one run.

    The file is a list of events of the trace format that chrome://tracing and ui.perfetto.dev read; times are in
    microseconds. Events of category "Session" are what happened; those of category "Node" are the layers of one
    typical run, which `kilter profile` measures when profiling ends.
    """

    def __init__(self, prefix: str):
        self._prefix = prefix
        self.start_ns = time.time_ns()
        self._zero = time.perf_counter_ns()
        self._events: list[dict[str, Any]] = []
        #: inputs of the last run, which the profile uses
        self.feeds: Mapping[str, Any] | None = None

    def now(self) -> int:
        """Returns the time for span()."""
        return time.perf_counter_ns()

    def span(self, name: str, begin: int) -> None:
        """Adds an event that began at `begin` and ends now."""
        duration = (self.now() - begin) / 1000
        self._add("Session", name, (begin - self._zero) / 1000, duration, threading.get_native_id(), {})

    def finish(self, network: Network, seconds: str, shapes_known: bool) -> str:
        """Measures the layers, if shapes are known, writes the file, and returns its name. The commands that measure
        accept no sequences and no absent values."""
        feeds = (self.feeds or {}).values()
        if (self.feeds is not None or shapes_known) and not any(feed is None or isinstance(feed, list) for feed in feeds):
            self._add_layers(_trace(network, self.feeds or {}, seconds))
        name = f"{self._prefix}_{time.strftime('%Y-%m-%d_%H-%M-%S')}_{self.start_ns % 1_000_000:06}.json"
        with open(name, "w", encoding="utf-8") as file:
            json.dump(self._events, file, indent=0)
        return name

    def _add_layers(self, trace: dict[str, Any]) -> None:
        begin = (self.now() - self._zero) / 1000
        layers = [e for e in trace["traceEvents"] if e["ph"] == "X"]
        if layers:
            last = max(layers, key=lambda e: e["ts"] + e["dur"])
            self._add("Session", "kilter_profile_run", begin, last["ts"] + last["dur"], 0, trace.get("otherData", {}))
        for event in layers:
            args = {"op_name": event["args"].get("ops", ""), "provider": CPU, **event["args"]}
            self._add("Node", event["name"] + "_kernel_time", begin + event["ts"], event["dur"], event["tid"], args)

    def _add(self, category: str, name: str, ts: float, dur: float, tid: int, args: dict[str, Any]) -> None:
        self._events.append(
            {"cat": category, "pid": os.getpid(), "tid": tid, "dur": dur, "ts": ts, "ph": "X", "name": name,
             "args": args})


def _trace(network: Network, feeds: Mapping[str, Any], seconds: str) -> dict[str, Any]:
    """Returns the trace of a typical run on these inputs. Types that NumPy's files lack are given by shape."""
    with tempfile.TemporaryDirectory(prefix="kilter-") as folder:
        inputs = {}
        for number, (name, feed) in enumerate(feeds.items()):
            if not isinstance(feed, np.ndarray):
                feed = np.asarray(feed) if hasattr(feed, "__array__") else feed.view("uint16")
            feed = feed.astype(str) if feed.dtype.kind in "OS" else feed
            inputs[name] = "x".join(map(str, feed.shape))
            if feed.dtype.kind in "biufU" and str(feed.dtype) != "bfloat16":
                inputs[name] = os.path.join(folder, f"{number}.npy")
                np.save(inputs[name], feed)
        profile = network.profile(seconds=seconds, **({"input": inputs} if inputs else {}))
        path = os.path.join(folder, "trace")
        profile.trace(path)
        with open(path, encoding="utf-8") as file:
            return json.load(file)
