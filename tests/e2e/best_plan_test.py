#!/usr/bin/env python3
"""Tests the commands, files and verdicts of bench/best_plan.py with a fake kilter that prints scripted results.

usage: best_plan_test.py BEST_PLAN_PY
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

# To this kilter, a plan is a file with one line, its time in ms, and a compiled file contains that line. `tune` writes
# a plan with the searcher's time in SPEEDS. `compare` prints the ratio of the times, multiplied by the next factor in
# NOISE.
FAKE = """#!{python}
import json, os, pathlib, sys
log = pathlib.Path(os.environ["LOG"])
words = sys.argv[1:]
log.write_text(log.read_text() + " ".join(words) + "\\n")
value = lambda option: words[words.index(option) + 1]
speed = lambda file: float(pathlib.Path(file).read_text().split()[-1])
if words[0] == "--version":
    print("kilter")
if words[0] == "searchers" and not json.loads(os.environ["XGBOOST"]):
    sys.exit("kilter: no XGBoost here")
if words[0] == "tune":
    searcher = value("--searcher") if "--searcher" in words else "tuned"
    if searcher == os.environ["FAIL"]:
        sys.exit("it went wrong")
    records = pathlib.Path(value("--records"))
    known = records.read_text() if records.exists() else ""
    records.write_text(known + searcher + "\\n")
    pathlib.Path(value("--write-plan")).write_text("# by %s\\n%s\\n" % (searcher, json.loads(os.environ["SPEEDS"]).get(searcher, 100)))
    pathlib.Path(value("--json")).write_text(json.dumps({{"seconds": float(value("--time")[:-1]), "trials": 7, "trials_per_second": 50,
        "ratio": {{"value": 0.9, "low": 0.89, "high": 0.91}}, "tasks": [{{"tried": 3, "size": 3}}, {{"tried": 3, "size": 9}}]}}))
if words[0] == "compile":
    pathlib.Path(value("-o")).write_text(pathlib.Path(value("--layer-plan")).read_text())
if words[0] == "inspect":
    print("# where it comes from\\nconv1 = %g" % speed(value("--layer-plan")))
if words[0] == "bench":
    print(json.dumps({{"median_ms": speed(words[1])}}))
if words[0] == "compare":
    noise = json.loads(os.environ["NOISE"])
    off = noise[sum(line.startswith("compare") for line in log.read_text().splitlines()) % len(noise)]
    ratio = speed(words[2]) / speed(words[1])
    print(json.dumps({{"ratio": {{"value": ratio * (off if "compared.a" in words[1] else 1 / off)}}}}))
