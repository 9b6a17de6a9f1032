#!/usr/bin/env python3
"""Runs every code block of the documentation site that can be run: the blocks of a page in order, in a separate folder.

usage: code_blocks_test.py KILTER SOURCE [PAGE...]    (PAGE: such as doc/debugging.md; all pages if none is given)

- sh: bash, which stops at the first command that fails.
- console: each command after "$ ". Where the page shows output that does not depend on times, the lines must be lines of the
  real output, except for numbers and names of processors. A command below which the page shows "kilter: ..." must fail.
- python: in one namespace per page. Comments after print() say what it prints.
- cpp, c: statements, which are compiled in a function, and run if they are C++.

Pages may use the placeholders MODEL, NODE and DIR if MODELS has their files. Commands that measure or search get less
time (see `tools`). Blocks that do not run here have a line in ELSEWHERE, with the ctest that runs them, in EXCERPTS,
with the file that has the same lines, or in NOT_RUN, with the reason. The test fails if a block is in none of them and
cannot be run, or if a line matches no page any more.
"""
import contextlib
import importlib.util
import io
import multiprocessing
import os
import pathlib
import re
import shlex
import socket
import subprocess
import sys
import tempfile
import time
import traceback

import code_blocks_models as models

LANGUAGES = ("sh", "bash", "console", "python", "cpp", "c", "cmake")

# Names of tests. The key is a text in the block or, in sh and console, the command; "```x" means all blocks of the
# language x.
ELSEWHERE = {
    "README.md": {"$ kilter inspect": "pages", "pip install -v .": "python.wheel", "./demo fleet": "fleet.board", "local_fleet.py": "fleet.board"},
    "doc/first_walk.md": {"$ kilter inspect": "pages"},
    "doc/inspect.md": {"$ kilter inspect": "pages"},
    "doc/install.md": {"```cpp": "package.cmake", "```c": "package.cmake", "find_package(kilter": "package.cmake",
                       "FetchContent": "package.subdirectory", "pkg-config": "package.pkg_config", "cmake --install": "package.components",
                       "cpack -G DEB": "package.debian", "apt install": "package.debian"},
    "doc/c_interface.md": {"```c": "package.c_interface", "```sh": "package.c_interface"},
    "doc/libraries.md": {"```sh": "library.page", "```c": "library.page", "```cpp": "library.page", "```cmake": "library.page"},
    "doc/python.md": {"```python": "python.page", "pip install -v .": "python.wheel", "pip wheel -v python/runtime": "python.wheel",
                      "pip install wheels": "python.wheel"},
    "doc/control_flow.md": {"```python": "python.page"},
    "doc/dynamic_shapes.md": {"```python": "python.page"},
    "doc/state.md": {"```python": "python.page"},
    "doc/fleet.md": {"records migrate": "fleet.tune", "kilter fleet bench": "fleet.tune", "```sh": "fleet.board", "$ kilter fleet status": "fleet.tune", "$ kilter bench": "fleet.tune"},
    "doc/records.md": {"```sh": "records.server"},
    "doc/tuning.md": {"```sh": "tuning_page"},
    "doc/add_a_back_end.md": {"test_compile": "compile.Ops/CompiledOp"},
    "examples/serve/README.md": {"cmake -S examples/serve": "package.serve"},
}
# Excerpts of the source: lines between "..." are consecutive lines of the file, except for comments at their ends.
EXCERPTS = {
    "doc/add_a_cause.md": {"```cpp": "src/profile/explain/explain_cause_work.cpp"},
    "doc/add_a_pass.md": {"//   %a = Exp": "src/passes/common_subexpressions.cpp", "bool merge(": "src/passes/common_subexpressions.cpp",
                          "KILTER_PASS": "src/passes/passes.inc", "swish": "src/passes/recognise_patterns.cpp"},
    "doc/add_a_target.md": {"```cpp": "src/target/target.cpp"},
    "doc/add_a_template.md": {"```cpp": "src/schedule/templates/pool_rows.cpp"},
    "doc/add_an_operator.md": {"```cpp": "src/ops/relu.cpp"},
}
BUILDS = "builds Kilter, which ./test does before the tests"
NOT_RUN = {
    "README.md": {"./demo": BUILDS, "./test": "runs this test"},
    "CONTRIBUTING.md": {"cmake --preset release": BUILDS, "cmake --build": BUILDS},
    "doc/install.md": {"cmake --preset release": BUILDS},
    "doc/python.md": {"pip install nanobind": BUILDS, "cmake --preset release": BUILDS, "cmake --build": BUILDS},
    "doc/add_an_operator.md": {"cmake --build": BUILDS, "make_operator_table.sh": "writes into the source; the test operator_table checks what it writes"},
    "doc/add_a_target.md": {"cmake --preset aarch64": "cross-compiles the runtime library for minutes; the tests with the label aarch64 need it"},
    "doc/debugging.md": {"scripts/sanitize.sh": "a stage of ./test", "cmake --preset asan": "builds Kilter again, for minutes; a stage of ./test does"},
    "doc/torch.md": {"```python": "needs PyTorch; the slow test code_blocks.torch runs it"},
}
if importlib.util.find_spec("torch"):
    del NOT_RUN["doc/torch.md"]
