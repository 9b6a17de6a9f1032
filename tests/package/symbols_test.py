#!/usr/bin/env python3
"""Compares the symbols that a shared library exports with a list.

usage: symbols_test.py LIBRARY LIST [--update]

--update writes the list. Exit codes: 0 equal or written, 1 different, 2 usage, or the library cannot be read.
"""
import pathlib
import subprocess
import sys


def exported(library):
    """Returns the symbols that other files can link to. A lower-case letter as the kind of a symbol means that it is
    local."""
    done = subprocess.run(["nm", "-D", "--defined-only", library], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"symbols_test.py: nm cannot read {library}: {done.stderr.strip()}; build it first")
    rows = [line.split() for line in done.stdout.splitlines()]
    return sorted({name for _, kind, name in rows if kind.isupper()})


def described(title, symbols):
    """Returns a text with the mangled and the readable name of each symbol."""
    readable = subprocess.run(["c++filt"], input="\n".join(symbols), capture_output=True, text=True, check=True).stdout
    names = [a if a == b else f"{a}\n    {b}" for a, b in zip(symbols, readable.splitlines())]
    return "".join(f"  {title}: {name}\n" for name in names)


def main():
    words = [word for word in sys.argv[1:] if word != "--update"]
    if len(words) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    library, path = words[0], pathlib.Path(words[1])
    found = exported(library)
    if not found:
        sys.exit(f"symbols_test.py: {library} exports nothing; expected the symbols of {path}")
    if "--update" in sys.argv:
        path.write_text("".join(f"{name}\n" for name in found))
        return 0
    expected = path.read_text().split() if path.exists() else []
    appeared = sorted(set(found) - set(expected))
    vanished = sorted(set(expected) - set(found))
    if appeared or vanished:
        print(f"{library} does not export the symbols of {path}:\n"
              + described("appeared", appeared) + described("vanished", vanished)
              + "If one vanished or changed, programs that were linked to this version no longer run: raise the version "
                "(CMakeLists.txt,\ninclude/kilter/version.h) unless it has not been released yet. What should not be "
                "exported is hidden in exports.map.\nTo accept the difference: "
              + f"python3 {sys.argv[0]} {library} {path} --update", file=sys.stderr)
        return 1
    print(f"{library}: {len(found)} symbols as in {path.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
