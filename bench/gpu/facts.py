#!/usr/bin/env python3
"""Collects the facts about a CUDA machine that decide a back end's design: launches, memory, products, the driver's assembler, tools.

usage: facts.py --out FILE.json [--work DIR]

Writes a JSON file. Builds facts.cu with nvcc and runs it; times torch's matrix products (cuBLAS) as CUDA graphs; asks
nvidia-smi and the tools for versions. Takes under a minute. Writes after every part, so that an early end loses little.
"""
import argparse
import json
import os
import pathlib
import platform
import re
import shutil
import statistics
import subprocess
import time

HERE = pathlib.Path(__file__).resolve().parent
TOOLS = ["nvcc", "ptxas", "cuobjdump", "nvdisasm", "ncu", "nsys", "compute-sanitizer", "cuda-gdb"]
SMI = ["name", "driver_version", "pstate", "clocks.sm", "clocks.mem", "clocks.max.sm", "clocks.max.mem", "clocks_event_reasons.active",
       "temperature.gpu", "power.draw", "power.limit", "persistence_mode", "memory.total", "pcie.link.gen.current", "pcie.link.width.current"]


def output(*words, timeout=60, **more):
    """Returns the standard output of a command, or what went wrong."""
    try:
        done = subprocess.run(list(map(str, words)), capture_output=True, text=True, timeout=timeout, **more)
        return done.stdout if done.returncode == 0 else f"exit code {done.returncode}: {(done.stderr or done.stdout)[-300:]}"
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"failed: {error}"


def smi():
    return dict(zip(SMI, output("nvidia-smi", f"--query-gpu={','.join(SMI)}", "--format=csv,noheader").strip().split(", ")))


def find_tool(name):
    return shutil.which(name) or next((str(path) for path in pathlib.Path("/usr/local").glob(f"cuda*/bin/{name}")), None)


def tools():
    found = {}
    for name in TOOLS:
        path = find_tool(name)
        lines = output(path, "--version").strip().splitlines() if path else []
        found[name] = next((line for line in lines if re.search(r"\d+\.\d+", line)), path) if path else None
    return found


def system():
    release = pathlib.Path("/etc/os-release").read_text()
    cpu = next((line.split(":")[1].strip() for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines() if "model name" in line), "?")
    return {"distribution": re.search(r'PRETTY_NAME="?([^"\n]*)', release)[1], "glibc": platform.libc_ver()[1], "kernel": platform.release(),
            "cpu": cpu, "cpus": os.cpu_count(), "memory_GB": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9)}


def compiled_facts(work):
    """Collects what facts.cu prints, and the time of the toolkit's assembler for comparison with the driver's."""
    nvcc, ptxas = find_tool("nvcc"), find_tool("ptxas")
    program, ptx, small = work / "facts", work / "product_64x64.ptx", work / "empty.ptx"
    start = time.monotonic()
    build = subprocess.Popen([nvcc, "-std=c++17", "-O2", "-arch=sm_90", "-o", program, HERE / "facts.cu", "-lcuda"])
    output(nvcc, "-arch=sm_90", "-ptx", "-o", ptx, HERE / "jit_kernel.cu")
    small.write_text(".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry empty()\n{\n\tret;\n}\n")
    build.wait()
    facts = {"nvcc_s": time.monotonic() - start}
    for file in (small, ptx):
        times = []
        for _ in range(5):
            start = time.monotonic()
            said = output(ptxas, "-arch=sm_90", "-v", file, "-o", work / "assembled.cubin")
            times.append((time.monotonic() - start) * 1e3)
        facts[f"ptxas_process_ms:{file.name}"] = statistics.median(times) if not said.startswith(("exit", "failed")) else said
    done = subprocess.run([program, small, ptx], capture_output=True, text=True, timeout=60, env={**os.environ, "CUDA_CACHE_DISABLE": "1"})
    if done.returncode != 0:
        facts["failed"] = f"exit code {done.returncode}: {done.stderr[-300:]}"
    for line in done.stdout.splitlines():
        try:
            facts.update(json.loads(line))
        except json.JSONDecodeError:
            facts["not understood"] = line
    return facts


def product_us(torch, size, dtype):
    """Returns the microseconds of one product in a CUDA graph of 20, with full-range operands."""
    a, b = (torch.randn(size, size, device="cuda", dtype=dtype) for _ in range(2))
    out = torch.empty_like(a)
    for _ in range(3):
        torch.mm(a, b, out=out)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(20):
            torch.mm(a, b, out=out)
    times = []
    for _ in range(12):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        graph.replay()
        end.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(end) * 1e3 / 20)
    return statistics.median(times[2:])


def products():
    import torch
    found = {}
    for precision in ("fp32", "tf32", "fp16"):
        torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"
        for size in (512, 1024, 4096):
            us = product_us(torch, size, torch.float16 if precision == "fp16" else torch.float32)
            found[f"{precision} {size}"] = {"us": us, "TFLOPs": 2 * size**3 / us / 1e6}
            if size == 4096:
                found[f"{precision} {size}"]["clocks_after"] = output("nvidia-smi", "--query-gpu=clocks.sm,power.draw,clocks_event_reasons.active",
                                                                      "--format=csv,noheader").strip()
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--work", type=pathlib.Path, default=pathlib.Path("/tmp/kilter-gpu-peers"))
    args = parser.parse_args()
    args.work.mkdir(parents=True, exist_ok=True)
    facts = {}
    for name, part in (("idle", smi), ("system", system), ("tools", tools), ("device", lambda: compiled_facts(args.work)), ("after", smi),
                       ("cublas_products_in_a_graph", products), ("after_products", smi)):
        start = time.monotonic()
        try:
            facts[name] = part()
        except Exception as error:
            facts[name] = f"{type(error).__name__}: {error}"
        args.out.write_text(json.dumps(facts, indent=1))
        print(f"facts: {name} took {time.monotonic() - start:.1f} s", flush=True)


if __name__ == "__main__":
    main()
