"""Tuning, its progress and interrupts, and records of tuning in files."""
from __future__ import annotations

import json
import logging
import os
import pty
import subprocess
import sys
import textwrap
import types

import numpy as np
import pytest

import kilter
from kilter.graph import Graph
from kilter.progress import ProgressLine

NETWORK = """
    import os, signal, sys, threading, time
    import numpy as np
    import kilter
    from kilter.graph import Graph

    def network():
        random = np.random.default_rng(0)
        g = Graph("small")
        x = g.input("x", "f32", (64, 256))
        y = g.Relu(x @ random.standard_normal((256, 256)).astype(np.float32))
        g.output(y @ random.standard_normal((256, 64)).astype(np.float32), "y")
        return kilter.compile(g, threads=1)
    """
exec(textwrap.dedent(NETWORK))
X = np.ones((64, 256), np.float32)


@pytest.fixture(scope="module")
def tuned(tmp_path_factory):
    """A network, its result of eight trials, the events, and the file of records."""
    net, events = network(), []
    path = tmp_path_factory.mktemp("records") / "r.db"
    return net, kilter.tune(net, trials=8, records=path, progress=events.append), events, path


# --- tune ---


def test_tune_returns_what_it_found(tuned, tmp_path):
    net, result, events, path = tuned
    assert result.trials == 8 and result.stopped_because == "8 trials are done"
    assert result.ratio["low"] <= result.ratio["value"] <= result.ratio["high"] <= 1.5
    assert repr(result) == result.text and "8 trials in " in result.text and "stopped: 8 trials are done" in result.text
    assert result.network is not net
    np.testing.assert_allclose(result.network(X), net(X), rtol=1e-3, atol=1e-3)
    assert result.network.conditions()["records"]
    result.html(tmp_path / "t.html")
    assert "<html" in (tmp_path / "t.html").read_text("utf-8")


def test_memory_is_an_objective(tuned, tmp_path):
    """Convolutions run by default with Winograd's larger weights, which give way under `memory`."""
    random = np.random.default_rng(0)
    g = Graph("convolution")
    x = g.input("x", "f32", (1, 64, 28, 28))
    weights = random.standard_normal((64, 64, 3, 3)).astype(np.float32) / 24
    g.output(g.Relu(g.Conv(x, weights, pads=[1, 1, 1, 1], kernel_shape=[3, 3])), "y")
    result = kilter.tune(kilter.compile(g, threads=1), "20s", trials=24, objective="memory", records=tmp_path / "r.db")
    assert result.objective == "memory" and result.accepted
    assert result.after_bytes < result.before_bytes and result.bytes_ratio < 0.9 and result.score["high"] <= 1
    assert f"memory before {result.before_bytes / 1e6:.3f} MB, after " in result.text
    assert "; score by memory 0." in result.text
    assert "of the default's memory, tuned for memory" in result.network.conditions()["records"]
    fast = tuned[1]
    assert fast.objective == "latency" and "memory before" not in fast.text
    assert fast.default_memory["bytes"] == fast.before_bytes > 0


def test_tune_tells_events(tuned):
    events = tuned[2]
    kinds = [event["event"] for event in events]
    assert kinds[0] == "start" and kinds.count("trial") == 8 and "progress" in kinds
    assert all(isinstance(event, dict) for event in events)


def test_a_callback_ends_the_search_by_returning_true(tmp_path):
    result = kilter.tune(network(), "60s", records=tmp_path / "r.db",
                         progress=lambda event: event["event"] == "progress" and event["trials"] >= 3)
    assert result.stopped_because == "interrupted" and 3 <= result.trials < 200


def test_an_exception_of_the_callback_is_raised(tmp_path):
    def refuse(event):
        if event["event"] == "trial":
            raise LookupError("seen enough")

    with pytest.raises(LookupError, match="seen enough"):
        kilter.tune(network(), "60s", records=tmp_path / "r.db", progress=refuse)
    assert len(kilter.Records(tmp_path / "r.db")) >= 1  # what was measured stays