# The files in the folder of a page before its blocks run.
MODELS = {
    "README.md": [models.resnet18_of_batch_1],
    "examples/serve/README.md": [models.resnet18, models.rows],
    "include/kilter/kilter.h": [models.resnet18_of_batch_1],
    "python/kilter/onnxruntime/__init__.py": [models.model],
    "python/kilter/onnx_backend.py": [models.model],
    "doc/add_a_back_end.md": [models.model],
    "doc/add_a_pass.md": [models.model],
    "doc/add_a_target.md": [models.model],
    "doc/add_a_template.md": [models.model],
    "doc/compatibility.md": [models.model],
    "doc/control_flow.md": [models.classifier],
    "doc/debugging.md": [models.model],
    "doc/interfaces.md": [models.resnet18_of_batch_1, models.detector],
    "doc/onnxruntime.md": [models.model],
    "doc/precision.md": [models.model, models.samples],
    "doc/quantize.md": [models.net, models.samples],
    "doc/state.md": [models.silero_vad],
}
# Values for the placeholders, and a network that takes less time to compile than the one on the page.
WORDS = {"MODEL": "model.onnx", "NODE": "conv1", "DIR": "samples", "zoo:resnet50": "model.onnx"}
# Names that the page leaves to the reader: statements before the first block of Python, or in the function around C and C++.
BOXES = "int64_t count = 2;\nfloat data[8] = {0}, result[8];\nkilter_instance* instance = NULL;"
GIVEN = {
    ("include/kilter/runtime.h", "c"): BOXES,
    ("README.md", "python"): "import numpy as np\nimage = np.zeros((1, 3, 224, 224), np.float32)",
    ("python/kilter/__init__.py", "python"): "import numpy as np\nimage = np.zeros((1, 3, 224, 224), np.float32)",
    ("python/kilter/graph.py", "python"): "import numpy as np\nweights, bias = np.ones((64, 10), np.float32), np.ones(10, np.float32)",
    ("python/kilter/onnxruntime/__init__.py", "python"): "import numpy as np\narray = np.zeros((1, 3, 28, 28), np.float32)",
    ("python/kilter/onnx_backend.py", "python"): "import numpy as np\nimage = np.zeros((1, 3, 28, 28), np.float32)",
    ("doc/onnxruntime.md", "python"): "import numpy as np\narray = np.zeros((1, 3, 28, 28), np.float32)",
    # An installed package registers itself.
    ("doc/torch.md", "python"): "import torch, kilter.torch\ntorch._dynamo.register_backend(kilter.torch.backend, name='kilter')\n"
                                "model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.ReLU())\nimages = torch.ones(2, 4)\ndel kilter",
    ("doc/control_flow.md", "cpp"): "std::vector<float> features(4, 1.0f);",
    ("doc/state.md", "cpp"): "std::vector<std::vector<float>> chunks(3, std::vector<float>(576, 0.5f));",
    ("doc/interfaces.md", "c"): BOXES,
}
CPP = """#include <kilter/kilter.h>
#include <cstdio>
#include <vector>
int main() {{
{given}
{block}
}}
"""
C = """#include <kilter/compiler.h>
#include <kilter/runtime.h>
#include <stdio.h>
#include <string.h>
int main(void) {{
{given}
{block}
{end}
}}
"""
# The outputs of these commands are times, or follow from times.
VARIES = re.compile(r"kilter (profile|tune|explain|bench|compare|precision)\b|--records")


