#!/usr/bin/env python3
"""Measures the batch-1 speed of GPU peers: torch (cuDNN, inductor) and JAX/XLA. Writes peers.json and facts.json.

usage: peers.py --out DIR [--seconds 560] [--networks NAME ...] [--precisions fp32 tf32 fp16] [--peers NAME ...] [--tuned NAME ...]
                [--no-facts] [--device cpu] [--quick] [--work DIR]

First collects the facts of the machine (facts.py), with nothing else running. Then one process per network and framework
compiles, all in parallel; whatever measures on the GPU to choose kernels takes turns through a lock. Then everything else is
stopped (SIGSTOP) and the peers of one network and precision take turns, --rounds times. Finally inductor's max-autotune
compiles (for the networks of --tuned) and is timed alternately with the captured CUDA graph; this takes minutes per network.
Every figure is written as soon as it is known.
--work keeps inductor's cache between runs. --device cpu --quick runs every path that needs no GPU, in minutes.
"""
import argparse
import datetime
import fcntl
import importlib.metadata
import json
import os
import pathlib
import queue
import signal
import statistics
import subprocess
import sys
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
NETWORKS = ["resnet50", "mobilenet_v2", "centernet_dla34", "bert_base_128", "efficientnet_b0", "vgg16", "resnet18"]
PRECISIONS = ["fp32", "tf32", "fp16"]
FAST = ["eager", "graph", "fused_graph", "inductor_graph", "reduce_overhead", "jax"]
TUNED = ["max_autotune_graph", "max_autotune"]
RELU_NETWORKS = {"resnet18", "resnet50", "vgg16", "centernet_dla34"}
FLUSHED_TOO = {"resnet50", "bert_base_128"}
END_TO_END_TOO = {"resnet50"}
REFERENCE = "graph"  # timed again together with max-autotune


class Worker:
    """A process that compiles peers of one network and then times them."""

    def __init__(self, args, network, program, peers, options):
        self.network, self.peers, self.events, self.idle, self.name = network, peers, queue.Queue(), False, f"{program}:{network}"
        log = open(args.out / f"{program}.log", "a")
        command = [sys.executable, HERE / f"{program}.py", network, args.work, "--lock", args.work / "gpu.lock",
                   "--precisions", *args.precisions, *options]
        self.process = subprocess.Popen(list(map(str, command)), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True,
                                        env=environment(args))
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.process.stdout:
            self.events.put(json.loads(line))
        self.events.put({"event": "ended"})

    def ask(self, **request):
        """Returns the worker's reply to a request, or a failure message if there is none."""
        try:
            self.process.stdin.write(json.dumps(request) + "\n")
            self.process.stdin.flush()
            return self.events.get(timeout=request["deadline"] + 5)
        except (OSError, queue.Empty) as error:
            return {"event": "timing_failed", "message": f"the worker does not reply ({type(error).__name__})"}

    def tree(self):
        """Returns the ids of the process and all its descendants."""
        children = {}
        for entry in pathlib.Path("/proc").glob("[0-9]*/stat"):
            try:
                fields = entry.read_text().rsplit(")", 1)[1].split()
                children.setdefault(int(fields[1]), []).append(int(entry.parent.name))
            except (OSError, IndexError):
                continue
        found = [self.process.pid]
        for pid in found:
            found += children.get(pid, [])
        return found

    def signal(self, number):
        for pid in self.tree() if self.process.poll() is None else []:
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                pass


def environment(args):
    return {**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(args.work / "inductor"), "TRITON_CACHE_DIR": str(args.work / "triton"),
            "TORCHINDUCTOR_COMPILE_THREADS": str(args.compile_threads), "OMP_NUM_THREADS": "2", "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
            "TOKENIZERS_PARALLELISM": "false", "HF_HUB_OFFLINE": "1"}


class Results:
    """peers.json: the conditions, what compiled, what failed, and one row per timing. Written after every change."""

    def __init__(self, args):
        self.path = args.out / "peers.json"
        self.data = {"date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"), "command": " ".join(sys.argv[1:]),
                     "versions": versions(), "device": device_text(), "compiled": [], "failed": [], "timings": [], "clocks": []}

    def add(self, kind, row):
        self.data[kind].append(row)
        part = self.path.with_suffix(".part")
        part.write_text(json.dumps(self.data, indent=1))
        part.replace(self.path)

    def has(self, kind, network, peer, precision):
        return any((row["network"], row["peer"], row["precision"]) == (network, peer, precision) for row in self.data[kind])


