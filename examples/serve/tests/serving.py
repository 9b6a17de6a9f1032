"""Shared by the tests of kilter-serve: models, a running server, and requests."""
import contextlib
import http.client
import json
import os
import re
import signal
import socket
import subprocess

import numpy as np
import tritonclient.http as triton

SERVE, KILTER = os.environ["KILTER_SERVE"], os.environ["KILTER"]
TYPES = {"BOOL": "bool", "UINT8": "uint8", "UINT16": "uint16", "UINT32": "uint32", "UINT64": "uint64", "INT8": "int8",
         "INT16": "int16", "INT32": "int32", "INT64": "int64", "FP16": "float16", "FP32": "float", "FP64": "double"}
MODELS = {
    "rows": "rows (float[n, 4] x) => (float[n, 3] y, int64[n, 3] whole)"
            " <float[4, 3] w = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}> { y = MatMul (x, w)  whole = Cast <to = 7> (y) }",
    "pair": "pair (float[n, 2] a, float[m, 2] b) => (float[n, 2] sum) { sum = Add (a, b) }",
    "types": "types (" + ", ".join(f"{t}[n, 2] in_{name}" for name, t in TYPES.items()) + ") => ("
             + ", ".join(f"{t}[n, 2] out_{name}" for name, t in TYPES.items()) + ") {"
             + " ".join(f"out_{name} = Identity (in_{name})" for name in TYPES) + "}",
    "texts": "texts (string[n, 2] s) => (string[n, 2] t) { t = Identity (s) }",
    "mean": "mean (float[n, 3] x) => (float[n, 3] y) { m = ReduceMean <keepdims = 1, axes = [0]> (x)  y = Sub (x, m) }",
    "open": "open (float[n, t] x) => (float[n, t] y) { y = Relu (x) }",
    "scalar": "scalar (float x) => (float y) { y = Neg (x) }",
    "lookup": "lookup (int64[n] i) => (float[n, 2] y) <float[3, 2] w = {0, 1, 10, 11, 20, 21}> { y = Gather <axis = 0> (w, i) }",
    "list": "list (seq(float[n]) x) => (float[n] y) { y = ConcatFromSequence <axis = 0> (x) }",
}
WEIGHTS = np.arange(1, 13, dtype=np.float32).reshape(4, 3)


class Server:
    def __init__(self, *arguments):
        self.process = subprocess.Popen([SERVE, *map(str, arguments), "--port", "0"], stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True)
        line = self.process.stdout.readline()
        found = re.search(r"http://127\.0\.0\.1:(\d+)/v2", line)
        if not found:
            self.process.kill()
            raise AssertionError(f"expected the address, got {line!r} and {self.process.stderr.read()}")
        self.port = int(found.group(1))
        self.address = f"127.0.0.1:{self.port}"

    def client(self, concurrency=1):
        return triton.InferenceServerClient(self.address, concurrency=concurrency, connection_timeout=30, network_timeout=30)

    def ask(self, method, path, body=None, headers=None):
        """Returns the status, headers and body of the response."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        connection.request(method, path, body, headers or {})
        answer = connection.getresponse()
        with contextlib.closing(connection):
            return answer.status, dict(answer.getheaders()), answer.read()

    def infer(self, model, body, headers=None):
        """Returns the status and the response to a request whose body is JSON, or bytes."""
        status, _, answer = self.ask("POST", f"/v2/models/{model}/infer", body if isinstance(body, bytes) else json.dumps(body), headers)
        return status, json.loads(answer)

    def send(self, data, wait=True):
        """Sends bytes and returns everything that comes back until the server closes the connection or is silent for a
        second."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=30) as stream:
            stream.sendall(data)
            if not wait:
                return b"", False
            stream.settimeout(1)
            received = b""
            try:
                while part := stream.recv(65536):
                    received += part
            except TimeoutError:
                return received, False
            except ConnectionResetError:
                pass
            return received, True

    def metric(self, name, model):
        text = self.ask("GET", "/metrics")[2].decode()
        return sum(float(value) for labels, value in re.findall(rf"^{name}{{(.*)}} (.*)$", text, re.M) if f'model="{model}"' in labels)

    def end(self):
        """Ends the server with SIGTERM and returns its messages."""
        self.process.send_signal(signal.SIGTERM)
        _, messages = self.process.communicate(timeout=30)
        assert self.process.returncode == 0, messages
        return messages


@contextlib.contextmanager
def serving(*arguments):
    server = Server(*arguments)
    try:
        yield server
        server.messages = server.end()
    finally:
        server.process.kill()
        server.process.wait()


def value_of(name, array, binary=True):
    data = array if array.dtype != object else np.vectorize(lambda text: text.encode(), otypes=[object])(array)
    value = triton.InferInput(name, list(array.shape), "BYTES" if array.dtype == object else
                              "BF16" if array.dtype.name == "bfloat16" else triton.np_to_triton_dtype(array.dtype))
    value.set_data_from_numpy(data, binary_data=binary)
    return value


def rows_request(rows):
    return {"inputs": [{"name": "x", "shape": list(rows.shape), "datatype": "FP32", "data": rows.tolist()}]}
