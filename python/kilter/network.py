"""Networks: compile() and load() create them; calling one runs it."""
from __future__ import annotations

import asyncio
import os
import queue
import weakref
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Callable, Iterator, Mapping, NamedTuple, Sequence

from . import _kilter
from ._commands import Unnamed, with_names, words_of
from ._commands import run as run_command
from .errors import Error, InputError, UnsupportedError, UsageError

__all__ = ["Network", "PlansAhead", "Pool", "Port", "compile", "load"]

Progress = Callable[[str], None]

# How a compiled file begins.
_COMPILED = b"KILTER"


class _PortFields(NamedTuple):
    name: str
    #: the element type: "f32", "i64", "bool", "str", ...
    dtype: str
    #: the dimensions: an int, the name of an open dimension, or None; None for an unknown rank
    shape: tuple[int | str | None, ...] | None
    #: "tensor", "map" (a dict), "sequence" (a list of arrays or dicts), "optional" (an array, a dict or None),
    #: "optional sequence"
    kind: str = "tensor"


class Port(_PortFields):
    """An input or output of a network: a tuple of name, dtype, shape and kind."""

    #: the type of the keys, "i64" or "str", of a map or of the maps in a sequence, whose values then have dtype
    key: str | None = None
    #: of an input, the sizes that each dimension may have: an int, a range or a list; None if none are declared
    ranges: tuple[int | range | list[int], ...] | None = None

    def __new__(cls, name: str, dtype: str, shape: tuple[int | str | None, ...] | None, kind: str = "tensor",
                key: str | None = None) -> Port:
        port = super().__new__(cls, name, dtype, shape, kind)
        port.key = key
        return port

    def __str__(self) -> str:
        dims = "unknown rank" if self.shape is None else ",".join("?" if d is None else str(d) for d in self.shape)
        kind = {"tensor": "", "map": "", "optional": "optional "}.get(self.kind, self.kind + " of ")
        if self.key is not None:
            return f"{self.name}: {kind}{'maps' if kind.endswith('of ') else 'map'} from {self.key} to {self.dtype}"
        return f"{self.name}: {kind}{self.dtype}[{dims}]"


class PlansAhead(NamedTuple):
    """The progress of plans that are compiled in the background."""
    #: how many of the `of` plans have been compiled
    made: int
    of: int
    #: whether no more will be compiled
    ended: bool


class _Source:
    """A model in a form that commands accept: a word that names it, and what keeps the name valid."""

    def __init__(self, model: Any):
        self.memory: Any = None
        self.title = ""
        if hasattr(model, "_memory_model"):  # kilter.graph.Graph
            self.memory = model._memory_model()
            self.word = Unnamed(self.memory.name, getattr(model, "name", "model"))
        elif isinstance(model, (bytes, bytearray, memoryview)):
            data = bytes(model)
            if data.startswith(_COMPILED):
                self._from_compiled(data)
            else:
                self._from_bytes(data, "model")
        elif hasattr(model, "SerializeToString"):  # onnx.ModelProto
            self._from_bytes(model.SerializeToString(), getattr(getattr(model, "graph", None), "name", "") or "model")
        elif isinstance(model, (str, os.PathLike)):
            self.word = os.fspath(model)
            if not isinstance(self.word, str):
                self.word = os.fsdecode(self.word)
        else:
            raise UsageError(
                f"model: expected a path, 'zoo:NAME', the bytes of a model, an onnx.ModelProto or a "
                f"kilter.graph.Graph, got {type(model).__qualname__}")

    def _from_bytes(self, data: bytes, name: str) -> None:
        self.memory = _kilter.model_of_bytes(data, name)
        self.word = Unnamed(self.memory.name, name)

    def _from_compiled(self, data: bytes) -> None:
        """Keeps a compiled file in an anonymous in-memory file, which commands can open too."""
        handle = os.memfd_create("kilter-compiled")
        weakref.finalize(self, os.close, handle)
        with open(handle, "wb", closefd=False) as file:
            file.write(data)
        self.title = "compiled"
        self.word = Unnamed(f"/proc/self/fd/{handle}", f"of {len(data)} bytes")


