#!/usr/bin/env python3
"""Tests the verdicts of bench/tuned.py with a fake kilter that prints scripted results.

The peers take 10 and 12 ms.

usage: tuned_test.py TUNED_PY
"""
import contextlib
import io
import json
import os
import pathlib
import sys
import tempfile

# To this kilter, records and compiled files contain only the time of a plan in ms; the default plan takes 10 ms.
FAKE = """#!{python}
import json, os, pathlib, sys
words = sys.argv[1:]
value = lambda option: words[words.index(option) + 1]
speed = lambda file: float(pathlib.Path(file).read_text())
planned = lambda: speed(value("--records")) if "--records" in words else 10.0
if words[0] == "tune":
    name = pathlib.Path(words[1]).stem
    pathlib.Path(value("--records")).write_text(str(json.loads(os.environ["SPEEDS"])[name]))
    pathlib.Path(value("--json")).write_text(json.dumps({{"trials": 70, "trials_per_second": 50, "choices": {{"conv1": "something"}}}}))
if words[0] == "inspect":
    print("# where it comes from: %s\\nconv1 = %g" % (words, planned()))
if words[0] == "compile":
    pathlib.Path(value("-o")).write_text(str(planned()))
if words[0] == "bench":
    print(json.dumps({{"median_ms": speed(words[1])}}))
if words[0] == "compare":
    print(json.dumps({{"ratio": {{"value": speed(words[2]) / speed(words[1])}}}}))
"""


def run(tuned, folder, *words):
    """Returns the exit code and the output."""
    sys.argv = ["tuned.py", "--threads", "1", "--kilter", str(folder / "kilter"), "--models", str(folder), "--records", str(folder / "records"),
                "--seconds", "0.1", *words]
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        try:
            tuned.main()
            code = 0
        except SystemExit as end:
            code = end.code
    return code, said.getvalue()


def main():
    sys.path.insert(0, str(pathlib.Path(sys.argv[1]).parent))
    import peers
    import tuned

    peers.peer_runners = lambda path, shapes, threads: {"ort": lambda: 10.0, "openvino": lambda: 12.0}
    peers.machine_text = lambda threads: "a machine"
    peers.keep_to_cpus = lambda threads: None
    with tempfile.TemporaryDirectory() as made:
        folder = pathlib.Path(made)
        (folder / "kilter").write_text(FAKE.format(python=sys.executable))
        (folder / "kilter").chmod(0o755)
        for name in ("resnet18", "vgg16"):
            (folder / f"{name}.onnx").write_text("")
        both = ("resnet18", "vgg16")
        met = "passed: none slower than untuned or the better peer, and the mean"
        cases = [
            ("twice as fast", (5, 5), both, 0, ["| 0.500 (0.500 to 0.500) | 0.50 (0.50 to 0.50) | 70 | 50 |", met]),
            ("the records as they are", None, ("--tune", "0", *both), 0, ["| 0.500 (0.500 to 0.500) | 0.50 (0.50 to 0.50) | 70 | 50 |", met]),
            ("the default plan, whatever the report has", (10, 4), both, 0, ["| 10.00 | 10.00 | 12.00 | the same plan | 1.00 (1.00 to 1.00) |", met]),
            ("not fast enough in the mean", (10, 8), both, 1, ["missed: 1.118 times as fast as the better peer in the geometric mean, promised: 1.4"]),
            ("slower than untuned, and than its peer", (11, 2), both, 1,
             ["missed: resnet18: tuned / untuned 1.100 (1.100 to 1.100), slower; resnet18: tuned / better peer 1.100 (1.100 to 1.100), slower\n"]),
            ("a network that does not run", ("slow", 2), both, 1, ["| resnet18 | failed: kilter inspect: ", "missed: resnet18 failed\n"]),
            ("no such network", None, ("resnet19",), 2, ["tuned.py: no network 'resnet19'; legal values are "]),
            ("no time", None, ("--tune", "soon", "vgg16"), 2, ["tuned.py: --tune soon: expected a time such as 90s, 5min or 1h"]),
            ("nothing was tuned", None, ("--tune", "0", "bert_base_128"), 2, ["tuned.py: --tune 0: ", "bert_base_128.1.db is missing; give a time"]),
        ]
        wrong = 0
        for what, speeds, words, code, texts in cases:
            if speeds:
                os.environ["SPEEDS"] = json.dumps(dict(zip(both, speeds)))
            got, said = run(tuned, folder, *words)
            if got != code or not all(text in said for text in texts):
                wrong += 1
                print(f"FAILED: {what}: expected exit {code} and {texts}, got exit {got}:\n{said}", file=sys.stderr)
            if what.startswith("the records"):
                for name in both:
                    (folder / "records" / f"{name}.1.json").unlink()
                _, said = run(tuned, folder, *words)
                if "| 0.50 (0.50 to 0.50) | - | - |" not in said:
                    wrong += 1
                    print(f"FAILED: {what}, without a report:\n{said}", file=sys.stderr)
    print(f"{len(cases)} cases, {wrong} wrong")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
