#!/usr/bin/env python3
"""Tests that the cost of compiling grows with the size of the network, not with its square.

    scale_test.py KILTER                  networks of some thousand nodes: CPU times for n and 2n nodes
    scale_test.py KILTER --nodes 100000   each kind of that size within --seconds of CPU time

The time of a process that compiles a network of one node is subtracted. Times are CPU times, which other processes
hardly affect, and the best of three counts.
"""

import argparse
import os
import pty
import resource
import signal
import subprocess
import sys
import tempfile
import time

import onnx

import made_models
from terminal_output import rest_of

GROWTH = 3.0  # limit of the ratio for twice the nodes: quadratic growth would give 4
SMALL = 3000


def cpu_seconds(kilter, file, timeout):
    """Returns the CPU time of one compilation; None if it does not end in time."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [kilter, "compile", file, "-o", file + ".plan"]
    try:
        run = subprocess.run(command, capture_output=True, text=True, timeout=timeout)
    except subprocess.TimeoutExpired:
        return None
    if run.returncode != 0:
        raise SystemExit(f"{' '.join(command)}: exit {run.returncode}: {run.stderr[-400:]}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def written(folder, kind, n):
    file = os.path.join(folder, f"{kind}_{n}.onnx")
    onnx.save(made_models.KINDS[kind](n), file)
    return file


def grows_too_fast(kilter, folder, kind, base):
    """Checks n, 2n and 4n. Returns what is wrong, or nothing."""
    times = []
    for n in (SMALL, 2 * SMALL, 4 * SMALL):
        file = written(folder, kind, n)
        times.append(max(min(cpu_seconds(kilter, file, 300) for _ in range(3)) - base, 0.02))
        os.remove(file)
    ratios = [b / a for a, b in zip(times, times[1:])]
    print(f"{kind:<14} " + "  ".join(f"{t:6.2f} s" for t in times) + "   x " + ", ".join(f"{r:.2f}" for r in ratios))
    # Both ratios must be too large, because a network that outgrows a cache may cause one of them.
    return f"{kind}: {times[0]:.2f}, {times[1]:.2f}, {times[2]:.2f} s for {SMALL} nodes, twice, four times as many" if min(ratios) > GROWTH else None


def too_slow(kilter, folder, kind, nodes, seconds):
    file = written(folder, kind, nodes)
    took = cpu_seconds(kilter, file, 60 * seconds)
    print(f"{kind:<14} {nodes} nodes: " + ("not within the limit" if took is None else f"{took:.1f} s"), flush=True)
    os.remove(file)
    return None if took is not None and took <= seconds else f"{kind}: {nodes} nodes took {took} s, expected {seconds} or less"


def interrupted_at(command, after):
    """Sends Ctrl-C after `after` seconds. Returns the exit code, or nothing if the command had already ended."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(after)
    was_over = process.poll() is not None
    process.send_signal(signal.SIGINT)
    sent = time.monotonic()
    code = process.wait(timeout=30)
    over_as_it_came = code == 0 and time.monotonic() - sent < 0.1
    return None if was_over or over_as_it_came else code


def not_interrupted(kilter, folder, nodes):
    """Checks that Ctrl-C at several moments of a compilation gives exit code 130 and leaves no file except the model."""
    file = written(folder, "softmaxes", nodes)
    plan = file + ".plan"
    command = [kilter, "compile", file, "-o", plan]
    start = time.monotonic()
    subprocess.run(command, capture_output=True, check=True, timeout=600)
    whole = time.monotonic() - start
    os.remove(plan)
    for part in (0.05, 0.2, 0.4, 0.6):
        # Other work may have slowed the measurement of the whole: if a compilation ended before its Ctrl-C, this tries
        # again with an earlier one.
        for after in (part * whole, part * whole / 2, part * whole / 4, part * whole / 8):
            code = interrupted_at(command, after)
            if code is not None:
                break
            os.remove(plan)
        left = [name for name in os.listdir(folder) if name != os.path.basename(file)]
        if code not in (130, -signal.SIGINT) or left:  # the second: before the program handled the signal
            return f"interrupted after {after:.2f} of {whole:.2f} s: exit {code}, expected 130; files left: {left}"
    os.remove(file)
    return None


def no_progress(kilter, folder, nodes):
    """Checks that a long compilation shows its progress on a terminal and prints nothing elsewhere."""
    file = written(folder, "softmaxes", nodes)
    command = [kilter, "compile", file, "-o", file + ".plan"]
    leader, terminal = pty.openpty()
    start = time.monotonic()
    process = subprocess.Popen(command, stderr=terminal, stdout=subprocess.DEVNULL)
    os.close(terminal)
    shown = rest_of(leader)
    process.wait()
    took = time.monotonic() - start
    os.close(leader)
    quiet = subprocess.run(command, capture_output=True, timeout=600)
    os.remove(file)
    if quiet.stderr:
        return f"not on a terminal, yet it says {quiet.stderr[:200]}"
    if took > 4 and b" of " not in shown:
        return f"no progress in {took:.1f} s: {shown[:200]}"
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kilter")
    parser.add_argument("--nodes", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("kinds", nargs="*", default=[])
    options = parser.parse_args()
    kinds = options.kinds or list(made_models.KINDS)
    with tempfile.TemporaryDirectory() as folder:
        base = min(cpu_seconds(options.kilter, written(folder, "chain", 1), 60) for _ in range(3))
        if options.nodes > 0:
            faults = [too_slow(options.kilter, folder, kind, options.nodes, options.seconds) for kind in kinds]
        else:
            faults = [grows_too_fast(options.kilter, folder, kind, base) for kind in kinds]
    with tempfile.TemporaryDirectory() as folder:
        faults.append(not_interrupted(options.kilter, folder, 40000))
    if options.nodes > 0:
        with tempfile.TemporaryDirectory() as folder:
            faults.append(no_progress(options.kilter, folder, options.nodes))
    faults = [f for f in faults if f]
    print("\n".join(faults) or "all as expected")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
