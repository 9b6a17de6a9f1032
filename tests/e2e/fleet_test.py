#!/usr/bin/env python3
"""Tuning and single commands with an agent of a fleet on a private PostgreSQL server, as users run them.

usage: fleet_test.py KILTER SOURCE
"""
import json
import os
import pathlib
import platform
import re
import signal
import subprocess
import sys
import tempfile
import time

KILTER, SOURCE = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve()
sys.path.insert(0, str(SOURCE / "tests/support"))
from commands import expect, run, says  # noqa: E402
from postgres import Cluster  # noqa: E402

AGENT = KILTER.parent / "kilter-agent"
TUNE = ["tune", "zoo:squeezenet1_1", "--threads", "1", "--trials", "16", "--choose", "history-best", "--records", "trials.db"]


class Agent:
    """A process; it runs jobs signed with team.secret, unless `words` say otherwise."""

    def __init__(self, url, *words):
        self.process = subprocess.Popen([AGENT, "--fleet", url, *words], text=True, stderr=subprocess.PIPE,
                                        env={**os.environ, "KILTER_FLEET_TRUST": "team.public"})
        self.said = [self.process.stderr.readline()]

    def end(self, how=signal.SIGTERM):
        self.process.send_signal(how)
        self.said += self.process.communicate(timeout=60)[1].splitlines()
        return self.process.returncode


def make_keys(name):
    """Creates keys and returns their fingerprint."""
    return re.search("fingerprint ([0-9a-f]{16})$", run(KILTER, "sign", "--new-keys", name).strip()).group(1)


def tunes(url):
    agent = Agent(url, "--name", "bench1", "--device-class", "this", "--trust", "team.public")
    expect("agent bench1 waits for jobs of the device class this" in agent.said[0], f"the agent says {agent.said}")
    said = says("measured by agents of the device class this (", KILTER, *TUNE, "--fleet", url, "--device-class", "this",
                "--sign-key", "team.secret", "--json", "tuned.json")
    tuned = json.loads(pathlib.Path("tuned.json").read_text())
    expect(0 < tuned["after"]["share_of_bound"] < 1.5, f"the bounds are those of the agent's machine: {tuned['after']}")
    trials = int(re.search(r"(\d+) trials", said).group(1))
    expect(trials >= 16, f"expected 16 trials, got {trials}")
    count = int(re.search(r"(\d+) records?\b", run(KILTER, "records", "list", "--records", "trials.db")).group(1))
    expect(count > 0, "the trials are not in the records")
    says("records: ", KILTER, "run", "zoo:squeezenet1_1", "--threads", "1", "--records", "trials.db")
    says("no agent of the device class cortex-a72 is known; other agents: bench1 (this); start one (kilter-agent), or "
         "name another class", KILTER, *TUNE, "--fleet", url, "--device-class", "cortex-a72", code=3)
    other = "cortex-a72" if platform.machine() == "x86_64" else "x86-64-v2"
    says(f"kilter: --target {other}: agent bench1 of the device class this (", KILTER, *TUNE, "--fleet", url, "--device-class", "this",
         "--target", other, "--sign-key", "team.secret", code=2)
    fleet = ["--fleet", url]
    heads = "agent class state seen done failed speed load drift device bench1 this waits"
    says(heads, KILTER, "fleet", "status", *fleet)
    says("jobs: 0 wait, 0 leased, 0 set aside", KILTER, "fleet", "status", *fleet)
    status = json.loads(run(KILTER, "fleet", "status", "--json", "-", *fleet))
    expect(status["agents"][0]["done"] > 2 and status["agents"][0]["facts"]["trusts"].startswith("1 key ("), f"status says {status}")
    says("class agents ready failed waiting leased device this 1 1 0 % 0 0 ", KILTER, "fleet", "devices", *fleet)
    devices = json.loads(run(KILTER, "fleet", "devices", "--json", "-", *fleet))
    facts = status["agents"][0]["facts"]
    expect(devices == [{"device_class": "this", "agents": 1, "ready": 1, "failed": 0, "done": devices[0]["done"], "waiting": 0, "leased": 0,
                        "devices": [facts["device"]]}], f"devices says {devices}")
    says("no jobs", KILTER, "fleet", "jobs", *fleet)
    says("0 jobs cancelled", KILTER, "fleet", "cancel", "run", *fleet)
    says("0 jobs forgotten", KILTER, "fleet", "purge", *fleet)
    says("there is no agent nobody in the fleet; `kilter fleet status` lists the agents", KILTER, "fleet", "remove", "nobody", *fleet,
         code=3)
    says("--fleet URL is missing; the variable KILTER_FLEET can also give it", KILTER, "fleet", "status", code=2)
    expect(agent.end() == 0, "SIGTERM does not end the agent")
    expect(re.search(r"kilter-agent: ended after [1-9]\d* jobs", agent.said[-1]), f"the agent says {agent.said}")


