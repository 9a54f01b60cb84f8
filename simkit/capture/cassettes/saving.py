"""Writing: vcrpy's layout, as vcrpy itself writes it, in YAML or JSON; and saving a cassette.

vcrpy is imported where a file is written: importing it imports every HTTP client that is installed,
which takes longer than reading most cassettes. The parts that simkit uses are undocumented:
`simkit.core.compat` says which versions were tried.

Every text is quoted, or a literal block: vcrpy reads YAML 1.1, in which a plain ``no`` is false and
a plain ``12:30`` is 750. Sizes and turns are numbers. The order of keys is fixed, one line or block
each, so that two recordings differ in `git diff` only in their contents.
"""

from __future__ import annotations

import base64
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from http import HTTPStatus
from importlib.util import find_spec
from itertools import accumulate
from pathlib import Path
from typing import Any, Final, TypeAlias

import msgspec

from simkit.capture.cassettes.keys import Keying
from simkit.capture.cassettes.reading import absent, load, loads
from simkit.capture.cassettes.redacting import redacted
from simkit.capture.cassettes.values import Cassette, Interaction, origin_of, place
from simkit.capture.cassettes.vcrpy_layout import Extra
from simkit.core.compat import Library
from simkit.core.errors import CassetteInvalid
from simkit.core.files import exclusive, write_whole
from simkit.core.redact import Redactor
from simkit.core.redact.shapes import NAMES
from simkit.providers.http import Headers, HttpRequest

SUFFIXES: Final = (".yaml", ".yml", ".json")

_STEP: Final = "  "
_WORDS: Final = frozenset(
    ("request", "response", "simkit", "method", "uri", "body", "headers", "status", "code",
     "message", "string", *Extra.__struct_fields__)
)  # fmt: skip
"""Keys of the layout; every other key is foreign text, and quoted."""
# Line ends in YAML 1.1 only, the byte order mark, unprintable characters.
_ESCAPED: Final = re.compile(
    "[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff\ud800-\udfff]"
)
_NO_BLOCK: Final = re.compile(r"\A[ \n]|[ ]$", re.MULTILINE)


# vcrpy: its layout of interactions, and what it plays, in every version of it


Parts: TypeAlias = tuple[str, str, bytes, bytes]
"""An interaction as vcrpy replays it: method, URL and both bodies."""

_VCR: Final = Library("vcrpy")


class _AsData:
    """A serializer for `register_serializer` of vcrpy that leaves data as data."""

    @staticmethod
    def serialize(data: Any) -> Any:
        return data

    @staticmethod
    def deserialize(data: Any) -> Any:
        return data


def require() -> None:
    """Raise ModuleNotFoundError if vcrpy is missing, before anything is sent and lost.

    It is looked up and not imported, because a call that sends nothing does not need it.
    """
    if find_spec("vcr") is None:
        raise ModuleNotFoundError("No module named 'vcr'", name="vcr")


def layout(
    exchanges: Iterable[tuple[HttpRequest, dict[str, Any]]],
) -> tuple[list[dict[str, Any]], int]:
    """Return interactions in vcrpy's layout, and vcrpy's version number of it.

    A response is in the form of vcrpy's recorders: ``status``, ``headers``, ``body: {string}``.
    Bodies are texts if possible. Raise ValueError for a request that vcrpy cannot express.
    """
    request_class = _VCR.find("vcr.request:Request")
    requests, responses = [], []
    for request, response in exchanges:
        names = {name: value for name, value in reversed(request.headers)}
        headers = {name: names[name] for name, _ in request.headers}
        requests.append(request_class(request.method, request.url, request.body or None, headers))
        responses.append(response)
    serialize = _VCR.find("vcr.serialize:serialize")
    data: Any = serialize({"requests": requests, "responses": responses}, _AsData)
    return data["interactions"], data["version"]


def played(content: str, is_json: bool) -> list[Parts]:
    """Return the interactions that vcrpy replays from a file that simkit wrote."""
    serializer = _VCR.find(f"vcr.serializers:{'json' if is_json else 'yaml'}serializer")
    requests, responses, *_ = _VCR.find("vcr.serialize:deserialize")(content, serializer)
    return [
        (request.method, request.uri, request.body or b"", answered["body"]["string"])
        for request, answered in zip(requests, responses, strict=True)
    ]


# The text of a file


