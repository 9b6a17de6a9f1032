"""Programs: FX graphs cut into pieces that run in Kilter and pieces that run in PyTorch."""
from __future__ import annotations

import logging
import re
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Mapping, Sequence

import torch
from torch import fx

from ..errors import Error, FileError, OutOfMemoryError, UnsupportedError, UsageError
from ..network import Network
from ..network import compile as compile_network
from . import operators
from ._conversion import Conversion, Refusal, converter_of, label_of, operator_name

__all__ = ["Program", "Settings"]

_log = logging.getLogger("kilter")
_told: set[str] = set()  # what has been reported in this process


@dataclass
class Settings:
    """How a graph is compiled."""

    #: whether PyTorch runs what Kilter cannot; if not, UnsupportedError is raised
    fallback: bool = True
    #: the number of sets of input shapes whose networks are kept
    cache_size: int = 16
    #: options of kilter.compile
    compile: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, options: Mapping[str, Any] | None) -> Settings:
        """Takes the settings from options; those that are not its own go to kilter.compile. Raises UsageError."""
        rest = dict(options or {})
        fallback, size = rest.pop("fallback", True), rest.pop("cache_size", 16)
        if not isinstance(fallback, bool):
            raise UsageError(f"option fallback: got {fallback!r}; expected True or False")
        if not isinstance(size, int) or isinstance(size, bool) or size < 1:
            raise UsageError(f"option cache_size: got {size!r}; expected a number of sets of shapes, 1 or more")
        return cls(fallback, size, rest)

    def tell(self, text: str, reasons: str) -> None:
        """Reports that PyTorch runs something, once for each set of reasons. Raises UnsupportedError if it must not."""
        if not self.fallback:
            raise UnsupportedError(f"{text}\n(fallback=False: nothing may run in PyTorch)")
        if reasons not in _told:
            _told.add(reasons)
            _log.warning("%s", text)


class _KilterPiece:
    """Nodes that run as one network."""

    def __init__(self, conversion: Conversion, wanted: Sequence[fx.Node], options: Mapping[str, Any]):
        self.outputs: list[tuple[str, fx.Node]] = []
        self.copies: list[tuple[fx.Node, fx.Node]] = []  # (node, the input that it equals)
        sources = {value.id: node for node, value in conversion.inputs.items()}
        for node in wanted:
            value = conversion.values[node]
            if value.id in sources:
                self.copies.append((node, sources[value.id]))
            else:
                conversion.graph.output(value, node.name)
                self.outputs.append((node.name, node))
        self.network: Network | None = None
        self.inputs: list[tuple[str, fx.Node]] = []
        if self.outputs:
            self.network = compile_network(conversion.graph, **options)
            self.network.conditions()
            names = {port.name for port in self.network.inputs}
            self.inputs = [(v.name, node) for node, v in conversion.inputs.items() if v.name in names]

    def run(self, values: dict[fx.Node, Any]) -> None:
        for node, source in self.copies:
            values[node] = values[source].clone(memory_format=torch.contiguous_format).view(node.meta["val"].shape)
        if self.network is None:
            return
        results = self.network.run({name: values[node].detach() for name, node in self.inputs})
        for name, node in self.outputs:
            values[node] = _tensor_of(results[name])


class _TorchPiece:
    """Nodes that PyTorch runs one by one."""

    def __init__(self, nodes: Sequence[fx.Node]):
        self.nodes = list(nodes)

    def run(self, values: dict[fx.Node, Any]) -> None:
        with torch.no_grad():
            for node in self.nodes:
                args = fx.map_arg(node.args, values.__getitem__)
                kwargs = fx.map_arg(node.kwargs, values.__getitem__)
                values[node] = node.target(*args, **kwargs)


