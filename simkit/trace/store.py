"""The trace: all events of a run, in order. Drivers and runtimes write it; checks read only it.

A trace is a header and one JSON object a line; two runs are equal exactly if these bytes are equal.
Values of a pipeline are copied into plain data when their event is made, so that later changes of
the pipeline cannot change the record.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from functools import cache
from math import isfinite
from pathlib import Path
from types import NoneType
from typing import Any, Final

import msgspec

from simkit.core.errors import TraceError
from simkit.core.messages import JsonValue, KeptMessage, Message
from simkit.trace.asides import ASIDES, without_asides
from simkit.trace.events import AnyEvent
from simkit.trace.reducers import Appended


class Header(msgspec.Struct, frozen=True):
    """The first line of a stored trace."""

    simkit_trace: int
    """The version of the format."""


@cache
def event_decoder() -> msgspec.json.Decoder[AnyEvent]:
    """Return the decoder of one event's line."""
    # Only what reads stored traces needs it, and it takes as long to make as to replay a scenario.
    return msgspec.json.Decoder(AnyEvent)


MORE: Final = "$more"
WITH: Final = "$with"
REFERENCES: Final = frozenset(("$message", "$unlogged", "$data", MORE, WITH))
"""Keys of references in the trace, and of changes (`simkit.trace.changes`).

A user's own value with only such a key is wrapped in ``$data``.
"""


def is_reference(value: Mapping[str, Any]) -> bool:
    """Return whether a mapping has only the key of a reference."""
    return len(value) == 1 and next(iter(value)) in REFERENCES


class References(list[JsonValue]):
    """References to messages in canonical form; many events share the list."""


_SCALARS: Final = frozenset((str, int, bool, NoneType))
_MESSAGES: Final = (Message, KeptMessage)
_LISTS: Final = frozenset((list, tuple, Appended))


def _number(value: float) -> JsonValue:
    return value if isfinite(value) else {"$float": str(value)}


def canonical(value: Any) -> JsonValue:
    """Return a new JSON value for any value of a pipeline.

    Messages become references by number; sets are sorted; bytes, NaN, infinities and foreign
    objects become tagged values with type and content hash, never a ``repr`` with an address.
    """
    kind = type(value)
    if kind in _SCALARS:
        return value
    if kind is dict:
        mapping: dict[str, JsonValue] = {}
        is_alone = len(value) == 1
        for key in value:
            # Keys are texts nearly always, and so are most values.
            item = value[key]
            if is_alone and key in REFERENCES:
                return {"$data": [[key, canonical(item)]]}
            mapping[key if type(key) is str else _key(key)] = (
                item if type(item) in _SCALARS else canonical(item)
            )
        return mapping
    if kind in _LISTS:
        return [item if type(item) in _SCALARS else canonical(item) for item in value]
    if kind in _MESSAGES:
        return {"$message": int(value.id[1:])} if value.id else _unlogged(value)
    if kind is References:
        return [*value]
    return _number(value) if kind is float else _foreign(value)


def copied(value: Any) -> Any:
    """Return a value as plain data that nobody else holds; messages stay messages.

    Values pass here to and from user code: a function may change its arguments, and keep its
    results.
    """
    kind = type(value)
    if kind is str or kind is int or kind is bool or value is None or isinstance(value, Message):
        return value
    if kind is dict or isinstance(value, Mapping):
        return {(k if type(k) is str else _key(k)): copied(v) for k, v in value.items()}
    if kind is list or (isinstance(value, Sequence) and not isinstance(value, (str, bytes))):
        return [copied(item) for item in value]
    return canonical(value)


def _key(key: Any) -> str:
    key_value = canonical(key)
    return key_value if isinstance(key_value, str) else msgspec.json.encode(key_value).decode()


def _unlogged(message: Message) -> JsonValue:
    return {
        "$unlogged": {
            "role": message.role,
            "content": message.content,
            **({"agent": message.agent} if message.agent else {}),
            **({"data": canonical(message.data)} if message.data is not None else {}),
        }
    }


def _foreign(value: Any) -> JsonValue:
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return canonical(float(value))
    if isinstance(value, Mapping):
        return canonical(dict(value))
    if isinstance(value, (set, frozenset)):
        return sorted((canonical(item) for item in value), key=msgspec.json.encode)
    if isinstance(value, (bytes, bytearray)):
        return {"$bytes": len(value), "sha256": hashlib.sha256(value).hexdigest()}
    if isinstance(value, Sequence):
        return [canonical(item) for item in value]
    return _tagged(value)


def _tagged(value: Any) -> JsonValue:
    name = f"{type(value).__module__}.{type(value).__qualname__}"
    content = None if isinstance(value, type) else _content_of(value)
    if content is None:
        return {"$object": name}
    digest = hashlib.sha256(msgspec.json.encode(content)).hexdigest()[:16]
    return {"$object": name, "sha256": digest, "value": content}


def _content_of(value: Any) -> JsonValue:
    """Return the content of an object; None for an unknown type, which may hold anything."""
    dump: Callable[[], Any] | None = getattr(value, "model_dump", None)
    if callable(dump):
        return canonical(dump())
    if hasattr(value, "__dataclass_fields__"):
        return {f: canonical(getattr(value, f)) for f in value.__dataclass_fields__}
    if isinstance(value, msgspec.Struct):
        return {f: canonical(getattr(value, f)) for f in value.__struct_fields__}
    if isinstance(value, Enum):
        return canonical(value.value)
    if type(value).__module__.partition(".")[0] in _SAID_BY_THEIR_TEXT:
        return str(value)
    return None


