"""Malformed requests to kilter-serve: each is refused with a text that says what is wrong, and the server keeps
running."""
import contextlib
import gzip
import json
import socket
import struct
import time

import numpy as np
import pytest

from serving import TYPES, rows_request, serving


def changed(**fields):
    """A request for rows in which fields of the input, or with a leading underscore of the request, have other values."""
    request = rows_request(np.ones((1, 4), np.float32))
    for name, value in fields.items():
        place = request if name.startswith("_") else request["inputs"][0]
        if value is None:
            del place[name.lstrip("_")]
        else:
            place[name.lstrip("_")] = value
    return request


MALFORMED = [
    (b"", "the request is not JSON"),
    (b"{\"inputs\": [", "the request is not JSON"),
    (b"\xff\xfe", "the request is not JSON"),
    (b"[1]", "the request is array; expected an object"),
    (b"[" * 100000, "more than 40 levels of arrays and objects"),
    (b'{"inputs":[{"name":"x","data":' + b"[" * 100000, "more than 40 levels of arrays and objects"),
    (b'{"a":[' + b"1," * 50000 + b"1]}", "more than 20000 values outside \"data\""),
    (changed(_inputs=None), "input 'x': missing; the model has the inputs 'x'"),
    (changed(_inputs=[]), "input 'x': missing"),
    (changed(_inputs=[1]), '"inputs" has number; expected objects'),
    (changed(_inputs={"x": 1}), '"inputs" is object; expected an array'),
    (changed(_id=7), 'the request: "id" is number; expected a string'),
    (changed(_parameters=[]), '"parameters" is array; expected an object'),
    (changed(_parameters={"sequence_id": 3}), 'parameter "sequence_id" is not supported'),
    (changed(_parameters={"binary_data_output": 1}), 'parameter "binary_data_output" is number; expected a boolean'),
    (changed(_outputs=[{"name": "z"}]), "output 'z': the model has no such output; expected 'y', 'whole'"),
    (changed(_outputs=[{"name": "y"}, {"name": "y"}]), "output 'y': given twice"),
    (changed(_outputs=[{"name": "y", "parameters": {"classification": 2}}]), 'parameter "classification" is not supported'),
    (changed(name=None), 'an input of the request: no "name"'),
    (changed(name="z\n'"), r"input 'z\x0a\x27': the model has no such input; expected 'x'"),
    (changed(_inputs=changed()["inputs"] * 2), "input 'x': given twice"),
    (changed(datatype=None), "input 'x': no \"datatype\""),
    (changed(datatype="INT32"), "input 'x': datatype 'INT32'; expected 'FP32'"),
    (changed(datatype="FLOAT"), "input 'x': datatype 'FLOAT'; expected 'FP32'"),
    (changed(shape=None), "input 'x': no \"shape\""),
    (changed(shape=4), '"shape" is number; expected an array of integers'),
    (changed(shape=[1, -4]), "\"shape\" is '[1,-4]'; expected sizes of 0 or more"),
    (changed(shape=[1.0, 4]), "expected sizes of 0 or more"),
    (changed(shape=[2**63, 4]), "expected sizes of 0 or more"),
    (changed(shape=[1, 5]), "input 'x': shape [1,5]; expected [-1,4], where -1 is any size"),
    (changed(shape=[4]), "input 'x': shape [4]; expected [-1,4]"),
    (changed(shape=[2, 4]), "\"data\" has 4 values; expected 8 for shape [2,4]"),
    (changed(shape=[2**47, 4]), "\"data\" has 4 values; expected more than memory holds for shape [140737488355328,4]"),
    (changed(shape=[0, 4], data=[]), "input 'x': 0 rows in dimension 0; expected 1 to 8, the largest batch of this server"),
    (changed(shape=[9, 4], data=[0] * 36), "input 'x': 9 rows in dimension 0; expected 1 to 8"),
    (changed(data=None), "input 'x': neither \"data\" nor parameter \"binary_data_size\"; expected one of them"),
    (changed(parameters={"binary_data_size": 16}), "input 'x': both \"data\" and parameter \"binary_data_size\""),
    (changed(data=3), "\"data\" is a single value; expected an array"),
    (changed(data={"a": 1}), "an object in \"data\"; expected numbers, booleans or strings"),
    (changed(data=[1, 2, 3, [None]]), "null in \"data\""),
    (changed(data=["1", "2", "3", "4"]), "\"data\" has strings; expected datatype FP32"),
    (changed(data=[1, True, 3, 4]), "input 'x': value 1 is a boolean; expected one of datatype FP32"),
    (changed(data=[1, 2, 1e300, 4]), "input 'x': value 2 is out of range; expected one of datatype FP32"),
    (changed(data=None, parameters={"binary_data_size": 16}), "\"binary_data_size\" is 16, but only 0 bytes of binary data are left"),
    (changed(data=None, parameters={"binary_data_size": -1}), "\"binary_data_size\" is '-1'; expected a number of bytes"),
    (changed(data=None, parameters={"shared_memory_region": "r"}), "\"shared_memory_region\" is not supported"),
]


