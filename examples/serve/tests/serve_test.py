"""Tests kilter-serve: the protocol with tritonclient, many clients at once, its start and its end.

KILTER_SERVE and KILTER name the programs to test. Run by ctest (example.serve).
"""
import concurrent.futures
import http.client
import json
import re
import signal
import socket
import subprocess
import threading
import time

import numpy as np
import onnxruntime
import pytest
import tritonclient.http as triton
from tritonclient.utils import InferenceServerException

from serving import KILTER, SERVE, TYPES, WEIGHTS, rows_request, serving, value_of


def test_health_and_metadata(server):
    client = server.client()
    assert client.is_server_live() and client.is_server_ready()
    assert client.get_server_metadata() == {"name": "kilter-serve", "version": "0.1.0", "extensions": ["binary_tensor_data"]}
    assert client.is_model_ready("rows") and client.is_model_ready("rows", "1") and not client.is_model_ready("nothing")
    metadata = client.get_model_metadata("rows", "1")
    assert metadata == {"name": "rows", "versions": ["1"], "platform": "onnx_kilter",
                        "inputs": [{"name": "x", "datatype": "FP32", "shape": [-1, 4]}],
                        "outputs": [{"name": "y", "datatype": "FP32", "shape": [-1, 3]},
                                    {"name": "whole", "datatype": "INT64", "shape": [-1, 3]}]}
    status, header, _ = server.ask("HEAD", "/v2/health/live")
    assert status == 200 and header["Content-Type"] == "application/json"


@pytest.mark.parametrize("binary", [False, True])
def test_types(server, binary):
    """Every datatype arrives and returns as it was sent. FP16 cannot be written as JSON."""
    generator = np.random.default_rng(0)
    sent = {}
    for name in TYPES:
        numpy_type = triton.triton_to_np_dtype(name)
        if name == "BOOL":
            sent[name] = np.array([[True, False], [False, False]])
        elif name.startswith("FP"):
            sent[name] = generator.normal(size=(2, 2)).astype(numpy_type)
        else:
            limits = np.iinfo(numpy_type)
            sent[name] = np.array([[limits.min, limits.max], [0, 1]], numpy_type)
    inputs = [value_of(f"in_{name}", array, binary or name == "FP16") for name, array in sent.items()]
    outputs = [triton.InferRequestedOutput(f"out_{name}", binary_data=binary or name == "FP16") for name in TYPES]
    answer = server.client().infer("types", inputs, outputs=outputs, request_id="types 1")
    assert answer.get_response()["id"] == "types 1" and answer.get_response()["model_version"] == "1"
    for name, array in sent.items():
        received = answer.as_numpy(f"out_{name}")
        assert received.dtype == array.dtype and np.array_equal(received, array), name


@pytest.mark.parametrize("binary", [False, True])
def test_texts(server, binary):
    sent = np.array([["", "a"], ["gr\u00fc\u00df", "\"\\\n" + "x" * 300]], object)
    answer = server.client().infer("texts", [value_of("s", sent, binary)], outputs=[triton.InferRequestedOutput("t", binary_data=binary)])
    received = answer.as_numpy("t")
    assert [[text if isinstance(text, str) else text.decode() for text in row] for row in received] == sent.tolist()


def test_outputs_that_are_asked_for(server):
    rows = np.array([[1, 2, 3, 4]], np.float32)
    client = server.client()
    answer = client.infer("rows", [value_of("x", rows)], outputs=[triton.InferRequestedOutput("whole", binary_data=False)])
    assert [output["name"] for output in answer.get_response()["outputs"]] == ["whole"]
    assert answer.as_numpy("whole").tolist() == (rows @ WEIGHTS).tolist()
    answer = client.infer("rows", [value_of("x", rows)])  # all, in binary form
    assert answer.as_numpy("y").tolist() == (rows @ WEIGHTS).tolist() and answer.as_numpy("whole").dtype == np.int64
    status, answer = server.infer("rows", rows_request(rows))  # all, in JSON
    assert status == 200 and [output["data"] for output in answer["outputs"]] == [[70, 80, 90], [70, 80, 90]]
    flat = rows_request(rows)
    flat["inputs"][0]["data"] = [1, 2, 3, 4]
    assert server.infer("rows", flat) == (status, answer)
    assert server.infer("rows/versions/1", rows_request(rows)) == (status, answer)


def test_compression(server):
    rows = np.array([[1, 2, 3, 4]], np.float32)
    answer = server.client().infer("rows", [value_of("x", rows)], request_compression_algorithm="gzip")
    assert answer.as_numpy("y").tolist() == (rows @ WEIGHTS).tolist()


