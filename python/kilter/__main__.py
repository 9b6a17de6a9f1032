"""The program `kilter`: python -m kilter, and the console script of that name."""
import sys

from . import _kilter


def main() -> int:
    """Runs a command line; returns its exit code."""
    return _kilter.run_program(["kilter", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
