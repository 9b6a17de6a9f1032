"""Report 004: CenterNet takes 30 ms in the original framework and 108 ms after tuning, and nobody can tell why.

The author tuned for weeks and found one slow convolution in the log of tuning, a 7x7 one with a record for Winograd of
74 ms and one for direct convolution of 0.7 ms; he asks how to make the build ignore the first, and what to do next. He
needs three answers: is my network slower than the other framework, measured side by side; which layers take the time,
and how far are they from what the machine can do; and what do I change? compare(), profile() and explain() give them,
and `forbid` rules out a kernel for a layer. Kilter measures layers where they run, so a slow candidate never gets into
the plan.
"""
from __future__ import annotations

import importlib.util
import os
import tempfile

import kilter
from helpers import run_main


def main(model: str = "", size: int = 224, threads: int = 1, seconds: float = 1.0, top: int = 8) -> None:
    # The network as a file, which other runtimes read as well: CenterNet with DLA-34, in a size that runs quickly.
    folder = tempfile.TemporaryDirectory()
    if not model:
        model = os.path.join(folder.name, "centernet.onnx")
        kilter.command("zoo", "centernet_dla34_tvm", "--size", size, "--out", model)
    net = kilter.compile(model, threads=threads)

    # Is it slower than another runtime? Both run alternately, so that disturbances affect both.
    if importlib.util.find_spec("onnxruntime"):
        comparison = kilter.compare(net, f"onnxruntime:{model}", threads_b=threads, seconds=seconds)
        ratio = comparison.ratio
        print(f"Kilter {comparison.a['ms']:.2f} ms, ONNX Runtime {comparison.b['ms']:.2f} ms: ONNX Runtime takes "
              f"{ratio['value']:.2f} times as long (95 %: {ratio['low']:.2f} to {ratio['high']:.2f})")

    # Which layers take the time, and how close are they to what this machine can do?
    profile = net.profile(seconds=seconds)
    print(profile.table(top=top))

    # The layer that the author suspected: does it use Winograd, and what if that is forbidden?
    first = next(row for row in profile if " r7 s7 " in row["problem"])
    print(f"{first['name']}: {first['problem']}, {first['schedule']}, {first['duration_ms']:.3f} ms")
    direct = kilter.compare(net, net.with_options(forbid="winograd"), seconds=seconds)
    print(f"without any Winograd: {direct.b['ms']:.2f} ms instead of {direct.a['ms']:.2f} ms")

    # What to do next? Each finding states what it gains, and a command that shows it.
    explanation = net.explain(seconds=seconds)
    for finding in explanation.findings[:3]:
        print(f"{finding['gain_percent']:.1f} % ({finding['how']}): {finding['cause']} in {finding['name']}; "
              f"{finding['advice']}")


if __name__ == "__main__":
    run_main(main)