def versions():
    names = ["torch", "torchvision", "transformers", "triton", "jax", "jaxlib", "jax-cuda13-plugin", "nvidia-cudnn-cu13", "nvidia-cublas", "numpy"]
    found = {"python": sys.version.split()[0]}
    for name in names:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            pass
    return found


def query(fields):
    """Returns what nvidia-smi reports for these fields, or None without it."""
    try:
        said = subprocess.run(["nvidia-smi", f"--query-gpu={','.join(fields)}", "--format=csv,noheader"], capture_output=True, text=True, timeout=20)
        return dict(zip(fields, said.stdout.strip().split(", "))) if said.returncode == 0 else None
    except (OSError, subprocess.TimeoutExpired):
        return None


def device_text():
    return query(["name", "driver_version", "memory.total", "power.limit", "clocks.max.sm", "clocks.max.memory"])


def clocks():
    return query(["clocks.sm", "clocks.mem", "temperature.gpu", "power.draw", "clocks_event_reasons.active"])


def summary(samples):
    ordered = sorted(samples)
    at = lambda share: ordered[min(len(ordered) - 1, int(share * len(ordered)))]
    return {"median_ms": statistics.median(ordered), "p10_ms": at(0.1), "p90_ms": at(0.9), "least_ms": ordered[0], "samples": len(ordered)}


def kinds_of(args, network, peer):
    """Returns the kinds of timings for a peer. JAX cannot be timed with events."""
    kinds = ["stream", "sync"] if peer == "jax" else ["events", "stream"]
    if args.quick:
        return kinds[:1]
    if network in FLUSHED_TOO and peer != "jax":
        kinds.append("flushed")
    if network in END_TO_END_TOO:
        kinds.append("end_to_end")
    return kinds


def time_network(args, results, network, precision, runners):
    """Runs rounds in which the peers take turns. `runners` maps peers to workers. Adds one row per peer and kind."""
    kinds = {(peer, kind): [] for peer in runners for kind in kinds_of(args, network, peer)}
    more = {}
    for number in range(args.rounds):
        for (peer, kind), rounds in kinds.items():
            if rounds is None or (number > 1 and kind not in ("events", "stream")):
                continue
            answer = runners[peer].ask(network=network, peer=peer, precision=precision, kind=kind, seconds=args.slice, deadline=20)
            if answer["event"] != "timed":
                results.add("failed", {"network": network, "peer": peer, "precision": precision, "kind": kind, "message": answer.get("message")})
                kinds[peer, kind] = None
                continue
            rounds.append(answer["samples"])
            more[peer, kind] = answer["runs_per_sample"]
        if number == 0:
            results.data["clocks"].append({"network": network, "precision": precision, "after_round": number, "said": clocks()})
    for (peer, kind), rounds in kinds.items():
        if rounds:
            row = {"network": network, "precision": precision, "peer": peer, "kind": kind, **summary(sum(rounds, []))}
            results.add("timings", {**row, "runs_per_sample": more[peer, kind], "round_medians_ms": [statistics.median(r) for r in rounds]})
            if kind in ("events", "stream"):
                print(f"{args.elapsed():5.0f} s  {network:16s} {precision} {peer:18s} {kind:7s} {row['median_ms']:8.4f} ms", flush=True)


def note(results, worker, event):
    """Records what a preparing worker reports."""
    if event["event"] in ("ready", "failed"):
        row = {key: value for key, value in event.items() if key != "event"}
        results.add("compiled" if event["event"] == "ready" else "failed", row)
        print(f"        {event['event']} {event['network']} {event['precision']} {event['peer']} "
              f"{event.get('compile_s', 0):.1f} s {event.get('message', '')[:150]}", flush=True)
    elif event["event"] in ("idle", "ended"):
        worker.idle = True
        if event["event"] == "ended":
            worker.process.poll()
            results.add("failed", {"network": worker.network, "peer": worker.name, "precision": "all", "message": "the worker ended"})
            worker.network = None  # it times nothing more


def drain(results, workers):
    for worker in workers:
        while not worker.idle and not worker.events.empty():
            note(results, worker, worker.events.get())


def wait_idle(args, results, workers, until):
    """Records what workers report until all are idle or the time is up."""
    while args.elapsed() < until and not all(worker.idle for worker in workers):
        drain(results, workers)
        time.sleep(0.05)


class Quiet:
    """A scope in which all workers except the idle ones are stopped, none of them inside a section that holds the GPU's lock."""

    def __init__(self, args, workers):
        self.file, self.workers = open(args.work / "gpu.lock", "a"), workers

    def __enter__(self):
        fcntl.flock(self.file, fcntl.LOCK_EX)
        self.stopped = [worker for worker in self.workers if not worker.idle]
        for worker in self.stopped:
            worker.signal(signal.SIGSTOP)

    def __exit__(self, *_):
        for worker in self.stopped:
            worker.signal(signal.SIGCONT)
        fcntl.flock(self.file, fcntl.LOCK_UN)