def test_values(server, files):
    """A network gives the values of ONNX Runtime, and those of kilter run."""
    picture = np.random.default_rng(1).normal(size=(1, 3, 64, 64)).astype(np.float32)
    received = server.client().infer("picture", [value_of("input", picture)]).as_numpy("output")
    expected = onnxruntime.InferenceSession(files["picture.onnx"]).run(None, {"input": picture})[0]
    assert np.abs(received - expected).max() <= 1e-4 * np.abs(expected).max()
    folder = files["picture.onnx"].parent
    np.save(folder / "picture.npy", picture)
    subprocess.run([KILTER, "run", files["picture.onnx"], "--input", f"input={folder}/picture.npy", "--output", folder / "out"], check=True,
                   capture_output=True)
    assert np.abs(received - np.load(folder / "out" / "output.npy")).max() <= 1e-5 * np.abs(expected).max()


def test_models_whose_requests_are_not_joined(server):
    """Rows that depend on each other, other open dimensions, and scalars keep their meaning."""
    client = server.client()
    rows = np.arange(12, dtype=np.float32).reshape(4, 3)
    assert np.allclose(client.infer("mean", [value_of("x", rows)]).as_numpy("y"), rows - rows.mean(0), atol=1e-6)
    for shape in ((2, 5), (1, 7), (0, 3)):
        array = np.full(shape, -1, np.float32)
        assert client.infer("open", [value_of("x", array)]).as_numpy("y").tolist() == np.zeros(shape).tolist()
    assert client.infer("scalar", [value_of("x", np.array(3, np.float32))]).as_numpy("y") == -3


def test_compiled_file(server):
    for count in (1, 2, 3, 4):  # plans for 1 and 4
        rows = np.random.default_rng(count).normal(size=(count, 4)).astype(np.float32)
        assert np.allclose(server.client().infer("compiled", [value_of("x", rows)]).as_numpy("y"), rows @ WEIGHTS, atol=1e-4)
    with pytest.raises(InferenceServerException, match="5 rows in dimension 0; expected 1 to 4"):
        server.client().infer("compiled", [value_of("x", np.zeros((5, 4), np.float32))])


def ask_many(server, clients, requests):
    """Each client sends different rows, 1 to 3 in a request, and checks its own responses. Returns the number of
    rows."""
    start = threading.Barrier(clients)

    def one(number):
        generator = np.random.default_rng(number)
        client, rows_sent = server.client(), 0
        start.wait()
        for _ in range(requests):
            rows = generator.normal(size=(generator.integers(1, 4), 4)).astype(np.float32)
            received = client.infer("rows", [value_of("x", rows, bool(generator.integers(2)))]).as_numpy("y")
            assert received.shape == (len(rows), 3) and np.allclose(received, rows @ WEIGHTS, atol=1e-4)
            rows_sent += len(rows)
        return rows_sent

    with concurrent.futures.ThreadPoolExecutor(clients) as pool:
        return sum(pool.map(one, range(clients)))


@pytest.mark.parametrize("options", [[], ["--max-delay", "0"], ["--no-batching"], ["--instances", "2"], ["--max-batch", "16", "--instances", "3"]])
def test_64_clients(files, options):
    clients, requests = 64, 15
    with serving(files["rows.onnx"], *options) as running:
        rows = ask_many(running, clients, requests)
        count = running.metric("kilter_batch_rows_count", "rows")
        assert running.metric("kilter_batch_rows_sum", "rows") == rows
        assert running.metric("kilter_requests_total", "rows") == clients * requests
        assert count == clients * requests if options == ["--no-batching"] else count < clients * requests


def test_one_bad_request_of_a_batch(files):
    """An index out of range fails its own request only, although it runs with others."""
    with serving(files["lookup.onnx"], "--max-delay", "200ms", "--max-batch", "4") as running:
        def ask(index):
            try:
                return running.client().infer("lookup", [value_of("i", np.array([index]))]).as_numpy("y").tolist()
            except InferenceServerException as error:
                return str(error)
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            answers = list(pool.map(ask, (0, 2, 7, 1)))
    assert answers[0] == [[0, 1]] and answers[1] == [[20, 21]] and answers[3] == [[10, 11]]
    assert isinstance(answers[2], str) and "model 'lookup'" in answers[2], answers[2]


def test_full_queue(files):
    with serving(files["rows.onnx"], "--max-queue", "1", "--max-delay", "2s") as running:
        request = rows_request(np.ones((1, 4), np.float32))
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            answers = list(pool.map(lambda _: running.infer("rows", request), range(4)))
        assert sorted(status for status, _ in answers) == [200, 503, 503, 503]
        error = next(answer["error"] for status, answer in answers if status == 503)
        assert error == "model 'rows': 1 requests are waiting, the most that this server queues; try again later"
        assert running.infer("rows", request)[0] == 200


@pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGINT])
def test_stop_finishes_requests(files, ending):
    """Requests that wait when the signal comes are answered; later ones are not."""
    with serving(files["rows.onnx"], "--max-delay", "2s") as running:
        rows = np.ones((1, 4), np.float32)
        with concurrent.futures.ThreadPoolExecutor(3) as pool:
            waiting = [pool.submit(lambda: running.client().infer("rows", [value_of("x", rows)]).as_numpy("y")) for _ in range(3)]
            while running.metric("kilter_queue_requests", "rows") < 3:
                time.sleep(0.05)
            running.process.send_signal(ending)
            for answer in waiting:
                assert answer.result().tolist() == (rows @ WEIGHTS).tolist()
        _, messages = running.process.communicate(timeout=30)
        assert running.process.returncode == 0 and "stopping, once the requests in progress are answered" in messages
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", running.port), timeout=5)
        running.end = lambda: messages


def test_stop_under_load(files):
    """Each response is right or says that the server is stopping; none is cut off."""
    body = json.dumps({"inputs": [{"name": "input", "shape": [1, 3, 64, 64], "datatype": "FP32", "data": [0.5] * 3 * 64 * 64}]})
    with serving(files["picture.onnx"], "--threads", "1") as running:
        expected = running.ask("POST", "/v2/models/picture/infer", body)
        assert expected[0] == 200
        ends = []

        def ask():
            connection = http.client.HTTPConnection("127.0.0.1", running.port, timeout=30)
            while True:
                try:
                    connection.request("POST", "/v2/models/picture/infer", body)
                    answer = connection.getresponse()
                except ConnectionError:  # a closed connection, before a response begins
                    return ends.append("refused")
                text = answer.read()
                if answer.status != 200 or text != expected[2]:
                    return ends.append(json.loads(text).get("error"))

        threads = [threading.Thread(target=ask) for _ in range(16)]
        for thread in threads:
            thread.start()
        time.sleep(0.7)
        running.process.send_signal(signal.SIGTERM)
        for thread in threads:
            thread.join(30)
        assert len(ends) == 16 and set(ends) <= {"the server is stopping", "refused"}, ends
        _, messages = running.process.communicate(timeout=30)
        assert running.process.returncode == 0
        running.end = lambda: messages


def test_start(files):
    """What the server says when it starts."""
    notes = {"mean.onnx": "requests are not joined: output 'y' of a row depends on the other rows",
             "open.onnx": "requests are not joined: input 'x' of shape [-1,-1] has other open dimensions than the first",
             "scalar.onnx": "requests are not joined: input 'x' has no dimensions",
             "picture.onnx": "requests are not joined: dimension 0 of input 'input' is always 1",
             "rows.onnx": "1 instance, batches of 1-16, 18, 20, 22; loaded in", "rows.kilter": "batches of 1, 4; loaded in"}
    for name, note in notes.items():
        with serving(files[name], "--max-batch", "22" if name == "rows.onnx" else "8") as running:
            pass
        assert note in running.messages, running.messages
        if name == "rows.kilter":
            assert re.search(r"a run of 4 rows takes \d+\.\d times as long as a run of 1\n", running.messages), running.messages


@pytest.mark.parametrize("arguments, code, error", [
    ([], 2, "no MODEL; kilter-serve --help shows how to give one"),
    (["nothing.onnx"], 1, "nothing.onnx"),
    (["zoo:resnet17"], 1, "resnet18"),
    (["a=list.onnx"], 1, "list.onnx: input 'x' is a sequence; the protocol has tensors only"),
    (["rows.onnx", "rows.onnx"], 2, "two models are named 'rows'"),
    (["=rows.onnx"], 2, "expected FILE or NAME=FILE"),
    (["rows.onnx", "--port", "65536"], 2, "--port '65536': expected a whole number from 0 to 65535"),
    (["rows.onnx", "--port"], 2, "--port '': expected a whole number"),
    (["rows.onnx", "--max-delay", "2h"], 2, "--max-delay '2h': expected a time such as 2ms"),
    (["rows.onnx", "--max-request=1TB"], 2, "--max-request '1TB': expected a size such as 64MB"),
    (["rows.onnx", "--batch", "3"], 2, "unknown option '--batch'"),
    (["rows.onnx", "--host", "192.0.2.1", "--port", "0"], 1, "cannot listen on 192.0.2.1, port 0"),
])
def test_usage(files, arguments, code, error):
    done = subprocess.run([SERVE, *arguments], cwd=files["rows.onnx"].parent, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == code and error in done.stderr, done.stderr


def test_help_and_ports(files):
    done = subprocess.run([SERVE, "--help"], capture_output=True, text=True, check=True)
    assert "--max-batch N" in done.stdout and max(map(len, done.stdout.splitlines())) <= 80
    assert subprocess.run([SERVE, "--version"], capture_output=True, text=True, check=True).stdout == "kilter-serve 0.1.0\n"
    with serving(files["rows.onnx"]) as running:
        done = subprocess.run([SERVE, files["rows.onnx"], "--port", str(running.port)], capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 1 and f"cannot listen on 127.0.0.1, port {running.port}: is it in use" in done.stderr
