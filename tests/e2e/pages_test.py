#!/usr/bin/env python3
"""Tests that the pages show the real output of `kilter inspect`: the lines of a console block are lines of the output, in
the same order. Every page has such a block.

usage: pages_test.py KILTER PAGE...

"..." stands for omitted lines, or for the omitted end of a line; versions of LLVM and hashes of kernels may differ.
"""
import re
import shlex
import subprocess
import sys


def without_version(text):
    return re.sub(r"LLVM [0-9.]+, kernels [0-9a-f]{8}", "LLVM, kernels", text)


def blocks(page):
    for block in re.findall(r"^```console\n(.*?)^```$", page, re.S | re.M):
        command, *lines = block.splitlines()
        if command.startswith("$ kilter inspect "):
            yield shlex.split(command[2:])[1:], [line for line in lines if line.strip() not in ("", "...")]


def shows(line, said):
    """Whether a line of the page matches this line of the output."""
    start = line.removesuffix(" ...").rstrip(",") if line.endswith(" ...") else ""
    return line == said or (start != "" and said.startswith(start))


def missing(lines, said):
    """Returns the lines of the page that are missing from the output, or appear there only before the lines above them."""
    at = 0
    for line in lines:
        found = next((i for i in range(at, len(said)) if shows(line, said[i])), None)
        if found is None:
            yield line
        else:
            at = found + 1


def main():
    program, *pages = sys.argv[1:]
    wrong = 0
    for path in pages:
        checked = 0
        for words, lines in blocks(without_version(open(path).read())):
            done = subprocess.run([program, *words], capture_output=True, text=True, check=True)
            checked += len(lines)
            for line in missing(lines, without_version(done.stdout).splitlines()):
                wrong += 1
                print(f"{path}: kilter {' '.join(words)} does not say there\n  {line}", file=sys.stderr)
        print(f"{path}: {checked} lines")
        if checked == 0:
            wrong += 1
            print(f"{path}: no block of `kilter inspect` with a line to check", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