def time_ready(args, results, workers, until):
    """Times every peer that is ready and not timed yet, together with the reference if others were timed before."""
    for network in args.networks:
        for precision in args.precisions:
            idle = [w for w in workers if w.idle and w.network == network]
            runners = {peer: w for w in idle for peer in w.peers if results.has("compiled", network, peer, precision)}
            fresh = {peer: w for peer, w in runners.items() if not results.has("timings", network, peer, precision)}
            if fresh and args.elapsed() < until:
                keep = {**({REFERENCE: runners[REFERENCE]} if REFERENCE in runners else {}), **fresh}
                time_network(args, results, network, precision, keep)


def start_fast(args):
    """Starts the workers of the peers that compile quickly."""
    started = []
    for network in args.networks:
        peers = [p for p in args.peers if p in FAST and p != "jax" and (p != "fused_graph" or network in RELU_NETWORKS)]
        started.append(Worker(args, network, "torch_peers", peers,
                              ["--export", "--deadline", args.deadline, "--peers", *peers, "--device", args.device]))
        if "jax" in args.peers:
            started.append(Worker(args, network, "jax_peer", ["jax"], ["--deadline", args.deadline]))
    return started


def start_tuned(args):
    """Starts the workers of max-autotune."""
    peers = [p for p in args.peers if p in TUNED]
    return [Worker(args, network, "torch_peers", peers, ["--deadline", args.tuned_deadline, "--peers", *peers, "--device", args.device])
            for network in (args.tuned if peers else [])]


def time_quietly(args, results, workers):
    drain(results, workers)
    with Quiet(args, workers):
        print(f"{args.elapsed():5.0f} s  timing; still compiling: {[w.name for w in workers if not w.idle]}", flush=True)
        time_ready(args, results, workers, args.seconds - 5)


def measure(args, results):
    workers = start_fast(args)
    try:
        wait_idle(args, results, workers, args.fast_until)
        time_quietly(args, results, workers)
        workers += start_tuned(args)
        wait_idle(args, results, workers, args.seconds - args.last_timing)
        time_quietly(args, results, workers)
    finally:
        for worker in workers:
            worker.signal(signal.SIGKILL)


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--work", type=pathlib.Path, default=pathlib.Path("/tmp/kilter-gpu-peers"))
    parser.add_argument("--seconds", type=float, default=560, help="time limit of the whole run")
    parser.add_argument("--fast-until", type=float, default=300, help="time, in seconds, at which timing starts, ready or not")
    parser.add_argument("--last-timing", type=float, default=50, help="seconds reserved at the end for the peers that tune")
    parser.add_argument("--deadline", type=float, default=150, help="time limit of one compilation, in seconds")
    parser.add_argument("--tuned-deadline", type=float, default=260, help="time limit of one tuning compilation, in seconds")
    parser.add_argument("--networks", nargs="+", default=NETWORKS, choices=NETWORKS)
    parser.add_argument("--precisions", nargs="+", default=PRECISIONS, choices=PRECISIONS)
    parser.add_argument("--peers", nargs="+", default=FAST + TUNED, choices=FAST + TUNED)
    parser.add_argument("--tuned", nargs="*", default=NETWORKS[:2])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--slice", type=float, default=0.1, help="length of a peer's turn, in seconds")
    parser.add_argument("--compile-threads", type=int, default=4)
    parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--no-facts", action="store_true")
    args = parser.parse_args()
    start = time.monotonic()
    args.elapsed = lambda: time.monotonic() - start
    args.out.mkdir(parents=True, exist_ok=True)
    args.work.mkdir(parents=True, exist_ok=True)
    for old in args.work.glob("*.graph"):
        old.unlink()
    return args


def main():
    args = parse()
    if not args.no_facts and args.device == "cuda":
        facts = [sys.executable, HERE / "facts.py", "--out", args.out / "facts.json", "--work", args.work]
        try:
            subprocess.run(list(map(str, facts)), timeout=75)
        except subprocess.TimeoutExpired:
            print("collecting the facts took too long", flush=True)
        print(f"{args.elapsed():5.0f} s  facts collected", flush=True)
    results = Results(args)
    results.data["clocks"].append({"idle": clocks()})
    measure(args, results)
    results.add("clocks", {"at_the_end": clocks()})
    print(f"{args.elapsed():5.0f} s  done: {len(results.data['timings'])} timings, {len(results.data['failed'])} failures", flush=True)


if __name__ == "__main__":
    main()
