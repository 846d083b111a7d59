"""ONNX files as bytes: what the layout network's export spelled out is said in the terms that onnxruntime fuses."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gravityocr.errors import InputError

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_GRAPH, _NODE = 7, 1
_INPUT, _OUTPUT, _OP_TYPE, _ATTRIBUTE = 1, 2, 4, 5
_NAME, _FLOAT, _TENSOR, _TYPE = 1, 2, 5, 20
_FLOAT_DATA, _RAW_DATA = 4, 9
_IS_FLOAT = 1

_Field = tuple[int, int, bytes]
"""Number, wire type and content; the content of a varint is its encoding."""


def with_hard_swish(model: bytes) -> bytes:
    """Return an ONNX model in which `x * clip(x + 3, 0, 6) / 6` is `x * HardSigmoid(x)`.

    Convolutions take the latter into their kernel; the former are four passes over the memory and two changes of
    layout. A model without the pattern is returned as it is.

    *Raises*: InputError where the bytes are no ONNX model.
    """
    fields = list(_fields(model))
    graphs = [place for place, (number, _, _) in enumerate(fields) if number == _GRAPH]
    if len(graphs) != 1:
        raise InputError("it holds no graph; hand an intact ONNX file")
    graph = list(_fields(fields[graphs[0]][2]))
    nodes = {place: _Node.read(content) for place, (number, _, content) in enumerate(graph) if number == _NODE}
    changed, gone = _hard_swishes(nodes)
    graph = [
        (_NODE, _BYTES, changed[place]) if place in changed else field
        for place, field in enumerate(graph)
        if place not in gone
    ]
    fields[graphs[0]] = (_GRAPH, _BYTES, _message(graph))
    return _message(fields)


@dataclass(frozen=True)
class _Node:
    """What is needed of an operation: `value` is a Constant's, where it is one float."""

    op_type: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    value: float | None

    @classmethod
    def read(cls, content: bytes) -> _Node:
        texts: dict[int, list[str]] = {_INPUT: [], _OUTPUT: [], _OP_TYPE: []}
        value = None
        for number, _, part in _fields(content):
            if number in texts:
                texts[number].append(part.decode(errors="replace"))
            elif number == _ATTRIBUTE:
                value = _one_float(part)
        return cls("".join(texts[_OP_TYPE]), tuple(texts[_INPUT]), tuple(texts[_OUTPUT]), value)


def _one_float(attribute: bytes) -> float | None:
    for number, _, tensor in _fields(attribute):
        if number == _TENSOR:
            data = [part for at, _, part in _fields(tensor) if at in (_FLOAT_DATA, _RAW_DATA)]
            if len(data) == 1 and len(data[0]) == 4:
                return float(struct.unpack("<f", data[0])[0])
    return None


def _hard_swishes(nodes: dict[int, _Node]) -> tuple[dict[int, bytes], set[int]]:
    """Return the nodes to put in the place of others, and the places of those to leave out."""
    constants = {
        node.outputs[0]: node.value for node in nodes.values() if node.op_type == "Constant" and node.value is not None
    }
    users: dict[str, list[int]] = {}
    for place, node in nodes.items():
        for name in node.inputs:
            users.setdefault(name, []).append(place)

    def only_user(place: int, op_type: str, values: Sequence[float]) -> int | None:
        """Return the one node that takes this one's output, where it is `op_type` with these constants."""
        takers = users.get(nodes[place].outputs[0], [])
        if len(takers) != 1 or nodes[takers[0]].op_type != op_type:
            return None
        found = [constants[name] for name in nodes[takers[0]].inputs if name in constants]
        return takers[0] if found == list(values) else None

    changed: dict[int, bytes] = {}
    gone: set[int] = set()
    for place, node in nodes.items():
        if node.op_type != "Add" or [constants.get(name) for name in node.inputs[1:]] != [3.0]:
            continue
        clip = only_user(place, "Clip", [0.0, 6.0])
        product = None if clip is None else only_user(clip, "Mul", [])
        quotient = None if product is None else only_user(product, "Div", [6.0])
        x = node.inputs[0]
        if clip is None or product is None or quotient is None or x not in nodes[product].inputs:
            continue
        share = node.outputs[0]
        changed[place] = _operation("HardSigmoid", [x], share, {"alpha": 1 / 6, "beta": 0.5})
        changed[product] = _operation("Mul", [x, share], nodes[quotient].outputs[0], {})
        gone |= {clip, quotient}
    return changed, gone


def _operation(op_type: str, inputs: Sequence[str], output: str, attributes: dict[str, float]) -> bytes:
    fields = [(_INPUT, _BYTES, name.encode()) for name in inputs]
    fields += [(_OUTPUT, _BYTES, output.encode()), (_OP_TYPE, _BYTES, op_type.encode())]
    for name, value in attributes.items():
        attribute = [(_NAME, _BYTES, name.encode()), (_FLOAT, _FIXED32, struct.pack("<f", value))]
        fields.append((_ATTRIBUTE, _BYTES, _message([*attribute, (_TYPE, _VARINT, _varint(_IS_FLOAT))])))
    return _message(fields)


def _fields(message: bytes) -> Iterator[_Field]:
    """Yield the fields of a protocol buffer message.

    *Raises*: InputError where it is none.
    """
    at, size = 0, len(message)
    while at < size:
        key, at = _read_varint(message, at)
        kind = key & 7
        if kind == _BYTES:
            length, at = _read_varint(message, at)
            end = at + length
        elif kind == _VARINT:
            end = _read_varint(message, at)[1]
        elif kind in (_FIXED32, _FIXED64):
            end = at + (4 if kind == _FIXED32 else 8)
        else:
            end = size + 1
        if end > size:
            raise InputError("it is broken; hand an intact ONNX file")
        yield key >> 3, kind, message[at:end]
        at = end


def _read_varint(message: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(message) and shift < 64:
        byte = message[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at
    raise InputError("it is broken; hand an intact ONNX file")


def _varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*encoded, value])


def _message(fields: Sequence[_Field]) -> bytes:
    parts = []
    for number, kind, content in fields:
        parts.append(_varint(number << 3 | kind))
        if kind == _BYTES:
            parts.append(_varint(len(content)))
        parts.append(content)
    return b"".join(parts)