NETWORK = ["zoo:squeezenet1_1", "--threads", "1"]
ON = ["--on", "this", "--sign-key", "team.secret"]


def runs_on_agent(url):
    """Runs single commands with --on; checks their output and what they refuse."""
    os.environ["KILTER_FLEET"] = url
    agent = Agent(url, "--name", "bench1", "--device-class", "this")
    bench_on()
    run_on()
    check_on()
    profile_on()
    fleet_bench()
    refuses_on()
    expect(agent.end() == 0, "SIGTERM does not end the agent")
    del os.environ["KILTER_FLEET"]


def bench_on():
    short = [*NETWORK, "--seconds", "0.3", *ON]
    said = says(" of 1 run", KILTER, "bench", *short)
    expect(re.search(r"on agent bench1 of the device class this \(.+ CPUs?, .+\); transfers and waiting: \d+\.\d s", said), f"bench says {said}")
    report = json.loads(run(KILTER, "bench", *short, "--repeat", "5", "--json", "-"))
    facts = json.loads(run(KILTER, "fleet", "status", "--json", "-"))["agents"][0]["facts"]
    expect(report["repeat"] == 5 and report["min_ms"] > 0 and "peak_rss_bytes" not in report, f"bench says {report}")
    on = report["on"]
    expect((on["agents"], on["device_class"], on["devices"]) == (["bench1"], "this", [facts["device"]]) and on["overhead_ms"] > 0, f"{on}")
    conditions = report["conditions"]
    expect(all(conditions[key] == facts[key] for key in ("device", "pinning", "huge_pages", "clock")), f"{conditions} {facts}")
    here, there = (json.loads(run(KILTER, "bench", *NETWORK, "--seconds", "0.5", *on, "--json", "-"))["min_ms"] for on in ([], ON))
    expect(0.2 < there / here < 5, f"here {here} ms, on the agent {there} ms")
    for option, why in ((["--flush"], "the caches of another machine are not flushed"), (["--number", "2"], "each run is a measurement there"),
                        (["--min-repeat-ms", "2"], "each run is a measurement there")):
        says(f"kilter: {option[0]} does not apply with --on this: {why}; leave one of the two out", KILTER, "bench", *short, *option, code=2)


def outputs_of(folder):
    return {file.name: file.read_bytes() for file in pathlib.Path(folder).iterdir()}


def run_on():
    """The outputs and the comparison with the reference kernels are the same as without --on."""
    words = ["run", *NETWORK, "--verify"]
    there = run(KILTER, *words, "-o", "there", *ON)
    expect("ran on agent bench1 of the device class this (" in there and "verify: passed" in there, f"run says {there}")
    here = run(KILTER, *words, "-o", "here")
    expect(here in there and outputs_of("here") == outputs_of("there"), f"here:\n{here}\nthere:\n{there}")
    for precision in ("declared", "bf16"):
        told = [json.loads(run(KILTER, *words, "-q", "--precision", precision, "--json", "-", *on)) for on in (ON, [])]
        on = told[0].pop("on")
        expect(on["agents"] == ["bench1"] and told[0] == told[1], f"{precision}: {told}")