class Program:
    """A graph of static shapes, compiled.

    `constants` are the tensors and numbers of those placeholders that are not fed. Nodes that Kilter refuses, and those
    of a network that it cannot compile, run in PyTorch; the reasons are reported once.
    """

    def __init__(self, module: fx.GraphModule, constants: Mapping[fx.Node, Any], settings: Settings, name: str):
        self._settings, self._name = settings, name
        nodes = list(module.graph.nodes)
        self.placeholders = [n for n in nodes if n.op == "placeholder"]
        self._work = [n for n in nodes if n.op not in ("placeholder", "get_attr", "output")]
        self._results = nodes[-1].args[0]
        self.constants: dict[fx.Node, Any] = {**constants, **{
            n: _attribute(module, n.target) for n in nodes if n.op == "get_attr"}}
        self.refused: dict[fx.Node, str] = {}
        self.pieces: list[_KilterPiece | _TorchPiece] = []
        self._build()
        self._report()

    def run(self, args: Sequence[Any]) -> list[Any]:
        """Runs the program on the values of the graph's placeholders. Returns those of its outputs."""
        values = dict(self.constants)
        for node, value in zip(self.placeholders, args):
            if node not in values:
                values[node] = value
        for piece in self.pieces:
            piece.run(values)
        return [self._result(values, r) for r in self._results]

    def _result(self, values: Mapping[fx.Node, Any], result: Any) -> Any:
        """Returns the value of an output. Constants are copied, since the caller may write to what it gets."""
        value = values[result] if isinstance(result, fx.Node) else result
        return value.clone() if isinstance(value, torch.Tensor) and result in self.constants else value

    @property
    def networks(self) -> list[Network]:
        """The networks of the pieces that run in Kilter."""
        return [p.network for p in self.pieces if isinstance(p, _KilterPiece) and p.network is not None]

    # --- compilation ---

    def _build(self) -> None:
        whole = self._try_nodes()
        compiled: dict[tuple[fx.Node, ...], _KilterPiece] = {}
        while not self._try_pieces(whole, compiled):
            pass

    def _try_nodes(self) -> Conversion:
        """Converts the whole graph, and records which nodes are refused and which are constant."""
        conversion = Conversion(self._name, self.constants)
        for node in self._work:
            try:
                if node.op != "call_function":
                    raise Refusal("only calls of functions are converted")
                conversion.add(node)
            except Refusal as why:
                self.refused[node] = str(why)
                conversion.add_input(node)
                continue
            if _is_constant(conversion.values[node]):
                self.constants[node] = conversion.values[node]
        return conversion

    def _try_pieces(self, whole: Conversion, compiled: dict[tuple[fx.Node, ...], _KilterPiece]) -> bool:
        """Cuts the graph into pieces and compiles those that are new. Returns whether Kilter accepted all of them."""
        self.pieces = []
        for nodes, in_kilter in self._cut():
            wanted = self._wanted(nodes)
            if not wanted:
                continue
            if not in_kilter:
                self.pieces.append(_TorchPiece(nodes))
                continue
            key = tuple(nodes)
            if key not in compiled:
                conversion = self._convert(nodes) if self.refused else whole
                try:
                    compiled[key] = _KilterPiece(conversion, wanted, self._settings.compile)
                except (UsageError, FileError, OutOfMemoryError):
                    raise
                except Error as why:
                    self._refuse(nodes, conversion, str(why))
                    return False
            self.pieces.append(compiled[key])
        return True

    def _convert(self, nodes: Sequence[fx.Node]) -> Conversion:
        conversion = Conversion(self._name, self.constants)
        for node in nodes:
            conversion.add(node)
        return conversion

    def _refuse(self, nodes: Sequence[fx.Node], conversion: Conversion, why: str) -> None:
        """Marks the node that a message names as refused; all of the piece if it names none."""
        for quoted in re.findall(r"'([^']+)'", why):
            named = [label for label in conversion.labels if quoted == label or quoted.startswith(label + "_")]
            node = conversion.labels[max(named, key=len)] if named else None
            if node is not None and node not in self.refused:
                self.refused[node] = why
                return
        for node in nodes:
            self.refused[node] = why

    def _cut(self) -> list[tuple[list[fx.Node], bool]]:
        """Returns pieces, in an order in which they can run: their nodes, and whether they run in Kilter.

        The stage of a node is the earliest that its operands allow; even ones run in Kilter, odd ones in PyTorch.
        """
        stages: dict[fx.Node, int] = {}
        for node in self._work:
            if node in self.constants:
                continue
            inputs = [i for i in node.all_input_nodes if i in stages]
            if _is_getitem(node) and node.args[0] in stages:
                stages[node] = stages[node.args[0]]
                continue
            earliest = max((stages[i] for i in inputs), default=0)
            odd = node in self.refused
            stages[node] = earliest + ((earliest % 2 == 1) != odd)
        pieces: dict[int, list[fx.Node]] = {}
        for node, stage in stages.items():
            pieces.setdefault(stage, []).append(node)
        return [(nodes, stage % 2 == 0 and (not self.refused or _is_worthwhile(nodes)))
                for stage, nodes in sorted(pieces.items())]

    def _wanted(self, nodes: Sequence[fx.Node]) -> list[fx.Node]:
        """Returns the nodes of a piece whose values others read."""
        inside = set(nodes)
        return [n for n in nodes if any(user not in inside and user not in self.constants for user in n.users)]

    def _report(self) -> None:
        if not self.refused:
            return
        reasons: Counter[str] = Counter()
        example: dict[str, str] = {}
        for node, why in self.refused.items():
            text = f"{operator_name(node)}: {why}"
            reasons[text] += 1
            example.setdefault(text, _place_of(node))
        lines = [f"  {count} x {text} ({'such as' if count > 1 else 'at'} {example[text]})"
                 for text, count in reasons.items()]
        self._settings.tell(f"{self._name}: {len(self.refused)} of {len(self._work)} nodes cannot run in Kilter, so "
                            f"PyTorch runs them:\n" + "\n".join(lines), repr(sorted(example.items())))


def _place_of(node: fx.Node) -> str:
    """Returns a node's name, and its line in the model's source if that is known."""
    trace = re.findall(r'File "([^"]+)", line (\d+)', node.meta.get("stack_trace") or "")
    where = f", {trace[-1][0].rpartition('/')[2]}:{trace[-1][1]}" if trace else ""
    return f"{label_of(node)}{where}"


def _is_getitem(node: fx.Node) -> bool:
    return getattr(node.target, "__name__", "") == "getitem"


def _is_constant(value: Any) -> bool:
    if isinstance(value, (tuple, list)):
        return all(_is_constant(v) for v in value)
    return value is None or isinstance(value, (torch.Tensor, bool, int, float))


def _is_worthwhile(nodes: Sequence[fx.Node]) -> bool:
    """Whether nodes compute anything, instead of only moving elements."""
    return any(converter_of(n) is not None and converter_of(n).__module__ != operators.shape.__name__ for n in nodes)


def _attribute(module: torch.nn.Module, path: str) -> Any:
    for name in path.split("."):
        module = getattr(module, name)
    return module


def _tensor_of(array: Any) -> torch.Tensor:
    """Returns a tensor over the memory of an array."""
    if array.dtype.name in ("bfloat16", "uint16"):
        return torch.from_numpy(array.view("int16")).view(torch.bfloat16)
    return torch.from_numpy(array)