@pytest.mark.parametrize("call, error, text", [
    (lambda n, p: kilter.tune(n, "soon", records=p), kilter.UsageError, "soon"),
    (lambda n, p: kilter.tune(n, -1, records=p), kilter.UsageError, "-1"),
    (lambda n, p: kilter.tune(n, trials=2, records=p, searcher="luck"), kilter.UsageError, "luck"),
    (lambda n, p: kilter.tune(n, trials=2, records=p, objective="speed"), kilter.UsageError,
     "objective speed: unknown objective 'speed'; legal values are latency, memory, or weights in percent"),
    (lambda n, p: kilter.tune(n, trials=2, records=p, objective="latency:80,memory:30"), kilter.UsageError,
     "the weights add up to 110"),
    (lambda n, p: kilter.tune(n, trials=2, records=p / "no" / "r.db"), kilter.FileError, "r.db"),
])
def test_misuse(tmp_path, call, error, text):
    with pytest.raises(error) as raised:
        call(network(), tmp_path / "r.db" if error is kilter.UsageError else tmp_path)
    assert text in str(raised.value)


# --- interrupts: a child gets SIGINT once the search measures ---

INTERRUPTED = NETWORK + """
    record, many, quiet = sys.argv[1], int(sys.argv[2]), sys.argv[3] == "quiet"

    def kick():
        if quiet:
            time.sleep(3)
        else:
            begun.wait()
        os.kill(os.getpid(), signal.SIGINT)
        while many > 1 and not ended.wait(0.06):  # the search may end within tenths of a second
            os.kill(os.getpid(), signal.SIGINT)

    begun, ended = threading.Event(), threading.Event()
    net = network()
    before = net(np.ones((64, 256), np.float32))
    threading.Thread(target=kick, daemon=True).start()

    def watch(event):
        if event["event"] == "progress" and event["trials"] >= 20:
            begun.set()

    begin = time.monotonic()
    try:
        result = kilter.tune(net, "120s", records=record, progress=False if quiet else watch)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        print("result", result.stopped_because, result.trials > 0)
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        print("interrupted")
    ended.set()
    print(time.monotonic() - begin < 60, np.array_equal(net(np.ones((64, 256), np.float32)), before))
    """


@pytest.mark.parametrize("progress", ["quiet", "watched"])
@pytest.mark.parametrize("signals", [1, 2])
def test_ctrl_c(tmp_path, signals, progress):
    """The first gives a result. The second raises KeyboardInterrupt, unless the result was there before it arrived:
    that happens where no better plan is raced, so a few attempts are made."""
    record = tmp_path / "r.db"
    said = []
    for _ in range(8 if signals > 1 else 1):
        done = subprocess.run([sys.executable, "-c", textwrap.dedent(INTERRUPTED), record, str(signals), progress],
                              text=True, capture_output=True, timeout=180)
        assert done.stdout in ("result interrupted True\nTrue True\n", "interrupted\nTrue True\n"), done.stderr[-2000:]
        said.append(done.stdout.splitlines()[0])
        assert len(kilter.Records(record)) >= 1  # trials are kept in any case
        if said[-1] == "interrupted":
            break
    assert said[-1] == ("interrupted" if signals > 1 else "result interrupted True")


# --- progress ---


def test_progress_in_a_terminal(tmp_path):
    program = textwrap.dedent(NETWORK) + f"kilter.tune(network(), trials=6, records={str(tmp_path / 'r.db')!r})\n"
    main, side = pty.openpty()
    child = subprocess.Popen([sys.executable, "-c", program], stderr=side,
                             stdout=subprocess.PIPE, env={**os.environ, "COLUMNS": "60"})
    os.close(side)
    shown = b""
    while True:
        try:
            part = os.read(main, 4096)
        except OSError:  # the terminal is closed
            break
        if not part:
            break
        shown += part
    assert child.wait(60) == 0 and child.stdout.read() == b""
    child.stdout.close()
    os.close(main)
    lines = shown.decode().split("\r\x1b[K")
    assert lines[0] == "" and lines[-1] == "", shown  # nothing is left on the line
    assert any(line.startswith("tune small: ") for line in lines)
    assert all(len(line) < 60 and "\n" not in line for line in lines)


def test_progress_without_a_terminal_goes_to_the_log(capfd, caplog, tmp_path):
    with caplog.at_level(logging.INFO, "kilter"):
        kilter.tune(network(), trials=2, records=tmp_path / "r.db", progress=False)
        assert not caplog.records
        kilter.tune(network(), trials=2, records=tmp_path / "r.db")
    assert capfd.readouterr() == ("", "")
    first = caplog.records[0]
    assert (first.name, first.levelno) == ("kilter", logging.INFO) and first.getMessage().startswith("tune small: ")


