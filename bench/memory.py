"""Measures the peak resident memory of a process that loads a network and runs it: Kilter's runtime, ONNX Runtime, OpenVINO.

usage: memory.py [--kilter build/kilter] [--runtime build/src/libkilter_runtime.so] [--models models] [NAME ...]

Every figure is VmHWM of a separate Python process that imports numpy and one runtime, loads the network (fp32, batch 1,
one thread) and runs it three times. Kilter's runtime loads a compiled file. The first row is the same process without a
network. Packed weights count: a compiled file is mapped, and its pages are resident once they are read. The line above
the table states the machine, the date and the versions.
Exit code 1 if Kilter needs more than the better peer on any network.
"""
import argparse
import ctypes
import os
import pathlib
import subprocess
import sys
import tempfile

import networks

RUNTIMES = ["kilter", "onnxruntime", "openvino"]


def high_water_mib():
    for line in open("/proc/self/status"):
        if line.startswith("VmHWM"):
            return int(line.split()[1]) / 1024
    sys.exit("memory.py: /proc/self/status has no VmHWM")


class TensorInfo(ctypes.Structure):
    """The struct kilter_tensor_info of include/kilter/runtime.h."""

    _fields_ = [("name", ctypes.c_char_p), ("dtype", ctypes.c_int), ("rank", ctypes.c_size_t),
                ("dims", ctypes.POINTER(ctypes.c_int64)), ("bytes", ctypes.c_size_t)]


def run_kilter(library, path):
    """Runs a compiled file on zeros (0 is a legal value for all inputs that are indices)."""
    lib = ctypes.CDLL(os.fspath(library))
    lib.kilter_last_error.restype = ctypes.c_char_p
    lib.kilter_program_input_count.restype = lib.kilter_program_output_count.restype = ctypes.c_size_t

    def check(status):
        if status != 0:
            sys.exit(f"memory.py: {path}: {lib.kilter_last_error().decode()}")

    program, instance = ctypes.c_void_p(), ctypes.c_void_p()
    check(lib.kilter_program_load(os.fspath(path).encode(), ctypes.byref(program)))
    check(lib.kilter_instance_create(program, 1, ctypes.byref(instance)))

    def tensors(count, describe):
        info, buffers = TensorInfo(), []
        for i in range(count(program)):
            check(describe(program, ctypes.c_size_t(i), ctypes.byref(info)))
            buffers.append(ctypes.create_string_buffer(max(info.bytes, 1)))
        return buffers, (ctypes.c_void_p * len(buffers))(*[ctypes.addressof(b) for b in buffers])

    inputs, input_list = tensors(lib.kilter_program_input_count, lib.kilter_program_input)
    outputs, output_list = tensors(lib.kilter_program_output_count, lib.kilter_program_output)
    for _ in range(3):
        check(lib.kilter_instance_run(instance, input_list, ctypes.c_size_t(len(inputs)), output_list, ctypes.c_size_t(len(outputs))))


def run_onnxruntime(path, shapes):
    session = networks.peer_session(path, 1)
    feeds = networks.seeded_inputs(session.get_inputs(), shapes)
    for _ in range(3):
        session.run(None, feeds)


def run_openvino(path, shapes):
    import numpy as np
    import openvino as ov

    compiled = networks.openvino_network(path, shapes, 1)
    request = compiled.create_infer_request()
    for port in compiled.inputs:
        request.set_tensor(port, ov.Tensor(np.zeros(list(port.shape), port.element_type.to_dtype())))
    for _ in range(3):
        request.infer()


def child(args, runtime, name):
    """Runs in a separate process and prints its peak."""
    import numpy  # noqa: F401  (every process imports it)

    if runtime == "onnxruntime":
        import onnxruntime  # noqa: F401
    elif runtime == "openvino":
        import openvino  # noqa: F401
    shapes = networks.SHAPES.get(name, {})
    if name == "-":
        if runtime == "kilter":
            ctypes.CDLL(os.fspath(args.runtime))
    elif runtime == "kilter":
        run_kilter(args.runtime, args.file)
    elif runtime == "onnxruntime":
        run_onnxruntime(networks.path_of(name, args.models), shapes)
    else:
        run_openvino(networks.path_of(name, args.models), shapes)
    print(high_water_mib())


def measure(args, runtime, name, file):
    command = [sys.executable, __file__, "--one", runtime, "--runtime", args.runtime, "--models", args.models, "--file", os.fspath(file), name]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"memory.py: {runtime} on {name}: {done.stderr.strip()[-300:]}")
    return float(done.stdout.split()[-1])


def compile_network(args, name, file):
    command = [args.kilter, "compile", os.fspath(networks.path_of(name, args.models)), "-o", os.fspath(file)]
    command += networks.input_options(networks.SHAPES.get(name, {}))
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"memory.py: {name}: {done.stderr.strip()}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--kilter", default="build/kilter")
    parser.add_argument("--runtime", default="build/src/libkilter_runtime.so")
    parser.add_argument("--models", default="models")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    parser.add_argument("--file", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        return child(args, args.one, args.names[0])
    import peers  # not imported in the measured processes

    print(f"{peers.machine_text(1)}; peak MiB of a process that loads the network and runs it three times\n")
    print("| network, peak MiB | Kilter | ONNX Runtime | OpenVINO | Kilter / better peer |\n|---|---|---|---|---|", flush=True)
    worse = []
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "network.kilter"
        for name in ["-"] + (args.names or networks.SPEED_SET):
            if name != "-":
                compile_network(args, name, file)
            peaks = [measure(args, runtime, name, file) for runtime in RUNTIMES]
            ratio = peaks[0] / min(peaks[1:])
            if ratio > 1:
                worse.append(name)
            label = "(none)" if name == "-" else name
            print(f"| {label} | {peaks[0]:.0f} | {peaks[1]:.0f} | {peaks[2]:.0f} | {ratio:.2f} |", flush=True)
    if worse:
        sys.exit(f"memory.py: Kilter needs more than the better peer on {', '.join(worse)}")


if __name__ == "__main__":
    main()
