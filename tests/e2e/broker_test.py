#!/usr/bin/env python3
"""Agents that reach a fleet through a broker, and the broker's page, on a private PostgreSQL server.

usage: broker_test.py KILTER SOURCE
"""
import base64
import contextlib
import json
import os
import pathlib
import platform
import re
import shutil
import signal
import ssl
import struct
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

KILTER, SOURCE = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve()
sys.path.insert(0, str(SOURCE / "tests/support"))
from commands import expect, run, says  # noqa: E402
from postgres import Cluster  # noqa: E402

AGENT, BROKER = KILTER.parent / "kilter-agent", KILTER.parent / "kilter-broker"
TUNE = ["tune", "zoo:squeezenet1_1", "--input", "input=1x3x64x64", "--threads", "1", "--choose", "history-best", "--records", "trials.db"]


class Program:
    """An agent that runs until it is killed."""

    def __init__(self, program, *words):
        self.process = subprocess.Popen([program, *map(str, words)], text=True, stderr=subprocess.PIPE)
        self.said = self.process.stderr.readline()

    def end(self, how=signal.SIGTERM):
        self.process.send_signal(how)
        self.said += self.process.communicate(timeout=60)[1]
        return self.process.returncode

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.end(signal.SIGKILL)


def broker(url, *words):
    return Program(BROKER, "--fleet", url, "--tokens", "tokens", "--certificate", "broker.crt", "--key", "broker.key", *words)


def agent(address, *words, token="bench1.token", trust=("--trust-anyone",)):
    return Program(AGENT, "--fleet", address, "--token", token, "--ca", "broker.crt", "--device-class", "this", "--lease", "5", *trust, *words)


def new_token(name, *words):
    token = run(BROKER, "new-token", name, "--tokens", "tokens", *words).strip()
    pathlib.Path(f"{name.rstrip('*')}.token").write_text(token + "\n")
    return token


def fetch(address, token=None, headers=None, body=None):
    """Returns the status and the body of the response."""
    headers = dict(headers or {})
    if token is not None:
        headers["Authorization"] = "Basic " + base64.b64encode(f"anybody:{token}".encode()).decode()
    context = ssl.create_default_context(cafile="broker.crt")
    try:
        with urllib.request.urlopen(urllib.request.Request(address, headers=headers, data=body), context=context, timeout=20) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as answer:
        return answer.code, answer.read().decode()


def tunes(url, address):
    with agent(address, "--name", "bench1") as bench:
        expect("agent bench1 waits for jobs of the device class this" in bench.said, f"the agent says {bench.said}")
        says("measured by agents of the device class this (", KILTER, *TUNE, "--trials", "16", "--fleet", url, "--device-class", "this")
        expect(bench.end() == 0, "SIGTERM does not end the agent")
        expect(re.search(r"kilter-agent: ended after [1-9]\d* jobs", bench.said), f"the agent says {bench.said}")


