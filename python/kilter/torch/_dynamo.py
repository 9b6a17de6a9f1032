"""The backend of torch.compile."""
from __future__ import annotations

from typing import Any, Callable, Mapping, Sequence

import torch
from torch import fx
from torch._decomp import core_aten_decompositions
from torch._dynamo.backends.common import aot_autograd
from torch._guards import TracingContext

from . import operators  # noqa: F401 (fills CONVERTERS)
from ._conversion import CONVERTERS
from ._function import CompiledFunction
from ._program import Settings

__all__ = ["backend", "decompositions"]


def backend(module: fx.GraphModule, example_inputs: Sequence[Any], *, mode: str | None = None,
            options: Mapping[str, Any] | None = None) -> Callable[..., Any]:
    """Compiles a graph that torch.compile has captured: torch.compile(model, backend="kilter", options={"threads": 2}).

    options: those of kilter.compile, and fallback=False, which raises UnsupportedError if anything would run in
    PyTorch, and cache_size=N, the number of sets of input shapes whose networks are kept (16). Networks are compiled on
    the first call. `mode` has no meaning here. Raises UsageError for options that are not legal.
    """
    settings = Settings.of(options)
    reason = why_not(module, example_inputs)
    if reason is not None:
        settings.tell(f"torch.compile: PyTorch runs this graph, because {reason}", reason)
        return module.forward

    def compiler(graph: fx.GraphModule, fakes: Sequence[Any]) -> Callable[..., Any]:
        return _boxed(CompiledFunction(graph, _static_inputs(), settings, "torch.compile"))

    compile_graph = aot_autograd(fw_compiler=compiler, inference_compiler=compiler, decompositions=decompositions())
    return compile_graph(module, example_inputs)


def decompositions() -> dict[Any, Callable[..., Any]]:
    """Returns PyTorch's decompositions into core operators, without those of operators that have a converter."""
    return {op: rule for op, rule in core_aten_decompositions().items() if not has_converter(op)}


def has_converter(op: Any) -> bool:
    """Whether an operator of ATen has a converter."""
    name = str(op)
    return name in CONVERTERS or name.rpartition(".")[0] in CONVERTERS


def why_not(module: torch.nn.Module, inputs: Sequence[Any]) -> str | None:
    """Returns why Kilter cannot run a graph on such inputs at all; None if it may be able to."""
    tensors = [t for t in inputs if isinstance(t, torch.Tensor)]
    tensors += [*module.parameters(), *module.buffers()]
    for tensor in tensors:
        what = f"a tensor of shape {list(tensor.shape)}"
        if tensor.device.type != "cpu":
            return f"{what} is on device '{tensor.device}'; Kilter runs on the CPU: move model and inputs there"
        if tensor.layout != torch.strided or tensor.is_quantized:
            quantised = " and is quantised" if tensor.is_quantized else ""
            return f"{what} has layout {tensor.layout}{quantised}; Kilter supports only dense tensors that are not quantised"
        if tensor.requires_grad and torch.is_grad_enabled():
            return (f"gradients are recorded ({what} requires grad); Kilter only runs inference: call the model under "
                    f"torch.no_grad() or torch.inference_mode()")
    return None


def _static_inputs() -> list[int]:
    """Returns the positions of weights among the inputs of the graph that is being compiled."""
    context = TracingContext.try_get()
    facts = context.fw_metadata if context is not None else None
    if facts is None:
        return []
    return [i for i in facts.static_input_indices if not facts.input_info[i].mutates_data]


def _boxed(function: CompiledFunction) -> Callable[[list[Any]], list[Any]]:
    """Returns a function that empties the list of its arguments, as PyTorch's boxed calls do."""
    def run(args: list[Any]) -> list[Any]:
        taken = list(args)
        args.clear()
        return function(taken)
    run._boxed_call = True  # type: ignore[attr-defined]
    return run