@pytest.mark.parametrize("body, error", MALFORMED, ids=range(len(MALFORMED)))
def test_malformed(server, body, error):
    status, answer = server.infer("rows", body)
    assert status == 400 and error in answer["error"], answer
    assert server.infer("rows", changed())[0] == 200


def test_malformed_values_of_other_types(server):
    def one(model, name, datatype, data):
        return server.infer(model, {"inputs": [{"name": name, "shape": [1, 2], "datatype": datatype, "data": data}]})
    status, answer = one("texts", "s", "BYTES", ["a", 1])
    assert status == 400 and "\"data\" has values other than strings" in answer["error"] or "expected 2" in answer["error"]
    inputs = [{"name": f"in_{name}", "shape": [1, 2], "datatype": name, "data": [0, 1]} for name in TYPES]
    for name, data, error in (("UINT8", [0, 256], "input 'in_UINT8': value 1 is an integer out of range; expected one of datatype UINT8"),
                              ("INT8", [-129, 0], "value 0 is an integer out of range"),
                              ("UINT64", [-1, 0], "value 0 is an integer out of range"),
                              ("INT64", [2**63, 0], "value 0 is an integer out of range"),
                              ("INT32", [1.5, 0], "value 0 is a number with a fraction or exponent"),
                              ("BOOL", [2, 0], "value 0 is an integer out of range"),
                              ("FP16", [0, 1], "input 'in_FP16': datatype FP16 cannot be written as JSON; send it as binary data")):
        changed_inputs = [{**entry, "data": data} if entry["datatype"] == name else entry for entry in inputs if entry["datatype"] in (name, "BOOL")]
        changed_inputs.sort(key=lambda entry: entry["datatype"] != name)
        status, answer = server.infer("types", {"inputs": changed_inputs})
        assert status == 400 and error in answer["error"], answer
    status, answer = server.infer("pair", {"inputs": [{"name": name, "shape": [rows, 2], "datatype": "FP32", "data": [0] * 2 * rows}
                                                      for name, rows in (("a", 2), ("b", 3))]})
    assert status == 400 and "input 'b': 3 rows in dimension 0; expected 2, as input 'a' has" in answer["error"]


def test_malformed_binary_data(server):
    def ask(size, data, model="rows", name="x", datatype="FP32", shape=(1, 4), length=None):
        text = json.dumps({"inputs": [{"name": name, "shape": shape, "datatype": datatype, "parameters": {"binary_data_size": size}}]}).encode()
        return server.infer(model, text + data, {"Inference-Header-Content-Length": str(len(text)) if length is None else length})
    assert ask(16, bytes(16))[0] == 200
    texts = struct.pack("<I", 1) + b"a"
    for arguments, error in (
            ((12, bytes(12)), "input 'x': its binary data has 12 bytes; expected 16 for shape [1,4] of FP32"),
            ((16, bytes(15)), "\"binary_data_size\" is 16, but only 15 bytes of binary data are left"),
            ((16, bytes(17)), "1 bytes of binary data belong to no input"),
            ((2**64, bytes(16)), "\"binary_data_size\" is '1.8"),
            ((16, bytes(16), "rows", "x", "FP32", (2**47, 4)), "has more elements than memory holds"),
            ((5, texts, "texts", "s", "BYTES", (1, 2)), "its binary data has 1 elements; expected 2"),
            ((15, texts * 3, "texts", "s", "BYTES", (1, 2)), "its binary data has more elements; expected 2"),
            ((6, struct.pack("<I", 9) + b"ab", "texts", "s", "BYTES", (1, 2)), "its binary data ends inside element 0"),
            ((3, b"abc", "texts", "s", "BYTES", (1, 2)), "its binary data ends inside element 0"),
            ((4, struct.pack("<I", 2**32 - 1), "texts", "s", "BYTES", (1, 2)), "its binary data ends inside element 0")):
        status, answer = ask(*arguments)
        assert status == 400 and error in answer["error"], answer
    for length in ("-1", "x", "9999999", "1e3"):
        status, answer = ask(16, bytes(16), length=length)
        assert status == 400 and "Inference-Header-Content-Length" in answer["error"], answer
    assert ask(16, bytes(16), length="5")[1]["error"].startswith("the request is not JSON")
    assert ask(16, bytes(16))[0] == 200


