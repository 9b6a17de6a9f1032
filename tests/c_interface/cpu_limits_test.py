#!/usr/bin/env python3
"""Tests the default number of threads of a pool, in affinity masks and in cgroups created for the purpose.

usage: cpu_limits_test.py CHECK PROGRAM FILE

PROGRAM is pool_threads, FILE a compiled file. CHECK is affinity, cpuset or quota. Exit codes: 0 passed, 1 failed, 2
usage, 77 if this machine does not let the test create a cgroup; the test prints what was not permitted.
"""
import contextlib
import os
import pathlib
import subprocess
import sys

SKIPPED = 77


class Failure(Exception):
    pass


class Skipped(Exception):
    pass


def expect(what, expected, got):
    if expected != got:
        raise Failure(f"{what}: expected {expected}, got {got}")


def run(words, cpus=None, group=None, variables=()):
    """Runs the program on CPUs and in a cgroup. Returns the number of threads and the list of CPUs of each thread."""
    def enter():
        if group:
            (group / "cgroup.procs").write_text(str(os.getpid()))
        if cpus:
            os.sched_setaffinity(0, cpus)
    environment = {name: value for name, value in os.environ.items() if name != "KILTER_NUM_THREADS"}
    done = subprocess.run([str(word) for word in words], text=True, capture_output=True, preexec_fn=enter, timeout=120,
                          env={**environment, **dict(variables)})
    if done.returncode != 0:
        raise Failure(f"{' '.join(map(str, words))}: exit code {done.returncode}: {done.stderr}")
    lines = done.stdout.splitlines()
    return int(lines[0].split()[1]), [line.split()[1] for line in lines[1:]]


def mounted(kind):
    """Returns the folder of the hierarchy of cgroup v1 with this controller, or that of v2 if it has the controller."""
    for line in pathlib.Path("/proc/self/mountinfo").read_text().splitlines():
        words = line.split()
        system, point, options = words[words.index("-") + 1], pathlib.Path(words[4]), words[-1].split(",")
        if system == "cgroup" and kind in options:
            return 1, point
        if system == "cgroup2" and kind in (point / "cgroup.subtree_control").read_text().split():
            return 2, point
    raise Skipped(f"no mounted cgroup hierarchy has the controller '{kind}'")


@contextlib.contextmanager
def cgroup(kind, settings):
    """Creates a cgroup with settings: by version, files and texts."""
    version, top = mounted(kind)
    group = top / f"kilter_test_{os.getpid()}"
    try:
        group.mkdir()
    except OSError as error:
        raise Skipped(f"a cgroup cannot be made here: {error}") from error
    try:
        for name, text in settings[version].items():
            try:
                (group / name).write_text(text)
            except OSError as error:
                raise Skipped(f"a cgroup cannot be limited here: {name}: {error}") from error
        yield group
    finally:
        group.rmdir()


def affinity(words):
    """The affinity mask of the calling thread counts, KILTER_NUM_THREADS overrides it, and no thread is bound to a CPU
    unless a pool requests it."""
    allowed = sorted(os.sched_getaffinity(0))
    expect("one CPU", 1, run(words, cpus={allowed[-1]})[0])
    threads, lists = run(words, cpus=set(allowed[:2]))
    expect("KILTER_NUM_THREADS on one CPU", 3, run(words, cpus={allowed[0]}, variables={"KILTER_NUM_THREADS": "3"}.items())[0])
    expect("CPUs of all threads", 1, len(set(lists)))
    if threads < 2:
        print("the check of bound threads needs 2 CPUs")
        return
    threads, lists = run([*words, allowed[0], allowed[1]])
    expect("threads of a pool on two CPUs", 2, threads)
    expect("threads on the second CPU only", 1, lists.count(str(allowed[1])))
    expect("threads on the first CPU only, where the caller is not bound to", 0, lists.count(str(allowed[0])))


def cpuset(words):
    """A cpuset with one CPU allows one thread, wherever the process was allowed to run before."""
    cpu = str(max(os.sched_getaffinity(0)))
    _, top = mounted("cpuset")
    nodes = next((file.read_text().strip() for file in (top / "cpuset.mems", top / "cpuset.mems.effective") if file.exists()), "0")
    with cgroup("cpuset", {1: {"cpuset.cpus": cpu, "cpuset.mems": nodes}, 2: {"cpuset.cpus": cpu}}) as group:
        threads, lists = run(words, group=group)
        expect("threads in a cpuset of one CPU", 1, threads)
        expect("CPUs in the cpuset", {cpu}, set(lists))


def quota(words):
    """A quota is rounded up to whole CPUs, and the affinity mask counts if it has fewer."""
    cpus = len(os.sched_getaffinity(0))
    for micros, quota_cpus in ((30000, 1), (100000, 1), (150000, 2), (400000, 4)):
        settings = {1: {"cpu.cfs_period_us": "100000", "cpu.cfs_quota_us": str(micros)}, 2: {"cpu.max": f"{micros} 100000"}}
        with cgroup("cpu", settings) as group:
            expect(f"threads with a quota of {micros / 100000:g} CPUs", min(cpus, quota_cpus), run(words, group=group)[0])


def main():
    checks = {check.__name__: check for check in (affinity, cpuset, quota)}
    if len(sys.argv) != 4 or sys.argv[1] not in checks:
        print(__doc__, file=sys.stderr)
        return 2
    try:
        checks[sys.argv[1]](sys.argv[2:])
    except Skipped as reason:
        print(f"cpu_limits_test.py: skipped: {reason}")
        return SKIPPED
    except Failure as failure:
        print(f"cpu_limits_test.py: FAILED: {failure}", file=sys.stderr)
        return 1
    print(f"{sys.argv[1]}: passed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
