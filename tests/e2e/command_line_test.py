#!/usr/bin/env python3
"""Tests the command line's descriptions of itself: unknown words, help, examples, JSON, completion, man pages, colours.

usage: command_line_test.py KILTER SOURCE_FOLDER [TEST...]    (TEST: help, json, ...; default: all)
"""
import fcntl
import json
import os
import pathlib
import pty
import re
import shlex
import shutil
import struct
import subprocess
import sys
import tempfile
import termios

from terminal_output import rest_of

KILTER = os.path.abspath(sys.argv[1])
SOURCE = pathlib.Path(sys.argv[2]).resolve()
sys.path.insert(0, str(SOURCE / "tests/support"))
from postgres import Cluster  # noqa: E402

SMALL = ["zoo:squeezenet1_1", "--input", "input=1x3x64x64", "--threads", "1"]
failures = []


def check(what, condition, got=""):
    if not condition:
        failures.append(what)
        print(f"FAILED: {what}: {str(got)[-600:]}")


def kilter(*words, env=None, cwd=None):
    done = subprocess.run([KILTER, *words], capture_output=True, text=True, timeout=300, cwd=cwd,
                          env={**os.environ, "NO_COLOR": "", **(env or {})})
    return done.returncode, done.stdout, done.stderr


def json_of(*words, code=0):
    got, out, err = kilter(*words, "--json", "-")
    check(f"{words} --json - exits with {code}", got == code, err)
    try:
        return json.loads(out)
    except ValueError as error:
        check(f"{words} --json - writes JSON and nothing else", False, f"{error}: {out[:300]}")
        return {}


def all_commands(table):
    yield table
    for below in table["commands"]:
        yield from all_commands(below)


TABLE = json.loads(kilter("help", "--json", "-")[1])
COMMANDS = {c["name"]: c for c in all_commands(TABLE)}
OPTIONS = {name for c in COMMANDS.values() for o in c["options"] for name in o["names"]}

