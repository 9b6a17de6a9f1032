"""Report 002: tuning writes 21 lines for one target and 12 for another, for the same 21 convolutions.

Layers with the same problem are one task, and are tuned once: ResNet-18 has 21 convolutions, of which 12 differ. The
author also asks why other layers have no lines: they are tasks of their own kind, or fused into the convolution before
them. In Kilter what is fused is part of the problem, so two of the 12 convolutions with different neighbours are two
tasks. tasks() shows all of this for any target, without running anything.
"""
from __future__ import annotations

from collections import defaultdict

import kilter
from helpers import run_main


def main(model: str = "zoo:resnet18_tvm", target: str = "native", other: str = "x86-64-v2") -> None:
    # Tasks with the layers that they stand for, in groups of the same convolution.
    tasks = kilter.compile(model, target=target).tasks()
    groups = defaultdict(list)
    for task in tasks:
        convolution, *fused = task["problem"].split(" +")
        groups[convolution].append((fused, task["nodes"]))
    for convolution, members in groups.items():
        print(convolution)
        for fused, nodes in members:
            print(f"    {', '.join(nodes)}" + (f" with {', '.join(fused)}" if fused else ""))

    # The counts.
    convolutions = [task for task in tasks if task["problem"].startswith("conv2d")]
    print(f"{sum(len(task['nodes']) for task in convolutions)} convolutions, "
          f"{sum(name.startswith('conv2d') for name in groups)} different ones, {len(convolutions)} different tasks; "
          f"{len(tasks) - len(convolutions)} tasks of other operators")

    # Another target has different schedules to choose from, for the same convolutions.
    for name in (target, other):
        found = [t for t in kilter.compile(model, target=name).tasks() if t["problem"].startswith("conv2d")]
        print(f"{name}: {len(found)} tasks of convolutions for {sum(len(t['nodes']) for t in found)} layers, "
              f"{sum(t['points'] for t in found)} schedules, of which {sum(t['worth_a_trial'] for t in found)} are "
              f"worth a trial")


if __name__ == "__main__":
    run_main(main)
