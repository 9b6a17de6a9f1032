#!/usr/bin/env python3
"""Runs a fleet on this machine, to try one out: a private PostgreSQL server, a broker, and two agents, one of them for
AArch64 in an emulator.

usage: scripts/local_fleet.py start [--folder FOLDER]   starts it, waits until both agents are ready, and says how to use
                                                        it; it runs until `stop`
       scripts/local_fleet.py tune MODEL [OPTIONS...]   tunes a network on both agents, with records that both share. OPTIONS
                                                        are those of kilter tune (default: --time 1min --threads 1)
       scripts/local_fleet.py stop [--folder FOLDER]    ends it, and removes its folder

FOLDER is build/fleet by default. Needs what `./demo fleet` builds and installs. Exit codes: 0 done, 1 something failed,
2 usage.
"""
import argparse
import json
import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time

SOURCE = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(SOURCE / "tests/support"))
from postgres import Cluster  # noqa: E402

BUILD = SOURCE / "build"
KILTER, AGENT, BROKER = BUILD / "kilter", BUILD / "kilter-agent", BUILD / "kilter-broker"
ARM_AGENT = SOURCE / "build-aarch64/kilter-agent"
ARM = "cortex-a72"
STATE = "fleet.json"


def fail(text):
    sys.exit(f"local_fleet.py: {text}")


def run(*words):
    done = subprocess.run([str(w) for w in words], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode != 0:
        fail(f"{shlex.join(map(str, words))} failed:\n{done.stdout}")
    return done.stdout.strip()


class Programs:
    """Programs that run until they are ended, in reverse order. Their output goes to files in the folder."""

    def __init__(self, folder):
        self.folder, self.running = folder, []

    def start(self, name, text, *words):
        """Starts a program, and waits until it prints `text`."""
        log = self.folder / f"{name}.log"
        with open(log, "w") as out:
            self.running.append(subprocess.Popen([str(w) for w in words], stdin=subprocess.DEVNULL, stdout=out, stderr=out))
        end = time.monotonic() + 60
        while text not in log.read_text():
            if self.running[-1].poll() is not None or time.monotonic() > end:
                fail(f"{name} did not print '{text}':\n{log.read_text()}")
            time.sleep(0.1)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for program in reversed(self.running):
            program.terminate()
            try:
                program.wait(20)
            except subprocess.TimeoutExpired:
                program.kill()


def serve(folder):
    """Runs the fleet until SIGTERM."""
    with Cluster(durable=True) as cluster, Programs(folder) as programs:
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
        cluster.run("createdb", "-h", cluster.folder, "-U", "postgres", "fleet")
        url = cluster.url("fleet")
        run(KILTER, "records", "migrate", "--records", url)
        run(KILTER, "sign", "--new-keys", folder / "team")
        run(BROKER, "new-certificate", "localhost", "--name", folder / "broker")
        tokens = ["--tokens", folder / "tokens"]
        for name in ("here", "board"):
            (folder / f"{name}.token").write_text(run(BROKER, "new-token", name, *tokens) + "\n")
        reader = run(BROKER, "new-token", "--read", "reader", *tokens)
        programs.start("broker", "serves https", BROKER, "--fleet", url, *tokens, "--certificate", folder / "broker.crt", "--key",
                       folder / "broker.key", "--listen", "127.0.0.1:0")
        address = re.search(r"https://127\.0\.0\.1:(\d+)", (folder / "broker.log").read_text()).expand(r"https://localhost:\1")
        emulated = folder / "kilter-agent-aarch64"
        emulated.write_text(f'#!/bin/sh\nexec qemu-aarch64 -cpu {ARM} {shlex.quote(str(ARM_AGENT))} "$@"\n')
        emulated.chmod(0o755)
        native = json.loads(run(KILTER, "targets", "--json", "-"))["native"]
        access = ["--fleet", address, "--ca", folder / "broker.crt", "--trust", folder / "team.public"]
        for name, target, program, more in (("here", native, AGENT, []), ("board", ARM, emulated, ["--worker", emulated])):
            programs.start(name, "waits for jobs", program, *access, "--token", folder / f"{name}.token", "--name", name,
                           "--device-class", target, *more)
        made = folder / "made.json"
        made.write_text(json.dumps({"pid": os.getpid(), "url": url, "address": address, "classes": [native, ARM], "token": reader}))
        made.rename(folder / STATE)
        signal.sigwait({signal.SIGTERM})


def start(folder):
    if folder.exists():
        fail(f"{folder} exists: a fleet runs there; `scripts/local_fleet.py stop` ends it")
    for program in (KILTER, AGENT, BROKER, ARM_AGENT):
        if not program.exists():
            fail(f"{program} is not built; run ./demo fleet")
    folder.mkdir(parents=True)
    with open(folder / "serve.log", "w") as log:
        serving = subprocess.Popen([sys.executable, __file__, "serve", "--folder", folder], stdin=subprocess.DEVNULL, stdout=log,
                                   stderr=log, start_new_session=True)
    while not (folder / STATE).exists():
        if serving.poll() is not None:
            said = (folder / "serve.log").read_text()
            shutil.rmtree(folder)
            fail(f"the fleet did not start:\n{said}")
        time.sleep(0.1)
    fleet = json.loads((folder / STATE).read_text())
    print(f"two agents wait for jobs: {fleet['classes'][0]} on this processor, and {ARM} in an emulator\n"
          f"the fleet's page: {fleet['address']}/ (any user name; the password is {fleet['token']}; the certificate is "
          f"{folder / 'broker.crt'})\n"
          f"tune on both:     scripts/local_fleet.py tune zoo:squeezenet1_1\n"
          f"end it:           scripts/local_fleet.py stop")


def state_of(folder):
    state = folder / STATE
    if not state.exists():
        fail(f"no fleet runs in {folder}; ./demo fleet starts one")
    return json.loads(state.read_text())


def tune(folder, words):
    fleet = state_of(folder)
    model, options = words[0], words[1:] or ["--time", "1min", "--threads", "1"]
    for target in fleet["classes"]:
        command = [KILTER, "tune", model, "--target", target, "--fleet", fleet["url"], "--sign-key", folder / "team.secret",
                   "--records", fleet["url"], *options]
        print(f"\n$ {shlex.join(map(str, command))}", flush=True)
        if subprocess.run([str(w) for w in command]).returncode != 0:
            fail("the command above failed")
    print(f"\n$ {KILTER} fleet status --fleet {shlex.quote(fleet['url'])}", flush=True)
    subprocess.run([str(KILTER), "fleet", "status", "--fleet", fleet["url"]], check=True)


def stop(folder):
    pid = state_of(folder)["pid"]
    os.kill(pid, signal.SIGTERM)
    while pathlib.Path(f"/proc/{pid}").exists():
        time.sleep(0.1)
    shutil.rmtree(folder)


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split("usage: ")[1])
    parser.add_argument("command", choices=("start", "serve", "tune", "stop"))
    parser.add_argument("--folder", type=pathlib.Path, default=BUILD / "fleet")
    given, words = parser.parse_known_args()
    folder = given.folder.resolve()
    if given.command == "tune":
        if not words:
            parser.error("tune expects a MODEL")
        tune(folder, words)
    elif words:
        parser.error(f"unexpected {shlex.join(words)}")
    else:
        {"start": start, "serve": serve, "stop": stop}[given.command](folder)


if __name__ == "__main__":
    main()
