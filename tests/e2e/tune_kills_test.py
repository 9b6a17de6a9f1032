#!/usr/bin/env python3
"""Tests that a tuner that is killed (SIGKILL) at moments spread over the whole length of its runs loses nothing that it reported.

usage: tune_kills_test.py KILTER KILLS [--seed N] [--keep FOLDER]

First, the time that one run takes after its preparation is measured. Kill i of KILLS comes after about i/KILLS of that
time. The runs of a chain share one file of records, as if a user restarted the tuner. After each kill, these conditions
are checked: all earlier records are there and unchanged; every reported trial is stored exactly once; any further new
records are those of the batch that was stored but not reported yet, or of the races; the file of records and its plans
are sound; and the files named by --json, --html and --write-plan are complete or empty. After each chain, the same
command runs to its end.
"""
import argparse
import collections
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time

NETWORK = ["zoo:squeezenet1_1", "--input", "input=1x3x32x32", "--threads", "1"]
CHAIN = 10  # runs that share a file of records
PREPARED_WITHIN_S = 120


def fail(*words):
    sys.exit("FAILED: " + " ".join(str(w) for w in words))


class Run:
    """One run of `kilter tune` in a folder, with everything that it writes."""

    def __init__(self, kilter, folder):
        self.kilter, self.folder = kilter, folder
        self.events = folder / "events.jsonl"
        self.events.write_text("")
        for name in ("out.json", "out.html", "out.plan"):
            (folder / name).unlink(missing_ok=True)
        self.process = subprocess.Popen(
            [kilter, "tune", *NETWORK, "--trials", "120", "--records", folder / "k.db", "--events", self.events,
             "--json", folder / "out.json", "--html", folder / "out.html", "--write-plan", folder / "out.plan"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def told(self):
        """Returns the events whose lines are complete."""
        return [json.loads(line) for line in self.events.read_bytes().split(b"\n")[:-1]]

    def wait_prepared(self):
        end = time.monotonic() + PREPARED_WITHIN_S
        while time.monotonic() < end and self.process.poll() is None:
            if b'"phase":"searching"' in self.events.read_bytes():
                return
            time.sleep(0.005)
        self.process.kill()
        fail("no search began; the last event:", self.told()[-1:])

    def kill(self):
        """Kills the tuner. Returns whether it was still running."""
        self.process.send_signal(signal.SIGKILL)
        return self.process.wait() == -signal.SIGKILL

    def workers(self):
        """Returns the processes that this tuner started and that still exist."""
        found = []
        for entry in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
            try:
                words = entry.read_bytes().split(b"\0")
            except OSError:
                continue
            if words[0].endswith(b"kilter-worker") and str(self.process.pid).encode() in words:
                found.append(entry.parent.name)
        return found

    def check_no_workers(self):
        end = time.monotonic() + 10
        while self.workers():
            if time.monotonic() > end:
                fail("workers are left:", self.workers())
            time.sleep(0.05)

    def check_usable(self):
        """Checks that a run can use the records and plans."""
        done = subprocess.run([self.kilter, "run", *NETWORK, "--records", self.folder / "k.db"], capture_output=True, text=True)
        if done.returncode != 0 or "skipped" in done.stderr:
            fail("run with the records:", done.stderr)

    def records(self):
        """Checks that the file of records is sound. Returns its records, parsed from JSON."""
        if not (self.folder / "k.db").exists():
            return []
        done = subprocess.run([self.kilter, "records", "export", "--records", self.folder / "k.db", "--output", "-"],
                              capture_output=True, text=True, check=True)
        if done.stderr:
            fail("the records are damaged:", done.stderr)
        verified = subprocess.run([self.kilter, "records", "verify", "--records", self.folder / "k.db"], capture_output=True, text=True)
        if verified.returncode != 0:
            fail("records verify:", verified.stdout, verified.stderr)
        return [json.loads(line) for line in done.stdout.splitlines()]

    def check_files(self):
        """Checks that the files written next to the records are complete or not written yet. Returns how many temporary
        files were left."""
        plans = self.folder / "k.db.plans.jsonl"
        if plans.exists():
            for line in plans.read_text().splitlines():
                plan = json.loads(line)
                if not {"graph", "plan", "ratio"} <= plan.keys():
                    fail("an accepted plan lacks fields:", line)
        for name, whole in (("out.json", json.loads), ("out.html", lambda text: text.rstrip().endswith("</html>")),
                            ("out.plan", lambda text: text.startswith("# ") and text.endswith("\n"))):
            file = self.folder / name
            text = file.read_text() if file.exists() else ""
            try:
                sound = text == "" or whole(text)
            except json.JSONDecodeError:
                sound = False
            if not sound:
                fail(name, "is torn:", text[:80], "...", text[-80:])
        return sum(".tmp-" in p.name for p in self.folder.iterdir())


def key(node, schedule, ratio):
    return node, schedule, tuple(round(v, 12) for v in ratio)


def key_of_event(event):
    ratio = event.get("ratio")
    return key(event["node"], event["schedule"], [ratio["value"], ratio["low"], ratio["high"]] if ratio else [])


def key_of_record(record):
    versus = record.get("versus")
    return key(record["node"], record["schedule"], [versus["ratio"], versus["low"], versus["high"]] if versus else [])


def check_contents(before, records, events, where):
    """Returns how many trials were reported, and how many more records are stored."""
    ids = [r["id"] for r in records]
    if len(ids) != len(set(ids)):
        fail(where, "records are double")
    now = {r["id"]: r for r in records}
    for record in before:
        if now.get(record["id"]) != record:
            fail(where, "a record of before is lost or changed:", record["id"])
    fresh = collections.Counter(key_of_record(r) for r in records if r["id"] not in {b["id"] for b in before})
    told = collections.Counter(key_of_event(e) for e in events if e["event"] == "trial" and e["status"] == "ok")
    lost = told - fresh
    if lost:
        fail(where, f"{sum(lost.values())} of {sum(told.values())} told trials are not stored:", next(iter(lost)))
    return sum(told.values()), sum((fresh - told).values())


def stage(events):
    phases = [e["phase"] for e in events if e["event"] == "phase"]
    return "end" if events and events[-1]["event"] == "end" else phases[-1] if phases else "start"


def measured_length(kilter, folder):
    """Returns the seconds from the end of preparation to the end."""
    run = Run(kilter, folder)
    run.wait_prepared()
    begin = time.monotonic()
    if run.process.wait() != 0:
        fail("a run that nobody kills ends with", run.process.returncode)
    check_contents([], run.records(), run.told(), "a whole run:")
    run.check_files()
    return time.monotonic() - begin


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("kilter", type=pathlib.Path)
    parser.add_argument("kills", type=int)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=pathlib.Path, help="folder for the runs, which stays")
    options = parser.parse_args()
    kilter = options.kilter.resolve()
    draw = random.Random(options.seed)
    with tempfile.TemporaryDirectory() as scratch:
        root = options.keep or pathlib.Path(scratch)
        os.environ["XDG_DATA_HOME"] = str(root / "data")
        first = root / "whole"
        first.mkdir(parents=True)
        length = measured_length(kilter, first)
        print(f"a run takes {length:.1f} s after its preparation", flush=True)
        moments = [(i + draw.random()) / options.kills for i in range(options.kills)]
        draw.shuffle(moments)
        killed = told = beyond = leftovers = 0
        stages = collections.Counter()
        for i, moment in enumerate(moments):
            folder = root / f"chain{i // CHAIN}"
            folder.mkdir(exist_ok=True)
            before = [] if i % CHAIN == 0 else records
            run = Run(kilter, folder)
            run.wait_prepared()
            time.sleep(moment * length)
            killed += run.kill()
            run.check_no_workers()
            events, records = run.told(), run.records()
            stages[stage(events)] += 1
            more = check_contents(before, records, events, f"kill {i} at {moment:.3f}:")
            told, beyond = told + more[0], beyond + more[1]
            leftovers += run.check_files()
            if i % CHAIN == CHAIN - 1 or i == options.kills - 1:
                after = Run(kilter, folder)
                if after.process.wait() != 0:
                    fail(f"after kill {i} the same command ends with {after.process.returncode}")
                check_contents(records, after.records(), after.told(), f"the run after kill {i}:")
                after.check_files()
                after.check_usable()
    print(f"{killed} of {options.kills} runs were killed, in {dict(stages)}; {told} trials were told and all are stored, {beyond} more were "
          f"stored and not told yet; none is lost or double; {leftovers} temporary files were left")
    if killed < 0.7 * options.kills:
        fail(f"only {killed} of {options.kills} runs were killed; the others had ended")
    if told == 0:
        fail("no trial was told, so the events show nothing")


if __name__ == "__main__":
    main()
