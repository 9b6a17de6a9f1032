"""PyTorch models in Kilter.

    import torch
    fast = torch.compile(model.eval(), backend="kilter", options={"threads": 2})
    with torch.inference_mode():
        scores = fast(images)

    program = torch.export.export(model.eval(), (images,))
    net = kilter.torch.compile(program)                   # without torch.compile's checks on each call
    scores = net(images)

Weights are shared with the model, not copied. Operators that Kilter does not have run in PyTorch, and the logger
"kilter" reports which and why. Importing this module imports torch.
"""
from ._conversion import CONVERTERS
from ._dynamo import backend
from ._exported import ExportedNetwork, compile

__all__ = ["ExportedNetwork", "backend", "compile", "operators_covered"]


def operators_covered() -> list[str]:
    """Returns the operators of ATen that run in Kilter, such as "aten.relu.default"; a name without an overload, such
    as "aten.add", stands for all of them. Composite operators are not listed: PyTorch decomposes them into these."""
    return sorted(CONVERTERS)
