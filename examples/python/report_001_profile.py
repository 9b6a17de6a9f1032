"""Report 001: a profile of ResNet-18 in which layout changes look expensive, and half of the time is missing.

The author's profile says 1 % here and 2 % there, the rows add up to 48 % of the total, and a run takes 13 ms outside
the profiler but far more inside it. He needs rows that add up to the time of a run, what each layer could reach on this
machine, and the share of layout changes. A profile is a table, so pandas answers the rest: time by operator, and which
layers do not become faster with a second thread.
"""
from __future__ import annotations

import kilter
from helpers import run_main


def main(model: str = "zoo:resnet18", threads: int = 2, seconds: float = 2.0, page: str = "") -> None:
    # One row for each thing that takes time, in the order of execution.
    profile = kilter.compile(model, threads=threads).profile(seconds=seconds)
    rows = profile.to_pandas()
    slowest = rows.nlargest(8, "duration_ms")[["name", "ops", "duration_ms", "percent", "bound_kind", "share_of_bound"]]
    print(slowest.to_string(index=False))

    # They add up to the time of a run from end to end. If they did not, this would be among the warnings.
    print(f"rows {profile.sum_ms:.3f} ms, end to end {profile.end_to_end_ms:.3f} ms")
    for warning in profile.warnings:
        print("warning:", warning)

    # How much is computing, and how much is moving data into another layout?
    print(rows.groupby("kind")[["duration_ms", "percent"]].sum().sort_values("percent", ascending=False))
    print(rows[rows.kind == "layer"].groupby("ops").agg(layers=("name", "size"), ms=("duration_ms", "sum")))

    # Which layers gain least from the threads?
    one = kilter.compile(model, threads=1).profile(seconds=seconds).to_pandas()
    both = rows[rows.kind == "layer"].merge(one, on="name", suffixes=("", "_one"))
    both["speedup"] = both.duration_ms_one / both.duration_ms
    least = both.nsmallest(5, "speedup")[["name", "ops", "duration_ms_one", "duration_ms", "speedup"]]
    print(least.to_string(index=False))

    # The same as one page for the browser.
    if page:
        profile.html(page)


if __name__ == "__main__":
    run_main(main)