def save_model(path, node, *outputs):
    """Writes a model with one node and the input x, f32[2,3]. `outputs`: onnx.ValueInfoProto."""
    import onnx
    from onnx import TensorProto, helper
    graph = helper.make_graph([node], "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3])], outputs)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def save_sequence_model(path):
    from onnx import TensorProto, helper
    save_model(path, helper.make_node("SequenceConstruct", ["x", "x"], ["y"]),
               helper.make_tensor_sequence_value_info("y", TensorProto.FLOAT, [2, 3]))


def save_case(folder, slope):
    """Writes a case of LeakyRelu whose expected output has the slope 0.5."""
    import numpy as np
    from onnx import TensorProto, helper, numpy_helper
    data = folder / "test_data_set_0"
    data.mkdir(parents=True)
    save_model(folder / "model.onnx", helper.make_node("LeakyRelu", ["x"], ["y"], alpha=slope),
               helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 3]))
    x = np.array([[-1, 2, -3], [4, -5, 6]], np.float32)
    for name, value in (("input_0", x), ("output_0", np.where(x < 0, x / 2, x))):
        (data / f"{name}.pb").write_bytes(numpy_helper.from_array(value).SerializeToString())


def check_on():
    cases = pathlib.Path("cases")
    save_case(cases / "right", 0.5)
    save_case(cases / "wrong", 0.25)
    (cases / "program").mkdir()
    save_sequence_model(cases / "program/model.onnx")
    (cases / "program/test_data_set_0").mkdir()
    (cases / "program/test_data_set_0/input_0.pb").write_bytes((cases / "right/test_data_set_0/input_0.pb").read_bytes())
    check = ["check", "cases", "--list-passed"]
    said = run(KILTER, *check, *ON, code=1)
    here = run(KILTER, *check, code=1)
    expect("1 passed, 1 failed, 1 skipped" in said and "passed  right" in said, f"check says {said}")
    wrong = re.search("failed  wrong: .*", here).group()
    expect(wrong in said, f"expected '{wrong}', got {said}")
    expect(re.search(r"skipped program: .* --on runs networks that are one plan; leave --on out to run it here", said), f"check says {said}")
    report = json.loads(run(KILTER, "check", "cases/right", *ON, "--json", "-"))
    expect(report == {"cases": [{"name": "right", "outcome": "passed"}], "passed": 1, "failed": 0, "skipped": 0}, f"check says {report}")
    status = {a["name"]: a for a in json.loads(run(KILTER, "fleet", "status", "--json", "-"))["agents"]}
    run(KILTER, "check", "cases/right", *ON)
    after = {a["name"]: a for a in json.loads(run(KILTER, "fleet", "status", "--json", "-"))["agents"]}
    expect(after["bench1"]["done"] == status["bench1"]["done"] + 2, f"a case is two jobs: {status} {after}")
    says("kilter: agent bench1: it runs only signed jobs, and this one is not signed", KILTER, *check, "--on", "this", code=3)
    says("kilter: no agent of the device class nobody is known; other agents: bench1 (this)", KILTER, *check, "--on", "nobody", code=3)
    other = "cortex-a72" if platform.machine() == "x86_64" else "x86-64-v2"
    says(f"kilter: --target {other}: agent bench1 of the device class this (", KILTER, *check, *ON, "--target", other, code=2)


