"""What export.py needs to know about a network: a module or a function that writes the file, example inputs, the inputs
to compare."""
import dataclasses
import inspect
from typing import Callable

import numpy as np
import torch

#: name: (family, builder), in the order in which export.py runs them
NETWORKS: dict[str, tuple[str, Callable]] = {}
FAMILIES = ("classify", "dense", "detect", "language", "audio", "quantised", "sizes")


@dataclasses.dataclass
class Spec:
    """One network. `args` are the example inputs of the export; each of `cases` is a tuple like `args` with which the
    network is compared."""

    module: torch.nn.Module | None = None
    args: tuple = ()
    inputs: tuple[str, ...] = ("input",)
    outputs: tuple[str, ...] = ("output",)
    #: open dimensions of inputs and outputs: {name: {axis: symbol}}
    open: dict = dataclasses.field(default_factory=dict)
    cases: list = dataclasses.field(default_factory=list)
    exporters: tuple[str, ...] = ("torchscript", "dynamo")
    opset: int = 17
    #: writes the ONNX file itself; then there is no module
    write: Callable[[str], None] | None = None
    #: which tolerance compare.py uses
    kind: str = "f32"


def network(name, family):
    """Registers a builder, which returns a Spec, under a name."""
    def add(builder):
        if family not in FAMILIES or name in NETWORKS:
            raise ValueError(f"network '{name}' of family '{family}': the name is taken or the family unknown")
        NETWORKS[name] = family, builder
        return builder
    return add


class Call(torch.nn.Module):
    """A module whose forward() is a function of it and tensors, so that all networks are exported alike."""

    def __init__(self, inner, function):
        super().__init__()
        self.inner = inner
        self.function = function

    def forward(self, *tensors):
        return self.function(self.inner, *tensors)


def axes(**names):
    """axes(ids="batch sequence") returns {"ids": {0: "batch", 1: "sequence"}}; "-" is a fixed dimension."""
    return {name.replace("__", "."): {i: word for i, word in enumerate(text.split()) if word != "-"} for name, text in names.items()}


def settle(module):
    """Evaluation mode with parameters that hide nothing: heads and layer scales that start at 0 are filled, and batch norms
    get statistics other than 0 and 1."""
    module.eval()
    for name, parameter in module.named_parameters():
        if parameter.numel() > 1 and parameter.abs().max() < 1e-3:
            is_scale = "bias" not in name and parameter.squeeze().dim() < 2
            parameter.data.uniform_(0.2, 0.8) if is_scale else parameter.data.normal_(0, 0.02)
    for part in module.modules():
        if getattr(part, "running_mean", None) is not None:
            part.running_mean.normal_(0, 0.1)
            part.running_var.uniform_(0.5, 1.5)
    return module


def calibrate(module, *args):
    """Gives batch norms the statistics of one run, so that a signal passes through many layers of random weights."""
    def adopt(part, given):
        over = [i for i in range(given[0].dim()) if i != 1]
        part.running_mean.copy_(given[0].mean(over))
        part.running_var.copy_(given[0].var(over) + 1e-5)

    module.eval()
    hooks = [part.register_forward_pre_hook(adopt) for part in module.modules() if getattr(part, "running_mean", None) is not None]
    with torch.no_grad():
        module(*args)
    for hook in hooks:
        hook.remove()
    return module


def tokens(batch, length, vocabulary=5000):
    return torch.randint(1, vocabulary, (batch, length))


def ones(*shape):
    return torch.ones(*shape, dtype=torch.int64)


def case_arrays(spec):
    """Returns the inputs of each case by name, as NumPy arrays."""
    return [{name: np.array(tensor.numpy(), order="C") for name, tensor in zip(spec.inputs, case, strict=True)} for case in spec.cases or [spec.args]]


def export_torchscript(spec, path):
    torch.onnx.export(spec.module, spec.args, path, dynamo=False, opset_version=spec.opset, input_names=list(spec.inputs),
                      output_names=list(spec.outputs), dynamic_axes=spec.open or None)


def export_dynamo(spec, path):
    options = {}
    if spec.open:
        dims = tuple({axis: torch.export.Dim.DYNAMIC for axis in spec.open.get(name, {})} or None for name in spec.inputs)
        variadic = any(p.kind == p.VAR_POSITIONAL for p in inspect.signature(spec.module.forward).parameters.values())
        options["dynamic_shapes"] = (dims,) if variadic else dims
    torch.onnx.export(spec.module, spec.args, path, dynamo=True, opset_version=max(spec.opset, 18), input_names=list(spec.inputs),
                      output_names=list(spec.outputs), external_data=False, verbose=False, **options)
