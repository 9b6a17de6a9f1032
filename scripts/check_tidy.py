#!/usr/bin/env python3
"""Runs clang-tidy on every C++ file of src, tools, tests and examples, as configured in .clang-tidy. Any finding fails.

usage: scripts/check_tidy.py [-j N] [--all] [--commits N] [FILE|FOLDER...]
  -j N         number of files at a time (default: the number of CPUs)
  --all        also check files that are unchanged since they last passed
  --commits N  only check what the last N commits and the work tree changed, except files in which only the name,
               includes, comments or texts changed; a changed header is checked through one source

Needs a release build, whose compile commands and dependency lists it reads. $XDG_CACHE_HOME/kilter/tidy (else
~/.cache/kilter/tidy) keeps, for each file that is fine, a hash of everything that the check depends on: clang-tidy's
version, .clang-tidy, the compile command, and the names and contents of the file and of everything that it includes.
The hash does not depend on the location of the checkout, so all checkouts of a machine share the cache. Entries unused
for a month are removed. tests/fuzz is not in the release build and is left out. Headers that the build precompiles are
precompiled for clang-tidy, too, into build/tidy, since reading them is half of its work.
Exit codes: 0 fine, 1 findings, 2 cannot run, 130 interrupted.
"""

import argparse
import concurrent.futures
import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import time

TIDY = "clang-tidy-22"
CLANG = "clang++-22"  # must be of the same LLVM version, since clang-tidy reads the headers that it precompiles
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BUILD = os.path.join(ROOT, "build")
CACHE = os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "kilter", "tidy")
KEPT_DAYS = 30


def stop(text):
    print(f"check_tidy.py: {text}", file=sys.stderr)
    sys.exit(2)


def output_of(*command):
    return subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout


def included_files():
    """Returns, by source, the files that its compilation read. A source whose list is out of date has no entry."""
    lists, current = {}, None
    for line in output_of("ninja", "-C", BUILD, "-t", "deps").splitlines():
        if not line.startswith("    "):
            current = [] if line.endswith("(VALID)") else None
        elif current is not None:
            current.append(os.path.normpath(os.path.join(BUILD, line.strip())))
            if len(current) == 1:
                lists.setdefault(current[0], []).append(current)
    return {source: set().union(*found) for source, found in lists.items()}


def precompiled_header(command):
    """Returns the header that a compile command includes first (CMake's precompiled header), or None."""
    words = command.split()
    return words[words.index("-include") + 1] if "-include" in words else None


class Keys:
    """Hashes of everything that the result for a file depends on."""

    def __init__(self, commands):
        version = output_of(TIDY, "--version")
        with open(os.path.join(ROOT, ".clang-tidy"), encoding="utf-8") as config:
            self.common = version + config.read()
        self.commands = commands
        self.included = included_files()
        self.contents = {}

    @staticmethod
    def anywhere(text):
        """Makes the text independent of the location of the checkout."""
        return text.replace(ROOT, "{root}")

    def content(self, path):
        if path not in self.contents:
            try:
                with open(path, "rb") as file:
                    text = file.read()
                if path.startswith(BUILD + os.sep):  # generated there, so it contains the location
                    text = text.replace(ROOT.encode(), b"{root}")
                self.contents[path] = hashlib.sha256(text).hexdigest()
            except OSError:
                self.contents[path] = "none"
        return self.contents[path]

    def key(self, source):
        """Returns the key of a source, or None if the files that it includes are not known."""
        files = self.included.get(source)
        header = precompiled_header(self.commands[source])
        if header is not None and files is not None:  # the lists lack the files that the header includes
            more = self.included.get(header + ".cxx")
            files = None if more is None else {*files, *more}
        if files is None:
            return None
        read = sorted(f"{self.anywhere(file)} {self.content(file)}" for file in files)
        parts = [self.common, self.anywhere(self.commands[source]), *read]
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def precompile(header, commands):
    """Precompiles, with clang, a header that the build precompiles with GCC."""
    words = [word for word in commands[header + ".cxx"].split()
             if not word.startswith("-W") and not word.endswith(".gch")
             and word not in ("-fpch-preprocess", "-c", "-o", "-x", "c++-header", "-include", header, header + ".cxx")]
    out = os.path.join(BUILD, "tidy", os.path.relpath(header, BUILD).replace(os.sep, ".") + ".pch")
    os.makedirs(os.path.dirname(out), exist_ok=True)
    command = [CLANG, *words[1:], "-w", "-x", "c++-header", header, "-o", out]
    if subprocess.run(command, cwd=BUILD, check=False).returncode != 0:
        stop(f"{CLANG} cannot precompile {os.path.relpath(header, ROOT)}, which the build precompiles; its message is above")
    return out


