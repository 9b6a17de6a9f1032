"""Shared by the processes that run peers: messages to peers.py, the lock on the GPU, deadlines.

A worker prepares its peers and reports each, says that it is idle, and then times what it is asked to. While workers
prepare, many of them share the machine. Whatever measures on the GPU to choose a kernel, or runs there, holds the lock, so
that no choice is disturbed.
"""
import contextlib
import fcntl
import json
import os
import signal
import sys
import threading
import time
import traceback


class Messages:
    """Sends one JSON object per line to peers.py. Everything that libraries print goes to the log (standard error)."""

    def __init__(self):
        self.out = os.fdopen(os.dup(1), "w")
        os.dup2(2, 1)

    def say(self, **message):
        self.out.write(json.dumps(message) + "\n")
        self.out.flush()


class GpuLock:
    """Admits one process at a time. The holder may take it again. `waited` counts the seconds spent waiting."""

    def __init__(self, path):
        self.file = open(path, "a")
        self.mutex = threading.RLock()
        self.depth, self.waited, self.off = 0, 0.0, False

    def __enter__(self):
        self.mutex.acquire()
        try:
            if self.depth == 0 and not self.off:
                start = time.monotonic()
                fcntl.flock(self.file, fcntl.LOCK_EX)
                self.waited += time.monotonic() - start
        except BaseException:
            self.mutex.release()
            raise
        self.depth += 1

    def __exit__(self, *_):
        self.depth -= 1
        if self.depth == 0 and not self.off:
            fcntl.flock(self.file, fcntl.LOCK_UN)
        self.mutex.release()

    def around(self, function):
        """Wraps the function so that it runs with the lock held."""
        def locked(*args, **kwargs):
            with self:
                return function(*args, **kwargs)
        return locked


@contextlib.contextmanager
def deadline(seconds):
    """Ends the body with TimeoutError after `seconds`."""
    def end(*_):
        raise TimeoutError(f"not done after {seconds:g} s")
    signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def prepare(messages, lock, network, peer, precision, seconds, make):
    """Returns the runner from `make` and reports how long it took. On failure, reports the reason and returns None."""
    start, waited = time.monotonic(), lock.waited
    try:
        with deadline(seconds):
            runner, error = make()
        if not error < 0.1:
            raise RuntimeError(f"wrong result: largest difference over largest value is {error}")
        messages.say(event="ready", network=network, peer=peer, precision=precision, error=error,
                     compile_s=time.monotonic() - start - (lock.waited - waited))
        return runner
    except Exception as error:
        traceback.print_exc()
        text = f"{type(error).__name__}: {error}"
        messages.say(event="failed", network=network, peer=peer, precision=precision, message=text[:400])
        return None


def relative_error(outputs, reference):
    """Returns the largest difference over the reference's largest value, for the worst output (numpy arrays); NaN if not finite."""
    import numpy as np
    worst = 0.0
    for got, wanted in zip(outputs, reference, strict=True):
        got = np.asarray(got, np.float64)
        if not np.isfinite(got).all():
            return float("nan")
        worst = max(worst, float(np.abs(got - wanted).max() / np.abs(wanted).max()))
    return worst


def serve(messages, lock, runners, time_one):
    """Times what peers.py asks for until the pipe closes. `runners` is by (peer, precision); time_one(runner, request) returns samples."""
    lock.off = True
    messages.say(event="idle")
    for line in sys.stdin:
        request = json.loads(line)
        try:
            with deadline(request.get("deadline", 30)):
                messages.say(event="timed", **time_one(runners[request["peer"], request["precision"]], request))
        except Exception as error:
            traceback.print_exc()
            messages.say(event="timing_failed", message=f"{type(error).__name__}: {error}"[:400])