def encoded(cassette: Cassette, keys: Mapping[int, str] | None = None) -> bytes:
    """Return the bytes of a cassette's file; ``keys`` are its interactions' keys, by number.

    Raise CassetteInvalid for an unknown extension, and if JSON cannot express the content: a body
    that is no text.
    """
    path = cassette.path
    if path.suffix not in SUFFIXES:
        suffixes = ", ".join(SUFFIXES)
        raise CassetteInvalid(f"{path}: a cassette is recorded to a file that ends in {suffixes}")
    try:
        content, version = layout((item.request, _response(item)) for item in cassette.interactions)
    except ValueError as error:
        raise CassetteInvalid(f"{path}: vcrpy cannot hold a request: {error}") from None
    trees = (
        _whole(tree, interaction, (keys or {}).get(number, ""))
        for number, (tree, interaction) in enumerate(
            zip(content, cassette.interactions, strict=True)
        )
    )
    if path.suffix == ".json":
        return _json({"interactions": list(trees), "version": version}, path)
    lines = ["interactions:"] if cassette.interactions else ["interactions: []"]
    for tree in trees:
        block = list(_block(tree, _STEP))
        lines += [f"- {block[0][2:]}", *block[1:]]
    return "\n".join([*lines, f"version: {version}", ""]).encode()


def _response(interaction: Interaction) -> dict[str, Any]:
    """Return a response as vcrpy's recorders of clients pass it to vcrpy."""
    answered = interaction.response
    return {
        "status": {"code": answered.status, "message": _phrase(answered.status)},
        "headers": _headers(answered.headers),
        "body": {"string": answered.body},
    }


def _whole(tree: dict[str, Any], interaction: Interaction, key: str) -> dict[str, Any]:
    """Return an interaction in vcrpy's layout, with simkit's additions."""
    headers = interaction.request.headers
    if len({name.lower() for name, _ in headers}) < len(headers):
        # vcrpy reads only the first value of a request header; its layout has room for all.
        tree["request"]["headers"] = _headers(headers)
    extra = msgspec.to_builtins(_extra(interaction, key))
    return {**tree, "simkit": extra} if extra else tree


def _extra(interaction: Interaction, key: str) -> Extra:
    answered = interaction.response
    is_whole = len(answered.chunks) < 2
    return Extra(
        key=key,
        recorded_at=interaction.recorded_at,
        chunks=() if is_whole else tuple(map(len, answered.chunks)),
        offsets_ms=tuple(accumulate(answered.waits_ms)),
        ends=answered.ends,
        **origin_of(interaction),
    )


def _headers(headers: Headers) -> dict[str, list[str]]:
    by_name: dict[str, list[str]] = {}
    for name, value in headers:
        by_name.setdefault(name, []).append(value)
    return by_name


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return ""


def _json(tree: Mapping[str, Any], path: Path) -> bytes:
    for number, interaction in enumerate(tree["interactions"]):
        bodies = interaction["request"]["body"], interaction["response"]["body"]["string"]
        if any(isinstance(body, bytes) for body in bodies):
            problem = "a body that is no text cannot stand in JSON"
            raise CassetteInvalid(f"{path}: {problem}; record to `.yaml`\n  at {place(number)}")
    return (json.dumps(tree, ensure_ascii=False, indent=1) + "\n").encode()


def _block(tree: Mapping[str, Any], indent: str) -> Iterator[str]:
    """Yield the lines of a mapping."""
    for key, value in tree.items():
        name = f"{indent}{key if key in _WORDS else _quoted(key)}:"
        if isinstance(value, dict) and value:
            yield name
            yield from _block(value, indent + _STEP)
        elif isinstance(value, list | tuple) and value and isinstance(value[0], str):
            yield name
            yield from (f"{indent}- {_quoted(item)}" for item in value)
        else:
            first, *rest = _scalar(value, indent + _STEP)
            yield f"{name} {first}"
            yield from rest


def _scalar(value: Any, indent: str) -> Iterator[str]:
    for kind, write in _WRITERS.items():
        if isinstance(value, kind):
            yield from write(value, indent)
            return
    # Numbers, lists of numbers, an empty mapping and null: JSON is valid YAML here.
    yield json.dumps(value)


def _literal(text: str, indent: str) -> Iterator[str]:
    if "\n" not in text or _ESCAPED.search(text) or _NO_BLOCK.search(text):
        yield _quoted(text)
        return
    lines = text.split("\n")
    ends = len(text) - len(text.rstrip("\n"))
    yield "|" + {0: "-", 1: ""}.get(ends, "+")
    yield from (indent + line if line else "" for line in (lines[:-1] if ends else lines))


