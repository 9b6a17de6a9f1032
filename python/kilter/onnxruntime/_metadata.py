"""What an ONNX file says about itself: producer, description, properties, and what its input dimensions mean.

Reads those fields from the file's wire format and skips all others, so large models cost little.
"""
from __future__ import annotations

import mmap
from dataclasses import dataclass, field
from typing import Iterator

#: wire types of protobuf
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
#: what ONNX Runtime reports for a model without a version
_NO_VERSION = 2**63 - 1


@dataclass
class ModelMetadata:
    """What a model says about itself. Texts are "" where it says nothing."""

    producer_name: str = ""
    graph_name: str = ""
    domain: str = ""
    description: str = ""
    graph_description: str = ""
    version: int = _NO_VERSION
    custom_metadata_map: dict[str, str] = field(default_factory=dict)


@dataclass
class ModelFacts:
    """The metadata of a model, and the denotations of its inputs' dimensions by input name and axis."""

    metadata: ModelMetadata = field(default_factory=ModelMetadata)
    denotations: dict[tuple[str, int], str] = field(default_factory=dict)


def facts_of_file(path: str) -> ModelFacts:
    """Returns the facts of a model file; none for an empty file, or one of another format."""
    with open(path, "rb") as file:
        try:
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except ValueError:  # an empty file
            return ModelFacts()
    with mapped:
        with memoryview(mapped) as data:
            return facts_of(data)


def facts_of(data: bytes | memoryview) -> ModelFacts:
    """Returns the facts of the bytes of a model; those before the first error if the bytes have another format."""
    facts = ModelFacts()
    with memoryview(data) as view:
        try:
            _read_model(view, facts)
        except (IndexError, ValueError):  # a compiled file, which has no such facts
            pass
    return facts


def _read_model(data: memoryview, facts: ModelFacts) -> None:
    meta = facts.metadata
    for number, value in _fields(data):
        if number == 2:
            meta.producer_name = _text(value)
        elif number == 4:
            meta.domain = _text(value)
        elif number == 5:
            meta.version = _signed(value)
        elif number == 6:
            meta.description = _text(value)
        elif number == 7:
            _read_graph(value, facts)
        elif number == 14:
            pair = dict(_fields(value))
            meta.custom_metadata_map[_text(pair.get(1, b""))] = _text(pair.get(2, b""))


def _read_graph(data: memoryview, facts: ModelFacts) -> None:
    for number, value in _fields(data):
        if number == 2:
            facts.metadata.graph_name = _text(value)
        elif number == 10:
            facts.metadata.graph_description = _text(value)
        elif number == 11:
            _read_input(value, facts)


def _read_input(data: memoryview, facts: ModelFacts) -> None:
    """Reads the denotations of a ValueInfoProto: type (2), tensor_type (1), shape (2), dim (1), denotation (3)."""
    parts = dict(_fields(data))
    tensor = dict(_fields(parts[2])).get(1) if 2 in parts else None
    shape = dict(_fields(tensor)).get(2) if tensor is not None else None
    if shape is None:
        return
    dims = [dict(_fields(dim)) for number, dim in _fields(shape) if number == 1]
    for axis, dim in enumerate(dims):
        if 3 in dim:
            facts.denotations[_text(parts[1]), axis] = _text(dim[3])


def _fields(data: memoryview) -> Iterator[tuple[int, memoryview | int]]:
    """Yields field numbers, and values: an int or the bytes of a text or message. Raises ValueError or IndexError if
    the bytes are not a message."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        number, wire = key >> 3, key & 7
        if wire == _VARINT:
            value, at = _varint(data, at)
            yield number, value
            continue
        if wire == _BYTES:
            size, at = _varint(data, at)
        elif wire in (_FIXED64, _FIXED32):
            size = 8 if wire == _FIXED64 else 4
        else:
            raise ValueError(f"wire type {wire}")
        if size > len(data) - at:
            raise ValueError(f"{size} bytes at {at} of {len(data)}")
        yield number, data[at:at + size]
        at += size


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7


def _signed(value: int) -> int:
    return value - 2**64 if value >= 2**63 else value


def _text(value: memoryview | bytes) -> str:
    return bytes(value).decode("utf-8", "replace")