UNKNOWN = {
    "profil M": "unknown command 'profil'; did you mean 'profile'? `kilter --help` lists the commands",
    "bnech M": "unknown command 'bnech'; did you mean 'bench'? `kilter --help` lists the commands",
    "frobnicate": "unknown command 'frobnicate'; `kilter --help` lists the commands",
    "help recrods": "unknown command 'recrods'; did you mean 'records'? `kilter --help` lists the commands",
    "records lst": "unknown command 'lst'; did you mean 'list'? `kilter records --help` lists the commands",
    "records": "a command is required after `kilter records`: list, plans, best, export, import, merge, prune, migrate, verify, "
               "explain; `kilter records --help` describes them",
    "run M --threds 2": "unknown option '--threds'; did you mean '--threads'? `kilter run --help-all` lists the options",
    "run M --thread 2": "unknown option '--thread'; did you mean '--threads'? `kilter run --help-all` lists the options",
    "run M --threds=2": "unknown option '--threds'; did you mean '--threads'? `kilter run --help-all` lists the options",
    "run M --colour red": "unknown option '--colour'; did you mean '--color'? `kilter run --help-all` lists the options",
    "run M --xyzzy": "unknown option '--xyzzy'; `kilter run --help-all` lists the options",
    "run M -qz": "unknown option '-qz'; `kilter run --help-all` lists the options",
    "run zoo:resnt18": "zoo: no network 'resnt18'; did you mean 'resnet18'? legal values are resnet18, resnet34",
    "run zoo:nothing": "zoo: no network 'nothing'; legal values are resnet18, resnet34",
    "compile M": "--output is required; usage: kilter compile [OPTIONS] --output FILE MODEL; `kilter compile --help` describes it",
    "compile M --ouput x": "unknown option '--ouput'; did you mean '--output'? `kilter compile --help-all` lists the options",
    "device now please": "unexpected argument now please; usage: kilter device [OPTIONS]",
    "run M -q -v": "--quiet and --verbose contradict each other; give only one of them",
    "run M --threads 0": "--threads: Value 0 not in range 1 to 1024; `kilter run --help` lists the legal values",
    "tune M --n-parallel 5000": "--n-parallel: Value 5000 not in range 0 to 1024; `kilter tune --help-all` lists the "
                                "legal values",
    "bench M -t 1": "-t: kilter bench has no such option; --seconds says how long to measure, and --threads with how many threads",
    "tune M -t 1": "-t: kilter tune has no such option; --time sets the time budget, such as --time 5min",
    "bench M -j 1": "-j: kilter bench has no such option; --threads sets the number of threads",
    "bench M -x 1": "-x: kilter bench has no such option; --threads sets the number of threads",
    "bench M -nthreads 1": "-nthreads: kilter bench has no such option; --threads sets the number of threads",
    "run M --batch 8": "--batch: kilter run has no such option; the batch is a dimension of the inputs: --input NAME=8x3x224x224, or "
                       "--shapes for several sizes",
    "bench M --iterations 10": "--iterations: kilter bench has no such option; --number sets the runs per measurement, --repeat the "
                               "number of measurements, and --seconds the time",
    "bench M -niter 10": "-niter: kilter bench has no such option; --number sets the runs per measurement",
    "bench M --warmup 3": "--warmup: kilter bench has no such option; networks are run until their times are steady",
    "bench M --fp16": "--fp16: kilter bench has no such option; --precision fp16 stores values",
    "kernels M --shapes=x:1": "--shapes: kilter kernels has no such option; --input sets the shape of an input",
    "bench -m model.onnx": "-m: kilter bench has no such option; the model is given without an option: `kilter bench model.onnx`",
    "bench M -d CPU": "-d: kilter bench has no such option; Kilter runs on the CPU; --target chooses the CPU to generate code for",
    "bench --loadEngine=f": "--loadEngine: kilter bench has no such option; a compiled file is given in place of the model",
    "bench M --saveEngine=f": "--saveEngine: kilter bench has no such option; `kilter compile MODEL -o FILE.kilter` writes a compiled file",
    "bench M -I": "-I: kilter bench has no such option; inputs that are not given have seeded random values",
    "bench M -hint latency": "-hint: kilter bench has no such option; `kilter bench` measures the latency of single runs",
    "tune M --n-trial 5": "--n-trial: kilter tune has no such option; --trials ends the search after a number of trials",
}


def test_unknown_words():
    for words, text in UNKNOWN.items():
        code, out, err = kilter(*words.split())
        check(f"kilter {words}", code == 2 and err.startswith(f"kilter: {text}") and out == "", f"exit {code}, {err}")
    code, out, err = kilter("run", str(SOURCE / "README.md"))
    check("run README.md", code == 3 and "this is a text, not an ONNX file; expected a binary ONNX model" in err, err)
    code, out, err = kilter("records", "list", "--records", "default")
    check("records list --records default", code == 0 and "no records yet" in err and "0 records" in out, err + out)


def test_foreign_words():
    """Every option and command that a suggestion names exists."""
    rows = re.findall(r'^    \{"(-[^"]*)",\s*"([^"]*)"', (SOURCE / "tools/foreign_words.cpp").read_text(), re.M)
    check("the table of other programs' words is read", len(rows) > 30, rows)
    for words, commands in rows:
        for word in words.split():
            command = (commands.split() or ["bench"])[0]
            if word in [n for o in COMMANDS[f"kilter {command}"]["options"] for n in o["names"]]:
                command = "device"
            code, _, err = kilter(command, word)
            check(f"kilter {command} {word}", code == 2 and f"{word}: kilter {command} has no such option; " in err, err)
            answer = err.split("no such option; ", 1)[-1]
            for option in re.findall(r"(?<![\w-])--?[a-z][a-z-]*", answer):
                check(f"{word} is answered with an option that exists", option in OPTIONS, answer)
            for name in re.findall(r"kilter ([a-z-]+)", answer):
                check(f"{word} is answered with a command that exists", f"kilter {name}" in COMMANDS, answer)