_SAID_BY_THEIR_TEXT: Final = frozenset(
    ("datetime", "decimal", "fractions", "ipaddress", "pathlib", "uuid", "zoneinfo")
)
"""Modules of the standard library whose values differ exactly if their texts do."""


class Trace:
    """The ordered events of one run of one scenario.

    >>> trace = simkit.simulate(simkit.load("desk.scenario.yaml")[0]).trace
    >>> type(trace.events[0]).__name__
    'RunStarted'

    Events contain only frozen values and plain data that nobody else holds (`canonical`), so
    encoding them later, together, gives the same bytes as one by one.
    """

    __slots__ = ("_encoded", "_last", "_size", "emit", "events", "note_held")

    def __init__(self) -> None:
        self.events: list[AnyEvent] = []
        self.emit: Callable[[AnyEvent], None] = self.events.append
        """Adds an event."""
        self.note_held: Callable[[AnyEvent], object] = id
        """Takes an event that is added later, and may change until then; does nothing."""
        self._encoded = b""
        """The stored form of the events; empty until it is needed."""
        self._size = 0
        """The number of these events."""
        self._last: AnyEvent | None = None
        """The last of them: if another one has its place, they were changed."""

    def __reduce__(self) -> tuple[Callable[..., Trace], tuple[list[AnyEvent]]]:
        return _trace_of, (self.events,)  # The functions that get events belong to this process.

    def tell(
        self, hear: Callable[[AnyEvent], object], hear_held: Callable[[AnyEvent], object]
    ) -> None:
        """Give each further event to a function, too; those that are held back, to another one."""
        add = self.emit

        def emit(event: AnyEvent) -> None:
            add(event)
            hear(event)

        self.emit, self.note_held = emit, hear_held

    def lines(self) -> list[bytes]:
        """Return `encoded` line by line, without line ends."""
        return self.encoded().splitlines()

    def encoded(self) -> bytes:
        """Return the form in which runs are compared: JSONL with a header.

        Raise TraceError with the event that holds a value that JSON cannot express.
        """
        events = self.events
        last = events[-1] if events else None
        if not self._encoded or self._size != len(events) or self._last is not last:
            self._encoded = _HEADER + _encode_lines(without_asides(events))
            self._size, self._last = len(events), last
        return self._encoded

    def stored(self) -> bytes:
        """Return the form for files: that in which runs are compared, and what stands beside it."""
        if any(type(event) in ASIDES for event in self.events):
            return _HEADER + _encode_lines(self.events)
        return self.encoded()

    def digest(self) -> str:
        """Return the sha256 of `encoded`; equal exactly for equal runs."""
        return hashlib.sha256(self.encoded()).hexdigest()


def _trace_of(events: list[AnyEvent]) -> Trace:
    trace = Trace()
    trace.events += events
    return trace


_ENCODER: Final = msgspec.json.Encoder()
FORMAT: Final = 3
"""The version of the trace format, in every trace's header."""
OLDER_FORMATS: Final = (2,)
"""Versions that are read, too: format 2 has no definitions of tools."""
_HEADER: Final = _ENCODER.encode_lines([Header(FORMAT)])


def _encode_lines(values: list[Any]) -> bytes:
    try:
        return _ENCODER.encode_lines(values)
    except (TypeError, ValueError, OverflowError):
        for value in values:
            try:
                _ENCODER.encode(value)
            except (TypeError, ValueError, OverflowError) as problem:
                raise TraceError(
                    f"event {type(value).__name__} holds a value that cannot be recorded: {problem}"
                ) from None
        raise


def redacted(trace: Trace, redact: Callable[[bytes], bytes]) -> Trace:
    """Return the trace as it may leave the process; without secrets, the same object.

    ``redact`` replaces the secrets in lines of encoded JSON, as `Redactor.lines` does.
    """
    lines = trace.stored()
    without = redact(lines)
    return trace if without == lines else decoded(without)


def read_trace(path: str | Path) -> Trace:
    """Read a stored trace; raise TraceError with file and line.

    >>> trace = simkit.read_trace("desk.jsonl")
    >>> trace.digest() == simkit.simulate(simkit.load("desk.scenario.yaml")[0]).trace.digest()
    True
    """
    try:
        content = Path(path).read_bytes()
    except OSError as problem:
        raise TraceError(f"{path}: {problem.strerror or problem}") from None
    return decoded(content, str(path))


def decoded(content: bytes, name: str = "trace") -> Trace:
    """Read the stored form; raise TraceError with the unreadable line."""
    first, *rest = content.split(b"\n") if content else [b""]
    try:
        header = msgspec.json.decode(first, type=Header)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        raise TraceError(
            f'{name}:1: this is no simkit trace: its first line must be {{"simkit_trace":{FORMAT}}}'
        ) from None
    if header.simkit_trace not in (FORMAT, *OLDER_FORMATS):
        raise TraceError(
            f"{name}:1: the trace has format {header.simkit_trace}, this simkit reads format "
            f"{FORMAT}. Run its scenario again to get a new one."
        )
    if rest and not rest[-1]:
        rest.pop()
    trace, decode = Trace(), event_decoder().decode
    for number, line in enumerate(rest, 2):
        try:
            trace.events.append(decode(line))
        except UnicodeDecodeError as problem:
            byte = line[problem.start]
            raise TraceError(
                f"{name}:{number}: the trace is damaged: byte {problem.start} of the line "
                f"(0x{byte:02x}) is not UTF-8"
            ) from None
        except msgspec.MsgspecError as problem:
            raise TraceError(
                f"{name}:{number}: not an event of a simkit trace: {problem}. Run its scenario "
                "again to get a new one."
            ) from None
    return trace
