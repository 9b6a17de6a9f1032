"""ONNX's interface for backends (onnx.backend.base): prepare, run_model, run_node, is_compatible, supports_device.

    import onnx
    import kilter.onnx_backend as backend
    rep = backend.prepare(onnx.load("model.onnx"))
    scores, = rep.run([image])

The module and the class KilterBackend offer the same functions. They need the package onnx. The device is "CPU"; other
arguments are options of kilter.compile(), such as threads=2.
"""
from __future__ import annotations

from typing import Any, Mapping, Sequence

import numpy
import onnx
import onnx.shape_inference
from onnx.backend.base import Backend, BackendRep, namedtupledict

from .errors import InputError, ModelError, UnsupportedError, UsageError
from .graph import NEWEST_OPSET
from .network import Network
from .network import compile as _compile

__all__ = ["KilterBackend", "KilterRep", "is_compatible", "prepare", "run_model", "run_node", "supports_device"]


class KilterRep(BackendRep):
    """A model that is ready to run. `network` is its kilter.Network."""

    def __init__(self, network: Network):
        self.network = network
        self._outputs = namedtupledict("Outputs", [port.name for port in network.outputs])

    def run(self, inputs: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Runs the model once. inputs: values in the order of the graph's inputs, a mapping from their names, or one
        array for a model with one input. Values are arrays, lists of arrays for sequences, dicts for maps, and None
        for an optional value without content. Returns the outputs as a named tuple, which is indexed by names as well.

        Raises UsageError for any keyword argument, and InputError for inputs that do not fit.
        """
        if kwargs:
            raise UsageError(f"run: unknown argument '{next(iter(kwargs))}'; options belong to prepare()")
        if not isinstance(inputs, (Mapping, list, tuple)):
            inputs = [inputs]
        return self._outputs(*self.network.run(inputs).values())


class KilterBackend(Backend):
    """ONNX's Backend on Kilter. All methods are class methods, as ONNX calls them."""

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Returns whether a device, such as "CPU" or "CUDA:1", can run models: "CPU" and "CPU:0" can."""
        return device in ("CPU", "CPU:0")

    @classmethod
    def is_compatible(cls, model: onnx.ModelProto, device: str = "CPU", **kwargs: Any) -> bool:
        """Returns whether prepare() accepts a model on a device. Takes as long as prepare() does.

        False means that the model is invalid, or that Kilter cannot run it yet; prepare() says why. Raises UsageError
        for options that are not legal.
        """
        if not cls.supports_device(device):
            return False
        try:
            cls.prepare(model, device, **kwargs)
        except (ModelError, UnsupportedError):
            return False
        return True

    @classmethod
    def prepare(cls, model: onnx.ModelProto, device: str = "CPU", **kwargs: Any) -> KilterRep:
        """Prepares a model for running. kwargs: options of kilter.compile(). A model is compiled here if all its shapes
        are known, and otherwise on its first run. External data must have been loaded with the model, as onnx.load()
        does.

        Raises UsageError for another device or an illegal option, ModelError, UnsupportedError.
        """
        if not cls.supports_device(device):
            raise UsageError(f"device '{device}': Kilter runs ONNX models on 'CPU'")
        network = _compile(model, **kwargs)
        network._compile_if_static()
        return KilterRep(network)

    @classmethod
    def run_model(cls, model: onnx.ModelProto, inputs: Any, device: str = "CPU", **kwargs: Any) -> tuple[Any, ...]:
        """Prepares a model and runs it once. Arguments and results are those of prepare() and KilterRep.run()."""
        return cls.prepare(model, device, **kwargs).run(inputs)

    @classmethod
    def run_node(cls, node: onnx.NodeProto, inputs: Any, device: str = "CPU",
                 outputs_info: Sequence[tuple[Any, tuple[int, ...]]] | None = None, **kwargs: Any) -> tuple[Any, ...]:
        """Runs one operator on arrays, and returns its outputs as a named tuple, which is indexed by names as well.

        inputs: an array for each input that the node names, in order, or a mapping from names; a list of arrays for a
        sequence, a dict for a map. outputs_info: element type and shape of each output, which the results must have;
        needed for operators that the package onnx does not know. kwargs: opset_version, that of the node's domain
        (default: the newest that onnx and Kilter both know), and options of kilter.compile().

        Raises InputError if inputs are missing or outputs_info differs, and the exceptions of prepare() and run().
        """
        opset = kwargs.pop("opset_version", None)
        feeds = _node_feeds(node, inputs)
        expected = {name: (numpy.dtype(info[0]), tuple(info[1])) for name, info in zip(node.output, outputs_info or ())}
        model = _node_model(node, feeds, expected, opset or _newest_opset(node))
        results = cls.prepare(model, device, **kwargs).run(feeds)
        for name, (dtype, shape) in expected.items():
            if name and (dtype, shape) != (results[name].dtype, results[name].shape):
                raise InputError(f"{node.op_type}: output '{name}': outputs_info says {dtype}{list(shape)}, the "
                                 f"result is {results[name].dtype}{list(results[name].shape)}")
        return results


def _node_feeds(node: onnx.NodeProto, inputs: Any) -> dict[str, Any]:
    """Returns the arrays of a node's inputs by name."""
    names = list(dict.fromkeys(name for name in node.input if name))
    if not isinstance(inputs, Mapping):
        values = list(inputs) if isinstance(inputs, (list, tuple)) else [inputs]
        present = [name for name in node.input if name]
        if len(values) != len(present):
            raise InputError(
                f"{node.op_type}: {len(values)} inputs are given; expected {len(present)}: {', '.join(present)}")
        inputs = dict(zip(present, values))
    if set(inputs) != set(names):
        raise InputError(f"{node.op_type}: the inputs given are {', '.join(inputs)}; expected {', '.join(names)}")
    return {name: _feed(inputs[name]) for name in names}


def _feed(value: Any) -> Any:
    """Returns dicts unchanged, a list of arrays for a list of arrays, and otherwise an array; arrays of strings have
    objects as elements."""
    if isinstance(value, dict):
        return value
    if isinstance(value, list) and any(isinstance(element, numpy.ndarray) for element in value):
        return [_feed(element) for element in value]
    array = numpy.asarray(value)
    return array.astype(object) if array.dtype.kind in "US" else array


def _port(name: str, dtype: Any, shape: Sequence[int] | None) -> onnx.ValueInfoProto:
    return onnx.helper.make_tensor_value_info(name, onnx.helper.np_dtype_to_tensor_dtype(dtype), shape)


def _port_of(name: str, value: Any) -> onnx.ValueInfoProto:
    if isinstance(value, dict):
        types = [_element_type([*part]) for part in (value.keys(), value.values())]
        kind = onnx.helper.make_map_type_proto(types[0], onnx.helper.make_tensor_type_proto(types[1], None))
        return onnx.helper.make_value_info(name, kind)
    if not isinstance(value, list):
        return _port(name, value.dtype, value.shape)
    element = onnx.helper.np_dtype_to_tensor_dtype(value[0].dtype)
    return onnx.helper.make_tensor_sequence_value_info(name, element, None)


def _element_type(values: list[Any]) -> int:
    """Returns ONNX's number for the type of a map's keys or values: the type of an array of them, but float for
    Python's floats."""
    dtype = numpy.asarray(values).dtype
    if any(isinstance(value, float) and not isinstance(value, numpy.generic) for value in values):
        dtype = numpy.dtype(numpy.float32)
    return onnx.helper.np_dtype_to_tensor_dtype(numpy.dtype(object) if dtype.kind in "US" else dtype)


def _node_model(node: onnx.NodeProto, feeds: Mapping[str, Any], expected: Mapping[str, tuple[Any, Any]],
                opset: int) -> onnx.ModelProto:
    """Returns a model of one node. Types of its outputs are inferred or, if they cannot be, those expected."""
    ports = [_port_of(name, value) for name, value in feeds.items()]
    results = [onnx.helper.make_empty_tensor_value_info(name) for name in node.output if name]
    imports = [onnx.helper.make_opsetid(node.domain, opset)]
    if node.domain:
        imports.append(onnx.helper.make_opsetid("", min(NEWEST_OPSET, onnx.defs.onnx_opset_version())))
    graph = onnx.helper.make_graph([node], node.op_type, ports, results)
    model = onnx.shape_inference.infer_shapes(onnx.helper.make_model(graph, opset_imports=imports))
    for result in model.graph.output:
        if result.name in expected and not result.type.tensor_type.elem_type:
            result.CopyFrom(_port(result.name, expected[result.name][0], None))
    return model


def _newest_opset(node: onnx.NodeProto) -> int:
    """Returns the opset in which a node is read if none is given."""
    if not node.domain:
        return min(NEWEST_OPSET, onnx.defs.onnx_opset_version())
    known = onnx.defs.has(node.op_type, domain=node.domain)
    return onnx.defs.get_schema(node.op_type, domain=node.domain).since_version if known else 1


is_compatible = KilterBackend.is_compatible
prepare = KilterBackend.prepare
run_model = KilterBackend.run_model
run_node = KilterBackend.run_node
supports_device = KilterBackend.supports_device
