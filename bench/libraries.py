#!/usr/bin/env python3
"""Compares the time of C libraries of networks (kilter compile -o NAME.so) with that of `kilter bench`, in turns.

    libraries.py KILTER [--threads N] [--rounds N] NAME=MODEL[,INPUT=SHAPE]...

Prints for each network the sizes of the library, the least and the median time of both in ms over all rounds, and the
ratio of the medians. Weights and inputs are those of `kilter bench`'s network; values do not affect the time.
"""

import argparse
import json
import os
import re
import statistics
import subprocess
import tempfile

PROGRAM = r"""
#include "NET.h"
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
static double ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}
int main(int argc, char **argv) {
  NET_net *net = NET_create(atoi(argv[1]));
  if (argc < 3 || net == NULL) return 1;
MEMORY
  for (double end = ms() + atof(argv[2]) * 1e3; ms() < end;) {
    const double begin = ms();
    if (NET_run(net, CALL) != 0) return 2;
    printf("%.6f\n", ms() - begin);
  }
  NET_free(net);
  return 0;
}
"""


def build(kilter, name, model, options, folder):
    """Returns the program of a network, and what was written."""
    written = json.loads(subprocess.run([kilter, "compile", model, *options, "--cmake", "--name", name, "-o",
                                         os.path.join(folder, name), "--json", "-"], check=True, capture_output=True).stdout)
    header = open(os.path.join(folder, name, f"{name}.h")).read()
    given = re.search(rf"int {name}_run\({name}_net \*net(.*?)\);", header, re.S).group(1)
    arguments = re.findall(r"(\w+) \*(\w+)", given)
    memory = "\n".join(f"  {kind} *{arg} = aligned_alloc(64, ({name.upper()}_{arg.upper()}_ELEMENTS * sizeof({kind}) + 63) / 64 * 64);\n"
                       f"  for (size_t i = 0; i < {name.upper()}_{arg.upper()}_ELEMENTS; ++i) {arg}[i] = 1;" for kind, arg in arguments)
    main = os.path.join(folder, f"{name}_main.c")
    text = PROGRAM.replace("NET", name).replace("MEMORY", memory).replace("CALL", ", ".join(arg for _, arg in arguments))
    with open(main, "w") as out:
        out.write(text)
    program = os.path.join(folder, f"{name}_main")
    sources = os.path.join(folder, name)
    subprocess.run(["cc", "-O2", "-std=gnu11", "-pthread", f"-Wa,-I,{sources}", f"-I{sources}", main,
                    os.path.join(sources, f"{name}.c"), "-o", program], check=True)
    return program, written


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kilter")
    parser.add_argument("--threads", default="1")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("networks", nargs="+")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for text in given.networks:
            name, rest = text.split("=", 1)
            model, *shapes = rest.split(",")
            options = ["--threads", given.threads] + [word for shape in shapes for word in ("--input", shape)]
            program, written = build(given.kilter, name, model, options, folder)
            library, bench = [], []
            for _ in range(given.rounds):
                times = subprocess.run([program, given.threads, "1"], check=True, capture_output=True, text=True).stdout
                library.append([float(t) for t in times.split()][1:])
                figures = json.loads(subprocess.run([given.kilter, "bench", model, *options, "--seconds", "1", "--json", "-"],
                                                    check=True, capture_output=True).stdout)
                bench.append(figures)
            own = statistics.median(t for times in library for t in times)
            theirs = statistics.median(figures["median_ms"] for figures in bench)
            print(f"{name}: {written['weight_bytes'] / 1e6:.1f} MB weights, {written['kernel_bytes'] / 1e3:.0f} kB kernels; "
                  f"library {min(min(t) for t in library):.3f} ms least, {own:.3f} median; "
                  f"kilter bench {min(f['min_ms'] for f in bench):.3f} least, {theirs:.3f} median; ratio {own / theirs:.3f}",
                  flush=True)


main()
