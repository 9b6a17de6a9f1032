#!/usr/bin/env python3
"""Runs kilter tune on a terminal of 80x24 that becomes 60x12, and checks what it shows.

usage: tune_view_test.py KILTER PAGE    (PAGE: doc/tuning.md, which shows the view)
"""
import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import tempfile
import termios
import time

KILTER, PAGE = os.path.abspath(sys.argv[1]), sys.argv[2]
CODES = re.compile("(\033\\[[0-9;]*[A-Za-z]|\r|\n)")
failures = []


def check(what, condition, got=""):
    if not condition:
        failures.append(what)
        print(f"FAILED: {what}: {got}")


class Screen:
    """The lines of a terminal; it supports only the control codes that the view uses."""

    def __init__(self):
        self.lines, self.row, self.column, self.written = [""], 0, 0, ""

    def write(self, text):
        self.written += text
        for part in CODES.split(text):
            line = self.lines[self.row]
            if part == "\r":
                self.column = 0
            elif part == "\n":
                self.row += 1
                if self.row == len(self.lines):
                    self.lines.append("")
            elif part.endswith("A") and part.startswith("\033"):
                self.row -= int(part[2:-1])
                check("the cursor stays within what was written", self.row >= 0, self.row)
            elif part in ("\033[K", "\033[J"):
                self.lines[self.row] = line[:self.column]
                if part == "\033[J":
                    del self.lines[self.row + 1:]
            elif part.startswith("\033"):
                check("the only other codes are colours", part.endswith("m"), repr(part))
            else:
                self.lines[self.row] = line[:self.column] + part + line[self.column + len(part):]
                self.column += len(part)

    def wrap(self, columns):
        """Behaves like a terminal that becomes this narrow."""
        parts = [[line[i:i + columns] for i in range(0, max(len(line), 1), columns)] for line in self.lines]
        check("the cursor is at the beginning of a line", self.column == 0, self.column)
        self.row = sum(len(of) for of in parts[:self.row])
        self.lines = [part for of in parts for part in of]

    def shown(self):
        return [line.rstrip() for line in self.lines if line.strip()]


def set_size(terminal, rows, columns):
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


def watch(words, resize_after=None, **env):
    """Returns the screens that a tuning run showed at 80x24, those that it showed at 60x12 from one second after the
    terminal changed to that size, the screen at the end, and everything that was written."""
    main, child = pty.openpty()
    set_size(child, 24, 80)
    process = subprocess.Popen([KILTER, "tune", *words], stdout=subprocess.DEVNULL, stderr=child,
                               env={**os.environ, "TERM": "xterm", "NO_COLOR": "", **env})
    os.close(child)
    screen, wide, narrow, begin, small_since = Screen(), [], [], time.time(), None
    while True:
        if resize_after and not small_since and time.time() - begin > resize_after:
            while select.select([main], [], [], 0)[0]:
                screen.write(os.read(main, 65536).decode())
            set_size(main, 12, 60)
            screen.wrap(60)
            small_since = time.time()
        if not select.select([main], [], [], 0.05)[0]:
            continue
        try:
            part = os.read(main, 65536)
        except OSError:  # the terminal is closed
            break
        if not part:
            break
        screen.write(part.decode())
        if not small_since:
            wide.append(screen.shown())
        elif time.time() - small_since > 1:
            narrow.append(screen.shown())
    os.close(main)
    check(f"{words} succeeds", process.wait() == 0, screen.written[-600:])
    return wide, narrow, screen.shown(), screen.written


def check_size(screens, rows, columns):
    widest = max((line for shown in screens for line in shown), key=len, default="")
    tallest = max(screens, key=len, default=[])
    check(f"no line is wider than {columns}", 40 < len(widest) < columns, (len(widest), widest))
    check(f"no view is higher than {rows}", 5 < len(tallest) < rows, tallest)


def main():
    page = open(PAGE).read()
    network = ["zoo:squeezenet1_1", "--time", "10s", "--records", "none"]
    wide, narrow, end, written = watch(network, resize_after=6)
    check_size(wide, 24, 80)
    check_size(narrow, 12, 60)
    tables = [shown for shown in wide if len(shown) == 12]
    check("eight tasks and the rest are shown", tables, wide[-1:])
    first, result, heads, *rows, rest = tables[-1] if tables else [""] * 12
    check("what runs and the time", re.fullmatch(r"tune zoo:squeezenet1_1: (preparing|searching|racing   ) \[#*-*\] \d+ %, \d+ s left", first), first)
    check("the result comes first", re.match(r"\d+\.\d+ -> \d+\.\d+ ms \(([-+]\d+|0)\.\d %\), (busy machine, )?\d+ trials", result), result)
    check("the page shows these columns", heads.startswith("layer ") and f"\n{heads}\n" in page, heads)
    check("layers have their names", any(re.match(r"conv1 +\d", row) for row in rows) and any(" +1 " in row for row in rows), rows)
    check("shares fall", (shares := [float(re.search(r"([\d.]+) %", row)[1]) for row in rows]) == sorted(shares, reverse=True), rows)
    check("the rest is one line", re.match(r"and \d+ more tasks, ", rest), rest)
    check("the view is erased at the end", end == [], end)
    whole = written.count("layer ")
    check("only lines that changed are written again", whole <= 6, whole)  # at most once for each size and each phase
    _, _, _, plain = watch([*network, "--input", "input=1x3x64x64", "--trials", "10"], NO_COLOR="1")
    check("no colours with NO_COLOR", "tasks changed" in plain and not re.search("\033\\[[0-9;]*m", plain), repr(plain[:400]))
    _, _, _, plain = watch([*network, "--input", "input=1x3x64x64", "--trials", "10", "--color", "never"])
    check("no colours with --color never", "tasks changed" in plain and not re.search("\033\\[[0-9;]*m", plain), repr(plain[:400]))
    check("a bold heading on a terminal", "\033[1mlayer " in written, repr(written[:400]))
    print("\n".join(tables[-1] if tables else []))
    return 1 if failures else 0


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as home:
        os.environ["XDG_DATA_HOME"] = home
        sys.exit(main())
