"""Runs networks at random input sizes, in one session each: what a size costs when it is new, and when it is repeated.

usage: new_shapes.py [--package build/python] [--sizes 100] [--threads 1] [--folder models] [--peer onnxruntime|openvino] [--specialise] MODEL:INPUT=DIMS ...
DIMS has a number, or a range LOW..HIGH:STEP, for each dimension. Ranges of one model with the same LOW..HIGH:STEP that
end in a letter (1..512:1a) draw the same size. Example: bert.onnx:input_ids=1x1..512:1a,attention_mask=1x1..512:1a
MODEL is a file or a name that networks.py knows. Without a model: the text detector and recogniser of PP-OCR.
With --specialise, the sizes are declared as ranges and plans are compiled before the first run (specialise="now"); the
line begins with how long that took.

Prints a line for each network: seconds for all sizes, the first time and again, for Kilter and the peer; the median and
the largest time by which a new size is slower than a known one, over all sizes and over the second half of them; the
peak memory after the largest size alone and after all.
"""
import argparse
import pathlib
import re
import statistics
import subprocess
import sys
import time

import numpy as np
import onnx

import networks

HERE = pathlib.Path(__file__).resolve().parent
DEFAULT = ["ppocr_det:x=1x3x320..960:32x320..960:32", "ppocr_rec:x=1x3x48x64..800:8"]
TYPES = {onnx.TensorProto.FLOAT: np.float32, onnx.TensorProto.INT64: np.int64, onnx.TensorProto.INT32: np.int32}


def draw(rng, dims):
    """Returns one size for each dimension of each input."""
    known, sizes = {}, {}
    for name, text in dims.items():
        sizes[name] = []
        for part in text.split("x"):
            match = re.fullmatch(r"(\d+)(?:\.\.(\d+):(\d+)([a-z]?))?", part)
            if match is None:
                raise SystemExit(f"dimension '{part}' of {name}: expected a number or LOW..HIGH:STEP")
            low, high, step, letter = match.groups()
            size = int(low) if high is None else int(low) + int(step) * int(rng.integers((int(high) - int(low)) // int(step) + 1))
            sizes[name].append(known.setdefault(letter, size) if letter else size)
    return sizes


def ranges(dims):
    """Returns the sizes that each input may have, for kilter.compile(shapes=...)."""
    def of(part):
        return part if ".." not in part else f"{{{part[-1]}={part[:-1]}}}" if part[-1].isalpha() else f"{{{part}}}"
    return {name: "x".join(of(part) for part in text.split("x")) for name, text in dims.items()}


def values(rng, sizes, types):
    def one(name, shape):
        if np.issubdtype(types[name], np.integer):
            return np.ones(shape, types[name]) if "mask" in name else rng.integers(0, 100, shape).astype(types[name])
        return rng.standard_normal(shape, dtype=np.float32)
    return {name: one(name, shape) for name, shape in sizes.items()}


def open_peer(name, model, threads):
    if name == "onnxruntime":
        import onnxruntime
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.log_severity_level = 3
        session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        return lambda feeds: session.run(None, feeds)
    import openvino
    compiled = openvino.Core().compile_model(model, "CPU", {"INFERENCE_NUM_THREADS": threads})
    request = compiled.create_infer_request()
    return lambda feeds: list(request.infer(feeds).values())


def resident_peak():
    status = pathlib.Path("/proc/self/status").read_text()
    return int(re.search(r"VmHWM:\s+(\d+)", status).group(1)) / 1024


def timed(run, feeds):
    begin = time.perf_counter()
    result = run(feeds)
    return time.perf_counter() - begin, result


def measure(args, spec):
    """Runs one network and prints its line."""
    name, _, text = spec.partition(":")
    model = str(networks.path_of(name, args.folder) if name in networks.all_names() else name)
    dims = dict(part.split("=") for part in text.split(","))
    sys.path.insert(0, str(args.package))
    import kilter
    types = {i.name: TYPES[i.type.tensor_type.elem_type] for i in onnx.load(model).graph.input}
    rng = np.random.default_rng(1)
    sizes = []
    for _ in range(100 * args.sizes):  # the ranges may have fewer sizes
        if len(sizes) == args.sizes:
            break
        if (one := draw(rng, dims)) not in sizes:
            sizes.append(one)
    begin = time.perf_counter()
    ahead = dict(shapes=ranges(dims), specialise="now") if args.specialise and not args.largest else {}
    net = kilter.compile(model, threads=args.threads, **ahead)
    if ahead:
        print(f"plans compiled in {time.perf_counter() - begin:.2f} s: ", end="")
    if args.largest:
        largest = max(sizes, key=lambda s: sum(int(np.prod(shape)) for shape in s.values()))
        net.run(values(rng, largest, types))
        print(f"{resident_peak():.0f}")
        return
    peer = open_peer(args.peer, model, args.threads) if args.peer else None
    first, again, theirs, theirs_again, worst = [], [], [], [], 0.0
    for one in sizes:
        feeds = values(rng, one, types)
        seconds, got = timed(net.run, feeds)
        first.append(seconds)
        again.append(min(timed(net.run, feeds)[0] for _ in range(2)))
        if peer is None:
            continue
        seconds, want = timed(peer, feeds)
        theirs.append(seconds)
        theirs_again.append(min(timed(peer, feeds)[0] for _ in range(2)))
        for a, b in zip(got.values(), want):
            worst = max(worst, float(np.abs(a - b).max() / (np.abs(b).max() + 1e-30)))
    more = [1e3 * (a - b) for a, b in zip(first, again)]
    half = more[len(more) // 2:]
    print(f"{pathlib.Path(model).stem}: {len(sizes)} sizes, new {sum(first):.2f} s, again {sum(again):.2f} s", end="")
    if peer is not None:
        print(f"; {args.peer} new {sum(theirs):.2f} s, again {sum(theirs_again):.2f} s; largest difference {worst:.1e}", end="")
    print(f"; a new size takes {statistics.median(more):.0f} ms more (at most {max(more):.0f}), in the second half "
          f"{statistics.median(half):.0f} ms (at most {max(half):.0f})", end="")
    print(f"; peak {resident_peak():.0f} MiB" if peer is None else "")


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("specs", nargs="*", metavar="MODEL:INPUT=DIMS")
    parser.add_argument("--package", default=HERE.parent / "build/python")
    parser.add_argument("--folder", default="models", help="where networks are kept")
    parser.add_argument("--sizes", type=int, default=100)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--peer", choices=["onnxruntime", "openvino"])
    parser.add_argument("--specialise", action="store_true", help="declare the sizes and compile plans before the "
                                                                  "first run")
    parser.add_argument("--largest", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)  # in this process
    args = parser.parse_args()
    if args.here or args.largest:
        return measure(args, args.specs[0])
    for spec in args.specs or DEFAULT:  # a process for each figure, since peaks and memory are those of a process
        rest = ["--package", str(args.package), "--folder", args.folder, "--sizes", str(args.sizes), "--threads", str(args.threads),
                *(["--specialise"] if args.specialise else []), spec]
        run = lambda *more: subprocess.run([sys.executable, __file__, *rest, *more], check=True, capture_output=True, text=True).stdout.strip()
        print(run("--here"), f"(the largest size alone: {run('--largest')} MiB)", flush=True)
        if args.peer:
            print(run("--here", "--peer", args.peer), flush=True)


if __name__ == "__main__":
    main()
