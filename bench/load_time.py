#!/usr/bin/env python3
"""Measures how long loading a compiled file takes, with and without the check of its hash. Prints one table; exits with 1 above --most.

usage: load_time.py [--target native] [--kilter build/kilter] [--library build/src/libkilter_runtime.so] [--most 50] [--models models] [NAME ...]

Networks are those of bench/networks.py (default: resnet50), compiled for --target, of which there may be
several (x86-64-v3,znver4): loading chooses the one for this machine. Loads with and without the check take
turns in one process, with the file in the page cache. A time is the median of 21 loads; "first" is the first load with the
check. --most: limit for a load with the check, in milliseconds.
Exit codes: 0 none is slower; 1 one is, or a file cannot be loaded; 2 the command line cannot be used.
"""
import ctypes
import pathlib
import statistics
import sys
import tempfile
import time

import networks
import peers

LOADS = 21
UNVERIFIED = 1  # KILTER_LOAD_UNVERIFIED of include/kilter/runtime.h


class Runtime:
    """Returns the functions of libkilter_runtime that load files."""

    def __init__(self, path):
        try:
            self.library = ctypes.CDLL(str(path))
        except OSError as error:
            peers.refuse(f"--library {path}: expected libkilter_runtime.so, which cannot be loaded: {error}")
        self.library.kilter_program_load_with.argtypes = [ctypes.c_char_p, ctypes.c_uint32, ctypes.POINTER(ctypes.c_void_p)]
        self.library.kilter_program_free.argtypes = [ctypes.c_void_p]
        self.library.kilter_last_error.restype = ctypes.c_char_p

    def load_ms(self, path, flags):
        program = ctypes.c_void_p()
        start = time.perf_counter()
        status = self.library.kilter_program_load_with(str(path).encode(), flags, ctypes.byref(program))
        took = 1000 * (time.perf_counter() - start)
        if status != 0:
            sys.exit(f"{path}: {self.library.kilter_last_error().decode()}")
        self.library.kilter_program_free(program)
        return took


def compiled(args, name, folder):
    path = folder / f"{name}.kilter"
    shapes = networks.SHAPES.get(name, {})
    peers.kilter(args, "compile", networks.path_of(name, args.models), "-o", path, "--target", args.target, *networks.input_options(shapes))
    return path


def loads(runtime, path):
    """Returns the first load with the check, and the medians with and without it, in milliseconds."""
    path.read_bytes()  # brings the file into the page cache
    first = runtime.load_ms(path, 0)
    both = [(runtime.load_ms(path, 0), runtime.load_ms(path, UNVERIFIED)) for _ in range(LOADS)]
    return [first, *(statistics.median(times) for times in zip(*both))]


def main():
    parser = peers.Parser(__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", default=["resnet50"])
    parser.add_argument("--target", default="native")
    parser.add_argument("--kilter", default="build/kilter")
    parser.add_argument("--library", default="build/src/libkilter_runtime.so")
    parser.add_argument("--most", type=float, default=50)
    parser.add_argument("--models", default="models")
    args = parser.parse_args()
    peers.check_program(args, "--kilter")
    peers.check_names(args.names)
    runtime = Runtime(args.library)
    slow = []
    print("| network | MB | first ms | checked ms | unchecked ms | GB/s of the check |\n|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for name in args.names:
            path = compiled(args, name, pathlib.Path(folder))
            first, checked, unchecked = loads(runtime, path)
            size = path.stat().st_size / 1e6
            print(f"| {name} | {size:.1f} | {first:.1f} | {checked:.1f} | {unchecked:.2f} | {size / (checked - unchecked):.1f} |", flush=True)
            slow += [name] if checked > args.most else []
    print(f"\n{'slower than ' + str(args.most) + ' ms: ' + ', '.join(slow) if slow else f'none takes more than {args.most} ms'}")
    sys.exit(1 if slow else 0)


if __name__ == "__main__":
    main()