def profile_on():
    short = ["profile", *NETWORK, "--seconds", "0.3"]
    said = says("agents report neither barriers nor the times of single threads", KILTER, *short, "--sort", "share", *ON)
    expect("on agent bench1 of the device class this (" in said and "of bound" in said and "End to end" not in said, f"profile says {said}")
    report = json.loads(run(KILTER, *short, *ON, "--json", "-"))
    rows = report["rows"]
    expect(abs(sum(row["duration_ms"] for row in rows) - report["total_ms"]) < 1e-3 * report["total_ms"], "the rows do not add up")
    here = json.loads(run(KILTER, *short, "--json", "-"))
    expect([row["name"] for row in rows] == [row["name"] for row in here["rows"]], "the rows are others than here")
    expect(report["on"]["agents"] == ["bench1"] and report["peaks"]["gflops"][0] > 1, f"profile says {report['on']}")
    expect(all(row["bound"]["ms"] > 0 for row in rows if row["kind"] == "kernel"), "a kernel has no bound")
    threads = "agents do not report the times of single threads"
    for option, why in (("--counters", "agents do not read the processor's counters"), ("--trace", threads), ("--html", threads),
                        ("--minutes", "the prediction needs the records of this machine")):
        value = {"--counters": [], "--minutes": ["5"]}.get(option, ["file"])
        says(f"kilter: {option} does not apply with --on this: {why}; leave one of the two out", KILTER, *short, *ON, option, *value, code=2)


def fleet_bench():
    """The table of all classes, also with a network that does not run."""
    bench = ["fleet", "bench", "--sign-key", "team.secret", "--threads", "1", "--seconds", "0.3"]
    pathlib.Path("broken.onnx").write_bytes(b"no model")
    said = says("kilter: 1 of 3 measurements failed", KILTER, *bench, "zoo:squeezenet1_1", "broken.onnx", "zoo:mobilenet_v2", "--all-classes",
                "--json", "bench.json", "--markdown", "bench.md", code=1)
    expect(re.search(r"this \(.+ CPUs?, .+\), 1 thread, target [a-z]", said) and "broken.onnx: " in said, f"fleet bench says {said}")
    first, broken, last = json.loads(pathlib.Path("bench.json").read_text())["results"]
    for result in (first, last):
        expect(0.02 < result["share_of_bound"] < 1.5 and result["bound_ms"] > 0 and result["estimate_ms"] > 0, f"{result}")
        expect(result["device_class"] == "this" and result["on"]["agents"] == ["bench1"], f"{result}")
    expect(broken["error"].startswith("broken.onnx") or "broken.onnx" in broken["error"], f"{broken}")
    table = pathlib.Path("bench.md").read_text().splitlines()
    expect(table[0] == "| network | this: ms | of bound |" and table[1] == "|---|---|---|", f"{table}")
    expect(re.fullmatch(r"\| squeezenet1_1 \| \d+\.\d{3} \| \d+ % \|", table[2]) and table[3] == "| broken.onnx | - | - |", f"{table}")
    expect(table[6].startswith("- this: ") and "; untuned; " in table[8], f"{table}")
    say_where = ("kilter: say where to measure: --on CLASS, which may be given several times, or --all-classes for every class that has an "
                 "agent; `kilter fleet status` lists them")
    says(say_where, KILTER, *bench, code=2)
    says(say_where, KILTER, *bench, "--all-classes", "--on", "this", code=2)
    says("kilter: no agent of the device class nobody is known; other agents: bench1 (this)", KILTER, *bench, "--on", "nobody", code=3)
    says("kilter: --fleet URL is missing; the variable KILTER_FLEET can also give it", KILTER, *bench, "--all-classes",
         env={"KILTER_FLEET": ""}, code=2)
    run(KILTER, "fleet", "bench", "zoo:squeezenet1_1", "--seconds", "0.1", "--on", "this", "--sign-key", "other.secret", "--json",
        "bench.json", code=1)
    done = json.loads(pathlib.Path("bench.json").read_text())["results"][0]
    expect(done["error"].startswith("agent bench1: it does not trust the key of this run"), f"{done}")


