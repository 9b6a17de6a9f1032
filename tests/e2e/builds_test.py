#!/usr/bin/env python3
"""Tests the verdicts and errors of bench/builds.py with fake kilter programs that report a given time.

usage: builds_test.py BUILDS_PY
"""
import pathlib
import subprocess
import sys
import tempfile

FAKE = """#!{python}
import json, pathlib, sys
words = sys.argv[1:]
if words[0] == "compile":
    assert words[words.index("--threads") + 1] == "1", words
    pathlib.Path(words[words.index("-o") + 1]).write_text("{ms}")
if words[0] == "bench":
    assert pathlib.Path(words[1]).read_text() == "{ms}", "each build runs its own file"
    print(json.dumps({{"median_ms": {ms}}}))
"""


def main():
    script = pathlib.Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory() as work:
        programs = {}
        for ms in (1.0, 1.02, 1.05, 0.9):
            programs[ms] = pathlib.Path(work) / f"kilter{ms}"
            programs[ms].write_text(FAKE.format(python=sys.executable, ms=ms))
            programs[ms].chmod(0o755)

        def run(before, after, *more, name="mobilenet_v1"):
            words = [sys.executable, script, before, after, "--models", work, "--seconds", "0.2", name, *more]
            return subprocess.run([str(word) for word in words], capture_output=True, text=True)

        def expect(done, code, text):
            said = done.stdout + done.stderr
            assert done.returncode == code and text in said, (done.returncode, code, text, said)

        expect(run(programs[1.0], programs[1.0]), 0, "geometric mean 1.000; none is certainly slower")
        expect(run(programs[1.0], programs[0.9]), 0, "geometric mean 0.900")
        expect(run(programs[1.0], programs[1.05]), 1, "geometric mean 1.050; slower or failed: mobilenet_v1")
        expect(run(programs[1.0], programs[1.02]), 1, "geometric mean 1.020; none is certainly slower")
        expect(run(programs[1.0], programs[1.02], "--mean", "1.03"), 0, "geometric mean 1.020")
        expect(run(programs[1.0], work), 2, f"{work}: expected the program kilter, which does not run: ")
        expect(run(programs[1.0], programs[1.0], "--threads", "0"), 2, "--threads 0: expected 1 to ")
        expect(run(programs[1.0], programs[1.0], name="nothing"), 2, "no network 'nothing'; legal values are resnet18, ")


if __name__ == "__main__":
    main()