def test_answers_without_a_form_in_json(server):
    status, answer = server.infer("open", {"inputs": [{"name": "x", "shape": [1, 1], "datatype": "FP32", "parameters": {"binary_data_size": 4}}]})
    assert status == 400
    text = json.dumps({"inputs": [{"name": "x", "shape": [1, 1], "datatype": "FP32", "parameters": {"binary_data_size": 4}}]}).encode()
    header = {"Inference-Header-Content-Length": str(len(text))}
    status, answer = server.infer("open", text + struct.pack("<f", np.inf), header)
    assert status == 400 and "output 'y': a value that is not finite cannot be written as JSON" in answer["error"]
    text = json.dumps({"inputs": [{"name": "s", "shape": [1, 2], "datatype": "BYTES", "parameters": {"binary_data_size": 10}}]}).encode()
    header = {"Inference-Header-Content-Length": str(len(text))}
    status, answer = server.infer("texts", text + (struct.pack("<I", 1) + b"\xff") * 2, header)
    assert status == 400 and "a string that is not UTF-8 cannot be written as JSON" in answer["error"]


def test_paths(server):
    for method, path, status, error in (
            ("GET", "/", 404, "no path '/'"), ("GET", "/v3", 404, "no path '/v3'"),
            ("GET", "/v2/models/none", 404, "no model 'none'; this server has 'compiled', 'lookup'"),
            ("GET", "/v2/models/rows/versions/2", 404, "model 'rows': no version '2'; it has 1"),
            ("GET", "/v2/models/rows/config", 404, "no path"), ("GET", "/v2/models/rows/infer", 405, "expected POST"),
            ("POST", "/v2/models/rows", 404, "expected /v2/models/NAME/infer"), ("POST", "/v2/models/%00/infer", 404, r"no model '\x00'"),
            ("POST", "/v2/models/none/infer", 404, "no model 'none'"), ("POST", "/v2/models/rows/versions/2/infer", 404, "no version '2'"),
            ("POST", "/v2/models/rows/infer/more", 404, "no path"), ("DELETE", "/v2/models/rows", 405, "method 'DELETE'"),
            ("GET", "/" + "a" * 2000, 414, "the path has more than 1024 bytes")):
        got, header, body = server.ask(method, path, "{}" if method == "POST" else None)
        assert got == status and error in json.loads(body)["error"], (path, got, body)
        assert header["Content-Type"] == "application/json"


HEAD = b"POST /v2/models/rows/infer HTTP/1.1\r\nHost: h\r\n"
SMUGGLED = b"GET /v2/models/mean HTTP/1.1\r\nHost: h\r\n\r\n"