def refuses_on():
    """What all commands with --on refuse."""
    bench = ["bench", *NETWORK]
    says("kilter: no agent of the device class cortex-a72 is known; other agents: bench1 (this); start one "
         "(kilter-agent), or name another class", KILTER, *bench, "--on", "cortex-a72", code=3)
    other = "cortex-a72" if platform.machine() == "x86_64" else "x86-64-v2"
    said = says(f"kilter: --target {other}: agent bench1 of the device class this (", KILTER, *bench, *ON, "--target", other, code=2)
    expect(re.search(r"\) cannot run its code; it runs .+; name one of these, or leave --target out for [a-z]", said), f"bench says {said}")
    none = {"KILTER_FLEET": ""}
    says("kilter: --on this: the fleet is missing; give --fleet URL, or set the variable KILTER_FLEET to the URL", KILTER, *bench, "--on",
         "this", env=none, code=2)
    says("kilter: --on '': expected the device class of an agent; `kilter fleet status` lists the agents", KILTER, *bench, "--on", "", code=2)
    says("kilter: --fleet: only --on runs on a fleet; give --on CLASS as well, or leave --fleet out", KILTER, *bench, "--fleet", "x", code=2)
    says("kilter: --sign-key team.secret: only jobs of a fleet are signed; give --on CLASS as well", KILTER, *bench, *ON[2:], code=2)
    says("kilter: --records does not apply with --on this: records are those of this machine; --layer-plan takes a plan from a file; leave "
         "one of the two out", KILTER, *bench, *ON, "--records", "default", code=2)
    says("kilter: agent bench1: it runs only signed jobs, and this one is not signed", KILTER, *bench, "--on", "this", code=3)
    save_sequence_model("sequence.onnx")
    says("kilter: sequence.onnx: 'y' is sequence of f32[2,3], not a tensor of numbers, so the network runs as a program "
         "(doc/control_flow.md), but --on runs networks that are one plan; leave --on out to run it here", KILTER, "run", "sequence.onnx",
         *ON, code=3)
    run(KILTER, "compile", "zoo:squeezenet1_1", "-o", "small.kilter")
    says("kilter: --on this: small.kilter is a compiled file, but --on compiles for the agent's machine; give the original model", KILTER,
         "bench", "small.kilter", *ON, code=2)


def starts_from_a_sister_class(url):
    """Tuning begins with the records of a machine of the same family, measured by another class of agents."""
    agent = Agent(url, "--name", "bench1", "--device-class", "this", "--trust", "team.public")
    won = {}
    for record in json.loads(run(KILTER, "records", "list", "--records", "trials.db", "--status", "ok", "--limit", "100000", "--json", "-")):
        if record["schedule"].startswith("conv2d_direct ") and "versus" in record:
            won[record["problem"]] = record
    for record in won.values():  # as if each had surely won there
        record["versus"].update(ratio=0.5, low=0.49, high=0.51)
        del record["id"]
    text, machines = re.subn(r"\bL3 \w+", "L3 7M", "".join(json.dumps(record) + "\n" for record in won.values()))
    expect(machines > 0, "the device has no third cache that could differ")
    pathlib.Path("sister.jsonl").write_text(text)
    words = ["sister.jsonl" if word == "trials.db" else word for word in TUNE]
    run(KILTER, *words, "--fleet", url, "--device-class", "this", "--sign-key", "team.secret", "--json", "tuned.json")
    earlier = json.loads(pathlib.Path("tuned.json").read_text())["earlier_records"]
    expect(earlier["counted"] == 0 and earlier["advised"] > 0, f"records of a sister class: {earlier}")
    expect(agent.end() == 0, "SIGTERM does not end the agent")