def test_the_log_gets_a_line_every_ten_seconds(caplog, monkeypatch):
    now = [100.0]
    monkeypatch.setattr("kilter.progress.time.monotonic", lambda: now[0])
    line = ProgressLine("tune net")
    with caplog.at_level(logging.INFO, "kilter"):
        for second in range(25):
            now[0] = 100.0 + second
            line.text(f"{second} s")
    line.close()
    assert [record.getMessage() for record in caplog.records] == ["tune net: 0 s", "tune net: 10 s", "tune net: 20 s"]


class Display:
    """What IPython's display() shows, as a notebook would."""

    def __init__(self):
        self.shown = []

    def __call__(self, bundle, raw, display_id):
        assert raw and display_id
        self.shown.append(bundle)
        return types.SimpleNamespace(update=lambda bundle, raw: self.shown.append(bundle))


class ZMQInteractiveShell:
    """The class of a notebook's shell, by its name."""


def test_progress_in_a_notebook(monkeypatch, capfd):
    display = Display()
    monkeypatch.setitem(sys.modules, "IPython", types.SimpleNamespace(get_ipython=ZMQInteractiveShell))
    monkeypatch.setitem(sys.modules, "IPython.display", types.SimpleNamespace(display=display))
    clock = iter(range(10, 100))
    monkeypatch.setattr("kilter.progress.time", types.SimpleNamespace(monotonic=lambda: float(next(clock))))
    line = ProgressLine("tune net")
    line.text("measuring")
    line.event({"event": "progress", "phase": "search", "seconds": 2.4,
               "trials": 5, "default_ms": 1.5, "predicted_ms": 1.25})
    line.event({"event": "trial"})
    line.close()
    assert display.shown == [{"text/plain": "tune net: measuring"},
                             {"text/plain": "tune net: search: 2 s, 5 trials, 1.500 -> 1.250 ms"}]
    assert capfd.readouterr() == ("", "")


# --- records ---


def test_records_of_a_file(tuned):
    path = tuned[3]
    records = kilter.Records(path)
    all_of_them = records.list()
    assert len(records) == len(all_of_them) == len(list(records)) >= 8
    assert {"problem", "schedule", "status", "samples_ms", "network"} <= set(all_of_them[0])
    best = records.best()
    assert 1 <= len(best) <= 2 and all(b in all_of_them for b in best)
    assert len(records.list(problem="f32[256,64]")) + len(records.list(problem="f32[256,256]")) == len(all_of_them)
    assert records.list(network="no such network") == []
    problem = best[0]["problem"]
    assert records.best(for_=problem, threads=1)
    assert repr(records) == f"<kilter.Records {path}>"


@pytest.mark.parametrize("ending", ["jsonl", "db"])
def test_records_go_round(tuned, tmp_path, ending):
    records = kilter.Records(tuned[3])
    exported = tmp_path / f"exported.{ending}"
    records.export(exported)
    assert exported.stat().st_size > 0
    if ending == "jsonl":
        assert all(json.loads(line) for line in exported.read_text("utf-8").splitlines())
    imported = kilter.Records(tmp_path / "imported.db")
    assert f"{len(records)} added" in imported.import_(exported)
    assert imported.list() == records.list() and imported.best() == records.best()
    assert "0 added" in imported.import_(exported)
    merged = kilter.Records(tmp_path / "merged.db")
    merged.merge(exported)
    assert sorted(r["id"] for r in merged) == sorted(r["id"] for r in records)
    again = kilter.compile(tuned[0]._model, threads=1, records=imported.path)
    assert again.conditions()["records"]
    np.testing.assert_allclose(again(X), tuned[0](X), rtol=1e-3, atol=1e-3)


def test_records_as_pandas(tuned):
    pytest.importorskip("pandas")
    frame = kilter.Records(tuned[3]).to_pandas()
    assert len(frame) == len(kilter.Records(tuned[3])) and {"problem", "schedule", "conditions_device"} <= set(frame)
    assert set(frame["status"]) <= {"ok", "wrong", "crash", "timeout", "rejected"}


def test_records_that_are_not_there(tmp_path):
    with pytest.raises(kilter.FileError) as raised:
        kilter.Records(tmp_path / "none.db").list()
    assert "none.db" in str(raised.value)
    with pytest.raises(kilter.FileError):
        kilter.Records(tmp_path / "new.db").import_(tmp_path / "none.jsonl")
    (tmp_path / "bad.db").write_bytes(b"no records\n" * 1000)
    with pytest.raises(kilter.Error):
        kilter.Records(tmp_path / "bad.db").list()
