"""Worker that runs a network under torch in several ways, in all precisions.

usage: torch_peers.py NETWORK FOLDER --lock FILE --peers eager graph ... [--precisions fp32 tf32 fp16]      (peers.py starts it)

eager                torch without a compiler: channels_last, cudnn.benchmark
graph                eager, captured once as a CUDA graph and replayed: cuDNN and cuBLAS without launch overhead
fused_graph          graph, with convolution + bias (+ addition) + ReLU as one call of cuDNN (networks with ReLU)
inductor_graph       torch.compile, default mode, its kernels captured by this script as a CUDA graph: no guards, no input copies
reduce_overhead      torch.compile(mode="reduce-overhead") as users call it
max_autotune_graph   torch.compile(mode="max-autotune-no-cudagraphs"), captured like inductor_graph
max_autotune         torch.compile(mode="max-autotune") as users call it
"""
import argparse
import contextlib
import copy
import pathlib
import pickle
import time

import torch
from torch import nn

import gpu_networks
import worker

MODES = {"inductor_graph": None, "reduce_overhead": "reduce-overhead", "max_autotune_graph": "max-autotune-no-cudagraphs",
         "max_autotune": "max-autotune"}
PEERS = ["eager", "graph", "fused_graph", *MODES]
PRECISIONS = ["fp32", "tf32", "fp16"]


def set_precision(precision):
    """Turns all switches for TF32 on or off: cuDNN and cuBLAS read the old ones, inductor's convolution template the last one."""
    torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"
    torch.backends.cudnn.allow_tf32 = precision == "tf32"
    torch.backends.cudnn.fp32_precision = "tf32" if precision == "tf32" else "ieee"
    torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False


def hold_lock_when_measuring(lock):
    """Makes inductor's compiled graphs and its timing of candidates hold the GPU's lock, until the returned function is called."""
    from torch._inductor import output_code, select_algorithm
    graph, selector = output_code.CompiledFxGraph, select_algorithm.AlgorithmSelectorCache
    plain_call = graph.__call__
    graph.__call__ = lock.around(plain_call)
    selector.benchmark_in_current_process = classmethod(lock.around(selector.benchmark_in_current_process.__func__))
    def undo():
        graph.__call__ = plain_call
    return undo


def conv_relu(x, weight, bias, stride, padding, dilation, groups):
    return torch.cudnn_convolution_relu(x, weight, bias, stride, padding, dilation, groups)


def conv_add_relu(x, weight, bias, stride, padding, dilation, groups, added):
    return torch.cudnn_convolution_add_relu(x, weight, added, 1.0, bias, stride, padding, dilation, groups)


def is_relu(node, modules):
    return node.op == "call_module" and type(modules[node.target]) is nn.ReLU


def only_conv(node, modules):
    """Whether a node is a convolution with exactly one reader."""
    return isinstance(node, torch.fx.Node) and node.op == "call_module" and type(modules[node.target]) is nn.Conv2d and len(node.users) == 1


def fuse_for_cudnn(network):
    """Returns the network with one call for convolution + bias (+ addition) + ReLU, and the number of these calls."""
    traced = torch.fx.symbolic_trace(network)
    graph, modules, count = traced.graph, dict(traced.named_modules()), 0
    for relu in list(graph.nodes):
        if not is_relu(relu, modules):
            continue
        before, added = relu.args[0], None
        if before.op == "call_function" and before.target.__name__ in ("add", "iadd") and len(before.users) == 1:
            convs = [x for x in before.args if only_conv(x, modules)]
            if not convs:
                continue
            conv = convs[0]
            added = before.args[1] if before.args[0] is conv else before.args[0]
        elif only_conv(before, modules):
            conv = before
        else:
            continue
        module = modules[conv.target]
        with graph.inserting_before(relu):
            weight, bias = (graph.get_attr(f"{conv.target}.{name}") for name in ("weight", "bias"))
            args = (conv.args[0], weight, bias, list(module.stride), list(module.padding), list(module.dilation), module.groups)
            fused = graph.call_function(conv_relu, args) if added is None else graph.call_function(conv_add_relu, (*args, added))
        relu.replace_all_uses_with(fused)
        graph.erase_node(relu)
        count += 1
    graph.eliminate_dead_code()
    traced.recompile()
    return traced, count


class Runner:
    """A repeatable call, and its last result."""

    def __init__(self, run, inputs):
        self.run, self.inputs = run, inputs

    def outputs(self):
        return [x.double().cpu().numpy() for x in gpu_networks.outputs_of(self.run())]