def test_help():
    code, out, _ = kilter()
    check("kilter alone prints the help", code == 2 and out == kilter("--help")[1] == kilter("help")[1], out)
    titles = re.findall(r"^(\S.*):$", out, re.M)
    check("the help's groups", titles == ["Usage", "Run and deploy", "Measure and explain", "Tune", "Look inside", "Help", "General"], titles)
    for name, command in COMMANDS.items():
        words = name.split()[1:]
        for flag in ("--help", "--help-all"):
            code, out, err = kilter(*words, flag)
            wide = [line for line in out.splitlines() if len(line) > 80 and not line.startswith("    kilter ")]
            check(f"{name} {flag}", code == 0 and err == "" and not wide, wide or err)
            shown = out.split("\nExample")[0]
            for option in command["options"]:
                listed = re.search(rf"^ +(-\w, )?{re.escape(option['names'][0 if option['names'][0].startswith('--') else -1])}\b", shown, re.M) is not None
                check(f"{name} {flag} shows {option['names']}", listed == (flag == "--help-all" or not option["rare"]), shown)
        check(f"help {name}", kilter("help", *words)[1] == kilter(*words, "--help")[1])
        if not command["commands"]:
            check(f"{name} has an example of its own", any(e["command"].startswith(name) for e in command["examples"]), command)
            check(f"{name} has every common option", {"--verbose", "--quiet", "--color", "--help", "--help-all"} <=
                  {n for o in command["options"] for n in o["names"]}, command["options"])
    tune = kilter("tune", "--help")[1]
    groups = re.findall(r"^(\S.*):$", tune, re.M)
    for title in ("Input", "Budget", "Search", "Output"):
        check(f"tune --help has the group {title}", title in groups, groups)
    check("rare options", "--max-rewrites" not in tune and "--stop-after" not in tune and "--plain-layout" not in tune, tune)
    everything = kilter("tune", "--help-all")[1]
    check("--help-all", "Debugging the compiler:" in everything and "--max-rewrites" in everything, everything)
    check("defaults, limits and legal values", "; 1 to 1024)" in tune and "(one of\n" in tune and "(default: model)" in tune, tune)


def prepare(folder):
    """Writes the files that examples name."""
    header = b"{'descr': '<f4', 'fortran_order': False, 'shape': (1, 3, 224, 224), }".ljust(117) + b"\n"
    (folder / "samples").mkdir()
    (folder / "samples/0.npy").write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + bytes(4 * 3 * 224 * 224))
    for link in ("bench", "tests"):
        (folder / link).symlink_to(SOURCE / link)
    for day in ("yesterday", "today"):
        kilter("bench", *SMALL, "--seconds", "0.1", "--json", str(folder / f"{day}.json"))
    kilter("zoo", "resnet18", "-o", str(folder / "model.onnx"))
    kilter("records", "import", str(SOURCE / "tests/records/data/tvm_v01.txt"), env={"XDG_DATA_HOME": str(folder)})
    case = folder / "models/onnx_cases/test_relu"
    case.mkdir(parents=True)
    kilter("zoo", "squeezenet1_1", "-o", str(case / "model.onnx"))
    kilter("records", "export", "--records", str(SOURCE / "tests/records/data/tvm_v01.txt"), "-o", str(folder / "other.db"))
    subprocess.run(f"{KILTER} cost-model rows bench/searchers/*.jsonl -o rows.jsonl && "
                   f"{KILTER} cost-model train --table rows.jsonl --trees 20 -o my.trees", shell=True, cwd=folder, check=True, capture_output=True)


FLEET = "postgresql://db.example.com/tuning"


def shortened(command):
    """Returns the command with less time to measure; None for a runtime that this machine may not have, and for a board."""
    if command.startswith(("kilter fleet push", "kilter fleet upgrade", "kilter fleet bench --all-classes")):  # fleet.* run them
        return None
    if "onnxruntime" in command and not os.path.exists(os.environ.get("KILTER_PYTHON", SOURCE / ".venv/bin/python")):
        return None
    if command.startswith("kilter tune"):
        return re.sub(r"--time \S+", "--time 3s --trials 8", command)
    if command.startswith("kilter graph-tune"):
        return command if "--no-run" in command else command + " --measure 1 --race 1 --schedules 1"
    named = next(COMMANDS[name] for words in (3, 2) if (name := " ".join(command.split()[:words])) in COMMANDS)
    takes = {n for o in named["options"] for n in o["names"]}
    command += " --seconds 0.3" if "--seconds" in takes and not command.startswith("kilter searchers") else ""
    return command + (" --trees 20" if command.startswith("kilter cost-model train") else "")


