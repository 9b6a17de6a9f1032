"""Functions of tensors, compiled for each set of input shapes and each set of weights that they are called with."""
from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Any, Sequence

import torch
from torch import fx
from torch.fx.passes.fake_tensor_prop import FakeTensorProp

from ._program import Program, Settings

__all__ = ["CompiledFunction"]

#: sets of weights whose networks are kept: layers that share their code but not their weights use one function
_WEIGHT_SETS = 256


class _Weights:
    """A set of weights, as they were when they became constants."""

    def __init__(self, tensors: Sequence[torch.Tensor]):
        self.tensors = list(tensors)  # also keeps their ids from being reused
        self._counted = [t for t in tensors if not t.is_inference()]  # inference tensors count no versions
        self._versions, self._places = self._state()
        self.programs: OrderedDict[Any, Program] = OrderedDict()

    def changed(self) -> bool:
        """Whether one of them was written to, or got other memory."""
        return self._state() != (self._versions, self._places)

    def _state(self) -> tuple[list[int], list[int]]:
        return [t._version for t in self._counted], [t.data_ptr() for t in self.tensors]


class CompiledFunction:
    """A graph of ATen operators that is compiled on its first call, and again for each new set of shapes.

    `static` are the positions of inputs that become constants of the network: weights. If one of them is changed or
    replaced, the network is compiled again. At most `settings.cache_size` sets of shapes are kept for a set of weights.
    """

    def __init__(self, module: fx.GraphModule, static: Sequence[int], settings: Settings, name: str):
        self._module, self._settings, self._name = module, settings, name
        placeholders = [n for n in module.graph.nodes if n.op == "placeholder"]
        self._static = sorted(static)
        chosen = set(self._static)
        self._fed = [i for i in range(len(placeholders)) if i not in chosen]
        self._symbolic = any(_is_symbolic(n.meta.get("val")) for n in placeholders)
        self._weights: OrderedDict[tuple[int, ...], _Weights] = OrderedDict()
        self._lock = threading.Lock()

    def __call__(self, args: Sequence[Any]) -> list[Any]:
        """Runs the graph on the values of its placeholders. Returns those of its outputs."""
        return self.program(args).run(args)

    def program(self, args: Sequence[Any]) -> Program:
        """Returns the program for these inputs, which is compiled if it is new."""
        with self._lock:
            weights = self._weights_of([args[i] for i in self._static])
            shapes = tuple(_shape_key(args[i]) for i in self._fed) if self._symbolic else ()
            program = weights.programs.get(shapes)
            if program is None:
                program = weights.programs[shapes] = self._compile(args)
                if len(weights.programs) > self._settings.cache_size:
                    weights.programs.popitem(last=False)
            elif self._symbolic:
                weights.programs.move_to_end(shapes)
            return program

    def cached(self) -> int:
        """Returns the number of programs that are kept."""
        return sum(len(w.programs) for w in self._weights.values())

    def _weights_of(self, tensors: Sequence[torch.Tensor]) -> _Weights:
        key = tuple(map(id, tensors))
        weights = self._weights.get(key)
        if weights is None or weights.changed():
            weights = self._weights[key] = _Weights(tensors)
            if len(self._weights) > _WEIGHT_SETS:
                self._weights.popitem(last=False)
        return weights

    def _compile(self, args: Sequence[Any]) -> Program:
        module = _specialised(self._module, args) if self._symbolic else self._module
        placeholders = [n for n in module.graph.nodes if n.op == "placeholder"]
        constants = {placeholders[i]: args[i] for i in self._static}
        constants.update({n: a for n, a in zip(placeholders, args) if not isinstance(a, torch.Tensor)})
        return Program(module, constants, self._settings, self._name)


def _shape_key(value: Any) -> Any:
    return tuple(value.shape) if isinstance(value, torch.Tensor) else value


def _is_symbolic(fake: Any) -> bool:
    if isinstance(fake, torch.Tensor):
        return any(not isinstance(d, int) for d in fake.shape)
    return isinstance(fake, (torch.SymInt, torch.SymFloat, torch.SymBool))


def _specialised(module: fx.GraphModule, args: Sequence[Any]) -> fx.GraphModule:
    """Returns a copy of the graph whose nodes have the shapes that these inputs give them."""
    graph = fx.Graph()
    copied: dict[fx.Node, fx.Node] = {}
    graph.output(graph.graph_copy(module.graph, copied))
    special = fx.GraphModule(module, graph)
    with torch.no_grad():
        FakeTensorProp(special).propagate(*args)
    return special
