#!/usr/bin/env python3
"""Agents on AArch64, run by an emulator: the fleet on one machine (scripts/local_fleet.py), and the commands in
doc/fleet.md for brokers and boards.

usage: board_test.py KILTER SOURCE      Exit code 77: a cross compiler or an emulator is missing, or
Debian's packages cannot be downloaded
"""
import json
import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import tempfile

KILTER, SOURCE = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve()
sys.path.insert(0, str(SOURCE / "tests/support"))
from postgres import Cluster  # noqa: E402

SHORT = ["--input", "input=1x3x32x32", "--trials", "4", "--threads", "1", "--choose", "history-best"]
# A board is a folder: scp copies into it, and ssh runs a script there. Their first arguments are "-p PORT" or "-q -r -P
# PORT". Starting ./kilter-agent there starts an emulator that runs the program.
STUBS = {
    "scp": 'shift 4; cp -r "${@:1:$#-1}" "board/${!##*:}"; cd "board/${!##*:}"\n'
           "mv kilter-agent.new program\n"
           "printf '#!/bin/sh\\n[ \"$1\" != --fleet ] || set -- --worker %s/kilter-agent \"$@\"\\n' \"$PWD\" > kilter-agent.new\n"
           "printf 'exec qemu-aarch64 -cpu cortex-a72 %s/program \"$@\"\\n' \"$PWD\" >> kilter-agent.new\n",
    "ssh": 'cd board; exec sh -c "$4"\n',
}


def expect(holds, text):
    if not holds:
        sys.exit(f"board_test.py: {text}")


def run(*words, timeout=400, **how):
    done = subprocess.run([str(w) for w in words], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=timeout, **how)
    expect(done.returncode == 0, f"{words} exits with {done.returncode}:\n{done.stdout}")
    return done.stdout


def single_commands(variables):
    """Commands with --on, for a processor whose code this machine cannot run."""
    on = ["zoo:squeezenet1_1", "--input", "input=1x3x32x32", "--threads", "1", "--on", "cortex-a72"]
    how = {"env": {**os.environ, **variables}}
    for words, text in ((["bench", *on, "--repeat", "3"], "(cortex-a72 on Arm "), (["run", *on, "--verify"], "verify: passed"),
                        (["profile", *on, "--seconds", "0.5"], "on agent board of the device class cortex-a72 (Arm ")):
        said = run(KILTER, *words, **how)
        expect(text in said, f"{words}: expected '{text}', got:\n{said}")


def on_one_machine(folder):
    fleet = [SOURCE / "scripts/local_fleet.py"]
    place = ["--folder", folder / "fleet"]
    run(*fleet, "start", *place)
    try:
        state = json.loads((folder / "fleet/fleet.json").read_text())
        said = run(*fleet, "tune", "zoo:squeezenet1_1", *SHORT, *place)
        for device_class in state["classes"]:
            expect(f"measured by agents of the device class {device_class} (" in said, f"nothing was measured by {device_class}:\n{said}")
        expect(re.search(r"^board +cortex-a72 +\w+ +\d+ s +\d+ +0 .*Arm .*neon", said, re.M), f"the board is not shown, or has failed a job:\n{said}")
        records = json.loads(run(KILTER, "records", "list", "--records", state["url"], "--limit", "1000", "--json", "-"))
        devices = {r["conditions"]["device"].split()[0] for r in records if r["status"] == "ok"}
        expect("Arm" in devices and len(devices) == 2, f"the records are of {devices}; expected those of two machines")
        single_commands({"KILTER_FLEET": state["url"], "KILTER_FLEET_KEY": str(folder / "fleet/team.secret")})
    finally:
        run(*fleet, "stop", *place)


def blocks():
    return re.findall(r"```sh\n(.*?)```", (SOURCE / "doc/fleet.md").read_text(), re.S)


def page(folder, cluster):
    """Runs the commands for a broker and a board from doc/fleet.md, with small changes, such as addresses and
    durations."""
    cluster.run("createdb", "-h", cluster.folder, "-U", "postgres", "page")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    stubs = folder / "stubs"
    stubs.mkdir()
    for name, text in STUBS.items():
        (stubs / name).write_text("#!/bin/bash\nset -e\n" + text)
        (stubs / name).chmod(0o755)
    (folder / "build-aarch64").mkdir()
    shutil.copy(SOURCE / "build-aarch64/kilter-agent", folder / "build-aarch64")
    made, brokered, board, upgrade = (next(b for b in blocks() if text in b)
                                      for text in ("records migrate", "new-certificate", "fleet push", "fleet upgrade"))
    lines = [*made.splitlines()[:2], *brokered.splitlines(), "kill %2", "wait %2", *upgrade.splitlines(), *board.splitlines()]
    expect(lines[-1].startswith("kilter tune "), f"the last command of the page is {lines[-1]}")
    lines[-1] += " " + " ".join(SHORT) + " --records none"
    text = "\n".join(line + (" &" if line.startswith("kilter-agent") else "") + ("\nsleep 2" if line.startswith("kilter-") else "")
                     for line in lines)
    text = re.sub(r"postgresql://(owner@)?db\.example\.com/tuning", f"'{cluster.url('page')}'", text)
    text = text.replace("fleet.example.com:8443", f"localhost:{port}").replace("fleet.example.com", "localhost")
    text = text.replace("--key broker.key", f"--key broker.key --listen 127.0.0.1:{port}")
    said = run("bash", "-emc", "trap 'kill $(jobs -p) $(cat board/kilter-agent/pid)' EXIT; mkdir board\n" + text, cwd=folder,
               env={**os.environ, "KILTER_FLEET": cluster.url("page"), "PATH": f"{stubs}:{KILTER.parent}:{os.environ['PATH']}"})
    expect(re.search(r"offered: kilter-agent \d+\.\d+\.\d+ \(protocol \d+\) for aarch64; agents of an older version", said), f"nothing is offered:\n{said}")
    expect("measured by agents of the device class cortex-a72 (Arm " in said, f"the board did not measure:\n{said}")


def main():
    for program in ("aarch64-linux-gnu-g++", "qemu-aarch64"):
        if shutil.which(program) is None:
            print(f"board_test.py: skipped: no {program}; install Debian's g++-aarch64-linux-gnu and qemu-user (./test does)")
            sys.exit(77)
    built = subprocess.run([SOURCE / "scripts/build_agent.sh", "aarch64"], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=1500)
    if built.returncode == 3:
        print(f"board_test.py: skipped: {built.stdout}")
        sys.exit(77)
    expect(built.returncode == 0, f"the agent is not built:\n{built.stdout}")
    agent = pathlib.Path(built.stdout.splitlines()[-1])
    expect(agent.stat().st_size < 10e6, f"the agent has {agent.stat().st_size} bytes; expected less than 10 MB")
    said = run("readelf", "-l", agent)
    expect("INTERP" not in said, "the agent needs a loader")
    with tempfile.TemporaryDirectory() as name, Cluster() as cluster:
        os.environ["XDG_DATA_HOME"] = f"{name}/share"
        on_one_machine(pathlib.Path(name))
        page(pathlib.Path(name), cluster)
    print("board_test.py: passed")


if __name__ == "__main__":
    main()
