"""Content encodings: bodies are stored uncompressed, so that recordings can be read and scanned.

A compressor's output differs between versions, and compressed text hides secrets.
"""

from __future__ import annotations

import importlib
import zlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, TypeAlias

import msgspec

from simkit.providers.http import HttpResponse

BODY_BYTES_MAX: Final = 256_000_000
"""The largest size of one body or file: a few compressed bytes can expand to any number."""

_GZIP: Final = 16 + zlib.MAX_WBITS

Step: TypeAlias = Callable[[bytes], bytes]
"""Takes the next compressed bytes, and returns the bytes that they add."""


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
    raise NotDecodable(f"its bytes are no {name}")


def _ways(name: str) -> Sequence[tuple[Step, type[Exception]]]:
    """Return the decoders for an encoding, likeliest first, with the errors of other bytes."""
    if name in ("gzip", "x-gzip"):
        return [(_Inflating(_GZIP), zlib.error)]
    if name == "deflate":
        # Some servers send raw deflate, others what RFC 9110 requires.
        windows = (zlib.MAX_WBITS, -zlib.MAX_WBITS)
        return [(_Inflating(window), zlib.error) for window in windows]
    if name == "br":
        library = _library(name, "brotli", "brotlicffi")
        return [(_brotli(library.Decompressor()), library.error)]
    if name == "zstd":
        library = _library(name, "zstandard")
        return [(library.ZstdDecompressor().decompressobj().decompress, library.ZstdError)]
    raise NotDecodable(f"nothing here reads the encoding {name!r}")


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
        plain = self._stream.decompress(chunk, BODY_BYTES_MAX + 1)
        while self._window == _GZIP and self._stream.eof:
            rest = self._stream.unused_data.lstrip(b"\0")
            if not rest:
                break
            self._stream = zlib.decompressobj(_GZIP)
            plain += self._stream.decompress(rest, BODY_BYTES_MAX + 1)
        return plain


def _brotli(stream: Any) -> Step:
    return getattr(stream, "process", None) or stream.decompress  # type: ignore[no-any-return]


def _library(encoding: str, *names: str) -> Any:
    for name in names:
        try:
            return importlib.import_module(name)
        except ImportError:
            continue
    raise NotDecodable(f"its encoding is {encoding!r}: `pip install {names[0]}` to read it")


def with_body(response: HttpResponse, body: bytes) -> HttpResponse:
    """Return the response with another body, cut in the same lines as before.

    A body with another number of lines comes in one piece, after all the delays.
    """
    before, chunks, waits = response.body, response.chunks, response.waits_ms
    if body == before:
        return response
    if len(chunks) < 2 or body.count(b"\n") != before.count(b"\n"):
        return msgspec.structs.replace(
            response, chunks=(body,), waits_ms=(sum(waits),) if waits else ()
        )
    return msgspec.structs.replace(response, chunks=_cut_alike(body, chunks))


def _cut_alike(body: bytes, chunks: tuple[bytes, ...]) -> tuple[bytes, ...]:
    """Cut a body at the same columns of the same lines, as far as a line goes."""
    starts = [0]
    for line in body.split(b"\n"):
        starts.append(starts[-1] + len(line) + 1)
    parts: list[bytes] = []
    number = column = start = 0
    for chunk in chunks[:-1]:
        lines = chunk.split(b"\n")
        number += len(lines) - 1
        column = len(lines[-1]) + (column if len(lines) == 1 else 0)
        end = max(start, min(starts[number] + column, starts[number + 1] - 1))
        parts.append(body[start:end])
        start = end
    return (*parts, body[start:])
