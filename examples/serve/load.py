#!/usr/bin/env python3
"""Measures kilter-serve: responses per second and latencies for several numbers of clients, with and without batching.

usage: load.py [--serve PROGRAM] [--kilter PROGRAM] [--seconds S] [--rounds N] [--clients N,...] [--model FILE]

Each client is a thread with one connection, which sends the next request when the response to the previous one has
arrived. The clients run on the same machine as the server and use a part of its CPUs. The networks are ResNet-18 of the
zoo, a request of one picture (602 kB), and `dense`: four layers of 2048 x 2048 in f32, a request of 2048 values (8 kB);
or --model, whose inputs have one open dimension, the first. Each request has one row, as binary data. The settings take
turns within each round; the figures are those of all rounds together.
"""
import argparse
import json
import pathlib
import re
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

SETTINGS = {"no batching": ["--no-batching"], "batching, no delay": ["--max-delay", "0"], "batching, 2 ms": ["--max-delay", "2ms"]}
TYPES = {"FP32": np.float32, "FP64": np.float64, "INT32": np.int32, "INT64": np.int64, "UINT8": np.uint8}


def resnet18(kilter, folder):
    file = folder / "resnet18.onnx"
    subprocess.run([kilter, "zoo", "resnet18", "-o", file], check=True, capture_output=True)
    model = onnx.load(file)
    for port in (*model.graph.input, *model.graph.output):
        port.type.tensor_type.shape.dim[0].dim_param = "n"
    del model.graph.value_info[:]
    onnx.save(model, file)
    return file


def dense(folder, width=2048, layers=4):
    generator = np.random.default_rng(0)
    weights = [numpy_helper.from_array(generator.normal(0, (2 / width) ** 0.5, (width, width)).astype(np.float32), f"w{i}")
               for i in range(layers)]
    nodes, value = [], "x"
    for i in range(layers):
        nodes.append(helper.make_node("MatMul", [value, f"w{i}"], [f"m{i}"]))
        value = f"y{i}" if i + 1 < layers else "y"
        nodes.append(helper.make_node("Relu", [f"m{i}"], [value]))
    ports = [[helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", width])] for name in ("x", "y")]
    graph = helper.make_graph(nodes, "dense", *ports, weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), folder / "dense.onnx")
    return folder / "dense.onnx"


class Server:
    def __init__(self, program, file, options):
        self.name = file.stem
        self.process = subprocess.Popen([program, str(file), "--port", "0", *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        found = re.search(r":(\d+)/v2", self.process.stdout.readline())
        if not found:
            sys.exit(f"load.py: {program} did not start: {self.process.stderr.read()}")
        self.port = int(found.group(1))

    def get(self, path):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}") as answer:
            return answer.read().decode()

    def request(self):
        """The bytes of a request with random values."""
        inputs, data = [], b""
        for port in json.loads(self.get(f"/v2/models/{self.name}"))["inputs"]:
            shape = [1, *port["shape"][1:]]
            values = np.random.default_rng(0).uniform(0, 2, shape).astype(TYPES[port["datatype"]]).tobytes()
            inputs.append({"name": port["name"], "shape": shape, "datatype": port["datatype"], "parameters": {"binary_data_size": len(values)}})
            data += values
        text = json.dumps({"inputs": inputs, "parameters": {"binary_data_output": True}}).encode()
        head = (f"POST /v2/models/{self.name}/infer HTTP/1.1\r\nHost: localhost\r\nInference-Header-Content-Length: {len(text)}\r\n"
                f"Content-Length: {len(text) + len(data)}\r\n\r\n")
        return head.encode() + text + data

    def mean_rows(self):
        text = self.get("/metrics")
        count, rows = (float(re.search(rf"^kilter_batch_rows_{what}{{.*}} (.*)$", text, re.M).group(1)) for what in ("count", "sum"))
        return count, rows

    def end(self):
        self.process.terminate()
        self.process.communicate(timeout=60)


def ask_until(port, request, begin, end, latencies):
    """Sends requests until `end`; keeps the latencies, in seconds, of those sent after `begin`."""
    with socket.create_connection(("127.0.0.1", port)) as stream:
        stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        buffer = bytearray(1 << 20)
        while (sent := time.monotonic()) < end:
            stream.sendall(request)
            received = stream.recv_into(buffer)
            while (split := buffer.find(b"\r\n\r\n", 0, received)) < 0:
                received += stream.recv_into(memoryview(buffer)[received:])
            if not buffer.startswith(b"HTTP/1.1 200 "):
                raise RuntimeError(bytes(buffer[:received]).decode(errors="replace"))
            left = split + 4 + int(re.search(rb"Content-Length: (\d+)", bytes(buffer[:split])).group(1)) - received
            while left > 0:
                left -= stream.recv_into(buffer, min(left, len(buffer)))
            if sent >= begin:
                latencies.append(time.monotonic() - sent)


def measure(server, clients, seconds):
    """Returns latencies and the number of rows of each run, as runs and rows."""
    request = server.request()
    before = server.mean_rows()
    begin = time.monotonic() + 0.5  # after warming up
    latencies = [[] for _ in range(clients)]
    threads = [threading.Thread(target=ask_until, args=(server.port, request, begin, begin + seconds, own)) for own in latencies]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    after = server.mean_rows()
    return [latency for own in latencies for latency in own], (after[0] - before[0], after[1] - before[1])


def main():
    build = pathlib.Path(__file__).resolve().parents[2] / "build"
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--serve", default=build / "examples/serve/kilter-serve")
    parser.add_argument("--kilter", default=build / "kilter")
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--clients", default="1,8,64")
    parser.add_argument("--model", type=pathlib.Path)
    options, more = parser.parse_known_args()
    with open("/proc/cpuinfo", encoding="utf-8") as info:
        names = [line.split(":")[1].strip() for line in info if line.startswith("model name")]
    with open("/proc/loadavg", encoding="utf-8") as load:
        print(f"{names[0]}, {len(names)} CPUs; load before: {load.read().split()[0]}; {options.rounds} rounds of {options.seconds} s; "
              f"kilter-serve {' '.join(more) or 'with its defaults'}")
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        files = [options.model] if options.model else [resnet18(options.kilter, folder), dense(folder)]
        print("| network | clients | setting | responses per second | median ms | 95 % | 99 % | rows of a run "
              "|\n|---|---|---|---|---|---|---|---|")
        for file in files:
            servers = {setting: Server(options.serve, file, [*words, *more]) for setting, words in SETTINGS.items()}
            for clients in map(int, options.clients.split(",")):
                results = {setting: ([], [0, 0]) for setting in SETTINGS}
                for _ in range(options.rounds):
                    for setting, server in servers.items():
                        latencies, runs = measure(server, clients, options.seconds)
                        results[setting][0].extend(latencies)
                        results[setting][1][0] += runs[0]
                        results[setting][1][1] += runs[1]
                for setting, (latencies, (count, rows)) in results.items():
                    median, most, nearly_all = np.percentile(latencies, (50, 95, 99)) * 1e3
                    print(f"| {file.stem} | {clients} | {setting} | {len(latencies) / options.seconds / options.rounds:.0f} | "
                          f"{median:.1f} | {most:.1f} | {nearly_all:.1f} | {rows / max(1, count):.1f} |", flush=True)
            for server in servers.values():
                server.end()
    with open("/proc/loadavg", encoding="utf-8") as load:
        print(f"load after: {load.read().split()[0]}")


if __name__ == "__main__":
    main()
