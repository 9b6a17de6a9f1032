#!/usr/bin/env python3
"""Tests that the commands suggested by `kilter explain` and `kilter profile` run and show what they claim.

Every command that is printed for networks with different faults is run for a shorter time, and must compare by wall
time and by CPU time.

usage: suggested_commands_test.py KILTER
"""
import json
import os
import random
import shlex
import struct
import subprocess
import sys
import tempfile

SMALL = ["zoo:squeezenet1_1", "--input", "input=1x3x96x96"]
# Each has at least one fault that can be fixed on any machine.
FAULTY = {
    "schedules and fusion": [*SMALL, "--threads", "1", "--schedule", "pool1=reference", "--no-fuse", "conv1",
                             "--plain-layout", "fire2.squeeze"],
    "passes and accuracy": [*SMALL, "--threads", "1", "--disable", "fuse", "--accuracy", "strict"],
    "threads": [*SMALL, "--threads", "2", "--layer-threads", "conv1=1", "--layer-threads", "fire2.expand3x3=1"],
    "batch": ["zoo:mobilenet_v2", "--threads", "1"],
}


def kilter(program, words, expected=0):
    done = subprocess.run([program, *words], capture_output=True, text=True, timeout=300)
    if done.returncode != expected:
        sys.exit(f"kilter {shlex.join(words)} exits with {done.returncode}: {done.stderr}{done.stdout}")
    return done.stdout


def commands(text):
    return [line.strip()[2:] for line in text.splitlines() if line.strip().startswith("$ kilter ")]


def samples(folder):
    """Writes one sample for the networks of this test into a folder and returns the folder."""
    where = f"{folder}/samples"
    os.makedirs(where, exist_ok=True)
    header = b"{'descr': '<f4', 'fortran_order': False, 'shape': (1, 3, 224, 224), }".ljust(117) + b"\n"
    values = random.Random(0)
    with open(f"{where}/0.npy", "wb") as file:
        file.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header)
        file.write(struct.pack("<150528f", *(values.gauss(0, 1) for _ in range(150528))))
    return where


def shortened(words, folder):
    """Returns the same command with less time, and with a folder of samples."""
    if words[0] == "tune":
        at = words.index("--time")
        return [*words[:at], "--time", "3s", *words[at + 2:]]
    if words[0] == "quantize":
        at, out = words.index("DIR"), words.index("-o") + 1
        return [*words[:at], samples(folder), *words[at + 1:out], f"{folder}/{words[out]}"]
    return [*words, "--seconds", "0.2"]


def run(program, command, kinds, folder):
    words = shlex.split(command)
    assert words[0] == "kilter", command
    said = kilter(program, shortened(words[1:], folder))
    kinds.setdefault(words[1], []).append(command)
    if words[1] == "compare":
        for part in ("B / A = ", "by CPU time  B / A = "):
            assert part in said, f"{command} does not say {part!r}:\n{said}"
        assert ("-b " in command or "-a " in command), f"{command} compares a network with itself"


def main():
    program = os.path.abspath(sys.argv[1])
    kinds = {}
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_DATA_HOME"] = folder
        for name, words in FAULTY.items():
            text = kilter(program, ["explain", *words, "--seconds", "2", "--json", f"{folder}/explain.json"])
            found = set(commands(text))
            with open(f"{folder}/explain.json", encoding="utf-8") as file:
                found |= {f["action"] for f in json.load(file)["explain"]["findings"] if f["action"]}
            assert found, f"{name}: no command in\n{text}"
            for command in sorted(found):
                run(program, command, kinds, folder)
        # With a tuned plan that is not used.
        tuned = [*SMALL, "--threads", "1"]
        kilter(program, ["tune", *tuned, "--time", "15s", "--trials", "40"])
        for tool in ("explain", "profile"):
            for command in commands(kilter(program, [tool, *tuned, "--seconds", "1"])):
                run(program, command, kinds, folder)
        run(program, shlex.join(["kilter", "compare", *tuned, "--records-b", "default"]), kinds, folder)
        # A path that a shell would split.
        model = f"{folder}/my net's.onnx"
        kilter(program, ["zoo", "squeezenet1_1", "-o", model])
        for command in commands(kilter(program, ["explain", model, "--threads", "1", "--schedule", "pool1=reference", "--seconds", "2"])):
            run(program, command, kinds, folder)
    for kind in ("compare", "tune"):
        assert kinds.get(kind), f"no `kilter {kind}` was suggested: {kinds}"
    print({kind: len(of) for kind, of in kinds.items()})


if __name__ == "__main__":
    main()
