#!/usr/bin/env python3
"""Tests the completion scripts in the shells that they are for: zsh on a pseudo terminal, fish with its `complete -C`.

usage: shells_test.py KILTER

Exit code 77: neither shell is installed.
"""
import os
import pathlib
import pty
import select
import shutil
import subprocess
import sys
import tempfile
import time

KILTER = os.path.abspath(sys.argv[1])
PATH = {"PATH": f"{os.path.dirname(KILTER)}:{os.environ['PATH']}", "TERM": "dumb", "LC_ALL": "C.UTF-8"}
RESNETS = {"resnet18", "resnet18_tvm"}
# What is typed, and words that the answer has, some with their description.
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


def read_until(terminal, mark, seconds=20):
    """Returns what the terminal shows up to and with a mark; what it has shown if that does not come."""
    shown, end = b"", time.monotonic() + seconds
    while mark not in shown and time.monotonic() < end:
        if select.select([terminal], [], [], 0.1)[0]:
            shown += os.read(terminal, 65536)
    return shown.decode(errors="replace")


def test_zsh(folder):
    script = folder / "_kilter"
    script.write_text(subprocess.run([KILTER, "completion", "zsh"], capture_output=True, text=True, check=True).stdout)
    child, terminal = pty.fork()
    if child == 0:
        os.execvpe("zsh", ["zsh", "-f", "-i"], {**PATH, "HOME": str(folder), "PS1": "> ", "COLUMNS": "200"})
    # ^T lists what fits at the cursor, and ^U empties the line, behind which a mark is printed.
    set_up = (f"stty cols 200; autoload -Uz compinit; compinit -u -D; source {script}; LISTMAX=0; "
              "bindkey -e; bindkey '^T' list-choices; print READY=$?\n")
    os.write(terminal, set_up.encode())
    read_until(terminal, b"READY=0\r\n")
    for number, line in enumerate(LINES):
        os.write(terminal, f"{line}\x14".encode())
        os.write(terminal, f"\x15print DONE-$(( {number} + 100 ))\n".encode())
        check("zsh", line, LINES[line], read_until(terminal, f"DONE-{number + 100}".encode()))
    os.write(terminal, b"exit\n")
    os.waitpid(child, 0)
    os.close(terminal)


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