def test_examples():
    with tempfile.TemporaryDirectory() as name, Cluster() as cluster:
        folder = pathlib.Path(name)
        (folder / "bin").mkdir()
        (folder / "bin/kilter").symlink_to(KILTER)
        prepare(folder)
        fleet = cluster.url("postgres")
        kilter("sign", "--new-keys", str(folder / "team"))
        kilter("records", "migrate", "--records", fleet)
        cluster.run("psql", "-h", cluster.folder, "-U", "postgres", "-c", "SELECT kilter.announce('bench1', 'class', '{}')")
        env = {**os.environ, "PATH": f"{folder}/bin:{os.environ['PATH']}", "XDG_DATA_HOME": name,
               "KILTER_PYTHON": os.environ.get("KILTER_PYTHON", str(SOURCE / ".venv/bin/python")), "KILTER_FLEET": fleet}
        agent = [pathlib.Path(KILTER).with_name("kilter-agent"), "--fleet", fleet, "--trust", "team.public"]
        agents = [subprocess.Popen([*agent, *words], cwd=folder, stderr=subprocess.PIPE, text=True)
                  for words in ([], ["--name", "board1", "--device-class", "board"])]
        for process in agents:
            check("an agent starts", "waits for jobs" in process.stderr.readline())
        try:
            for command in COMMANDS.values():
                for example in command["examples"]:
                    line = shortened(example["command"])
                    if line is None:
                        continue
                    line = line.replace(FLEET, f"'{fleet}'")
                    done = subprocess.run(["bash", "-c", line], cwd=folder, env=env, capture_output=True, text=True, timeout=300)
                    check(f"example of {command['name']}: {line}", done.returncode == 0, done.stderr[-600:])
        finally:
            for process in agents:
                process.terminate()
                process.communicate(timeout=60)