def check(source, precompiled):
    """Returns clang-tidy's report on one file, or "". Compiler warnings are left to the build."""
    first = [f"--extra-arg-before={word}" for word in ("-include-pch", precompiled)] if precompiled else []
    done = subprocess.run([TIDY, "-p", BUILD, "--quiet", "--extra-arg=-w", *first, "--warnings-as-errors=*", source],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    return "" if done.returncode == 0 else done.stdout or f"{source}: clang-tidy ended with {done.returncode}\n"


def sources_in(folder):
    listed = output_of("git", "ls-files", os.path.join(folder, "*.cpp")).split()
    return [os.path.join(ROOT, file) for file in listed if not file.startswith("tests/fuzz/")]


def wanted_files(named, commands):
    files = []
    for name in named or ("src", "tools", "tests", "examples"):
        path = os.path.abspath(name) if named else os.path.join(ROOT, name)
        files += sources_in(path) if os.path.isdir(path) else [path]
    unknown = [os.path.relpath(file, ROOT) for file in files if file not in commands]
    if unknown:
        stop(f"the release build does not compile {', '.join(unknown)}; configure it again: cmake --preset release")
    return files


def code_of(line):
    """Returns a line without its comment, its spaces, and the contents of its strings; "" for an include."""
    line = "" if line.startswith("#include") else re.sub(r'"(\\.|[^"\\])*"', '""', line)
    return re.sub(r"\s+", "", line.split("//")[0])


def changed_code(*command):
    """Returns the files in which a git command's patches change more than includes, comments, strings and line breaks."""
    changed, file, parts = set(), None, {}
    for line in [*output_of(*command, "--unified=0", "--find-renames", "--no-color").splitlines(), "diff "]:
        if line.startswith("+++ b/"):
            file = line[len("+++ b/"):]
        elif line.startswith("diff "):
            if file and parts.get("+") != parts.get("-"):
                changed.add(file)
            file, parts = None, {}
        elif file and line[:1] in ("+", "-") and not line.startswith(("+++", "---")):
            parts[line[0]] = parts.get(line[0], "") + code_of(line[1:])
    return changed


def changed_files(commits, files, keys):
    """Returns those of the files that the last commits or the work tree changed, and for each changed header one file that includes it."""
    logged = changed_code("git", "log", f"-{commits}", "--patch", "--format=")
    changed = {os.path.join(ROOT, file) for file in logged | changed_code("git", "diff", "HEAD")}
    wanted = changed.intersection(files)
    for header in sorted(file for file in changed if file.endswith(".h")):
        readers = [file for file in files if header in keys.included.get(file, ())]
        if readers and not wanted.intersection(readers):
            own = os.path.splitext(header)[0] + ".cpp"
            wanted.add(own if own in readers else readers[0])
    return [file for file in files if file in wanted]


class Cache:
    """Keys of the files that were found fine, stored as empty files."""

    def __init__(self):
        try:
            os.makedirs(CACHE, exist_ok=True)
            oldest = time.time() - KEPT_DAYS * 86400
            for entry in os.scandir(CACHE):
                if entry.stat().st_mtime < oldest:
                    os.unlink(entry.path)
        except OSError as error:
            print(f"check_tidy.py: {CACHE}: {error.strerror}; every file is checked", file=sys.stderr)

    @staticmethod
    def has(key):
        try:
            os.utime(os.path.join(CACHE, key))
            return True
        except OSError:
            return False

    @staticmethod
    def add(key):
        try:
            with open(os.path.join(CACHE, key), "w", encoding="utf-8"):
                pass
        except OSError:
            pass  # the file is checked again next time


def run(files, jobs, cache, keys, commands):
    """Checks the files and prints findings. Returns how many files have findings."""
    bad, done, terminal = 0, 0, sys.stdout.isatty()
    pool = concurrent.futures.ThreadPoolExecutor(jobs)
    try:
        headers = {file: precompiled_header(commands[file]) for file in files}
        needed = sorted({header for header in headers.values() if header and header + ".cxx" in commands})
        precompiled = dict(zip(needed, pool.map(lambda header: precompile(header, commands), needed)))
        waiting = {pool.submit(check, file, precompiled.get(headers[file])): file for file in files}
        for future in concurrent.futures.as_completed(waiting):
            file = waiting[future]
            done += 1
            report = future.result()
            if terminal:
                print(f"\rclang-tidy: {done} of {len(files)}\x1b[K", end="", flush=True)
            if report:
                bad += 1
                print(("\r\x1b[K" if terminal else "") + report, end="", flush=True)
            elif keys[file]:
                cache.add(keys[file])
    finally:
        pool.shutdown(cancel_futures=True)
        if terminal:
            print("\r\x1b[K", end="", flush=True)
    return bad


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-j", type=int, default=len(os.sched_getaffinity(0)), metavar="N")
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--commits", type=int, metavar="N")
    parser.add_argument("files", nargs="*", metavar="FILE|FOLDER")
    args = parser.parse_args()
    start = time.monotonic()
    for tool in (TIDY, CLANG, "ninja", "git"):
        if shutil.which(tool) is None:
            stop(f"{tool} is missing; ./test installs it")
    try:
        with open(os.path.join(BUILD, "compile_commands.json"), encoding="utf-8") as file:
            entries = json.load(file)
    except OSError:
        stop("there is no release build; create one: cmake --preset release && cmake --build --preset release")
    commands = {}
    for entry in entries:
        # The object's name and the cache do not matter to clang-tidy.
        words = [word for word in shlex.split(entry["command"]) if not word.endswith(("ccache", ".o"))]
        commands[entry["file"]] = commands.get(entry["file"], "") + " ".join(words)
    files = wanted_files(args.files, commands)
    keys_of = Keys(commands)
    if args.commits is not None:
        files = changed_files(args.commits, files, keys_of)
    keys = {file: keys_of.key(file) for file in files}
    cache = Cache()
    fine = {file for file in files if keys[file] and not args.all and cache.has(keys[file])}
    bad = run([file for file in files if file not in fine], max(args.j, 1), cache, keys, commands)
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
