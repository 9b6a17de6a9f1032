"""Programs of torch.export."""
from __future__ import annotations

from typing import Any, Callable

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, OutputKind
from torch.utils import _pytree as pytree

from ..errors import InputError, UnsupportedError, UsageError
from ..network import Network
from ._dynamo import has_converter, why_not
from ._function import CompiledFunction
from ._program import Settings

__all__ = ["ExportedNetwork", "compile"]

_WEIGHTS = (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR)


class ExportedNetwork:
    """An exported program that runs in Kilter. It is called as the model was: with tensors on the CPU, in the structure
    of the arguments of torch.export.export. NumPy arrays are taken as well. It returns tensors in the structure of the
    model's outputs. Several threads may call it."""

    def __init__(self, program: ExportedProgram, settings: Settings):
        if not isinstance(program, ExportedProgram):
            raise UsageError(f"kilter.torch.compile: expected a torch.export.ExportedProgram, got "
                             f"{type(program).__qualname__}; torch.export.export(model, example_inputs) makes one, and "
                             f"torch.compile(model, backend=\"kilter\") compiles a module")
        lowered = program.run_decompositions(_export_decompositions())
        _check_outputs(lowered)
        self._program, self._spec, self._out_spec = lowered, lowered.call_spec.in_spec, lowered.call_spec.out_spec
        specs = lowered.graph_signature.input_specs
        self._weights = {i: _weight_of(lowered, s.target) for i, s in enumerate(specs) if s.kind in _WEIGHTS}
        placeholders = [n for n in lowered.graph.nodes if n.op == "placeholder"]
        self._inputs = [(i, placeholders[i]) for i, s in enumerate(specs) if s.kind == InputKind.USER_INPUT]
        reason = why_not(torch.nn.Module(), [t.detach() for t in self._weights.values()])
        if reason is not None:
            raise UnsupportedError(f"kilter.torch.compile: {reason}")
        self._function = CompiledFunction(lowered.graph_module, list(self._weights), settings, "kilter.torch.compile")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Runs the network. Raises InputError if the inputs are not those that were exported."""
        results = self._function(self._values(args, kwargs))
        return pytree.tree_unflatten(results, self._out_spec)

    def network(self, *args: Any, **kwargs: Any) -> Network:
        """Returns the kilter.Network for inputs of these shapes, to profile, tune or save it; without arguments for
        those that the program was exported with. Raises UnsupportedError if PyTorch runs a part of the program."""
        if not args and not kwargs:
            args, kwargs = self._program.example_inputs
        program = self._function.program(self._values(args, kwargs))
        if program.refused or len(program.networks) != 1:
            raise UnsupportedError(f"kilter.torch: {len(program.refused)} nodes of the program run in PyTorch, so "
                                   f"there is no network of the whole; fallback=False says which and why")
        return program.networks[0]

    def _values(self, args: Any, kwargs: Any) -> list[Any]:
        """Returns the values of the graph's placeholders."""
        flat, spec = pytree.tree_flatten((args, self._in_order(kwargs)))
        if spec != self._spec:
            raise InputError(f"kilter.torch: the arguments have the structure {_text(spec)}; the program was exported "
                             f"with {_text(self._spec)}")
        values: dict[int, Any] = dict(self._weights)
        for (index, node), value in zip(self._inputs, flat):
            if not isinstance(value, (torch.Tensor, bool, int, float, str, type(None))):
                value = torch.as_tensor(value)
            _check_input(node.name, node.meta.get("val"), value, self._program.range_constraints)
            values[index] = value
        return [values[i] for i in range(len(values))]

    def _in_order(self, kwargs: dict[str, Any]) -> dict[str, Any]:
        names = self._spec.children()[1].context or []
        return {**{k: kwargs[k] for k in names if k in kwargs}, **{k: v for k, v in kwargs.items() if k not in names}}


def compile(program: ExportedProgram, **options: Any) -> ExportedNetwork:
    """Compiles a program of torch.export on its first call, and again for each new set of shapes if it was exported
    with dynamic ones.

    options: those of kilter.compile (threads, records, ...), and fallback=False, which raises UnsupportedError if
    anything would run in PyTorch, and cache_size=N, the number of sets of input shapes whose networks are kept (16).
    Raises UsageError for other programs and options, and UnsupportedError for programs that change their buffers or
    inputs.
    """
    return ExportedNetwork(program, Settings.of(options))


def _export_decompositions() -> dict[Any, Callable[..., Any]]:
    table = torch.export.default_decompositions()
    for op in list(table):
        if has_converter(op):
            table.pop(op)
    return table


def _weight_of(program: ExportedProgram, name: str) -> torch.Tensor:
    weight = program.state_dict.get(name)
    return program.constants[name] if weight is None else weight


def _check_outputs(program: ExportedProgram) -> None:
    for spec in program.graph_signature.output_specs:
        if spec.kind != OutputKind.USER_OUTPUT:
            raise UnsupportedError(f"kilter.torch.compile: the program changes '{spec.target}' ({spec.kind.name}); "
                                   f"only programs whose results are their outputs run: export the model after eval()")


def _check_input(name: str, fake: Any, value: Any, ranges: Any) -> None:
    """Checks an input against what was exported. Raises InputError."""
    if not isinstance(fake, torch.Tensor):
        return
    if not isinstance(value, torch.Tensor):
        raise InputError(f"input '{name}': got {type(value).__qualname__}; expected a tensor")
    if value.device.type != "cpu":
        raise InputError(f"input '{name}': the tensor is on device '{value.device}'; Kilter runs on the CPU, so move "
                         f"it there with .cpu()")
    if value.dtype != fake.dtype:
        raise InputError(f"input '{name}': element type {value.dtype}; the program was exported with {fake.dtype}")
    fits = value.dim() == fake.dim() and all(_fits(want, got, ranges) for want, got in zip(fake.shape, value.shape))
    if not fits:
        wanted = ", ".join(_dimension(d, ranges) for d in fake.shape)
        raise InputError(f"input '{name}': shape {list(value.shape)}; the program was exported with [{wanted}]")


def _range_of(dim: Any, ranges: Any) -> Any:
    return ranges.get(dim.node.expr)


def _fits(dim: Any, got: int, ranges: Any) -> bool:
    if isinstance(dim, int):
        return dim == got
    limits = _range_of(dim, ranges)
    return limits is None or bool(limits.lower <= got <= limits.upper)


def _dimension(dim: Any, ranges: Any) -> str:
    if isinstance(dim, int):
        return str(dim)
    limits = _range_of(dim, ranges)
    return str(dim) if limits is None else f"{dim} from {limits.lower} to {limits.upper}"


def _text(spec: Any) -> str:
    return f"{spec.num_leaves} leaves {pytree.treespec_pprint(spec)}"
