"""InferenceSession: ONNX Runtime's class over a kilter.Network."""
from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Callable, Iterable, Mapping, Sequence

from .. import _kilter
from ..errors import Error, InputError, UnsupportedError
from ..network import Network, Port, load
from . import _environment as environment
from ._binding import IOBinding
from ._exceptions import Fail, IllegalOption, IllegalUse, InvalidArgument, NotImplemented, WrongType, translated
from ._metadata import ModelFacts, ModelMetadata, facts_of, facts_of_file
from ._options import ExecutionMode, GraphOptimizationLevel, RunOptions, SessionOptions
from ._profiling import SECONDS, Profiler
from ._values import OrtValue, described, feed_of, type_text

#: the passes that combine several nodes into one kernel
_FUSION = ("fuse", "fuse_depthwise", "fuse_row_means", "fuse_channel_scale")
#: how compiled files begin
_COMPILED = b"KILTER"
#: the entry that names the folder of external data for a model given as bytes
_FOLDER_ENTRY = "session.model_external_initializers_file_folder_path"


class NodeArg:
    """An input or output of a model."""

    __slots__ = ("name", "type", "shape")

    def __init__(self, port: Port, shape: Iterable[int | str | None]):
        self.name: str = port.name
        #: the type as ONNX Runtime writes it, such as "tensor(float)"
        self.type: str = type_text(port)
        #: the dimensions: an int, the name of an open dimension, or None; [] for an unknown rank
        self.shape: list[int | str | None] = list(shape)

    def __str__(self) -> str:
        return f"NodeArg(name={self.name!r}, type={self.type!r}, shape={self.shape!r})"

    __repr__ = __str__


class _BytesModel:
    """The bytes of a model, parsed once for all networks created from them."""

    def __init__(self, data: bytes, folder: str):
        self._memory = _kilter.model_of_bytes(data, "model", folder)

    def _memory_model(self) -> Any:
        return self._memory