def _binary(body: bytes, indent: str) -> Iterator[str]:
    yield "!!binary |"
    encoded_body = base64.b64encode(body).decode()
    yield from (
        indent + encoded_body[start : start + 76] for start in range(0, len(encoded_body), 76)
    )


_WRITERS: Final[Mapping[type, Callable[[Any, str], Iterator[str]]]] = {
    str: _literal,
    bytes: _binary,
}


def _quoted(text: str) -> str:
    """Return a text on one line, in the quotes that need the fewest escapes."""
    if "\n" not in text and not _ESCAPED.search(text):
        return "'" + text.replace("'", "''") + "'"
    # JSON's escapes are valid in YAML; some characters must be escaped in YAML only.
    return _ESCAPED.sub(
        lambda match: f"\\u{ord(match[0]):04x}", json.dumps(text, ensure_ascii=False)
    )


# Saving: completely or not at all, without secrets, never over an unreadable file


Placed: TypeAlias = Callable[[Cassette], Sequence[Interaction]]
"""Returns the new content of a file, given its current content."""


def save(
    path: str | Path,
    interactions: Sequence[Interaction],
    keying: Keying,
    placed: Placed | None = None,
) -> Cassette:
    """Append interactions to a file, and return the cassette.

    ``placed`` arranges them among those that the file has now instead. Processes that write to one
    folder wait for each other, so that none loses what another wrote.

    Raise CassetteInvalid, and leave the file as it is, if it cannot be read or written, or if the
    result would contain a secret.
    """
    path = Path(path)
    if not interactions:
        return _before(path)
    folder = Path(os.path.realpath(path)).parent
    with ExitStack() as stack:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            stack.enter_context(exclusive(folder))
        except OSError as error:
            why = error.strerror or str(error)
            raise CassetteInvalid(f"{path}: the file cannot be written: {why}") from None
        before = _before(path)
        whole = placed(before) if placed is not None else (*before.interactions, *interactions)
        return _saved(path, whole, keying)


def _before(path: Path) -> Cassette:
    return load(path) if os.path.lexists(path) else absent(path)


def _saved(path: Path, interactions: Sequence[Interaction], keying: Keying) -> Cassette:
    whole = tuple(redacted(item, keying.redactor) for item in interactions)
    cassette = Cassette(path, whole)
    keys = {
        number: keying.question(item.request).key(item.agent) for number, item in enumerate(whole)
    }
    content = encoded(cassette, keys)
    _check(content, cassette, keying.redactor)
    _write(path, content)
    return cassette


def _check(content: bytes, cassette: Cassette, redactor: Redactor) -> None:
    """Raise CassetteInvalid if the bytes contain a secret, or are not read back as written."""
    for where, rule in _secrets(content, cassette, redactor):
        raise CassetteInvalid(
            f"{cassette.path}: not written: it would hold a secret, known by the rule "
            f"`{rule}`\n  at {where}\n  remove it from the request, or declare it volatile under "
            "`record`"
        )
    interactions_read = loads(content, cassette.path).interactions
    expected = [
        (request.method, request.url, request.body, item.response.body)
        for item in cassette.interactions
        for request in [item.request]
    ]
    plays = played(content.decode(), cassette.path.suffix == ".json")
    pairs = zip(cassette.interactions, interactions_read, expected, plays, strict=True)
    for number, (left, right, parts, its) in enumerate(pairs):
        if left != right or parts != its:
            problem = "not written: it would not be read as it was recorded"
            raise CassetteInvalid(f"{cassette.path}: {problem}\n  at {place(number)}")


def _secrets(content: bytes, cassette: Cassette, redactor: Redactor) -> Iterator[tuple[str, str]]:
    """Yield the place of each secret, and the rule that found it; never the secret."""
    text = content.decode()
    for offset, rule in redactor.spans_in(text):
        if rule not in NAMES:  # The quotes of another format show names where there are none.
            yield f"line {text.count(chr(10), 0, offset) + 1}", rule
    for number, item in enumerate(cassette.interactions):
        if redacted(item, redactor) != item:
            yield place(number), "secret key"


def _write(path: Path, content: bytes) -> None:
    try:
        write_whole(path, content, is_kept=True)
    except OSError as error:
        why = error.strerror or str(error)
        raise CassetteInvalid(f"{path}: the file cannot be written: {why}") from None
