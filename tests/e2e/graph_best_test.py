#!/usr/bin/env python3
"""Tests that bench/graph_best.py bases its exit code on a comparison after the race, with a fake kilter that prints
scripted results.

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
if os.environ["FAIL"] == command and "another" not in words:
    sys.exit("no such network")
if command == "graph-tune":
    records = pathlib.Path(words[words.index("--records") + 1])
    assert records.read_text() == "records" and records.with_name("r.db.transforms-cpu.json").exists(), records
    plans = records.with_name("r.db.plans.jsonl")
    assert "--no-run" not in words or not plans.exists(), plans
    plans.write_text("changed")
    if "--write-plan" in words:
        pathlib.Path(words[words.index("--write-plan") + 1]).write_text("conv1 = fuse=no")
    print(os.environ["TUNED"])
if command == "compile":
    assert ("--layer-plan" in words) != ("history-best" in words), words
    pathlib.Path(words[words.index("-o") + 1]).write_text("ours" if "--layer-plan" in words else "history")
if command == "compare":
    count = pathlib.Path(os.environ["COUNT"])
    turn = len(count.read_text()) if count.exists() else 0
    count.write_text("x" * (turn + 1))
    who = [pathlib.Path(word).read_text() for word in words[:2]]
    assert who == (["history", "ours"] if turn % 2 == 0 else ["ours", "history"]), (turn, who)
    ratio = json.loads(os.environ["RATIOS"])[turn]
    print(json.dumps({{"ratio": {{"value": ratio if turn % 2 == 0 else 1 / ratio}}}}))
"""
RACE = {"value": 0.95, "low": 0.94, "high": 0.96}
DIFFERENCES = {"schedules": 1, "threads": 0, "layouts": 0, "fusions": 0}


def run(script, folder, won, ratios, fail, networks):
    records = folder / "r.db"
    tuned = {"won": won, "same_plan": not won, "ratio": RACE, "layers": 3, "alternatives": 6, "edges": 2, "how": "dp", "exact": True,
             "solve_ms": 0.1, "differences": DIFFERENCES}
    (folder / "count").unlink(missing_ok=True)
    says = {"TUNED": json.dumps(tuned), "RATIOS": json.dumps(ratios), "FAIL": fail, "COUNT": str(folder / "count")}
    words = ["--kilter", str(folder / "kilter"), "--records", str(records), "--restarts", str(len(ratios)), *networks]
    done = subprocess.run([sys.executable, script, *words], env=os.environ | says, capture_output=True, text=True)
    assert records.with_name("r.db.plans.jsonl").read_text() == "accepted", "the user's accepted plans were written to"
    return done.returncode, done.stdout + done.stderr


def main():
    with tempfile.TemporaryDirectory() as made:
        folder = pathlib.Path(made)
        fake = folder / "kilter"
        fake.write_text(FAKE.format(python=sys.executable))
        fake.chmod(0o755)
        for name, what in (("r.db", "records"), ("r.db.transforms-cpu.json", "{}"), ("r.db.plans.jsonl", "accepted")):
            (folder / name).write_text(what)
        one, race = ["a-network"], "| 0.9500 (0.9400 to 0.9600) | "
        cases = [
            ("clearly faster", True, (0.94, 0.96, 0.95), "", one, 0, race + "0.9500 (0.9254 to 0.9751)"),
            ("no difference", True, (0.999, 1.001), "", one, 0, race + "1.0000 (0.9874 to 1.0128)"),
            ("clearly slower, though its race said faster", True, (1.005, 1.006, 1.007), "", one, 1, race + "1.0060 (1.0035 to 1.0085)"),
            ("may be slower by more than two percent", True, (0.99, 1.03), "", one, 1, race + "1.0098 (0.7851 to 1.2987)"),
            ("history-best itself is not timed", False, (1.1, 1.2), "", one, 0, "| the same plan | 1, not timed |"),
            ("a network that does not run", True, (0.9, 0.9), "graph-tune", one, 2, "| a-network | failed: kilter graph-tune: no such network |"),
            ("a plan that does not compile", True, (0.9, 0.9), "compile", one, 2, "| a-network | failed: kilter compile: no such network |"),
            ("the others go on", True, (0.9, 0.9), "graph-tune", [*one, "another"], 2, "| another | 3, 6, 2 | "),
            ("no such records", True, (0.9, 0.9), "", ["--records", "nowhere.db", *one], 2,
             "| a-network | failed: --records nowhere.db: nowhere.db is missing; `kilter tune --records FILE` creates "
             "one |"),
            ("a folder without the network's records", True, (0.9, 0.9), "", ["--records", str(folder), *one], 2,
             f"failed: --records {folder}: {folder / 'a-network.1.db'} is missing; "),
            ("one process", True, (0.9,), "", one, 2, "graph_best.py: --restarts 1: expected 2 or more"),
        ]
        wrong = 0
        for what, won, ratios, fail, networks, code, words in cases:
            got, said = run(sys.argv[1], folder, won, ratios, fail, networks)
            if got != code or words not in said:
                wrong += 1
                print(f"FAILED: {what}: expected exit {code} and '{words}', got exit {got}:\n{said}", file=sys.stderr)
    print(f"{len(cases)} cases, {wrong} wrong")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
