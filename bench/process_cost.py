"""Measures what one process costs: wall time, CPU time and peak resident memory of a command on one CPU.

usage: process_cost.py CPU COMMAND [ARGUMENT ...]    prints one line of JSON; exit code 1 if the command cannot be started

The kernel's peak includes the memory that a process had before it executed another program, so a child's peak is never
below that of the process that started it. Benchmarks therefore start this script, which imports next to nothing, instead
of the command.
"""
import json
import os
import resource
import subprocess
import sys
import time


def cost_of(command, cpu):
    """Returns the figures that main() prints for a command. Raises RuntimeError with the reason if it cannot be started."""
    call = [sys.executable, "-I", "-S", __file__, str(cpu), *map(str, command)]
    done = subprocess.run(call, capture_output=True, text=True, env=clean_environment())
    if done.returncode != 0:
        raise RuntimeError(done.stderr.strip().splitlines()[-1])
    return json.loads(done.stdout)


def clean_environment():
    """Returns this process's environment without Kilter's settings, which change what is compiled."""
    return {name: value for name, value in os.environ.items() if not name.startswith("KILTER_")}


def main():
    cpu, command = int(sys.argv[1]), sys.argv[2:]
    os.sched_setaffinity(0, {cpu})
    start = time.perf_counter()
    try:
        child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    except OSError as error:
        sys.exit(f"cannot start '{command[0]}': {error.strerror}")
    output, error = child.communicate()
    wall = time.perf_counter() - start
    use = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(json.dumps({"wall_s": wall, "cpu_s": use.ru_utime + use.ru_stime, "peak_mib": use.ru_maxrss / 1024,
                      "code": child.returncode, "output": output, "error": error}))


if __name__ == "__main__":
    main()
