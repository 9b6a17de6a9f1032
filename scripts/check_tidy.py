#!/usr/bin/env python3
"""clang-tidy over every C++ file of src, tools, tests and examples, as .clang-tidy says; any finding fails.

usage: scripts/check_tidy.py [-j N] [--all] [FILE...]
  -j N   files at a time (the number of CPUs)
  --all  also files that are as they were when they were last found fine

Needs a release build, whose compile commands and lists of included files it reads. build/tidy.json keeps, for each
file that is fine, a hash of all that the check depends on: clang-tidy's version, .clang-tidy, the compile command, and
the names and contents of the file and of everything that it includes. tests/fuzz is not in the release build and is
left out. Exit codes: 0 fine, 1 findings, 2 cannot run, 130 interrupted.
"""

import argparse
import concurrent.futures
import hashlib
import json
import os
import shlex
import shutil
import subprocess
import sys
import time

TIDY = "clang-tidy-22"
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BUILD = os.path.join(ROOT, "build")
CACHE = os.path.join(BUILD, "tidy.json")


def stop(text):
    print(f"check_tidy.py: {text}", file=sys.stderr)
    sys.exit(2)


def output_of(*command):
    return subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout


def included_files():
    """By source: the files that its compilation read; a source whose list is not current has none."""
    lists, current = {}, None
    for line in output_of("ninja", "-C", BUILD, "-t", "deps").splitlines():
        if not line.startswith("    "):
            current = [] if line.endswith("(VALID)") else None
        elif current is not None:
            current.append(os.path.normpath(os.path.join(BUILD, line.strip())))
            if len(current) == 1:
                lists.setdefault(current[0], []).append(current)
    return {source: sorted(set().union(*found)) for source, found in lists.items()}


class Keys:
    """What the result for a file depends on, as a hash."""

    def __init__(self, commands):
        version = output_of(TIDY, "--version")
        with open(os.path.join(ROOT, ".clang-tidy"), encoding="utf-8") as config:
            self.common = version + config.read()
        self.commands = commands
        self.included = included_files()
        self.contents = {}

    def content(self, path):
        if path not in self.contents:
            try:
                with open(path, "rb") as file:
                    self.contents[path] = hashlib.sha256(file.read()).hexdigest()
            except OSError:
                self.contents[path] = "none"
        return self.contents[path]

    def key(self, source):
        """None when the files that it includes are not known."""
        files = self.included.get(source)
        if files is None:
            return None
        parts = [self.common, self.commands[source]] + [f"{file} {self.content(file)}" for file in files]
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def check(source):
    """clang-tidy's report on one file, or "". The compiler's own warnings are the build's business."""
    done = subprocess.run([TIDY, "-p", BUILD, "--quiet", "--extra-arg=-w", "--warnings-as-errors=*", source],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    return "" if done.returncode == 0 else done.stdout or f"{source}: clang-tidy ended with {done.returncode}\n"


def wanted_files(named, commands):
    if named:
        files = [os.path.abspath(file) for file in named]
    else:
        listed = output_of("git", "ls-files", "src/*.cpp", "tools/*.cpp", "tests/*.cpp", "examples/*.cpp").split()
        files = [os.path.join(ROOT, file) for file in listed if not file.startswith("tests/fuzz/")]
    unknown = [os.path.relpath(file, ROOT) for file in files if file not in commands]
    if unknown:
        stop(f"the release build does not compile {', '.join(unknown)}; configure it again: cmake --preset release")
    return files


def read_cache():
    try:
        with open(CACHE, encoding="utf-8") as file:
            return json.load(file)
    except (OSError, ValueError):
        return {}


def write_cache(cache):
    with open(CACHE + ".new", "w", encoding="utf-8") as file:
        json.dump(cache, file, indent=0, sort_keys=True)
    os.replace(CACHE + ".new", CACHE)


def run(files, jobs, cache, keys):
    """Checks the files; answers how many have findings, which it prints."""
    bad, done, terminal = 0, 0, sys.stdout.isatty()
    pool = concurrent.futures.ThreadPoolExecutor(jobs)
    try:
        waiting = {pool.submit(check, file): file for file in files}
        for future in concurrent.futures.as_completed(waiting):
            file = waiting[future]
            done += 1
            report = future.result()
            if terminal:
                print(f"\rclang-tidy: {done} of {len(files)}\x1b[K", end="", flush=True)
            if report:
                bad += 1
                cache.pop(file, None)
                print(("\r\x1b[K" if terminal else "") + report, end="", flush=True)
            elif keys[file]:
                cache[file] = keys[file]
    finally:
        pool.shutdown(cancel_futures=True)
        write_cache(cache)
        if terminal:
            print("\r\x1b[K", end="", flush=True)
    return bad


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-j", type=int, default=len(os.sched_getaffinity(0)), metavar="N")
    parser.add_argument("--all", action="store_true")
    parser.add_argument("files", nargs="*", metavar="FILE")
    args = parser.parse_args()
    start = time.monotonic()
    for tool in (TIDY, "ninja", "git"):
        if shutil.which(tool) is None:
            stop(f"no {tool}; ./test installs it")
    try:
        with open(os.path.join(BUILD, "compile_commands.json"), encoding="utf-8") as file:
            entries = json.load(file)
    except OSError:
        stop("no release build; make one: cmake --preset release && cmake --build --preset release")
    commands = {}
    for entry in entries:
        # The way the object is named or cached is nothing to clang-tidy.
        words = [word for word in shlex.split(entry["command"]) if not word.endswith(("ccache", ".o"))]
        commands[entry["file"]] = commands.get(entry["file"], "") + " ".join(words)
    files = wanted_files(args.files, commands)
    keys_of = Keys(commands)
    keys = {file: keys_of.key(file) for file in files}
    known = read_cache()
    fine = {file: known[file] for file in files if keys[file] and known.get(file) == keys[file] and not args.all}
    kept = {**known, **fine} if args.files else dict(fine)
    bad = run([file for file in files if file not in fine], max(args.j, 1), kept, keys)
    count = f"{len(files)} files, {len(files) - len(fine)} of them checked now, in {time.monotonic() - start:.0f} s"
    if bad:
        print(f"clang-tidy: findings in {bad} of {count}", file=sys.stderr)
        return 1
    print(f"clang-tidy: no finding in {count}")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
