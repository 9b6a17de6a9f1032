#!/usr/bin/env python3
"""bench/graph_best.py judges by a comparison after the race: its exit codes, with a program in Kilter's place that says what it is told.

usage: graph_best_test.py GRAPH_BEST_PY
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

FAKE = """#!{python}
import json, os, pathlib, sys
command, words = sys.argv[1], sys.argv[2:]
if os.environ["FAIL"] == command:
    sys.exit("no such network")
if command == "graph-tune":
    if "--write-plan" in words:
        pathlib.Path(words[words.index("--write-plan") + 1]).write_text("conv1 = fuse=no")
    print(os.environ["TUNED"])
if command == "compile":
    assert ("--layer-plan" in words) != ("history-best" in words), words
if command == "compare":
    assert "history_best" in words[0] and "graph_best" in words[1], words
    print(json.dumps({{"ratio": json.loads(os.environ["RATIO"])}}))
"""
RACE = {"value": 0.95, "low": 0.94, "high": 0.96}
DIFFERENCES = {"schedules": 1, "threads": 0, "layouts": 0, "fusions": 0}


def run(script, fake, won, ratio, fail=""):
    low, high = ratio
    tuned = {"won": won, "same_plan": not won, "ratio": RACE, "layers": 3, "alternatives": 6, "edges": 2, "how": "dp", "exact": True,
             "solve_ms": 0.1, "differences": DIFFERENCES}
    says = {"TUNED": json.dumps(tuned), "RATIO": json.dumps({"value": (low + high) / 2, "low": low, "high": high}), "FAIL": fail}
    done = subprocess.run([sys.executable, script, "--kilter", fake, "a-network"], env=os.environ | says, capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def main():
    with tempfile.TemporaryDirectory() as folder:
        fake = pathlib.Path(folder) / "kilter"
        fake.write_text(FAKE.format(python=sys.executable))
        fake.chmod(0o755)
        cases = [
            ("clearly faster", True, (0.94, 0.96), "", 0, "0.9500 (0.9400 to 0.9600)"),
            ("no difference", True, (0.995, 1.005), "", 0, "1.0000 (0.9950 to 1.0050)"),
            ("clearly slower, though its race said faster", True, (1.001, 1.01), "", 1, "1.0055 (1.0010 to 1.0100)"),
            ("may be slower by more than two percent", True, (0.99, 1.03), "", 1, "1.0100 (0.9900 to 1.0300)"),
            ("history-best itself is not timed", False, (1.1, 1.2), "", 0, "1, not taken"),
            ("a network that does not run", True, (0.9, 0.95), "graph-tune", 2, "graph_best.py: a-network: kilter graph-tune: no such network"),
            ("a plan that does not compile", True, (0.9, 0.95), "compile", 2, "graph_best.py: a-network: kilter compile: no such network"),
        ]
        wrong = 0
        for what, won, ratio, fail, code, words in cases:
            got, said = run(sys.argv[1], fake, won, ratio, fail)
            if got != code or words not in said:
                wrong += 1
                print(f"FAILED: {what}: expected exit {code} and '{words}', got exit {got}:\n{said}", file=sys.stderr)
    print(f"{len(cases)} cases, {wrong} wrong")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
