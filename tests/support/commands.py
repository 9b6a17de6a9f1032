"""Helpers for tests that run the programs and check their output."""
import os
import pathlib
import subprocess
import sys


def expect(holds, text):
    if not holds:
        sys.exit(f"{pathlib.Path(sys.argv[0]).name}: {text}")


def run(program, *words, code=0, timeout=300, env={}):
    done = subprocess.run([program, *map(str, words)], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=timeout,
                          env={**os.environ, **env})
    expect(done.returncode == code, f"{program.name} {words}: expected exit code {code}, got {done.returncode}:\n{done.stdout}")
    return done.stdout


def says(text, program, *words, **how):
    """Runs a program and expects a text, ignoring line breaks. Returns its output in one line."""
    said = " ".join(run(program, *words, **how).split())
    expect(text in said, f"{program.name} {words}: expected '{text}', got:\n{said}")
    return said
