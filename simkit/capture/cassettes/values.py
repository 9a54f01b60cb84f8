"""Values of cassettes: interactions, each a request with its response, or a call; encodings."""

from __future__ import annotations

import builtins
import importlib
import zlib
from bisect import bisect_right
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import Any, Final, TypeAlias

import msgspec

from simkit.core.errors import CassetteInvalid
from simkit.core.messages import JsonValue
from simkit.providers.http import Headers, HttpRequest, HttpResponse
from simkit.providers.streams import units_of

Lane: TypeAlias = tuple[str, int, str]
"""Session, turn and agent; the calls of a lane come one after the other."""
NOBODY: Final[Lane] = ("", 0, "")
"""The lane of interactions without an agent."""


class Origin(msgspec.Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """Where an interaction belongs; empty, or 0, where the file does not say."""

    agent: str = ""
    turn: int = 0
    """The turn, from 1."""
    call: int = 0
    """The number of the agent's call in the turn, from 1."""
    session: str = ""
    scenario: str = ""
    """The scenario, if several share a file."""
    protocol: str = ""
    """The protocol's name; empty for requests that are no model calls."""


class Interaction(Origin, frozen=True, gc=False, kw_only=True):
    """One request, with its response."""

    request: HttpRequest
    response: HttpResponse
    recorded_at: str = ""
    """The time of recording, ISO 8601; empty if the file does not say."""


def origin_of(value: Origin) -> dict[str, Any]:
    """Return the fields of an origin, for another value that has one."""
    return {name: getattr(value, name) for name in Origin.__struct_fields__}


class Cassette(msgspec.Struct, frozen=True, gc=False):
    """The interactions of one file, in the order in which they were sent."""

    path: Path
    interactions: tuple[Interaction, ...] = ()
    is_there: bool = True
    """Whether the file exists."""
    places: tuple[int, ...] = ()
    """The index of each interaction in the file, if these are only a part of it."""

    def place_of(self, number: int) -> int:
        """Return the index of an interaction in the file."""
        return self.places[number] if self.places else number


def lane_of(interaction: Interaction) -> Lane:
    """Return the lane in which an interaction was recorded."""
    if not interaction.agent:
        return NOBODY
    return interaction.session, interaction.turn, interaction.agent


def place(number: int) -> str:
    """Return the name of an interaction in messages, by its index in the file."""
    return f"interactions[{number}]"


# Calls of a pipeline's own tools as interactions: method CALL, address ``tool:NAME``


CALL: Final = "CALL"
_JSON: Final[Headers] = (("content-type", "application/json"),)
_FAILED: Final = 500
_encode: Final = msgspec.json.Encoder(order="sorted").encode


class ToolFailed(Exception):
    """The recorded failure of a tool."""


def tool_request(tool: str, args: JsonValue) -> HttpRequest:
    """Return the request that stands for a call."""
    return HttpRequest(CALL, f"tool:{tool}", _JSON, _encode(args))


def result_of(recorded: HttpResponse) -> Any:
    """Return the recorded result; raise the recorded exception.

    A built-in exception is raised as itself; any other one as a ToolFailed with its name.
    """
    answer = msgspec.json.decode(recorded.body)
    if recorded.status == _FAILED:
        raise _exception(answer["type"], answer["error"])
    return answer


def _exception(name: str, text: str) -> Exception:
    kind = getattr(builtins, name, None)
    if isinstance(kind, type) and issubclass(kind, Exception):
        with suppress(TypeError):
            return kind(text)
    named: type[ToolFailed] = type(name, (ToolFailed,), {})
    return named(text)


def real_result(tool: str, real: Callable[[], Any], record: Callable[[HttpResponse], None]) -> Any:
    """Call a tool, and return its result or an awaitable; ``record`` gets the outcome.

    Raise what the tool raises, and CassetteInvalid for a result that is no plain data.
    """
    try:
        result = real()
    except Exception as problem:
        record(_failed(problem))
        raise
    if hasattr(result, "__await__"):
        return _awaited(tool, result, record)
    record(_answer(tool, result))
    return result


async def _awaited(
    tool: str, result: Awaitable[Any], record: Callable[[HttpResponse], None]
) -> Any:
    try:
        value = await result
    except Exception as problem:
        record(_failed(problem))
        raise
    record(_answer(tool, value))
    return value


def _answer(tool: str, value: Any) -> HttpResponse:
    foreign = foreign_type(value)
    if foreign:
        raise CassetteInvalid(
            f"tool `{tool}` returned a {foreign}, which a cassette cannot hold\n"
            "  only plain data is recorded: texts, numbers, lists, mappings with texts as keys"
        )
    return HttpResponse(200, _JSON, (_encode(value),))


def _failed(problem: Exception) -> HttpResponse:
    # The text of a KeyError is its key's `repr`.
    text = str(problem.args[0]) if len(problem.args) == 1 else str(problem)
    fields = {"type": type(problem).__name__, "error": text}
    return HttpResponse(_FAILED, _JSON, (_encode(fields),))


def foreign_type(value: Any) -> str:
    """Return the name of the first type that is no plain data; empty if there is none."""
    if value is None or type(value) in (bool, int, float, str):
        return ""
    if type(value) in (list, tuple):
        return next(filter(None, map(foreign_type, value)), "")
    if type(value) is dict:
        keys = (type(key).__name__ for key in value if type(key) is not str)
        return next(keys, "") or next(filter(None, map(foreign_type, value.values())), "")
    return type(value).__name__


# Content encodings: bodies are stored uncompressed, so that recordings can be read and scanned.
#
# A compressor's output differs between versions, and compressed text hides secrets.


BODY_BYTES_MAX: Final = 256_000_000
"""The largest size of one body or file: a few compressed bytes can expand to any number."""

_GZIP: Final = 16 + zlib.MAX_WBITS

Step: TypeAlias = Callable[[bytes], bytes]
"""Takes the next compressed bytes, and returns the bytes that they add."""
_Ways: TypeAlias = Sequence[tuple[Step, type[Exception]]]


class NotDecodable(Exception):
    """The bytes do not fit their encoding, or no decoder is installed."""


def decoded(
    chunks: Iterable[bytes], encodings: str, *, is_whole: bool = False
) -> tuple[bytes, ...]:
    """Return the chunks without their ``content-encoding``, as many as before.

    A chunk that adds nothing by itself is empty. The end of a cut stream is missing, unless
    ``is_whole`` requires it. Raise NotDecodable.
    """
    names = [name.strip().lower() for name in encodings.split(",")]
    for name in reversed([name for name in names if name not in ("", "identity")]):
        chunks = _without(name, chunks, is_whole)
    return tuple(chunks)


def _without(name: str, chunks: Iterable[bytes], is_whole: bool) -> list[bytes]:
    chunks = list(chunks)
    if not any(chunks):
        return chunks
    for step, errors in _ways(name):
        size, positions = 0, []
        try:
            for chunk in chunks:
                part = step(chunk)
                size += len(part)
                positions.append(part)
                if size > BODY_BYTES_MAX:
                    raise NotDecodable(f"it holds more than {BODY_BYTES_MAX:,} bytes")
        except errors:
            continue
        if is_whole and isinstance(step, _Inflating) and not step.is_over:
            raise NotDecodable("it is cut off")
        return positions
    raise NotDecodable(f"its bytes are not {name}")


def _ways(name: str) -> _Ways:
    """Return the decoders for an encoding, likeliest first, with the errors of other bytes."""
    if name not in _DECODERS:
        raise NotDecodable(f"simkit cannot read the encoding {name!r}")
    return _DECODERS[name]()


class _Inflating:
    """A zlib decoder; gzip may have several members one after the other."""

    def __init__(self, window: int) -> None:
        self._window = window
        self._stream = zlib.decompressobj(window)

    @property
    def is_over(self) -> bool:
        """Return whether the end of the stream was read."""
        return self._stream.eof

    def __call__(self, chunk: bytes) -> bytes:
        data = self._stream.decompress(chunk, BODY_BYTES_MAX + 1)
        while self._window == _GZIP and self._stream.eof:
            rest = self._stream.unused_data.lstrip(b"\0")
            if not rest:
                break
            self._stream = zlib.decompressobj(_GZIP)
            data += self._stream.decompress(rest, BODY_BYTES_MAX + 1)
        return data


def _inflate(*windows: int) -> _Ways:
    return [(_Inflating(window), zlib.error) for window in windows]


def _brotli() -> _Ways:
    library = _library("br", "brotli", "brotlicffi")
    stream = library.Decompressor()
    return [(getattr(stream, "process", None) or stream.decompress, library.error)]


def _zstandard() -> _Ways:
    library = _library("zstd", "zstandard")
    return [(library.ZstdDecompressor().decompressobj().decompress, library.ZstdError)]


def _library(encoding: str, *names: str) -> Any:
    for name in names:
        try:
            return importlib.import_module(name)
        except ImportError:
            continue
    raise NotDecodable(f"its encoding is {encoding!r}: `pip install {names[0]}` to read it")


_DECODERS: Final[Mapping[str, Callable[[], _Ways]]] = {
    "gzip": partial(_inflate, _GZIP),
    "x-gzip": partial(_inflate, _GZIP),
    # Some servers send raw deflate, others what RFC 9110 requires.
    "deflate": partial(_inflate, zlib.MAX_WBITS, -zlib.MAX_WBITS),
    "br": _brotli,
    "zstd": _zstandard,
}


def with_body(response: HttpResponse, body: bytes) -> HttpResponse:
    """Return the response with another body, cut in the same lines, or frames, as before.

    A body with another number of them comes in one piece, after all the delays.
    """
    before, chunks, waits = response.body, response.chunks, response.waits_ms
    if body == before:
        return response
    new_response = msgspec.structs.replace(response, chunks=(body,))
    old, new = units_of(response), units_of(new_response)
    if len(chunks) < 2 or len(old) != len(new):
        return msgspec.structs.replace(new_response, waits_ms=(sum(waits),) if waits else ())
    return msgspec.structs.replace(response, chunks=_cut_alike(body, chunks, old, new))


def _cut_alike(
    body: bytes, chunks: tuple[bytes, ...], old: list[int], new: list[int]
) -> tuple[bytes, ...]:
    """Cut a body at the same columns of the same units, as far as each goes.

    ``old`` and ``new`` are the sizes of the units before and now.
    """
    old_starts, new_starts = [0, *accumulate(old)], [0, *accumulate(new), len(body) + 1]
    parts: list[bytes] = []
    position = start = 0
    for chunk in chunks[:-1]:
        position += len(chunk)
        number = bisect_right(old_starts, position) - 1
        column = position - old_starts[number]
        end = max(start, min(new_starts[number] + column, new_starts[number + 1] - 1))
        parts.append(body[start:end])
        start = end
    return (*parts, body[start:])