# The command line's reference is generated from the table of commands, whose examples cli.command_line runs; the
# tutorials are notebooks, which python.notebooks runs.
REFERENCE = ["include/kilter/kilter.h", "include/kilter/runtime.h", "include/kilter/compiler.h", "python/kilter/__init__.py",
             "python/kilter/graph.py", "python/kilter/onnxruntime/__init__.py", "python/kilter/onnx_backend.py"]


class Failure(Exception):
    pass


def expect(true, text):
    if not true:
        raise Failure(text)


def pages_of(source):
    """The pages of the site without the decisions, which have no commands, and the sources of its reference pages."""
    pages = [*REFERENCE, "README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md", "examples/serve/README.md"]
    return pages + sorted(str(path.relative_to(source)) for path in (source / "doc").glob("*.md"))


def code_in_comments(path):
    """Yields the blocks in the comments of a header, or in the docstring of a module: the lines indented by two or more."""
    text = path.read_text()
    language = {".py": "python", ".h": "cpp" if path.name == "kilter.h" else "c"}[path.suffix]
    begin = r"    " if language == "python" else r"(?: \*|//) (?:  )"
    lines = (text.split('"""')[1] if language == "python" else text).splitlines()
    block, first = [], 0
    for number, line in enumerate([*lines, ""], 1):
        if re.match(begin, line) or (block and line in (" *", "//") and re.match(begin, lines[number])):
            first = first if block else number
            block.append(re.sub("^" + begin, "", line) if re.match(begin, line) else "")
        elif block:
            yield first, language, "\n".join(block)
            block = []


def blocks_of(path):
    """Yields the number of the first line, the language and the text of each block that could be run, also of those that have
    commands and no language."""
    if path.suffix != ".md":
        yield from code_in_comments(path)
        return
    text = path.read_text()
    for match in re.finditer(r"^```(\w*)\n(.*?)^```$", text, re.S | re.M):
        if match.group(1) in LANGUAGES or re.search(r"^\$ ", match.group(2), re.M):
            yield text[:match.start(2)].count("\n") + 1, match.group(1), match.group(2)


def commands_of(language, block):
    """Returns the commands of a block of sh or console, each with the lines that the page shows below it."""
    found = []
    for line in block.splitlines():
        if language != "console" or line.startswith("$ "):
            found.append((line, []))
        else:
            expect(found, f"a block of console begins with '{line}', not with '$ '")
            found[-1][1].append(line)
    return found


TABLES = (("run by another test", ELSEWHERE), ("excerpts", EXCERPTS), ("not run", NOT_RUN))


class Tables:
    """The lines of the tables that match a page, and the number of blocks and commands of each kind."""

    def __init__(self):
        self.used, self.counts = set(), {}

    def find(self, page, language, text):
        """Returns the table and the entry for a block or a command, if there is one."""
        for name, table in TABLES:
            for key, value in table.get(page, {}).items():
                if key == "```" + language or (not key.startswith("```") and key in text):
                    self.used.add((page, name, key))
                    return name, value
        return None, None

    def count(self, what):
        self.counts[what] = self.counts.get(what, 0) + 1

    def unused(self, page):
        return [f"'{key}' of the table '{name}' is not on the page" for name, table in TABLES for key in table.get(page, {})
                if (page, name, key) not in self.used]


def check_excerpt(block, file):
    """The lines of the block, between the lines with "...", are consecutive lines of the file."""
    def bare(line):
        return re.sub(r"\s+// .*", "", line).strip() if not line.strip().startswith("//") else line.strip()
    lines = list(filter(None, map(bare, file.read_text().splitlines())))
    part = []
    for line in [*filter(None, map(bare, block.splitlines())), "..."]:
        before, gap, _ = line.partition("...")
        if not gap:
            part.append(line)
            continue
        starts = [i for i in range(len(lines) + 1 - len(part)) if lines[i:i + len(part)] == part]
        expect(starts, f"{file} does not have these lines:\n" + "\n".join(part))
        expect(any(given.startswith(before.strip()) for given in lines), f"{file} has no line that begins with '{before}'")
        part = []


def masked(line):
    """A line without the parts that depend on the machine: numbers, and names of processors and layers."""
    line = re.sub(r"'[^']*'", "NAME", line.rstrip(" "))
    line = re.sub(r"for [a-z0-9-]+ in", "for TARGET in", line)
    return re.sub(r"-?[0-9][0-9.]*(e[-+][0-9]+)?", "N", line)


