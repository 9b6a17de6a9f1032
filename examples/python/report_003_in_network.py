"""Report 003: a fused convolution takes 0.1 ms in a network of its own and 0.2 ms in ResNet-50, with the same code.

The author cannot see where the other 0.1 ms come from. On its own, the layer finds its weights in the cache, because
the previous run left them there; in a large network, other layers have used the cache since. So the time of a loop over
one layer says little about a network. time_tasks() times a layer both ways, in a loop and with weights that come from
where the network finds them, and shows its time in the network next to these.
"""
from __future__ import annotations

import numpy as np

import kilter
from kilter.graph import Graph
from helpers import run_main


def convolution_alone(channels: int, side: int) -> Graph:
    """Returns the network of the report: convolution, batch normalization, ReLU."""
    rng = np.random.default_rng(0)
    graph = Graph("alone")
    x = graph.input("data", "f32", (1, channels, side, side))
    weights = rng.standard_normal((channels, channels, 3, 3), np.float32) * 0.01
    scale, shift, mean, variance = rng.uniform(0.5, 1.5, (4, channels)).astype(np.float32)
    y = graph.Conv(x, weights, pads=[1, 1, 1, 1], name="conv")
    y = graph.BatchNormalization(y, scale, shift, mean, variance, epsilon=2e-5)
    graph.output(graph.Relu(y), "out")
    return graph


def main(model: str = "zoo:resnet50", node: str = "layer4.2.conv2", threads: int = 1, seconds: float = 1.0) -> None:
    # The layer in a network of its own, run in a loop.
    alone = kilter.compile(convolution_alone(channels=512, side=7), threads=threads)
    for row in alone.profile(seconds=seconds):
        print(f"alone       {row['name']:<28} {row['duration_ms']:.4f} ms  {row['problem']}")

    # The same layer of ResNet-50: in the network, and by itself under three conditions.
    network = kilter.compile(model, threads=threads)
    for task in network.time_tasks(node=[node], in_network=True, seconds=seconds):
        print(f"{model}  {task['name']}  {task['problem']}\n"
              f"  in the network                    {task['in_network_ms']:.4f} ms\n"
              f"  weights as the network finds them {task['estimate_ms']:.4f} ms  ({task['weights']})\n"
              f"  in a loop, weights in the cache   {task['warm_ms']:.4f} ms")


if __name__ == "__main__":
    run_main(main)