def survives(url, port):
    """The broker is killed and started again in the middle of a run."""
    address = f"https://localhost:{port}"
    serving = broker(url, "--listen", f"127.0.0.1:{port}")
    with agent(address, "--name", "bench1") as bench:
        tuner = subprocess.Popen([KILTER, *TUNE, "--time", "14s", "--fleet", url, "--device-class", "this"], text=True,
                                 stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        time.sleep(5)
        serving.end(signal.SIGKILL)
        time.sleep(1)
        with broker(url, "--listen", f"127.0.0.1:{port}"):
            said = tuner.communicate(timeout=200)[0]
            expect(tuner.returncode == 0, f"the run did not survive the broker:\n{said}")
            says("bench1 will exit after its current job", KILTER, "fleet", "drain", "bench1", "--fleet", url)
            expect(bench.process.wait(timeout=60) == 0, "an agent that is drained does not end")


def refuses(url, address):
    def refused(text, *words, code=2, ca="broker.crt", to=address):
        says(text, AGENT, "--fleet", to, "--device-class", "this", "--trust-anyone", *(["--ca", ca] if ca else []), *words, code=code)

    pathlib.Path("wrong.token").write_text("0123456789abcdef\n")
    refused("the broker does not know this token, or it is not for an agent; `kilter-broker new-token NAME` creates "
            "one (the token in 'wrong.token')", "--token", "wrong.token", "--name", "bench1")
    refused("this token is for agents named bench1, and this one is named other; give it a token of its own, or --name",
            "--token", "bench1.token", "--name", "other")
    refused("a broker expects a token; name the file that contains it with --token")
    refused("'empty' has no token in its first line", "--token", "empty")
    refused("its certificate is not accepted: self-signed certificate; name the certificate of its authority with --ca",
            "--token", "bench1.token", ca=None)
    refused("its certificate is not accepted: IP address mismatch", "--token", "bench1.token",
            to=address.replace("localhost", "127.0.0.1"))
    refused("'tokens' has no certificates in PEM form", "--token", "bench1.token", ca="tokens")
    refused("without TLS, tokens could be read on the way; use https://", "--token", "bench1.token", to="http://db.example.com:8443")
    refused("has a path, a user or a query; expected https://HOST or https://HOST:PORT", "--token", "bench1.token", to="https://u@host")
    status, said = fetch(f"{address}/v1/beat", headers={
        "Authorization": "Bearer " + pathlib.Path("bench1.token").read_text().strip(), "kilter-protocol": "0"}, body=b"{}\n")
    expect((status, said) == (426, "the agent uses protocol 0, and the broker uses 1; install the same version of "
                                   "Kilter on both"), said)
    files = ["--agent", "tokens", "--token", "bench1.token"]
    push = ["fleet", "push", "ssh://board", *files, "--broker", address]
    says("'ftp://board' is not the address of a board; expected ssh://USER@HOST, adb: or "
         "adb:SERIAL", KILTER, "fleet", "push", "ftp://board", *files, "--broker",
         address, "--trust", "tokens", code=2)
    for board in ("ssh://", "ssh://-oProxyCommand=x", "ssh://board:0", "ssh://board/folder"):
        says(f"'{board}' is not the address of a board; expected ssh://HOST, ssh://USER@HOST or "
             "ssh://USER@HOST:PORT", KILTER, "fleet", "push", board, *files,
             "--broker", address, "--trust", "tokens", code=2)
    says("--trust FILE is missing: the agent runs machine code that the owner of this public key signs", KILTER, *push, code=2)
    says("--broker postgresql:///x: expected https://HOST:PORT, where `kilter-broker` runs", KILTER, "fleet", "push", "ssh://board", *files,
         "--trust", "tokens", "--broker", "postgresql:///x", code=2)
    says("--folder a;b: letters, digits, '/', '-', '_' and '.' are legal", KILTER, *push, "--trust", "tokens", "--folder", "a;b", code=2)
    pathlib.Path("bin").mkdir()
    pathlib.Path("bin/ssh").write_text("#!/bin/sh\necho ssh: no such host >&2; exit 255\n")
    pathlib.Path("bin/ssh").chmod(0o755)
    os.environ["PATH"] = f"{os.getcwd()}/bin:{os.environ['PATH']}"
    says("'ssh -p 22 board.invalid mkdir -p kilter-agent && chmod 700 kilter-agent && rm -rf kilter-agent/trusted kilter-agent/upgraders' failed with status 255: ssh: no such host",
         KILTER, "fleet", "push", "ssh://board.invalid", *files, "--broker", address, "--trust", "tokens", code=3)
    serve = ["--fleet", url, "--tokens", "tokens"]
    says("--certificate FILE and --key FILE are missing; `kilter-broker new-certificate` creates "
         "them", BROKER, *serve, code=2)
    says("--tokens FILE is missing", BROKER, "--fleet", url, code=2)
    says("the token file 'nowhere' cannot be read", BROKER, "--fleet", url, "--tokens", "nowhere", "--no-tls", code=2)
    pathlib.Path("bad").write_text("# tokens\nagent bench1 secret\n")
    says("bad, line 2: expected `agent NAME sha256:HASH`", BROKER, "--fleet", url, "--tokens", "bad", "--no-tls", code=2)
    says("--listen 0.0.0.0:80: without TLS, only addresses of this machine are legal", BROKER, *serve, "--no-tls", "--listen",
         "0.0.0.0:80", code=2)
    says("'tokens' has no certificate in PEM form", BROKER, *serve, "--certificate", "tokens", "--key", "broker.key", code=2)
    says("unknown command 'new'; legal commands are new-token and new-certificate", BROKER, "new", code=2)
    says("'broker.key' cannot be created: File "
         "exists", BROKER, "new-certificate", "localhost", "--name", "broker", code=3)


def program(name, protocol, version):
    """Writes a script with the marker of a static agent; it records how it was started."""
    marker = struct.pack("<24s16s16sI", b"kilter-agent program 1\n", platform.machine().encode(), version.encode(), protocol)
    pathlib.Path(name).write_bytes(b'#!/bin/sh\necho "$0 $*" > started\nexit 0\n' + marker)
    return name


def upgrades(url, address):
    """An agent replaces itself with a newer program if it is signed with the right key."""
    team, other = (re.search("fingerprint ([0-9a-f]{16})$", run(KILTER, "sign", "--new-keys", name).strip()).group(1) for name in ("team", "other"))
    pathlib.Path("own").mkdir()
    own = pathlib.Path("own/kilter-agent").resolve()
    shutil.copy(AGENT, own)
    before = own.read_bytes()
    offer = ["fleet", "upgrade", "--fleet", url]
    words = ["--fleet", address, "--token", "bench1.token", "--ca", "broker.crt", "--device-class", "this", "--trust", "other.public", "--name", "bench1",
             "--upgrade", "team.public"]

    def waits(said):
        with Program(own, *words) as bench:
            expect(said in bench.said, f"expected '{said}', the agent says {bench.said}")
            expect(own.read_bytes() == before, "the program was replaced")

    program("older", 1, "9.0.0"), program("newer", 99, "99.0.1")
    kind = f"for {platform.machine()}"
    says(f"offered: kilter-agent 99.0.1 (protocol 99) {kind}; agents of an older version or protocol install it within "
         f"a minute, if the key {other} is in their --upgrade",
         KILTER, *offer, "--agent", "newer", "--sign-key", "other.secret")
    with Program(own, *words) as bench:
        bench.said += bench.process.stderr.readline()
        expect(bench.end() == 0, "SIGTERM does not end the agent")
        refused = ("the program that the fleet offers is refused: it does not trust the key of this program "
                   f"(fingerprint {other}): give --sign-key a key whose public half the agent has in --upgrade; it "
                   f"trusts 1 key ({team})")
        expect(refused in bench.said and own.read_bytes() == before, f"expected '{refused}', the agent says {bench.said}")
    says(f"offered: kilter-agent 9.0.0 (protocol 1) {kind}", KILTER, *offer, "--agent", "older", "--sign-key", "team.secret")
    waits("waits for jobs")
    told = json.loads(run(KILTER, *offer, "--agent", "newer", "--sign-key", "team.secret", "--json", "-"))
    expect(told == {"architecture": platform.machine(), "version": "99.0.1", "protocol": 99}, f"upgrade says {told}")
    says("forgotten", KILTER, "fleet", "purge", "--days", "0", "--fleet", url)  # not the program's bytes
    done = subprocess.run([own, *words], text=True, capture_output=True, timeout=60)
    version = run(AGENT, "--version").strip()
    expect(done.returncode == 0 and f"kilter-agent 99.0.1 (protocol 99) {kind} replaces kilter-agent {version} (protocol " in done.stderr,
           f"the agent says {done.stderr}")
    expect(own.read_bytes() == pathlib.Path("newer").read_bytes() and own.stat().st_mode & 0o777 == 0o755, "the program is another one")
    expect(pathlib.Path("started").read_text().strip() == f"{own} {' '.join(words)}", "the program was not started as before")
    says(f"kilter: --agent {AGENT}: this file is not a statically linked kilter-agent; expected one that is statically "
         "linked, as built by `scripts/build_agent.sh` and `scripts/build_agent.sh "
         "aarch64`", KILTER, *offer, "--agent", AGENT, "--sign-key", "team.secret", code=3)
    says("kilter: --sign-key FILE is missing: agents accept only programs that are "
         "signed", KILTER, *offer, "--agent", "newer", code=2)
    says("kilter-agent: --upgrade team.public: a key of --trust is among these; programs need a key of their own, because jobs run confined "
         "and programs do not", AGENT, *words, "--trust", "team.public", code=2)
    says("kilter-agent: --upgrade and --worker exclude each other", AGENT, *words, "--worker", "x", code=2)
    says("kilter-agent: --upgrade team.public: programs that replace others are linked statically and need a broker: give --fleet "
         "https://HOST:PORT, or install newer versions by other means", AGENT, "--fleet", url, "--trust-anyone", "--upgrade", "team.public", code=2)


def shows(url, address, reader):
    expect(fetch(f"{address}/")[0] == 401, "the page needs no token")
    expect(fetch(f"{address}/status.json", pathlib.Path("bench1.token").read_text().strip())[0] == 401, "an agent's token reads the page")
    with agent(address, "--name", "bench1"):
        status, page = fetch(f"{address}/", reader)
        expect(status == 200 and "<title>Kilter fleet</title>" in page, f"the page is {status}: {page[:200]}")
        fleet = json.loads(fetch(f"{address}/status.json", reader)[1])
        expect(fleet == {**json.loads(run(KILTER, "fleet", "status", "--json", "-", "--fleet", url)), "agents": fleet["agents"]} and
               [a["name"] for a in fleet["agents"]] == ["bench1"], f"the status is {fleet}")
        metrics = fetch(f"{address}/metrics", reader)[1]
        for line in ('kilter_jobs{state="waits"} 0', 'kilter_agent_up{agent="bench1",device_class="this"} 1'):
            expect(line in metrics.splitlines(), f"the metrics lack '{line}':\n{metrics}")
        for line in metrics.splitlines():
            expect(re.fullmatch(r'# (HELP|TYPE) kilter_\w+ .+|kilter_\w+\{\w+="[^"]*"(,\w+="[^"]*")*\} -?\d+(\.\d+)?', line), line)
        seen_in_browser(address, reader)


def seen_in_browser(address, reader):
    shot = pathlib.Path("fleet.png").resolve()
    dom = subprocess.run(["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--ignore-certificate-errors", "--virtual-time-budget=3000",
                          f"--user-data-dir={os.getcwd()}/browser", f"--screenshot={shot}", "--window-size=1100,500", "--dump-dom",
                          address.replace("https://", f"https://reader:{reader}@")], text=True, stdout=subprocess.PIPE,
                         stderr=subprocess.DEVNULL, timeout=120).stdout
    expect(re.search(r"<td>bench1</td>\s*<td>this</td>\s*<td class=\"waits\">waits", dom), f"the page does not show the agent:\n{dom[-1500:]}")
    expect("refreshed every 2 s" in dom, "the page does not say when it was read")
    expect(shot.stat().st_size > 5000, "there is no picture of the page")


def main():
    with tempfile.TemporaryDirectory() as folder, Cluster() as cluster, contextlib.ExitStack() as ends:
        ends.callback(os.chdir, "/")
        os.chdir(folder)
        os.environ["XDG_DATA_HOME"] = f"{folder}/share"
        cluster.run("createdb", "-h", cluster.folder, "-U", "postgres", "fleet")
        url = cluster.url("fleet")
        run(KILTER, "records", "migrate", "--records", url)
        says("broker.crt: the certificate, for agents too", BROKER, "new-certificate", "localhost", "--name", "broker")
        expect(pathlib.Path("broker.key").stat().st_mode & 0o777 == 0o600, "others can read the key")
        token = new_token("bench1")
        expect(token not in pathlib.Path("tokens").read_text(), "the file has the token itself")
        pathlib.Path("empty").write_text("\n")
        with broker(url, "--listen", "127.0.0.1:0") as serving:
            port = re.search(r"serves https://127\.0\.0\.1:(\d+)", serving.said).group(1)
            address = f"https://localhost:{port}"
            refuses(url, address)
            reader = new_token("reader", "--read")
            time.sleep(1.1)  # the file is read again at most once a second
            shows(url, address, reader)
            tunes(url, address)
            upgrades(url, address)
            pathlib.Path("tokens").write_text("")
            time.sleep(1.1)
            says("the broker does not know this token", AGENT, "--fleet", address, "--token", "bench1.token", "--ca", "broker.crt", "--trust-anyone", "--name",
                 "bench1", code=2)
            expect(serving.end() == 0, "SIGTERM does not end the broker")
        new_token("bench*")
        pathlib.Path("bench.token").rename("bench1.token")
        survives(url, port)
    print("broker_test.py: passed")


if __name__ == "__main__":
    main()