def test_json():
    version = json_of("version")
    check("version --json", set(version) == {"version", "commit", "build_type", "code_generator", "kernels", "machine", "target"}, version)
    check("--version --json -", json.loads(kilter("--version", "--json", "-")[1]) == version)
    check("--version and -V", kilter("--version")[1] == kilter("-V")[1] == kilter("version")[1] != "")
    run = json_of("run", *SMALL, "--verify")
    check("run --json", run["outputs"][0]["name"] == "output" and run["outputs"][0]["shape"] == [1, 1000] and run["verify"]["passed"] is True and
          run["verify"]["compared"] > 10 and run["verify"]["worst"]["relative"] < 1e-3 and {"min", "max", "mean", "nans"} <= set(run["outputs"][0]), run)
    with tempfile.TemporaryDirectory() as folder:
        check("run --output --json", json_of("run", *SMALL, "-o", folder)["files"] == {"output": "output.npy"} and os.path.exists(f"{folder}/output.npy"))
        made = json_of("compile", *SMALL, "-o", f"{folder}/a.kilter")
        check("compile --json", made["kind"] == "plan" and made["steps"] > 10 and made["bytes"] == os.path.getsize(made["file"]), made)
        whole = json_of("inspect", *SMALL)
        check("inspect --json", whole["parameters"] == 1235496 and whole["plan"]["steps"] == made["steps"] and whole["operators"]["Conv"] == 26 and
              whole["inputs"] == [{"name": "input", "type": "f32[1,3,64,64]"}] and len(whole["plan"]["tasks"]) > 10, str(whole)[:600])
        compiled = json_of("inspect", f"{folder}/a.kilter")
        check("inspect --json of a compiled file", compiled["plan"]["steps"] == made["steps"] and "parameters" not in compiled, str(compiled)[:600])
        case = pathlib.Path(folder) / "case"
        case.mkdir()
        kilter("zoo", "squeezenet1_1", "-o", str(case / "model.onnx"))
        cases = json_of("check", str(case))
        check("check --json", cases == {"cases": [{"name": "case", "outcome": "passed"}], "passed": 1, "failed": 0, "skipped": 0}, cases)
        (case / "model.onnx").write_text("no model")
        cases = json_of("check", str(case), code=1)
        check("check --json of a failure", cases["failed"] == 1 and "this is a text" in cases["cases"][0]["reason"], cases)
    ops = {o["name"]: o for o in json_of("ops")}
    check("ops --json", ops["Conv"]["since"] == 1 and ops["Conv"]["domain"] == "" and ops["Conv"]["summary"], ops.get("Conv"))
    targets = json_of("targets")
    names = [t["name"] for t in targets["targets"]]
    check("targets --json", targets["native"] in names and "x86-64-v3" in names and targets["back_ends"][0]["version"].startswith("LLVM"), targets)
    table = kilter("targets")[1].splitlines()
    check("targets has headings", re.split("  +", table[0]) == ["target", "LLVM's name", "processors"] and
          table[1].startswith("x86-64-v2 ") and any(re.split("  +", line) == ["back end", "version"] for line in table), table)
    check("zoo --json", {"name": "resnet18", "size": 224, "summary": "ResNet-18", "aliases": ["resnet-18"]} in json_of("zoo"))
    options = json_of("options")
    check("options --json", set(options) == {"environment", "passes", "stages", "templates", "trial_options", "searchers", "searcher_options"} and
          any(r["name"] == "gemm" for p in options["passes"] for r in p.get("rewrites", [])), list(options))
    prints = {name for name, c in COMMANDS.items() if not c["commands"]} - {"kilter completion", "kilter man", "kilter records export",
                                                                          "kilter cost-model rows", "kilter cost-model train"}
    without = {name for name in prints if not any("--json" in o["names"] for o in COMMANDS[name]["options"])}
    check("every command that prints has --json", not without, without)


def test_quiet_and_verbose():
    with tempfile.TemporaryDirectory() as folder:
        for words in (["compile", *SMALL, "-o", f"{folder}/a.kilter"], ["zoo", "squeezenet1_1", "-o", f"{folder}/b.onnx"]):
            loud, quiet = kilter(*words), kilter(*words, "--quiet")
            check(f"--quiet: {words}", loud[1] != "" and quiet == (0, "", ""), quiet)
        report = f"{folder}/report.html"
        page = ["profile", *SMALL, "--seconds", "0.1", "--html", report]
        check("--html is confirmed", kilter(*page)[1].endswith(f"\nreport: {report}\n") and os.path.getsize(report) > 0)
        check("--html --quiet", "report: " not in kilter(*page, "--quiet")[1])
        check("--html --json -", json_of(*page)["passes"] > 0)
        check("explain --html is confirmed", kilter("explain", *SMALL, "--seconds", "0.5", "--html", report)[1].endswith(f"\nreport: {report}\n"))
        for name in ("b.onnx", "c.ONNX", "c.dll"):
            code, out, err = kilter("compile", *SMALL, "-o", f"{folder}/{name}")
            ending = name[name.index("."):].lower()
            check(f"compile -o {name} is refused", (code, out) == (2, "") and f"kilter: --output {folder}/{name}: '{ending}' is the ending "
                  f"of another format, but a compiled file of Kilter would be written; name it {folder}/{name[0]}.kilter, or NAME.so, NAME.a or NAME.o for a C library\n" == err, err)
        check("the model of that name stays", kilter("inspect", f"{folder}/b.onnx")[0] == 0 and not os.path.exists(f"{folder}/c.dll"))
        for old in ("--out", "--output", "-o"):
            check(f"compile {old}", kilter("compile", *SMALL, old, f"{folder}/c.kilter")[0] == 0)
    _, out, err = kilter("run", *SMALL, "-v")
    check("-v says what it does", out == kilter("run", *SMALL)[1] and re.match(r"kilter \d.*\n.*threads by default\n", err) and
          re.search(r"^took [\d.]+ s, peak memory \d+ MB$", err, re.M), err)
    check("-v names steps", "\nbench zoo:squeezenet1_1: measuring\n" in kilter("bench", *SMALL, "--seconds", "0.1", "-v")[2])


