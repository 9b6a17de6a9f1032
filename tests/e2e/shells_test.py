#!/usr/bin/env python3
"""Tests the completion scripts in their shells: zsh on a pseudo terminal, fish with its `complete -C`.

usage: shells_test.py KILTER

Exit code 77: neither shell is installed.
"""
import os
import pathlib
import pty
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time

KILTER = os.path.abspath(sys.argv[1])
PATH = {"PATH": f"{os.path.dirname(KILTER)}:{os.environ['PATH']}", "TERM": "dumb", "LC_ALL": "C.UTF-8"}
RESNETS = {"resnet18", "resnet18_tvm"}
# The typed text, and words that the completions contain, some with their description.
LINES = {
    "kilter comp": {"compare", "compile", "completion"},
    "kilter run zoo:resnet18": RESNETS,
    "kilter run --accuracy ": {"default", "strict"},
    "kilter compile --target neoverse-": {"neoverse-n1", "neoverse-n2", "neoverse-v1", "neoverse-v2"},
    "kilter records exp": {"export"},
    "kilter b": {"bench", "Time a network from the caller's inputs"},
}
failures = []


def check(shell, line, words, answer):
    missing = {word for word in words if word not in answer}
    if missing:
        failures.append(f"{shell}: '{line}' is answered without {sorted(missing)}:\n{answer}")


def test_fish(folder):
    script = folder / "kilter.fish"
    script.write_text(subprocess.run([KILTER, "completion", "fish"], capture_output=True, text=True, check=True).stdout)
    for line, words in LINES.items():
        done = subprocess.run(["fish", "--no-config", "-c", f"source {script}; complete -C '{line}'"], capture_output=True,
                              text=True, env={**PATH, "HOME": str(folder)}, timeout=60)
        check("fish", line, words, done.stdout + done.stderr)


class Terminal:
    """The other side of a program's pseudo terminal."""

    def __init__(self, program, environment):
        self.child, self.file = pty.fork()
        self.unread = b""
        if self.child == 0:
            os.execvpe(program[0], program, environment)

    def write(self, keys):
        os.write(self.file, keys.encode())

    def read_to(self, mark, seconds=20):
        """Returns the output up to a mark, or everything if the mark does not appear in time."""
        end = time.monotonic() + seconds
        while mark not in self.unread and time.monotonic() < end:
            if select.select([self.file], [], [], 0.1)[0]:
                self.unread += os.read(self.file, 65536)
        shown, _, self.unread = self.unread.partition(mark)
        return shown.decode(errors="replace")

    def close(self):
        os.kill(self.child, signal.SIGKILL)
        os.waitpid(self.child, 0)
        os.close(self.file)


def test_zsh(folder):
    script = folder / "_kilter"
    script.write_text(subprocess.run([KILTER, "completion", "zsh"], capture_output=True, text=True, check=True).stdout)
    terminal = Terminal(["zsh", "-f", "-i"], {**PATH, "HOME": str(folder), "PS1": "NEXT>", "COLUMNS": "200"})
    # ^T lists the completions at the cursor, and ^U clears the line, after which a mark is printed.
    terminal.write(f"stty cols 200; autoload -Uz compinit; compinit -u -D; source {script}; LISTMAX=0; bindkey -e; "
                   "bindkey '^T' list-choices; print READY-$?\n")
    terminal.read_to(b"\nREADY-0")
    for number, line in enumerate(LINES):
        terminal.read_to(b"NEXT>")
        terminal.write(f"{line}\x14\x15print DONE-$(( {number} + 100 ))\n")
        check("zsh", line, LINES[line], terminal.read_to(f"\nDONE-{number + 100}".encode()))
    terminal.close()


def main():
    ran = 0
    for shell, test in (("fish", test_fish), ("zsh", test_zsh)):
        if shutil.which(shell) is None:
            print(f"{shell} is not installed")
            continue
        ran += 1
        with tempfile.TemporaryDirectory() as folder:
            test(pathlib.Path(folder))
    for failure in failures:
        print(failure)
    print(f"{ran} shells, {len(LINES)} lines each, {len(failures)} failures")
    return 1 if failures else 0 if ran else 77


if __name__ == "__main__":
    sys.exit(main())
