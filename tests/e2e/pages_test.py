#!/usr/bin/env python3
"""Whether what pages show of `kilter inspect` is what it says: each line of a console block is one of the output's.

usage: pages_test.py KILTER PAGE...

"..." stands for lines, or the end of a line, that are left out; versions of LLVM may differ.
"""
import re
import shlex
import subprocess
import sys


def without_version(text):
    return re.sub(r"LLVM [0-9.]+", "LLVM", text)


def blocks(page):
    for block in re.findall(r"^```console\n(.*?)^```$", page, re.S | re.M):
        command, *lines = block.splitlines()
        if command.startswith("$ kilter inspect "):
            yield shlex.split(command[2:])[1:], [line for line in lines if line.strip() not in ("", "...")]


def main():
    program, *pages = sys.argv[1:]
    checked = wrong = 0
    for path in pages:
        for words, lines in blocks(without_version(open(path).read())):
            done = subprocess.run([program, *words], capture_output=True, text=True, check=True)
            said = without_version(done.stdout).splitlines()
            for line in lines:
                checked += 1
                start = line.removesuffix(" ...").rstrip(",") if line.endswith(" ...") else None
                if line in said or (start and any(s.startswith(start) for s in said)):
                    continue
                wrong += 1
                print(f"{path}: kilter {' '.join(words)} does not say\n  {line}", file=sys.stderr)
    print(f"{checked} lines, {wrong} wrong")
    return 1 if wrong or not checked else 0


if __name__ == "__main__":
    sys.exit(main())