def captured(call, inputs):
    """Returns a runner that replays a CUDA graph of `call`."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            call()
    torch.cuda.current_stream().wait_stream(side)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, capture_error_mode="thread_local"):
        result = call()
    def replay():
        graph.replay()
        return result
    return Runner(replay, inputs)


class Network:
    """The network in one precision on the device."""

    def __init__(self, network, inputs, precision, device):
        halves = precision == "fp16"
        network = copy.deepcopy(network)
        self.network = (network.half() if halves else network).to(device)
        self.inputs = tuple((x.half() if halves and x.is_floating_point() else x).to(device) for x in inputs)
        if self.inputs[0].dim() == 4:
            self.network = self.network.to(memory_format=torch.channels_last)
            self.inputs = tuple(x.to(memory_format=torch.channels_last) for x in self.inputs)

    def runner(self, peer, lock):
        """Returns the runner of a peer, compiled, warmed up and captured."""
        network, inputs, on_gpu = self.network, self.inputs, self.inputs[0].is_cuda
        if peer == "fused_graph":
            network, count = fuse_for_cudnn(network)
            if count == 0:
                raise RuntimeError("no convolution is followed by a ReLU")
        if peer in MODES:
            network = torch.compile(network, mode=MODES[peer], fullgraph=True, dynamic=False)
        call = lambda: network(*inputs)
        call()  # compiles; the lock is held only while it runs
        with lock:
            for _ in range(3):
                call()
            runner = captured(call, inputs) if peer.endswith("graph") and on_gpu else Runner(call, inputs)
            if on_gpu:
                torch.cuda.synchronize()
            return runner


def reference_outputs(network, inputs, device):
    """Returns the outputs in float64, computed on the device."""
    network = copy.deepcopy(network).double().to(device)
    inputs = [(x.double() if x.is_floating_point() else x).to(device) for x in inputs]
    return [x.cpu().numpy() for x in gpu_networks.outputs_of(network(*inputs))]


flush_buffer = None


def flush_cache():
    """Writes 256 MB, five times the size of the L2 cache."""
    global flush_buffer
    if flush_buffer is None:
        flush_buffer = torch.empty(64 << 20, dtype=torch.float32, device="cuda")
    flush_buffer.fill_(1.0)


def events_batch(run, count, flush):
    """Returns the milliseconds on the device of each of `count` runs, and of the whole batch."""
    pairs = [(torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)) for _ in range(count)]
    for start, end in pairs:
        if flush:
            flush_cache()
        start.record()
        run()
        end.record()
    torch.cuda.synchronize()
    return [start.elapsed_time(end) for start, end in pairs], pairs[0][0].elapsed_time(pairs[-1][1])


def back_to_back(run, count):
    """Returns the milliseconds per run of `count` runs, with events around the whole batch only."""
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    for _ in range(count):
        run()
    end.record()
    torch.cuda.synchronize()
    return start.elapsed_time(end) / count


def host_sample(run, on_gpu):
    start = time.perf_counter()
    run()
    if on_gpu:
        torch.cuda.synchronize()
    return (time.perf_counter() - start) * 1e3


def with_copies(runner):
    """Runs with a copy of the input from pinned memory and copies of the outputs back."""
    inputs = [torch.empty_like(x, device="cpu", memory_format=torch.preserve_format).pin_memory().copy_(x) for x in runner.inputs]
    outputs = [torch.empty_like(x, device="cpu").pin_memory() for x in gpu_networks.outputs_of(runner.run())]
    def run():
        for device, host in zip(runner.inputs, inputs):
            device.copy_(host, non_blocking=True)
        for host, device in zip(outputs, gpu_networks.outputs_of(runner.run())):
            host.copy_(device, non_blocking=True)
    return run


def time_one(runner, request):
    """Returns the milliseconds of runs. "events": device time of each run; "flushed": the same with a cold L2; "stream": runs back to
    back, one sample per chunk; "sync": wall time of an awaited run; "end_to_end": the same with copies from and to pinned memory."""
    set_precision(request["precision"])
    kind, run, on_gpu = request["kind"], runner.run, runner.inputs[0].is_cuda
    each = max(host_sample(run, on_gpu) for _ in range(3))
    count = max(2, min(50, round(15 / each)))
    if kind == "end_to_end" and on_gpu:
        run = with_copies(runner)
    if kind in ("events", "flushed") and on_gpu:
        batch = lambda: events_batch(run, count, kind == "flushed")[0]
    elif kind == "stream" and on_gpu:
        batch = lambda: [back_to_back(run, count)]
    else:
        batch = lambda: [host_sample(run, on_gpu)]
    batch()
    samples, end = [], time.perf_counter() + request["seconds"]
    while time.perf_counter() < end or len(samples) < 3:
        samples += batch()
    return {"samples": samples, "runs_per_sample": count if kind == "stream" else 1}


def write_graph(args, network, inputs, reference):
    """Exports the graph for runtimes without torch."""
    graph = {**gpu_networks.described(network, inputs), "reference": reference}
    part = args.folder / f"{args.network}.part"
    part.write_bytes(pickle.dumps(graph))
    part.rename(args.folder / f"{args.network}.graph")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("network")
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--lock", required=True)
    parser.add_argument("--peers", nargs="*", default=PEERS)
    parser.add_argument("--precisions", nargs="+", default=PRECISIONS)
    parser.add_argument("--deadline", type=float, default=120)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--export", action="store_true", help="write the graph for the other workers")
    args = parser.parse_args()
    messages, lock = worker.Messages(), worker.GpuLock(args.lock)
    torch.backends.cudnn.benchmark = True
    torch.set_grad_enabled(False)
    torch._dynamo.config.recompile_limit = 64
    measure_freely = hold_lock_when_measuring(lock)
    network, inputs = gpu_networks.build(args.network)
    with lock:
        set_precision("fp32")
        reference = reference_outputs(network, inputs, args.device)
    if args.export:
        write_graph(args, network, inputs, reference)
    networks = {precision: Network(network, inputs, precision, args.device) for precision in args.precisions}
    runners = {}
    for peer in args.peers:
        for precision in args.precisions:
            def make():
                set_precision(precision)
                with lock if peer not in MODES else contextlib.nullcontext():
                    runner = networks[precision].runner(peer, lock)
                with lock:
                    return runner, worker.relative_error(runner.outputs(), reference)
            runner = worker.prepare(messages, lock, args.network, peer, precision, args.deadline, make)
            if runner:
                runners[peer, precision] = runner
    if args.device == "cuda":
        with lock:
            torch.cuda.synchronize()
    measure_freely()
    worker.serve(messages, lock, runners, time_one)


if __name__ == "__main__":
    main()
