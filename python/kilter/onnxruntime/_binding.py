"""IOBinding: inputs and outputs in the caller's memory, kept from run to run."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any, Sequence

import numpy as np

from ._exceptions import IllegalUse, InvalidArgument, WrongType
from ._values import OrtValue, array_at, described, require_cpu, type_of

if TYPE_CHECKING:
    from ._session import InferenceSession


class IOBinding:
    """The inputs and outputs of runs of one session. Create one with InferenceSession.io_binding().

    Memory that is bound by its address must stay alive while it is bound; arrays and OrtValues are kept alive.
    """

    def __init__(self, session: InferenceSession):
        self._session = session
        self._inputs: dict[str, Any] = {}
        #: memory for each bound output, or None if each run allocates it
        self._outputs: dict[str, OrtValue | None] = {}
        self._results: list[OrtValue] = []

    # --- inputs ---

    def bind_cpu_input(self, name: str, arr_on_cpu: np.ndarray) -> None:
        """Binds an input to an array. Runs see later changes to a dense array."""
        if not isinstance(arr_on_cpu, np.ndarray):
            raise IllegalUse(f"bind_cpu_input '{name}': expected a numpy.ndarray, got {described(arr_on_cpu)}")
        self._bind_input(name, arr_on_cpu)

    def bind_input(self, name: str, device_type: str, device_id: int, element_type: Any, shape: Sequence[int],
                   buffer_ptr: int) -> None:
        """Binds an input to memory at an address. element_type: a NumPy type or ONNX's number."""
        what = f"bind_input '{name}'"
        require_cpu(device_type, what)
        kind = type_of(element_type, what)
        self._bind_input(name, OrtValue(array_at(buffer_ptr, shape, kind, what), kind)._feed())

    def bind_ortvalue_input(self, name: str, ortvalue: OrtValue) -> None:
        """Binds an input to a value."""
        self._bind_input(name, _ortvalue(ortvalue, f"bind_ortvalue_input '{name}'")._feed())

    def _bind_input(self, name: str, feed: Any) -> None:
        legal = self._session._feed_ports
        if name not in legal:
            raise IllegalUse(f"{self._session._name}: no input '{name}' to bind; legal values are {', '.join(legal)}")
        self._inputs[name] = feed

    def synchronize_inputs(self) -> None:
        """Does nothing: memory of the CPU needs no synchronisation."""

    def clear_binding_inputs(self) -> None:
        """Forgets all inputs."""
        self._inputs.clear()

    # --- outputs ---

    def bind_output(self, name: str, device_type: str = "cpu", device_id: int = 0, element_type: Any = None,
                    shape: Sequence[int] | None = None, buffer_ptr: int | None = None) -> None:
        """Binds an output to memory at an address, of an element type and shape; without an address, each run allocates
        it."""
        what = f"bind_output '{name}'"
        require_cpu(device_type, what)
        if buffer_ptr is None:
            self._bind_output(name, None)
            return
        if element_type is None or shape is None:
            raise IllegalUse(f"{what}: buffer_ptr needs element_type and shape, got {element_type!r} and {shape!r}")
        kind = type_of(element_type, what)
        self._bind_output(name, OrtValue(array_at(buffer_ptr, shape, kind, what), kind))

    def bind_ortvalue_output(self, name: str, ortvalue: OrtValue) -> None:
        """Binds an output to a value, which runs write."""
        self._bind_output(name, _ortvalue(ortvalue, f"bind_ortvalue_output '{name}'"))

    def _bind_output(self, name: str, memory: OrtValue | None) -> None:
        legal = self._session._output_index
        if name not in legal:
            raise IllegalUse(f"{self._session._name}: no output '{name}' to bind; legal values are {', '.join(legal)}")
        self._outputs[name] = memory

    def synchronize_outputs(self) -> None:
        """Does nothing: memory of the CPU needs no synchronisation."""

    def clear_binding_outputs(self) -> None:
        """Forgets all outputs, and results of earlier runs."""
        self._outputs.clear()
        self._results = []

    def get_outputs(self) -> list[OrtValue]:
        """Returns the bound outputs of the last run, in the order in which they were bound."""
        return list(self._results)

    def copy_outputs_to_cpu(self) -> list[np.ndarray]:
        """Returns copies of the bound outputs of the last run, in the order in which they were bound."""
        return [value.numpy().copy() for value in self._results]

    # --- running ---

    def _run(self) -> None:
        if not self._outputs:
            raise IllegalUse(f"{self._session._name}: no output is bound; bind some of "
                             f"{', '.join(self._session._output_index)} with bind_output")
        try:
            self._run_bound()
        except IllegalUse:
            raise
        except InvalidArgument as error:
            raise IllegalUse(error.text) from None

    def _run_bound(self) -> None:
        feeds = self._session._feeds(self._inputs)
        memory = {name: value for name, value in self._outputs.items() if value is not None}
        direct = {name: value._feed() for name, value in memory.items() if not self._shared(value, memory)}
        results = self._session._execute(feeds, direct)
        found = []
        for name, value in self._outputs.items():
            index = self._session._output_index[name]
            if value is None:
                value = OrtValue._of_result(results[index], self._session._output_ports[index])
            elif name not in direct:  # the run could not write it, because it may read it as an input
                value.update_inplace(OrtValue._of_result(results[index], self._session._output_ports[index]))
            found.append(value)
        self._results = found

    def _shared(self, value: OrtValue, memory: dict[str, OrtValue]) -> bool:
        """Returns whether memory for an output may overlap an input or another output, or cannot be given as it is."""
        array = value._array
        others = [v._array for v in memory.values() if v is not value]
        others += [feed for feed in self._inputs.values() if isinstance(feed, np.ndarray)]
        return value._feed() is not array or any(np.may_share_memory(array, other) for other in others)


def _ortvalue(value: Any, what: str) -> OrtValue:
    if not isinstance(value, OrtValue):
        raise WrongType(f"{what}: expected an OrtValue, got {described(value)}; OrtValue.ortvalue_from_numpy creates "
                        "one")
    return value