class InferenceSession:
    """A model that is ready to run, with the methods of ONNX Runtime's class.

    path_or_bytes: path of an .onnx file, the bytes of a model, or anything else that kilter.compile() accepts, such as
    "zoo:resnet18" or a file made by `kilter compile`. providers: names; those other than CPUExecutionProvider cause one
    warning. A model whose input shapes are known is compiled here; others are compiled in the first run with each set
    of shapes. Several threads may call one session; their runs take place one after another.

    Raises NoSuchFile, InvalidProtobuf, InvalidGraph, NotImplemented (an operator that Kilter lacks), InvalidArgument
    (options), and WrongType, which is also a TypeError, for another type of model or options.
    """

    def __init__(self, path_or_bytes: Any, sess_options: SessionOptions | None = None,
                 providers: Sequence[str | tuple[str, dict[Any, Any]]] | None = None,
                 provider_options: Sequence[dict[Any, Any]] | None = None, **kwargs: Any):
        if sess_options is not None and not isinstance(sess_options, SessionOptions):
            raise WrongType(f"sess_options: expected SessionOptions, got {type(sess_options).__name__}")
        environment.check_providers(providers, provider_options, 2)
        self._options: SessionOptions = sess_options._copy() if sess_options is not None else SessionOptions()
        self._profiler = Profiler(self._options.profile_file_prefix) if self._options.enable_profiling else None
        # its thread starts with the first run_async()
        self._callbacks = ThreadPoolExecutor(1, thread_name_prefix="kilter-onnxruntime")
        model, path = _model_of(path_or_bytes, self._options)
        try:
            begin = self._profiler.now() if self._profiler else 0
            self._open(model, _facts(path_or_bytes, path))
            self._span("model_loading_uri" if path else "model_loading_array", begin)
            begin = self._profiler.now() if self._profiler else 0
            self._prepare()
            self._span("session_initialization", begin)
        except Error as error:
            raise translated(error, path) from None
        self._report()

    # --- opening ---

    def _open(self, model: Any, facts: ModelFacts) -> None:
        options = _network_options(self._options)
        if _is_compiled(model):  # ONNX Runtime's users load an optimised model with ORT_DISABLE_ALL
            options.pop("disable", None)
        network = load(model, **options)
        self._metadata = facts.metadata
        self._metadata.graph_name = self._metadata.graph_name or network.name
        sizes = self._sizes(network, facts)
        self._input_shapes = {p.name: self._overridden(p, sizes) for p in network.inputs}
        self._output_shapes = {p.name: self._overridden(p, sizes) for p in network.outputs}
        #: shapes by name that runs must have because of overrides
        self._fixed = {p.name: self._input_shapes[p.name] for p in network.inputs
                       if p.shape is not None and self._input_shapes[p.name] != p.shape}
        self._static = all(_is_static(shape) for shape in self._input_shapes.values())
        shapes = {name: shape for name, shape in self._fixed.items() if _is_static(shape)}
        if shapes:
            network = load(model, shapes=shapes, **options)
        self._network = network
        self._name = network.name
        self._defaults = [Port(*p) for p in network._net.default_inputs]
        self._required = [p.name for p in network.inputs if not p.kind.startswith("optional")]
        self._feed_ports = {p.name: p for p in [*network.inputs, *self._defaults]}
        self._output_index = {p.name: i for i, p in enumerate(network.outputs)}
        self._output_ports = network.outputs

    def _sizes(self, network: Network, facts: ModelFacts) -> dict[str | tuple[str, int], int]:
        """Returns the sizes of free dimensions, by name, and by input and axis for those found by denotation."""
        sizes: dict[str | tuple[str, int], int] = dict(self._options._dims_by_name)
        by_denotation = self._options._dims_by_denotation
        sizes.update({place: by_denotation[d] for place, d in facts.denotations.items() if d in by_denotation})
        names = {d for p in network.inputs for d in p.shape or () if isinstance(d, str)}
        for name in self._options._dims_by_name:
            if name not in names:
                legal = ", ".join(sorted(names)) or "none"
                self._log(2, f"{network.name}: no input has a dimension '{name}' to override; open dimensions are "
                             f"named {legal}")
        return sizes

    @staticmethod
    def _overridden(port: Port, sizes: Mapping[str | tuple[str, int], int]) -> tuple[int | str | None, ...] | None:
        if port.shape is None:
            return None
        return tuple(d if isinstance(d, int) else sizes.get((port.name, axis), sizes.get(d, d))
                     for axis, d in enumerate(port.shape))

    def _prepare(self) -> None:
        """Compiles the network if that needs no tensors; otherwise looks for operators that Kilter lacks."""
        try:
            self._network.conditions()
        except InputError:
            pass  # a shape is open: the first run has it
        except UnsupportedError as error:
            if "missing from Kilter" in str(error):
                raise
            # a shape or a branch depends on the values of inputs: the first run has them, or raises this again
        path = self._options.optimized_model_filepath
        if path and not self._static:
            open_inputs = [str(p) for p in self._network.inputs if not _is_static(self._input_shapes[p.name])]
            raise IllegalOption(f"optimized_model_filepath: Kilter writes machine code for fixed shapes, and those of "
                                f"{', '.join(open_inputs)} are open; fix them with add_free_dimension_override_by_name")
        if path:
            self._network.save(path)

    def _report(self) -> None:
        if self._network.note:
            self._log(2, self._network.note)
        if self._options.execution_mode is ExecutionMode.ORT_PARALLEL:
            self._log(1, f"{self._name}: ORT_PARALLEL has no effect; nodes run one at a time, each on all threads")

    def _log(self, severity: int, text: str) -> None:
        environment.log(severity, self._options.log_severity_level, text)

    def _span(self, name: str, begin: int) -> None:
        if self._profiler:
            self._profiler.span(name, begin)

    # --- running ---

    def run(self, output_names: Sequence[str] | None, input_feed: Mapping[str, Any],
            run_options: RunOptions | None = None) -> list[Any]:
        """Runs the model once. Returns the named outputs, in that order, or all outputs if none are named.

        Inputs are numpy.ndarrays, lists, OrtValues, or anything else with DLPack. A sequence is a list of these, a map
        is a dict, and an optional input may be None or missing. Sequences are returned as lists, maps as dicts, texts
        as arrays of objects, and optional values without content as None. Raises InvalidArgument if one is missing,
        unknown, or has the wrong element type or shape, or for an unknown output.
        """
        picked = self._picked(output_names)
        _check_run_options(run_options)
        results = self._execute(self._feeds(input_feed), None)
        return results if picked is None else [results[i] for i in picked]

    def run_async(self, output_names: Sequence[str] | None, input_feed: Mapping[str, Any],
                  callback: Callable[[Sequence[Any], Any, str], None], user_data: Any,
                  run_options: RunOptions | None = None) -> None:
        """Runs the model once on another thread, which then calls callback(outputs, user_data, error). `error` is "",
        or the message of what went wrong, with no outputs. Errors in the names are raised at once."""
        picked = self._picked(output_names)
        _check_run_options(run_options)
        feeds = self._feeds(input_feed)
        self._callbacks.submit(self._run_and_call, picked, feeds, callback, user_data)

    def _run_and_call(self, picked: list[int] | None, feeds: dict[str, Any],
                      callback: Callable[[Sequence[Any], Any, str], None], user_data: Any) -> None:
        try:
            results, error = self._execute(feeds, None), ""
            results = results if picked is None else [results[i] for i in picked]
        except Error as failure:
            results, error = [], getattr(failure, "text", str(failure))
        try:
            callback(results, user_data, error)
        except Exception:  # noqa: BLE001, there is nobody to raise it to
            environment.LOGGER.exception("%s: the callback of run_async failed", self._name)

    def run_with_ort_values(self, output_names: Sequence[str] | None, input_dict_ort_values: Mapping[str, OrtValue],
                            run_options: RunOptions | None = None) -> list[OrtValue]:
        """Runs the model once on OrtValues. Returns the named outputs, in that order, or all outputs, as OrtValues."""
        for name, value in input_dict_ort_values.items():
            if not isinstance(value, OrtValue):
                raise WrongType(f"input '{name}': expected an OrtValue, got {described(value)}; "
                                "OrtValue.ortvalue_from_numpy creates one")
        picked = self._picked(output_names)
        _check_run_options(run_options)
        results = self._execute(self._feeds(input_dict_ort_values), None)
        return [OrtValue._of_result(results[i], self._output_ports[i]) for i in picked or range(len(results))]

    def io_binding(self) -> IOBinding:
        """Returns a binding of this session's inputs and outputs to memory, with nothing bound yet."""
        return IOBinding(self)

    def run_with_iobinding(self, iobinding: IOBinding, run_options: RunOptions | None = None) -> None:
        """Runs the model once on the inputs of a binding of this session, into its outputs."""
        if iobinding._session is not self:
            raise IllegalUse(f"{self._name}: the binding belongs to another session, of '{iobinding._session._name}'")
        _check_run_options(run_options)
        iobinding._run()

    def _feeds(self, input_feed: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the value to pass to Kilter for each input. Raises InvalidArgument for missing and unknown names."""
        if not hasattr(input_feed, "keys"):
            raise WrongType(f"{self._name}: inputs: expected a dict of arrays by name, got {described(input_feed)}; "
                            f"the inputs are {', '.join(self._required)}")
        for name in self._required:
            if name not in input_feed:
                missing = ", ".join(f"'{n}'" for n in self._required if n not in input_feed)
                raise InvalidArgument(f"{self._name}: input {missing} is missing; given are "
                                      f"{', '.join(map(str, input_feed)) or 'none'}")
        ports = self._feed_ports
        feeds = {}
        for name, value in input_feed.items():
            if name not in ports:
                raise InvalidArgument(f"{self._name}: no input '{name}'; legal values are {', '.join(ports)}")
            feeds[name] = feed_of(name, value, ports[name])
        if self._fixed:
            self._check_fixed(feeds)
        return feeds

    def _check_fixed(self, feeds: Mapping[str, Any]) -> None:
        for name, expected in self._fixed.items():
            shape = getattr(feeds.get(name), "shape", None)
            if shape is None or len(shape) != len(expected):
                continue  # the run reports the error
            for axis, (size, got) in enumerate(zip(expected, shape)):
                if isinstance(size, int) and size != got:
                    raise InvalidArgument(f"{self._name}: input '{name}': dimension {axis} is {size} by the session's "
                                          f"options and the model, got {got}")

    def _picked(self, output_names: Sequence[str] | None) -> list[int] | None:
        """Returns the positions of the named outputs; None for all."""
        if not output_names:
            return None
        if isinstance(output_names, str) or not all(isinstance(name, str) for name in output_names):
            raise WrongType(f"{self._name}: output names: expected a list of str, got {output_names!r}")
        for name in output_names:
            if name not in self._output_index:
                legal = ", ".join(self._output_index)
                raise InvalidArgument(f"{self._name}: no output '{name}'; legal values are {legal}")
        return [self._output_index[name] for name in output_names]

    def _execute(self, feeds: dict[str, Any], out: dict[str, Any] | None) -> list[Any]:
        try:
            if self._profiler is None:
                return self._network._net.run(feeds, out)
            begin = self._profiler.now()
            results = self._network._net.run(feeds, out)
            self._profiler.span("model_run", begin)
            self._profiler.feeds = feeds
            return results
        except Error as error:
            raise translated(error) from None

    # --- what it is ---

    def get_inputs(self) -> list[NodeArg]:
        """Returns the inputs that have no default value."""
        return [NodeArg(p, _shape_of(p, self._input_shapes)) for p in self._network.inputs]

    def get_outputs(self) -> list[NodeArg]:
        """Returns the outputs."""
        return [NodeArg(p, _shape_of(p, self._output_shapes)) for p in self._network.outputs]

    def get_overridable_initializers(self) -> list[NodeArg]:
        """Returns the inputs that have a default value."""
        return [NodeArg(p, p.shape or ()) for p in self._defaults]

    def get_modelmeta(self) -> ModelMetadata:
        """Returns what the model says about itself."""
        return self._metadata

    def get_session_options(self) -> SessionOptions:
        """Returns a copy of the session's options."""
        return self._options._copy()

    def get_providers(self) -> list[str]:
        """Returns the providers in use: ["CPUExecutionProvider"]."""
        return [environment.CPU]

    def get_provider_options(self) -> dict[str, dict[str, str]]:
        """Returns the options of the providers in use; the CPU's has none."""
        return {environment.CPU: {}}

    def set_providers(self, providers: Sequence[Any] | None = None,
                      provider_options: Sequence[Any] | None = None) -> None:
        """Checks the providers, and warns about those that are not the CPU's. The session stays on the CPU."""
        environment.check_providers(providers, provider_options, 2)

    def disable_fallback(self) -> None:
        """Has no effect: a session that cannot be created on the CPU raises the reason."""

    def enable_fallback(self) -> None:
        """Has no effect: a session that cannot be created on the CPU raises the reason."""

    def get_tuning_results(self) -> list[Any]:
        """Returns []: tuning records are in files, which the entry "kilter.records" names."""
        return []

    def set_tuning_results(self, results: Any, *, error_on_invalid: bool = False) -> None:
        """Refuses tuning results of ONNX Runtime's providers."""
        raise NotImplemented("tuning results: Kilter takes tuning records from a file, which the configuration entry "
                             "'kilter.records' of SessionOptions names")

    # --- profiling ---

    def get_profiling_start_time_ns(self) -> int:
        """Returns when profiling began, in nanoseconds since 1970; 0 if it is not enabled."""
        return self._profiler.start_ns if self._profiler else 0

    def end_profiling(self) -> str:
        """Measures the layers on the inputs of the last run, writes the profile, and returns the file's name; "" if
        profiling is not enabled or has ended."""
        profiler, self._profiler = self._profiler, None
        if profiler is None:
            return ""
        seconds = self._options._entries.get("kilter.profile_seconds", SECONDS)
        try:
            return profiler.finish(self._network, seconds, self._static)
        except Error as error:
            raise translated(error) from None


def _is_compiled(model: Any) -> bool:
    """Returns whether a model is a compiled file or its bytes."""
    if isinstance(model, str) and os.path.isfile(model):
        with open(model, "rb") as file:
            model = file.read(len(_COMPILED))
    return isinstance(model, bytes) and model.startswith(_COMPILED)


def _model_of(model: Any, options: SessionOptions) -> tuple[Any, str | None]:
    """Returns what Network accepts for a model, and its path if it is a file."""
    if isinstance(model, bytes) and not _is_compiled(model):
        try:
            return _BytesModel(model, options._entries.get(_FOLDER_ENTRY, "")), None
        except Error as error:
            raise translated(error) from None
    if isinstance(model, bytes) or hasattr(model, "_memory_model") or hasattr(model, "SerializeToString"):
        return model, None
    if not isinstance(model, (str, os.PathLike)):
        raise WrongType(f"model: expected a path, 'zoo:NAME', the bytes of a model, an onnx.ModelProto or a "
                        f"kilter.graph.Graph, got {type(model).__name__}")
    path = os.fspath(model)
    if path.endswith(".ort") or options._entries.get("session.load_model_format") == "ORT":
        raise NotImplemented(
            f"{path}: models in ONNX Runtime's own format cannot be read; use the .onnx file that it was made from")
    return path, path


def _facts(model: Any, path: str | None) -> ModelFacts:
    if path is not None:
        return facts_of_file(path) if os.path.isfile(path) else ModelFacts()
    if isinstance(model, bytes):
        return facts_of(model)
    if hasattr(model, "_memory_model"):  # a kilter.graph.Graph, which takes any other name for an operator
        return ModelFacts()
    return facts_of(model.SerializeToString())


def _network_options(options: SessionOptions) -> dict[str, Any]:
    """Returns options of kilter.compile() for those of a session."""
    found: dict[str, Any] = {}
    own = options.use_per_session_threads or options.intra_op_num_threads > 0
    threads = options.intra_op_num_threads if own else environment.global_threads()
    if threads > 0:
        found["threads"] = threads
    if options.graph_optimization_level is GraphOptimizationLevel.ORT_DISABLE_ALL:
        found["disable"] = list(_FUSION)
    for key, value in options._entries.items():
        if key.startswith("kilter.") and key != "kilter.profile_seconds":
            name = key.removeprefix("kilter.").replace("-", "_")
            found[name] = {"true": True, "false": False}.get(value, value)
    return found


def _shape_of(port: Port, shapes: Mapping[str, tuple[int | str | None, ...] | None]) -> Iterable[int | str | None]:
    """Returns the dimensions that ONNX Runtime shows for a port: none for a sequence, whose elements may differ."""
    return () if port.kind.endswith("sequence") else shapes[port.name] or ()


def _is_static(shape: tuple[int | str | None, ...] | None) -> bool:
    return shape is not None and all(isinstance(d, int) for d in shape)


def _check_run_options(options: RunOptions | None) -> None:
    if options is None:
        return
    if not isinstance(options, RunOptions):
        raise WrongType(f"run_options: expected RunOptions, got {described(options)}")
    if options.terminate:
        raise Fail("the run was not begun, because terminate is set in its RunOptions")