@pytest.mark.parametrize("data, status, error", [
    (HEAD + b"Content-Length: 99999999999999\r\n\r\n" + SMUGGLED, 413, "expected at most 1000000"),
    (HEAD + b"Content-Length: 18446744073709551616\r\n\r\n" + SMUGGLED, 400, "single numeric Content-Length"),
    (HEAD + b"Content-Length: -1\r\n\r\n" + SMUGGLED, 400, "single numeric Content-Length"),
    (HEAD + b"Content-Length: +2\r\n\r\n" + SMUGGLED, 400, "single numeric Content-Length"),
    (HEAD + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n" + SMUGGLED, 400, "single numeric Content-Length"),
    (HEAD + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n" + SMUGGLED, 400, "single numeric Content-Length"),
    (HEAD + b"Transfer-Encoding: gzip, chunked\r\n\r\n" + SMUGGLED, 400, "expected chunked"),
    (HEAD + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n" + SMUGGLED, 400, "the body ended after 0 bytes"),
    (HEAD + b"\r\n" + SMUGGLED, 411, "no Content-Length"),
    (HEAD + b"Content-Encoding: gzip\r\nContent-Length: 4\r\n\r\nabcd" + SMUGGLED, 400, "could not be decompressed"),
    (HEAD + b"Content-Encoding: none\r\nContent-Length: 4\r\n\r\nabcd" + SMUGGLED, 415, "Content-Encoding 'none'; expected gzip, deflate, br or identity"),
    (HEAD + b"Content-Type: multipart/form-data; boundary=a\r\nContent-Length: 5\r\n\r\n--a--" + SMUGGLED, 400, "the body is a form"),
    (b"GET /v2 HTTP/1.1\r\nContent-Length: 43\r\n\r\n" + SMUGGLED, 400, "GET with a body"),
    (b"PUT /v2 HTTP/1.1\r\nContent-Length: 43\r\n\r\n" + SMUGGLED, 405, "method 'PUT'"),
], ids=range(14))
def test_malformed_http(server, data, status, error):
    """One response, and the connection is closed: what follows is not taken for a request."""
    received, closed = server.send(data)
    assert received.startswith(f"HTTP/1.1 {status} ".encode()) and error.encode() in received, received
    assert closed and received.count(b"HTTP/1.1 ") == 1 and b"onnx_kilter" not in received, received
    assert server.infer("rows", changed())[0] == 200


def test_garbage(server):
    """Whatever comes instead of HTTP, the server keeps running."""
    generator = np.random.default_rng(2)
    for data in (b"", b"\r\n\r\n", b"\x16\x03\x01\x02\x00", b"GET\r\n\r\n", b"GET /v2 HTTP/9.9\r\n\r\n", b"GET /v2 HTTP/1.1\r\n:\r\n\r\n",
                 b"GET /v2 HTTP/1.1\r\nRange: bytes=5-1\r\n\r\n", b"GET /v2 HTTP/1.1\r\nRange: bytes=99999-\r\n\r\n",
                 b"GET /v2 HTTP/1.1\r\nRange: bytes=0-1,0-1,0-1\r\n\r\n", b"GET /v2 HTTP/1.1\r\nRange: bytes=-\r\n\r\n",
                 b"GET /%zz%0 HTTP/1.1\r\n\r\n", b"GET /" + b"a" * 100000 + b" HTTP/1.1\r\n\r\n",
                 b"GET /v2 HTTP/1.1\r\n" + b"a: b\r\n" * 5000 + b"\r\n", b"GET /v2 HTTP/1.1\r\na: " + b"b" * 100000 + b"\r\n\r\n",
                 HEAD + b"Transfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\nabc", HEAD + b"Content-Length: 10\r\n\r\nabc",
                 HEAD + b"Expect: 100-continue\r\nContent-Length: 10\r\n\r\n", *(generator.bytes(int(n)) for n in generator.integers(1, 3000, 20))):
        server.send(data, wait=False)
    assert server.infer("rows", changed())[0] == 200


def test_large_bodies(server):
    """A body above the limit is refused, whether its length is stated or not, and also if it is compressed."""
    body = b" " * 1_500_000
    status, answer = server.infer("rows", body)
    assert status == 413 and answer["error"] == "the body has 1500000 bytes; expected at most 1000000"
    received, closed = server.send(HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + b"%x\r\n" % len(body) + body)
    assert closed and (not received or b"413" in received)  # the client may not see the response, since it goes on sending
    packed = gzip.compress(b" " * 100_000_000)
    status, answer = server.infer("rows", packed, {"Content-Encoding": "gzip"})
    assert status == 413 and "the body has more than 1000000 bytes" in answer["error"]
    assert server.infer("rows", changed())[0] == 200


def test_memory_of_many_bodies(files):
    """The bodies of all requests in progress together have a limit, 16 times that of one."""
    with serving(files["rows.onnx"], "--max-request", "1kB") as running, contextlib.ExitStack() as streams:
        for _ in range(17):
            stream = streams.enter_context(socket.create_connection(("127.0.0.1", running.port), timeout=30))
            stream.sendall(HEAD + b"Content-Length: 990\r\n\r\n" + b" " * 980)
        for _ in range(100):  # until the bodies have arrived
            status, answer = running.infer("rows", changed(_id="x" * 400))
            if status != 200:
                break
            time.sleep(0.03)
        assert status == 503 and "need all the memory that this server gives them" in answer["error"]
        streams.close()
        while running.infer("rows", changed(_id="x" * 400))[0] != 200:
            time.sleep(0.05)


def test_truncated_body(server):
    """A client that stops in the middle of a body gets a response; one that closes the connection cannot."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=30) as stream:
        stream.sendall(HEAD + b"Content-Length: 100\r\n\r\n" + b"{" * 40)
        assert server.infer("rows", changed())[0] == 200
        received = b"".join(iter(lambda: stream.recv(65536), b""))  # after 5 seconds
    assert received.startswith(b"HTTP/1.1 400 ") and b"the body ended after 40 bytes" in received and b"expected 100 bytes" in received
    server.send(HEAD + b"Content-Length: 100\r\n\r\n" + b"{" * 40, wait=False)
    assert server.infer("rows", changed())[0] == 200
