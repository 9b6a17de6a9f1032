"""Progress: one line on a terminal or in a notebook, otherwise messages of the logger "kilter"."""
from __future__ import annotations

import logging
import sys
import time
from typing import Any, Mapping

_log = logging.getLogger("kilter")


def _in_notebook() -> bool:
    try:
        from IPython import get_ipython
    except ImportError:
        return False
    shell = get_ipython()
    return shell is not None and shell.__class__.__name__ == "ZMQInteractiveShell"


class ProgressLine:
    """A line that is rewritten in place, at most four times a second. Where there is neither a terminal nor a notebook, a
    message every ten seconds (INFO) takes its place."""

    def __init__(self, what: str):
        self._what = what
        self._handle: Any = None
        self._notebook = _in_notebook()
        self._terminal = not self._notebook and sys.stderr is not None and sys.stderr.isatty()
        self._pause = 0.25 if self._notebook or self._terminal else 10.0
        self._last = -self._pause
        self._shown = False

    def text(self, doing: str) -> None:
        """Shows what is being done."""
        if not doing or time.monotonic() - self._last < self._pause:
            return
        self._last = time.monotonic()
        line = f"{self._what}: {doing}"
        if self._notebook:
            from IPython.display import display
            bundle = {"text/plain": line}
            if self._handle is None:
                self._handle = display(bundle, raw=True, display_id=True)
            else:
                self._handle.update(bundle, raw=True)
        elif self._terminal:
            import shutil
            print("\r\x1b[K" + line[: shutil.get_terminal_size().columns - 1], end="", file=sys.stderr, flush=True)
            self._shown = True
        else:
            _log.info(line)

    def event(self, event: Mapping[str, Any]) -> None:
        """Shows an event of a tuning run."""
        if event.get("event") != "progress":
            return
        self.text(f"{event['phase']}: {event['seconds']:.0f} s, {event['trials']} trials, {event['default_ms']:.3f} -> "
                  f"{event['predicted_ms']:.3f} ms")

    def close(self) -> None:
        """Erases the progress line if it is on a terminal."""
        if self._shown:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