"""


class Bench:
    def __init__(self, script, folder):
        self.script, self.folder = script, pathlib.Path(folder)
        self.wrong = self.checks = 0
        fake = self.folder / "kilter"
        fake.write_text(FAKE.format(python=sys.executable))
        fake.chmod(0o755)
        (self.folder / "resnet18.onnx").write_text("")
        (self.folder / "log").write_text("")

    def run(self, *words, speeds=None, noise=(1.0,), xgboost=True, fail=""):
        says = {"SPEEDS": json.dumps(speeds or {}), "NOISE": json.dumps(noise), "XGBOOST": json.dumps(xgboost), "FAIL": fail,
                "LOG": str(self.folder / "log")}
        (self.folder / "log").write_text("")
        done = subprocess.run([sys.executable, self.script, "--kilter", str(self.folder / "kilter"), "--models", str(self.folder), "--records",
                               str(self.folder / "records"), "--reference", "6min", "--race", "0.1", *words],
                              env=os.environ | says, capture_output=True, text=True)
        return done.returncode, done.stdout, done.stderr

    def expect(self, what, got, code, *texts):
        self.checks += 1
        if got[0] != code or not all(text in got[1] + got[2] for text in texts) or "Traceback" in got[2]:
            self.wrong += 1
            print(f"FAILED: {what}: expected exit {code} and {texts}, got exit {got[0]}:\n{got[1]}{got[2]}", file=sys.stderr)

    def refused(self, what, text, *words):
        got = self.run(*words)
        self.expect(what, got, 2, text)
        self.same(f"{what}: lines", got[2].count("\n"), 1)

    def same(self, what, got, expected):
        self.checks += 1
        if got != expected:
            self.wrong += 1
            print(f"FAILED: {what}: expected {expected}, got {got}", file=sys.stderr)

    def calls(self, command):
        return [line for line in (self.folder / "log").read_text().splitlines() if line.startswith(command + " ")]

    def kept(self, file="reference.json"):
        return self.folder / "records" / "resnet18.1" / file


def judges(bench):
    """The fastest of all accepted plans is the best one known, even if a later run accepted a slower one."""
    speeds = {"tuned": 98, "model": 96, "ga": 97, "xgb": 98, "grid": 99}
    noise = (1.0, 1.01, 0.99, 1.01, 0.99)
    bench.expect("a plan in the middle", bench.run("resnet18", speeds=speeds, noise=noise), 0, "| model.1 of 5 | 0.980 (0.967 to 0.992) |",
                 "| 1.000 (0.988 to 1.012) | passed, undecided |", "| 6 of 60 min | 42 | 1 of 2 |")
    bench.same("processes of each comparison", len(bench.calls("compare")), 10)
    bench.same("who goes first", ["compared.a" in line.split()[1] for line in bench.calls("compare")], [True, False, True, False, True] * 2)
    bench.same("every process has files of its own", sum("compared." in line for line in bench.calls("compile")), 20)
    tunes = bench.calls("tune")
    bench.same("who starts from nothing", ["fresh.db" in line for line in tunes], [False, True, False, False, False, False, False])
    bench.same("who learns from the tuned run", (bench.kept("best.db")).read_text().split(), ["tuned", "ga", "xgb", "xgb-rank", "random", "grid"])
    bench.expect("clearly behind", bench.run("resnet18", speeds={"tuned": 100, "ga": 90}), 1, "| 0.900 (0.900 to 0.900) |", "| missed |")
    bench.expect("behind, or not", bench.run("resnet18", speeds={"tuned": 100, "ga": 96.5}, noise=noise), 1, "| missed, undecided |")
    bench.expect("none is faster", bench.run("resnet18", speeds={"tuned": 90}), 0, "| tuned of 2 | 1, the tuned plan is the best one | not timed | passed |")
    bench.same("nothing to compare", bench.calls("compare"), [])


def goes_on(bench):
    """With --continue, earlier results are kept and extended; without it, everything starts from scratch."""
    bench.run("resnet18=1min", speeds={"ga": 95})
    bench.same("time of the tuned run", ["--time 60s" in line for line in bench.calls("tune")][:2], [True, True])
    bench.expect("twelve minutes", bench.run("resnet18", "--continue", speeds={"ga": 97}), 1, "| 60 s |", "| 12 of 60 min | 84 |", "| ga.1 of 3 |",
                 "resnet18: model 120 s 14 trials", str(bench.kept()))
    bench.same("nothing is tuned again", len(bench.calls("tune")), 6)
    bench.same("another seed", "--searcher-option seed=3" in bench.calls("tune")[1], True)
    bench.same("both runs of a searcher", json.loads(bench.kept().read_text())["searchers"]["ga"], {"seconds": 120.0, "trials": 14, "runs": 2})
    got = bench.run("resnet18", "--continue", fail="xgb")
    bench.expect("a searcher that fails", got, 1, "| resnet18 | failed: kilter tune: it went wrong |")
    bench.same("what came before it is kept", json.loads(bench.kept().read_text())["searchers"]["ga"]["runs"], 3)
    bench.expect("anew", bench.run("resnet18"), 0, "| 6 of 60 min | 42 |")
    bench.expect("without XGBoost", bench.run("resnet18", xgboost=False), 0, "without xgb and xgb-rank: kilter searchers: kilter: no XGBoost here", "| 6 of 60 min | 28 |")


def refuses(bench):
    bench.refused("no such network", "best_plan.py: no network 'resnet19'; legal values are resnet18, resnet50, ", "resnet19")
    bench.refused("no time", "best_plan.py: resnet18=0: expected a time such as 90s, 5min or 1h, above 0 and at most 7 days", "resnet18=0")
    bench.refused("no number", "--reference soon: expected a time such as ", "--reference", "soon")
    bench.refused("no time at all", "--time 0s: expected a time such as ", "--time", "0s")
    bench.refused("one process", "--restarts 1: expected 2 or more", "--restarts", "1")
    bench.refused("no time to compare", "--compare 0.1: expected 0.5 or more seconds", "--compare", "0.1")
    bench.refused("no threads", "--threads 0: expected 1 or more", "--threads", "0")
    bench.refused("an option that is none", "unrecognized arguments: --speed; --help describes the "
                                            "options", "resnet18", "--speed")
    bench.refused("no program", "expected the program kilter, which does not run: ", "--kilter", "nowhere/kilter")
    bench.same("nothing was run", bench.calls("tune"), [])
    bench.run("resnet18")
    bench.kept("best.db").unlink()
    bench.refused("records are missing", "resnet18.1: best.db is missing; remove the folder or leave --continue out", "resnet18", "--continue")
    bench.kept("tuned.json").write_text("{")
    bench.refused("a damaged file", "resnet18.1: tuned.json cannot be read: ", "resnet18", "--continue")
    bench.kept().unlink()
    bench.refused("the tuned run was stopped", "resnet18.1: reference.json is missing, so the tuned run did not end", "resnet18", "--continue")


def main():
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(sys.argv[1], folder)
        for group in (judges, goes_on, refuses):
            group(bench)
    print(f"{bench.checks} checks, {bench.wrong} wrong")
    sys.exit(1 if bench.wrong else 0)


if __name__ == "__main__":
    main()