class Network:
    """A network, compiled for each set of shapes that it runs with.

    Call it with arrays in the order of its inputs or by name: net(image), net(ids=ids, mask=mask). Arrays are
    numpy.ndarray, torch.Tensor on the CPU, or anything else with DLPack or the buffer protocol; dense ones are not
    copied. Strings are arrays of str, bytes or objects, sequences are lists, maps are dicts, and an optional value may
    be None. The result is a numpy.ndarray, or a tuple of them for several outputs; a list for a sequence, a dict for a
    map, None for an optional value without content, an array of objects for strings. Memory of an output is reused by
    later runs once no array refers to it.

    Several threads may call one network; their calls run one after another. pool() gives networks that run side by
    side. The interpreter's lock is released during runs.
    """

    def __init__(self, model: Any, *, shapes: Any = None, progress: Progress | None = None, **options: Any):
        self._model = model
        self._options = dict(options)
        if shapes is not None:
            fixed, ranges = _shapes_of(shapes)
            if fixed:
                self._options["input"] = {**fixed, **self._options.get("input", {})}
            if ranges:
                self._options["shapes"] = ranges
        self._source = _Source(model)
        try:
            self._adopt(_kilter.Network([self._source.word, *words_of(self._options)], self._source.memory, progress))
        except Error as error:
            raise type(error)(with_names(str(error), [self._source.word])) from None

    def _adopt(self, net: Any) -> None:
        self._net = net
        self._last_shapes: dict[str, tuple[int, ...]] = {}  # of the last run, for inputs with open dimensions
        self._read_ports()

    def _read_ports(self) -> None:
        """Reads the inputs and outputs of a run, and the pairs and initial values of the state if there is any."""
        self._binding: tuple[dict[str, str], dict[str, Any]] | None = self._net.binding
        self.inputs: list[Port] = [Port(*p) for p in self._net.inputs]
        self.outputs: list[Port] = [Port(*p) for p in self._net.outputs]
        self._input_names = [p.name for p in self.inputs]
        self._open_names = [p.name for p in self.inputs if p.kind == "tensor" and not _is_fixed(p.shape)]
        self._output_names = [p.name for p in self.outputs]
        ranges = self._net.ranges
        for port in self.inputs:
            if port.name in ranges:
                port.ranges = tuple(_sizes_of(d) for d in ranges[port.name])

    # --- running ---

    def __call__(self, *arrays: Any, out: Mapping[str, Any] | Any | None = None, **named: Any) -> Any:
        """Runs the network once. `out`: arrays that outputs are written to, by name, or one array for a single output.

        Returns the output, or a tuple of outputs. Raises InputError if an input is missing, unknown, or has the wrong
        element type or shape.
        """
        if arrays:
            self._name_arrays(arrays, named)
        if out is not None and not isinstance(out, Mapping):
            if len(self._output_names) != 1:
                raise InputError(f"{self.name}: out: one array is given for {len(self._output_names)} outputs; "
                                 f"expected a mapping with names among {', '.join(self._output_names)}")
            out = {self._output_names[0]: out}
        results = self._run(named, out)
        return results[0] if len(results) == 1 else tuple(results)

    def run(self, feeds: Mapping[str, Any] | Sequence[Any], out: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Runs the network once on inputs by name, or on a list or tuple of them in order; `out` as for a call. Returns
        the outputs by name."""
        if not isinstance(feeds, Mapping):
            if not isinstance(feeds, (list, tuple)):
                raise InputError(f"{self.name}: feeds: expected a mapping from names, or a list of arrays, got "
                                 f"{type(feeds).__qualname__}")
            feeds = self._name_arrays(feeds, {})
        return dict(zip(self._output_names, self._run(dict(feeds), None if out is None else dict(out))))

    def _run(self, feeds: dict[str, Any], out: Any) -> list[Any]:
        results = self._net.run(feeds, out)
        if self._open_names:
            shapes = {name: getattr(feeds.get(name), "shape", None) for name in self._open_names}
            self._last_shapes = {name: tuple(shape) for name, shape in shapes.items() if shape is not None}
        return results

    def _name_arrays(self, arrays: Sequence[Any], named: dict[str, Any]) -> dict[str, Any]:
        """Adds arrays to those that are given by name, under the names of the inputs in order."""
        if len(arrays) > len(self._input_names):
            raise InputError(f"{self.name}: {len(arrays)} inputs are given; expected {self._signature() or 'none'}")
        for name, array in zip(self._input_names, arrays):
            if name in named:
                raise InputError(f"{self.name}: input '{name}' is given twice, by position and by name")
            named[name] = array
        return named

    async def run_async(self, feeds: Mapping[str, Any] | Sequence[Any]) -> dict[str, Any]:
        """Runs the network once without blocking the event loop. Returns the outputs by name."""
        return await asyncio.to_thread(self.run, feeds)

    def pool(self, size: int) -> Pool:
        """Returns a pool of `size` networks that run side by side, each on its own threads. They share the weights of
        plans that the network has compiled by then; a network whose shapes are all known is compiled first."""
        return Pool(self, size)

    def twin(self) -> Network:
        """Returns a network that shares this one's compiled plans, weights included, and has threads and working memory
        of its own. If bind_state() has bound state, the twin has state of its own, which begins with the initial
        values."""
        other = object.__new__(Network)
        other._model, other._options, other._source = self._model, self._options, self._source
        other._adopt(self._net.twin())
        return other

    # --- state ---

    def bind_state(self, pairs: Mapping[str, str] | None = None, initial: Mapping[str, Any] | None = None) -> dict[str, str]:
        """Keeps state inside the network, such as the cache of a decoder: the value of an output becomes that of an input
        in the next run, without a copy. From then on, calls take and return only the other inputs and outputs, which
        `inputs` and `outputs` list. A call that raises leaves the state as it was. A second bind_state() replaces the
        first. Returns the pairs.

        pairs: for the name of each input, the output that is its next value. None: pairs are found in the model where
        an output appends to an input (Concat), and by names such as past.0.key and present.0.key, h and hn, state and
        stateN, x and new_x, x_in and x_out. initial: first values by the names of inputs, which are copied. Other
        inputs begin with the model's default value if there is one, and otherwise with zeros. The size along an open
        dimension is then 0 if the output is longer in it, and otherwise that of dimensions of the same name in the
        inputs of the first call.

        Raises UsageError for a name that is not an input or output and if no pair is found, and InputError if an output
        or a value does not fit its input, or if nothing determines the first size of an input. The network is then
        unchanged."""
        names = _mapping_of("bind_state: pairs", "names of inputs to names of outputs", pairs)
        if not all(isinstance(name, str) for pair in names.items() for name in pair):
            raise UsageError(f"bind_state: pairs: expected names of inputs and outputs, got {names!r}")
        bound = self._net.bind_state(names, _mapping_of("bind_state: initial", "names of inputs to values", initial))
        self._read_ports()
        return bound

    def reset_state(self, values: Mapping[str, Any] | None = None) -> None:
        """Returns all state to its initial values; inputs in `values` get copies of these arrays instead. Raises
        UsageError before bind_state() and for other names, and InputError for a value whose element type, rank or
        declared sizes are not those of its input; the state is then unchanged."""
        self._net.reset_state(_mapping_of("reset_state: values", "names of inputs to values", values))

    @property
    def state(self) -> dict[str, Any]:
        """The current values of the state by the names of the inputs: arrays that can only be read and that share the
        network's memory. Later calls do not change them. Before the first call, values whose size this call determines
        are missing. Empty without bind_state()."""
        return self._net.state

    # --- what it is ---

    @property
    def name(self) -> str:
        """The name of the model."""
        return self._source.title or self._net.name

    @property
    def note(self) -> str:
        """A remark for the user of the network, such as that it was tuned for another number of threads; or ""."""
        return self._net.note

    @property
    def plans_ahead(self) -> PlansAhead:
        """The progress of the plans that specialise="auto" compiles in the background: made, of, ended. (0, 0, True)
        without it."""
        return PlansAhead(*self._net.plans_ahead)

    def conditions(self, progress: Progress | None = None) -> dict[str, Any]:
        """Compiles the network for its declared or given shapes, if that has not been done. Returns facts about the
        plan: target, precision, threads, steps, arena_bytes, constants_bytes, compile_ms (0 for a compiled file) and
        records, the use of tuning records in words. A network that runs as a program has functions and segments in
        place of steps, arena_bytes, constants_bytes and compile_ms; its segments are compiled when it runs."""
        return self._net.compile(progress)

    def _compile_if_static(self) -> None:
        """Compiles the network, unless its shapes are known only during a run."""
        try:
            self.conditions()
        except InputError:
            pass  # dimensions of an input are open
        except UnsupportedError as error:
            if "depends on the value" not in str(error):
                raise

    def _signature(self) -> str:
        return ", ".join(str(p) for p in self.inputs)

    def __repr__(self) -> str:
        outputs = ", ".join(str(p) for p in self.outputs)
        return f"<kilter.Network {self.name!r}: ({self._signature()}) -> ({outputs})>"

    # --- measuring, by the commands of the same names ---

    def bench(self, **options: Any) -> Any:
        """Times the network: kilter.bench(self, ...)."""
        from .measure import bench
        return bench(self, **options)

    def profile(self, **options: Any) -> Any:
        """Shows where the time goes: kilter.profile(self, ...)."""
        from .measure import profile
        return profile(self, **options)

    def explain(self, **options: Any) -> Any:
        """Says why the network takes as long as it does: kilter.explain(self, ...)."""
        from .measure import explain
        return explain(self, **options)

    def tasks(self, **options: Any) -> Any:
        """Lists the parts that can be tuned: kilter.tasks(self, ...)."""
        from .measure import tasks
        return tasks(self, **options)

    def time_tasks(self, **options: Any) -> Any:
        """Times the layers one by one: kilter.time_tasks(self, ...)."""
        from .measure import time_tasks
        return time_tasks(self, **options)

    def tune(self, time: str | float | None = None, **options: Any) -> Any:
        """Finds faster schedules: kilter.tune(self, ...)."""
        from .tuning import tune
        return tune(self, time, **options)

    def timer(self, *arrays: Any, number: int = 1, repeat: int = 10, min_repeat_ms: float = 0, flush: bool = False,
              **named: Any) -> Any:
        """Times runs on these inputs: `repeat` measurements of `number` runs each, after one that does not count.
        `number` is raised until a measurement takes `min_repeat_ms`; `flush` empties the caches before each
        measurement. Bound state (bind_state()) has its current value in all of them and keeps it. Returns a
        kilter.Timing in milliseconds."""
        from .measure import Timing
        times = self._net.time(self._name_arrays(arrays, named), number, repeat, min_repeat_ms, flush)
        return Timing({"model": self.name, **times})

    def benchmark(self, *arrays: Any, number: int = 100, repeat: int = 3, **how: Any) -> Any:
        """Times runs on these inputs as timer() does, with the arguments usually given to TVM's time_evaluator as
        defaults: 3 measurements of 100 runs each. how: the other arguments of timer(), and inputs by name."""
        return self.timer(*arrays, number=number, repeat=repeat, **how)

    def with_options(self, **options: Any) -> Network:
        """Returns the network compiled with these options in place of its own of the same names, with the same state
        bound, which begins with the initial values."""
        network = _restored(self._model, {**self._options, **options}, self._binding)
        network._last_shapes = dict(self._last_shapes)
        return network

    def with_records(self, records: str | os.PathLike = "default", **options: Any) -> Network:
        """Returns the network compiled with tuning records: a file, a database of a server
        ("postgresql://USER@HOST/DATABASE"), "default" or "none"."""
        return self.with_options(records=records, **options)

    # --- keeping ---

    def save(self, path: str | os.PathLike, *, targets: Sequence[str] = (), size: str = "fast") -> None:
        """Compiles the network for its declared or given shapes and writes a compiled file, which load() reads without
        compiling. With ranges of shapes, the file has a plan for each shape, up to the option max_shapes (64). A
        compiled file contains machine code: only load files that you trust. Raises FileError, and changes nothing, if
        the path exists and is not a compiled file.

        For a network with control flow or with shapes that depend on data, the file also has the code that earlier runs
        compiled.

        targets: CPUs to compile for, such as ["x86-64-v3", "znver4", "neoverse-n1"] (kilter.targets()); loading chooses
        the best for the processor.
        size: "fast": the file contains the packed weights, which are mapped into memory. "small": it contains the
        unpacked weights where those are smaller, and loading packs them.

        With targets, or if the file is small, the model is compiled again, as the options say and without what earlier
        runs compiled."""
        if size not in ("fast", "small"):
            raise UsageError(f"size {size!r}: expected 'fast' or 'small'")
        if not targets and size == "fast":
            self._net.save(os.fspath(path))
            return
        own = {k: v for k, v in self._options.items() if k != "specialise"}
        options = {"size": size, "output": os.fspath(path), "quiet": True}
        if targets:
            options["target"] = ",".join(targets)
        run_command(["compile", self._source.word, *words_of({**own, **options})])

    def save_library(self, path: str | os.PathLike, *, name: str | None = None,
                     header: str | os.PathLike | None = None, weights: str = "inside", sources: bool = False,
                     cc: str | None = None) -> list[str]:
        """Compiles the network for its declared or given shapes and writes a C library of it that needs no Kilter:
        NAME.so, NAME.a or NAME.o, by the ending of the path, and its header. Returns the paths of all files.

        name: prefix of its functions; by default the file's name. header: the file for the header; by default beside
        the library. weights: "inside" the library, or in a "file" NAME.weights beside it. sources: write a folder with
        the sources and a CMakeLists.txt, which needs no C compiler. cc: command of the C compiler.

        Raises UnsupportedError for a network with several shapes, with control flow, or with operators that need the
        runtime library; UsageError without a C compiler."""
        if weights not in ("inside", "file"):
            raise UsageError(f"weights {weights!r}: expected 'inside' or 'file'")
        return self._net.save_library(os.fspath(path), name or "", os.fspath(header) if header else "", weights == "file",
                                      sources, cc or "")

    def inspect(self, *words: str) -> str:
        """Returns what `kilter inspect` prints about the network."""
        return run_command(["inspect", self._source.word, *words])

    def _command_words(self, options: Mapping[str, Any]) -> list[str]:
        """Returns words for commands: the model, and the network's options except where others are given. Commands run
        one shape, so no plans are compiled in advance. Inputs whose dimensions neither the model nor an option gives
        have the shapes of the last run."""
        own = {k: v for k, v in self._options.items() if k not in ("specialise", "max_shapes")}
        words = {**own, **options}
        if self._last_shapes and "shapes" not in words and isinstance(words.get("input", {}), Mapping):
            words["input"] = {**self._last_shapes, **words.get("input", {})}
        return [self._source.word, *words_of(words)]

    def __reduce__(self) -> Any:
        model = self._model
        if hasattr(model, "_memory_model"):  # kilter.graph.Graph
            model = model.to_onnx_bytes()
        elif hasattr(model, "SerializeToString"):  # onnx.ModelProto
            model = model.SerializeToString()
        elif isinstance(model, memoryview):
            model = bytes(model)
        return _restored, (model, self._options, self._binding)

    def __enter__(self) -> Network:
        return self

    def __exit__(self, *_: Any) -> None:
        pass


def _is_fixed(shape: tuple[int | str | None, ...] | None) -> bool:
    return shape is not None and all(isinstance(d, int) for d in shape)


def _sizes_of(sizes: Any) -> int | range | list[int]:
    """Returns the sizes that a dimension may have, given (low, high, step) or a list."""
    if isinstance(sizes, list):
        return sizes
    low, high, step = sizes
    return low if low == high else range(low, high + 1, step)


def _shapes_of(shapes: Any) -> tuple[dict[str, tuple[int, ...]], dict[str, str] | list[str]]:
    """Returns the input shapes that are fixed, as the option --input takes them, and the others, as --shapes does."""
    if isinstance(shapes, str):
        return {}, [shapes]
    if isinstance(shapes, (list, tuple)) and all(isinstance(text, str) for text in shapes):
        return {}, list(shapes)
    if not isinstance(shapes, Mapping):
        raise UsageError(f"shapes: expected a mapping from names of inputs to shapes, or a text such as "
                         f"'x=1x3x{{320..960:32}}', got {type(shapes).__qualname__}")
    fixed: dict[str, tuple[int, ...]] = {}
    ranges: dict[str, str] = {}
    for name, shape in shapes.items():
        if isinstance(shape, (list, tuple)) and all(hasattr(d, "__index__") for d in shape):
            fixed[name] = tuple(d.__index__() for d in shape)
        elif isinstance(shape, (list, tuple)):
            ranges[name] = "x".join(_dim_text(name, d) for d in shape)
        elif isinstance(shape, str):
            ranges[name] = shape
        else:
            raise UsageError(f"shapes: input '{name}': expected a tuple of integers, ranges and lists, or a text such as "
                             f"'1x3x{{320..960:32}}', got {shape!r}")
    return fixed, ranges


def _dim_text(name: str, dim: Any) -> str:
    """Returns a dimension as --shapes takes it."""
    if hasattr(dim, "__index__"):
        return str(dim.__index__())
    if isinstance(dim, str):
        return dim if dim.startswith("{") else "{" + dim + "}"
    if isinstance(dim, range) and len(dim) > 0:
        low, high = min(dim), max(dim)
        return f"{{{low}..{high}:{abs(dim.step)}}}"
    if isinstance(dim, (list, tuple)) and dim and all(hasattr(d, "__index__") for d in dim):
        return "{" + ",".join(str(d.__index__()) for d in dim) + "}"
    raise UsageError(f"shapes: input '{name}': dimension {dim!r}; expected an integer, a range or a list of integers that "
                     f"is not empty, or a text such as 'seq=1..512'")


def _mapping_of(what: str, content: str, given: Mapping[str, Any] | None) -> dict[str, Any]:
    """Returns an argument that is a mapping as a dict, which is empty for None."""
    if given is not None and not isinstance(given, Mapping):
        raise UsageError(f"{what}: expected a mapping from {content}, got {type(given).__qualname__}")
    return dict(given or {})


def _restored(model: Any, options: dict[str, Any], binding: tuple[dict[str, str], dict[str, Any]] | None = None) -> Network:
    """Returns a network. If `binding` is given, binds state with its pairs and initial values."""
    network = Network(model, **options)
    if binding is not None:
        network.bind_state(*binding)
    return network


class Pool:
    """Networks that run side by side, for programs that need throughput. Use it as a context manager or call close().

    run(), submit() and map() may be called from any thread. Each network has its own threads and working memory; they
    share the weights of plans that were compiled before the pool was created.
    """

    def __init__(self, network: Network, size: int):
        if size < 1:
            raise UsageError(f"pool: size {size}; expected 1 or more")
        if network._binding is not None:
            raise UsageError(f"{network.name}: pool: its networks take runs in any order, but state passes from each run to "
                             f"the next; make a twin() for each sequence of runs, or a pool without bind_state()")
        network._compile_if_static()  # so that the others share the plan
        self.size = size
        self._networks = [network, *(network.twin() for _ in range(size - 1))]
        self._start()

    def _start(self) -> None:
        self._process = os.getpid()
        self._free: queue.SimpleQueue[Network] = queue.SimpleQueue()
        for network in self._networks:
            self._free.put(network)
        self._threads = ThreadPoolExecutor(self.size, thread_name_prefix="kilter-pool")

    def _check_process(self) -> None:
        if self._process != os.getpid():  # a forked child has none of the threads
            self._start()

    def run(self, feeds: Mapping[str, Any] | Sequence[Any]) -> dict[str, Any]:
        """Runs one of the networks once, as soon as one is free. Returns the outputs by name."""
        self._check_process()
        network = self._free.get()
        try:
            return network.run(feeds)
        finally:
            self._free.put(network)

    def submit(self, feeds: Mapping[str, Any] | Sequence[Any]) -> Any:
        """Runs on a thread of the pool. Returns a concurrent.futures.Future of the outputs by name."""
        self._check_process()
        return self._threads.submit(self.run, feeds)

    def map(self, many: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
        """Runs on many inputs, `size` at a time. Yields outputs in the order of the inputs."""
        self._check_process()
        return self._threads.map(self.run, many)

    async def run_async(self, feeds: Mapping[str, Any] | Sequence[Any]) -> dict[str, Any]:
        """Like run(), without blocking the event loop."""
        return await asyncio.wrap_future(self.submit(feeds))

    def close(self) -> None:
        """Waits for runs under way and ends the pool's threads."""
        self._threads.shutdown()

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()


def compile(model: Any, *, shapes: Any = None, specialise: str | None = None, threads: int | None = None,
            target: str | None = None, precision: str | None = None, accuracy: str | None = None, memory: str | None = None,
            records: str | os.PathLike | None = None, layer_plan: str | os.PathLike | None = None,
            progress: Progress | None = None, **options: Any) -> Network:
    """Creates a network that is compiled on its first run, or at once with conditions().

    model: path of an .onnx file, "zoo:NAME", the bytes of a model, an onnx.ModelProto, a kilter.graph.Graph, or the
    path or bytes of a compiled file. shapes: input shapes by name, for dimensions that the model leaves open; each
    dimension is a size, or the sizes that it may have: range(320, 961, 32), [1, 2, 4], or a text such as "seq=1..512",
    whose name binds dimensions that always have the same size; or what --shapes takes, "x=1x3x{320..960:32}". Other
    sizes then raise InputError. specialise: "now" compiles the plans for these shapes at once, for all of them if there
    are at most max_shapes (64), otherwise for 16 that are spread over them; "auto" compiles them in the background
    while the network is used (Network.plans_ahead). The other options are those of `kilter run`, with underscores:
    threads, target, precision ("declared", "bf16" or "fp16"), accuracy ("default" or "strict"), memory ("200MB"),
    plan_cache ("1GiB": the limit for plans of earlier shapes), records (a file, "default" or "none"), layer_plan,
    schedule={"conv1": "reference"}, disable=["fuse"], ...
    progress: called with what the compiler is doing. Raises UsageError for options that are not legal, ModelError,
    UnsupportedError, FileError.
    """
    known = dict(specialise=specialise, threads=threads, target=target, precision=precision, accuracy=accuracy,
                 memory=memory, records=records, layer_plan=layer_plan)
    return Network(model, shapes=shapes, progress=progress,
                   **{k: v for k, v in known.items() if v is not None}, **options)


def load(path: str | os.PathLike | bytes, *, threads: int | None = None, **options: Any) -> Network:
    """Loads a compiled file, or its bytes, or any model that compile() accepts. A compiled file contains machine code:
    only load files that you trust."""
    if threads is not None:
        options["threads"] = threads
    return Network(path, **options)