def survives_a_killed_agent(url):
    """The agent is killed during a run; another agent continues after the lease has expired."""
    os.environ["KILTER_FLEET_KEY"] = "team.secret"
    agent = Agent(url, "--name", "bench1", "--device-class", "this", "--lease", "5")
    tuner = subprocess.Popen([KILTER, *TUNE[:4], "--time", "15s", *TUNE[6:], "--fleet", url, "--device-class", "this"], text=True,
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    time.sleep(4)
    agent.end(signal.SIGKILL)
    if tuner.poll() is not None:
        sys.exit(f"fleet_test.py: the run ended before the agent was killed:\n{tuner.communicate()[0]}")
    other = Agent(url, "--name", "bench2", "--device-class", "this", "--lease", "5")
    said = tuner.communicate(timeout=240)[0]
    expect(tuner.returncode == 0, f"the run did not survive:\n{said}")
    says("bench1 is removed", KILTER, "fleet", "remove", "bench1", "--fleet", url)
    says("bench2 will exit after its current job", KILTER, "fleet", "drain", "bench2", "--fleet", url)
    expect(other.process.wait(timeout=60) == 0, "an agent that is drained does not end")
    del os.environ["KILTER_FLEET_KEY"]


def refuses_jobs(url, fingerprints):
    """An agent refuses jobs that are not signed by anyone it trusts after one attempt, and the tuner ends with the
    refusal."""
    pathlib.Path("trusted").mkdir()
    for name in ("team", "board"):
        pathlib.Path(f"trusted/{name}.public").write_bytes(pathlib.Path(f"{name}.public").read_bytes())
    agent = Agent(url, "--name", "careful", "--device-class", "this", "--trust", "trusted")
    tune = [*TUNE, "--fleet", url, "--device-class", "this"]
    hint = f"give --sign-key a key whose public half the agent has in --trust; it trusts 2 keys ({fingerprints['board']}, {fingerprints['team']})"
    says(f"kilter: agent careful: it runs only signed jobs, and this one is not signed: {hint}", KILTER, *tune, code=3)
    says(f"kilter: agent careful: it does not trust the key of this run (fingerprint {fingerprints['other']}): {hint}", KILTER, *tune,
         "--sign-key", "other.secret", code=3)
    status = next(a for a in json.loads(run(KILTER, "fleet", "status", "--json", "-", "--fleet", url))["agents"] if a["name"] == "careful")
    expect((status["done"], status["failed"]) == (2, 0), f"one answer per run is expected: {status}")
    expect(agent.end() == 0, "SIGTERM does not end the agent")
    refused = [line for line in agent.said if " is refused: it " in line]
    expect(len(refused) == 2, f"the agent says {agent.said}")
    agent = Agent(url, "--name", "careless", "--device-class", "this", "--trust-anyone")
    says("measured by agents of the device class this (", KILTER, *tune)
    expect(agent.end() == 0, "SIGTERM does not end the agent")


def refuses_keys(url):
    tune, agent = [*TUNE, "--fleet", url], [AGENT, "--fleet", url]
    secret = "expected a secret key, the file NAME.secret of `kilter sign --new-keys NAME`"
    says(f"kilter: --sign-key: gone.secret: there is no such file; {secret}", KILTER, *tune, "--sign-key", "gone.secret", code=3)
    says(f"kilter: KILTER_FLEET_KEY: gone.secret: there is no such file; {secret}", KILTER, *tune, env={"KILTER_FLEET_KEY": "gone.secret"},
         code=3)
    says(f"kilter: --sign-key: team.public: not a file that starts with 'kilter secret key 1': it is a public key; {secret}", KILTER, *tune,
         "--sign-key", "team.public", code=3)
    says("kilter: --sign-key team.secret: only jobs of a fleet are signed; give --fleet URL as well", KILTER, *TUNE, "--sign-key",
         "team.secret", code=2)
    says("kilter-agent: an agent runs machine code: say whose. --trust FILE: only jobs that the owner of this public key has signed "
         "(`kilter sign --new-keys NAME` makes NAME.public); --trust-anyone: jobs of everybody who may submit to the fleet", *agent, code=2)
    says("kilter-agent: --trust-anyone and --trust exclude each other; leave out one of them", *agent, "--trust", "team.public",
         "--trust-anyone", code=2)
    public = "expected a public key, the file NAME.public of `kilter sign --new-keys NAME`"
    says(f"kilter-agent: gone.public: there is no such file; {public}", *agent, "--trust", "gone.public", code=3)
    says(f"kilter-agent: team.secret: not a file that starts with 'kilter public key 1': it is a secret key; {public}", *agent,
         env={"KILTER_FLEET_TRUST": "team.secret"}, code=3)
    pathlib.Path("empty").mkdir()
    says("kilter-agent: empty: this folder has no *.public files; expected keys made by `kilter sign --new-keys "
         "NAME`", *agent, "--trust",
         "empty", code=2)


def refuses(url):
    says("kilter-agent: --fleet URL is missing; --help lists the options", AGENT, code=2)
    says("kilter-agent: unknown option '--nam'; legal options are --fleet, --token, --ca, --trust, --trust-anyone, --upgrade, "
         "--name, --device-class, --cpus, --worker, --lease, --version and --help", AGENT, "--nam", "x", code=2)
    says("kilter-agent: --lease 1: expected 5 to 3600 seconds", AGENT, "--lease", "1", code=2)
    says("kilter-agent: --cpus 3-1: expected a list of CPUs such as 4-7 or 0,2", AGENT, "--fleet", url, "--cpus", "3-1", code=2)
    says("kilter-agent: --cpus 60000: not all of these can be used; legal values "
         "are ", AGENT, "--fleet", url, "--trust-anyone", "--cpus", "60000", code=2)
    agent = Agent(url, "--name", "pinned", "--device-class", "pinned", "--trust-anyone", "--cpus", f"{min(os.sched_getaffinity(0))}")
    status = json.loads(run(KILTER, "fleet", "status", "--json", "-", "--fleet", url))
    facts = next(a["facts"] for a in status["agents"] if a["name"] == "pinned")
    expect((facts["cpus"], facts["pinning"]) == (1, f"{min(os.sched_getaffinity(0))}"), f"status says {facts}")
    expect(agent.end() == 0, "SIGTERM does not end the agent")
    says("pinned is removed", KILTER, "fleet", "remove", "pinned", "--fleet", url)
    says("kilter-agent: --name needs a value", AGENT, "--name", code=2)
    says("measures schedules for a fleet on this machine", AGENT, "--help")
    says("not a URL of a PostgreSQL server", AGENT, "--trust-anyone", "--fleet", "postgresql://u@h/db?sslmod=x", code=2)
    says("--device-class x: only a fleet has device classes; give --fleet URL as well", KILTER, *TUNE, "--device-class", "x", code=2)


def page(cluster):
    """The commands of the page run unchanged, except for the server's name and the duration."""
    page_text = (SOURCE / "doc/fleet.md").read_text()
    commands = next(b for b in page_text.split("```sh\n")[1:] if b.startswith("kilter records migrate")).split("```")[0]
    commands = re.sub(r"postgresql://(owner@)?db\.example\.com/tuning", f"'{cluster.url('page')}'", commands)
    commands = commands.replace("zoo:resnet18", "zoo:squeezenet1_1 --threads 1 --time 2s")
    commands = commands.replace("kilter tune", "sleep 1; kilter tune") + "wait\n"
    done = subprocess.run(["bash", "-emc", commands], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=300,
                          env={**os.environ, "PATH": f"{KILTER.parent}:{os.environ['PATH']}"})
    expect(done.returncode == 0, f"the commands of the page failed:\n{done.stdout}")
    expect("measured by agents of the device class " in done.stdout, f"nothing was measured by an agent:\n{done.stdout}")


def main():
    with tempfile.TemporaryDirectory() as folder, Cluster() as cluster:
        os.chdir(folder)
        os.environ["XDG_DATA_HOME"] = f"{folder}/share"
        for name in ("fleet", "page"):
            cluster.run("createdb", "-h", cluster.folder, "-U", "postgres", name)
        run(KILTER, "records", "migrate", "--records", cluster.url("fleet"))
        fingerprints = {name: make_keys(name) for name in ("team", "board", "other")}
        refuses(cluster.url("fleet"))
        refuses_keys(cluster.url("fleet"))
        tunes(cluster.url("fleet"))
        starts_from_a_sister_class(cluster.url("fleet"))
        runs_on_agent(cluster.url("fleet"))
        survives_a_killed_agent(cluster.url("fleet"))
        refuses_jobs(cluster.url("fleet"), fingerprints)
        pathlib.Path("page").mkdir()
        os.chdir("page")
        page(cluster)
    print("fleet_test.py: passed")


if __name__ == "__main__":
    main()