def test_profile_top():
    def times(*more):
        rows = kilter("profile", *SMALL, "--seconds", "0.3", *more)[1].splitlines()
        first = next(i for i, row in enumerate(rows) if row.startswith("layer "))
        column = rows[first].split().index("ms") + 0
        return [float(re.findall(r" (\d+\.\d{4}) ", row)[0]) for row in rows[first + 1:first + 5] if column]
    by_time = times("--top", "4")
    check("profile --top sorts by time", by_time == sorted(by_time, reverse=True), by_time)
    check("profile --top --sort order", times("--top", "4", "--sort", "order") != by_time, by_time)


def completions(line, folder):
    script = f"""
    source <({shlex.quote(KILTER)} completion bash)
    COMP_LINE={shlex.quote(line)} COMP_POINT={len(line)}
    _kilter
    printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, cwd=folder, timeout=60)
    check(f"completion of '{line}' is silent", done.stderr == "", done.stderr)
    return done.stdout.split()


def test_completion():
    with tempfile.TemporaryDirectory() as folder:
        (pathlib.Path(folder) / "net.onnx").write_text("")
        (pathlib.Path(folder) / "results").mkdir()
        expected = {
            "kilter pro": ["profile"], "kilter records li": ["list"], "kilter help ": None,
            "kilter run --thr": ["--threads"], "kilter run --accuracy ": ["default", "strict"], "kilter run --accuracy=st": ["strict"],
            "kilter run --target znver": ["znver1", "znver2", "znver3", "znver4", "znver5"], "kilter run ne": ["net.onnx"], "kilter run zoo:resnet18": ["resnet18", "resnet18_tvm"],
            "kilter run net.onnx --output ": ["results"], "kilter run --records de": ["default"], "kilter run --records ne": ["net.onnx"],
            "kilter completion ": ["bash", "zsh", "fish"], "kilter run --verify ne": ["net.onnx"], "kilter compile net.onnx -o re": ["results"],
            "kilter run --max-rew": ["--max-rewrites"], "kilter zoo vgg1": ["vgg11", "vgg13", "vgg16", "vgg19"],
        }
        for line, words in expected.items():
            got = completions(line, folder)
            if words is not None:
                check(f"completion of '{line}'", set(words) <= set(got) and all(w in words for w in got), got)
        check("completion of 'kilter '", set(completions("kilter ", folder)) == {c["name"].split()[1] for c in TABLE["commands"]})
        for shell, lint in (("bash", ["bash", "-n"]), ("zsh", ["zsh", "-n"]), ("fish", ["fish", "-n"])):
            script = kilter("completion", shell)[1]
            for name, command in COMMANDS.items():
                check(f"{shell} knows {name}", name.split()[-1] in script)
            check(f"{shell} knows options", "accuracy" in script and "strict" in script)
            if shutil.which(shell):
                done = subprocess.run(lint + ["/dev/stdin"], input=script, capture_output=True, text=True)
                check(f"{shell} reads its script", done.returncode == 0 and done.stderr == "", done.stderr)
    code, _, err = kilter("completion", "tcsh")
    check("completion tcsh", code == 2 and "SHELL: tcsh not in {bash,zsh,fish}" in err, err)


def test_man_pages():
    with tempfile.TemporaryDirectory() as folder:
        code, out, err = kilter("man", "-o", folder)
        pages = {name.replace(" ", "-") + ".1" for name in COMMANDS}
        check("man -o writes a page for each command", code == 0 and set(os.listdir(folder)) == pages, (err, os.listdir(folder)))
        check("man -o names them", {pathlib.Path(p).name for p in out.split()} == pages, out)
        for name in pages:
            page = pathlib.Path(folder, name)
            if shutil.which("groff"):
                done = subprocess.run(["groff", "-man", "-Tascii", "-wall", "-z", str(page)], capture_output=True, text=True)
                check(f"groff reads {name}", done.returncode == 0 and done.stderr == "", done.stderr)
            if shutil.which("mandoc"):
                done = subprocess.run(["mandoc", "-Tlint", "-Werror", str(page)], capture_output=True, text=True)
                check(f"mandoc reads {name}", done.returncode == 0, done.stdout)
        run = pathlib.Path(folder, "kilter-run.1").read_text()
        check("man run prints the same page", kilter("man", "run")[1] == run)
        if shutil.which("groff"):
            text = subprocess.run(["groff", "-man", "-Tascii", "-P-cbou", folder + "/kilter-run.1"], capture_output=True, text=True).stdout
            for part in ("KILTER-RUN(1)", "NAME", "SYNOPSIS", "kilter run [OPTIONS] MODEL", "OPTIONS", "--max-rewrites N", "EXAMPLES",
                         "kilter run zoo:resnet18 --verify", "EXIT STATUS"):
                check(f"the page of run has {part}", part in text, text[:400])


def on_terminal(words, columns=80, **env):
    """Returns what a command prints on a terminal with this many columns."""
    main, child = pty.openpty()
    fcntl.ioctl(child, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    process = subprocess.Popen([KILTER, *words], stdout=child, stderr=child, env={**os.environ, "TERM": "xterm", "NO_COLOR": "", **env})
    os.close(child)
    out = rest_of(main)
    process.wait()
    os.close(main)
    return out.decode().replace("\r\n", "\n")


def test_colours():
    bold = "\033[1mUsage:\033[0m"
    plain = kilter("run", "--help")[1]
    check("no colours in a pipe", "\033" not in plain)
    check("--color always", bold in kilter("run", "--color", "always", "--help")[1])
    check("bold on a terminal", bold in on_terminal(["run", "--help"]))
    check("NO_COLOR", "\033" not in on_terminal(["run", "--help"], NO_COLOR="1"))
    check("TERM=dumb", "\033" not in on_terminal(["run", "--help"], TERM="dumb"))
    check("--color never", "\033" not in on_terminal(["run", "--color", "never", "--help"]))
    check("the text is the same", re.sub("\033\\[[0-9;]*m", "", on_terminal(["run", "--help"])) == plain)
    check("a red error", on_terminal(["frobnicate"]).startswith("\033[1;31mkilter:\033[0m unknown command"), on_terminal(["frobnicate"]))
    done = kilter("run", *SMALL, "--verify", "--color", "always")[1]
    check("a green verdict", done.endswith("verify: \033[32mpassed\033[0m\n"), done)


def test_tables_fit_the_terminal():
    def widest(text):
        drawn = re.sub("\r[^\n]*\033\\[K", "", text)  # progress is drawn over
        lines = re.sub("\033\\[[0-9;]*m", "", drawn).splitlines()
        return max(((len(line), line) for line in lines if not line.startswith("  $ ")), default=(0, ""))  # commands stay whole
    for words in (["profile", "zoo:inception_v3", "--seconds", "0.3"], ["time", *SMALL, "--ops", "Conv", "--seconds", "0.2", "--in-network"],
                  ["zoo"], ["ops"], ["targets"], ["options"], ["help"], ["run", "--help-all"]):
        for columns in (80, 100):
            width, line = widest(on_terminal(words, columns))
            check(f"{words} fits {columns} columns", 40 < width <= columns, (width, line))
    piped = kilter("zoo")[1]
    check("pipes get whole lines", all(re.match(r"\S", line) for line in piped.splitlines()), piped)


def main():
    with tempfile.TemporaryDirectory() as home:
        os.environ["XDG_DATA_HOME"] = home
        for name, test in list(globals().items()):
            if name.startswith("test_") and (not sys.argv[3:] or name.removeprefix("test_") in sys.argv[3:]):
                test()
    print(f"{len(failures)} failures" if failures else "command line: all passed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