def same_values(shown, said):
    """Whether the numbers of two lines, results of a network, are the same up to rounding on another processor."""
    pairs = zip(*([float(number) for number in re.findall(r"-?[0-9][0-9.]*(?:e[-+][0-9]+)?", line)] for line in (shown, said)))
    return all(abs(a - b) <= 1e-3 * max(abs(a), abs(b)) for a, b in pairs)


def check_lines(command, shown, said):
    """The lines of the page, with "..." for omitted parts, are lines of the output."""
    found = [masked(line) for line in said.splitlines()]
    for line in shown:
        start, gap, _ = masked(line).partition("...")
        alike = [given for given, text in zip(found, said.splitlines())
                 if (given.startswith(start) if gap else given == start) and (not line.startswith("output:") or same_values(line, text))]
        expect(alike, f"{command} prints no line like '{line}':\n{said[-3000:]}")


class Page:
    """One page, in the working folder."""

    def __init__(self, kilter, source, page, port):
        self.source, self.page, self.build = source, page, kilter.parent
        self.names = {"__name__": "page"}
        self.server, self.port = None, port

    def shell(self, text, fails=False):
        for word, given in WORDS.items():
            text = re.sub(rf"\b{word}\b", given, text)
        if "precision" in text and "avx512_bf16" not in pathlib.Path("/proc/cpuinfo").read_text():
            text = text.replace("bf16", "fp16")  # a processor without bf16 refuses it
        text = text.replace("localhost:8000", f"localhost:{self.port}")
        done = subprocess.run(["bash", "-e", "-o", "pipefail", "-c", text], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=300)
        expect((done.returncode != 0) == fails, f"exit code {done.returncode}:\n{text}\n{done.stdout[-3000:]}")
        return done.stdout

    def serve(self, command):
        """Starts a server and waits for the line that says where it listens."""
        self.server = subprocess.Popen([*shlex.split(command), "--port", str(self.port)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        said = ""
        for line in self.server.stdout:
            said += line
            if "http://" in line:
                return said
        raise Failure(f"{command} ends: {said}")

    def sh(self, block):
        self.shell(block)

    def console(self, command, shown):
        command = command.removeprefix("$ ")
        if command.startswith("kilter-serve "):
            self.serve(command)
            return
        said = self.shell(command, fails=any(line.startswith("kilter: ") for line in shown))
        if not VARIES.search(command):
            check_lines(command, shown, said)

    def python(self, block):
        if len(self.names) == 1:
            exec(GIVEN.get((self.page, "python"), ""), self.names)
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            exec(compile(block.replace("localhost:8000", f"localhost:{self.port}"), self.page, "exec"), self.names)
        for line in re.findall(r"^ *print\(.*\)  # (.+)$", block, re.M):
            expect(line in said.getvalue().splitlines(), f"expected '{line}', got:\n{said.getvalue()}")

    def compiled(self, compiler, text, *link):
        source = pathlib.Path("block.c" if compiler[0] == "cc" else "block.cpp")
        source.write_text(text)
        done = subprocess.run([*compiler, "-Wall", f"-I{self.source}/include", str(source), *link], text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT)
        expect(done.returncode == 0, done.stdout[-3000:])

    def cpp(self, block):
        given = GIVEN.get((self.page, "cpp"), "")
        library = self.build / "src"
        self.compiled(["c++", "-std=c++20"], CPP.format(given=given, block=block), "-o", "block", f"-L{library}", "-lkilter",
                      f"-Wl,-rpath,{library}")
        self.shell("./block")

    def c(self, block):
        end = "" if "end:" in block else "end:\n  return 0;"
        text = block if " main(" in block else C.format(given=GIVEN.get((self.page, "c"), ""), block=block, end=end)
        self.compiled(["cc", "-std=c11", "-fsyntax-only"], text)


def tools(kilter):
    """Sets up what a reader has: the programs on the PATH, and parts of the tree. The programs measure for a shorter
    time, and ctest only lists the tests that it would run; there must be at least one."""
    os.mkdir("bin")
    os.mkdir("build")
    pathlib.Path("bin/kilter").write_text(f"""#!/bin/bash
case " $* " in *" --seconds "* | *" --help"*) ;; *)
  case $1 in
    bench | profile | explain | compare | kernels | precision) set -- "$@" --seconds 0.3 ;;
    time) set -- "$@" --repeat 5 ;;
    tune) set -- "${{@/#[0-9]*min/3s}}" --trials 20 ;;
  esac
esac
exec {shlex.quote(str(kilter))} "$@"
""")
    pathlib.Path("bin/ctest").write_text("""#!/bin/bash
found=$(/usr/bin/env PATH="${PATH#*:}" ctest "$@" -N) && ! grep "Total Tests: 0" <<< "$found"
""")
    for name in ("kilter", "ctest"):
        os.chmod(f"bin/{name}", 0o755)
    os.symlink("../bin/kilter", "build/kilter")
    for path in kilter.parent.iterdir():
        if path.name != "kilter":
            os.symlink(path, f"build/{path.name}")
    os.symlink(kilter.parent / "examples/serve/kilter-serve", "bin/kilter-serve")
    os.environ["PATH"] = f"{os.getcwd()}/bin:{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}"
    os.environ["HOME"] = os.getcwd()
    for name in ("XDG_DATA_HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME"):
        os.environ.pop(name, None)
    sys.path.insert(0, str(kilter.parent / "python"))
    os.environ["PYTHONPATH"] = str(kilter.parent / "python")


def run_block(page, tables, language, block):
    """Runs a block, or those commands of it that are in no table."""
    if language in ("sh", "bash", "console"):
        kept = []
        for command, shown in commands_of(language, block):
            if not command.strip() or command.startswith("#"):
                continue
            kind, _ = tables.find(page.page, language, command)
            if kind is None:
                kept.append((command, shown))
            tables.count(kind or "commands that ran")
        if language == "console":
            for command, shown in kept:
                page.console(command, shown)
        elif kept:
            page.sh("\n".join(command for command, _ in kept))
        return
    kind, value = tables.find(page.page, language, block)
    tables.count(kind or "blocks that ran")
    if kind == "excerpts":
        check_excerpt(block, page.source / value)
    elif kind is None:
        expect(hasattr(page, language), f"nothing runs a block of '{language}'; list it in a table of this test")
        getattr(page, language)(block)


def run_page(kilter, source, name, answer):
    """Runs a page in a separate folder, and puts the failures and the counts into `answer`."""
    tables, wrong = Tables(), []
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        page = Page(kilter, source, name, free.getsockname()[1])
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        tools(kilter)
        for make in MODELS.get(name, []):
            make()
        for line, language, block in blocks_of(source / name):
            try:
                run_block(page, tables, language, block)
            except Exception as error:
                text = str(error) if isinstance(error, Failure) else traceback.format_exc(limit=-2)
                wrong.append(f"the block of {language} at line {line}: {text}")
        if page.server:
            page.server.terminate()
            page.server.wait()
        os.chdir("/")
    answer.put((wrong + tables.unused(name), tables.counts))


def check_names(build, source):
    """The tests that ELSEWHERE names exist, and the pages of all tables."""
    said = subprocess.run(["ctest", "--test-dir", str(build), "-N"], capture_output=True, text=True, check=True).stdout
    names = sorted({name for page in ELSEWHERE.values() for name in page.values()})
    pages = {*MODELS, *(page for page, _ in GIVEN), *(page for _, table in TABLES for page in table)}
    return [f"there is no test {name}" for name in names if f": {name}" not in said] + [
        f"there is no page {page}" for page in sorted(pages - set(pages_of(source)))]


def main():
    kilter, source = (pathlib.Path(word).resolve() for word in sys.argv[1:3])
    fork, counts, failed = multiprocessing.get_context("fork"), {}, check_names(kilter.parent, source)
    for name in sys.argv[3:] or pages_of(source):
        answer, start = fork.SimpleQueue(), time.monotonic()
        child = fork.Process(target=run_page, args=(kilter, source, name, answer))
        child.start()
        wrong, of_page = answer.get()
        child.join()
        if of_page:
            print(f"{name}: {', '.join(f'{n} {what}' for what, n in sorted(of_page.items()))}; {time.monotonic() - start:.1f} s", flush=True)
        for what, n in of_page.items():
            counts[what] = counts.get(what, 0) + n
        failed += [f"{name}: {text}" for text in wrong]
    print(", ".join(f"{n} {what}" for what, n in sorted(counts.items())))
    for text in failed:
        print(f"FAILED: {text}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
