"""Runs another runtime for kilter compare. Reads one JSON line with the request, then commands. Answers each with one
JSON line: the result, or {"error": words}.

Request: {"runtime": "onnxruntime"|"openvino", "model": path, "threads": n, "shapes": {input: [dims]}, "cpus": [n],
"values": {input: {"type", "shape", "hex"}}}. Inputs without values get random ones.
A module that is not installed is reported as {"missing": its name, "error": words}.
Commands: "run N" answers {"ms": mean of N runs}, "layers N" answers {"layers":
[{"name", "op", "ms"}], "ms": mean of these runs, which the profiler slows} over N runs.
"""
import json
import os
import sys
import time


# Answers go to the original standard output; what libraries print goes to standard error instead.
answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)


def say(**fields):
    print(json.dumps(fields), file=answers, flush=True)


def say_error(error):
    say(error=f"{type(error).__name__}: {error}".strip().split("\n")[0])


def values(request, name, shape, kind):
    import numpy as np

    given = request["values"].get(name)
    if given is not None:
        return np.frombuffer(bytes.fromhex(given["hex"]), given["type"]).reshape(given["shape"])
    seeded = np.random.default_rng(0)
    if kind.startswith("int") or kind.startswith("uint"):
        return seeded.integers(0, 100, shape).astype(kind)
    if kind == "bool":
        return seeded.integers(0, 2, shape).astype(bool)
    return seeded.standard_normal(shape).astype(kind)


class OnnxRuntime:
    KINDS = {"float": "float32", "double": "float64", "float16": "float16"}

    def __init__(self, request, profiled=False):
        import onnxruntime as ort

        self.request = request
        self.version = f"onnxruntime {ort.__version__}"
        options = ort.SessionOptions()
        options.intra_op_num_threads = request["threads"]
        options.inter_op_num_threads = 1
        options.log_severity_level = 3
        if profiled:
            import tempfile

            self.folder = tempfile.TemporaryDirectory()
            options.enable_profiling = True
            options.profile_file_prefix = os.path.join(self.folder.name, "layers")
        self.session = ort.InferenceSession(request["model"], options, providers=["CPUExecutionProvider"])
        self.feeds = {}
        for port in self.session.get_inputs():
            shape = request["shapes"].get(port.name, port.shape)
            kind = port.type[len("tensor("):-1]
            self.feeds[port.name] = values(request, port.name, shape, self.KINDS.get(kind, kind))

    def run(self):
        self.session.run(None, self.feeds)

    def layers(self, runs):
        profiled = OnnxRuntime(self.request, True)
        for _ in range(2):
            profiled.run()
        whole = mean_ms(profiled, runs)
        with open(profiled.session.end_profiling()) as file:
            events = json.load(file)
        layers = {}
        for event in events:
            if event.get("cat") != "Node" or not event["name"].endswith("_kernel_time"):
                continue
            name = event["name"][:-len("_kernel_time")]
            layers.setdefault(name, [event["args"].get("op_name", ""), []])[1].append(event["dur"] * 1e-3)
        return whole, [{"name": name, "op": op, "ms": sum(sorted(ms)[:-2]) / max(len(ms) - 2, 1)} for name, (op, ms) in layers.items()]


class OpenVino:
    def __init__(self, request, profiled=False):
        import openvino as ov

        self.request = request
        self.version = f"openvino {ov.__version__.split('-')[0]}"
        core = ov.Core()
        model = core.read_model(request["model"])
        shapes = {port.get_any_name(): port for port in model.inputs}
        model.reshape({name: shape for name, shape in request["shapes"].items() if name in shapes})
        config = {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": request["threads"], "NUM_STREAMS": 1}
        if profiled:
            config["PERF_COUNT"] = True
        self.compiled = core.compile_model(model, "CPU", config)
        self.call = self.compiled.create_infer_request()
        for port in self.compiled.inputs:
            kind = port.get_element_type().to_dtype().name
            self.call.set_tensor(port, ov.Tensor(values(request, port.get_any_name(), list(port.get_shape()), kind)))

    def run(self):
        self.call.infer()

    def layers(self, runs):
        profiled = OpenVino(self.request, True)
        sums, whole = {}, 0.0
        for _ in range(runs):
            whole += mean_ms(profiled, 1)
            for info in profiled.call.get_profiling_info():
                entry = sums.setdefault(info.node_name, [info.node_type, 0.0])
                entry[1] += info.real_time.total_seconds() * 1e3
        return whole / runs, [{"name": name, "op": op, "ms": ms / runs} for name, (op, ms) in sums.items() if ms > 0]


def mean_ms(runtime, runs):
    start = time.perf_counter_ns()
    for _ in range(runs):
        runtime.run()
    return (time.perf_counter_ns() - start) * 1e-6 / runs


def main():
    request = json.loads(sys.stdin.readline())
    try:
        os.sched_setaffinity(0, request["cpus"])
        runtime = {"onnxruntime": OnnxRuntime, "openvino": OpenVino}[request["runtime"]](request)
        runtime.run()
    except ModuleNotFoundError as error:
        return say(missing=(error.name or "").split(".")[0], error=f"{type(error).__name__}: {error}")
    except Exception as error:  # the caller prints it
        return say_error(error)
    say(version=runtime.version)
    for line in sys.stdin:
        command, count = line.split()
        try:
            if command == "run":
                say(ms=mean_ms(runtime, int(count)))
            else:
                whole, layers = runtime.layers(int(count))
                say(layers=layers, ms=whole)
        except Exception as error:
            say_error(error)


main()
