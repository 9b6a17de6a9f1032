"""Report 000: a network is tuned, timed and profiled, and the profiler reports four times the time that the timer
reported.

The author tuned a ResNet-50 with about 200 lines of script. The timer gave 328 ms, the profiler 1410 ms, and nothing
showed that the two had used different kernels and different numbers of threads. Here both measure with the same clock
in the same way, every figure carries its conditions, and check() compares the two: it raises an error that names what
differs. The layers for which tuning has no record are named, too. Give more time for a better result, and run again to
continue.
"""
from __future__ import annotations

import numpy as np

import kilter
from helpers import run_main


def main(model: str = "zoo:resnet50_tvm", time: str = "20s", records: str = "resnet50.db", threads: int = 1) -> None:
    net = kilter.compile(model, threads=threads)
    x = np.random.default_rng(0).uniform(size=net.inputs[0].shape).astype(np.float32)

    # Tune the convolutions within the budget. The records keep every trial, and the plan that won in whole runs.
    result = net.tune(time, ops=["conv2d"], searcher="random", records=records)
    print(result)
    print("not tuned:", ", ".join(result.untuned_layers()) or "nothing")

    # Time the network with the records.
    tuned = result.network
    timing = tuned.benchmark(x, number=1, repeat=50)
    print(f"Mean inference time (std dev): {timing.mean_ms:.2f} ms ({timing.std_ms:.2f} ms)")

    # Profile it, and see whether the figures agree.
    profile = tuned.profile(seconds=1)
    print(profile.table(top=8))
    for warning in profile.warnings:
        print("warning:", warning)
    try:
        profile.check(timing)
        print("the profile and the timing agree")
    except kilter.MeasurementError as error:
        print("they contradict each other:", error)


if __name__ == "__main__":
    run_main(main)
